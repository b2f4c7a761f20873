//! One job holds the lock, another waits for it, and something happens to the first.

use std::time::Duration;

use crate::harness::witness::describe;
use crate::harness::{
    Finished, Redlock, Running, Store, Witness, await_file, eventually, in_ms, is_alive, pid_in, slowed,
};

/// One job holds the lock, another waits for it, and something happens to the first.
pub struct Takeover {
    pub store: Store,
    pub witness: Witness,
    pub first: Running,
    pub second: Running,
    pub faults: usize,
    /// Of the first.
    pub ttl: Duration,
}

/// The job that must not live on: it ignores SIGTERM, has a child in its session and one in a session of its
/// own whose parent is gone, and writes their pids down. "$0" is the folder. The witness is inside as long as
/// one of them is.
const STUBBORN: &str = r#"
cd "$0" || exit 9
trap '' TERM
(set -C; echo $$ > owner) || exit 9
echo start >> log
sh -c 'trap "" TERM; echo $$ > child; while :; do sleep 0.2; done' &
setsid sh -c 'trap "" TERM; setsid sh -c "echo \$\$ > daemon; while :; do sleep 0.2; done" & exit' 
while :; do sleep 0.2; done
"#;

/// The second job checks that no process of the first is alive. All of them are in this folder.
const SECOND: &str = concat!(
    describe!(),
    r#"
cd "$0" || exit 9
for name in owner child daemon; do
    pid=$(cat $name 2>/dev/null) || continue
    if [ "/proc/$pid/cwd" -ef . ]; then
        { echo "$name $pid is alive"; describe "$pid"; } >> overlaps
    fi
done
echo start >> log
"#
);

impl Takeover {
    /// The first holds the key with a TTL of three seconds, more on a busy machine, and the second waits.
    pub fn new(store: Store) -> Takeover {
        let url = store.url.clone();
        Takeover::through(store, url)
    }

    /// As `new`, with the first one reaching the store at `url`.
    pub fn through(store: Store, url: String) -> Takeover {
        let witness = Witness::new();
        let folder = witness.folder();
        let ttl = store.lease(slowed(3000).min(Duration::from_secs(10)));
        let args = ["run", "--key", "X", "--ttl", &in_ms(ttl), "--", "sh", "-c", STUBBORN, &folder];
        let first = Redlock::new(&args).server(&url).spawn();
        for name in ["owner", "child", "daemon"] {
            await_file(&witness.file(name));
            pid_in(&witness.file(name));
        }
        let second =
            store.redlock(&["run", "--key", "X", "--wait", "5m", "--", "sh", "-c", SECOND, &folder]).spawn();
        store.await_waiters("X", 1);
        Takeover { store, witness, first, second, faults: 0, ttl }
    }

    /// Does something to the first, and counts it.
    pub fn fault(&mut self, fault: impl FnOnce(&mut Takeover)) {
        fault(self);
        self.faults += 1;
    }

    pub fn job_is_alive(&self) -> bool {
        let pids = ["owner", "child", "daemon"].map(|name| pid_in(&self.witness.file(name)));
        pids.into_iter().any(is_alive)
    }

    /// The second one runs in the end, and met nobody.
    #[track_caller]
    pub fn second_is_alone(self) -> Finished {
        assert!(self.faults > 0, "nothing was done to the first");
        self.second.finish().expect(0);
        self.witness.assert_alone();
        assert_eq!(self.witness.entries(), 2);
        self.first.finish()
    }

    /// Waits until all of the first job is dead.
    pub fn await_death(&self, limit: Duration) {
        eventually(limit, "the death of the whole job", || !self.job_is_alive());
    }
}
