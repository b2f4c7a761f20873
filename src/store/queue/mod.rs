//! A queue of entries in a cluster: the part that etcd and ZooKeeper have in common.
//!
//! Every holder and waiter of a lock has an entry with an owner, a mode and data. The cluster numbers the entries, and the
//! first ones hold the lock. A store says how it writes, watches and ends an entry.

mod address;
mod break_lock;
mod data;
mod entry;
mod health;

pub use self::address::{ClusterAddress, ClusterKind};
pub use self::break_lock::break_lock;
pub use self::data::{EntryData, Stage};
pub use self::entry::{InQueue, NOT_COUNTED, SeenEntry, busy, has_room, holders, other_mode, status};
pub use self::health::{ClusterChecks, examine};
