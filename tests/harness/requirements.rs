//! What tests need that a machine may not allow.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, thread};

use super::Freezer;

/// Whether namespaces may be made here. Without them a test returns, and tests/run says that it did not run.
pub fn namespaces() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    let unshare = ["unshare", "--mount", "--net", "--time", "--pid", "--fork", "--mount-proc", "true"];
    *ALLOWED.get_or_init(|| succeeds(&unshare)) || not_run("namespaces")
}

/// Whether the program may be started as another user here, who reaches the folders of tests; likewise.
pub fn other_users() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    let temporary = env::temp_dir().display().to_string();
    let reach = "test -x \"$0\" && test -x \"$1\"";
    let setpriv = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", reach];
    let setpriv = [&setpriv[..], &[env!("CARGO_BIN_EXE_redlock"), &temporary]].concat();
    *ALLOWED.get_or_init(|| succeeds(&setpriv)) || not_run("other users")
}

/// Whether the execution of files may be held up here, see [`super::HeldUp`]; likewise.
pub fn held_up_executions() -> bool {
    super::stalled_exec::is_allowed() || not_run("fanotify(7) with permission events")
}

/// A cgroup to freeze. Containers have none that may be written to: without one a test returns, and no run fails for it.
pub fn freezer() -> Option<Freezer> {
    let freezer = Freezer::make();
    if freezer.is_none() {
        note("a cgroup to freeze");
    }
    freezer
}

fn succeeds(command: &[&str]) -> bool {
    let (program, args) = command.split_first().expect("a program");
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Notes the test as one that did not run. With `TESTS_ALL_REQUIRED` it fails.
fn not_run(lack: &str) -> bool {
    let line = note(lack);
    assert!(env::var_os("TESTS_ALL_REQUIRED").is_none(), "{line}");
    false
}

/// Notes the test in the file that `TESTS_NOT_RUN` names. Returns the note.
fn note(lack: &str) -> String {
    let thread = thread::current();
    let line = format!("{}: {} (needs {lack})", env!("CARGO_CRATE_NAME"), thread.name().unwrap_or_default());
    println!("not run: {line}");
    if let Some(path) = env::var_os("TESTS_NOT_RUN") {
        let file = File::options().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())).expect("a note");
    }
    line
}
