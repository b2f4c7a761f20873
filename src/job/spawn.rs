//! Starts the command as the caller would: its group, signals, mask, streams and environment.

use std::env;
use std::ffi::{CString, OsString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgid, getppid, setpgid};

use super::dispositions;

/// The caller's state that the guard changes for itself and the command gets back.
pub struct Caller {
    pub group: Pid,
    pub ignored_sigchld: bool,
}

impl Caller {
    /// The state of this process, before anything changed it.
    pub fn note() -> nix::Result<Caller> {
        Ok(Caller { group: getpgid(None)?, ignored_sigchld: dispositions::is_ignored(libc::SIGCHLD) })
    }
}

/// A command with all that executing it takes, so that nothing is left to do when the lock is there.
pub struct Prepared {
    words: Vec<CString>,
    /// Its environment but for what the start adds.
    inherited: Vec<CString>,
    /// The variables that hold redlock's pid and mean the process that is started: the command's pid goes there.
    own_pid: Vec<Vec<u8>>,
    stack: Vec<u8>,
}

/// For exec(3), which alone needs more of it for a long PATH than the kernel's smallest stack; and which copies the words
/// of a script that names no interpreter.
const STACK: usize = 256 << 10;

/// systemd says with these for which process its sockets and its watchdog are: sd_listen_fds(3), sd_watchdog_enabled(3).
const PID_VARIABLES: [&str; 2] = ["LISTEN_PID", "WATCHDOG_PID"];
/// The digits of the largest pid, and a zero.
const LONGEST_PID: usize = 11;

impl Prepared {
    /// `redlock` is the pid under which the caller knows the command.
    pub fn new(command: &[OsString], redlock: Pid) -> io::Result<Prepared> {
        let words = command.iter().map(|word| c_string(word.as_bytes())).collect::<io::Result<Vec<_>>>()?;
        let redlock = redlock.to_string();
        let is_own_pid = |name: &OsString, value: &OsString| {
            PID_VARIABLES.iter().any(|known| name == known) && *value == *redlock
        };
        let (own, inherited): (Vec<_>, Vec<_>) =
            env::vars_os().partition(|(name, value)| is_own_pid(name, value));
        let own_pid =
            own.iter().map(|(name, _)| [name.as_bytes(), b"=", &[0; LONGEST_PID]].concat()).collect();
        let inherited = inherited
            .iter()
            .map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat()));
        let inherited = inherited.collect::<io::Result<_>>()?;
        let stack = vec![0; STACK + size_of::<usize>() * words.len()];
        Ok(Prepared { words, inherited, own_pid, stack })
    }

    /// The command with the variables added to its environment: from here on the start takes no memory.
    pub fn with(&mut self, added: &[(String, String)]) -> io::Result<Executable<'_>> {
        let is_added = |variable: &CString| {
            let name = variable.as_bytes().split(|byte| *byte == b'=').next();
            added.iter().any(|(added, _)| name == Some(added.as_bytes()))
        };
        let inherited = self.inherited.iter().filter(|variable| !is_added(variable));
        let added = added.iter().map(|(name, value)| c_string(format!("{name}={value}").as_bytes()));
        let added = added.collect::<io::Result<Vec<_>>>()?;
        let mut variables = pointers(inherited.chain(&added));
        variables.splice(0..0, self.own_pid.iter().map(|variable| variable.as_ptr().cast()));
        Ok(Executable {
            words: pointers(&self.words),
            variables,
            _added: added,
            own_pid: &mut self.own_pid,
            stack: &mut self.stack,
        })
    }
}

pub struct Executable<'a> {
    words: Vec<*const c_char>,
    variables: Vec<*const c_char>,
    _added: Vec<CString>,
    own_pid: &'a mut [Vec<u8>],
    stack: &'a mut [u8],
}

struct Execution<'a> {
    words: &'a [*const c_char],
    variables: &'a [*const c_char],
    own_pid: &'a mut [Vec<u8>],
    caller: &'a Caller,
    parent: Pid,
    failure: AtomicI32,
}

impl Executable<'_> {
    /// Executes the command as a child of this process, and returns its pid, with a descriptor that is readable when it
    /// has ended. Makes system calls only.
    ///
    /// As vfork(2) does: the child borrows our memory until it executes the command, which takes a tenth of the time in
    /// which fork(2) copies what exec throws away.
    pub fn start(&mut self, caller: &Caller) -> io::Result<(i32, OwnedFd)> {
        let Executable { words, variables, own_pid, stack, .. } = self;
        let mut execution =
            Execution { words, variables, own_pid, caller, parent: Pid::this(), failure: AtomicI32::new(0) };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let mut end: c_int = -1;
        let top = stack.as_mut_ptr_range().end;
        // SAFETY: this process has one thread, all its signals are blocked, and it sleeps until the child has
        // executed the command or exited; until then the child makes system calls only, on a stack of its own
        // that is large enough for them.
        let pid = unsafe {
            let top = top.sub(top as usize % 16).cast();
            libc::clone(execute, top, flags, (&raw mut execution).cast(), &raw mut end)
        };
        if pid == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it, and it is nobody else's.
        let end = unsafe { OwnedFd::from_raw_fd(end) };
        match execution.failure.load(Ordering::Relaxed) {
            0 => Ok((pid, end)),
            errno => {
                // SAFETY: waits for the child that has just exited; null asks for no status.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }
}

extern "C" fn execute(execution: *mut c_void) -> c_int {
    // SAFETY: an `Execution` that lives until this process has another memory or none; its failure is atomic.
    let execution = unsafe { &mut *execution.cast::<Execution>() };
    execution.own_pid.iter_mut().for_each(|variable| write_own_pid(variable));
    execution.failure.store(execution.execute() as i32, Ordering::Relaxed);
    127
}

impl Execution<'_> {
    /// Becomes the command, with everything as the caller had it. Returns only on failure, with the reason.
    fn execute(&self) -> Errno {
        let Execution { words, variables, caller, parent, .. } = self;
        // The second belt: the command dies with the guard. See PR_SET_PDEATHSIG(2const).
        if let Err(errno) = set_pdeathsig(Signal::SIGKILL) {
            return errno;
        }
        if getppid() != *parent {
            return Errno::ESRCH;
        }
        // Into the caller's process group, so that the terminal treats command and redlock as one job. The group
        // may be another session's by now: then it stays.
        let _ = setpgid(Pid::from_raw(0), caller.group);
        dispositions::set_ignored(libc::SIGCHLD, caller.ignored_sigchld);
        if let Err(errno) = dispositions::restore() {
            return errno;
        }
        // SAFETY: both arrays end with a null pointer, and their strings live in the guard, which waits.
        unsafe { libc::execvpe(words[0], words.as_ptr(), variables.as_ptr()) };
        Errno::last()
    }
}

/// Writes the pid of this process behind the name of the variable. Takes no memory.
fn write_own_pid(variable: &mut [u8]) {
    let digits = variable.len() - LONGEST_PID;
    let mut left = std::process::id();
    let count = left.ilog10() as usize + 1;
    for digit in variable[digits..digits + count].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn pointers<'a>(strings: impl IntoIterator<Item = &'a CString>) -> Vec<*const c_char> {
    strings.into_iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}
