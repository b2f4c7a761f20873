//! The runtime inside the store: it runs while a call to the store does, and in the thread of that call only.

use std::future::Future;
use std::io;
use std::os::fd::BorrowedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Duration, sleep};

use crate::lock::Timeout;
use crate::store::net::RequestError;

/// A runtime without threads.
pub struct Runtime(tokio::runtime::Runtime);

/// Tokio's clock stops while the machine sleeps, so the boot clock is read at least this often.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(60);

impl Runtime {
    pub fn start() -> Result<Runtime, RequestError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        runtime.map(Runtime).map_err(|error| RequestError::Broken(format!("a runtime cannot start: {error}")))
    }

    /// Runs this, and what goes on in the background, until it is done or the timeout ends.
    pub fn run<T>(&self, timeout: &Timeout, work: impl Future<Output = T>) -> Result<T, RequestError> {
        self.0.block_on(async {
            tokio::select! {
                biased;
                done = work => Ok(done),
                () = readable(timeout.interrupt) => Err(RequestError::Interrupted),
                () = over(timeout) => Err(RequestError::TimedOut),
            }
        })
    }
}

async fn over(timeout: &Timeout<'_>) {
    while !timeout.until.has_passed() {
        sleep(timeout.until.left().min(LOOK_AT_CLOCK)).await;
    }
}

/// Never, where there is nothing to be read, or nothing that can be waited for.
async fn readable(interrupt: Option<BorrowedFd<'_>>) {
    if let Some(interrupt) = interrupt
        && wait_readable(interrupt).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

#[expect(deprecated, reason = "its successor is unsafe; a borrowed descriptor stays what it is")]
async fn wait_readable(fd: BorrowedFd<'_>) -> io::Result<()> {
    AsyncFd::with_interest(fd, Interest::READABLE)?.readable().await.map(drop)
}
