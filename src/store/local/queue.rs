//! The table `waiter`: who stands in line, in the order of arrival.
//!
//! All fails as SQLite does, and is undone with the transaction.

use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::process::Processes;
use crate::lock::{Key, Kind, Metadata, OwnerToken, Request};

/// A place in the queue.
pub struct Place {
    /// Grows with every arrival: the order of the queue.
    pub ticket: i64,
    /// The owner token that the grant will have.
    pub token: String,
    pub kind: Kind,
    /// The id of the boot in which the waiter lives.
    pub boot: String,
    /// The name of the socket that wakes this waiter.
    pub bell: String,
    /// That of the waiter: with its death the place is free.
    pub processes: Processes,
    /// Shown to others.
    pub metadata: Metadata,
}

impl Place {
    fn read(row: &Row) -> rusqlite::Result<Place> {
        Ok(Place {
            ticket: row.get(0)?,
            token: row.get(1)?,
            boot: row.get(2)?,
            bell: row.get(3)?,
            processes: Processes::from_text(&row.get::<_, String>(4)?),
            metadata: Metadata::from_untrusted(&row.get::<_, String>(5)?),
            kind: row.get::<_, String>(6)?.parse().unwrap_or_default(),
        })
    }
}

const PLACES: &str =
    "SELECT ticket, token, boot, bell, pids, metadata, kind FROM waiter WHERE key = ?1 ORDER BY ticket";
/// The first in line of the key ?1, dead or alive.
pub const FIRST: &str = "SELECT ticket, token, boot, bell, pids, metadata, kind FROM waiter WHERE key = ?1 ORDER BY ticket LIMIT 1";
/// The place with the ticket ?1.
pub const DROP: &str = "DELETE FROM waiter WHERE ticket = ?1";

/// Puts a request into line and returns its ticket: the one it had before, or a new one at the end.
pub fn join(
    tx: &Transaction,
    request: &Request,
    bell: &str,
    ticket: Option<i64>,
    boot: &str,
) -> rusqlite::Result<i64> {
    let mut known = tx.prepare_cached("SELECT ticket FROM waiter WHERE token = ?1 AND key = ?2")?;
    let mine = [request.token.expose(), request.key.as_str()];
    if let Some(ticket) = known.query_row(mine, |row| row.get(0)).optional()? {
        return Ok(ticket);
    }
    let sql = "INSERT INTO waiter (ticket, token, key, boot, bell, pids, metadata, kind)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    tx.prepare_cached(sql)?.execute(params![
        ticket,
        request.token.expose(),
        request.key.as_str(),
        boot,
        bell,
        // Who waits is this process, whoever is to keep the lock.
        Processes::of(&[std::process::id()]).to_text(),
        request.metadata.to_json(),
        request.kind.to_string()
    ])?;
    Ok(tx.last_insert_rowid())
}

/// Leaves the queue of a key. `false` when this token was not in it.
pub fn leave(tx: &Transaction, key: &Key, token: &OwnerToken) -> rusqlite::Result<bool> {
    let mut statement = tx.prepare_cached("DELETE FROM waiter WHERE token = ?1 AND key = ?2")?;
    Ok(statement.execute([token.expose(), key.as_str()])? > 0)
}

/// Takes a place out of the line: its waiter is served, or dead.
pub fn drop_place(tx: &Transaction, ticket: i64) -> rusqlite::Result<()> {
    tx.prepare_cached(DROP)?.execute([ticket]).map(drop)
}

/// How many stand before `place`; with no place, how many there are.
pub fn ahead(tx: &Transaction, key: &Key, place: Option<i64>) -> rusqlite::Result<usize> {
    let count = tx
        .prepare_cached("SELECT count(*) FROM waiter WHERE key = ?1 AND ticket < ?2")?
        .query_row(params![key.as_str(), place.unwrap_or(i64::MAX)], |row| row.get::<_, i64>(0))?;
    Ok(count as usize)
}

/// The first in line, dead or alive.
pub fn first(tx: &Transaction, key: &Key) -> rusqlite::Result<Option<Place>> {
    tx.prepare_cached(FIRST)?.query_row([key.as_str()], Place::read).optional()
}

/// The first in line that is alive; the dead before it are dropped.
pub fn first_alive(tx: &Transaction, key: &Key, boot: &str) -> rusqlite::Result<Option<Place>> {
    while let Some(first) = first(tx, key)? {
        if is_alive(&first, boot) {
            return Ok(Some(first));
        }
        drop_place(tx, first.ticket)?;
    }
    Ok(None)
}

/// Everyone in line that is alive.
pub fn alive(tx: &Transaction, key: &Key, boot: &str) -> rusqlite::Result<Vec<Place>> {
    let mut statement = tx.prepare_cached(PLACES)?;
    let places = statement.query_map([key.as_str()], Place::read)?;
    places.filter(|place| place.as_ref().map_or(true, |place| is_alive(place, boot))).collect()
}

fn is_alive(place: &Place, boot: &str) -> bool {
    place.boot == boot && !place.processes.are_dead()
}
