//! What the keeper's progress means for the job and for the person.

use std::time::Duration;

use super::loss::loss;
use crate::cli::OnLost;
use crate::clock::Deadline;
use crate::lock::{DurationText, Progress};
use crate::output::Messages;
use crate::process::Control;

/// Tells the guard and the person what comes of the renewals.
pub struct Telling {
    pub control: Control,
    pub messages: Messages,
    /// What messages call the locks.
    pub locks: String,
    pub on_lost: OnLost,
    pub kill_after: Duration,
}

impl Telling {
    pub fn tell(&self, progress: &Progress) {
        match progress {
            Progress::Renewed(deadline) => {
                self.control.extend(*deadline);
                self.messages.note(format_args!("renewed {}", self.locks));
            }
            Progress::Healed(lease, gone) => self.messages.warning(format_args!(
                "'{}' was gone from the store, for at most {}; nobody else was granted it, and it is held again",
                lease.request.key,
                DurationText(*gone)
            )),
            Progress::Failed(lease, error) => self.messages.note(format_args!(
                "could not renew '{}': {error}; {} left on its lease",
                lease.request.key,
                DurationText(lease.deadline().left())
            )),
            Progress::Released(lease) | Progress::Lost(lease, _) => self.stop_by(lease.deadline()),
            // The guard sees the deadline itself.
            Progress::Expired(_) => {}
        }
        if let Some((lease, why)) = loss(progress) {
            let what_now = match self.on_lost {
                OnLost::Terminate => "stopping the job",
                OnLost::Continue => "the job goes on without it",
            };
            self.messages.error(format_args!("lost '{}': {why}; {what_now}", lease.request.key));
        }
    }

    fn stop_by(&self, deadline: Deadline) {
        if self.on_lost == OnLost::Terminate {
            self.control.stop(deadline.min(Deadline::after(self.kill_after)));
        }
    }
}
