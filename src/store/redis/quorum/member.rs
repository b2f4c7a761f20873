//! One server of a quorum, in a thread of its own.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::thread;

use super::identity::{Identity, questions};
use crate::clock::Deadline;
use crate::lock::{Broken, Busy, FencingToken, Key, OwnerToken, Renewal, Request, Result, Timeout};
use crate::mailbox::{MailboxSender, mailbox};
use crate::poll::wait_readable;
use crate::store::redis::Address;
use crate::store::redis::error_reply::accepted;
use crate::store::redis::executor::Executor;
use crate::store::redis::keys::KeyNames;
use crate::store::redis::script::acquire::{self, AcquireReply, Queueing};
use crate::store::redis::script::{ScriptCall, break_lock, handover, release, renew, understood};
use crate::store::redis::server::Server;
use crate::store::redis::subscription::Subscription;
use crate::store::redis::url::ServerAddress;

/// The caller's end of the thread.
pub struct Worker {
    tasks: MailboxSender<Task>,
}

/// What a worker is to do.
pub struct Task {
    pub until: Deadline,
    /// The next task ends this one: nobody waits for its answer any more then. What it sent stays sent.
    pub yields: bool,
    pub run: Box<Question>,
}

type Question = dyn FnOnce(&mut Member, &Timeout) + Send;

/// What a member found out beside its answers.
pub enum MemberEvent {
    Identified(Identity),
    /// The hints of this server about this lock are heard here.
    Subscribed(Key, Subscription),
}

/// The server, as its worker has it.
pub struct Member {
    index: usize,
    pub server: Server,
    /// The locks that the last request on all connections in flight releases.
    released: Vec<Key>,
    is_identified: bool,
    events: mpsc::Sender<(usize, MemberEvent)>,
}

/// The answer to a request for locks.
#[derive(Debug)]
pub enum Vote {
    Granted(Vec<FencingToken>),
    Busy(Box<Busy>),
}

/// The answer to a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// Whether each of the locks was held.
    Confirmed(Vec<bool>),
    /// The server hangs, or has an answer to come; it carries this out behind everything else.
    Sent,
    /// The server was never asked for anything.
    NeverAsked,
}

impl Worker {
    /// Starts the thread, which connects with its first task.
    pub fn start(
        index: usize,
        address: Address,
        events: mpsc::Sender<(usize, MemberEvent)>,
    ) -> io::Result<Worker> {
        let (tasks, mailbox) = mailbox::<Task>()?;
        let name = address.to_string();
        let ServerAddress::One(endpoint) = address.servers else {
            return Err(io::Error::other(format!("{name} is not one server")));
        };
        let work = move || {
            let server = Server::new(endpoint, Arc::new(address.login), name);
            let mut member = Member { index, server, released: Vec::new(), is_identified: false, events };
            loop {
                match mailbox.take() {
                    Ok(Some(task)) => {
                        let interrupt = task.yields.then(|| mailbox.as_fd());
                        (task.run)(&mut member, &Timeout { until: task.until, interrupt });
                    }
                    Ok(None) => drop(wait_readable([mailbox.as_fd()], Deadline::NEVER)),
                    Err(_) => return,
                }
            }
        };
        let _runs_to_the_end = thread::Builder::new().name("member".to_owned()).spawn(work)?;
        Ok(Worker { tasks })
    }

    /// Puts a task behind the earlier ones, and does not wait.
    pub fn submit(&self, task: Task) {
        // A thread that is gone answers nothing, as a dead server does.
        self.tasks.send(task);
    }
}

impl Member {
    /// Asks for locks, and the first time for the server's identity. With `listen`, its hints are heard from now on.
    pub fn acquire(
        &mut self,
        call: &ScriptCall,
        requests: &[Request],
        listen: bool,
        timeout: &Timeout,
    ) -> Result<Vote> {
        if let [first, ..] = requests
            && listen
        {
            self.listen(&first.key, timeout);
        }
        self.server.settle(timeout)?;
        if !self.is_identified {
            self.send_questions(timeout)?;
        }
        let reply = call.run(&mut self.server, timeout);
        if !self.is_identified {
            self.identify();
        }
        let reply = acquire::decode(reply?, requests);
        match understood(&mut self.server, reply)?? {
            AcquireReply::Granted(fences) => Ok(Vote::Granted(fences)),
            AcquireReply::Busy(reply) => Ok(Vote::Busy(reply.busy.into())),
            AcquireReply::DataLost { .. } => {
                let key = requests.first().map(|request| request.key.clone());
                understood(&mut self.server, key.map(|key| Vote::Busy(Busy::by_unknown(key).into())))
            }
        }
    }

