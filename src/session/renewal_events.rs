//! What becomes of renewals: orders to the guard, and events.

use std::slice;
use std::time::Duration;

use super::HookControl;
use crate::cli::OnLost;
use crate::event::{Event, LossConsequence};
use crate::job::JobControl;
use crate::lock::{Key, Lease, LossCause, Progress};
use crate::report::Reporter;

/// Passes the progress of a job's renewals on.
pub struct RenewalEvents {
    pub control: JobControl,
    /// Of a run that has hooks.
    pub hooks: Option<HookControl>,
    pub reporter: Reporter,
    /// Of all locks of the job.
    pub keys: Vec<Key>,
    pub on_lost: OnLost,
}

impl RenewalEvents {
    pub fn handle(&self, progress: Progress) {
        // The guard is told before any reader, which may be slow.
        if let Progress::Renewed { deadline, .. } = progress {
            self.control.extend(deadline);
            self.hooks.iter().for_each(|hooks| hooks.extend(deadline));
        }
        report_renewal(&self.reporter, &self.keys, &progress);
        if let Progress::Lost { lease, cause, at_release } = progress {
            let outlived_job = self.hooks.as_ref().is_some_and(HookControl::did_locks_outlive_job);
            let has_job_ended = at_release || self.hooks.as_ref().is_some_and(HookControl::has_job_ended);
            let consequence = match self.on_lost {
                _ if outlived_job => LossConsequence::JobHadEnded,
                _ if has_job_ended => LossConsequence::JobRanOn,
                OnLost::Continue => LossConsequence::JobContinues,
                OnLost::Terminate => {
                    // The guard sees the deadline itself.
                    if !matches!(cause, LossCause::Expired(_)) {
                        self.control.stop();
                    }
                    LossConsequence::JobIsStopped
                }
            };
            report_loss(&self.reporter, &lease.request.key, &cause, consequence);
        }
    }
}

/// Reports everything but a loss, of which others decide what follows.
pub fn report_renewal(reporter: &Reporter, keys: &[Key], progress: &Progress) {
    match progress {
        Progress::Renewed { took, .. } => reporter.report(&Event::Renewed { keys, took: *took }),
        Progress::Healed(lease, gone) => report_heal(reporter, lease, *gone),
        Progress::Failed(lease, error) => {
            let (key, left) = (&lease.request.key, lease.deadline().left());
            reporter.report(&Event::RenewalFailed { key, error, left });
        }
        Progress::Lost { .. } => {}
    }
}

pub fn report_heal(reporter: &Reporter, lease: &Lease, gone: Duration) {
    reporter.report(&Event::Healed { key: &lease.request.key, gone });
}

pub fn report_loss(reporter: &Reporter, key: &Key, cause: &LossCause, consequence: LossConsequence) {
    reporter.report(&Event::Lost { keys: slice::from_ref(key), cause, consequence });
}
