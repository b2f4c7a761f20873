//! What the answers of the servers mean together. More than half of all servers decide, also of those that
//! do not answer.

use std::mem::discriminant;
use std::time::Duration;

use super::member::{Returned, Told};
use crate::lock::{Broken, Busy, FencingToken, Holding, Key, LockStatus, Metadata, Renewal, StoreError};

/// What became of a question to one server.
#[derive(Debug)]
pub enum Reply<T> {
    Unasked,
    Pending,
    Answer(T),
    Failure(StoreError),
}

pub fn is_pending<T>(reply: &Reply<T>) -> bool {
    matches!(reply, Reply::Pending)
}

/// As many servers are a majority.
pub fn majority(members: usize) -> usize {
    members / 2 + 1
}

pub fn answers<T>(replies: &[Reply<T>]) -> impl Iterator<Item = &T> {
    replies.iter().filter_map(|reply| match reply {
        Reply::Answer(answer) => Some(answer),
        _ => None,
    })
}

/// How many answered so.
pub fn votes<T>(replies: &[Reply<T>], matches: impl Fn(&T) -> bool) -> usize {
    answers(replies).filter(|answer| matches(answer)).count()
}

/// Whether the answers to come cannot change that a majority answered so, or that none can.
pub fn is_settled<T>(replies: &[Reply<T>], matches: impl Fn(&T) -> bool) -> bool {
    let (votes, out) = (votes(replies, matches), replies.iter().filter(|reply| is_pending(reply)).count());
    votes >= majority(replies.len()) || votes + out < majority(replies.len())
}

/// Whether a majority answered, whatever it said.
pub fn is_quorate<T>(replies: &[Reply<T>]) -> bool {
    answers(replies).count() >= majority(replies.len())
}

/// Why no majority answered.
pub fn failure<T>(replies: Vec<Reply<T>>, names: &[String]) -> StoreError {
    let (members, needed) = (replies.len(), majority(replies.len()));
    let (mut answered, mut may_answer, mut reasons, mut refusals) = (0, 0, Vec::new(), Vec::new());
    for (reply, name) in replies.into_iter().zip(names) {
        match reply {
            Reply::Answer(_) => answered += 1,
            Reply::Failure(StoreError::Unreachable { why, transient, .. }) => {
                may_answer += usize::from(transient);
                reasons.push(format!("{name}: {why}"));
            }
            Reply::Failure(StoreError::Interrupted) | Reply::Pending | Reply::Unasked => {
                reasons.push(format!("{name}: no answer in time"));
            }
            Reply::Failure(refusal) => refusals.push(refusal),
        }
    }
    // Without those that refuse there is no majority, whatever becomes of the others.
    let refused = refusals.len();
    if members - refused < needed
        && let Some(refusal) = refusals.pop()
    {
        return refusal;
    }
    reasons.extend(refusals.iter().map(ToString::to_string));
    StoreError::Unreachable {
        store: "a majority".to_owned(),
        why: format!("{answered} of {members} servers answered; {}", reasons.join("; ")),
        transient: answered + may_answer >= needed,
    }
}

/// What a take came to.
#[derive(Debug)]
pub enum Taken {
    /// The fencing tokens: for each lock the highest.
    Granted(Vec<FencingToken>),
    /// One holder has a majority, for this much longer.
    Held { busy: Busy, free_in: Duration, by_redlock: bool },
    /// Nobody is seen to have a majority.
    Split(Busy),
}

/// Nothing is said about a take without a majority of answers.
pub fn taken(replies: &[Reply<Told>]) -> Option<Taken> {
    let needed = majority(replies.len());
    let granted: Vec<&Vec<FencingToken>> = answers(replies)
        .filter_map(|told| match told {
            Told::Granted(fences) => Some(fences),
            Told::Busy(_) => None,
        })
        .collect();
    if granted.len() >= needed {
        let locks = granted.iter().map(|fences| fences.len()).min().unwrap_or(0);
        let highest = |lock: usize| granted.iter().map(|fences| fences[lock]).max();
        return Some(Taken::Granted((0..locks).filter_map(highest).collect()));
    }
    if !is_quorate(replies) {
        return None;
    }
    let busy: Vec<&Busy> = answers(replies)
        .filter_map(|told| match told {
            Told::Busy(busy) => Some(&**busy),
            Told::Granted(_) => None,
        })
        .collect();
    let who = |busy: &Busy| (busy.key.clone(), busy.holder.as_ref().and_then(|held| held.metadata.clone()));
    let of = |one: &Busy| busy.iter().filter(|other| who(other) == who(one)).count();
    let foremost = busy.iter().max_by_key(|one| of(one))?;
    if of(foremost) < needed {
        return Some(Taken::Split((*foremost).clone()));
    }
    // Free is what a majority could grant.
    let left = |busy: &&Busy| busy.holder.as_ref().and_then(|held| held.left).unwrap_or(Duration::MAX);
    let mut free_in = vec![Duration::ZERO; granted.len()];
    free_in.extend(busy.iter().map(left));
    free_in.resize(replies.len(), Duration::MAX);
    free_in.sort();
    let by_redlock = foremost.holder.as_ref().is_some_and(|held| held.metadata.is_some());
    Some(Taken::Held { busy: (*foremost).clone(), free_in: free_in[needed - 1], by_redlock })
}

