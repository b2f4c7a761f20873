//! Requests to the guard while the job runs.

use std::sync::Arc;

use super::deadlines::Reserve;
use super::guard_process::GuardProcess;
use super::protocol::{Channel, GuardRequest};
use crate::clock::{BootTime, Deadline};

/// Sends requests to the guard from any thread. A request wakes a guard that somebody stopped.
#[derive(Clone, Debug)]
pub struct JobControl {
    pub(super) channel: Arc<Channel>,
    pub(super) guard: Arc<GuardProcess>,
    pub(super) reserve: Reserve,
}

impl JobControl {
    /// The lease was extended, and ends then.
    pub fn extend(&self, lease_end: Deadline) {
        self.request(&GuardRequest::Extend(self.reserve.before(lease_end)));
    }

    /// Has the whole job stopped, and killed after the time that the options name.
    pub fn stop(&self) {
        self.request(&GuardRequest::Stop { kill_at: Deadline::after(self.reserve.kill_after) });
    }

    /// A request is lost if the guard's buffer is full: then the guard has been stopped for long, and redlock ends the job itself
    /// when it is due.
    pub fn request(&self, request: &GuardRequest) {
        match request {
            GuardRequest::Extend(deadlines) => self.guard.extend(deadlines.stop),
            GuardRequest::Stop { .. } | GuardRequest::Kill => self.guard.set_stop_at(Some(BootTime::now())),
            _ => {}
        }
        // Before the request: whoever sees what that does, and stops the guard then, finds it stopped.
        self.guard.send(libc::SIGCONT);
        self.channel.offer(request);
    }
}
