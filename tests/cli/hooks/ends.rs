//! When hooks end: with the lease, the lock, redlock, a signal, or by themselves.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{LIMIT, attacking, beating, endless, forbid_threads, is_free, limit, run};
use crate::harness::{
    Folder, Pty, Store, await_file, children, eventually, is_alive, is_within, pause, pid_in, ttl,
};

/// What it leaves behind does not live longer than it.
#[test]
fn what_it_leaves_behind_is_stopped() {
    let store = Store::local();
    let folder = Folder::new();
    let file = folder.path("left");
    let hook =
        format!("setsid sh -c 'echo $$ >{}; exec sleep 100' & until [ -s {0} ]; do :; done", file.display());
    run(&store, &["--on-release", &hook], "true").run().expect(0);
    let pid = pid_in(&file);
    eventually(LIMIT, "its end", || !is_alive(pid));
}

#[test]
fn it_dies_with_redlock() {
    let store = Store::local();
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        let (folder, time) = (Folder::new(), ttl(1500));
        let (hook, pid) = endless(&folder, "TERM");
        let job = run(&store, &["--ttl", &time, "--on-acquire", &hook], "sleep 100").spawn();
        let pid = pid();
        job.signal(signal);
        // Who comes next finds nothing of it alive.
        let next = format!("kill -0 {pid}");
        let next = run(&store, &["--wait"], &next).run();
        assert_eq!(next.code(), 1, "{signal}: {next:?}");
        job.signal(Signal::SIGKILL);
    }
}

/// The parent of a hook has nothing open by which the guard sees that redlock lives.
#[test]
fn a_stopped_parent_keeps_no_job_alive() {
    let store = Store::local();
    let folder = Folder::new();
    let command = format!("echo $$ >{}; exec sleep 100", folder.path("job").display());
    let job = run(&store, &["--on-lost", "continue", "--on-release", "true"], &command).spawn();
    let pid = pid_in(&folder.path("job"));
    let guard = job.guard();
    let parent = children(job.pid()).into_iter().find(|child| *child != guard).expect("its parent");
    // Its streams and the line to redlock are left.
    let open = || std::fs::read_dir(format!("/proc/{parent}/fd")).map_or(0, Iterator::count);
    eventually(LIMIT, "it has closed what it inherited", || open() == 4);
    pause(parent);
    job.signal(Signal::SIGKILL);
    eventually(LIMIT, "the end of the job", || !is_alive(pid));
    kill(Pid::from_raw(parent), Signal::SIGKILL).expect("a signal");
}

/// Not even the hook's own guard is the job's.
#[test]
fn a_hook_without_its_guard_dies_and_the_job_goes_on() {
    let store = Store::local();
    let folder = Folder::new();
    let (hook, pid) = attacking(&folder, "TERM", "kill -9 $PPID");
    let job = run(&store, &["--on-acquire", &hook], "cat; exit 5").open_stdin().spawn();
    let pid = pid();
    eventually(LIMIT, "the death of the hook", || children(job.pid()).len() == 2 && !is_alive(pid));
    assert!(!is_free(&store));
    assert!(job.let_go().expect(5).stderr.contains("the on-acquire hook failed"));
}

/// It stops or kills its guard and the parent that redlock gave it.
#[test]
fn it_is_dead_before_the_release_whatever_it_does() {
    let store = Store::local();
    let find =
        "above() { awk '/^PPid/ {print $2}' /proc/$1/status; }; guard=$(above $PPID); parent=$(above $guard)";
    for attack in ["kill -STOP $parent", "kill -9 $parent", "kill -STOP $guard; kill -9 $parent"] {
        let folder = Folder::new();
        let (hook, pid) = attacking(&folder, "TERM", &format!("{find}; {attack}"));
        let time = ttl(3000);
        let job = run(&store, &["--ttl", &time, "--on-acquire", &hook], "cat").open_stdin().spawn();
        let pid = pid();
        job.let_go().expect(0);
        assert!(!is_alive(pid), "{attack}");
        assert!(is_free(&store));
    }
}

/// What it left behind, that is: nobody but redlock sees it then.
#[test]
fn nothing_of_it_outlives_the_release_when_both_its_guards_are_killed() {
    let store = Store::local();
    let folder = Folder::new();
    let left = folder.path("left");
    let attack = format!(
        "above() {{ awk '/^PPid/ {{print $2}}' /proc/$1/status; }}; guard=$(above $PPID); parent=$(above $guard)
        setsid sh -c 'trap \"\" TERM; echo $$ >{}; exec sleep 100' & until [ -s {0} ]; do :; done
        kill -9 $parent $guard",
        left.display()
    );
    let job = run(&store, &["--on-acquire", &attack], "cat; exit 5").open_stdin().spawn();
    let pid = pid_in(&left);
    let ended = job.let_go().expect(5);
    assert!(!is_alive(pid) && is_free(&store));
    assert!(ended.stderr.contains("the on-acquire hook failed"), "{ended:?}");
}

