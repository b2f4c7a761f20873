//! A command beside the job, under a guard and a parent of its own: whatever happens to it leaves the job alone.

use std::ffi::{CStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, dup2_stdout};
use serde::{Deserialize, Serialize};

use super::fork::{close_all_but, fork_off, leave_session};
use super::handle::{Job, JobEvent, NotStarted};
use super::pidfd::Pidfd;
use super::protocol::{Channel, ExitStatus, GuardRequest, JobEnd, LeftoverPolicy};
use super::{descendants, dispositions};
use crate::clock::Deadline;
use crate::poll::{is_readable, wait_any, wait_readable};

/// For its end, before redlock goes on without that or asks again. What became root cannot be killed.
const PATIENCE: Duration = Duration::from_secs(1);

/// A command that may be started later, when this process has threads.
pub struct SideJob {
    parent: Pid,
    line: Channel,
}

/// From the parent to redlock.
#[derive(Serialize, Deserialize)]
enum SideJobReport {
    /// This guard kills it when its parent is gone.
    Guard(i32),
    End(SideJobEnd),
}

/// How it ended.
#[derive(Debug, Serialize, Deserialize)]
pub enum SideJobEnd {
    Ended(ExitStatus),
    /// Its deadline passed.
    Expired,
    NotStarted(String),
    /// Its guard was killed, or its parent; it was killed, too.
    GuardLost,
}

impl SideJob {
    /// Forks its parent, which sleeps until the start. To be called before any thread is started.
    ///
    /// Its standard input is empty, its output goes to stderr, and the terminal's signals do not reach it. What it leaves
    /// behind is stopped; `kill_after` as in [`Job::prepare`].
    pub fn prepare(name: &'static CStr, command: Vec<OsString>, kill_after: Duration) -> io::Result<SideJob> {
        let (parent, line) = fork_off(|line| {
            let ended = run(name, &line, command, kill_after);
            let ended = ended.unwrap_or_else(|error| SideJobEnd::NotStarted(error.to_string()));
            line.send(&SideJobReport::End(ended));
        })?;
        Ok(SideJob { parent, line })
    }

    pub fn parent_pid(&self) -> u32 {
        self.parent.as_raw() as u32
    }

    /// Starts it with these additions to its environment, to live until the deadline at most. [`SideJob::wait`] says what
    /// becomes of it. Fails when that is more than a message may have.
    pub fn start(&self, env: Vec<(String, String)>, deadline: Deadline) -> nix::Result<()> {
        self.line.send_long(&GuardRequest::Start { env, start_by: deadline, deadline: Some(deadline) })
    }

    /// Passes a request on to its guard.
    pub fn request(&self, request: &GuardRequest) {
        self.line.offer(request);
        self.wake();
    }

    /// Wakes a parent that somebody stopped.
    pub fn wake(&self) {
        descendants::send(self.parent.as_raw(), libc::SIGCONT);
    }

    /// Waits until nothing of it is alive.
    pub fn wait(&self) -> SideJobEnd {
        let (mut guard, parent) = (None, Pidfd::open(self.parent.as_raw()).ok());
        while let Some(report) = self.next_report(parent.as_ref()) {
            match report {
                SideJobReport::Guard(pid) => guard = Pidfd::open(pid).ok(),
                SideJobReport::End(end) => return end,
            }
        }
        // It becomes a child of this process. Somebody may have stopped it.
        if let Some(guard) = guard {
            while !guard.has_ended() {
                descendants::send(guard.pid, libc::SIGCONT);
                wait_any(&[guard.as_fd()], Deadline::after(PATIENCE));
            }
            let _ = waitpid(Pid::from_raw(guard.pid), None);
        }
        SideJobEnd::GuardLost
    }

    /// `None` when the parent is dead. Its guard has the other end of the line open, too.
    fn next_report(&self, parent: Option<&Pidfd>) -> Option<SideJobReport> {
        let line = self.line.as_fd();
        if let Some(parent) = parent {
            while !parent.has_ended() && !is_readable(line) {
                wait_any(&[line, parent.as_fd()], Deadline::NEVER);
            }
        }
        if is_readable(line) { self.line.receive() } else { None }
    }

    /// Kills it, if it was started, and reaps its parent.
    pub fn end(&self) {
        self.request(&GuardRequest::Kill);
        if let Ok(parent) = Pidfd::open(self.parent.as_raw()) {
            wait_any(&[parent.as_fd()], Deadline::after(PATIENCE));
        }
        let _ = waitpid(self.parent, Some(WaitPidFlag::WNOHANG));
    }
}

/// What the parent does. Redlock's death ends it, with the command.
fn run(name: &CStr, line: &Channel, command: Vec<OsString>, kill_after: Duration) -> io::Result<SideJobEnd> {
    prctl::set_name(name)?;
    leave_session();
    dispositions::open_streams();
    dup2_stdout(io::stderr())?;
    // The line to the job's guard is one of them: its end says that redlock is dead.
    close_all_but(&[line.as_fd().as_raw_fd()])?;
    let Some(GuardRequest::Start { env, start_by, deadline }) = line.receive() else {
        return Ok(SideJobEnd::Expired);
    };
    let mut job = Job::prepare(command, kill_after, LeftoverPolicy::Stop)?;
    line.send(&SideJobReport::Guard(job.guard_pid() as i32));
    match job.start(env, start_by, deadline) {
        Ok(()) => {}
        Err(NotStarted::TooLate { .. }) => return Ok(SideJobEnd::Expired),
        Err(NotStarted::NotExecutable(why)) => return Ok(SideJobEnd::NotStarted(why)),
        Err(NotStarted::NotFound) => return Ok(SideJobEnd::NotStarted("it is not found".to_owned())),
        Err(NotStarted::NoGuard) => return Ok(SideJobEnd::GuardLost),
    }
    let control = job.control()?;
    let mut line = Some(line);
    loop {
        match job.take() {
            Some(JobEvent::JobEnd { ended: JobEnd { expired: true, .. }, .. }) => {
                return Ok(SideJobEnd::Expired);
            }
            Some(JobEvent::JobEnd { guard_lost: Some(_), .. }) => return Ok(SideJobEnd::GuardLost),
            Some(JobEvent::JobEnd { ended, .. }) => return Ok(SideJobEnd::Ended(ended.status)),
            Some(_) => continue,
            None => {}
        }
        let from_redlock = line.map_or(job.as_fd(), Channel::as_fd);
        let until = job.next_look().unwrap_or(Deadline::NEVER);
        if let ([true, _], Some(open)) = (wait_readable([from_redlock, job.as_fd()], until), line) {
            let request = open.receive();
            line = request.is_some().then_some(open);
            control.request(&request.unwrap_or(GuardRequest::Kill));
        }
    }
}
