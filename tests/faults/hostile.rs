//! Servers that send without end, or more than anybody can use: the time is kept, and the memory.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{Authority, Finished, Redlock, Running, eventually};

/// What a hostile server sends when it is asked something.
#[derive(Clone)]
struct Answer {
    begin: Vec<u8>,
    /// Sent again and again.
    then: Vec<u8>,
    pause: Duration,
}

/// For one connection. Its server ends by itself.
const MOST_TIME: Duration = Duration::from_secs(90);
/// More than is sent in the time that a call may take.
const MOST_BYTES: usize = 2 << 30;

impl Answer {
    fn endless(begin: &str, then: &str) -> Answer {
        // As fast as can be: many at once.
        let then = then.repeat(65536 / then.len());
        Answer { begin: begin.into(), then: then.into(), pause: Duration::ZERO }
    }

    fn once(answer: String) -> Answer {
        Answer { begin: answer.into(), then: Vec::new(), pause: Duration::from_millis(100) }
    }

    /// One byte each 100 ms.
    fn dribble() -> Answer {
        Answer { begin: b"+".into(), then: b"x".into(), pause: Duration::from_millis(100) }
    }

    /// Where a server listens that answers so.
    fn server(self) -> String {
        self.watched_server().0
    }

    /// The same; it tells when what it begins with is on its way.
    fn watched_server(self) -> (String, mpsc::Receiver<()>) {
        let (tell, asked) = mpsc::channel();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its number").to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, tell) = (self.clone(), tell.clone());
                std::thread::spawn(move || answer.send(stream, &tell));
            }
        });
        (address, asked)
    }

    fn send(&self, mut stream: TcpStream, tell: &mpsc::Sender<()>) -> std::io::Result<()> {
        let end = Instant::now() + MOST_TIME;
        stream.set_read_timeout(Some(MOST_TIME))?;
        stream.set_write_timeout(Some(MOST_TIME))?;
        let _ = stream.read(&mut [0; 65536])?;
        stream.write_all(&self.begin)?;
        let _ = tell.send(());
        let mut sent = 0;
        while Instant::now() < end && sent < MOST_BYTES {
            sent += self.then.len();
            stream.write_all(&self.then)?;
            std::thread::sleep(self.pause);
        }
        Ok(())
    }
}

/// CLUSTER SLOTS with so many servers, each with a row of slots.
fn slots(servers: usize) -> Answer {
    let row = |n: usize| {
        let host = format!("127.{}.{}.{}", n / 62500 + 1, n / 250 % 250, n % 250 + 1);
        format!("*3\r\n:{0}\r\n:{0}\r\n*2\r\n${1}\r\n{host}\r\n:1\r\n", n % 16384, host.len())
    };
    Answer::once(format!("*{servers}\r\n") + &(0..servers).map(row).collect::<String>())
}

/// A child that runs to its end, how long that took, and the most memory that it had, in MiB.
fn watched(mut running: Running) -> (Finished, Duration, u64) {
    let (start, mut peak) = (Instant::now(), 0);
    let file = format!("/proc/{}/status", running.pid());
    eventually(Duration::from_secs(60), "the end of redlock", || {
        let status = std::fs::read_to_string(&file).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = peak.max(line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0));
        running.has_ended()
    });
    (running.finish(), start.elapsed(), peak / 1024)
}

/// The timeout, another second for giving back, and more for a busy machine.
const LATEST: Duration = Duration::from_secs(20);

/// It cannot be reached, says one short line, in time and with this memory.
#[track_caller]
fn given_up(url: &str, args: &[&str], most: u64) {
    let args = [&args[..1], &["--connect-timeout", "1s"], &args[1..]].concat();
    let authority = Authority::new();
    let redlock = Redlock::new(&args).server(url).env("REDLOCK_TLS_CA", authority.file());
    let (ended, took, peak) = watched(redlock.spawn());
    println!("{took:?}, {peak} MiB: {}", ended.stderr.trim_end());
    assert_eq!(ended.code(), 69, "{ended:?}");
    assert!(ended.line().len() < 600 && ended.stdout.is_empty(), "{args:?} {ended:?}");
    assert!(took < LATEST && peak < most, "{args:?}: {took:?}, {peak} MiB: {ended:?}");
}

