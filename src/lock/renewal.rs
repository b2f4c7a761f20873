//! What the keeper does: to renew, and to give back.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, poll};

use super::{Holder, Key, Lease, Mode, OwnerToken, Renewal, Request, Store, StoreError, Timeout};
use crate::clock::{BootTime, Deadline};

/// What the keeper reports while it keeps.
pub enum Progress<'a> {
    /// The leases that are not lost were extended. All of them end at this deadline at the earliest.
    Renewed(Deadline),
    /// The lock was gone, for at most this long, and is held again.
    Healed(&'a Lease, Duration),
    /// A renewal failed; the leases still run.
    Failed(&'a Lease, &'a StoreError),
    /// Somebody who knows the owner token gave the lock back, and nobody else was granted it since.
    Released(&'a Lease),
    /// Another holds the lock, or was granted it since.
    Lost(&'a Lease, Option<&'a Holder>),
    /// No renewal got through in the time there was.
    Expired(&'a Lease),
}

/// How the keeping ended, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseEnd {
    /// The leases were valid to the end, and go on: they were borrowed.
    Borrowed,
    /// The leases were valid to the end, and the locks were given back, but for borrowed ones.
    Released,
    /// The leases were valid to the end, and whether the locks were given back is unknown: they are
    /// free when the leases end.
    Unreleased,
    Lost,
}

/// Somebody who may lose patience with the release.
pub trait Cancellation {
    /// Readable when it is time to ask again.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Whether the release is to be given up.
    fn is_great(&mut self) -> bool;
}

/// What the thread was told.
enum KeeperRequest {
    Nothing,
    /// To renew now.
    Look,
    Finish,
}

/// Told on the line of [`Renewals::new`]: renew now.
pub const LOOK: u8 = b'?';
/// Told on the line: finish. So does its end.
pub const FINISH: u8 = b'.';

/// The shortest pause between two attempts to renew.
const RETRY: Duration = Duration::from_millis(20);
/// For the release: the job has ended, somebody waits for the prompt.
const RELEASE: Duration = Duration::from_secs(2);

/// A lease, until it is lost.
struct Held {
    lease: Lease,
    /// It is lost, and that was said.
    is_lost: bool,
    /// What the last renewal did is unknown.
    is_unknown: bool,
}

/// Leases that are needed together, and what renews them in one order.
pub struct Renewals<R> {
    store: Box<dyn Store>,
    /// In the order in which they were taken.
    leases: Vec<Held>,
    reserve: Duration,
    /// Readable when there is something to be told.
    told: UnixStream,
    /// The end of the keeping was told.
    is_finished: bool,
    /// When to renew next.
    next: BootTime,
    backoff: Duration,
    report: R,
}

impl<R: FnMut(Progress)> Renewals<R> {
    /// From `reserve` before its deadline on a lease counts as expired. `told` is read for [`LOOK`] and [`FINISH`].
    pub fn new(
        store: Box<dyn Store>,
        leases: Vec<Lease>,
        told: UnixStream,
        reserve: Duration,
        report: R,
    ) -> Renewals<R> {
        let leases =
            leases.into_iter().map(|lease| Held { lease, is_lost: false, is_unknown: false }).collect();
        let (next, backoff) = (BootTime::NEVER, RETRY);
        let mut keeping =
            Renewals { store, leases, reserve, told, is_finished: false, next, backoff, report };
        keeping.schedule();
        keeping
    }

    /// When the next renewal is due.
    pub fn renews_at(&self) -> BootTime {
        self.next
    }

    /// Renews until told to finish.
    pub fn keep(&mut self) {
        while !matches!(self.wait(self.next.min(self.last_chance())), KeeperRequest::Finish) {
            self.keep_on();
        }
    }

    /// Renews every lease that is not lost: one that cannot be renewed does not keep the others from it.
    fn keep_on(&mut self) {
        self.look_at_the_clock();
        let before = self.first_deadline();
        let mut order: Vec<usize> = (0..self.leases.len()).filter(|&at| !self.leases[at].is_lost).collect();
        // Those that failed the last time come last, behind those that will not be held up.
        order.sort_by_key(|&index| self.leases[index].is_unknown);
        // A sixth of the TTL for one attempt leaves time for others on a new connection. When it is used up, the
        // rest have another one together.
        let (mut share, mut failed) = (1, false);
        for &index in &order {
            match self.extend(index, share) {
                Some(true) => {}
                Some(false) => (share, failed) = (order.len() as u32, true),
                None => {
                    self.next = BootTime::now();
                    return;
                }
            }
        }
        if failed {
            self.retry();
        } else {
            self.schedule();
            self.backoff = RETRY;
        }
        let deadline = self.first_deadline();
        if deadline > before {
            (self.report)(Progress::Renewed(deadline));
        }
    }

    /// A lost lease keeps its end, and who relies on all of them ends with it.
    fn first_deadline(&self) -> Deadline {
        self.leases.iter().map(|held| held.lease.deadline()).min().unwrap_or(Deadline::NEVER)
    }

    /// One renewal of one lease, in this share of the time for one. `false` when its outcome is unknown, `None` when
    /// there is something to be told.
    fn extend(&mut self, index: usize, share: u32) -> Option<bool> {
        let sent = BootTime::now();
        let renewal = self.renew(index, share);
        let Held { lease, is_lost, is_unknown } = &mut self.leases[index];
        // An answer after the last chance is too late: the job is being stopped.
        let is_late = lease.deadline().minus(self.reserve).has_passed();
        *is_unknown = false;
        match renewal {
            Ok(Renewal::Extended | Renewal::Healed) if is_late => *is_unknown = true,
            Ok(Renewal::Extended) => lease.extend(sent),
            Ok(Renewal::Healed) => {
                let gone_for = sent.since(lease.renewed());
                lease.extend(sent);
                (self.report)(Progress::Healed(lease, gone_for));
            }
            Ok(Renewal::Released) => {
                *is_lost = true;
                (self.report)(Progress::Released(lease));
            }
            Ok(Renewal::Lost(holder)) => self.lose(index, holder.as_ref()),
            Err(StoreError::NotALock { .. } | StoreError::OtherMode { .. }) => self.lose(index, None),
            Err(StoreError::Interrupted) => return None,
            Err(error) => {
                (self.report)(Progress::Failed(lease, &error));
                *is_unknown = true;
            }
        }
        Some(!self.leases[index].is_unknown)
    }

    /// The next attempt comes soon, and then ever later.
    fn retry(&mut self) {
        self.next = Deadline::after(self.backoff.mul_f64(0.5 + fastrand::f64()));
        let shortest = self.kept().map(|lease| lease.request.ttl.duration()).min().unwrap_or_default();
        self.backoff = (self.backoff * 2).min(shortest / 6).max(RETRY);
    }

    fn lose(&mut self, index: usize, holder: Option<&Holder>) {
        let Held { lease, is_lost, .. } = &mut self.leases[index];
        *is_lost = true;
        (self.report)(Progress::Lost(lease, holder));
    }

    /// When the first lease is due, all are renewed: after a third of the TTL, and while there is time for a second
    /// attempt before the last chance.
    fn schedule(&mut self) {
        let reserve = self.reserve;
        let due = self.kept().map(|lease| {
            let chances = lease.deadline().minus(reserve).since(lease.renewed());
            lease.renewal_due().min(lease.renewed().plus(chances / 2))
        });
        self.next = due.min().unwrap_or(BootTime::NEVER);
    }

    /// A lease that has run out is lost, which is said once.
    fn look_at_the_clock(&mut self) {
        for Held { lease, is_lost, .. } in &mut self.leases {
            if !*is_lost && lease.deadline().minus(self.reserve).has_passed() {
                *is_lost = true;
                (self.report)(Progress::Expired(lease));
            }
        }
    }

    /// One renewal, where there is no thread for them.
    pub fn renewed_once(mut self: Box<Self>) -> Box<Self> {
        self.keep_on();
        self
    }

    /// Those that are not lost.
    fn kept(&self) -> impl Iterator<Item = &Lease> {
        self.leases.iter().filter(|held| !held.is_lost).map(|held| &held.lease)
    }

    /// Releasing a lost lock does no harm, as the owner token is compared, and behind a renewal that a hung server
    /// still has to carry out it takes back what that renewal took.
    pub fn give_back(&mut self, hurry: Option<&mut dyn Cancellation>) -> LeaseEnd {
        self.look_at_the_clock();
        let own = self.leases.iter().filter(|held| !held.lease.is_borrowed);
        let own: Vec<Request> = own.map(|held| held.lease.request.clone()).collect();
        let kept = match own.first() {
            Some(first) => self.release(&own, &first.token, hurry),
            None => LeaseEnd::Borrowed,
        };
        if self.leases.iter().any(|held| held.is_lost) { LeaseEnd::Lost } else { kept }
    }

    /// Of what was taken together. Tries again while there is time; when all of it is lost, once.
    fn release(
        &mut self,
        requests: &[Request],
        token: &OwnerToken,
        mut hurry: Option<&mut dyn Cancellation>,
    ) -> LeaseEnd {
        let keys: Vec<Key> = requests.iter().map(|request| request.key.clone()).collect();
        let give_up = Deadline::after(RELEASE);
        // After a first request without an answer, "not held" may mean that it was carried out.
        let mut is_unsure = false;
        loop {
            let interrupt = hurry.as_ref().map(|hurry| hurry.as_fd());
            let patience = Timeout { until: give_up, interrupt };
            match self.store.release(&keys, token, &patience) {
                Ok(released) => {
                    if !is_unsure {
                        let missing = released.iter().zip(requests).filter(|(released, _)| !**released);
                        missing.for_each(|(_, request)| self.was_missing(request));
                    }
                    return LeaseEnd::Released;
                }
                Err(_) if self.kept().next().is_none() => return LeaseEnd::Unreleased,
                Err(StoreError::Unreachable { .. }) if !give_up.has_passed() => thread::sleep(RETRY),
                Err(StoreError::Interrupted) if hurry.as_mut().is_some_and(|hurry| !hurry.is_great()) => {}
                Err(_) => return LeaseEnd::Unreleased,
            }
            is_unsure = true;
        }
    }

    /// The lock was not ours any more at the end: lost, if another is seen to hold it now.
    fn was_missing(&mut self, request: &Request) {
        let is_kept = |held: &Held| held.lease.request.key == request.key && !held.is_lost;
        let Some(index) = self.leases.iter().position(is_kept) else { return };
        if request.mode != Mode::Exclusive {
            return;
        }
        let keys = std::slice::from_ref(&request.key);
        let status = self.store.status(keys, &Timeout::of(RELEASE)).unwrap_or_default();
        if let Some(holder) = status.first().and_then(|lock| lock.holders.first()) {
            self.lose(index, Some(holder));
        }
    }

    fn renew(&mut self, index: usize, share: u32) -> Result<Renewal, StoreError> {
        let lease = &self.leases[index].lease;
        let attempt = Deadline::after((lease.request.ttl.duration() / 6 / share).max(RETRY));
        let until = attempt.min(lease.deadline().minus(self.reserve));
        let patience = Timeout { until, interrupt: Some(self.told.as_fd()) };
        self.store.renew(&lease.request, Some(lease.fence), &patience)
    }

    /// When the first lease runs out that is not lost.
    fn last_chance(&self) -> Deadline {
        self.kept().map(Lease::deadline).min().unwrap_or(Deadline::NEVER).minus(self.reserve)
    }

    /// Waits until `until`, or until told something.
    fn wait(&mut self, until: Deadline) -> KeeperRequest {
        if self.is_finished {
            return KeeperRequest::Finish;
        }
        loop {
            let told = PollFd::new(self.told.as_fd(), PollFlags::POLLIN);
            let ready = poll(&mut [told], until.poll_timeout());
            if ready == Ok(1) {
                let mut word = [0];
                return match self.told.read(&mut word) {
                    Ok(1) if word[0] == LOOK => KeeperRequest::Look,
                    _ => {
                        self.is_finished = true;
                        KeeperRequest::Finish
                    }
                };
            }
            if until.has_passed() {
                return KeeperRequest::Nothing;
            }
        }
    }
}
