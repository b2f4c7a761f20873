//! A session: what holds locks in ZooKeeper, and the credentials for it in a node.

use std::time::Duration;

use uuid::{Uuid, uuid};

use crate::lock::{OwnerToken, Request};
use crate::store::queue::EntryData;

/// What has the nodes of a lock. Whoever knows its id and its password can continue it, on any server.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    pub id: i64,
    pub password: [u8; PASSWORD],
    /// How long it lives after it was last heard of: what the server granted, which never changes.
    pub timeout: Duration,
}

pub const PASSWORD: usize = 16;
/// The namespace of the masks.
const MASKS: Uuid = uuid!("b0f4a1de-3a0e-4f0c-8f0d-0a9f3c7be5d2");

impl Session {
    /// The data of a lock that is granted to this session now.
    pub fn data(&self, request: &Request) -> EntryData {
        let mut data = EntryData::granted(request);
        data.session = Some(self.masked(&request.token));
        data
    }

    /// For the data of a node, which everybody may read: who has the owner token finds the password in it.
    ///
    /// It keeps out who makes a mistake. The password of a session follows from its id (`ZooKeeperServer.generatePasswd`), and
    /// everybody sees that, so who means harm is kept out by the permissions of the nodes only.
    pub fn masked(&self, token: &OwnerToken) -> String {
        let password = u128::from_be_bytes(self.password) ^ mask(token);
        format!("{:016x}{password:032x}{:08x}", self.id, self.timeout.as_millis() as u32)
    }

    /// The session of which `text` is the masked form.
    pub fn unmask(text: &str, token: &OwnerToken) -> Option<Session> {
        let number = |from, to| text.get(from..to);
        let id = u64::from_str_radix(number(0, 16)?, 16).ok()?;
        let password = u128::from_str_radix(number(16, 48)?, 16).ok()? ^ mask(token);
        let millis = u32::from_str_radix(number(48, 56)?, 16).ok()?;
        let timeout = Duration::from_millis(millis.into());
        Some(Session { id: id.cast_signed(), password: password.to_be_bytes(), timeout })
    }
}

fn mask(token: &OwnerToken) -> u128 {
    Uuid::new_v5(&MASKS, token.expose().as_bytes()).as_u128()
}

#[test]
fn the_owner_token_opens_a_session() {
    let (token, other) = (OwnerToken::random(), OwnerToken::random());
    let session = Session { id: -3, password: *b"0123456789abcdef", timeout: Duration::from_millis(4000) };
    let masked = session.masked(&token);
    assert!(Session::unmask(&masked, &token) == Some(session.clone()));
    assert!(Session::unmask(&masked, &other) != Some(session));
    for broken in ["", "0", "x".repeat(56).as_str(), "é".repeat(28).as_str(), &masked[..55]] {
        assert!(Session::unmask(broken, &token).is_none());
    }
}
