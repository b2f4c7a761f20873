//! What the command's parent tells redlock when the command ends, before the guard has looked itself. So the release of the lock
//! is under way while the guard looks for leftovers.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::protocol::ExitStatus;

/// The status of a command that has not ended. That of one that has is its exit code, or [`SIGNALED`] and the signal.
pub const RUNNING: c_int = -1;
pub const SIGNALED: c_int = 0x1000;

/// More than the digits of three pids.
const LONGEST_LIST: usize = 40;

/// How the command ended, where nothing else of the job was alive then. redlock and the guard have the same one.
#[derive(Clone, Debug)]
pub struct EndNotice(Arc<EventFd>);

impl EndNotice {
    pub fn new() -> io::Result<EndNotice> {
        Ok(EndNotice(Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?)))
    }

    /// How the command ended, if that was told.
    pub fn take(&self) -> Option<ExitStatus> {
        let value = self.0.read().ok()?;
        status_of(c_int::try_from(value).ok()? - 1)
    }

    /// Tells how the command ended. Uses no `errno`.
    pub fn tell(&self, status: c_int) {
        // An eventfd(2) with zero in it has nothing to be read.
        let _ = rustix::io::write(&self.0, &(status as u64 + 1).to_ne_bytes());
    }
}

impl AsFd for EndNotice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub fn status_of(status: c_int) -> Option<ExitStatus> {
    match status {
        ..=RUNNING => None,
        SIGNALED.. => Some(ExitStatus::Signaled(status - SIGNALED)),
        _ => Some(ExitStatus::Exited(status)),
    }
}

/// The guard's list of its children as the command's parent reads it. What the command left behind is in it.
#[derive(Debug)]
pub struct LeftoverLook {
    /// A file of its own: where two read the same one by turns, each may get halves of two numbers for one.
    children: File,
    watchdog: AtomicU32,
}

impl LeftoverLook {
    /// To be called by the guard.
    pub fn new() -> io::Result<LeftoverLook> {
        let children = File::open("/proc/thread-self/children")?;
        Ok(LeftoverLook { children, watchdog: AtomicU32::new(0) })
    }

    /// The guard has this child, which is none of the job.
    pub fn leave_out(&self, watchdog: i32) {
        self.watchdog.store(watchdog as u32, Ordering::Relaxed);
    }

    /// True if the guard has no child but the calling process, which is the command's parent, and the watchdog. To be called
    /// when the command is dead. The calling process is the oldest child and alive, so no death makes the list miss another
    /// one (see proc_pid_task_children(5)). Uses no `errno`, and takes no memory.
    pub fn finds_none(&self) -> bool {
        let mut list = [0; LONGEST_LIST];
        let Ok(length @ 1..LONGEST_LIST) = rustix::io::pread(&self.children, &mut list, 0) else {
            return false;
        };
        let known = [std::process::id(), self.watchdog.load(Ordering::Relaxed)];
        let mut pids = list[..length].split(|byte| *byte == b' ').filter(|digits| !digits.is_empty());
        pids.all(|digits| {
            let add =
                |pid: u32, digit: &u8| pid.wrapping_mul(10).wrapping_add(u32::from(digit.wrapping_sub(b'0')));
            known.contains(&digits.iter().fold(0, add))
        })
    }
}

#[test]
fn a_notice_is_taken_once() -> io::Result<()> {
    let notice = EndNotice::new()?;
    assert_eq!(notice.take(), None);
    for (status, expected) in [(0, ExitStatus::Exited(0)), (SIGNALED + 9, ExitStatus::Signaled(9))] {
        notice.tell(status);
        assert_eq!((notice.take(), notice.take()), (Some(expected), None));
    }
    Ok(())
}

#[test]
fn a_child_is_seen() -> io::Result<()> {
    let look = LeftoverLook::new()?;
    // Nothing is known of a process without children.
    assert!(!look.finds_none());
    let mut child = std::process::Command::new("sleep").arg("60").spawn()?;
    assert!(!look.finds_none());
    look.leave_out(child.id() as i32);
    assert!(look.finds_none());
    child.kill()?;
    child.wait().map(drop)
}
