//! A program whose execution stalls until the test lets it go on.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::eventually;

/// Every execution of a file waits, as on a file server that does not answer, until this is dropped or lets it go: see
/// FAN_OPEN_EXEC_PERM in fanotify_mark(2).
pub struct HeldUp {
    events: File,
}

fn group() -> Option<File> {
    let flags = libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
    // SAFETY: takes numbers.
    let fd = unsafe { libc::fanotify_init(flags, libc::O_RDONLY as u32) };
    // SAFETY: the kernel has just made it, and it is nobody else's.
    (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })
}

fn mark(events: &File, path: &Path) -> bool {
    let path = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
    let (add, mask) = (libc::FAN_MARK_ADD, libc::FAN_OPEN_EXEC_PERM);
    // SAFETY: the path is a string that lives through the call.
    unsafe { libc::fanotify_mark(events.as_raw_fd(), add, mask, libc::AT_FDCWD, path.as_ptr()) == 0 }
}

pub fn is_allowed() -> bool {
    group().is_some_and(|events| mark(&events, Path::new("/")))
}

impl HeldUp {
    pub fn at(path: &Path) -> HeldUp {
        let events = group().expect("fanotify_init");
        assert!(mark(&events, path), "fanotify_mark");
        HeldUp { events }
    }

    /// The pid of the next process that executes the file, which waits from here on, and what lets it go.
    pub fn next(&self) -> (i32, Held) {
        eventually(Duration::from_secs(20), "it is executed", || {
            poll(&mut [PollFd::new(self.events.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1)
        });
        let mut bytes = [0; size_of::<libc::fanotify_event_metadata>()];
        assert_eq!((&self.events).read(&mut bytes).expect("an event"), bytes.len());
        // SAFETY: the kernel wrote one, which is plain data.
        let event: libc::fanotify_event_metadata = unsafe { std::mem::transmute(bytes) };
        // SAFETY: the kernel has just made the descriptor, and it is nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(event.fd) };
        (event.pid, Held { file, events: self.events.try_clone().expect("a copy") })
    }
}

/// An execution that waits.
pub struct Held {
    file: OwnedFd,
    events: File,
}

impl Held {
    pub fn let_go(mut self) {
        let mut answer = self.file.as_raw_fd().to_ne_bytes().to_vec();
        answer.extend(libc::FAN_ALLOW.to_ne_bytes());
        // One that was killed has gone.
        let _ = self.events.write(&answer);
    }
}
