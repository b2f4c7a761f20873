//! The rules of acquiring, on a clock that waits for nobody.

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::time::Duration;

use super::fake_store::*;
use super::*;
use crate::clock::fake;
use crate::mailbox::mailbox;

/// Acquires these locks with 5 s for each call and for the end of the job.
fn acquired(
    store: &mut FakeStore,
    keys: &[&str],
    ttl: impl ToString,
    wait: Wait,
) -> Result<Vec<Lease>, NotAcquired> {
    let requests = requests(keys, ttl);
    acquired_of(store, LockChoice::All(&requests), wait)
}

fn requests(keys: &[&str], ttl: impl ToString) -> Vec<Request> {
    let ttl: Ttl = ttl.to_string().parse().expect("a TTL");
    keys.iter().map(|key| Request { ttl, ..request(key) }).collect()
}

fn acquired_of(store: &mut FakeStore, wanted: LockChoice, wait: Wait) -> Result<Vec<Lease>, NotAcquired> {
    let (_sender, interrupt) = mailbox::<()>().expect("a descriptor");
    let five = Duration::from_secs(5);
    let patience = Patience { wait, queue_limit: None };
    acquire(store, wanted, patience, five, five, interrupt.as_fd(), &mut |_| ControlFlow::Continue(()))
}

fn granted_after(millis: u64) -> ScriptedReply<AcquireOutcome> {
    (millis, Ok(AcquireOutcome::granted(vec![FencingToken(1)])))
}

fn why(acquired: &Result<Vec<Lease>, NotAcquired>) -> &AcquireFailure {
    &acquired.as_ref().expect_err("a failure").why
}

fn keys(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.request.key.as_str()).collect()
}

#[test]
fn free_locks_are_acquired_together() {
    fake::start();
    let mut store = FakeStore {
        acquire: [(200, Ok(AcquireOutcome::granted(vec![FencingToken(7); 2])))].into(),
        ..FakeStore::default()
    };
    let leases = acquired(&mut store, &["a", "b"], 30, Wait::No).expect("leases");
    assert_eq!(store.log.lines(), ["acquire a b"]);
    // Counted from before the request, not from its answer.
    assert_eq!(leases[0].deadline(), fake::START.plus(Ttl::DEFAULT.validity()));
}

/// The rest of it has to be enough, so an old one is renewed first.
#[test]
fn a_lease_that_was_prepared_counts_from_then() {
    for (ahead, log) in [(2, &["acquire a"][..]), (9, &["acquire a", "renew a"])] {
        fake::start();
        let made = fake::START.minus(Duration::from_secs(ahead));
        let mut store = FakeStore { counted_from: Some(made), ..FakeStore::default() };
        let leases = acquired(&mut store, &["a"], 30, Wait::Forever).expect("a lease");
        let counted = if log.len() == 1 { made } else { fake::START };
        assert_eq!(leases[0].deadline(), counted.plus(Ttl::DEFAULT.validity()));
        assert_eq!(store.log.lines(), log);
    }
}

#[test]
fn a_busy_lock_is_waited_for_with_those_before_it_held() {
    fake::start();
    let mut store = FakeStore {
        acquire: [busy("b")].into(),
        enqueue: [busy("b")].into(),
        wait: [(0, Ok(true))].into(),
        ..FakeStore::default()
    };
    let leases = acquired(&mut store, &["a", "b", "c", "d"], 30, Wait::Forever).expect("leases");
    assert_eq!(keys(&leases), ["a", "b", "c", "d"]);
    assert_eq!(store.log.lines(), ["acquire a b c d", "acquire a", "enqueue b", "enqueue b", "acquire c d"]);
}

