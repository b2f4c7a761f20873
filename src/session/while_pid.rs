//! `redlock acquire --while-pid`: a process of its own keeps the lock until another process ends.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use super::Acquisition;
use super::release_notice::{Notice, Notices};
use super::renewal_events::loss;
use super::supervise::SecondSignal;
use crate::cli::{AcquireArgs, OnLost};
use crate::clock::{BootTime, Deadline};
use crate::error::{BUG, BUSY, Failed, Usage, cannot};
use crate::job::{Channel, Pidfd, Signals, detach};
use crate::lock::{FencingToken, Keeper, Key, Lease, Progress, Request, Store, Timeout};
use crate::options::Context;
use crate::report::{Messages, names};
use crate::store::OpenOptions;

/// The keeper's name in `ps`. Not "redlock-…", so that `killall redlock` does not give the lock back.
const NAME: &std::ffi::CStr = c"lock-keeper";

/// The keeper's process, as `redlock acquire` sees it. It ends without [`KeeperProcess::go_on`].
pub struct KeeperProcess {
    line: Channel,
    watched: Pidfd,
    keeper: u32,
}

/// From `redlock acquire` to the keeper. The end of the line says that acquire was killed.
#[derive(Serialize, Deserialize)]
enum KeeperMessage {
    /// Keep the leases that were granted: the fencing token of each, and when the first one was asked for, in
    /// nanoseconds.
    Keep { fences: Vec<u64>, sent: u64 },
    /// Somebody has the owner token: keep on.
    GoOn,
    /// There is nothing to keep.
    Dismissed,
}

/// The answer to [`KeeperMessage::Keep`].
#[derive(Serialize, Deserialize)]
enum KeeperReply {
    Renewals,
}

impl KeeperProcess {
    /// Starts the keeper, before the lock is taken and any thread is started, and makes it the holder in
    /// the request.
    pub fn start(
        pid: i32,
        args: &AcquireArgs,
        taking: &mut Acquisition,
        context: &Context,
    ) -> anyhow::Result<KeeperProcess> {
        let watched = Pidfd::open(pid).map_err(|error| {
            Usage::new(format!(
                "{error}; --while-pid takes the pid of a running process of yours, in a script $$"
            ))
        })?;
        let on_lost = args.on_lost.or(context.config.on_lost).unwrap_or_default();
        if on_lost == OnLost::Terminate {
            taking.reserve(taking.ttl.default_kill_after())?;
        }
        let (server, options) =
            context.store_anywhere(taking.replicas).map_err(cannot("find out the current folder"))?;
        let stderr = watched.shared_stderr();
        let kept: Vec<BorrowedFd> =
            [Some(watched.as_fd()), stderr.as_ref().map(AsFd::as_fd)].into_iter().flatten().collect();
        let keeper = detach(NAME, &kept, |line, signals| {
            let kept_by_us = |request: &Request| request.clone().kept_by(process::id(), pid as u32);
            let requests = taking.requests.iter().map(kept_by_us).collect();
            let store = server.open(OpenOptions { holders: vec![process::id(), pid as u32], ..options });
            Service {
                line,
                signals,
                watched: &watched,
                stderr: stderr.as_ref(),
                on_lost,
                reserve: taking.reserve,
            }
            .serve(requests, store);
        });
        let (keeper, line) = keeper.map_err(cannot("start the keeper"))?;
        let requests = std::mem::take(&mut taking.requests).into_iter();
        taking.requests = requests.map(|request| request.kept_by(keeper, pid as u32)).collect();
        Ok(KeeperProcess { line, watched, keeper })
    }

    /// The processes that keep the locks alive: where the keeper alone dies, the other one goes on, and the locks stay
    /// until the end of their leases.
    pub fn holders(&self) -> Vec<u32> {
        vec![self.keeper, self.watched.pid as u32]
    }

