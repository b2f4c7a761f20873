use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Holding, Lease, Patience, Renewal, Store, StoreError};
use crate::clock::{BootTime, Deadline};

/// What the keeper reports while it keeps.
pub enum Progress<'a> {
    /// The lease was extended.
    Renewed(&'a Lease),
    /// The lock was gone, for at most this long, and is held again.
    Healed(&'a Lease, Duration),
    /// A renewal failed; the lease still runs.
    Failed(&'a Lease, &'a StoreError),
    /// Another holds the lock, or was granted it since.
    Lost(&'a Lease, Option<&'a Holding>),
    /// No renewal got through in the time there was.
    Expired,
}

/// How the keeping ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Kept {
    /// The lease was valid to the end, and the lock was given back.
    Released,
    /// The lease was valid to the end, and whether the lock was given back is unknown: it is free
    /// when the lease ends.
    Unreleased,
    /// The lease was valid to the end, and goes on: it was borrowed.
    Borrowed,
    Lost,
}

/// Renews a lease, and is the only one who talks to the store while it does: so no renewal can follow the
/// release (redisson issue 7272).
///
/// Before the first renewal is due there is nothing to do; only then a thread is started, which most jobs
/// do not live to see.
pub struct Keeper<R> {
    state: State<R>,
}

enum State<R> {
    Idle(Box<Keeping<R>>),
    Running {
        thread: JoinHandle<Kept>,
        /// Readable in the thread when the keeping is to end.
        finish: UnixStream,
    },
}

/// Somebody who may lose patience with the release.
pub trait Hurry {
    /// Readable when it is time to ask again.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Whether the release is to be given up.
    fn is_great(&mut self) -> bool;
}

/// The shortest pause between two attempts to renew.
const RETRY: Duration = Duration::from_millis(20);
/// For the release: the job has ended, somebody waits for the prompt.
const RELEASE: Duration = Duration::from_secs(2);

impl<R: FnMut(Progress) + Send + 'static> Keeper<R> {
    /// Keeps `lease` until [`Keeper::finish`]. From `reserve` before the deadline on the lease counts as
    /// expired: that is the time in which the job is stopped. `report` runs in the keeper's thread.
    pub fn new(mut store: Box<dyn Store>, lease: Lease, reserve: Duration, report: R) -> Keeper<R> {
        store.settle(&lease.request);
        store.get_ready();
        Keeper { state: State::Idle(Box::new(Keeping { store, lease, reserve, finished: None, report })) }
    }

    /// When [`Keeper::start`] is to be called; `None` when it was.
    pub fn start_at(&self) -> Option<BootTime> {
        match &self.state {
            State::Idle(keeping) => Some(keeping.lease.renewal_due()),
            State::Running { .. } => None,
        }
    }

    /// Starts to renew.
    pub fn start(self) -> std::io::Result<Keeper<R>> {
        let State::Idle(mut keeping) = self.state else { return Ok(self) };
        let (finish, finished) = UnixStream::pair()?;
        finish.set_nonblocking(true)?;
        keeping.finished = Some(finished);
        let thread = thread::Builder::new().name("keeper".to_owned()).spawn(move || {
            let held = keeping.keep();
            keeping.give_back(held, None)
        })?;
        Ok(Keeper { state: State::Running { thread, finish } })
    }

    /// Ends the renewals and gives the lock back if it was not borrowed, in bounded time, or until somebody is in a hurry.
    pub fn finish(self, hurry: &mut dyn Hurry) -> Kept {
        match self.state {
            State::Idle(keeping) => {
                // The end of the process closes the store, faster than a destructor.
                let keeping = Box::leak(keeping);
                let held = !keeping.last_chance().has_passed();
                keeping.give_back(held, Some(hurry))
            }
            State::Running { thread, mut finish } => {
                // A thread that is gone has closed its end; then there is nobody to tell.
                let _ = finish.write_all(b".");
                loop {
                    let closed = PollFd::new(finish.as_fd(), PollFlags::POLLIN);
                    let hurried = PollFd::new(hurry.as_fd(), PollFlags::POLLIN);
                    let _ = poll(&mut [closed, hurried], PollTimeout::NONE);
                    // The thread closes its end last.
                    match finish.read(&mut [0]) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {
                            if hurry.is_great() {
                                return Kept::Unreleased;
                            }
                        }
                        _ => return thread.join().unwrap_or(Kept::Unreleased),
                    }
                }
            }
        }
    }
}

