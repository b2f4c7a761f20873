//! The calls that locks are made of: folders, queues, and the nodes of a contender.

use std::time::Duration;

use super::client::SessionClient;
use super::connection::TransactionReply;
use super::contender::{Contender, names, queue};
use super::error::ZooKeeperResult;
use super::layout::{NodeLayout, ZooKeeperAddress};
use super::message::{ANY_VERSION, Answer, Code, Operation};
use super::node::{Access, Kind, Stat};
use super::recipe::suspects;
use crate::lock::{Busy, Holder, Key, Request, Timeout, unix_millis};
use crate::store::call_error::CallError;
use crate::store::queue::{self, EntryData, Stage};

/// Where the locks are, and who may use them.
pub struct ZooKeeperCalls {
    pub layout: NodeLayout,
    access: Access,
}

/// The data of a contender; another program's have no value.
pub struct Node {
    pub value: Option<EntryData>,
    pub stat: Stat,
}

/// The queue of a lock, and the transaction that changed it last.
#[derive(Default)]
pub struct ZooKeeperQueue {
    pub contenders: Vec<Contender>,
    /// The children beside them that another recipe may have made.
    pub suspects: Vec<String>,
    pub changed: i64,
}

/// The condition of a move of nodes.
pub enum Condition<'a> {
    None,
    /// The nodes of this one are gone.
    Gone(&'a Contender),
    /// The data that are moved have this version: nobody has touched them since.
    Version(i32),
}

/// Contenders that were created, one for each request, and the transaction that did it.
pub struct Placed {
    pub contenders: Vec<Contender>,
    pub transaction: i64,
}

/// Folders are created at most so often in a row: somebody deletes them.
const MOST_FOLDERS: usize = 5;

impl ZooKeeperCalls {
    pub fn new(address: &ZooKeeperAddress) -> ZooKeeperCalls {
        let access = if address.cluster.user.is_some() { Access::Owner } else { Access::Everybody };
        ZooKeeperCalls { layout: address.layout.clone(), access }
    }

    pub fn path(&self, key: &Key, node: &str) -> String {
        format!("{}/{node}", self.layout.folder(key))
    }

    /// The queue of each lock. With `catch_up` the server first learns of everything that was begun before.
    pub fn queues<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Key>,
        catch_up: bool,
        client: &mut SessionClient,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Vec<ZooKeeperQueue>> {
        let folders: Vec<String> = keys.into_iter().map(|key| self.layout.folder(key)).collect();
        let sync = folders.first().filter(|_| catch_up).map(|path| Operation::Sync { path: path.clone() });
        let skipped = usize::from(sync.is_some());
        let looks = folders.iter().map(|folder| Operation::children(folder));
        let operations: Vec<Operation> = sync.into_iter().chain(looks).collect();
        let replies = client.ask(&operations, timeout)?.into_iter().skip(skipped);
        let queues = replies.map(|reply| match reply.found()? {
            Some(Answer::Children(children, stat)) => {
                let (contenders, changed) = (queue(&children), stat.children_changed);
                Ok(ZooKeeperQueue { contenders, suspects: suspects(children), changed })
            }
            _ => Ok(ZooKeeperQueue::default()),
        });
        queues.collect()
    }

