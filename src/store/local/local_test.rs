//! Two processes at one file, as far as one process can be both, on a clock that stands still.

use std::path::PathBuf;
use std::slice::from_ref;
use std::time::Duration;

use uuid::Uuid;

use super::store::Local;
use crate::clock::{BootTime, fake};
use crate::lock::{
    AcquireOutcome, BreakScope, Breaker, Broken, FencingToken, Metadata, Mode, OwnerToken, ReleaseOutcome,
    Renewal, Request, Result, Store, StoreAdmin, Timeout, Ttl,
};

/// A file of a test's own.
struct TestFile(PathBuf);

impl TestFile {
    fn new() -> TestFile {
        fake::start();
        TestFile(std::env::temp_dir().join(format!("redlock-test-{}", Uuid::new_v4())).join("locks.db"))
    }

    fn store(&self) -> Local {
        Local::new(Some(self.0.clone()), vec![std::process::id()])
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(crate::trusted_file::folder_of(&self.0));
    }
}

fn request() -> Request {
    Request::new("X".parse().expect("a key"), Mode::Exclusive, OwnerToken::random(), Ttl::DEFAULT)
}

fn timeout() -> Timeout<'static> {
    Timeout::of(Duration::from_secs(60))
}

fn granted(answer: Result<AcquireOutcome>) -> Option<FencingToken> {
    match answer.expect("an answer") {
        AcquireOutcome::Granted(granted) => granted.fences.first().copied(),
        AcquireOutcome::Busy(_) => None,
    }
}

/// It was handed over to a waiter that had not heard of it yet.
#[test]
fn a_claim_that_was_broken_stays_broken() {
    let file = TestFile::new();
    let (mut holder, mut waiter) = (file.store(), file.store());
    let (first, second) = (request(), request());
    assert!(granted(holder.acquire(from_ref(&first), &timeout())).is_some());
    assert_eq!(granted(waiter.enqueue(&second, &timeout())), None);
    let released = holder.release(from_ref(&first.key), &first.token, &timeout());
    assert_eq!(released.expect("a release"), [ReleaseOutcome::Released]);
    let by = Breaker::new("anna", "web3", None);
    let broken = holder.break_lock(&first.key, &BreakScope::All, &by, &timeout());
    assert!(matches!(broken, Ok(Broken::Told(_))));
    let fence = granted(waiter.enqueue(&second, &timeout()));
    let renewed = waiter.renew(&second, fence, &timeout()).expect("an answer");
    assert!(matches!(&renewed, Renewal::Lost(Some(own)) if own.broken.is_some()), "{renewed:?}");
}

/// In the new file another waiter has its number.
#[test]
fn a_waiter_stands_in_line_in_the_file_that_replaced_its_own() {
    let file = TestFile::new();
    let mut waiters = [(file.store(), request()), (file.store(), request())];
    for (waiter, own) in &mut waiters {
        let _ = std::fs::remove_file(&file.0);
        assert!(granted(file.store().acquire(from_ref(&request()), &timeout())).is_some());
        assert_eq!(granted(waiter.enqueue(own, &timeout())), None);
    }
    let (first, own) = &mut waiters[0];
    assert_eq!(granted(first.enqueue(own, &timeout())), None);
    let seen = file.store().status(from_ref(&own.key), &timeout()).expect("an answer");
    assert_eq!(seen[0].waiters.len(), 2);
}

/// An hour of waiting makes up for one step of priority, so nobody starves.
#[test]
fn a_long_wait_is_ahead_of_a_higher_priority() {
    let file = TestFile::new();
    let of_priority = |text: &str| {
        let metadata = Metadata { priority: text.parse().expect("a priority"), ..Metadata::default() };
        Request { metadata, ttl: "3h".parse().expect("a TTL"), ..request() }
    };
    let (mut holder, held) = (file.store(), of_priority("0"));
    assert!(granted(holder.acquire(from_ref(&held), &timeout())).is_some());
    let (mut patient, plain) = (file.store(), of_priority("0"));
    assert_eq!(granted(patient.enqueue(&plain, &timeout())), None);
    let mut line = vec![(patient, plain)];
    fake::move_to(BootTime::after(Duration::from_secs(61 * 60)));
    line.extend(["1", "2"].map(|text| (file.store(), of_priority(text))));
    for (waiter, request) in &mut line {
        assert_eq!(granted(waiter.enqueue(request, &timeout())), None);
    }
    // Two steps more are ahead of an hour of waiting, and one step is behind it.
    let mut last = (holder, held);
    for place in [2, 0, 0] {
        let released = last.0.release(from_ref(&last.1.key), &last.1.token, &timeout());
        assert_eq!(released.expect("a release"), [ReleaseOutcome::Released]);
        let (mut waiter, request) = line.remove(place);
        assert!(granted(waiter.enqueue(&request, &timeout())).is_some(), "place {place}");
        last = (waiter, request);
    }
}
