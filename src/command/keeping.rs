//! `redlock acquire --while-pid`: a process of its own keeps the lock until another process ends.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::failure::{BUG, BUSY, Failed, Usage};
use super::notice::{Notice, Notices};
use super::taking::Taking;
use super::wishes::Wishes;
use crate::cli::{AcquireArgs, OnLost};
use crate::clock::{BootTime, Deadline};
use crate::lock::{FencingToken, Keeper, Key, Lease, Patience, Progress, Request, Store};
use crate::output::{Messages, lost_to, names};
use crate::process::{Line, Signals, Watched, detach};

/// The keeper's name in `ps`. Not "redlock-…", so that `killall redlock` does not give the lock back.
const NAME: &std::ffi::CStr = c"lock-keeper";

/// The keeper's process, as `redlock acquire` sees it. It ends without [`Attendant::go_on`].
pub struct Attendant {
    line: Line,
    watched: Watched,
}

/// From `redlock acquire` to the keeper. The end of the line says that acquire was killed.
#[derive(Serialize, Deserialize)]
enum Order {
    /// Keep the leases that were granted: the fencing token of each, and when the first one was asked for, in
    /// nanoseconds.
    Keep { fences: Vec<u64>, sent: u64 },
    /// Somebody has the owner token: keep on.
    GoOn,
    /// There is nothing to keep.
    Dismissed,
}

/// The answer to [`Order::Keep`].
#[derive(Serialize, Deserialize)]
enum Answer {
    Keeping,
}

impl Attendant {
    /// Starts the keeper, before the lock is taken and any thread is started, and makes it the holder in
    /// the request.
    pub fn start(
        pid: i32,
        args: &AcquireArgs,
        taking: &mut Taking,
        context: &Context,
    ) -> anyhow::Result<Attendant> {
        let watched = Watched::open(pid).map_err(|error| {
            Usage::new(format!(
                "{error}; --while-pid takes the pid of a running process of yours, in a script $$"
            ))
        })?;
        let on_lost = args.on_lost.or(context.config.on_lost).unwrap_or_default();
        if on_lost == OnLost::Terminate {
            taking.reserve(taking.default_kill_after())?;
        }
        let stores = taking.requests.iter().map(|_| context.open_store_anywhere());
        let stores = stores.collect::<Result<Vec<_>, _>>()?;
        let stderr = watched.shared_stderr();
        let kept: Vec<BorrowedFd> =
            [Some(watched.as_fd()), stderr.as_ref().map(AsFd::as_fd)].into_iter().flatten().collect();
        let (keeper, line) = detach(NAME, &kept, |line, signals| {
            let kept_by_us = |request: &Request| request.clone().kept_by(process::id(), pid as u32);
            let requests = taking.requests.iter().map(kept_by_us).collect();
            Post {
                line,
                signals,
                watched: &watched,
                stderr: stderr.as_ref(),
                on_lost,
                reserve: taking.reserve,
            }
            .serve(requests, stores);
        })?;
        let requests = std::mem::take(&mut taking.requests).into_iter();
        taking.requests = requests.map(|request| request.kept_by(keeper, pid as u32)).collect();
        Ok(Attendant { line, watched })
    }

    /// Hands the leases over; from here on they are renewed.
    pub fn keep(&self, leases: &[Lease]) -> anyhow::Result<()> {
        let fences = leases.iter().map(|lease| lease.fence.0).collect();
        let sent = leases.iter().map(Lease::renewed).min().unwrap_or(BootTime::now());
        self.line.send(&Order::Keep { fences, sent: sent.as_nanos() });
        self.line.receive().map(|Answer::Keeping| ()).ok_or_else(|| {
            let names = names(leases.iter().map(|lease| &lease.request.key));
            Failed { code: BUG, why: format!("the keeper of {names} has ended; {names} was given back") }
                .into()
        })
    }

    /// The keeper stays when we end.
    pub fn go_on(&self) {
        self.line.send(&Order::GoOn);
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

impl AsFd for Attendant {
    /// Readable when the process for which the lock is taken has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watched.as_fd()
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        self.line.send(&Order::Dismissed);
    }
}

/// What the keeper's process has.
struct Post<'a> {
    line: Line,
    signals: Signals,
    watched: &'a Watched,
    /// Where the loss is reported.
    stderr: Option<&'a OwnedFd>,
    on_lost: OnLost,
    reserve: Duration,
}

/// Why the lease is no longer kept, as the thread that renews says it to the rest.
#[derive(Serialize, Deserialize)]
enum Loss {
    GivenBack,
    /// Lost, and how; what may still run has until the deadline, in nanoseconds.
    Lost {
        how: String,
        deadline: u64,
    },
}

/// Why the keeping ends.
enum End {
    Unneeded,
    Dismissed,
    Lost { how: String, deadline: Deadline },
}

type Report = Box<dyn FnMut(Progress) + Send>;

/// One of the locks, kept by itself: giving one back leaves the others.
struct Kept {
    key: Key,
    keeper: Keeper<Report>,
    losses: Line,
    notices: Option<Notices>,
    /// Somebody gives it back with the owner token.
    releasing: bool,
}

/// For giving back what `redlock acquire` may have taken before it was killed.
const RELEASE: Duration = Duration::from_secs(2);

