//! The renewal loop: renews leases that are needed together, and releases them in the end.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::{
    Holder, Key, Lease, Mode, OwnerToken, Renewal, RenewalRequest, Request, Store, StoreError, Timeout,
};
use crate::clock::{BootTime, Deadline};
use crate::mailbox::Mailbox;
use crate::poll::{Backoff, wait_readable};

/// What becomes of the leases while they are renewed.
pub enum Progress<'a> {
    /// The leases that are not lost were extended. All of them end at this deadline at the earliest.
    Renewed(Deadline),
    /// The lock was gone, for at most this long, and is held again.
    Healed(&'a Lease, Duration),
    /// A renewal failed; the lease still runs.
    Failed(&'a Lease, &'a StoreError),
    /// Somebody who knows the owner token released the lock, and nobody else was granted it since.
    Released(&'a Lease),
    /// Another holds the lock, or was granted it since.
    Lost(&'a Lease, Option<&'a Holder>),
    /// No renewal got through in time.
    Expired(&'a Lease),
}

/// How the leases ended, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseEnd {
    /// They were valid to the end, and go on: they were borrowed.
    Borrowed,
    /// They were valid to the end, and the locks were released, except for borrowed ones.
    Released,
    /// They were valid to the end. Whether the locks were released is unknown: they are free when the leases end.
    Unreleased,
    Lost,
}

/// Somebody who may abandon the release.
pub trait Cancellation {
    /// Readable when it is time to ask again.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Whether to abandon the release.
    fn should_abandon(&mut self) -> bool;
}

/// What the loop is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeeperOrder {
    /// Renew now: something may have happened to a lock.
    RenewNow,
    /// Release. The end of the mailbox means the same.
    Finish,
}

/// The shortest pause between two attempts to renew.
const RETRY: Duration = Duration::from_millis(20);
/// For the release: the job has ended, and somebody waits for the prompt.
const RELEASE: Duration = Duration::from_secs(2);

/// What the last renewal said.
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
}

/// Leases that are needed together, and the store that they are in.
pub struct Renewals<R> {
    store: Box<dyn Store>,
    /// In the order in which they were acquired.
    leases: Vec<HeldLease>,
    /// A lease counts as expired this long before its deadline: the time in which the job is stopped.
    reserve: Duration,
    /// `None` while there is nobody who could give orders.
    pub orders: Option<Mailbox<KeeperOrder>>,
    is_finishing: bool,
    /// When to renew next.
    next: BootTime,
    backoff: Backoff,
    report: R,
}

impl<R: FnMut(Progress)> Renewals<R> {
    pub fn new(store: Box<dyn Store>, leases: Vec<Lease>, reserve: Duration, report: R) -> Renewals<R> {
        let shortest = leases.iter().map(|lease| lease.request.ttl.duration()).min().unwrap_or_default();
        let leases = leases.into_iter().map(|lease| HeldLease { lease, state: LeaseState::Held }).collect();
        let mut renewals = Renewals {
            store,
            leases,
            reserve,
            orders: None,
            is_finishing: false,
            next: BootTime::NEVER,
            backoff: Backoff::new(RETRY, shortest / 6),
            report,
        };
        renewals.schedule();
        renewals
    }

    /// When the next renewal is due.
    pub fn renews_at(&self) -> BootTime {
        self.next
    }

