//! All kinds of requests beside one another: of a pool, for single members, several keys, priorities, weights, trees.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Folder, Store, eventually, is_within, lives};
use crate::witness::{Crowd, LIMIT, current};

/// `$0` is the folder, `$1` says how the job finds the names for which it is alone.
const JOB: &str = concat!(
    lives!(),
    r#"
cd "$0" || exit 9
eval "$1"
for name in $names; do
    until (set -C; echo $$ > "$name") 2>/dev/null; do
        { read -r other < "$name"; } 2>/dev/null
        if lives "${other:-0}"; then
            echo "$other has $name as $$ comes" >> broken
            exit 9
        fi
        rm -f "$name"
    done
done
rm -f $names
"#
);

const KEYS: &str = r#"names=$(echo "$REDLOCK_KEY" | tr / .)"#;
/// No number is too high.
const PERMITS: &str = r#"
names=$(echo permit.$REDLOCK_PERMIT | sed 's/,/ permit./g')
for name in $names; do case $name in permit.[0-3]) ;; *) exit 9 ;; esac; done
"#;

/// The members of the pool have one hash tag.
const POOL: &str = "[pools.devices.\"{d}1\"]\n[pools.devices.\"{d}2\"]\n[pools.devices.\"{d}3\"]\n";

/// The options of the worker at this place, and how its job finds its names. Where a store lacks something, the request is a
/// simpler one for the same locks.
fn role(place: usize, can: &Abilities) -> (&'static [&'static str], &'static str) {
    match place % 10 {
        0 if can.choose => (&["--pool", "devices", "--wait"], KEYS),
        0 => (&["--pool", "devices"], KEYS),
        1 => (&["-k", "{d}1", "--wait"], KEYS),
        2 => (&["-k", "{d}2", "-k", "{d}3", "--wait"], KEYS),
        3 if can.choose => (&["--one-of", "-k", "{d}1", "-k", "{d}3", "--wait", "--priority", "1"], KEYS),
        3 => (&["-k", "{d}3", "--wait"], KEYS),
        4 if can.count => (&["-k", "w", "-p", "4", "--take", "2", "--wait"], PERMITS),
        5 if can.count => (&["-k", "w", "-p", "4", "--take", "3", "--priority", "-1", "--wait"], PERMITS),
        6 if can.count => (&["-k", "w", "-p", "4", "--wait"], PERMITS),
        4..=6 if can.share => (&["-k", "w", "-p", "1", "--wait"], KEYS),
        4..=6 => (&["-k", "w", "--wait"], KEYS),
        7 if can.share => (&["--tree", "-k", "t/a", "--wait"], "names=t.a"),
        8 if can.share => (&["--tree", "-k", "t/b", "--wait"], "names=t.b"),
        9 if can.share => (&["--tree", "-k", "t", "--wait"], "names='t.a t.b'"),
        _ => (&["-k", "t", "--wait"], KEYS),
    }
}

struct Abilities {
    /// To wait for one of several, with priorities.
    choose: bool,
    /// Permits with numbers.
    count: bool,
    /// Readers and permits.
    share: bool,
}

impl Abilities {
    fn of(store: &Store) -> Abilities {
        let takes = |options: &[&str]| {
            let tried = store.redlock(&[&["run", "-k", "trial"], options, &["true"]].concat()).run();
            tried.code() != 78
        };
        Abilities {
            choose: takes(&["--wait=1s", "--priority", "1"]),
            count: takes(&["-p", "2", "--take", "2"]),
            share: takes(&["--shared"]) && takes(&["-p", "1"]),
        }
    }
}

/// Ten workers for some seconds, and 20 for a minute in `tests/run crowds`. One redlock dies each second. No two
/// jobs hold one lock at once, everybody is served, all end when no more come, and no lock is left.
pub fn a_mixed_crowd(store: &Store) {
    let (workers, time) = if env::var_os("TESTS_CROWDS").is_some() { (20, 60) } else { (10, 4) };
    let time = Duration::from_secs(time);
    let (folder, can) = (Folder::new(), Abilities::of(store));
    let config = store.folder.path("pool.toml");
    fs::write(&config, POOL).expect("a file");
    let (config, place_of_jobs) = (config.display().to_string(), folder.path("").display().to_string());
    let crowd = Crowd::of(workers);
    let start = Instant::now();
    let (mut random, mut kills) = (fastrand::Rng::new(), 0);
    let program = |place| {
        let (options, names) = role(place, &can);
        let lock = ["run", "--config", &config, "--ttl", store.shortest(), "--quiet"];
        store.redlock(&[&lock[..], options, &["--", "sh", "-c", JOB, &place_of_jobs, names]].concat())
    };
    crowd.work(program, || {
        while (start.elapsed() < time || !crowd.has_served_each(1)) && is_within(LIMIT, start) {
            thread::sleep(Duration::from_secs(1));
            kills += usize::from(crowd.kill(None, &mut random));
        }
        crowd.over.store(true, Ordering::SeqCst);
        let is_over = || crowd.workers.iter().all(|worker| current(worker).is_none());
        eventually(LIMIT, "everybody has ended", is_over);
    });
    let ends: BTreeMap<i32, usize> = crowd.ends.lock().expect("the ends").clone();
    let served = crowd.served.lock().expect("who was served");
    println!("{}: {kills} kills, ends {ends:?}, served {served:?} in {:?}", store.url, start.elapsed());
    assert!(kills > 0, "nobody was killed");
    assert_eq!(fs::read_to_string(folder.path("broken")).unwrap_or_default(), "");
    assert!(served.iter().all(|count| *count > 0), "somebody starved: {served:?}");
    assert!(ends.keys().all(|end| [0, -9, 69, 75, 79].contains(end)), "{ends:?}");
    let keys = ["{d}1", "{d}2", "{d}3", "w", "t", "t/a", "t/b"];
    let is_free =
        || keys.iter().all(|key| store.redlock(&["status", "--is-free", "-k", key]).run().code() == 0);
    eventually(Duration::from_secs(60), "no lock is left over", is_free);
}
