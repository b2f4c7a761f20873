//! Repeating a request that another server may have to answer by now.

use std::time::Duration;

use crate::lock::{Result, StoreError, Timeout};
use crate::poll::Backoff;
use crate::store::net::{RequestError, pause};

/// The pauses between attempts: at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(250)];
/// Redirects are followed without a pause this often: two servers may name each other.
const MOST_REDIRECTS: u32 = 4;
/// One attempt gets a part of the time there is, and not less than this.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(100);

/// Repeats `attempt` until it has a result, fails for good, or the timeout ends. `None` asks for another attempt at once.
pub fn retry<T>(store: &str, timeout: &Timeout, mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let mut backoff = Backoff::new(PAUSES[0], PAUSES[1]);
    let mut redirects = 0;
    loop {
        let error = match attempt() {
            Ok(Some(result)) => return Ok(result),
            Ok(None) if redirects < MOST_REDIRECTS => {
                redirects += 1;
                continue;
            }
            Ok(None) => RequestError::TimedOut.of(store),
            Err(error @ StoreError::Unreachable { transient: true, .. }) => error,
            Err(error) => return Err(error),
        };
        match pause(backoff.pause(), timeout) {
            Ok(()) => {}
            Err(RequestError::Interrupted) => return Err(StoreError::Interrupted),
            Err(_) => return Err(error),
        }
    }
}

/// The time for one attempt, which leaves time to ask another server.
pub fn attempt_of<'a>(timeout: &Timeout<'a>) -> Timeout<'a> {
    timeout.at_most((timeout.until.left() / 3).max(SHORTEST_ATTEMPT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreachable(transient: bool) -> StoreError {
        StoreError::Unreachable { store: "s".to_owned(), why: "w".to_owned(), transient }
    }

    #[test]
    fn only_what_passes_is_repeated() {
        let timeout = Timeout::of(Duration::from_secs(5));
        let mut attempts = 0;
        let mut outcomes = vec![Ok(Some(7)), Err(unreachable(true)), Ok(None)];
        let result = retry("s", &timeout, || {
            attempts += 1;
            outcomes.pop().unwrap_or(Ok(None))
        });
        assert!(matches!(result, Ok(7)) && attempts == 3);
        assert!(retry::<()>("s", &timeout, || Err(unreachable(false))).is_err());
        // Redirects in a circle end with the timeout.
        let circle = retry::<()>("s", &Timeout::of(Duration::from_millis(50)), || Ok(None));
        assert!(matches!(circle, Err(StoreError::Unreachable { .. })));
    }
}
