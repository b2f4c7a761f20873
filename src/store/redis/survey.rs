//! `status`: each server is asked for what it has. One that does not answer hides only that.

use std::collections::BTreeSet;

use redis::{Pipeline, Value};

use super::connection::{LONGEST_LIST, LONGEST_REPLY};
use super::index::Index;
use super::keys;
use super::reply::{accepted, items, text};
use super::script::{self, understood};
use super::topology::{Target, Topology};
use crate::lock::{Key, LockStatus, Result, StoreError, Survey, Timeout};
use crate::store::net::{Endpoint, RequestError, check};

/// In bytes: the names of a million locks and more.
const MOST_NAMES: usize = 128 << 20;
/// So many names are looked at with one request, which takes a server about a millisecond.
const PAGE: usize = 1000;
/// A database with fewer names needs no index.
const FEW_PAGES: usize = 3;
/// So many locks are looked at with one request without the script.
const AT_ONCE: usize = 100;

/// The locks with these keys, in this order, or all of which redlock keeps something.
pub fn survey(topology: &mut Topology, keys: &[Key], timeout: &Timeout) -> Result<Survey> {
    let survey = survey_each_server(topology, keys, timeout);
    topology.servers().for_each(|server| server.longest = LONGEST_REPLY);
    survey
}

fn survey_each_server(topology: &mut Topology, keys: &[Key], timeout: &Timeout) -> Result<Survey> {
    let primaries_of =
        |topology: &Topology| keys.iter().map(|key| topology.known(Target::Key(key))).collect::<Vec<_>>();
    let mut primaries = primaries_of(topology);
    let mut servers = Vec::new();
    if keys.is_empty() || (topology.is_cluster() && primaries.contains(&None)) {
        servers.extend(topology.primaries(timeout)?.into_iter().map(Some));
        // Before one of them fails: then it is not known any more which one has what.
        primaries = primaries_of(topology);
    }
    if !keys.is_empty() {
        servers.clone_from(&primaries);
        servers.sort_unstable();
        servers.dedup();
    }
    topology.servers().for_each(|server| server.longest = LONGEST_LIST);
    let mut survey = Survey::default();
    for (done, server) in servers.iter().enumerate() {
        let share = timeout.share(servers.len() - done);
        let surveyed = match server {
            Some(server) if keys.is_empty() => survey_all(topology, server, &share, &mut survey),
            _ => {
                let here = keys.iter().zip(&primaries).filter(|(_, primary)| *primary == server);
                survey_keys(topology, here.map(|(key, _)| key), &share, &mut survey)
            }
        };
        match surveyed {
            Err(StoreError::Interrupted) => return Err(StoreError::Interrupted),
            other => survey.hidden.extend(other.err()),
        }
    }
    match keys.is_empty() {
        true => survey.locks.sort_by(|one, other| one.key.cmp(&other.key)),
        false => survey.locks.sort_by_key(|lock| keys.iter().position(|key| *key == lock.key)),
    }
    Ok(survey)
}

fn survey_keys<'a>(
    on: &mut Topology,
    keys: impl IntoIterator<Item = &'a Key>,
    timeout: &Timeout,
    survey: &mut Survey,
) -> Result<()> {
    let keys: Vec<Key> = keys.into_iter().cloned().collect();
    for error in look_at(on, &keys, timeout, survey)? {
        match error {
            StoreError::Denied { .. } => return Err(error),
            error => survey.hidden.push(error),
        }
    }
    Ok(())
}

