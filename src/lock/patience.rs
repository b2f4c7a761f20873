//! The locks that a request wants, and how long it waits for them.

use std::time::Duration;

use super::{Busy, Request, StoreError};

/// The locks that are wanted: all of them, or one.
#[derive(Clone, Copy, Debug)]
pub enum LockChoice<'a> {
    /// All of them, or none.
    All(&'a [Request]),
    /// One of them, whichever is free first.
    OneOf(&'a [Request]),
}

impl<'a> LockChoice<'a> {
    pub fn requests(self) -> &'a [Request] {
        let (LockChoice::All(requests) | LockChoice::OneOf(requests)) = self;
        requests
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Wait {
    No,
    AtMost(Duration),
    Forever,
}

/// How long a request waits for busy locks, and behind how many.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    pub wait: Wait,
    /// The most waiters in a queue with this one; as many as come, if `None`.
    pub queue_limit: Option<usize>,
}

/// The progress of the wait, reported about once a second. While a lock is busy, a break ends the wait as an interrupt does.
pub enum WaitProgress<'a> {
    Busy(&'a Busy),
    Unreachable(&'a StoreError),
    Ended,
}
