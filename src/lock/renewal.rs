//! The renewal loop: renews leases that are needed together, and releases them in the end.

use std::os::fd::AsFd;
use std::slice::from_ref;
use std::time::Duration;

use super::{
    Key, Lease, LossCause, ReleaseOutcome, Renewal, RenewalRequest, Request, Result, Store, StoreError,
    Timeout,
};
use crate::clock::{BootTime, Deadline};
use crate::mailbox::Mailbox;
use crate::poll::{Backoff, wait_readable};

/// The news about the leases while they are renewed.
pub enum Progress<'a> {
    /// The leases that are not lost were extended, by requests that `took` so long. All of them end at this deadline
    /// at the earliest.
    Renewed { deadline: Deadline, took: Duration },
    /// The lock was gone, for at most this long, and is held again.
    Healed(&'a Lease, Duration),
    /// A renewal failed; the lease still runs.
    Failed(&'a Lease, &'a StoreError),
    /// Reported once for each lease.
    Lost {
        lease: &'a Lease,
        cause: LossCause,
        /// Only the release found it, when the job had ended.
        at_release: bool,
    },
}

/// Hears of the progress, in the thread that renews.
pub type ReportProgress = Box<dyn FnMut(Progress) + Send>;

/// The end of the leases, from the best to the worst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseEnd {
    /// They were valid to the end, and go on: they were borrowed.
    Borrowed,
    /// They were valid to the end, and the locks were released, except for borrowed ones.
    Released,
    /// They were valid to the end. The locks may not be released, because of this: they are free when the leases end.
    Unreleased(StoreError),
    Lost,
}

/// The end of the leases, and the last failure.
pub struct Finish {
    pub end: LeaseEnd,
    /// Why the last renewal of one failed that was not lost by then.
    pub failure: Option<StoreError>,
}

/// Somebody who may abandon the release. Its descriptor is readable when it is time to ask again.
pub trait Cancellation: AsFd {
    fn should_abandon(&mut self) -> bool;
}

const RETRY: Duration = Duration::from_millis(20);
/// The least pause before another attempt, close to the deadline.
const LAST_RETRY: Duration = Duration::from_millis(10);
/// For the release: the job has ended, and somebody waits for the prompt.
const RELEASE: Duration = Duration::from_secs(2);

/// The answer to the last renewal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeaseState {
    Held,
    /// No answer: the lease may have been extended.
    Unknown,
    /// This was reported.
    Lost,
}

struct HeldLease {
    lease: Lease,
    state: LeaseState,
    /// Why the last renewal failed, if it did.
    failure: Option<StoreError>,
}

/// Leases that are needed together, and the store that they are in.
pub struct Renewals {
    pub store: Box<dyn Store>,
    /// In the order in which they were acquired.
    leases: Vec<HeldLease>,
    /// A lease counts as expired this long before its deadline: the time in which the job is stopped.
    reserve: Duration,
    /// A message is an order to renew now, the end an order to finish. `None` while nobody could give one.
    pub orders: Option<Mailbox<()>>,
    /// When the next renewal is due.
    pub next: BootTime,
    backoff: Backoff,
    report: ReportProgress,
}

impl Renewals {
    pub fn new(
        store: Box<dyn Store>,
        leases: Vec<Lease>,
        reserve: Duration,
        report: ReportProgress,
    ) -> Renewals {
        let shortest = leases.iter().map(|lease| lease.request.ttl.duration()).min().unwrap_or_default();
        let backoff = Backoff::new(RETRY, shortest / 6);
        let held = |lease| HeldLease { lease, state: LeaseState::Held, failure: None };
        let leases = leases.into_iter().map(held).collect();
        let mut renewals =
            Renewals { store, leases, reserve, orders: None, next: BootTime::NEVER, backoff, report };
        renewals.schedule();
        renewals
    }

    pub fn run(&mut self) {
        while !self.is_told_to_finish(self.next.min(self.last_chance())) {
            self.renew();
        }
    }

