//! The meaning of the rows of answers.

use std::time::Duration;

use super::message::TableRow;
use crate::lock::{Breaker, Busy, FencingToken, Holder, Key, Metadata, Mode};

pub fn text(row: &TableRow, column: usize) -> &str {
    row.get(column).and_then(Option::as_deref).unwrap_or_default()
}

pub fn number(row: &TableRow, column: usize) -> Option<u64> {
    text(row, column).parse().ok()
}

/// The number of a permit; a lease of another mode has none.
pub fn permit(row: &TableRow, column: usize) -> Option<u32> {
    text(row, column).parse().ok()
}

pub fn fence(rows: &[TableRow]) -> Option<FencingToken> {
    number(rows.first()?, 0).map(FencingToken)
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

/// A row of `holders.sql`: the key, its mode, the holder, and its owner.
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
                metadata: Some(Metadata { permit: permit(row, 9), ..Metadata::from_untrusted(text(row, 7)) }),
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
