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
use super::kill_margin::{KillMargin, Load, REST};
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
    /// They are told to end, and are killed some time later.
    Stop,
}

/// Forks the guard, as [`fork_off`] does. No signal reaches it.
pub fn fork_guard(
    command: CommandLine,
    kill_after: Duration,
    leftovers: LeftoverPolicy,
) -> io::Result<(Pid, Channel, OwnChildren)> {
    let own = descendants::check_sight()?;
    // If the guard is killed, its orphans come to us, and we kill them.
    prctl::set_child_subreaper(true)?;
    let caller = Caller::note()?;
    // With SIGCHLD ignored, as some callers leave it, no child could be waited for.
    dispositions::set_ignored(libc::SIGCHLD, false);
    let (guard, line) = fork_off(|line| {
        if let Ok(mut guard) = Guard::new(line, kill_after, leftovers) {
            guard.watch(command.prepare(), &caller);
        }
    })?;
    Ok((guard, line, own))
}

struct Guard {
    line: Channel,
    own: OwnChildren,
    deaths: SignalFd,
    timer: TimerFd,
    kill_after: Duration,
    leftovers: LeftoverPolicy,
    /// The parent of the command, once that has started.
    parent: Option<CommandParent>,
    /// None for a job that may go on for ever.
    allowance: Option<KillMargin>,
    /// The allowance is used up.
    expired: bool,
    /// When the job is to be killed, once it was told to stop.
    kill_at: Option<Deadline>,
    /// From when on the guard rests before that.
    rest_at: BootTime,
    /// There may be dead that were not seen.
    has_dead: bool,
    /// Until when processes that outlive the command may be on their way out, too.
    settled_at: Option<Deadline>,
    /// They were not, and it was decided what becomes of them.
    settled: bool,
    /// How the command ended. While others are awaited its pid may come back.
    status: Option<ExitStatus>,
    reported: bool,
}

/// A signal or the end of a pipe ends the processes of a job one after the other, in no fixed order; only
/// what is there after this was left behind.
const SETTLING: Duration = Duration::from_millis(50);

/// How long one look at the dead may take: of those that the command left behind they may come without end.
const REAPING: Duration = Duration::from_millis(5);

impl Guard {
    fn new(line: Channel, kill_after: Duration, leftovers: LeftoverPolicy) -> io::Result<Guard> {
        prctl::set_name(descendants::GUARD_NAME)?;
        prctl::set_child_subreaper(true)?;
        // Where a filter of system calls ends who asks for that (seccomp(2)), nothing starts.
        priority::rehearse();
        let deaths = SignalFd::with_flags(
            &SigSet::from(Signal::SIGCHLD),
            SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
        )?;
        let timer =
            TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        Ok(Guard {
            line,
            own: OwnChildren::open()?,
            deaths,
            timer,
            kill_after,
            leftovers,
            parent: None,
            allowance: None,
            expired: false,
            kill_at: None,
            rest_at: BootTime::NEVER,
            has_dead: false,
            settled_at: None,
            settled: false,
            status: None,
            reported: false,
        })
    }

    /// Obeys redlock until it is gone, and sees to it that the job does not outlive it.
    fn watch(&mut self, mut command: io::Result<Prepared>, caller: &Caller) -> ! {
        loop {
            let [from_redlock, time, death] = self.wait();
            // Time first: an extension that arrives with the end of the time is too late.
            if time {
                let _ = self.timer.wait();
            }
            self.check_time();
            if from_redlock {
                match self.line.receive() {
                    // Redlock or we were stopped on the way: the command would run without a lease.
                    Some(GuardRequest::Start { start_by, .. })
                        if BootTime::from_nanos(start_by).has_passed() =>
                    {
                        self.reported = true;
                        self.line.send(&GuardReport::TooLate);
                    }
                    Some(GuardRequest::Start { env, deadline, start_by }) => {
                        if let Some(deadline) = deadline {
                            self.allow(BootTime::from_nanos(deadline));
                        }
                        self.start(&mut command, &env, caller, BootTime::from_nanos(start_by));
                    }
                    Some(order) => self.obey(order, caller),
                    None => self.abandoned(),
                }
            }
            if death || self.has_dead {
                self.see_deaths();
            }
            self.arm_timer();
        }
    }

