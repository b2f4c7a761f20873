//! What redlock costs a server.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Etcd, Redis, Running, Store, eventually};

#[test]
fn a_handover_costs_the_same_in_any_queue() {
    let one = costs_the_same(&|_| &["-k", "X"]);
    // Given back and confirmed; and who gives back waits for the confirmation, and notes its success.
    assert_eq!(one.sent, ["blpop", "evalsha", "evalsha"]);
}

#[test]
fn a_handover_of_a_permit_costs_the_same() {
    costs_the_same(&|_| &["-k", "X", "--permits", "1"]);
}

/// Readers, of whom none stands beside another.
#[test]
fn a_handover_to_a_reader_costs_the_same() {
    costs_the_same(&|place| if place % 2 == 0 { &["-k", "X"] } else { &["-k", "X", "--shared"] });
}

#[test]
fn a_handover_of_two_locks_costs_the_same() {
    let one = costs_the_same(&|place| {
        if place % 2 == 0 { &["-k", "X", "-k", "a"] } else { &["-k", "a", "-k", "X"] }
    });
    // One more to take the second one.
    assert_eq!(one.sent, ["blpop", "evalsha", "evalsha", "evalsha"]);
}

/// For a look etcd goes through all keys that the lock has had since the last compaction. A holder that waited in the queue
/// says that nobody stands before it.
#[test]
fn a_handover_on_etcd_looks_at_no_queue() {
    let mut store = Store::own_etcd(Etcd::start());
    let options = ["--ttl", "10m"];
    let holder = store.hold("X", &options);
    let waiters = ["1", "2", "3"].map(|line| {
        let waiter = store.wait_in_line("X", line, &options);
        store.await_waiters("X", line.parse().expect("a number"));
        waiter
    });
    let mut requests = |kind: &str| store.etcd_members().members[0].requests(kind);
    // Each has looked at the queue by then.
    eventually(Duration::from_secs(20), "all are told of those before them", || requests("Watch") == 3);
    let looks = requests("Range");
    holder.let_go().expect(0);
    waiters.into_iter().for_each(|waiter| drop(waiter.finish().expect(0)));
    assert_eq!(requests("Range"), looks);
    assert_eq!(store.order(), ["1", "2", "3"]);
}

/// What each in line asks for.
type Asks<'a> = &'a dyn Fn(usize) -> &'static [&'static str];

fn costs_the_same(asks: Asks) -> Commands {
    let [one, some, many] = [1, 20, 100].map(|waiters| handover(waiters, asks));
    println!("with 1 waiter: {one:?}\nwith 20: {some:?}\nwith 100: {many:?}");
    assert_eq!(one.sent, some.sent);
    assert_eq!(one.sent, many.sent);
    assert!(one.sent.len() <= 6);
    // Behind the only waiter there is nobody to be told.
    assert!(one.in_scripts <= some.in_scripts);
    assert_eq!(some.in_scripts, many.in_scripts);
    one
}

#[test]
fn a_free_lock_costs_two_commands() {
    let store = Store::redis();
    meet(&store);
    // Nobody waits for the note of the last success.
    assert_eq!(sent_during(server(&store), || meet(&store)), ["evalsha", "evalsha", "set"]);
}

/// They are taken in one step, and given back in one.
#[test]
fn two_free_locks_cost_as_much() {
    let store = Store::redis();
    meet(&store);
    let both = || drop(store.redlock(&["run", "-k", "X", "-k", "a", "--", "true"]).run().expect(0));
    assert_eq!(sent_during(server(&store), both), ["evalsha", "evalsha", "set", "set"]);
}

/// The first time, the server learns the scripts.
fn meet(store: &Store) {
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(0);
}

fn sent_during(redis: &Redis, action: impl FnOnce()) -> Vec<String> {
    let monitor = Monitor::of(redis);
    action();
    monitor.seen(redis).into_iter().filter(|line| line.sender != SCRIPT).map(|line| line.name).collect()
}

