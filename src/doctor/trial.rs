//! The life of a lock on any store, from the grant to the end, by the calls that all locks are made of.

use std::slice::from_ref;
use std::thread;
use std::time::Duration;

use super::{Check, Findings, millis};
use crate::clock::{BootTime, Deadline};
use crate::lock::{
    AcquireOutcome, BreakScope, Breaker, Broken, FencingToken, Key, LockStatus, Metadata, Mode, OwnerToken,
    ReleaseOutcome, Renewal, Request, Result, StoreAdmin, StoreError, Timeout, Ttl,
};

/// Acquires a lock that nobody else uses, waits for it with another owner token, hands it over, breaks it, and releases
/// it. It takes two stores, as each has one place in a queue.
pub struct Trial<'a> {
    pub holder: &'a mut dyn StoreAdmin,
    pub waiter: &'a mut dyn StoreAdmin,
    pub key: &'a Key,
    /// For each call.
    pub attempt: Duration,
}

/// The measurements of a trial that went well.
pub struct Measured {
    /// The time of the store for a renewal.
    pub round_trip: Duration,
    /// The time from the release to the grant of the next.
    handover: Duration,
}

pub enum Trouble {
    Failed(&'static str, StoreError),
    /// The answer is not what it has to be.
    Wrong(&'static str),
}

impl Trial<'_> {
    /// Runs the trial. The caller removes what is kept for the key afterwards.
    pub fn run(mut self) -> Result<Measured, Trouble> {
        let requests = [self.request(Mode::Exclusive), self.request(Mode::Exclusive)];
        let lived = self.live(&requests);
        if lived.is_err() {
            // An answer may still be out.
            let _ = self.holder.cancel(&requests[..1], &self.timeout());
            let _ = self.waiter.cancel(&requests[1..], &self.timeout());
        }
        lived
    }

    fn live(&mut self, [first, second]: &[Request; 2]) -> Result<Measured, Trouble> {
        let (key, waiters) = (self.key, usize::from(self.holder.capabilities().queue));
        let fence = granted("take", self.holder.acquire(from_ref(first), &self.timeout()))?;
        let busy = self.waiter.enqueue(second, &self.timeout());
        expect("wait in the queue", busy, |busy| matches!(busy, AcquireOutcome::Busy(_)))?;
        let sent = BootTime::now();
        let renewed = self.holder.renew(first, Some(fence), &self.timeout());
        let round_trip = BootTime::now().since(sent);
        expect("renew", renewed, |renewed| matches!(renewed, Renewal::Extended))?;
        expect("check", self.holder.check(key, &first.token, &self.timeout()), Option::is_some)?;
        let is_seen = |lock: &LockStatus| lock.holders.len() == 1 && lock.waiters.len() == waiters;
        let status = self.holder.status(from_ref(key), &self.timeout());
        expect("status", status, |locks| locks.iter().any(is_seen))?;

        let (next, handover) = self.hand_over(first, second)?;
        expect("the fencing token grows", Ok(next), |next| *next > fence)?;
        self.waiter.settle();

        let by = Breaker::new("redlock", "doctor", None);
        let broken = self.holder.break_lock(key, &BreakScope::All, &by, &self.timeout());
        expect("break", broken, |broken| matches!(broken, Broken::Told(_)))?;
        let lost = self.waiter.renew(second, Some(next), &self.timeout());
        expect("renew a broken lock", lost, |lost| matches!(lost, Renewal::Lost(_)))?;
        let released = self.waiter.release(from_ref(key), &second.token, &self.timeout());
        expect("release a broken lock", released, is_released)?;
        self.share()?;
        Ok(Measured { round_trip, handover })
    }

    /// Whoever releases stays until the next one has the lock.
    fn hand_over(&mut self, first: &Request, second: &Request) -> Result<(FencingToken, Duration), Trouble> {
        let (key, attempt) = (self.key, self.attempt);
        let (holder, waiter) = (&mut *self.holder, &mut *self.waiter);
        let begin = BootTime::now();
        let (released, next) = thread::scope(|scope| {
            let releasing =
                scope.spawn(move || holder.release(from_ref(key), &first.token, &Timeout::of(attempt)));
            let until = Deadline::after(attempt);
            let next = loop {
                // Until the grant arrives: the first news may be how long the holder's lease lasts.
                let is_told = waiter.wait(&Timeout { until, interrupt: None });
                if let Err(trouble) = expect("wake the next waiter", is_told, |is_told| *is_told) {
                    break Err(trouble);
                }
                match waiter.enqueue(second, &Timeout::of(attempt)) {
                    Ok(AcquireOutcome::Busy(_)) if !until.has_passed() => {}
                    answer => break granted("hand over", answer),
                }
            };
            (releasing.join(), next)
        });
        let handover = BootTime::now().since(begin);
        expect("release", released.map_err(|_| Trouble::Wrong("release"))?, is_released)?;
        Ok((next?, handover))
    }

    /// The lock as a reader's.
    fn share(&mut self) -> Result<(), Trouble> {
        if self.holder.capabilities().shared.is_err() {
            return Ok(());
        }
        let reader = self.request(Mode::Shared);
        granted("take shared", self.holder.acquire(from_ref(&reader), &self.timeout()))?;
        let released = self.holder.release(from_ref(self.key), &reader.token, &self.timeout());
        expect("release shared", released, is_released).map(drop)
    }

    fn request(&self, mode: Mode) -> Request {
        // Not the TTL in use: that may be too short for this link, which is found out elsewhere.
        let request = Request::new(self.key.clone(), mode, OwnerToken::random(), Ttl::DEFAULT);
        let metadata = Metadata::new(String::new(), std::process::id(), String::new(), "redlock doctor");
        Request { metadata, ..request }
    }

    fn timeout(&self) -> Timeout<'static> {
        Timeout::of(self.attempt)
    }
}

