//! A command beside the job, under a guard and a parent of its own: whatever happens to it leaves the job alone.

use std::ffi::{CStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::unistd::dup2_stdout;
use serde::{Deserialize, Serialize};

use super::deadlines::Reserve;
use super::fork::{close_all_but, fork_off, leave_session};
use super::guarded_job::{Job, JobEvent};
use super::job_start::NotStarted;
use super::pidfd::Pidfd;
use super::protocol::{Channel, ExitStatus, GuardRequest, JobEnd, LeftoverPolicy};
use super::strays::Strays;
use super::{descendants, streams, title};
use crate::clock::Deadline;
use crate::poll::{is_readable, wait_any, wait_readable};

/// The time that a side job has to end. A process that became root cannot be killed.
const PATIENCE: Duration = Duration::from_secs(1);

/// A command that may be started later, when this process has threads.
pub struct SideJob {
    parent: Pidfd,
    line: Channel,
    reserve: Reserve,
    /// Its processes, when both its parent and its guard were killed.
    strays: Arc<Strays>,
}

/// The end of a side job: the parent's one message to redlock.
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
    /// Forks its parent, which sleeps until the start; that job leaves it alone. To be called before any thread is
    /// started.
    ///
    /// Its standard input is empty, its output goes to stderr, and the terminal's signals do not reach it. Processes that
    /// it leaves behind are stopped; `reserve` as in [`Job::prepare`].
    pub fn prepare(
        name: &'static CStr,
        command: Vec<OsString>,
        reserve: Reserve,
        beside: &Job,
        strays: &Arc<Strays>,
    ) -> io::Result<SideJob> {
        let (parent, line) = fork_off(|line| {
            let ended = run(name, &line, command, reserve);
            let ended = ended.unwrap_or_else(|error| SideJobEnd::NotStarted(error.to_string()));
            line.send(&ended);
        })?;
        beside.leave_out(parent.as_raw());
        strays.leave_out(parent.as_raw());
        let parent = Pidfd::open(parent.as_raw()).map_err(io::Error::other)?;
        Ok(SideJob { parent, line, reserve, strays: Arc::clone(strays) })
    }

    pub fn parent_pid(&self) -> u32 {
        self.parent.pid as u32
    }

    /// Starts it with these additions to its environment, to live until this end of a lease at most. [`SideJob::wait`] says
    /// what becomes of it. Fails when that is more than a message may have, or when its parent was killed.
    pub fn start(&self, env: Vec<(String, String)>, lease_end: Deadline) -> Result<(), SideJobEnd> {
        let request =
            GuardRequest::Start { env, deadlines: self.reserve.before(lease_end), ends_in_time: true };
        self.line.send_long(&request).map_err(|errno| match errno {
            Errno::EPIPE | Errno::ECONNRESET => SideJobEnd::GuardLost,
            _ => SideJobEnd::NotStarted(errno.desc().to_owned()),
        })
    }

    /// The lease was extended, and ends then.
    pub fn extend(&self, lease_end: Deadline) {
        self.request(&GuardRequest::Extend(self.reserve.before(lease_end)));
    }

    /// Passes a request on to its guard.
    pub fn request(&self, request: &GuardRequest) {
        self.line.offer(request);
        self.wake();
    }

    /// Wakes a parent that somebody stopped.
    pub fn wake(&self) {
        self.parent.wake();
    }

    /// Waits until nothing of it is alive.
    pub fn wait(&self) -> SideJobEnd {
        let line = self.line.as_fd();
        while !self.parent.has_ended() && !is_readable(line) {
            wait_any(&[line, self.parent.as_fd()], Deadline::NEVER);
        }
        // Its guard has the other end of the line open, too.
        let end = if is_readable(line) { self.line.receive() } else { None };
        end.unwrap_or_else(|| {
            // The parent was killed. Its guard is a child of this process, and so is what that one leaves behind.
            self.strays.await_guards(Deadline::after(PATIENCE));
            self.strays.kill(Deadline::NEVER);
            SideJobEnd::GuardLost
        })
    }

    /// Kills it, if it was started, and reaps its parent.
    pub fn end(&self) {
        self.request(&GuardRequest::Kill);
        let until = Deadline::after(PATIENCE);
        while !self.parent.has_ended() && !until.has_passed() {
            wait_any(&[self.parent.as_fd()], until);
        }
        if let Some(ExitStatus::Signaled(_)) = descendants::reap_one(self.parent.pid) {
            self.strays.kill(Deadline::after(PATIENCE));
        }
    }
}

/// The work of the parent. Redlock's death ends it, with the command.
fn run(name: &CStr, line: &Channel, command: Vec<OsString>, reserve: Reserve) -> io::Result<SideJobEnd> {
    prctl::set_name(name)?;
    title::replace(name);
    leave_session();
    streams::open();
    dup2_stdout(io::stderr())?;
    // The line to the job's guard is one of them: its end says that redlock is dead.
    close_all_but(&[line.as_fd().as_raw_fd()])?;
    let Some(GuardRequest::Start { env, deadlines, ends_in_time }) = line.receive() else {
        return Ok(SideJobEnd::Expired);
    };
    let mut job = Job::prepare(command, reserve, LeftoverPolicy::Stop)?;
    match job.start(env, deadlines.end, ends_in_time, None) {
        Ok(()) => {}
        Err(NotStarted::TooLate { .. } | NotStarted::Interrupted(_)) => return Ok(SideJobEnd::Expired),
        Err(NotStarted::NotExecutable(why) | NotStarted::NoRoom(why)) => {
            return Ok(SideJobEnd::NotStarted(why));
        }
        Err(NotStarted::ProcessKilled) => return Ok(SideJobEnd::GuardLost),
        Err(NotStarted::NotFound) => return Ok(SideJobEnd::NotStarted("it is not found".to_owned())),
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
