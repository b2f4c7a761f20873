//! The rules of renewing and releasing, on a clock that waits for nobody.

use std::time::Duration;

use super::fake_store::*;
use super::renewal::Renewals;
use super::*;
use crate::clock::{BootTime, fake};
use crate::mailbox::mailbox;

/// The time in which the job is stopped.
const RESERVE: Duration = Duration::from_secs(5);
/// The end of a lease that is not renewed, less that time.
const LAST_CHANCE: u64 = 24_698;

/// Renews leases that were acquired at the start, until the end that is said, or until one of them is lost; then
/// releases them. Each report goes to the store's log as well.
fn renewed(store: FakeStore, keys: &[&str], until: Duration) -> (LeaseEnd, Log) {
    let (log, (orders, inbox)) = (store.log.clone(), mailbox().expect("descriptors"));
    let (noted, mut orders) = (log.clone(), Some(orders));
    let report = move |progress: Progress| {
        let is_over = match &progress {
            Progress::Lost { .. } => true,
            Progress::Renewed { .. } => BootTime::now() >= fake::START.plus(until),
            Progress::Healed(..) | Progress::Failed(..) => false,
        };
        noted.note(match progress {
            Progress::Renewed { deadline, .. } => {
                format!("until {}", deadline.since(fake::START).as_millis())
            }
            Progress::Healed(lease, gone) => format!("healed {} after {gone:?}", lease.request.key),
            Progress::Failed(lease, _) => format!("failed {}", lease.request.key),
            Progress::Lost { lease, cause: LossCause::Expired(_), .. } => {
                format!("expired {}", lease.request.key)
            }
            Progress::Lost { lease, .. } => format!("lost {}", lease.request.key),
        });
        if is_over {
            drop(orders.take());
        }
    };
    let leases = keys.iter().map(|key| lease(key)).collect();
    let mut renewals = Renewals::new(Box::new(store), leases, RESERVE, Box::new(report));
    renewals.orders = Some(inbox);
    renewals.run();
    (renewals.finish(None).end, log)
}

fn lease(key: &str) -> Lease {
    Lease::new(request(key), FencingToken(1), fake::START)
}

const SOON: Duration = Duration::from_secs(1);

#[test]
fn a_renewal_is_due_at_a_third_and_counts_from_before_it_was_sent() {
    fake::start();
    let store = FakeStore { renew: [(3000, Ok(Renewal::Extended))].into(), ..FakeStore::default() };
    let (end, log) = renewed(store, &["a"], Duration::from_secs(15));
    assert_eq!(end, LeaseEnd::Released);
    assert_eq!(log.lines(), ["renew a", "until 39698", "renew a", "until 49698", "release a"]);
    assert_eq!(log.times("renew"), [10_000, 20_000]);
}

#[test]
fn a_renewal_that_fails_is_tried_again_until_the_last_chance() {
    fake::start();
    let failures = std::iter::repeat_with(|| (10, Err(unreachable()))).take(1000);
    let store = FakeStore { renew: failures.collect(), ..FakeStore::default() };
    let (end, log) = renewed(store, &["a"], Duration::from_secs(60));
    assert_eq!(end, LeaseEnd::Lost);
    assert_eq!(log.times("expired"), [LAST_CHANCE]);
    let attempts = log.times("renew");
    assert_eq!(attempts[0], 10_000);
    assert!(attempts.iter().all(|at| *at < LAST_CHANCE), "{attempts:?}");
    // From 20 ms on doubled, give or take a half, up to a sixth of the TTL, and to half of the time that is left.
    for (number, pair) in attempts.windows(2).enumerate() {
        let pause = (20 << number.min(10)).min(5000) as f64;
        let most = (LAST_CHANCE.saturating_sub(pair[0] + 10) as f64 / 2.0).max(10.0);
        let (seen, least, most) =
            ((pair[1] - pair[0]) as f64 - 10.0, (pause * 0.5).min(most), (pause * 1.5).min(most));
        assert!(seen >= least - 2.0 && seen <= most + 2.0, "{seen} for {pause}: {attempts:?}");
    }
    // A store that comes back at the last moment keeps the job.
    assert!(attempts.last().is_some_and(|last| *last >= LAST_CHANCE - 50), "{attempts:?}");
    // It may have been carried out: what it took is taken back.
    assert_eq!(log.lines().last().map(String::as_str), Some("release a"));
}

#[test]
fn an_answer_after_the_last_chance_is_too_late() {
    fake::start();
    let late = |_| (4999, Err(unreachable()));
    let replies = (0..2).map(late).chain([(4999, Ok(Renewal::Extended))]);
    let store = FakeStore { renew: replies.collect(), ..FakeStore::default() };
    let (end, log) = renewed(store, &["a"], Duration::from_secs(60));
    assert_eq!(end, LeaseEnd::Lost);
    assert_eq!(log.times("expired"), [LAST_CHANCE]);
}