    /// Waits for an order, the time, or a death: of the command, or of what it left behind. Returns which of them came.
    fn wait(&self) -> [bool; 3] {
        let parent = self.parent.as_ref().filter(|_| self.status.is_none());
        let [death, end] =
            parent.map_or([self.deaths.as_fd(); 2], |parent| [parent.as_fd(), parent.command_end.as_fd()]);
        let fds = [self.line.as_fd(), self.timer.as_fd(), death, end];
        let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let timeout = if self.has_dead { PollTimeout::ZERO } else { PollTimeout::NONE };
        let _ = poll(&mut fds, timeout);
        let [from_redlock, time, death, end] = fds.map(|fd| fd.any().unwrap_or(false));
        [from_redlock, time, death || end && parent.is_some_and(CommandParent::await_end)]
    }

    /// The job has time until then.
    fn allow(&mut self, deadline: Deadline) {
        if self.allowance.is_some_and(|allowance| allowance.was_noted()) {
            priority::lower();
        }
        if self.is_resting() && self.status.is_some() {
            dispositions::set_ignored(libc::SIGCHLD, false);
            self.has_dead = true;
        }
        if let Some(parent) = &self.parent {
            parent.wake();
        }
        self.allowance = Some(KillMargin::new(BootTime::now(), deadline, self.kill_after));
    }

    /// Starts the command, which has until `start_by` for that.
    fn start(
        &mut self,
        command: &mut io::Result<Prepared>,
        env: &[(String, String)],
        caller: &Caller,
        start_by: Deadline,
    ) {
        let until = self.allowance.map_or(start_by, |allowance| start_by.min(allowance.stop_at()));
        let command = command.as_mut().map_err(|error| io::Error::from(error.kind()));
        let executable = command.and_then(|command| command.with(env)).map_err(NoParent::from);
        let started = executable.and_then(|mut executable| {
            CommandParent::of(&mut || executable.start(caller), &self.line, until, &self.own)
        });
        match started {
            Ok(parent) => {
                // The kernel reaps, as long as the command runs.
                dispositions::set_ignored(libc::SIGCHLD, true);
                // Outside the job's group, so that its signals and stops do not touch the guard. And in another
                // session: otherwise a group without a parent in its session (of cron, in a container) would have one
                // in us. With the end of the command it would become an orphan, and the kernel would send SIGHUP to all
                // of it if one were stopped: see `kill_orphaned_pgrp` in Linux. The command has started, as it
                // has to be in the caller's session.
                let _ = setsid();
                self.line.send(&GuardReport::Started { pid: parent.command });
                self.parent = Some(parent);
                dispositions::let_go_of_streams(false);
            }
            Err(NoParent::GivenUp) => {
                self.reported = true;
                self.line.send(&GuardReport::TooLate);
            }
            Err(NoParent::Failed(error)) => {
                self.reported = true;
                let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
                self.line.send(&GuardReport::NotStarted { errno, message: error.to_string() });
            }
        }
    }

