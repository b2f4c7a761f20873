//! The hooks of a run as its events see them: what starts which of them, and what is said of their ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use super::inherited_lock::OUTER;
use crate::clock::{BootTime, Deadline};
use crate::error::without_number;
use crate::event::{Event, LossConsequence};
use crate::job::{ExitStatus, GuardRequest, Reserve, SideJob, SideJobEnd};
use crate::lock::{FencingToken, Key, Ttl};
use crate::mailbox::MailboxSender;
use crate::options::{HOOK, HookPoint};
use crate::report::acquired::{FENCE, KEY, TOKEN, lines};
use crate::report::{Renderer, Reporter, one_of, text};
use crate::sanitize::sanitize;

pub struct HookSet {
    pub hooks: Vec<Hook>,
    /// A hook that runs under no lease may run for as long.
    pub ttl: Ttl,
    /// The time in which a hook is stopped and killed.
    pub reserve: Reserve,
    pub reporter: Reporter,
    pub state: Mutex<HookState>,
    pub ended: MailboxSender<()>,
}

pub struct Hook {
    pub point: HookPoint,
    pub job: SideJob,
}

/// The state of the run that the hooks have to know.
#[derive(Default)]
pub struct HookState {
    granted: Vec<(Key, FencingToken)>,
    pub lease_end: Option<Deadline>,
    command_end: Option<ExitStatus>,
    /// The time at which the job had ended, unless the end of its lease stopped it.
    pub job_end: Option<BootTime>,
    /// A renewal after that was a success.
    pub locks_outlived_job: bool,
    started: Vec<HookPoint>,
    running: Vec<HookPoint>,
    /// The hooks that redlock ended.
    stopped: Vec<HookPoint>,
    /// The hooks whose end is not reported yet. A reader may keep that waiting.
    unreported: Vec<HookPoint>,
    /// The hooks for which there could be no thread, and the reason.
    pub unwatched: Vec<(HookPoint, String)>,
}

impl HookPoint {
    /// It dies with the lease, and before the release. The others run without a lock.
    pub fn is_under_lease(self) -> bool {
        self == HookPoint::Acquire
    }
}

pub struct HookRenderer(pub Arc<HookSet>);

impl Renderer for HookRenderer {
    fn render(&self, event: &Event) -> Result<(), String> {
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
                use LossConsequence::{JobContinues, JobIsStopped, JobRanOn, JobWasStopped};
                let kill_at = Deadline::after(set.reserve.kill_after);
                set.end(HookPoint::is_under_lease, &GuardRequest::Stop { kill_at });
                if matches!(consequence, JobContinues | JobRanOn | JobIsStopped | JobWasStopped) {
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
        Ok(())
    }
}

impl HookSet {
    pub fn state(&self) -> MutexGuard<'_, HookState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_running(&self, which: impl Fn(HookPoint) -> bool) -> bool {
        self.state().running.iter().any(|point| which(*point))
    }

    pub fn is_over(&self) -> bool {
        let state = self.state();
        state.running.is_empty() && state.unreported.is_empty()
    }

    /// The locks that this run was granted, as variables.
    fn locks(&self) -> Vec<(&'static str, String)> {
        let granted = &self.state().granted;
        let (keys, fences) = (granted.iter().map(|lock| &lock.0), granted.iter().map(|lock| lock.1));
        vec![(KEY, lines(keys)), (FENCE, lines(fences))]
    }

    /// Starts the hook for this, once, and never where all locks are inherited.
    fn start(self: &Arc<HookSet>, point: HookPoint, variables: &[(&'static str, String)]) {
        let Some(index) = self.hooks.iter().position(|hook| hook.point == point) else { return };
        {
            let mut state = self.state();
            if state.started.contains(&point) || point != HookPoint::Wait && state.granted.is_empty() {
                return;
            }
            state.started.push(point);
        }
        // A thread first: nothing is started that nobody waits for.
        let (hand_over, started) = mpsc::channel::<Result<(), SideJobEnd>>();
        let set = Arc::clone(self);
        let wait = move || {
            if let Ok(started) = started.recv() {
                let end = started.map_or_else(|end| end, |()| set.hooks[index].job.wait());
                set.note_end(point, &end);
            }
        };
        if let Err(error) = thread::Builder::new().name(point.name().to_owned()).spawn(wait) {
            return self.state().unwatched.push((point, error.to_string()));
        }
        let deadline = {
            let mut state = self.state();
            state.running.push(point);
            state.unreported.push(point);
            state.lease_end.filter(|_| point.is_under_lease())
        };
        let deadline =
            deadline.unwrap_or_else(|| Deadline::after(self.ttl.duration() + self.reserve.length()));
        // The owner tokens are the command's.
        let own =
            [(HOOK, point.name()), (TOKEN, ""), (OUTER, "")].map(|(name, value)| (name, value.to_owned()));
        let env = own.iter().chain(variables).map(|(name, value)| ((*name).to_owned(), value.clone()));
        let _ = hand_over.send(self.hooks[index].job.start(env.collect(), deadline));
    }

    pub fn note_end(&self, point: HookPoint, end: &SideJobEnd) {
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
            SideJobEnd::Expired => Some("it ran out of time, and was stopped".to_owned()),
            SideJobEnd::NotStarted(why) => Some(without_number(why.clone())),
            SideJobEnd::GuardLost => Some("it lost its guard".to_owned()),
        };
        if let Some(reason) = &reason {
            self.reporter.report(&Event::HookFailed { hook: point.name(), reason });
        }
        self.state().unreported.retain(|unreported| *unreported != point);
        self.ended.send(());
    }

    /// The hooks that run.
    pub fn running(&self, which: impl Fn(HookPoint) -> bool) -> impl Iterator<Item = &SideJob> {
        let running = self.state().running.clone();
        let is_meant = move |hook: &&Hook| running.contains(&hook.point) && which(hook.point);
        self.hooks.iter().filter(is_meant).map(|hook| &hook.job)
    }

    /// Has the hooks that run stopped or killed.
    pub fn end(&self, which: impl Fn(HookPoint) -> bool, request: &GuardRequest) {
        {
            let HookState { running, stopped, .. } = &mut *self.state();
            stopped.extend(running.iter().copied().filter(|point| which(*point)));
        }
        self.running(which).for_each(|hook| hook.request(request));
    }
}