    /// Acquires a lock here that is held on a majority.
    pub fn acquire_again(&mut self, request: &Request, timeout: &Timeout) {
        let requests = std::slice::from_ref(request);
        if self.server.settle(timeout).is_ok() {
            let _ = acquire::call(request, requests, Queueing::No, "").run(&mut self.server, timeout);
        }
    }

    /// Extends the lease here, when nothing is in flight that could release the lock afterwards.
    pub fn renew(
        &mut self,
        request: &Request,
        fence: Option<FencingToken>,
        timeout: &Timeout,
    ) -> Result<Renewal> {
        if self.server.in_flight.has_awaited() {
            self.server.settle(timeout)?;
        }
        renew::call(request, fence).run_and(&mut self.server, timeout, renew::decode)
    }

    /// Releases locks, behind every request in flight.
    pub fn release(&mut self, call: &ScriptCall, timeout: &Timeout) -> Result<Released> {
        // In full: the process may end before the server could say that it does not know the script.
        let command = call.in_full();
        // It may still hang, with the same release behind everything else.
        let is_sent = !self.server.in_flight.has_requests() && self.released == call.keys();
        if !is_sent {
            self.server.in_flight.release_behind(std::iter::once(command.clone()), timeout);
            self.released = call.keys().to_vec();
        }
        if self.server.in_flight.has_awaited() {
            return Ok(Released::Sent);
        }
        let reply = self.server.query(&command, timeout);
        self.server.in_flight.mark_awaited();
        let released = accepted(reply?, self.server.name())?;
        let released = understood(&mut self.server, release::decode(released, call.keys().len()))?;
        let is_unsure = self.server.has_repeated;
        Ok(Released::Confirmed(released.into_iter().map(|released| released || is_unsure).collect()))
    }

    /// Waits for a release that was sent while other answers were to come, and releases once more: what was sent on a
    /// connection that broke may not have come to the server.
    pub fn release_again(&mut self, call: &ScriptCall, timeout: &Timeout) -> Result<Released> {
        let answers = self.server.settle(timeout)?;
        let decode = |answer| release::decode(answer, call.keys().len());
        let earlier: Vec<Vec<bool>> = answers.into_iter().filter_map(decode).collect();
        Ok(match self.release(call, timeout)? {
            Released::Confirmed(held) => {
                let was_held = |lock: usize| earlier.iter().any(|earlier| earlier.get(lock) == Some(&true));
                let held = held.into_iter().enumerate();
                Released::Confirmed(held.map(|(lock, held)| held || was_held(lock)).collect())
            }
            other => other,
        })
    }

    /// Takes the lock away, and tells those who wait when it is free.
    pub fn break_lock(
        &mut self,
        key: &Key,
        token: Option<&OwnerToken>,
        hint: &str,
        timeout: &Timeout,
    ) -> Result<Broken> {
        let call = break_lock::call(key, token);
        let (broken, is_handed_over) = call.run_and(&mut self.server, timeout, break_lock::decode)?;
        if is_handed_over {
            handover::confirm(&mut self.server, key, timeout);
        }
        if let Broken::Freed(_) = broken {
            let _ = self.server.query(redis::cmd("PUBLISH").arg(channel(key)).arg(hint), timeout);
        }
        Ok(broken)
    }

    /// Whether this process can have left nothing here.
    pub fn is_untouched(&self) -> bool {
        !self.server.was_asked
    }

    /// Hears the hints of this server from now on. Without them the waiter asks later.
    pub fn listen(&mut self, key: &Key, timeout: &Timeout) {
        let opened = self
            .server
            .connect(timeout)
            .ok()
            .and_then(|connection| Subscription::open(connection, &channel(key), timeout).ok());
        if let Some(subscription) = opened {
            self.report(MemberEvent::Subscribed(key.clone(), subscription));
        }
    }

    /// Asks for the identity, in one packet with the next request or just before it.
    fn send_questions(&mut self, timeout: &Timeout) -> Result<()> {
        let mut connection = self.server.take_connection(timeout)?;
        if questions().iter().all(|question| connection.send(question, timeout).is_ok()) {
            self.server.put_back(connection);
        }
        Ok(())
    }

    fn identify(&mut self) {
        let answers = self.server.take_skipped();
        if !answers.is_empty() {
            self.is_identified = true;
            self.report(MemberEvent::Identified(Identity::of(&answers)));
        }
    }

    fn report(&self, event: MemberEvent) {
        let _ = self.events.send((self.index, event));
    }
}

/// The channel of the hints that a lock was released.
fn channel(key: &Key) -> String {
    KeyNames::of(key).channel + "quorum:" + key.as_str()
}
