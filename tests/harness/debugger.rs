//! A process held as by a debugger: SIGCONT does not wake it.

use std::time::Duration;
use std::{fs, io};

use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::eventually;

const LIMIT: Duration = Duration::from_secs(60);

/// Stops a process until the end of this thread.
pub fn freeze(pid: i32) {
    interrupt(pid);
    await_freeze(pid);
}

/// Stops it when it comes out of the system call in which it is.
pub fn interrupt(pid: i32) {
    for request in [libc::PTRACE_SEIZE, libc::PTRACE_INTERRUPT] {
        // SAFETY: these requests read and write no memory.
        let done = unsafe { libc::ptrace(request, pid, 0, 0) };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
    }
}

pub fn await_freeze(pid: i32) {
    eventually(LIMIT, "it stops", || {
        fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| status.contains("State:\tt"))
    });
}

/// Waits until somebody traces it, as strace(1) does.
pub fn await_tracer(pid: i32) {
    eventually(LIMIT, "it is traced", || {
        fs::read_to_string(format!("/proc/{pid}/status"))
            .is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
    });
}

/// Its death is this thread's to see first: its parent waits for that.
pub fn await_death(pid: i32) {
    let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
    eventually(LIMIT, "its death", || {
        matches!(waitpid(Pid::from_raw(pid), Some(flags)), Ok(WaitStatus::Signaled(..)) | Err(_))
    });
}
