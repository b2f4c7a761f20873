//! The owner of locks: a session, and the locks that are held in it.

use std::thread::sleep;
use std::time::Duration;

use super::calls::{Condition, ZooKeeperCalls};
use super::client::SessionClient;
use super::connection::TransactionReply;
use super::contender::Contender;
use super::error::ZooKeeperResult;
use super::layout::ZooKeeperAddress;
use super::message::{Code, Operation};
use super::session::Session;
use crate::clock::{BootTime, Deadline};
use crate::lock::{Key, OwnerToken, Timeout};
use crate::poll::Backoff;
use crate::store::HANDOVER;
use crate::store::call_error::CallError;

/// Between two attempts to extend a session that another process extends, too.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Attempts go on for at least this long, if the timeout allows.
const LEAST_TIME: Duration = Duration::from_secs(1);

/// A session, and the locks that are held in it.
///
/// # Deadlines
///
/// A lease ends at the earliest one TTL after the call that granted or extended it was begun, since each such call does two
/// things, one after the other, on one connection:
///
/// 1. It begins a session or continues one. That the session is valid is said by the leader, who counts its timeout from then
///    (`LeaderZooKeeperServer.checkIfValidGlobalSession` calls `touchSession`; a new session is tracked from its creation
///    on).
/// 2. It writes, even if it changes nothing (a multi of checks). A majority accepts that from their leader only, so the one
///    who counts was the leader still. Another one that is elected later counts the whole timeout from its own
///    start (`LeaderSessionTracker`), and all of them round up (`ExpiryQueue`).
///
/// A grant may do without the first where the session was begun shortly before; it counts from then.
///
/// The usual signs of life say less. A follower answers pings, and tells its leader about them when that asks for it, twice
/// a tick: one that is cut off goes on answering after the session has expired elsewhere. A write of a follower's client
/// does not count as a sign of life for the leader either: that comes with the next answer to the leader's question.
pub struct Owner {
    pub token: OwnerToken,
    pub(super) client: SessionClient,
    pub(super) held: Vec<Held>,
    /// A request for locks was sent, and its answer is not known.
    pub(super) is_unsure: bool,
    /// From when the last grant counts, where its session was begun so shortly before that it was not continued.
    pub counted_from: Option<BootTime>,
}

pub struct Held {
    key: Key,
    contender: Contender,
    min_hold: Duration,
    granted: BootTime,
    /// It was broken, and its holder may go on until then: nobody renews it, while others in the session are.
    ends: Option<Deadline>,
}

/// The result of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Held,
    /// Its holder is to stop.
    Broken,
    /// The nodes, or one of them, were deleted.
    Gone,
    /// The session ended.
    Expired,
}

impl Owner {
    pub fn new(token: OwnerToken, address: &ZooKeeperAddress, ttl: Duration) -> Owner {
        Owner {
            token,
            client: SessionClient::new(address, ttl),
            held: Vec::new(),
            is_unsure: false,
            counted_from: None,
        }
    }

    /// The owner of a lock that another process was granted.
    pub fn adopt(token: OwnerToken, address: &ZooKeeperAddress, session: Session) -> Owner {
        Owner {
            client: SessionClient::continuing(address, session),
            ..Owner::new(token, address, Duration::ZERO)
        }
    }

    pub fn has(&self, key: &Key) -> bool {
        self.held(key).is_some()
    }

    pub fn session(&self) -> Option<&Session> {
        self.client.session()
    }

    fn held(&self, key: &Key) -> Option<&Held> {
        self.held.iter().find(|held| held.key == *key)
    }

    /// From now on the lock is held.
    pub fn hold(&mut self, key: Key, contender: Contender, min_hold: Duration) {
        self.held.retain(|held| held.key != key);
        self.held.push(Held { key, contender, min_hold, granted: BootTime::now(), ends: None });
    }

    /// There is time to begin the session of a grant to come.
    pub fn prepare(&mut self, timeout: &Timeout) {
        if self.client.session().is_none() {
            let _ = self.client.connect(timeout);
        }
    }

