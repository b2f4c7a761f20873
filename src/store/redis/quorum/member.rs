//! One server of a quorum, in a thread of its own.

use std::io;
use std::iter::once;
use std::os::fd::AsFd;
use std::slice::from_ref;
use std::sync::mpsc;
use std::thread;

use super::identity::{Identity, questions};
use crate::clock::Deadline;
use crate::lock::{
    BreakScope, Breaker, Broken, Busy, FencingToken, Key, ReleaseOutcome, Renewal, Request, Result, Timeout,
};
use crate::mailbox::{MailboxSender, mailbox};
use crate::poll::wait_readable;
use crate::store::redis::connection::Connection;
use crate::store::redis::keys::KeyNames;
use crate::store::redis::reply::accepted;
use crate::store::redis::routing::Routing;
use crate::store::redis::script::{
    self, AcquireReply, Queueing, ReleaseCall, ReleaseReply, ScriptCall, understood,
};
use crate::store::redis::server::Server;
use crate::store::redis::subscription::Subscription;

pub struct Task {
    pub until: Deadline,
    /// The next task ends this one: nobody waits for its answer any more then. Requests that it sent stay sent.
    pub yields: bool,
    pub run: Box<Question>,
}

type Question = dyn FnOnce(&mut Member, &Timeout) + Send;
pub type AcquireCall = ScriptCall<Result<AcquireReply>>;

/// News of a member beside its answers.
pub enum MemberEvent {
    Identified(Identity),
    /// The hints of this server about this lock are heard here.
    Subscribed(Key, Subscription),
}

/// The server, as its thread has it.
pub struct Member {
    pub index: usize,
    pub server: Server,
    /// The locks that the last request on all connections in flight releases.
    released: Vec<Key>,
    is_identified: bool,
    events: mpsc::Sender<(usize, MemberEvent)>,
}

