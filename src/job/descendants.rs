//! The descendants of this process, and signals to them.

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::ffi::c_int;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::{Pid, getpgid};
use rustix::process::{PidfdFlags, pidfd_open};

use super::process::{exists, name_of, send_and_wake};
use super::protocol::ExitStatus;
use crate::clock::Deadline;

/// The name of guard processes in `ps` and /proc. Not "redlock-…", so that `killall redlock` and
/// `pkill redlock` leave the guard to do its work.
pub const GUARD_NAME: &std::ffi::CStr = c"lock-guard";

/// The longest that one look at dead children may take: those of a job that forks all the time die as fast as they are
/// waited for.
const REAPING: Duration = Duration::from_millis(5);

/// The list of the children of the process that opened it, of which one thread alone makes any. It stays open: where the
/// system has no descriptors left (ENFILE), or this process may have no more, a job has to be killed all the same.
#[derive(Debug)]
pub struct OwnChildren {
    file: File,
    left_out: RefCell<Vec<i32>>,
}

impl OwnChildren {
    pub fn open() -> io::Result<OwnChildren> {
        Ok(OwnChildren { file: File::open("/proc/thread-self/children")?, left_out: RefCell::default() })
    }

    /// Leaves out the children that exist now: they came with the program, which was executed in the place of another.
    pub fn leave_out_all(&self) {
        self.left_out.borrow_mut().extend(self.all());
    }

    /// Leaves out this child, which does not belong to the job.
    pub fn leave_out(&self, pid: i32) {
        self.left_out.borrow_mut().push(pid);
    }

    pub fn is_left_out(&self, pid: i32) -> bool {
        self.left_out.borrow().contains(&pid)
    }

    pub fn list(&self) -> Vec<i32> {
        let mut pids = self.all();
        pids.retain(|pid| !self.is_left_out(*pid));
        pids
    }

    fn all(&self) -> Vec<i32> {
        let mut pids = Vec::new();
        read_children(&self.file, &mut pids);
        pids
    }

    /// A list that could not be read proves no death: it has to name a child that is left out.
    fn has_left_out_only(&self) -> bool {
        if self.left_out.borrow().is_empty() {
            return false;
        }
        let all = self.all();
        !all.is_empty() && all.into_iter().all(|pid| self.is_left_out(pid))
    }

    /// Waits for those that are dead, without blocking.
    pub fn reap(&self) -> Reaped {
        let end = Deadline::after(REAPING);
        loop {
            match wait(-1) {
                // Its pid may be another's from now on.
                Ok(Some((pid, _))) if self.is_left_out(pid) => {
                    self.left_out.borrow_mut().retain(|left_out| *left_out != pid);
                }
                Ok(Some(_)) => {}
                Ok(None) if self.has_left_out_only() => return Reaped::Childless,
                Ok(None) => return Reaped::Alive,
                Err(Errno::ECHILD) => return Reaped::Childless,
                Err(_) => {}
            }
            if end.has_passed() {
                return Reaped::More;
            }
        }
    }
}

impl AsFd for OwnChildren {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The children of this process; an error where the processes of a job cannot be seen, so that none of them could be
/// killed.
pub fn check_visible() -> io::Result<OwnChildren> {
    let cannot_see = |why: &str, remedy: &str| {
        io::Error::other(format!("cannot see the processes of a job: {why}; {remedy}"))
    };
    // One read has all of it: the size that the file shows is zero, and a String would grow in steps.
    let mut status = [0; 4096];
    let read = File::open("/proc/self/status").and_then(|file| file.read_at(&mut status, 0));
    let length = read.map_err(|error| cannot_see(&format!("/proc/self/status: {error}"), "mount /proc"))?;
    if !is_of_this_namespace(&String::from_utf8_lossy(&status[..length]), std::process::id()) {
        let why = "/proc shows the processes of another PID namespace";
        return Err(cannot_see(why, "mount /proc in this one, as `unshare --pid --mount-proc` does"));
    }
    let pidfd = pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
    if pidfd.is_err_and(|errno| errno == rustix::io::Errno::NOSYS) {
        return Err(cannot_see("the kernel has no pidfd_open(2)", "it takes Linux 5.3 or later"));
    }
    OwnChildren::open().map_err(|error| {
        let why = format!("/proc/thread-self/children: {error}");
        cannot_see(&why, "it takes a kernel with CONFIG_PROC_CHILDREN")
    })
}

/// True if a proc_pid_status(5) of the process `pid` comes from the /proc of its own PID namespace: that of an outer
/// namespace numbers the process there, too.
fn is_of_this_namespace(status: &str, pid: u32) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    // A kernel without namespaces has no NSpid.
    let pids = field("NSpid:").or_else(|| field("Pid:")).unwrap_or_default();
    pids.split_whitespace().map(str::parse).eq([Ok(pid)])
}

