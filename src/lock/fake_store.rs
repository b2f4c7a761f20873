//! A store for unit tests: it gives the answers and takes the times of its script, and notes the requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::clock::{BootTime, fake};

/// After so many milliseconds, this answer.
pub type ScriptedReply<T> = (u64, Result<T>);

/// The replies to each kind of call, in their order. Behind the last of them everything goes well at once, except that
/// no news comes.
#[derive(Default)]
pub struct FakeStore {
    pub acquire: VecDeque<ScriptedReply<AcquireOutcome>>,
    pub enqueue: VecDeque<ScriptedReply<AcquireOutcome>>,
    pub wait: VecDeque<ScriptedReply<bool>>,
    pub renew: VecDeque<ScriptedReply<Renewal>>,
    pub release: VecDeque<ScriptedReply<Vec<ReleaseOutcome>>>,
    pub cancel: VecDeque<ScriptedReply<()>>,
    /// The start of every lease, where it is before the request.
    pub counted_from: Option<BootTime>,
    pub log: Log,
}

/// The calls, each with the milliseconds since [`fake::START`].
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<(u64, String)>>>);

impl Log {
    pub fn note(&self, what: impl Into<String>) {
        let millis = BootTime::now().since(fake::START).as_millis() as u64;
        self.0.lock().expect("the log").push((millis, what.into()));
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lock().expect("the log").iter().map(|(_, what)| what.clone()).collect()
    }

    /// When something was noted that begins so.
    pub fn times(&self, what: &str) -> Vec<u64> {
        let log = self.0.lock().expect("the log");
        log.iter().filter(|(_, line)| line.starts_with(what)).map(|(millis, _)| *millis).collect()
    }
}

/// A request for the lock `key` with a TTL of 30 s.
pub fn request(key: &str) -> Request {
    let token = "token".parse().expect("a token");
    Request::new(key.parse().expect("a key"), Mode::Exclusive, token, Ttl::DEFAULT)
}

pub fn unreachable() -> StoreError {
    StoreError::Unreachable { store: "it".to_owned(), why: "no answer".to_owned(), transient: true }
}

pub fn busy(key: &str) -> ScriptedReply<AcquireOutcome> {
    (0, Ok(AcquireOutcome::Busy(Box::new(Busy::by_unknown(key.parse().expect("a key"))))))
}

fn names<'a>(keys: impl IntoIterator<Item = &'a Key>) -> String {
    keys.into_iter().map(Key::as_str).collect::<Vec<_>>().join(" ")
}

/// Time passes, and no more of it than the caller allows.
fn after<T>(reply: Option<ScriptedReply<T>>, timeout: &Timeout, usual: T) -> Result<T> {
    let (millis, answer) = reply.unwrap_or((0, Ok(usual)));
    let answered = BootTime::now().plus(Duration::from_millis(millis));
    fake::move_to(answered.min(timeout.until));
    if answered > timeout.until { Err(unreachable()) } else { answer }
}

impl FakeStore {
    fn granted(&self, requests: &[Request]) -> AcquireOutcome {
        let fences = (1..).map(FencingToken).take(requests.len()).collect();
        AcquireOutcome::Granted(Grant { fences, permits: Vec::new(), counted_from: self.counted_from })
    }
}

impl Store for FakeStore {
    fn capabilities(&self) -> Capabilities {
        unimplemented!("looked at before")
    }

    fn acquire(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome> {
        self.log.note(format!("acquire {}", names(requests.iter().map(|request| &request.key))));
        let usual = self.granted(requests);
        after(self.acquire.pop_front(), timeout, usual)
    }

    fn enqueue(&mut self, request: &Request, timeout: &Timeout) -> Result<AcquireOutcome> {
        self.log.note(format!("enqueue {}", request.key));
        let usual = self.granted(std::slice::from_ref(request));
        after(self.enqueue.pop_front(), timeout, usual)
    }

    fn wait(&mut self, timeout: &Timeout) -> Result<bool> {
        let reply = self.wait.pop_front();
        if reply.is_none() {
            fake::move_to(timeout.until);
        }
        after(reply, timeout, false)
    }

    fn renew(&mut self, request: &Request, _: Option<FencingToken>, timeout: &Timeout) -> Result<Renewal> {
        self.log.note(format!("renew {}", request.key));
        after(self.renew.pop_front(), timeout, Renewal::Extended)
    }

    fn release(&mut self, keys: &[Key], _: &OwnerToken, timeout: &Timeout) -> Result<Vec<ReleaseOutcome>> {
        self.log.note(format!("release {}", names(keys)));
        after(self.release.pop_front(), timeout, vec![ReleaseOutcome::Released; keys.len()])
    }

    fn cancel(&mut self, requests: &[Request], timeout: &Timeout) -> Result<()> {
        self.log.note(format!("cancel {}", names(requests.iter().map(|request| &request.key))));
        after(self.cancel.pop_front(), timeout, ())
    }

    fn check(&mut self, _: &Key, _: &OwnerToken, _: &Timeout) -> Result<Option<Duration>> {
        unimplemented!("asked by a command only")
    }
}