    /// Renews every lease that is not lost, those last whose renewal failed before.
    pub fn renew(&mut self) {
        self.expire();
        let before = self.first_deadline();
        let is_lost = |&index: &usize| self.leases[index].state == LeaseState::Lost;
        let mut order: Vec<usize> = (0..self.leases.len()).filter(|index| !is_lost(index)).collect();
        order.sort_by_key(|&index| self.leases[index].state == LeaseState::Unknown);
        // A sixth of the TTL for one attempt leaves time for others on a new connection.
        let renewal = |lease: &Lease| {
            lease.renewal(lease.request.ttl.duration() / 6, lease.deadline().minus(self.reserve))
        };
        let renewals: Vec<RenewalRequest> =
            order.iter().map(|&index| renewal(&self.leases[index].lease)).collect();

        let asked = BootTime::now();
        let Renewals { store, leases, reserve, orders, report, .. } = self;
        let mut is_interrupted = false;
        let interrupt = orders.as_ref().map(AsFd::as_fd);
        store.renew_all(&renewals, interrupt, &mut |index, sent, renewal| match renewal {
            Err(StoreError::Interrupted) => is_interrupted = true,
            renewal => leases[order[index]].note(sent, renewal, *reserve, report),
        });
        if is_interrupted {
            self.next = BootTime::now();
            return;
        }
        if self.leases.iter().any(|held| held.state == LeaseState::Unknown) {
            // A store that comes back just before the last chance is met in time.
            let half = self.last_chance().left() / 2;
            self.next = Deadline::after(self.backoff.pause().min(half.max(LAST_RETRY)));
        } else {
            self.schedule();
            self.backoff.reset();
        }
        let deadline = self.first_deadline();
        if deadline > before {
            (self.report)(Progress::Renewed { deadline, took: BootTime::now().since(asked) });
        }
    }

    /// When the first lease is due, all are renewed: after a third of the TTL, and while there is time for a second
    /// attempt before the last chance.
    fn schedule(&mut self) {
        let reserve = self.reserve;
        let due = self.kept().map(|lease| {
            let chances = lease.deadline().minus(reserve).since(lease.renewed);
            lease.renewal_due().min(lease.renewed.plus(chances / 2))
        });
        self.next = due.min().unwrap_or(BootTime::NEVER);
    }

    /// A lost lease keeps its end, and whoever relies on all of them ends with it.
    fn first_deadline(&self) -> Deadline {
        Lease::first_deadline(self.leases.iter().map(|held| &held.lease))
    }

    /// When the first lease expires that is not lost.
    fn last_chance(&self) -> Deadline {
        Lease::first_deadline(self.kept()).minus(self.reserve)
    }

    /// Leases that have run out are lost.
    fn expire(&mut self) {
        for held in &mut self.leases {
            if held.state != LeaseState::Lost && held.lease.deadline().minus(self.reserve).has_passed() {
                let why = held.failure.take();
                held.lose(LossCause::Expired(why), &mut self.report);
            }
        }
    }

    fn kept(&self) -> impl Iterator<Item = &Lease> {
        self.leases.iter().filter(|held| held.state != LeaseState::Lost).map(|held| &held.lease)
    }

    /// Waits until `until`, or for an order. True if that is to finish.
    fn is_told_to_finish(&self, until: Deadline) -> bool {
        let Some(orders) = &self.orders else { return true };
        loop {
            wait_readable([orders.as_fd()], until);
            let mut is_told = false;
            // Emptied: its descriptor interrupts the store.
            loop {
                match orders.take() {
                    Ok(Some(())) => is_told = true,
                    Ok(None) => break,
                    Err(_) => return true,
                }
            }
            if is_told || until.has_passed() {
                return false;
            }
        }
    }

    /// Releases what was not borrowed, until somebody abandons that.
    ///
    /// Releasing a lost lock does no harm, as the owner token is compared. Behind a renewal that a hung server still has
    /// to carry out it takes back what that renewal took.
    pub fn finish(&mut self, cancellation: Option<&mut dyn Cancellation>) -> Finish {
        self.expire();
        let failure = self.leases.iter_mut().find_map(|held| held.failure.take());
        Finish { end: self.end(cancellation), failure }
    }

    fn end(&mut self, cancellation: Option<&mut dyn Cancellation>) -> LeaseEnd {
        let own = self.leases.iter().filter(|held| !held.lease.is_borrowed);
        let own: Vec<Request> = own.map(|held| held.lease.request.clone()).collect();
        let end = match own.is_empty() {
            true => LeaseEnd::Borrowed,
            false => {
                self.release(&own, cancellation).map_or_else(LeaseEnd::Unreleased, |()| LeaseEnd::Released)
            }
        };
        if self.leases.iter().any(|held| held.state == LeaseState::Lost) { LeaseEnd::Lost } else { end }
    }