    /// Hands the leases over; from here on they are renewed.
    pub fn keep(&self, leases: &[Lease]) -> anyhow::Result<()> {
        let fences = leases.iter().map(|lease| lease.fence.0).collect();
        let sent = leases.iter().map(Lease::renewed).min().unwrap_or(BootTime::now());
        self.line.send(&KeeperMessage::Keep { fences, sent: sent.as_nanos() });
        self.line.receive().map(|KeeperReply::Renewals| ()).ok_or_else(|| {
            let names = names(leases.iter().map(|lease| &lease.request.key));
            Failed { code: BUG, why: format!("the keeper of {names} has ended; gave the lock back") }.into()
        })
    }

    /// The keeper stays when we end.
    pub fn go_on(&self) {
        self.line.send(&KeeperMessage::GoOn);
    }

    /// An error when the process for which the lock is taken has ended.
    pub fn check(&self) -> anyhow::Result<()> {
        match self.watched.has_ended() {
            false => Ok(()),
            true => {
                let why = format!("process {} has ended; nothing was taken", self.watched.pid);
                Err(Failed { code: BUSY, why }.into())
            }
        }
    }
}

impl AsFd for KeeperProcess {
    /// Readable when the process for which the lock is taken has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watched.as_fd()
    }
}

impl Drop for KeeperProcess {
    fn drop(&mut self) {
        self.line.send(&KeeperMessage::Dismissed);
    }
}

/// What the keeper's process has.
struct Service<'a> {
    line: Channel,
    signals: Signals,
    watched: &'a Pidfd,
    /// Where the loss is reported.
    stderr: Option<&'a OwnedFd>,
    on_lost: OnLost,
    reserve: Duration,
}

/// Why a lease is no longer kept, as the thread that renews says it to the rest.
#[derive(Serialize, Deserialize)]
struct Loss {
    key: String,
    /// How it was lost; `None` when it was given back.
    how: Option<String>,
    /// What may still run has until then, in nanoseconds.
    deadline: u64,
}

/// One of the locks.
struct KeptLock {
    key: Key,
    notices: Option<Notices>,
    /// Somebody gives it back with the owner token.
    releasing: bool,
}

type ReportProgress = Box<dyn FnMut(Progress) + Send>;