#[test]
fn what_is_held_is_renewed_and_given_back_when_a_lease_is_lost() {
    fake::start();
    let mut store = FakeStore {
        acquire: [busy("b")].into(),
        enqueue: [busy("b")].into(),
        renew: [(0, Ok(Renewal::Extended)), (0, Ok(Renewal::Lost(None)))].into(),
        ..FakeStore::default()
    };
    acquired(&mut store, &["a", "b"], 30, Wait::Forever).expect("leases");
    let expected =
        ["acquire a b", "acquire a", "enqueue b", "renew a", "renew a", "cancel a b", "acquire a b"];
    assert_eq!(store.log.lines(), expected);
    // After a third of the TTL.
    assert_eq!(store.log.times("renew"), [10_000, 20_000]);
}

#[test]
fn a_grant_that_comes_too_late_is_cancelled() {
    fake::start();
    let mut store = FakeStore { acquire: [granted_after(2000)].into(), ..FakeStore::default() };
    let late = acquired(&mut store, &["a"], 6, Wait::No);
    let took = Duration::from_secs(2);
    assert!(matches!(why(&late), AcquireFailure::TooSlow { took: seen } if *seen == took), "{late:?}");
    assert_eq!(store.log.lines(), ["acquire a", "cancel a"]);
}

/// After two seconds a lease of six is too old for a job that needs five for its end. A store that does not answer is asked
/// again.
#[test]
fn a_waiter_renews_a_grant_that_comes_too_late() {
    for renewal in [Renewal::Extended, Renewal::Lost(None)] {
        fake::start();
        let is_lost = matches!(renewal, Renewal::Lost(_));
        let renew = [(0, Err(unreachable())), (0, Err(unreachable())), (0, Ok(renewal))].into();
        let mut store = FakeStore { acquire: [granted_after(2000)].into(), renew, ..FakeStore::default() };
        acquired(&mut store, &["a"], 6, Wait::Forever).expect("a lease");
        let mut expected = vec!["acquire a", "renew a", "renew a", "renew a"];
        expected.extend(is_lost.then_some(["cancel a", "acquire a"]).into_iter().flatten());
        assert_eq!(store.log.lines(), expected);
    }
    // One of several that is granted stays so.
    fake::start();
    let renew = [(0, Err(unreachable()))].into();
    let mut store = FakeStore { acquire: [granted_after(2000)].into(), renew, ..FakeStore::default() };
    acquired_of(&mut store, LockChoice::OneOf(&requests(&["a", "b"], 6)), Wait::Forever).expect("a lease");
    assert_eq!(store.log.lines(), ["acquire a", "renew a", "renew a"]);
}

#[test]
fn a_waiter_says_that_its_ttl_is_too_short_for_the_store() {
    fake::start();
    let renew = [(2000, Ok(Renewal::Extended))].into();
    let mut store = FakeStore { acquire: [granted_after(2000)].into(), renew, ..FakeStore::default() };
    let failed = acquired(&mut store, &["a"], 6, Wait::Forever);
    assert!(matches!(why(&failed), AcquireFailure::TooSlow { .. }), "{failed:?}");
}

/// The reserve is so long that a lease is too old for it before it is due.
#[test]
fn a_young_lease_that_is_too_old_for_its_reserve_is_renewed() {
    fake::start();
    let mut store = FakeStore { acquire: [granted_after(500)].into(), ..FakeStore::default() };
    acquired(&mut store, &["a"], "5500ms", Wait::Forever).expect("a lease");
    assert_eq!(store.log.lines(), ["acquire a", "renew a"]);
}

#[test]
fn a_lease_that_is_good_is_taken_at_the_end_of_the_wait() {
    fake::start();
    let renew = [(0, Err(unreachable()))].into();
    let mut store = FakeStore { acquire: [granted_after(4000)].into(), renew, ..FakeStore::default() };
    acquired(&mut store, &["a"], 30, Wait::AtMost(Duration::from_secs(4))).expect("a lease");
    assert_eq!(store.log.lines(), ["acquire a", "renew a"]);
}

