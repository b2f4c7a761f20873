//! How long a call to a store may take, and what ends it early.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};

use super::{Result, StoreError};
use crate::clock::Deadline;
#[cfg(test)]
use crate::clock::fake;

/// A deadline and a cancellation descriptor.
#[derive(Clone, Copy)]
pub struct Timeout<'a> {
    /// The end of the call, with an answer or without.
    pub until: Deadline,
    /// When this becomes readable the call returns [`StoreError::Interrupted`].
    pub interrupt: Option<BorrowedFd<'a>>,
}

impl<'a> Timeout<'a> {
    pub fn of(duration: Duration) -> Timeout<'static> {
        Timeout { until: Deadline::after(duration), interrupt: None }
    }

    pub fn or_interrupt(duration: Duration, interrupt: BorrowedFd<'a>) -> Timeout<'a> {
        Timeout { until: Deadline::after(duration), interrupt: Some(interrupt) }
    }

    /// The share of one out of `calls`, so that a call that hangs leaves time for the others.
    pub fn share(&self, calls: usize) -> Timeout<'a> {
        self.at_most(self.until.left() / calls.max(1) as u32)
    }

    /// The same, and at most `duration`.
    pub fn at_most(&self, duration: Duration) -> Timeout<'a> {
        self.before(Deadline::after(duration))
    }

    /// The same, and over at `deadline`.
    pub fn before(&self, deadline: Deadline) -> Timeout<'a> {
        Timeout { until: self.until.min(deadline), ..*self }
    }

    /// Works on each of these with a share of the time. One that fails does not keep the others; its error is the result.
    pub fn share_among<T, R>(
        &self,
        several: &[T],
        mut work: impl FnMut(&T, &Timeout<'a>) -> Result<R>,
    ) -> Result<Vec<R>> {
        let (mut results, mut failed) = (Vec::with_capacity(several.len()), None);
        for (done, one) in several.iter().enumerate() {
            match work(one, &self.share(several.len() - done)) {
                Ok(result) => results.push(result),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(results), Err)
    }

    /// Sleeps until `deadline`, or until the call ends. The only error is [`StoreError::Interrupted`].
    pub fn pause_until(&self, deadline: Deadline) -> Result<()> {
        let until = deadline.min(self.until);
        while !until.has_passed() {
            self.pause(until.left())?;
        }
        Ok(())
    }

    /// Sleeps for `duration`; a signal may cut that short. The only error is [`StoreError::Interrupted`].
    pub fn pause(&self, duration: Duration) -> Result<()> {
        #[cfg(test)]
        let duration = fake::now().map_or(duration, |now| {
            fake::move_to(now.plus(duration));
            Duration::ZERO
        });
        let mut fds: Vec<PollFd> =
            self.interrupt.iter().map(|interrupt| PollFd::new(*interrupt, PollFlags::POLLIN)).collect();
        // poll(2) would wait for whole milliseconds.
        match ppoll(&mut fds, Some(duration.into()), None) {
            Ok(1..) => Err(StoreError::Interrupted),
            _ => Ok(()),
        }
    }
}
