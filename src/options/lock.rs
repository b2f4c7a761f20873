//! The options of a lock that is to be acquired.

use std::collections::BTreeMap;
use std::env;
use std::time::Duration;

use super::config::PoolMember;
use super::inputs::Inputs;
use super::label;
use crate::cli::{LockArgs, Until};
use crate::error::Failure;
use crate::lock::{
    Capabilities, DurationText, Key, Lease, Mode, Patience, Priority, Ttl, Unsupported, Wait, Wanted,
};

pub struct LockOptions {
    /// In lock order.
    pub keys: Vec<Key>,
    /// The keys above others in a tree, also among `keys`: a reader takes them.
    pub above: Vec<Key>,
    /// One of them is enough.
    pub one_of: bool,
    /// The members of a pool, with their properties.
    pub pool: Vec<PoolMember>,
    pub mode: Mode,
    /// The permits that it takes of a semaphore.
    pub take: u32,
    pub ttl: Ttl,
    pub patience: Patience,
    /// Waiters with this flag that came earlier go home.
    pub supersedes: bool,
    /// The holder of the lock is to stop.
    pub replaces: bool,
    pub priority: Priority,
    pub shown: Shown,
    pub min_hold: Duration,
    pub replicas: u8,
}

/// The process for which a lock is acquired, as others see it.
pub struct Shown {
    pub pid: u32,
    pub label: String,
    /// Nobody keeps the lock.
    pub by_hand: bool,
    pub reservation: Option<Reservation>,
    /// The number of the run.
    pub sequence: Option<u64>,
}

/// The lock is for a person, until a time.
pub struct Reservation {
    /// In milliseconds since the Unix epoch.
    pub until: u64,
    /// May be empty.
    pub reason: String,
}

impl LockOptions {
    /// The variables about the member of a pool that was acquired. A variable of another member is empty: it would mislead.
    pub fn pool_variables(&self, leases: &[Lease]) -> Vec<(String, String)> {
        let is_granted = |member: &&PoolMember| leases.iter().any(|lease| lease.request.key == member.key);
        let around = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let around = around.filter(|name| !self.pool.is_empty() && name.starts_with("REDLOCK_POOL_"));
        let others = self.pool.iter().flat_map(PoolMember::variables).map(|(name, _)| name);
        let mut all: BTreeMap<String, String> =
            around.chain(others).map(|name| (name, String::new())).collect();
        all.extend(self.pool.iter().filter(is_granted).flat_map(PoolMember::variables));
        all.into_iter().collect()
    }

