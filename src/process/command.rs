use std::ffi::{OsStr, OsString, c_int};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgid, getppid, setpgid};

use super::inherited;

/// What to execute.
#[derive(Clone, Debug)]
pub struct CommandLine {
    pub program: OsString,
    pub args: Vec<OsString>,
}

/// What of the caller's state the guard changed for itself, and the command gets back.
pub struct Caller {
    pub mask: SigSet,
    pub group: Pid,
    pub ignored_sigchld: bool,
}

impl Caller {
    /// The state of this process, before anything changed it.
    pub fn note() -> nix::Result<Caller> {
        Ok(Caller {
            mask: SigSet::thread_get_mask()?,
            group: getpgid(None)?,
            ignored_sigchld: inherited::is_ignored(libc::SIGCHLD),
        })
    }
}

impl CommandLine {
    /// Executes the command as a child of this process, with the variables added to its environment.
    /// Returns its pid.
    pub fn start(&self, env: &[(String, String)], caller: Caller) -> io::Result<i32> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(env.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
        let guard = Pid::this();
        // SAFETY: the closure runs in the child of a process with one thread, where every call is
        // allowed; it makes system calls only.
        unsafe {
            command.pre_exec(move || {
                // The second belt: the command dies with the guard. See PR_SET_PDEATHSIG(2const).
                set_pdeathsig(Signal::SIGKILL)?;
                if getppid() != guard {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                // Into the caller's process group, so that the terminal treats command and redlock
                // as one job. The group may be another session's (setsid between): then it stays.
                let _ = setpgid(Pid::from_raw(0), caller.group);
                inherited::set_ignored(libc::SIGCHLD, caller.ignored_sigchld);
                inherited::restore();
                caller.mask.thread_set_mask()?;
                Ok(())
            });
        }
        Ok(command.spawn()?.id() as c_int)
    }
}
