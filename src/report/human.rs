//! Events as lines on stderr.

use std::io::{IsTerminal, stderr};
use std::sync::{Mutex, PoisonError};

use super::output::is_coloured;
use super::phrases::{age, busy, how_to_break, left_behind, loss, names, one_of, process};
use super::progress::WaitDisplay;
use super::renderer::Renderer;
use super::stderr::{print_failure, print_message};
use super::verbosity::{Verbosity, is_shown};
use super::wait_status::{in_line, without_answer};
use crate::cli::Color;
use crate::event::{Event, GaveUp, LeftoversFate};
use crate::job::GuardLoss;
use crate::lock::DurationText;

/// Prints the events that the verbosity allows.
pub struct HumanRenderer {
    verbosity: Verbosity,
    color: Color,
    wait: Mutex<WaitDisplay>,
}

impl HumanRenderer {
    pub fn new(verbosity: Verbosity, color: Color) -> HumanRenderer {
        HumanRenderer { verbosity, color, wait: Mutex::new(WaitDisplay::new()) }
    }
}

impl Renderer for HumanRenderer {
    fn render(&self, event: &Event) -> Result<(), String> {
        let wait = || self.wait.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::WaitEnded => wait().clear(),
            _ if !is_shown(event, self.verbosity) => {}
            Event::Waiting { busy, waited } => wait().show(&in_line(busy, *waited)),
            Event::StoreUnreachable { error, waited } => wait().show(&without_answer(error, *waited)),
            Event::WaitedFor { .. } => wait().conclude(&text(event), is_coloured(self.color, true)),
            Event::Failed { reason, hint, .. } if stderr().is_terminal() => {
                wait().clear();
                print_failure(reason, *hint, is_coloured(self.color, true));
            }
            _ => {
                wait().clear();
                print_message(&text(event));
            }
        }
        Ok(())
    }
}

