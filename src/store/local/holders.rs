//! The tables `lock`, with a row for each key, and `holder`, with a row for each holder of any mode.
//!
//! All fails as SQLite does, and is undone with the transaction.

use std::time::Duration;

use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::host::{Host, Moment};
use super::liveness::Processes;
use super::owner_hash::OwnerHash;
use super::queue::{self, QueueEntry};
use crate::clock::{BootTime, Deadline};
use crate::lock::{
    Breaker, FencingToken, Holder, Key, Metadata, Mode, OwnerToken, Permits, Request, unix_millis,
};

/// The time that a lock that was handed over waits for its new holder to confirm. A waiter that dies is seen
/// at once, so this is for one that is stopped or starved.
pub const CLAIM: Duration = Duration::from_secs(3);

/// The last grant of a key, held or not.
pub struct LockRow {
    /// The mode of the last grant.
    pub mode: Mode,
    /// The fencing token of the last grant. A break adds one, so that the owner sees a loss and not a release.
    pub fence: u64,
}

/// A lease. Its row stays after its end, until the key is granted again: so its owner can heal it.
#[derive(Clone, Debug)]
pub struct HolderRow {
    /// The fencing token of its grant: together with the key it tells holders apart.
    pub fence: u64,
    /// `None` when it was released before the end of its min-hold.
    pub owner: Option<OwnerHash>,
    /// The wall clock at the grant, in milliseconds since the Unix epoch: to be shown only.
    pub since: u64,
    /// When the lease got its end: a later time than now was in another boot.
    pub renewed: BootTime,
    /// The end of the lease.
    pub until: Deadline,
    /// The id of the boot of the grant, where it is known: in another one the lease has ended.
    pub boot: String,
    /// The end of the min-hold: before it a release leaves the lock to its time.
    pub hold_until: BootTime,
    /// Somebody broke the lock, and the holder is to see that at its next renewal.
    pub broken: Option<Breaker>,
    /// The processes whose death ends the lease.
    pub processes: Processes,
    pub metadata: Metadata,
}

impl HolderRow {
    /// The lease of a request, for one TTL from now.
    pub fn of(request: &Request, fence: u64, since: u64, host: &Host) -> HolderRow {
        let now = BootTime::now();
        HolderRow {
            fence,
            owner: Some(OwnerHash::of(&request.token)),
            since,
            renewed: now,
            until: now.plus(request.ttl.duration()),
            boot: host.boot.clone(),
            hold_until: now.plus(request.min_hold),
            broken: None,
            processes: Processes::of(&host.holders),
            metadata: request.metadata.clone(),
        }
    }

    /// The short lease of a waiter, until it confirms.
    pub fn claim(entry: &QueueEntry, fence: u64, permits: Permits, host: &Host) -> HolderRow {
        let now = BootTime::now();
        HolderRow {
            fence,
            owner: Some(entry.owner),
            since: unix_millis(),
            renewed: now,
            until: now.plus(CLAIM),
            boot: host.boot.clone(),
            hold_until: BootTime::from_nanos(0),
            broken: None,
            processes: entry.processes.clone(),
            metadata: Metadata { permits, ..entry.metadata.clone() },
        }
    }

    /// The lease was made in this boot, and has not ended.
    pub fn runs(&self, at: &Moment) -> bool {
        at.is_in_boot(&self.boot) && self.renewed <= at.now && at.now < self.until
    }

    /// This token owns the lease, which may be over.
    pub fn is_of(&self, token: &OwnerToken) -> bool {
        self.owner == Some(OwnerHash::of(token))
    }

    pub fn holder(&self) -> Holder {
        Holder {
            metadata: Some(self.metadata.clone()),
            fence: Some(FencingToken(self.fence)),
            since: Some(self.since),
            left: Some(self.until.left()),
            hides_left: false,
            is_kept: self.owner.is_none(),
            broken: self.broken.clone(),
        }
    }

