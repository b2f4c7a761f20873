//! The leases of a lock, whose ids follow from the owner token.

use uuid::{Uuid, uuid};

use crate::lock::{Key, OwnerToken};
use crate::store::queue::Stage;

/// The lease of a holder: its id in etcd, which is also in the name of the key.
///
/// It is a hash of the owner token and the key. So every process that has the token finds the lease, without anything
/// that is kept beside it; a request whose answer was lost can be repeated, or cancelled by revoking a lease that may
/// not be there yet. A late transaction finds no lease, unless a late grant makes that lease again; then the key lasts
/// for one TTL at most. A late revocation would end the lease of a later grant with the same token: leases are revoked only
/// at the end of a lock or of a call.
///
/// The token itself is nowhere in etcd, where everybody may read it. Several locks of one request have a lease each, as they
/// can be released and broken one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId(i64);

/// Drawn by lot.
const LEASES: Uuid = uuid!("6f1d1c9e-9c43-4f3c-8f57-0f5d3f8b8a11");
const STAGE: i64 = 3;
const WAITING: i64 = 1;
const KEPT: i64 = 2;
/// Of 16 hexadecimal digits: no id is the beginning of another. Positive, as those of etcd.
const LEAST: i64 = 1 << 62;

impl LeaseId {
    pub fn of(token: &OwnerToken, key: &Key) -> LeaseId {
        let text = format!("{}\0{key}", token.expose());
        let (high, _) = Uuid::new_v5(&LEASES, text.as_bytes()).as_u64_pair();
        LeaseId((high as i64 & i64::MAX & !STAGE) | LEAST)
    }

    /// The one in the name of a key, `%x` of Go.
    pub fn parse(hex: &str) -> Option<LeaseId> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        hex.bytes().all(is_hex).then(|| i64::from_str_radix(hex, 16).ok().map(LeaseId)).flatten()
    }

    /// The one that other recipes write in decimal digits. These say something only where it is the lease of the key.
    pub fn parse_decimal(digits: &str, lease: i64) -> Option<LeaseId> {
        (lease > 0 && digits == lease.to_string()).then_some(LeaseId(lease))
    }

    /// The id of the holder's lease.
    pub fn holding(self) -> i64 {
        self.0
    }

    pub fn waiting(self) -> i64 {
        self.0 | WAITING
    }

    pub fn kept(self) -> i64 {
        self.0 | KEPT
    }

    pub fn hex(self) -> String {
        format!("{:x}", self.0)
    }

    /// What it means that a key with this id in its name has this lease; `None` for a key that is no lock's.
    pub fn stage(self, lease: i64) -> Option<Stage> {
        match lease {
            lease if lease == self.0 => Some(Stage::Holding),
            lease if lease == self.waiting() => Some(Stage::Waiting),
            lease if lease == self.kept() => Some(Stage::Kept),
            _ => None,
        }
    }
}

#[test]
fn an_id_follows_from_the_token_and_the_key() -> Result<(), String> {
    let token = OwnerToken::random();
    let [a, b]: [Key; 2] = ["a".parse()?, "b".parse()?];
    let id = LeaseId::of(&token, &a);
    assert_eq!(id, LeaseId::of(&token, &a));
    assert_ne!(id, LeaseId::of(&token, &b));
    assert_ne!(id, LeaseId::of(&OwnerToken::random(), &a));
    assert_eq!((id.hex().len(), LeaseId::parse(&id.hex())), (16, Some(id)));
    assert_eq!(id.stage(id.waiting()), Some(Stage::Waiting));
    assert_eq!(id.stage(id.holding() ^ (1 << 40)), None);
    assert_eq!(LeaseId::parse("694d7a1b2c3d4e5f").map(LeaseId::hex).as_deref(), Some("694d7a1b2c3d4e5f"));
    for text in ["", "5A", "x1", "-1", "+1", "fffffffffffffffff"] {
        assert_eq!(LeaseId::parse(text), None, "{text}");
    }
    Ok(())
}
