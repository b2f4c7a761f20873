//! The life of a lock, from the first take to the end, by the scripts that all locks are made of.

use std::slice::from_ref;
use std::thread;
use std::time::Duration;

use super::probe::Asking;
use super::server::Server;
use crate::clock::BootTime;
use crate::doctor::{Findings, Requirements, millis};
use crate::lock::{
    AcquireOutcome, Broken, FencingToken, Grant, Key, Metadata, Mode, OwnerToken, Renewal, Request, Store,
    StoreAdmin, StoreError, Timeout, Ttl,
};
use crate::store::redis::Redis;
use crate::store::redis::net::failure::RequestError;

/// Where it went wrong.
enum Trouble {
    Failed(&'static str, StoreError),
    /// The answer is not what it has to be.
    Wrong(&'static str),
}

/// Takes a lock that nobody else uses, waits for it with another owner token, hands it over, breaks it, and removes
/// it.
pub fn live(
    server: &Server,
    asking: &mut Asking,
    terms: &Requirements,
    report: &mut Findings,
) -> Result<(), RequestError> {
    let key = server.scratch_key();
    let mut holder = Redis::new(server.address.clone(), terms.replicas);
    let mut waiter = Redis::new(server.address.clone(), terms.replicas);
    let requests = [request(&key), request(&key)];
    let lived = through(&mut holder, &mut waiter, &requests, terms);
    if lived.is_err() {
        // An answer may still be out.
        for (store, request) in [(&mut holder, &requests[0]), (&mut waiter, &requests[1])] {
            let _ = store.cancel(from_ref(request), &Timeout::of(terms.attempt));
        }
    }
    let swept = server.sweep(asking, &key);
    match lived {
        Ok(handover) => {
            let finding = format!(
                "a lock was taken, renewed, handed over in {}, broken and released",
                millis(handover)
            );
            report.ok("locking", finding);
        }
        Err(Trouble::Failed(step, error)) => {
            let why = match error {
                StoreError::Unreachable { why, .. } | StoreError::Denied { why, .. } => why,
                other => other.to_string(),
            };
            report.bad(
                "locking",
                format!("a lock for a trial failed at '{step}': {why}"),
                "see to that first",
            );
        }
        Err(Trouble::Wrong(step)) => {
            let finding = format!("a lock for a trial failed at '{step}': the answer makes no sense");
            let advice = "is something between redlock and the server (a proxy), or is it no real Redis?";
            report.bad("locking", finding, advice);
        }
    }
    swept
}

fn request(key: &Key) -> Request {
    Request {
        key: key.clone(),
        mode: Mode::Exclusive,
        token: OwnerToken::random(),
        // Not the one in use: it may be too short for this link, which is found out elsewhere.
        ttl: Ttl::DEFAULT,
        min_hold: Duration::ZERO,
        metadata: Metadata::new(String::new(), std::process::id(), String::new(), "redlock doctor"),
    }
}

/// How long the handover took.
fn through(
    holder: &mut Redis,
    waiter: &mut Redis,
    [first, second]: &[Request; 2],
    terms: &Requirements,
) -> Result<Duration, Trouble> {
    let patience = || Timeout::of(terms.attempt);
    let key = &first.key;
    let fence = granted("take", holder.acquire(from_ref(first), &patience()))?;
    let busy = step("stand in line", waiter.enqueue(second, &patience()))?;
    sound("stand in line", matches!(busy, AcquireOutcome::Busy(_)))?;
    let renewed = step("renew", holder.renew(first, Some(fence), &patience()))?;
    sound("renew", matches!(renewed, Renewal::Extended))?;
    let left = step("check", holder.check(key, &first.token, &patience()))?;
    sound("check", left.is_some())?;
    let status = step("status", holder.status(from_ref(key), &patience()))?;
    sound("status", status.iter().any(|lock| lock.holders.len() == 1 && lock.waiters.len() == 1))?;

    // Who gives back stays until the next one has it.
    let (released, handed_over, handover) = thread::scope(|scope| {
        let begin = BootTime::now();
        let giving = scope.spawn(|| holder.release(from_ref(key), &first.token, &patience()));
        // Until it is told: at first the news is how long the holder's lease lasts.
        let handed_over = step("wait", waiter.wait(&patience())).and_then(|is_told| {
            sound("wake the next in line", is_told)?;
            granted("hand over", waiter.enqueue(second, &patience()))
        });
        (giving.join(), handed_over, BootTime::now().since(begin))
    });
    let released = released.map_err(|_| Trouble::Wrong("release"))?;
    sound("release", step("release", released)? == [true])?;
    let next = handed_over?;
    sound("the fencing token grows", next > fence)?;
    waiter.on_idle();

    let broken = step("break", holder.break_lock(key, None, &patience()))?;
    sound("break", matches!(broken, Broken::Told(_)))?;
    let lost = step("renew a broken lock", waiter.renew(second, Some(next), &patience()))?;
    sound("renew a broken lock", matches!(lost, Renewal::Lost(_)))?;
    sound(
        "release a broken lock",
        step("release", waiter.release(from_ref(key), &second.token, &patience()))? == [true],
    )?;
    shared(holder, first, &patience())?;
    Ok(handover)
}

/// The lock as a reader's.
fn shared(store: &mut Redis, request: &Request, patience: &Timeout) -> Result<(), Trouble> {
    let reader = Request { mode: Mode::Shared, token: OwnerToken::random(), ..request.clone() };
    granted("take shared", store.acquire(from_ref(&reader), patience))?;
    sound(
        "release shared",
        step("release shared", store.release(from_ref(&reader.key), &reader.token, patience))? == [true],
    )
}

fn step<T>(name: &'static str, answer: Result<T, StoreError>) -> Result<T, Trouble> {
    answer.map_err(|error| Trouble::Failed(name, error))
}

fn sound(name: &'static str, is_sound: bool) -> Result<(), Trouble> {
    if is_sound { Ok(()) } else { Err(Trouble::Wrong(name)) }
}

fn granted(name: &'static str, answer: Result<AcquireOutcome, StoreError>) -> Result<FencingToken, Trouble> {
    match step(name, answer)? {
        AcquireOutcome::Granted(Grant { fences, .. }) => fences.first().copied().ok_or(Trouble::Wrong(name)),
        AcquireOutcome::Busy(_) => Err(Trouble::Wrong(name)),
    }
}