/// Twice the memory of a call that goes well, and a little.
const USUAL: u64 = 64;
/// Where a list may be long. 16 MiB of the shortest values took 400 MiB.
const LIST: u64 = 128;

fn endless() -> Vec<Answer> {
    vec![
        Answer::endless("+", "x"),
        Answer::endless("-ERR ", "x"),
        Answer::endless("", "*1\r\n"),
        Answer::endless("*9999999\r\n", "*0\r\n"),
        Answer::endless("*9999999\r\n", "$-1\r\n"),
        Answer::endless("$999999999\r\n", "x"),
        Answer::endless("%999999999\r\n", ":1\r\n"),
        Answer::dribble(),
    ]
}

#[test]
fn replies_without_end() {
    for answer in endless() {
        let url = format!("redis://{}", answer.server());
        given_up(&url, &RUN, USUAL);
    }
}

/// With a password the reply to the login is the first.
#[test]
fn replies_without_end_to_a_login() {
    for answer in endless() {
        let address = answer.server();
        given_up(&format!("redis://:canary@{address}"), &["check", "-k", "X", "--token", TOKEN], USUAL);
        given_up(&format!("redis+sentinel://:canary@{address}/mine"), &RUN, USUAL);
    }
}

const RUN: [&str; 5] = ["run", "-k", "X", "--", "true"];
const TOKEN: &str = "11111111-1111-4111-8111-111111111111";

#[test]
fn handshakes_without_end() {
    let dribble = Answer { begin: b"\x16\x03\x03\x40\x00".into(), then: b"\x02".into(), ..Answer::dribble() };
    // A record of TLS that changes nothing, and one that is longer than any.
    let endless = ["\x14\x03\x03\x00\x01\x01", "\x16\x03\x03\x40\x00"].map(|then| Answer::endless("", then));
    for answer in endless.into_iter().chain([dribble]) {
        given_up(&format!("rediss://{}", answer.server()), &RUN, USUAL);
    }
}

#[test]
fn lists_without_end() {
    for answer in endless() {
        let address = answer.server();
        given_up(&format!("redis://{address}"), &["status"], LIST);
        given_up(&format!("redis+cluster://{address}"), &RUN, LIST);
    }
    // SCAN that never comes to its end.
    let page = "*2\r\n$1\r\n1\r\n*1\r\n$17\r\nredlock:{X}:state\r\n";
    given_up(&format!("redis://{}", Answer::endless("", page).server()), &["status"], LIST);
}

/// Frames of HTTP/2 that ask for nothing, one behind the other: a type, flags, and what they carry on the first stream or none.
#[test]
fn frames_without_end() {
    const SETTINGS: &str = "\0\0\0\x04\0\0\0\0\0";
    let ping_ack = "\0\0\x08\x06\x01\0\0\0\0\0\0\0\0\0\0\0\0";
    let window_update = "\0\0\x04\x08\0\0\0\0\0\0\0\0\x01";
    let priority = "\0\0\x05\x02\0\0\0\0\x01\0\0\0\0\x0f";
    let unknown = "\0\0\0\x6e\0\0\0\0\0";
    for frame in [ping_ack, window_update, priority, unknown] {
        let url = format!("etcd://{}", Answer::endless(SETTINGS, frame).server());
        given_up(&url, &RUN, USUAL);
        // A signal is heard as well, with all the time in the world.
        let (address, asked) = Answer::endless(SETTINGS, frame).watched_server();
        let args = ["run", "--connect-timeout", "60s", "--wait", "-k", "X", "--", "true"];
        let running = Redlock::new(&args).server(&format!("etcd://{address}")).spawn();
        asked.recv_timeout(Duration::from_secs(20)).expect("a request");
        running.signal(Signal::SIGTERM);
        let (ended, took, _) = watched(running);
        assert!(ended.code() == -15 && took < LATEST, "{took:?}: {ended:?}");
    }
}

#[test]
fn clusters_that_are_too_large() {
    for servers in [10_000, 100_000] {
        let url = format!("redis+cluster://{}", slots(servers).server());
        given_up(&url, &RUN, LIST);
    }
}

