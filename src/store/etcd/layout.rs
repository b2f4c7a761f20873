//! The names of the keys: those of `etcdctl lock` and of etcd's concurrency package.

use super::lease_id::LeaseId;
use super::message::{ASCENDING, BY_CREATE_REVISION, DESCENDING, KeyValue, RangeRequest};
use crate::lock::{Breaker, Key, Mode};
use crate::store::queue::{ClusterAddress, InQueue, Stage};

/// Where etcd is, and how to log in there.
pub type EtcdAddress = ClusterAddress<KeyLayout>;

/// Where the keys of the locks are.
///
/// The lock X is the keys `X/<lease>`, in hexadecimal digits; the one that was created first holds the lock. Keys of
/// others than exclusive holders and waiters have a suffix behind a colon: `X/<lease>:shared`, `X/<lease>:permits:3`,
/// and
/// `X/<lease>:broken` of a holder that is to stop. So they stand in one line with `etcdctl lock X`, which looks at
/// nothing but the beginning of a key. Recipes that write the lease in decimal digits stand in that line, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLayout {
    /// The beginning of all keys, before the name of a lock: empty, or it ends with a slash.
    pub prefix: String,
}

/// One place in the queue of a lock, the holder's included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// In full.
    pub name: Vec<u8>,
    pub id: LeaseId,
    pub mode: Mode,
    /// Its place in the queue, and the fencing token.
    pub created: i64,
    /// The lease that the key has now; 0 for none.
    pub lease: i64,
}

const BROKEN: &str = "broken";
/// The number of keys that are asked for at once.
const PAGE: i64 = 1000;

impl KeyLayout {
    /// The key with the name of a lock, which redlock does not use.
    pub fn itself(&self, key: &Key) -> Vec<u8> {
        format!("{}{key}", self.prefix).into_bytes()
    }

    /// The beginning of the keys of a lock.
    pub fn folder(&self, key: &Key) -> Vec<u8> {
        format!("{}{key}/", self.prefix).into_bytes()
    }

    /// The key of an owner.
    pub fn name(&self, key: &Key, id: LeaseId, mode: Mode) -> Vec<u8> {
        let mut name = self.own(key, id);
        if mode != Mode::Exclusive {
            name.extend(format!(":{mode}").bytes());
        }
        name
    }

    /// The key that tells an owner to stop.
    pub fn broken(&self, key: &Key, id: LeaseId) -> Vec<u8> {
        let mut name = self.own(key, id);
        name.extend(format!(":{BROKEN}").bytes());
        name
    }

    /// All keys of an owner, in whatever mode.
    pub fn own_range(&self, key: &Key, id: LeaseId) -> [Vec<u8>; 2] {
        let own = self.own(key, id);
        // The character after the colon.
        let end = [&own[..], b";"].concat();
        [own, end]
    }

    fn own(&self, key: &Key, id: LeaseId) -> Vec<u8> {
        let mut name = self.folder(key);
        name.extend(id.hex().bytes());
        name
    }

    /// The entry of the lock `key` that this key of etcd is; `None` for any other key.
    pub fn entry(&self, key: &Key, kv: &KeyValue) -> Option<Entry> {
        let rest = kv.key.strip_prefix(&self.folder(key)[..])?;
        entry(kv, std::str::from_utf8(rest).ok()?)
    }

    /// The owner of this key, whatever its value is.
    pub fn owner(&self, key: &Key, kv: &KeyValue) -> Option<LeaseId> {
        let rest = kv.key.strip_prefix(&self.folder(key)[..])?;
        LeaseId::parse(std::str::from_utf8(rest).ok()?.split(':').next()?)
    }

    /// The user that broke a lock, if this is the mark of a holder that is to stop.
    pub fn breaker(&self, kv: &KeyValue) -> Option<Breaker> {
        let is_mark = kv.key.strip_suffix(BROKEN.as_bytes()).is_some_and(|own| own.ends_with(b":"));
        let by = is_mark.then(|| String::from_utf8_lossy(&kv.value))?;
        Breaker::from_untrusted(if by.is_empty() { "?" } else { &by })
    }

