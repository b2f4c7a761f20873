//! The calls of administrators: a look at all locks, and the end of one.

use super::calls::{Node, ZooKeeperCalls};
use super::client::SessionClient;
use super::contender::{Contender, id};
use super::error::ZooKeeperResult;
use super::message::{Answer, Code, Operation};
use super::store::ZooKeeper;
use crate::lock::{BreakScope, Breaker, Broken, Key, LockStatus, StoreAdmin, StoreError, Survey, Timeout};
use crate::store::queue::{self, SeenEntry, Stage, holders, status};

/// The number of nodes that are asked for their children at once.
const PAGE: usize = 200;
/// More nodes than this are not looked at: the tree is another program's.
const MOST_NODES: usize = 100_000;

impl StoreAdmin for ZooKeeper {
    fn survey(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Survey, StoreError> {
        let (locks, refused, is_all) = self.look(|calls, client| {
            let (known, is_all) = match keys {
                [] => known_keys(calls, client, timeout)?,
                keys => (keys.to_vec(), true),
            };
            let (mut locks, mut refused) = (Vec::with_capacity(known.len()), Vec::new());
            for page in known.chunks(PAGE) {
                let queues = calls.queues(page, false, client, timeout)?;
                for (key, queue) in page.iter().zip(queues) {
                    if let Some(conflict) = calls.refuse_others(key, &queue.suspects, client, timeout)? {
                        refused.push((key.clone(), conflict));
                        if queue.contenders.is_empty() {
                            continue;
                        }
                    }
                    locks.push(status_of(key.clone(), &queue.contenders, calls, client, timeout)?);
                }
            }
            Ok((locks, refused, is_all))
        })?;
        let cut = || StoreError::Unconfirmed(format!("{} has more than {MOST_NODES} nodes", self.name));
        let mut hidden: Vec<StoreError> =
            refused.into_iter().map(|(key, conflict)| conflict.of(&self.name, key)).collect();
        hidden.extend((!is_all).then(cut));
        Ok(Survey { locks, hidden })
    }

    fn break_lock(
        &mut self,
        key: &Key,
        scope: &BreakScope,
        by: &Breaker,
        timeout: &Timeout,
    ) -> Result<Broken, StoreError> {
        self.visit(|calls, client| break_lock(key, scope, by, calls, client, timeout))
    }
}

fn break_lock(
    key: &Key,
    scope: &BreakScope,
    by: &Breaker,
    calls: &ZooKeeperCalls,
    client: &mut SessionClient,
    timeout: &Timeout,
) -> ZooKeeperResult<Broken> {
    let mut queue = calls.queue(key, true, client, timeout)?;
    queue.truncate(holders(&queue));
    let nodes = calls.nodes(key, &queue, client, timeout)?;
    let held = queue.into_iter().zip(nodes);
    let held = held.filter_map(|(contender, node)| Some((contender, node.filter(Node::has_lock)?))).collect();
    let is_own =
        scope.owner().map(id).map(|id| move |(contender, _): &(Contender, Node)| contender.id == Some(id));
    let look = |_: &mut _, (_, node): &(Contender, Node)| {
        let is_redlock = node.value.as_ref().is_some_and(|value| value.stage() == Stage::Holding);
        let holder = node.holder();
        let can_be_told = is_redlock && holder.broken.is_none();
        Ok((holder, can_be_told))
    };
    let end = |client: &mut SessionClient, (contender, node): &(Contender, Node), is_told: bool| {
        let Some(value) = node.value.clone().filter(|_| is_told) else {
            return calls.delete(key, contender, client, timeout);
        };
        let (path, data) = (calls.path(key, contender.node()), value.broken(by).to_bytes());
        let mark = [Operation::SetData { path, data, version: node.stat.version }];
        match client.call(&mark, timeout)?.pop().map(|reply| reply.answer) {
            Some(Err(Code::NO_NODE | Code::BAD_VERSION)) | None => Ok(false),
            Some(Err(code)) => Err(code.into()),
            Some(Ok(_)) => Ok(true),
        }
    };
    queue::break_lock(client, held, is_own, scope.grant(), look, end)
}

fn status_of(
    key: Key,
    queue: &[Contender],
    calls: &ZooKeeperCalls,
    client: &mut SessionClient,
    timeout: &Timeout,
) -> ZooKeeperResult<LockStatus> {
    let nodes = calls.nodes(&key, queue, client, timeout)?;
    let holding = holders(queue);
    let seen = queue.iter().zip(nodes).enumerate().filter_map(|(place, (contender, node))| {
        let node = node?;
        let holder = (place < holding && node.has_lock()).then(|| node.holder());
        Some(SeenEntry { mode: contender.mode, data: node.value, holder })
    });
    Ok(status(key, queue, seen))
}

/// The keys of all locks below the chroot that have holders or waiters. The flag says that these are all.
fn known_keys(
    calls: &ZooKeeperCalls,
    client: &mut SessionClient,
    timeout: &Timeout,
) -> ZooKeeperResult<(Vec<Key>, bool)> {
    let (mut known, mut looked_at) = (Vec::new(), 0);
    let mut next = vec![calls.layout.chroot().to_owned()];
    while !next.is_empty() && looked_at < MOST_NODES {
        let page = next.split_off(next.len().saturating_sub(PAGE));
        looked_at += page.len();
        let looks: Vec<Operation> =
            page.iter().map(|path| Operation::children(if path.is_empty() { "/" } else { path })).collect();
        for (path, reply) in page.iter().zip(client.ask(&looks, timeout)?) {
            // Somebody else's nodes are none of ours.
            let Ok(Answer::Children(children, _)) = reply.answer else { continue };
            let (contenders, others): (Vec<_>, Vec<_>) =
                children.iter().partition(|name| Contender::parse(name).is_some());
            known.extend(calls.layout.key(path).filter(|_| !contenders.is_empty()));
            let below = others.iter().filter(|name| !(path.is_empty() && **name == "zookeeper"));
            next.extend(below.map(|name| format!("{path}/{name}")));
        }
    }
    known.sort();
    Ok((known, next.is_empty()))
}
