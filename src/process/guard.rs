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
use nix::unistd::{Pid, setpgid};

use super::command::{Caller, CommandLine, Prepared};
use super::fork::{end, fork_off};
use super::inherited;
use super::tree::{self, Reach, Reaped};
use super::wire::{Ended, Line, Order, Report, Status};
use crate::clock::{BootTime, Deadline};

/// What becomes of the processes that outlive the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// The job has ended; they run on, unguarded.
    Leave,
    /// The job ends with the last of them.
    Await,
    /// They are told to end, and are killed some time later.
    Stop,
}

/// Forks the guard, as [`fork_off`] does. No signal reaches it.
pub fn fork_guard(
    command: CommandLine,
    kill_after: Duration,
    leftovers: Leftovers,
) -> io::Result<(Pid, Line)> {
    tree::check_sight()?;
    // If the guard is killed, its orphans come to us, and we kill them.
    prctl::set_child_subreaper(true)?;
    let caller = Caller::note()?;
    // With SIGCHLD ignored, as some callers leave it, no child could be waited for.
    inherited::set_ignored(libc::SIGCHLD, false);
    fork_off(|line| {
        if let Ok(mut guard) = Guard::new(line, kill_after, leftovers) {
            guard.watch(command.prepare(), &caller);
        }
    })
}

struct Guard {
    line: Line,
    deaths: SignalFd,
    timer: TimerFd,
    kill_after: Duration,
    leftovers: Leftovers,
    command: Option<i32>,
    deadline: Option<Deadline>,
    /// When the job is to be killed, once it was told to stop.
    kill_at: Option<Deadline>,
    /// Until when processes that outlive the command may be on their way out, too.
    settled_at: Option<Deadline>,
    /// They were not, and it was decided what becomes of them.
    settled: bool,
    expired: bool,
    /// How the command ended. While others are awaited its pid may come back.
    status: Option<Status>,
    reported: bool,
}

/// A signal or the end of a pipe ends the processes of a job one after the other, in no fixed order; only
/// what is there after this was left behind.
const SETTLING: Duration = Duration::from_millis(50);

impl Guard {
    fn new(line: Line, kill_after: Duration, leftovers: Leftovers) -> nix::Result<Guard> {
        // Outside the job's group, so that the terminal's signals and stops do not touch it.
        setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        prctl::set_name(tree::GUARD_NAME)?;
        prctl::set_child_subreaper(true)?;
        let deaths = SignalFd::with_flags(
            &SigSet::from(Signal::SIGCHLD),
            SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
        )?;
        let timer =
            TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        Ok(Guard {
            line,
            deaths,
            timer,
            kill_after,
            leftovers,
            command: None,
            deadline: None,
            kill_at: None,
            settled_at: None,
            settled: false,
            expired: false,
            status: None,
            reported: false,
        })
    }

    /// Obeys redlock until it is gone, and sees to it that the job does not outlive it.
    fn watch(&mut self, mut command: io::Result<Prepared>, caller: &Caller) -> ! {
        loop {
            let watched = |fd| PollFd::new(fd, PollFlags::POLLIN);
            let mut fds =
                [watched(self.line.as_fd()), watched(self.deaths.as_fd()), watched(self.timer.as_fd())];
            let _ = poll(&mut fds, PollTimeout::NONE);
            let [from_redlock, death, time] = fds.map(|fd| fd.any().unwrap_or(false));
            // Time first: an extension that arrives with the end of the time is too late.
            if time {
                let _ = self.timer.wait();
            }
            self.check_time();
            if from_redlock {
                match self.line.receive() {
                    // Redlock or we were stopped on the way: the command would run without a lease.
                    Some(Order::Start { start_by, .. }) if BootTime::from_nanos(start_by).has_passed() => {
                        self.reported = true;
                        self.line.send(&Report::TooLate);
                    }
                    Some(Order::Start { env, deadline, .. }) => {
                        self.deadline = deadline.map(BootTime::from_nanos);
                        self.start(&mut command, &env, caller);
                    }
                    Some(order) => self.obey(order, caller),
                    None => self.abandoned(),
                }
            }
            if death {
                while let Ok(Some(_)) = self.deaths.read_signal() {}
                self.reap();
            }
            self.arm_timer();
        }
    }

