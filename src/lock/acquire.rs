//! Acquires locks, all or none, or one of them, waiting in their queues as far as that is wanted.

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::{
    AcquireFailure, AcquireOutcome, Busy, Grant, Lease, LockChoice, NotAcquired, OneOutcome, Patience,
    Permits, Renewal, RenewalRequest, Request, Result, Store, StoreError, Timeout, Wait, WaitProgress,
};
use crate::clock::{BootTime, Deadline};
use crate::poll::Backoff;

/// The shortest time between two reports.
const TICK: Duration = Duration::from_secs(1);
/// Between two attempts to reach a store that does not answer.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The least time for a call to the store, where the wait ends sooner: connecting over TLS to a store far away takes less.
const SHORTEST_CALL: Duration = Duration::from_millis(500);
/// For leaving the queue and cancelling a request, while a person who pressed Ctrl-C waits.
const CANCEL: Duration = Duration::from_secs(1);

/// Acquires the wanted locks, and waits for them as `patience` allows.
///
/// Free locks are taken together. A busy one is waited for while those before it are held and
/// renewed: lock ordering prevents deadlock. For one of several, the request waits in all queues at once.
///
/// `attempt` bounds each call to the store. `reserve` is the part of the lease that has to be left after the grant, for
/// stopping the job. After an error the queue was left, everything acquired was released, and requests whose answer is
/// unknown were cancelled, as far as the store could be told.
pub fn acquire(
    store: &mut dyn Store,
    wanted: LockChoice,
    Patience { wait, queue_limit }: Patience,
    attempt: Duration,
    reserve: Duration,
    interrupt: BorrowedFd,
    report: &mut dyn FnMut(WaitProgress) -> ControlFlow<()>,
) -> Result<Vec<Lease>, NotAcquired> {
    let (start, requests) = (BootTime::now(), wanted.requests());
    let mut acquiring = Acquiring {
        store,
        requests,
        is_one_enough: matches!(wanted, LockChoice::OneOf(_)),
        held: Vec::with_capacity(requests.len()),
        batch: requests.len(),
        is_queued: false,
        starts_over: false,
        queue_limit,
        is_admitted: false,
        start,
        end: match wait {
            Wait::No => start.plus(attempt),
            Wait::AtMost(limit) => start.plus(limit),
            Wait::Forever => Deadline::NEVER,
        },
        attempt,
        reserve,
        interrupt,
        report,
        backoff: Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE),
        renew_at: start,
    };
    let outcome = match wait {
        Wait::No => acquiring.try_once(),
        Wait::AtMost(_) | Wait::Forever => acquiring.acquire_in_order(),
    };
    let _ = (acquiring.report)(WaitProgress::Ended);
    let why = match outcome {
        Ok(()) if acquiring.is_late() => {
            let took = acquiring.held.iter().map(Lease::unconfirmed).max().unwrap_or_default();
            AcquireFailure::TooSlow { took }
        }
        Ok(()) => return Ok(acquiring.held),
        // There is nothing to cancel.
        Err(busy @ AcquireFailure::Busy(_)) => {
            acquiring.store.leave(&Timeout::of(CANCEL.min(attempt)));
            return Err(NotAcquired { why: busy, failed_release: None });
        }
        Err(other) => other,
    };
    let has_locks = !acquiring.held.is_empty();
    // A store that refuses to cancel has refused the request, too.
    let cancelled = acquiring.store.cancel(requests, &Timeout::of(CANCEL.min(attempt)));
    let failed_release = cancelled.err().filter(|error| has_locks || error.is_unknown()).map(Box::new);
    Err(NotAcquired { why, failed_release })
}

struct Acquiring<'a> {
    store: &'a mut dyn Store,
    requests: &'a [Request],
    /// One of them is wanted, whichever it is.
    is_one_enough: bool,
    /// The leases of the first requests, which were granted; or of the one that is enough.
    held: Vec<Lease>,
    /// The number of the next requests that are made together.
    batch: usize,
    /// We have a place in the queue of the next lock, or are about to take one.
    is_queued: bool,
    /// A lease is lost, or one of several may be ours: everything has to be released and acquired again.
    starts_over: bool,
    queue_limit: Option<usize>,
    /// There was room in the queue of the next lock.
    is_admitted: bool,
    start: BootTime,
    /// When the wait runs out.
    end: Deadline,
    attempt: Duration,
    reserve: Duration,
    interrupt: BorrowedFd<'a>,
    report: &'a mut dyn FnMut(WaitProgress) -> ControlFlow<()>,
    backoff: Backoff,
    /// A renewal that failed is not tried again before this.
    renew_at: BootTime,
}

