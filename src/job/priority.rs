//! The place at the processor of this process, and of those that it killed.

use std::fs;
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The time slice that [`shorten_slice`] asks for, in nanoseconds: the least that the kernel grants.
const SLICE: u64 = 100_000;

/// The nice value of what comes first.
const FIRST: i32 = -20;

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

/// The real-time priorities of [`raise`] and of [`let_die`].
const AHEAD: i32 = 2;
const DYING: i32 = 1;

/// True while [`raise`] has this process as a real-time one.
static IS_RAISED: AtomicBool = AtomicBool::new(false);

/// False if [`probe`] found that [`raise`] has no chance.
static MAY_RAISE: AtomicBool = AtomicBool::new(true);

static MAY_BE_KEPT_WAITING: AtomicBool = AtomicBool::new(false);

/// Puts this process ahead of all that are not real-time processes, if it may: that takes CAP_SYS_NICE, see sched(7). A
/// process that the caller made a real-time one stays as it is. After [`probe`] no system call of this fails, so
/// `errno` is left as it is.
pub fn raise() {
    if MAY_RAISE.load(Ordering::Relaxed)
        && !is_raised()
        && !is_real_time(policy(0))
        && set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, AHEAD)
    {
        IS_RAISED.store(true, Ordering::Relaxed);
    }
}

pub fn is_raised() -> bool {
    IS_RAISED.load(Ordering::Relaxed)
}

/// Puts a killed thread right behind this process, which is [raised](raise). A thread needs processor time to die, and on
/// a busy machine it was seen to wait for that for half a second.
pub fn let_die(thread: i32) {
    if !is_real_time(policy(thread)) {
        set_policy_of(thread, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, DYING);
    }
}

/// Asks for a short time slice, unless this process is [raised](raise): the scheduler picks it sooner at an equal share. That
/// takes Linux 6.12. A child gets it, too.
pub fn shorten_slice() {
    let policy = policy(0);
    if is_real_time(policy) {
        return;
    }
    // Only a process with CAP_SYS_NICE may take the flag away.
    let is_reset = policy & libc::SCHED_RESET_ON_FORK != 0;
    // SAFETY: getpriority takes any numbers.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: (policy & !libc::SCHED_RESET_ON_FORK) as u32,
        flags: if is_reset { libc::SCHED_FLAG_RESET_ON_FORK as u64 } else { 0 },
        nice,
        priority: 0,
        runtime: SLICE,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of the struct, which lives through the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attr, 0) };
}

/// True if a session of its own can keep this process waiting: Linux shares the processors between sessions first
/// (autogroups, see sched(7)), and this process may not put its own ahead of others.
///
/// A session whose processes fork and exit all the time was seen to have a processor to itself for up to 2 s (6.18).
pub fn may_be_kept_waiting() -> bool {
    MAY_BE_KEPT_WAITING.load(Ordering::Relaxed)
}

fn finds_a_session_in_its_way() -> bool {
    // SAFETY: all of them take any numbers.
    let may_come_first = unsafe {
        let nice = libc::getpriority(libc::PRIO_PROCESS, 0);
        let may = libc::setpriority(libc::PRIO_PROCESS, 0, FIRST) == 0;
        libc::setpriority(libc::PRIO_PROCESS, 0, nice);
        may
    };
    let setting = || fs::read("/proc/sys/kernel/sched_autogroup_enabled");
    !may_come_first && setting().is_ok_and(|setting| setting.starts_with(b"1"))
}

/// Puts the session of this process ahead of others, if it may: it waited for 16 ms at most then, see
/// [`may_be_kept_waiting`].
pub fn put_session_first() {
    let _ = fs::write("/proc/self/autogroup", FIRST.to_string());
}

/// Takes back what [`raise`] did: the policy is the usual one then, whatever the caller had.
pub fn lower() {
    if IS_RAISED.swap(false, Ordering::Relaxed) {
        set_policy(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0);
    }
}

fn finds_itself_raised() -> bool {
    let before = policy(0);
    if is_real_time(before) {
        return false;
    }
    // A child is to have what the caller had.
    let kept = before & libc::SCHED_RESET_ON_FORK;
    let may = set_policy(libc::SCHED_FIFO | kept, AHEAD);
    if may {
        set_policy(before, 0);
    }
    may
}

/// Finds out what [`may_be_kept_waiting`] tells, and whether [`raise`] has a chance. Makes the system calls of what
/// follows, too, with arguments that the kernel refuses or that change nothing: a seccomp(2) filter may kill the process
/// that makes them, and had better do so before anything has started.
pub fn probe() {
    MAY_RAISE.store(finds_itself_raised(), Ordering::Relaxed);
    MAY_BE_KEPT_WAITING.store(finds_a_session_in_its_way(), Ordering::Relaxed);
    let nothing = std::ptr::null::<u8>();
    // SAFETY: the kernel refuses a wrong policy, size and descriptor, and an attribute that is missing.
    unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, -1, nothing);
        libc::syscall(libc::SYS_sched_setattr, 0, nothing, 0);
        libc::syscall(libc::SYS_sched_setaffinity, 0, 0, nothing);
        libc::syscall(libc::SYS_timerfd_gettime, -1, nothing);
    }
}

/// The policy of a thread, with the flag SCHED_RESET_ON_FORK; 0 is the calling thread.
fn policy(thread: i32) -> i32 {
    // SAFETY: takes a number.
    unsafe { libc::sched_getscheduler(thread) }
}

fn is_real_time(policy: i32) -> bool {
    let policy = policy & !libc::SCHED_RESET_ON_FORK;
    [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&policy)
}

fn set_policy(policy: i32, priority: i32) -> bool {
    set_policy_of(0, policy, priority)
}

fn set_policy_of(thread: i32, policy: i32, priority: i32) -> bool {
    // SAFETY: sched_param is plain data that lives through the call.
    unsafe {
        let mut param: libc::sched_param = std::mem::zeroed();
        param.sched_priority = priority;
        libc::sched_setscheduler(thread, policy, &param) == 0
    }
}

/// A processor for this process, on which those that it kills do not run: each would get ahead of it to die, one after
/// the other, and the rest would live as long.
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