impl Service<'_> {
    /// Waits for the leases, keeps them, and gives them back.
    fn serve(mut self, requests: Vec<Request>, mut store: Box<dyn Store>) {
        let (fences, sent) = match self.line.receive() {
            Some(KeeperMessage::Keep { fences, sent }) => (fences, BootTime::from_nanos(sent)),
            Some(KeeperMessage::GoOn | KeeperMessage::Dismissed) => return,
            None => return cancel(store.as_mut(), &requests),
        };
        let kept = |request: &Request| KeptLock {
            key: request.key.clone(),
            notices: Notices::listen(&request.key, &request.token).ok(),
            releasing: false,
        };
        let locks = requests.iter().map(kept).collect();
        let leases = requests.into_iter().zip(fences);
        let leases = leases.map(|(request, fence)| Lease::new(request, FencingToken(fence), sent)).collect();
        let Ok((losses, report)) = Channel::pair() else { return };
        let report: ReportProgress = Box::new(move |progress| tell(&report, &progress));
        let mut keeper = Keeper::new(store, leases, self.reserve, report).start();
        if keeper.start_at().is_some() {
            // The system allows no thread.
            return;
        }
        self.line.send(&KeeperReply::Renewals);
        if self.keep(&mut keeper, locks, &losses) {
            keeper.finish(&mut SecondSignal { signals: self.signals, told: true });
        }
    }

    /// Waits until there is nothing to keep any more. `false` when nothing is to be given back.
    fn keep(
        &mut self,
        keeper: &mut Keeper<ReportProgress>,
        mut locks: Vec<KeptLock>,
        losses: &Channel,
    ) -> bool {
        let mut gone_on = false;
        // What may still run after the loss of the last one has until then.
        let mut until = BootTime::now();
        while !locks.is_empty() || !until.has_passed() {
            self.wait(&locks, losses, gone_on, if locks.is_empty() { until } else { Deadline::NEVER });
            // Looked at first: when a renewal finds what a release did, that release was announced before.
            let is_lost = is_ready(losses.as_fd(), PollFlags::POLLIN);
            locks.iter_mut().for_each(|lock| lock.hear(keeper));
            if is_lost && let Some(loss) = losses.receive::<Loss>() {
                let lost = locks.iter().position(|lock| lock.key.as_str() == loss.key);
                let lost = lost.map(|index| locks.swap_remove(index));
                if let (Some(lock), Some(how)) = (lost, loss.how)
                    && !lock.releasing
                {
                    until = until.max(BootTime::from_nanos(loss.deadline));
                    self.lost(&format!("lost '{}': {how}", lock.key));
                }
            }
            if !gone_on && is_ready(self.line.as_fd(), PollFlags::POLLIN) {
                match self.line.receive() {
                    Some(KeeperMessage::GoOn) => gone_on = true,
                    Some(KeeperMessage::Keep { .. } | KeeperMessage::Dismissed) => return false,
                    // Nobody got the owner token.
                    None => return true,
                }
            }
            if self.watched.has_ended() || self.signals.take().is_some() {
                return true;
            }
        }
        true
    }

    /// Waits for news of a lock, an order, a signal, or the end of the process.
    fn wait(&self, locks: &[KeptLock], losses: &Channel, gone_on: bool, until: Deadline) {
        let mut watched = vec![self.signals.as_fd(), self.watched.as_fd(), losses.as_fd()];
        watched.extend((!gone_on).then(|| self.line.as_fd()));
        watched.extend(locks.iter().filter_map(|lock| lock.notices.as_ref()).map(AsFd::as_fd));
        let mut polled: Vec<PollFd> =
            watched.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = poll(&mut polled, until.poll_timeout());
    }

    /// Says so, and ends the process if that is wanted.
    fn lost(&self, what: &str) {
        let pid = self.watched.pid;
        let what_now = match self.on_lost {
            OnLost::Terminate => {
                self.watched.terminate();
                format!("SIGTERM was sent to process {pid}")
            }
            OnLost::Continue => format!("process {pid} goes on without it"),
        };
        if let Some(stderr) = self.stderr
            // Without waiting for a reader.
            && is_ready(stderr.as_fd(), PollFlags::POLLOUT)
        {
            let _ = nix::unistd::dup2_stderr(stderr);
            Messages::default().error(format_args!("{what}; {what_now}"));
        }
    }
}

impl KeptLock {
    /// Takes note of a release that is announced.
    fn hear(&mut self, keeper: &mut Keeper<ReportProgress>) {
        while let Some(notice) = self.notices.as_ref().and_then(Notices::next) {
            self.releasing = true;
            if notice == Notice::Released {
                keeper.renew_now();
            }
        }
    }
}

/// For giving back what `redlock acquire` may have taken before it was killed.
const RELEASE: Duration = Duration::from_secs(2);

/// Nobody got the owner token: what was taken is cancelled, and does not wait for its min-hold.
fn cancel(store: &mut dyn Store, requests: &[Request]) {
    // This store has asked for nothing so far, and so would have nothing to cancel.
    let asked = requests.iter().all(|request| store.renew(request, None, &Timeout::of(RELEASE)).is_ok());
    if asked {
        let _ = store.cancel(requests, &Timeout::of(RELEASE));
    }
}

/// Runs in the thread that renews.
fn tell(losses: &Channel, progress: &Progress) {
    let Some((lease, why)) = loss(progress) else { return };
    let (how, deadline) = match progress {
        Progress::Released(_) => (None, lease.deadline()),
        // Another holds it already, or it was broken: then the next one waits for the end of the lease.
        Progress::Lost(_, now_held) if !now_held.is_some_and(|now| now.broken) => {
            (Some(why), BootTime::now())
        }
        _ => (Some(why), lease.deadline()),
    };
    losses.send(&Loss { key: lease.request.key.to_string(), how, deadline: deadline.as_nanos() });
}

fn is_ready(fd: BorrowedFd, flags: PollFlags) -> bool {
    poll(&mut [PollFd::new(fd, flags)], PollTimeout::ZERO) == Ok(1)
}
