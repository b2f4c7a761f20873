//! The answers of the members, judged together: a majority of all members decides, those that do not answer included.

use std::time::Duration;

use super::member::{Released, Vote};
use crate::lock::{Busy, FencingToken, ReleaseOutcome, Renewal, StoreError};

/// The state of a question to one member.
#[derive(Debug)]
pub enum Reply<T> {
    Unasked,
    Pending,
    Answer(T),
    Failed(StoreError),
}

pub fn is_pending<T>(reply: &Reply<T>) -> bool {
    matches!(reply, Reply::Pending)
}

pub fn majority(members: usize) -> usize {
    members / 2 + 1
}

/// The answers that came, in the order of the members.
pub fn answers<T>(replies: &[Reply<T>]) -> impl Iterator<Item = &T> {
    replies.iter().filter_map(|reply| match reply {
        Reply::Answer(answer) => Some(answer),
        _ => None,
    })
}

pub fn count<T>(replies: &[Reply<T>], matches: impl Fn(&T) -> bool) -> usize {
    answers(replies).filter(|answer| matches(answer)).count()
}

/// The answers to come cannot change that a majority matches, or that none can.
pub fn is_settled<T>(replies: &[Reply<T>], matches: impl Fn(&T) -> bool) -> bool {
    let (matching, out) = (count(replies, matches), replies.iter().filter(|reply| is_pending(reply)).count());
    matching >= majority(replies.len()) || matching + out < majority(replies.len())
}

/// A majority answered, whatever it said.
pub fn is_quorate<T>(replies: &[Reply<T>]) -> bool {
    answers(replies).count() >= majority(replies.len())
}

pub fn failure<T>(replies: Vec<Reply<T>>, names: &[String]) -> StoreError {
    let (members, needed) = (replies.len(), majority(replies.len()));
    let (mut answered, mut may_answer, mut reasons, mut refusals) = (0, 0, Vec::new(), Vec::new());
    for (reply, name) in replies.into_iter().zip(names) {
        match reply {
            Reply::Answer(_) => answered += 1,
            Reply::Failed(StoreError::Unreachable { why, transient, .. }) => {
                may_answer += usize::from(transient);
                reasons.push(format!("{name}: {why}"));
            }
            Reply::Failed(StoreError::Interrupted) | Reply::Pending | Reply::Unasked => {
                reasons.push(format!("{name}: no answer in time"));
            }
            Reply::Failed(refusal) => refusals.push(refusal),
        }
    }
    // Without those that refuse a majority cannot come about, whatever becomes of the others.
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

/// The outcome of a request for locks.
#[derive(Debug)]
pub enum Verdict {
    /// The fencing tokens: for each lock the highest.
    Granted(Vec<FencingToken>),
    /// One holder has a majority, for this much longer.
    Held { busy: Busy, free_in: Duration, by_redlock: bool },
    /// No holder is seen to have a majority.
    Split(Busy),
}

/// `None` without a majority of answers.
pub fn verdict(replies: &[Reply<Vote>]) -> Option<Verdict> {
    let needed = majority(replies.len());
    let (mut granted, mut busy): (Vec<&Vec<FencingToken>>, Vec<&Busy>) = Default::default();
    for vote in answers(replies) {
        match vote {
            Vote::Granted(fences) => granted.push(fences),
            Vote::Busy(refused) => busy.push(refused),
        }
    }
    if granted.len() >= needed {
        let locks = granted.iter().map(|fences| fences.len()).min().unwrap_or(0);
        let highest = |lock: usize| granted.iter().map(|fences| fences[lock]).max();
        return Some(Verdict::Granted((0..locks).filter_map(highest).collect()));
    }
    if !is_quorate(replies) {
        return None;
    }
    let holder =
        |busy: &Busy| (busy.key.clone(), busy.holder.as_ref().and_then(|held| held.metadata.clone()));
    let members_of = |one: &Busy| busy.iter().filter(|other| holder(other) == holder(one)).count();
    let foremost = busy.iter().max_by_key(|one| members_of(one))?;
    if members_of(foremost) < needed {
        return Some(Verdict::Split((*foremost).clone()));
    }
    // The lock is free when a majority could grant it.
    let left = |busy: &&Busy| busy.holder.as_ref().and_then(|held| held.left).unwrap_or(Duration::MAX);
    let mut free_in = vec![Duration::ZERO; granted.len()];
    free_in.extend(busy.iter().map(left));
    free_in.resize(replies.len(), Duration::MAX);
    free_in.sort();
    let by_redlock = foremost.holder.as_ref().is_some_and(|held| held.metadata.is_some());
    Some(Verdict::Held { busy: (*foremost).clone(), free_in: free_in[needed - 1], by_redlock })
}

/// The outcome of a renewal: `None` while a majority may still have the lease.
pub fn renewed(replies: &mut [Reply<Renewal>]) -> Option<Renewal> {
    let needed = majority(replies.len());
    let extended = count(replies, |renewal| matches!(renewal, Renewal::Extended));
    let healed = count(replies, |renewal| matches!(renewal, Renewal::Healed));
    let released = count(replies, |renewal| matches!(renewal, Renewal::Released));
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
        // A broken lock says best what happened.
        match holders.max_by_key(|holder| (holder.broken.is_some(), holder.metadata.is_some())) {
            None if released > 0 => Some(Renewal::Released),
            holder => Some(Renewal::Lost(holder)),
        }
    }
}

