//! A job of many processes is killed in time: its last work is before the next holder's start. These tests need the
//! machine for themselves, and give it back: each process of theirs ends by itself after some seconds.

#[path = "../harness/mod.rs"]
mod harness;
mod priority;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use harness::standstill::Standstill;
use harness::{Folder, Redlock, autogroups, children, eventually, is_alive, other_users, ttl};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

/// What a job does: see crowd.c.
#[derive(Clone, Copy)]
enum Crowd {
    Sleepers(u32),
    Chains(u32),
}

/// As whom everything runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    Ours,
    Nobody,
}

/// Who is stopped while a job holds the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    /// The next holder replaces it.
    Nobody,
    /// Only the guard can end the job.
    Redlock,
    /// As when the guard gets no processor.
    RedlockAndGuard,
}

/// Every process of the job is dead in time.
fn is_dead_in_time(crowd: Crowd, user: User, busy: usize, stopped: Stopped) {
    let mut late = 0.0;
    for _ in 0..3 {
        let standstill = Standstill::watch();
        late = outlives_by(crowd, user, busy, stopped, &[]);
        let stood = standstill.longest();
        println!("a processor stood still for {stood:?} at most");
        if late < 0.0 || stood < Duration::from_millis(100) {
            break;
        }
    }
    assert!(late < 0.0, "the job worked for {late} ms under the next holder's lock");
}

/// By how many milliseconds the last work of a job is later than the start of the next holder, which waits when the first
/// one is stopped.
fn outlives_by(crowd: Crowd, user: User, busy: usize, stopped: Stopped, prefix: &[&str]) -> f64 {
    let _alone = alone();
    let folder = Folder::new();
    fs::set_permissions(folder.path(""), Permissions::from_mode(0o1777)).expect("chmod");
    let (work, start) = (folder.path("work"), folder.path("start"));
    let store = format!("local:{}", folder.path("locks.db").display());
    let _busy: Vec<Beside> = (0..busy).map(|_| Beside::busy(user)).collect();
    let (kind, count) = match crowd {
        Crowd::Sleepers(count) => ("sleepers", count),
        Crowd::Chains(count) => ("chains", count),
    };
    let crowd = built("crowd");
    let (crowd, count) = (crowd.to_str().expect("a path"), count.to_string());
    let seconds = if prefix.is_empty() { "20" } else { "5" };
    let run = |lock: &[&str], prefix: &[&str], job: &[&str]| {
        let args = [&["run", "-k", "X"], lock, &["--"], prefix, &[crowd], job].concat();
        as_user(user, PROGRAM, &args).server(&store).spawn()
    };
    let text = |path: &Path| path.display().to_string();
    let log = text(&folder.path("log"));
    let mut first = run(&["--ttl", "1s", "--log-file", &log], prefix, &[&text(&work), kind, &count, seconds]);
    // It may be too large to be kept: then it has been stopped, in time all the same.
    eventually(Duration::from_secs(20), "all at work", || {
        times(&work).first().is_some_and(|time| *time > 0) || first.has_ended()
    });
    let wait = ["--wait", "30s", "--replace"];
    let wait = if stopped == Stopped::Nobody { &wait[..] } else { &wait[..2] };
    let mut second = run(wait, &[], &[&text(&start), "now"]);
    eventually(Duration::from_secs(20), "the next in line", || {
        first.has_ended() || {
            let status = as_user(user, PROGRAM, &["status", "X", "--json"]).server(&store).run();
            status.stdout.contains("\"waiters\":[{") || status.stdout.contains("\"waiters\": [\n")
        }
    });
    let guard =
        (!first.has_ended() && stopped == Stopped::RedlockAndGuard).then(|| Pid::from_raw(first.guard()));
    let asked_to_stop = wall_clock();
    if !first.has_ended() && stopped != Stopped::Nobody {
        first.signal(Signal::SIGSTOP);
        guard.map(|guard| kill(guard, Signal::SIGSTOP));
    }
    eventually(Duration::from_secs(40), "the next holder", || {
        // A guard that was faster than our signal, on a busy machine, cannot continue a redlock that we stopped in the
        // middle of its release.
        if stopped == Stopped::Redlock
            && !first.has_ended()
            && children(first.pid()).into_iter().all(|pid| !is_alive(pid))
        {
            first.signal(Signal::SIGCONT);
        }
        second.has_ended()
    });
    second.finish().expect(0);
    let last = times(&work).into_iter().skip(1).max().expect("a witness");
    let next = times(&start)[0];
    if !first.has_ended() {
        guard.map(|guard| kill(guard, Signal::SIGCONT));
        first.signal(Signal::SIGCONT);
    }
    let first = first.finish();
    // Also what it was in the middle of.
    let after = times(&work).into_iter().skip(1).max().expect("a witness");
    let late = (after.max(last) as f64 - next as f64) / 1e6;
    println!("{kind} {count}, {busy} busy: the last work {:.0} ms before the next start; {first:?}", -late);
    // For the reader of a failure: what redlock did at what time.
    let since_boot = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).expect("a clock");
    let at = |time: u64| wall_clock() - Duration::from(since_boot).as_secs_f64() + time as f64 / 1e9;
    let (stopped_at, last_at, next_at) = (asked_to_stop, at(after.max(last)), at(next));
    println!("seconds: stopped {stopped_at:.3}, last work {last_at:.3}, next start {next_at:.3}");
    println!("{}", fs::read_to_string(&log).unwrap_or_default());
    assert!(!first.stderr.contains("nothing was started"), "it worked: {first:?}");
    late
}

/// In seconds since 1970, as the events have it.
fn wall_clock() -> f64 {
    std::time::UNIX_EPOCH.elapsed().expect("a time after 1970").as_secs_f64()
}

