//! What others see of a command when it has no `--label`.

use std::fs;

use crate::harness::{Redlock, Store};

/// Neither they, nor the store, nor a message of redlock's own: arguments may be secret.
#[test]
fn arguments_are_nobodys_business() {
    let store = Store::local();
    let script = store.folder.path("backup.sh").display().to_string();
    fs::write(&script, "cat\n").expect("a script");
    for (command, label) in [
        (&["--", "/usr/bin/env", "-u", "canary", "cat"][..], "cat"),
        (&["--", "sh", &script, "--password=canary"], "sh backup.sh"),
        (&["--", "sh", "-c", "cat; : canary"], "sh"),
        (&["--", "env", "PASSWORD=canary", "cat"], "cat"),
        (&["-c", "--", "cat; : canary"], "sh -c"),
    ] {
        let args = [&["run", "-k", "X", "--leftovers", "kill", "-v"], command].concat();
        let holder = store.redlock(&args).open_stdin().spawn();
        store.await_holder("X");
        let shown = store.status("X");
        assert_eq!(shown["holders"][0]["label"], label, "{command:?}");
        let refused = store.redlock(&["run", "-k", "X", "--", "true", "canary"]).run().expect(75);
        assert!(refused.line().contains(&format!("\"{label}\"")), "{refused:?}");
        for file in fs::read_dir(store.folder.path("")).expect("the folder").flatten() {
            let bytes = fs::read(file.path()).expect("a file");
            assert!(!bytes.windows(6).any(|bytes| bytes == b"canary"), "{command:?}: {file:?}");
        }
        holder.signal(nix::sys::signal::Signal::SIGTERM);
        let ended = holder.finish();
        assert!(!ended.stderr.contains("canary"), "{ended:?}");
    }
    // What is left behind is spoken of.
    let left = ["run", "-k", "X", "--leftovers", "kill", "-v", "-c", "--", "sleep 60 >&- 2>&- & : canary"];
    let left = store.redlock(&left).run().expect(0);
    assert!(
        left.stderr.contains("'sh -c' left processes behind") && !left.stderr.contains("canary"),
        "{left:?}"
    );
}

/// The shell that evaluates the line, not the copy of it that runs redlock, nor redlock, which has ended.
#[test]
fn acquire_shows_its_caller() {
    let store = Store::local();
    let script = store.folder.path("deploy.sh").display().to_string();
    for (before, options) in [("", ""), ("timeout 60 ", ""), ("", "--while-pid $$")] {
        let line = format!("eval \"$({before}\"$1\" acquire -k X {options} --format env || echo exit $?)\"");
        fs::write(&script, format!("{line}\nread -r _\n\"$1\" release\n")).expect("a script");
        let call = Redlock::under("dash", &[&script, env!("CARGO_BIN_EXE_redlock"), "canary"]);
        let running = store.reached_by(call).open_stdin().spawn();
        store.await_holder("X");
        let holder = &store.status("X")["holders"][0];
        assert_eq!(holder["label"], "dash deploy.sh", "{holder}");
        assert_eq!(holder[if options.is_empty() { "pid" } else { "while_pid" }], running.pid(), "{holder}");
        running.let_go().expect(0);
    }
}

/// A page that leads to the log, whole; but none with a password in it.
#[test]
fn a_run_of_ci_is_shown() {
    let store = Store::local();
    let page = "https://git.example.net/some-group/some-project-with-a-long-name/-/jobs/4123";
    for (variable, shown) in [(page, page), ("https://ci:canary@git.example.net/jobs/4123", "CI_JOB_ID 4123")]
    {
        let holder = store.redlock(&["run", "-k", "X", "--", "cat"]);
        let holder = holder.env("CI_JOB_URL", variable).env("CI_JOB_ID", "4123").open_stdin().spawn();
        store.await_holder("X");
        let refused = store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
        assert!(refused.line().contains(&format!("\"{shown}\"")), "{refused:?}");
        holder.let_go();
        store
            .redlock(&["run", "-k", "X", "--wait", "1m", "--label", "mine", "-q", "--", "true"])
            .run()
            .expect(0);
    }
}
