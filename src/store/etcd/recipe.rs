//! Keys of other recipes with the name of a lock: redlock shares no lock with them in silence.

use super::calls::EtcdCalls;
use super::layout::KeyLayout;
use super::message::{Compare, KeyValue, RangeRequest, RangeResponse, TxnOperation};
use crate::lock::{Key, StoreError, Timeout};
use crate::sanitize::sanitize;
use crate::store::queue::EntryData;

/// A key with a lease below the one of a lock that is not a place in its queue.
pub struct OtherRecipe {
    name: Vec<u8>,
    /// It is one level deeper, where a lock of redlock with a longer name has its places, too. Its value tells them apart.
    may_be_a_lock: bool,
}

/// Go's package of recipes keeps the keys of its locks below these.
const FOLDERS: [&str; 3] = ["read", "write", "waiters"];

impl OtherRecipe {
    /// Another recipe has this key; `None` for a place in the queue of the lock, for another lock, and for a key without a lease.
    pub fn find(layout: &KeyLayout, key: &Key, kv: &KeyValue) -> Option<OtherRecipe> {
        let rest = kv.key.strip_prefix(&layout.folder(key)[..]).filter(|_| kv.lease != 0)?;
        let may_be_a_lock = rest.contains(&b'/');
        let is_other = match may_be_a_lock {
            true => std::str::from_utf8(rest).ok().and_then(|rest| rest.split_once('/')).is_some_and(
                |(folder, name)| {
                    FOLDERS.contains(&folder) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
                },
            ),
            false => layout.entry(key, kv).is_none() && layout.owner(key, kv).is_none(),
        };
        is_other.then(|| OtherRecipe { name: kv.key.clone(), may_be_a_lock })
    }
}

/// The key with the name of the lock is not there, or nobody's lease is on it.
pub fn has_no_lease(layout: &KeyLayout, key: &Key) -> Compare {
    Compare::leased(layout.itself(key), 0)
}

/// The key with the name of the lock.
pub fn itself(layout: &KeyLayout, key: &Key) -> RangeRequest {
    RangeRequest { key: layout.itself(key), keys_only: true, ..RangeRequest::default() }
}

/// For a transaction that found that [`has_no_lease`] is not so.
pub fn read_itself(layout: &KeyLayout, key: &Key) -> TxnOperation {
    TxnOperation::range(itself(layout, key))
}

impl EtcdCalls {
    /// Refuses a lock whose name is that of a key with a lease.
    pub fn refuse_itself<'a>(
        &self,
        key: &Key,
        read: impl IntoIterator<Item = &'a KeyValue>,
    ) -> Result<(), StoreError> {
        let name = self.layout.itself(key);
        let leased = read.into_iter().find(|kv| kv.key == name && kv.lease != 0);
        leased.map_or(Ok(()), |kv| Err(self.not_a_lock(key, &kv.key)))
    }

    /// Refuses a lock beside which another recipe has keys.
    pub fn refuse_others(
        &mut self,
        key: &Key,
        others: &[OtherRecipe],
        timeout: &Timeout,
    ) -> Result<(), StoreError> {
        if let Some(other) = others.iter().find(|other| !other.may_be_a_lock) {
            return Err(self.not_a_lock(key, &other.name));
        }
        // The keys in one folder belong to one recipe.
        let Some(other) = others.last() else { return Ok(()) };
        let request = RangeRequest { key: other.name.clone(), ..RangeRequest::default() };
        let RangeResponse { kvs, .. } = self.range(request, timeout)?;
        match kvs.first() {
            Some(kv) if EntryData::from_untrusted(&kv.value).is_none() => Err(self.not_a_lock(key, &kv.key)),
            _ => Ok(()),
        }
    }

    fn not_a_lock(&self, key: &Key, found: &[u8]) -> StoreError {
        let found = sanitize(&String::from_utf8_lossy(found));
        StoreError::NotALock {
            store: self.members.name().to_owned(),
            key: key.clone(),
            found: format!("a key '{found}' with a lease of another program there"),
        }
    }
}

#[test]
fn places_and_other_locks_are_no_other_recipe() -> Result<(), String> {
    let layout = KeyLayout { prefix: String::new() };
    let key: Key = "X".parse()?;
    let find = |name: &str, lease| {
        let kv = KeyValue { key: name.into(), create_revision: 7, value: Vec::new(), lease };
        OtherRecipe::find(&layout, &key, &kv).map(|other| other.may_be_a_lock)
    };
    for place in ["X/4000000000000010", "X/4000000000000010:broken", "X/7587891234567890123", "X/a/12", "Y/a"]
    {
        assert_eq!(find(place, 7587891234567890123), None, "{place}");
    }
    assert_eq!(
        (find("X/name", 0), find("X/name", 7), find("X/7587891234567890123", 7)),
        (None, Some(false), Some(false))
    );
    assert_eq!((find("X/read/1764210000000000000", 7), find("X/write/a:shared", 7)), (Some(true), None));
    Ok(())
}
