//! This host, as a process in a container may see it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};

use super::time_namespace::offset;
use crate::clock::BootTime;

/// The facts about this host that a transaction needs.
pub struct Host {
    /// Where the file is: the FIFOs of its waiters are beside it.
    pub file: PathBuf,
    /// The id of this boot; empty where a container hides it.
    pub boot: String,
    /// The processes that keep alive what this process takes: a lock is free as soon as all of them are dead.
    pub holders: Vec<u32>,
    /// See [`offset`].
    offset: i64,
}

impl Host {
    /// Whose locks are in this `file`. Fails where /proc does not say enough.
    pub fn of(file: &Path, holders: &[u32]) -> io::Result<Host> {
        check_proc()?;
        Ok(Host { file: file.to_owned(), boot: boot_id()?, offset: offset()?, holders: holders.to_vec() })
    }

    pub fn moment(&self) -> Moment<'_> {
        Moment { now: BootTime::now(), boot: &self.boot }
    }

    /// As it stands in the file: nanoseconds on the boot clock of the host.
    pub fn nanos(&self, time: BootTime) -> i64 {
        i64::try_from(time.as_nanos()).unwrap_or(i64::MAX).saturating_sub(self.offset)
    }

    /// The inverse of [`Host::nanos`].
    pub fn time(&self, nanos: i64) -> BootTime {
        BootTime::from_nanos(nanos.saturating_add(self.offset).max(0) as u64)
    }

    pub fn now(&self) -> i64 {
        self.nanos(BootTime::now())
    }
}

/// The time of a decision, in the boot with this id, which is empty where a container hides it.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    pub now: BootTime,
    pub boot: &'a str,
}

impl Moment<'_> {
    /// A lease of another boot has ended. Where one of the two ids is hidden only the time tells.
    pub fn is_in_boot(&self, id: &str) -> bool {
        self.boot == id || self.boot.is_empty() || id.is_empty()
    }
}

/// Refuses the /proc of another PID namespace: our pids are other processes there.
fn check_proc() -> io::Result<()> {
    let shown = fs::read_link("/proc/self").ok();
    if shown.is_some_and(|shown| shown.to_str() == Some(&std::process::id().to_string())) {
        return Ok(());
    }
    Err(io::Error::other("/proc does not show this process; mount the /proc of this PID namespace"))
}

/// systemd-nspawn and LXC mount an id of the container's own over that of the boot: it says nothing to others.
fn boot_id() -> io::Result<String> {
    let mut file = match File::open("/proc/sys/kernel/random/boot_id") {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
        other => other?,
    };
    if fstatfs(&file)?.filesystem_type() != PROC_SUPER_MAGIC {
        return Ok(String::new());
    }
    let mut id = [0; 64];
    let length = file.read(&mut id)?;
    Ok(String::from_utf8_lossy(&id[..length]).trim_end().to_owned())
}