    /// Extends the session, and says what became of locks in it.
    pub fn renew(
        &mut self,
        keys: &[&Key],
        calls: &ZooKeeperCalls,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Vec<State>> {
        let held = keys.iter().filter_map(|key| self.held(key));
        let checks: Vec<Operation> = held.map(|held| calls.check(&held.key, &held.contender)).collect();
        if checks.is_empty() {
            return Ok(vec![State::Gone; keys.len()]);
        }
        let mut replies = match self.extend(&checks, timeout) {
            Ok(replies) => replies.into_iter(),
            Err(CallError::Expired) => {
                self.held.clear();
                return Ok(vec![State::Expired; keys.len()]);
            }
            Err(error) => return Err(error),
        };
        let mut states = Vec::with_capacity(keys.len());
        for &key in keys {
            let reply = if self.has(key) { replies.next() } else { None };
            states.push(match reply.map(|reply| reply.answer) {
                Some(Ok(_)) => State::Held,
                Some(Err(Code::BAD_VERSION)) => {
                    let end = self.client.session().map(|session| Deadline::after(session.timeout));
                    let broken = self.held.iter_mut().find(|held| held.key == *key);
                    broken.into_iter().for_each(|held| held.ends = held.ends.or(end));
                    State::Broken
                }
                Some(Err(Code::NO_NODE)) | None => {
                    self.held.retain(|held| held.key != *key);
                    State::Gone
                }
                Some(Err(code)) => return Err(code.into()),
            });
        }
        if states.contains(&State::Held) {
            self.end_broken(calls, timeout);
        }
        Ok(states)
    }

    /// Continues the session and looks at its locks, on one connection. Another process with the token that does the
    /// same ends that connection: then both are done again.
    fn extend(&mut self, checks: &[Operation], timeout: &Timeout) -> ZooKeeperResult<Vec<TransactionReply>> {
        let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        // The rest of a long time is for another server.
        let last_attempt = timeout.at_most((timeout.until.left() / 2).max(LEAST_TIME)).until;
        loop {
            match self.client.attach(timeout).and_then(|_| self.client.call(checks, timeout)) {
                Err(error) if error.is_transient() && !last_attempt.has_passed() => {
                    timeout.pause(backoff.pause()).map_err(|_| CallError::Interrupted)?;
                }
                extended => return extended,
            }
        }
    }

    /// Frees what was broken, when its lease has ended. The next renewal makes up for a failure here.
    fn end_broken(&mut self, calls: &ZooKeeperCalls, timeout: &Timeout) {
        let Owner { held, client, .. } = self;
        held.retain(|held| {
            let has_ended = held.ends.is_some_and(Deadline::has_passed);
            !(has_ended && calls.delete(&held.key, &held.contender, client, timeout).is_ok())
        });
    }

    /// Releases locks that are held here. `false` for one that was gone.
    pub fn release(
        &mut self,
        keys: &[Key],
        calls: &ZooKeeperCalls,
        address: &ZooKeeperAddress,
        timeout: &Timeout,
    ) -> ZooKeeperResult<Vec<bool>> {
        let (mut released, mut is_awaited) = (Vec::with_capacity(keys.len()), false);
        for key in keys {
            let Some(held) = self.held(key) else {
                released.push(false);
                continue;
            };
            let (contender, left) =
                (held.contender.clone(), held.min_hold.saturating_sub(held.granted_for()));
            let was_held = match left.is_zero() {
                true => calls.release(key, &contender, &mut self.client, timeout).map(|freed| {
                    is_awaited |= freed == Some(true);
                    freed.is_some()
                }),
                false => keep(key, &contender, left, calls, address, timeout),
            };
            released.push(match was_held {
                Err(CallError::Expired) => false,
                was_held => was_held?,
            });
            self.held.retain(|held| held.key != *key);
        }
        if self.held.is_empty() {
            if is_awaited {
                sleep(HANDOVER);
            }
            self.client.dismiss();
        }
        Ok(released)
    }

    /// Ends the session, with all locks in it, and whatever is in flight for it.
    pub fn close(&mut self, timeout: &Timeout) -> ZooKeeperResult<()> {
        self.client.close(timeout)?;
        (self.held, self.is_unsure) = (Vec::new(), false);
        Ok(())
    }

    /// Ends a session that holds nothing, as far as that takes no time.
    pub fn dismiss_if_idle(&mut self) -> bool {
        let is_idle = self.held.is_empty() && !self.is_unsure;
        if is_idle {
            self.client.dismiss();
        }
        is_idle
    }
}

impl Held {
    fn granted_for(&self) -> Duration {
        BootTime::now().since(self.granted)
    }
}

/// The lock stays for a while and is nobody's: its nodes move to a session that is left alone. `false` when it was gone.
pub fn keep(
    key: &Key,
    contender: &Contender,
    left: Duration,
    calls: &ZooKeeperCalls,
    address: &ZooKeeperAddress,
    timeout: &Timeout,
) -> ZooKeeperResult<bool> {
    let mut client = SessionClient::new(address, left);
    client.connect(timeout)?;
    let Some(node) = calls.node(key, contender, &mut client, timeout)? else {
        client.dismiss();
        return Ok(false);
    };
    let untouched = Condition::Version(node.stat.version);
    let value = node.value.unwrap_or_default();
    if value.breaker().is_some() {
        let was_there = calls.delete(key, contender, &mut client, timeout)?;
        client.dismiss();
        return Ok(was_there);
    }
    let kept = calls.move_to(&mut client, key, contender, &untouched, &value.kept(left), timeout)?;
    if kept.is_none() {
        client.dismiss();
    }
    Ok(kept.is_some())
}
