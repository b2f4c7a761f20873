//! The history of locks, put together from what the members know.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::majority::{Reply, answers};
use crate::lock::{History, Key, RunRecord};
use crate::store::redis::history::{drop_earlier_successes, is_note};

/// Each run that a member knows, once, the latest one first; no more than one of them has, so a member that missed some shows
/// no older ones.
pub fn merged(replies: &[Reply<Vec<History>>]) -> Vec<History> {
    let mut known: BTreeMap<&Key, Vec<&History>> = BTreeMap::new();
    for history in answers(replies).flatten() {
        known.entry(&history.key).or_default().push(history);
    }
    known.into_iter().map(|(key, histories)| merge(key, &histories)).collect()
}

fn merge(key: &Key, histories: &[&History]) -> History {
    let mut runs: Vec<RunRecord> = Vec::new();
    for run in histories.iter().flat_map(|history| &history.runs) {
        match runs.iter_mut().find(|other| is_same(other, run)) {
            Some(same) => {
                let skipped = same.skipped.max(run.skipped);
                if is_note(same) {
                    same.clone_from(run);
                }
                same.skipped = skipped;
            }
            None => runs.push(run.clone()),
        }
    }
    runs.sort_by_key(|run| Reverse(run.ended));
    drop_earlier_successes(&mut runs);
    runs.truncate(histories.iter().map(|history| history.runs.len()).max().unwrap_or(0));
    // A member that missed the latest run counts from an earlier one.
    let is_up_to_date = |history: &&&History| match (history.runs.first(), runs.first()) {
        (Some(its), Some(latest)) => is_same(its, latest),
        (its, latest) => its.is_none() && latest.is_none(),
    };
    let skipped = histories.iter().filter(is_up_to_date).map(|history| history.skipped).max();
    History { key: key.clone(), skipped: skipped.unwrap_or(0), runs }
}

fn is_same(one: &RunRecord, other: &RunRecord) -> bool {
    let who = |run: &RunRecord| (run.asked, run.ended, run.pid, run.is_start());
    who(one) == who(other) && one.host == other.host
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One server did not hear of the latest run, and has the note of the run before.
    #[test]
    fn a_success_that_arrives_late_is_not_the_last_one() {
        let run = |ended, user: &str| RunRecord {
            ended,
            outcome: "success".to_owned(),
            user: user.to_owned(),
            ..RunRecord::default()
        };
        let key: Key = "X".parse().expect("a key");
        let history = |runs| History { key: key.clone(), runs, skipped: 0 };
        let up_to_date = history(vec![run(6, "anna"), run(4, "anna")]);
        let late = history(vec![run(5, ""), run(4, "anna")]);
        let ended: Vec<u64> = merge(&key, &[&late, &up_to_date]).runs.iter().map(|run| run.ended).collect();
        assert_eq!(ended, [6, 4]);
    }
}
