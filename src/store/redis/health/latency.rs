//! The round trip to a server, and its clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::probe::{Asking, LOGIN_ADVICE, wants_login};
use crate::clock::BootTime;
use crate::doctor::{Check, Findings, millis};
use crate::lock::Result;
use crate::store::redis::reply::{items, number};

/// The difference between the clock of a server and ours.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// In microseconds; negative when it is behind.
    pub ahead: i64,
    /// The measurement may be wrong by this much.
    pub error: Duration,
}

const PINGS: usize = 5;
const LOOKS: usize = 3;

/// A clock that is further off is not kept by anybody: NTP keeps it within some milliseconds.
const FAR_OFF: Duration = Duration::from_secs(1);

/// The median of some round trips; `None` when nothing is permitted here. An error is as good an answer as any.
pub fn round_trip(asking: &mut Asking, report: &mut Findings) -> Result<Option<Duration>> {
    let mut times = Vec::new();
    for _ in 0..PINGS {
        let sent = BootTime::now();
        let reply = asking.ask(&redis::cmd("PING"))?;
        times.push(BootTime::now().since(sent));
        if wants_login(&reply) {
            report.bad(Check::Login, "it wants a password", LOGIN_ADVICE);
            return Ok(None);
        }
    }
    times.sort();
    let median = times[times.len() / 2];
    report.ok(Check::Reachable, format!("it answers after {}", millis(median)));
    Ok(Some(median))
}

/// The server's clock against ours: of some looks the one that was answered soonest.
pub fn clock(asking: &mut Asking, report: &mut Findings) -> Result<Option<Clock>> {
    let mut best: Option<Clock> = None;
    for _ in 0..LOOKS {
        let (sent, wall) = (BootTime::now(), wall_micros());
        let reply = items(asking.ask(&redis::cmd("TIME"))?);
        let half = BootTime::now().since(sent) / 2;
        let [seconds, micros] = &reply[..] else {
            let advice = "permit TIME, which redlock needs anyway";
            report.unknown(Check::Clock, "could not see the server's clock", advice);
            return Ok(None);
        };
        let server = number(Some(seconds)).saturating_mul(1_000_000).saturating_add(number(Some(micros)));
        let ahead = server.saturating_sub(wall.saturating_add(half.as_micros() as i64));
        if best.is_none_or(|best| half < best.error) {
            best = Some(Clock { ahead, error: half });
        }
    }
    let Some(clock) = best else { return Ok(None) };
    let off = Duration::from_micros(clock.ahead.unsigned_abs());
    let side = if clock.ahead < 0 { "behind" } else { "ahead of" };
    let finding = format!("its clock is {} {side} this host's", millis(off));
    if off.saturating_sub(clock.error) > FAR_OFF {
        let why = "when somebody corrects it, it jumps, and leases end that much too early or too late";
        let advice = "keep both clocks with NTP (chrony), which slews them instead of setting them";
        report.warning(Check::Clock, format!("{finding}: {why}"), advice);
    } else {
        report.ok(Check::Clock, finding);
    }
    Ok(best)
}

fn wall_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
