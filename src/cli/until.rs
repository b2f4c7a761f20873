//! The end of a reservation, as people write a time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

/// A time in the future: `18:00` of today, or else of tomorrow, `2026-12-24 18:00`, or RFC 3339.
#[derive(Clone, Debug)]
pub struct Until {
    text: String,
    at: Timestamp,
}

impl Until {
    /// In milliseconds since the Unix epoch.
    pub fn unix_millis(&self) -> u64 {
        u64::try_from(self.at.as_millisecond()).unwrap_or(0)
    }

    /// The time from now on, by the wall clock of this host.
    pub fn left(&self) -> Duration {
        Duration::try_from(self.at.duration_since(Timestamp::now())).unwrap_or_default()
    }

    fn read(text: &str, now: &Zoned) -> Result<Until, String> {
        let zone = now.time_zone();
        let at = match text.parse::<Timestamp>() {
            Ok(at) => at,
            Err(_) => match (clock_time(text), local_time(text)) {
                (Some(time), _) => next(time, now),
                (None, Some(time)) => time.to_zoned(zone.clone()).map(|time| time.timestamp()).ok(),
                (None, None) => None,
            }
            .ok_or("a time looks like 18:00, 2026-12-24 18:00 or 2026-12-24T18:00:00Z")?,
        };
        if at <= now.timestamp() {
            return Err("it is in the past".to_owned());
        }
        Ok(Until { text: text.to_owned(), at })
    }
}

/// `18:00` or `18:00:30`.
fn clock_time(text: &str) -> Option<Time> {
    ["%H:%M", "%H:%M:%S"].iter().find_map(|form| Time::strptime(form, text).ok())
}

/// With the date, in the time zone of this host.
fn local_time(text: &str) -> Option<DateTime> {
    let text = text.replacen('T', " ", 1);
    ["%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"].iter().find_map(|form| DateTime::strptime(form, &text).ok())
}

/// Today, or tomorrow if that time of day has passed.
fn next(time: Time, now: &Zoned) -> Option<Timestamp> {
    let on = |day: jiff::civil::Date| {
        Some(day.to_datetime(time).to_zoned(now.time_zone().clone()).ok()?.timestamp())
    };
    let today = on(now.date())?;
    if today > now.timestamp() { Some(today) } else { on(now.date().checked_add(1.day()).ok()?) }
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Until, String> {
        Until::read(text, &Timestamp::now().to_zoned(TimeZone::system()))
    }
}

impl fmt::Display for Until {
    /// As it was typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_people_write_it() {
        let now = Timestamp::from_second(1_780_000_000).expect("a time").to_zoned(TimeZone::UTC);
        assert_eq!(now.to_string(), "2026-05-28T20:26:40+00:00[UTC]");
        for (text, expected) in [
            ("21:00", "2026-05-28T21:00:00Z"),
            ("20:26", "2026-05-29T20:26:00Z"),
            ("00:00", "2026-05-29T00:00:00Z"),
            ("20:26:41", "2026-05-28T20:26:41Z"),
            ("2026-05-30 08:15", "2026-05-30T08:15:00Z"),
            ("2026-05-30T08:15", "2026-05-30T08:15:00Z"),
            ("2026-05-28T23:00:00+02:00", "2026-05-28T21:00:00Z"),
        ] {
            let read = Until::read(text, &now).map(|until| until.at.to_string());
            assert_eq!(read, Ok(expected.to_owned()), "{text}");
        }
        for text in
            ["", "6pm", "25:00", "2h", "2026-05-28 20:00", "2026-05-28T20:26:40Z", "2026-02-30 10:00", "-1"]
        {
            assert!(Until::read(text, &now).is_err(), "{text}");
        }
    }

    /// An hour that the clock skips, or shows twice, does not matter.
    #[test]
    fn a_day_may_be_shorter_than_others() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        let now = "2026-03-28T23:00:00Z".parse::<Timestamp>().expect("a time").to_zoned(zone);
        let read = |text: &str| Until::read(text, &now).map(|until| until.at.to_string());
        assert_eq!(read("06:00"), Ok("2026-03-29T04:00:00Z".to_owned()));
        assert_eq!(read("02:30"), Ok("2026-03-29T01:30:00Z".to_owned()));
    }
}
