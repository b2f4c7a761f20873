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
    pub token_mint: TokenMint,
    /// A lease goes on when the process that took it ends, so that another process can renew or release it with the
    /// owner token.
    pub outlives_process: bool,
}

/// Who makes the owner token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenMint {
    /// The caller: the store takes the token of the request.
    Caller,
    /// The store, with the grant: see [`Grant::token`](super::Grant). In ZooKeeper a token is the id and the password
    /// of a session.
    Store,
}

#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub mode: Mode,
    pub ttl: Ttl,
    pub replicas: u8,
    /// The lease has to outlive this process.
    pub detached: bool,
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
        token_mint: TokenMint::Caller,
        outlives_process: true,
    };

    /// Fails with the first thing that the store cannot do, and what to do about it: a mistake in the configuration.
    pub fn check(&self, wanted: &Wanted) -> Result<(), String> {
        let Wanted { mode, ttl, replicas, detached } = *wanted;
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
        if detached && !self.outlives_process {
            Err(
                "in this store a lease ends with the process that took it; use --while-pid, or 'redlock run'",
            )?;
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
            outlives_process: false,
            ..Capabilities::ALL
        };
        let semaphore = Mode::Semaphore(std::num::NonZeroU32::MIN);
        for (ttl, mode, replicas, detached, expected) in [
            ("2s", Mode::Shared, 0, false, ""),
            ("2s", semaphore, 0, false, "no semaphores here"),
            ("2s", Mode::Exclusive, 2, false, "--replicas 2: there are none"),
            ("1s", Mode::Exclusive, 0, false, "--ttl 1s is too short for this store; use 2s or longer"),
            ("2500ms", Mode::Exclusive, 0, false, "--ttl 2.5s: this store counts in steps of 1s"),
            ("2s", Mode::Exclusive, 0, true, "in this store a lease ends with the process that took it; use"),
        ] {
            let ttl = ttl.parse().unwrap_or(Ttl::DEFAULT);
            let refused = store.check(&Wanted { mode, ttl, replicas, detached }).err().unwrap_or_default();
            assert!(refused.starts_with(expected) && refused.is_empty() == expected.is_empty(), "{refused}");
        }
    }
}
