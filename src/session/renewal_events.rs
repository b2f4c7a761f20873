//! What becomes of renewals: orders to the guard, and events.

use std::time::Duration;

use crate::cli::OnLost;
use crate::clock::Deadline;
use crate::event::{Event, Loss, LossCause, LossConsequence};
use crate::job::JobControl;
use crate::lock::{Key, Lease, Progress};
use crate::report::{Reporter, names};

/// Passes the progress of a job's renewals on.
pub struct RenewalEvents {
    pub control: JobControl,
    pub reporter: Reporter,
    /// What messages call the locks.
    pub locks: String,
    pub on_lost: OnLost,
    pub kill_after: Duration,
}

impl RenewalEvents {
    pub fn handle(&self, progress: &Progress) {
        match *progress {
            Progress::Renewed(deadline) => {
                self.control.extend(deadline);
                self.reporter.report(&Event::Renewed { locks: &self.locks, ttl: None });
            }
            Progress::Healed(lease, gone) => report_heal(&self.reporter, lease, gone),
            Progress::Failed(lease, error) => {
                let (key, left) = (&lease.request.key, lease.deadline().left());
                self.reporter.report(&Event::RenewalFailed { key, error, left });
            }
            Progress::Released(lease) | Progress::Lost(lease, _) => self.stop_by(lease.deadline()),
            // The guard sees the deadline itself.
            Progress::Expired(_) => {}
        }
        if let Some((lease, cause)) = loss(progress) {
            let consequence = match self.on_lost {
                OnLost::Terminate => LossConsequence::JobIsStopped,
                OnLost::Continue => LossConsequence::JobContinues,
            };
            report_loss(&self.reporter, &lease.request.key, &cause, consequence);
        }
    }

    fn stop_by(&self, deadline: Deadline) {
        if self.on_lost == OnLost::Terminate {
            self.control.stop(deadline.min(Deadline::after(self.kill_after)));
        }
    }
}

pub fn report_heal(reporter: &Reporter, lease: &Lease, gone: Duration) {
    reporter.report(&Event::Healed { key: &lease.request.key, gone });
}

pub fn report_loss(reporter: &Reporter, key: &Key, cause: &LossCause, consequence: LossConsequence) {
    reporter.report(&Event::Lost(Loss { locks: &names([key]), cause, consequence }));
}

/// The lease that is lost, and why; `None` where none is.
pub fn loss<'a>(progress: &Progress<'a>) -> Option<(&'a Lease, LossCause)> {
    Some(match *progress {
        Progress::Renewed(_) | Progress::Healed(..) | Progress::Failed(..) => return None,
        Progress::Released(lease) => (lease, LossCause::Released),
        Progress::Lost(lease, None) if lease.is_borrowed => (lease, LossCause::NotHeld),
        Progress::Lost(lease, now_held) => (lease, LossCause::Taken(now_held.cloned().map(Box::new))),
        Progress::Expired(lease) => (lease, LossCause::Expired),
    })
}