/// With all the time in the world.
#[test]
fn a_signal_ends_it() {
    for (answer, scheme, rest) in [
        (Answer::dribble(), "redis://", ""),
        (Answer::dribble(), "redis+sentinel://", "/mine"),
        (slots(20_000), "redis+cluster://", ""),
        (Answer::endless("+", "x"), "redis+cluster://", ""),
    ] {
        for wait in [&["--wait"][..], &[]] {
            let (address, asked) = answer.clone().watched_server();
            let url = format!("{scheme}{address}{rest}");
            let args = [&["run", "--connect-timeout", "60s"][..], wait, &RUN[1..]].concat();
            let mut running = Redlock::new(&args).server(&url).spawn();
            asked.recv_timeout(Duration::from_secs(20)).expect("a request");
            let port: u16 = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
            // What ends is read to its end, or given up.
            let is_over = |running: &mut Running| {
                !answer.then.is_empty()
                    || !has_more(running, port)
                    || asked.try_recv().is_ok()
                    || running.has_ended()
            };
            eventually(Duration::from_secs(20), "it has read what came", || is_over(&mut running));
            if !running.has_ended() {
                running.signal(Signal::SIGTERM);
            }
            let (ended, took, _) = watched(running);
            println!("{took:?} {url}");
            // Some are given up at once.
            assert!([-15, 69].contains(&ended.code()), "{url}: {ended:?}");
            assert!(took < LATEST, "{url}: {took:?}");
        }
    }
}

/// Whether something waits to be read on a connection to this port; see proc_net_tcp in the kernel's documentation.
fn has_more(running: &Running, port: u16) -> bool {
    let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", running.pid())).unwrap_or_default();
    let waits = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words[2].ends_with(&format!(":{port:04X}")) && words[3] == "01" && !words[4].ends_with(":00000000")
    };
    table.lines().skip(1).any(waits)
}

/// What a server says in an error is cut, and no text for a terminal.
#[test]
fn long_errors() {
    let answer = Answer::once(format!("-ERR \u{1b}]0;x\u{7}{}\r\n", "no ".repeat(100_000)));
    let url = format!("redis://{}", answer.server());
    let ended = Redlock::new(&RUN).server(&url).run().expect(69);
    assert!(ended.line().len() < 400 && !ended.line().contains(char::is_control), "{ended:?}");
}

const KINDS: [&str; 16] = ["*", "*", "$", "+", "-", ":", "%", "~", ">", "|", "_", "#", ",", "(", "=", "!"];
const RESTS: [&str; 10] =
    ["0\r\n", "1\r\n", "2\r\n", "3\r\n", "-1\r\n", "9\r\n", "\r\n", "a\r\n", "99999999999\r\n", ""];

/// Anything, with seeds that are the same each time.
#[test]
fn noise() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let length = random.usize(1..200);
        let noise: Vec<u8> = match seed % 3 {
            0 => (0..length).map(|_| random.u8(..)).collect(),
            // What looks like the protocol.
            _ => (0..length)
                .flat_map(|_| {
                    let (kind, rest) = (random.usize(..KINDS.len()), random.usize(..RESTS.len()));
                    format!("{}{}", KINDS[kind], RESTS[rest]).into_bytes()
                })
                .collect(),
        };
        let url = format!("{}://{}", ["redis", "redis+cluster"][seed as usize / 3 % 2], noisy(noise.clone()));
        let args: &[&str] = match seed % 5 {
            0 => &["status", "X"],
            1 => &["renew", "-k", "X", "--token", TOKEN],
            _ => &RUN,
        };
        let args = [&args[..1], &["--connect-timeout", "200ms"], &args[1..]].concat();
        let ended = Redlock::new(&args).server(&url).run();
        assert!(
            [69, 78].contains(&ended.code()),
            "seed {seed}: {:?} {ended:?}",
            String::from_utf8_lossy(&noise)
        );
        assert!(!ended.stderr.is_empty() && !ended.stderr.contains("panicked"), "seed {seed}: {ended:?}");
    }
}

/// Answers each request with this; then it mostly closes the connection.
fn noisy(noise: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its number").to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten().take(100) {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
            let _ = stream.read(&mut [0; 65536]);
            let _ = stream.write_all(&noise);
            if noise.len().is_multiple_of(4) {
                let _ = stream.read(&mut [0; 65536]);
            }
        }
    });
    address
}
