//! Everything worth reporting, as data; `report` has the words for it.

mod summary;

use std::num::NonZeroU32;
use std::time::Duration;

pub use self::summary::{RunOutcome, Summary};
use crate::job::{ExitStatus, GuardLoss};
use crate::lock::{
    Busy, FencingToken, Holder, Key, LossCause, Metadata, Request, RunRecord, StoreError, Ttl,
};

/// Something that happened. `leftovers` are processes of the command that run on without the lock.
pub enum Event<'a> {
    /// The servers are an even number, of which a quorum gains nothing.
    EvenQuorum { servers: usize },
    /// The owner token stands on the command line, where every user can read it.
    TokenShown,
    /// After a crash nothing holds the lock for as long as `min_hold`.
    MinHoldExceedsTtl { min_hold: Duration, ttl: Ttl },
    /// `run` sleeps a part of `--splay` before it asks for the lock.
    Splay { pause: Duration },
    /// The locks are asked for, together, or one of them.
    Requested { requests: &'a [Request], one_of: bool },
    /// In line for the lock; the next one when nobody is ahead. Reported about once a second.
    Waiting { busy: &'a Busy, waited: Waited },
    /// The store does not answer, and is asked again.
    StoreUnreachable { error: &'a StoreError, waited: Waited },
    /// The locks were granted, or nobody waits for them any more.
    WaitEnded,
    /// The locks were granted after a wait.
    WaitedFor { keys: &'a [Key], waited: Duration },
    /// The lock is held by another, and redlock does not wait, or not any longer.
    NotAcquired { busy: &'a Busy, why: GaveUp },
    /// A later request with `--supersede` goes first.
    Superseded { key: &'a Key, by: &'a Metadata },
    /// Nothing is started: `--once-per` asks for no run so early after this success.
    AlreadyRan { key: &'a Key, success: &'a RunRecord, period: Duration },
    /// Nothing is started: a run with a higher `--sequence` than this number has begun.
    Outdated { key: &'a Key, number: u64, later: &'a RunRecord },
    /// One of the locks was granted, so long after it was asked for.
    Acquired { key: &'a Key, fence: FencingToken, waited: Duration },
    /// The command was started under these locks, inherited ones included.
    Started { keys: &'a [Key] },
    /// The leases were extended, by requests that `took` so long.
    Renewed { keys: &'a [Key], took: Duration },
    /// A lease was extended by hand.
    RenewedByHand { key: &'a Key, ttl: Ttl },
    /// Somebody at a terminal acquired the locks: nobody renews them.
    HeldByHand { keys: &'a [Key], ttl: Ttl },
    /// A variable that redlock does not know, and the one whose name is nearest, both without their `REDLOCK_`.
    UnknownVariable { name: &'a str, near: &'a str },
    /// The lease still runs for as long as `left`.
    RenewalFailed { key: &'a Key, error: &'a StoreError, left: Duration },
    /// The lock was missing in the store, for at most `gone`, and is held again.
    Healed { key: &'a Key, gone: Duration },
    /// The locks are not, or may not be, held any more.
    Lost { keys: &'a [Key], cause: &'a LossCause, consequence: LossConsequence },
    /// A lease was checked; `left` is `None` when it never expires.
    Held { key: &'a Key, left: Option<Duration> },
    /// The locks were given back.
    Released { keys: &'a [Key], leftovers: Option<&'a LeftBehind<'a>> },
    /// The release may not have reached the store: the lock is free when its lease ends.
    NotReleased { keys: &'a [Key], ttl: Ttl, error: &'a StoreError, leftovers: Option<&'a LeftBehind<'a>> },
    /// The command, or what it left behind, is stopped: it ran for longer than `--timeout`.
    TimedOut { command: &'a str, has_ended: bool, limit: Duration },
    /// The command ended and left processes behind.
    Leftovers { of: &'a LeftBehind<'a>, fate: LeftoversFate<'a> },
    /// The guard could not stop the job, so redlock killed it.
    GuardLost { keys: &'a [Key], how: GuardLoss },
    /// The lock was taken from this holder and as many others: at once, or they stop at their next renewal.
    Broken { key: &'a Key, holder: &'a Holder, others: usize, is_freed: bool },
    /// The number of permits of a semaphore was changed.
    Resized { key: &'a Key, permits: NonZeroU32, before: NonZeroU32 },
    /// A hook, such as `on-release`, did not end well. That changes nothing else.
    HookFailed { hook: &'static str, reason: &'a str },
    /// A log, or the metrics, cannot be written. That changes nothing else.
    LogFailed { reason: &'a str },
    /// The command, and what of it was not left behind, has ended.
    CommandEnded { status: ExitStatus },
    /// A subcommand failed, and exits with this status. The hint says what to do.
    Failed { reason: &'a str, hint: Option<&'a str>, exit_status: u8 },
    /// The last event of a `run` or an `acquire`, however it ended.
    Ended { summary: &'a Summary },
}

/// Why nobody waits for a busy lock any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaveUp {
    AtOnce,
    /// The wait ran out, after this long.
    After(Duration),
    /// As many waiters as `--queue-limit` allows were in line.
    QueueFull(usize),
}

/// How long somebody has stood in line, and at most will.
#[derive(Clone, Copy)]
pub struct Waited {
    pub so_far: Duration,
    pub limit: Option<Duration>,
}

/// The effect of a lost lock on the job that runs under it.
#[derive(Clone, Copy)]
pub enum LossConsequence {
    JobIsStopped,
    JobWasStopped,
    JobContinues,
    /// To its end, as nobody noticed the loss.
    JobRanOn,
    /// Only a hook still ran under the lock.
    JobHadEnded,
    NothingStarted,
    /// As before, and the lock was lost during the wait for others.
    NothingStartedAfterWait,
    /// SIGTERM was sent to this process.
    ProcessTerminated(i32),
    /// This process goes on without the lock.
    ProcessContinues(i32),
}

/// Processes that the command left behind.
pub struct LeftBehind<'a> {
    pub command: &'a str,
    /// The pid and the name of one of them, if it could be seen.
    pub one: Option<(i32, String)>,
}

/// The fate of the processes that the command left behind.
#[derive(Clone, Copy)]
pub enum LeftoversFate<'a> {
    /// The locks are held until they end.
    Awaited { keys: &'a [Key] },
    /// `--leftovers kill` stops them.
    Unwanted,
    /// They are stopped, as this signal killed the command.
    Stopped { signal: i32 },
    /// A signal was passed on to them; another one kills them.
    Signalled,
    /// They run on although the locks were lost.
    WithoutLocks { keys: &'a [Key] },
    /// They run on, and an enclosing job holds the locks.
    Unguarded { keys: &'a [Key] },
}
