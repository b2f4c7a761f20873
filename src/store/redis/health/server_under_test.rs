//! A server that `doctor` examines.

use std::ops::RangeInclusive;

use redis::Value;

use super::probe::Asking;
use crate::doctor::Requirements;
use crate::lock::{Key, Result};
use crate::store::net::RequestError;
use crate::store::redis::keys::{KeyNames, slot};
use crate::store::redis::url::{RedisAddress, ServerAddress};

/// A server that has locks, or would have.
pub struct ServerUnderTest {
    /// The address of one server.
    pub address: RedisAddress,
    pub is_in_quorum: bool,
    /// The slots of a server of a cluster.
    pub slots: Option<Vec<RangeInclusive<u16>>>,
}

impl ServerUnderTest {
    /// One that is not in a cluster, or whose slots are not known.
    pub fn at(address: RedisAddress, is_in_quorum: bool) -> ServerUnderTest {
        ServerUnderTest { address, is_in_quorum, slots: None }
    }

    /// A new connection, for what leaves it fit for nothing else.
    pub fn open(&self, terms: &Requirements) -> Result<Asking> {
        let ServerAddress::One(endpoint) = &self.address.servers else {
            // The servers that have the locks there were found out before.
            return Err(RequestError::broken("it is not one server").of(""));
        };
        Asking::open(&self.address.login, endpoint, &self.address.to_string(), terms)
    }

    /// A key to try things with, in a slot of this server.
    pub fn scratch_key(&self) -> Key {
        let Some(slots) = &self.slots else { return Key::scratch() };
        let is_here = |key: &Key| {
            let slot = slot(key);
            slots.iter().any(|range| range.contains(&slot))
        };
        // A server with one slot of 16384 is met in the end.
        (0..1_000_000).map(|_| Key::scratch()).find(is_here).unwrap_or_else(Key::scratch)
    }

    /// Removes all that is kept for a key.
    pub fn sweep(&self, asking: &mut Asking, key: &Key) -> Result<()> {
        let names = KeyNames::of(key).into_all();
        if let Value::ServerError(_) = asking.ask(redis::cmd("DEL").arg(&names))? {
            for name in &names {
                if let Value::ServerError(_) = asking.ask(redis::cmd("PEXPIRE").arg(name).arg(1))? {
                    // SET takes the place of a value of any type.
                    asking.ask(redis::cmd("SET").arg(name).arg("").arg("PX").arg(1))?;
                }
            }
        }
        Ok(())
    }
}