#[derive(Debug)]
pub enum Vote {
    Granted(Vec<FencingToken>),
    Busy(Box<Busy>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// For each of the locks.
    Confirmed(Vec<ReleaseOutcome>),
    /// The server hangs, or has an answer to come; it carries this out behind everything else.
    Sent,
    /// The server was never asked for anything.
    NeverAsked,
}

/// Starts the thread, which connects with its first task and does one after the other.
pub fn start(
    index: usize,
    server: Server,
    events: mpsc::Sender<(usize, MemberEvent)>,
) -> io::Result<MailboxSender<Task>> {
    let (tasks, mailbox) = mailbox::<Task>()?;
    let work = move || {
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
    Ok(tasks)
}

impl Member {
    /// Asks for locks, and the first time for the server's identity. With `listen`, its hints are heard from now on.
    pub fn acquire(&mut self, call: &AcquireCall, listen: bool, timeout: &Timeout) -> Result<Vote> {
        let [first, ..] = call.keys() else { return Ok(Vote::Granted(Vec::new())) };
        if listen {
            self.listen(first, timeout);
        }
        self.server.settle(timeout)?;
        if !self.is_identified {
            self.send_questions(timeout)?;
        }
        let reply = call.reply(&mut self.server, timeout);
        if !self.is_identified {
            self.identify();
        }
        Ok(match understood(&mut self.server, call.decode(reply?))?? {
            AcquireReply::Granted { fences, .. } => Vote::Granted(fences),
            AcquireReply::Busy(reply) => Vote::Busy(reply.busy.into()),
            AcquireReply::DataLost { .. } => Vote::Busy(Busy::by_unknown(first.clone()).into()),
        })
    }

    /// Acquires a lock here that is held on a majority.
    pub fn acquire_again(&mut self, request: &Request, timeout: &Timeout) -> Result<()> {
        self.server.settle(timeout)?;
        let call = script::acquire(request, from_ref(request), Queueing::No, "").in_quorum();
        call.reply(&mut self.server, timeout).map(drop)
    }

    /// Extends the lease here, when nothing is in flight that could release the lock afterwards.
    pub fn renew(
        &mut self,
        request: &Request,
        fence: Option<FencingToken>,
        timeout: &Timeout,
    ) -> Result<Renewal> {
        let server = &mut self.server;
        if server.in_flight.has_awaited() {
            server.settle(timeout)?;
        }
        script::renew(request, fence).run(&mut self.server, timeout)
    }

    /// Releases locks, behind every request in flight.
    pub fn release(&mut self, call: &ReleaseCall, timeout: &Timeout) -> Result<Released> {
        // In full: the process may end before the server could say that it does not know the script.
        let command = call.in_full(self.server.index());
        let server = &mut self.server;
        // It may still hang, with the same release behind everything else.
        let is_sent = !server.in_flight.has_requests() && self.released == call.keys();
        if !is_sent {
            server.in_flight.release_behind(once(command.clone()), timeout);
            self.released = call.keys().to_vec();
        }
        if server.in_flight.has_awaited() {
            return Ok(Released::Sent);
        }
        let reply = server.query(&command, timeout);
        server.in_flight.mark_awaited();
        let is_unsure = server.has_repeated;
        let reply = accepted(reply?, self.server.name())?;
        let released = understood(&mut self.server, call.decode(reply))?;
        let outcome = |one: ReleaseReply| if is_unsure { ReleaseOutcome::Released } else { one.into() };
        Ok(Released::Confirmed(released.into_iter().map(outcome).collect()))
    }

    /// Waits for a release that was sent while other answers were to come, and releases once more: what was sent on a
    /// connection that broke may not have come to the server.
    pub fn release_again(&mut self, call: &ReleaseCall, timeout: &Timeout) -> Result<Released> {
        let answers = self.server.settle(timeout)?;
        let earlier: Vec<_> = answers.into_iter().filter_map(|answer| call.decode(answer)).collect();
        let mut released = self.release(call, timeout)?;
        if let Released::Confirmed(outcomes) = &mut released {
            for (lock, outcome) in outcomes.iter_mut().enumerate() {
                let first =
                    earlier.iter().map(|earlier| earlier[lock]).find(|one| *one != ReleaseReply::NotHeld);
                *outcome = first.map_or(*outcome, ReleaseOutcome::from);
            }
        }
        Ok(released)
    }

    /// Takes the lock away, and tells those who wait when it is free.
    pub fn break_lock(
        &mut self,
        key: &Key,
        scope: &BreakScope,
        by: &Breaker,
        hint: &str,
        timeout: &Timeout,
    ) -> Result<Broken> {
        let (broken, is_handed_over) = script::break_lock(key, scope, by).run(&mut self.server, timeout)?;
        if is_handed_over {
            script::confirm_handover(&mut self.server, key, timeout);
        }
        if let Broken::Freed(_) = broken {
            let publish = redis::cmd("PUBLISH").arg(channel(key)).arg(hint).take();
            let _ = self.server.query(&publish, timeout);
        }
        Ok(broken)
    }

    /// Hears the hints of this server from now on. Without them the waiter asks later.
    pub fn listen(&mut self, key: &Key, timeout: &Timeout) {
        if let Ok(connection) = self.server.connect(timeout)
            && let Ok(subscription) = Subscription::open(connection, &[channel(key)], timeout)
        {
            self.report(MemberEvent::Subscribed(key.clone(), subscription));
        }
    }

    /// Asks for the identity, in one packet with the next request or just before it.
    fn send_questions(&mut self, timeout: &Timeout) -> Result<()> {
        let mut connection = self.server.take_connection(timeout)?;
        if questions().iter().all(|question| connection.send(question, timeout).is_ok()) {
            self.server.connection = Some(connection);
        }
        Ok(())
    }

    fn identify(&mut self) {
        // The replies to what was sent before the last request.
        let connection = self.server.connection.as_mut();
        let answers = connection.map(Connection::take_skipped).unwrap_or_default();
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
