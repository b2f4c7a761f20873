//! While the job runs.

use crate::cli::Leftovers;
use crate::clock::Deadline;
use std::os::fd::{AsFd, BorrowedFd};

use crate::job::{Arrived, ExitStatus, GuardLoss, Job, JobControl, JobEnd, JobEvent, Signals};
use crate::lock::{Cancellation, Keeper, Progress};
use crate::report::Messages;

use crate::command::run::Plan;

/// How the job ended.
pub struct RunEnd {
    pub ended: JobEnd,
    pub guard_lost: Option<GuardLoss>,
    pub timed_out: bool,
    /// A signal had asked for it.
    pub told_to_end: bool,
}

/// What has happened to the job so far.
pub struct Supervisor<'a> {
    plan: &'a Plan,
    control: &'a JobControl,
    messages: Messages,
    /// The end of --timeout.
    stop_at: Option<Deadline>,
    timed_out: bool,
    told_to_end: bool,
    /// A signal was passed on to the job.
    passed_on: bool,
    command_ended: bool,
}

impl Supervisor<'_> {
    pub fn new<'a>(plan: &'a Plan, control: &'a JobControl, messages: Messages) -> Supervisor<'a> {
        let stop_at = plan.timeout.map(Deadline::after);
        let (timed_out, told_to_end, passed_on, command_ended) = (false, false, false, false);
        Supervisor { plan, control, messages, stop_at, timed_out, told_to_end, passed_on, command_ended }
    }

    /// Waits for the end of the job, has its lease renewed, and passes on the signals that only redlock got.
    pub fn until_end<R: FnMut(Progress) + Send + 'static>(
        mut self,
        job: &mut Job,
        signals: &mut Signals,
        mut keeper: Option<Keeper<R>>,
    ) -> (RunEnd, Option<Keeper<R>>) {
        loop {
            let renew_at = keeper.as_ref().and_then(Keeper::start_at);
            match job.next(signals, renew_at.into_iter().chain(self.stop_at).min()) {
                JobEvent::Signal(arrived) => self.signal(arrived),
                JobEvent::TimeUp if renew_at.is_some_and(Deadline::has_passed) => {
                    keeper = keeper.map(Keeper::start);
                }
                JobEvent::TimeUp => {
                    (self.timed_out, self.stop_at) = (true, None);
                    self.control.stop(Deadline::after(self.plan.kill_after));
                }
                JobEvent::CommandEnded(status) => self.command_ended(status),
                JobEvent::JobEnd { ended, guard_lost } => {
                    let Supervisor { timed_out, told_to_end, .. } = self;
                    return (RunEnd { ended, guard_lost, timed_out, told_to_end }, keeper);
                }
            }
        }
    }

    fn signal(&mut self, arrived: Arrived) {
        let Arrived { signal, from_terminal, .. } = arrived;
        if arrived.is_for_the_command() {
            return self.control.signal_command(signal);
        }
        // The terminal told the job, and the command decides what becomes of it; when that has ended, we do.
        if from_terminal && !(self.command_ended && arrived.is_key()) {
            self.told_to_end = true;
        } else if self.passed_on && !arrived.is_same_wish {
            self.control.kill();
        } else {
            (self.told_to_end, self.passed_on) = (true, true);
            if from_terminal {
                self.control.signal_outside(signal);
                self.messages.warning(format_args!(
                    "told the processes that '{}' left behind; once more kills them",
                    self.plan.name
                ));
            } else {
                self.control.signal(signal);
            }
        }
    }

    /// It left processes behind, which are waited for or stopped.
    fn command_ended(&mut self, status: ExitStatus) {
        let Plan { leftovers, name, locks, .. } = self.plan;
        self.command_ended = true;
        if *leftovers != Some(Leftovers::Wait) {
            // The command ended in time.
            self.stop_at = None;
        }
        match (leftovers, status) {
            (None, ExitStatus::Signaled(signal)) => self.messages.warning(format_args!(
                "'{name}' was killed by signal {signal} and left processes behind; stopping them"
            )),
            _ => self
                .messages
                .note(format_args!("'{name}' left processes behind; {locks} held until they have ended")),
        }
    }
}

/// The signals that ask redlock to end: one is no reason not to give the lock back, a second one is.
pub struct SecondSignal {
    pub signals: Signals,
    /// One has come.
    pub told: bool,
}

impl Cancellation for SecondSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    fn should_abandon(&mut self) -> bool {
        while let Some(arrived) = self.signals.take() {
            let is_wish = !arrived.is_for_the_command() && !arrived.is_same_wish;
            if is_wish && std::mem::replace(&mut self.told, true) {
                return true;
            }
        }
        false
    }
}
