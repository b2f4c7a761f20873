//! The end of a job: every descendant of this process is killed, however many they are and however fast they fork.

use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use super::priority;
use super::tree::{self, Reaped, children, send};
use crate::clock::Deadline;

/// For one look at the dead while there is more to kill, and when there is not.
const REAPING: (Duration, Duration) = (Duration::from_micros(300), Duration::from_millis(5));
/// Between two passes that find nothing new: at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(20));
/// So many that die at once would compete with us for the processor.
const MANY: usize = 64;

/// Kills every descendant and waits for the death of all: the orphans of a killed process become children of this
/// one, which is their subreaper. SIGCHLD is to be ignored, so that the kernel reaps: see [`Reaped`].
///
/// A process with a pending SIGKILL runs no more of its own code, and forks no more. So each is killed as soon as it
/// is seen, and only then are its children looked for.
pub fn kill_all() {
    let mut killed = HashSet::new();
    let mut pause = PAUSE.0;
    loop {
        let seen = kill_once(&killed);
        let found = !seen.is_subset(&killed);
        killed = seen;
        let patience = if found { REAPING.0 } else { REAPING.1 };
        match tree::reap(Deadline::after(patience), |_, _| {}) {
            Reaped::Childless => break,
            _ if found => pause = PAUSE.0,
            Reaped::More => {}
            Reaped::Alive => {
                // Killed but not dead yet, or not ours to kill (a set-user-ID program): look again.
                priority::lower();
                thread::sleep(pause);
                pause = (pause * 2).min(PAUSE.1);
            }
        }
    }
    priority::lower();
}

/// One pass over the tree, a generation at a time. Kills those that were not `killed` in the pass before; an earlier
/// one does not count, as pids are used again. Returns all that it saw.
fn kill_once(killed: &HashSet<i32>) -> HashSet<i32> {
    let mut seen = HashSet::new();
    let mut parents = vec![std::process::id() as i32];
    while !parents.is_empty() {
        let mut found = Vec::new();
        for parent in parents {
            let mut children = children(parent);
            children.retain(|pid| seen.insert(*pid) && !killed.contains(pid));
            // The youngest is the least likely to have exited meanwhile.
            children.reverse();
            kill_each(&children);
            found.append(&mut children);
        }
        if !found.is_empty() {
            priority::raise();
        }
        parents = found;
    }
    seen
}

fn kill_each(pids: &[i32]) {
    for &pid in pids {
        if pids.len() > MANY {
            priority::yield_to_others(pid);
        }
        send(pid, libc::SIGKILL);
    }
}