    fn read(row: &Row, host: &Host) -> rusqlite::Result<HolderRow> {
        Ok(HolderRow {
            fence: row.get::<_, i64>("fence")? as u64,
            owner: row.get("owner")?,
            since: row.get::<_, i64>("since")? as u64,
            renewed: host.time(row.get("renewed")?),
            until: host.time(row.get("until")?),
            boot: row.get("boot")?,
            hold_until: host.time(row.get("hold_until")?),
            broken: Breaker::from_untrusted(&row.get::<_, String>("broken")?),
            processes: Processes::from_text(&row.get::<_, String>("processes")?),
            metadata: Metadata::from_untrusted(&row.get::<_, String>("metadata")?),
        })
    }
}

const READ_LOCK: &str = "SELECT mode, fence FROM lock WHERE key = ?1";
const READ_HOLDERS: &str = "SELECT * FROM holder WHERE key = ?1 ORDER BY fence";
const WRITE_LOCK: &str = "INSERT OR REPLACE INTO lock (key, mode, fence) VALUES (?1, ?2, ?3)";
const WRITE_HOLDER: &str = "INSERT OR REPLACE INTO holder
     (key, fence, owner, since, renewed, until, boot, hold_until, broken, processes, metadata)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const REMOVE_HOLDER: &str = "DELETE FROM holder WHERE key = ?1 AND fence = ?2";
const GRANT_IF_FREE: &str = "INSERT INTO lock (key, mode, fence)
     VALUES (?1, 'exclusive', max(?2, ifnull((SELECT fence + 1 FROM lock WHERE key = ''), 0)))
     ON CONFLICT (key) DO UPDATE SET mode = excluded.mode, fence = max(fence + 1, excluded.fence)
     WHERE NOT EXISTS (SELECT 1 FROM holder WHERE key = excluded.key)
         AND NOT EXISTS (SELECT 1 FROM waiter WHERE key = excluded.key)
     RETURNING fence";
const FREE_IF_ALONE: &str = "DELETE FROM holder
     WHERE key = ?1 AND owner = ?2 AND boot = ?3 AND renewed <= ?4 AND until > ?4 AND hold_until <= ?4
         AND broken = '' AND NOT EXISTS (SELECT 1 FROM waiter WHERE key = ?1)";

/// The first statements of confirming a grant and of giving it back: compiling them takes longer than running them.
pub const COMPILED_AHEAD: [&str; 8] = [
    FREE_IF_ALONE,
    READ_LOCK,
    READ_HOLDERS,
    WRITE_HOLDER,
    REMOVE_HOLDER,
    WRITE_LOCK,
    queue::FIRST,
    queue::REMOVE,
];

/// The fencing token after `last`.
pub fn next_fence(last: u64) -> u64 {
    FencingToken::floor().0.max(last + 1)
}

/// Free keys are remembered for a week after their last grant, in the microseconds of a fencing token.
const RETENTION: u64 = 7 * 24 * 60 * 60 * 1_000_000;

/// Forgets some of the keys that nobody has used for long. The highest of their fencing tokens is kept, under a name
/// that no key has: whatever happens to the wall clock, a key that comes back gets a higher one.
pub fn forget(tx: &Transaction, host: &Host) -> rusqlite::Result<()> {
    queue::forget(tx, host)?;
    // ?1 is this boot, ?2 the time.
    const RUNS: &str = "until > ?2 AND renewed <= ?2 AND (?1 = '' OR boot IN ('', ?1))";
    let sql = format!(
        "DELETE FROM lock WHERE key IN (
             SELECT key FROM lock
             WHERE key <> '' AND fence < ?3
                 AND NOT EXISTS (SELECT 1 FROM holder WHERE holder.key = lock.key AND {RUNS})
                 AND NOT EXISTS (SELECT 1 FROM waiter WHERE waiter.key = lock.key)
             LIMIT 1000)
         RETURNING fence"
    );
    let before = FencingToken::floor().0.saturating_sub(RETENTION) as i64;
    let mut forget = tx.prepare(&sql)?;
    let fences = forget.query_map(params![host.boot, host.now(), before], |row| row.get(0))?;
    let highest: Option<i64> = fences.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().max();
    let Some(highest) = highest else { return Ok(()) };
    tx.execute("DELETE FROM holder WHERE NOT EXISTS (SELECT 1 FROM lock WHERE lock.key = holder.key)", [])?;
    let sql = "INSERT INTO lock (key, mode, fence) VALUES ('', 'exclusive', ?1)
               ON CONFLICT (key) DO UPDATE SET fence = max(fence, excluded.fence)";
    tx.execute(sql, [highest]).map(drop)
}

