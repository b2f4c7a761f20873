//! Nodes of other recipes below the one of a lock: redlock shares no lock with them in silence.

use uuid::Uuid;

use super::calls::ZooKeeperCalls;
use super::client::SessionClient;
use super::contender::{Contender, queue};
use super::error::ZooKeeperResult;
use super::message::{Answer, Operation};
use crate::lock::{Key, Mode, StoreError, Timeout};
use crate::sanitize::sanitize;

/// Why a lock is not for this request, whoever holds it.
pub enum KeyConflict {
    OtherMode(Mode),
    /// Another recipe has this node there.
    OtherRecipe(String),
}

impl KeyConflict {
    pub fn of(self, store: &str, key: Key) -> StoreError {
        match self {
            KeyConflict::OtherMode(found) => StoreError::OtherMode { key, found },
            KeyConflict::OtherRecipe(node) => {
                let found = format!("a node '{}' of another recipe there", sanitize(&node));
                StoreError::NotALock { store: store.to_owned(), key, found }
            }
        }
    }
}

/// Curator keeps a semaphore below these.
const FOLDERS: [&str; 2] = ["leases", "locks"];
const DIGITS: usize = 10;

/// The children of a lock that other recipes may have made: numbered ones that are no contenders, as those of a latch or an
/// election, those with a random name, as of kazoo's semaphores and parties, and the folders of a semaphore.
pub fn suspects(children: Vec<String>) -> Vec<String> {
    children
        .into_iter()
        .filter(|name| Contender::parse(name).is_none())
        .filter(|name| FOLDERS.contains(&name.as_str()) || is_of_a_recipe(name))
        .collect()
}

fn is_of_a_recipe(name: &str) -> bool {
    let is_numbered = name
        .len()
        .checked_sub(DIGITS)
        .and_then(|at| name.split_at_checked(at))
        .is_some_and(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
    let is_random = name.get(..32).is_some_and(|head| Uuid::try_parse(head).is_ok());
    is_numbered || is_random
}

impl ZooKeeperCalls {
    /// Why the lock is not to be taken: one of these children, or of theirs, ends with a session, so another program has
    /// the lock in its own way.
    pub fn refuse_others(
        &self,
        key: &Key,
        suspects: &[String],
        client: &mut SessionClient,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Option<KeyConflict>> {
        if suspects.is_empty() {
            return Ok(None);
        }
        let (folders, mut nodes): (Vec<String>, Vec<String>) =
            suspects.iter().cloned().partition(|name| FOLDERS.contains(&name.as_str()));
        let looks: Vec<Operation> =
            folders.iter().map(|name| Operation::children(&self.path(key, name))).collect();
        for (folder, reply) in folders.iter().zip(client.ask(&looks, timeout)?) {
            let Ok(Answer::Children(children, _)) = reply.answer else { continue };
            // A contender of redlock, in a lock with a longer name, has several nodes.
            let single = queue(&children).into_iter().filter(|contender| contender.nodes.len() == 1);
            let of_others = single.map(|contender| contender.node().to_owned());
            let odd = children.iter().filter(|name| Contender::parse(name).is_none() && is_of_a_recipe(name));
            nodes.extend(of_others.chain(odd.cloned()).map(|name| format!("{folder}/{name}")));
        }
        let look = |name: &String| Operation::Exists { path: self.path(key, name), watch: false };
        let looks: Vec<Operation> = nodes.iter().map(look).collect();
        let replies = client.ask(&looks, timeout)?.into_iter();
        let found = nodes
            .into_iter()
            .zip(replies)
            .find(|(_, reply)| matches!(&reply.answer, Ok(Answer::Stat(stat)) if stat.is_ephemeral));
        Ok(found.map(|(name, _)| KeyConflict::OtherRecipe(self.path(key, &name))))
    }
}

#[test]
fn names_of_recipes_are_told_from_those_of_locks() {
    let names = [
        "_c_6f1d1c9e-9c43-4f3c-8f57-0f5d3f8b8a11-latch-0000000003",
        "x-72057594037927936-0000000001",
        "n_0000000002",
        "4f1d1c9e9c434f3c8f570f5d3f8b8a11",
        "leases",
    ];
    let others =
        ["a", "été", "nightly", "lock-0000000005", "6f1d1c9e9c434f3c8f570f5d3f8b8a11__lock__0000000003"];
    let all = names.iter().chain(&others).map(|name| name.to_string()).collect();
    assert_eq!(suspects(all), names);
}