/// The renewal is decided. A majority that was healed in part may turn out to have held the lock all the time.
pub fn is_renewed(replies: &[Reply<Renewal>]) -> bool {
    let is = |renewal: &Renewal| matches!(renewal, Renewal::Extended);
    let is_held = |renewal: &Renewal| matches!(renewal, Renewal::Extended | Renewal::Healed);
    is_settled(replies, is_held)
        && (is_settled(replies, is) || count(replies, is_held) < majority(replies.len()))
}

/// The outcome for each of so many locks that were to be released; `None` without a majority of answers.
pub fn released(replies: &[Reply<Released>], locks: usize) -> Option<Vec<ReleaseOutcome>> {
    (0..locks).map(|lock| one_released(replies, lock)).collect()
}

fn one_released(replies: &[Reply<Released>], lock: usize) -> Option<ReleaseOutcome> {
    let is = |reply: &Released, outcome| matches!(reply, Released::Confirmed(all) if all.get(lock) == Some(&outcome));
    let needed = majority(replies.len());
    let held = count(replies, |reply| is(reply, ReleaseOutcome::Released));
    let vacant = count(replies, |reply| is(reply, ReleaseOutcome::Vacant));
    let answered = count(replies, |reply| *reply != Released::Sent);
    if held >= needed {
        Some(ReleaseOutcome::Released)
    } else if held + vacant >= needed {
        Some(ReleaseOutcome::Vacant)
    } else if answered - held > replies.len() - needed {
        Some(ReleaseOutcome::NotHeld)
    } else {
        (answered >= needed).then_some(ReleaseOutcome::from(held > 0))
    }
}

