//! The hooks of a `run`: its events start them, nothing waits for them while it goes on, and they die with the lease.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::clock::Deadline;
use crate::error::Failure;
use crate::event::{Event, LossConsequence};
use crate::job::{Arrived, ExitStatus, GuardRequest, SideJob, SideJobEnd, Signals};
use crate::lock::{FencingToken, Keeper, Key};
use crate::mailbox::{Mailbox, MailboxSender, mailbox};
use crate::options::{HOOK, HookPoint, RunOptions};
use crate::poll::wait_any;
use crate::report::acquired::{FENCE, KEY, TOKEN, lines};
use crate::report::{Renderer, Reporter, one_of, text};
use crate::sanitize::sanitize;

/// The name of a hook's parent in `ps`. Not "redlock-…", so that `killall redlock` does not end it.
const NAME: &std::ffi::CStr = c"lock-hook";

/// For a hook that still runs when the command has ended: most send a message, and are about to end. Then from SIGTERM to
/// SIGKILL.
const GRACE: Duration = Duration::from_secs(1);

/// Between two attempts to end a hook: somebody may have stopped its parent.
const AGAIN: Duration = Duration::from_secs(1);

/// What ended a wait for hooks.
#[derive(PartialEq, Eq)]
enum HookWait {
    Over,
    Signal,
    TimeUp,
}

/// The hooks of a run that has some.
pub struct Hooks {
    set: Arc<HookSet>,
    /// A message for each hook that ended.
    ends: Mailbox<()>,
}

struct HookSet {
    hooks: Vec<Hook>,
    kill_after: Duration,
    /// How long a hook may run that runs under no lease.
    limit: Duration,
    reporter: Reporter,
    state: Mutex<HookState>,
    ended: MailboxSender<()>,
}

struct Hook {
    point: HookPoint,
    job: SideJob,
}

/// What the hooks have to know of the run.
#[derive(Default)]
struct HookState {
    granted: Vec<(Key, FencingToken)>,
    lease_end: Option<Deadline>,
    command_end: Option<ExitStatus>,
    started: Vec<HookPoint>,
    running: Vec<HookPoint>,
    /// Those that redlock ended.
    stopped: Vec<HookPoint>,
    /// Those whose end is not reported yet. A reader may keep that waiting.
    unreported: Vec<HookPoint>,
}

impl HookPoint {
    /// It dies with the lease, and before the release. The others run without a lock.
    fn is_under_lease(self) -> bool {
        self == HookPoint::Acquire
    }
}

impl Hooks {
    /// Prepares what the options name. To be called before any thread is started.
    pub fn prepare(options: &RunOptions, reporter: &Reporter) -> Result<Option<Hooks>, Failure> {
        if options.hooks.is_empty() {
            return Ok(None);
        }
        let prepare = |(point, command): &(HookPoint, String)| {
            let command = ["/bin/sh", "-c", command].map(OsString::from).into();
            Ok(Hook { point: *point, job: SideJob::prepare(NAME, command, options.kill_after)? })
        };
        let hooks = options.hooks.iter().map(prepare).collect::<std::io::Result<_>>();
        let hooks = hooks.map_err(Failure::cannot("prepare the hooks"))?;
        let (ended, ends) = mailbox().map_err(Failure::cannot("wait for the hooks"))?;
        let (kill_after, limit) = (options.kill_after, options.lock.ttl.duration());
        let (reporter, state) = (reporter.clone(), Mutex::default());
        let set = Arc::new(HookSet { hooks, kill_after, limit, reporter, state, ended });
        set.reporter.attach(Box::new(HookRenderer(Arc::clone(&set))));
        Ok(Some(Hooks { set, ends }))
    }

    /// A handle for the thread that renews the leases.
    pub fn control(&self) -> HookControl {
        HookControl(Arc::clone(&self.set))
    }

    /// The processes that keep the leases alive, beside redlock and the guard of the job: see `local:`.
    pub fn holders(&self) -> impl Iterator<Item = u32> {
        let under_lease = self.set.hooks.iter().filter(|hook| hook.point.is_under_lease());
        under_lease.map(|hook| hook.job.parent_pid())
    }

