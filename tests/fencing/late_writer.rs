//! A holder that is frozen and writes late.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Running, Store, children, eventually, pid_in};

/// A script of this folder, and the number that it changes.
pub trait Example {
    /// The script and its arguments before COMMAND.
    fn command(&self) -> Vec<PathBuf>;
    fn env(&self) -> Vec<(&'static str, PathBuf)>;
    fn number(&self) -> String;
    /// What a script says that does not write.
    fn refusal(&self) -> &'static str {
        "a later holder of the lock"
    }
}

/// When the first job goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// The second has written and is gone.
    AfterTheSecond,
    /// The second has read and not yet written.
    AmidTheSecond,
}

/// What came of it: how the two scripts ended, and the number.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub first: i32,
    pub second: i32,
    pub number: String,
}

impl Outcome {
    pub fn new(first: i32, second: i32, number: &str) -> Outcome {
        Outcome { first, second, number: number.to_owned() }
    }
}

/// Runs COMMAND with redlock's stdin as descriptor 3, and notes how it ended in the file "$0".
const JOB: &str = r#""$@" 3<&0; echo $? > "$0""#;

/// Reads the old number, says so in the file "$0", and prints the new one at the end of redlock's stdin.
const ADD: &str = r#"read number; echo $$ > "$0"; cat <&3 > /dev/null; echo $((number + $1))"#;

/// Starts a job that adds `amount` to the number.
pub fn start(store: &Store, example: &dyn Example, name: &str, amount: &str) -> Running {
    let path = |name: String| store.folder.path(&name).display().to_string();
    let (status, mark) = (path(format!("{name}.status")), path(name.to_owned()));
    let ttl = store.ttl(1500);
    let mut args = vec!["run", "--key", "X", "--ttl", &ttl, "--wait", "--", "sh", "-c", JOB, &status, "sh"];
    let command = example.command();
    args.extend(command.iter().map(|arg| arg.to_str().expect("UTF-8")));
    args.extend(["sh", "-c", ADD, &mark, amount]);
    let redlock = example
        .env()
        .into_iter()
        .fold(store.redlock(&args), |redlock, (name, value)| redlock.env(name, value));
    redlock.open_stdin().spawn()
}

/// Lets a job write, and returns how its script ended.
pub fn write(store: &Store, running: &mut Running, name: &str) -> i32 {
    drop(running.child.stdin.take());
    pid_in(&store.folder.path(&format!("{name}.status")))
}

/// Freezes a first job that adds 1 between reading and writing, gives the lock to a second one that adds 10,
/// and lets the first one go on.
pub fn late_write(example: &dyn Example, late: Late) -> Outcome {
    late_write_in(&Store::redis(), example, late)
}

/// The same with the lock in this store.
pub fn late_write_in(store: &Store, example: &dyn Example, late: Late) -> Outcome {
    let mut first = start(store, example, "first", "1");
    first.await_file(&store.folder.path("first"));
    let frozen = Frozen::with_all_of(&first);

    let mut second = start(store, example, "second", "10");
    second.await_file(&store.folder.path("second"));
    let mut statuses = [0, 0];
    if late == Late::AfterTheSecond {
        statuses[1] = write(store, &mut second, "second");
    }
    frozen.let_job_go_on();
    statuses[0] = write(store, &mut first, "first");
    if late == Late::AmidTheSecond {
        statuses[1] = write(store, &mut second, "second");
    }

    drop(frozen);
    let first = first.finish().expect(79);
    assert_eq!(statuses[0] != 0, first.stderr.contains(example.refusal()), "{first:?}");
    second.finish().expect(0);
    Outcome { first: statuses[0], second: statuses[1], number: example.number() }
}

/// A redlock, its guard and its job, all of them stopped, as on a machine that is frozen.
pub struct Frozen(Vec<i32>);

impl Frozen {
    pub fn with_all_of(running: &Running) -> Frozen {
        let mut frozen = Frozen(vec![running.pid()]);
        let mut next = 0;
        // Parents first: who is stopped starts nobody.
        while let Some(&pid) = frozen.0.get(next) {
            signal(pid, Signal::SIGSTOP);
            eventually(Duration::from_secs(5), "a stopped process", || is_frozen(pid));
            frozen.0.extend(children(pid));
            next += 1;
        }
        assert_eq!(frozen.0[1], running.guard());
        frozen
    }

    /// The job gets the first slice of time after the thaw: redlock and the guard get none yet.
    pub fn let_job_go_on(&self) {
        assert!(self.0.iter().all(|&pid| is_frozen(pid)), "somebody was not frozen");
        self.0[2..].iter().for_each(|&pid| signal(pid, Signal::SIGCONT));
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.0.iter().take(2).for_each(|&pid| signal(pid, Signal::SIGCONT));
    }
}

fn signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

/// Whether a process is stopped, or was quicker and waits as a zombie for its stopped parent.
fn is_frozen(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 'Z']))
}

/// A script of this folder, with changes.
pub fn script(name: &str, changes: &[(&str, &str)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fencing").join(name);
    let script = fs::read_to_string(path).expect("the script");
    changes.iter().fold(script, |script, (old, new)| {
        assert_eq!(script.matches(old).count(), 1, "{old}");
        script.replace(old, new)
    })
}
