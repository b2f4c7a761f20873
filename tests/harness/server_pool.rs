//! Servers that take long to start: one test after the other has them, or all tests share them.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;

/// Servers, however a test came by them.
pub struct PooledServer<T: 'static>(Access<T>);

enum Access<T: 'static> {
    /// To be harmed as the test likes.
    Owned(T),
    /// `None` only when they were given back.
    Lent(Option<T>, &'static ServerPool<T>),
    /// With other tests at the same time, each in its own place.
    Shared(&'static T),
}

pub struct ServerPool<T> {
    free: Mutex<Vec<T>>,
    shared: OnceLock<T>,
    start: fn() -> T,
    /// Makes those that were lent as new.
    clean: fn(&T),
}

impl<T: Send + Sync> ServerPool<T> {
    pub const fn new(start: fn() -> T, clean: fn(&T)) -> ServerPool<T> {
        ServerPool { free: Mutex::new(Vec::new()), shared: OnceLock::new(), start, clean }
    }

    pub fn lend(&'static self) -> PooledServer<T> {
        let free = self.free.lock().expect("those that are free").pop();
        PooledServer(Access::Lent(Some(free.unwrap_or_else(|| self.start())), self))
    }

    pub fn share(&'static self) -> PooledServer<T> {
        PooledServer(Access::Shared(self.shared.get_or_init(|| self.start())))
    }

    /// Their end is that of the thread that started them, which is not to be that of a test.
    fn start(&'static self) -> T {
        let (give, take) = mpsc::channel();
        thread::spawn(move || {
            let _ = give.send((self.start)());
            loop {
                thread::park();
            }
        });
        take.recv().expect("servers")
    }
}

impl<T> PooledServer<T> {
    /// Of a test's own.
    pub fn owned(servers: T) -> PooledServer<T> {
        PooledServer(Access::Owned(servers))
    }
}

impl<T> Drop for PooledServer<T> {
    fn drop(&mut self) {
        if let Access::Lent(servers, pool) = &mut self.0
            && let Some(servers) = servers.take()
            && !thread::panicking()
        {
            (pool.clean)(&servers);
            pool.free.lock().expect("those that are free").push(servers);
        }
    }
}

impl<T> Deref for PooledServer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Access::Owned(servers) => servers,
            Access::Lent(servers, _) => servers.as_ref().expect("servers"),
            Access::Shared(servers) => servers,
        }
    }
}

impl<T> DerefMut for PooledServer<T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Access::Owned(servers) => servers,
            Access::Lent(servers, _) => servers.as_mut().expect("servers"),
            Access::Shared(_) => panic!("servers of a test's own"),
        }
    }
}
