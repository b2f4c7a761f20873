//! Answers that no ZooKeeper gives.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::thread;

use super::run_at;
use crate::harness::Redlock;

/// A server that sends this to everybody, and then the second again and again.
fn that_says(first: Vec<u8>, then: Vec<u8>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("its number").port();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let (first, then) = (first.clone(), then.clone());
            thread::spawn(move || {
                let _ = client.write_all(&first);
                while !then.is_empty() && client.write_all(&then).is_ok() {}
                // The end of the request, so that the end of the connection is no reset.
                let _ = client.shutdown(Shutdown::Write).and_then(|()| client.read_to_end(&mut Vec::new()));
            });
        }
    });
    port
}

/// A packet with these numbers in it.
fn packet(numbers: &[i32]) -> Vec<u8> {
    let length = 4 * numbers.len() as i32;
    [&[length], numbers].concat().iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// No answer is too odd: one line, in time.
#[test]
fn answers_without_sense() {
    let welcome = packet(&[0, 30_000, 0, 7, 16, 1, 2, 3, 4]);
    // A change of what nobody watches: number -1, transaction, no error, type, state, no path.
    let event = packet(&[-1, 0, 1, 0, 1, 3, 0]);
    // A list of 2^31 names, and an answer to a request that was never made.
    let children = packet(&[1, 0, 1, 0, i32::MAX]);
    let other = packet(&[77, 0, 1, 0]);
    for (first, then, words) in [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), vec![], "is this the right port?"),
        (vec![0x7f, 0xff, 0xff, 0xff], vec![], "is this the right port?"),
        (vec![], vec![], "it ended the connection"),
        (vec![0, 0, 0, 37, 0], vec![], "it ended the connection"),
        (packet(&[0, 30_000, 0, 7, 4, 1]), vec![], "is this the right port?"),
        (packet(&[0]), vec![], "is this the right port?"),
        (welcome.clone(), vec![], "it ended the connection"),
        (welcome.clone(), event, "in time"),
        (welcome.clone(), other, "in time"),
        (welcome, children, "is this the right port?"),
    ] {
        let port = that_says(first, then);
        run_at(&format!("zk://127.0.0.1:{port}")).fails(69, words);
    }
}

/// A queue of twenty, each with 4 MiB about itself: no server fills the memory.
#[test]
fn answers_that_are_too_long_together() {
    const STAT: [i32; 17] = [0; 17];
    let name = |number: i32| format!("alock-{number:010}");
    let number = |quarter: &[u8]| i32::from_be_bytes(quarter.try_into().expect("four bytes"));
    let children = (0..20).flat_map(|child| {
        let name = name(child).into_bytes();
        [&[16][..], &name.chunks(4).map(number).collect::<Vec<_>>()].concat()
    });
    let children: Vec<i32> = [1, 0, 1, 0, 20].into_iter().chain(children).chain(STAT).collect();
    let mut answers = packet(&[0, 30_000, 0, 7, 16, 1, 2, 3, 4]);
    answers.extend(packet(&children));
    let data = vec![0; 1 << 20];
    for request in 2..22 {
        answers.extend(packet(&[&[request, 0, 1, 0, 4 << 20][..], &data, &STAT].concat()));
    }
    let url = format!("zk://127.0.0.1:{}", that_says(answers, vec![]));
    // All of that takes seconds on a busy machine, and nothing here is about the time.
    let status = Redlock::new(&["status", "X", "--connect-timeout", "60s"]).server(&url).run().expect(69);
    assert!(status.line().contains("too long"), "{status:?}");
}
