//! The table `waiter`: who stands in line, in the order of arrival.
//!
//! All fails as SQLite does, and is undone with the transaction.

use std::fs::File;
use std::time::Duration;

use rusqlite::{OptionalExtension, Row, Transaction, params};
use uuid::Uuid;

use super::host::Host;
use super::liveness::Processes;
use super::owner_hash::OwnerHash;
use super::wakeup::{WakeSocket, bell_path, reach, take_down};
use crate::clock::BootTime;
use crate::lock::{Key, Metadata, Mode, OwnerToken, Request};

/// A waiter asks this often, whatever happens.
pub const INTERVAL: Duration = Duration::from_secs(5);
/// Who has not asked for so long is passed over. A waiter that was stopped asks again with its old ticket.
const SILENCE: Duration = INTERVAL.saturating_mul(2);

/// A place in the queue.
pub struct QueueEntry {
    /// Grows with every arrival: the order of the queue.
    pub ticket: i64,
    /// Of the grant that it waits for.
    pub owner: OwnerHash,
    pub kind: Mode,
    /// When the waiter asked, to half of its interval.
    asked: BootTime,
    /// The name of the bell that wakes this waiter.
    pub bell: Uuid,
    /// That of the waiter, once it is served: with its death the grant is free.
    pub processes: Processes,
    /// Shown to others.
    pub metadata: Metadata,
    /// It is out of the queue, and the lock is its own.
    pub is_served: bool,
}

impl QueueEntry {
    fn read(row: &Row, host: &Host) -> rusqlite::Result<QueueEntry> {
        Ok(QueueEntry {
            ticket: row.get(0)?,
            owner: row.get(1)?,
            asked: host.time(row.get(2)?),
            // The nil UUID is nobody's.
            bell: row.get::<_, String>(3)?.parse().unwrap_or_default(),
            processes: Processes::from_text(&row.get::<_, String>(4)?),
            metadata: Metadata::from_untrusted(&row.get::<_, String>(5)?),
            kind: row.get::<_, String>(6)?.parse().unwrap_or_default(),
            is_served: false,
        })
    }

    /// The end of the bell for ringing, if the waiter is alive, as far as that can be seen.
    fn reach(&self, host: &Host) -> Option<Option<File>> {
        let now = BootTime::now();
        if self.asked > now || now.since(self.asked) >= SILENCE {
            return None;
        }
        match reach(&bell_path(&host.file, &self.bell)) {
            Ok(None) => None,
            Ok(bell) => Some(bell),
            Err(_) => Some(None),
        }
    }
}

const PLACES: &str =
    "SELECT ticket, owner, asked, bell, pids, metadata, kind FROM waiter WHERE key = ?1 ORDER BY ticket";
/// The first in line of the key ?1, dead or alive.
pub const FIRST: &str = "SELECT ticket, owner, asked, bell, pids, metadata, kind FROM waiter WHERE key = ?1 ORDER BY ticket LIMIT 1";
/// The last one ahead of the ticket ?2, dead or alive.
const BEFORE: &str = "SELECT ticket, owner, asked, bell, pids, metadata, kind FROM waiter WHERE key = ?1 AND ticket < ?2 ORDER BY ticket DESC LIMIT 1";
/// The place with the ticket ?1.
pub const DROP: &str = "DELETE FROM waiter WHERE ticket = ?1";

/// Puts a request into line and returns its ticket: the one it had before, or a new one at the end.
pub fn join(
    tx: &Transaction,
    request: &Request,
    bell: &WakeSocket,
    ticket: Option<i64>,
    host: &Host,
) -> rusqlite::Result<i64> {
    let mut known =
        tx.prepare_cached("SELECT ticket, asked, bell FROM waiter WHERE owner = ?1 AND key = ?2")?;
    let (owner, key, bell) = (OwnerHash::of(&request.token), request.key.as_str(), bell.name().to_string());
    let found = known.query_row(params![owner, key], |row| {
        Ok((row.get(0)?, host.time(row.get(1)?), row.get::<_, String>(2)?))
    });
    if let Some((ticket, asked, old_bell)) = found.optional()? {
        // Who is rung soon after it came writes nothing: the next in line waits for this transaction.
        if old_bell != bell || BootTime::now().since(asked) > INTERVAL / 2 {
            let mut ask = tx.prepare_cached("UPDATE waiter SET asked = ?2, bell = ?3 WHERE ticket = ?1")?;
            ask.execute(params![ticket, host.now(), bell])?;
        }
        return Ok(ticket);
    }
    let sql = "INSERT INTO waiter (ticket, owner, key, asked, bell, pids, metadata, kind)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    tx.prepare_cached(sql)?.execute(params![
        ticket,
        owner,
        key,
        host.now(),
        bell,
        // Who waits is this process, whoever is to keep the lock.
        Processes::of(&[std::process::id()]).to_text(),
        request.metadata.to_json(),
        request.mode.to_string()
    ])?;
    Ok(tx.last_insert_rowid())
}