/// Sends `signal` to the descendants of this process that are meant, as long as there is time until `end`, and wakes
/// those that are stopped. It leaves out processes below the guard of another redlock: that one passes
/// signals on itself, and its job would get them twice.
pub fn signal_where(
    own: &OwnChildren,
    command: Option<i32>,
    signal: c_int,
    end: Deadline,
    is_meant: impl Fn(i32) -> bool,
) {
    walk(own, command, |pid, children| {
        // Before the signal, which may end the process: see `exists`. A guard blocks all signals.
        let is_guard = !children.is_empty() && is_guard(pid);
        if is_meant(pid) {
            send_and_wake(pid, signal);
        }
        if end.has_passed() {
            Onward::Nowhere
        } else if is_guard {
            Onward::Beside
        } else {
            Onward::Below
        }
    });
}

/// True for a process in another process group than `group`.
pub fn is_outside(group: Pid, pid: i32) -> bool {
    getpgid(Some(Pid::from_raw(pid))).is_ok_and(|its| its != group)
}

/// The next step of a walk after a process.
enum Onward {
    /// To its children, too.
    Below,
    Beside,
    Nowhere,
}

/// Visits the descendants of this process, parents first, each with its children: when a visit kills it, they are
/// known already.
///
/// The children of the `command` are visited, too: its parent has the memory of the guard, of which a server's password is
/// kept out of sight, and where /proc hides such processes (`hidepid`) it seems to have no children.
fn walk(own: &OwnChildren, command: Option<i32>, mut visit: impl FnMut(i32, &[i32]) -> Onward) {
    let mut seen = HashSet::new();
    let mut found = VecDeque::from(own.list());
    found.extend(command);
    while let Some(pid) = found.pop_front() {
        if !seen.insert(pid) {
            continue;
        }
        let children = children_of(pid);
        match visit(pid, &children) {
            Onward::Below => found.extend(children),
            Onward::Beside => {}
            Onward::Nowhere => return,
        }
    }
}

/// The children that [`OwnChildren::reap`] left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// There may be more deaths to see: the time was over.
    More,
    /// There are children, and none of them is dead.
    Alive,
    Childless,
}

/// Waits for this child, if it is dead.
pub fn reap_one(pid: i32) -> Option<ExitStatus> {
    wait(pid).ok().flatten().map(|(_, status)| status)
}

/// waitpid(2) without blocking, for the command's parent too, which ends without a signal. Not by nix: that loses the
/// death by a real-time signal (`Signal` has none of them).
fn wait(pid: i32) -> Result<Option<(i32, ExitStatus)>, Errno> {
    let mut status = 0;
    // SAFETY: the pointer is to a c_int that lives through the call.
    match unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG | libc::__WALL) } {
        0 => Ok(None),
        pid if pid > 0 && libc::WIFSIGNALED(status) => {
            Ok(Some((pid, ExitStatus::Signaled(libc::WTERMSIG(status)))))
        }
        pid if pid > 0 => Ok(Some((pid, ExitStatus::Exited(libc::WEXITSTATUS(status))))),
        _ => Err(Errno::last()),
    }
}

/// The children of all threads of a process, the oldest of each first. The list is empty for a process that is gone, or
/// without a free descriptor: those become children of this process when theirs is killed.
pub fn children_of(pid: i32) -> Vec<i32> {
    threads_of(pid).into_iter().flat_map(|thread| children_of_thread(pid, thread)).collect()
}

/// The children of one thread of the process `pid`.
pub fn children_of_thread(pid: i32, thread: i32) -> Vec<i32> {
    let mut pids = Vec::new();
    let children = || File::open(format!("/proc/{pid}/task/{thread}/children"));
    if let Some(file) = exists(thread).then(children).and_then(Result::ok) {
        read_children(&file, &mut pids);
    }
    pids
}

/// The threads of a process; none of one that is gone.
pub fn threads_of(pid: i32) -> Vec<i32> {
    if !exists(pid) {
        return Vec::new();
    }
    let tasks = format!("/proc/{pid}/task");
    // Two links of the folder itself, and one for each thread: most processes have one, which is not worth a look inside.
    match fs::metadata(&tasks) {
        Ok(folder) if folder.nlink() == 3 => vec![pid],
        Ok(_) => {
            let threads = fs::read_dir(&tasks).into_iter().flatten().flatten();
            threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect()
        }
        Err(_) => Vec::new(),
    }
}

/// Reads a `/proc/PID/task/TID/children` from its beginning, see proc_pid_task_children(5).
fn read_children(file: &File, pids: &mut Vec<i32>) {
    let (mut chunk, mut number, mut offset) = ([0; 4096], None, 0);
    while let Ok(length @ 1..) = file.read_at(&mut chunk, offset) {
        for byte in &chunk[..length] {
            match byte {
                b'0'..=b'9' => number = Some(number.unwrap_or(0) * 10 + i32::from(byte - b'0')),
                _ => pids.extend(number.take()),
            }
        }
        offset += length as u64;
    }
    pids.extend(number);
}

pub fn is_guard(pid: i32) -> bool {
    name_of(pid).is_some_and(|name| name.as_bytes() == GUARD_NAME.to_bytes())
}
