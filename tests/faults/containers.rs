//! Containers that share the folder of a local store: each sees the host in another way.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{Redlock, Running, Store, eventually, namespaces};

const REDLOCK: &str = env!("CARGO_BIN_EXE_redlock");

/// How long a lock that was handed over waits for its new holder.
const CLAIM: Duration = Duration::from_secs(3);

/// A kind of container: options of unshare(1), and what is done in it at first, in a shell in the folder.
struct Container(&'static [&'static str], &'static str);

/// As systemd-nspawn and LXC do it.
const OWN_BOOT_ID: &str =
    "cat /proc/sys/kernel/random/uuid > id && mount --bind id /proc/sys/kernel/random/boot_id";
/// No loadavg, no id of the boot.
const PROCESSES_ONLY: &str = "mount -t proc -o subset=pid proc /proc";
const OWN_PLACE: &str = "mkdir -p place && mount --bind . place && cd place";

const CONTAINERS: [Container; 10] = [
    Container(&["--pid", "--mount-proc"], ":"),
    Container(&["--pid", "--mount-proc"], PROCESSES_ONLY),
    Container(&["--time", "--boottime", "100000"], ":"),
    Container(&["--time", "--boottime", "-30"], ":"),
    Container(&["--mount"], OWN_PLACE),
    Container(&["--mount"], OWN_BOOT_ID),
    Container(&["--user", "--map-root-user"], ":"),
    Container(&["--net", "--ipc", "--uts", "--cgroup"], ":"),
    Container(&["--pid", "--mount-proc", "--time", "--boottime", "100000", "--net"], OWN_BOOT_ID),
    Container(
        &["--user", "--map-root-user", "--pid", "--mount-proc", "--time", "--boottime", "7", "--net"],
        ":",
    ),
];

impl Container {
    /// A script in a container of its own, which dies with it. "$R" is the program.
    fn sh(&self, store: &Store, script: &str) -> Redlock {
        let folder = store.folder.path("");
        let (folder, script) =
            (folder.to_str().expect("a path"), format!("cd \"$0\" && {} && {script}", self.1));
        let args = [&["--fork", "--kill-child"], self.0, &["sh", "-c", &script, folder]].concat();
        Redlock::under("unshare", &args).server("local:locks.db").env("R", REDLOCK)
    }

    fn name(&self) -> String {
        format!("{} ({})", self.0.join(" "), self.1)
    }
}

/// Outside holds, inside sees that; and the other way round. Who waits on one side gets the lock from the other.
#[test]
fn one_job_at_a_time_in_all_of_them() {
    if !namespaces() {
        return;
    }
    for container in &CONTAINERS {
        let store = Store::local();
        let name = container.name();
        let outside = store.hold("X", &[]);
        let seen = container.sh(&store, "exec $R run -k X -- echo started").run();
        assert!(seen.code() == 75 && seen.stdout.is_empty(), "{name}: {seen:?}");
        let inside = container.sh(&store, "exec $R run -k X -w -- cat").open_stdin().spawn();
        store.await_waiters("X", 1);
        outside.let_go().expect(0);
        eventually(Duration::from_secs(20), &name, || store.waiters("X") == 0);
        store.await_holder("X");
        let seen = store.redlock(&["run", "-k", "X", "--", "echo", "started"]).run();
        assert!(seen.code() == 75 && seen.stdout.is_empty(), "{name}: {seen:?}");
        let outside = store.wait_in_line("X", "outside", &[]);
        store.await_waiters("X", 1);
        inside.let_go().expect(0);
        outside.finish().expect(0);
        assert_eq!(store.order(), ["outside"], "{name}");
    }
}

/// A lease ends when it should, whatever clock it was written by.
#[test]
fn a_lease_ends_in_all_of_them() {
    if !namespaces() {
        return;
    }
    for container in &CONTAINERS {
        let store = Store::local();
        container.sh(&store, "exec $R acquire -k inside --ttl 2s").run().expect(0);
        store.redlock(&["acquire", "-k", "outside", "--ttl", "2s"]).run().expect(0);
        store.redlock(&["run", "-k", "inside", "-w", "20s", "--", "true"]).run().expect(0);
        let run = container.sh(&store, "exec $R run -k outside -w 20s -- true").run();
        assert_eq!(run.code(), 0, "{}: {run:?}", container.name());
    }
}

