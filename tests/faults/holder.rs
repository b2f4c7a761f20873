//! Redlock or its guard is killed or stopped.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Store, eventually};
use crate::scene::Scene;

fn redlock_killed(store: Store) {
    let mut scene = Scene::new(store);
    scene.fault(|scene| scene.first.signal(Signal::SIGKILL));
    scene.await_death(Duration::from_secs(1));
    assert_eq!(scene.second_is_alone().code(), -9);
}

fn redlock_stopped(store: Store) {
    let mut scene = Scene::new(store);
    scene.fault(|scene| scene.first.signal(Signal::SIGSTOP));
    scene.await_death(Duration::from_secs(4));
    // The second gets in while the first is still stopped; going on, that one finds its lock lost.
    eventually(Duration::from_secs(10), "the second job", || scene.witness.entries() == 2);
    scene.first.signal(Signal::SIGCONT);
    assert_eq!(scene.second_is_alone().code(), 79);
}

fn guard_killed(store: Store) {
    let mut scene = Scene::new(store);
    scene.fault(|scene| {
        kill(Pid::from_raw(scene.first.guard()), Signal::SIGKILL).expect("a signal to the guard")
    });
    scene.await_death(Duration::from_secs(1));
    let first = scene.second_is_alone();
    assert_eq!(first.code(), -9, "{first:?}");
    assert!(first.line().contains("the guard of 'X' was killed"), "{first:?}");
}

fn terminated(store: Store) {
    let mut scene = Scene::new(store);
    scene.fault(|scene| {
        // Two that come at the same moment are one, so it is said again until it was heard twice.
        eventually(Duration::from_secs(5), "the death of the job", || {
            scene.first.signal(Signal::SIGTERM);
            !scene.job_is_alive()
        });
    });
    let first = scene.second_is_alone();
    assert_eq!(first.code(), -9, "{first:?}");
}

#[test]
fn redlock_killed_on_redis() {
    redlock_killed(Store::redis());
}

#[test]
fn redlock_killed_on_local() {
    redlock_killed(Store::local());
}

#[test]
fn redlock_stopped_on_redis() {
    redlock_stopped(Store::redis());
}

#[test]
fn redlock_stopped_on_local() {
    redlock_stopped(Store::local());
}

#[test]
fn guard_killed_on_redis() {
    guard_killed(Store::redis());
}

#[test]
fn guard_killed_on_local() {
    guard_killed(Store::local());
}

#[test]
fn a_second_signal_kills_on_redis() {
    terminated(Store::redis());
}

#[test]
fn a_second_signal_kills_on_local() {
    terminated(Store::local());
}

/// A job that is broken out of its lock is dead before the next one starts.
#[test]
fn broken() {
    for store in [Store::redis(), Store::local()] {
        let mut scene = Scene::new(store);
        scene.fault(|scene| {
            scene.store.redlock(&["break", "--key", "X", "--yes"]).run().expect(0);
        });
        let first = scene.second_is_alone();
        assert_eq!(first.code(), 79, "{first:?}");
        assert!(first.line().contains("somebody broke it"), "{first:?}");
    }
}
