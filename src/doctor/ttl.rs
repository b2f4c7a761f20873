//! The check that a TTL is long enough for a store.

use std::time::Duration;

use super::{Check, Findings};
use crate::job::Reserve;
use crate::lock::{DurationText, Ttl};

/// The use of locks for which a store has to be fit.
#[derive(Clone, Copy, Debug)]
pub struct Requirements {
    /// The TTL of each lease.
    pub ttl: Ttl,
    /// The time from SIGTERM to SIGKILL.
    pub kill_after: Duration,
    /// A lock counts as taken when so many replicas have it.
    pub replicas: u8,
    /// The time for one exchange with the store.
    pub attempt: Duration,
}

impl Requirements {
    /// Judges whether the TTL leaves time for all that has to happen within it, on a store that answers after `round_trip`.
    ///
    /// A renewal is due after a third of the TTL. Before the next one it has to be tried and tried again, each time
    /// with a connection and a request; and an answer has to come before SIGTERM is due.
    pub fn judge_ttl(&self, round_trip: Duration, report: &mut Findings) {
        let Requirements { ttl, kill_after, .. } = *self;
        let third = ttl.duration() / 3;
        let reserve = Reserve::new(ttl.validity(), kill_after).length();
        let before_stop = ttl.validity().saturating_sub(reserve).saturating_sub(third);
        let finding = format!(
            "--ttl {ttl} and --kill-after {} with an answer after {}",
            DurationText(kill_after),
            millis(round_trip)
        );
        let advice = || format!("use --ttl {} or longer", self.comfortable_ttl(round_trip));
        if third < round_trip * 4 || before_stop < round_trip * 2 {
            let why =
                "a take, a renewal and the end of the job do not fit into the lease: jobs will be stopped";
            report.bad(Check::Ttl, format!("{finding}: {why}"), advice());
        } else if third < round_trip * 10 || before_stop < round_trip * 5 {
            let why = "a renewal that fails can hardly be repeated in time";
            report.warning(Check::Ttl, format!("{finding}: {why}"), advice());
        } else {
            report.ok(Check::Ttl, finding);
        }
    }

    /// The least TTL that is judged good: from two seconds on in whole ones, as etcd has no others.
    fn comfortable_ttl(&self, round_trip: Duration) -> DurationText {
        let for_renewals = round_trip * 30;
        // From a third of the TTL to the end of its validity, see `judge_ttl`, it is 65 % of the TTL less 2 ms.
        let is_default = self.kill_after == self.ttl.default_kill_after();
        let to_stop = if is_default { Duration::ZERO } else { self.kill_after };
        let for_the_end = (to_stop + round_trip * 5 + Duration::from_millis(2)).mul_f64(1.0 / 0.65);
        let needed = for_renewals.max(for_the_end).as_millis() as u64;
        let step = if needed < 1900 { 100 } else { 1000 };
        DurationText(Duration::from_millis((needed / step + 1) * step))
    }
}

/// `0.12ms`, `20ms`, `5.0s`: for times that were measured, mostly below a millisecond.
pub fn millis(duration: Duration) -> String {
    match duration.as_secs_f64() * 1000.0 {
        ms if ms < 10.0 => format!("{ms:.2}ms"),
        ms if ms < 1000.0 => format!("{ms:.0}ms"),
        ms if ms < 60_000.0 => format!("{:.1}s", ms / 1000.0),
        _ => DurationText(duration).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn level(ttl: &str, kill_after: Option<u64>, round_trip: u64) -> Option<Level> {
        let ttl: Ttl = ttl.parse().ok()?;
        let kill_after = kill_after.map_or(ttl.default_kill_after(), Duration::from_millis);
        let terms = Requirements { ttl, kill_after, replicas: 0, attempt: Duration::ZERO };
        let mut report = Findings::about("it");
        terms.judge_ttl(Duration::from_millis(round_trip), &mut report);
        report.findings.first().map(|finding| finding.level)
    }

    #[test]
    fn a_ttl_is_judged_by_the_round_trip() {
        for (ttl, kill_after, round_trip, expected) in [
            ("50ms", None, 20, Level::Bad),
            ("400ms", None, 20, Level::Warning),
            ("700ms", None, 20, Level::Ok),
            ("30s", None, 20, Level::Ok),
            ("10ms", None, 0, Level::Ok),
            ("1s", Some(950), 1, Level::Bad),
            ("1s", Some(640), 4, Level::Warning),
        ] {
            assert_eq!(level(ttl, kill_after, round_trip), Some(expected), "{ttl} {round_trip}");
        }
    }

    #[test]
    fn the_ttl_that_is_advised_is_good() {
        for round_trip in [1, 20, 300, 4000] {
            for kill_after in [None, Some(1), Some(5000)] {
                let ttl = "50ms".parse::<Ttl>().expect("a TTL");
                let own = kill_after.map_or(ttl.default_kill_after(), Duration::from_millis);
                let terms = Requirements { ttl, kill_after: own, replicas: 0, attempt: Duration::ZERO };
                let advised = terms.comfortable_ttl(Duration::from_millis(round_trip));
                let good = level(&advised.to_string(), kill_after, round_trip);
                assert_eq!(good, Some(Level::Ok), "{round_trip} {kill_after:?} {advised}");
            }
        }
    }
}
