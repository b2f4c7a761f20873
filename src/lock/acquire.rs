use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use thiserror::Error;

use super::{AcquireOutcome, Busy, Grant, Lease, Renewal, Request, Store, StoreError, Timeout};
use crate::clock::{BootTime, Deadline};

/// How long to stand in line.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    No,
    AtMost(Duration),
    Forever,
}

/// Why the locks were not taken.
#[derive(Debug, Error)]
pub enum NotAcquired {
    #[error("held by another")]
    Busy(Box<Busy>),
    /// The wait ran out, after this long.
    #[error("the wait ran out")]
    TimedOut(Box<Busy>, Duration),
    #[error("interrupted")]
    Interrupted,
    /// The grant came so late that the job could not be stopped within it; it was given back.
    #[error("taking the lock took {took:?}")]
    TooSlow { took: Duration },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// As `Store`, and a take without an answer could not be given back either.
    #[error(transparent)]
    Unresolved(StoreError),
}

/// Is told how the waiting goes, about once a second.
pub trait WaitObserver {
    fn waiting(&mut self, busy: &Busy);
    fn unreachable(&mut self, error: &StoreError);
    fn over(&mut self);
}

/// Nothing is displayed more often than this while waiting.
const TICK: Duration = Duration::from_secs(1);
/// Between two attempts to reach a store that does not answer: at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// For leaving the queue and cancelling a take: this is time that a person at Ctrl-C waits.
const WITHDRAWAL: Duration = Duration::from_secs(1);

/// Takes the locks, all or none, standing in line as `wait` allows.
///
/// Those that are free are taken together. Where one is not, it is waited for while those before it in
/// `requests` are held and renewed: whoever takes the same locks in the same order cannot deadlock.
///
/// `attempt` bounds each exchange with the store. `reserve` is the part of the lease that has to
/// be left after the grant (for stopping the job). When this fails, the queue was left, what was taken is
/// given back, and a take whose answer is unknown was cancelled.
pub fn acquire(
    store: &mut dyn Store,
    requests: &[Request],
    wait: Wait,
    attempt: Duration,
    reserve: Duration,
    interrupt: BorrowedFd,
    observer: &mut dyn WaitObserver,
) -> Result<Vec<Lease>, NotAcquired> {
    let held = Vec::with_capacity(requests.len());
    let mut line = Acquiring {
        store,
        requests,
        held,
        at_once: requests.len(),
        queued: false,
        starts_over: false,
        attempt,
        interrupt,
        observer,
        backoff: RETRY.0,
        renew_at: BootTime::now(),
    };
    let outcome = match wait {
        Wait::No => line.ask_once(),
        Wait::AtMost(limit) => line.stand(BootTime::now(), Some(limit)),
        Wait::Forever => line.stand(BootTime::now(), None),
    };
    line.observer.over();
    match outcome {
        Ok(()) if Lease::first_deadline(&line.held).minus(reserve).has_passed() => {
            let took = line.held.iter().map(Lease::unconfirmed).max().unwrap_or_default();
            line.withdraw()?;
            Err(NotAcquired::TooSlow { took })
        }
        Ok(()) => Ok(line.held),
        Err(busy @ NotAcquired::Busy(_)) => Err(busy),
        Err(NotAcquired::Store(error @ StoreError::Unreachable { .. })) => match line.withdraw() {
            Ok(()) => Err(NotAcquired::Store(error)),
            Err(_) => Err(NotAcquired::Unresolved(error)),
        },
        Err(other) => {
            // The reason for giving up is the message; a store that cannot be told frees the
            // place by itself.
            let _ = line.withdraw();
            Err(other)
        }
    }
}