    fn start(&mut self, command: &mut io::Result<Prepared>, env: &[(String, String)], caller: &Caller) {
        let started = match command {
            Ok(command) => command.start(env, caller),
            Err(error) => Err(io::Error::from(error.kind())),
        };
        match started {
            Ok(pid) => {
                self.command = Some(pid);
                self.line.send(&Report::Started { pid });
                inherited::let_go_of_streams(false);
            }
            Err(error) => {
                self.reported = true;
                let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
                self.line.send(&Report::NotStarted { errno, message: error.to_string() });
            }
        }
    }

    fn obey(&mut self, order: Order, caller: &Caller) {
        match order {
            Order::Start { .. } => {}
            Order::Extend { deadline } => {
                if self.deadline.is_some() && !self.expired {
                    self.deadline = Some(BootTime::from_nanos(deadline));
                }
            }
            Order::Signal(signal) => {
                tree::signal_all(signal, Reach::OwnJob);
                tree::signal_all(libc::SIGCONT, Reach::OwnJob);
            }
            Order::SignalOutside(signal) => {
                tree::signal_outside(caller.group, signal);
                tree::signal_outside(caller.group, libc::SIGCONT);
            }
            Order::SignalCommand(signal) => {
                if let (Some(pid), None) = (self.command, self.status) {
                    tree::send(pid, signal);
                }
            }
            Order::Stop { kill_at } => self.stop(BootTime::from_nanos(kill_at)),
            Order::Kill => self.kill(),
        }
    }

    fn check_time(&mut self) {
        if self.command.is_none() || self.reported {
            return;
        }
        if let Some(deadline) = self.deadline
            && !self.expired
            && deadline.minus(self.kill_after).has_passed()
        {
            self.expired = true;
            self.stop(deadline);
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
        match self.leftovers {
            Leftovers::Leave => self.report(true),
            Leftovers::Await => self.line.send(&Report::CommandEnded(status)),
            Leftovers::Stop => {
                self.line.send(&Report::CommandEnded(status));
                self.stop(Deadline::after(self.kill_after));
            }
        }
    }

    fn stop(&mut self, kill_at: Deadline) {
        self.kill_at = Some(self.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
        tree::signal_all(libc::SIGTERM, Reach::OwnJob);
        tree::signal_all(libc::SIGCONT, Reach::OwnJob);
    }

    fn kill(&mut self) {
        self.kill_at = Some(BootTime::now());
        tree::kill_all(|pid, status| {
            if self.command == Some(pid) {
                self.status.get_or_insert(status);
            }
        });
        self.report(false);
    }

    fn reap(&mut self) {
        let alive = loop {
            match tree::reap() {
                Reaped::Died(pid, status) if self.command == Some(pid) => {
                    self.status.get_or_insert(status);
                }
                Reaped::Died(..) => {}
                Reaped::Alive => break true,
                Reaped::Childless => break false,
            }
        };
        if self.status.is_none() {
            return;
        }
        if !alive {
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
            self.line.send(&Report::Ended(Ended { status, expired: self.expired, leftovers }));
            if !leftovers {
                // Redlock first, which gives the lock back now; then there is nothing to wait for.
                std::thread::yield_now();
                end();
            }
        }
    }

    /// Redlock is gone. Before the end of the job was reported it was killed, and the job goes too.
    fn abandoned(&mut self) -> ! {
        if self.command.is_some() && !self.reported {
            self.kill();
        }
        end()
    }

    fn arm_timer(&mut self) {
        let term_at = self.deadline.map(|deadline| deadline.minus(self.kill_after));
        let next = match self.kill_at {
            _ if self.reported || self.command.is_none() => None,
            // A job that was told to stop has ended when its last process has.
            Some(kill_at) => Some(kill_at),
            None => self.settled_at.into_iter().chain(term_at).min(),
        };
        // The timer of an absolute time that has passed fires at once; a time of zero disarms.
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