/// Leaves the queue of a key. `false` when this token was not in it.
pub fn leave(tx: &Transaction, key: &Key, token: &OwnerToken) -> rusqlite::Result<bool> {
    let mut statement = tx.prepare_cached("DELETE FROM waiter WHERE owner = ?1 AND key = ?2")?;
    Ok(statement.execute(params![OwnerHash::of(token), key.as_str()])? > 0)
}

/// Takes a place out of the line that gets the lock.
pub fn serve(tx: &Transaction, place: QueueEntry) -> rusqlite::Result<QueueEntry> {
    tx.prepare_cached(DROP)?.execute([place.ticket])?;
    Ok(QueueEntry { is_served: true, ..place })
}

/// Takes a place out of the line whose waiter is dead, or silent.
fn pass_over(tx: &Transaction, place: &QueueEntry, host: &Host) -> rusqlite::Result<()> {
    take_down(&bell_path(&host.file, &place.bell));
    tx.prepare_cached(DROP)?.execute([place.ticket]).map(drop)
}

/// How many stand before `place`; with no place, how many there are.
pub fn ahead(tx: &Transaction, key: &Key, place: Option<i64>) -> rusqlite::Result<usize> {
    let count = tx
        .prepare_cached("SELECT count(*) FROM waiter WHERE key = ?1 AND ticket < ?2")?
        .query_row(params![key.as_str(), place.unwrap_or(i64::MAX)], |row| row.get::<_, i64>(0))?;
    Ok(count as usize)
}

/// Whether nobody, dead or alive, stands before who has `place`; without one, whether nobody is in line.
pub fn is_first(tx: &Transaction, key: &Key, place: Option<i64>) -> rusqlite::Result<bool> {
    let first = tx.prepare_cached(FIRST)?.query_row([key.as_str()], |row| row.get::<_, i64>(0)).optional()?;
    Ok(first.is_none_or(|first| place == Some(first)))
}

/// The first in line that is alive; the dead before it are dropped.
pub fn first_alive(tx: &Transaction, key: &Key, host: &Host) -> rusqlite::Result<Option<QueueEntry>> {
    let mut first = tx.prepare_cached(FIRST)?;
    while let Some(first) = first.query_row([key.as_str()], |row| QueueEntry::read(row, host)).optional()? {
        if first.reach(host).is_some() {
            return Ok(Some(first));
        }
        pass_over(tx, &first, host)?;
    }
    Ok(None)
}

/// The bell of the last one alive ahead of a place, where it can be reached; `None` for the first in line.
pub fn before(
    tx: &Transaction,
    key: &Key,
    place: i64,
    host: &Host,
) -> rusqlite::Result<Option<Option<File>>> {
    let mut last = tx.prepare_cached(BEFORE)?;
    let mut last =
        || last.query_row(params![key.as_str(), place], |row| QueueEntry::read(row, host)).optional();
    while let Some(last) = last()? {
        if let Some(bell) = last.reach(host) {
            return Ok(Some(bell));
        }
        pass_over(tx, &last, host)?;
    }
    Ok(None)
}

/// Everyone in line that is alive.
pub fn alive(tx: &Transaction, key: &Key, host: &Host) -> rusqlite::Result<Vec<QueueEntry>> {
    let mut statement = tx.prepare_cached(PLACES)?;
    let places = statement.query_map([key.as_str()], |row| QueueEntry::read(row, host))?;
    places.filter(|place| place.as_ref().map_or(true, |place| place.reach(host).is_some())).collect()
}

/// Drops some of the silent of all keys.
pub fn forget(tx: &Transaction, host: &Host) -> rusqlite::Result<()> {
    let sql = "SELECT ticket, owner, asked, bell, pids, metadata, kind FROM waiter
               WHERE asked > ?1 OR asked <= ?1 - ?2 LIMIT 1000";
    let mut silent = tx.prepare(sql)?;
    let places =
        silent.query_map([host.now(), SILENCE.as_nanos() as i64], |row| QueueEntry::read(row, host))?;
    let places = places.collect::<rusqlite::Result<Vec<_>>>()?;
    places.iter().try_for_each(|place| pass_over(tx, place, host))
}