#[test]
fn it_is_awaited_where_redlock_may_have_no_more_descriptors() {
    let store = Store::redis();
    let folder = Folder::new();
    let started = folder.path("started");
    let command = format!("touch {}; cat", started.display());
    let job = run(&store, &["--on-release", "sleep 0.1; echo well"], &command).open_stdin().spawn();
    await_file(&started);
    let is_free = |fd: &u64| fs::symlink_metadata(format!("/proc/{}/fd/{fd}", job.pid())).is_err();
    limit(job.pid(), "nofile", (0..).find(is_free).expect("a free number"));
    assert_eq!(job.let_go().expect(0).stderr, "well\n");
}

/// That of the job: it leaves the hooks to come alone.
#[test]
fn a_release_after_the_death_of_the_guard_has_its_hook() {
    let store = Store::local();
    let folder = Folder::new();
    let started = folder.path("started");
    let command = format!("touch {}; exec sleep 100", started.display());
    let job = run(&store, &["--on-release", "echo status $REDLOCK_EXIT_STATUS"], &command).spawn();
    await_file(&started);
    kill(Pid::from_raw(job.guard()), Signal::SIGKILL).expect("a signal");
    let ended = job.finish().expect(-9);
    assert!(ended.stderr.contains("status 137\n") && !ended.stderr.contains("hook failed"), "{ended:?}");
}

/// The time from SIGTERM to SIGKILL comes on top of it.
#[test]
fn without_a_lease_it_may_run_for_the_ttl() {
    let store = Store::local();
    let options = ["--ttl", "20s", "--kill-after", "18500ms", "--on-release", "sleep 2; echo well"];
    assert_eq!(run(&store, &options, "true").run().expect(0).stderr, "well\n");
}

/// The result is the job's, and the lock was held to its end.
#[test]
fn a_loss_behind_the_job_leaves_its_result_alone() {
    behind_the_job("break -k X --yes");
    behind_the_job("release -k X --token-file token");
}

fn behind_the_job(taken_away: &str) {
    let store = Store::local();
    let (folder, time) = (Folder::new(), ttl(2000));
    let log = folder.path("log");
    let hook = format!(
        "trap '' TERM; until sed '1,/command_ended/d' {} | grep -q lock_renewed; do sleep 0.01; done
        cd {}; {} {taken_away}; while :; do sleep 0.05; done",
        log.display(),
        folder.path("").display(),
        env!("CARGO_BIN_EXE_redlock")
    );
    let hooks = ["--on-acquire", &hook, "--on-lost-run", "echo lost run", "--on-release", "echo released"];
    let options = [&["--ttl", &time, "--log-file", log.to_str().expect("a path")], &hooks[..]].concat();
    let command = format!("umask 077; echo $REDLOCK_TOKEN >{}; cat; exit 5", folder.path("token").display());
    let job = run(&store, &options, &command).open_stdin().spawn();
    store.await_holder("X");
    let next = run(&store, &["--wait"], "cat").open_stdin().spawn();
    store.await_waiters("X", 1);
    let ended = job.let_go().expect(5);
    // On a machine that is too slow for it the hook was killed, and the lock released, before a renewal could tell.
    let log = fs::read_to_string(log).expect("the log");
    if log.contains("lock_lost") {
        let [loss, end] = [r#""consequence":"job_had_ended""#, r#""outcome":"failure""#];
        assert!(log.contains(loss) && log.contains(end), "{log}");
        assert!(ended.stderr.contains("the job had ended before"), "{ended:?}");
        assert!(!ended.stderr.contains("lost run") && !ended.stderr.contains("released"), "{ended:?}");
    }
    next.let_go().expect(0);
}

/// Where redlock can have no thread for that, too.
#[test]
fn its_lock_is_renewed_while_it_is_awaited() {
    let store = Store::local();
    let (folder, time) = (Folder::new(), ttl(1500));
    let (hook, pid) = endless(&folder, "TERM");
    let job = run(&store, &["--ttl", &time, "--on-acquire", &hook], "cat").open_stdin().spawn();
    pid();
    forbid_threads(job.pid());
    let ended = job.let_go().expect(0);
    assert_eq!(ended.stderr, "redlock: the on-acquire hook failed: it still ran, and was stopped\n");
}

#[test]
fn a_wait_that_ends_takes_its_hook_along() {
    let store = Store::local();
    let folder = Folder::new();
    let (hook, pid) = endless(&folder, "TERM INT HUP");
    let holder = store.hold("X", &[]);
    let waiter = run(&store, &["--wait", "--on-wait", &hook], "true").spawn();
    let pid = pid();
    waiter.signal(Signal::SIGTERM);
    waiter.finish().expect(-15);
    eventually(LIMIT, "the end of the hook", || !is_alive(pid));
    holder.let_go().expect(0);
}

/// On `local:` the death of redlock and of its guard is the end of the lock, unless something of a hook lives.
#[test]
fn a_holder_is_not_dead_before_its_hook() {
    let store = Store::local();
    let (folder, time) = (Folder::new(), ttl(3000));
    let (hook, pid) = endless(&folder, "TERM");
    let job = run(&store, &["--ttl", &time, "--on-acquire", &hook], "sleep 100").spawn();
    let (pid, guard) = (pid(), job.guard());
    let parent = children(job.pid()).into_iter().find(|child| *child != guard).expect("its parent");
    // None of them sees the death of another.
    let of_redlock = [job.pid(), guard];
    [parent].into_iter().chain(of_redlock).for_each(pause);
    for pid in of_redlock {
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("a signal");
    }
    let next = run(&store, &["--wait"], &format!("kill -0 {pid}")).run();
    assert_eq!(next.code(), 1, "{next:?}");
    // The guard of the hook may have woken it meanwhile.
    let _ = kill(Pid::from_raw(parent), Signal::SIGKILL);
}

/// The terminal's keys, and what a service manager sends to all processes, are the command's.
#[test]
fn signals_do_not_end_it() {
    let store = Store::local();
    let folder = Folder::new();
    let (hook, [ready, done], beat) = beating(&folder);
    let options = ["--on-release", &hook];
    let job = run(&store, &options, "exec sleep 100").spawn();
    store.await_holder("X");
    let parents = children(job.pid());
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        parents.iter().for_each(|pid| kill(Pid::from_raw(*pid), signal).expect("a signal"));
    }
    job.signal(Signal::SIGTERM);
    await_file(&ready);
    // These have no meaning but for a command.
    job.signal(Signal::SIGUSR1);
    job.signal(Signal::SIGUSR2);
    let before = beat();
    eventually(LIMIT, "that it goes on", || beat() > before + 20);
    fs::write(done, "").expect("a file");
    assert_eq!(job.finish().expect(-15).stderr, "well\n");
}

