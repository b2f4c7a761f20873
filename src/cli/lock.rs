//! The options of a lock that is to be acquired.

use std::num::NonZeroU32;

use clap::Args;

use super::pool::PoolProperty;
use crate::lock::{DurationText, Key, Metadata, Priority, Ttl, Wait};

#[derive(Debug, Args)]
pub struct LockArgs {
    /// Take this lock; repeat -k for several
    ///
    /// 1 to 512 bytes of UTF-8 without control characters. You can also give the key as the first word. With several keys
    /// redlock takes all or none, always in the same order, so two runs cannot deadlock.
    #[arg(short, long = "key", value_name = "KEY")]
    pub keys: Vec<Key>,
    /// Take one of the locks, whichever is free first
    ///
    /// REDLOCK_KEY says which one it is. With --wait, redlock waits in all of the queues until the first grant. etcd,
    /// ZooKeeper, a quorum and Memcached allow it only without --wait. In a Redis Cluster the keys need one hash tag. The lock
    /// is exclusive; --supersede and --replace do not go with it. `acquire` wants --format env, fish, json or github with it.
    #[arg(long, hide_short_help = true)]
    pub one_of: bool,
    /// Take one of the locks of a pool in the configuration
    ///
    /// Like --one-of with the members of [pools.NAME]. The properties of the member are in the environment:
    /// REDLOCK_POOL_SERIAL is its `serial`. See CONFIGURATION in redlock(1).
    #[arg(long, hide_short_help = true, value_name = "NAME", conflicts_with_all = ["keys", "one_of"])]
    pub pool: Option<String>,
    /// Take only pool members with this property
    ///
    /// label=android is one of a member's `labels`; any other name is that of a property. Repeat it to require several.
    #[arg(long = "with", hide_short_help = true, value_name = "NAME=VALUE", requires = "pool")]
    pub pool_with: Vec<PoolProperty>,
    /// Set how long the lease lives
    ///
    /// This is its life without renewal, such as 500ms, 30s, 5m or 1h30m. A bare number is seconds. `run` and
    /// `acquire --while-pid` renew the lease after a third of that. Without renewal the lock is free when the lease ends.
    #[arg(short, long, value_name = "DURATION", env = "REDLOCK_TTL", default_value = "30s")]
    pub ttl: Ttl,
    /// Wait for the lock instead of failing with 75
    ///
    /// Without a value the wait has no end; with one (--wait=5m, --wait 5m, -w 5m) it ends after that time, with 75. A word
    /// after --wait is its value when it is a duration. If the store cannot be reached, redlock also retries until that
    /// time, then exits with 69. In a file, and in the variable: true, false, or a duration.
    #[arg(short, long, value_name = "DURATION", num_args = 0..=1, require_equals = true, env = "REDLOCK_WAIT", value_parser = wait)]
    pub wait: Option<Option<Wait>>,
    /// Do not wait; undo a configured wait
    #[arg(short, long, hide_short_help = true, conflicts_with = "wait", overrides_with = "no_wait", aliases = ["nonblock", "nb"])]
    pub no_wait: bool,
    /// Exit with 75 if N others wait already
    ///
    /// This limits --wait: where N waiters are ahead in the queue of the lock, redlock does not join it. A waiter that was killed
    /// may count until its turn; one with a lower --priority does not.
    #[arg(long, hide_short_help = true, value_name = "N", env = "REDLOCK_QUEUE_LIMIT", value_parser = queue_limit, allow_negative_numbers = true)]
    pub queue_limit: Option<NonZeroU32>,
    /// Wait ahead of those with a lower priority
    ///
    /// With --wait. N is -100 to 100, and each step counts as about an hour of waiting, so nobody waits for ever. Waiters of
    /// equal priority are served in the order of arrival. It does not go with --supersede or --replace. etcd, ZooKeeper, a
    /// quorum and Memcached refuse it (78).
    #[arg(
        long,
        hide_short_help = true,
        value_name = "N",
        env = "REDLOCK_PRIORITY",
        default_value = "0",
        allow_negative_numbers = true
    )]
    pub priority: Priority,
    /// Take the place of earlier waiters with this option
    ///
    /// With --wait: of the waiters with this option only the last one stays, and --queue-limit does not count. The others exit
    /// with 75 some seconds later and say who came. Waiters without the option stay.
    #[arg(long, hide_short_help = true, env = "REDLOCK_SUPERSEDE", value_parser = super::switch)]
    pub supersede: bool,
    /// Stop the run that holds the lock, and take its place
    ///
    /// With --wait: redlock tells the holder to stop, as `redlock break` does, and gets the lock when that job is dead. Earlier
    /// waiters go first, but those with --replace or --supersede give up (75). The holder stops at its next renewal, and exits
    /// with 79. Reservations, locks that --min-hold keeps, and locks of other programs stay. A holder with --on-lost continue
    /// runs on without the lock. A lock taken by hand stays until its lease ends.
    #[arg(long, hide_short_help = true, env = "REDLOCK_REPLACE", value_parser = super::switch)]
    pub replace: bool,
    /// Take the lock alone; undo a configured --shared or --permits
    #[arg(short = 'x', long, hide = true, conflicts_with_all = ["shared", "permits"], overrides_with = "exclusive")]
    pub exclusive: bool,
    /// Take a shared (reader) lock
    ///
    /// Any number of readers (--shared) hold the lock together; a writer (without --shared) holds it alone.
    #[arg(short, long, env = "REDLOCK_SHARED", value_parser = super::switch, conflicts_with = "permits")]
    pub shared: bool,
    /// Take one of N permits: N may hold it at once
    ///
    /// REDLOCK_PERMIT is the number of the permit, 0 to N-1: the lowest that no other holder has. etcd and ZooKeeper do not
    /// give numbers. `redlock resize` changes N while the lock is in use.
    #[arg(short, long, value_name = "N", env = "REDLOCK_PERMITS", value_parser = permits, allow_negative_numbers = true)]
    pub permits: Option<NonZeroU32>,
    /// Take N of the permits at once
    ///
    /// With --permits: a heavy job takes several. REDLOCK_PERMIT has their numbers, such as 0,1,5. No lighter job behind it in the
    /// queue overtakes it. At most 1000. etcd and ZooKeeper refuse it (78).
    #[arg(
        long,
        hide_short_help = true,
        value_name = "N",
        env = "REDLOCK_TAKE",
        default_value = "1",
        value_parser = take,
        allow_negative_numbers = true
    )]
    pub take: NonZeroU32,
    /// Take a part of a tree: data/eu excludes data and data/eu/x
    ///
    /// `/` separates the levels of KEY. redlock takes the keys above KEY as a reader, from the top down, and KEY alone. This
    /// excludes holders of KEY and of the keys above it. It excludes holders of the keys below KEY if they use --tree, so set it
    /// for the whole tree, best in the configuration. See SEVERAL KEYS in redlock(1).
    ///
    /// It does not go with --shared, --permits, --one-of, --pool, --supersede, --replace, --once-per and --sequence. Memcached
    /// refuses it (78).
    #[arg(long, hide_short_help = true, env = "REDLOCK_TREE", value_parser = super::switch)]
    pub tree: bool,
    /// Show others this text in status and while they wait
    ///
    /// Without it they see the URL of the CI run (GitHub, GitLab, Jenkins), or else the name of the program and of the
    /// script that it runs; never its arguments, which may be secret.
    #[arg(long, hide_short_help = true, value_name = "TEXT", env = "REDLOCK_LABEL")]
    pub label: Option<String>,
    /// Keep the lock at least this long, even when released sooner
    ///
    /// The time counts from when the lock was acquired. Set it above the clock skew between hosts, so that a cron job runs once.
    #[arg(long, hide_short_help = true, value_name = "DURATION", env = "REDLOCK_MIN_HOLD")]
    pub min_hold: Option<DurationText>,
    /// Require the lock on N replicas of the Redis server
    #[arg(long, hide_short_help = true, value_name = "N", env = "REDLOCK_REPLICAS", default_value = "0", value_parser = replicas, allow_negative_numbers = true)]
    pub replicas: u8,
}

impl LockArgs {
    /// The keys of its pool, of which one is enough.
    pub fn choose_from(&mut self, keys: Vec<Key>) {
        self.one_of = keys.len() > 1;
        self.keys = keys;
    }
}

fn wait(text: &str) -> Result<Wait, String> {
    match text {
        "true" | "yes" | "on" => Ok(Wait::Forever),
        "false" | "no" | "off" => Ok(Wait::No),
        limit => limit.parse::<DurationText>().map(|limit| Wait::AtMost(limit.0)),
    }
}

pub fn permits(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| "the number of permits is 1 or more, for example --permits 3".to_owned())
}

fn take(text: &str) -> Result<NonZeroU32, String> {
    let most = Metadata::MOST_PERMITS;
    let take = text.parse().ok().filter(|take: &NonZeroU32| take.get() <= most);
    take.ok_or_else(|| format!("a holder takes 1 to {most} permits, for example --permits 16 --take 4"))
}

fn queue_limit(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| "the number of waiters is 1 or more; nobody waits with --no-wait".to_owned())
}

pub fn replicas(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| "the number of replicas is 0 to 255, for example --replicas 1".to_owned())
}
