//! What the keeper's progress means for the job and for the person.

use std::time::Duration;

use crate::cli::OnLost;
use crate::clock::Deadline;
use crate::job::JobControl;
use crate::lock::{DurationText, Lease, Progress};
use crate::report::{Messages, lost_to};

/// Tells the guard and the person what comes of the renewals.
pub struct RenewalEvents {
    pub control: JobControl,
    pub messages: Messages,
    /// What messages call the locks.
    pub locks: String,
    pub on_lost: OnLost,
    pub kill_after: Duration,
}

impl RenewalEvents {
    pub fn tell(&self, progress: &Progress) {
        match progress {
            Progress::Renewed(deadline) => {
                self.control.extend(*deadline);
                self.messages.note(format_args!("renewed {}", self.locks));
            }
            Progress::Healed(lease, gone) => tell_of_heal(self.messages, lease, *gone),
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

/// A lock was away for a while, and is held again.
pub fn tell_of_heal(messages: Messages, lease: &Lease, gone: Duration) {
    messages.warning(format_args!(
        "'{}' was gone from the store, for at most {}; nobody else was granted it, and it is held again",
        lease.request.key,
        DurationText(gone)
    ));
}

/// The lease that is lost, and why, as a message says it; `None` where it is not.
pub fn loss<'a>(progress: &Progress<'a>) -> Option<(&'a Lease, String)> {
    match *progress {
        Progress::Renewed(_) | Progress::Healed(..) | Progress::Failed(..) => None,
        Progress::Released(lease) => Some((lease, "it was given back with its owner token".to_owned())),
        Progress::Lost(lease, None) if lease.is_borrowed => {
            Some((lease, "nobody holds it any more".to_owned()))
        }
        Progress::Lost(lease, now_held) => Some((lease, lost_to(now_held))),
        Progress::Expired(lease) => {
            Some((lease, "no renewal came through before its lease ended".to_owned()))
        }
    }
}
