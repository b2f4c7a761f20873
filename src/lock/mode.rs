//! How many may hold a lock at once.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Exclusive,
    /// Readers: any number of them, or one exclusive holder.
    Shared,
    Semaphore(NonZeroU32),
}

impl Mode {
    /// Whether one key can be in use as both: only readers and writers share a key.
    pub fn goes_with(self, other: Mode) -> bool {
        self == other || !matches!((self, other), (Mode::Semaphore(_), _) | (_, Mode::Semaphore(_)))
    }

    /// Whether a holder in this mode has what the other mode gives.
    pub fn covers(self, other: Mode) -> bool {
        self == other || (self, other) == (Mode::Exclusive, Mode::Shared)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Exclusive => f.write_str("exclusive"),
            Mode::Shared => f.write_str("shared"),
            Mode::Semaphore(permits) => write!(f, "permits:{permits}"),
        }
    }
}

impl FromStr for Mode {
    type Err = ();

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "exclusive" => Ok(Mode::Exclusive),
            "shared" => Ok(Mode::Shared),
            _ => {
                let permits = text.strip_prefix("permits:").and_then(|number| number.parse().ok());
                permits.map(Mode::Semaphore).ok_or(())
            }
        }
    }
}
