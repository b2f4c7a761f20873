//! The watchdog: a process that kills the job when the guard got no processor in time.
//!
//! Linux shares the processors between sessions first (autogroups, see sched(7)), and a session whose processes fork and
//! exit all the time may have one to itself for a second and more: with each of them the session's share is counted again,
//! and in its favour (Linux 6.13 to 6.19; mended by the revert of "sched/fair: Fix EEVDF entity placement bug causing
//! scheduling lag"). The guard cannot stay in the caller's session. The watchdog can, as it has no children: there it
//! shares a processor with the processes of the job one by one, and never waited for more than 40 ms at a time.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::thread::sleep;
use std::time::Duration;
use std::{io, process};

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl::{set_name, set_pdeathsig};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid, setpgid};

use super::descendants::{GUARD_NAME, OwnChildren};
use super::fork::{close_all_but, fork_silently};
use super::kill::kill_all;
use super::kill_schedule::{KillSchedule, Load};
use super::priority::{may_be_kept_waiting, shorten_slice};
use super::process::{name_of, send};
use super::streams;
use crate::clock::{BootTimer, Deadline};
use crate::poll::{is_readable, wait_readable};

/// The name in `ps`.
const NAME: &std::ffi::CStr = c"lock-watchdog";
/// The guard comes first, if it comes.
const LEAD: Duration = Duration::from_millis(20);
/// The watchdog waits this long before it closes what the caller had open.
const SETTLE: Duration = Duration::from_millis(20);
/// The pause between two looks at a job that was killed, until the guard has seen it.
const PAUSE: Duration = Duration::from_millis(5);

pub struct Watchdog {
    pid: i32,
    shared: Shared,
}

/// The descriptors that both processes have. The guard sets the timers, and the watchdog waits for them.
struct Shared {
    /// When the guard should have looked at the load for the first time; off once it has.
    look: BootTimer,
    /// When the job is to be killed, by the load that the guard knows of.
    kill: BootTimer,
    /// Readable once the watchdog kills.
    has_begun: EventFd,
}

impl Shared {
    fn new(schedule: Option<KillSchedule>) -> io::Result<Shared> {
        let has_begun = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let shared = Shared { look: BootTimer::new()?, kill: BootTimer::new()?, has_begun };
        shared.set(schedule);
        Ok(shared)
    }

    fn set(&self, schedule: Option<KillSchedule>) {
        let unknown = schedule.filter(|schedule| !schedule.is_load_known());
        // In this order: see `wait`.
        self.look.set(unknown.map(|schedule| schedule.look_at.plus(LEAD)));
        self.kill.set(schedule.map(|schedule| schedule.kill_at().plus(LEAD)));
    }

    fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [self.look.as_fd(), self.kill.as_fd(), self.has_begun.as_fd()]
    }

    /// Waits until the job is to be killed.
    fn wait(&self) {
        loop {
            match wait_readable([self.look.as_fd(), self.kill.as_fd()], Deadline::NEVER) {
                [_, true] => return,
                [true, false] => {
                    let margin = Load::now().margin();
                    let is_due = self.kill.left().is_some_and(|left| left <= margin);
                    // As long as it is readable, the guard has moved neither.
                    if is_due && is_readable(self.look.as_fd()) {
                        return;
                    }
                    // The load may grow, and the guard may come back.
                    wait_readable([self.kill.as_fd()], Deadline::after(LEAD));
                }
                [false, false] => {}
            }
        }
    }
}

impl Watchdog {
    /// Starts a watchdog where a session of its own may keep this process waiting, and another process is to be had.
    pub fn where_needed(children: &OwnChildren, schedule: Option<KillSchedule>) -> Option<Watchdog> {
        // Without a schedule nothing would ever wake it.
        let is_needed = schedule.is_some() && may_be_kept_waiting();
        if is_needed { Watchdog::start(children, schedule).ok() } else { None }
    }

    /// Forks the watchdog over the `children` of this process, which list it no more. It ends with this process.
    fn start(children: &OwnChildren, schedule: Option<KillSchedule>) -> io::Result<Watchdog> {
        let shared = Shared::new(schedule)?;
        let guard = Pid::this();
        // A file of its own: where two read the same one by turns, each may get halves of two numbers for one.
        let its_children = OwnChildren::open()?;
        let pid = fork_silently(|| {
            its_children.leave_out(process::id() as i32);
            watch(guard, &its_children, &shared);
        })?;
        children.leave_out(pid);
        Ok(Watchdog { pid, shared })
    }

    /// Ends it, and says whether it has begun to kill. Whoever is its parent then reaps it: the guard, or redlock when
    /// the guard has ended.
    pub fn end(self, children: &OwnChildren) -> bool {
        // One that died before may have been reaped.
        if children.is_left_out(self.pid) {
            send(self.pid, libc::SIGKILL);
        }
        is_readable(self.shared.has_begun.as_fd())
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sets what the guard does when, if it can; `None` for a job that is not to be killed.
    pub fn set(&self, schedule: Option<KillSchedule>) {
        self.shared.set(schedule);
    }
}

/// True if this is a watchdog, or was one until its death. At first it has the name of the guard.
pub fn is_watchdog(pid: i32) -> bool {
    let name = name_of(pid).unwrap_or_default();
    [NAME, GUARD_NAME].into_iter().any(|its| name.as_bytes() == its.to_bytes())
}

fn watch(guard: Pid, children: &OwnChildren, shared: &Shared) {
    let _ = set_name(NAME);
    shorten_slice();
    // Signals to the job's group are not meant for it.
    let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
    if set_pdeathsig(Signal::SIGKILL).is_err() || getppid() != guard {
        return;
    }
    // Most jobs are shorter than this, and need no more.
    wait_readable([shared.kill.as_fd()], Deadline::after(SETTLE));
    streams::detach(false);
    let [look, kill, has_begun] = shared.descriptors();
    if close_all_but(&[children.as_fd(), look, kill, has_begun].map(|kept| kept.as_raw_fd())).is_err() {
        return;
    }
    shared.wait();
    let _ = shared.has_begun.write(1);
    loop {
        // One pass over the guard's children: this process has no children to wait for.
        kill_all(children);
        // A stopped guard goes on, and wakes its redlock. That may have been stopped in the middle of a write, for whose
        // end others wait.
        send(guard.as_raw(), libc::SIGCONT);
        sleep(PAUSE);
    }
}
