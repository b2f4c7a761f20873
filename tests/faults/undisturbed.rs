//! A fault that must not stop the job.

use std::time::Duration;

use crate::harness::{Finished, Running, Store, Witness, eventually};

/// A job that goes on, and one that waits for it, whatever happens to the store.
pub struct Undisturbed {
    pub store: Store,
    witness: Witness,
    first: Running,
    second: Running,
}

impl Undisturbed {
    /// The first job works for so many seconds; both locks have these options.
    pub fn new(store: Store, seconds: &str, options: &[&str]) -> Undisturbed {
        let witness = Witness::new();
        let run = |wait: &[&str], seconds: &str| {
            let job = witness.job(seconds);
            let job: Vec<&str> = job.iter().map(String::as_str).collect();
            store.redlock(&[&["run", "--key", "X"], options, wait, &["--"], &job].concat()).spawn()
        };
        let mut first = run(&[], seconds);
        eventually(Duration::from_secs(60), "the first job", || {
            // On a busy machine three servers may take longer for a first answer than redlock waits for it.
            if first.has_ended() {
                first = run(&[], seconds);
            }
            witness.is_occupied()
        });
        let second = run(&["--wait", "5m"], "0");
        store.await_waiters("X", 1);
        Undisturbed { store, witness, first, second }
    }

    /// The first ends well, then the second, and they did not meet.
    #[track_caller]
    pub fn goes_on(self) -> [Finished; 2] {
        let ended = [self.first.finish().expect(0), self.second.finish().expect(0)];
        self.witness.assert_alone();
        assert_eq!(self.witness.entries(), 2);
        ended
    }
}
