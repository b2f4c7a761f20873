//! The descendants of this process, and signals to them.

use std::collections::HashSet;
use std::ffi::c_int;
use std::time::Duration;
use std::{fs, io, thread};

use nix::errno::Errno;
use nix::unistd::{Pid, getpgid};

use super::wire::Status;

/// The name of guard processes in `ps` and /proc. Not "redlock-…", so that `killall redlock` and
/// `pkill redlock` leave the guard to do its work.
pub const GUARD_NAME: &std::ffi::CStr = c"lock-guard";

/// An error where the children of a process cannot be seen, so that none of them could be killed.
pub fn check_sight() -> io::Result<()> {
    let path = "/proc/thread-self/children";
    let why = |error| {
        let why = format!(
            "cannot see the processes of a job: {path}: {error}; mount /proc, of a kernel with CONFIG_PROC_CHILDREN"
        );
        io::Error::other(why)
    };
    fs::read(path).map(drop).map_err(why)
}

/// Which descendants a signal goes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All of them.
    Everything,
    /// Not below the guard of another redlock in the job: that one passes signals on itself, and
    /// its job would get them twice.
    OwnJob,
}

/// Sends `signal` to the descendants of this process, parents first.
pub fn signal_all(signal: c_int, reach: Reach) {
    for pid in descendants(reach) {
        send(pid, signal);
    }
}

/// Whether the process with this pid is an ancestor of this one.
pub fn is_below(ancestor: u32) -> bool {
    let mut pid = std::process::id();
    while pid > 1 && pid != ancestor {
        // The fourth field of proc_pid_stat(5); the second, in parentheses, may contain anything.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(1)?.parse().ok());
        pid = parent.unwrap_or(0);
    }
    pid == ancestor
}

/// Sends `signal` to the descendants that are in another process group than `group`, as [`Reach::OwnJob`].
pub fn signal_outside(group: Pid, signal: c_int) {
    for pid in descendants(Reach::OwnJob) {
        if getpgid(Some(Pid::from_raw(pid))).is_ok_and(|its| its != group) {
            send(pid, signal);
        }
    }
}

/// Sends `signal` to one process; that it is gone already is no error.
pub fn send(pid: i32, signal: c_int) {
    // SAFETY: kill takes any numbers. The pid is a child's or was just read from /proc, and a
    // child that was not waited for keeps its pid.
    unsafe { libc::kill(pid, signal) };
}

/// What [`reap`] found.
pub enum Reaped {
    Died(i32, Status),
    /// No death to report, but there are children.
    Alive,
    Childless,
}

/// Waits for a child that is dead, without blocking.
///
/// Not by nix: its `waitpid` loses the death by a real-time signal (`Signal` has none of them).
pub fn reap() -> Reaped {
    let mut status = 0;
    loop {
        // SAFETY: the pointer is to a c_int that lives through the call.
        match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
            0 => return Reaped::Alive,
            pid if pid > 0 && libc::WIFEXITED(status) => {
                return Reaped::Died(pid, Status::Exited(libc::WEXITSTATUS(status)));
            }
            pid if pid > 0 && libc::WIFSIGNALED(status) => {
                return Reaped::Died(pid, Status::Signaled(libc::WTERMSIG(status)));
            }
            -1 if Errno::last() == Errno::ECHILD => return Reaped::Childless,
            _ => {}
        }
    }
}

/// Kills every descendant and waits for the death of all, however often they fork: the orphans of a
/// killed process become children of this one, which is their subreaper. `died` sees each death.
pub fn kill_all(mut died: impl FnMut(i32, Status)) {
    let mut pause = Duration::from_micros(100);
    loop {
        signal_all(libc::SIGKILL, Reach::Everything);
        loop {
            match reap() {
                Reaped::Died(pid, status) => died(pid, status),
                Reaped::Alive => break,
                Reaped::Childless => return,
            }
        }
        // Killed but not dead yet, or not ours to kill (a set-user-ID program): look again.
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn descendants(reach: Reach) -> Vec<i32> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut parents = vec![Pid::this().as_raw()];
    while let Some(parent) = parents.pop() {
        for child in children(parent) {
            if !seen.insert(child) || (reach == Reach::OwnJob && is_guard(child)) {
                continue;
            }
            found.push(child);
            parents.push(child);
        }
    }
    found
}

/// `/proc/PID/task/TID/children` for every thread, see proc_pid_task_children(5).
fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn is_guard(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .is_ok_and(|comm| comm.trim_end().as_bytes() == GUARD_NAME.to_bytes())
}
