//! Nesting: locks that an enclosing job or script holds already, and that this run inherits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::inherited_lock::InheritedLock;
use super::renewal_events::report_heal;
use super::{Abort, Context};
use crate::clock::{BootTime, Deadline};
use crate::error::{Failure, LOST};
use crate::event::LossConsequence;
use crate::lock::{
    Keeper, Key, Lease, LossCause, Progress, Renewal, Request, Store, StoreAdmin, StoreError, Timeout,
};
use crate::mailbox::{Mailbox, mailbox};
use crate::report;

/// Inherited locks that the store confirms.
#[derive(Default)]
pub struct Nesting {
    /// Held by an enclosing `redlock run`, which renews and releases them, and whose guard guards this job too.
    pub supervised: Vec<Lease>,
    /// Acquired by hand: this run renews them, and does not release them.
    pub manual: Vec<Lease>,
}

impl Nesting {
    pub fn find(
        requests: &[Request],
        store: &mut dyn StoreAdmin,
        interrupt: BorrowedFd,
        context: &Context,
    ) -> anyhow::Result<Nesting> {
        let mut nesting = Nesting::default();
        for request in requests {
            let Some(inherited) = InheritedLock::on(&request.key) else { continue };
            match inherited.lease(request, store, interrupt, context)? {
                Some(lease) if inherited.is_supervised() => nesting.supervised.push(lease),
                Some(lease) => nesting.manual.push(lease),
                None => {}
            }
        }
        Ok(nesting)
    }

    /// One of the locks is enough: drops the others. False if there is none.
    pub fn keep_one(&mut self) -> bool {
        self.supervised.truncate(1);
        self.manual.truncate(1 - self.supervised.len());
        !self.supervised.is_empty() || !self.manual.is_empty()
    }

    pub fn has(&self, key: &Key) -> bool {
        self.supervised.iter().chain(&self.manual).any(|lease| lease.request.key == *key)
    }

    /// Renews the locks that were acquired by hand while this run waits for the others. `reserve` is as for
    /// [`Keeper::new`].
    pub fn keep_meanwhile(
        &self,
        reserve: Duration,
        replicas: u8,
        context: &Context,
    ) -> anyhow::Result<Option<InterimKeeper>> {
        if self.manual.is_empty() {
            return Ok(None);
        }
        let (sender, losses) = mailbox().map_err(Failure::cannot("connect to the keeper"))?;
        let reporter = context.reporter.clone();
        let report = move |progress: Progress| match progress {
            Progress::Healed(lease, gone) => report_heal(&reporter, lease, gone),
            Progress::Lost { lease, cause, .. } => {
                sender.send(not_started(lease, &cause, LossConsequence::NothingStartedAfterWait));
            }
            Progress::Renewed { .. } | Progress::Failed(..) => {}
        };
        // The wait for the others uses its own store.
        let store = context.open_store_for(replicas, Vec::new());
        let keeper = Keeper::new(store, self.manual.clone(), reserve, Box::new(report)).start();
        if keeper.start_at().is_some() {
            let none = io::Error::from(io::ErrorKind::WouldBlock);
            return Err(Failure::cannot("start a thread that renews the lock acquired by hand")(none).into());
        }
        Ok(Some(InterimKeeper { _keeper: keeper, losses }))
    }

    /// Renews the locks that were acquired by hand once more, after the wait for the others: nothing starts without
    /// them. A store that does not answer is asked again until `until`.
    pub fn confirm(
        &mut self,
        until: Deadline,
        store: &mut dyn Store,
        interrupt: BorrowedFd,
        context: &Context,
    ) -> anyhow::Result<()> {
        let until = until.min(Deadline::after(context.options.connect_timeout));
        let timeout = Timeout { until, interrupt: Some(interrupt) };
        for lease in &mut self.manual {
            let (sent, renewal) = loop {
                let sent = BootTime::now();
                match store.renew(&lease.request, None, &timeout) {
                    Err(StoreError::Unreachable { .. }) if !until.has_passed() => timeout.pause(RETRY),
                    other => break (sent, other),
                }
                .map_err(|error| context.explain(error))?;
            };
            let lost = |cause| Err(not_started(lease, &cause, LossConsequence::NothingStarted).into());
            match renewal.map_err(|error| context.explain(error))? {
                Renewal::Extended => {}
                Renewal::Healed => report_heal(&context.reporter, lease, sent.since(lease.renewed)),
                Renewal::Lost(holder) => return lost(lease.lost_to(holder)),
                Renewal::Released => return lost(LossCause::Released),
            }
            lease.extend(sent);
        }
        Ok(())
    }
}

/// The pause between two attempts to reach a store that does not answer.
const RETRY: Duration = Duration::from_millis(100);

/// Renews leases until it is dropped.
pub struct InterimKeeper {
    _keeper: Keeper,
    losses: Mailbox<Failure>,
}

impl InterimKeeper {
    /// The loss of a lock.
    pub fn abort(&self) -> Abort<'_> {
        let reason = || self.losses.take().ok().flatten().map(anyhow::Error::from);
        Abort { fd: self.losses.as_fd(), reason: Box::new(reason) }
    }
}

fn not_started(lease: &Lease, cause: &LossCause, consequence: LossConsequence) -> Failure {
    Failure::new(LOST, report::loss(&report::names([&lease.request.key]), cause, consequence))
}