/// One crowd at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The times in nanoseconds that a crowd wrote down.
fn times(path: &Path) -> Vec<u64> {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.chunks_exact(8).map(|time| u64::from_ne_bytes(time.try_into().expect("8 bytes"))).collect()
}

/// A program of this folder, compiled.
fn built(name: &str) -> PathBuf {
    static BUILT: Mutex<()> = Mutex::new(());
    let _one_at_a_time = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = format!("{}/tests/killing/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let status = Command::new("cc").args(["-O1", "-o"]).arg(&path).arg(source).status();
    assert!(status.expect("a C compiler is installed; tests/run does that").success());
    path
}

/// The same as a set-user-ID program of root's.
fn of_root(name: &str) -> String {
    let path = built(name);
    fs::set_permissions(&path, Permissions::from_mode(0o4755)).expect("chmod");
    path.display().to_string()
}

fn as_user(user: User, program: &str, args: &[&str]) -> Redlock {
    let setpriv = ["--reuid", "65534", "--regid", "65534", "--clear-groups", program];
    match user {
        User::Ours => Redlock::under(program, args),
        User::Nobody => Redlock::under("setpriv", &[&setpriv[..], args].concat()),
    }
}

/// A process beside the job, for as long as a test lasts.
struct Beside(Child);

impl Beside {
    fn busy(user: User) -> Beside {
        let spin = ["-c", "import time\nend = time.time() + 60\nwhile time.time() < end: pass"];
        Beside(as_user(user, "python3", &spin).command.spawn().expect("python3 is installed"))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

macro_rules! crowds {
    ($($name:ident: $crowd:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn alone() {
                is_dead_in_time($crowd, User::Ours, 0, Stopped::Redlock);
            }

            #[test]
            fn beside_two_busy() {
                is_dead_in_time($crowd, User::Ours, 2, Stopped::Redlock);
            }

            #[test]
            fn of_another_user() {
                if other_users() {
                    is_dead_in_time($crowd, User::Nobody, 0, Stopped::Redlock);
                }
            }

            #[test]
            fn of_another_user_beside_two_busy() {
                if other_users() {
                    is_dead_in_time($crowd, User::Nobody, 2, Stopped::Redlock);
                }
            }
        }
    )*};
}

crowds! {
    one_child: Crowd::Sleepers(1);
    a_thousand_children: Crowd::Sleepers(1000);
    four_thousand_children: Crowd::Sleepers(4000);
    ten_thousand_children: Crowd::Sleepers(10_000);
    sixteen_chains: Crowd::Chains(16);
    sixty_four_chains: Crowd::Chains(64);
}

/// As one that is broken, a job that is replaced is dead before the next one begins.
#[test]
fn a_job_is_dead_before_its_replacement_begins() {
    for crowd in [Crowd::Sleepers(1), Crowd::Sleepers(4000), Crowd::Chains(64)] {
        is_dead_in_time(crowd, User::Ours, 0, Stopped::Nobody);
        if other_users() {
            is_dead_in_time(crowd, User::Nobody, 2, Stopped::Nobody);
        }
    }
}

/// The guard of an ordinary user, in a session of its own, may get no processor beside one that forks all the time: see
/// src/job/watchdog.rs.
#[test]
fn a_watchdog_kills_where_the_guard_cannot() {
    if !autogroups() || !other_users() {
        return;
    }
    for crowd in [Crowd::Sleepers(1000), Crowd::Chains(64)] {
        is_dead_in_time(crowd, User::Nobody, 0, Stopped::RedlockAndGuard);
    }
}

/// The watchdog wakes the guard, which tells redlock of the loss, and wakes it: one that was stopped as it wrote would keep
/// all local locks from everybody.
#[test]
fn what_a_watchdog_killed_was_lost() {
    if !autogroups() || !other_users() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    fs::set_permissions(folder.path(""), Permissions::from_mode(0o1777)).expect("chmod");
    let (store, work) = (format!("local:{}", folder.path("locks.db").display()), folder.path("work"));
    let (crowd, file) = (built("crowd").display().to_string(), work.display().to_string());
    let ttl = ttl(3000);
    let args = ["run", "-k", "X", "--ttl", &ttl, "--", &crowd, &file, "chains", "64", "20"];
    let mut run = as_user(User::Nobody, PROGRAM, &args).server(&store).spawn();
    run.lives_until("all are at work", || times(&work).first().is_some_and(|time| *time > 0));
    let (guard, command) = (run.guard(), run.command());
    run.signal(Signal::SIGSTOP);
    kill(Pid::from_raw(guard), Signal::SIGSTOP).expect("a signal");
    eventually(Duration::from_secs(20), "the watchdog has killed", || !is_alive(command));
    let stderr = run.finish().expect(79).stderr;
    assert!(stderr.contains("lost 'X'"), "{stderr}");
}

/// Nobody but root may kill what became root in earnest, as by sudo. It may work on, and the lock passes on all the same.
#[test]
fn a_job_that_became_root_keeps_no_lock() {
    if !other_users() {
        return;
    }
    outlives_by(Crowd::Sleepers(4), User::Nobody, 0, Stopped::Redlock, &[&of_root("as_root")]);
}

/// A guard that is not root's competes with a job at nice -20, and may come late; the figures are in docs/guarantees.md. Later
/// than a TTL of the job it never comes.
#[test]
fn a_job_at_nice_minus_20_ends() {
    if !other_users() {
        return;
    }
    let preferred = of_root("preferred");
    for crowd in [Crowd::Sleepers(1000), Crowd::Chains(64)] {
        for busy in [0, 2] {
            let late = outlives_by(crowd, User::Nobody, busy, Stopped::Redlock, &[&preferred]);
            assert!(late < 1000.0, "the job worked for {late} ms under the next holder's lock");
        }
    }
}
