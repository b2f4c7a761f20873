//! `redlock wait`: waits until locks are free, and takes nothing.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::clock::{BootTime, Deadline};
use crate::error::{BUSY, Failure, Outcome};
use crate::event::{Event, GaveUp, Waited};
use crate::job::Signals;
use crate::lock::{Busy, LockStatus, StoreError, Survey, Timeout};
use crate::options::WaitOptions;
use crate::poll::wait_readable;
use crate::session::{Context, refuse_patterns, survey_within};
use crate::store::PollSchedule;

pub fn wait(options: &WaitOptions, context: &Context) -> anyhow::Result<Outcome> {
    let WaitOptions { selection, timeout: limit } = options;
    refuse_patterns(selection, context)?;
    let mut signals = Signals::listen().map_err(Failure::cannot("listen for signals"))?;
    let (mut store, mut polls) = (context.open_store(), PollSchedule::default());
    let (start, attempt) = (BootTime::now(), context.options.connect_timeout);
    let end = limit.map_or(Deadline::NEVER, |limit| start.plus(limit));
    let waited = || Waited { so_far: BootTime::now().since(start), limit: *limit };
    // The first question may have its answer, however short the wait.
    let (mut answer_by, mut last) = (Deadline::NEVER, None);
    loop {
        let timeout = || Timeout::or_interrupt(attempt, signals.as_fd()).before(answer_by);
        let found = survey_within(selection, store.as_mut(), timeout).and_then(Survey::complete);
        answer_by = end;
        match found.map(|locks| locks.into_iter().find(LockStatus::is_in_use).map(busy)) {
            Ok(None) => {
                context.reporter.report(&Event::WaitEnded);
                return Ok(Outcome::SUCCESS);
            }
            Ok(Some(busy)) => {
                context.reporter.report(&Event::Waiting { busy: &busy, waited: waited() });
                last = Some(busy);
            }
            Err(StoreError::Interrupted) => {}
            // The end came before the answer: the one before it counts.
            Err(error) if error.is_unknown() && end.has_passed() && last.is_some() => {}
            Err(error) if error.is_unknown() && !end.has_passed() => {
                context.reporter.report(&Event::StoreUnreachable { error: &error, waited: waited() });
                last = None;
            }
            Err(error) => {
                context.reporter.report(&Event::WaitEnded);
                return Err(context.explain(error).into());
            }
        }
        let pause = polls.pause(last.as_ref().map_or(Duration::MAX, free_in));
        wait_readable([signals.as_fd()], end.min(Deadline::after(pause)));
        if let Some(arrived) = signals.take() {
            context.reporter.report(&Event::WaitEnded);
            return Err(Failure::Signal(arrived.signal).into());
        }
        if let Some(busy) = last.as_ref().filter(|_| end.has_passed()) {
            context.reporter.report(&Event::NotAcquired { busy, why: GaveUp::After(waited().so_far) });
            return Err(Failure::Quiet(BUSY).into());
        }
    }
}

/// The reason why a lock is not free. Nobody stands in its queue for this.
fn busy(lock: LockStatus) -> Busy {
    let others = lock.holders.len().saturating_sub(1);
    Busy { key: lock.key, holder: lock.holders.into_iter().next(), others, ahead: None }
}

/// The time after which the lock may be free, even if nobody does anything.
fn free_in(busy: &Busy) -> Duration {
    busy.holder.as_ref().and_then(|holder| holder.left).unwrap_or(Duration::MAX)
}
