//! The time namespace of this process, whose boot clock may differ from that of the host.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::sync::LazyLock;

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
