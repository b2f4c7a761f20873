use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use thiserror::Error;

use super::{DurationText, FencingToken, Key, Metadata, Mode, OwnerToken, Request};
use crate::clock::Deadline;

/// How long a call may take, and what ends it early.
#[derive(Clone, Copy)]
pub struct Timeout<'a> {
    /// When the call is over, with an answer or without.
    pub until: Deadline,
    /// When this becomes readable the call returns [`StoreError::Interrupted`].
    pub interrupt: Option<BorrowedFd<'a>>,
}

impl<'a> Timeout<'a> {
    /// At most `duration`, whatever happens.
    pub fn of(duration: Duration) -> Timeout<'static> {
        Timeout { until: Deadline::after(duration), interrupt: None }
    }

    /// At most `duration`, or until `interrupt` is readable.
    pub fn or_interrupt(duration: Duration, interrupt: BorrowedFd<'a>) -> Timeout<'a> {
        Timeout { until: Deadline::after(duration), interrupt: Some(interrupt) }
    }

    /// A part for one of so many calls, so that one that hangs leaves time for the others.
    pub fn share(&self, calls: usize) -> Timeout<'a> {
        let part = Deadline::after(self.until.left() / calls.max(1) as u32);
        Timeout { until: self.until.min(part), ..*self }
    }

    /// Lets some time pass, at most `duration`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Interrupted`].
    pub fn pause(&self, duration: Duration) -> Result<(), StoreError> {
        let mut fds: Vec<PollFd> =
            self.interrupt.iter().map(|interrupt| PollFd::new(*interrupt, PollFlags::POLLIN)).collect();
        // poll(2) would wait for whole milliseconds. A pause that a signal cuts short is no harm.
        match ppoll(&mut fds, Some(duration.into()), None) {
            Ok(1..) => Err(StoreError::Interrupted),
            _ => Ok(()),
        }
    }
}

/// The answer to requests for locks.
#[derive(Debug)]
pub enum Take {
    /// The locks are held for their TTL, counted from before the call: a fencing token for each.
    Granted(Vec<FencingToken>),
    /// Nothing was granted, as one of them is not to be had now.
    Busy(Busy),
}

/// Why a lock was not granted now.
#[derive(Clone, Debug)]
pub struct Busy {
    pub key: Key,
    /// Who has it; `None` when the store cannot say.
    pub holder: Option<Holder>,
    /// How many waiters are served earlier; `None` where there is no queue.
    pub ahead: Option<usize>,
}

impl Busy {
    /// The store cannot say who holds the lock.
    pub fn by_unknown(key: Key) -> Busy {
        Busy { key, holder: None, ahead: Some(0) }
    }
}

/// A lock in somebody's hands, as the store knows it.
#[derive(Clone, Debug, Default)]
pub struct Holder {
    /// `None` when the holder is not a redlock and left nothing but its token.
    pub metadata: Option<Metadata>,
    /// Of its grant; `None` when the holder is not a redlock.
    pub fence: Option<FencingToken>,
    /// When it was granted, in milliseconds since the Unix epoch.
    pub since: Option<u64>,
    /// What is left of the lease; `None` when it never expires.
    pub left: Option<Duration>,
    /// The lock was broken: its holder is to stop, and the next one gets it when it did.
    pub broken: bool,
}

/// The answer to a renewal.
#[derive(Debug)]
pub enum Renewal {
    Extended,
    /// Nobody held the lock, nobody else was granted it since: it is held again.
    Healed,
    /// Somebody gave it back with this token, and nobody else was granted it since.
    Released,
    /// Another holds it, or was granted it since.
    Lost(Option<Holder>),
}

/// The state of one key, for `status`.
#[derive(Debug)]
pub struct LockStatus {
    pub key: Key,
    /// As what it is in use; exclusive when it is not.
    pub kind: Mode,
    /// More than one only of a lock that several hold.
    pub holders: Vec<Holder>,
    /// In the order in which they are served.
    pub waiters: Vec<Waiter>,
}

/// What can be seen of the locks.
#[derive(Debug, Default)]
pub struct Survey {
    pub locks: Vec<LockStatus>,
    /// Why there may be more, and is not seen.
    pub hidden: Vec<StoreError>,
}

impl Survey {
    /// Nothing is hidden.
    pub fn of_all(locks: Vec<LockStatus>) -> Survey {
        Survey { locks, hidden: Vec::new() }
    }

    fn complete(mut self) -> Result<Vec<LockStatus>, StoreError> {
        if self.hidden.is_empty() { Ok(self.locks) } else { Err(self.hidden.swap_remove(0)) }
    }
}

/// Somebody in the queue.
#[derive(Debug)]
pub struct Waiter {
    pub kind: Mode,
    pub metadata: Metadata,
}

/// What `break` did.
#[derive(Debug)]
pub enum Broken {
    /// Nobody held the lock.
    Free,
    /// The holder is told at its next renewal; the lock is free when it stopped its job, or when
    /// its lease ends.
    Told(Holder),
    /// The lock was taken away at once.
    Freed(Holder),
    /// Another owner token holds the lock than the one to be broken.
    Other(Holder),
}

