//! Starts the command as the caller would: its group, signals, mask, streams and environment.

use std::env;
use std::ffi::{CString, OsString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, Ordering};

use nix::errno::Errno;
use nix::unistd::{Pid, getpgid};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::futex;

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

/// A command with all that executing it takes. Its process is there before the lock is, and sleeps: one wake-up starts it.
pub struct Prepared {
    _words: Vec<CString>,
    /// Its environment but for what the start adds.
    inherited: Vec<CString>,
    added: Vec<CString>,
    variables: Vec<*const c_char>,
    stack: Vec<u8>,
    execution: Box<Execution>,
}

/// The part of our memory that the process reads which becomes the command. It shares that memory until then.
struct Execution {
    words: Vec<*const c_char>,
    variables: AtomicPtr<*const c_char>,
    /// The variables that hold redlock's pid and mean the process that is started: the command's pid goes there.
    own_pid: Vec<Vec<AtomicU8>>,
    ignored_sigchld: bool,
    parent: AtomicI32,
    order: AtomicU32,
    /// The `errno` of the execution.
    failure: AtomicI32,
    /// One as long as the process uses this memory: the kernel clears it when the process has executed the command or
    /// ended, and wakes who waits for that (CLONE_CHILD_CLEARTID, see clone(2)).
    shares_memory: AtomicU32,
}

/// Values of [`Execution::order`].
const SLEEP: u32 = 0;
const EXECUTE: u32 = 1;

/// The stack for exec(3), which alone needs more for a long PATH than the kernel's smallest stack, and which copies the
/// words of a script that names no interpreter.
const STACK: usize = 256 << 10;

/// systemd says with these for which process its sockets and its watchdog are: sd_listen_fds(3), sd_watchdog_enabled(3).
const PID_VARIABLES: [&str; 2] = ["LISTEN_PID", "WATCHDOG_PID"];
/// The digits of the largest pid, and a zero.
const LONGEST_PID: usize = 11;

impl Prepared {
    /// `redlock` is the pid under which the caller knows the command.
    pub fn new(command: &[OsString], redlock: Pid, caller: &Caller) -> io::Result<Prepared> {
        let words = command.iter().map(|word| c_string(word.as_bytes())).collect::<io::Result<Vec<_>>>()?;
        let redlock = redlock.to_string();
        let is_own_pid = |name: &OsString, value: &OsString| {
            PID_VARIABLES.iter().any(|known| name == known) && *value == *redlock
        };
        let (own, inherited): (Vec<_>, Vec<_>) =
            env::vars_os().partition(|(name, value)| is_own_pid(name, value));
        let own_pid = own.iter().map(|(name, _)| [name.as_bytes(), b"=", &[0; LONGEST_PID]].concat());
        let own_pid = own_pid.map(|bytes| bytes.into_iter().map(AtomicU8::new).collect()).collect();
        let inherited = inherited
            .iter()
            .map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat()));
        let inherited = inherited.collect::<io::Result<_>>()?;
        // Most of it is never touched, and setting it to zero would take 50 us.
        let stack = Vec::with_capacity(STACK + size_of::<usize>() * words.len());
        let execution = Box::new(Execution {
            words: pointers(&words),
            variables: AtomicPtr::new(ptr::null_mut()),
            own_pid,
            ignored_sigchld: caller.ignored_sigchld,
            parent: AtomicI32::new(0),
            order: AtomicU32::new(SLEEP),
            failure: AtomicI32::new(0),
            shares_memory: AtomicU32::new(0),
        });
        Ok(Prepared { _words: words, inherited, added: Vec::new(), variables: Vec::new(), stack, execution })
    }

    /// Makes the process that becomes the command, a child of this one. Returns its pid, with a descriptor that is readable
    /// when it has ended. Takes no memory.
    pub fn fork(&mut self) -> io::Result<(i32, OwnedFd)> {
        let execution = &*self.execution;
        execution.parent.store(std::process::id() as i32, Ordering::Relaxed);
        execution.shares_memory.store(1, Ordering::Relaxed);
        let flags = libc::CLONE_VM | libc::CLONE_PIDFD | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD;
        let mut end: c_int = -1;
        // SAFETY: all signals are blocked in this process. The child makes system calls only, on a stack of its own that is
        // large enough for them, and reads what lives until it has executed the command or ended.
        let pid = unsafe {
            let top = self.stack.as_mut_ptr().add(self.stack.capacity() & !15);
            let (execution, shares) = (ptr::from_ref(execution), execution.shares_memory.as_ptr());
            let none = ptr::null_mut::<c_void>();
            libc::clone(execute, top.cast(), flags, execution.cast_mut().cast(), &raw mut end, none, shares)
        };
        if pid == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it, and it is nobody else's.
        Ok((pid, unsafe { OwnedFd::from_raw_fd(end) }))
    }

    /// Wakes the process, to execute the command with these variables added to its environment.
    pub fn execute_with(&mut self, added: &[(String, String)]) -> io::Result<()> {
        let is_added = |variable: &CString| {
            let name = variable.as_bytes().split(|byte| *byte == b'=').next();
            added.iter().any(|(added, _)| name == Some(added.as_bytes()))
        };
        let inherited = self.inherited.iter().filter(|variable| !is_added(variable));
        let added = added.iter().map(|(name, value)| c_string(format!("{name}={value}").as_bytes()));
        self.added = added.collect::<io::Result<Vec<_>>>()?;
        self.variables = pointers(inherited.chain(&self.added));
        let own_pid = self.execution.own_pid.iter().map(|variable| variable.as_ptr().cast());
        self.variables.splice(0..0, own_pid);
        self.execution.variables.store(self.variables.as_mut_ptr(), Ordering::Relaxed);
        self.execution.order.store(EXECUTE, Ordering::Release);
        let _ = futex::wake(&self.execution.order, futex::Flags::empty(), 1);
        Ok(())
    }

    /// Waits until the process has executed the command, or has failed to. Uses no `errno` and takes no memory. To be called
    /// by its parent.
    pub fn await_execution(&self) -> Result<(), Errno> {
        let shares_memory = &self.execution.shares_memory;
        while shares_memory.load(Ordering::Acquire) != 0 {
            let _ = futex::wait(shares_memory, futex::Flags::empty(), 1, None);
        }
        match self.execution.failure.load(Ordering::Relaxed) {
            0 => Ok(()),
            errno => Err(Errno::from_raw(errno)),
        }
    }
}

