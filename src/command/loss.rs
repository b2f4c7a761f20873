use crate::lock::{Lease, Progress};
use crate::output::lost_to;

/// The lease that is lost, and why, as a message says it; `None` where it is not.
pub fn loss<'a>(progress: &Progress<'a>) -> Option<(&'a Lease, String)> {
    match *progress {
        Progress::Renewed(_) | Progress::Healed(..) | Progress::Failed(..) => None,
        Progress::Released(lease) => Some((lease, "it was given back with its owner token".to_owned())),
        Progress::Lost(lease, None) if lease.is_borrowed => {
            Some((lease, "nobody holds it any more".to_owned()))
        }
        Progress::Lost(lease, now_held) => Some((lease, lost_to(now_held))),
        Progress::Expired(lease) => {
            Some((lease, "no renewal came through before its lease ended".to_owned()))
        }
    }
}
