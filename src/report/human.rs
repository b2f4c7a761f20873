//! Events as lines on stderr.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::output::print_message;
use super::phrases::{busy, holder, loss};
use super::progress::WaitDisplay;
use super::renderer::Renderer;
use crate::event::{Event, LeftoversFate};
use crate::job::GuardLoss;
use crate::lock::DurationText;

/// Which events are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// Warnings as well.
    #[default]
    Normal,
    /// Notes as well.
    Verbose,
}

/// Prints the events that the verbosity allows.
pub struct HumanRenderer {
    verbosity: Verbosity,
    /// Only the thread that waits for the lock uses it.
    wait: Mutex<WaitDisplay>,
}

impl HumanRenderer {
    pub fn new(verbosity: Verbosity) -> HumanRenderer {
        HumanRenderer { verbosity, wait: Mutex::new(WaitDisplay::new()) }
    }
}

impl Renderer for HumanRenderer {
    fn render(&self, event: &Event) {
        let wait = || self.wait.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::WaitEnded => wait().clear(),
            _ if self.verbosity < least_verbosity(event) => {}
            Event::Waiting { .. } | Event::StoreUnreachable { .. } => wait().show(&text(event)),
            _ => print_message(&text(event)),
        }
    }
}

/// An event is shown from this verbosity on: errors always, warnings unless quiet, notes on request.
fn least_verbosity(event: &Event) -> Verbosity {
    match event {
        Event::Lost(_) | Event::GuardLost { .. } | Event::Failed { .. } => Verbosity::Quiet,
        Event::EvenQuorum { .. }
        | Event::Waiting { .. }
        | Event::StoreUnreachable { .. }
        | Event::NotAcquired { .. }
        | Event::Healed { .. }
        | Event::NotReleased { .. }
        | Event::Released { leftovers_of: Some(_), .. }
        | Event::Broken { .. }
        | Event::Freed { .. } => Verbosity::Normal,
        Event::Leftovers { fate, .. } => match fate {
            LeftoversFate::Awaited { .. } => Verbosity::Verbose,
            _ => Verbosity::Normal,
        },
        Event::WaitEnded
        | Event::MinHoldExceedsTtl { .. }
        | Event::Splay { .. }
        | Event::Acquired { .. }
        | Event::Renewed { .. }
        | Event::RenewalFailed { .. }
        | Event::Held { .. }
        | Event::Released { leftovers_of: None, .. } => Verbosity::Verbose,
    }
}

/// An event in one line.
fn text(event: &Event) -> String {
    match event {
        Event::EvenQuorum { servers } => {
            format!("{servers} servers survive no more failures than {}", servers - 1)
        }
        Event::MinHoldExceedsTtl { min_hold, ttl } => {
            format!("--min-hold {} is longer than --ttl {ttl}", DurationText(*min_hold))
        }
        Event::Splay { pause } => format!("sleeping for {} of --splay", DurationText(*pause)),
        Event::Waiting { busy: held, waited } => {
            let place = match held.ahead {
                None => String::new(),
                Some(0) => "; next in line".to_owned(),
                Some(ahead) => format!("; {ahead} ahead in line"),
            };
            format!("{}{place}{}", busy(held), waiting(*waited))
        }
        Event::StoreUnreachable { error, waited } => format!("{error}{}", waiting(*waited)),
        Event::WaitEnded => String::new(),
        Event::NotAcquired { busy: held, gave_up_after: None } => {
            format!("{}. --wait to stand in line", busy(held))
        }
        Event::NotAcquired { busy: held, gave_up_after: Some(waited) } => {
            let ahead = held.ahead.filter(|ahead| *ahead > 0);
            let ahead = ahead.map_or(String::new(), |ahead| format!(", {ahead} ahead in line"));
            format!("gave up after {}: {}{ahead}", DurationText(*waited), busy(held))
        }
        Event::Acquired { key, fence } => format!("acquired '{key}', fencing token {fence}"),
        Event::Renewed { locks, ttl: None } => format!("renewed {locks}"),
        Event::Renewed { locks, ttl: Some(ttl) } => format!("renewed {locks} for {ttl}"),
        Event::RenewalFailed { key, error, left } => {
            format!("could not renew '{key}': {error}; {} left on its lease", DurationText(*left))
        }
        Event::Healed { key, gone } => format!(
            "'{key}' was gone from the store, for at most {}; nobody else was granted it, and it is held again",
            DurationText(*gone)
        ),
        Event::Lost(lost) => loss(lost),
        Event::Held { key, left: None } => format!("'{key}' is held for ever"),
        Event::Held { key, left: Some(left) } => format!("'{key}' is held for {} more", DurationText(*left)),
        Event::Released { locks, leftovers_of: None } => format!("released {locks}"),
        Event::Released { locks, leftovers_of: Some(command) } => {
            format!("'{command}' left processes behind; redlock released {locks} while they run")
        }
        Event::NotReleased { locks, ttl, leftovers_of: None } => {
            format!("could not release {locks}; free when the lease ends, within {ttl}")
        }
        Event::NotReleased { locks, ttl, leftovers_of: Some(command) } => format!(
            "'{command}' left processes behind, and redlock could not release {locks}; free when the lease ends, within {ttl}"
        ),
        Event::Leftovers { command, fate } => match fate {
            LeftoversFate::Awaited { locks } => {
                format!("'{command}' left processes behind; {locks} held until they have ended")
            }
            LeftoversFate::Stopped { signal } => {
                format!("'{command}' was killed by signal {signal} and left processes behind; stopping them")
            }
            LeftoversFate::Signalled => {
                format!(
                    "passed the signal on to the processes that '{command}' left behind; once more kills them"
                )
            }
            LeftoversFate::WithoutLocks { locks } => {
                format!("'{command}' left processes behind; they run on without {locks}")
            }
            LeftoversFate::Unguarded { locks } => format!(
                "'{command}' left processes behind; nothing ends them with the lease of {locks} any more"
            ),
        },
        Event::GuardLost { locks, how: GuardLoss::Killed } => {
            format!("the guard of {locks} was killed; the job was killed too, as nothing guarded it")
        }
        Event::GuardLost { locks, how: GuardLoss::Stopped } => {
            format!("the guard of {locks} was stopped when it had to end the job; both were killed")
        }
        Event::Broken { key, holder: broken } => {
            let latest = broken.left.map_or(String::new(), |left| format!(", within {}", DurationText(left)));
            format!("broke '{key}', held by {}; it is freed when that process stops{latest}", holder(broken))
        }
        Event::Freed { key, holder: held } => format!("freed '{key}', which was held by {}", holder(held)),
        Event::Failed { reason } => (*reason).to_owned(),
    }
}

