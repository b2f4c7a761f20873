//! Checks that the processes that keep a lock alive still live.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::LazyLock;

use nix::unistd::{SysconfVar, sysconf};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::time_namespace;
use crate::poll::is_readable;

/// Processes, each with its start time so that a recycled pid is not taken for it, in one pid namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    /// The pid namespace in which the pids count; in another one they say nothing.
    namespace: String,
    processes: Vec<(u32, u64)>,
}

impl Processes {
    /// The processes with these pids that are alive now.
    pub fn of(pids: &[u32]) -> Processes {
        let start = |pid| start_time(&stat(pid).ok()?);
        let processes = pids.iter().filter_map(|&pid| Some((pid, start(pid)?))).collect();
        Processes { namespace: NAMESPACE.clone(), processes }
    }

    /// All of them are gone. Without any, or when they cannot be seen from here, that is not known: then time decides.
    pub fn are_dead(&self) -> bool {
        !self.processes.is_empty()
            && self.namespace == *NAMESPACE
            && self.processes.iter().all(|process| !is_alive(process))
    }

    /// Descriptors that become readable with the death of each; none for those that cannot be seen.
    pub fn watch(&self) -> Vec<OwnedFd> {
        if self.namespace != *NAMESPACE {
            return Vec::new();
        }
        let alive = self.processes.iter().filter(|process| is_alive(process));
        let pids = alive.filter_map(|(pid, _)| Pid::from_raw(*pid as i32));
        pids.filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()).collect()
    }

    /// All that can be seen from here: dead when each of them is. Processes of another namespace are left out.
    pub fn together<'a>(each: impl Iterator<Item = &'a Processes>) -> Processes {
        let seen = each.filter(|one| one.namespace == *NAMESPACE);
        let processes = seen.flat_map(|one| one.processes.iter().copied()).collect();
        Processes { namespace: NAMESPACE.clone(), processes }
    }

    /// `NAMESPACE PID:START…`, as in the column `processes`; the start is in clock ticks since boot.
    pub fn to_text(&self) -> String {
        let each = self.processes.iter().map(|(pid, start)| format!(" {pid}:{start}"));
        self.namespace.clone() + &each.collect::<String>()
    }

    /// Reads what [`Processes::to_text`] writes, and leaves out what it does not understand.
    pub fn from_text(text: &str) -> Processes {
        let mut words = text.split(' ');
        let namespace = words.next().unwrap_or_default().to_owned();
        let processes = words.filter_map(|word| word.split_once(':'));
        let numbers = processes.filter_map(|(pid, start)| Some((pid.parse().ok()?, start.parse().ok()?)));
        Processes { namespace, processes: numbers.collect() }
    }
}

/// One that cannot be looked at counts as alive as long as any process has its pid: /proc may hide those of
/// other users (`hidepid` in proc(5)).
fn is_alive(&(pid, start): &(u32, u64)) -> bool {
    match stat(pid) {
        // An offset that is not a whole number of ticks is rounded.
        Ok(stat) => start_time(&stat).is_some_and(|seen| seen.abs_diff(start) <= 1),
        Err(_) => exists(pid),
    }
}

/// A process with this pid has not ended.
fn exists(pid: u32) -> bool {
    let Some(pid) = Pid::from_raw(pid as i32) else { return false };
    match pidfd_open(pid, PidfdFlags::empty()) {
        // A zombie's descriptor is readable.
        Ok(fd) => !is_readable(fd.as_fd()),
        Err(errno) => errno != Errno::SRCH,
    }
}

/// The line of proc_pid_stat(5), in one read: it has about 300 bytes, of which the first 200 are enough.
fn stat(pid: u32) -> io::Result<String> {
    let mut line = [0; 1024];
    let length = fs::File::open(format!("/proc/{pid}/stat"))?.read(&mut line)?;
    Ok(String::from_utf8_lossy(&line[..length]).into_owned())
}

/// When a process started, in clock ticks on the boot clock of the host; `None` for a zombie. The name in
/// parentheses may contain anything, the fields follow the last one.
fn start_time(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    let ticks: i64 = fields.nth(18)?.parse().ok()?;
    u64::try_from(ticks - *OFFSET).ok()
}

/// The offset of the times in /proc in the time namespace of this process, in clock ticks.
static OFFSET: LazyLock<i64> = LazyLock::new(|| {
    let offset = time_namespace::offset().unwrap_or(0);
    let ticks = if offset == 0 { None } else { sysconf(SysconfVar::CLK_TCK).ok().flatten() };
    ticks.map_or(0, |ticks| offset.div_euclid(1_000_000_000 / ticks.max(1)))
});

/// The pid namespace of this process, in which it stays.
static NAMESPACE: LazyLock<String> = LazyLock::new(|| {
    fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string()).unwrap_or_default()
});

#[test]
fn a_foreign_reader_hides_none_of_ours() {
    let ours = Processes::of(&[std::process::id()]);
    let foreign = Processes::from_text("pid:[1] 1:1");
    for each in [[&foreign, &ours], [&ours, &foreign]] {
        assert_eq!(Processes::together(each.into_iter()), ours);
    }
}
