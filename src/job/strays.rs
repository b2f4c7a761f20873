//! Processes that lost their guard and its parent: they become children of this process, and nobody else ends them.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::unistd::{Pid, getsid};

use super::descendants::{OwnChildren, is_guard, reap_one};
use super::process::send;
use crate::clock::Deadline;

/// The pause between two looks at processes that were killed: at first and at most. A process that became root cannot be
/// killed.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// The children that this process did not start itself. It is the subreaper of all that it starts.
pub struct Strays(Mutex<OwnChildren>);

impl Strays {
    /// Leaves out the children that exist now. To be called by the thread that makes them.
    pub fn watch() -> io::Result<Strays> {
        let children = OwnChildren::open()?;
        children.leave_out_all();
        Ok(Strays(Mutex::new(children)))
    }

    /// Leaves out a child that this process started.
    pub fn leave_out(&self, pid: i32) {
        self.children().leave_out(pid);
    }

    /// Waits for the guards among them, which kill all that they guard, however fast it forks.
    pub fn await_guards(&self, until: Deadline) {
        while self.has_guards() && !until.has_passed() {
            thread::sleep(PAUSE.1);
        }
    }

    fn has_guards(&self) -> bool {
        let children = self.children();
        let mut guards = children.list();
        guards.retain(|pid| is_guard(*pid));
        for pid in &guards {
            // Somebody may have stopped it.
            send(*pid, libc::SIGCONT);
            let _ = reap_one(*pid);
        }
        !guards.is_empty()
    }

    /// Kills all of them, and what becomes one by that; gives up when the time has passed.
    pub fn kill(&self, until: Deadline) {
        let mut pause = PAUSE.0;
        while self.kill_once() && !until.has_passed() {
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Kills each stray once. True if there were any.
    fn kill_once(&self) -> bool {
        // Held to the end: the pid of one that another thread reaped may be another process's.
        let children = self.children();
        let own = getsid(None);
        let mut strays = children.list();
        // A process in the caller's session does not belong to a hook: the parent of a hook leaves that session first.
        strays.retain(|pid| getsid(Some(Pid::from_raw(*pid))) != own);
        for pid in &strays {
            send(*pid, libc::SIGKILL);
        }
        for pid in &strays {
            let _ = reap_one(*pid);
        }
        !strays.is_empty()
    }

    fn children(&self) -> MutexGuard<'_, OwnChildren> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
