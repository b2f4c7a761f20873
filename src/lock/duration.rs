//! Durations as people write them, and the TTL of a lease.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration as people write it: `500ms`, `30s`, `5m`, `1h30m`; a bare number is seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationText(pub Duration);

const DAY: u64 = 24 * 60 * 60;

/// No option takes more than this, so that no sum of durations overflows.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

const TOO_LONG: &str = "it is longer than a year, the most that redlock takes";

/// Units of humantime that are taken for minutes, or that nobody means.
const LONG_UNITS: [&str; 8] = ["M", "month", "months", "y", "yr", "yrs", "year", "years"];

impl FromStr for DurationText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form =
            "a duration looks like 500ms, 30s, 5m or 1h30m (a bare number is seconds, at most one year)";
        if text.split(|c: char| !c.is_alphabetic()).any(|unit| LONG_UNITS.contains(&unit)) {
            return Err("months and years are not units here: m is minutes, d is days".to_owned());
        }
        let duration = match text.parse::<f64>() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| form)?,
            Err(_) => humantime::parse_duration(text).map_err(|_| {
                let small = text.to_lowercase();
                match humantime::parse_duration(&small) {
                    Ok(_) => format!("units are small letters: did you mean {small}?"),
                    Err(_) => form.to_owned(),
                }
            })?,
        };
        if duration > LONGEST {
            return Err(TOO_LONG.to_owned());
        }
        Ok(DurationText(duration))
    }
}

impl fmt::Display for DurationText {
    /// At most two units, as a person would say it: `3m12s`, `24s`, `1.5s`, `120ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = match self.0 {
            d if d < Duration::from_secs(1) => Duration::from_millis(d.as_millis() as u64),
            d if d < Duration::from_secs(10) => {
                return write!(f, "{}s", (d.as_secs_f64() * 10.0).floor() / 10.0);
            }
            d if d < Duration::from_secs(3600) => Duration::from_secs(d.as_secs()),
            d if d < Duration::from_secs(DAY) => Duration::from_secs(d.as_secs() / 60 * 60),
            d => {
                let (days, hours) = (d.as_secs() / DAY, d.as_secs() % DAY / 3600);
                return if hours == 0 { write!(f, "{days}d") } else { write!(f, "{days}d{hours}h") };
            }
        };
        f.write_str(&humantime::format_duration(whole).to_string().replace(' ', ""))
    }
}

/// The time that a lease lives without renewal: 10 ms to one year, in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl(Duration);

impl Ttl {
    /// 10 ms: less leaves no time to renew on any store.
    pub const SHORTEST: Duration = Duration::from_millis(10);
    /// Without `--ttl`: 30 s.
    pub const DEFAULT: Ttl = Ttl(Duration::from_secs(30));

    /// # Errors
    ///
    /// The reason why this is not a TTL.
    pub fn of(duration: Duration) -> Result<Ttl, String> {
        match duration {
            short if short < Ttl::SHORTEST => {
                Err("a TTL is at least 10ms, for example 500ms, 30s, 5m or 1h30m".to_owned())
            }
            long if long > LONGEST => Err(TOO_LONG.to_owned()),
            duration => Ok(Ttl(Duration::from_millis(duration.as_millis() as u64))),
        }
    }

    pub fn duration(self) -> Duration {
        self.0
    }

    /// For the stores, at least 10.
    pub fn as_millis(self) -> u64 {
        self.0.as_millis() as u64
    }

    /// [`drift_over`] one TTL.
    pub fn drift(self) -> Duration {
        drift_over(self.0)
    }

    /// The time that a job has from SIGTERM to its end, unless an option says it.
    pub fn default_kill_after(self) -> Duration {
        (self.0 / 4).min(Duration::from_secs(5))
    }

    /// A lease that was made or extended within this time need not be extended when the lock is granted.
    pub fn fresh_for(self) -> Duration {
        self.0 / 10
    }

    /// The part of the TTL on which its owner may rely.
    pub fn validity(self) -> Duration {
        self.0 - self.drift()
    }
}

/// The drift by which the clocks of two hosts may differ in speed over this time, with the time that a kill
/// takes: the margin of the Redlock description, 1 % and 2 ms.
pub fn drift_over(time: Duration) -> Duration {
    time / 100 + Duration::from_millis(2)
}

impl FromStr for Ttl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let DurationText(duration) = text.parse()?;
        Ttl::of(duration)
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DurationText(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let good = [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2", 2000),
            ("0.5", 500),
        ];
        for (text, millis) in good {
            assert_eq!(text.parse::<Ttl>().map(Ttl::as_millis), Ok(millis), "{text}");
        }
        for text in ",0,0s,-1,-1s,1e99,NaN,inf,3 parsecs,99999999999999999999s,1ms,5M,1y,2months".split(',') {
            assert!(text.parse::<Ttl>().is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_shown_with_at_most_two_units() {
        for (millis, text) in [
            (120, "120ms"),
            (1_550, "1.5s"),
            (24_300, "24s"),
            (192_000, "3m12s"),
            (3_725_000, "1h2m"),
            (25_920_000_000, "300d"),
            (180_000_000, "2d2h"),
        ] {
            assert_eq!(DurationText(Duration::from_millis(millis)).to_string(), text);
        }
    }
}
