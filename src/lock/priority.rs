//! The priority of a waiter.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// From -100 to 100: the waiter with the highest is served first, equals in the order of their arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(i8);

impl Priority {
    const HIGHEST: i8 = 100;
    /// So long a wait makes up for one step. Without a limit, a waiter would starve behind others that keep coming.
    const STEP: Duration = Duration::from_hours(1);
    /// The clock of a store may have been ahead by this much when a waiter came: who comes later is behind it all the same.
    pub const CLOCK_SKEW: Duration = Duration::from_mins(5);

    /// The head start of a request that waits for nobody: each waiter is ahead of it.
    pub const BEHIND_ALL: i64 = -1000 * Priority::STEP.as_micros() as i64;

    pub fn get(self) -> i8 {
        self.0
    }

    pub fn is_default(&self) -> bool {
        *self == Priority::default()
    }

    /// A waiter is served as if it had come this much earlier; in microseconds, below zero for one that lets others pass.
    pub fn head_start_micros(self) -> i64 {
        i64::from(self.0) * Priority::STEP.as_micros() as i64
    }
}

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Priority, String> {
        let number = text.parse().ok().filter(|number: &i8| number.unsigned_abs() <= Priority::HIGHEST as u8);
        number.map(Priority).ok_or_else(|| "a priority is -100 to 100, for example --priority 10".to_owned())
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[test]
fn a_step_counts_as_an_hour() {
    let head_start = |text: &str| text.parse().map(Priority::head_start_micros).ok();
    let hour = 3_600_000_000;
    assert_eq!(["0", "1", "-100", "+100"].map(head_start), [0, hour, -100 * hour, 100 * hour].map(Some));
    assert_eq!(["101", "-101", "-128", "1.5", "", "high"].map(head_start), [None; 6]);
}
