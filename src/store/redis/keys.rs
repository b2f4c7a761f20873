//! The names of what redlock keeps in Redis for one key.

use crate::lock::Key;

#[derive(Clone)]
pub struct KeyNames {
    pub lock: String,
    pub state: String,
    pub lease: String,
    pub queue: String,
    pub holders: String,
    pub asked: String,
    pub claimed: String,
    /// The beginning of the waiters' channels; the owner token follows.
    pub channel: String,
}

impl KeyNames {
    /// All have the hash tag of the key, so that they are in one slot of a cluster.
    pub fn of(key: &Key) -> KeyNames {
        let key = key.as_str();
        let tag = hash_tag(key);
        let side_key = |kind| format!("redlock:{{{tag}}}:{kind}:{key}");
        KeyNames {
            lock: key.to_owned(),
            // It stays for a day, so a key that is the hash tag stands there once.
            state: if tag == key { format!("redlock:{{{tag}}}:state") } else { side_key("state") },
            lease: side_key("lease"),
            queue: side_key("queue"),
            holders: side_key("holders"),
            asked: side_key("asked"),
            claimed: side_key("claimed"),
            channel: format!("redlock:{{{tag}}}:wake:"),
        }
    }

    /// The names of keys, in the order in which the scripts take them.
    pub fn into_all(self) -> [String; 7] {
        [self.lock, self.state, self.lease, self.queue, self.holders, self.asked, self.claimed]
    }

    /// The keys, each with the type of what is to be there.
    pub fn types(&self) -> [(&str, &'static str); 7] {
        [
            (&self.lock, "string"),
            (&self.state, "hash"),
            (&self.lease, "string"),
            (&self.queue, "zset"),
            (&self.holders, "hash"),
            (&self.asked, "hash"),
            (&self.claimed, "list"),
        ]
    }
}

/// The index: the scripts enter each lock that is held or waited for. No key of a lock has this name, as a hash tag is never
/// empty.
pub const INDEX: &str = "redlock:{}:locks";

/// The list of the last runs.
pub fn history_name(key: &Key) -> String {
    let (key, tag) = (key.as_str(), hash_tag(key.as_str()));
    format!("redlock:{{{tag}}}:history:{key}")
}

/// The last run that was a success.
pub fn success_name(key: &Key) -> String {
    let (key, tag) = (key.as_str(), hash_tag(key.as_str()));
    format!("redlock:{{{tag}}}:success:{key}")
}

pub fn key_of_history(name: &str) -> Option<Key> {
    let (_, after) = name.strip_prefix("redlock:{")?.split_once('}')?;
    after.strip_prefix(":history:").or_else(|| after.strip_prefix(":success:"))?.parse().ok()
}

pub fn slot(key: &Key) -> u16 {
    slot_of(hash_tag(key.as_str()).as_bytes())
}

pub fn key_of(name: &str) -> Option<Key> {
    let rest = name.strip_prefix("redlock:{")?;
    let (tag, after) = rest.split_once('}')?;
    if after == ":state" {
        return tag.parse().ok();
    }
    after.strip_prefix(":state:").or_else(|| after.strip_prefix(":queue:"))?.parse().ok()
}

/// A text that, in braces, puts a key into the same slot as `key` itself.
///
/// That is the part between the first `{` and the next `}` when there is one, else the whole key. A
/// whole key that contains `}` cannot stand in braces; then it is the least number in the same slot.
/// See "Hash tags" in the Redis Cluster specification.
fn hash_tag(key: &str) -> String {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    match tag {
        Some(tag) if !tag.is_empty() => tag.to_owned(),
        _ if !key.contains('}') => key.to_owned(),
        _ => {
            let slot = slot_of(key.as_bytes());
            let mut numbers = (0u32..).map(|number| number.to_string());
            // Every slot is met by a number below 2^20.
            numbers.find(|number| slot_of(number.as_bytes()) == slot).unwrap_or_default()
        }
    }
}

/// CRC-16/XMODEM of the text modulo 16384, as Redis Cluster defines it.
pub fn slot_of(bytes: &[u8]) -> u16 {
    let crc = bytes.iter().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 }
        })
    });
    crc % 16384
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The slot of a key as a Redis Cluster server computes it.
    fn server_slot(key: &str) -> u16 {
        let bytes = key.as_bytes();
        if let Some(open) = bytes.iter().position(|byte| *byte == b'{')
            && let Some(length) = bytes[open + 1..].iter().position(|byte| *byte == b'}')
            && length > 0
        {
            return slot_of(&bytes[open + 1..open + 1 + length]);
        }
        slot_of(bytes)
    }

    #[test]
    fn the_checksum_is_that_of_the_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31C3);
    }

    proptest! {
        #[test]
        fn side_keys_share_the_slot_and_name_the_key(text in "([{}a-c:é]{1,12}|\\PC{1,40})") {
            prop_assume!(text.parse::<Key>().is_ok());
            let key: Key = text.parse().map_err(TestCaseError::fail)?;
            let names = KeyNames::of(&key);
            prop_assert_eq!(slot(&key), server_slot(&names.lock));
            for name in names.clone().into_all() {
                prop_assert_eq!(server_slot(&name), server_slot(&names.lock));
            }
            prop_assert_eq!(key_of(&names.state), Some(key.clone()));
            prop_assert_eq!(key_of(&names.queue), Some(key));
        }
    }
}
