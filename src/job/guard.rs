//! The guard: a small process outside the job's group that starts the command, is the subreaper of
//! everything the command starts, and kills all of it when redlock dies or the deadline passes.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd::{Pid, setsid};

use super::command_parent::{CommandParent, NoParent};
use super::descendants::{self, OwnChildren, Reaped};
use super::fork::{end, fork_off};
use super::kill::kill_all;
use super::kill_schedule::{KillSchedule, Load, REST};
use super::protocol::{Channel, ExitStatus, GuardReport, GuardRequest, JobEnd};
use super::spawn::{Caller, CommandLine, Prepared};
use super::{dispositions, priority};
use crate::clock::{BootTime, Deadline};

/// What becomes of the processes that outlive the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftoverPolicy {
    /// The job has ended; they run on, unguarded.
    Leave,
    /// The same when the command exited; when a signal killed it, they are stopped.
    LeaveUnlessKilled,
    /// The job ends with the last of them.
    Await,
    /// They get SIGTERM, and SIGKILL some time later.
    Stop,
}

/// Forks the guard, as [`fork_off`] does. No signal reaches it.
pub fn fork_guard(
    command: CommandLine,
    kill_after: Duration,
    leftovers: LeftoverPolicy,
) -> io::Result<(Pid, Channel, OwnChildren)> {
    let children = descendants::check_visible()?;
    // If the guard is killed, its orphans come to us, and we kill them.
    prctl::set_child_subreaper(true)?;
    let caller = Caller::note()?;
    // With SIGCHLD ignored, as some callers leave it, no child could be waited for.
    dispositions::set_ignored(libc::SIGCHLD, false);
    let (guard, channel) = fork_off(|channel| {
        if let Ok(mut guard) = Guard::new(channel, kill_after, leftovers) {
            guard.run(command.prepare(), &caller);
        }
    })?;
    Ok((guard, channel, children))
}

struct Guard {
    channel: Channel,
    children: OwnChildren,
    deaths: SignalFd,
    timer: TimerFd,
    kill_after: Duration,
    leftovers: LeftoverPolicy,
    /// The parent of the command, once that has started.
    parent: Option<CommandParent>,
    /// `None` for a job without a deadline.
    schedule: Option<KillSchedule>,
    /// The deadline came near: the job is being stopped.
    expired: bool,
    /// When to kill the job, once SIGTERM went out.
    kill_at: Option<Deadline>,
    /// From then on the guard rests until `kill_at`.
    rest_at: BootTime,
    /// More children may be dead than one look reaped.
    more_to_reap: bool,
    /// When to decide about what outlived the command: until then it may be about to exit.
    leftovers_at: Option<Deadline>,
    /// That was decided.
    leftovers_decided: bool,
    /// How the command ended. Its pid may be in use again while leftovers are awaited.
    status: Option<ExitStatus>,
    reported: bool,
}

/// A signal or a closed pipe ends the processes of a job one by one, in no fixed order. What is alive after this time was
/// left behind.
const LEFTOVER_GRACE: Duration = Duration::from_millis(50);

/// The longest one look at dead children may take: leftovers that fork may die without end.
const REAPING: Duration = Duration::from_millis(5);

impl Guard {
    fn new(channel: Channel, kill_after: Duration, leftovers: LeftoverPolicy) -> io::Result<Guard> {
        prctl::set_name(descendants::GUARD_NAME)?;
        prctl::set_child_subreaper(true)?;
        // A seccomp(2) filter may kill whoever makes these calls: better now, before anything has started.
        priority::probe_seccomp();
        let deaths = SignalFd::with_flags(
            &SigSet::from(Signal::SIGCHLD),
            SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
        )?;
        let timer =
            TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        Ok(Guard {
            channel,
            children: OwnChildren::open()?,
            deaths,
            timer,
            kill_after,
            leftovers,
            parent: None,
            schedule: None,
            expired: false,
            kill_at: None,
            rest_at: BootTime::NEVER,
            more_to_reap: false,
            leftovers_at: None,
            leftovers_decided: false,
            status: None,
            reported: false,
        })
    }

    /// Carries out redlock's requests. Never returns: it ends with the job, or when redlock is gone and the job killed.
    fn run(&mut self, mut command: io::Result<Prepared>, caller: &Caller) -> ! {
        loop {
            let [from_redlock, time, death] = self.wait();
            // Time first: an extension that arrives at the deadline is too late.
            if time {
                let _ = self.timer.wait();
            }
            self.check_time();
            if from_redlock {
                match self.channel.receive() {
                    // Redlock or the guard was stopped meanwhile: the command would run without a lease.
                    Some(GuardRequest::Start { start_by, .. })
                        if BootTime::from_nanos(start_by).has_passed() =>
                    {
                        self.reported = true;
                        self.channel.send(&GuardReport::TooLate);
                    }
                    Some(GuardRequest::Start { env, deadline, start_by }) => {
                        if let Some(deadline) = deadline {
                            self.set_deadline(BootTime::from_nanos(deadline));
                        }
                        self.start(&mut command, &env, caller, BootTime::from_nanos(start_by));
                    }
                    Some(request) => self.handle(request, caller),
                    None => self.redlock_is_gone(),
                }
            }
            if death || self.more_to_reap {
                self.reap_ended();
            }
            self.arm_timer();
        }
    }

