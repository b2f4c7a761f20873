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
    /// The leases were extended.
    Renewed(&'a [Lease]),
    /// The lock was gone, for at most this long, and is held again.
    Healed(&'a Lease, Duration),
    /// A renewal failed; the leases still run.
    Failed(&'a Lease, &'a StoreError),
    /// Somebody who knows the owner token gave the lock back, and nobody else was granted it since.
    Released(&'a Lease),
    /// Another holds the lock, or was granted it since.
    Lost(&'a Lease, Option<&'a Holding>),
    /// No renewal got through in the time there was.
    Expired(&'a Lease),
}

/// How the keeping ended, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// The leases were valid to the end, and go on: they were borrowed.
    Borrowed,
    /// The leases were valid to the end, and the locks were given back, but for borrowed ones.
    Released,
    /// The leases were valid to the end, and whether the locks were given back is unknown: they are
    /// free when the leases end.
    Unreleased,
    Lost,
}

/// Renews leases that are needed together, and is the only one who talks to the store while it does: so no
/// renewal can follow the release (redisson issue 7272).
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
    /// Keeps `leases` until [`Keeper::finish`]. From `reserve` before its deadline on a lease counts as
    /// expired: that is the time in which the job is stopped. One that is lost ends the keeping of all.
    /// `report` runs in the keeper's thread.
    ///
    /// `line` is that on which the thread is told something.
    pub fn new(
        mut store: Box<dyn Store>,
        leases: Vec<Lease>,
        line: (UnixStream, UnixStream),
        reserve: Duration,
        report: R,
    ) -> Keeper<R> {
        store.settle();
        store.get_ready();
        let (tell, told) = line;
        let mut keeping = Keeping {
            store,
            leases,
            reserve,
            told,
            is_finished: false,
            next: BootTime::NEVER,
            backoff: RETRY,
            is_lost: false,
            report,
        };
        keeping.schedule();
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
                keeping.keep();
                keeping.give_back(None)
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

    /// Ends the renewals and gives back what was not borrowed, in bounded time, or until somebody is in a
    /// hurry.
    pub fn finish(self, hurry: &mut dyn Hurry) -> Kept {
        match self.state {
            State::Idle(keeping) => {
                // The end of the process closes the store, faster than a destructor.
                let keeping = Box::leak(keeping);
                keeping.is_valid_to_the_end();
                keeping.give_back(Some(hurry))
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
    /// In the order in which they were taken.
    leases: Vec<Lease>,
    reserve: Duration,
    /// Readable when there is something to be told.
    told: UnixStream,
    /// The end of the keeping was told.
    is_finished: bool,
    /// When to renew next.
    next: BootTime,
    backoff: Duration,
    /// A lease is lost, and that was said.
    is_lost: bool,
    report: R,
}

impl<R: FnMut(Progress)> Keeping<R> {
    /// Renews until told to finish, or until a lease is lost.
    fn keep(&mut self) {
        while !matches!(self.wait(self.next.min(self.last_chance())), Told::Finish) {
            if !self.keep_on() {
                return;
            }
        }
        self.is_valid_to_the_end();
    }

    /// Renews every lease once, or until a renewal fails. `false` when a lease is lost.
    fn keep_on(&mut self) -> bool {
        if self.is_valid_to_the_end() && (0..self.leases.len()).all(|index| self.extend(index)) {
            self.schedule();
            self.backoff = RETRY;
            (self.report)(Progress::Renewed(&self.leases));
        }
        !self.is_lost
    }

    /// One renewal of one lease. `false` when it is not extended.
    fn extend(&mut self, index: usize) -> bool {
        let sent = BootTime::now();
        let renewal = self.renew(index);
        let is_late = self.last_chance().has_passed();
        let lease = &mut self.leases[index];
        match renewal {
            // An answer after the last chance is too late: the job is being stopped.
            Ok(Renewal::Extended | Renewal::Healed) if is_late => return false,
            Ok(Renewal::Extended) => {
                lease.extend(sent);
                return true;
            }
            Ok(Renewal::Healed) => {
                let gone_for = sent.since(lease.renewed());
                lease.extend(sent);
                (self.report)(Progress::Healed(lease, gone_for));
                return true;
            }
            Ok(Renewal::Released) => {
                self.is_lost = true;
                (self.report)(Progress::Released(lease));
            }
            Ok(Renewal::Lost(holder)) => self.lose(index, holder.as_ref()),
            Err(StoreError::Interrupted) => self.next = BootTime::now(),
            Err(StoreError::NotALock { .. } | StoreError::OtherKind { .. }) => self.lose(index, None),
            Err(error) => {
                (self.report)(Progress::Failed(lease, &error));
                self.next = Deadline::after(self.backoff.mul_f64(0.5 + fastrand::f64()));
                self.backoff = (self.backoff * 2).min(lease.request.ttl.duration() / 6).max(RETRY);
            }
        }
        false
    }

    fn lose(&mut self, index: usize, holder: Option<&Holding>) {
        self.is_lost = true;
        (self.report)(Progress::Lost(&self.leases[index], holder));
    }

    /// When the first lease is due, all are renewed.
    fn schedule(&mut self) {
        self.next = self.leases.iter().map(Lease::renewal_due).min().unwrap_or(BootTime::NEVER);
    }

    /// Whether the leases run now that their end is asked for; that one does not is said once.
    fn is_valid_to_the_end(&mut self) -> bool {
        let reserve = self.reserve;
        let mut over = self.leases.iter().filter(|lease| lease.deadline().minus(reserve).has_passed());
        if !self.is_lost
            && let Some(lease) = over.next()
        {
            self.is_lost = true;
            (self.report)(Progress::Expired(lease));
        }
        !self.is_lost
    }

    /// One renewal, where there is no thread for them.
    fn renewed_once(mut self: Box<Self>) -> Box<Self> {
        if !self.keep_on() {
            self.next = BootTime::NEVER;
        }
        self
    }

    /// After a lost lock the release does no harm (it compares the owner token), and behind a
    /// renewal that a hung server still has to carry out it takes back what that renewal took.
    fn give_back(&mut self, mut hurry: Option<&mut dyn Hurry>) -> Kept {
        if self.is_lost && hurry.is_none() {
            while !matches!(self.wait(BootTime::NEVER), Told::Finish) {}
        }
        let give_up = Deadline::after(RELEASE);
        let mut worst = if self.is_lost { Kept::Lost } else { Kept::Borrowed };
        // The last one first: who waits for the first one finds the others free.
        for index in (0..self.leases.len()).rev() {
            if !self.leases[index].is_borrowed {
                worst = worst.max(self.give_one_back(index, give_up, &mut hurry));
            }
        }
        worst
    }

    fn give_one_back(&mut self, index: usize, give_up: Deadline, hurry: &mut Option<&mut dyn Hurry>) -> Kept {
        let request = self.leases[index].request.clone();
        // After a first request without an answer, "not held" may mean that it was carried out.
        let mut is_unsure = false;
        loop {
            let interrupt = hurry.as_ref().map(|hurry| hurry.as_fd());
            match self.store.release(&request.key, &request.token, &Patience { until: give_up, interrupt }) {
                _ if self.is_lost => return Kept::Lost,
                Ok(false) if !is_unsure && request.kind == Kind::Exclusive => {
                    return self.not_released(index);
                }
                Ok(_) => return Kept::Released,
                Err(StoreError::Unreachable { .. }) if !give_up.has_passed() => thread::sleep(RETRY),
                Err(StoreError::Interrupted) if hurry.as_mut().is_some_and(|hurry| !hurry.is_great()) => {}
                Err(_) => return Kept::Unreleased,
            }
            is_unsure = true;
        }
    }

    /// The lock was not ours any more at the end: lost, if another is seen to hold it now.
    fn not_released(&mut self, index: usize) -> Kept {
        let keys = std::slice::from_ref(&self.leases[index].request.key);
        let status = self.store.status(keys, &Patience::of(RELEASE)).unwrap_or_default();
        match status.first().and_then(|lock| lock.holders.first()) {
            Some(holder) => {
                self.lose(index, Some(holder));
                Kept::Lost
            }
            None => Kept::Released,
        }
    }

    fn renew(&mut self, index: usize) -> Result<Renewal, StoreError> {
        let lease = &self.leases[index];
        // A sixth of the TTL for one attempt leaves time for others on a new connection.
        let attempt = Deadline::after((lease.request.ttl.duration() / 6).max(RETRY));
        let patience =
            Patience { until: attempt.min(self.last_chance()), interrupt: Some(self.told.as_fd()) };
        self.store.renew(&lease.request, Some(lease.fence), &patience)
    }

    fn last_chance(&self) -> Deadline {
        Lease::first_deadline(&self.leases).minus(self.reserve)
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