struct Keeping<R> {
    store: Box<dyn Store>,
    lease: Lease,
    reserve: Duration,
    /// Readable when the keeping is to end; none while nothing is renewed.
    finished: Option<UnixStream>,
    report: R,
}

impl<R: FnMut(Progress)> Keeping<R> {
    /// Renews until told to finish: `true`, or until the lease is lost: `false`.
    fn keep(&mut self) -> bool {
        let mut next = self.lease.renewal_due();
        let mut backoff = RETRY;
        loop {
            if self.told_to_finish(next.min(self.last_chance())) {
                return !self.last_chance().has_passed();
            }
            if self.last_chance().has_passed() {
                (self.report)(Progress::Expired);
                return false;
            }
            let gone_for = self.lease.unconfirmed();
            let sent = BootTime::now();
            match self.renew() {
                // An answer after the last chance is too late: the job is being stopped.
                Ok(Renewal::Extended | Renewal::Healed) if self.last_chance().has_passed() => continue,
                Ok(renewal @ (Renewal::Extended | Renewal::Healed)) => {
                    self.lease.extend(sent);
                    next = self.lease.renewal_due();
                    backoff = RETRY;
                    (self.report)(match renewal {
                        Renewal::Healed => Progress::Healed(&self.lease, gone_for),
                        _ => Progress::Renewed(&self.lease),
                    });
                }
                Ok(Renewal::Lost(holder)) => {
                    (self.report)(Progress::Lost(&self.lease, holder.as_ref()));
                    return false;
                }
                Err(StoreError::Interrupted) => next = BootTime::now(),
                Err(StoreError::NotALock { .. } | StoreError::OtherKind { .. }) => {
                    (self.report)(Progress::Lost(&self.lease, None));
                    return false;
                }
                Err(error) => {
                    (self.report)(Progress::Failed(&self.lease, &error));
                    next = Deadline::after(backoff.mul_f64(0.5 + fastrand::f64()));
                    backoff = (backoff * 2).min(self.lease.request.ttl.duration() / 6).max(RETRY);
                }
            }
        }
    }

    /// After a lost lock the release does no harm (it compares the owner token), and behind a
    /// renewal that a hung server still has to carry out it takes back what that renewal took.
    fn give_back(&mut self, held: bool, mut hurry: Option<&mut dyn Hurry>) -> Kept {
        if !held {
            self.told_to_finish(BootTime::from_nanos(u64::MAX));
        }
        if self.lease.is_borrowed {
            return if held { Kept::Borrowed } else { Kept::Lost };
        }
        let request = &self.lease.request;
        let give_up = Deadline::after(RELEASE);
        loop {
            let interrupt = hurry.as_ref().map(|hurry| hurry.as_fd());
            match self.store.release(&request.key, &request.token, &Patience { until: give_up, interrupt }) {
                _ if !held => return Kept::Lost,
                Ok(_) => return Kept::Released,
                Err(StoreError::Unreachable { .. }) if !give_up.has_passed() => thread::sleep(RETRY),
                Err(StoreError::Interrupted) if hurry.as_mut().is_some_and(|hurry| !hurry.is_great()) => {}
                Err(_) => return Kept::Unreleased,
            }
        }
    }

    fn renew(&mut self) -> Result<Renewal, StoreError> {
        // A sixth of the TTL for one attempt leaves time for others on a new connection.
        let attempt = Deadline::after((self.lease.request.ttl.duration() / 6).max(RETRY));
        let patience = Patience {
            until: attempt.min(self.last_chance()),
            interrupt: self.finished.as_ref().map(AsFd::as_fd),
        };
        self.store.renew(&self.lease.request, Some(self.lease.fence), &patience)
    }

    fn last_chance(&self) -> Deadline {
        self.lease.deadline().minus(self.reserve)
    }

    /// Waits until `until`, or until told to finish: then `true`.
    fn told_to_finish(&self, until: Deadline) -> bool {
        let Some(finished) = &self.finished else { return true };
        loop {
            // poll(2) rounds down to milliseconds; one more keeps the loop from spinning.
            let millis = until.left().as_millis().saturating_add(1).min(60_000) as u16;
            let timeout = if until.has_passed() { PollTimeout::ZERO } else { PollTimeout::from(millis) };
            let ready = poll(&mut [PollFd::new(finished.as_fd(), PollFlags::POLLIN)], timeout);
            if ready == Ok(1) {
                return true;
            }
            if until.has_passed() {
                return false;
            }
        }
    }
}
