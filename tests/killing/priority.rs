//! The place of the guard, and of what it killed, at the processor.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Folder, Redlock, Store, autogroups, children, eventually, first_nice_value, is_alive, other_users,
    real_time, time_slices,
};
use crate::{Beside, PROGRAM, User, as_user, of_root};

/// The guard of root puts its session first.
#[test]
fn the_session_of_a_root_guard_is_first() {
    if !autogroups() || !first_nice_value() {
        return;
    }
    let store = Store::local();
    let run = store.redlock(&["run", "-k", "X", "--", "sleep", "60"]).spawn();
    let autogroup = format!("/proc/{}/autogroup", run.guard());
    eventually(Duration::from_secs(10), "the guard's session is first", || {
        fs::read_to_string(&autogroup).is_ok_and(|autogroup| autogroup.trim_end().ends_with("nice -20"))
    });
    run.signal(Signal::SIGTERM);
    run.finish().expect(-15);
}

/// The scheduling policy of a process as proc_pid_stat(5) has it: 1 is SCHED_FIFO, 0 the usual one.
fn policy(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(") ").next()?.split(' ');
    fields.nth(38).map(str::to_owned)
}

/// The guard of root, once its command has started, has a processor as soon as it wakes.
#[test]
fn a_root_guard_wakes_ahead_of_others() {
    if !real_time(&[]) {
        return;
    }
    let store = Store::local();
    let run = store.redlock(&["run", "-k", "X", "--", "sleep", "60"]).spawn();
    let guard = run.guard();
    eventually(Duration::from_secs(10), "a real-time guard", || policy(guard).as_deref() == Some("1"));
    assert_eq!(policy(run.command()).as_deref(), Some("0"));
    run.signal(Signal::SIGTERM);
    run.finish().expect(-15);
}

/// That of another user has the shortest time slice: it is picked soon.
#[test]
fn a_guard_has_a_short_time_slice() {
    if !time_slices() || !other_users() {
        return;
    }
    let slice = |pid: i32| {
        let sched = fs::read_to_string(format!("/proc/{pid}/sched")).ok()?;
        let line = sched.lines().find(|line| line.starts_with("se.slice "))?;
        line.split(' ').next_back()?.parse::<u64>().ok()
    };
    let folder = Folder::new();
    fs::set_permissions(folder.path(""), Permissions::from_mode(0o1777)).expect("chmod");
    let store = format!("local:{}", folder.path("locks.db").display());
    let run = ["run", "-k", "X", "--", "sleep", "60"];
    let run = as_user(User::Nobody, PROGRAM, &run).server(&store).spawn();
    let guard = run.guard();
    eventually(Duration::from_secs(10), "a short time slice", || {
        slice(guard) == Some(100_000) && policy(guard).as_deref() != Some("1")
    });
    run.signal(Signal::SIGTERM);
    run.finish().expect(-15);
}

/// What was killed needs processor time to die. On a busy machine it was seen to wait for that for half a second.
#[test]
fn what_a_root_guard_killed_dies_first() {
    if !real_time(&[]) {
        return;
    }
    let store = Store::local();
    let run = store.redlock(&["run", "-k", "X", "--", "sleep", "60"]).spawn();
    let command = run.command();
    let tracer = Beside::stopped_tracer(command);
    run.signal(Signal::SIGKILL);
    eventually(Duration::from_secs(20), "it is put first", || policy(command).expect("the command") == "1");
    let next = ["run", "-k", "X", "--", "true"];
    store.redlock(&next).run().expect(75);
    drop(tracer);
    store.redlock(&[&next[..1], &["--wait"], &next[1..]].concat()).run().expect(0);
}

/// A process that may not be killed goes on at its own place: ahead of all others it would be in their way.
#[test]
fn what_cannot_be_killed_is_not_put_first() {
    let raised = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", "+sys_nice"];
    let raised = [&raised[..], &["--ambient-caps", "+sys_nice"]].concat();
    if !other_users() || !real_time(&[&["setpriv"], &raised[..]].concat()) {
        return;
    }
    let folder = Folder::new();
    fs::set_permissions(folder.path(""), Permissions::from_mode(0o1777)).expect("chmod");
    let store = format!("local:{}", folder.path("locks.db").display());
    let job = ["sh", "-c", "sleep 60 & exec $0 /bin/sleep 60", &of_root("as_root")];
    let run = [&raised[..], &[PROGRAM, "run", "-k", "X", "--"], &job].concat();
    let run = Redlock::under("setpriv", &run).server(&store).spawn();
    let (guard, command) = (run.guard(), run.command());
    eventually(Duration::from_secs(20), "it became root", || {
        fs::read_to_string(format!("/proc/{command}/comm")).is_ok_and(|name| name == "sleep\n")
    });
    let child = children(command)[0];
    run.signal(Signal::SIGKILL);
    eventually(Duration::from_secs(20), "its child is killed", || !is_alive(child));
    let pauses = || {
        let status = fs::read_to_string(format!("/proc/{guard}/status")).expect("the guard");
        let pauses = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        pauses.expect("pauses").trim().parse::<u64>().expect("a number")
    };
    let before = pauses();
    eventually(Duration::from_secs(20), "the guard has tried everything again", || pauses() > before + 2);
    let policy = policy(command);
    kill(Pid::from_raw(command), Signal::SIGKILL).expect("a signal");
    assert_ne!(policy.as_deref(), Some("1"));
}

impl Beside {
    /// Traces `command`, and is stopped: the command's death is not seen until this is dropped.
    fn stopped_tracer(command: i32) -> Beside {
        let args = ["-qqo/dev/null", "-p", &command.to_string()];
        let tracer = Beside(Command::new("strace").args(args).spawn().expect("strace is installed"));
        let pid = tracer.0.id();
        eventually(Duration::from_secs(20), "traced", || {
            let status = fs::read_to_string(format!("/proc/{command}/status")).expect("the command");
            status.contains(&format!("TracerPid:\t{pid}\n"))
        });
        kill(Pid::from_raw(pid as i32), Signal::SIGSTOP).expect("a signal");
        tracer
    }
}
