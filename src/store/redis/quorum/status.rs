//! The status of locks, put together from what the members know.

use std::collections::{BTreeMap, HashMap};
use std::mem::discriminant;
use std::time::Duration;

use super::majority::{Reply, answers, count, is_pending, is_quorate, majority};
use crate::lock::{Broken, FencingToken, Holder, Key, LockStatus, Metadata};

/// The answers to come cannot change who holds what with what fencing token.
pub fn is_settled(replies: &[Reply<Vec<LockStatus>>]) -> bool {
    let (needed, out) = (majority(replies.len()), replies.iter().filter(|reply| is_pending(reply)).count());
    let mut known_to: HashMap<(&Key, Option<&Metadata>, Option<FencingToken>), usize> = HashMap::new();
    for lock in answers(replies).flatten() {
        for holder in &lock.holders {
            *known_to.entry((&lock.key, holder.metadata.as_ref(), holder.fence)).or_default() += 1;
        }
    }
    // A holder that no member of a majority knows has no majority.
    is_quorate(replies) && known_to.values().all(|count| *count >= needed || count + out < needed)
}

/// Puts together what the members know of these keys, or of all keys that one of them knows. A holder has a majority.
pub fn status(keys: &[Key], replies: &[Reply<Vec<LockStatus>>]) -> Vec<LockStatus> {
    let needed = majority(replies.len());
    let mut known: BTreeMap<&Key, Vec<&LockStatus>> = BTreeMap::new();
    for lock in answers(replies).flatten() {
        known.entry(&lock.key).or_default().push(lock);
    }
    let status = |key: &Key| merged(key, known.get(key).map_or(&[], Vec::as_slice), needed);
    match keys {
        [] => known.keys().map(|key| status(key)).collect(),
        keys => keys.iter().map(status).collect(),
    }
}

fn merged(key: &Key, locks: &[&LockStatus], needed: usize) -> LockStatus {
    let modes: Vec<_> = locks.iter().filter(|lock| !lock.holders.is_empty()).map(|lock| lock.mode).collect();
    let members_in = |mode| modes.iter().filter(|other| **other == mode).count();
    let mode = modes.iter().copied().max_by_key(|mode| members_in(*mode)).unwrap_or_default();
    let mut seen: Vec<(Option<&Metadata>, Vec<&Holder>)> = Vec::new();
    for holder in locks.iter().flat_map(|lock| &lock.holders) {
        match seen.iter_mut().find(|(metadata, _)| *metadata == holder.metadata.as_ref()) {
            Some((_, same)) => same.push(holder),
            None => seen.push((holder.metadata.as_ref(), vec![holder])),
        }
    }
    let held = seen.into_iter().filter(|(_, same)| same.len() >= needed);
    let mut holders: Vec<Holder> = held.map(|(_, same)| agreed(&same, needed)).collect();
    holders.sort_by_key(|holder| holder.fence);
    LockStatus { key: key.clone(), mode, holders, waiters: Vec::new() }
}

fn agreed(same: &[&Holder], needed: usize) -> Holder {
    let mut left: Vec<Duration> = same.iter().map(|held| held.left.unwrap_or(Duration::MAX)).collect();
    left.sort();
    let left = left[left.len().saturating_sub(needed)];
    // A member may have granted more often than the others, or missed that the token was raised.
    let fences: Vec<FencingToken> = same.iter().filter_map(|held| held.fence).collect();
    let count = |fence: &FencingToken| fences.iter().filter(|other| *other == fence).count();
    Holder {
        metadata: same.first().and_then(|held| held.metadata.clone()),
        fence: fences.iter().copied().max_by_key(|fence| (count(fence), *fence)),
        since: same.iter().filter_map(|held| held.since).min(),
        left: (left != Duration::MAX).then_some(left),
        hides_left: false,
        is_kept: same.iter().filter(|held| held.is_kept).count() >= needed,
        broken: same.iter().find_map(|held| held.broken.clone()),
    }
}

/// The answer of most members, where a majority answered.
pub fn broken(replies: &mut [Reply<Broken>]) -> Option<Broken> {
    if !is_quorate(replies) {
        return None;
    }
    let members_that = |one: &Broken| count(replies, |other| discriminant(other) == discriminant(one));
    // In a tie, the answer that names the holder that was told.
    let foremost = answers(replies).max_by_key(|one| (members_that(one), matches!(one, Broken::Told(_))));
    let foremost = discriminant(foremost?);
    let mut same = replies.iter_mut().filter_map(|reply| match reply {
        Reply::Answer(broken) if discriminant(broken) == foremost => Some(broken),
        _ => None,
    });
    same.next().map(|broken| std::mem::replace(broken, Broken::Free))
}
