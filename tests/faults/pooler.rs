//! A pooler such as PgBouncer is in between.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::harness::{Postgres, Running, Store, eventually};

/// It lends server processes, and nothing is asked of one of them.
#[test]
fn a_pooler_that_the_url_does_not_name_is_refused() {
    if !Postgres::may_run() {
        return;
    }
    let mut store = Store::pgbouncer();
    let named = store.redlock(&["doctor"]).run().expect(0);
    assert!(named.stdout.contains("waiters poll"), "{named:?}");
    store.url = store.url.replace("?pooler=yes", "");
    let refused = store.redlock(&["run", "-k", "X", "--", "echo", "ran"]).run().expect(78);
    assert!(refused.stderr.contains("pooler=yes") && refused.stdout.is_empty(), "{refused:?}");
    assert_eq!(store.sql("select count(*) from redlock.lock"), "0");
    let examined = store.redlock(&["doctor"]).run().expect(1);
    assert!(examined.stdout.contains("a pooler"), "{examined:?}");
}

/// Somebody holds the lock 'b', and a relay is before the pooler.
fn busy() -> (Store, Running, Relay) {
    let mut store = Store::pgbouncer();
    let holder = store.hold("b", &[]);
    let relay = Relay::before(&store.url);
    store.url = relay.url.clone();
    (store, holder, relay)
}

/// PgBouncer before 1.21 gives the second of two answers to another client when the one that waits for both dies after the first.
/// A call that needs several transactions, some of which fail, shows it.
#[test]
fn behind_a_pooler_only_one_answer_is_due_at_a_time() {
    if !Postgres::may_run() {
        return;
    }
    let (store, holder, relay) = busy();
    store.redlock(&["acquire", "-k", "a", "-k", "b"]).run().expect(75);
    holder.let_go().expect(0);
    let (all, most) = (relay.all.load(Relaxed), relay.most.load(Relaxed));
    assert!(all > 1 && most == 1, "{all} answers, {most} at once");
}

/// The error comes when redlock has given up. The cancel behind it is another transaction, and succeeds.
#[test]
fn a_late_error_leaves_no_transaction_open() {
    if !Postgres::may_run() {
        return;
    }
    let (store, holder, relay) = busy();
    relay.is_late.store(true, Relaxed);
    // A busy machine may not have the answer within the second that a cancel has.
    eventually(Duration::from_secs(60), "a cancel that is answered", || {
        let acquire = store.redlock(&["acquire", "-k", "a", "-k", "b"]).env("REDLOCK_CONNECT_TIMEOUT", "1s");
        let gave_up = acquire.run().expect(69);
        println!("{gave_up:?}");
        !gave_up.stderr.contains("may stay locked")
    });
    holder.let_go().expect(0);
}

/// Stands between the program and its server, and counts the answers that are due.
struct Relay {
    url: String,
    all: Arc<AtomicI64>,
    most: Arc<AtomicI64>,
    /// Errors are passed on later.
    is_late: Arc<AtomicBool>,
}

impl Relay {
    fn before(url: &str) -> Relay {
        let rest = url.split_once('@').expect("a user").1;
        let place = rest.split_once('/').expect("a database").0.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("an address").to_string();
        let (all, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
        let is_late = Arc::new(AtomicBool::new(false));
        let relay = Relay {
            url: url.replace(&place, &own),
            all: Arc::clone(&all),
            most: Arc::clone(&most),
            is_late: Arc::clone(&is_late),
        };
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) =
                    (client.expect("a client"), TcpStream::connect(&place).expect("a server"));
                // The first one is that of the login.
                let due = Arc::new(AtomicI64::new(1));
                let (asked, answered) = (Arc::clone(&due), due);
                let (all, most, is_late) = (Arc::clone(&all), Arc::clone(&most), Arc::clone(&is_late));
                let back = [&server, &client].map(|stream| stream.try_clone().expect("a copy"));
                thread::spawn(move || {
                    pass_on(client, server, true, |kind| {
                        if kind == b'S' {
                            all.fetch_add(1, Relaxed);
                            most.fetch_max(asked.fetch_add(1, Relaxed) + 1, Relaxed);
                        }
                    });
                });
                let [server, client] = back;
                thread::spawn(move || {
                    pass_on(server, client, false, |kind| {
                        if kind == b'E' && is_late.load(Relaxed) {
                            thread::sleep(Duration::from_millis(1300));
                        }
                        answered.fetch_sub(i64::from(kind == b'Z'), Relaxed);
                    });
                });
            }
        });
        relay
    }
}

/// Passes messages on, and says what kind each has. The first one of a client has none.
fn pass_on(mut from: TcpStream, mut to: TcpStream, mut is_first: bool, mut see: impl FnMut(u8)) {
    loop {
        let mut message = vec![0; if is_first { 4 } else { 5 }];
        if from.read_exact(&mut message).is_err() {
            break;
        }
        let length = message.len();
        let size = u32::from_be_bytes(message[length - 4..].try_into().expect("four bytes")) as usize;
        message.resize(length + size - 4, 0);
        if from.read_exact(&mut message[length..]).is_err() {
            break;
        }
        if !is_first {
            see(message[0]);
        }
        is_first = false;
        if to.write_all(&message).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