    /// Waits for a request, the timer, or the death of the command or of a leftover process. Returns which of them came.
    fn wait(&self) -> [bool; 3] {
        let parent = self.parent.as_ref().filter(|_| self.status.is_none());
        let [death, end] =
            parent.map_or([self.deaths.as_fd(); 2], |parent| [parent.as_fd(), parent.command_end.as_fd()]);
        let fds = [self.channel.as_fd(), self.timer.as_fd(), death, end];
        let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let timeout = if self.more_to_reap { PollTimeout::ZERO } else { PollTimeout::NONE };
        let _ = poll(&mut fds, timeout);
        let [from_redlock, time, death, end] = fds.map(|fd| fd.any().unwrap_or(false));
        [from_redlock, time, death || end && parent.is_some_and(CommandParent::await_end)]
    }

    /// Moves the deadline.
    fn set_deadline(&mut self, deadline: Deadline) {
        if self.schedule.is_some_and(|schedule| schedule.is_load_known()) {
            priority::lower();
        }
        if self.is_resting() && self.status.is_some() {
            dispositions::set_ignored(libc::SIGCHLD, false);
            self.more_to_reap = true;
        }
        if let Some(parent) = &self.parent {
            parent.wake();
        }
        self.schedule = Some(KillSchedule::new(BootTime::now(), deadline, self.kill_after));
    }

    /// Starts the command, which has until `start_by` for that.
    fn start(
        &mut self,
        command: &mut io::Result<Prepared>,
        env: &[(String, String)],
        caller: &Caller,
        start_by: Deadline,
    ) {
        let until = self.schedule.map_or(start_by, |schedule| start_by.min(schedule.stop_at()));
        let command = command.as_mut().map_err(|error| io::Error::from(error.kind()));
        let executable = command.and_then(|command| command.with(env)).map_err(NoParent::from);
        let started = executable.and_then(|mut executable| {
            CommandParent::of(&mut || executable.start(caller), &self.channel, until, &self.children)
        });
        match started {
            Ok(parent) => {
                // The kernel reaps, as long as the command runs.
                dispositions::set_ignored(libc::SIGCHLD, true);
                // A new group, so that signals to the job's group do not reach the guard. A new session too: a guard in the
                // caller's session would be the only parent outside the caller's group. When it ended, the group would become
                // an orphan, and the kernel would send it SIGHUP if one of its processes were stopped: see
                // `kill_orphaned_pgrp` in Linux. After the start, as the command belongs in the caller's session.
                let _ = setsid();
                self.channel.send(&GuardReport::Started { pid: parent.command });
                self.parent = Some(parent);
                dispositions::detach_streams(false);
            }
            Err(NoParent::GivenUp) => {
                self.reported = true;
                self.channel.send(&GuardReport::TooLate);
            }
            Err(NoParent::Failed(error)) => {
                self.reported = true;
                let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
                self.channel.send(&GuardReport::NotStarted { errno, message: error.to_string() });
            }
        }
    }

    fn handle(&mut self, request: GuardRequest, caller: &Caller) {
        match request {
            GuardRequest::Start { .. } => {}
            GuardRequest::Extend { deadline } => {
                if self.schedule.is_some() && !self.expired {
                    self.set_deadline(BootTime::from_nanos(deadline));
                }
            }
            GuardRequest::Signal(signal) => {
                descendants::signal_all(&self.children, self.command(), signal, self.next_kill())
            }
            GuardRequest::SignalOutside(signal) => {
                descendants::signal_outside(
                    &self.children,
                    self.command(),
                    caller.group,
                    signal,
                    self.next_kill(),
                );
            }
            GuardRequest::SignalCommand(signal) => {
                if let Some(parent) = self.parent.as_ref().filter(|parent| parent.status().is_none()) {
                    descendants::send(parent.command, signal);
                }
            }
            GuardRequest::Stop { kill_at } => self.stop(BootTime::from_nanos(kill_at)),
            GuardRequest::Kill => self.kill(),
        }
    }

    /// When the job will be killed, if its time is not extended.
    fn next_kill(&self) -> Deadline {
        let allowed = self.schedule.map(|schedule| schedule.kill_at());
        self.kill_at.into_iter().chain(allowed).min().unwrap_or(Deadline::NEVER)
    }

    fn check_time(&mut self) {
        if self.parent.is_none() || self.reported {
            return;
        }
        if let Some(schedule) = &mut self.schedule {
            if schedule.look_at.has_passed() {
                schedule.note(Load::now());
                // A renewal is late. Walking through a large job takes processor time, too.
                priority::raise();
            }
            if !self.expired && schedule.stop_at().has_passed() {
                self.expired = true;
                self.stop(self.next_kill());
            } else if self.expired {
                // The job may have grown since SIGTERM.
                self.kill_at = Some(self.next_kill());
            }
        }
        if self.is_resting() {
            self.rest();
        }
        if self.kill_at.is_some_and(Deadline::has_passed) {
            self.kill();
        } else if self.kill_at.is_none() && self.leftovers_at.is_some_and(Deadline::has_passed) {
            self.decide_leftovers();
        }
    }

