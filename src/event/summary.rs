//! The summary of one call of redlock, added up from its events.

use std::time::Duration;

use super::{Event, GaveUp, LossConsequence};
use crate::clock::BootTime;
use crate::error::{
    BUSY, CONFIGURATION, DENIED, LOST, NOT_EXECUTABLE, NOT_FOUND, Outcome, UNREACHABLE, USAGE,
};
use crate::job::ExitStatus;
use crate::lock::{Breaker, FencingToken, Key, LossCause};

/// A `run` or an `acquire` from its request to its end.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub keys: Vec<Key>,
    pub label: String,
    /// The number of the run.
    pub sequence: Option<u64>,
    /// The locks that were granted; others are inherited, or nothing was granted.
    pub granted: Vec<Key>,
    /// The fencing tokens of the granted locks.
    pub fences: Vec<FencingToken>,
    pub lost: Vec<Key>,
    /// The person who broke the lock, and the reason.
    pub broken_by: Option<Breaker>,
    /// The command was started.
    pub started: bool,
    /// From the request to the grant of the last lock, or to the end of the wait without one.
    pub waited: Duration,
    /// From the grant to the release or the loss; `None` when nothing was held, or it is held on.
    pub held: Option<Duration>,
    pub renewals: u32,
    pub failed_renewals: u32,
    pub slowest_renewal: Duration,
    /// How redlock ends.
    pub exit: Option<Outcome>,
    /// One of the keys was wanted.
    one_of: bool,
    requested_at: Option<BootTime>,
    granted_at: Option<BootTime>,
    result: Option<RunOutcome>,
}

/// The outcome of a `run` or an `acquire`. The names are stable: they are in logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// The command exited with 0, or the lock was acquired.
    Success,
    /// The command exited with another status.
    Failure,
    /// A signal killed the command.
    Killed,
    /// `--timeout` stopped the command.
    TimedOut,
    Lost,
    /// Held by another, and redlock did not wait.
    Busy,
    /// Held by another until the wait was over.
    GaveUp,
    /// A later request goes first, by `--supersede`.
    Superseded,
    /// `--once-per` asked for no run so early: nothing was started.
    AlreadyRan,
    /// A run with a higher `--sequence` has begun: nothing was started.
    Outdated,
    /// A signal ended redlock before the command was started.
    Interrupted,
    /// No store could be reached, or the lease was over too early.
    Unreachable,
    /// The store refused.
    Denied,
    /// The command line, a file, or a key of another kind.
    Refused,
    /// The command cannot be executed.
    NotStarted,
    /// Another failure.
    Failed,
}

impl RunOutcome {
    pub const ALL: [RunOutcome; 16] = [
        RunOutcome::Success,
        RunOutcome::Failure,
        RunOutcome::Killed,
        RunOutcome::TimedOut,
        RunOutcome::Lost,
        RunOutcome::Busy,
        RunOutcome::GaveUp,
        RunOutcome::Superseded,
        RunOutcome::AlreadyRan,
        RunOutcome::Outdated,
        RunOutcome::Interrupted,
        RunOutcome::Unreachable,
        RunOutcome::Denied,
        RunOutcome::Refused,
        RunOutcome::NotStarted,
        RunOutcome::Failed,
    ];

    /// True if the outcome says how the command ended, so the command was started.
    pub fn is_of_command(self) -> bool {
        use RunOutcome::{Failure, Killed, Success, TimedOut};
        matches!(self, Success | Failure | Killed | TimedOut)
    }

    pub fn name(self) -> &'static str {
        match self {
            RunOutcome::Success => "success",
            RunOutcome::Failure => "failure",
            RunOutcome::Killed => "killed",
            RunOutcome::TimedOut => "timed_out",
            RunOutcome::Lost => "lost",
            RunOutcome::Busy => "busy",
            RunOutcome::GaveUp => "gave_up",
            RunOutcome::Superseded => "superseded",
            RunOutcome::AlreadyRan => "already_ran",
            RunOutcome::Outdated => "outdated",
            RunOutcome::Interrupted => "interrupted",
            RunOutcome::Unreachable => "unreachable",
            RunOutcome::Denied => "denied",
            RunOutcome::Refused => "refused",
            RunOutcome::NotStarted => "not_started",
            RunOutcome::Failed => "failed",
        }
    }
}

