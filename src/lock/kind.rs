use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// How many may hold a lock at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Exclusive,
    /// Readers: any number of them, or one exclusive holder.
    Shared,
    /// A semaphore: at most this many.
    Permits(NonZeroU32),
}

impl Kind {
    /// Whether one key can be in use as both: only readers and writers share a key.
    pub fn goes_with(self, other: Kind) -> bool {
        self == other || !matches!((self, other), (Kind::Permits(_), _) | (_, Kind::Permits(_)))
    }

    /// Whether who holds a lock as this kind has what the other kind gives.
    pub fn covers(self, other: Kind) -> bool {
        self == other || (self, other) == (Kind::Exclusive, Kind::Shared)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Exclusive => f.write_str("exclusive"),
            Kind::Shared => f.write_str("shared"),
            Kind::Permits(permits) => write!(f, "permits:{permits}"),
        }
    }
}

impl FromStr for Kind {
    type Err = ();

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "exclusive" => Ok(Kind::Exclusive),
            "shared" => Ok(Kind::Shared),
            _ => {
                let permits = text.strip_prefix("permits:").and_then(|number| number.parse().ok());
                permits.map(Kind::Permits).ok_or(())
            }
        }
    }
}