/// The message for people about an event; none for one that is for programs only.
pub fn text(event: &Event) -> String {
    match event {
        Event::EvenQuorum { servers } => {
            format!("{servers} servers survive no more failures than {}", servers - 1)
        }
        Event::TokenShown => {
            "--token shows the owner token to all users of this host; use --token-file or REDLOCK_TOKEN"
                .to_owned()
        }
        Event::MinHoldExceedsTtl { min_hold, ttl } => {
            format!("--min-hold {} is longer than --ttl {ttl}", DurationText(*min_hold))
        }
        Event::Splay { pause } => format!("sleeping for {}, a random part of --splay", DurationText(*pause)),
        Event::Waiting { busy, waited } => in_line(busy, *waited).long,
        Event::StoreUnreachable { error, waited } => without_answer(error, *waited).long,
        Event::WaitEnded
        | Event::Requested { .. }
        | Event::Started { .. }
        | Event::CommandEnded { .. }
        | Event::Ended { .. } => String::new(),
        Event::WaitedFor { keys, waited } => {
            format!("acquired {} after {}", names(*keys), DurationText(*waited))
        }
        Event::NotAcquired { busy: held, why: GaveUp::QueueFull(limit) } => {
            format!("{}; {limit} in line already, as many as --queue-limit lets wait", busy(held))
        }
        Event::NotAcquired { busy: held, why: GaveUp::AtOnce } => {
            let advice = how_to_break(held).unwrap_or_else(|| ". --wait to join the queue".to_owned());
            busy(held) + &advice
        }
        Event::NotAcquired { busy: held, why: GaveUp::After(waited) } => {
            let ahead = held.ahead.filter(|ahead| *ahead > 0);
            let ahead = ahead.map_or(String::new(), |ahead| format!(", {ahead} ahead in line"));
            let advice = how_to_break(held).unwrap_or_default();
            format!("gave up after {}: {}{ahead}{advice}", DurationText(*waited), busy(held))
        }
        Event::Superseded { key, by } => {
            format!("gave way for '{key}' to {}, which came later (--supersede or --replace)", process(by))
        }
        Event::AlreadyRan { key, success, period } => format!(
            "a run of '{key}' succeeded {} ago on {}, so --once-per {} starts nothing",
            age(success.ended),
            success.host,
            DurationText(*period)
        ),
        Event::Outdated { key, number, later } => format!(
            "run {} of '{key}' began {} ago on {}, so --sequence {number} starts nothing",
            later.sequence.unwrap_or_default(),
            age(later.granted),
            later.host
        ),
        Event::Acquired { key, fence, .. } => format!("acquired '{key}', fencing token {fence}"),
        Event::Renewed { keys, .. } => format!("renewed {}", names(*keys)),
        Event::RenewedByHand { key, ttl } => format!("renewed '{key}' for {ttl}"),
        Event::HeldByHand { keys, ttl } => format!(
            "{} is yours for {ttl}; next: redlock renew, or redlock release, with REDLOCK_KEY and REDLOCK_TOKEN",
            names(*keys)
        ),
        Event::UnknownVariable { name, near } => {
            format!(
                "redlock does not know the variable REDLOCK_{name}, so it changes nothing; did you mean REDLOCK_{near}?"
            )
        }
        Event::RenewalFailed { key, error, left } => {
            format!("could not renew '{key}': {error}; {} left on its lease", DurationText(*left))
        }
        Event::Healed { key, gone } => format!(
            "'{key}' was gone from the store, for at most {}; nobody else was granted it, and it is held again",
            DurationText(*gone)
        ),
        Event::Lost { keys, cause, consequence } => loss(&names(*keys), cause, *consequence),
        Event::Held { key, left: None } => format!("'{key}' is held forever"),
        Event::Held { key, left: Some(left) } => format!("'{key}' is held for {} more", DurationText(*left)),
        Event::Released { keys, leftovers: None } => format!("released {}", names(*keys)),
        Event::Released { keys, leftovers: Some(of) } => {
            let (left, locks) = (left_behind(of), names(*keys));
            format!("{left}; redlock released {locks} while they run, see --leftovers")
        }
        Event::NotReleased { keys, ttl, error, leftovers } => {
            let before = leftovers.map_or(String::new(), |of| left_behind(of) + ", and redlock ");
            format!("{before}could not release {}: {error}; the lease ends within {ttl}", names(*keys))
        }
        Event::TimedOut { command, has_ended, limit } => {
            let whom = if *has_ended { "what it left behind" } else { "it" };
            format!("stopping '{command}': {whom} ran for longer than --timeout {}", DurationText(*limit))
        }
        Event::Leftovers { of, fate } => match fate {
            LeftoversFate::Awaited { keys } => {
                format!("{}; {} held until they have ended", left_behind(of), names(*keys))
            }
            LeftoversFate::Unwanted => format!("{}; stopping them", left_behind(of)),
            LeftoversFate::Stopped { signal } => {
                format!("{} when signal {signal} killed it; stopping them, see --leftovers", left_behind(of))
            }
            LeftoversFate::Signalled => format!(
                "passed the signal on to the processes that '{}' left behind; a second one kills them",
                of.command
            ),
            LeftoversFate::WithoutLocks { keys } => {
                format!("{}; they run on without {}", left_behind(of), names(*keys))
            }
            LeftoversFate::Unguarded { keys } => {
                let (left, locks) = (left_behind(of), names(*keys));
                format!("{left}; nothing ends them with the lease of {locks} any more")
            }
        },
        Event::GuardLost { keys, how: GuardLoss::Killed } => {
            format!("the guard of {} was killed; the job was killed too, as nothing guarded it", names(*keys))
        }
        Event::GuardLost { keys, how: GuardLoss::Stopped } => {
            format!("the guard of {} was stopped when it had to end the job; both were killed", names(*keys))
        }
        Event::Resized { key, permits, before } => {
            format!("'{key}' has {permits} permits now; it had {before}")
        }
        Event::Broken { key, holder: held, others, is_freed: true } => {
            format!("freed '{key}', which was held by {}", one_of(held, *others))
        }
        Event::Broken { key, holder: broken, others, is_freed: false } => {
            let latest = broken.left.map_or(String::new(), |left| format!(", within {}", DurationText(left)));
            let is_by_hand = broken.metadata.as_ref().is_some_and(|metadata| metadata.by_hand);
            let end = match (others, is_by_hand) {
                (1.., _) => "it is free when all of them have stopped, or their leases have ended".to_owned(),
                (0, true) => {
                    format!("it was taken by hand, and is free when its lease ends{latest}, or broken again")
                }
                (0, false) => format!("it is free when that process stops{latest}"),
            };
            format!("broke '{key}', held by {}; {end}", one_of(broken, *others))
        }
        Event::LogFailed { reason } => (*reason).to_owned(),
        Event::HookFailed { hook, reason } => format!("the {hook} hook failed: {reason}"),
        Event::Failed { reason, hint: Some(hint), .. } => format!("{reason}; {hint}"),
        Event::Failed { reason, hint: None, .. } => (*reason).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::event::{LossConsequence, Waited};
    use crate::lock::{Breaker, Busy, FencingToken, Holder, Key, LossCause, Metadata, StoreError};

    const HELD: &str = "held by ci-7 (pid 4123, \"make deploy\"); 24s left on its lease";

    fn shown(verbosity: Verbosity, event: &Event) -> Option<String> {
        is_shown(event, verbosity).then(|| text(event))
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
        let limit = Some(Duration::from_secs(300));
        let waited = |seconds| Waited { so_far: Duration::from_secs(seconds), limit };
        let busy = |ahead| Busy { key: key(), holder: Some(holder()), others: 0, ahead: Some(ahead) };
        let [next, third] = &[busy(0), busy(2)];
        let gave_up = Event::NotAcquired { busy: third, why: GaveUp::After(Duration::from_secs(5)) };
        assert_eq!(shown(Verbosity::Quiet, &gave_up), None);
        let at_once = Event::NotAcquired { busy: next, why: GaveUp::AtOnce };
        for (event, [before, after]) in [
            (Event::Waiting { busy: third, waited: waited(0) }, ["", "; 2 ahead in line"]),
            (
                Event::Waiting { busy: third, waited: waited(12) },
                ["", "; 2 ahead in line; waiting for 12s of 5m"],
            ),
            (gave_up, ["gave up after 5s: ", ", 2 ahead in line"]),
            (Event::Waiting { busy: next, waited: waited(0) }, ["", "; next in line"]),
            (at_once, ["", ". --wait to join the queue"]),
        ] {
            assert_eq!(text(&event), format!("{before}'deploy' is {HELD}{after}"));
        }
        assert_eq!(in_line(third, waited(72)).short, format!("2 ahead, 1m12s of 5m: 'deploy' is {HELD}"));
        let readers = Busy { others: 2, ..busy(0) };
        let endless = Waited { limit: None, ..waited(12) };
        let shown = in_line(&readers, endless).short;
        assert!(
            shown.starts_with("next in line, 12s: 'deploy' is held by ci-7 (pid 4123) and 2 more; "),
            "{shown}"
        );
    }

    /// The lease of another may end later than that of the first.
    #[test]
    fn a_break_of_several_names_no_time() {
        let told = |others| text(&Event::Broken { key: &key(), holder: &holder(), others, is_freed: false });
        assert!(told(0).ends_with("; it is free when that process stops, within 24s"), "{}", told(0));
        let several = "; it is free when all of them have stopped, or their leases have ended";
        assert!(told(1).ends_with(several), "{}", told(1));
    }

    /// Waiting would not help.
    #[test]
    fn a_lock_that_never_expires_can_be_broken() {
        let for_ever = Holder { left: None, ..Holder::default() };
        let key = "it's".parse().expect("a key");
        let busy = Busy { key, holder: Some(for_ever), others: 0, ahead: None };
        let said = text(&Event::NotAcquired { busy: &busy, why: GaveUp::AtOnce });
        assert!(
            said.ends_with("its lease never expires. To take it away: redlock break -k 'it'\\''s'"),
            "{said}"
        );
    }

    #[test]
    fn a_loss_says_why_and_what_follows() {
        let taken = |broken| LossCause::Taken(Some(Box::new(Holder { broken, ..holder() })));
        let anna = Breaker::new("anna", "web3", Some("stuck since 02:00"));
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
                ": it was broken or deleted, or granted to another since; nothing was started",
            ),
            (
                taken(Some(anna)),
                LossConsequence::ProcessContinues(7),
                ": it was broken with `redlock break` by anna@web3: stuck since 02:00; process 7 goes on without it",
            ),
            (
                taken(None),
                LossConsequence::ProcessTerminated(7),
                &format!(": it is {HELD}; SIGTERM was sent to process 7"),
            ),
            (
                LossCause::Expired(Some(StoreError::Interrupted)),
                LossConsequence::JobWasStopped,
                &format!(
                    ": no renewal came through in time ({}); the job was stopped",
                    StoreError::Interrupted
                ),
            ),
            (
                LossCause::Expired(None),
                LossConsequence::NothingStartedAfterWait,
                " while the others were waited for: no renewal came through in time (redlock was stopped, the machine slept, \
                 or the store was slow); nothing was started",
            ),
        ] {
            let event = Event::Lost { keys: &[key()], cause: &cause, consequence };
            assert_eq!(shown(Verbosity::Quiet, &event), Some(format!("lost 'deploy'{expected}")));
        }
    }

    #[test]
    fn a_run_that_goes_well_is_silent() {
        let key = key();
        let keys = std::slice::from_ref(&key);
        for event in [
            Event::Acquired { key: &key, fence: FencingToken(7), waited: Duration::ZERO },
            Event::Renewed { keys, took: Duration::ZERO },
            Event::Released { keys, leftovers: None },
        ] {
            assert_eq!(shown(Verbosity::Normal, &event), None);
            assert!(shown(Verbosity::Verbose, &event).is_some());
        }
    }
}