    pub fn queue(
        &self,
        key: &Key,
        catch_up: bool,
        client: &mut SessionClient,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Vec<Contender>> {
        Ok(self.queues([key], catch_up, client, timeout)?.pop().unwrap_or_default().contenders)
    }

    /// Takes a place at the end of the queue of each lock, in one transaction.
    pub fn place(
        &self,
        requests: &[Request],
        data: impl Fn(&Request) -> EntryData,
        client: &mut SessionClient,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Placed> {
        let create = requests.iter().flat_map(|request| {
            let folder = self.layout.folder(&request.key);
            let data = [data(request).to_bytes(), Vec::new(), Vec::new()];
            let nodes = names(&request.token, request.mode).into_iter().zip(data);
            nodes.map(move |(name, data)| self.create(format!("{folder}/{name}"), data, Kind::Sequential))
        });
        let create = [Operation::Multi(create.collect())];
        for _ in 0..MOST_FOLDERS {
            let Some(reply) = client.call(&create, timeout)?.pop() else { break };
            match reply.answer {
                Ok(Answer::Multi(created)) => {
                    let contenders = created.chunks(3).filter_map(contender).collect();
                    return Ok(Placed { contenders, transaction: reply.number });
                }
                Err(Code::NO_NODE) => {
                    if let Some(code) = self.create_folders(requests, client, timeout)? {
                        return Err(code.into());
                    }
                }
                Err(code) => return Err(code.into()),
                Ok(_) => break,
            }
        }
        Err(CallError::transient("somebody keeps deleting the nodes of this lock"))
    }

    fn create(&self, path: String, data: Vec<u8>, kind: Kind) -> Operation {
        Operation::Create { path, data, access: self.access, kind }
    }

    /// Creates the folders of locks as far as they are not there. Returns why one of them, and all below it, cannot be there.
    fn create_folders(
        &self,
        requests: &[Request],
        client: &mut SessionClient,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Option<Code>> {
        let mut kind = Kind::Container;
        let mut denied = None;
        for request in requests {
            let folder = self.layout.folder(&request.key);
            for path in NodeLayout::above(&folder) {
                loop {
                    let create = [self.create(path.to_owned(), Vec::new(), kind)];
                    let created = client.call(&create, timeout)?.pop();
                    match created.map(|reply| reply.answer) {
                        // Before 3.5.
                        Some(Err(Code::UNIMPLEMENTED)) if kind == Kind::Container => kind = Kind::Persistent,
                        // It may be there: the permission is asked for first.
                        Some(Err(code)) if code != Code::NODE_EXISTS => {
                            let look = [Operation::Exists { path: path.to_owned(), watch: false }];
                            let found = client.call(&look, timeout)?.pop().map(|reply| reply.found());
                            denied = denied.or(found.transpose()?.flatten().is_none().then_some(code));
                            break;
                        }
                        _ => break,
                    }
                }
            }
        }
        Ok(denied)
    }

    /// The nodes of a contender are deleted, and created again with the same names for the session of `client`, in one
    /// transaction. `None` when one of them was not there, or the condition was not met.
    pub fn move_to(
        &self,
        client: &mut SessionClient,
        key: &Key,
        contender: &Contender,
        condition: &Condition,
        value: &EntryData,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Option<i64>> {
        let paths = |nodes: &[String]| nodes.iter().map(|node| self.path(key, node)).collect::<Vec<_>>();
        let delete = |path| Operation::Delete { path };
        let create = |(path, data)| self.create(path, data, Kind::Ephemeral);
        let mut operations = match condition {
            Condition::None => Vec::new(),
            Condition::Version(version) => {
                vec![Operation::check(&self.path(key, contender.node()), *version)]
            }
            // A transaction has no check that a node is not there: one that can be created was not.
            Condition::Gone(predecessor) => {
                let gone = paths(&predecessor.nodes);
                let absent = gone.iter().map(|path| create((path.clone(), Vec::new())));
                absent.chain(gone.iter().cloned().map(delete)).collect()
            }
        };
        let own = paths(&contender.nodes);
        let data = std::iter::once(value.to_bytes()).chain(std::iter::repeat(Vec::new()));
        operations.extend(own.iter().cloned().map(delete).chain(own.iter().cloned().zip(data).map(create)));
        let moved = client.call(&[Operation::Multi(operations)], timeout)?.pop();
        match moved {
            Some(TransactionReply { answer: Err(Code::NODE_EXISTS | Code::BAD_VERSION), .. }) | None => {
                Ok(None)
            }
            Some(reply) => {
                let transaction = reply.number;
                Ok(reply.found()?.map(|_| transaction))
            }
        }
    }

    /// Checks that the nodes of a contender are all there, and nobody has touched its data: a write that changes nothing, so
    /// the leader and a majority agree to it.
    pub fn check(&self, key: &Key, contender: &Contender) -> Operation {
        let mut version = 0;
        let checks = contender.nodes.iter().map(|node| {
            Operation::check(&self.path(key, node), std::mem::replace(&mut version, ANY_VERSION))
        });
        Operation::Multi(checks.collect())
    }

    /// Deletes the nodes of a contender. `false` when the first of them was gone before.
    pub fn delete(
        &self,
        key: &Key,
        contender: &Contender,
        client: &mut SessionClient,
        timeout: &Timeout,
    ) -> ZooKeeperResult<bool> {
        Ok(self.release(key, contender, client, timeout)?.is_some())
    }

    /// Deletes the nodes of a holder, and says whether others want the lock. `None` when the first of them was gone before.
    pub fn release(
        &self,
        key: &Key,
        contender: &Contender,
        client: &mut SessionClient,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Option<bool>> {
        let delete: Vec<Operation> =
            contender.nodes.iter().map(|node| Operation::Delete { path: self.path(key, node) }).collect();
        let look = Operation::Exists { path: self.layout.folder(key), watch: false };
        let mut replies = client.call(&[Operation::Multi(delete.clone()), look], timeout)?.into_iter();
        let whole = replies.next().map(|reply| reply.found()).transpose()?.flatten();
        if whole.is_some() {
            let left = replies.next().map(|reply| reply.answer);
            return Ok(Some(matches!(left, Some(Ok(Answer::Stat(stat))) if stat.children > 0)));
        }
        let mut was_there = None;
        for reply in client.call(&delete, timeout)? {
            was_there = was_there.or(Some(reply.found()?.is_some()));
        }
        Ok((was_there == Some(true)).then_some(false))
    }

    /// The data of these contenders; `None` for one that is gone.
    pub fn nodes<'a>(
        &self,
        key: &Key,
        contenders: impl IntoIterator<Item = &'a Contender>,
        client: &mut SessionClient,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Vec<Option<Node>>> {
        let look = |contender: &Contender| Operation::Data { path: self.path(key, contender.node()) };
        let looks: Vec<Operation> = contenders.into_iter().map(look).collect();
        let mut nodes = Vec::with_capacity(looks.len());
        for page in looks.chunks(PAGE) {
            for reply in client.ask(page, timeout)? {
                nodes.push(match reply.answer {
                    Ok(Answer::Data(data, stat)) => Some(Node { value: EntryData::of_redlock(&data), stat }),
                    // Another program's may be for its own eyes.
                    Err(Code::NO_AUTH) => Some(Node { value: None, stat: Stat::default() }),
                    Err(Code::NO_NODE) | Ok(_) => None,
                    Err(code) => return Err(code.into()),
                });
            }
        }
        Ok(nodes)
    }

    pub fn node(
        &self,
        key: &Key,
        contender: &Contender,
        client: &mut SessionClient,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Option<Node>> {
        Ok(self.nodes(key, [contender], client, timeout)?.pop().flatten())
    }

    /// The answer to a newcomer behind these.
    pub fn busy(
        &self,
        key: &Key,
        before: &[Contender],
        client: &mut SessionClient,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Busy> {
        let first = before.first().map(|first| self.node(key, first, client, timeout)).transpose()?.flatten();
        let holder = first.filter(Node::has_lock).map(|node| node.holder());
        Ok(queue::busy(key, before, holder))
    }
}

/// The number of nodes that are asked for at once.
const PAGE: usize = 500;

impl Node {
    /// One of the first nodes counts as a holder once its owner has seen the grant.
    pub fn has_lock(&self) -> bool {
        self.value.as_ref().is_none_or(|value| value.stage() != Stage::Waiting)
    }

    pub fn holder(&self) -> Holder {
        let value = self.value.as_ref();
        let kept_until = value.and_then(|value| value.kept_until);
        Holder {
            // Only the servers know how long a session lives on.
            left: kept_until.map(|until| Duration::from_millis(until.saturating_sub(unix_millis()))),
            hides_left: kept_until.is_none(),
            is_kept: kept_until.is_some(),
            broken: value.and_then(EntryData::breaker),
            ..EntryData::holder(value, self.stat.created)
        }
    }
}

/// The contender with these nodes, which were just created.
fn contender(created: &[Answer]) -> Option<Contender> {
    let name = |answer: &Answer| match answer {
        Answer::Created(path) => path.rsplit('/').next().map(str::to_owned),
        _ => None,
    };
    let names: Option<Vec<String>> = created.iter().map(name).collect();
    queue(&names?).pop()
}
