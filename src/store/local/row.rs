//! The tables `lock`, with a row for each key, and `holder`, for the keys that several may hold.
//!
//! All fails as SQLite does, and is undone with the transaction.

use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row as SqlRow, Transaction, params, params_from_iter};

use super::process::Processes;
use super::queue::{self, Place};
use crate::clock::{BootTime, Deadline};
use crate::lock::{FencingToken, Holding, Key, Kind, Metadata, OwnerToken, Request, unix_millis};

/// How long a lock that was handed over waits for its new holder to confirm. A waiter that dies is seen
/// at once, so this is for one that is stopped or starved.
pub const CLAIM: Duration = Duration::from_secs(5);

/// In place of the owner token of a lock that several hold, and of one that was given back before the end of its
/// min-hold.
pub const SEVERAL: &str = "several";
pub const RELEASED: &str = "released";

/// A lease.
#[derive(Clone)]
pub struct Row {
    /// Of the last grant; for several holders the highest of theirs.
    pub fence: u64,
    /// The owner token, [`SEVERAL`] or [`RELEASED`]; `None` when the lock is free.
    pub owner: Option<String>,
    /// The wall clock at the grant, in milliseconds since the Unix epoch: to be shown only.
    pub since: u64,
    /// The end of the lease, in the boot of `boot`.
    pub until: Deadline,
    /// The id of the boot of the grant: in another one the lease is over.
    pub boot: String,
    /// Before this a release leaves the lock to its time.
    pub keep: BootTime,
    /// Somebody broke the lock, and the holder is to see that at its next renewal.
    pub broken: bool,
    /// Those whose death ends the lease.
    pub processes: Processes,
    /// Shown to others.
    pub metadata: Metadata,
}

/// What is known of a key.
pub struct LockRow {
    /// The exclusive lease, or the mark that several hold the lock.
    pub lease: Row,
    /// That of the last grant.
    pub kind: Kind,
}

impl Row {
    /// The lease of a request, for one TTL from now.
    pub fn of(request: &Request, fence: u64, since: u64, boot: &str) -> Row {
        Row {
            fence,
            owner: Some(request.token.expose().to_owned()),
            since,
            until: Deadline::after(request.ttl.duration()),
            boot: boot.to_owned(),
            keep: BootTime::after(request.min_hold),
            broken: false,
            processes: Processes::of(&request.pids),
            metadata: request.metadata.clone(),
        }
    }

    /// The short lease of a waiter, until it confirms.
    pub fn claim(place: &Place, fence: u64, boot: &str) -> Row {
        Row {
            fence,
            owner: Some(place.token.clone()),
            since: unix_millis(),
            until: Deadline::after(CLAIM),
            boot: boot.to_owned(),
            keep: BootTime::from_nanos(0),
            broken: false,
            processes: place.processes.clone(),
            metadata: place.metadata.clone(),
        }
    }

    /// The mark that several hold the lock.
    pub fn of_several(fence: u64, boot: &str) -> Row {
        Row {
            fence,
            owner: Some(SEVERAL.to_owned()),
            since: 0,
            until: BootTime::from_nanos(i64::MAX as u64),
            boot: boot.to_owned(),
            keep: BootTime::from_nanos(0),
            broken: false,
            processes: Processes::default(),
            metadata: Metadata::default(),
        }
    }

    /// Held by a lease that runs, of a holder that is not known to be dead.
    pub fn is_held(&self, boot: &str) -> bool {
        self.owner.is_some() && self.boot == boot && !self.until.has_passed() && !self.processes.are_dead()
    }

    /// Whether this token owns the lease, over or not.
    pub fn is_of(&self, token: &OwnerToken) -> bool {
        self.owner.as_deref() == Some(token.expose())
    }

    /// Held by this token, whose owner is asking and so alive.
    pub fn is_held_by(&self, token: &OwnerToken, boot: &str) -> bool {
        self.is_of(token) && self.boot == boot && !self.until.has_passed()
    }

    /// Nobody's since it was given back, not taken away.
    pub fn is_given_back(&self) -> bool {
        !self.broken && self.owner.as_deref().is_none_or(|owner| owner == RELEASED)
    }

    /// As others see it.
    pub fn holding(&self) -> Holding {
        Holding {
            metadata: Some(self.metadata.clone()),
            fence: Some(FencingToken(self.fence)),
            since: Some(self.since),
            left: Some(self.until.left()),
            broken: self.broken,
        }
    }
}