    fn obey(&mut self, order: GuardRequest, caller: &Caller) {
        match order {
            GuardRequest::Start { .. } => {}
            GuardRequest::Extend { deadline } => {
                if self.allowance.is_some() && !self.expired {
                    self.allow(BootTime::from_nanos(deadline));
                }
            }
            GuardRequest::Signal(signal) => {
                descendants::signal_all(&self.own, self.command(), signal, self.next_kill())
            }
            GuardRequest::SignalOutside(signal) => {
                descendants::signal_outside(
                    &self.own,
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
        let allowed = self.allowance.map(|allowance| allowance.kill_at());
        self.kill_at.into_iter().chain(allowed).min().unwrap_or(Deadline::NEVER)
    }

    fn check_time(&mut self) {
        if self.parent.is_none() || self.reported {
            return;
        }
        if let Some(allowance) = &mut self.allowance {
            if allowance.look_at.has_passed() {
                allowance.note(Load::now());
                // A renewal is late. Also the way through a large job takes a share of the processor.
                priority::raise();
            }
            if !self.expired && allowance.stop_at().has_passed() {
                self.expired = true;
                self.stop(self.next_kill());
            } else if self.expired {
                // It may have grown since it was told to stop.
                self.kill_at = Some(self.next_kill());
            }
        }
        if self.is_resting() {
            self.rest();
        }
        if self.kill_at.is_some_and(Deadline::has_passed) {
            self.kill();
        } else if self.kill_at.is_none() && self.settled_at.is_some_and(Deadline::has_passed) {
            self.settle();
        }
    }

    /// Decides about the processes that the command left behind.
    fn settle(&mut self) {
        let Some(status) = self.status else { return };
        (self.settled_at, self.settled) = (None, true);
        match (self.leftovers, status) {
            (LeftoverPolicy::Leave, _) | (LeftoverPolicy::LeaveUnlessKilled, ExitStatus::Exited(_)) => {
                self.report(true)
            }
            (LeftoverPolicy::Await, _) => self.line.send(&GuardReport::CommandEnded(status)),
            (LeftoverPolicy::Stop, _) | (LeftoverPolicy::LeaveUnlessKilled, ExitStatus::Signaled(_)) => {
                self.line.send(&GuardReport::CommandEnded(status));
                self.stop(Deadline::after(self.kill_after));
            }
        }
    }

    fn stop(&mut self, kill_at: Deadline) {
        self.kill_at = Some(self.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
        self.rest_at = self.rest_at.min(kill_at.minus(REST.min(kill_at.left() / 2)));
        descendants::signal_all(&self.own, self.command(), libc::SIGTERM, self.next_kill());
    }

    /// The command, while it runs.
    fn command(&self) -> Option<i32> {
        self.parent.as_ref().filter(|parent| parent.status().is_none()).map(|parent| parent.command)
    }

    /// Comes with a full share of the processor to the time to kill.
    fn rest(&mut self) {
        priority::raise();
        dispositions::set_ignored(libc::SIGCHLD, true);
    }

    fn kill(&mut self) {
        self.kill_at = Some(BootTime::now());
        self.status = self.status.or(self.parent.as_ref().and_then(CommandParent::status));
        dispositions::set_ignored(libc::SIGCHLD, true);
        kill_all(&self.own);
        if let Some(parent) = &self.parent {
            parent.reap();
        }
        self.status.get_or_insert(ExitStatus::Signaled(libc::SIGKILL));
        self.report(false);
    }

    fn next_rest(&self) -> BootTime {
        let allowed = self.allowance.map(|allowance| allowance.rest_at());
        allowed.map_or(self.rest_at, |rest_at| rest_at.min(self.rest_at))
    }

    fn is_resting(&self) -> bool {
        self.next_rest().has_passed()
    }

    /// The command has ended, or a process that it left behind.
    fn see_deaths(&mut self) {
        if self.status.is_none() {
            match self.parent.as_ref().map(CommandParent::status) {
                Some(Some(status)) => self.status = Some(status),
                // Somebody killed the command's parent, and the kernel the command with it.
                Some(None) => return self.kill(),
                None => return,
            }
            if let Some(parent) = &self.parent {
                parent.reap();
            }
            // From here on the deaths of the others count.
            dispositions::set_ignored(libc::SIGCHLD, false);
        }
        while let Ok(Some(_)) = self.deaths.read_signal() {}
        let reaped = descendants::reap(Deadline::after(REAPING));
        self.has_dead = reaped == Reaped::More;
        if reaped == Reaped::Childless {
            self.report(false);
        } else if self.kill_at.is_none() && self.settled_at.is_none() && !self.settled {
            self.settled_at = Some(Deadline::after(SETTLING));
        }
    }

    fn report(&mut self, leftovers: bool) {
        if !self.reported
            && let Some(status) = self.status
        {
            self.reported = true;
            self.line.send(&GuardReport::JobEnd(JobEnd { status, expired: self.expired, leftovers }));
            if !leftovers {
                // Redlock first, which gives the lock back now; then there is nothing to wait for.
                std::thread::yield_now();
                end();
            }
        }
    }

    /// Redlock is gone. Before the end of the job was reported it was killed, and the job goes too.
    fn abandoned(&mut self) -> ! {
        if self.parent.is_some() && !self.reported {
            self.kill();
        }
        end()
    }

    fn arm_timer(&mut self) {
        let is_running = self.parent.is_some() && !self.reported;
        let rest_at = (!self.is_resting()).then(|| self.next_rest());
        // A job that was told to stop has ended when its last process has.
        let or_settle = self.kill_at.or(self.settled_at);
        let allowed = self.allowance.map(|allowance| match self.expired {
            true => allowance.look_at,
            false => allowance.look_at.min(allowance.stop_at()),
        });
        let next = [rest_at, or_settle, allowed].into_iter().flatten().min();
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
