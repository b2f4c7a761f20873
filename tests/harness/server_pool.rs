//! Servers that take seconds to start, one test after the other.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, mpsc};
use std::thread;

/// Servers that take seconds to start. Unless a test wants its own, to harm them, they serve one test after
/// the other.
pub struct PooledServer<T: 'static> {
    /// `None` only when it was given back.
    servers: Option<T>,
    lender: Option<&'static ServerPool<T>>,
}

pub struct ServerPool<T> {
    free: Mutex<Vec<T>>,
    start: fn() -> T,
    /// Makes them as new.
    clean: fn(&T),
}

impl<T: Send> ServerPool<T> {
    pub const fn new(start: fn() -> T, clean: fn(&T)) -> ServerPool<T> {
        ServerPool { free: Mutex::new(Vec::new()), start, clean }
    }

    pub fn lend(&'static self) -> PooledServer<T> {
        let free = self.free.lock().expect("those that are free").pop();
        let servers = free.unwrap_or_else(|| {
            // Their end is that of the thread that started them, which is not to be that of a test.
            let (give, take) = mpsc::channel();
            thread::spawn(move || {
                let _ = give.send((self.start)());
                loop {
                    thread::park();
                }
            });
            take.recv().expect("servers")
        });
        PooledServer { servers: Some(servers), lender: Some(self) }
    }
}

impl<T> PooledServer<T> {
    /// Of a test's own.
    pub fn owned(servers: T) -> PooledServer<T> {
        PooledServer { servers: Some(servers), lender: None }
    }
}

impl<T> Drop for PooledServer<T> {
    fn drop(&mut self) {
        if let (Some(lender), Some(servers)) = (self.lender, self.servers.take())
            && !thread::panicking()
        {
            (lender.clean)(&servers);
            lender.free.lock().expect("those that are free").push(servers);
        }
    }
}

impl<T> Deref for PooledServer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.servers.as_ref().expect("servers")
    }
}

impl<T> DerefMut for PooledServer<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.servers.as_mut().expect("servers")
    }
}
