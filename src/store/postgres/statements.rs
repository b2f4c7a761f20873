//! The statements that locks are made of. Each is a file, and those of one key come behind the lock of its row.

use std::num::NonZeroU32;

use uuid::{Uuid, uuid};

use super::message::Statement;
use crate::lock::{BreakScope, Breaker, Key, OwnerToken, Permits, Priority, Request, RunRecord};

macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("sql/", $name, ".sql"))
    };
}

/// The schema.
pub const SETUP: &str = sql!("setup");

/// Drawn by lot.
const OWNERS: Uuid = uuid!("5d1f0f35-2f4f-4c52-9a39-7f0b9a2f6c1e");

/// The owner of a lease, as it stands in the tables: a hash of the owner token, so that a reader of them cannot release a lock.
pub fn owner_hex(token: &OwnerToken) -> String {
    Uuid::new_v5(&OWNERS, token.expose().as_bytes()).simple().to_string()
}

/// The statements about one key for one owner.
pub struct KeyStatements<'a> {
    key: &'a Key,
    /// As PostgreSQL reads bytes.
    owner: String,
}

impl<'a> KeyStatements<'a> {
    pub fn of(key: &'a Key, token: &OwnerToken) -> KeyStatements<'a> {
        KeyStatements { key, owner: format!("\\x{}", owner_hex(token)) }
    }

    fn keyed(&self, sql: &'static str) -> Statement {
        Statement::of(sql, [self.key.as_str()])
    }

    fn owned(&self, sql: &'static str) -> Statement {
        Statement::of(sql, [self.key.as_str(), &self.owner])
    }

    fn leased(&self, sql: &'static str, request: &Request) -> Statement {
        let ttl = format!("{} ms", request.ttl.as_millis());
        let min_hold = format!("{} ms", request.min_hold.as_millis());
        let metadata = request.metadata.to_json();
        Statement::of(sql, [self.key.as_str(), &self.owner, &ttl, &min_hold, &metadata])
    }

    pub fn take(&self, request: &Request) -> Statement {
        self.leased(sql!("take"), request)
    }

    pub fn confirm(&self, request: &Request) -> Statement {
        self.leased(sql!("confirm"), request)
    }

    /// Locks the row of the key, which is made where there is none.
    pub fn lock_made(&self) -> [Statement; 2] {
        [self.keyed(sql!("make")), self.lock()]
    }

    pub fn lock(&self) -> Statement {
        self.keyed(sql!("lock"))
    }

    /// Takes a place in the queue, gives the lock to the first ones, and confirms it where that is us.
    pub fn queue(
        &self,
        request: &Request,
        channel: &str,
        head_start: i64,
        has_waited: bool,
    ) -> [Statement; 6] {
        let [tidy, serve, settle] = self.hand_over();
        let confirm_holder = self.leased(sql!("confirm_holder"), request);
        let join = self.join(request, channel, head_start, &[], has_waited);
        [join, tidy, serve, self.confirm(request), confirm_holder, settle]
    }

    /// The same for one of several exclusive locks, but for the settling: a place behind that of this key, and the lock if it
    /// is free. With it, the places in the other queues end, and so does a grant of another one that comes later in `keys`.
    pub fn queue_for_one(&self, request: &Request, channel: &str, keys: &[&Key]) -> [Statement; 6] {
        let later = keys.iter().position(|key| *key == self.key).map_or(&[][..], |place| &keys[place + 1..]);
        let [tidy, serve, _] = self.hand_over();
        let head_start = request.metadata.priority.head_start_micros();
        let leave = Statement::of(sql!("leave_others"), [&names_of(keys), &self.owner]);
        let give = Statement::of(sql!("give_others"), [self.key.as_str(), &self.owner, &names_of(later)]);
        [
            self.join(request, channel, head_start, keys, false),
            tidy,
            serve,
            self.confirm(request),
            leave,
            give,
        ]
    }

    /// Takes a place in the queue, unless one of `others` is held already.
    fn join(
        &self,
        request: &Request,
        channel: &str,
        head_start: i64,
        others: &[&Key],
        has_waited: bool,
    ) -> Statement {
        let (mode, metadata) = (request.mode.to_string(), request.metadata.to_json());
        let head_start = head_start.to_string();
        let skew = Priority::CLOCK_SKEW.as_micros().to_string();
        let others = names_of(others);
        let (take, waited) = (request.metadata.weight().to_string(), if has_waited { "waited" } else { "" });
        let values = [
            self.key.as_str(),
            &self.owner,
            &mode,
            channel,
            &metadata,
            &head_start,
            &skew,
            &others,
            &take,
            waited,
        ];
        Statement::of(sql!("join"), values)
    }

    /// Keeps the place in the queue.
    pub fn stay(&self) -> Statement {
        self.owned(sql!("stay"))
    }

    /// Gives a free lock to the first waiters.
    pub fn hand_over(&self) -> [Statement; 3] {
        [self.keyed(sql!("tidy")), self.owned(sql!("serve")), self.settle()]
    }

    pub fn settle(&self) -> Statement {
        self.keyed(sql!("settle"))
    }

    /// Takes back the transaction when the lock is not held.
    pub fn demand(&self) -> Statement {
        self.owned(sql!("demand"))
    }

    pub fn see(&self) -> Statement {
        self.owned(sql!("see"))
    }

    pub fn free(&self) -> Statement {
        self.owned(sql!("free"))
    }

    pub fn mine(&self, is_unbroken: bool) -> Statement {
        let which = if is_unbroken { "unbroken" } else { "" };
        Statement::of(sql!("mine"), [self.key.as_str(), &self.owner, which])
    }

    /// Leaves the lock to its min-hold, where that goes on.
    pub fn keep(&self) -> [Statement; 2] {
        [self.owned(sql!("keep")), self.owned(sql!("keep_holder"))]
    }

    pub fn give_back(&self) -> [Statement; 2] {
        [self.owned(sql!("give_back")), self.owned(sql!("give_back_holder"))]
    }

    /// Refuses what a process that died has asked for.
    pub fn call_off(&self) -> Statement {
        self.owned(sql!("call_off"))
    }

    pub fn leave(&self) -> Statement {
        self.owned(sql!("leave"))
    }

    /// The statement for an exclusive lock, and the one for other modes.
    pub fn renew(&self, request: &Request) -> [Statement; 2] {
        let ttl = format!("{} ms", request.ttl.as_millis());
        [sql!("renew"), sql!("renew_holder")]
            .map(|sql| Statement::of(sql, [self.key.as_str(), &self.owner, &ttl]))
    }

    pub fn heal(&self, request: &Request, fence: u64) -> [Statement; 2] {
        let (ttl, fence) = (format!("{} ms", request.ttl.as_millis()), fence.to_string());
        let metadata = request.metadata.to_json();
        [
            Statement::of(sql!("heal"), [self.key.as_str(), &self.owner, &ttl, &fence, &metadata]),
            Statement::of(sql!("was_released"), [self.key.as_str(), &fence]),
        ]
    }

    /// The same for a shared lock or permits, each with a statement, behind the lock of the row.
    pub fn heal_holder(&self, request: &Request, fence: u64) -> Vec<Statement> {
        let ttl = format!("{} ms", request.ttl.as_millis());
        let mut numbers: Vec<String> =
            request.metadata.permits.numbers().iter().map(u32::to_string).collect();
        let request = request.clone().with_permits(Permits::default());
        let (metadata, mode) = (request.metadata.to_json(), request.mode.to_string());
        numbers.resize(request.metadata.weight() as usize, String::new());
        let heal = |(fence, permit): (u64, &String)| {
            let fence = fence.to_string();
            let values = [self.key.as_str(), &self.owner, &ttl, &fence, &metadata, &mode, permit];
            Statement::of(sql!("heal_holder"), values)
        };
        (fence..).zip(&numbers).map(heal).collect()
    }

    /// Takes back the transaction when not all permits are held.
    pub fn demand_all(&self, request: &Request) -> Statement {
        let weight = request.metadata.weight().to_string();
        Statement::of(sql!("demand_all"), [self.key.as_str(), &self.owner, &weight])
    }

    /// Changes the number of permits.
    pub fn resize(&self, permits: NonZeroU32) -> Statement {
        Statement::of(sql!("resize"), [self.key.as_str(), &permits.to_string()])
    }
}

/// Frees what was broken before, unless that is to stay, and tells the other holders.
pub fn break_lock(key: &Key, scope: &BreakScope, by: &Breaker) -> Vec<Statement> {
    let owner = scope.owner().map(owner_hex).unwrap_or_default();
    let fence = scope.grant().map_or(String::new(), |fence| fence.to_string());
    let free = [sql!("break_free"), sql!("break_free_holder")];
    let free =
        free.into_iter().filter(|_| fence.is_empty()).map(|sql| Statement::of(sql, [key.as_str(), &owner]));
    let tell = [sql!("break_tell"), sql!("break_tell_holder")];
    let tell = tell.map(|sql| Statement::of(sql, [key.as_str(), &owner, by.as_str(), &fence]));
    free.chain(tell).collect()
}

/// All of these keys; without any, of all keys.
fn of_keys(sql: &'static str, keys: &[Key]) -> Statement {
    Statement::of(sql, [names_of(&keys.iter().collect::<Vec<_>>())])
}

/// A list of keys as a statement takes it.
fn names_of(keys: &[&Key]) -> String {
    let names: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
    serde_json::to_string(&names).unwrap_or_default()
}

pub fn survey(keys: &[Key]) -> [Statement; 2] {
    [of_keys(sql!("holders"), keys), of_keys(sql!("waiters"), keys)]
}

pub fn history(keys: &[Key]) -> Statement {
    of_keys(sql!("history"), keys)
}

/// Adds a run to the history, of which the last `keep` stay, or counts a call that did not get the lock.
pub fn record(key: &Key, run: Option<&RunRecord>, keep: u8) -> Vec<Statement> {
    let lock = Statement::of(sql!("lock"), [key.as_str()]);
    let Some(run) = run else { return vec![lock, Statement::of(sql!("skip"), [key.as_str()])] };
    let keep = keep.to_string();
    vec![
        lock,
        Statement::of(sql!("record"), [key.as_str(), &run.to_json(), &keep]),
        Statement::of(sql!("forget_runs"), [key.as_str(), &keep]),
    ]
}

/// Forgets what nobody has used for long.
pub fn forget() -> [Statement; 3] {
    [sql!("forget_history"), sql!("forget_locks"), sql!("forget_waiters")].map(Statement::plain)
}
