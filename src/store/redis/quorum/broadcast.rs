//! One question to all members at once, and their answers as they come.

use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nix::poll::PollFlags;

use super::identity::{Identity, expect_independent};
use super::majority::{Reply, failure, is_pending};
use super::member::{self, Member, MemberEvent, Task};
use crate::clock::Deadline;
use crate::lock::{Key, Result, StoreError, Timeout};
use crate::mailbox::{Bell, Mailbox, MailboxSender};
use crate::store::net::{RequestError, wait_ready};
use crate::store::redis::routing::Routing;
use crate::store::redis::server::Server;
use crate::store::redis::subscription::Subscription;
use crate::store::redis::url::RedisAddress;

/// The workers of all members, and what they found out.
pub struct Members {
    /// The names of the members in messages.
    names: Arc<[String]>,
    workers: Vec<MailboxSender<Task>>,
    /// The bell of all rounds: a release has to go out even when no descriptors are left.
    bell: Bell,
    events: mpsc::Receiver<(usize, MemberEvent)>,
    identities: Vec<Option<Identity>>,
    /// The lock whose hints are heard.
    topic: Option<Key>,
    /// The subscriptions to the hints, by member.
    pub subscriptions: Vec<Option<Subscription>>,
}

pub struct Round<T> {
    /// By member.
    pub replies: Vec<Reply<T>>,
    names: Arc<[String]>,
    answers: Mailbox<(usize, Result<T>)>,
    pub until: Deadline,
}

impl Members {
    pub fn start(addresses: &[RedisAddress]) -> Result<Members> {
        let (sender, events) = mpsc::channel();
        let servers = addresses.iter().map(Server::at).collect::<Result<Vec<_>>>()?;
        let each = servers.into_iter().enumerate();
        let workers = each.map(|(index, server)| member::start(index, server, sender.clone()));
        Ok(Members {
            names: addresses.iter().map(RedisAddress::to_string).collect(),
            workers: workers.collect::<std::io::Result<_>>().map_err(no_resources)?,
            bell: Bell::new().map_err(no_resources)?,
            events,
            identities: vec![None; addresses.len()],
            topic: None,
            subscriptions: addresses.iter().map(|_| None).collect(),
        })
    }

    /// Asks some members; `yields` as in [`Task`].
    pub fn ask<T: Send + 'static>(
        &self,
        which: impl Fn(usize) -> bool,
        until: Deadline,
        yields: bool,
        question: impl Fn(&mut Member, &Timeout) -> Result<T> + Send + Sync + 'static,
    ) -> Round<T> {
        let (sender, answers) = self.bell.mailbox();
        let question = Arc::new(question);
        let mut replies = Vec::new();
        for (index, worker) in self.workers.iter().enumerate() {
            if !which(index) {
                replies.push(Reply::Unasked);
                continue;
            }
            replies.push(Reply::Pending);
            let (question, sender) = (Arc::clone(&question), sender.clone());
            let run = move |member: &mut Member, timeout: &Timeout| {
                // A question that waited behind a server that hangs is too late; a release goes out all the same.
                let answer = match yields && timeout.until.has_passed() {
                    true => Err(RequestError::TimedOut.of(member.server.name())),
                    false => question(member, timeout),
                };
                sender.send((index, answer));
            };
            worker.send(Task { until, yields, run: Box::new(run) });
        }
        Round { replies, names: Arc::clone(&self.names), answers, until }
    }

    /// Hears only hints about this lock from now on.
    pub fn hear_about(&mut self, topic: Option<Key>) {
        self.topic = topic;
        self.subscriptions.fill_with(|| None);
    }

    /// The hints of this member are wanted, and not heard.
    pub fn is_deaf(&self, index: usize) -> bool {
        self.topic.is_some() && self.subscriptions[index].is_none()
    }

    /// Takes note of what the members found out; an error when they cannot be a quorum.
    pub fn take_events(&mut self) -> Result<()> {
        let mut is_new = false;
        while let Ok((index, event)) = self.events.try_recv() {
            match event {
                MemberEvent::Identified(identity) => {
                    self.identities[index] = Some(identity);
                    is_new = true;
                }
                MemberEvent::Subscribed(key, subscription) if self.topic.as_ref() == Some(&key) => {
                    self.subscriptions[index] = Some(subscription);
                }
                MemberEvent::Subscribed(..) => {}
            }
        }
        if !is_new {
            return Ok(());
        }
        let members: Vec<_> = self.names.iter().cloned().zip(self.identities.iter().cloned()).collect();
        expect_independent(&members)
    }
}

fn no_resources(error: std::io::Error) -> StoreError {
    let why = format!(
        "redlock cannot have a thread with a connection for each server: {error}; raise ulimit -n or -u"
    );
    StoreError::Unreachable { store: "a quorum".to_owned(), why, transient: false }
}

impl<T> Round<T> {
    /// Collects answers until it is decided, all are there, or the timeout ends.
    pub fn gather(&mut self, timeout: &Timeout, is_decided: impl Fn(&[Reply<T>]) -> bool) -> Result<()> {
        loop {
            while let Ok(Some((index, answer))) = self.answers.take() {
                self.replies[index] = match answer {
                    Ok(answer) => Reply::Answer(answer),
                    Err(error) => Reply::Failed(error),
                };
            }
            if !self.replies.iter().any(is_pending) || is_decided(&self.replies) {
                return Ok(());
            }
            match wait_ready(self.answers.as_fd(), PollFlags::POLLIN, timeout) {
                Ok(()) => {}
                Err(RequestError::Interrupted) => return Err(StoreError::Interrupted),
                Err(_) => return Ok(()),
            }
        }
    }

    /// Collects answers as [`Round::gather`] does, until the members give up.
    pub fn decide(&mut self, timeout: &Timeout, is_decided: impl Fn(&[Reply<T>]) -> bool) -> Result<()> {
        self.gather(&timeout.before(self.until), is_decided)
    }

    /// Waits a little longer for answers that are not needed.
    pub fn linger(&mut self, at_most: Duration) {
        let _ = self.gather(&Timeout::of(at_most), |_| false);
    }

    /// Judges the replies; an error where they have no majority for anything.
    pub fn judge<R>(mut self, meaning: impl FnOnce(&mut [Reply<T>]) -> Option<R>) -> Result<R> {
        meaning(&mut self.replies).ok_or_else(|| failure(self.replies, &self.names))
    }

    /// Adds the earlier replies of members that were not asked again.
    pub fn add(&mut self, earlier: Round<T>) {
        for (reply, earlier) in self.replies.iter_mut().zip(earlier.replies) {
            if matches!(reply, Reply::Unasked) {
                *reply = earlier;
            }
        }
    }
}
