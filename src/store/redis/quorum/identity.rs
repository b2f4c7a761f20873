//! The check that the members are independent servers.

use redis::{Cmd, InfoDict, Value};

use crate::lock::{Result, StoreError};
use crate::store::redis::reply::text;

/// A server's word on itself, empty for a user that may not call INFO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    run_id: Option<String>,
    /// The primary of a replica.
    primary: Option<String>,
}

/// Two, because servers before 7.0 answer about one section at a time.
pub fn questions() -> [Cmd; 2] {
    ["server", "replication"].map(|section| redis::cmd("INFO").arg(section).take())
}

impl Identity {
    /// Reads the answers to [`questions`]; what they do not say is left open.
    pub fn of(answers: &[Value]) -> Identity {
        let sections: Vec<InfoDict> =
            answers.iter().map(|answer| InfoDict::new(&text(Some(answer)))).collect();
        let field = |name: &str| sections.iter().find_map(|section| section.get::<String>(name));
        let primary = || Some(format!("{}:{}", field("master_host")?, field("master_port")?));
        let is_replica = field("role").is_some_and(|role| role == "slave");
        let primary = is_replica.then(|| primary().unwrap_or_else(|| "another server".to_owned()));
        Identity { run_id: field("run_id"), primary }
    }
}

/// An error when these servers cannot be a quorum. By member: its name, and what it said if it did.
pub fn expect_independent(members: &[(String, Option<Identity>)]) -> Result<()> {
    for (place, (name, identity)) in members.iter().enumerate() {
        let Some(identity) = identity else { continue };
        if let Some(primary) = &identity.primary {
            let why = format!(
                "it is a replica of {primary}, which counts no vote of its own; a quorum is of independent servers"
            );
            return Err(StoreError::Unusable { store: name.clone(), why });
        }
        let same = |other: &&(String, Option<Identity>)| {
            identity.run_id.is_some() && other.1.as_ref().is_some_and(|other| other.run_id == identity.run_id)
        };
        if let Some((other, _)) = members[..place].iter().find(same) {
            let store = format!("{other} and {name}");
            let why = "they are one server, which cannot vote twice; name each server once".to_owned();
            return Err(StoreError::Unusable { store, why });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(info: &str) -> Option<Identity> {
        Some(Identity::of(&[Value::BulkString(info.as_bytes().to_vec())]))
    }

    #[test]
    fn one_server_under_two_names_and_a_replica_are_refused() {
        let members = |second, third| {
            let named = |name: &str, identity| (name.to_owned(), identity);
            [named("a", server("# Server\r\nrun_id:1\r\n")), named("b", second), named("c", third)]
        };
        let refused = |second, third| {
            expect_independent(&members(second, third))
                .map_err(|error| error.to_string())
                .err()
                .unwrap_or_default()
        };
        assert_eq!(refused(server("run_id:2\r\nrole:master\r\n"), None), "");
        // Not allowed to ask.
        assert_eq!(refused(server("NOPERM"), server("NOPERM")), "");
        assert!(refused(None, server("run_id:1\r\n")).starts_with("a and c cannot be used: "));
        let replica = server("run_id:3\r\nrole:slave\r\nmaster_host:h\r\nmaster_port:1\r\n");
        assert!(refused(replica, None).starts_with("b cannot be used: it is a replica of h:1"));
    }
}