/// Why a store did not do what it was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// No answer, so the outcome is unknown.
    #[error("cannot reach {store}: {why}")]
    Unreachable {
        store: String,
        why: String,
        /// Whether asking again within seconds makes sense.
        transient: bool,
    },
    /// Fewer replicas than wanted have it.
    #[error("only {acknowledged} of {wanted} replicas have '{key}' within {}{then}", DurationText(*.within))]
    NotReplicated {
        key: Key,
        acknowledged: u64,
        wanted: u8,
        within: Duration,
        /// What was done about it.
        then: &'static str,
    },
    /// The login was refused, or a permission is missing.
    #[error("{store} refuses: {why}")]
    Denied { store: String, why: String },
    /// The key holds something that is not a lock.
    #[error("'{key}' is not a lock: {store} has {found}; choose another key")]
    NotALock { store: String, key: Key, found: String },
    /// The key is in use as another kind of lock than the one asked for.
    #[error("'{key}' is in use as {}; {}", in_use(.found), how_to_join(.found))]
    OtherKind { key: Key, found: Mode },
    /// The store itself cannot be used.
    #[error("{store} cannot be used: {why}")]
    Unusable { store: String, why: String },
    /// The interrupt of the [`Timeout`] came first; the outcome is unknown.
    #[error("interrupted")]
    Interrupted,
}

fn in_use(found: &Mode) -> String {
    match found {
        Mode::Permits(permits) => format!("a semaphore of {permits}"),
        _ => "a lock without permits".to_owned(),
    }
}

fn how_to_join(found: &Mode) -> String {
    match found {
        Mode::Permits(permits) => format!("ask with --permits {permits}, or choose another key"),
        _ => "ask without --permits, or choose another key".to_owned(),
    }
}

/// Where locks are kept.
///
/// Every call is atomic in the store, bounded by its [`Timeout`], and safe to repeat after an
/// unknown outcome: the owner token recognises itself.
///
/// # Errors
///
/// After [`StoreError::Unreachable`], [`StoreError::NotReplicated`] and [`StoreError::Interrupted`] the outcome is
/// unknown: what may have been taken is to be withdrawn, or runs out.
pub trait Store: Send {
    /// Asks for locks once, without a place in the queue: all of them are granted, or none. The requests
    /// differ in nothing but their keys. Never overtakes a waiter.
    fn take(&mut self, requests: &[Request], patience: &Timeout) -> Result<Take, StoreError>;

    /// Asks for one lock and takes a place in its queue, or keeps the one it has. Until the grant is settled
    /// or withdrawn, it is the only place.
    fn line_up(&mut self, request: &Request, patience: &Timeout) -> Result<Take, StoreError>;

    /// Waits until it makes sense to call [`Store::line_up`] again: `true`, or `false` when the
    /// patience ended first.
    fn wait(&mut self, patience: &Timeout) -> Result<bool, StoreError>;

    /// Does ahead, while there is time, what the confirmation of a grant and its release begin with.
    fn get_ready(&mut self) {}

    /// To be called after a grant when nothing is urgent any more: tells the next in line that it is the
    /// first.
    fn settle(&mut self) {}

    /// Extends the lease to one TTL from now; one that is longer stays. With the `fence` of the grant a
    /// lock that is gone is taken again if nobody else was granted it since, and one that was given back
    /// is told from one that is lost.
    fn renew(
        &mut self,
        request: &Request,
        fence: Option<FencingToken>,
        patience: &Timeout,
    ) -> Result<Renewal, StoreError>;

    /// Gives each lock to its first live waiter, or frees it; before the end of its `min_hold` it goes on
    /// for nobody until then. `false` for one that this token did not hold.
    fn release(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        patience: &Timeout,
    ) -> Result<Vec<bool>, StoreError>;

    /// Leaves the queue and gives back at once what was taken, or may have been by a take whose answer is
    /// still out.
    fn withdraw(&mut self, requests: &[Request], patience: &Timeout) -> Result<(), StoreError>;

    /// What is left of the lease of this token: `None` when it does not hold the lock,
    /// `Duration::MAX` when the lock never expires.
    fn check(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        patience: &Timeout,
    ) -> Result<Option<Duration>, StoreError>;

    /// Holders and waiters of these keys, or of every key that redlock knows, as far as they can be seen: a server
    /// that does not answer hides what it has, and nothing else.
    fn survey(&mut self, keys: &[Key], patience: &Timeout) -> Result<Survey, StoreError>;

    /// The same; an error unless it is all.
    fn status(&mut self, keys: &[Key], patience: &Timeout) -> Result<Vec<LockStatus>, StoreError> {
        self.survey(keys, patience)?.complete()
    }

    /// Takes the lock away from its holder, or from `token` only.
    fn break_lock(
        &mut self,
        key: &Key,
        token: Option<&OwnerToken>,
        patience: &Timeout,
    ) -> Result<Broken, StoreError>;
}