/// What a renewal came to; nothing is known where neither a majority was extended nor is it sure that none can
/// be.
pub fn renewed(replies: &mut [Reply<Renewal>]) -> Option<Renewal> {
    let needed = majority(replies.len());
    let extended = votes(replies, |renewal| matches!(renewal, Renewal::Extended));
    let healed = votes(replies, |renewal| matches!(renewal, Renewal::Healed));
    let released = votes(replies, |renewal| matches!(renewal, Renewal::Released));
    let answered = answers(replies).count();
    if extended >= needed {
        Some(Renewal::Extended)
    } else if extended + healed >= needed {
        Some(Renewal::Healed)
    } else if replies.len() - (answered - extended - healed) >= needed {
        None
    } else {
        let holders = replies.iter_mut().filter_map(|reply| match reply {
            Reply::Answer(Renewal::Lost(holder)) => holder.take(),
            _ => None,
        });
        // A lock that was broken says it best.
        match holders.max_by_key(|holder| (holder.broken, holder.metadata.is_some())) {
            None if released > 0 => Some(Renewal::Released),
            holder => Some(Renewal::Lost(holder)),
        }
    }
}

/// Whether a renewal is decided: one that was healed may turn out to have been held by a majority all the time.
pub fn is_renewed(replies: &[Reply<Renewal>]) -> bool {
    let is = |renewal: &Renewal| matches!(renewal, Renewal::Extended);
    let is_held = |renewal: &Renewal| matches!(renewal, Renewal::Extended | Renewal::Healed);
    is_settled(replies, is_held)
        && (is_settled(replies, is) || votes(replies, is_held) < majority(replies.len()))
}

/// Whether the lock was given back; nothing is known without a majority of answers.
pub fn released(replies: &[Reply<Returned>]) -> Option<bool> {
    let returned = votes(replies, |returned| *returned == Returned::Confirmed(true));
    let answered = votes(replies, |returned| *returned != Returned::Sent);
    let not_held = answered - returned;
    if returned >= majority(replies.len()) {
        Some(true)
    } else if not_held > replies.len() - majority(replies.len()) {
        Some(false)
    } else {
        (answered >= majority(replies.len())).then_some(returned > 0)
    }
}

/// What is left of a lease on a majority: see [`crate::lock::Store::check`].
pub fn left(replies: &[Reply<Option<Duration>>]) -> Option<Option<Duration>> {
    let needed = majority(replies.len());
    let mut left: Vec<Duration> = answers(replies).copied().flatten().collect();
    left.sort();
    if left.len() >= needed {
        return Some(Some(left[left.len() - needed]));
    }
    let lacking = votes(replies, Option::is_none);
    (lacking > replies.len() - needed).then_some(None)
}

/// What the servers know of these keys, or of all of which one knows something. A holder is one on a majority.
pub fn status(keys: &[Key], replies: Vec<Reply<Vec<LockStatus>>>) -> Vec<LockStatus> {
    let needed = majority(replies.len());
    let mut known: Vec<LockStatus> = Vec::new();
    for reply in replies {
        if let Reply::Answer(locks) = reply {
            known.extend(locks);
        }
    }
    let mut keys = keys.to_vec();
    if keys.is_empty() {
        keys.extend(known.iter().map(|lock| lock.key.clone()));
        keys.sort();
        keys.dedup();
    }
    let merged = |key: Key| {
        let of_key = || known.iter().filter(|lock| lock.key == key);
        let kind = of_key().filter(|lock| !lock.holders.is_empty()).map(|lock| lock.kind);
        let kinds: Vec<_> = kind.collect();
        let count = |kind| kinds.iter().filter(|other| **other == kind).count();
        let kind = kinds.iter().copied().max_by_key(|kind| count(*kind)).unwrap_or_default();
        let mut seen: Vec<(Option<&Metadata>, Vec<&Holding>)> = Vec::new();
        for holder in of_key().flat_map(|lock| &lock.holders) {
            match seen.iter_mut().find(|(who, _)| *who == holder.metadata.as_ref()) {
                Some((_, same)) => same.push(holder),
                None => seen.push((holder.metadata.as_ref(), vec![holder])),
            }
        }
        let held = seen.into_iter().filter(|(_, same)| same.len() >= needed);
        let mut holders: Vec<Holding> = held.map(|(_, same)| agreed(&same, needed)).collect();
        holders.sort_by_key(|holder| holder.fence);
        LockStatus { key, kind, holders, waiters: Vec::new() }
    };
    keys.into_iter().map(merged).collect()
}

/// One holder, as a majority knows him.
fn agreed(same: &[&Holding], needed: usize) -> Holding {
    let mut left: Vec<Duration> = same.iter().map(|held| held.left.unwrap_or(Duration::MAX)).collect();
    left.sort();
    let left = left[left.len().saturating_sub(needed)];
    Holding {
        metadata: same.first().and_then(|held| held.metadata.clone()),
        fence: same.iter().filter_map(|held| held.fence).max(),
        since: same.iter().filter_map(|held| held.since).min(),
        left: (left != Duration::MAX).then_some(left),
        broken: same.iter().any(|held| held.broken),
    }
}

/// What most servers did, where a majority did anything.
pub fn broken(replies: &mut [Reply<Broken>]) -> Option<Broken> {
    if !is_quorate(replies) {
        return None;
    }
    let count = |one: &Broken| votes(replies, |other| discriminant(other) == discriminant(one));
    // Of as many, the one that says who was told.
    let foremost = answers(replies).max_by_key(|one| (count(one), matches!(one, Broken::Told(_))));
    let foremost = discriminant(foremost?);
    let mut same = replies.iter_mut().filter_map(|reply| match reply {
        Reply::Answer(broken) if discriminant(broken) == foremost => Some(broken),
        _ => None,
    });
    same.next().map(|broken| std::mem::replace(broken, Broken::Free))
}