/// Adds what the trial shows. `advice` is for a call that failed, and for an answer that makes no sense.
pub fn judge(trial: &Result<Measured, Trouble>, [failed, wrong]: [&str; 2], report: &mut Findings) {
    match trial {
        Ok(Measured { handover, .. }) => {
            let handover = millis(*handover);
            let finding =
                format!("a lock was taken, renewed, handed over in {handover}, broken and released");
            report.ok(Check::Locking, finding);
        }
        Err(Trouble::Failed(step, error)) => {
            let why = match error {
                StoreError::Unreachable { why, .. }
                | StoreError::Denied { why, .. }
                | StoreError::Unusable { why, .. } => why.clone(),
                other => other.to_string(),
            };
            report.bad(Check::Locking, format!("a lock for a trial failed at '{step}': {why}"), failed);
        }
        Err(Trouble::Wrong(step)) => {
            let finding = format!("a lock for a trial failed at '{step}': the answer makes no sense");
            report.bad(Check::Locking, finding, wrong);
        }
    }
}

fn expect<T>(step: &'static str, answer: Result<T>, is_sound: impl Fn(&T) -> bool) -> Result<T, Trouble> {
    let answer = answer.map_err(|error| Trouble::Failed(step, error))?;
    if is_sound(&answer) { Ok(answer) } else { Err(Trouble::Wrong(step)) }
}

fn is_released(outcomes: &Vec<ReleaseOutcome>) -> bool {
    *outcomes == [ReleaseOutcome::Released]
}

fn granted(step: &'static str, answer: Result<AcquireOutcome>) -> Result<FencingToken, Trouble> {
    match expect(step, answer, |_| true)? {
        AcquireOutcome::Granted(granted) => granted.fences.first().copied().ok_or(Trouble::Wrong(step)),
        AcquireOutcome::Busy(_) => Err(Trouble::Wrong(step)),
    }
}
