//! The guard: a small process outside the job's group that starts the command, is the subreaper of
//! everything the command starts, and kills all of it when redlock dies or the deadline passes.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getppid};

use super::command_parent::{CommandParent, NoParent};
use super::deadlines::Deadlines;
use super::descendants::{self, OwnChildren};
use super::end_notice::EndNotice;
use super::fork::{end, fork_off, leave_session};
use super::guard_times::GuardTimes;
use super::kill_schedule::{KillSchedule, Load};
use super::protocol::{Channel, ExitStatus, GuardReport, GuardRequest, LeftoverPolicy};
use super::relay::{Receivers, Relay};
use super::spawn::{Caller, Prepared};
use super::watchdog::Watchdog;
use super::{dispositions, priority, streams, title};
use crate::clock::{BootTime, BootTimer, Deadline};
use crate::poll::wait_readable;

/// Forks the guard, as [`fork_off`] does. No signal reaches it.
pub fn fork_guard(
    command: Vec<OsString>,
    kill_after: Duration,
    leftovers: LeftoverPolicy,
) -> io::Result<(Pid, Channel, OwnChildren, EndNotice)> {
    let children = descendants::check_visible()?;
    children.leave_out_all();
    // If the guard is killed, its orphans come to us, and we kill them.
    prctl::set_child_subreaper(true)?;
    let caller = Caller::note()?;
    // With SIGCHLD ignored, as some callers leave it, no child could be waited for.
    dispositions::set_ignored(libc::SIGCHLD, false);
    let end_notice = EndNotice::new()?;
    let (guard, channel) = fork_off(|channel| {
        if let Ok(mut guard) = Guard::new(channel, caller, kill_after, leftovers) {
            guard.prepare(&command, end_notice.clone());
            guard.run();
        }
    })?;
    Ok((guard, channel, children, end_notice))
}

pub struct Guard {
    pub(super) redlock: Pid,
    pub(super) channel: Channel,
    caller: Caller,
    pub(super) children: OwnChildren,
    pub(super) deaths: SignalFd,
    timer: BootTimer,
    pub(super) times: GuardTimes,
    relay: Relay,
    pub(super) kill_after: Duration,
    pub(super) leftovers: LeftoverPolicy,
    /// Before the start: the command, whose process sleeps, or the reason why there is none.
    prepared: Option<Result<CommandParent, NoParent>>,
    /// The same from the start on.
    pub(super) parent: Option<CommandParent>,
    pub(super) watchdog: Option<Watchdog>,
    /// More children may be dead than one look reaped.
    pub(super) more_to_reap: bool,
    pub(super) leftovers_decided: bool,
    /// The end of the command. Its pid may be in use again while leftovers are awaited.
    pub(super) status: Option<ExitStatus>,
    pub(super) reported: bool,
}

