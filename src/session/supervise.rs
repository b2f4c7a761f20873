//! Supervising the job from its start to the release of its locks.

use std::os::fd::{AsFd, BorrowedFd};

use super::Context;
use crate::cli::Leftovers;
use crate::clock::Deadline;
use crate::event::{Event, LeftoversFate, Loss, LossCause, LossConsequence};
use crate::job::{Arrived, ExitStatus, GuardLoss, Job, JobControl, JobEnd, JobEvent, Signals};
use crate::lock::{Cancellation, Keeper, LeaseEnd, Progress};
use crate::options::RunOptions;

/// How the job ended.
pub struct RunEnd {
    pub job: JobEnd,
    pub guard_lost: Option<GuardLoss>,
    /// By --timeout.
    pub timed_out: bool,
    /// A signal asked for it.
    pub was_signalled: bool,
}

/// What has happened to the job so far.
pub struct Supervisor<'a> {
    options: &'a RunOptions,
    /// What messages call the locks.
    locks: &'a str,
    control: &'a JobControl,
    context: &'a Context,
    /// The end of --timeout.
    stop_at: Option<Deadline>,
    timed_out: bool,
    was_signalled: bool,
    /// A signal was passed on to the job.
    passed_on: bool,
    command_ended: bool,
}

impl<'a> Supervisor<'a> {
    pub fn new(
        options: &'a RunOptions,
        locks: &'a str,
        control: &'a JobControl,
        context: &'a Context,
    ) -> Supervisor<'a> {
        Supervisor {
            options,
            locks,
            control,
            context,
            stop_at: options.timeout.map(Deadline::after),
            timed_out: false,
            was_signalled: false,
            passed_on: false,
            command_ended: false,
        }
    }

    /// Waits for the end of the job, starts its renewals when the first is due, and passes on the signals that only
    /// redlock got.
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
                    self.control.stop(Deadline::after(self.options.kill_after));
                }
                JobEvent::CommandEnded(status) => self.command_ended(status),
                JobEvent::JobEnd { ended: job, guard_lost } => {
                    let Supervisor { timed_out, was_signalled, .. } = self;
                    return (RunEnd { job, guard_lost, timed_out, was_signalled }, keeper);
                }
            }
        }
    }

    fn signal(&mut self, arrived: Arrived) {
        let Arrived { signal, from_terminal, .. } = arrived;
        if arrived.is_for_the_command() {
            return self.control.signal_command(signal);
        }
        // The terminal has signalled the job too: the command decides what follows, and redlock once that has ended.
        if from_terminal && !(self.command_ended && arrived.is_key()) {
            self.was_signalled = true;
        } else if self.passed_on && !arrived.is_repeat {
            self.control.kill();
        } else {
            (self.was_signalled, self.passed_on) = (true, true);
            if from_terminal {
                self.control.signal_outside(signal);
                self.leftovers(LeftoversFate::Signalled);
            } else {
                self.control.signal(signal);
            }
        }
    }

    /// The command left processes behind, which are awaited or stopped.
    fn command_ended(&mut self, status: ExitStatus) {
        self.command_ended = true;
        if self.options.leftovers != Some(Leftovers::Wait) {
            // --timeout is for the command, which ended in time.
            self.stop_at = None;
        }
        self.leftovers(match (self.options.leftovers, status) {
            (None, ExitStatus::Signaled(signal)) => LeftoversFate::Stopped { signal },
            _ => LeftoversFate::Awaited { locks: self.locks },
        });
    }

    fn leftovers(&self, fate: LeftoversFate) {
        self.context.reporter.report(&Event::Leftovers { command: &self.options.name, fate });
    }
}

/// Ends the renewals, releases the locks, and gives one verdict on them: lost if the keeper or the guard says so.
pub fn release<R: FnMut(Progress) + Send + 'static>(
    keeper: Keeper<R>,
    end: &RunEnd,
    signals: &mut Signals,
    locks: &str,
    context: &Context,
) -> LeaseEnd {
    let lease_end = keeper.finish(&mut SecondSignal { signals, was_signalled: end.was_signalled });
    if end.job.expired && lease_end != LeaseEnd::Lost {
        let (cause, consequence) = (&LossCause::NotRenewedInTime, LossConsequence::JobWasStopped);
        context.reporter.report(&Event::Lost(Loss { locks, cause, consequence }));
        return LeaseEnd::Lost;
    }
    lease_end
}

/// Cancels a release at the second signal that asks redlock to end.
pub struct SecondSignal<'a> {
    pub signals: &'a mut Signals,
    /// The first one has come.
    pub was_signalled: bool,
}

impl Cancellation for SecondSignal<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    fn should_abandon(&mut self) -> bool {
        while let Some(arrived) = self.signals.take() {
            let asks_to_end = !arrived.is_for_the_command() && !arrived.is_repeat;
            if asks_to_end && std::mem::replace(&mut self.was_signalled, true) {
                return true;
            }
        }
        false
    }
}
