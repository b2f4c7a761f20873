//! The tables `lock`, with a row for each key, and `holder`, for the keys that several may hold.
//!
//! All fails as SQLite does, and is undone with the transaction.

use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row as SqlRow, Transaction, params, params_from_iter};

use super::host::Host;
use super::liveness::Processes;
use super::owner_hash::OwnerHash;
use super::queue::{self, QueueEntry};
use crate::clock::{BootTime, Deadline};
use crate::lock::{FencingToken, Holder, Key, Metadata, Mode, OwnerToken, Request, unix_millis};

/// How long a lock that was handed over waits for its new holder to confirm. A waiter that dies is seen
/// at once, so this is for one that is stopped or starved.
pub const CLAIM: Duration = Duration::from_secs(3);

/// A lease.
#[derive(Clone)]
pub struct HolderRow {
    /// Of the last grant; for several holders the highest of theirs.
    pub fence: u64,
    /// `None` when the lock is free, when several hold it, and when it was given back before the end of its
    /// min-hold.
    pub owner: Option<OwnerHash>,
    /// The wall clock at the grant, in milliseconds since the Unix epoch: to be shown only.
    pub since: u64,
    /// When the lease got its end: a later time than now was in another boot.
    pub renewed: BootTime,
    /// The end of the lease, in the boot of `boot`; 0 when the lock is free.
    pub until: Deadline,
    /// The id of the boot of the grant, where it is known: in another one the lease is over.
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
    pub lease: HolderRow,
    /// That of the last grant.
    pub kind: Mode,
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
            keep: now.plus(request.min_hold),
            broken: false,
            processes: Processes::of(&host.holders),
            metadata: request.metadata.clone(),
        }
    }

    /// The short lease of a waiter, until it confirms.
    pub fn claim(place: &QueueEntry, fence: u64, host: &Host) -> HolderRow {
        let now = BootTime::now();
        HolderRow {
            fence,
            owner: Some(place.owner),
            since: unix_millis(),
            renewed: now,
            until: now.plus(CLAIM),
            boot: host.boot.clone(),
            keep: BootTime::from_nanos(0),
            broken: false,
            processes: place.processes.clone(),
            metadata: place.metadata.clone(),
        }
    }

    /// The mark that several hold the lock.
    pub fn of_several(fence: u64, host: &Host) -> HolderRow {
        HolderRow {
            fence,
            owner: None,
            since: 0,
            renewed: BootTime::now(),
            until: BootTime::NEVER,
            boot: host.boot.clone(),
            keep: BootTime::from_nanos(0),
            broken: false,
            processes: Processes::default(),
            metadata: Metadata::default(),
        }
    }

    /// Held by a lease that runs, of a holder that is not known to be dead.
    pub fn is_held(&self, host: &Host) -> bool {
        self.runs(host) && !self.processes.are_dead()
    }

    fn runs(&self, host: &Host) -> bool {
        host.is_this_boot(&self.boot) && self.renewed <= BootTime::now() && !self.until.has_passed()
    }

    /// Whether this token owns the lease, over or not.
    pub fn is_of(&self, token: &OwnerToken) -> bool {
        self.owner == Some(OwnerHash::of(token))
    }

    /// Held by this token, whose owner is asking and so alive.
    pub fn is_held_by(&self, token: &OwnerToken, host: &Host) -> bool {
        self.is_of(token) && self.runs(host)
    }

    /// Nobody's since it was given back, not taken away.
    pub fn is_given_back(&self) -> bool {
        !self.broken && self.owner.is_none()
    }

    /// As others see it.
    pub fn holding(&self) -> Holder {
        Holder {
            metadata: Some(self.metadata.clone()),
            fence: Some(FencingToken(self.fence)),
            since: Some(self.since),
            left: Some(self.until.left()),
            broken: self.broken,
        }
    }
}

const READ: &str = "SELECT fence, owner, since, renewed, until, boot, keep, broken, pids, metadata, kind
     FROM lock WHERE key = ?1";
const WRITE: &str = "INSERT OR REPLACE INTO lock
     (key, fence, owner, since, renewed, until, boot, keep, broken, pids, metadata, kind)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
const WRITE_ONE: &str = "INSERT OR REPLACE INTO holder
     (key, fence, owner, since, renewed, until, boot, keep, broken, pids, metadata)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const FREE_IF_ALONE: &str = "UPDATE lock SET owner = NULL, until = 0
     WHERE key = ?1 AND owner = ?2 AND boot = ?3 AND renewed <= ?4 AND until > ?4 AND keep <= ?4 AND broken = 0
         AND NOT EXISTS (SELECT 1 FROM waiter WHERE key = ?1)";

