//! What the caller of redlock sees of its processes.

use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Redlock, Store, children, command_below, eventually, namespaces, pid_in, with_default_signals,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

/// As under cron or in a container: nobody in the session is the parent of the group. The end of a command whose parent
/// is in another group makes such a group an orphan, and the kernel ends it when one of it is stopped.
#[test]
fn a_stopped_process_of_the_callers_group() {
    let store = Store::local();
    let script = r#"
        sleep 100 & stopped=$!
        kill -STOP $stopped
        until grep -q ') T ' /proc/$stopped/stat; do sleep 0.01; done
        "$0" run -k X -- true
        echo "survived $?"
        kill -KILL $stopped"#;
    let mut redlock = Redlock::under("setsid", &["-w", "bash", "-c", script, PROGRAM]);
    with_default_signals(&mut redlock.command);
    let ended = store.reached_by(redlock).run();
    assert_eq!((ended.code(), ended.stdout.as_str()), (0, "survived 0\n"), "{ended:?}");
}

/// The first process of a container that is an application waits for its own children only.
#[test]
fn no_zombies() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    let script = r#"
import os, subprocess, sys
run = [sys.argv[1], "run", "-k"]
for job in (["X", "--", "true"], ["X", "--", "sh", "-c", "sleep 1 & exit 3"], ["X", "--", "no such command"]):
    subprocess.run(run + job, stderr=subprocess.DEVNULL)
with subprocess.Popen(run + ["X", "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
    holder.stdin.write(b"x"), holder.stdin.flush(), holder.stdout.read(1)
    print(subprocess.run(run + ["X", "--", "true"], stderr=subprocess.DEVNULL).returncode)
for pid in filter(str.isdigit, os.listdir("/proc")):
    stat = open(f"/proc/{pid}/stat").read()
    if "lock-" in stat or "redlock" in stat:
        print(stat)
"#;
    let args = ["-pf", "--mount-proc", "python3", "-c", script, PROGRAM];
    let ended = store.reached_by(Redlock::under("unshare", &args)).run().expect(0);
    assert_eq!(ended.stdout, "75\n");
}

/// `logger & exec redlock ...`: such a child is none of the job, which dies with its guard.
#[test]
fn children_of_the_caller() {
    let store = Store::local();
    let script = r#"sleep 600 >/dev/null 2>&1 & echo $! >"$1"; exec "$0" run -k X -- sleep 600"#;
    let before = store.folder.path("before");
    let args = ["-c", script, PROGRAM, before.to_str().expect("a path")];
    let run = store.reached_by(Redlock::under("sh", &args)).spawn();
    let before = pid_in(&before);
    store.await_holder("X");
    let guard = || children(run.pid()).into_iter().find(|pid| *pid != before);
    eventually(Duration::from_secs(20), "the job", || {
        guard().is_some_and(|guard| command_below(guard).is_some())
    });
    kill(Pid::from_raw(guard().expect("a guard")), Signal::SIGKILL).expect("a signal to the guard");
    run.finish().expect(-9);
    kill(Pid::from_raw(before), Signal::SIGKILL).expect("it is alive");
}

/// For `time`, and for whoever accounts what jobs use.
#[test]
fn the_processor_time_of_the_command() {
    let store = Store::local();
    let script = r#"
import resource, subprocess, sys
burn = "import time\nwhile time.process_time() < 0.3: pass"
subprocess.run([sys.argv[1], "run", "-k", "X", "--", sys.executable, "-c", burn], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime > 0.25)
"#;
    let ended = store.reached_by(Redlock::under("python3", &["-c", script, PROGRAM])).run().expect(0);
    assert_eq!(ended.stdout, "True\n");
}

/// `pkill -f NAME` is for the job. Another process of redlock that has its words would get the signal beside it.
#[test]
fn the_words_of_the_job_are_those_of_the_command() {
    let store = Store::local();
    let (name, pid) = (format!("job-of-{}", std::process::id()), store.folder.path("pid"));
    let script = format!("echo $$ > {pid:?}; sleep 60; : {name}");
    for words in [&["--", "sh", "-c", &script][..], &["-c", "--", &script]] {
        let run = store.redlock(&[&["run", "-k", "X", "--on-acquire", "sleep 60"], words].concat()).spawn();
        let command = pid_in(&pid);
        fs::remove_file(&pid).expect("the file");
        let has_words = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&name)
        };
        // The shell forks before it executes sleep.
        eventually(Duration::from_secs(20), "the command alone has its words", || {
            let processes = fs::read_dir("/proc").expect("/proc").flatten();
            let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            pids.filter(has_words).collect::<Vec<i32>>() == [command]
        });
        run.signal(Signal::SIGTERM);
        run.finish();
    }
}

/// systemd gives sockets, and asks for a sign of life, by the pid of the service. A variable for another process stays.
#[test]
fn variables_with_the_pid_of_redlock_name_the_command() {
    let store = Store::local();
    let show = "echo $$ $LISTEN_PID $WATCHDOG_PID";
    let script = format!("LISTEN_PID=$$ exec \"$@\" -- sh -c '{show}'");
    let line = ["-c", &script, "sh", env!("CARGO_BIN_EXE_redlock"), "run", "-k", "X"];
    let run = Redlock::under("sh", &line).server(&store.url).env("WATCHDOG_PID", "1").run().expect(0);
    let pids: Vec<&str> = run.stdout.split_whitespace().collect();
    assert!(matches!(pids[..], [command, listener, "1"] if command == listener), "{run:?}");
}