extern "C" fn execute(execution: *mut c_void) -> c_int {
    // SAFETY: an `Execution` that lives until this process has another memory or none. Its changing fields are atomic.
    let execution = unsafe { &*execution.cast::<Execution>() };
    execution.failure.store(execution.execute() as i32, Ordering::Relaxed);
    127
}

impl Execution {
    /// Becomes the command when it is woken, with everything as the caller had it. Returns only on failure, with the reason.
    ///
    /// It is in the caller's process group, as the guard was when it made this process: so the terminal treats command and
    /// redlock as one job.
    fn execute(&self) -> Errno {
        // The second belt: the command dies with its parent, and that with the guard. See PR_SET_PDEATHSIG(2const).
        if let Err(errno) = set_parent_process_death_signal(Some(Signal::KILL)) {
            return Errno::from_raw(errno.raw_os_error());
        }
        if getppid().map_or(0, |parent| parent.as_raw_nonzero().get()) != self.parent.load(Ordering::Relaxed)
        {
            return Errno::ESRCH;
        }
        while self.order.load(Ordering::Acquire) == SLEEP {
            let _ = futex::wait(&self.order, futex::Flags::empty(), SLEEP, None);
        }
        self.own_pid.iter().for_each(|variable| write_own_pid(variable));
        dispositions::set_ignored(libc::SIGCHLD, self.ignored_sigchld);
        if let Err(errno) = dispositions::restore() {
            return errno;
        }
        let variables = self.variables.load(Ordering::Relaxed).cast_const();
        // SAFETY: both arrays end with a null pointer, and their strings live as long as the guard, whose memory this is.
        unsafe { libc::execvpe(self.words[0], self.words.as_ptr(), variables) };
        Errno::last()
    }
}

/// Writes the pid of this process behind the name of the variable. Takes no memory.
fn write_own_pid(variable: &[AtomicU8]) {
    let digits = variable.len() - LONGEST_PID;
    let mut left = std::process::id();
    let count = left.ilog10() as usize + 1;
    for digit in variable[digits..digits + count].iter().rev() {
        digit.store(b'0' + (left % 10) as u8, Ordering::Relaxed);
        left /= 10;
    }
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn pointers<'a>(strings: impl IntoIterator<Item = &'a CString>) -> Vec<*const c_char> {
    strings.into_iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}
