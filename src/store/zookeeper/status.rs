//! What administrators see and do: all locks, and the end of one.

use super::client::SessionClient;
use super::contender::{Contender, holders, id};
use super::error::ZooKeeperResult;
use super::ledger::{Node, ZooKeeperLedger};
use super::message::{Answer, Code, Operation};
use super::node_data::NodeStage;
use super::store::ZooKeeper;
use crate::lock::{
    Breaker, Broken, Key, LockStatus, Metadata, OwnerToken, StoreAdmin, StoreError, Survey, Timeout, Waiter,
    unix_millis,
};

/// How many nodes are asked for their children at once.
const PAGE: usize = 200;
/// More nodes than this are not looked at: the tree is another program's.
const MOST_NODES: usize = 100_000;

/// A waiter that says nothing about itself.
fn another_program() -> Metadata {
    Metadata { host: "another program".to_owned(), since: unix_millis(), ..Metadata::default() }
}

impl StoreAdmin for ZooKeeper {
    fn survey(&mut self, keys: &[Key], timeout: &Timeout) -> Result<Survey, StoreError> {
        let (locks, refused, is_all) = self.look(|ledger, client| {
            let (known, is_all) = match keys {
                [] => known_keys(ledger, client, timeout)?,
                keys => (keys.to_vec(), true),
            };
            let (mut locks, mut refused) = (Vec::with_capacity(known.len()), Vec::new());
            for page in known.chunks(PAGE) {
                let queues = ledger.queues(page, false, client, timeout)?;
                for (key, queue) in page.iter().zip(queues) {
                    if let Some(conflict) = ledger.refuse_others(key, &queue.suspects, client, timeout)? {
                        refused.push((key.clone(), conflict));
                        if queue.contenders.is_empty() {
                            continue;
                        }
                    }
                    locks.push(status_of(key.clone(), &queue.contenders, ledger, client, timeout)?);
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
        token: Option<&OwnerToken>,
        by: &Breaker,
        timeout: &Timeout,
    ) -> Result<Broken, StoreError> {
        self.visit(|ledger, client| break_lock(key, token, by, ledger, client, timeout))
    }
}

fn break_lock(
    key: &Key,
    token: Option<&OwnerToken>,
    by: &Breaker,
    ledger: &ZooKeeperLedger,
    client: &mut SessionClient,
    timeout: &Timeout,
) -> ZooKeeperResult<Broken> {
    let mut queue = ledger.queue(key, true, client, timeout)?;
    queue.truncate(holders(&queue));
    let nodes = ledger.nodes(key, &queue, client, timeout)?;
    let mut held: Vec<(&Contender, Node)> = queue
        .iter()
        .zip(nodes)
        .filter_map(|(contender, node)| Some((contender, node.filter(Node::has_lock)?)))
        .collect();
    if let Some(token) = token {
        let id = id(token);
        match held.iter().position(|(contender, _)| contender.id == Some(id)) {
            Some(own) => held = vec![held.swap_remove(own)],
            None => return Ok(held.first().map_or(Broken::Free, |(_, node)| Broken::Other(node.holder()))),
        }
    }
    let (mut told, mut freed) = (None, None);
    for (contender, node) in held {
        let holder = node.holder();
        // Others than redlock are not told, and who was told before had the time to stop.
        match node.value.filter(|value| value.stage() == NodeStage::Holding && value.breaker().is_none()) {
            Some(value) => {
                let (path, data) = (ledger.path(key, contender.node()), value.broken(by).to_bytes());
                let mark = [Operation::SetData { path, data, version: node.stat.version }];
                match client.call(&mark, timeout)?.pop().map(|reply| reply.answer) {
                    Some(Err(Code::NO_NODE | Code::BAD_VERSION)) | None => {}
                    Some(Err(code)) => return Err(code.into()),
                    Some(Ok(_)) => drop(told.get_or_insert(holder)),
                }
            }
            None => {
                if ledger.delete(key, contender, client, timeout)? {
                    freed.get_or_insert(holder);
                }
            }
        }
    }
    Ok(match (told, freed) {
        (Some(holder), _) => Broken::Told(holder),
        (None, Some(holder)) => Broken::Freed(holder),
        (None, None) => Broken::Free,
    })
}

fn status_of(
    key: Key,
    queue: &[Contender],
    ledger: &ZooKeeperLedger,
    client: &mut SessionClient,
    timeout: &Timeout,
) -> ZooKeeperResult<LockStatus> {
    let mode = queue.first().map(|first| first.mode).unwrap_or_default();
    let nodes = ledger.nodes(&key, queue, client, timeout)?;
    let mut status = LockStatus { key, mode, holders: Vec::new(), waiters: Vec::new() };
    let holding = holders(queue);
    for (place, (contender, node)) in queue.iter().zip(nodes).enumerate() {
        let Some(node) = node else { continue };
        // The first one in line counts as a waiter until it has seen its grant.
        if place < holding && node.has_lock() {
            status.holders.push(node.holder());
        } else {
            let metadata = node.value.map_or_else(another_program, |value| value.metadata);
            status.waiters.push(Waiter { mode: contender.mode, metadata });
        }
    }
    Ok(status)
}

/// The keys of all locks below the chroot that have holders or waiters, and whether there are no more of them.
fn known_keys(
    ledger: &ZooKeeperLedger,
    client: &mut SessionClient,
    timeout: &Timeout,
) -> ZooKeeperResult<(Vec<Key>, bool)> {
    let (mut known, mut looked_at) = (Vec::new(), 0);
    let mut next = vec![ledger.layout.chroot().to_owned()];
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
            known.extend(ledger.layout.key(path).filter(|_| !contenders.is_empty()));
            let below = others.iter().filter(|name| !(path.is_empty() && **name == "zookeeper"));
            next.extend(below.map(|name| format!("{path}/{name}")));
        }
    }
    known.sort();
    Ok((known, next.is_empty()))
}