const READ: &str = "SELECT fence, owner, since, until, boot, keep, broken, pids, metadata, kind
     FROM lock WHERE key = ?1";
const WRITE: &str = "INSERT OR REPLACE INTO lock
     (key, fence, owner, since, until, boot, keep, broken, pids, metadata, kind)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const WRITE_ONE: &str = "INSERT OR REPLACE INTO holder
     (key, fence, token, since, until, boot, keep, broken, pids, metadata)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const FREE_IF_ALONE: &str = "UPDATE lock SET owner = NULL
     WHERE key = ?1 AND owner = ?2 AND boot = ?3 AND until > ?4 AND keep <= ?4 AND broken = 0
         AND NOT EXISTS (SELECT 1 FROM waiter WHERE key = ?1)";

/// What confirming a grant and giving it back begin with: compiling them takes longer than carrying them out.
pub const AHEAD: [&str; 5] = [FREE_IF_ALONE, READ, WRITE, queue::FIRST, queue::DROP];

/// The fencing token after `last`.
pub fn next_fence(last: u64) -> u64 {
    FencingToken::floor().0.max(last + 1)
}

/// Free keys are remembered for a week after their last grant, in the microseconds of a fencing token.
const RETENTION: u64 = 7 * 24 * 60 * 60 * 1_000_000;

/// Forgets keys that nobody has used for long. The highest of their fencing tokens is kept, under a name that no key
/// has: whatever happens to the wall clock, a key that comes back gets a higher one.
pub fn forget(tx: &Transaction, boot: &str) -> rusqlite::Result<()> {
    let (now, before) = (BootTime::now().as_nanos(), FencingToken::floor().0.saturating_sub(RETENTION));
    let (now, before) = (now as i64, before as i64);
    tx.execute("DELETE FROM waiter WHERE boot <> ?1", [boot])?;
    tx.execute("DELETE FROM holder WHERE boot <> ?1 OR until <= ?2", params![boot, now])?;
    let sql = "DELETE FROM lock
               WHERE key <> '' AND fence < ?1 AND (owner IS NULL OR boot <> ?2 OR until <= ?3 OR owner = ?4
                   AND NOT EXISTS (SELECT 1 FROM holder WHERE holder.key = lock.key))
               RETURNING fence";
    let mut forget = tx.prepare(sql)?;
    let fences = forget.query_map(params![before, boot, now, SEVERAL], |row| row.get(0))?;
    let highest: Option<i64> = fences.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().max();
    let Some(highest) = highest else { return Ok(()) };
    let sql = "INSERT INTO lock (key, fence, since, until, boot, keep, broken, pids, metadata)
               VALUES ('', ?1, 0, 0, '', 0, 0, '', '')
               ON CONFLICT (key) DO UPDATE SET fence = max(fence, excluded.fence)";
    tx.execute(sql, [highest]).map(drop)
}

/// The highest fencing token of the keys that are forgotten; 0 when none is.
pub fn forgotten(tx: &Transaction) -> rusqlite::Result<u64> {
    let mut highest = tx.prepare_cached("SELECT fence FROM lock WHERE key = ''")?;
    Ok(highest.query_row([], |row| row.get::<_, i64>(0)).optional()?.unwrap_or(0) as u64)
}

/// The row of a key; `None` when it was never granted, or is forgotten.
pub fn read(tx: &Transaction, key: &Key) -> rusqlite::Result<Option<LockRow>> {
    tx.prepare_cached(READ)?
        .query_row([key.as_str()], |row| {
            Ok(LockRow { lease: lease(row)?, kind: row.get::<_, String>(9)?.parse().unwrap_or_default() })
        })
        .optional()
}

/// Those who hold the lock together, alive or not.
pub fn read_several(tx: &Transaction, key: &Key) -> rusqlite::Result<Vec<Row>> {
    let sql = "SELECT fence, token, since, until, boot, keep, broken, pids, metadata FROM holder
               WHERE key = ?1 ORDER BY fence";
    tx.prepare_cached(sql)?.query_map([key.as_str()], lease)?.collect()
}

fn lease(row: &SqlRow) -> rusqlite::Result<Row> {
    Ok(Row {
        fence: row.get::<_, i64>(0)? as u64,
        owner: row.get(1)?,
        since: row.get::<_, i64>(2)? as u64,
        until: BootTime::from_nanos(row.get::<_, i64>(3)? as u64),
        boot: row.get(4)?,
        keep: BootTime::from_nanos(row.get::<_, i64>(5)? as u64),
        broken: row.get(6)?,
        processes: Processes::from_text(&row.get::<_, String>(7)?),
        metadata: Metadata::from_untrusted(&row.get::<_, String>(8)?),
    })
}

