use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// How many may hold a lock at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Exclusive,
    /// Readers: any number of them, or one exclusive holder.
    Shared,
    /// A semaphore: at most this many.
    Permits(NonZeroU32),
}

impl Mode {
    /// Whether one key can be in use as both: only readers and writers share a key.
    pub fn goes_with(self, other: Mode) -> bool {
        self == other || !matches!((self, other), (Mode::Permits(_), _) | (_, Mode::Permits(_)))
    }

    /// Whether who holds a lock as this kind has what the other kind gives.
    pub fn covers(self, other: Mode) -> bool {
        self == other || (self, other) == (Mode::Exclusive, Mode::Shared)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Exclusive => f.write_str("exclusive"),
            Mode::Shared => f.write_str("shared"),
            Mode::Permits(permits) => write!(f, "permits:{permits}"),
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
                permits.map(Mode::Permits).ok_or(())
            }
        }
    }
}