impl<'a> Acquiring<'a> {
    fn try_once(&mut self) -> Result<(), AcquireFailure> {
        let timeout = self.timeout();
        let mut earlier = None;
        loop {
            match self.start_over_if_due().and_then(|()| self.ask_for(self.requests, &timeout)) {
                Ok(AcquireOutcome::Granted(_)) => return Ok(()),
                Ok(AcquireOutcome::Busy(busy)) => return Err(AcquireFailure::Busy(busy)),
                // This attempt was cut short: the error of the one before says more.
                Err(error @ StoreError::Unreachable { .. }) if self.end.has_passed() => {
                    return Err(earlier.unwrap_or(error).into());
                }
                Err(error @ StoreError::Unreachable { transient: true, .. }) => {
                    self.pause()?;
                    if self.end.has_passed() {
                        return Err(error.into());
                    }
                    earlier = Some(error);
                    // Another one may be free by now, and this one may be ours.
                    self.starts_over = self.is_one_enough;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn acquire_in_order(&mut self) -> Result<(), AcquireFailure> {
        // The last answer of the store; none once it did not answer although it had time.
        let mut last_busy = None;
        // A grant that came too late is renewed.
        while !self.is_complete() || self.is_late() {
            let is_cut_short = self.end < Deadline::after(self.attempt);
            match self.ask() {
                Ok(None) if self.is_complete() => break,
                Ok(None) => {}
                Ok(Some(busy)) => {
                    self.backoff.reset();
                    if self.is_queued {
                        let is_full = |limit: &usize| busy.ahead.is_some_and(|ahead| ahead >= *limit);
                        let limit =
                            self.queue_limit.filter(|_| !std::mem::replace(&mut self.is_admitted, true));
                        if let Some(limit) = limit.filter(is_full) {
                            return Err(AcquireFailure::QueueFull(busy, limit));
                        }
                        self.store.prepare();
                        self.wait_for_news(&busy)?;
                    } else {
                        self.acquire_before(&busy);
                    }
                    if self.end.has_passed() {
                        return Err(AcquireFailure::TimedOut(busy, BootTime::now().since(self.start)));
                    }
                    last_busy = Some(busy);
                }
                Err(error) if error.is_unknown() => {
                    // False when only a renewal had no answer.
                    let was_asked = !self.is_complete();
                    last_busy = last_busy.filter(|_| is_cut_short && was_asked);
                    // Another one may be free next time, and this one may be ours. In a queue the store sees that.
                    self.starts_over |= was_asked && self.is_one_enough && !self.is_queued;
                    let _ = (self.report)(WaitProgress::Unreachable(&error));
                    self.pause()?;
                    if self.end.has_passed() && (was_asked || self.is_late()) {
                        let waited = BootTime::now().since(self.start);
                        return Err(last_busy
                            .map_or_else(|| error.into(), |busy| AcquireFailure::TimedOut(busy, waited)));
                    }
                    if was_asked {
                        self.renew_if_due()?;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Asks for what is next, or renews what is complete, and says what is busy. Most locks are free: a place in the queue is taken only for one that
    /// is not.
    fn ask(&mut self) -> Result<Option<Box<Busy>>> {
        let timeout = self.timeout();
        self.start_over_if_due()?;
        if !self.is_complete()
            && let AcquireOutcome::Busy(busy) = self.ask_for(&self.rest()[..self.batch], &timeout)?
        {
            return Ok(Some(busy));
        }
        if self.is_complete() {
            // The time of all locks counts from now, also of those that were acquired before.
            let is_late = self.is_late();
            self.renew(|lease| is_late || lease.unconfirmed() > lease.request.ttl.fresh_for())?;
        } else {
            self.store.settle();
            // A batch precedes a busy lock; after that lock the rest may be free.
            (self.is_queued, self.is_admitted) = (!self.is_queued, false);
            self.batch = if self.is_queued { 1 } else { self.rest().len() };
        }
        Ok(None)
    }

    fn start_over_if_due(&mut self) -> Result<()> {
        if self.starts_over {
            self.store.start_over(self.requests, &Timeout::of(CANCEL.min(self.attempt)))?;
            self.starts_over = false;
        }
        Ok(())
    }

    /// Asks for these, and holds what is granted.
    fn ask_for(&mut self, next: &'a [Request], timeout: &Timeout) -> Result<AcquireOutcome> {
        let sent = BootTime::now();
        let answer = match next {
            several if self.is_one_enough => {
                let (place, granted) = match self.store.acquire_one(several, self.is_queued, timeout)? {
                    OneOutcome::Granted { place, grant } => (place, grant),
                    OneOutcome::Busy(busy) => return Ok(AcquireOutcome::Busy(busy)),
                };
                self.hold(&several[place..=place], &granted, sent);
                return Ok(AcquireOutcome::Granted(granted));
            }
            [one] if self.is_queued => self.store.enqueue(one, timeout)?,
            several => self.store.acquire(several, timeout)?,
        };
        if let AcquireOutcome::Granted(granted) = &answer {
            self.hold(next, granted, sent);
        }
        Ok(answer)
    }

    fn is_complete(&self) -> bool {
        if self.is_one_enough { !self.held.is_empty() } else { self.rest().is_empty() }
    }

    /// Too little is left of a lease for the job to be stopped within it.
    fn is_late(&self) -> bool {
        Lease::first_deadline(&self.held).minus(self.reserve).has_passed()
    }

    /// One of a batch is busy: next, those before it are acquired, or a place in its queue is taken.
    fn acquire_before(&mut self, busy: &Busy) {
        if self.is_one_enough {
            self.is_queued = true;
            return;
        }
        let before = self.rest().iter().position(|request| request.key == busy.key).unwrap_or(0);
        self.is_queued = before == 0;
        self.batch = before.max(1);
    }

    fn rest(&self) -> &'a [Request] {
        &self.requests[self.held.len()..]
    }

    fn hold(&mut self, requests: &[Request], granted: &Grant, sent: BootTime) {
        let sent = granted.counted_from.map_or(sent, |earlier| earlier.min(sent));
        let permits = granted.permits.iter().cloned().chain(std::iter::repeat(Permits::default()));
        let leases = requests.iter().zip(&granted.fences).zip(permits);
        self.held.extend(leases.map(|((request, fence), permits)| {
            Lease::new(request.clone().with_permits(permits), *fence, sent)
        }));
    }

    fn renew_if_due(&mut self) -> Result<(), AcquireFailure> {
        if !self.renewal_due().has_passed() {
            return Ok(());
        }
        match self.renew(|lease| lease.renewal_due().has_passed()) {
            Err(error) if error.is_unknown() => {
                let _ = (self.report)(WaitProgress::Unreachable(&error));
                self.renew_at = Deadline::after(self.backoff.pause());
                Ok(())
            }
            renewed => Ok(renewed?),
        }
    }

    /// Renews some of the leases. When one of them is lost all start over, as no job runs yet that would need them.
    fn renew(&mut self, is_due: impl Fn(&Lease) -> bool) -> Result<()> {
        let mut due: Vec<&mut Lease> = self.held.iter_mut().filter(|lease| is_due(lease)).collect();
        let until = Deadline::after(self.attempt);
        // After a failed attempt the other renewals share the time of one more.
        let attempt = if due.len() > 1 { self.attempt / 2 } else { self.attempt };
        let renewals: Vec<RenewalRequest> = due.iter().map(|lease| lease.renewal(attempt, until)).collect();
        let (mut is_lost, mut outcome) = (false, Ok(()));
        self.store.renew_all(&renewals, Some(self.interrupt), &mut |index, sent, renewal| match renewal {
            Ok(Renewal::Extended | Renewal::Healed) => due[index].extend(sent),
            Ok(Renewal::Released | Renewal::Lost(_)) => is_lost = true,
            Err(error) if outcome.is_ok() => outcome = Err(error),
            Err(_) => {}
        });
        // Also when another renewal failed: what is lost is not held.
        if is_lost {
            self.starts_over = true;
            self.held.clear();
            (self.is_queued, self.is_admitted, self.batch) = (false, false, self.requests.len());
        }
        outcome
    }

    /// When the first lease that is held has to be renewed.
    fn renewal_due(&self) -> BootTime {
        let due = self.held.iter().map(Lease::renewal_due).min().unwrap_or(BootTime::NEVER);
        due.max(self.renew_at)
    }

    /// Waits for a reason to ask again, or for the end of the wait.
    fn wait_for_news(&mut self, busy: &Busy) -> Result<(), AcquireFailure> {
        loop {
            if (self.report)(WaitProgress::Busy(busy)).is_break() {
                return Err(AcquireFailure::Interrupted);
            }
            let until = Deadline::after(TICK).min(self.renewal_due()).min(self.end);
            let timeout = Timeout { until, interrupt: Some(self.interrupt) };
            let news = self.store.wait(&timeout)?;
            self.renew_if_due()?;
            if news || self.end.has_passed() || !self.is_queued {
                return Ok(());
            }
        }
    }

    /// A random pause, so that clients do not all return at once when a server comes back.
    fn pause(&mut self) -> Result<()> {
        let pause = self.backoff.pause().min(self.end.left());
        self.timeout().pause(pause)
    }

    fn timeout(&self) -> Timeout<'a> {
        let end = self.end.max(Deadline::after(SHORTEST_CALL));
        Timeout::or_interrupt(self.attempt, self.interrupt).before(end)
    }
}