    /// Renews until told to finish.
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
        let renewals: Vec<RenewalRequest> = order.iter().map(|&index| self.renewal_of(index)).collect();

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
            self.next = Deadline::after(self.backoff.pause());
        } else {
            self.schedule();
            self.backoff.reset();
        }
        let deadline = self.first_deadline();
        if deadline > before {
            (self.report)(Progress::Renewed(deadline));
        }
    }

    /// A sixth of the TTL for one attempt leaves time for others on a new connection.
    fn renewal_of(&self, index: usize) -> RenewalRequest {
        let lease = &self.leases[index].lease;
        RenewalRequest {
            request: lease.request.clone(),
            fence: Some(lease.fence),
            attempt: lease.request.ttl.duration() / 6,
            until: lease.deadline().minus(self.reserve),
        }
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

    /// A lost lease keeps its end, and whoever relies on all of them ends with it.
    fn first_deadline(&self) -> Deadline {
        self.leases.iter().map(|held| held.lease.deadline()).min().unwrap_or(Deadline::NEVER)
    }

    /// When the first lease expires that is not lost.
    fn last_chance(&self) -> Deadline {
        self.kept().map(Lease::deadline).min().unwrap_or(Deadline::NEVER).minus(self.reserve)
    }

    /// Leases that have run out are lost, which is reported once.
    fn expire(&mut self) {
        for held in &mut self.leases {
            if held.state != LeaseState::Lost && held.lease.deadline().minus(self.reserve).has_passed() {
                held.state = LeaseState::Lost;
                (self.report)(Progress::Expired(&held.lease));
            }
        }
    }

    /// Those that are not lost.
    fn kept(&self) -> impl Iterator<Item = &Lease> {
        self.leases.iter().filter(|held| held.state != LeaseState::Lost).map(|held| &held.lease)
    }

    /// Waits until `until`, or for an order. Whether that is to finish.
    fn is_told_to_finish(&mut self, until: Deadline) -> bool {
        let Some(orders) = &self.orders else { return true };
        let mut is_told = false;
        while !self.is_finishing && !is_told {
            wait_readable([orders.as_fd()], until);
            // Emptied: its descriptor interrupts the store.
            loop {
                match orders.take() {
                    Ok(Some(KeeperOrder::RenewNow)) => is_told = true,
                    Ok(None) => break,
                    Ok(Some(KeeperOrder::Finish)) | Err(_) => {
                        self.is_finishing = true;
                        break;
                    }
                }
            }
            is_told |= until.has_passed();
        }
        self.is_finishing
    }

    /// Releases what was not borrowed, until somebody abandons that.
    ///
    /// Releasing a lost lock does no harm, as the owner token is compared. Behind a renewal that a hung server still has
    /// to carry out it takes back what that renewal took.
    pub fn finish(&mut self, cancellation: Option<&mut dyn Cancellation>) -> LeaseEnd {
        self.expire();
        let own = self.leases.iter().filter(|held| !held.lease.is_borrowed);
        let own: Vec<Request> = own.map(|held| held.lease.request.clone()).collect();
        let end = match own.first() {
            Some(first) => self.release(&own, &first.token, cancellation),
            None => LeaseEnd::Borrowed,
        };
        if self.leases.iter().any(|held| held.state == LeaseState::Lost) { LeaseEnd::Lost } else { end }
    }

    /// Releases what was acquired together. Tries again while there is time; once, if all of it is lost.
    fn release(
        &mut self,
        requests: &[Request],
        token: &OwnerToken,
        mut cancellation: Option<&mut dyn Cancellation>,
    ) -> LeaseEnd {
        let keys: Vec<Key> = requests.iter().map(|request| request.key.clone()).collect();
        let until = Deadline::after(RELEASE);
        // After a first request without an answer, "not held" may mean that it was carried out.
        let mut is_repeated = false;
        loop {
            let interrupt = cancellation.as_ref().map(|cancellation| cancellation.as_fd());
            match self.store.release(&keys, token, &Timeout { until, interrupt }) {
                Ok(released) => {
                    let missing = released.iter().zip(requests).filter(|(released, _)| !**released);
                    if !is_repeated {
                        missing.for_each(|(_, request)| self.was_missing(request));
                    }
                    return LeaseEnd::Released;
                }
                Err(_) if self.kept().next().is_none() => return LeaseEnd::Unreleased,
                Err(StoreError::Unreachable { .. }) if !until.has_passed() => {
                    let _ = Timeout::of(RETRY).pause(RETRY);
                }
                Err(StoreError::Interrupted)
                    if cancellation.as_mut().is_some_and(|cancellation| !cancellation.should_abandon()) => {}
                Err(_) => return LeaseEnd::Unreleased,
            }
            is_repeated = true;
        }
    }

    /// The lock was not ours any more at the end: lost, if another is seen to hold it now.
    fn was_missing(&mut self, request: &Request) {
        let is_kept =
            |held: &&mut HeldLease| held.lease.request.key == request.key && held.state != LeaseState::Lost;
        let Some(held) = self.leases.iter_mut().find(is_kept) else { return };
        if request.mode != Mode::Exclusive {
            return;
        }
        let keys = std::slice::from_ref(&request.key);
        let status = self.store.status(keys, &Timeout::of(RELEASE)).unwrap_or_default();
        if let Some(holder) = status.first().and_then(|lock| lock.holders.first()) {
            held.state = LeaseState::Lost;
            (self.report)(Progress::Lost(&held.lease, Some(holder)));
        }
    }
}

impl HeldLease {
    /// Takes note of the answer to a renewal that was sent at `sent`.
    fn note(
        &mut self,
        sent: BootTime,
        renewal: Result<Renewal, StoreError>,
        reserve: Duration,
        report: &mut impl FnMut(Progress),
    ) {
        let HeldLease { lease, state } = self;
        // An answer after the last chance is too late: the job is being stopped.
        let is_late = lease.deadline().minus(reserve).has_passed();
        *state = LeaseState::Held;
        match renewal {
            Ok(Renewal::Extended | Renewal::Healed) if is_late => *state = LeaseState::Unknown,
            Ok(Renewal::Extended) => lease.extend(sent),
            Ok(Renewal::Healed) => {
                let gone_for = sent.since(lease.renewed());
                lease.extend(sent);
                report(Progress::Healed(lease, gone_for));
            }
            Ok(Renewal::Released) => {
                *state = LeaseState::Lost;
                report(Progress::Released(lease));
            }
            Ok(Renewal::Lost(holder)) => {
                *state = LeaseState::Lost;
                report(Progress::Lost(lease, holder.as_ref()));
            }
            Err(StoreError::NotALock { .. } | StoreError::OtherMode { .. }) => {
                *state = LeaseState::Lost;
                report(Progress::Lost(lease, None));
            }
            Err(error) => {
                *state = LeaseState::Unknown;
                report(Progress::Failed(lease, &error));
            }
        }
    }
}
