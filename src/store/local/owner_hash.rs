//! The owner of a lease.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use uuid::{Uuid, uuid};

use crate::lock::OwnerToken;

/// The owner of a lease, as it stands in the file: a hash of the owner token. A reader of the file cannot release a
/// lock with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnerHash(Uuid);

/// Drawn by lot.
const OWNERS: Uuid = uuid!("0b35ad92-4c80-4b5e-a3b3-9f4c1f9f6a52");

impl OwnerHash {
    /// SHA-1, see RFC 9562, section 5.5. Its known weakness, collisions, helps nobody here: the
    /// token has 122 random bits, and whoever could choose it has it.
    pub fn of(token: &OwnerToken) -> OwnerHash {
        OwnerHash(Uuid::new_v5(&OWNERS, token.expose().as_bytes()))
    }
}

impl ToSql for OwnerHash {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_bytes().as_slice().into())
    }
}

impl FromSql for OwnerHash {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<OwnerHash> {
        Uuid::from_slice(value.as_blob()?).map(OwnerHash).map_err(|error| FromSqlError::Other(error.into()))
    }
}
