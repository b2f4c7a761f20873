//! The locks of ours that are held around a run.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use super::InheritedLock;
use super::renewal_events::loss;
use super::renewal_events::tell_of_heal;
use crate::clock::{BootTime, Deadline};
use crate::error::{Failed, LOST, cannot};
use crate::lock::{Keeper, Lease, Progress, Renewal, Request, Store, StoreError, Timeout};
use crate::options::Context;

/// As the store confirms them.
pub struct Nesting {
    /// Held by a `redlock run`, which renews and releases them, and whose guard guards us.
    pub kept: Vec<Lease>,
    /// Taken by hand: we renew them, and do not release them.
    pub by_hand: Vec<Lease>,
}

impl Nesting {
    /// Finds them among the requests; what is left of those is to be taken.
    pub fn find(
        requests: &mut Vec<Request>,
        store: &mut dyn Store,
        interrupt: BorrowedFd,
        context: &Context,
    ) -> anyhow::Result<Nesting> {
        let mut around = Nesting { kept: Vec::new(), by_hand: Vec::new() };
        for request in std::mem::take(requests) {
            let Some(enclosing) = InheritedLock::on(&request.key) else {
                requests.push(request);
                continue;
            };
            match enclosing.borrow(&request, store, interrupt, context)? {
                Some(lease) if enclosing.is_kept() => around.kept.push(lease),
                Some(lease) => around.by_hand.push(lease),
                None => requests.push(request),
            }
        }
        Ok(around)
    }

    /// Renews those that were taken by hand, while the rest is waited for. `reserve` is as for [`Keeper::new`].
    pub fn keep_meanwhile(
        &self,
        reserve: Duration,
        replicas: u8,
        context: &Context,
    ) -> anyhow::Result<Option<InterimKeeper>> {
        if self.by_hand.is_empty() {
            return Ok(None);
        }
        let (losses, tell) = UnixDatagram::pair().map_err(cannot("make a line from the keeper"))?;
        losses.set_nonblocking(true).map_err(cannot("listen to the keeper"))?;
        let messages = context.messages;
        let report = move |progress: Progress| {
            if let Progress::Healed(lease, gone) = progress {
                tell_of_heal(messages, lease, gone);
            }
            if let Some((lease, why)) = loss(&progress) {
                let lost = format!("lost '{}' while the others were waited for: {why}", lease.request.key);
                let _ = tell.send(lost.as_bytes());
            }
        };
        // The one who waits for the rest is busy with its own store.
        let store = context.open_store_of(replicas, Vec::new());
        let keeper = Keeper::new(store, self.by_hand.clone(), reserve, Box::new(report) as ReportProgress);
        let keeper = keeper.start();
        if keeper.start_at().is_some() {
            let none = io::Error::from(io::ErrorKind::WouldBlock);
            return Err(cannot("start a thread that renews the lock taken by hand")(none));
        }
        Ok(Some(InterimKeeper { _keeper: keeper, losses }))
    }

    /// Renews those that were taken by hand once more, after the wait for the rest: nothing starts without them. A
    /// store that does not answer is asked again, until one of the leases is over, or the patience.
    pub fn confirm(
        &mut self,
        until: Deadline,
        store: &mut dyn Store,
        interrupt: BorrowedFd,
        context: &Context,
    ) -> anyhow::Result<()> {
        let until = until.min(Deadline::after(context.attempt));
        let patience = Timeout { until, interrupt: Some(interrupt) };
        for lease in &mut self.by_hand {
            let (sent, renewal) = loop {
                let sent = BootTime::now();
                match store.renew(&lease.request, None, &patience) {
                    Err(StoreError::Unreachable { .. }) if !until.has_passed() => patience.pause(RETRY),
                    other => break (sent, other),
                }
                .map_err(|error| context.explain(error))?;
            };
            let renewal = renewal.map_err(|error| context.explain(error))?;
            if let Renewal::Healed = renewal {
                tell_of_heal(context.messages, lease, sent.since(lease.renewed()));
            }
            let lost = match &renewal {
                Renewal::Extended | Renewal::Healed => None,
                Renewal::Lost(now) => loss(&Progress::Lost(lease, now.as_ref())),
                Renewal::Released => loss(&Progress::Released(lease)),
            };
            if let Some((lease, why)) = lost {
                return Err(not_started(&format!("lost '{}': {why}", lease.request.key)));
            }
            lease.extend(sent);
        }
        Ok(())
    }
}

/// Between two attempts to reach a store that does not answer.
const RETRY: Duration = Duration::from_millis(100);

type ReportProgress = Box<dyn FnMut(Progress) + Send>;

/// Renews leases until it is dropped.
pub struct InterimKeeper {
    _keeper: Keeper<ReportProgress>,
    losses: UnixDatagram,
}

impl InterimKeeper {
    /// An error when a lock is lost.
    pub fn check(&self) -> anyhow::Result<()> {
        let mut lost = [0; 4096];
        match self.losses.recv(&mut lost) {
            Ok(length) => Err(not_started(&String::from_utf8_lossy(&lost[..length]))),
            Err(_) => Ok(()),
        }
    }
}

impl AsFd for InterimKeeper {
    /// Readable when a lock is lost.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.losses.as_fd()
    }
}

fn not_started(lost: &str) -> anyhow::Error {
    Failed { code: LOST, why: format!("{lost}; nothing was started") }.into()
}
