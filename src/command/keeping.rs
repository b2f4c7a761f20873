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
use crate::lock::{FencingToken, Keeper, Lease, Patience, Progress, Request, Store};
use crate::output::{Messages, lost_to};
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
    /// Keep the lease that was granted: its fencing token, and when it was asked for, in nanoseconds.
    Keep { fence: u64, sent: u64 },
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
        let store = context.open_store_anywhere()?;
        let stderr = watched.shared_stderr();
        let kept: Vec<BorrowedFd> =
            [Some(watched.as_fd()), stderr.as_ref().map(AsFd::as_fd)].into_iter().flatten().collect();
        let (keeper, line) = detach(NAME, &kept, |line, signals| {
            let request = taking.request.clone().kept_by(process::id(), pid as u32);
            Post {
                line,
                signals,
                watched: &watched,
                stderr: stderr.as_ref(),
                on_lost,
                reserve: taking.reserve,
            }
            .serve(request, store);
        })?;
        taking.request = taking.request.clone().kept_by(keeper, pid as u32);
        Ok(Attendant { line, watched })
    }

    /// Hands the lease over; from here on it is renewed.
    pub fn keep(&self, lease: &Lease) -> anyhow::Result<()> {
        self.line.send(&Order::Keep { fence: lease.fence.0, sent: lease.renewed().as_nanos() });
        let key = &lease.request.key;
        self.line.receive().map(|Answer::Keeping| ()).ok_or_else(|| {
            Failed { code: BUG, why: format!("the keeper of '{key}' has ended; '{key}' was given back") }
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

/// For giving back what `redlock acquire` may have taken before it was killed.
const RELEASE: Duration = Duration::from_secs(2);

impl Post<'_> {
    /// Waits for the lease, keeps it, and gives it back.
    fn serve(mut self, request: Request, mut store: Box<dyn Store>) {
        let lease = match self.line.receive() {
            Some(Order::Keep { fence, sent }) => {
                Lease::new(request, FencingToken(fence), BootTime::from_nanos(sent))
            }
            Some(Order::GoOn | Order::Dismissed) => return,
            None => {
                let _ = store.release(&request.key, &request.token, &Patience::of(RELEASE));
                return;
            }
        };
        let key = lease.request.key.clone();
        let notices = Notices::listen(&key, &lease.request.token).ok();
        let (Ok((losses, report)), Ok(line)) = (Line::pair(), UnixStream::pair()) else { return };
        let report = move |progress: Progress| tell(&report, &progress);
        let mut keeper = Keeper::new(store, lease, line, self.reserve, report).start();
        if keeper.start_at().is_some() {
            // The system allows no thread.
            return;
        }
        self.line.send(&Answer::Keeping);
        match self.attend(&mut keeper, notices.as_ref(), &losses) {
            End::Dismissed => return,
            End::Unneeded => {}
            End::Lost { how, deadline } => self.lost(&format!("lost '{key}': {how}"), deadline),
        }
        keeper.finish(&mut Wishes { signals: self.signals, told: true });
    }

    /// Waits until there is nothing to keep any more.
    fn attend<R: FnMut(Progress) + Send + 'static>(
        &mut self,
        keeper: &mut Keeper<R>,
        notices: Option<&Notices>,
        losses: &Line,
    ) -> End {
        let (mut gone_on, mut releasing) = (false, false);
        loop {
            let acquire = (!gone_on).then(|| self.line.as_fd());
            let notice = notices.map(AsFd::as_fd);
            let watched = [Some(losses.as_fd()), notice, acquire];
            let [loss, noticed, ordered] = self.next(watched);
            // First, as it came before what a renewal found because of it.
            if noticed {
                while let Some(notice) = notices.and_then(Notices::next) {
                    releasing = true;
                    if notice == Notice::Released {
                        keeper.look();
                    }
                }
            }
            if ordered {
                match self.line.receive() {
                    Some(Order::GoOn) => gone_on = true,
                    Some(Order::Keep { .. } | Order::Dismissed) => return End::Dismissed,
                    // Nobody got the owner token.
                    None => return End::Unneeded,
                }
            }
            if loss {
                return match losses.receive() {
                    Some(Loss::Lost { how, deadline }) if !releasing => {
                        End::Lost { how, deadline: BootTime::from_nanos(deadline) }
                    }
                    _ => End::Unneeded,
                };
            }
            if self.watched.has_ended() || self.signals.next().is_some() {
                return End::Unneeded;
            }
        }
    }

    /// Waits for one of these, a signal, or the end of the process.
    fn next<const N: usize>(&self, watched: [Option<BorrowedFd>; N]) -> [bool; N] {
        let always = [self.signals.as_fd(), self.watched.as_fd()];
        let all = watched.into_iter().flatten().chain(always);
        let mut polled: Vec<PollFd> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = poll(&mut polled, PollTimeout::NONE);
        let mut ready = polled.iter().map(|fd| fd.any().unwrap_or(false));
        watched.map(|fd| fd.is_some() && ready.next().unwrap_or(false))
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
            && takes_a_line(stderr)
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

/// Whether a line can be written without waiting for a reader.
fn takes_a_line(stream: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)], PollTimeout::ZERO) == Ok(1)
}
