//! The table `waiter`: the queue of each key, in the order of arrival and priority.
//!
//! All fails as SQLite does, and is undone with the transaction.

use std::fs::{self, File};
use std::io::Write;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use rusqlite::{OptionalExtension, Row, Transaction, params};
use uuid::Uuid;

use super::host::Host;
use super::liveness::Processes;
use super::owner_hash::OwnerHash;
use super::wakeup::{WakeFifo, fifo_path, open_fifo};
use crate::clock::BootTime;
use crate::lock::{Key, Metadata, Mode, OwnerToken, Priority, Request};

/// A waiter asks this often, whatever happens.
pub const INTERVAL: Duration = Duration::from_secs(5);
/// A waiter that has not asked for this long is passed over. If it was only stopped, it asks again with its old ticket.
const SILENCE: Duration = INTERVAL.saturating_mul(2);

pub struct QueueEntry {
    /// The order of the queue: the time of arrival in microseconds, less the head start of the priority.
    pub ticket: i64,
    /// The owner that waits.
    pub owner: OwnerHash,
    pub mode: Mode,
    /// When the waiter last asked, or up to half an interval before that.
    asked: BootTime,
    /// The name of the FIFO that wakes this waiter.
    pub fifo: Uuid,
    /// That of the waiter, once it is served: with its death the grant is free.
    pub processes: Processes,
    pub metadata: Metadata,
    /// It is out of the queue, and the lock is its own.
    pub is_served: bool,
}

impl QueueEntry {
    fn read(row: &Row, host: &Host) -> rusqlite::Result<QueueEntry> {
        Ok(QueueEntry {
            ticket: row.get("ticket")?,
            owner: row.get("owner")?,
            asked: host.time(row.get("asked")?),
            // The nil UUID is nobody's.
            fifo: row.get::<_, String>("fifo")?.parse().unwrap_or_default(),
            processes: Processes::from_text(&row.get::<_, String>("processes")?),
            metadata: Metadata::from_untrusted(&row.get::<_, String>("metadata")?),
            mode: row.get::<_, String>("mode")?.parse().unwrap_or_default(),
            is_served: false,
        })
    }

    /// The end of the FIFO for writing, if the waiter is alive, as far as that can be seen.
    fn reach(&self, host: &Host) -> Option<Option<File>> {
        let now = BootTime::now();
        if self.asked > now || now.since(self.asked) >= SILENCE {
            return None;
        }
        match open_fifo(&fifo_path(&host.file, &self.fifo)) {
            Ok(None) => None,
            Ok(fifo) => Some(fifo),
            Err(_) => Some(None),
        }
    }
}

/// Wakes waiters: the lock is theirs now, or they are the first in line.
pub fn wake_all(file: &Path, waiters: Vec<QueueEntry>) {
    for waiter in waiters {
        let path = fifo_path(file, &waiter.fifo);
        if let Ok(Some(mut fifo)) = open_fifo(&path) {
            // One that is full wakes its waiter already.
            let _ = fifo.write(b".");
        }
        if waiter.is_served {
            let _ = fs::remove_file(&path);
        }
    }
}

const ENTRIES: &str = "SELECT * FROM waiter WHERE key = ?1 ORDER BY ticket";
/// The first entry of the key ?1, dead or alive.
pub const FIRST: &str = "SELECT * FROM waiter WHERE key = ?1 ORDER BY ticket LIMIT 1";
/// The last entry ahead of the ticket ?2, dead or alive.
const BEFORE: &str = "SELECT * FROM waiter WHERE key = ?1 AND ticket < ?2 ORDER BY ticket DESC LIMIT 1";
/// The entry with the ticket ?1.
pub const REMOVE: &str = "DELETE FROM waiter WHERE ticket = ?1";

