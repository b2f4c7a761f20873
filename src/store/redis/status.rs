//! What there is, for `status`: each server is asked for what it has, and one that does not answer hides only that.

use redis::Value;

use super::Redis;
use super::keys;
use super::net::connection::{LONGEST_LIST, LONGEST_REPLY};
use super::net::failure::RequestError;
use super::net::wait::go_on;
use super::refusal::accepted;
use super::reply;
use super::script::{self, Call, items, text};
use super::topology::{NodeId, Target};
use crate::lock::{Key, LockStatus, StoreError, Survey, Timeout};

impl Redis {
    /// The locks with these keys, in this order, or all of which redlock keeps something.
    pub(super) fn look_everywhere(&mut self, keys: &[Key], patience: &Timeout) -> Result<Survey, StoreError> {
        self.route.longest = LONGEST_LIST;
        let survey = self.look_at_each_server(keys, patience);
        self.route.longest = LONGEST_REPLY;
        survey
    }

    fn look_at_each_server(&mut self, keys: &[Key], patience: &Timeout) -> Result<Survey, StoreError> {
        let mut places = self.places(keys);
        let mut servers = Vec::new();
        if keys.is_empty() || (self.route.is_cluster() && places.contains(&None)) {
            servers.extend(self.route.masters(patience)?.into_iter().map(Some));
            // Before one of them fails: then it is doubted who has what.
            places = self.places(keys);
        }
        if !keys.is_empty() {
            servers.clone_from(&places);
            servers.sort_unstable();
            servers.dedup();
        }
        let mut survey = Survey::default();
        for (done, server) in servers.iter().enumerate() {
            let share = patience.share(servers.len() - done);
            let here = keys.iter().zip(&places).filter(|(_, place)| *place == server);
            let here: Vec<Key> = here.map(|(key, _)| key.clone()).collect();
            let looked = match server {
                Some(node) if keys.is_empty() => self.look_at_all(*node, &share, &mut survey),
                _ => self.look_at(&here, &share, &mut survey),
            };
            match looked {
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

    /// Who has these keys, as far as that is known.
    fn places(&self, keys: &[Key]) -> Vec<Option<NodeId>> {
        keys.iter().map(|key| self.route.known(Target::Key(key))).collect()
    }

    fn look_at(&mut self, keys: &[Key], patience: &Timeout, survey: &mut Survey) -> Result<(), StoreError> {
        for key in keys {
            match self.status_of(key, patience) {
                Ok(status) => survey.locks.push(status),
                Err(error @ StoreError::NotALock { .. }) => survey.hidden.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn look_at_all(
        &mut self,
        node: NodeId,
        patience: &Timeout,
        survey: &mut Survey,
    ) -> Result<(), StoreError> {
        let mut denied = None;
        let known = survey.locks.len();
        for key in self.known_keys(node, patience)? {
            // On its way from one server to another a lock is seen twice.
            if survey.locks.iter().any(|lock| lock.key == key) {
                continue;
            }
            go_on(patience).map_err(|failure| self.unreachable(failure))?;
            match self.status_of(&key, patience) {
                Ok(status) => survey.locks.push(status),
                // Somebody put something else there, which is no lock.
                Err(StoreError::NotALock { .. }) => {}
                // A name is all that a user sees of the locks of others.
                Err(error @ StoreError::Denied { .. }) => denied = Some(error),
                Err(error) => return Err(error),
            }
        }
        denied.filter(|_| survey.locks.len() == known).map_or(Ok(()), Err)
    }

    fn status_of(&mut self, key: &Key, patience: &Timeout) -> Result<LockStatus, StoreError> {
        let reply = self.call(&Call::new(&script::STATUS, key, None), patience)?;
        self.understood(reply::status(key.clone(), reply))
    }

    /// The names of all keys of which redlock keeps something on this server. By SCAN: KEYS blocks it.
    fn known_keys(&mut self, node: NodeId, patience: &Timeout) -> Result<Vec<Key>, StoreError> {
        let (mut known, mut size) = (Vec::new(), 0);
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg("redlock:{*").arg("COUNT").arg(1000);
            let reply = self.route.query(Target::Node(node), &scan, patience)?;
            let (next, names) = self.understood(page(accepted(reply, &self.route.name)?))?;
            size += names.iter().map(|name| text(Some(name)).len()).sum::<usize>();
            if size > MOST_NAMES {
                let why = "it lists more keys than can be looked at".to_owned();
                return Err(self.unreachable(RequestError::Broken(why)));
            }
            known.extend(names.iter().filter_map(|name| keys::key_of(&text(Some(name)))));
            if next == "0" {
                break;
            }
            cursor = next;
            go_on(patience).map_err(|failure| self.unreachable(failure))?;
        }
        known.sort();
        known.dedup();
        Ok(known)
    }
}

/// In bytes: of a million locks and more.
const MOST_NAMES: usize = 128 << 20;

/// The next cursor and some names, from an answer to SCAN; `None` for a reply that makes no sense.
fn page(reply: Value) -> Option<(String, Vec<Value>)> {
    match <[Value; 2]>::try_from(items(reply)) {
        Ok([Value::BulkString(cursor), Value::Array(names)]) => {
            Some((String::from_utf8(cursor).ok()?, names))
        }
        _ => None,
    }
}