fn survey_all(on: &mut Topology, server: &Endpoint, timeout: &Timeout, survey: &mut Survey) -> Result<()> {
    let used = used_keys(on, server, timeout)?;
    // A lock that moves from one server to another is seen twice.
    let seen: BTreeSet<&Key> = survey.locks.iter().map(|lock| &lock.key).collect();
    let keys: Vec<Key> = used.keys.into_iter().filter(|key| !seen.contains(key)).collect();
    let known = survey.locks.len();
    // Another program uses the key of a lock for something else, or the user sees its name and may not read it.
    let unread = look_at(on, &keys, timeout, survey)?;
    let denied = unread.into_iter().find(|error| matches!(error, StoreError::Denied { .. }));
    if used.is_news && denied.is_none() {
        Index::complete(on, server, &survey.locks[known..], timeout)?;
    }
    survey.hidden.extend(used.hidden);
    denied.filter(|_| survey.locks.len() == known).map_or(Ok(()), Err)
}

/// Adds these locks to the survey; in a cluster they may be on several servers. Returns why some could not be read.
fn look_at(
    on: &mut Topology,
    keys: &[Key],
    timeout: &Timeout,
    survey: &mut Survey,
) -> Result<Vec<StoreError>> {
    let mut seen: Vec<Option<Result<LockStatus>>> = keys.iter().map(|_| None).collect();
    if keys.len() > AT_ONCE && !on.is_cluster() {
        // Most of many locks are simply held.
        let mut places = seen.chunks_mut(AT_ONCE).zip(keys.chunks(AT_ONCE));
        stream(on, keys.chunks(AT_ONCE).map(script::simple_status), timeout, |reply| {
            let (seen, keys) = places.next().unwrap_or_default();
            let statuses = script::read_simple_status(&reply, keys).into_iter();
            seen.iter_mut().zip(statuses).for_each(|(seen, status)| *seen = status.map(Ok));
        })?;
    }
    let mut left: Vec<_> = keys.iter().zip(&mut seen).filter(|(_, seen)| seen.is_none()).collect();
    if let [(first, seen), others @ ..] = &mut left[..]
        && !others.is_empty()
        && !on.is_cluster()
    {
        // The server may have to learn the script. The others are asked for without waiting for the answer to the one before.
        **seen = Some(look(on, first, timeout)?);
        let (name, index) = (on.name().to_owned(), on.index());
        let calls: Vec<_> = others.iter().map(|(key, _)| script::status(key)).collect();
        let requests = calls.iter().map(|call| redis::pipe().add_command(call.by_hash(index)).clone());
        let mut places = calls.iter().zip(others);
        stream(on, requests, timeout, |reply| {
            let Some((call, (_, seen))) = places.next() else { return };
            **seen = match accepted(reply, &name) {
                Err(error @ StoreError::Denied { .. }) => Some(Err(error)),
                reply => reply.ok().and_then(|reply| call.decode(reply)).map(Ok),
            };
        })?;
    }
    let mut unread = Vec::new();
    for (key, seen) in keys.iter().zip(seen) {
        match seen.map_or_else(|| look(on, key, timeout), Ok)? {
            Ok(status) => survey.locks.push(status),
            Err(why) => unread.push(why),
        }
    }
    Ok(unread)
}

/// The status of a lock, or why it may not be read.
fn look(on: &mut Topology, key: &Key, timeout: &Timeout) -> Result<Result<LockStatus>> {
    check(timeout).map_err(|error| error.of(on.name()))?;
    match script::status(key).run(on, timeout) {
        Err(error @ (StoreError::Denied { .. } | StoreError::NotALock { .. })) => Ok(Err(error)),
        other => other.map(Ok),
    }
}

/// Reads what it can with these requests: what is missing is looked at once more.
fn stream(
    on: &mut Topology,
    requests: impl Iterator<Item = Pipeline>,
    timeout: &Timeout,
    take: impl FnMut(Value),
) -> Result<()> {
    match on.stream(requests, timeout, take) {
        Err(StoreError::Interrupted) => Err(StoreError::Interrupted),
        _ => Ok(()),
    }
}

/// The keys on a server of all locks that are held or waited for, and perhaps of others.
struct UsedKeys {
    keys: BTreeSet<Key>,
    /// The index, which the database needs, does not have all of them.
    is_news: bool,
    /// Why there may be more.
    hidden: Option<StoreError>,
}