#[test]
fn a_renewal_without_an_answer_is_not_a_busy_lock() {
    fake::start();
    let renew = (0..9).map(|_| (0, Err(unreachable()))).collect();
    let mut store = FakeStore {
        acquire: [busy("a")].into(),
        enqueue: [busy("a"), granted_after(2000)].into(),
        wait: [(0, Ok(true))].into(),
        renew,
        ..FakeStore::default()
    };
    let failed = acquired(&mut store, &["a"], 6, Wait::AtMost(Duration::from_secs(3)));
    assert!(matches!(why(&failed), AcquireFailure::Store(_)), "{failed:?}");
}

#[test]
fn an_unknown_outcome_is_cancelled_and_said_when_that_fails() {
    for (cancel, is_resolved) in [(Ok(()), true), (Err(unreachable()), false)] {
        fake::start();
        let hung = || (9999, Ok(AcquireOutcome::granted(Vec::new())));
        let mut store =
            FakeStore { acquire: [hung()].into(), cancel: [(0, cancel)].into(), ..FakeStore::default() };
        let failed = acquired(&mut store, &["a"], 30, Wait::No);
        assert!(matches!(why(&failed), AcquireFailure::Store(_)), "{failed:?}");
        assert_eq!(failed.is_err_and(|failed| failed.failed_release.is_some()), !is_resolved);
        assert_eq!(store.log.lines(), ["acquire a", "cancel a"]);
    }
}

/// Whatever ended the attempt: what was granted stays until the lease ends, and somebody has to know.
#[test]
fn a_grant_that_cannot_be_cancelled_is_said() {
    fake::start();
    let cancel = || (0, Err(unreachable()));
    let mut store = FakeStore {
        acquire: [granted_after(2000)].into(),
        cancel: [cancel()].into(),
        ..FakeStore::default()
    };
    let failed = acquired(&mut store, &["a"], 6, Wait::No);
    assert!(matches!(why(&failed), AcquireFailure::TooSlow { .. }), "{failed:?}");
    assert!(failed.is_err_and(|failed| failed.failed_release.is_some()));
    let mut store = FakeStore {
        acquire: [busy("b")].into(),
        enqueue: [busy("b")].into(),
        cancel: [cancel()].into(),
        ..FakeStore::default()
    };
    let failed = acquired(&mut store, &["a", "b"], 30, Wait::AtMost(Duration::from_secs(5)));
    assert!(matches!(why(&failed), AcquireFailure::TimedOut(..)), "{failed:?}");
    assert!(failed.is_err_and(|failed| failed.failed_release.is_some()));
}

#[test]
fn an_attempt_that_time_cut_short_does_not_hide_the_error_before() {
    fake::start();
    let (store, reason) = ("it".to_owned(), "it ended the connection".to_owned());
    let ended = StoreError::Unreachable { store, why: reason, transient: true };
    let hung = (9999, Ok(AcquireOutcome::granted(Vec::new())));
    let mut store = FakeStore { acquire: [(0, Err(ended)), hung].into(), ..FakeStore::default() };
    let failed = acquired(&mut store, &["a"], 30, Wait::No);
    assert!(
        matches!(why(&failed), AcquireFailure::Store(StoreError::Unreachable { why, .. }) if why.starts_with("it ended")),
        "{failed:?}"
    );
}

#[test]
fn a_wait_that_runs_out_leaves_the_queue() {
    fake::start();
    let mut store =
        FakeStore { acquire: [busy("a")].into(), enqueue: [busy("a")].into(), ..FakeStore::default() };
    let waited = acquired(&mut store, &["a"], 30, Wait::AtMost(Duration::from_secs(60)));
    assert!(matches!(why(&waited), AcquireFailure::TimedOut(_, after) if *after == Duration::from_secs(60)));
    assert_eq!(store.log.lines(), ["acquire a", "enqueue a", "cancel a"]);
    assert_eq!(store.log.times("cancel"), [60_000]);
}