    pub fn resolve(args: &LockArgs, inputs: &Inputs, shown: Shown) -> Result<LockOptions, Failure> {
        let mode = match args.permits {
            _ if args.exclusive => Mode::Exclusive,
            Some(permits) => Mode::Semaphore(permits),
            None if args.shared => Mode::Shared,
            None => Mode::Exclusive,
        };
        // The keys of a pool have the prefix of all keys by now.
        let member = |(member, key): (&PoolMember, &Key)| member.with_key(key);
        let pool = inputs.files.pool.iter().zip(&args.keys).map(member).collect();
        let above = if args.tree { keys_above(&args.keys, inputs.files.key_prefix())? } else { Vec::new() };
        if let Some(outer) = args.keys.iter().find(|key| above.contains(key)) {
            return Err(Failure::usage(format!(
                "--tree: '{outer}' contains other keys that are given; leave them out"
            )));
        }
        if above.len() + args.keys.len() > MAX_KEYS {
            let count = above.len();
            let why = format!(
                "--tree adds {count} keys; one command takes at most {MAX_KEYS}, so use fewer levels"
            );
            return Err(Failure::usage(why));
        }
        let keys = lock_order([&args.keys[..], &above].concat())?;
        let min_hold = args.min_hold.map_or(Duration::ZERO, |text| text.0);
        let (ttl, replicas, priority, take) = (args.ttl, args.replicas, args.priority, args.take.get());
        let take = if let Mode::Semaphore(_) = mode { take } else { 1 };
        let wanted = Wanted { keys: &keys, mode, ttl, min_hold, replicas, priority, take };
        let supported = inputs.global.server.capabilities().check(&wanted);
        supported.map_err(|unsupported| refusal(unsupported, &wanted, inputs))?;
        let wait = match args.wait {
            _ if args.no_wait => Wait::No,
            Some(wait) => wait.unwrap_or(Wait::Forever),
            None => Wait::No,
        };
        if let Some((option, why)) = contradiction(args, &keys, wait, inputs) {
            let setting = inputs.files.setting(&option.replace('_', "-"));
            return Err(Failure::configuration(format!("{}: {why}", inputs.sources.name(option, setting))));
        }
        let supersedes = args.supersede || args.replace;
        // The last one always waits.
        let queue_limit = args.queue_limit.filter(|_| !supersedes).map(|limit| limit.get() as usize);
        let label = args.label.clone().or_else(|| label::of_ci_run(|name| env::var(name).ok()));
        Ok(LockOptions {
            keys,
            above,
            one_of: args.one_of,
            pool,
            mode,
            take,
            ttl,
            patience: Patience { wait, queue_limit },
            supersedes,
            replaces: args.replace,
            priority,
            shown: Shown { label: label.unwrap_or(shown.label), ..shown },
            min_hold,
            replicas,
        })
    }
}

/// The first option that does not go with the others, or not with the store, and why.
fn contradiction(
    args: &LockArgs,
    keys: &[Key],
    wait: Wait,
    inputs: &Inputs,
) -> Option<(&'static str, &'static str)> {
    let (store, takes_from_file) =
        (inputs.global.server.capabilities(), inputs.files.setting("take").is_some());
    let no_queue = "waiters form no queue in this store, so nobody knows who they are; leave it out";
    let (waits, supersedes) = (!matches!(wait, Wait::No), args.supersede || args.replace);
    let is_shared = !args.exclusive && (args.shared || args.permits.is_some());
    let cannot_wait = store.one_of.err().unwrap_or_default();
    // Whatever number of members --with leaves.
    let chooses = args.one_of || args.pool.is_some();
    let permits = args.permits;
    let no_readers = store.shared.err().unwrap_or_default();
    let refused = [
        ("tree", args.tree && !no_readers.is_empty(), no_readers),
        ("tree", args.tree && is_shared, "it takes KEY alone; leave out --shared and --permits"),
        (
            "tree",
            args.tree && chooses,
            "it does not go with --one-of or --pool, which take one of several keys",
        ),
        (
            "tree",
            args.tree && supersedes,
            "it does not go with --supersede or --replace, which are for one lock",
        ),
        (
            "take",
            args.take.get() > 1 && permits.is_none() && !takes_from_file,
            "it takes several permits of a semaphore; add --permits",
        ),
        (
            "take",
            permits.is_some_and(|permits| args.take > permits),
            "it is more than the number of --permits",
        ),
        ("replace", args.replace && !store.queue, no_queue),
        ("supersede", args.supersede && !store.queue, no_queue),
        ("queue_limit", args.queue_limit.is_some() && !store.queue, no_queue),
        ("one_of", args.one_of && keys.len() < 2, "it chooses among several keys; give another one with -k"),
        (
            "one_of",
            chooses && is_shared,
            "it takes an exclusive lock; for one of N equal places use --permits alone",
        ),
        (
            "one_of",
            chooses && supersedes,
            "it does not go with --supersede or --replace, which are for one lock",
        ),
        ("one_of", args.one_of && waits && !cannot_wait.is_empty(), cannot_wait),
        (
            "priority",
            supersedes && !args.priority.is_default(),
            "it does not go with --supersede or --replace, which go by arrival",
        ),
        (
            "replace",
            args.replace && is_shared,
            "it takes the place of one holder; use it with an exclusive lock",
        ),
        ("replace", args.replace && !waits, "the holder takes some time to stop; add --wait"),
    ];
    refused.into_iter().find(|(_, is_refused, _)| *is_refused).map(|(option, _, why)| (option, why))
}