impl Post<'_> {
    /// Waits for the leases, keeps them, and gives them back.
    fn serve(mut self, requests: Vec<Request>, mut stores: Vec<Box<dyn Store>>) {
        let (fences, sent) = match self.line.receive() {
            Some(Order::Keep { fences, sent }) => (fences, BootTime::from_nanos(sent)),
            Some(Order::GoOn | Order::Dismissed) => return,
            None => {
                for (store, request) in stores.iter_mut().zip(&requests) {
                    let _ = store.release(&request.key, &request.token, &Patience::of(RELEASE));
                }
                return;
            }
        };
        let leases = requests.into_iter().zip(fences);
        let leases = leases.map(|(request, fence)| Lease::new(request, FencingToken(fence), sent));
        let kept = stores.into_iter().zip(leases).map(|(store, lease)| self.keep(store, lease));
        let Some(mut locks) = kept.collect::<Option<Vec<Kept>>>() else { return };
        self.line.send(&Answer::Keeping);
        match self.attend(&mut locks) {
            End::Dismissed => return,
            End::Unneeded => {}
            End::Lost { how, deadline } => self.lost(&how, deadline),
        }
        let mut wishes = Wishes { signals: self.signals, told: true };
        for lock in locks.into_iter().rev() {
            lock.keeper.finish(&mut wishes);
        }
    }

    /// Renews a lease from now on; `None` where the system does not allow it.
    fn keep(&self, store: Box<dyn Store>, lease: Lease) -> Option<Kept> {
        let key = lease.request.key.clone();
        let notices = Notices::listen(&key, &lease.request.token).ok();
        let (losses, report) = Line::pair().ok()?;
        let report = move |progress: Progress| tell(&report, &progress);
        let line = UnixStream::pair().ok()?;
        let report: Report = Box::new(report);
        let keeper = Keeper::new(store, vec![lease], line, self.reserve, report).start();
        // Without a thread nobody would renew.
        let is_started = keeper.start_at().is_none();
        is_started.then_some(Kept { key, keeper, losses, notices, releasing: false })
    }

    /// Waits until there is nothing to keep any more.
    fn attend(&mut self, locks: &mut Vec<Kept>) -> End {
        let mut gone_on = false;
        loop {
            self.wait(locks, gone_on);
            let mut end = None;
            locks.retain_mut(|lock| match lock.hear() {
                None => true,
                Some(Loss::GivenBack) => false,
                Some(Loss::Lost { how, deadline }) => {
                    let how = format!("lost '{}': {how}", lock.key);
                    end.get_or_insert(End::Lost { how, deadline: BootTime::from_nanos(deadline) });
                    true
                }
            });
            if !gone_on && is_ready(self.line.as_fd(), PollFlags::POLLIN) {
                match self.line.receive() {
                    Some(Order::GoOn) => gone_on = true,
                    Some(Order::Keep { .. } | Order::Dismissed) => return End::Dismissed,
                    // Nobody got the owner token.
                    None => return End::Unneeded,
                }
            }
            if let Some(end) = end {
                return end;
            }
            if locks.is_empty() || self.watched.has_ended() || self.signals.next().is_some() {
                return End::Unneeded;
            }
        }
    }

    /// Waits for news of a lock, an order, a signal, or the end of the process.
    fn wait(&self, locks: &[Kept], gone_on: bool) {
        let mut watched = vec![self.signals.as_fd(), self.watched.as_fd()];
        watched.extend((!gone_on).then(|| self.line.as_fd()));
        for lock in locks {
            watched.push(lock.losses.as_fd());
            watched.extend(lock.notices.as_ref().map(AsFd::as_fd));
        }
        let mut polled: Vec<PollFd> =
            watched.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = poll(&mut polled, PollTimeout::NONE);
    }

    /// Says so, ends the process if that is wanted, and lets it have the rest of the lease.
    fn lost(&mut self, what: &str, deadline: Deadline) {
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
        while !deadline.has_passed() && !self.watched.has_ended() {
            let millis = deadline.left().as_millis().saturating_add(1).min(60_000) as u16;
            let mut ended = [PollFd::new(self.watched.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut ended, PollTimeout::from(millis));
        }
    }
}

impl Kept {
    /// How it is lost, when it is.
    fn hear(&mut self) -> Option<Loss> {
        // Looked at first: when a renewal finds what a release did, that release was announced before.
        let is_lost = is_ready(self.losses.as_fd(), PollFlags::POLLIN);
        while let Some(notice) = self.notices.as_ref().and_then(Notices::next) {
            self.releasing = true;
            if notice == Notice::Released {
                self.keeper.look();
            }
        }
        if !is_lost {
            return None;
        }
        match self.losses.receive() {
            Some(lost @ Loss::Lost { .. }) if !self.releasing => Some(lost),
            _ => Some(Loss::GivenBack),
        }
    }
}

/// Runs in the thread that renews.
fn tell(losses: &Line, progress: &Progress) {
    let loss = match progress {
        Progress::Renewed(_) | Progress::Healed(..) | Progress::Failed(..) => return,
        Progress::Released(_) => Loss::GivenBack,
        Progress::Lost(lease, now_held) => {
            // Another holds it already, or it was broken: then the next one waits for the end of the lease.
            let broken = now_held.is_some_and(|now| now.broken);
            let deadline = if broken { lease.deadline() } else { BootTime::now() };
            Loss::Lost { how: lost_to(*now_held), deadline: deadline.as_nanos() }
        }
        Progress::Expired(lease) => Loss::Lost {
            how: "no renewal came through before its lease ended".to_owned(),
            deadline: lease.deadline().as_nanos(),
        },
    };
    losses.send(&loss);
}

fn is_ready(fd: BorrowedFd, flags: PollFlags) -> bool {
    poll(&mut [PollFd::new(fd, flags)], PollTimeout::ZERO) == Ok(1)
}