    /// Releases what was acquired together. Tries again while there is time; once, if all of it is lost.
    fn release(
        &mut self,
        requests: &[Request],
        mut cancellation: Option<&mut dyn Cancellation>,
    ) -> Result<(), StoreError> {
        let keys: Vec<Key> = requests.iter().map(|request| request.key.clone()).collect();
        let until = Deadline::after(RELEASE);
        // After a first request without an answer, "not held" may mean that it was carried out.
        let mut is_repeated = false;
        loop {
            let interrupt = cancellation.as_ref().map(|cancellation| cancellation.as_fd());
            match self.store.release(&keys, &requests[0].token, &Timeout { until, interrupt }) {
                Ok(released) => {
                    let missing = released.iter().zip(requests);
                    let missing = missing.filter(|(one, _)| **one == ReleaseOutcome::NotHeld && !is_repeated);
                    let mut outcome = Ok(());
                    let timeout = Timeout::of(RELEASE);
                    for (_, request) in missing {
                        outcome = outcome.and(self.look_into(request, &timeout));
                    }
                    return outcome;
                }
                Err(error) if self.kept().next().is_none() => return Err(error),
                Err(StoreError::Unreachable { .. }) if !until.has_passed() => {
                    let _ = Timeout::of(RETRY).pause(RETRY);
                }
                Err(StoreError::Interrupted)
                    if cancellation.as_mut().is_some_and(|cancellation| !cancellation.should_abandon()) => {}
                Err(error) => return Err(error),
            }
            is_repeated = true;
        }
    }

    /// The lock was not ours any more at the end. A renewal tells whether it was lost before. That may take it again,
    /// on some of the servers or later, so another release goes behind it: an error where that failed.
    fn look_into(&mut self, request: &Request, timeout: &Timeout) -> Result<(), StoreError> {
        let is_kept =
            |held: &&mut HeldLease| held.lease.request.key == request.key && held.state != LeaseState::Lost;
        let Some(held) = self.leases.iter_mut().find(is_kept) else { return Ok(()) };
        // A release that came late found nothing, or others, in the place of one whose job had ended in time.
        if held.lease.deadline().has_passed() {
            return Ok(());
        }
        let renewal = self.store.renew(request, Some(held.lease.fence), timeout);
        let released = self.store.release(from_ref(&request.key), &request.token, timeout).map(drop);
        let cause = match renewal {
            Ok(Renewal::Lost(holder)) => held.lease.lost_to(holder),
            Ok(Renewal::Released) => LossCause::Released,
            Ok(Renewal::Extended | Renewal::Healed) | Err(_) => return released,
        };
        held.state = LeaseState::Lost;
        (self.report)(Progress::Lost { lease: &held.lease, cause, at_release: true });
        released
    }
}

impl HeldLease {
    /// Takes note of the answer to a renewal that was sent at `sent`.
    fn note(
        &mut self,
        sent: BootTime,
        renewal: Result<Renewal>,
        reserve: Duration,
        report: &mut ReportProgress,
    ) {
        let lease = &mut self.lease;
        // An answer after the last chance is too late: the job is being stopped.
        let is_late = lease.deadline().minus(reserve).has_passed();
        let gone_for = sent.since(lease.renewed);
        (self.state, self.failure) = (LeaseState::Held, None);
        match renewal {
            Ok(Renewal::Extended | Renewal::Healed) if is_late => self.state = LeaseState::Unknown,
            Ok(Renewal::Extended) => lease.extend(sent),
            Ok(Renewal::Healed) => {
                lease.extend(sent);
                report(Progress::Healed(lease, gone_for));
            }
            Ok(Renewal::Released) => self.lose(LossCause::Released, report),
            Ok(Renewal::Lost(holder)) => self.lose(self.lease.lost_to(holder), report),
            Err(StoreError::NotALock { .. } | StoreError::OtherMode { .. }) => {
                self.lose(self.lease.lost_to(None), report);
            }
            Err(error) => {
                self.state = LeaseState::Unknown;
                report(Progress::Failed(lease, &error));
                self.failure = Some(error);
            }
        }
    }

    fn lose(&mut self, cause: LossCause, report: &mut ReportProgress) {
        self.state = LeaseState::Lost;
        report(Progress::Lost { lease: &self.lease, cause, at_release: false });
    }
}