/// In the same PID namespace a dead holder is noticed at once, whatever the clock says of its start.
#[test]
fn a_death_is_seen_across_time_namespaces() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    let container = Container(&["--time", "--boottime", "100000"], ":");
    let mut pids = Vec::new();
    let holder = container.sh(&store, "exec $R run -k X --ttl 1h -- sleep 50").spawn();
    eventually(Duration::from_secs(20), "the holder", || {
        pids = store.status("X")["holders"][0]["pid"].as_i64().into_iter().collect();
        !pids.is_empty()
    });
    let pid = i32::try_from(pids[0]).expect("a pid");
    let guard = crate::harness::children(pid)[0];
    for pid in [guard, pid] {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
    }
    store.redlock(&["run", "-k", "X", "-w", "20s", "--", "true"]).run().expect(0);
    drop(holder);
}

/// After a reboot nothing is held, also where the id of the boot is hidden: no lease was renewed in the future.
#[test]
fn a_reboot_where_its_id_is_hidden() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    let container = Container(&["--mount"], OWN_BOOT_ID);
    container.sh(&store, "exec $R acquire -k X --ttl 1h").run().expect(0);
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    super::files::sql(
        &store,
        "UPDATE holder SET renewed = renewed + 100000000000, until = until + 100000000000",
    );
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

/// The journal of a file that is mounted alone is elsewhere.
#[test]
fn a_file_that_is_mounted_without_its_folder() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    let container =
        Container(&["--mount"], "mkdir own && touch own/locks.db && mount --bind locks.db own/locks.db");
    let run = container.sh(&store, "cd own && exec $R run -k X -- echo started").run().expect(78);
    assert!(run.line().contains("mount its folder") && run.stdout.is_empty(), "{run:?}");
}

/// A /proc of another PID namespace shows strangers under the pids of a holder.
#[test]
fn a_proc_of_another_namespace() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    let container = Container(&["--pid"], ":");
    let run = container.sh(&store, "exec $R acquire -k X").run().expect(69);
    assert!(run.stderr.contains("/proc"), "{run:?}");
}

/// Four waiters in a container of their own.
fn four_waiters(store: &Store, holder: &str) -> Running {
    let wait = "$R run -k X -w -- true & ";
    let script = format!("{holder} {} wait", wait.repeat(4));
    let container = Container(&["--pid", "--mount-proc"], ":");
    let container = container.sh(store, &format!("{{ {script}; }}")).spawn();
    store.await_waiters("X", 4);
    container
}

/// Kills all that is in the container, at once.
fn kill(mut container: Running) {
    container.signal(Signal::SIGKILL);
    eventually(Duration::from_secs(20), "its end", || container.has_ended());
}

/// The dead are gone from the queue at once, and nobody waits for them.
#[test]
fn waiters_of_a_container_that_was_killed() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    let holder = store.hold("X", &["--ttl", "1m"]);
    let container = four_waiters(&store, "");
    let alive = store.wait_in_line("X", "alive", &[]);
    store.await_waiters("X", 5);
    kill(container);
    store.await_waiters("X", 1);
    let start = Instant::now();
    holder.let_go().expect(0);
    alive.finish().expect(0);
    assert!(start.elapsed() < CLAIM * 2, "took {:?}", start.elapsed());
    assert!(bells(&store).is_empty(), "{:?}", bells(&store));
}

/// The holder dies with those who are next in line: the first one alive has it when the lease ends.
#[test]
fn a_container_that_was_killed_with_its_holder() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    let container = four_waiters(&store, "$R run -k X --ttl 2s -- sleep 50 & sleep 1;");
    let alive = store.wait_in_line("X", "alive", &[]);
    store.await_waiters("X", 5);
    let start = Instant::now();
    kill(container);
    alive.finish().expect(0);
    let without_holder = start.elapsed().saturating_sub(Duration::from_secs(2));
    assert!(without_holder < CLAIM * 2, "{without_holder:?}");
}