/// Where there are many names, the index has the keys. One that is not complete leaves the names of all keys.
fn used_keys(on: &mut Topology, server: &Endpoint, timeout: &Timeout) -> Result<UsedKeys> {
    let mut used = UsedKeys { keys: BTreeSet::new(), is_news: false, hidden: None };
    let (mut scan, mut until) = (Pages::of_locks(), *timeout);
    for page in 0.. {
        if page == FEW_PAGES && !on.index().is_empty() {
            let index = Index::read(on, server, timeout)?;
            if index.is_complete {
                return Ok(UsedKeys { keys: index.keys, ..used });
            }
            used.keys.extend(index.keys);
            used.is_news = true;
            // Of the locks that are found something is to be seen.
            until = timeout.share(2);
        }
        match scan.next(on, server, &until) {
            Ok(Some(names)) => used.keys.extend(names.iter().filter_map(|name| keys::key_of(name))),
            Ok(None) => break,
            Err(error @ StoreError::Unreachable { .. }) if used.is_news => {
                used.is_news = false;
                used.hidden = Some(error);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(used)
}

/// All keys of which something is kept whose name tells them, on any server.
pub fn scan(on: &mut Topology, key_of: fn(&str) -> Option<Key>, timeout: &Timeout) -> Result<Vec<Key>> {
    let primaries = on.primaries(timeout)?;
    on.servers().for_each(|server| server.longest = LONGEST_LIST);
    let found = primaries.iter().map(|server| known_keys(on, server, key_of, timeout));
    let found = found.collect::<Result<Vec<_>>>();
    on.servers().for_each(|server| server.longest = LONGEST_REPLY);
    let mut keys = found?.concat();
    keys.sort();
    keys.dedup();
    Ok(keys)
}

/// Those on this server.
fn known_keys(
    on: &mut Topology,
    server: &Endpoint,
    key_of: fn(&str) -> Option<Key>,
    timeout: &Timeout,
) -> Result<Vec<Key>> {
    let mut scan = Pages::of_locks();
    let mut keys = Vec::new();
    while let Some(names) = scan.next(on, server, timeout)? {
        keys.extend(names.iter().filter_map(|name| key_of(name)));
    }
    Ok(keys)
}

/// The names of all keys beside locks, read page by page: KEYS blocks the server.
struct Pages {
    /// `None` behind the last page.
    cursor: Option<String>,
    /// In bytes.
    size: usize,
}

impl Pages {
    fn of_locks() -> Pages {
        Pages { cursor: Some("0".to_owned()), size: 0 }
    }

    fn next(
        &mut self,
        on: &mut Topology,
        server: &Endpoint,
        timeout: &Timeout,
    ) -> Result<Option<Vec<String>>> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        check(timeout).map_err(|error| error.of(on.name()))?;
        let mut command = redis::cmd("SCAN");
        command.arg(cursor).arg("MATCH").arg("redlock:{*").arg("COUNT").arg(PAGE);
        let reply = on.execute(Target::Server(server), &command, timeout)?;
        let page = page(accepted(reply, on.name())?);
        let (next, names) = understood(on, page)?;
        let names: Vec<String> = names.iter().map(|name| text(Some(name))).collect();
        self.size += names.iter().map(String::len).sum::<usize>();
        if self.size > MOST_NAMES {
            return Err(RequestError::broken("it lists more keys than can be looked at").of(on.name()));
        }
        self.cursor = Some(next).filter(|next| next != "0");
        Ok(Some(names))
    }
}

/// The next cursor and some names, from a reply to SCAN; `None` for one that makes no sense.
fn page(reply: Value) -> Option<(String, Vec<Value>)> {
    let [Value::BulkString(cursor), Value::Array(names)] = <[Value; 2]>::try_from(items(reply)).ok()? else {
        return None;
    };
    Some((String::from_utf8(cursor).ok()?, names))
}
