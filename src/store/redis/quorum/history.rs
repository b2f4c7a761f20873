//! The history of locks, put together from what the members know.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::majority::{Reply, answers};
use crate::lock::{History, Key, RunRecord};

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
                // The note of a last success has neither user nor label.
                let skipped = same.skipped.max(run.skipped);
                if same.user.is_empty() {
                    same.clone_from(run);
                }
                same.skipped = skipped;
            }
            None => runs.push(run.clone()),
        }
    }
    runs.sort_by_key(|run| Reverse(run.ended));
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
    (one.asked, one.ended, one.pid, &one.host) == (other.asked, other.ended, other.pid, &other.host)
}