    /// Ends what runs under the leases, before they are released. They are renewed meanwhile: what cannot be killed keeps
    /// the locks. Whether a signal asked redlock to end.
    pub fn end_under_lease(&self, keeper: Option<Keeper>, signals: &mut Signals) -> (Option<Keeper>, bool) {
        let is_over = || !self.set.is_running(HookPoint::is_under_lease);
        if is_over() {
            return (keeper, false);
        }
        let keeper = keeper.map(Keeper::start);
        let mut awaited = self.await_until(Deadline::after(GRACE), &is_over, signals);
        let (mut kill_at, mut was_signalled) = (Deadline::after(GRACE), false);
        while awaited != HookWait::Over {
            if awaited == HookWait::Signal {
                (kill_at, was_signalled) = (Deadline::after(Duration::ZERO), true);
            }
            self.set.end(HookPoint::is_under_lease, &GuardRequest::Stop { kill_at });
            awaited = self.await_until(Deadline::after(AGAIN), &is_over, signals);
        }
        (keeper, was_signalled)
    }

    /// Waits for the hooks that run without a lease, and for what is said of all. A signal ends them.
    pub fn await_last(&self, signals: &mut Signals) {
        let is_over = || self.set.is_over();
        while let HookWait::TimeUp = self.await_until(Deadline::after(AGAIN), &is_over, signals) {
            self.set.hooks.iter().for_each(|hook| hook.job.wake());
        }
    }

    /// Waits until it is over, a signal asks redlock to end, or the time has come.
    fn await_until(&self, until: Deadline, is_over: &dyn Fn() -> bool, signals: &mut Signals) -> HookWait {
        while !is_over() {
            wait_any(&[self.ends.as_fd(), signals.as_fd()], until);
            let _ = self.ends.take();
            let asks_to_end = |arrived: Arrived| !arrived.is_for_the_command() && !arrived.is_repeat;
            if signals.take().is_some_and(asks_to_end) {
                return HookWait::Signal;
            }
            if until.has_passed() && !is_over() {
                return HookWait::TimeUp;
            }
        }
        HookWait::Over
    }
}

impl Drop for Hooks {
    /// Leaves no process behind, and no zombie.
    fn drop(&mut self) {
        self.set.end(|_| true, &GuardRequest::Kill);
        self.set.hooks.iter().for_each(|hook| hook.job.end());
    }
}

/// Tells the hooks how long the leases live.
#[derive(Clone)]
pub struct HookControl(Arc<HookSet>);

impl HookControl {
    pub fn extend(&self, deadline: Deadline) {
        self.0.state().lease_end = Some(deadline);
        let request = GuardRequest::Extend { deadline };
        self.0.request(HookPoint::is_under_lease, &request);
    }
}

struct HookRenderer(Arc<HookSet>);

impl Renderer for HookRenderer {
    fn render(&self, event: &Event) {
        let set = &self.0;
        match event {
            Event::Waiting { busy, .. } => {
                let holder = busy.holder.as_ref();
                let holder = holder.map_or("another".to_owned(), |holder| one_of(holder, busy.others));
                set.start(
                    HookPoint::Wait,
                    &[(KEY, busy.key.to_string()), ("REDLOCK_HOLDER", sanitize(&holder))],
                );
            }
            Event::Acquired { key, fence, .. } => set.state().granted.push(((*key).clone(), *fence)),
            Event::Started { .. } => set.start(HookPoint::Acquire, &set.locks()),
            Event::CommandEnded { status } => set.state().command_end = Some(*status),
            Event::Lost { consequence, .. } => {
                use LossConsequence::{JobContinues, JobIsStopped, JobWasStopped};
                let kill_at = Deadline::after(set.kill_after);
                set.end(HookPoint::is_under_lease, &GuardRequest::Stop { kill_at });
                if matches!(consequence, JobContinues | JobIsStopped | JobWasStopped) {
                    let reason = ("REDLOCK_REASON", sanitize(&text(event)));
                    set.start(HookPoint::LostRun, &[set.locks(), vec![reason]].concat());
                }
            }
            Event::Released { .. } => {
                let status = set.state().command_end.map_or(0, ExitStatus::as_shells_say);
                let status = ("REDLOCK_EXIT_STATUS", status.to_string());
                set.start(HookPoint::Release, &[set.locks(), vec![status]].concat());
            }
            _ => {}
        }
    }
}

