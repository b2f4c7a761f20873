//! The end of a job: every descendant of this process is killed, however many they are and however fast they fork.

use std::collections::{HashSet, VecDeque};
use std::thread;
use std::time::Duration;

use super::descendants::{OwnChildren, Reaped, children_of, children_of_thread, threads_of};
use super::priority::{self, Apart};
use super::process::{is_alive, send};

/// The pause between two looks that find nothing new: at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(20));
/// The number of killed processes whose children are looked up before our own children are listed again. It doubles each
/// time.
const BATCH: usize = 8;
/// More processes than this, found at once, would compete with us for the processor as they die. Fewer are not worth one
/// more system call each: a job that forks without end would get ahead in that time.
const MANY: usize = 256;

/// Kills every descendant of the process that has these children. That process itself waits for the death of all, too: the
/// orphans of a killed process become children of it, their subreaper. SIGCHLD is to be ignored, so that the kernel reaps.
///
/// A process with a pending SIGKILL runs no more of its own code, and forks no more. So each is killed as soon as it is
/// seen. Only then its children are looked for, as that takes longer; in a job that forks all the time, they become
/// ours by then.
pub fn kill_all(children: &OwnChildren) {
    let mut killed = HashSet::new();
    let mut parents = VecDeque::new();
    let mut helped = HashSet::new();
    let (mut batch, mut pause, mut apart) = (BATCH, PAUSE.0, None);
    priority::raise();
    loop {
        let ours = children.list();
        kill_new(&ours, &mut killed, &mut parents, &mut apart);
        if !parents.is_empty() {
            for (parent, is_dying) in parents.drain(..batch.min(parents.len())).collect::<Vec<_>>() {
                let children = if is_dying { children_of_dying(parent) } else { children_of(parent) };
                kill_new(&children, &mut killed, &mut parents, &mut apart);
            }
            (batch, pause) = (batch.saturating_mul(2), PAUSE.0);
            continue;
        }
        // Nothing new: what is left is dying, or not ours to kill (a set-user-ID program). Each is killed again, as
        // pids are used again: one of them may be a process that was never killed. A process that did not die at once is
        // helped, with all its threads.
        for &pid in &ours {
            if send(pid, libc::SIGKILL) && priority::is_raised() && !helped.contains(&pid) {
                let threads = threads_of(pid);
                threads.iter().copied().for_each(let_die);
                // Threads that die at this moment may be missing in the list.
                if threads.len() == 1 {
                    helped.insert(pid);
                }
            }
        }
        (killed, batch) = (ours.into_iter().collect(), BATCH);
        match children.reap() {
            Reaped::Childless => break,
            Reaped::More => {}
            Reaped::Alive => {
                // The dying have the processor now. At a lower priority we would get it back too late for those that fork.
                thread::sleep(pause);
                pause = (pause * 2).min(PAUSE.1);
            }
        }
    }
    drop(apart);
    priority::lower();
}

/// Kills every descendant of a process that may not die itself, and reaps none of them: the dead are left as zombies.
pub fn kill_below(ancestor: i32) {
    priority::raise();
    loop {
        let (mut parents, mut alive) = (vec![ancestor], 0);
        while let Some(parent) = parents.pop() {
            let children: Vec<i32> = children_of(parent).into_iter().filter(|pid| is_alive(*pid)).collect();
            alive += children.len();
            children.iter().filter(|pid| send(**pid, libc::SIGKILL)).copied().for_each(let_die);
            parents.extend(children);
        }
        if alive == 0 {
            break;
        }
        thread::sleep(PAUSE.0);
    }
    priority::lower();
}

/// The children of a killed process. Each of its threads comes to a processor before the look at it.
fn children_of_dying(parent: i32) -> Vec<i32> {
    let_die(parent);
    let children = |thread| {
        let_die(thread);
        children_of_thread(parent, thread)
    };
    threads_of(parent).into_iter().flat_map(children).collect()
}

/// Puts a killed thread right behind this process, if this one is raised. One that waits for a processor in the middle of
/// its death would keep us waiting, too, as soon as we look at it: see `process::exists`.
fn let_die(thread: i32) {
    if priority::is_raised() {
        priority::let_die(thread);
    }
}

/// Kills those of the processes that were not killed before, and notes them as parents, each with whether it could be
/// killed. If they are many, this process runs apart from them: a raised one from then on, another one as long as it kills
/// them.
fn kill_new(
    pids: &[i32],
    killed: &mut HashSet<i32>,
    parents: &mut VecDeque<(i32, bool)>,
    apart: &mut Option<Apart>,
) {
    // The youngest is the least likely to have exited since.
    let new: Vec<i32> = pids.iter().rev().copied().filter(|pid| !killed.contains(pid)).collect();
    if new.len() > MANY && apart.is_none() {
        *apart = Apart::new();
    }
    for &pid in &new {
        apart.iter().for_each(|apart| apart.keep_away(pid));
        let is_dying = send(pid, libc::SIGKILL);
        if is_dying && apart.is_some() {
            let_die(pid);
        }
        parents.push_back((pid, is_dying));
    }
    if !priority::is_raised() {
        *apart = None;
    }
    killed.extend(&new);
}
