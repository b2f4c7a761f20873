//! Signals reach the job, once, and the command has the dispositions that the caller gave.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::{Store, await_file, eventually, is_alive, pid_in};

/// The signal lines of /proc/self/status in a command that a shell starts after `prepare`.
fn masks(store: &Store, prefix: &[&str], prepare: &str) -> String {
    let run = prefix.iter().map(|word| format!("'{word}' ")).collect::<String>();
    let script = format!("{prepare} exec {run}grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status");
    let mut command = Command::new("sh");
    let output = command.args(["-c", &script]).env("REDLOCK_SERVER", &store.url).output().expect("sh");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn dispositions_and_mask_are_the_callers() {
    let store = Store::local();
    let redlock = [env!("CARGO_BIN_EXE_redlock"), "run", "-k", "X", "--"];
    for prepare in ["", "trap '' HUP;", "trap '' PIPE;", "trap '' CHLD;", "trap '' INT TERM QUIT USR1;"] {
        let alone = masks(&store, &[], prepare);
        assert!(alone.contains("SigIgn"), "{alone}");
        assert_eq!(masks(&store, &redlock, prepare), alone, "{prepare}");
    }
}

#[test]
fn a_blocked_signal_stays_blocked() {
    let store = Store::local();
    let mut run = store.redlock(&["run", "-k", "X", "--", "grep", "SigBlk", "/proc/self/status"]);
    // SAFETY: the closure makes one system call.
    unsafe {
        run.command.pre_exec(|| {
            let mut set = nix::sys::signal::SigSet::empty();
            set.add(Signal::SIGUSR1);
            Ok(set.thread_block()?)
        });
    }
    assert_eq!(run.run().expect(0).stdout, "SigBlk:\t0000000000000200\n");
}

/// To the whole job, once to each process, also through other redlocks in it.
#[test]
fn sigterm_reaches_every_process_once() {
    let store = Store::local();
    let folder = store.folder.path("");
    let script = r#"
        cd "$0"
        count() { trap "echo $1 >> got" TERM; echo $1 >> ready; while [ ! -e end ]; do sleep 0.05; done; }
        count child & count command; wait
    "#;
    let program = env!("CARGO_BIN_EXE_redlock");
    let folder_text = folder.display().to_string();
    let nested = [
        "run",
        "-k",
        "A",
        "--",
        program,
        "run",
        "-k",
        "B",
        "--",
        program,
        "run",
        "-k",
        "C",
        "--",
        "bash",
        "-c",
        script,
        &folder_text,
    ];
    let run = store.redlock(&nested).spawn();
    let lines = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default().lines().count();
    eventually(Duration::from_secs(20), "both are ready", || lines("ready") == 2);
    run.signal(Signal::SIGTERM);
    eventually(Duration::from_secs(5), "both got it", || lines("got") >= 2);
    std::fs::write(folder.join("end"), "").expect("the end");
    run.finish().expect(0);
    assert_eq!(lines("got"), 2);
}

#[test]
fn sigusr1_is_for_the_command() {
    let store = Store::local();
    let file = store.folder.path("pid");
    let script =
        format!("trap 'echo got; exit 5' USR1; echo $$ > {}; while :; do sleep 0.05; done", file.display());
    let run = store.redlock(&["run", "-k", "X", "--", "sh", "-c", &script]).spawn();
    pid_in(&file);
    run.signal(Signal::SIGUSR1);
    assert_eq!(run.finish().expect(5).stdout, "got\n");
}

#[test]
fn the_death_is_that_of_the_command() {
    let store = Store::local();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        let file = store.folder.path(signal.as_str());
        let script = format!("echo $$ > {}; exec sleep 100", file.display());
        let run = store.redlock(&["run", "-k", "X", "--", "sh", "-c", &script]).spawn();
        let pid = pid_in(&file);
        run.signal(signal);
        let run = run.finish();
        assert_eq!((run.code(), run.stderr.as_str()), (-(signal as i32), ""));
        assert!(!is_alive(pid));
    }
    assert_eq!(store.status("X")["holders"][0], serde_json::Value::Null);
}

#[test]
fn nohup_survives_a_hangup() {
    let store = Store::local();
    let file = store.folder.path("pid");
    let script = format!("echo $$ > {}; sleep 1; echo end", file.display());
    let mut run = store.redlock(&["run", "-k", "X", "--", "sh", "-c", &script]);
    // SAFETY: the closure makes one system call.
    unsafe {
        run.command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            Ok(())
        });
    }
    let run = run.spawn();
    pid_in(&file);
    run.signal(Signal::SIGHUP);
    assert_eq!(run.finish().expect(0).stdout, "end\n");
}

#[test]
fn what_is_left_behind_lives_on_and_is_told() {
    let store = Store::local();
    let file = store.folder.path("pid");
    let script = format!("sleep 100 >/dev/null 2>&1 & echo $! > {}", file.display());
    let run = store.redlock(&["run", "-k", "X", "--", "sh", "-c", &script]).run().expect(0);
    assert!(run.line().contains("left processes behind"), "{run:?}");
    let pid = pid_in(&file);
    assert!(is_alive(pid));
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
}

/// A signal during the splay, before anything was taken.
#[test]
fn the_splay_ends_with_a_signal() {
    let store = Store::local();
    let folder = store.folder.path("db");
    let run = store
        .redlock(&["run", "-k", "X", "--splay", "1h", "--", "touch", &folder.display().to_string()])
        .spawn();
    run.guard();
    eventually(Duration::from_secs(5), "it catches SIGTERM", || {
        std::fs::read_to_string(format!("/proc/{}/status", run.pid())).is_ok_and(|status| {
            status.lines().any(|line| {
                line.strip_prefix("SigCgt:")
                    .is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap_or(0) & (1 << 14) != 0)
            })
        })
    });
    run.signal(Signal::SIGTERM);
    assert_eq!(run.finish().code(), -15);
    assert!(!folder.exists());
}

/// The guard is not in the way of `systemctl stop`, which sends SIGTERM to everything.
#[test]
fn a_guard_lives_through_sigterm() {
    let store = Store::local();
    let file = store.folder.path("ready");
    let script = format!(
        "trap 'sleep 0.3; echo clean; exit 0' TERM; touch {}; while :; do sleep 0.05; done",
        file.display()
    );
    let run = store.redlock(&["run", "-k", "X", "--", "sh", "-c", &script]).spawn();
    await_file(&file);
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(run.guard()), Signal::SIGTERM);
    run.signal(Signal::SIGTERM);
    assert_eq!(run.finish().expect(0).stdout, "clean\n");
}
