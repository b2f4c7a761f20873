use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Holding, Kind, Lease, Patience, Renewal, Store, StoreError};
use crate::clock::{BootTime, Deadline};

/// What the keeper reports while it keeps.
pub enum Progress<'a> {
    /// The lease was extended.
    Renewed(&'a Lease),
    /// The lock was gone, for at most this long, and is held again.
    Healed(&'a Lease, Duration),
    /// A renewal failed; the lease still runs.
    Failed(&'a Lease, &'a StoreError),
    /// Somebody who knows the owner token gave the lock back, and nobody else was granted it since.
    Released(&'a Lease),
    /// Another holds the lock, or was granted it since.
    Lost(&'a Lease, Option<&'a Holding>),
    /// No renewal got through in the time there was.
    Expired(&'a Lease),
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
    /// Where the thread is told something.
    tell: UnixStream,
    state: State<R>,
}

enum State<R> {
    Idle(Box<Keeping<R>>),
    Running(JoinHandle<Kept>),
}

/// Somebody who may lose patience with the release.
pub trait Hurry {
    /// Readable when it is time to ask again.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Whether the release is to be given up.
    fn is_great(&mut self) -> bool;
}

/// What the thread was told.
enum Told {
    Nothing,
    /// To renew now.
    Look,
    Finish,
}

const LOOK: u8 = b'?';
const FINISH: u8 = b'.';

/// The shortest pause between two attempts to renew.
const RETRY: Duration = Duration::from_millis(20);
/// For the release: the job has ended, somebody waits for the prompt.
const RELEASE: Duration = Duration::from_secs(2);

impl<R: FnMut(Progress) + Send + 'static> Keeper<R> {
    /// Keeps `lease` until [`Keeper::finish`]. From `reserve` before the deadline on the lease counts as
    /// expired: that is the time in which the job is stopped. `report` runs in the keeper's thread.
    ///
    /// `line` is that on which the thread is told something.
    pub fn new(
        mut store: Box<dyn Store>,
        lease: Lease,
        line: (UnixStream, UnixStream),
        reserve: Duration,
        report: R,
    ) -> Keeper<R> {
        store.settle(&lease.request);
        store.get_ready(&lease.request);
        let (tell, told) = line;
        let next = lease.renewal_due();
        let keeping = Keeping {
            store,
            lease,
            reserve,
            told,
            is_finished: false,
            next,
            backoff: RETRY,
            is_lost: false,
            report,
        };
        Keeper { tell, state: State::Idle(Box::new(keeping)) }
    }

    /// When [`Keeper::start`] is to be called; `None` when it was.
    pub fn start_at(&self) -> Option<BootTime> {
        match &self.state {
            State::Idle(keeping) => Some(keeping.next),
            State::Running(_) => None,
        }
    }

    /// Starts to renew.
    pub fn start(mut self) -> Keeper<R> {
        let State::Idle(keeping) = self.state else { return self };
        let (give, take) = mpsc::channel::<Box<Keeping<R>>>();
        let thread = thread::Builder::new().name("keeper".to_owned()).spawn(move || match take.recv() {
            Ok(mut keeping) => {
                let held = keeping.keep();
                keeping.give_back(held, None)
            }
            Err(_) => Kept::Unreleased,
        });
        self.state = match thread {
            Ok(thread) => match give.send(keeping) {
                Ok(()) => State::Running(thread),
                Err(back) => State::Idle(back.0),
            },
            // The system allows no thread: then each renewal is made here.
            Err(_) => State::Idle(keeping.renewed_once()),
        };
        self
    }

    /// Renews now: something may have happened to the lock.
    pub fn look(&mut self) {
        if let State::Running(_) = self.state {
            let _ = self.tell.write_all(&[LOOK]);
        }
    }

    /// Ends the renewals and gives the lock back if it was not borrowed, in bounded time, or until somebody is in a hurry.
    pub fn finish(self, hurry: &mut dyn Hurry) -> Kept {
        match self.state {
            State::Idle(keeping) => {
                // The end of the process closes the store, faster than a destructor.
                let keeping = Box::leak(keeping);
                let held = keeping.is_valid_to_the_end();
                keeping.give_back(held, Some(hurry))
            }
            State::Running(thread) => {
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
    /// Readable when there is something to be told.
    told: UnixStream,
    /// The end of the keeping was told.
    is_finished: bool,
    /// When to renew next.
    next: BootTime,
    backoff: Duration,
    /// The lease is lost, and that was said.
    is_lost: bool,
    report: R,
}

impl<R: FnMut(Progress)> Keeping<R> {
    /// Renews until told to finish: `true`, or until the lease is lost: `false`.
    fn keep(&mut self) -> bool {
        loop {
            if let Told::Finish = self.wait(self.next.min(self.last_chance())) {
                return self.is_valid_to_the_end();
            }
            if !self.keep_on() {
                return false;
            }
        }
    }

    /// One renewal. `false` when the lease is lost.
    fn keep_on(&mut self) -> bool {
        if self.is_lost || !self.is_valid_to_the_end() {
            return false;
        }
        let gone_for = self.lease.unconfirmed();
        let sent = BootTime::now();
        match self.renew() {
            // An answer after the last chance is too late: the job is being stopped.
            Ok(Renewal::Extended | Renewal::Healed) if self.last_chance().has_passed() => {}
            Ok(renewal @ (Renewal::Extended | Renewal::Healed)) => {
                self.lease.extend(sent);
                self.next = self.lease.renewal_due();
                self.backoff = RETRY;
                (self.report)(match renewal {
                    Renewal::Healed => Progress::Healed(&self.lease, gone_for),
                    _ => Progress::Renewed(&self.lease),
                });
            }
            Ok(Renewal::Released) => {
                self.is_lost = true;
                (self.report)(Progress::Released(&self.lease));
            }
            Ok(Renewal::Lost(holder)) => self.lose(holder.as_ref()),
            Err(StoreError::Interrupted) => self.next = BootTime::now(),
            Err(StoreError::NotALock { .. } | StoreError::OtherKind { .. }) => self.lose(None),
            Err(error) => {
                (self.report)(Progress::Failed(&self.lease, &error));
                self.next = Deadline::after(self.backoff.mul_f64(0.5 + fastrand::f64()));
                self.backoff = (self.backoff * 2).min(self.lease.request.ttl.duration() / 6).max(RETRY);
            }
        }
        !self.is_lost
    }

    fn lose(&mut self, holder: Option<&Holding>) {
        self.is_lost = true;
        (self.report)(Progress::Lost(&self.lease, holder));
    }

    /// Whether the lease runs now that its end is asked for; that it does not is said once.
    fn is_valid_to_the_end(&mut self) -> bool {
        if !self.is_lost && self.last_chance().has_passed() {
            self.is_lost = true;
            (self.report)(Progress::Expired(&self.lease));
        }
        !self.is_lost
    }

    /// One renewal, where there is no thread for them.
    fn renewed_once(mut self: Box<Self>) -> Box<Self> {
        if !self.keep_on() {
            self.next = BootTime::from_nanos(u64::MAX);
        }
        self
    }

    /// After a lost lock the release does no harm (it compares the owner token), and behind a
    /// renewal that a hung server still has to carry out it takes back what that renewal took.
    fn give_back(&mut self, held: bool, mut hurry: Option<&mut dyn Hurry>) -> Kept {
        if !held && hurry.is_none() {
            while !matches!(self.wait(BootTime::from_nanos(u64::MAX)), Told::Finish) {}
        }
        if self.lease.is_borrowed {
            return if held { Kept::Borrowed } else { Kept::Lost };
        }
        let request = self.lease.request.clone();
        let give_up = Deadline::after(RELEASE);
        // After a first request without an answer, "not held" may mean that it was carried out.
        let mut is_unsure = false;
        loop {
            let interrupt = hurry.as_ref().map(|hurry| hurry.as_fd());
            match self.store.release(&request.key, &request.token, &Patience { until: give_up, interrupt }) {
                _ if !held => return Kept::Lost,
                Ok(false) if !is_unsure && request.kind == Kind::Exclusive => return self.not_released(),
                Ok(_) => return Kept::Released,
                Err(StoreError::Unreachable { .. }) if !give_up.has_passed() => thread::sleep(RETRY),
                Err(StoreError::Interrupted) if hurry.as_mut().is_some_and(|hurry| !hurry.is_great()) => {}
                Err(_) => return Kept::Unreleased,
            }
            is_unsure = true;
        }
    }

    /// The lock was not ours any more at the end: lost, if another holds it now.
    fn not_released(&mut self) -> Kept {
        let keys = std::slice::from_ref(&self.lease.request.key);
        let status = self.store.status(keys, &Patience::of(RELEASE)).unwrap_or_default();
        match status.first().and_then(|lock| lock.holders.first()) {
            Some(holder) => {
                self.lose(Some(holder));
                Kept::Lost
            }
            None => Kept::Released,
        }
    }

    fn renew(&mut self) -> Result<Renewal, StoreError> {
        // A sixth of the TTL for one attempt leaves time for others on a new connection.
        let attempt = Deadline::after((self.lease.request.ttl.duration() / 6).max(RETRY));
        let patience =
            Patience { until: attempt.min(self.last_chance()), interrupt: Some(self.told.as_fd()) };
        self.store.renew(&self.lease.request, Some(self.lease.fence), &patience)
    }

    fn last_chance(&self) -> Deadline {
        self.lease.deadline().minus(self.reserve)
    }

    /// Waits until `until`, or until told something.
    fn wait(&mut self, until: Deadline) -> Told {
        if self.is_finished {
            return Told::Finish;
        }
        loop {
            // poll(2) rounds down to milliseconds; one more keeps the loop from spinning.
            let millis = until.left().as_millis().saturating_add(1).min(60_000) as u16;
            let timeout = if until.has_passed() { PollTimeout::ZERO } else { PollTimeout::from(millis) };
            let ready = poll(&mut [PollFd::new(self.told.as_fd(), PollFlags::POLLIN)], timeout);
            if ready == Ok(1) {
                let mut word = [0];
                return match self.told.read(&mut word) {
                    Ok(1) if word[0] == LOOK => Told::Look,
                    _ => {
                        self.is_finished = true;
                        Told::Finish
                    }
                };
            }
            if until.has_passed() {
                return Told::Nothing;
            }
        }
    }
}