/// The time left of a lease on a majority: see [`crate::lock::Store::check`].
pub fn left(replies: &[Reply<Option<Duration>>]) -> Option<Option<Duration>> {
    let needed = majority(replies.len());
    let mut left: Vec<Duration> = answers(replies).copied().flatten().collect();
    left.sort();
    if left.len() >= needed {
        return Some(Some(left[left.len() - needed]));
    }
    let lacking = count(replies, Option::is_none);
    (lacking > replies.len() - needed).then_some(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Holder, Metadata};

    fn granted(fence: u64) -> Reply<Vote> {
        Reply::Answer(Vote::Granted(vec![FencingToken(fence)]))
    }

    /// Refused, as this process has the lock for so many milliseconds.
    fn busy(pid: u32, left: u64) -> Reply<Vote> {
        let metadata = Some(Metadata { pid, ..Metadata::default() });
        let holder = Holder { metadata, left: Some(Duration::from_millis(left)), ..Holder::default() };
        let key = "X".parse().unwrap_or_else(|why| panic!("{why}"));
        Reply::Answer(Vote::Busy(Busy { key, holder: Some(holder), others: 0, ahead: None }.into()))
    }

    fn down<T>() -> Reply<T> {
        let (store, why) = ("s".to_owned(), "no answer in time".to_owned());
        Reply::Failed(StoreError::Unreachable { store, why, transient: false })
    }

    #[test]
    fn a_majority_of_all_grants() {
        let highest = |replies: &[Reply<Vote>]| match verdict(replies) {
            Some(Verdict::Granted(fences)) => fences.first().map(|fence| fence.0),
            _ => None,
        };
        assert_eq!(highest(&[granted(1), granted(3), granted(2), down(), Reply::Pending]), Some(3));
        assert_eq!(highest(&[granted(1), granted(3), busy(1, 9), down(), Reply::Pending]), None);
        // Half is not most.
        assert_eq!(highest(&[granted(1), granted(1), down(), down()]), None);
        assert!(verdict(&[granted(1), granted(1), down(), down(), Reply::Pending]).is_none());
    }

    #[test]
    fn a_holder_of_a_majority_is_no_split_vote() {
        let held = verdict(&[busy(1, 30), busy(1, 10), busy(1, 20), granted(1), down()]);
        // In 20 ms three could grant: the one that did, and two of those that are held.
        let expected = Duration::from_millis(20);
        assert!(matches!(held, Some(Verdict::Held { free_in, .. }) if free_in == expected), "{held:?}");
        for split in
            [[busy(1, 9), busy(1, 9), busy(2, 9), granted(1)], [busy(1, 9), busy(1, 9), granted(1), down()]]
        {
            let replies: Vec<Reply<Vote>> = split.into_iter().chain([down()]).collect();
            assert!(matches!(verdict(&replies), Some(Verdict::Split(_))), "{replies:?}");
        }
    }

    #[test]
    fn it_is_settled_when_no_answer_can_change_it() {
        let is_granted = |vote: &Vote| matches!(vote, Vote::Granted(_));
        let settled = |replies: &[Reply<Vote>]| is_settled(replies, is_granted);
        assert!(settled(&[granted(1), granted(1), Reply::Pending]));
        assert!(settled(&[busy(1, 9), down(), Reply::Pending]));
        assert!(!settled(&[granted(1), down(), Reply::Pending]));
    }

    /// A reply for each letter: `p` for one that is pending, `d` for a server that is down.
    fn replies<T>(letters: &str, answer: impl Fn(char) -> T) -> Vec<Reply<T>> {
        let reply = |letter| match letter {
            'p' => Reply::Pending,
            'd' => down(),
            _ => Reply::Answer(answer(letter)),
        };
        letters.chars().map(reply).collect()
    }

    #[test]
    fn a_renewal_is_lost_only_when_it_is_sure() {
        let vote = |letters: &str| {
            let mut replies = replies(letters, |letter| match letter {
                'e' => Renewal::Extended,
                'h' => Renewal::Healed,
                'r' => Renewal::Released,
                'l' => Renewal::Lost(None),
                _ => Renewal::Lost(Some(Box::default())),
            });
            let decided = is_renewed(&replies);
            let word = match renewed(&mut replies) {
                Some(Renewal::Extended) => "extended",
                Some(Renewal::Healed) => "healed",
                Some(Renewal::Released) => "released",
                Some(Renewal::Lost(None)) => "lost",
                Some(Renewal::Lost(Some(_))) => "another's",
                None => "unknown",
            };
            (word, decided)
        };
        for (letters, word, decided) in [
            ("eeepp", "extended", true),
            ("eehpp", "healed", false),
            ("eehdd", "healed", true),
            ("hhhpp", "healed", true),
            ("eellp", "unknown", false),
            ("eelld", "unknown", true),
            ("eelll", "lost", true),
            ("rrrpp", "released", true),
            ("rroll", "another's", true),
            ("dddee", "unknown", true),
            ("dddll", "unknown", true),
        ] {
            assert_eq!(vote(letters), (word, decided), "{letters}");
        }
    }

    #[test]
    fn a_release_counts_what_was_released() {
        let answer = |letter| match letter {
            '-' => Released::NeverAsked,
            's' => Released::Sent,
            'v' => Released::Confirmed(vec![ReleaseOutcome::Vacant]),
            letter => Released::Confirmed(vec![(letter == 'y').into()]),
        };
        for (letters, expected) in [
            ("yyyss", Some(ReleaseOutcome::Released)),
            ("yy--d", Some(ReleaseOutcome::Released)),
            ("ynnnd", Some(ReleaseOutcome::NotHeld)),
            ("yvvss", Some(ReleaseOutcome::Vacant)),
            ("vnnpp", Some(ReleaseOutcome::NotHeld)),
            ("vnnvv", Some(ReleaseOutcome::Vacant)),
            ("yysss", None),
        ] {
            assert_eq!(one_released(&replies(letters, answer), 0), expected, "{letters}");
        }
    }

    #[test]
    fn the_lease_is_as_long_as_a_majority_keeps_it() {
        let ms = |millis| Reply::Answer(Some(Duration::from_millis(millis)));
        assert_eq!(left(&[ms(1), ms(5), ms(3), ms(4), down()]), Some(Some(Duration::from_millis(3))));
        assert_eq!(left(&[ms(1), ms(5), down(), down(), Reply::Answer(None)]), None);
        assert_eq!(left(&[ms(1), Reply::Answer(None), Reply::Answer(None)]), Some(None));
    }
}
