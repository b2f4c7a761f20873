//! The locks of ours that are held around a run.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use super::context::Context;
use super::enclosing::Enclosing;
use super::failure::{Failed, LOST, cannot};
use super::loss::loss;
use crate::clock::BootTime;
use crate::lock::{Keeper, Lease, Progress, Renewal, Request, Store};
use crate::output::lost_to;

/// As the store confirms them.
pub struct Around {
    /// Held by a `redlock run`, which renews and releases them, and whose guard guards us.
    pub kept: Vec<Lease>,
    /// Taken by hand: we renew them, and do not release them.
    pub by_hand: Vec<Lease>,
}

impl Around {
    /// Finds them among the requests; what is left of those is to be taken.
    pub fn find(
        requests: &mut Vec<Request>,
        store: &mut dyn Store,
        context: &Context,
    ) -> anyhow::Result<Around> {
        let mut around = Around { kept: Vec::new(), by_hand: Vec::new() };
        for request in std::mem::take(requests) {
            let Some(enclosing) = Enclosing::on(&request.key) else {
                requests.push(request);
                continue;
            };
            match enclosing.borrow(&request, store, context)? {
                Some(lease) if enclosing.is_kept() => around.kept.push(lease),
                Some(lease) => around.by_hand.push(lease),
                None => requests.push(request),
            }
        }
        Ok(around)
    }

    /// Renews those that were taken by hand, while the rest is waited for. `reserve` is as for [`Keeper::new`].
    pub fn keep_meanwhile(&self, reserve: Duration, context: &Context) -> anyhow::Result<Option<Meanwhile>> {
        if self.by_hand.is_empty() {
            return Ok(None);
        }
        let line = UnixStream::pair().map_err(cannot("make a line to the keeper"))?;
        let (losses, tell) = UnixDatagram::pair().map_err(cannot("make a line from the keeper"))?;
        losses.set_nonblocking(true).map_err(cannot("listen to the keeper"))?;
        let report = move |progress: Progress| {
            if let Some((lease, why)) = loss(&progress) {
                let lost = format!("lost '{}' while the others were waited for: {why}", lease.request.key);
                let _ = tell.send(lost.as_bytes());
            }
        };
        // The one who waits for the rest is busy with its own store.
        let store = context.open_store();
        let keeper = Keeper::new(store, self.by_hand.clone(), line, reserve, Box::new(report) as Report);
        Ok(Some(Meanwhile { _keeper: keeper.start(), losses }))
    }

    /// Renews those that were taken by hand once more, after the wait for the rest: nothing starts without them.
    pub fn confirm(&mut self, store: &mut dyn Store, context: &Context) -> anyhow::Result<()> {
        for lease in &mut self.by_hand {
            let sent = BootTime::now();
            let renewed = store.renew(&lease.request, None, &context.patience());
            let why = match renewed.map_err(|error| context.explain(error))? {
                Renewal::Extended | Renewal::Healed => {
                    lease.extend(sent);
                    continue;
                }
                Renewal::Lost(Some(now)) => lost_to(Some(&now)),
                Renewal::Lost(None) | Renewal::Released => "nobody holds it any more".to_owned(),
            };
            return Err(not_started(&format!("lost '{}': {why}", lease.request.key)));
        }
        Ok(())
    }
}

type Report = Box<dyn FnMut(Progress) + Send>;

/// Renews leases until it is dropped.
pub struct Meanwhile {
    _keeper: Keeper<Report>,
    losses: UnixDatagram,
}

impl Meanwhile {
    /// An error when a lock is lost.
    pub fn check(&self) -> anyhow::Result<()> {
        let mut lost = [0; 4096];
        match self.losses.recv(&mut lost) {
            Ok(length) => Err(not_started(&String::from_utf8_lossy(&lost[..length]))),
            Err(_) => Ok(()),
        }
    }
}

impl AsFd for Meanwhile {
    /// Readable when a lock is lost.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.losses.as_fd()
    }
}

fn not_started(lost: &str) -> anyhow::Error {
    Failed { code: LOST, why: format!("{lost}; nothing was started") }.into()
}