    /// Applies the policy to processes that the command left behind.
    fn decide_leftovers(&mut self) {
        let Some(status) = self.status else { return };
        (self.leftovers_at, self.leftovers_decided) = (None, true);
        match (self.leftovers, status) {
            (LeftoverPolicy::Leave, _) | (LeftoverPolicy::LeaveUnlessKilled, ExitStatus::Exited(_)) => {
                self.report(true)
            }
            (LeftoverPolicy::Await, _) => self.channel.send(&GuardReport::CommandEnded(status)),
            (LeftoverPolicy::Stop, _) | (LeftoverPolicy::LeaveUnlessKilled, ExitStatus::Signaled(_)) => {
                self.channel.send(&GuardReport::CommandEnded(status));
                self.stop(Deadline::after(self.kill_after));
            }
        }
    }

    fn stop(&mut self, kill_at: Deadline) {
        self.kill_at = Some(self.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
        self.rest_at = self.rest_at.min(kill_at.minus(REST.min(kill_at.left() / 2)));
        descendants::signal_all(&self.children, self.command(), libc::SIGTERM, self.next_kill());
    }

    /// The command, while it runs.
    fn command(&self) -> Option<i32> {
        self.parent.as_ref().filter(|parent| parent.status().is_none()).map(|parent| parent.command)
    }

    /// Saves processor time, so that the scheduler does not make the guard wait when it has to kill.
    fn rest(&mut self) {
        priority::raise();
        dispositions::set_ignored(libc::SIGCHLD, true);
    }

    fn kill(&mut self) {
        self.kill_at = Some(BootTime::now());
        self.status = self.status.or(self.parent.as_ref().and_then(CommandParent::status));
        dispositions::set_ignored(libc::SIGCHLD, true);
        kill_all(&self.children);
        if let Some(parent) = &self.parent {
            parent.reap();
        }
        self.status.get_or_insert(ExitStatus::Signaled(libc::SIGKILL));
        self.report(false);
    }

    fn next_rest(&self) -> BootTime {
        let allowed = self.schedule.map(|schedule| schedule.rest_at());
        allowed.map_or(self.rest_at, |rest_at| rest_at.min(self.rest_at))
    }

    fn is_resting(&self) -> bool {
        self.next_rest().has_passed()
    }

    /// The command has ended, or a process that it left behind.
    fn reap_ended(&mut self) {
        if self.status.is_none() {
            match self.parent.as_ref().map(CommandParent::status) {
                Some(Some(status)) => self.status = Some(status),
                // Somebody killed the command's parent; the kernel killed the command with it.
                Some(None) => return self.kill(),
                None => return,
            }
            if let Some(parent) = &self.parent {
                parent.reap();
            }
            // From here on the guard counts the deaths of leftovers.
            dispositions::set_ignored(libc::SIGCHLD, false);
        }
        while let Ok(Some(_)) = self.deaths.read_signal() {}
        let reaped = descendants::reap(Deadline::after(REAPING));
        self.more_to_reap = reaped == Reaped::More;
        if reaped == Reaped::Childless {
            self.report(false);
        } else if self.kill_at.is_none() && self.leftovers_at.is_none() && !self.leftovers_decided {
            self.leftovers_at = Some(Deadline::after(LEFTOVER_GRACE));
        }
    }

    fn report(&mut self, leftovers: bool) {
        if !self.reported
            && let Some(status) = self.status
        {
            self.reported = true;
            self.channel.send(&GuardReport::JobEnd(JobEnd { status, expired: self.expired, leftovers }));
            if !leftovers {
                // Let redlock run first: it releases the lock now.
                std::thread::yield_now();
                end();
            }
        }
    }

    /// Redlock is gone. If the job still runs, redlock was killed, and the job is killed, too.
    fn redlock_is_gone(&mut self) -> ! {
        if self.parent.is_some() && !self.reported {
            self.kill();
        }
        end()
    }

    fn arm_timer(&mut self) {
        let is_running = self.parent.is_some() && !self.reported;
        let rest_at = (!self.is_resting()).then(|| self.next_rest());
        // A job that is being stopped ends with its last process.
        let or_leftovers = self.kill_at.or(self.leftovers_at);
        let allowed = self.schedule.map(|schedule| match self.expired {
            true => schedule.look_at,
            false => schedule.look_at.min(schedule.stop_at()),
        });
        let next = [rest_at, or_leftovers, allowed].into_iter().flatten().min();
        // The timer of an absolute time that has passed fires at once; a time of zero disarms.
        let next = next.filter(|at| is_running && *at != BootTime::NEVER);
        let nanos = next.map_or(0, |at| at.as_nanos().max(1));
        let at = Duration::from_nanos(nanos.min(i64::MAX as u64));
        let _ = match next {
            Some(_) => self
                .timer
                .set(Expiration::OneShot(TimeSpec::from_duration(at)), TimerSetTimeFlags::TFD_TIMER_ABSTIME),
            None => self.timer.unset(),
        };
    }
}
