//! Sentinels that hang or are slow, while others know of another master. The Sentinels are played, as real ones
//! name another master only after a real failover.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::harness::{Redis, Redlock, Running, Witness, await_file, eventually, ttl};

/// Two servers that both believe to be the master, and three Sentinels.
struct Failover {
    old: Redis,
    new: Redis,
    url: String,
    witness: Witness,
}

/// What a Sentinel does when it is asked; it may take its time.
type Opinion = Box<dyn Fn() -> Deed + Send + Sync>;

#[derive(Clone, Copy)]
enum Deed {
    Name(u16),
    Hang,
    HangUp,
}

impl Failover {
    /// With Sentinels that say `opinion(their number, port of the old master, port of the new one)`.
    fn new(opinion: impl Fn(usize, u16, u16) -> Opinion) -> Failover {
        let [old, new] = [(); 2].map(|()| {
            let server = Redis::start();
            // It learns the scripts.
            Redlock::new(&["run", "--key", "warm", "--", "true"]).server(&server.url()).run().expect(0);
            server
        });
        let ports: Vec<String> = (0..3)
            .map(|number| format!("127.0.0.1:{}", sentinel(opinion(number, old.port, new.port))))
            .collect();
        let url = format!("redis+sentinel://{}/mine", ports.join(","));
        Failover { old, new, url, witness: Witness::new() }
    }

    /// A job that holds the lock until it is let go; it runs when this returns.
    fn hold(&self, options: &[&str]) -> Running {
        let started = self.witness.file("started");
        let job = ["--", "sh", "-c", ": > \"$0\"; cat", started.to_str().expect("a path")];
        let ttl = ttl(1500);
        let args = [&["run", "--key", "X", "--wait", "--ttl", &ttl][..], options, &job].concat();
        let holder = Redlock::new(&args).server(&self.url).open_stdin().spawn();
        await_file(&started);
        holder
    }
}

/// Serves the two questions that are asked, and returns its port.
fn sentinel(opinion: Opinion) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    let opinion = Arc::new(opinion);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let opinion = Arc::clone(&opinion);
            thread::spawn(move || answer(stream, &opinion));
        }
    });
    port
}

fn answer(mut stream: TcpStream, opinion: &Opinion) {
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        // As over a network.
        thread::sleep(Duration::from_millis(5));
        let question = String::from_utf8_lossy(&chunk[..length]).into_owned();
        let reply = if question.contains("GET-MASTER-ADDR-BY-NAME") {
            let port = match opinion() {
                Deed::Name(port) => port.to_string(),
                Deed::Hang => continue,
                Deed::HangUp => return,
            };
            format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len())
        } else {
            "*2\r\n$12\r\nconfig-epoch\r\n$1\r\n7\r\n".to_owned()
        };
        if stream.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// The one that was asked first has hung since, which takes all the time that there was.
#[test]
fn a_hung_sentinel_does_not_hide_a_failover_from_a_take() {
    let scene = Failover::new(|number, old, new| {
        let asked = AtomicBool::new(false);
        Box::new(move || match (number, asked.swap(true, Ordering::SeqCst)) {
            (0, false) => Deed::Name(old),
            (0, true) => Deed::Hang,
            _ => Deed::Name(new),
        })
    });
    let holder = scene.hold(&["--connect-timeout", &ttl(1000)]);
    assert_ne!(scene.new.cli(&["get", "X"]), "", "it was granted by the old master");
    holder.let_go().expect(0);
}

/// All of them are too slow for the time that one of them gets.
#[test]
fn slow_sentinels_do_not_hide_a_failover_from_a_take() {
    let asked = Arc::new(AtomicBool::new(false));
    let scene = Failover::new(|_, old, new| {
        let asked = Arc::clone(&asked);
        Box::new(move || {
            if !asked.swap(true, Ordering::SeqCst) {
                return Deed::Name(old);
            }
            thread::sleep(Duration::from_millis(60));
            Deed::Name(new)
        })
    });
    let holder = scene.hold(&["--connect-timeout", "150ms"]);
    assert_ne!(scene.new.cli(&["get", "X"]), "", "it was granted by the old master");
    holder.let_go().expect(0);
}

/// A renewal has 250 ms, and the first Sentinel hangs.
#[test]
fn a_hung_sentinel_does_not_hide_a_failover_from_a_renewal() {
    let has_failed_over = Arc::new(AtomicBool::new(false));
    let scene = Failover::new(|number, old, new| {
        let has_failed_over = Arc::clone(&has_failed_over);
        Box::new(move || match (number, has_failed_over.load(Ordering::SeqCst)) {
            (_, false) => Deed::Name(old),
            (0, true) => Deed::Hang,
            _ => Deed::Name(new),
        })
    });
    let mut holder = scene.hold(&[]);
    assert_ne!(scene.old.cli(&["get", "X"]), "");
    has_failed_over.store(true, Ordering::SeqCst);
    eventually(Duration::from_secs(20), "the lock is on the new master", || {
        !scene.new.cli(&["get", "X"]).is_empty()
    });
    assert!(!holder.has_ended());
    holder.let_go().expect(0);
}

/// Since the last question all of them were started anew, which ends connections.
#[test]
fn sentinels_started_anew_do_not_hide_a_failover() {
    let has_failed_over = Arc::new(AtomicBool::new(false));
    let scene = Failover::new(|_, old, new| {
        let has_failed_over = Arc::clone(&has_failed_over);
        let was_started_anew = AtomicBool::new(false);
        Box::new(move || {
            if !has_failed_over.load(Ordering::SeqCst) {
                Deed::Name(old)
            } else if was_started_anew.swap(true, Ordering::SeqCst) {
                Deed::Name(new)
            } else {
                Deed::HangUp
            }
        })
    });
    let mut holder = scene.hold(&[]);
    has_failed_over.store(true, Ordering::SeqCst);
    eventually(Duration::from_secs(20), "the lock is on the new master", || {
        !scene.new.cli(&["get", "X"]).is_empty()
    });
    assert!(!holder.has_ended());
    holder.let_go().expect(0);
}
