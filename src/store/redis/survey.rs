//! `status`: each server is asked for what it has. One that does not answer hides only that.

use redis::Value;

use super::connection::{LONGEST_LIST, LONGEST_REPLY};
use super::keys;
use super::reply::{accepted, items, text};
use super::script::{self, understood};
use super::topology::{Target, Topology};
use crate::lock::{Key, Result, StoreError, Survey, Timeout};
use crate::store::net::{Endpoint, RequestError, check};

/// In bytes: the names of a million locks and more.
const MOST_NAMES: usize = 128 << 20;

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
    for key in keys {
        match script::status(key).run(on, timeout) {
            Ok(status) => survey.locks.push(status),
            Err(error @ StoreError::NotALock { .. }) => survey.hidden.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn survey_all(on: &mut Topology, server: &Endpoint, timeout: &Timeout, survey: &mut Survey) -> Result<()> {
    let mut denied = None;
    let known = survey.locks.len();
    for key in known_keys(on, server, keys::key_of, timeout)? {
        // A lock that moves from one server to another is seen twice.
        if survey.locks.iter().any(|lock| lock.key == key) {
            continue;
        }
        check(timeout).map_err(|error| error.of(on.name()))?;
        match script::status(&key).run(on, timeout) {
            Ok(status) => survey.locks.push(status),
            // Another program uses the key for something else.
            Err(StoreError::NotALock { .. }) => {}
            // SCAN shows a user the names of locks that it may not read.
            Err(error @ StoreError::Denied { .. }) => denied = Some(error),
            Err(error) => return Err(error),
        }
    }
    denied.filter(|_| survey.locks.len() == known).map_or(Ok(()), Err)
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

/// Those on this server. By SCAN: KEYS blocks the server.
fn known_keys(
    on: &mut Topology,
    server: &Endpoint,
    key_of: fn(&str) -> Option<Key>,
    timeout: &Timeout,
) -> Result<Vec<Key>> {
    let (mut known, mut size) = (Vec::new(), 0);
    let mut cursor = "0".to_owned();
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg("redlock:{*").arg("COUNT").arg(1000);
        let reply = on.execute(Target::Server(server), &scan, timeout)?;
        let page = page(accepted(reply, on.name())?);
        let (next, names) = understood(on, page)?;
        size += names.iter().map(|name| text(Some(name)).len()).sum::<usize>();
        if size > MOST_NAMES {
            return Err(RequestError::broken("it lists more keys than can be looked at").of(on.name()));
        }
        known.extend(names.iter().filter_map(|name| key_of(&text(Some(name)))));
        if next == "0" {
            known.sort();
            known.dedup();
            return Ok(known);
        }
        cursor = next;
        check(timeout).map_err(|error| error.of(on.name()))?;
    }
}

/// The next cursor and some names, from a reply to SCAN; `None` for one that makes no sense.
fn page(reply: Value) -> Option<(String, Vec<Value>)> {
    let [Value::BulkString(cursor), Value::Array(names)] = <[Value; 2]>::try_from(items(reply)).ok()? else {
        return None;
    };
    Some((String::from_utf8(cursor).ok()?, names))
}
