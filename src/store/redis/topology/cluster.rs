//! Redis Cluster: the slots and their primaries.
//!
//! The redis crate has a cluster client. It is not used: its requests neither end with a lease nor early with a signal,
//! it cannot send a release behind a request in flight, and it does not say which server answered, which decides whether
//! a grant counts.

use redis::Value;

use super::known_servers::KnownServers;
use super::redirect::endpoint;
use crate::lock::{Key, Result, StoreError, Timeout};
use crate::store::net::{Endpoint, RequestError, check};
use crate::store::redis::connection::LONGEST_LIST;
use crate::store::redis::keys::slot;
use crate::store::redis::reply::{accepted, items, number, text};

pub const SLOTS: u16 = 16384;
const MOST_SHARES: usize = 4;

pub type SlotRange = (u16, u16);

#[derive(Default)]
pub struct Cluster {
    slots: Vec<(SlotRange, Endpoint)>,
    /// This server failed or redirected us, so the slots have to be asked for again.
    suspect: Option<Endpoint>,
}

impl Cluster {
    /// The primary of this key, if that is known.
    pub fn primary_of(&self, key: &Key) -> Option<&Endpoint> {
        if self.suspect.is_some() {
            return None;
        }
        let slot = slot(key);
        let contains = |(first, last): SlotRange| first <= slot && slot <= last;
        self.slots.iter().find(|(range, _)| contains(*range)).map(|(_, primary)| primary)
    }

    /// A server said which one has this slot.
    pub fn moved(&mut self, slot: u16, to: Endpoint) {
        self.slots.retain(|(range, _)| *range != (slot, slot));
        self.slots.insert(0, ((slot, slot), to));
    }

    /// The slots may have changed because of this server: they are not used until they are asked for again.
    pub fn suspect(&mut self, server: &Endpoint) {
        self.suspect = Some(server.clone());
    }

    pub fn primaries(&self) -> Vec<Endpoint> {
        let mut primaries: Vec<Endpoint> = self.slots.iter().map(|(_, primary)| primary.clone()).collect();
        primaries.sort_unstable();
        primaries.dedup();
        primaries
    }

    /// Asks the servers for the slots; the suspect comes last.
    pub fn refresh_slots(&mut self, servers: &mut KnownServers, timeout: &Timeout) -> Result<()> {
        let mut order = servers.endpoints();
        fastrand::shuffle(&mut order);
        order.sort_by_key(|server| Some(server) == self.suspect.as_ref());
        let mut failed = None;
        for (asked, endpoint) in order.iter().enumerate() {
            match check(timeout) {
                Err(RequestError::TimedOut) if asked > 0 => break,
                Err(RequestError::Interrupted) => return Err(StoreError::Interrupted),
                _ => {}
            }
            let share = timeout.share((order.len() - asked).min(MOST_SHARES));
            match ask_for_slots(servers, endpoint, &share) {
                Ok(slots) => {
                    for (_, primary) in &slots {
                        servers.get(primary)?;
                    }
                    *self = Cluster { slots, suspect: None };
                    return Ok(());
                }
                Err(StoreError::Unreachable { why, .. }) => failed = Some(why),
                Err(other) => return Err(other),
            }
        }
        let why = format!("none of its servers answers ({})", failed.unwrap_or_default());
        Err(RequestError::Broken(why).of(servers.store()))
    }
}

fn ask_for_slots(
    servers: &mut KnownServers,
    endpoint: &Endpoint,
    timeout: &Timeout,
) -> Result<Vec<(SlotRange, Endpoint)>> {
    let name = servers.name_of(endpoint);
    let server = servers.get(endpoint)?;
    let mut connection = server.take_connection(timeout)?;
    connection.longest = LONGEST_LIST;
    let reply =
        connection.query(redis::cmd("CLUSTER").arg("SLOTS"), timeout).map_err(|error| error.of(&name))?;
    server.connection = Some(connection);
    decode_slots(reply, endpoint, &name)
}

/// The reply to CLUSTER SLOTS of the server `from`: the primaries with their slots.
pub fn decode_slots(reply: Value, from: &Endpoint, name: &str) -> Result<Vec<(SlotRange, Endpoint)>> {
    if let Value::ServerError(error) = &reply
        && error.details().unwrap_or_default().contains("cluster support disabled")
    {
        let why = "it is not part of a Redis Cluster; redis:// is the URL of a single server".to_owned();
        return Err(StoreError::Unusable { store: name.to_owned(), why });
    }
    let rows = items(accepted(reply, name)?);
    if rows.len() > usize::from(SLOTS) {
        let why = "it names more rows of slots than there are slots; is it a Redis Cluster?";
        return Err(RequestError::broken(why).of(name));
    }
    let decode_row = |row: Value| {
        let row = items(row);
        let slot = |index: usize| u16::try_from(number(row.get(index))).ok();
        let primary = items(row.get(2)?.clone());
        let port = u16::try_from(number(primary.get(1))).ok()?;
        Some(((slot(0)?, slot(1)?), endpoint(&text(primary.first()), port, from)?))
    };
    Ok(rows.into_iter().filter_map(decode_row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::reply::samples::{array, bulk, garbage};

    fn at(host: &str) -> Endpoint {
        Endpoint::Tcp { host: host.to_owned(), port: 1 }
    }

    #[test]
    fn slots_are_not_used_while_a_server_is_suspect() -> Result<(), Box<dyn std::error::Error>> {
        let row = |first, last, host| {
            array([Value::Int(first), Value::Int(last), array([bulk(host), Value::Int(1)])])
        };
        let reply = array([row(0, 8000, "a"), row(8001, 16383, "b"), row(0, 1, ""), Value::Nil]);
        let slots = decode_slots(reply, &at("c"), "store")?;
        assert_eq!(slots.len(), 3);
        assert_eq!(slots[2].1, at("c"));
        let mut cluster = Cluster { slots, suspect: None };
        let key: Key = "foo".parse()?;
        assert_eq!((slot(&key), cluster.primary_of(&key)), (12182, Some(&at("b"))));
        cluster.moved(12182, at("d"));
        assert_eq!(cluster.primary_of(&key), Some(&at("d")));
        cluster.suspect(&at("d"));
        assert_eq!(cluster.primary_of(&key), None);
        Ok(())
    }

    #[test]
    fn garbage_has_no_slots() {
        for reply in garbage() {
            let slots = decode_slots(reply, &at("a"), "store");
            assert!(slots.is_ok_and(|slots| slots.is_empty()));
        }
    }
}
