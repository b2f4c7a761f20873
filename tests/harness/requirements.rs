//! What tests need that a machine may not allow.

use std::fs::{self, File};
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

/// A processor that sessions share before their processes do (autogroups, see sched(7)). The kernel decides that, so a test
/// returns without it, and no run fails.
pub fn autogroups() -> bool {
    let setting = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    or_note(setting.is_ok_and(|setting| setting.trim() == "1"), "autogroups of the scheduler")
}

/// A nice value of -20 for our processes: a container's root may lack CAP_SYS_NICE. Likewise.
pub fn first_nice_value() -> bool {
    let nice = Command::new("nice").args(["-n", "-20", "nice"]).output().expect("nice(1)");
    or_note(nice.stdout == b"-20\n", "a nice value of -20")
}

/// Real-time processes of ours, started as these words say. Likewise.
pub fn real_time(words: &[&str]) -> bool {
    or_note(succeeds(&[words, &["chrt", "-f", "2", "true"]].concat()), "real-time processes")
}

/// A kernel that grants a time slice (Linux 6.12), and shows it. Likewise.
pub fn time_slices() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("proc(5)");
    let version: Vec<u32> = release.split(['.', '-']).map_while(|number| number.parse().ok()).collect();
    let is_shown = fs::read_to_string("/proc/self/sched").is_ok_and(|sched| sched.contains("\nse.slice "));
    or_note(version >= vec![6, 12] && is_shown, "time slices as Linux 6.12 has them")
}

/// A cgroup to freeze. Containers have none that may be written to: without one a test returns, and no run fails for it.
pub fn freezer() -> Option<Freezer> {
    let freezer = Freezer::make();
    or_note(freezer.is_some(), "a cgroup to freeze");
    freezer
}

fn or_note(is_there: bool, what: &str) -> bool {
    if !is_there {
        note(what);
    }
    is_there
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
