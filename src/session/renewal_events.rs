//! What becomes of renewals: orders to the guard, and events.

use std::time::Duration;

use crate::cli::OnLost;
use crate::clock::Deadline;
use crate::event::{Event, LossConsequence};
use crate::job::{GuardRequest, JobControl};
use crate::lock::{Key, Lease, LossCause, Progress};
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
    pub fn handle(&self, progress: Progress) {
        match progress {
            Progress::Renewed(deadline) => {
                self.control.request(&GuardRequest::Extend { deadline });
                self.reporter.report(&Event::Renewed { locks: &self.locks, ttl: None });
            }
            Progress::Healed(lease, gone) => report_heal(&self.reporter, lease, gone),
            Progress::Failed(lease, error) => {
                let (key, left) = (&lease.request.key, lease.deadline().left());
                self.reporter.report(&Event::RenewalFailed { key, error, left });
            }
            Progress::Lost(lease, cause) => {
                let consequence = match self.on_lost {
                    OnLost::Continue => LossConsequence::JobContinues,
                    OnLost::Terminate => {
                        // The guard sees the deadline itself.
                        if !matches!(cause, LossCause::Expired(_)) {
                            let kill_at = lease.deadline().min(Deadline::after(self.kill_after));
                            self.control.request(&GuardRequest::Stop { kill_at });
                        }
                        LossConsequence::JobIsStopped
                    }
                };
                report_loss(&self.reporter, &lease.request.key, &cause, consequence);
            }
        }
    }
}

pub fn report_heal(reporter: &Reporter, lease: &Lease, gone: Duration) {
    reporter.report(&Event::Healed { key: &lease.request.key, gone });
}

pub fn report_loss(reporter: &Reporter, key: &Key, cause: &LossCause, consequence: LossConsequence) {
    reporter.report(&Event::Lost { locks: &names([key]), cause, consequence });
}
