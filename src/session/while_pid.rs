//! `acquire --while-pid`: a keeper in the background holds the lock until another process ends.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use std::{process, thread};

use nix::sys::eventfd::EventFd;
use serde::{Deserialize, Serialize};

use super::release_notice::{Notice, Notices};
use super::renewal_events::{report_loss, report_renewal};
use super::{Abort, Acquisition, Context};
use crate::cli::OnLost;
use crate::clock::{BootTime, Deadline};
use crate::error::{BUSY, Failure, UNREACHABLE};
use crate::event::{Event, LossConsequence};
use crate::job::{Channel, Pidfd, detach};
use crate::lock::{
    Cancellation, FencingToken, Keeper, Key, Lease, LeaseEnd, LossCause, Permits, Progress, Request, Store,
    Timeout,
};
use crate::mailbox::{Mailbox, mailbox};
use crate::poll::{is_readable, is_writable, wait_any};
use crate::report::{Reporter, names};

/// The keeper's name in `ps`. Not "redlock-…", so that `killall redlock` does not release the lock.
const NAME: &std::ffi::CStr = c"lock-keeper";
const OTHER_WRITERS: Duration = Duration::from_millis(20);

/// The answer to [`KeeperMessage::Keep`]. Not a unit struct: an empty packet is the end of the line.
#[derive(Serialize, Deserialize)]
enum KeeperReply {
    Renewals,
}

/// The keeper's process, as `redlock acquire` sees it. It ends without [`KeeperProcess::go_on`].
pub struct KeeperProcess {
    pid: u32,
    line: Channel,
    watched: Pidfd,
}

/// A message from `redlock acquire` to the keeper. The end of the line says that acquire was killed.
#[derive(Serialize, Deserialize)]
enum KeeperMessage {
    /// Keep the leases that were granted: the fencing token and the permits of each request, `None` for one that was not
    /// granted, and when the first one was asked for.
    Keep { grants: Vec<Option<(u64, Permits)>>, sent: BootTime },
    /// Somebody has the owner token: keep on.
    GoOn,
    /// There is nothing to keep.
    Dismissed,
}

impl KeeperProcess {
    /// Forks the keeper, before the lock is acquired and any thread is started, and makes it the holder in the
    /// requests.
    pub fn start(
        pid: i32,
        on_lost: OnLost,
        replicas: u8,
        acquisition: &mut Acquisition,
        context: &Context,
    ) -> anyhow::Result<KeeperProcess> {
        let watched = Pidfd::open(pid).map_err(|error| {
            Failure::usage(format!(
                "{error}; --while-pid takes the pid of a running process of yours, in a script $$"
            ))
        })?;
        let reserve = acquisition.reserve;
        let stderr = watched.shared_stderr();
        let kept: Vec<BorrowedFd> =
            [Some(watched.as_fd()), stderr.as_ref().map(AsFd::as_fd)].into_iter().flatten().collect();
        let keeper = detach(NAME, &kept, |line| {
            let kept_by_us = |request: &Request| request.clone().kept_by(process::id(), pid as u32);
            let requests = acquisition.requests.iter().map(kept_by_us).collect();
            let store = context.open_store_for(replicas, vec![process::id(), pid as u32]);
            let (watched, stderr, reporter) = (&watched, stderr.as_ref(), &context.reporter);
            BackgroundKeeper { line, watched, stderr, reporter, on_lost, reserve }.serve(requests, store);
        });
        let (keeper_pid, line) = keeper.map_err(Failure::cannot("start the keeper"))?;
        let requests = std::mem::take(&mut acquisition.requests).into_iter();
        acquisition.requests = requests.map(|request| request.kept_by(keeper_pid, pid as u32)).collect();
        Ok(KeeperProcess { pid: keeper_pid, line, watched })
    }

    /// The processes that keep the locks alive. Where the keeper alone dies, the other one goes on, and the locks stay
    /// until the end of their leases.
    pub fn holders(&self) -> Vec<u32> {
        vec![self.pid, self.watched.pid as u32]
    }

    /// Hands the leases over; from here on they are renewed.
    pub fn keep(&self, requests: &[Request], leases: &[Lease]) -> anyhow::Result<()> {
        let grant = |request: &Request| {
            let lease = leases.iter().find(|lease| lease.request.key == request.key)?;
            Some((lease.fence.0, lease.permits().clone()))
        };
        let grants = requests.iter().map(grant).collect();
        let sent = leases.iter().map(|lease| lease.renewed).min().unwrap_or(BootTime::now());
        self.line.send(&KeeperMessage::Keep { grants, sent });
        self.line.receive().map(|KeeperReply::Renewals| ()).ok_or_else(|| {
            let names = names(leases.iter().map(|lease| &lease.request.key));
            Failure::new(UNREACHABLE, format!("the keeper of {names} was killed")).into()
        })
    }