/// `; waiting for 12s`, after the first second.
fn waiting(waited: Duration) -> String {
    match waited.as_secs() {
        0 => String::new(),
        _ => format!("; waiting for {}", DurationText(waited)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Loss, LossCause, LossConsequence};
    use crate::lock::{Busy, FencingToken, Holder, Key, Metadata};

    /// What a person sees at this verbosity.
    fn shown(verbosity: Verbosity, event: &Event) -> Option<String> {
        (verbosity >= least_verbosity(event)).then(|| text(event))
    }

    fn key() -> Key {
        "deploy".parse().expect("a key")
    }

    fn holder_on(host: &str) -> Holder {
        let metadata = Metadata {
            host: host.to_owned(),
            pid: 4123,
            label: "make deploy".to_owned(),
            ..Metadata::default()
        };
        Holder { metadata: Some(metadata), left: Some(Duration::from_secs(24)), ..Holder::default() }
    }

    #[test]
    fn waiting_names_the_holder_and_the_place_in_line() {
        let mut busy = Busy { key: key(), holder: Some(holder_on("ci-7")), ahead: Some(2) };
        let held = "'deploy' is held by ci-7 (pid 4123, \"make deploy\"); 24s left on its lease";
        let waited = |seconds| Duration::from_secs(seconds);
        let text_of = |busy: &Busy, seconds| text(&Event::Waiting { busy, waited: waited(seconds) });
        assert_eq!(text_of(&busy, 0), format!("{held}; 2 ahead in line"));
        assert_eq!(text_of(&busy, 12), format!("{held}; 2 ahead in line; waiting for 12s"));
        let gave_up = Event::NotAcquired { busy: &busy, gave_up_after: Some(waited(5)) };
        assert_eq!(text(&gave_up), format!("gave up after 5s: {held}, 2 ahead in line"));
        assert_eq!(shown(Verbosity::Quiet, &gave_up), None);
        busy.ahead = Some(0);
        assert_eq!(text_of(&busy, 0), format!("{held}; next in line"));
        let at_once = Event::NotAcquired { busy: &busy, gave_up_after: None };
        assert_eq!(text(&at_once), format!("{held}. --wait to stand in line"));
    }

    #[test]
    fn a_loss_says_why_and_what_follows() {
        let held = Some(Box::new(holder_on("ci-7")));
        let broken = Some(Box::new(Holder { broken: true, ..holder_on("ci-7") }));
        for (cause, consequence, expected) in [
            (
                LossCause::Released,
                LossConsequence::JobIsStopped,
                "it was released with its owner token; stopping the job",
            ),
            (
                LossCause::NotHeld,
                LossConsequence::JobContinues,
                "nobody holds it any more; the job goes on without it",
            ),
            (
                LossCause::Taken(None),
                LossConsequence::NothingStarted,
                "it was granted to another since; nothing was started",
            ),
            (
                LossCause::Taken(broken),
                LossConsequence::ProcessContinues { pid: 7 },
                "somebody broke it; process 7 goes on without it",
            ),
            (
                LossCause::Taken(held),
                LossConsequence::ProcessTerminated { pid: 7 },
                "it is held by ci-7 (pid 4123, \"make deploy\"); 24s left on its lease; SIGTERM was sent to process 7",
            ),
            (
                LossCause::NotRenewedInTime,
                LossConsequence::JobWasStopped,
                "the lease was not renewed in time; the job was stopped",
            ),
        ] {
            let event = Event::Lost(Loss { locks: "'deploy'", cause: &cause, consequence });
            assert_eq!(shown(Verbosity::Quiet, &event), Some(format!("lost 'deploy': {expected}")));
        }
        let cause = LossCause::Expired;
        let consequence = LossConsequence::NothingStartedAfterWait;
        assert_eq!(
            loss(&Loss { locks: "'deploy'", cause: &cause, consequence }),
            "lost 'deploy' while the others were waited for: no renewal came through before its lease ended; nothing was started"
        );
    }

    #[test]
    fn a_run_that_goes_well_is_silent() {
        let key = key();
        for event in [
            Event::Acquired { key: &key, fence: FencingToken(7) },
            Event::Renewed { locks: "'deploy'", ttl: None },
            Event::Released { locks: "'deploy'", leftovers_of: None },
        ] {
            assert_eq!(shown(Verbosity::Normal, &event), None);
            assert!(shown(Verbosity::Verbose, &event).is_some());
        }
    }
}
