//! A process by its pid: what /proc says of it, and signals to it.

use std::ffi::c_int;
use std::fs;

use nix::errno::Errno;

/// True if the process with this pid is an ancestor of this one.
pub fn is_below(ancestor: u32) -> bool {
    let mut pid = std::process::id();
    while pid > 1 && pid != ancestor {
        let parent = stat(pid as i32).and_then(|fields| fields.split(' ').nth(1)?.parse().ok());
        pid = parent.unwrap_or(0);
    }
    pid == ancestor
}

/// True if a child of this process is stopped, by a signal or a debugger.
pub fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| stat.starts_with(['T', 't']))
}

/// True if no signal can wake a process now, or its cgroup is frozen. In a hierarchy of version 1 a
/// frozen process shows the same state, and SIGKILL waits for the thaw; see the kernel's documentation of both versions.
pub fn is_frozen(pid: i32) -> bool {
    let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let group = group.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let events = fs::read_to_string(format!("/sys/fs/cgroup{group}/cgroup.events")).unwrap_or_default();
    stat(pid).is_some_and(|stat| stat.starts_with('D')) || events.lines().any(|event| event == "frozen 1")
}

/// True unless a process is dead.
pub fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| !stat.starts_with(['Z', 'X']))
}

/// Wakes a process that blocks all signals, if it is stopped or cannot be looked at. True if SIGCONT was sent,
/// and is pending for it now.
pub fn wake_blocked(pid: i32) -> bool {
    stat(pid).is_none_or(|stat| stat.starts_with('T')) && send(pid, libc::SIGCONT)
}

/// True if this process blocks the signal and has got it.
pub fn has_pending(pid: i32, signal: c_int) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut masks = status
        .lines()
        .filter_map(|line| line.strip_prefix("SigPnd:\t").or_else(|| line.strip_prefix("ShdPnd:\t")));
    masks.any(|mask| u64::from_str_radix(mask, 16).is_ok_and(|mask| mask >> (signal - 1) & 1 == 1))
}

/// The fields of proc_pid_stat(5) from the third on; the second, in parentheses, may contain anything.
fn stat(pid: i32) -> Option<String> {
    if !exists(pid) {
        return None;
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ").map(|(_, fields)| fields.to_owned())
}

/// False for a process or thread that is gone. Do not look for its folder in /proc: the dying process may be in the middle
/// of removing it, and the kernel makes others wait for that in a busy loop (`shrink_dcache_parent`, Linux 6.18). A guard
/// with a real-time priority keeps the processor from the dying process in that loop: one look took 0.09 s.
pub fn exists(pid: i32) -> bool {
    // SAFETY: kill takes any numbers, and without a signal it only looks.
    unsafe { libc::kill(pid, 0) == 0 || Errno::last() != Errno::ESRCH }
}

/// Sends `signal` to one process. False if the process has gone.
pub fn send(pid: i32, signal: c_int) -> bool {
    // SAFETY: kill takes any numbers. The pid is a child's or was just read from /proc, and a
    // child that was not waited for keeps its pid.
    unsafe { libc::kill(pid, signal) == 0 }
}

/// Sends `signal` to a process that may be stopped.
pub fn send_and_wake(pid: i32, signal: c_int) {
    send(pid, signal);
    send(pid, libc::SIGCONT);
}

/// The name of a process, as `ps` shows it.
pub fn name_of(pid: i32) -> Option<String> {
    let comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&comm).trim_end().to_owned())
}

/// A signal stops it as a debugger does. The test of a guard that is given up uses a debugger: a guard that is awake for a
/// moment does its work.
#[test]
fn a_signal_stops_a_process() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
    let pid = child.id() as i32;
    assert!(!is_stopped(pid));
    send(pid, libc::SIGSTOP);
    let stopped = nix::sys::wait::waitpid(
        nix::unistd::Pid::from_raw(pid),
        Some(nix::sys::wait::WaitPidFlag::WUNTRACED),
    );
    let was_seen = is_stopped(pid);
    child.kill().and_then(|()| child.wait()).expect("its end");
    assert!(matches!(stopped, Ok(nix::sys::wait::WaitStatus::Stopped(..))) && was_seen, "{stopped:?}");
}