/// Writes down all that is known of a key, in place of what was known.
pub fn write(tx: &Transaction, key: &Key, row: &LockRow) -> rusqlite::Result<()> {
    let values = values(key, &row.lease).into_iter().chain([row.kind.to_string().into()]);
    tx.prepare_cached(WRITE)?.execute(params_from_iter(values)).map(drop)
}

/// Writes down one of several holders.
pub fn write_one(tx: &Transaction, key: &Key, lease: &Row) -> rusqlite::Result<()> {
    tx.prepare_cached(WRITE_ONE)?.execute(params_from_iter(values(key, lease))).map(drop)
}

/// The columns that both tables have, in the order of the statements above.
fn values(key: &Key, lease: &Row) -> [Value; 10] {
    [
        key.to_string().into(),
        (lease.fence as i64).into(),
        lease.owner.clone().into(),
        (lease.since as i64).into(),
        (lease.until.as_nanos() as i64).into(),
        lease.boot.clone().into(),
        (lease.keep.as_nanos() as i64).into(),
        lease.broken.into(),
        lease.processes.to_text().into(),
        lease.metadata.to_json().into(),
    ]
}

/// Strikes out one of several holders.
pub fn remove_one(tx: &Transaction, key: &Key, token: &str) -> rusqlite::Result<()> {
    tx.prepare_cached("DELETE FROM holder WHERE key = ?1 AND token = ?2")?
        .execute([key.as_str(), token])
        .map(drop)
}

/// Takes an exclusive lock that nobody holds and for which nobody waits, in one statement: most are so. Returns
/// the fencing token; `None` when it takes a closer look.
pub fn hold_if_free(tx: &Transaction, request: &Request, boot: &str) -> rusqlite::Result<Option<u64>> {
    let sql = "INSERT INTO lock
                   (key, kind, fence, owner, since, until, boot, keep, broken, pids, metadata)
               VALUES (?1, 'exclusive', max(?2, ifnull((SELECT fence + 1 FROM lock WHERE key = ''), 0)),
                   ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9)
               ON CONFLICT (key) DO UPDATE SET
                   kind = excluded.kind, fence = max(fence + 1, excluded.fence),
                   owner = excluded.owner, since = excluded.since,
                   until = excluded.until, boot = excluded.boot, keep = excluded.keep, broken = 0,
                   pids = excluded.pids, metadata = excluded.metadata
               WHERE owner IS NULL AND NOT EXISTS (SELECT 1 FROM waiter WHERE key = excluded.key)
               RETURNING fence";
    let values = params![
        request.key.as_str(),
        next_fence(0) as i64,
        request.token.expose(),
        unix_millis() as i64,
        Deadline::after(request.ttl.duration()).as_nanos() as i64,
        boot,
        BootTime::after(request.min_hold).as_nanos() as i64,
        Processes::of(&request.pids).to_text(),
        request.metadata.to_json()
    ];
    tx.prepare_cached(sql)?.query_row(values, |row| row.get::<_, i64>(0).map(|fence| fence as u64)).optional()
}

/// Frees an exclusive lock for which nobody waits, in one statement. `false` when it takes a closer look.
pub fn free_if_alone(tx: &Transaction, key: &Key, token: &OwnerToken, boot: &str) -> rusqlite::Result<bool> {
    let now = BootTime::now().as_nanos() as i64;
    let freed =
        tx.prepare_cached(FREE_IF_ALONE)?.execute(params![key.as_str(), token.expose(), boot, now])?;
    Ok(freed == 1)
}

/// Nobody holds the lock; the row stays for its fence.
pub fn set_free(tx: &Transaction, key: &Key) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE lock SET owner = NULL WHERE key = ?1")?.execute([key.as_str()]).map(drop)
}

/// The keys that are held or waited for.
pub fn known_keys(tx: &Transaction) -> rusqlite::Result<Vec<Key>> {
    let mut statement =
        tx.prepare("SELECT key FROM lock WHERE owner IS NOT NULL UNION SELECT key FROM waiter ORDER BY key")?;
    let keys = statement.query_map([], |row| row.get::<_, String>(0))?;
    Ok(keys.flatten().filter_map(|key| key.parse().ok()).collect())
}
