//! The hooks of a `run`: nothing waits for them while it goes on, and they die with the lease.

use std::ffi::OsString;
use std::mem;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::hook_set::{Hook, HookRenderer, HookSet};
use super::supervise::RunEnd;
use crate::clock::{BootTime, Deadline};
use crate::error::Failure;
use crate::job::{Arrived, GuardRequest, Job, Reserve, SideJob, SideJobEnd, Signals, Strays};
use crate::lock::Keeper;
use crate::mailbox::{Mailbox, mailbox};
use crate::options::{HookPoint, RunOptions};
use crate::poll::wait_any;
use crate::report::Reporter;

/// The name of a hook's parent in `ps`. Not "redlock-…", so that `killall redlock` does not end it.
const NAME: &std::ffi::CStr = c"lock-hook";

/// For a hook that still runs when the command has ended: most send a message, and are about to end. Then from SIGTERM to
/// SIGKILL.
const GRACE: Duration = Duration::from_secs(1);

/// Between two attempts to end a hook: somebody may have stopped its parent.
const AGAIN: Duration = Duration::from_secs(1);

/// What ended a wait for hooks.
enum HookWait {
    Over,
    Signal(Arrived),
    TimeUp,
}

/// The hooks of a run that has some.
pub struct Hooks {
    set: Arc<HookSet>,
    /// A message for each hook that ended.
    ends: Mailbox<()>,
}

impl Hooks {
    /// Prepares what the options name. To be called before any thread is started.
    pub fn prepare(
        options: &RunOptions,
        reserve: Reserve,
        job: &Job,
        reporter: &Reporter,
    ) -> Result<Option<Hooks>, Failure> {
        if options.hooks.is_empty() {
            return Ok(None);
        }
        let prepare = || {
            let strays = Arc::new(Strays::watch()?);
            let prepare = |(point, command): &(HookPoint, String)| {
                let command = ["/bin/sh", "-c", command].map(OsString::from).into();
                let job = SideJob::prepare(NAME, command, reserve, job, &strays)?;
                Ok(Hook { point: *point, job })
            };
            options.hooks.iter().map(prepare).collect::<std::io::Result<_>>()
        };
        let hooks = prepare().map_err(Failure::cannot("prepare the hooks"))?;
        let (ended, ends) = mailbox().map_err(Failure::cannot("wait for the hooks"))?;
        let (ttl, reporter, state) = (options.lock.ttl, reporter.clone(), Mutex::default());
        let set = Arc::new(HookSet { hooks, ttl, reserve, reporter, state, ended });
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
    /// the locks.
    pub fn end_under_lease(
        &self,
        mut keeper: Option<Keeper>,
        end: &mut RunEnd,
        signals: &mut Signals,
    ) -> Option<Keeper> {
        let is_over = || !self.set.is_running(HookPoint::is_under_lease);
        if is_over() {
            return keeper;
        }
        self.set.state().job_end = (!end.job.expired).then(BootTime::now);
        // The answer says whether the locks were held to the end of the job.
        keeper = keeper.map(Keeper::start);
        keeper.iter().for_each(Keeper::renew_now);
        let mut stop_at = Deadline::after(GRACE);
        let mut kill_at = stop_at.plus(GRACE);
        loop {
            // Where there can be no thread for them, each renewal is made here.
            let renew_at = keeper.as_ref().and_then(Keeper::start_at);
            match self.await_until(renew_at.unwrap_or(stop_at).min(stop_at), &is_over, signals) {
                HookWait::Over => break,
                HookWait::TimeUp if !stop_at.has_passed() => {
                    keeper = keeper.map(Keeper::start);
                    continue;
                }
                HookWait::TimeUp => {}
                HookWait::Signal(arrived) => {
                    end.note(arrived);
                    kill_at = BootTime::now();
                }
            }
            self.set.end(HookPoint::is_under_lease, &GuardRequest::Stop { kill_at });
            stop_at = Deadline::after(AGAIN);
        }
        end.locks_outlived_it = self.set.state().locks_outlived_job;
        keeper
    }

    /// Waits for the hooks that run without a lease, and for what is said of all. Returns the signal that ended the wait.
    pub fn await_last(&self, signals: &mut Signals) -> Option<Arrived> {
        let is_over = || self.set.is_over();
        loop {
            match self.await_until(Deadline::after(AGAIN), &is_over, signals) {
                HookWait::Over => return None,
                HookWait::Signal(arrived) => return Some(arrived),
                HookWait::TimeUp => self.set.hooks.iter().for_each(|hook| hook.job.wake()),
            }
        }
    }

    /// Waits until it is over, a signal asks redlock to end, or the time has come.
    fn await_until(&self, until: Deadline, is_over: &dyn Fn() -> bool, signals: &mut Signals) -> HookWait {
        while !is_over() {
            wait_any(&[self.ends.as_fd(), signals.as_fd()], until);
            let _ = self.ends.take();
            while let Some(arrived) = signals.take() {
                if arrived.asks_to_end() {
                    return HookWait::Signal(arrived);
                }
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
        let unwatched = mem::take(&mut self.set.state().unwatched);
        unwatched.into_iter().for_each(|(point, why)| self.set.note_end(point, &SideJobEnd::NotStarted(why)));
        // What is said of them comes before the end of the run, unless a reader keeps that waiting.
        let until = Deadline::after(AGAIN);
        while !self.set.is_over() && !until.has_passed() {
            wait_any(&[self.ends.as_fd()], until);
            let _ = self.ends.take();
        }
    }
}

/// Tells the hooks how long the leases live.
#[derive(Clone)]
pub struct HookControl(Arc<HookSet>);

impl HookControl {
    pub fn extend(&self, deadline: Deadline) {
        {
            let state = &mut *self.0.state();
            state.lease_end = Some(deadline);
            // That much after the renewal was sent.
            let validity = self.0.ttl.validity();
            state.locks_outlived_job |= state.job_end.is_some_and(|end| deadline >= end.plus(validity));
        }
        self.0.running(HookPoint::is_under_lease).for_each(|hook| hook.extend(deadline));
    }

    /// It ended under its locks, as far as was known then.
    pub fn has_job_ended(&self) -> bool {
        self.0.state().job_end.is_some()
    }

    /// Whether the locks were held when the job had ended. One that is lost later was held up by a hook only.
    pub fn did_locks_outlive_job(&self) -> bool {
        self.0.state().locks_outlived_job
    }
}
