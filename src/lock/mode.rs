//! The number of holders that a lock may have at once.

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
    /// One key can be in use as both: only readers and writers share a key.
    pub fn goes_with(self, other: Mode) -> bool {
        self == other || !matches!((self, other), (Mode::Semaphore(_), _) | (_, Mode::Semaphore(_)))
    }

    /// A holder in this mode has everything that the other mode gives.
    pub fn covers(self, other: Mode) -> bool {
        self == other || (self, other) == (Mode::Exclusive, Mode::Shared)
    }

    /// The number of permits of a semaphore.
    pub fn permits(self) -> Option<u32> {
        if let Mode::Semaphore(permits) = self { Some(permits.get()) } else { None }
    }

    /// The number of entries at the head of a queue that hold the lock. The order alone decides.
    pub fn holders(queue: impl IntoIterator<Item = Mode>) -> usize {
        let mut queue = queue.into_iter();
        let Some(first) = queue.next() else { return 0 };
        let alike = 1 + queue.take_while(|mode| *mode == first).count();
        match first {
            Mode::Exclusive => 1,
            Mode::Shared => alike,
            Mode::Semaphore(permits) => alike.min(permits.get() as usize),
        }
    }

    /// A newcomer in this mode would hold the lock at once, after this queue.
    pub fn has_room(self, queue: impl IntoIterator<Item = Mode>) -> bool {
        let mut length = 0;
        let are_alike = queue.into_iter().inspect(|_| length += 1).all(|mode| mode == self);
        match self {
            Mode::Exclusive => length == 0,
            Mode::Shared => are_alike,
            Mode::Semaphore(permits) => are_alike && length < permits.get() as usize,
        }
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

#[test]
fn the_first_ones_of_a_queue_hold_the_lock() {
    let two = Mode::Semaphore(NonZeroU32::MIN.saturating_add(1));
    let [exclusive, shared] = [Mode::Exclusive, Mode::Shared];
    for (queue, expected) in [
        (&[][..], 0),
        (&[exclusive, exclusive], 1),
        (&[shared, shared, exclusive, shared], 2),
        (&[two, two, two], 2),
        (&[two, exclusive], 1),
    ] {
        assert_eq!(Mode::holders(queue.iter().copied()), expected, "{queue:?}");
    }
    assert!(shared.has_room([shared]) && !shared.has_room([shared, exclusive]));
    assert!(two.has_room([two]) && !two.has_room([two, two]));
    assert!(exclusive.has_room([]) && !exclusive.has_room([shared]));
}
