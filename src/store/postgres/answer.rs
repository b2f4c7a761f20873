//! The meaning of the rows of answers.

use std::time::Duration;

use super::message::TableRow;
use crate::lock::{Breaker, Busy, FencingToken, Holder, Key, Metadata, Mode, Permits};

pub fn text(row: &TableRow, column: usize) -> &str {
    row.get(column).and_then(Option::as_deref).unwrap_or_default()
}

pub fn number(row: &TableRow, column: usize) -> Option<u64> {
    text(row, column).parse().ok()
}

/// The permits in these rows, one in each; a lease of another mode has none.
pub fn permits<'a>(rows: impl IntoIterator<Item = &'a TableRow>, column: usize) -> Permits {
    Permits::new(rows.into_iter().filter_map(|row| text(row, column).parse().ok()).collect())
}

pub fn fence(rows: &[TableRow]) -> Option<FencingToken> {
    rows.iter().filter_map(|row| number(row, 0)).min().map(FencingToken)
}

/// The answer to a caller who was not granted a lock.
#[derive(Default)]
pub struct Seen {
    pub holder: Option<Holder>,
    holders: usize,
    pub ahead: usize,
    /// The lock is in use so.
    pub mode: Option<Mode>,
    pub is_queued: bool,
    /// No lease goes on, and a transaction with the fencing token may.
    pub is_over: bool,
    pub is_mine: bool,
}

impl Seen {
    pub fn read(rows: &[TableRow]) -> Seen {
        let Some(row) = rows.first() else { return Seen::default() };
        let holder = number(row, 0).map(|fence| Holder {
            metadata: Some(Metadata::from_untrusted(text(row, 5))),
            fence: Some(FencingToken(fence)),
            since: number(row, 1),
            left: number(row, 2).map(Duration::from_millis),
            hides_left: false,
            is_kept: text(row, 3) == "1",
            broken: Breaker::from_untrusted(text(row, 4)),
        });
        Seen {
            holder,
            holders: number(row, 6).unwrap_or(0) as usize,
            ahead: number(row, 7).unwrap_or(0) as usize,
            mode: text(row, 8).parse().ok(),
            is_queued: number(row, 9).is_some_and(|places| places > 0),
            is_over: text(row, 10) == "1",
            is_mine: text(row, 11) == "1",
        }
    }

    /// The lock is in use in a mode that does not go with this one.
    pub fn other_mode(&self, mode: Mode) -> Option<Mode> {
        self.mode.filter(|found| !self.is_queued && !found.goes_with(mode))
    }

    pub fn busy(self, key: Key) -> Busy {
        Busy { key, holder: self.holder, others: self.holders.saturating_sub(1), ahead: Some(self.ahead) }
    }
}

/// A row of `holders.sql`: the key, its mode, the holder, and its owner. Each permit has a row.
pub struct LeaseRow<'a> {
    pub key: &'a str,
    pub mode: Mode,
    pub holder: Holder,
    pub owner: &'a str,
}

impl LeaseRow<'_> {
    pub fn read(row: &TableRow) -> LeaseRow<'_> {
        LeaseRow {
            key: text(row, 0),
            mode: text(row, 1).parse().unwrap_or_default(),
            holder: Holder {
                metadata: Some(Metadata {
                    permits: permits([row], 9),
                    ..Metadata::from_untrusted(text(row, 7))
                }),
                fence: number(row, 2).map(FencingToken),
                since: number(row, 3),
                left: number(row, 4).map(Duration::from_millis),
                hides_left: false,
                is_kept: text(row, 5) == "1",
                broken: Breaker::from_untrusted(text(row, 6)),
            },
            owner: text(row, 8),
        }
    }
}

/// Adds a holder of the same lock to the others, or its permit to those that it has already.
pub fn add_holder(holders: &mut Vec<Holder>, lease: Holder) {
    let Some(added) = lease.metadata.as_ref().filter(|metadata| metadata.weight() > 1) else {
        return holders.push(lease);
    };
    let numbers = added.permits.numbers();
    let same = |known: &Metadata| Metadata { permits: added.permits.clone(), ..known.clone() } == *added;
    for known in holders.iter_mut() {
        if let Some(metadata) = known.metadata.as_mut().filter(|metadata| same(metadata)) {
            metadata.permits = Permits::new([metadata.permits.numbers(), numbers].concat());
            known.fence = known.fence.min(lease.fence);
            return;
        }
    }
    holders.push(lease);
}
