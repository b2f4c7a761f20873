//! One server of a quorum, in a thread of its own.

use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::thread;

use nix::sys::eventfd::{EfdFlags, EventFd};
use redis::Value;

use super::identity::{self, Identity};
use crate::clock::Deadline;
use crate::lock::{Busy, FencingToken, Key, Renewal, Request, Store, StoreError, Timeout};
use crate::store::redis::keys::KeyNames;
use crate::store::redis::net::connection::Connection;
use crate::store::redis::net::failure::RequestError;
use crate::store::redis::reply::{self, Taken};
use crate::store::redis::script::Call;
use crate::store::redis::subscription::Subscription;
use crate::store::redis::topology::Target;
use crate::store::redis::{Address, Redis, take_call};

/// The caller's end of the thread.
pub struct Worker {
    errands: mpsc::Sender<Errand>,
    /// Counts the errands that were not begun.
    waiting: Arc<EventFd>,
}

/// What a worker is told to do.
pub struct Errand {
    pub until: Deadline,
    /// The next errand ends this one: nobody waits for its answer any more then. What it sent stays sent.
    pub yields: bool,
    pub run: Box<Question>,
}

type Question = dyn FnOnce(&mut Member, &Timeout) + Send;

/// What a worker found out beside the answers.
pub enum MemberAnswer {
    Identity(Identity),
    /// Where the hints of this server about this lock are heard.
    Ear(Key, Subscription),
}

/// The server, as its worker has it.
pub struct Member {
    index: usize,
    pub redis: Redis,
    /// Connections on which something was given back without an answer: it may still be carried out, and must
    /// not undo what is taken with the same token later.
    unconfirmed: Vec<Connection>,
    /// What the last request on all of these gives back.
    given_back: Vec<Key>,
    /// Such a connection broke; what was sent on it may be carried out all the same.
    is_in_doubt: bool,
    is_known: bool,
    findings: mpsc::Sender<(usize, MemberAnswer)>,
}

/// A member is one server, whatever it is asked about.
const ONLY: Target = Target::Node(0);

/// The answer to a take.
#[derive(Debug)]
pub enum MemberEvent {
    Granted(Vec<FencingToken>),
    Busy(Box<Busy>),
}

/// The answer to what gives locks back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returned {
    /// Whether each of them was held.
    Confirmed(Vec<bool>),
    /// The server hangs, or has an answer to come; it carries this out behind everything else.
    Sent,
    /// Nothing was ever asked of this server.
    Nothing,
}

impl Worker {
    /// Starts the thread, which connects when it is told to do something.
    pub fn start(
        index: usize,
        address: Address,
        findings: mpsc::Sender<(usize, MemberAnswer)>,
    ) -> std::io::Result<Worker> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_SEMAPHORE;
        let waiting = Arc::new(EventFd::from_flags(flags)?);
        let (errands, orders) = mpsc::channel::<Errand>();
        let next = Arc::clone(&waiting);
        let work = move || {
            let mut member = Member {
                index,
                redis: Redis::new(address, 0),
                unconfirmed: Vec::new(),
                given_back: Vec::new(),
                is_in_doubt: false,
                is_known: false,
                findings,
            };
            while let Ok(errand) = orders.recv() {
                let _ = next.read();
                let interrupt = errand.yields.then(|| next.as_fd());
                (errand.run)(&mut member, &Timeout { until: errand.until, interrupt });
            }
        };
        let _runs_to_the_end = thread::Builder::new().name("member".to_owned()).spawn(work)?;
        Ok(Worker { errands, waiting })
    }

    /// Puts it behind those that it was told before, and does not wait.
    pub fn tell(&self, errand: Errand) {
        // Counted before it can be begun.
        let _ = self.waiting.write(1);
        // A thread that is gone answers nothing, which is what a dead server does.
        let _ = self.errands.send(errand);
    }
}

impl Member {
    /// Asks for locks, and the first time who the server is. With `listen`, its hints are heard from now on.
    pub fn take(
        &mut self,
        call: &Call,
        requests: &[Request],
        listen: bool,
        patience: &Timeout,
    ) -> Result<MemberEvent, StoreError> {
        if let [first, ..] = requests
            && listen
        {
            self.listen(&first.key, patience);
        }
        self.confirm(patience)?;
        if !self.is_known {
            self.ask_who(patience)?;
        }
        let reply = self.redis.call(call, patience);
        if !self.is_known {
            self.hear_who();
        }
        match self.redis.understood(reply::taken(reply?, requests))?? {
            Taken::Granted(fences) => Ok(MemberEvent::Granted(fences)),
            Taken::Busy { busy, .. } => Ok(MemberEvent::Busy(busy)),
            Taken::Vanished { .. } => {
                let key = requests.first().map(|request| request.key.clone());
                self.redis.understood(key.map(|key| MemberEvent::Busy(Busy::by_unknown(key).into())))
            }
        }
    }

    /// Takes a lock here that is ours on a majority.
    pub fn take_again(&mut self, request: &Request, patience: &Timeout) {
        let requests = std::slice::from_ref(request);
        if self.confirm(patience).is_ok() {
            let _ = self.redis.call(&take_call(request, requests, "once", ""), patience);
        }
    }

    /// Extends the lease here, when nothing is out that could give the lock back afterwards.
    pub fn renew(
        &mut self,
        request: &Request,
        fence: Option<FencingToken>,
        patience: &Timeout,
    ) -> Result<Renewal, StoreError> {
        if !self.unconfirmed.is_empty() {
            self.confirm(patience)?;
        }
        self.redis.renew(request, fence, patience)
    }

