//! Two processes at one file, as far as one process can be both, on a clock that stands still.

use std::path::PathBuf;
use std::slice::from_ref;
use std::time::Duration;

use uuid::Uuid;

use super::store::Local;
use crate::clock::fake;
use crate::lock::{
    AcquireOutcome, BreakScope, Breaker, Broken, FencingToken, Mode, OwnerToken, ReleaseOutcome, Renewal,
    Request, Result, Store, StoreAdmin, Timeout, Ttl,
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