impl Summary {
    /// Adds an event.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::Requested { requests, one_of } => {
                self.one_of = *one_of;
                self.requested_at = Some(BootTime::now());
                self.keys = requests.iter().map(|request| request.key.clone()).collect();
                self.label = requests.first().map_or(String::new(), |one| one.metadata.label.clone());
                self.sequence = requests.first().and_then(|one| one.metadata.sequence);
            }
            Event::Acquired { key, fence, waited } => {
                if self.one_of {
                    self.keys = vec![(*key).clone()];
                }
                self.granted.push((*key).clone());
                self.fences.push(*fence);
                self.waited = *waited;
                self.granted_at = Some(BootTime::now());
            }
            Event::Renewed { took, .. } => {
                self.renewals += 1;
                self.slowest_renewal = self.slowest_renewal.max(*took);
            }
            Event::RenewalFailed { .. } => self.failed_renewals += 1,
            Event::NotAcquired { why, .. } => {
                (self.result, self.waited) = match *why {
                    GaveUp::After(waited) => (Some(RunOutcome::GaveUp), waited),
                    GaveUp::AtOnce | GaveUp::QueueFull(_) => (Some(RunOutcome::Busy), Duration::ZERO),
                };
            }
            Event::Superseded { .. } => self.result = Some(RunOutcome::Superseded),
            Event::AlreadyRan { .. } => {
                self.result = Some(RunOutcome::AlreadyRan);
                self.end_hold();
            }
            Event::Outdated { .. } => {
                self.result = Some(RunOutcome::Outdated);
                self.end_hold();
            }
            // The exit status of a loss is that of a loss.
            Event::TimedOut { .. } if self.result != Some(RunOutcome::Lost) => {
                self.result = Some(RunOutcome::TimedOut);
            }
            Event::CommandEnded { status } => {
                self.result.get_or_insert(match status {
                    ExitStatus::Exited(0) => RunOutcome::Success,
                    ExitStatus::Exited(_) => RunOutcome::Failure,
                    ExitStatus::Signaled(_) => RunOutcome::Killed,
                });
            }
            Event::Started { keys } => {
                self.started = true;
                self.keys = keys.to_vec();
            }
            Event::Lost { keys, cause, consequence } => {
                self.lost.extend_from_slice(keys);
                if let LossCause::Taken(Some(holder)) = cause {
                    self.broken_by.clone_from(&holder.broken);
                }
                if !matches!(consequence, LossConsequence::JobHadEnded) {
                    self.result = Some(RunOutcome::Lost);
                }
                self.end_hold();
            }
            Event::Released { .. } | Event::NotReleased { .. } => self.end_hold(),
            Event::Failed { exit_status, .. } => {
                self.result = Some(match *exit_status {
                    LOST => RunOutcome::Lost,
                    // The process for which the lock was to be acquired has ended.
                    BUSY => RunOutcome::Interrupted,
                    UNREACHABLE => RunOutcome::Unreachable,
                    DENIED => RunOutcome::Denied,
                    CONFIGURATION | USAGE => RunOutcome::Refused,
                    NOT_EXECUTABLE | NOT_FOUND => RunOutcome::NotStarted,
                    _ => RunOutcome::Failed,
                });
                self.end_hold();
            }
            _ => {}
        }
    }

    /// The whole of it, now that redlock ends like this; `None` for a call that asked for no lock.
    pub fn end(&mut self, exit: Outcome) -> Option<&Summary> {
        if self.keys.is_empty() {
            return None;
        }
        let is_known = matches!(self.result, Some(RunOutcome::Busy | RunOutcome::GaveUp));
        if self.granted.is_empty() && !self.started && !is_known {
            self.waited = self.requested_at.map_or(Duration::ZERO, |asked| BootTime::now().since(asked));
        }
        self.exit = Some(exit);
        Some(self)
    }

    pub fn outcome(&self) -> RunOutcome {
        match (self.result, self.exit) {
            (Some(result), _) => result,
            (None, Some(Outcome::Signal(_))) => RunOutcome::Interrupted,
            (None, Some(Outcome::Exit(0))) => RunOutcome::Success,
            (None, _) => RunOutcome::Failed,
        }
    }

    /// How long ago the locks were asked for.
    pub fn since_request(&self) -> Duration {
        self.requested_at.map_or(Duration::ZERO, |at| BootTime::now().since(at))
    }

    /// True if locks were granted: all that were not inherited.
    pub fn was_acquired(&self) -> bool {
        !self.granted.is_empty()
    }

    fn end_hold(&mut self) {
        if let (Some(granted), None) = (self.granted_at, self.held) {
            self.held = Some(BootTime::now().since(granted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::fake;
    use crate::lock::{LossCause, Mode, OwnerToken, Request, StoreError, Ttl};

    fn key() -> Key {
        "deploy".parse().expect("a key")
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The summary of these events, a second apart, and of an end with `exit`.
    fn summary(events: &[Event], exit: Outcome) -> Summary {
        fake::start();
        let mut summary = Summary::default();
        for event in events {
            summary.note(event);
            fake::move_to(BootTime::after(seconds(1)));
        }
        summary.end(exit).cloned().unwrap_or_default()
    }

    #[test]
    fn a_run_is_added_up() {
        let (key, error) = (key(), StoreError::Interrupted);
        let keys = std::slice::from_ref(&key);
        let fence = FencingToken(7);
        let request = Request::new(key.clone(), Mode::Exclusive, OwnerToken::random(), Ttl::DEFAULT);
        let ran = summary(
            &[
                Event::Requested { requests: std::slice::from_ref(&request), one_of: false },
                Event::Acquired { key: &key, fence, waited: seconds(9) },
                Event::Renewed { keys, took: seconds(2) },
                Event::Renewed { keys, took: seconds(1) },
                Event::RenewalFailed { key: &key, error: &error, left: seconds(1) },
                Event::CommandEnded { status: ExitStatus::Exited(3) },
                Event::Released { keys, leftovers: None },
            ],
            Outcome::Exit(3),
        );
        assert_eq!((ran.outcome(), ran.was_acquired()), (RunOutcome::Failure, true));
        assert_eq!((ran.waited, ran.held, ran.slowest_renewal), (seconds(9), Some(seconds(5)), seconds(2)));
        assert_eq!((ran.renewals, ran.failed_renewals, ran.fences), (2, 1, vec![fence]));
    }

    #[test]
    fn the_outcome_is_what_decided_the_end() {
        let key = key();
        let keys = std::slice::from_ref(&key);
        let cause = LossCause::NotHeld;
        let request = Request::new(key.clone(), Mode::Exclusive, OwnerToken::random(), Ttl::DEFAULT);
        let requested = || Event::Requested { requests: std::slice::from_ref(&request), one_of: false };
        let lost = || Event::Lost { keys, cause: &cause, consequence: LossConsequence::JobIsStopped };
        let ended = |code| Event::CommandEnded { status: ExitStatus::Exited(code) };
        let timed_out = || Event::TimedOut { command: "x", has_ended: false, limit: seconds(1) };
        for (events, exit, expected) in [
            (vec![requested(), ended(0)], Outcome::Exit(0), RunOutcome::Success),
            (vec![requested(), lost(), ended(0)], Outcome::Exit(79), RunOutcome::Lost),
            (vec![requested(), timed_out(), ended(143)], Outcome::Exit(124), RunOutcome::TimedOut),
            (vec![requested(), lost(), timed_out(), ended(143)], Outcome::Exit(79), RunOutcome::Lost),
            (vec![requested()], Outcome::Signal(2), RunOutcome::Interrupted),
            (
                vec![requested(), Event::Failed { reason: "", hint: None, exit_status: 127 }],
                Outcome::Exit(127),
                RunOutcome::NotStarted,
            ),
        ] {
            assert_eq!(summary(&events, exit).outcome(), expected);
        }
        assert!(Summary::default().end(Outcome::SUCCESS).is_none(), "a call that asked for no lock");
        let unreachable = [requested(), Event::Failed { reason: "", hint: None, exit_status: UNREACHABLE }];
        assert_eq!(summary(&unreachable, Outcome::Exit(UNREACHABLE)).waited, seconds(2));
    }
}
