//! Acquiring the locks of one command, as `run` and `acquire` do it.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::Context;
use super::supersession::{LaterRequest, Supersession};
use crate::clock::BootTime;
use crate::error::{Failure, UNREACHABLE};
use crate::event::{Event, GaveUp, Waited};
use crate::job::{Signals, own_pid_namespace};
use crate::lock::{
    AcquireFailure, Busy, DurationText, Key, Lease, LockChoice, Metadata, Mode, NotAcquired, OwnerToken,
    Patience, Request, Result, Store, StoreError, Timeout, Ttl, Wait, WaitProgress, acquire,
};
use crate::options::{LockOptions, Shown};
use crate::report::{Reporter, names};
use crate::user::UserAtHost;

/// A person may wait for the prompt.
const WITHDRAWAL: Duration = Duration::from_secs(1);

pub struct Acquisition {
    /// The requests in lock order. They differ in nothing but their keys and modes.
    pub requests: Vec<Request>,
    /// One of them is enough.
    pub one_of: bool,
    pub token: OwnerToken,
    pub ttl: Ttl,
    patience: Patience,
    supersedes: bool,
    replaces: bool,
    /// The part of the lease that must be left after the grant, for stopping the job.
    pub reserve: Duration,
    /// Exit status when a lock is held by another.
    pub conflict_exit_code: u8,
}

/// Something besides a signal that ends the wait for a lock.
pub struct Abort<'a> {
    /// Readable then.
    pub fd: BorrowedFd<'a>,
    /// The reason why the wait has ended, if it has.
    pub reason: Box<dyn Fn() -> Option<anyhow::Error> + 'a>,
}

impl Acquisition {
    pub fn new(
        options: &LockOptions,
        reserve: Duration,
        conflict_exit_code: u8,
        context: &Context,
    ) -> Acquisition {
        let &LockOptions {
            one_of, mode, take, ttl, patience, supersedes, replaces, priority, min_hold, ..
        } = options;
        if min_hold >= ttl.validity() && !min_hold.is_zero() {
            context.reporter.report(&Event::MinHoldExceedsTtl { min_hold, ttl });
        }
        if let Some(servers) = context.options.server.even_quorum() {
            context.reporter.report(&Event::EvenQuorum { servers });
        }
        let (token, metadata) =
            (OwnerToken::random(), Metadata { supersedes, priority, take, ..metadata(&options.shown, ttl) });
        let request = |key| {
            let mode = if options.above.contains(&key) { Mode::Shared } else { mode };
            let (token, metadata) = (token.clone(), metadata.clone());
            Request { key, mode, token, ttl, min_hold, metadata }
        };
        let requests = options.keys.iter().cloned().map(request).collect();
        Acquisition {
            requests,
            one_of,
            token,
            ttl,
            patience,
            supersedes,
            replaces,
            reserve,
            conflict_exit_code,
        }
    }

    pub fn keys(&self) -> Vec<Key> {
        self.requests.iter().map(|request| request.key.clone()).collect()
    }

    /// The names of the locks in messages.
    pub fn names(&self) -> String {
        names(&self.keys())
    }

    /// Drops the requests for locks that are not wanted any more, as another one was granted.
    pub fn keep_granted(&mut self, leases: &[Lease]) {
        let is_granted = |request: &Request| leases.iter().any(|lease| lease.request.key == request.key);
        self.requests.retain(is_granted);
    }

