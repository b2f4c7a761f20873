use std::os::fd::{AsFd, BorrowedFd};

use crate::lock::Hurry;
use crate::process::Signals;

/// The signals that ask redlock to end: one is no reason not to give the lock back, a second one is.
pub struct Wishes {
    pub signals: Signals,
    /// One has come.
    pub told: bool,
}

impl Hurry for Wishes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    fn is_great(&mut self) -> bool {
        while let Some(arrived) = self.signals.next() {
            let is_wish = !arrived.is_for_the_command() && !arrived.is_same_wish;
            if is_wish && std::mem::replace(&mut self.told, true) {
                return true;
            }
        }
        false
    }
}
