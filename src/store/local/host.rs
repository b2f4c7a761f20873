//! This host, as a process in a container may see it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};

use super::leases::Moment;
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

/// The inode of the time namespace in which the host itself is: PROC_TIME_INIT_INO in the kernel's proc_ns.h.
const HOSTS_TIME: u64 = 0xEFFF_FFFA;

/// The offset of the boot clock in the time namespace of this process, in nanoseconds. See time_namespaces(7).
pub fn offset() -> io::Result<i64> {
    static OFFSET: LazyLock<Result<i64, String>> =
        LazyLock::new(|| find_offset().map_err(|error| format!("the time namespace: {error}")));
    OFFSET.clone().map_err(io::Error::other)
}

fn find_offset() -> io::Result<i64> {
    let namespace = match fs::metadata("/proc/self/ns/time") {
        // A kernel without time namespaces.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        other => other?.ino(),
    };
    if namespace == HOSTS_TIME {
        return Ok(0);
    }
    // Before Linux 6.2 a program could be started in another namespace than the one whose offsets it is shown.
    if fs::metadata("/proc/self/ns/time_for_children")?.ino() != namespace {
        return Err(io::Error::other(
            "its offset cannot be known here; start redlock from a child of this process",
        ));
    }
    let offsets = fs::read_to_string("/proc/self/timens_offsets")?;
    let line = offsets.lines().find_map(|line| line.strip_prefix("boottime "));
    let mut numbers = line.unwrap_or_default().split_whitespace().map(str::parse::<i64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(seconds)), Some(Ok(nanos))) => {
            Ok(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
        }
        _ => Err(io::Error::other(format!("/proc/self/timens_offsets says {offsets:?}"))),
    }
}
