//! What a store can do, so that what it cannot do is refused before anything is contacted.

use std::time::Duration;

use super::{DurationText, Mode, Ttl};

/// `Err` says why not.
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
    /// Leases, and min-holds, of more are refused.
    pub longest_ttl: Duration,
    /// A TTL is a multiple of this: 1 ms in Redis, 1 s in etcd.
    pub ttl_resolution: Duration,
    /// Whether the store knows all its locks, so that `status` can show those that nobody named.
    pub listing: Support,
    /// Whether a grant can wait for copies of it.
    pub replicas: Support,
    /// How many runs are kept in the history of a lock unless somebody says; or why none can be.
    pub history: Result<u8, &'static str>,
}

#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub mode: Mode,
    pub ttl: Ttl,
    pub min_hold: Duration,
    pub replicas: u8,
}

/// What of a request a store cannot do, with its reason.
#[derive(Debug, PartialEq, Eq)]
pub enum Unsupported {
    Replicas(&'static str),
    Shared(&'static str),
    Semaphore(&'static str),
    ShortTtl { shortest: Duration },
    LongTtl { longest: Duration },
    LongMinHold { longest: Duration },
    UnevenTtl { step: Duration },
}

impl Capabilities {
    /// Of a store that can do everything, and counts in milliseconds.
    pub const ALL: Capabilities = Capabilities {
        shared: Ok(()),
        semaphore: Ok(()),
        queue: true,
        ttl_can_change: true,
        shortest_ttl: Ttl::SHORTEST,
        longest_ttl: DurationText::LONGEST,
        ttl_resolution: Duration::from_millis(1),
        listing: Ok(()),
        replicas: Ok(()),
        history: Ok(0),
    };

    /// Fails with the first thing that the store cannot do.
    pub fn check(&self, wanted: &Wanted) -> Result<(), Unsupported> {
        if wanted.replicas > 0 {
            self.replicas.map_err(Unsupported::Replicas)?;
        }
        match wanted.mode {
            Mode::Exclusive => {}
            Mode::Shared => self.shared.map_err(Unsupported::Shared)?,
            Mode::Semaphore(_) => self.semaphore.map_err(Unsupported::Semaphore)?,
        }
        if wanted.ttl.duration() < self.shortest_ttl {
            return Err(Unsupported::ShortTtl { shortest: self.shortest_ttl });
        }
        let longest = self.longest_ttl;
        if wanted.ttl.duration() > longest {
            return Err(Unsupported::LongTtl { longest });
        }
        if wanted.min_hold > longest {
            return Err(Unsupported::LongMinHold { longest });
        }
        if !wanted.ttl.as_millis().is_multiple_of(self.ttl_resolution.as_millis() as u64) {
            return Err(Unsupported::UnevenTtl { step: self.ttl_resolution });
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
            longest_ttl: second * 60,
            ttl_resolution: second,
            replicas: Err("there are none"),
            ..Capabilities::ALL
        };
        let semaphore = Mode::Semaphore(std::num::NonZeroU32::MIN);
        for (ttl, mode, replicas, refused) in [
            ("2s", Mode::Shared, 0, None),
            ("2s", semaphore, 0, Some(Unsupported::Semaphore("no semaphores here"))),
            ("2s", Mode::Exclusive, 2, Some(Unsupported::Replicas("there are none"))),
            ("1s", Mode::Exclusive, 0, Some(Unsupported::ShortTtl { shortest: second * 2 })),
            ("2500ms", Mode::Exclusive, 0, Some(Unsupported::UnevenTtl { step: second })),
        ] {
            let ttl = ttl.parse().unwrap_or(Ttl::DEFAULT);
            let wanted = Wanted { mode, ttl, min_hold: second, replicas };
            assert_eq!(store.check(&wanted).err(), refused);
        }
        let longest = second * 60;
        for (ttl, min_hold, refused) in [
            ("1m", longest, None),
            ("61s", longest, Some(Unsupported::LongTtl { longest })),
            ("1m", longest * 2, Some(Unsupported::LongMinHold { longest })),
        ] {
            let ttl = ttl.parse().unwrap_or(Ttl::DEFAULT);
            let wanted = Wanted { mode: Mode::Exclusive, ttl, min_hold, replicas: 0 };
            assert_eq!(store.check(&wanted).err(), refused);
        }
    }
}
