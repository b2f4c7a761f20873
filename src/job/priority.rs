//! The place of this process at the processor while a job has to be killed.

use std::mem::size_of;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The time slice that [`raise`] asks for, in nanoseconds: the least that the kernel grants.
const SLICE: u64 = 100_000;

/// The `struct sched_attr` of sched_setattr(2), in its first version.
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Whether [`raise`] made this process a real-time one.
static IS_RAISED: AtomicBool = AtomicBool::new(false);

/// Puts this process ahead of the job, as far as it may. A real-time process is ahead of all others; that takes
/// CAP_SYS_NICE, see sched(7). A short time slice lets the scheduler pick this process sooner at an equal share;
/// that takes Linux 6.12. What the caller made a real-time process stays as it is.
pub fn raise() {
    // SAFETY: takes a number; 0 is this thread.
    let policy = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
    if policy == libc::SCHED_FIFO || policy == libc::SCHED_RR {
        return;
    }
    if set_policy(libc::SCHED_FIFO, 1) {
        IS_RAISED.store(true, Ordering::Relaxed);
        return;
    }
    // SAFETY: getpriority takes any numbers.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: policy as u32,
        flags: 0,
        nice,
        priority: 0,
        runtime: SLICE,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of the struct, which lives through the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attr, 0) };
}

/// Takes back what [`raise`] did: one that waits for the deaths of others must not starve them.
pub fn lower() {
    if IS_RAISED.swap(false, Ordering::Relaxed) {
        set_policy(libc::SCHED_OTHER, 0);
    }
}

/// Makes the system calls of the killing with arguments that the kernel refuses.
pub fn probe_seccomp() {
    let nothing = std::ptr::null::<u8>();
    // SAFETY: the kernel refuses a policy of -1, a size of 0 and an attribute that is not there, and changes nothing.
    unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, -1, nothing);
        libc::syscall(libc::SYS_sched_setattr, 0, nothing, 0);
        libc::syscall(libc::SYS_sched_setaffinity, 0, 0, nothing);
    }
}

fn set_policy(policy: i32, priority: i32) -> bool {
    // SAFETY: sched_param is plain data that lives through the call; 0 is this thread. Nothing is forked from here on.
    unsafe {
        let mut param: libc::sched_param = std::mem::zeroed();
        param.sched_priority = priority;
        libc::sched_setscheduler(0, policy | libc::SCHED_RESET_ON_FORK, &param) == 0
    }
}

/// A processor for this process, on which those that it kills do not run: each would get ahead of it to die, one after
/// the other, and meanwhile the rest would live.
pub struct Apart {
    before: CpuSet,
    others: CpuSet,
}

impl Apart {
    /// Moves this process apart; `None` where it has one processor only.
    pub fn new() -> Option<Apart> {
        let before = sched_getaffinity(Pid::from_raw(0)).ok()?;
        // SAFETY: takes nothing and returns a number.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
        let (mut own, mut others) = (CpuSet::new(), before);
        own.set(here).ok()?;
        others.unset(here).ok()?;
        let has_others = (0..CpuSet::count()).any(|cpu| others.is_set(cpu) == Ok(true));
        (has_others && sched_setaffinity(Pid::from_raw(0), &own).is_ok()).then_some(Apart { before, others })
    }

    /// Keeps a process away that is about to be killed.
    pub fn keep_away(&self, pid: i32) {
        let _ = sched_setaffinity(Pid::from_raw(pid), &self.others);
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = sched_setaffinity(Pid::from_raw(0), &self.before);
    }
}