fn bells(store: &Store) -> Vec<String> {
    let files = fs::read_dir(store.folder.path("")).expect("the folder").flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("-waiter-")).collect()
}

/// The bell of a waiter is heard in another network namespace.
#[test]
fn a_handover_into_another_network() {
    if !namespaces() {
        return;
    }
    let container = Container(&["--net"], ":");
    let handover = || {
        let store = Store::local();
        // By hand: there is no process whose end is seen.
        let token = store.redlock(&["acquire", "-k", "X"]).run().expect(0).stdout;
        let waiter = container.sh(&store, "exec $R run -k X -w -- true").spawn();
        store.await_waiters("X", 1);
        let start = Instant::now();
        store.redlock(&["release", "-k", "X", "--token", token.trim()]).run().expect(0);
        waiter.finish().expect(0);
        start.elapsed()
    };
    // Who is not rung asks every five seconds.
    let fastest = (0..3).map(|_| handover()).min();
    assert!(fastest < Some(CLAIM), "{fastest:?}");
}

/// A waiter that was stopped is passed over, and has its place again when it goes on.
#[test]
fn a_waiter_that_does_not_ask() {
    let store = Store::local();
    let holder = store.hold("X", &[]);
    let stopped = store.wait_in_line("X", "stopped", &[]);
    store.await_waiters("X", 1);
    let alive = store.wait_in_line("X", "alive", &[]);
    store.await_waiters("X", 2);
    stopped.signal(Signal::SIGSTOP);
    eventually(Duration::from_secs(40), "it is passed over", || store.waiters("X") == 1);
    holder.let_go().expect(0);
    alive.finish().expect(0);
    let holder = store.hold("X", &[]);
    let late = store.wait_in_line("X", "late", &[]);
    store.await_waiters("X", 1);
    stopped.signal(Signal::SIGCONT);
    store.await_waiters("X", 2);
    holder.let_go().expect(0);
    stopped.finish().expect(0);
    late.finish().expect(0);
    assert_eq!(store.order(), ["alive", "stopped", "late"]);
}

/// What the guard does without where /proc shows processes only.
#[test]
fn a_job_is_killed_where_proc_shows_processes_only() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    let script = "{ \
        export WORK='while echo >> work; do sleep 0.02; done'; \
        $R run -k X --ttl 1s -- sh -c 'trap \"\" TERM; setsid sh -c \"$WORK\" & wait' & \
        while [ ! -e work ]; do sleep 0.05; done; kill -STOP $!; \
        $R run -k X --wait 30s -q -- sh -c 'wc -c < work; sleep 0.5; wc -c < work'; }";
    let next = Container(&["--pid", "--mount-proc"], PROCESSES_ONLY).sh(&store, script).run().expect(0);
    let [start, end] = next.stdout.lines().collect::<Vec<_>>()[..] else { panic!("{next:?}") };
    assert_eq!(start, end, "it works beside the next one");
}

/// The guard looks at the load again after SIGTERM: what is a large job by now takes longer to kill. Redlock is stopped.
#[test]
fn a_job_that_grows_when_it_is_told_to_end() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    let load =
        Container(&["--pid", "--mount-proc"], "echo 0 0 0 1/200 9 > load && mount --bind load /proc/loadavg");
    let script = "{ \
        $R run -k X --ttl 12s --kill-after 3s -- sh -c '
            trap \"echo 0 0 0 1/300000 9 > load\" TERM; date +%s%N > first
            while :; do date +%s%N > now && mv now last; sleep 0.02; done' & \
        while [ ! -e last ]; do sleep 0.05; done; kill -STOP $!; \
        $R run -k X --wait 30s -q -- true; cat load first last; }";
    let next = load.sh(&store, script).run().expect(0);
    let lines: Vec<&str> = next.stdout.lines().collect();
    let [load, first, last] = lines[..] else { panic!("{next:?}") };
    assert!(load.contains("300000"), "{next:?}");
    let [first, last] = [first, last].map(|time| time.parse::<u64>().expect("a time"));
    // A small job is killed after 11.5 s.
    assert!(last < first + 11_300_000_000, "killed after {} ms", (last - first) / 1_000_000);
}