    /// The keeper stays when we end.
    pub fn go_on(&self) {
        self.line.send(&KeeperMessage::GoOn);
    }

    /// The end of the process for which the lock is acquired.
    pub fn abort(&self) -> Abort<'_> {
        let reason = || {
            let reason = format!("process {} has ended; nothing was acquired", self.watched.pid);
            self.watched.has_ended().then(|| Failure::new(BUSY, reason).into())
        };
        Abort { fd: self.watched.as_fd(), reason: Box::new(reason) }
    }
}

impl Drop for KeeperProcess {
    fn drop(&mut self) {
        self.line.send(&KeeperMessage::Dismissed);
    }
}

struct BackgroundKeeper<'a> {
    line: Channel,
    watched: &'a Pidfd,
    /// The stream on which a loss is reported.
    stderr: Option<&'a OwnedFd>,
    reporter: &'a Reporter,
    on_lost: OnLost,
    reserve: Duration,
}

/// News from the thread that renews.
enum LeaseNews {
    Lost {
        key: Key,
        cause: LossCause,
        /// The time until which nobody else can hold the lock, so that the process may still run.
        deadline: BootTime,
    },
    /// All leases were extended, by requests that were sent then.
    Renewed { sent: BootTime },
}

/// Nothing cuts the release short: the keeper ignores signals.
struct Uncancelled(EventFd);

impl AsFd for Uncancelled {
    /// A descriptor that never becomes readable.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Cancellation for Uncancelled {
    fn should_abandon(&mut self) -> bool {
        false
    }
}

struct KeptLock {
    key: Key,
    notices: Option<Notices>,
    /// Somebody releases it with the owner token, and announced that last at this time.
    releasing_since: Option<BootTime>,
}

impl BackgroundKeeper<'_> {
    /// Waits for the leases, keeps them, and releases them.
    fn serve(mut self, requests: Vec<Request>, mut store: Box<dyn Store>) {
        let (grants, sent) = match self.line.receive() {
            Some(KeeperMessage::Keep { grants, sent }) => (grants, sent),
            Some(KeeperMessage::GoOn | KeeperMessage::Dismissed) => return,
            None => return cancel(store.as_mut(), &requests),
        };
        let kept = |request: &Request| KeptLock {
            key: request.key.clone(),
            notices: Notices::listen(&request.key, &request.token).ok(),
            releasing_since: None,
        };
        let lease = |(request, grant): (Request, Option<_>)| {
            let (fence, permits) = grant?;
            Some(Lease::new(request.with_permits(permits), FencingToken(fence), sent))
        };
        let leases: Vec<Lease> = requests.into_iter().zip(grants).filter_map(lease).collect();
        let keys: Vec<Key> = leases.iter().map(|lease| lease.request.key.clone()).collect();
        let locks = leases.iter().map(|lease| kept(&lease.request)).collect();
        self.reporter.start_threads();
        let (Ok((sender, news)), Ok(never)) = (mailbox(), EventFd::new()) else { return };
        let mut uncancelled = Uncancelled(never);
        let (reporter, all_keys) = (self.reporter.clone(), keys.clone());
        let report = move |progress: Progress| {
            report_renewal(&reporter, &all_keys, &progress);
            news_of(progress).into_iter().for_each(|news| sender.send(news));
        };
        let mut keeper = Keeper::new(store, leases, self.reserve, Box::new(report)).start();
        if keeper.start_at().is_some() {
            // The system allows no thread.
            return;
        }
        self.line.send(&KeeperReply::Renewals);
        if self.keep(&mut keeper, locks, &news) && keeper.finish(&mut uncancelled).end == LeaseEnd::Released {
            self.reporter.report(&Event::Released { keys: &keys, leftovers: None });
        }
        self.reporter.finish();
    }

    /// Waits until there is nothing left to keep. `false` when nothing is to be released.
    fn keep(&mut self, keeper: &mut Keeper, mut locks: Vec<KeptLock>, news: &Mailbox<LeaseNews>) -> bool {
        let mut gone_on = false;
        // A process that may still run after the loss of the last lock has until then.
        let mut until = BootTime::now();
        while !locks.is_empty() || !until.has_passed() {
            self.wait(&locks, news, gone_on, if locks.is_empty() { until } else { Deadline::NEVER });
            // Before the notices are read: a release is announced before a renewal can find it.
            let found = news.take().ok().flatten();
            locks.iter_mut().for_each(|lock| lock.read_notices(keeper));
            match found {
                Some(LeaseNews::Lost { key, cause, deadline }) => {
                    let index = locks.iter().position(|lock| lock.key == key);
                    let lost = index.map(|index| locks.swap_remove(index));
                    let is_release = matches!(cause, LossCause::Released);
                    if !is_release && lost.is_some_and(|lost| lost.releasing_since.is_none()) {
                        until = until.max(deadline);
                        self.report_loss(&key, &cause);
                    }
                }
                Some(LeaseNews::Renewed { sent }) => {
                    locks.iter_mut().for_each(|lock| lock.note_renewal(sent));
                }
                None => {}
            }
            if !gone_on && is_readable(self.line.as_fd()) {
                match self.line.receive() {
                    Some(KeeperMessage::GoOn) => gone_on = true,
                    Some(KeeperMessage::Keep { .. } | KeeperMessage::Dismissed) => return false,
                    // Acquire was killed, perhaps before it handed out the owner token.
                    None => return true,
                }
            }
            if self.watched.has_ended() {
                return true;
            }
        }
        true
    }

    /// Waits for news of a lock, an order, or the end of the process.
    fn wait(&self, locks: &[KeptLock], news: &Mailbox<LeaseNews>, gone_on: bool, until: Deadline) {
        let mut fds = vec![self.watched.as_fd(), news.as_fd()];
        fds.extend((!gone_on).then(|| self.line.as_fd()));
        fds.extend(locks.iter().filter_map(|lock| lock.notices.as_ref()).map(AsFd::as_fd));
        wait_any(&fds, until);
    }

    /// Reports it, and ends the process if that is wanted.
    fn report_loss(&self, key: &Key, cause: &LossCause) {
        let pid = self.watched.pid;
        let consequence = match self.on_lost {
            OnLost::Terminate => {
                self.watched.terminate();
                LossConsequence::ProcessTerminated(pid)
            }
            OnLost::Continue => LossConsequence::ProcessContinues(pid),
        };
        // Never waits for a reader, but for those who write to the same terminal.
        if let Some(stderr) = self.stderr
            && is_writable(stderr.as_fd(), OTHER_WRITERS)
        {
            let _ = nix::unistd::dup2_stderr(stderr);
        }
        // Without it stderr leads nowhere, and a log still takes it.
        report_loss(self.reporter, key, cause, consequence);
    }
}

