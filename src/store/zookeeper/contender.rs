//! Who stands in the queue of a lock, by the names of the nodes.

use std::collections::BTreeMap;

use uuid::{Uuid, uuid};

use crate::lock::{Mode, OwnerToken};
use crate::store::queue::InQueue;

/// One place in the queue of a lock, the holder's included.
///
/// A contender of redlock has three nodes that were created together, so their numbers follow one another: one is a
/// contender for kazoo, whose recipes know the names that end with `__lock__` and `__rlock__` in front of the number, and
/// two for Curator, whose `InterProcessMutex` knows `lock-`, and whose `InterProcessReadWriteLock` knows `__READ__` and `__WRIT__`.
/// Each of them waits for lower numbers of the kinds that it knows, and redlock for those of all kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Of redlock and most others; `None` for who has only a number.
    pub id: Option<Uuid>,
    pub mode: Mode,
    /// Its place: the lowest of its numbers.
    pub number: i64,
    /// The names of its nodes, in the order of their numbers.
    pub nodes: Vec<String>,
}

/// The namespace of the ids.
const IDS: Uuid = uuid!("5d9d2f2e-5a1c-4f3e-9a57-6b8f0d4c7e21");
const DIGITS: usize = 10;

/// The names of the nodes of an owner, which get a number behind them.
pub fn names(token: &OwnerToken, mode: Mode) -> [String; 3] {
    let id = id(token);
    let (plain, dashed) = (id.simple(), id.hyphenated());
    match mode {
        Mode::Exclusive => {
            [format!("{plain}__lock__"), format!("_c_{dashed}-lock-"), format!("_c_{dashed}-__WRIT__")]
        }
        Mode::Shared => [
            format!("{plain}__rlock__"),
            format!("_c_{dashed}-shared-lock-"),
            format!("_c_{dashed}-__READ__"),
        ],
        Mode::Semaphore(permits) => [
            format!("{plain}-permits-{permits}__lock__"),
            format!("_c_{dashed}-permits-{permits}-lock-"),
            format!("_c_{dashed}-permits-{permits}-__WRIT__"),
        ],
    }
}

/// What everybody may see of an owner: the token does not follow from it.
pub fn id(token: &OwnerToken) -> Uuid {
    Uuid::new_v5(&IDS, token.expose().as_bytes())
}

impl InQueue for Contender {
    fn mode(&self) -> Mode {
        self.mode
    }
}

impl Contender {
    /// Of a node with this name; `None` for what is no contender.
    pub fn parse(name: &str) -> Option<Contender> {
        let (head, number) = name.split_at_checked(name.len().checked_sub(DIGITS)?)?;
        let number = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??;
        let ending = |end, mode| head.strip_suffix(end).map(|rest| (rest, mode));
        let (rest, mode) = ending("__rlock__", Mode::Shared)
            .or_else(|| ending("__READ__", Mode::Shared))
            .or_else(|| ending("__lock__", Mode::Exclusive))
            .or_else(|| ending("__WRIT__", Mode::Exclusive))
            .or_else(|| ending("lock-", Mode::Exclusive))?;
        let rest = rest.trim_end_matches('-');
        let rest = rest.strip_prefix("_c_").unwrap_or(rest);
        let (rest, mode) = match rest.rsplit_once("-permits-").map(|(rest, permits)| (rest, permits.parse()))
        {
            Some((rest, Ok(permits))) => (rest, Mode::Semaphore(permits)),
            _ => rest.strip_suffix("-shared").map_or((rest, mode), |rest| (rest, Mode::Shared)),
        };
        let id = Uuid::try_parse(rest).ok();
        Some(Contender { id, mode, number, nodes: vec![name.to_owned()] })
    }

    /// The node that has its data.
    pub fn node(&self) -> &str {
        self.nodes.first().map_or("", String::as_str)
    }

    /// The node that ends last, for who waits for its end.
    pub fn last_node(&self) -> &str {
        self.nodes.last().map_or("", String::as_str)
    }
}

/// The contenders among the children of a lock, in the order in which they are served.
pub fn queue(children: &[String]) -> Vec<Contender> {
    let mut nodes: Vec<Contender> = children.iter().filter_map(|name| Contender::parse(name)).collect();
    nodes.sort_by_key(|node| node.number);
    let (mut queue, mut places) = (Vec::<Contender>::new(), BTreeMap::new());
    for node in nodes {
        match node.id.and_then(|id| places.get(&id).copied()) {
            Some(place) => {
                let place: &mut Contender = &mut queue[place];
                place.nodes.extend(node.nodes);
            }
            None => {
                places.extend(node.id.map(|id| (id, queue.len())));
                queue.push(node);
            }
        }
    }
    queue
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn numbered(names: [String; 3], first: u32) -> Vec<String> {
        names.into_iter().zip(first..).map(|(name, number)| format!("{name}{number:010}")).collect()
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        let token = OwnerToken::random();
        let permits = Mode::Semaphore(NonZeroU32::MIN.saturating_add(11));
        for mode in [Mode::Exclusive, Mode::Shared, permits] {
            let mut nodes = numbered(names(&token, mode), 7);
            let expected = Contender { id: Some(id(&token)), mode, number: 7, nodes: nodes.clone() };
            nodes.reverse();
            assert_eq!(queue(&nodes), [expected]);
        }
        assert!(!names(&token, Mode::Shared).concat().contains(token.expose()));
    }

    #[test]
    fn others_stand_in_the_same_queue() {
        let uuid = "2f9a6a9e-6f5e-4b59-8b35-3a5d9a1f0c11";
        let children = [
            format!("_c_{uuid}-lock-0000000012"),
            "6f1d1c9e9c434f3c8f570f5d3f8b8a11__rlock__0000000003".to_owned(),
            "lock-0000000005".to_owned(),
            format!("_c_{}-__WRIT__0000000004", uuid.replace('2', "3")),
            "a".to_owned(),
            "été".to_owned(),
            "leases".to_owned(),
            "x-lease-0000000001".to_owned(),
            "__lock__-000000001".to_owned(),
        ];
        let queue = queue(&children);
        let seen: Vec<_> = queue.iter().map(|one| (one.number, one.mode, one.id.is_some())).collect();
        let (shared, exclusive) = (Mode::Shared, Mode::Exclusive);
        let expected =
            [(3, shared, true), (4, exclusive, true), (5, exclusive, false), (12, exclusive, true)];
        assert_eq!(seen, expected);
    }
}