/// Puts a request into the queue. Returns its ticket: the one that it had before, or a new one behind those
/// of its priority.
pub fn join(
    tx: &Transaction,
    request: &Request,
    fifo: &WakeFifo,
    ticket: Option<i64>,
    host: &Host,
) -> rusqlite::Result<i64> {
    let mut known =
        tx.prepare_cached("SELECT ticket, asked, fifo FROM waiter WHERE owner = ?1 AND key = ?2")?;
    let (owner, key, fifo) = (OwnerHash::of(&request.token), request.key.as_str(), fifo.name.to_string());
    let found = known.query_row(params![owner, key], |row| {
        Ok((row.get(0)?, host.time(row.get(1)?), row.get::<_, String>(2)?))
    });
    if let Some((ticket, asked, old_fifo)) = found.optional()? {
        // A waiter that is woken soon after it came writes nothing: the next in line waits for this transaction.
        if old_fifo != fifo || BootTime::now().since(asked) > INTERVAL / 2 {
            let mut ask = tx.prepare_cached("UPDATE waiter SET asked = ?2, fifo = ?3 WHERE ticket = ?1")?;
            ask.execute(params![ticket, host.now(), fifo])?;
        }
        return Ok(ticket);
    }
    let arrival = host.now() / 1000 - request.metadata.priority.head_start_micros();
    // In a file that replaced the one of the ticket, another may have that number.
    let sql = "INSERT INTO waiter (ticket, owner, key, asked, fifo, processes, metadata, mode)
               VALUES (coalesce(nullif(?1, (SELECT ticket FROM waiter WHERE ticket = ?1)),
                       max(?9, 1 + coalesce((SELECT max(ticket) FROM waiter WHERE ticket < ?10), ?9))),
                   ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    tx.prepare_cached(sql)?.execute(params![
        ticket,
        owner,
        key,
        host.now(),
        fifo,
        // This process waits, whichever is to keep the lock.
        Processes::of(&[std::process::id()]).to_text(),
        request.metadata.to_json(),
        request.mode.to_string(),
        arrival,
        arrival + Priority::CLOCK_SKEW.as_micros() as i64
    ])?;
    Ok(tx.last_insert_rowid())
}

/// Leaves the queue of a key. `false` when this token was not in it.
pub fn leave(tx: &Transaction, key: &Key, token: &OwnerToken) -> rusqlite::Result<bool> {
    let mut statement = tx.prepare_cached("DELETE FROM waiter WHERE owner = ?1 AND key = ?2")?;
    Ok(statement.execute(params![OwnerHash::of(token), key.as_str()])? > 0)
}

/// Takes the entry that gets the lock out of the queue.
pub fn serve(tx: &Transaction, entry: QueueEntry) -> rusqlite::Result<QueueEntry> {
    tx.prepare_cached(REMOVE)?.execute([entry.ticket])?;
    Ok(QueueEntry { is_served: true, ..entry })
}

/// Takes an entry out of the queue whose waiter is dead or silent.
fn pass_over(tx: &Transaction, entry: &QueueEntry, host: &Host) -> rusqlite::Result<()> {
    let _ = fs::remove_file(fifo_path(&host.file, &entry.fifo));
    tx.prepare_cached(REMOVE)?.execute([entry.ticket]).map(drop)
}

/// The number of entries ahead of a ticket; without one, of all entries.
pub fn ahead(tx: &Transaction, key: &Key, ticket: Option<i64>) -> rusqlite::Result<usize> {
    let count = tx
        .prepare_cached("SELECT count(*) FROM waiter WHERE key = ?1 AND ticket < ?2")?
        .query_row(params![key.as_str(), ticket.unwrap_or(i64::MAX)], |row| row.get::<_, i64>(0))?;
    Ok(count as usize)
}

/// No entry, dead or alive, is ahead of the ticket; without one, the queue is empty.
pub fn is_first(tx: &Transaction, key: &Key, ticket: Option<i64>) -> rusqlite::Result<bool> {
    let first = tx.prepare_cached(FIRST)?.query_row([key.as_str()], |row| row.get::<_, i64>(0)).optional()?;
    Ok(first.is_none_or(|first| ticket == Some(first)))
}

/// The first waiter that is alive; the dead before it are removed.
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

/// The FIFO of the last waiter alive ahead of a ticket, where it can be opened; `None` for the first in line.
pub fn before(
    tx: &Transaction,
    key: &Key,
    ticket: i64,
    host: &Host,
) -> rusqlite::Result<Option<Option<File>>> {
    let mut last = tx.prepare_cached(BEFORE)?;
    let mut last =
        || last.query_row(params![key.as_str(), ticket], |row| QueueEntry::read(row, host)).optional();
    while let Some(last) = last()? {
        if let Some(fifo) = last.reach(host) {
            return Ok(Some(fifo));
        }
        pass_over(tx, &last, host)?;
    }
    Ok(None)
}

pub fn alive(tx: &Transaction, key: &Key, host: &Host) -> rusqlite::Result<Vec<QueueEntry>> {
    let mut statement = tx.prepare_cached(ENTRIES)?;
    let entries = statement.query_map([key.as_str()], |row| QueueEntry::read(row, host))?;
    entries.filter(|entry| entry.as_ref().map_or(true, |entry| entry.reach(host).is_some())).collect()
}

/// Changes the number of permits for all waiters of a key. Returns those that want more than that, who have left the queue.
pub fn resize(
    tx: &Transaction,
    key: &Key,
    permits: NonZeroU32,
    host: &Host,
) -> rusqlite::Result<Vec<QueueEntry>> {
    let mut rename = tx.prepare("UPDATE waiter SET mode = ?2 WHERE key = ?1")?;
    rename.execute(params![key.as_str(), Mode::Semaphore(permits).to_string()])?;
    let too_heavy = |entry: &QueueEntry| entry.metadata.weight() > permits.get();
    let leaving: Vec<QueueEntry> = alive(tx, key, host)?.into_iter().filter(too_heavy).collect();
    for entry in &leaving {
        tx.prepare_cached(REMOVE)?.execute([entry.ticket])?;
    }
    Ok(leaving)
}

/// Removes some of the silent waiters of all keys.
pub fn forget(tx: &Transaction, host: &Host) -> rusqlite::Result<()> {
    let sql = "SELECT * FROM waiter
               WHERE asked > ?1 OR asked <= ?1 - ?2 LIMIT 1000";
    let mut silent = tx.prepare(sql)?;
    let entries =
        silent.query_map([host.now(), SILENCE.as_nanos() as i64], |row| QueueEntry::read(row, host))?;
    let entries = entries.collect::<rusqlite::Result<Vec<_>>>()?;
    entries.iter().try_for_each(|entry| pass_over(tx, entry, host))
}