/// The end of a terminal: the kernel says so, and the shell says it again.
#[test]
fn a_second_hangup_does_not_end_it() {
    let store = Store::local();
    let folder = Folder::new();
    let (hook, [ready, done], beat) = beating(&folder);
    let started = folder.path("started");
    let command = format!("touch {}; exec sleep 100", started.display());
    let mut program = Command::new(env!("CARGO_BIN_EXE_redlock"));
    program.args(["run", "-k", "X", "--on-release", &hook, "--", "sh", "-c", &command]);
    program.env("REDLOCK_SERVER", &store.url);
    let mut job = Pty::start(program);
    await_file(&started);
    job.hang_up();
    await_file(&ready);
    kill(Pid::from_raw(job.pid()), Signal::SIGHUP).expect("a signal");
    let before = beat();
    eventually(LIMIT, "that it goes on", || beat() > before + 20);
    fs::write(done, "").expect("a file");
    assert_eq!(job.finish(), -1);
}

/// Ctrl-C is the command's.
#[test]
fn keys_at_the_terminal_do_not_end_it() {
    let store = Store::local();
    let folder = Folder::new();
    let (ready, done) = (folder.path("ready"), folder.path("done"));
    let hook =
        format!("touch {}; until [ -e {} ]; do sleep 0.01; done; echo well", ready.display(), done.display());
    let job = format!("trap 'touch {}; exit 3' INT; while :; do sleep 0.01; done", done.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
    command.args(["run", "-k", "X", "--on-acquire", &hook, "--", "sh", "-c", &job]);
    command.env("REDLOCK_SERVER", &store.url);
    let mut terminal = Pty::start(command);
    await_file(&ready);
    terminal.send("\x03");
    assert_eq!(terminal.finish(), 3);
    terminal.expect("well");
    assert!(!terminal.screen().contains("failed"), "{}", terminal.screen());
}

/// Somebody is at the prompt: nothing is held any more.
#[test]
fn a_signal_ends_the_wait_for_the_last_hook() {
    let store = Store::local();
    let folder = Folder::new();
    let (hook, pid) = endless(&folder, "TERM");
    let job = run(&store, &["--on-release", &hook], "exit 3").spawn();
    let (pid, start) = (pid(), Instant::now());
    job.signal(Signal::SIGINT);
    job.finish().expect(3);
    assert!(is_within(Duration::from_secs(15), start));
    eventually(LIMIT, "the end of the hook", || !is_alive(pid));
}

/// Ctrl-C at the prompt has to end the loop of a shell around redlock, too.
#[test]
fn a_key_in_the_wait_for_the_last_hook_is_redlocks() {
    let store = Store::local();
    let folder = Folder::new();
    let (hook, [ready, _], _) = beating(&folder);
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
    command.args(["run", "-k", "X", "--on-release", &hook, "--", "true"]);
    command.env("REDLOCK_SERVER", &store.url);
    let mut terminal = Pty::start(command);
    await_file(&ready);
    terminal.send("\x03");
    assert_eq!(terminal.finish(), -2);
}