/// What confirming a grant and giving it back begin with: compiling them takes longer than carrying them out.
pub const AHEAD: [&str; 5] = [FREE_IF_ALONE, READ, WRITE, queue::FIRST, queue::DROP];

/// The fencing token after `last`.
pub fn next_fence(last: u64) -> u64 {
    FencingToken::floor().0.max(last + 1)
}

/// Free keys are remembered for a week after their last grant, in the microseconds of a fencing token.
const RETENTION: u64 = 7 * 24 * 60 * 60 * 1_000_000;

/// Forgets some of the keys that nobody has used for long. The highest of their fencing tokens is kept, under a name that no key
/// has: whatever happens to the wall clock, a key that comes back gets a higher one.
pub fn forget(tx: &Transaction, host: &Host) -> rusqlite::Result<()> {
    let (now, before) = (host.now(), FencingToken::floor().0.saturating_sub(RETENTION) as i64);
    queue::forget(tx, host)?;
    // ?1 is this boot, ?2 the time.
    const IS_OVER: &str = "(until <= ?2 OR renewed > ?2 OR (?1 <> '' AND boot <> '' AND boot <> ?1))";
    tx.execute(&format!("DELETE FROM holder WHERE {IS_OVER}"), params![host.boot, now])?;
    let sql = format!(
        "DELETE FROM lock WHERE key IN (
             SELECT key FROM lock
             WHERE key <> '' AND fence < ?3 AND ({IS_OVER} OR kind <> 'exclusive'
                     AND NOT EXISTS (SELECT 1 FROM holder WHERE holder.key = lock.key))
                 AND NOT EXISTS (SELECT 1 FROM waiter WHERE waiter.key = lock.key)
             LIMIT 1000)
         RETURNING fence"
    );
    let mut forget = tx.prepare(&sql)?;
    let fences = forget.query_map(params![host.boot, now, before], |row| row.get(0))?;
    let highest: Option<i64> = fences.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().max();
    let Some(highest) = highest else { return Ok(()) };
    let sql = "INSERT INTO lock (key, fence, since, renewed, until, boot, keep, broken, pids, metadata, kind)
               VALUES ('', ?1, 0, 0, 0, '', 0, 0, '', '', 'exclusive')
               ON CONFLICT (key) DO UPDATE SET fence = max(fence, excluded.fence)";
    tx.execute(sql, [highest]).map(drop)
}

/// The highest fencing token of the keys that are forgotten; 0 when none is.
pub fn forgotten(tx: &Transaction) -> rusqlite::Result<u64> {
    let mut highest = tx.prepare_cached("SELECT fence FROM lock WHERE key = ''")?;
    Ok(highest.query_row([], |row| row.get::<_, i64>(0)).optional()?.unwrap_or(0) as u64)
}

/// The row of a key; `None` when it was never granted, or is forgotten.
pub fn read(tx: &Transaction, key: &Key, host: &Host) -> rusqlite::Result<Option<LockRow>> {
    tx.prepare_cached(READ)?
        .query_row([key.as_str()], |row| {
            let kind = row.get::<_, String>(10)?.parse().unwrap_or_default();
            Ok(LockRow { lease: lease(row, host)?, kind })
        })
        .optional()
}

/// Those who hold the lock together, alive or not.
pub fn read_several(tx: &Transaction, key: &Key, host: &Host) -> rusqlite::Result<Vec<HolderRow>> {
    let sql = "SELECT fence, owner, since, renewed, until, boot, keep, broken, pids, metadata FROM holder
               WHERE key = ?1 ORDER BY fence";
    tx.prepare_cached(sql)?.query_map([key.as_str()], |row| lease(row, host))?.collect()
}

fn lease(row: &SqlRow, host: &Host) -> rusqlite::Result<HolderRow> {
    Ok(HolderRow {
        fence: row.get::<_, i64>(0)? as u64,
        owner: row.get(1)?,
        since: row.get::<_, i64>(2)? as u64,
        renewed: host.time(row.get(3)?),
        until: host.time(row.get(4)?),
        boot: row.get(5)?,
        keep: host.time(row.get(6)?),
        broken: row.get(7)?,
        processes: Processes::from_text(&row.get::<_, String>(8)?),
        metadata: Metadata::from_untrusted(&row.get::<_, String>(9)?),
    })
}