impl Guard {
    fn new(
        channel: Channel,
        caller: Caller,
        kill_after: Duration,
        leftovers: LeftoverPolicy,
    ) -> io::Result<Guard> {
        prctl::set_name(descendants::GUARD_NAME)?;
        title::replace(descendants::GUARD_NAME);
        prctl::set_child_subreaper(true)?;
        priority::probe();
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Guard {
            redlock: getppid(),
            channel,
            caller,
            children: OwnChildren::open()?,
            deaths: SignalFd::with_flags(&SigSet::from(Signal::SIGCHLD), flags)?,
            timer: BootTimer::new()?,
            times: GuardTimes::default(),
            relay: Relay::default(),
            kill_after,
            leftovers,
            prepared: None,
            parent: None,
            watchdog: None,
            more_to_reap: false,
            leftovers_decided: false,
            status: None,
            reported: false,
        })
    }

    /// Makes the command's process ahead, while redlock asks for the lock.
    fn prepare(&mut self, command: &[OsString], end_notice: EndNotice) {
        let command = Prepared::new(command, self.redlock, &self.caller).map_err(NoParent::from);
        let prepare = |command| CommandParent::prepare(command, end_notice);
        self.prepared = Some(command.and_then(prepare));
    }

    /// Carries out redlock's requests. Never returns: it ends with the job, or when redlock is gone and the job killed.
    fn run(&mut self) -> ! {
        loop {
            self.set_priority();
            let [from_redlock, time, death] = self.wait();
            // Time first: an extension that arrives at the deadline is too late.
            if time {
                self.timer.clear();
            }
            if self.is_running() {
                self.check_time();
            }
            if from_redlock {
                match self.channel.receive() {
                    Some(request) => self.handle(request),
                    None => self.redlock_is_gone(),
                }
            }
            if death || self.more_to_reap {
                self.reap_ended();
            }
            if self.is_running() {
                let mut relay = std::mem::take(&mut self.relay);
                if let Some(receivers) = self.receivers() {
                    relay.pass_on(&receivers, self.kill_after);
                }
                self.relay = relay;
            }
            self.set_timers();
        }
    }

    fn is_running(&self) -> bool {
        self.parent.is_some() && !self.reported
    }

    fn set_timers(&self) {
        let times = self.is_running().then_some(&self.times);
        self.timer.set(times.and_then(|times| times.next().into_iter().chain(self.relay.next()).min()));
        if let Some(watchdog) = &self.watchdog {
            watchdog.set(times.and_then(|times| times.schedule));
        }
    }

    /// While a command runs, the guard has to wake in time: an ordinary process was seen to wait for a processor for 2 s, beside
    /// two busy ones on Linux 6.18. To reap is not urgent, and may have no end.
    fn set_priority(&self) {
        if self.is_running() && !self.more_to_reap {
            priority::raise();
        } else {
            priority::lower();
        }
    }

    /// Waits for a request, the timer, or the death of the command or of a leftover process. Returns which of them came.
    fn wait(&self) -> [bool; 3] {
        let parent = self.parent.as_ref().filter(|_| self.status.is_none());
        let [death, end] = match (parent, &self.parent) {
            (Some(parent), _) => [parent.as_fd(), parent.command_end.as_fd()],
            (None, Some(_)) => [self.deaths.as_fd(); 2],
            // A process that was made ahead may be stopped: the signal of that says nothing of the job.
            (None, None) => [self.timer.as_fd(); 2],
        };
        let until = if self.more_to_reap { BootTime::from_nanos(0) } else { BootTime::NEVER };
        let fds = [self.channel.as_fd(), self.timer.as_fd(), death, end];
        let [from_redlock, time, death, end] = wait_readable(fds, until);
        let is_death =
            self.parent.is_some() && death || end && parent.is_some_and(CommandParent::await_status);
        [from_redlock, time, is_death]
    }

    fn handle(&mut self, request: GuardRequest) {
        match request {
            // Redlock or the guard was stopped for a while: the command would run without a lease.
            GuardRequest::Start { deadlines, .. } if deadlines.stop.has_passed() => {
                self.not_started(&GuardReport::TooLate { has_begun: false });
            }
            GuardRequest::Start { env, deadlines, ends_in_time } => {
                if ends_in_time {
                    self.set_deadlines(deadlines);
                }
                self.start(&env, deadlines.stop);
            }
            GuardRequest::Extend(deadlines) => {
                if self.times.schedule.is_some() && !self.times.expired {
                    self.set_deadlines(deadlines);
                }
            }
            GuardRequest::Signal(signal) => self.relay.add(signal),
            GuardRequest::SeenByGroup(signal) => {
                if let Some(parent) = &self.parent {
                    parent.take(signal);
                }
            }
            GuardRequest::SignalOutside(signal) => {
                if let Some(receivers) = self.receivers() {
                    receivers.signal_outside(signal);
                }
            }
            GuardRequest::Stop { kill_at } => self.stop(kill_at),
            GuardRequest::Kill => self.kill(),
        }
    }

    fn set_deadlines(&mut self, deadlines: Deadlines) {
        if self.times.is_resting() && self.status.is_some() {
            dispositions::set_ignored(libc::SIGCHLD, false);
            self.more_to_reap = true;
        }
        if let Some(parent) = &self.parent {
            parent.wake();
        }
        self.times.schedule = Some(KillSchedule::new(BootTime::now(), deadlines));
    }

    /// Starts the command, which has `until` then for that.
    fn start(&mut self, env: &[(String, String)], until: Deadline) {
        // The kernel reaps, as long as the command runs: one that forks at once leaves no zombies.
        dispositions::set_ignored(libc::SIGCHLD, true);
        let Some(prepared) = self.prepared.take() else { return };
        let started = prepared
            .and_then(|mut parent| parent.start(env, &self.channel, until, &self.children).map(|()| parent));
        match started {
            Ok(parent) => {
                let pid = parent.command;
                self.watchdog = Watchdog::where_needed(&self.children, self.times.schedule);
                self.watchdog.iter().for_each(|watchdog| parent.leave_out(watchdog.pid()));
                self.parent = Some(parent);
                // Not before the start: the command belongs in the caller's session.
                leave_session();
                priority::put_session_first();
                priority::shorten_slice();
                self.channel
                    .send(&GuardReport::Started { pid, watchdog: self.watchdog.as_ref().map(Watchdog::pid) });
                streams::detach(false);
            }
            Err(NoParent::Killed) => self.not_started(&GuardReport::ProcessKilled),
            Err(NoParent::GivenUp { has_begun }) => self.not_started(&GuardReport::TooLate { has_begun }),
            Err(NoParent::Failed(error)) => {
                let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
                self.not_started(&GuardReport::NotStarted { errno, message: error.to_string() });
            }
        }
    }

    fn not_started(&mut self, why: &GuardReport) {
        self.reported = true;
        self.channel.send(why);
    }

    /// Looks, stops, rests and kills when it is time for that.
    fn check_time(&mut self) {
        let times = &mut self.times;
        if let Some(schedule) = &mut times.schedule {
            if schedule.look_at.has_passed() {
                schedule.note(Load::now());
            }
            if !times.expired && schedule.stop_at().has_passed() {
                times.expired = true;
                self.stop(self.times.next_kill());
            } else if times.expired {
                // The job may have grown since SIGTERM.
                times.kill_at = Some(times.next_kill());
            }
        }
        if self.times.is_resting() {
            // Saves processor time, so that the scheduler does not make the guard wait when it has to kill.
            dispositions::set_ignored(libc::SIGCHLD, true);
        }
        if self.times.kill_at.is_some_and(Deadline::has_passed) {
            self.kill();
        } else if self.times.kill_at.is_none() && self.times.leftovers_at.is_some_and(Deadline::has_passed) {
            self.decide_leftovers();
        }
    }

    pub(super) fn stop(&mut self, kill_at: Deadline) {
        self.times.stop(kill_at);
        self.relay.forget_reminder();
        if let Some(receivers) = self.receivers() {
            receivers.signal(libc::SIGTERM, |_, _| true);
        }
    }

    /// The processes that signals are passed on to, once there is a job.
    fn receivers(&self) -> Option<Receivers<'_>> {
        let (parent, command, group) = (self.parent.as_ref()?, self.command(), self.caller.group);
        Some(Receivers { parent, command, group, children: &self.children, until: self.times.next_kill() })
    }

    pub(super) fn command(&self) -> Option<i32> {
        self.parent.as_ref().filter(|parent| parent.status().is_none()).map(|parent| parent.command)
    }

    /// Redlock is gone. If the job still runs, redlock was killed, and the job is killed, too.
    fn redlock_is_gone(&mut self) -> ! {
        if self.is_running() {
            self.kill();
        }
        if let Some(Ok(prepared)) = &self.prepared {
            prepared.give_up(&self.children);
        }
        end()
    }
}
