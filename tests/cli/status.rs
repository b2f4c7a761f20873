//! Exit status: the command's own, or one that says what happened.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use crate::harness::{Redlock, Store, free_port, is_alive, pid_in, slowed, ttl};

fn sh(store: &Store, options: &[&str], script: &str) -> crate::harness::Finished {
    let mut args = vec!["run", "-k", "X"];
    args.extend(options);
    args.extend(["--", "sh", "-c", script]);
    store.redlock(&args).run()
}

#[test]
fn that_of_the_command() {
    let store = Store::local();
    for code in [0, 3, 75, 255] {
        sh(&store, &[], &format!("exit {code}")).expect(code);
    }
    for signal in [1, 2, 6, 9, 11, 13, 15, 34, 64] {
        let died = sh(&store, &[], &format!("ulimit -c 0; kill -{signal} $$"));
        assert_eq!(died.code(), -signal, "{died:?}");
        assert_eq!(died.stderr, "");
    }
}

#[test]
fn a_command_that_cannot_be_executed() {
    let store = Store::local();
    // A folder that may not be searched is another matter.
    let run = |args: &[&str]| store.redlock(args).env("PATH", "/usr/bin:/bin").run();
    let missing = run(&["run", "-k", "X", "--", "no-such-command"]).expect(127);
    assert_eq!(missing.line(), "redlock: 'no-such-command' is not found; the key is 'X'");
    let data = store.redlock(&["run", "-k", "X", "--", "/etc/passwd"]).run().expect(126);
    assert!(data.line().contains("cannot be executed"), "{data:?}");
    // Given back at once, whatever --min-hold says.
    run(&["run", "-k", "X", "--min-hold", "1m", "--", "no-such-command"]).expect(127);
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

/// The command's own core dump is enough.
#[test]
fn a_death_that_dumps_core_does_so_once() {
    let store = Store::local();
    for signal in [libc::SIGSEGV, libc::SIGABRT, libc::SIGQUIT] {
        let dies = |args: &[&str]| {
            let script = format!("ulimit -S -c unlimited; cd \"$0\"; exec \"$@\" sh -c 'kill -{signal} $$'");
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &script]).arg(store.folder.path("")).args(args);
            let status = command.env("REDLOCK_SERVER", &store.url).status().expect("sh");
            (status.signal(), status.core_dumped())
        };
        // This host may not allow core dumps at all: then there is nothing to see.
        if dies(&["env"]) == (Some(signal), true) {
            let redlock = [env!("CARGO_BIN_EXE_redlock"), "run", "-k", "X", "--"];
            assert_eq!(dies(&redlock), (Some(signal), false));
        }
    }
}

#[test]
fn given_back_twice() {
    for store in [Store::local(), Store::redis()] {
        let token = store.redlock(&["acquire", "-k", "X"]).run().expect(0).stdout;
        let by_hand = |command: &str| {
            let args = [command, "-k", "X", "--token", token.trim()];
            store.redlock(&args).run()
        };
        by_hand("check").expect(0);
        by_hand("release").expect(0);
        for command in ["release", "check", "renew"] {
            let refused = by_hand(command).expect(1);
            assert!(refused.line().contains("does not hold") && refused.stdout.is_empty(), "{refused:?}");
        }
    }
}

#[test]
fn held_by_another() {
    let store = Store::local();
    store.redlock(&["acquire", "-k", "X", "--label", "the other"]).run().expect(0);
    let refused = sh(&store, &[], "echo started").expect(75);
    assert!(
        refused.stdout.is_empty()
            && refused.line().contains("\"the other\"")
            && refused.line().contains("--wait"),
        "{refused:?}"
    );
    sh(&store, &["-E", "9"], "echo started").expect(9);
    sh(&store, &["-E", "9", "--wait", "100ms"], "echo started").expect(9);
    sh(&store, &["-E", "0"], "echo started").expect(0);
    assert_eq!(sh(&store, &["-q"], "echo started").expect(75).stderr, "");
    let waited = sh(&store, &["--wait", "300ms"], "echo started").expect(75);
    assert!(waited.stderr.contains("gave up after"), "{waited:?}");
}

