//! `acquire --format github`: a step of a workflow.

use std::fs;

use crate::harness::{Redlock, Store};

#[test]
fn a_step_masks_the_token_and_hands_it_on() {
    let store = Store::redis();
    let [output, env] = ["output", "env"].map(|name| store.folder.path(name));
    fs::write(&output, "before=1\n").expect("a file");
    let step = store.redlock(&["acquire", "-k", "deploy = all", "--format", "github"]);
    let step = step.env("GITHUB_OUTPUT", &output).env("GITHUB_ENV", &env).run().expect(0);
    let token = step.stdout.strip_prefix("::add-mask::").and_then(|rest| rest.strip_suffix('\n'));
    let token = token.expect("a mask and nothing else");
    assert_eq!((token.len(), step.stderr.as_str()), (36, ""));
    let fence = &store.status("deploy = all")["holders"][0]["fence"];
    let written = fs::read_to_string(&output).expect("the output");
    assert_eq!(written, format!("before=1\ntoken={token}\nfence={fence}\nkey=deploy = all\n"));
    let written = fs::read_to_string(&env).expect("the environment");
    assert_eq!(written, format!("REDLOCK_KEY=deploy = all\nREDLOCK_TOKEN={token}\nREDLOCK_FENCE={fence}\n"));

    // Another machine: nothing but the token.
    let mut release = Redlock::new(&["-S", &store.url, "release", "-k", "deploy = all", "--token", token]);
    release.command.env_clear();
    release.run().expect(0);
    assert!(store.status("deploy = all")["holders"][0].is_null());
}

/// Before anything else is in the log.
#[test]
fn a_step_that_waits_has_masked_its_token() {
    let store = Store::local();
    let output = store.folder.path("output");
    let holder = store.hold("X", &[]);
    let log = r#"exec "$0" acquire -k X --wait --format github 2>&1"#;
    let step = store.reached_by(Redlock::under("sh", &["-c", log, env!("CARGO_BIN_EXE_redlock")]));
    let step = step.env("GITHUB_OUTPUT", &output).spawn();
    store.await_waiters("X", 1);
    holder.let_go().expect(0);
    let log = step.finish().expect(0).stdout;
    let token = fs::read_to_string(&output).expect("the output");
    let token = token.lines().find_map(|line| line.strip_prefix("token=")).expect("a token");
    let (mask, rest) = log.split_once('\n').expect("a line");
    assert_eq!(mask, format!("::add-mask::{token}"));
    assert!(rest.contains("is held by") && !rest.contains(token), "{log}");
}

#[test]
fn one_file_is_enough() {
    for name in ["GITHUB_OUTPUT", "GITHUB_ENV"] {
        let store = Store::local();
        let file = store.folder.path("file");
        store.redlock(&["acquire", "-k", "X", "--format", "github"]).env(name, &file).run().expect(0);
        assert_eq!(fs::read_to_string(&file).expect("the file").lines().count(), 3);
    }
}

#[test]
fn what_cannot_be_written_is_given_back() {
    let store = Store::local();
    let folder = store.folder.path("");
    for (name, file) in [("GITHUB_OUTPUT", folder.join("no/such/file")), ("GITHUB_ENV", "/dev/full".into())] {
        let failed = store.redlock(&["acquire", "-k", "X", "--format", "github"]).env(name, &file).run();
        let failed = failed.expect(1);
        assert!(failed.line().contains("released 'X'"), "{failed:?}");
        store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    }
}