impl HookSet {
    fn state(&self) -> MutexGuard<'_, HookState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self, which: impl Fn(HookPoint) -> bool) -> bool {
        self.state().running.iter().any(|point| which(*point))
    }

    fn is_over(&self) -> bool {
        let state = self.state();
        state.running.is_empty() && state.unreported.is_empty()
    }

    /// The locks that this run was granted, as variables.
    fn locks(&self) -> Vec<(&'static str, String)> {
        let granted = &self.state().granted;
        let (keys, fences) = (granted.iter().map(|lock| &lock.0), granted.iter().map(|lock| lock.1));
        vec![(KEY, lines(keys)), (FENCE, lines(fences))]
    }

    /// Starts the hook for this, once. Where all locks are inherited there is none.
    fn start(self: &Arc<HookSet>, point: HookPoint, variables: &[(&'static str, String)]) {
        let Some(index) = self.hooks.iter().position(|hook| hook.point == point) else { return };
        let deadline = {
            let mut state = self.state();
            if state.started.contains(&point) || point != HookPoint::Wait && state.granted.is_empty() {
                return;
            }
            state.started.push(point);
            state.running.push(point);
            state.unreported.push(point);
            state.lease_end.filter(|_| point.is_under_lease())
        };
        let deadline = deadline.unwrap_or_else(|| Deadline::after(self.limit));
        // The owner token is the command's.
        let own = [(HOOK, point.name().to_owned()), (TOKEN, String::new())];
        let env = own.iter().chain(variables).map(|(name, value)| ((*name).to_owned(), value.clone()));
        let job = &self.hooks[index].job;
        if let Err(errno) = job.start(env.collect(), deadline) {
            return self.note_end(point, &SideJobEnd::NotStarted(errno.desc().to_owned()));
        }
        let set = Arc::clone(self);
        let wait = move || {
            let end = set.hooks[index].job.wait();
            set.note_end(point, &end);
        };
        if let Err(error) = thread::Builder::new().name(point.name().to_owned()).spawn(wait) {
            // Nobody would see its end.
            job.end();
            self.note_end(point, &SideJobEnd::NotStarted(error.to_string()));
        }
    }

    fn note_end(&self, point: HookPoint, end: &SideJobEnd) {
        let was_stopped = {
            let mut state = self.state();
            state.running.retain(|running| *running != point);
            state.stopped.contains(&point)
        };
        self.ended.send(());
        let reason = match end {
            SideJobEnd::Ended(ExitStatus::Exited(0)) => None,
            _ if was_stopped => Some("it still ran, and was stopped".to_owned()),
            SideJobEnd::Ended(ExitStatus::Exited(code)) => Some(format!("it exited with {code}")),
            SideJobEnd::Ended(ExitStatus::Signaled(signal)) => Some(format!("signal {signal} killed it")),
            SideJobEnd::Expired => Some("its time was over, and it was stopped".to_owned()),
            SideJobEnd::NotStarted(why) => Some(why.clone()),
            SideJobEnd::GuardLost => Some("its guard was killed".to_owned()),
        };
        if let Some(reason) = &reason {
            self.reporter.report(&Event::HookFailed { hook: point.name(), reason });
        }
        self.state().unreported.retain(|unreported| *unreported != point);
        self.ended.send(());
    }

    fn request(&self, which: impl Fn(HookPoint) -> bool, request: &GuardRequest) {
        let running = self.state().running.clone();
        let is_meant = |hook: &&Hook| running.contains(&hook.point) && which(hook.point);
        self.hooks.iter().filter(is_meant).for_each(|hook| hook.job.request(request));
    }

    /// Has those that run stopped or killed.
    fn end(&self, which: impl Fn(HookPoint) -> bool, request: &GuardRequest) {
        {
            let HookState { running, stopped, .. } = &mut *self.state();
            stopped.extend(running.iter().copied().filter(|point| which(*point)));
        }
        self.request(which, request);
    }
}