#[test]
fn no_server() {
    let port = free_port();
    let url = format!("redis://127.0.0.1:{port}");
    let refused = Redlock::new(&["run", "-k", "X", "--", "echo", "started"]).server(&url).run().expect(69);
    assert!(refused.stdout.is_empty() && refused.line().contains("connection refused"), "{refused:?}");
    // With --wait it is asked again and again, for as long as one is ready to wait.
    let start = Instant::now();
    Redlock::new(&["run", "-k", "X", "--wait", "1s", "--", "true"]).server(&url).run().expect(69);
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[test]
fn the_default_server_names_both_ways_out() {
    // Nothing of ours listens there; should something else, it is no failure of redlock.
    if std::net::TcpStream::connect(("127.0.0.1", 6379)).is_ok() {
        return;
    }
    let refused = Redlock::new(&["run", "-k", "X", "--", "true"]).run().expect(69);
    assert!(
        refused.line().contains("--server redis://") && refused.line().contains("--server local:"),
        "{refused:?}"
    );
}

#[test]
fn timeout() {
    let store = Store::local();
    sh(&store, &["--timeout", "300ms"], "exec sleep 30").expect(124);
    let file = store.folder.path("pid");
    let script = format!(
        "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ > {file:?}; while :; do sleep 0.05; done' & wait"
    );
    sh(&store, &["--timeout", "500ms", "--kill-after", "200ms"], &script).expect(124);
    assert!(!is_alive(pid_in(&file)), "a process of the job is alive");
    sh(&store, &["--timeout", "1m"], "exit 4").expect(4);
}

#[test]
fn on_lost_continue_lets_the_command_end() {
    let store = Store::redis();
    let redis = store.redis.as_ref().expect("a Redis");
    let run = store
        .redlock(&[
            "run",
            "-k",
            "X",
            "--ttl",
            &ttl(600),
            "--on-lost",
            "continue",
            "--",
            "sh",
            "-c",
            &format!("sleep {}; echo end", slowed(2000).as_secs_f64()),
        ])
        .spawn();
    store.await_holder("X");
    redis.cli(&["SET", "X", "another", "PX", "600000"]);
    let run = run.finish().expect(79);
    assert_eq!(run.stdout, "end\n");
    assert!(run.line().contains("the job goes on without it"), "{run:?}");
    assert_eq!(redis.cli(&["GET", "X"]), "another");
}

/// What was asked for and could not be printed is a failure; a reader that went away is none.
#[test]
fn output_that_goes_nowhere() {
    let store = Store::local();
    for args in [&["status", "--json", "X"][..], &["completions", "bash"], &["--help"], &["--version"]] {
        let mut full = store.redlock(args);
        full.command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full"));
        assert!(full.run().expect(1).line().contains("cannot write to standard output"), "{args:?}");
    }
}

/// There is no descriptor left for the job, or no thread for the keeper: no start, or the job goes on.
#[test]
fn little_to_work_with() {
    for store in [Store::local(), Store::redis()] {
        let (ttl, longer) = (ttl(2000), slowed(1200).as_secs_f64());
        for files in 4..14 {
            let started = store.folder.path(&format!("started {files}"));
            let script = format!("touch {started:?}; sleep {longer}; echo done");
            let program = env!("CARGO_BIN_EXE_redlock");
            let limit = format!("--nofile={files}");
            let run = [&limit, program, "run", "-k", "X", "-t", &ttl, "--", "/bin/sh", "-c", &script];
            let run = Redlock::under("prlimit", &run).server(&store.url).run();
            assert_eq!(started.exists(), run.code() == 0, "{files}: {run:?}");
            assert_eq!(run.stdout, if started.exists() { "done\n" } else { "" }, "{files}: {run:?}");
            store.redlock(&["run", "-k", "X", "--wait", "1m", "--", "true"]).run().expect(0);
        }
    }
}
