//! The keeper: a thread that renews leases, from the first renewal on.

use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::renewal::{Cancellation, Finish, LeaseEnd, Renewals, ReportProgress};
use super::{Lease, Store, StoreError};
use crate::clock::{BootTime, Deadline};
use crate::mailbox::{Mailbox, MailboxSender, mailbox};
use crate::poll::wait_readable;

/// Renews leases that are needed together. Nobody else talks to their store while it does, so no renewal can follow
/// the release (redisson issue 7272).
///
/// Most jobs end before the first renewal is due: only then there is a thread, and descriptors to talk to it.
pub enum Keeper {
    Idle(Box<Renewals>),
    Running { orders: MailboxSender<()>, end: Mailbox<(Finish, Box<Renewals>)> },
}

/// What became of the leases at last, and their store, which is free for other requests.
pub struct KeeperEnd {
    pub end: LeaseEnd,
    /// Why the last renewal of one failed that was not lost by then.
    pub failure: Option<StoreError>,
    /// `None` while the keeper still talks to it.
    pub store: Option<&'static mut dyn Store>,
}

impl Keeper {
    /// Keeps `leases` until [`Keeper::finish`]. A lease counts as expired `reserve` before its deadline: that is the
    /// time in which the job is stopped. `report` runs in the keeper's thread.
    ///
    /// To be called when nothing is urgent any more: see [`Store::settle`].
    pub fn new(
        mut store: Box<dyn Store>,
        leases: Vec<Lease>,
        reserve: Duration,
        report: ReportProgress,
    ) -> Keeper {
        store.settle();
        Keeper::Idle(Box::new(Renewals::new(store, leases, reserve, report)))
    }

    /// When to call [`Keeper::start`]; `None` when the thread runs.
    pub fn start_at(&self) -> Option<BootTime> {
        match self {
            Keeper::Idle(renewals) => Some(renewals.next),
            Keeper::Running { .. } => None,
        }
    }

    pub fn start(self) -> Keeper {
        match self {
            Keeper::Idle(renewals) => spawn(renewals).unwrap_or_else(|mut renewals| {
                // The system allows no thread or no descriptor: then each renewal is made here.
                renewals.renew();
                Keeper::Idle(renewals)
            }),
            running => running,
        }
    }

    /// Renews now: something may have happened to the lock.
    pub fn renew_now(&self) {
        if let Keeper::Running { orders, .. } = self {
            orders.send(());
        }
    }

    /// Ends the renewals and releases what was not borrowed, in bounded time, or until that is abandoned.
    pub fn finish(self, cancellation: &mut dyn Cancellation) -> KeeperEnd {
        let (Finish { end, failure }, renewals) = match self {
            Keeper::Idle(mut renewals) => (renewals.finish(Some(cancellation)), renewals),
            Keeper::Running { orders, end } => {
                drop(orders);
                loop {
                    wait_readable([end.as_fd(), cancellation.as_fd()], Deadline::NEVER);
                    match end.take() {
                        Ok(Some(ended)) => break ended,
                        Ok(None) if !cancellation.should_abandon() => {}
                        Ok(None) | Err(_) => {
                            let end = LeaseEnd::Unreleased(StoreError::Interrupted);
                            return KeeperEnd { end, failure: None, store: None };
                        }
                    }
                }
            }
        };
        // Leaked: the end of the process closes the store, faster than a destructor.
        KeeperEnd { end, failure, store: Some(Box::leak(renewals).store.as_mut()) }
    }
}

/// The renewals come back if there can be no thread.
fn spawn(mut renewals: Box<Renewals>) -> Result<Keeper, Box<Renewals>> {
    let (Ok((orders, inbox)), Ok((send_end, end))) = (mailbox(), mailbox()) else { return Err(renewals) };
    let (hand_over, handed_over) = mpsc::channel::<Box<Renewals>>();
    let work = move || {
        if let Ok(mut renewals) = handed_over.recv() {
            renewals.run();
            let finish = renewals.finish(None);
            send_end.send((finish, renewals));
        }
    };
    if thread::Builder::new().name("keeper".to_owned()).spawn(work).is_err() {
        return Err(renewals);
    }
    renewals.orders = Some(inbox);
    hand_over.send(renewals).map_err(|back| back.0)?;
    Ok(Keeper::Running { orders, end })
}
