//! One question to all servers at once, and the answers as they come.

use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nix::poll::PollFlags;
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::identity::{Identity, independent};
use super::majority::{Reply, is_pending};
use super::member::{Errand, Member, MemberAnswer, Worker};
use crate::clock::Deadline;
use crate::lock::{Key, StoreError, Timeout};
use crate::store::redis::Address;
use crate::store::redis::net::failure::RequestError;
use crate::store::redis::net::wait::ready;
use crate::store::redis::subscription::Subscription;

/// The workers of all members.
pub struct Council {
    names: Vec<String>,
    workers: Vec<Worker>,
    /// Rings when a worker has answered.
    bell: Arc<EventFd>,
    findings: mpsc::Receiver<(usize, MemberAnswer)>,
    identities: Vec<Option<Identity>>,
    /// Hints about this lock are heard.
    topic: Option<Key>,
    /// Where they are heard, by member.
    pub ears: Vec<Option<Subscription>>,
}

/// The answers to one question. Those that come when it is gone are ignored.
pub struct Round<T> {
    /// By member.
    pub replies: Vec<Reply<T>>,
    answers: mpsc::Receiver<(usize, Result<T, StoreError>)>,
    bell: Arc<EventFd>,
    /// When all were asked.
    pub until: Deadline,
}

impl Council {
    /// Starts the threads.
    pub fn start(addresses: &[Address]) -> Result<Council, StoreError> {
        let (found, findings) = mpsc::channel();
        let start = || {
            let bell = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
            let each = addresses.iter().enumerate();
            let workers = each.map(|(index, address)| Worker::start(index, address.clone(), found.clone()));
            Ok((bell, workers.collect::<std::io::Result<Vec<_>>>()?))
        };
        let (bell, workers) = start().map_err(|error: std::io::Error| StoreError::Unreachable {
            store: "a quorum".to_owned(),
            why: format!(
                "there is no thread with a connection for each server: {error}; raise ulimit -n or -u"
            ),
            transient: false,
        })?;
        Ok(Council {
            names: addresses.iter().map(Address::to_string).collect(),
            workers,
            bell,
            findings,
            identities: vec![None; addresses.len()],
            topic: None,
            ears: addresses.iter().map(|_| None).collect(),
        })
    }

    /// Asks all members; `yields` as in [`Errand`].
    pub fn ask<T: Send + 'static>(
        &self,
        until: Deadline,
        yields: bool,
        question: impl Fn(&mut Member, &Timeout) -> Result<T, StoreError> + Send + Sync + 'static,
    ) -> Round<T> {
        self.ask_some(until, yields, &vec![true; self.workers.len()], move |_, member, patience| {
            question(member, patience)
        })
    }

    /// Asks some members.
    pub fn ask_some<T: Send + 'static>(
        &self,
        until: Deadline,
        yields: bool,
        whom: &[bool],
        question: impl Fn(usize, &mut Member, &Timeout) -> Result<T, StoreError> + Send + Sync + 'static,
    ) -> Round<T> {
        let (tell, answers) = mpsc::channel();
        let question = Arc::new(question);
        let mut replies = Vec::new();
        for (index, worker) in self.workers.iter().enumerate() {
            if !whom[index] {
                replies.push(Reply::Unasked);
                continue;
            }
            replies.push(Reply::Pending);
            let (question, tell, bell) = (Arc::clone(&question), tell.clone(), Arc::clone(&self.bell));
            let name = self.names[index].clone();
            let run = move |member: &mut Member, patience: &Timeout| {
                // One that stood in the queue behind a server that hangs; what gives back must go out.
                let answer = if yields && patience.until.has_passed() {
                    Err(RequestError::TimedOut.of(&name))
                } else {
                    question(index, member, patience)
                };
                let _ = tell.send((index, answer));
                let _ = bell.write(1);
            };
            worker.tell(Errand { until, yields, run: Box::new(run) });
        }
        Round { replies, answers, bell: Arc::clone(&self.bell), until }
    }

    /// From now on only hints about this lock are heard.
    pub fn attend_to(&mut self, topic: Option<Key>) {
        self.topic = topic;
        self.ears.fill_with(|| None);
    }

    /// Takes note of what was found out; an error when the servers cannot be a quorum.
    pub fn note_findings(&mut self) -> Result<(), StoreError> {
        let mut is_new = false;
        while let Ok((index, finding)) = self.findings.try_recv() {
            match finding {
                MemberAnswer::Identity(identity) => {
                    self.identities[index] = Some(identity);
                    is_new = true;
                }
                MemberAnswer::Ear(key, ear) if self.topic.as_ref() == Some(&key) => {
                    self.ears[index] = Some(ear)
                }
                MemberAnswer::Ear(..) => {}
            }
        }
        if !is_new {
            return Ok(());
        }
        let members: Vec<_> = self.names.iter().cloned().zip(self.identities.iter().cloned()).collect();
        independent(&members)
    }

    /// What messages call the members, in their order.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl<T> Round<T> {
    /// Collects answers until it is decided, all are there, or the patience ends.
    pub fn gather(
        &mut self,
        patience: &Timeout,
        is_decided: impl Fn(&[Reply<T>]) -> bool,
    ) -> Result<(), StoreError> {
        loop {
            // Read before the answers are: what comes after that rings again.
            let _ = self.bell.read();
            while let Ok((index, answer)) = self.answers.try_recv() {
                self.replies[index] = match answer {
                    Ok(answer) => Reply::Answer(answer),
                    Err(error) => Reply::RequestError(error),
                };
            }
            if !self.replies.iter().any(is_pending) || is_decided(&self.replies) {
                return Ok(());
            }
            match ready(self.bell.as_fd(), PollFlags::POLLIN, patience) {
                Ok(()) => {}
                Err(RequestError::Interrupted) => return Err(StoreError::Interrupted),
                Err(_) => return Ok(()),
            }
        }
    }

    /// Collects answers as [`Round::gather`] does, until the question's own end.
    pub fn decide(
        &mut self,
        patience: &Timeout,
        is_decided: impl Fn(&[Reply<T>]) -> bool,
    ) -> Result<(), StoreError> {
        let patience = Timeout { until: self.until, interrupt: patience.interrupt };
        self.gather(&patience, is_decided)
    }

    /// Waits a little longer, for what is nice to know.
    pub fn linger(&mut self, at_most: Duration) {
        let _ = self.gather(&Timeout::of(at_most), |_| false);
    }

    /// Adds what those said before that were not asked now.
    pub fn add(&mut self, earlier: Round<T>) {
        for (reply, earlier) in self.replies.iter_mut().zip(earlier.replies) {
            if matches!(reply, Reply::Unasked) {
                *reply = earlier;
            }
        }
    }
}
