//! The capabilities of a store: everything else is refused before anything is contacted.

use std::time::Duration;

use super::{Key, Mode, Priority, Ttl};

/// `Err` says why the store cannot do it.
pub type Support = Result<(), &'static str>;

/// The capabilities of a kind of store, whatever server or file it uses.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    pub shared: Support,
    pub semaphore: Support,
    /// The store counts the permits of a semaphore: a request may take several, and their number can change.
    pub counted_permits: Support,
    /// Waiters are served in the order of their arrival; otherwise they compete.
    pub queue: bool,
    /// A waiter can overtake others in the queue.
    pub priorities: Support,
    /// A request can wait in the queues of several locks for one of them.
    pub one_of: Support,
    /// A renewal may ask for another TTL than the grant.
    pub ttl_can_change: bool,
    /// A shorter TTL is refused.
    pub shortest_ttl: Duration,
    /// A longer TTL or min-hold is refused; `None` where every TTL is short enough.
    pub longest_ttl: Option<Duration>,
    /// A TTL is a multiple of this.
    pub ttl_resolution: Duration,
    /// The rule for keys, where the store limits them more than [`Key`] does.
    pub keys: Option<fn(&Key) -> Support>,
    /// All locks can be listed without naming them.
    pub listing: Support,
    /// A grant can wait until replicas have it.
    pub replicas: Support,
    /// The number of runs in the history of a lock, unless an option says it; or the reason why there is none.
    pub history: Result<u8, &'static str>,
}

/// The properties of a request that a store may refuse.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub keys: &'a [Key],
    pub mode: Mode,
    pub ttl: Ttl,
    pub min_hold: Duration,
    pub replicas: u8,
    pub priority: Priority,
    /// The permits that one holder takes.
    pub take: u32,
}

/// The part of a request that a store cannot do, with its reason.
#[derive(Debug, PartialEq, Eq)]
pub enum Unsupported {
    Replicas(&'static str),
    Shared(&'static str),
    Semaphore(&'static str),
    Take(&'static str),
    Priority(&'static str),
    Key(Key, &'static str),
    ShortTtl { shortest: Duration },
    LongTtl { longest: Duration },
    LongMinHold { longest: Duration },
    UnevenTtl { step: Duration },
}

impl Capabilities {
    /// The capabilities of a store that can do everything, and counts in milliseconds.
    pub const ALL: Capabilities = Capabilities {
        shared: Ok(()),
        semaphore: Ok(()),
        counted_permits: Ok(()),
        queue: true,
        priorities: Ok(()),
        one_of: Ok(()),
        ttl_can_change: true,
        shortest_ttl: Ttl::SHORTEST,
        longest_ttl: None,
        ttl_resolution: Duration::from_millis(1),
        keys: None,
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
        if wanted.take > 1 {
            self.counted_permits.map_err(Unsupported::Take)?;
        }
        if !wanted.priority.is_default() {
            self.priorities.map_err(Unsupported::Priority)?;
        }
        if let Some(rule) = self.keys {
            for key in wanted.keys {
                rule(key).map_err(|why| Unsupported::Key(key.clone(), why))?;
            }
        }
        if wanted.ttl.duration() < self.shortest_ttl {
            return Err(Unsupported::ShortTtl { shortest: self.shortest_ttl });
        }
        if let Some(longest) = self.longest_ttl.filter(|longest| wanted.ttl.duration() > *longest) {
            return Err(Unsupported::LongTtl { longest });
        }
        if let Some(longest) = self.longest_ttl.filter(|longest| wanted.min_hold > *longest) {
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
            longest_ttl: Some(second * 60),
            ttl_resolution: second,
            keys: Some(|key| if key.as_str().len() > 5 { Err("longer than 5 bytes") } else { Ok(()) }),
            replicas: Err("there are none"),
            ..Capabilities::ALL
        };
        let semaphore = Mode::Semaphore(std::num::NonZeroU32::MIN);
        for (ttl, mode, replicas, refused) in [
            ("2s", Mode::Shared, 0, None),
            ("2s", semaphore, 0, Some(Unsupported::Semaphore("no semaphores here"))),
            ("2s", Mode::Exclusive, 2, Some(Unsupported::Replicas("there are none"))),
            ("1s", Mode::Exclusive, 0, Some(Unsupported::ShortTtl { shortest: second * 2 })),
            ("61s", Mode::Exclusive, 0, Some(Unsupported::LongTtl { longest: second * 60 })),
            ("2500ms", Mode::Exclusive, 0, Some(Unsupported::UnevenTtl { step: second })),
        ] {
            let ttl = ttl.parse().unwrap_or(Ttl::DEFAULT);
            let wanted = Wanted {
                keys: &[],
                mode,
                ttl,
                min_hold: second * 60,
                replicas,
                priority: Priority::default(),
                take: 1,
            };
            assert_eq!(store.check(&wanted).err(), refused);
        }
        let keys = ["short", "longer"].map(|key| key.parse().expect("a key"));
        let wanted = Wanted {
            keys: &keys,
            mode: Mode::Shared,
            ttl: Ttl::DEFAULT,
            min_hold: Duration::ZERO,
            replicas: 0,
            priority: Priority::default(),
            take: 1,
        };
        assert_eq!(store.check(&wanted), Err(Unsupported::Key(keys[1].clone(), "longer than 5 bytes")));
        let long = Wanted { keys: &[], min_hold: second * 61, ..wanted };
        assert_eq!(store.check(&long), Err(Unsupported::LongMinHold { longest: second * 60 }));
    }
}
