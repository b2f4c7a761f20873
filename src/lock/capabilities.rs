//! What a store can do, so that what it cannot do is refused before anything is contacted.

use std::time::Duration;

use super::{DurationText, Mode, Ttl};

/// `Err` says why not, for a message.
pub type Support = Result<(), &'static str>;

/// What a store can do, whatever server or file is behind it.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    pub shared: Support,
    pub semaphore: Support,
    /// Waiters are served in the order of their arrival; otherwise they compete.
    pub queue: bool,
    /// A renewal may ask for another TTL than the grant. In etcd a lease has one TTL, in ZooKeeper a session has one.
    pub ttl_can_change: bool,
    /// Leases of less are refused.
    pub shortest_ttl: Duration,
    /// A TTL is a multiple of this: 1 ms in Redis, 1 s in etcd.
    pub ttl_resolution: Duration,
    /// `--replicas`: whether a grant can wait for copies of it.
    pub replicas: Support,
    /// How many runs are kept in the history of a lock unless somebody says; or why none can be.
    pub history: Result<u8, &'static str>,
}

#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub mode: Mode,
    pub ttl: Ttl,
    pub replicas: u8,
}

impl Capabilities {
    /// Of a store that can do everything, and counts in milliseconds.
    pub const ALL: Capabilities = Capabilities {
        shared: Ok(()),
        semaphore: Ok(()),
        queue: true,
        ttl_can_change: true,
        shortest_ttl: Ttl::SHORTEST,
        ttl_resolution: Duration::from_millis(1),
        replicas: Ok(()),
        history: Ok(0),
    };

    /// Fails with the first thing that the store cannot do, and what to do about it: a mistake in the configuration.
    pub fn check(&self, wanted: &Wanted) -> Result<(), String> {
        let Wanted { mode, ttl, replicas } = *wanted;
        if let (1.., Err(why)) = (replicas, self.replicas) {
            return Err(format!("--replicas {replicas}: {why}"));
        }
        match mode {
            Mode::Exclusive => {}
            Mode::Shared => self.shared?,
            Mode::Semaphore(_) => self.semaphore?,
        }
        if ttl.duration() < self.shortest_ttl {
            let shortest = DurationText(self.shortest_ttl);
            return Err(format!("--ttl {ttl} is too short for this store; use {shortest} or longer"));
        }
        if !ttl.as_millis().is_multiple_of(self.ttl_resolution.as_millis() as u64) {
            let step = DurationText(self.ttl_resolution);
            return Err(format!("--ttl {ttl}: this store counts in steps of {step}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_cannot_do_is_refused() {
        let second = Duration::from_secs(1);
        let store = Capabilities {
            semaphore: Err("no semaphores here"),
            shortest_ttl: second * 2,
            ttl_resolution: second,
            replicas: Err("there are none"),
            ..Capabilities::ALL
        };
        let semaphore = Mode::Semaphore(std::num::NonZeroU32::MIN);
        for (ttl, mode, replicas, expected) in [
            ("2s", Mode::Shared, 0, ""),
            ("2s", semaphore, 0, "no semaphores here"),
            ("2s", Mode::Exclusive, 2, "--replicas 2: there are none"),
            ("1s", Mode::Exclusive, 0, "--ttl 1s is too short for this store; use 2s or longer"),
            ("2500ms", Mode::Exclusive, 0, "--ttl 2.5s: this store counts in steps of 1s"),
        ] {
            let ttl = ttl.parse().unwrap_or(Ttl::DEFAULT);
            let refused = store.check(&Wanted { mode, ttl, replicas }).err().unwrap_or_default();
            assert!(refused.starts_with(expected) && refused.is_empty() == expected.is_empty(), "{refused}");
        }
    }
}
