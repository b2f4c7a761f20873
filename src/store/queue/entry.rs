//! The entries of a queue: how many of them hold the lock, and how others see them.

use super::EntryData;
use crate::lock::{Busy, Holder, Key, LockStatus, Metadata, Mode, Waiter, unix_millis};

/// Why a request cannot take several permits, and their number cannot change.
pub const NOT_COUNTED: &str =
    "each entry of this store's queue is one of a fixed number of permits; use Redis, local: or PostgreSQL";

/// One place in the queue of a lock, the holder's included.
pub trait InQueue {
    fn mode(&self) -> Mode;
}

/// The number of entries, from the first on, that hold the lock.
pub fn holders(queue: &[impl InQueue]) -> usize {
    Mode::holders(queue.iter().map(InQueue::mode))
}

/// A newcomer in this mode would hold the lock at once.
pub fn has_room(queue: &[impl InQueue], mode: Mode) -> bool {
    mode.has_room(queue.iter().map(InQueue::mode))
}

/// The mode of the first entry that cannot share a key with this mode.
pub fn other_mode(queue: &[impl InQueue], mode: Mode) -> Option<Mode> {
    queue.iter().map(InQueue::mode).find(|other| !other.goes_with(mode))
}

/// The answer to a newcomer behind these entries, the first of which this holder has.
pub fn busy(key: &Key, before: &[impl InQueue], holder: Option<Holder>) -> Busy {
    let holding = holders(before);
    let (others, ahead) = (holding.saturating_sub(1), Some(before.len() - holding));
    Busy { key: key.clone(), holder, others, ahead }
}

/// An entry as others see it.
pub struct SeenEntry {
    pub mode: Mode,
    /// `None` for an entry of another program.
    pub data: Option<EntryData>,
    /// `None` for a waiter. The first in the queue is a waiter until it has seen its grant.
    pub holder: Option<Holder>,
}

/// The status of the lock with this queue, whose entries are seen like this.
pub fn status(key: Key, queue: &[impl InQueue], seen: impl IntoIterator<Item = SeenEntry>) -> LockStatus {
    let mode = queue.first().map(InQueue::mode).unwrap_or_default();
    let mut status = LockStatus { key, mode, holders: Vec::new(), waiters: Vec::new() };
    for SeenEntry { mode, data, holder } in seen {
        match holder {
            Some(holder) => status.holders.push(holder),
            None => {
                let metadata = data.map_or_else(another_program, |data| data.metadata);
                status.waiters.push(Waiter { mode, metadata });
            }
        }
    }
    status
}

/// A waiter that says nothing about itself.
fn another_program() -> Metadata {
    Metadata { host: "another program".to_owned(), since: unix_millis(), ..Metadata::default() }
}