/// What a handover costs with so many waiters, of those who give and get the lock. The others ask by themselves once
/// in a while, and no more often because of it.
fn handover(waiters: usize, asks: Asks) -> Commands {
    let store = Store::redis();
    let redis = server(&store);
    meet(&store);
    let monitor = Monitor::of(redis);
    let renewal = renewal_of(&store, &monitor);
    let name = store.folder.path("go");
    nix::unistd::mkfifo(&name, nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
    let mut go = OpenOptions::new().read(true).write(true).open(&name).expect("its end");
    let folder = store.folder.path("").display().to_string();
    let job = ["sh", "-c", "cd \"$0\"; echo \"$REDLOCK_TOKEN\" >> order; read -r _ < go", &folder];
    let keys: Vec<&str> = asks(0).windows(2).filter(|pair| pair[0] == "-k").map(|pair| pair[1]).collect();
    let first_key = keys.iter().min().expect("a key");
    let _line: Vec<Running> = (0..=waiters)
        .map(|place| {
            let args = [&["run", "--wait", "--ttl", "10m"], asks(place), &["--"], &job].concat();
            let running = store.redlock(&args).spawn();
            match place {
                0 => store.await_holder(first_key),
                // Not all kinds ask for the same.
                _ if asks(0) != asks(1) => store.await_waiters(first_key, place),
                _ => {}
            }
            running
        })
        .collect();
    store.await_waiters(first_key, waiters);
    // Who gets in line tries a renewal, so that the server knows the script.
    let ready = || monitor.lines().iter().filter(|line| line.script == renewal).count();
    eventually(Duration::from_secs(20), "all are ready", || ready() > waiters);
    let job_started = |count| eventually(Duration::from_secs(20), "a job", || store.order().len() == count);
    job_started(1);

    let start = Instant::now();
    let mut by_others: BTreeMap<String, usize> = BTreeMap::new();
    let handovers: Vec<Commands> = (1..=waiters.min(4))
        .map(|served| {
            let before = monitor.seen(redis).len();
            go.write_all(b"\n").expect("the end of a job");
            job_started(served + 1);
            let order = store.order();
            let [old, new] = [&order[served - 1], &order[served]];
            // Given back, and confirmed before the job started.
            eventually(Duration::from_secs(20), "who gave back waits", || {
                monitor.lines()[before..].iter().any(|line| line.name == "blpop" && line.sender != SCRIPT)
            });
            let lines = monitor.seen(redis);
            let theirs = |sender: &str| {
                lines.iter().any(|line| line.sender == sender && [old, new].contains(&&line.token))
            };
            let mut commands = Commands { sent: Vec::new(), in_scripts: 0 };
            let mut counts = false;
            for line in &lines[before..] {
                if line.sender != SCRIPT {
                    counts = theirs(&line.sender);
                    match counts {
                        // Nobody waits for the note of the last success, which may come late.
                        true if line.name == "set" => {}
                        true => commands.sent.push(line.name.clone()),
                        false => *by_others.entry(line.sender.clone()).or_default() += 1,
                    }
                } else if counts {
                    commands.in_scripts += 1;
                }
            }
            // The order in which two processes ask is not fixed.
            commands.sent.sort();
            commands
        })
        .collect();
    let intervals = start.elapsed().as_secs() as usize / 5;
    // After each handover the next, if it is not told in time, and the last look whether somebody took the lock.
    let more: usize = by_others.values().map(|count| count.saturating_sub(1 + intervals)).sum();
    assert!(more <= 2 * handovers.len(), "{by_others:?} in {:?}", start.elapsed());
    // Those in line may ask for two kinds in turn, and by themselves just before they are told.
    let same = handovers.into_iter().step_by(2);
    same.min_by_key(|commands| commands.sent.len() + commands.in_scripts).expect("a handover")
}

/// The hash of the script that renews.
fn renewal_of(store: &Store, monitor: &Monitor) -> String {
    let token = store.redlock(&["acquire", "-k", "X"]).run().expect(0).stdout;
    let before = monitor.seen(server(store)).len();
    store.redlock(&["renew", "-k", "X", "--token", token.trim()]).run().expect(0);
    let lines = monitor.seen(server(store)).split_off(before);
    store.redlock(&["release", "-k", "X", "--token", token.trim()]).run().expect(0);
    let call = lines.into_iter().find(|line| line.name == "evalsha");
    call.expect("a renewal").script
}

fn server(store: &Store) -> &Redis {
    store.redis.as_ref().expect("Redis")
}

/// What those who give and get a lock had a server carry out: the names that they sent, and how many more the scripts
/// called.
#[derive(Debug)]
struct Commands {
    sent: Vec<String>,
    in_scripts: usize,
}

/// A command that a server carried out.
#[derive(Clone, Debug)]
struct Line {
    /// The address of the client, or [`SCRIPT`].
    sender: String,
    name: String,
    /// The hash of the script that it calls, if any, and the owner token that it is called with.
    script: String,
    token: String,
}

/// Sends what a script calls.
const SCRIPT: &str = "lua";

impl Line {
    /// `None` for what this test asks.
    fn of(line: &str) -> Option<Line> {
        let (source, command) = line.split_once("] \"").expect("a command");
        let sender = source.rsplit(' ').next().unwrap_or_default().to_owned();
        let words: Vec<&str> = command.strip_suffix('"').unwrap_or(command).split("\" \"").collect();
        let name = words[0].to_lowercase();
        if sender != SCRIPT && ["info", "echo"].contains(&name.as_str()) {
            return None;
        }
        let (mut script, mut token) = (String::new(), String::new());
        if name == "evalsha" {
            // Behind the keys: the wall clock, the owner token.
            let keys: usize = words[2].parse().expect("a number");
            (script, token) = (words[1].to_owned(), words[3 + keys + 1].to_owned());
        }
        Some(Line { sender, name, script, token })
    }
}

/// MONITOR: INFO commandstats does not tell what clients sent from what scripts called.
struct Monitor {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Monitor {
    fn of(redis: &Redis) -> Monitor {
        let mut stream = TcpStream::connect(("127.0.0.1", redis.port)).expect("redis-server");
        stream.write_all(b"MONITOR\r\n").expect("a request");
        let mut incoming = BufReader::new(stream).lines().map_while(Result::ok);
        assert_eq!(incoming.next().as_deref(), Some("+OK"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        thread::spawn(move || incoming.for_each(|line| seen.lock().expect("the lines").push(line)));
        Monitor { lines }
    }

    fn lines(&self) -> Vec<Line> {
        self.lines.lock().expect("the lines").iter().filter_map(|line| Line::of(line)).collect()
    }

    /// All that was carried out by now.
    fn seen(&self, redis: &Redis) -> Vec<Line> {
        let mark = fastrand::u64(..).to_string();
        redis.cli(&["echo", &mark]);
        eventually(Duration::from_secs(20), "the mark", || {
            self.lines.lock().expect("the lines").iter().any(|line| line.contains(&mark))
        });
        self.lines()
    }
}
