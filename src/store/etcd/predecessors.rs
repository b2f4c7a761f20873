//! Who stands before a waiter, as far as it has to know.

use std::collections::HashSet;

use super::calls::EtcdCalls;
use super::layout::{Entry, end_of};
use super::message::{DELETE, WatchResponse};
use crate::lock::{Mode, Request};
use crate::store::queue::EntryData;

/// Whose end is waited for.
#[derive(Default)]
pub struct Predecessors {
    pub key: Vec<u8>,
    pub range_end: Vec<u8>,
    /// They were looked at at this revision of the store.
    pub revision: i64,
    pub names: HashSet<Vec<u8>>,
    /// As many of them may be left.
    pub room: usize,
    /// We wait for nobody else, nor ever will: who comes later stands behind us.
    pub is_last: bool,
    /// It was put anew, as when it is granted the lock: perhaps nobody else stands before us any more.
    pub may_be_last: bool,
}

impl Predecessors {
    /// One entry, where the end of that is needed for the grant in any case: the others are not to be woken by each end.
    /// Of a semaphore any end counts.
    pub fn before(request: &Request, calls: &EtcdCalls, before: &[Entry], revision: i64) -> Predecessors {
        let one = |entry: &Entry, is_last| Predecessors {
            key: entry.name.clone(),
            names: HashSet::from([entry.name.clone()]),
            is_last,
            revision,
            ..Predecessors::default()
        };
        let is_last = before.len() == 1;
        match request.mode {
            Mode::Semaphore(permits) => {
                let folder = calls.layout.folder(&request.key);
                let names = before.iter().map(|entry| entry.name.clone()).collect();
                let (range_end, room) = (end_of(&folder), permits.get() as usize - 1);
                Predecessors { key: folder, range_end, revision, names, room, ..Predecessors::default() }
            }
            Mode::Exclusive => before.last().map(|last| one(last, is_last)).unwrap_or_default(),
            Mode::Shared => {
                let writer = before.iter().rfind(|entry| entry.mode == Mode::Exclusive);
                writer.map(|writer| one(writer, is_last)).unwrap_or_default()
            }
        }
    }

    pub fn note(&mut self, answer: &WatchResponse) {
        for (kind, kv) in answer.events.iter().filter_map(|event| Some((event.kind, event.kv.as_ref()?))) {
            if kind == DELETE {
                self.names.remove(&kv.key);
            } else if EntryData::from_untrusted(&kv.value).is_some_and(|value| value.alone) {
                self.is_last = true;
            } else {
                self.may_be_last = true;
            }
        }
    }

    /// Looks whether anybody else is among the entries that stand before us now.
    pub fn confirm_last(&mut self, mut before: impl Iterator<Item = Entry>) {
        self.is_last = before.all(|entry| self.names.contains(&entry.name));
    }

    pub fn is_over(&self) -> bool {
        self.names.len() <= self.room
    }
}