impl KeptLock {
    fn read_notices(&mut self, keeper: &Keeper) {
        while let Some(notice) = self.notices.as_ref().and_then(Notices::next) {
            self.releasing_since = Some(BootTime::now());
            if notice == Notice::Released {
                keeper.renew_now();
            }
        }
    }

    /// A release that was announced before that has failed, or was of another store: a later loss is one.
    fn note_renewal(&mut self, sent: BootTime) {
        self.releasing_since.take_if(|since| sent > *since);
    }
}

/// The time for each call that releases what `redlock acquire` may have acquired before it was killed.
const RELEASE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_secs(1);

/// Nobody got the owner token: what was acquired is cancelled, and does not wait for its min-hold. Nobody waits for this
/// process, so a store that does not answer is asked again for as long as a lease may last.
fn cancel(store: &mut dyn Store, requests: &[Request]) {
    let longest = requests.iter().map(|request| request.ttl.duration()).max().unwrap_or_default();
    let end = BootTime::after(longest);
    let mut attempt = || {
        // A store that has reached nothing need not cancel what another process asked for: see `Store::cancel`.
        requests
            .iter()
            .try_for_each(|request| store.renew(request, None, &Timeout::of(RELEASE)).map(drop))?;
        store.cancel(requests, &Timeout::of(RELEASE))
    };
    while attempt().is_err_and(|error| error.is_unknown()) && !end.has_passed() {
        thread::sleep(PAUSE);
    }
}

/// The part of the progress that the keeper has to know.
fn news_of(progress: Progress) -> Option<LeaseNews> {
    match progress {
        Progress::Renewed { took, .. } => Some(LeaseNews::Renewed { sent: BootTime::now().minus(took) }),
        Progress::Lost { lease, cause, .. } => {
            // The next holder of a broken lock waits for the end of the lease; another one has it already.
            let deadline = match &cause {
                LossCause::Taken(now_held) if now_held.as_ref().is_none_or(|now| now.broken.is_none()) => {
                    BootTime::now()
                }
                _ => lease.deadline(),
            };
            Some(LeaseNews::Lost { key: lease.request.key.clone(), cause, deadline })
        }
        Progress::Healed(..) | Progress::Failed(..) => None,
    }
}
