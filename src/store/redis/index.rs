//! The index of the locks that are in use, for `status`: the scripts keep it, see `lua/keys.lua`. The first one who has
//! read the names of all keys enters those that it lost, by eviction or a DEL.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::Value;

use super::reply::{items, text};
use super::routing::{Routing, Target};
use crate::lock::{Key, LockStatus, Result, StoreError, Timeout};
use crate::store::net::Endpoint;

/// So many locks are read or entered with one request, which takes a server less than a millisecond.
const PAGE: usize = 1000;
/// A queue is kept this long while none of its waiters asks: `QUEUE_RETENTION` in `lua/keys.lua`.
const QUEUE_RETENTION: Duration = Duration::from_secs(60);
/// The index is kept this long, `RETENTION` in `lua/keys.lua`; a lock that never expires stays in it as long.
const RETENTION: Duration = Duration::from_secs(86_400);

#[derive(Default)]
pub struct Index {
    pub keys: BTreeSet<Key>,
    /// The index has all locks in use, except those of users who may not write it.
    pub is_complete: bool,
}

impl Index {
    /// Reads the locks in use from the index of this server. It is incomplete where the user may not read it, and where it
    /// is something else.
    pub fn read(on: &mut impl Routing, server: &Endpoint, timeout: &Timeout) -> Result<Index> {
        let mut index = Index::default();
        // Whatever somebody put there: the names of all keys need time, too.
        let timeout = &timeout.share(2);
        let Some(now) = server_time(on, server, timeout)? else { return Ok(index) };
        // Times only grow, so a lock that changes comes again in a later page.
        let (mut from, mut skipped) = (now.as_millis().to_string(), 0);
        loop {
            let mut command = redis::cmd("ZRANGE");
            command.arg(on.index()).arg(&from).arg("+inf").arg("BYSCORE");
            command.arg("LIMIT").arg(skipped).arg(PAGE).arg("WITHSCORES");
            let Some(reply) = ask(on, server, &command, timeout)? else { return Ok(index) };
            let words: Vec<String> = items(reply).iter().map(|word| text(Some(word))).collect();
            for name in words.iter().step_by(2) {
                index.is_complete |= name.is_empty();
                index.keys.extend(name.parse::<Key>().ok());
            }
            if words.len() < 2 * PAGE {
                return Ok(index);
            }
            (from, skipped) = match words.last() {
                Some(last) if *last != from => (last.clone(), 0),
                _ => (from, skipped + PAGE),
            };
        }
    }

    /// Enters these locks, which are all that are in use. Users who may not do that go on without.
    pub fn complete(
        on: &mut impl Routing,
        server: &Endpoint,
        locks: &[LockStatus],
        timeout: &Timeout,
    ) -> Result<()> {
        let Some(now) = server_time(on, server, timeout)? else { return Ok(()) };
        let in_use: Vec<&LockStatus> = locks.iter().filter(|lock| lock.is_in_use()).collect();
        for page in in_use.chunks(PAGE) {
            let mut command = redis::cmd("ZADD");
            command.arg(on.index()).arg("GT");
            for (number, lock) in page.iter().enumerate() {
                // No two of a page at the same time: see `read`.
                let end = (now + in_use_for(lock)).as_millis();
                command.arg(format!("{end}.{number:03}")).arg(lock.key.as_str());
            }
            if ask(on, server, &command, timeout)?.is_none() {
                return Ok(());
            }
        }
        let mark = redis::cmd("ZADD").arg(on.index()).arg("+inf").arg("").take();
        let keep = redis::cmd("PEXPIRE").arg(on.index()).arg(RETENTION.as_millis().to_string()).take();
        for command in [mark, keep] {
            ask(on, server, &command, timeout)?;
        }
        Ok(())
    }
}

/// The time for which the lock stays in use, unless somebody enters it again.
fn in_use_for(lock: &LockStatus) -> Duration {
    let waited_for = (!lock.waiters.is_empty()).then_some(QUEUE_RETENTION);
    let held_for = lock.holders.iter().map(|holder| holder.left.unwrap_or(RETENTION)).max();
    waited_for.max(held_for).unwrap_or_default()
}

/// Since the Unix epoch.
fn server_time(on: &mut impl Routing, server: &Endpoint, timeout: &Timeout) -> Result<Option<Duration>> {
    let Some(reply) = ask(on, server, &redis::cmd("TIME"), timeout)? else { return Ok(None) };
    let numbers: Vec<u64> = items(reply).iter().filter_map(|word| text(Some(word)).parse().ok()).collect();
    let [seconds, micros] = numbers[..] else { return Ok(None) };
    Ok(Some(Duration::from_secs(seconds) + Duration::from_micros(micros)))
}

/// The answer; `None` for a refusal and for none in time: no lock needs the index.
fn ask(
    on: &mut impl Routing,
    server: &Endpoint,
    command: &redis::Cmd,
    timeout: &Timeout,
) -> Result<Option<Value>> {
    match on.execute(Target::Server(server), command, timeout) {
        Err(StoreError::Interrupted) => Err(StoreError::Interrupted),
        Err(_) | Ok(Value::ServerError(_)) => Ok(None),
        Ok(reply) => Ok(Some(reply)),
    }
}