#[test]
fn an_unknown_renewal_may_turn_out_as_lost_and_one_that_was_gone_is_held_again() {
    for (renew, expected, log) in [
        (
            vec![(0, Err(unreachable())), (0, Ok(Renewal::Lost(None)))],
            LeaseEnd::Lost,
            "renew a, failed a, renew a, lost a, release a",
        ),
        (
            vec![(0, Ok(Renewal::Healed))],
            LeaseEnd::Released,
            "renew a, healed a after 10s, until 39698, release a",
        ),
    ] {
        fake::start();
        let (end, seen) = renewed(FakeStore { renew: renew.into(), ..FakeStore::default() }, &["a"], SOON);
        assert_eq!((end, seen.lines().join(", ")), (expected, log.to_owned()));
    }
}

#[test]
fn a_lost_lease_is_not_renewed_again_and_the_others_are() {
    fake::start();
    let store = FakeStore {
        renew: [(0, Ok(Renewal::Lost(None))), (0, Ok(Renewal::Extended))].into(),
        ..FakeStore::default()
    };
    let log = store.log.clone();
    let mut renewals =
        Renewals::new(Box::new(store), vec![lease("a"), lease("b")], RESERVE, Box::new(|_| {}));
    for _ in 0..3 {
        fake::move_to(renewals.next);
        renewals.renew();
    }
    assert_eq!(renewals.finish(None).end, LeaseEnd::Lost);
    assert_eq!(log.lines(), ["renew a", "renew b", "renew b", "renew b", "release a b"]);
}

/// A renewal tells what became of a lock that is not ours any more. A release that was repeated may have been the first
/// one.
#[test]
fn not_held_at_the_end_is_looked_into() {
    let answer = |outcome| (0, Ok(vec![outcome]));
    let not_held = || answer(ReleaseOutcome::NotHeld);
    let failed = || (0, Err(unreachable()));
    let (asked, released) = ("renew a", "release a");
    let looked_into = [released, asked, released];
    for (release, renewal, end, requests) in [
        (vec![not_held()], Ok(Renewal::Lost(None)), LeaseEnd::Lost, &looked_into[..]),
        (vec![not_held()], Ok(Renewal::Released), LeaseEnd::Lost, &looked_into),
        (vec![not_held()], Ok(Renewal::Healed), LeaseEnd::Released, &looked_into),
        (vec![not_held(), failed()], Ok(Renewal::Healed), LeaseEnd::Unreleased(unreachable()), &looked_into),
        (vec![not_held(), not_held()], Err(unreachable()), LeaseEnd::Released, &looked_into),
        (vec![not_held(), failed()], Err(unreachable()), LeaseEnd::Unreleased(unreachable()), &looked_into),
        (vec![answer(ReleaseOutcome::Vacant)], Ok(Renewal::Released), LeaseEnd::Released, &[released]),
        (vec![failed(), not_held()], Ok(Renewal::Lost(None)), LeaseEnd::Released, &[released, released]),
    ] {
        fake::start();
        let renew = [(0, renewal)].into();
        let store = FakeStore { release: release.into(), renew, ..FakeStore::default() };
        let log = store.log.clone();
        let mut renewals = Renewals::new(Box::new(store), vec![lease("a")], RESERVE, Box::new(|_| {}));
        assert_eq!(renewals.finish(None).end, end);
        assert_eq!(log.lines(), requests);
    }
}

/// The job ended in time, and nothing tells what came before the end of the lease.
#[test]
fn not_held_after_the_end_of_the_lease_is_no_loss() {
    fake::start();
    let lease = lease("a");
    fake::move_to(lease.deadline().minus(Duration::from_secs(1)));
    let late = (1500, Ok(vec![ReleaseOutcome::NotHeld]));
    let store = FakeStore { release: [late].into(), ..FakeStore::default() };
    let log = store.log.clone();
    let mut renewals = Renewals::new(Box::new(store), vec![lease], Duration::ZERO, Box::new(|_| {}));
    assert_eq!(renewals.finish(None).end, LeaseEnd::Released);
    assert_eq!(log.lines(), ["release a"]);
}

#[test]
fn what_was_borrowed_is_not_released() {
    fake::start();
    let (store, lease) = (FakeStore::default(), Lease { is_borrowed: true, ..lease("a") });
    let log = store.log.clone();
    let mut renewals = Renewals::new(Box::new(store), vec![lease], RESERVE, Box::new(|_| {}));
    assert_eq!(renewals.finish(None).end, LeaseEnd::Borrowed);
    assert_eq!(log.lines(), [] as [&str; 0]);
}
