//! action.yml: a step that holds the lock until the job ends.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use crate::harness::{Redlock, Store, eventually};

/// As the runner does it: a process for the job, a shell for the step. What has the tracking id is killed in the end.
#[test]
fn the_lock_is_held_for_the_rest_of_the_job() {
    let store = Store::local();
    let folder = store.folder.path("");
    symlink(env!("CARGO_BIN_EXE_redlock"), store.folder.path("redlock")).expect("its name");
    let job = r#"
import os, subprocess, sys
os.environ["RUNNER_TRACKING_ID"] = "github_1"
step = subprocess.run(["bash", "-e", "-c", '"$0"; true', sys.argv[1]])
print(step.returncode, flush=True)
sys.stdin.read()
"#;
    let action = concat!(env!("CARGO_MANIFEST_DIR"), "/dist/action");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let runner = Redlock::under("python3", &["-c", job, action]).env("PATH", path).env("INPUT_KEY", "deploy");
    let runner = runner.env("INPUT_WAIT", "5m").env("GITHUB_OUTPUT", store.folder.path("output"));
    let runner = runner.env("GITHUB_ENV", store.folder.path("env")).server(&store.url).open_stdin().spawn();
    store.await_holder("deploy");
    eventually(Duration::from_secs(20), "the outputs", || store.folder.path("output").exists());
    let holder = store.status("deploy")["holders"][0].clone();
    assert_eq!(holder["while_pid"], runner.pid(), "{holder}");
    let environment = fs::read(format!("/proc/{}/environ", holder["pid"])).expect("of the keeper");
    assert!(!String::from_utf8_lossy(&environment).contains("github_1"));
    assert!(fs::read_to_string(store.folder.path("output")).expect("the outputs").contains("fence="));
    let later = || fs::read_to_string(store.folder.path("env")).expect("the environment of later steps");
    eventually(Duration::from_secs(20), "the server", || later().contains("REDLOCK_SERVER=local:"));
    let job = runner.let_go().expect(0);
    assert!(job.stdout.starts_with("::add-mask::") && job.stdout.ends_with("0\n"), "{job:?}");
    eventually(Duration::from_secs(20), "a free lock", || store.status("deploy")["holders"][0].is_null());
}

/// A line feed would begin another variable in the files that the runner reads.
#[test]
fn an_input_of_two_lines_is_refused() {
    let store = Store::local();
    let action = concat!(env!("CARGO_MANIFEST_DIR"), "/dist/action");
    let step = |server: &str, wait: &str| {
        let step = Redlock::under("bash", &[action]).env("INPUT_KEY", "deploy").env("INPUT_WAIT", wait);
        step.env("GITHUB_ENV", store.folder.path("env")).server(server).run().expect(64)
    };
    for (server, wait) in [(&*format!("{}\nPATH=/tmp", store.url), "5m"), (&store.url, "5m\n--key=other")] {
        let refused = step(server, wait);
        assert!(refused.stdout.starts_with("::error::redlock: an input has a line feed"), "{refused:?}");
    }
    assert!(!store.folder.path("env").exists());
}
