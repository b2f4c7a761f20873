//! Between the grant and the start of the command.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Finished, Store, children};

/// Nothing starts when the guard gets the order only after the lease: it was stopped, as with the whole machine.
fn too_late(options: &[&str]) -> Finished {
    let store = Store::redis();
    let holder = store.hold("X", &[]);
    let run = [&["run", "-k", "X", "--ttl", "2s", "--wait", "-q"], options, &["--", "echo", "started"]];
    let run = store.redlock(&run.concat()).spawn();
    store.await_waiters("X", 1);
    let guard = run.guard();
    kill(Pid::from_raw(guard), Signal::SIGSTOP).expect("a signal to the guard");
    holder.let_go().expect(0);
    // Granted, and over, while redlock waits for its guard.
    store.hold("X", &["--wait"]).let_go().expect(0);
    assert!(children(guard).is_empty());
    kill(Pid::from_raw(guard), Signal::SIGCONT).expect("a signal to the guard");
    let late = run.finish();
    assert_eq!(late.stdout, "");
    late
}

#[test]
fn too_late_to_start() {
    let late = too_late(&[]).expect(69);
    assert!(late.line().contains("the lease of 'X' was over before 'echo' could start"), "{late:?}");
}

/// That the job would go on without the lock is no reason to start it without.
#[test]
fn too_late_to_start_a_job_that_goes_on_without_the_lock() {
    too_late(&["--on-lost", "continue"]).expect(69);
}
