//! Supervising the job from its start to the release of its locks.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::Context;
use crate::cli::Leftovers;
use crate::clock::{BootTime, Deadline};
use crate::event::{Event, LeftBehind, LeftoversFate, LossConsequence};
use crate::job::{Arrived, ExitStatus, GuardLoss, GuardRequest, Job, JobControl, JobEnd, JobEvent, Signals};
use crate::lock::{Cancellation, Keeper, KeeperEnd, Key, LeaseEnd, LossCause};
use crate::options::RunOptions;

/// The end of a job.
pub struct RunEnd {
    pub job: JobEnd,
    pub guard_lost: Option<GuardLoss>,
    pub timed_out: bool,
    /// A signal asked for it.
    pub was_signalled: bool,
    /// The signal of a key that was pressed after the job: it is meant for redlock's caller, too.
    pub pressed: Option<i32>,
    /// The locks were still held after it: a later loss does not concern the job.
    pub locks_outlived_it: bool,
}

impl RunEnd {
    /// A signal came after the job.
    pub fn note(&mut self, arrived: Arrived) {
        self.was_signalled = true;
        self.pressed = self.pressed.or(arrived.is_key_press().then_some(arrived.signal));
    }
}

/// Looks after a job until its locks are released.
pub struct Supervisor<'a> {
    pub options: &'a RunOptions,
    /// The keys of all locks of the job.
    pub keys: &'a [Key],
    pub control: &'a JobControl,
    pub context: &'a Context,
}

/// The events of the job so far.
#[derive(Default)]
struct JobProgress {
    timed_out: bool,
    was_signalled: bool,
    /// The time at which a signal last asked the job to end.
    asked_at: Option<BootTime>,
    command_ended: bool,
}

impl JobProgress {
    fn is_urgent(&self) -> bool {
        self.asked_at.is_some_and(|at| BootTime::now().since(at) < URGENT)
    }
}

/// A second request to end the job within this time kills it. A later one is passed on like the first.
const URGENT: Duration = Duration::from_secs(10);

impl Supervisor<'_> {
    /// Waits for the end of the job, starts its renewals when the first is due, and passes on the signals that only
    /// redlock got.
    pub fn until_end(
        &self,
        job: &mut Job,
        signals: &mut Signals,
        mut keeper: Option<Keeper>,
    ) -> (RunEnd, Option<Keeper>) {
        let mut progress = JobProgress::default();
        signals.pass_on_all();
        // The end of --timeout.
        let mut stop_at = self.options.timeout.map(Deadline::after);
        loop {
            let renew_at = keeper.as_ref().and_then(Keeper::start_at);
            match job.next(signals, renew_at.into_iter().chain(stop_at).min()) {
                JobEvent::Signal(arrived) => self.pass_on(arrived, &mut progress),
                JobEvent::TimeUp if renew_at.is_some_and(Deadline::has_passed) => {
                    keeper = keeper.map(Keeper::start);
                }
                JobEvent::TimeUp => {
                    (progress.timed_out, stop_at) = (true, None);
                    self.control.stop();
                    self.report_timeout(progress.command_ended);
                }
                JobEvent::CommandEnded(status) => {
                    progress.command_ended = true;
                    self.context.reporter.report(&Event::CommandEnded { status });
                    if self.options.args.leftovers != Some(Leftovers::Wait) {
                        // --timeout is for the command, which ended in time.
                        stop_at = None;
                    }
                    let fate = match (self.options.args.leftovers, status) {
                        (None, ExitStatus::Signaled(signal)) => LeftoversFate::Stopped { signal },
                        (Some(Leftovers::Kill), _) => LeftoversFate::Unwanted,
                        _ => LeftoversFate::Awaited { keys: self.keys },
                    };
                    self.report_leftovers(job.leftover(), fate);
                }
                JobEvent::JobEnd { ended: job, guard_lost } => {
                    let JobProgress { timed_out, was_signalled, command_ended, .. } = progress;
                    if !command_ended {
                        self.context.reporter.report(&Event::CommandEnded { status: job.status });
                    }
                    let (pressed, locks_outlived_it) = (None, false);
                    let end =
                        RunEnd { job, guard_lost, timed_out, was_signalled, pressed, locks_outlived_it };
                    return (end, keeper);
                }
            }
        }
    }

    fn pass_on(&self, arrived: Arrived, progress: &mut JobProgress) {
        let Arrived { signal, from_terminal, .. } = arrived;
        // The terminal has signalled the job too: the command decides what follows, and redlock once that has ended.
        if from_terminal && !(progress.command_ended && arrived.is_key_press()) {
            progress.was_signalled = true;
            self.control.request(&GuardRequest::SeenByGroup(signal));
        } else if !arrived.may_become_urgent() {
            self.control.request(&GuardRequest::Signal(signal));
        } else if progress.is_urgent() && !arrived.is_repeat {
            self.control.request(&GuardRequest::Kill);
        } else {
            (progress.was_signalled, progress.asked_at) = (true, Some(BootTime::now()));
            if from_terminal {
                self.control.request(&GuardRequest::SignalOutside(signal));
                self.report_leftovers(None, LeftoversFate::Signalled);
            } else {
                self.control.request(&GuardRequest::Signal(signal));
            }
        }
    }

    fn report_timeout(&self, has_ended: bool) {
        let (command, limit) = (&self.options.name, self.options.timeout.unwrap_or_default());
        self.context.reporter.report(&Event::TimedOut { command, has_ended, limit });
    }

    fn report_leftovers(&self, one: Option<(i32, String)>, fate: LeftoversFate) {
        let of = &LeftBehind { command: &self.options.name, one };
        self.context.reporter.report(&Event::Leftovers { of, fate });
    }

    /// Ends the renewals, releases the locks, and gives one verdict on them: lost if the keeper or the guard says so.
    pub fn release(
        &self,
        keeper: Keeper,
        end: &mut RunEnd,
        job: &mut Job,
        signals: &mut Signals,
    ) -> KeeperEnd {
        let mut cancellation =
            SecondSignal { signals, was_signalled: end.was_signalled, pressed: end.pressed };
        let mut finished = keeper.finish(&mut cancellation);
        // A signal may have come at the last moment.
        cancellation.should_abandon();
        end.pressed = cancellation.pressed;
        job.confirm(&mut end.job);
        if end.job.expired && finished.end != LeaseEnd::Lost {
            let cause = &LossCause::Expired(finished.failure.take());
            let consequence = LossConsequence::JobWasStopped;
            self.context.reporter.report(&Event::Lost { keys: self.keys, cause, consequence });
            finished.end = LeaseEnd::Lost;
        }
        finished
    }
}

/// Cancels a release at the second signal that asks redlock to end.
pub struct SecondSignal<'a> {
    pub signals: &'a mut Signals,
    /// The first one has come.
    pub was_signalled: bool,
    /// As in [`RunEnd`].
    pub pressed: Option<i32>,
}

impl AsFd for SecondSignal<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

impl Cancellation for SecondSignal<'_> {
    fn should_abandon(&mut self) -> bool {
        while let Some(arrived) = self.signals.take() {
            self.pressed = self.pressed.or(arrived.is_key_press().then_some(arrived.signal));
            if arrived.asks_to_end() && std::mem::replace(&mut self.was_signalled, true) {
                return true;
            }
        }
        false
    }
}
