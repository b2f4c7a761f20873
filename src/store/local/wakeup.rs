//! The FIFOs that wake waiters and show their death, also across namespaces.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use libc::{ENOENT, ENXIO, O_NOFOLLOW, O_NONBLOCK};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use uuid::Uuid;

use super::liveness::Processes;
use crate::clock::Deadline;
use crate::lock::{Result, StoreError, Timeout};

/// A FIFO beside the file on which a waiter is woken. Only users who may use the file can write to it, from whatever
/// namespace. The kernel closes it when its waiter dies, which others see as well.
pub struct WakeFifo {
    fifo: File,
    /// By which others find it: it is stored with the place in the queue.
    pub name: Uuid,
    path: PathBuf,
}

pub fn fifo_path(file: &Path, name: &Uuid) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(format!("-waiter-{}", name.simple()));
    path.into()
}

impl WakeFifo {
    /// A FIFO of a random name beside `file`, with its permissions.
    pub fn create(file: &Path) -> io::Result<WakeFifo> {
        let name = Uuid::new_v4();
        let path = fifo_path(file, &name);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        let open = || {
            // For writing as well: so the last writer does not leave an end of file.
            let fifo = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(O_NONBLOCK | O_NOFOLLOW)
                .open(&path)?;
            let group = fs::metadata(file)?.permissions().mode() & 0o060;
            // In a folder that is shared, another may have put something else there.
            if !fifo.metadata()?.file_type().is_fifo() {
                return Err(io::Error::other("somebody has replaced it"));
            }
            if group != 0 {
                fifo.set_permissions(fs::Permissions::from_mode(0o600 | group))?;
            }
            Ok(fifo)
        };
        match open() {
            Ok(fifo) => Ok(WakeFifo { fifo, name, path }),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Others find it: not after the place was taken out of the queue.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Waits until somebody writes, all processes of one of the holders are dead, one ahead in line is gone, or
    /// it is time to ask: `true`; `false` when the timeout ends first. The only error is [`StoreError::Interrupted`].
    pub fn wait(&self, watched: &Awaited, ask_at: Deadline, timeout: &Timeout) -> Result<bool> {
        let mut processes: Vec<OwnedFd> = watched.holders.iter().flat_map(Processes::watch).collect();
        loop {
            // Freed by the death of the last of a holder's processes: redlock and its guard.
            if watched.holders.iter().any(Processes::are_dead) {
                return Ok(true);
            }
            let until = timeout.until.min(ask_at);
            let fds = [Some(self.fifo.as_fd()), timeout.interrupt].into_iter().flatten();
            let fds = fds.chain(watched.ahead.iter().map(AsFd::as_fd));
            let fds = fds.chain(processes.iter().map(|fd| fd.as_fd()));
            let mut polled: Vec<PollFd> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            let _ = poll(&mut polled, until.poll_timeout());
            let mut ready = polled.iter().map(|fd| fd.any().unwrap_or(false));
            if ready.next() == Some(true) {
                while (&self.fifo).read(&mut [0; 64]).is_ok_and(|length| length > 0) {}
                return Ok(true);
            }
            if timeout.interrupt.is_some() && ready.next() == Some(true) {
                return Err(StoreError::Interrupted);
            }
            // The end for writing fails when nobody reads any more.
            let ahead: Vec<bool> = ready.by_ref().take(watched.ahead.len()).collect();
            if ahead.contains(&true) {
                return Ok(true);
            }
            let mut dead = ready.collect::<Vec<bool>>().into_iter();
            processes.retain(|_| !dead.next().unwrap_or(false));
            if ask_at.has_passed() {
                return Ok(true);
            }
            if timeout.until.has_passed() {
                return Ok(false);
            }
        }
    }
}

impl Drop for WakeFifo {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The descriptors that a waiter watches beside its FIFO.
#[derive(Default)]
pub struct Awaited {
    /// The processes of the holders while we are the first in line: their death frees the lock at once.
    pub holders: Vec<Processes>,
    /// The FIFO of the last one ahead of us in each queue.
    pub ahead: Vec<File>,
}

/// Opens a FIFO for writing: `None` when its waiter is dead, an error when that cannot be seen.
pub fn open_fifo(fifo: &Path) -> io::Result<Option<File>> {
    match OpenOptions::new().write(true).custom_flags(O_NONBLOCK | O_NOFOLLOW).open(fifo) {
        Ok(fifo) => Ok(Some(fifo)),
        Err(error) if matches!(error.raw_os_error(), Some(ENXIO | ENOENT)) => Ok(None),
        Err(error) => Err(error),
    }
}
