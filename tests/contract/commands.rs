//! What redlock costs a Redis server.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::harness::{Redis, Running, Store, eventually};

#[test]
fn a_handover_costs_the_same_in_any_queue() {
    let one = costs_the_same(&|_| &["-k", "X"]);
    // Given back, confirmed, the next in line told; and who gives back waits for the confirmation.
    assert_eq!(one.sent, ["blpop", "evalsha", "evalsha", "evalsha"]);
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
    assert_eq!(one.sent, ["blpop", "evalsha", "evalsha", "evalsha", "evalsha"]);
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
    assert_eq!(Commands::during(server(&store), || meet(&store)).sent, ["evalsha", "evalsha"]);
}

/// They are taken in one step, and given back in one.
#[test]
fn two_free_locks_cost_as_much() {
    let store = Store::redis();
    meet(&store);
    let both = || drop(store.redlock(&["run", "-k", "X", "-k", "a", "--", "true"]).run().expect(0));
    assert_eq!(Commands::during(server(&store), both).sent, ["evalsha"; 2]);
}

/// The first time, the server learns the scripts.
fn meet(store: &Store) {
    store.redlock(&["run", "--key", "X", "--", "true"]).run().expect(0);
}

/// The least that a handover costs with so many waiters: an idle one may ask in the middle of one handover,
/// hardly of all.
fn handover(waiters: usize, asks: Asks) -> Commands {
    let store = Store::redis();
    meet(&store);
    let name = store.folder.path("go");
    nix::unistd::mkfifo(&name, nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
    let mut go = OpenOptions::new().read(true).write(true).open(&name).expect("its end");
    let folder = store.folder.path("").display().to_string();
    let job = ["sh", "-c", "cd \"$0\"; echo started >> order; read -r _ < go", &folder];
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

    let calls_each = keys.len() as u64 + 3;
    let handovers = (1..=waiters.min(12)).map(|served| {
        Commands::during(server(&store), || {
            let calls = || {
                let stats = server(&store).commandstats();
                stats["evalsha"] + stats.get("blpop").unwrap_or(&0)
            };
            let before = calls();
            go.write_all(b"\n").expect("the end of a job");
            eventually(Duration::from_secs(20), "the next job", || store.order().len() == served + 1);
            // The answer to BLPOP comes with the confirmation, wherever in between it was sent.
            eventually(Duration::from_secs(20), "all calls", || calls() >= before + calls_each);
        })
    });
    // Those in line may ask for two kinds in turn.
    handovers.step_by(2).min_by_key(|commands| commands.sent.len() + commands.in_scripts).expect("a handover")
}

fn server(store: &Store) -> &Redis {
    store.redis.as_ref().expect("Redis")
}

/// What a server carried out: the names that clients sent, and how many more its scripts called.
#[derive(Debug)]
struct Commands {
    sent: Vec<String>,
    in_scripts: usize,
}

impl Commands {
    /// By MONITOR: INFO commandstats does not tell the two apart.
    fn during(redis: &Redis, action: impl FnOnce()) -> Commands {
        let mut monitor = TcpStream::connect(("127.0.0.1", redis.port)).expect("redis-server");
        monitor.write_all(b"MONITOR\r\n").expect("a request");
        monitor.set_read_timeout(Some(Duration::from_secs(20))).expect("a bound");
        let mut lines = BufReader::new(monitor).lines().map(|line| line.expect("a line of MONITOR"));
        assert_eq!(lines.next().as_deref(), Some("+OK"));
        action();
        redis.cli(&["echo", "the end"]);
        let mut commands = Commands { sent: Vec::new(), in_scripts: 0 };
        for line in lines.take_while(|line| !line.ends_with("\"echo\" \"the end\"")) {
            let (source, command) = line.split_once("] \"").expect("a command");
            match source.ends_with(" lua") {
                true => commands.in_scripts += 1,
                // What this test asks does not count.
                false if command.starts_with("info") => {}
                false => commands.sent.push(command.split('"').next().unwrap_or_default().to_lowercase()),
            }
        }
        // The order in which two processes ask is not fixed.
        commands.sent.sort();
        commands
    }
}
