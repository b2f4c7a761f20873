//! A node as requests and answers describe it: its kind, the users that may use it, and the facts about it.

use super::jute::{Malformed, Reader, Writer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ends with the session.
    Ephemeral,
    /// Likewise, with a number behind its name that grows.
    Sequential,
    /// Deleted some time after its last child was.
    Container,
    Persistent,
}

/// The users that may use a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Everybody,
    /// The user who made it; others may read it, so that they can wait for its end.
    Owner,
}

const READ: i32 = 1;
const ALL: i32 = 31;

/// The facts about a node beside its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The transaction that created it.
    pub created: i64,
    /// The version of its data.
    pub version: i32,
    pub children: i32,
    /// The transaction that created or deleted a child last.
    pub children_changed: i64,
    /// It ends with a session.
    pub is_ephemeral: bool,
}

/// A session owns the node. Containers and nodes with a TTL have a number that does not name one (EphemeralType.java).
fn is_of_a_session(owner: i64) -> bool {
    owner != 0 && owner != i64::MIN && owner as u64 >> 56 != 0xff
}

pub fn stat(reader: &mut Reader) -> Result<Stat, Malformed> {
    let created = reader.long()?;
    let (_modified, _created_at, _modified_at) = (reader.long()?, reader.long()?, reader.long()?);
    let version = reader.int()?;
    let (_children_version, _access_version, owner) = (reader.int()?, reader.int()?, reader.long()?);
    let (_length, children, children_changed) = (reader.int()?, reader.int()?, reader.long()?);
    Ok(Stat { created, version, children, children_changed, is_ephemeral: is_of_a_session(owner) })
}

impl Kind {
    pub(super) fn flags(self) -> i32 {
        match self {
            Kind::Persistent => 0,
            Kind::Ephemeral => 1,
            Kind::Sequential => 3,
            Kind::Container => 4,
        }
    }
}

impl Access {
    pub(super) fn write(self, writer: &mut Writer) {
        let rules = match self {
            Access::Everybody => &[(ALL, "world", "anyone")][..],
            Access::Owner => &[(ALL, "auth", ""), (READ, "world", "anyone")],
        };
        writer.int(rules.len() as i32);
        for (permissions, scheme, id) in rules {
            writer.int(*permissions);
            writer.text(scheme);
            writer.text(id);
        }
    }
}
