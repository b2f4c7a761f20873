//! Everything worth reporting, as data; `report` has the words for it.

use std::time::Duration;

use crate::job::GuardLoss;
use crate::lock::{Busy, FencingToken, Holder, Key, LossCause, StoreError, Ttl};

/// Something that happened. `locks` is the list of names that messages use: `'a' and 'b'`. `leftovers_of` names the
/// command where processes of it run on without the lock.
pub enum Event<'a> {
    /// The servers are an even number, of which a quorum gains nothing.
    EvenQuorum { servers: usize },
    /// After a crash nothing holds the lock for as long as `min_hold`.
    MinHoldExceedsTtl { min_hold: Duration, ttl: Ttl },
    /// `run` sleeps a part of `--splay` before it asks for the lock.
    Splay { pause: Duration },
    /// In line for the lock; the next one when nobody is ahead. Reported about once a second.
    Waiting { busy: &'a Busy, waited: Duration },
    /// The store does not answer, and is asked again.
    StoreUnreachable { error: &'a StoreError, waited: Duration },
    /// The locks were granted, or nobody waits for them any more.
    WaitEnded,
    /// The lock is held by another, and redlock does not wait, or not any longer.
    NotAcquired { busy: &'a Busy, gave_up_after: Option<Duration> },
    /// One of the locks was granted.
    Acquired { key: &'a Key, fence: FencingToken },
    /// The leases were extended; `ttl` is known where they were extended by hand.
    Renewed { locks: &'a str, ttl: Option<Ttl> },
    /// The lease still runs for as long as `left`.
    RenewalFailed { key: &'a Key, error: &'a StoreError, left: Duration },
    /// The lock was missing in the store, for at most `gone`, and is held again.
    Healed { key: &'a Key, gone: Duration },
    /// The locks are not, or may not be, held any more.
    Lost { locks: &'a str, cause: &'a LossCause, consequence: LossConsequence },
    /// What is left of a lease that was checked; `None` when it never expires.
    Held { key: &'a Key, left: Option<Duration> },
    /// The locks were given back.
    Released { locks: &'a str, leftovers_of: Option<&'a str> },
    /// The release may not have reached the store: the lock is free when its lease ends.
    NotReleased { locks: &'a str, ttl: Ttl, leftovers_of: Option<&'a str> },
    /// The command ended and left processes behind.
    Leftovers { command: &'a str, fate: LeftoversFate<'a> },
    /// The guard could not stop the job, so redlock killed it.
    GuardLost { locks: &'a str, how: GuardLoss },
    /// The holder of a broken lock stops at its next renewal.
    Broken { key: &'a Key, holder: &'a Holder },
    /// A broken lock was taken from its holder at once.
    Freed { key: &'a Key, holder: &'a Holder },
    /// A subcommand failed.
    Failed { reason: &'a str },
}

/// What a lost lock means for what runs under it.
#[derive(Clone, Copy)]
pub enum LossConsequence {
    JobIsStopped,
    JobWasStopped,
    JobContinues,
    NothingStarted,
    /// As before, and the lock was lost during the wait for others.
    NothingStartedAfterWait,
    /// SIGTERM was sent to this process.
    ProcessTerminated(i32),
    /// This process goes on without the lock.
    ProcessContinues(i32),
}

/// What becomes of processes that the command left behind.
#[derive(Clone, Copy)]
pub enum LeftoversFate<'a> {
    /// The locks are held until they end.
    Awaited { locks: &'a str },
    /// They are stopped, as this signal killed the command.
    Stopped { signal: i32 },
    /// A signal was passed on to them; another one kills them.
    Signalled,
    /// They run on although the locks were lost.
    WithoutLocks { locks: &'a str },
    /// They run on, and an enclosing job holds the locks.
    Unguarded { locks: &'a str },
}