/// Says what the store cannot do, with the source of the value.
fn refusal(unsupported: Unsupported, wanted: &Wanted, inputs: &Inputs) -> Failure {
    let Wanted { ttl, min_hold, replicas, .. } = wanted;
    let (option, what) = match unsupported {
        Unsupported::Replicas(why) => ("replicas", format!(" {replicas}: {why}")),
        Unsupported::Shared(why) => ("shared", format!(": {why}")),
        Unsupported::Semaphore(why) => ("permits", format!(": {why}")),
        Unsupported::Take(why) => ("take", format!(": {why}")),
        Unsupported::Priority(why) => ("priority", format!(": {why}")),
        Unsupported::Key(key, why) => ("key", format!(" '{key}': {why}")),
        Unsupported::ShortTtl { shortest } => {
            let shortest = DurationText(shortest);
            ("ttl", format!(" {ttl} is too short for this store; use {shortest} or longer"))
        }
        Unsupported::LongTtl { longest } => {
            let longest = DurationText(longest);
            ("ttl", format!(" {ttl} is too long for this store; use {longest} or shorter"))
        }
        Unsupported::LongMinHold { longest } => {
            let [min_hold, longest] = [*min_hold, longest].map(DurationText);
            ("min_hold", format!(" {min_hold} is too long for this store; use {longest} or shorter"))
        }
        Unsupported::UnevenTtl { step } => {
            ("ttl", format!(" {ttl}: this store counts in steps of {}", DurationText(step)))
        }
    };
    let source = inputs.sources.name(option, inputs.files.setting(option));
    Failure::configuration(source + &what)
}

/// The TTL of a lease that ends at this time, or as soon after it as the store can end it.
pub fn ttl_until(until: &Until, store: &Capabilities) -> Result<Ttl, Failure> {
    let (left, step) = (until.left().max(store.shortest_ttl), store.ttl_resolution.as_millis().max(1));
    let longest = store.longest_ttl.unwrap_or(Duration::MAX);
    if left > longest {
        let [left, longest] = [left, longest].map(DurationText);
        return Err(Failure::configuration(format!(
            "--until {until} is {left} from now, which is too long for this store; use a time within {longest}"
        )));
    }
    let millis = left.as_millis().div_ceil(step).saturating_mul(step) as u64;
    Ttl::of(Duration::from_millis(millis)).map_err(|why| Failure::usage(format!("--until {until}: {why}")))
}

pub fn kill_after(chosen: Option<DurationText>, ttl: Ttl) -> Duration {
    chosen.map_or(ttl.default_kill_after(), |text| text.0)
}

/// The environment of a command takes 128 KiB for one variable (execve(2)), and REDLOCK_OUTER has each key and more.
const MAX_KEYS: usize = 64;

/// The keys above these in a tree, each once. All keys have this prefix.
pub fn keys_above(keys: &[Key], prefix: Option<&str>) -> Result<Vec<Key>, Failure> {
    let all: Result<Vec<_>, _> = keys.iter().map(|key| key.above(prefix.unwrap_or_default())).collect();
    let mut all = all.map_err(|why| Failure::usage(format!("--tree: {why}")))?.concat();
    all.sort();
    all.dedup();
    Ok(all)
}

/// Lock ordering prevents deadlock.
pub fn lock_order(mut keys: Vec<Key>) -> Result<Vec<Key>, Failure> {
    keys.sort();
    if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Failure::usage(format!("the key '{}' is given twice", pair[0])));
    }
    match keys.len() {
        ..=MAX_KEYS => Ok(keys),
        count => {
            Err(Failure::usage(format!("{count} keys are too many; one command takes at most {MAX_KEYS}")))
        }
    }
}
