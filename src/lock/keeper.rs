use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::renewal::{Cancellation, FINISH, LOOK, LeaseEnd, Progress, Renewals};
use super::{Lease, Store};
use crate::clock::BootTime;

/// Renews leases that are needed together, and is the only one who talks to the store while it does: so no
/// renewal can follow the release (redisson issue 7272).
///
/// Before the first renewal is due there is nothing to do; only then a thread is started, which most jobs
/// do not live to see.
pub struct Keeper<R> {
    /// Where the thread is told something.
    tell: UnixStream,
    state: KeeperState<R>,
}

enum KeeperState<R> {
    Idle(Box<Renewals<R>>),
    Running(JoinHandle<LeaseEnd>),
}

impl<R: FnMut(Progress) + Send + 'static> Keeper<R> {
    /// Keeps `leases` until [`Keeper::finish`]. From `reserve` before its deadline on a lease counts as
    /// expired: that is the time in which the job is stopped. `report` runs in the keeper's thread.
    ///
    /// `line` is that on which the thread is told something.
    ///
    /// To be called when nothing is urgent any more, for the store is asked here: to tell the next in line, and to
    /// get ready for the release.
    pub fn new(
        mut store: Box<dyn Store>,
        leases: Vec<Lease>,
        line: (UnixStream, UnixStream),
        reserve: Duration,
        report: R,
    ) -> Keeper<R> {
        store.on_idle();
        let (tell, told) = line;
        let keeping = Renewals::new(store, leases, told, reserve, report);
        Keeper { tell, state: KeeperState::Idle(Box::new(keeping)) }
    }

    /// When [`Keeper::start`] is to be called; `None` when it was.
    pub fn start_at(&self) -> Option<BootTime> {
        match &self.state {
            KeeperState::Idle(keeping) => Some(keeping.renews_at()),
            KeeperState::Running(_) => None,
        }
    }

    /// Starts to renew.
    pub fn start(mut self) -> Keeper<R> {
        let KeeperState::Idle(keeping) = self.state else { return self };
        let (give, take) = mpsc::channel::<Box<Renewals<R>>>();
        let thread = thread::Builder::new().name("keeper".to_owned()).spawn(move || match take.recv() {
            Ok(mut keeping) => {
                keeping.keep();
                keeping.give_back(None)
            }
            Err(_) => LeaseEnd::Unreleased,
        });
        self.state = match thread {
            Ok(thread) => match give.send(keeping) {
                Ok(()) => KeeperState::Running(thread),
                Err(back) => KeeperState::Idle(back.0),
            },
            // The system allows no thread: then each renewal is made here.
            Err(_) => KeeperState::Idle(keeping.renewed_once()),
        };
        self
    }

    /// Renews now: something may have happened to the lock.
    pub fn look(&mut self) {
        if let KeeperState::Running(_) = self.state {
            let _ = self.tell.write_all(&[LOOK]);
        }
    }

    /// Ends the renewals and gives back what was not borrowed, in bounded time, or until somebody is in a
    /// hurry.
    pub fn finish(self, hurry: &mut dyn Cancellation) -> LeaseEnd {
        match self.state {
            KeeperState::Idle(keeping) => {
                // The end of the process closes the store, faster than a destructor.
                let keeping = Box::leak(keeping);
                keeping.give_back(Some(hurry))
            }
            KeeperState::Running(thread) => {
                let mut tell = self.tell;
                let _ = tell.set_nonblocking(true);
                // A thread that is gone has closed its end; then there is nobody to tell.
                let _ = tell.write_all(&[FINISH]);
                loop {
                    let closed = PollFd::new(tell.as_fd(), PollFlags::POLLIN);
                    let hurried = PollFd::new(hurry.as_fd(), PollFlags::POLLIN);
                    let _ = poll(&mut [closed, hurried], PollTimeout::NONE);
                    // The thread closes its end last.
                    match tell.read(&mut [0]) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {
                            if hurry.is_great() {
                                return LeaseEnd::Unreleased;
                            }
                        }
                        _ => return thread.join().unwrap_or(LeaseEnd::Unreleased),
                    }
                }
            }
        }
    }
}
