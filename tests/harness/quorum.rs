//! Independent Redis servers for a quorum.

use super::{Redis, Store};

impl Store {
    pub fn quorum3() -> Store {
        Store::quorum(3, &[])
    }

    pub fn quorum5() -> Store {
        Store::quorum(5, &[])
    }

    /// So many independent servers, started with these arguments.
    pub fn quorum(count: usize, args: &[&str]) -> Store {
        let members: Vec<Redis> = (0..count).map(|_| Redis::with(args)).collect();
        Store { url: urls(&members), members, ..Store::local() }
    }

    /// How many wait for the key, by the first server: they stand in no queue, but listen on a channel.
    pub(super) fn listeners(&self, key: &str) -> usize {
        let channel = format!("redlock:{{{key}}}:wake:quorum:{key}");
        let answer = self.members[0].cli(&["pubsub", "numsub", &channel]);
        answer.lines().last().and_then(|line| line.parse().ok()).unwrap_or(0)
    }
}

/// The servers of a quorum as REDLOCK_SERVER names them.
pub fn urls(members: &[Redis]) -> String {
    members.iter().map(Redis::url).collect::<Vec<_>>().join(" ")
}
