//! The end of a job in the guard: what the command left behind, the kill of all that is alive, and the report to redlock.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::getppid;

use super::command_parent::CommandParent;
use super::descendants::Reaped;
use super::fork::end;
use super::guard::Guard;
use super::kill::kill_all;
use super::protocol::{ExitStatus, GuardReport, JobEnd, LeftoverPolicy};
use super::{dispositions, priority, process};
use crate::clock::{BootTime, Deadline};

/// A signal or a closed pipe ends the processes of a job one by one, in no fixed order. Processes alive after this
/// time were left behind.
const LEFTOVER_GRACE: Duration = Duration::from_millis(50);

impl Guard {
    /// Applies the policy to processes that the command left behind.
    pub(super) fn decide_leftovers(&mut self) {
        let Some(status) = self.status else { return };
        (self.times.leftovers_at, self.leftovers_decided) = (None, true);
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

    pub(super) fn kill(&mut self) {
        self.times.kill_at = Some(BootTime::now());
        self.status = self.status.or(self.parent.as_ref().and_then(CommandParent::status));
        dispositions::set_ignored(libc::SIGCHLD, true);
        // Its pid is known. In a memory cgroup at its limit the kernel may list no processes (ENOMEM), until one has died.
        if let Some(command) = self.command() {
            process::send(command, libc::SIGKILL);
        }
        kill_all(&self.children);
        if let Some(parent) = &self.parent {
            parent.reap();
        }
        self.status.get_or_insert(ExitStatus::Signaled(libc::SIGKILL));
        self.report(false);
    }

    /// The command has ended, or a process that it left behind.
    pub(super) fn reap_ended(&mut self) {
        if self.status.is_none() {
            let Some(parent) = &self.parent else { return };
            // Without a status somebody killed the command's parent; the kernel killed the command with it.
            let Some(status) = parent.status() else { return self.kill() };
            self.status = Some(status);
            // It ends now, and is waited for when that holds nobody up.
            self.children.leave_out(parent.pid);
            // From here on the guard counts the deaths of leftovers.
            dispositions::set_ignored(libc::SIGCHLD, false);
        }
        while let Ok(Some(_)) = self.deaths.read_signal() {}
        let reaped = self.children.reap();
        self.more_to_reap = reaped == Reaped::More;
        let times = &mut self.times;
        if reaped == Reaped::Childless {
            self.report(false);
        } else if times.kill_at.is_none() && times.leftovers_at.is_none() && !self.leftovers_decided {
            times.leftovers_at = Some(Deadline::after(LEFTOVER_GRACE));
        }
    }

    fn report(&mut self, leftovers: bool) {
        if !self.reported
            && let Some(status) = self.status
        {
            self.reported = true;
            // Redlock comes first from here on: it releases the lock now.
            priority::lower();
            let watchdog_killed = self.watchdog.take().is_some_and(|watchdog| watchdog.end(&self.children));
            let expired = self.times.expired || watchdog_killed;
            // It ended some time ago. Redlock may kill this process when it has the report.
            self.parent.iter().filter(|_| leftovers).for_each(CommandParent::reap);
            self.channel.send(&GuardReport::JobEnd(JobEnd { status, expired, leftovers }));
            // A redlock that was stopped may hold the store up: it gives its lock back, and ends as its job did.
            if expired && getppid() == self.redlock {
                let _ = kill(self.redlock, Signal::SIGCONT);
            }
            if !leftovers {
                std::thread::yield_now();
                self.parent.iter().for_each(CommandParent::reap);
                end();
            }
        }
    }
}
