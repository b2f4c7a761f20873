//! The process for which `acquire` takes a lock: redlock itself has ended when others see the holder.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;

use nix::unistd::getppid;

/// Programs that start another one, and end with it.
const STAYING_PARENTS: [&[u8]; 3] = [b"sudo", b"doas", b"timeout"];

/// A process, as /proc shows it.
#[derive(Debug, PartialEq)]
pub struct CallingProcess {
    pub pid: u32,
    parent: u32,
    /// The words of its command, each with a NUL at its end.
    words: Vec<u8>,
    /// Their address in its memory, which is random for each execution; 0 where that is not shown.
    address: u64,
}

impl CallingProcess {
    /// The process that called redlock. A shell forks for `$(sudo redlock acquire)`, and that copy of it ends with the
    /// line, as sudo does: the shell itself is the caller.
    pub fn find() -> Option<CallingProcess> {
        let mut caller = CallingProcess::of(getppid().as_raw() as u32)?;
        let ends_with_redlock =
            |one: &CallingProcess, parent: &CallingProcess| one.is_fork_of(parent) || one.is_wrapper();
        while let Some(lasting) =
            CallingProcess::of(caller.parent).filter(|parent| ends_with_redlock(&caller, parent))
        {
            caller = lasting;
        }
        Some(caller)
    }

    /// See proc_pid_stat(5): the name in parentheses may contain anything, the fields follow the last one.
    pub fn of(pid: u32) -> Option<CallingProcess> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let (parent, address) = (fields.get(1)?.parse().ok()?, fields.get(45)?.parse().ok()?);
        Some(CallingProcess { pid, parent, words: fs::read(format!("/proc/{pid}/cmdline")).ok()?, address })
    }

    /// True if both are of the same execution.
    fn is_fork_of(&self, parent: &CallingProcess) -> bool {
        self.words == parent.words && self.address == parent.address
    }

    fn is_wrapper(&self) -> bool {
        let program = self.words.split(|byte| *byte == 0).next().unwrap_or_default();
        program.rsplit(|byte| *byte == b'/').next().is_some_and(|name| STAYING_PARENTS.contains(&name))
    }

    /// A login shell has a dash before its name.
    pub fn command(&self) -> Vec<OsString> {
        let words = self.words.strip_prefix(b"-").unwrap_or(&self.words);
        let words = words.strip_suffix(b"\0").unwrap_or(words);
        words.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned()).collect()
    }
}

#[test]
fn this_process_has_a_caller() {
    let own = CallingProcess::of(std::process::id()).expect("this process");
    let program = std::env::args_os().next().expect("its name");
    assert_eq!(own.command()[0], program);
    let caller = CallingProcess::find().expect("who started the tests");
    assert!(caller.pid != own.pid && !caller.is_fork_of(&own), "{caller:?}");
}