    /// Gives locks back, behind every request that was not answered.
    pub fn give_back(&mut self, call: &Call, patience: &Timeout) -> Result<Returned, StoreError> {
        // In full: the process may end before the server could say that it does not know the script.
        let command = call.in_full();
        let hung = self.redis.take_hung();
        // It may still hang, with the same release behind everything else.
        let is_told = hung.is_empty() && self.given_back == call.keys();
        self.unconfirmed.extend(hung);
        if !is_told {
            let all = self.unconfirmed.len();
            self.unconfirmed.retain_mut(|connection| connection.send(&command, patience).is_ok());
            self.is_in_doubt |= self.unconfirmed.len() < all;
            self.given_back = call.keys().to_vec();
        }
        if !self.unconfirmed.is_empty() {
            return Ok(Returned::Sent);
        }
        let reply = self.redis.route.query(ONLY, &command, patience);
        self.unconfirmed.extend(self.redis.take_hung());
        let released = self.redis.accepted(reply?)?;
        let released = self.redis.understood(reply::released(released, call.keys().len()))?;
        let is_unsure = self.redis.route.repeated;
        Ok(Returned::Confirmed(released.into_iter().map(|released| released || is_unsure).collect()))
    }

    /// As `give_back`, of a server that was told so and had other answers to come: waits for all of them.
    pub fn give_back_again(&mut self, call: &Call, patience: &Timeout) -> Result<Returned, StoreError> {
        let told = self.confirm(patience)?;
        let told: Vec<Vec<bool>> =
            told.into_iter().filter_map(|answer| reply::released(answer, call.keys().len())).collect();
        // Once more, as what was sent on a connection that broke may not have come to the server.
        Ok(match self.give_back(call, patience)? {
            Returned::Confirmed(held) => {
                let was_held = |lock: usize| told.iter().any(|told| told.get(lock) == Some(&true));
                let held = held.into_iter().enumerate();
                Returned::Confirmed(held.map(|(lock, held)| held || was_held(lock)).collect())
            }
            other => other,
        })
    }

    /// Waits for all answers that are out, so that nothing of before is carried out later. Returns the last one of
    /// each connection.
    fn confirm(&mut self, patience: &Timeout) -> Result<Vec<Value>, StoreError> {
        let mut last = Vec::new();
        self.unconfirmed.extend(self.redis.take_hung());
        while let Some(mut connection) = self.unconfirmed.pop() {
            match connection.skip_replies(patience) {
                Ok(()) => {
                    last.extend(connection.last_passed_over().cloned());
                    self.put_back(connection);
                }
                Err(RequestError::Broken(_)) => self.is_in_doubt = true,
                Err(failure) => {
                    self.unconfirmed.push(connection);
                    return Err(self.redis.unreachable(failure));
                }
            }
        }
        if self.is_in_doubt {
            // A server that hung carries out what came on all connections before it answers new ones a second
            // time; three, as it reads long requests in pieces of 16 kB.
            for _ in 0..3 {
                self.redis.route.query(ONLY, &redis::cmd("PING"), patience)?;
            }
            self.is_in_doubt = false;
        }
        Ok(last)
    }

    /// Whether nothing can be left here of what this process asked for.
    pub fn is_untouched(&self) -> bool {
        !self.redis.route.asked
    }

    /// Tells those who wait that it makes sense to ask.
    pub fn hint(&mut self, key: &Key, hint: &str, patience: &Timeout) {
        let _ = self.redis.route.query(ONLY, redis::cmd("PUBLISH").arg(channel(key)).arg(hint), patience);
    }

    /// Hears the hints of this server from now on.
    pub fn listen(&mut self, key: &Key, patience: &Timeout) {
        // Who hears no hint asks later.
        let opened = self
            .redis
            .route
            .connect_beside(ONLY, patience)
            .ok()
            .and_then(|connection| Subscription::open(connection, &channel(key), patience).ok());
        if let Some(ear) = opened {
            self.found(MemberAnswer::Ear(key.clone(), ear));
        }
    }

    /// Asks who the server is, in one packet with the next request or just before it.
    fn ask_who(&mut self, patience: &Timeout) -> Result<(), StoreError> {
        let mut connection = match self.redis.route.line().and_then(Option::take) {
            Some(connection) => connection,
            None => self.redis.route.connect_beside(ONLY, patience)?,
        };
        if identity::questions().iter().all(|question| connection.send(question, patience).is_ok()) {
            self.put_back(connection);
        }
        Ok(())
    }

    fn put_back(&mut self, connection: Connection) {
        if let Some(line) = self.redis.route.line() {
            *line = Some(connection);
        }
    }

    fn hear_who(&mut self) {
        let Some(Some(connection)) = self.redis.route.line() else { return };
        let answers = connection.passed_over();
        if !answers.is_empty() {
            self.is_known = true;
            self.found(MemberAnswer::Identity(Identity::of(&answers)));
        }
    }

    fn found(&self, finding: MemberAnswer) {
        let _ = self.findings.send((self.index, finding));
    }
}

/// Where those who wait for a lock in a quorum hear that it was given back.
pub fn channel(key: &Key) -> String {
    KeyNames::of(key).channel + "quorum:" + key.as_str()
}