/// The highest fencing token of the keys that are forgotten; 0 when none is.
pub fn forgotten(tx: &Transaction) -> rusqlite::Result<u64> {
    let mut highest = tx.prepare_cached(READ_LOCK)?;
    Ok(highest.query_row([""], |row| row.get::<_, i64>(1)).optional()?.unwrap_or(0) as u64)
}

/// The last grant of a key; `None` when it was never granted, or is forgotten.
pub fn read_lock(tx: &Transaction, key: &Key) -> rusqlite::Result<Option<LockRow>> {
    let read = |row: &Row| {
        let mode = row.get::<_, String>(0)?.parse().unwrap_or_default();
        Ok(LockRow { mode, fence: row.get::<_, i64>(1)? as u64 })
    };
    tx.prepare_cached(READ_LOCK)?.query_row([key.as_str()], read).optional()
}

pub fn read_holders(tx: &Transaction, key: &Key, host: &Host) -> rusqlite::Result<Vec<HolderRow>> {
    tx.prepare_cached(READ_HOLDERS)?.query_map([key.as_str()], |row| HolderRow::read(row, host))?.collect()
}

pub fn write_lock(tx: &Transaction, key: &Key, row: &LockRow) -> rusqlite::Result<()> {
    let values = params![key.as_str(), row.mode.to_string(), row.fence as i64];
    tx.prepare_cached(WRITE_LOCK)?.execute(values).map(drop)
}

pub fn write_holder(tx: &Transaction, key: &Key, lease: &HolderRow, host: &Host) -> rusqlite::Result<()> {
    let values = params![
        key.as_str(),
        lease.fence as i64,
        lease.owner,
        lease.since as i64,
        host.nanos(lease.renewed),
        host.nanos(lease.until),
        lease.boot,
        host.nanos(lease.hold_until),
        lease.broken.as_ref().map_or("", Breaker::as_str),
        lease.processes.to_text(),
        lease.metadata.to_json(),
    ];
    tx.prepare_cached(WRITE_HOLDER)?.execute(values).map(drop)
}

pub fn remove_holder(tx: &Transaction, key: &Key, fence: u64) -> rusqlite::Result<()> {
    tx.prepare_cached(REMOVE_HOLDER)?.execute(params![key.as_str(), fence as i64]).map(drop)
}

/// Takes an exclusive lock that nobody holds and for which nobody waits: most are so. Returns the fencing token;
/// `None` when it takes a closer look.
pub fn hold_if_free(tx: &Transaction, request: &Request, host: &Host) -> rusqlite::Result<Option<u64>> {
    let values = params![request.key.as_str(), next_fence(0) as i64];
    let granted =
        tx.prepare_cached(GRANT_IF_FREE)?.query_row(values, |row| row.get::<_, i64>(0)).optional()?;
    let Some(fence) = granted.map(|fence| fence as u64) else { return Ok(None) };
    write_holder(tx, &request.key, &HolderRow::of(request, fence, unix_millis(), host), host)?;
    Ok(Some(fence))
}

/// Gives a lock back for which nobody waits, in one statement. `false` when it takes a closer look.
pub fn free_if_alone(tx: &Transaction, key: &Key, token: &OwnerToken, host: &Host) -> rusqlite::Result<bool> {
    let mine = params![key.as_str(), OwnerHash::of(token), host.boot, host.now()];
    Ok(tx.prepare_cached(FREE_IF_ALONE)?.execute(mine)? == 1)
}

/// Removes all that is known of a key: it was a trial.
pub fn remove_all(tx: &Transaction, key: &Key) -> rusqlite::Result<()> {
    for table in ["lock", "holder", "waiter"] {
        tx.execute(&format!("DELETE FROM {table} WHERE key = ?1"), [key.as_str()])?;
    }
    Ok(())
}

/// The keys that are held or waited for.
pub fn known_keys(tx: &Transaction) -> rusqlite::Result<Vec<Key>> {
    let mut statement = tx.prepare("SELECT key FROM holder UNION SELECT key FROM waiter ORDER BY key")?;
    let keys = statement.query_map([], |row| row.get::<_, String>(0))?;
    Ok(keys.flatten().filter_map(|key| key.parse().ok()).collect())
}