struct Acquiring<'a> {
    store: &'a mut dyn Store,
    requests: &'a [Request],
    /// What was granted so far: the leases of the first requests.
    held: Vec<Lease>,
    /// As many of the next ones are asked for together.
    at_once: usize,
    /// We have a place in the queue of the next one, or are about to take one.
    queued: bool,
    /// Something is lost: all has to be given back, and taken anew.
    starts_over: bool,
    attempt: Duration,
    interrupt: BorrowedFd<'a>,
    observer: &'a mut dyn WaitObserver,
    /// The next pause after a failure.
    backoff: Duration,
    /// Not earlier is a renewal tried again that failed.
    renew_at: Deadline,
}

impl<'a> Acquiring<'a> {
    fn ask_once(&mut self) -> Result<(), NotAcquired> {
        let patience = Timeout::or_interrupt(self.attempt, self.interrupt);
        loop {
            let sent = BootTime::now();
            match self.store.acquire(self.requests, &patience) {
                Ok(AcquireOutcome::Granted(grant)) => {
                    self.hold(&grant, sent);
                    return Ok(());
                }
                Ok(AcquireOutcome::Busy(busy)) => return Err(NotAcquired::Busy(busy.into())),
                Err(error @ StoreError::Unreachable { transient: true, .. }) => {
                    self.pause(Some(patience.until))?;
                    if patience.until.has_passed() {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }

    fn stand(&mut self, start: BootTime, limit: Option<Duration>) -> Result<(), NotAcquired> {
        let ran_out = || limit.is_some_and(|limit| BootTime::now().since(start) >= limit);
        while !self.rest().is_empty() {
            match self.ask() {
                Ok(AcquireOutcome::Granted(_)) => {}
                Ok(AcquireOutcome::Busy(busy)) => {
                    self.backoff = RETRY.0;
                    if self.queued {
                        self.store.on_idle();
                        self.wait_for_news(start, limit, &busy)?;
                    } else {
                        self.go_for(&busy);
                    }
                    if ran_out() {
                        return Err(NotAcquired::TimedOut(busy.into(), BootTime::now().since(start)));
                    }
                }
                Err(error @ (StoreError::Unreachable { .. } | StoreError::Unconfirmed(_))) => {
                    self.observer.unreachable(&error);
                    self.pause(limit.map(|limit| start.plus(limit)))?;
                    if ran_out() {
                        return Err(error.into());
                    }
                    self.keep()?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Asks for what is next. Most locks are free: one plain take, and a place in the queue only where one is
    /// not.
    fn ask(&mut self) -> Result<AcquireOutcome, StoreError> {
        let patience = Timeout::or_interrupt(self.attempt, self.interrupt);
        if self.starts_over {
            self.withdraw()?;
            self.starts_over = false;
        }
        let sent = BootTime::now();
        let next = &self.rest()[..self.at_once];
        let answer = match next {
            [one] if self.queued => self.store.enqueue(one, &patience)?,
            several => self.store.acquire(several, &patience)?,
        };
        if let AcquireOutcome::Granted(grant) = &answer {
            self.hold(grant, sent);
            if self.rest().is_empty() {
                self.renew_old()?;
            } else {
                self.store.on_idle();
                // Those before the one that was seen to be busy were free.
                self.queued = !self.queued;
                self.at_once = if self.queued { 1 } else { self.rest().len() };
            }
        }
        Ok(answer)
    }

    /// One of those that were asked for together is busy: takes those before it first.
    fn go_for(&mut self, busy: &Busy) {
        let before = self.rest().iter().position(|request| request.key == busy.key).unwrap_or(0);
        self.queued = before == 0;
        self.at_once = before.max(1);
    }

    /// What is still to be taken.
    fn rest(&self) -> &'a [Request] {
        &self.requests[self.held.len()..]
    }

    fn hold(&mut self, grant: &Grant, sent: BootTime) {
        let Grant { fences, token, since } = grant;
        let granted = self.rest().iter().zip(fences);
        self.held.extend(granted.map(|(request, fence)| {
            let token = token.as_ref().unwrap_or(&request.token).clone();
            Lease::new(Request { token, ..request.clone() }, *fence, since.unwrap_or(sent))
        }));
    }

    /// Renews what is held, when it is time. When some of it is lost, everything is given back, and taken anew:
    /// no job runs yet that would need it.
    fn keep(&mut self) -> Result<(), NotAcquired> {
        if !self.renewal_due().has_passed() {
            return Ok(());
        }
        match self.renew(|lease| lease.renewal_due().has_passed()) {
            Ok(()) => Ok(()),
            Err(error @ (StoreError::Unreachable { .. } | StoreError::Unconfirmed(_))) => {
                self.observer.unreachable(&error);
                self.renew_at = Deadline::after(self.next_pause());
                Ok(())
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Renews what was taken some time before the rest: the time of all counts from now.
    fn renew_old(&mut self) -> Result<(), StoreError> {
        self.renew(|lease| lease.unconfirmed() > lease.request.ttl.duration() / 10)
    }

    fn renew(&mut self, is_due: impl Fn(&Lease) -> bool) -> Result<(), StoreError> {
        let patience = Timeout::or_interrupt(self.attempt, self.interrupt);
        let due: Vec<&mut Lease> = self.held.iter_mut().filter(|lease| is_due(lease)).collect();
        let (all, mut outcome) = (due.len(), Ok(()));
        for (done, lease) in due.into_iter().enumerate() {
            let sent = BootTime::now();
            match self.store.renew(&lease.request, Some(lease.fence), &patience.share(all - done)) {
                Ok(Renewal::Extended | Renewal::Healed) => lease.extend(sent),
                Ok(Renewal::Released | Renewal::Lost(_)) => self.starts_over = true,
                // The others are asked all the same: one of them may be lost.
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        // Also when another renewal failed: what is lost is not held.
        if self.starts_over {
            self.held.clear();
            (self.queued, self.at_once) = (false, self.requests.len());
        }
        outcome
    }

    /// When the first lease that is held has to be renewed.
    fn renewal_due(&self) -> Deadline {
        let due = self.held.iter().map(Lease::renewal_due).min().unwrap_or(Deadline::NEVER);
        due.max(self.renew_at)
    }

    /// Waits for a reason to ask again, or for the end of the wait.
    fn wait_for_news(
        &mut self,
        start: BootTime,
        limit: Option<Duration>,
        busy: &Busy,
    ) -> Result<(), NotAcquired> {
        loop {
            self.observer.waiting(busy);
            let mut until = Deadline::after(TICK).min(self.renewal_due());
            if let Some(limit) = limit {
                until = until.min(start.plus(limit));
            }
            let patience = Timeout { until, interrupt: Some(self.interrupt) };
            let news = self.store.wait(&patience).map_err(failed)?;
            self.keep()?;
            let is_over = limit.is_some_and(|limit| BootTime::now().since(start) >= limit);
            if news || is_over || !self.queued {
                return Ok(());
            }
        }
    }

    /// A random pause, so that a server that comes back is not met by everybody at once; at most until `limit`.
    fn pause(&mut self, limit: Option<Deadline>) -> Result<(), NotAcquired> {
        let end = Deadline::after(self.next_pause());
        let end = limit.map_or(end, |limit| end.min(limit));
        while !end.has_passed() {
            if readable(self.interrupt) {
                return Err(NotAcquired::Interrupted);
            }
            thread::sleep(end.left().min(Duration::from_millis(20)));
        }
        Ok(())
    }

    fn next_pause(&mut self) -> Duration {
        let pause = self.backoff.mul_f64(0.5 + fastrand::f64());
        self.backoff = (self.backoff * 2).min(RETRY.1);
        pause
    }

    fn withdraw(&mut self) -> Result<(), StoreError> {
        self.store.cancel(self.requests, &Timeout::of(WITHDRAWAL.min(self.attempt)))
    }
}

fn failed(error: StoreError) -> NotAcquired {
    match error {
        StoreError::Interrupted => NotAcquired::Interrupted,
        other => other.into(),
    }
}

fn readable(fd: BorrowedFd) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1)
}
