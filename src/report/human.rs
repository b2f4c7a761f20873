//! Events as lines on stderr.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::output::print_message;
use super::phrases::{busy, holder, loss};
use super::progress::WaitDisplay;
use super::reporter::Renderer;
use crate::event::{Event, LeftoversFate};
use crate::job::GuardLoss;
use crate::lock::DurationText;

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
        Event::Lost { .. } | Event::GuardLost { .. } | Event::Failed { .. } => Verbosity::Quiet,
        Event::WaitEnded
        | Event::MinHoldExceedsTtl { .. }
        | Event::Splay { .. }
        | Event::Acquired { .. }
        | Event::Renewed { .. }
        | Event::RenewalFailed { .. }
        | Event::Held { .. }
        | Event::Released { leftovers_of: None, .. }
        | Event::Leftovers { fate: LeftoversFate::Awaited { .. }, .. } => Verbosity::Verbose,
        _ => Verbosity::Normal,
    }
}

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
        Event::Lost { locks, cause, consequence } => loss(locks, cause, *consequence),
        Event::Held { key, left: None } => format!("'{key}' is held for ever"),
        Event::Held { key, left: Some(left) } => format!("'{key}' is held for {} more", DurationText(*left)),
        Event::Released { locks, leftovers_of: None } => format!("released {locks}"),
        Event::Released { locks, leftovers_of: Some(command) } => {
            format!("{}; redlock released {locks} while they run", left_behind(command))
        }
        Event::NotReleased { locks, ttl, leftovers_of } => {
            let before = leftovers_of.map_or(String::new(), |of| left_behind(of) + ", and redlock ");
            format!("{before}could not release {locks}; free when the lease ends, within {ttl}")
        }
        Event::Leftovers { command, fate } => match fate {
            LeftoversFate::Awaited { locks } => {
                format!("{}; {locks} held until they have ended", left_behind(command))
            }
            LeftoversFate::Stopped { signal } => {
                format!("'{command}' was killed by signal {signal} and left processes behind; stopping them")
            }
            LeftoversFate::Signalled => format!(
                "passed the signal on to the processes that '{command}' left behind; once more kills them"
            ),
            LeftoversFate::WithoutLocks { locks } => {
                format!("{}; they run on without {locks}", left_behind(command))
            }
            LeftoversFate::Unguarded { locks } => {
                format!("{}; nothing ends them with the lease of {locks} any more", left_behind(command))
            }
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

fn left_behind(command: &str) -> String {
    format!("'{command}' left processes behind")
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
    use crate::event::LossConsequence;
    use crate::lock::{Busy, FencingToken, Holder, Key, LossCause, Metadata};

    const HELD: &str = "held by ci-7 (pid 4123, \"make deploy\"); 24s left on its lease";

    fn shown(verbosity: Verbosity, event: &Event) -> Option<String> {
        (verbosity >= least_verbosity(event)).then(|| text(event))
    }

    fn key() -> Key {
        "deploy".parse().expect("a key")
    }

    fn holder() -> Holder {
        let [host, label] = ["ci-7", "make deploy"].map(str::to_owned);
        let metadata = Metadata { host, pid: 4123, label, ..Metadata::default() };
        Holder { metadata: Some(metadata), left: Some(Duration::from_secs(24)), ..Holder::default() }
    }

    #[test]
    fn waiting_names_the_holder_and_the_place_in_line() {
        let waited = Duration::from_secs;
        let busy = |ahead| Busy { key: key(), holder: Some(holder()), ahead: Some(ahead) };
        let [next, third] = &[busy(0), busy(2)];
        let gave_up = Event::NotAcquired { busy: third, gave_up_after: Some(waited(5)) };
        assert_eq!(shown(Verbosity::Quiet, &gave_up), None);
        let at_once = Event::NotAcquired { busy: next, gave_up_after: None };
        for (event, [before, after]) in [
            (Event::Waiting { busy: third, waited: waited(0) }, ["", "; 2 ahead in line"]),
            (Event::Waiting { busy: third, waited: waited(12) }, ["", "; 2 ahead in line; waiting for 12s"]),
            (gave_up, ["gave up after 5s: ", ", 2 ahead in line"]),
            (Event::Waiting { busy: next, waited: waited(0) }, ["", "; next in line"]),
            (at_once, ["", ". --wait to stand in line"]),
        ] {
            assert_eq!(text(&event), format!("{before}'deploy' is {HELD}{after}"));
        }
    }

    #[test]
    fn a_loss_says_why_and_what_follows() {
        let taken = |broken| LossCause::Taken(Some(Box::new(Holder { broken, ..holder() })));
        for (cause, consequence, expected) in [
            (
                LossCause::Released,
                LossConsequence::JobIsStopped,
                ": it was released with its owner token; stopping the job",
            ),
            (
                LossCause::NotHeld,
                LossConsequence::JobContinues,
                ": nobody holds it any more; the job goes on without it",
            ),
            (
                LossCause::Taken(None),
                LossConsequence::NothingStarted,
                ": it was granted to another since; nothing was started",
            ),
            (
                taken(true),
                LossConsequence::ProcessContinues(7),
                ": somebody broke it; process 7 goes on without it",
            ),
            (
                taken(false),
                LossConsequence::ProcessTerminated(7),
                &format!(": it is {HELD}; SIGTERM was sent to process 7"),
            ),
            (
                LossCause::NotRenewedInTime,
                LossConsequence::JobWasStopped,
                ": the lease was not renewed in time; the job was stopped",
            ),
            (
                LossCause::Expired,
                LossConsequence::NothingStartedAfterWait,
                " while the others were waited for: no renewal came through before its lease ended; nothing was started",
            ),
        ] {
            let event = Event::Lost { locks: "'deploy'", cause: &cause, consequence };
            assert_eq!(shown(Verbosity::Quiet, &event), Some(format!("lost 'deploy'{expected}")));
        }
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