/// Writes down all that is known of a key, in place of what was known.
pub fn write(tx: &Transaction, key: &Key, row: &LockRow, host: &Host) -> rusqlite::Result<()> {
    let values = values(key, &row.lease, host).into_iter().chain([row.kind.to_string().into()]);
    tx.prepare_cached(WRITE)?.execute(params_from_iter(values)).map(drop)
}

/// Writes down one of several holders.
pub fn write_one(tx: &Transaction, key: &Key, lease: &HolderRow, host: &Host) -> rusqlite::Result<()> {
    tx.prepare_cached(WRITE_ONE)?.execute(params_from_iter(values(key, lease, host))).map(drop)
}

/// The columns that both tables have, in the order of the statements above.
fn values(key: &Key, lease: &HolderRow, host: &Host) -> [Value; 11] {
    [
        key.to_string().into(),
        (lease.fence as i64).into(),
        lease.owner.map_or(Value::Null, |owner| owner.to_value()),
        (lease.since as i64).into(),
        host.nanos(lease.renewed).into(),
        host.nanos(lease.until).into(),
        lease.boot.clone().into(),
        host.nanos(lease.keep).into(),
        lease.broken.into(),
        lease.processes.to_text().into(),
        lease.metadata.to_json().into(),
    ]
}

/// Strikes out one of several holders.
pub fn remove_one(tx: &Transaction, key: &Key, fence: u64) -> rusqlite::Result<()> {
    let mut remove = tx.prepare_cached("DELETE FROM holder WHERE key = ?1 AND fence = ?2")?;
    remove.execute(params![key.as_str(), fence as i64]).map(drop)
}

/// Takes an exclusive lock that nobody holds and for which nobody waits, in one statement: most are so. Returns
/// the fencing token; `None` when it takes a closer look.
pub fn hold_if_free(tx: &Transaction, request: &Request, host: &Host) -> rusqlite::Result<Option<u64>> {
    let sql = "INSERT INTO lock
                   (key, kind, fence, owner, since, renewed, until, boot, keep, broken, pids, metadata)
               VALUES (?1, 'exclusive', max(?2, ifnull((SELECT fence + 1 FROM lock WHERE key = ''), 0)),
                   ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9, ?10)
               ON CONFLICT (key) DO UPDATE SET
                   kind = excluded.kind, fence = max(fence + 1, excluded.fence),
                   owner = excluded.owner, since = excluded.since,
                   renewed = excluded.renewed, until = excluded.until, boot = excluded.boot, keep = excluded.keep, broken = 0,
                   pids = excluded.pids, metadata = excluded.metadata
               WHERE until = 0 AND NOT EXISTS (SELECT 1 FROM waiter WHERE key = excluded.key)
               RETURNING fence";
    let now = BootTime::now();
    let values = params![
        request.key.as_str(),
        next_fence(0) as i64,
        OwnerHash::of(&request.token),
        unix_millis() as i64,
        host.nanos(now),
        host.nanos(now.plus(request.ttl.duration())),
        host.boot,
        host.nanos(now.plus(request.min_hold)),
        Processes::of(&host.holders).to_text(),
        request.metadata.to_json()
    ];
    tx.prepare_cached(sql)?.query_row(values, |row| row.get::<_, i64>(0).map(|fence| fence as u64)).optional()
}

/// Frees an exclusive lock for which nobody waits, in one statement. `false` when it takes a closer look.
pub fn free_if_alone(tx: &Transaction, key: &Key, token: &OwnerToken, host: &Host) -> rusqlite::Result<bool> {
    let mine = params![key.as_str(), OwnerHash::of(token), host.boot, host.now()];
    Ok(tx.prepare_cached(FREE_IF_ALONE)?.execute(mine)? == 1)
}

/// Nobody holds the lock; the row stays for its fence.
pub fn set_free(tx: &Transaction, key: &Key) -> rusqlite::Result<()> {
    let mut free = tx.prepare_cached("UPDATE lock SET owner = NULL, until = 0 WHERE key = ?1")?;
    free.execute([key.as_str()]).map(drop)
}

/// The keys that are held or waited for.
pub fn known_keys(tx: &Transaction) -> rusqlite::Result<Vec<Key>> {
    let mut statement =
        tx.prepare("SELECT key FROM lock WHERE until > 0 UNION SELECT key FROM waiter ORDER BY key")?;
    let keys = statement.query_map([], |row| row.get::<_, String>(0))?;
    Ok(keys.flatten().filter_map(|key| key.parse().ok()).collect())
}