    /// Acquires the locks, or one of them. A signal ends the wait, and so does each of `aborts`.
    pub fn acquire(
        &self,
        store: &mut dyn Store,
        signals: &mut Signals,
        aborts: Vec<Abort>,
        context: &Context,
    ) -> anyhow::Result<Vec<Lease>> {
        let fds: Vec<_> = aborts.iter().map(|abort| abort.fd).collect();
        let interrupt = signals.or(&fds).map_err(Failure::cannot("wait for several things at once"))?;
        let interrupt = interrupt.as_fd();
        let (reporter, start) = (&context.reporter, BootTime::now());
        let Acquisition { requests, patience, reserve, .. } = self;
        let wanted = if self.one_of { LockChoice::OneOf(requests) } else { LockChoice::All(requests) };
        let limit = match self.patience.wait {
            Wait::AtMost(limit) => Some(limit),
            Wait::No | Wait::Forever => None,
        };
        let own = &requests[0].metadata;
        let supersession = || Supersession::new(own, self.keys(), self.replaces, interrupt, context);
        let mut supersession = self.supersedes.then(supersession);
        let (mut has_waited, mut later, mut refused) = (false, None, None);
        let mut report = |progress: WaitProgress| {
            if let (WaitProgress::Busy(busy), Some(supersession)) = (&progress, &mut supersession) {
                match supersession.replace(&busy.key) {
                    Ok(told) => told.iter().for_each(|holder| {
                        let (key, others, is_freed) = (&busy.key, 0, false);
                        reporter.report(&Event::Broken { key, holder, others, is_freed });
                    }),
                    Err(error) => refused = Some(error),
                }
                later = supersession.look_in_time();
            }
            let waited = Waited { so_far: BootTime::now().since(start), limit };
            has_waited |= !matches!(progress, WaitProgress::Ended);
            reporter.report(&match progress {
                WaitProgress::Busy(busy) => Event::Waiting { busy, waited },
                WaitProgress::Unreachable(error) => Event::StoreUnreachable { error, waited },
                WaitProgress::Ended => Event::WaitEnded,
            });
            match (&later, &refused) {
                (None, None) => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        };
        let attempt = context.options.connect_timeout;
        let acquired = acquire(store, wanted, *patience, attempt, *reserve, interrupt, &mut report);
        let NotAcquired { why, failed_release } = match acquired {
            Ok(leases) => {
                let until = Lease::first_deadline(&leases).minus(*reserve);
                let later = supersession.filter(|_| has_waited).and_then(|mut one| one.later(until));
                if let Some(later) = later {
                    return Err(self.withdraw_after(self.give_way(&later, reporter), store, reporter));
                }
                let waited = BootTime::now().since(start);
                if has_waited {
                    let keys: Vec<Key> = leases.iter().map(|lease| lease.request.key.clone()).collect();
                    reporter.report(&Event::WaitedFor { keys: &keys, waited });
                }
                for Lease { request, fence, .. } in &leases {
                    reporter.report(&Event::Acquired { key: &request.key, fence: *fence, waited });
                }
                return Ok(leases);
            }
            Err(not_acquired) => not_acquired,
        };
        let failure = match why {
            AcquireFailure::Interrupted => match (signals.take(), later, refused) {
                (Some(arrived), ..) => Failure::Signal(arrived.signal).into(),
                (None, Some(later), _) => self.give_way(&later, reporter),
                (None, None, Some(error)) => context.explain(error).into(),
                (None, None, None) => {
                    let reason = aborts.iter().find_map(|abort| (abort.reason)());
                    reason.unwrap_or_else(|| Failure::Quiet(UNREACHABLE).into())
                }
            },
            AcquireFailure::Busy(busy) => self.busy(&busy, GaveUp::AtOnce, reporter).into(),
            AcquireFailure::TimedOut(busy, waited) => {
                self.busy(&busy, GaveUp::After(waited), reporter).into()
            }
            AcquireFailure::QueueFull(busy, limit) => {
                self.busy(&busy, GaveUp::QueueFull(limit), reporter).into()
            }
            AcquireFailure::TooSlow { took } => Failure::new(
                UNREACHABLE,
                format!(
                    "acquiring {} took {}, which leaves too little of --ttl {}; use a longer TTL",
                    self.names(),
                    DurationText(took),
                    self.ttl
                ),
            )
            .into(),
            AcquireFailure::Store(error) => context.explain(error).into(),
        };
        Err(match failed_release {
            Some(why) => self.may_stay_after(failure, &why, reporter),
            None => failure,
        })
    }

    fn give_way(&self, LaterRequest { key, by }: &LaterRequest, reporter: &Reporter) -> anyhow::Error {
        reporter.report(&Event::Superseded { key, by });
        Failure::Quiet(self.conflict_exit_code).into()
    }

    fn busy(&self, busy: &Busy, why: GaveUp, reporter: &Reporter) -> Failure {
        reporter.report(&Event::NotAcquired { busy, why });
        Failure::Quiet(self.conflict_exit_code)
    }

    /// Releases locks that were granted and not used, because of `error`.
    pub fn withdraw_after(
        &self,
        error: anyhow::Error,
        store: &mut dyn Store,
        reporter: &Reporter,
    ) -> anyhow::Error {
        match self.withdraw(store) {
            Ok(()) => error,
            Err(why) => self.may_stay_after(error, &why, reporter),
        }
    }

    /// Releases locks that were granted and not used.
    pub fn withdraw(&self, store: &mut dyn Store) -> Result<()> {
        store.cancel(&self.requests, &Timeout::of(WITHDRAWAL))
    }

    /// Says, beside `error`, that the store could not be told to release the locks, and `why`: they are free when their
    /// leases end.
    pub fn may_stay_after(
        &self,
        error: anyhow::Error,
        why: &StoreError,
        reporter: &Reporter,
    ) -> anyhow::Error {
        if Failure::is_unreported(&error) {
            return Failure::with_more(
                error,
                &format!("{} may stay locked for up to {}", self.names(), self.ttl),
            );
        }
        let keys = &self.keys();
        reporter.report(&Event::NotReleased { keys, ttl: self.ttl, error: why, leftovers: None });
        error
    }
}

fn metadata(shown: &Shown, ttl: Ttl) -> Metadata {
    let UserAtHost { user, host } = UserAtHost::own();
    let ttl_ms = ttl.as_millis();
    let metadata = Metadata {
        by_hand: shown.by_hand,
        pid_namespace: own_pid_namespace(),
        sequence: shown.sequence,
        ttl_ms,
        ..Metadata::new(host, shown.pid, user, &shown.label)
    };
    match &shown.reservation {
        Some(reservation) => metadata.reserved(reservation.until, &reservation.reason),
        None => metadata,
    }
}