    /// The lock that this key of etcd belongs to, wherever it is. Other programs have keys of all kinds, so its lease
    /// has to be the one in its name.
    pub fn lock_of(&self, kv: &KeyValue) -> Option<Key> {
        let text = std::str::from_utf8(&kv.key).ok()?.strip_prefix(&self.prefix)?;
        let (key, rest) = text.rsplit_once('/')?;
        let entry = entry(kv, rest)?;
        entry.stage().and(key.parse().ok())
    }
}

fn entry(kv: &KeyValue, rest: &str) -> Option<Entry> {
    let (hex, mode) = rest.split_once(':').map_or((rest, Some(Mode::Exclusive)), |(hex, mode)| {
        (hex, mode.parse().ok().filter(|mode| *mode != Mode::Exclusive))
    });
    let id = LeaseId::parse(hex).or_else(|| LeaseId::parse_decimal(rest, kv.lease))?;
    let mode = mode?;
    Some(Entry { name: kv.key.clone(), id, mode, created: kv.create_revision, lease: kv.lease })
}

impl InQueue for Entry {
    fn mode(&self) -> Mode {
        self.mode
    }
}

impl Entry {
    pub fn stage(&self) -> Option<Stage> {
        self.id.stage(self.lease)
    }

    /// The lease says that it waits in the queue. Its owner has not seen a grant.
    pub fn is_waiting(&self) -> bool {
        self.stage() == Some(Stage::Waiting)
    }
}

/// The end of the range of all keys that begin like this; it is not empty and ends with a slash.
pub fn end_of(folder: &[u8]) -> Vec<u8> {
    let mut end = folder.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// The keys of a lock without values, newest first, up to the one created at `latest` (0 for all).
pub fn page(folder: &[u8], latest: i64) -> RangeRequest {
    RangeRequest {
        key: folder.to_vec(),
        range_end: end_of(folder),
        limit: PAGE,
        sort_order: DESCENDING,
        sort_target: BY_CREATE_REVISION,
        keys_only: true,
        max_create_revision: latest,
    }
}

/// All keys of a lock with their values, oldest first.
pub fn everything(folder: &[u8], limit: i64) -> RangeRequest {
    RangeRequest {
        key: folder.to_vec(),
        range_end: end_of(folder),
        limit,
        sort_order: ASCENDING,
        sort_target: BY_CREATE_REVISION,
        ..RangeRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn kv(key: &str, lease: i64) -> KeyValue {
        KeyValue { key: key.as_bytes().to_vec(), create_revision: 7, value: Vec::new(), lease }
    }

    #[test]
    fn names_are_read_as_they_are_written() -> Result<(), String> {
        let layout = KeyLayout { prefix: "p/".to_owned() };
        let key: Key = "X".parse()?;
        let id = LeaseId::parse("4000000000000010").ok_or("an id")?;
        let permits = Mode::Semaphore(NonZeroU32::MIN);
        for (mode, name) in [
            (Mode::Exclusive, "p/X/4000000000000010"),
            (Mode::Shared, "p/X/4000000000000010:shared"),
            (permits, "p/X/4000000000000010:permits:1"),
        ] {
            assert_eq!(layout.name(&key, id, mode), name.as_bytes());
            let entry = layout.entry(&key, &kv(name, id.waiting())).ok_or("an entry")?;
            assert_eq!((entry.id, entry.mode, entry.is_waiting()), (id, mode, true));
            assert_eq!(layout.lock_of(&kv(name, id.holding())).as_ref(), Some(&key));
            assert_eq!(layout.lock_of(&kv(name, 12)), None);
        }
        for foreign in ["p/X/a/12", "p/X/", "p/X/12:broken", "p/X/12:x", "p/X/lock", "p/Y/12", "X/12"] {
            assert_eq!(layout.entry(&key, &kv(foreign, 0x12)), None, "{foreign}");
        }
        Ok(())
    }
}
