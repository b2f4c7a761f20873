//! How often redlock waits for a Redis server: on a line of 50 ms that is the time it takes.

use std::fmt::Debug;
use std::time::Duration;

use crate::harness::{Authority, Fault, Proxy, Redis, Redlock, Valid, free_port, in_cluster};

/// A server, and a proxy before it that counts.
struct Line {
    _redis: Redis,
    proxy: Proxy,
    url: String,
    authority: Option<Authority>,
}

impl Line {
    /// To `redis`, whose password is `canary` if it has one.
    fn to(redis: Redis, scheme: &str, rest: &str) -> Line {
        let proxy = Proxy::to(redis.port);
        let url = format!("{scheme}127.0.0.1:{}{rest}", proxy.port);
        let line = Line { _redis: redis, proxy, url, authority: None };
        line.meet();
        line
    }

    /// The server knows the scripts from now on, and has all the time that a client needs to send more.
    fn meet(&self) {
        let token = self.redlock(&["acquire", "-k", "warm"]).run().expect(0).stdout;
        for args in [["check", "-k", "warm"], ["renew", "-k", "warm"], ["release", "-k", "warm"]] {
            self.redlock(&args).env("REDLOCK_TOKEN", token.trim()).run().expect(0);
        }
        self.redlock(&["status", "warm"]).run().expect(0);
        self.proxy.set(Fault::Delay(Duration::from_millis(100)));
    }

    fn redlock(&self, args: &[&str]) -> Redlock {
        let redlock = Redlock::new(args).server(&self.url).env("REDLOCK_CONNECT_TIMEOUT", "30s");
        match &self.authority {
            Some(authority) => redlock.env("REDLOCK_TLS_CA", authority.file()),
            None => redlock,
        }
    }

    /// How many round trips a successful call takes, and its output.
    #[track_caller]
    fn count(&self, redlock: Redlock) -> (usize, String) {
        self.count_until(0, redlock)
    }

    #[track_caller]
    fn count_until(&self, status: i32, redlock: Redlock) -> (usize, String) {
        let before = self.proxy.round_trips();
        let stdout = redlock.run().expect(status).stdout;
        (self.proxy.round_trips() - before, stdout)
    }

    /// `run` connects, takes and releases; everything else connects and asks. `more` is what the line needs besides.
    #[track_caller]
    fn takes(&self, more: usize) {
        let expected = [3, 2, 2, 2, 2, 2].map(|count| count + more);
        as_expected(expected, || self.counts());
    }

    /// Of a `run`, and of an `acquire` and what follows it.
    fn counts(&self) -> [usize; 6] {
        // A success is noted besides, and nobody waits for that.
        let (run, _) = self.count_until(1, self.redlock(&["run", "-k", "X", "--", "false"]));
        let (acquire, token) = self.count(self.redlock(&["acquire", "-k", "X"]));
        let by_hand = |name: &str| {
            let redlock = self.redlock(&[name, "-k", "X"]).env("REDLOCK_TOKEN", token.trim());
            self.count(redlock).0
        };
        let [check, renew, release] = ["check", "renew", "release"].map(by_hand);
        [run, acquire, check, renew, release, self.count(self.redlock(&["status", "X"])).0]
    }
}

/// What is counted in one of five tries: where redlock is late with what it sends, or an answer so late that the server of a
/// cluster is looked for anew, there are more.
#[track_caller]
fn as_expected<T: PartialEq + Debug>(expected: T, mut count: impl FnMut() -> T) {
    let mut counted = Vec::new();
    while counted.last() != Some(&expected) && counted.len() < 5 {
        counted.push(count());
    }
    assert_eq!(counted.last(), Some(&expected), "{counted:?}");
}

fn with_password() -> Redis {
    Redis::with(&["--requirepass", "canary"])
}

#[test]
fn without_a_password() {
    Line::to(Redis::start(), "redis://", "").takes(0);
}

/// Nobody waits for the login alone.
#[test]
fn with_a_password() {
    Line::to(with_password(), "redis://:canary@", "").takes(0);
}

/// A request behind a database that is refused would be carried out in another one.
#[test]
fn with_a_password_and_a_database() {
    Line::to(with_password(), "redis://:canary@", "/3").takes(1);
}

/// The handshake is one more.
#[test]
fn encrypted_with_a_password() {
    let authority = Authority::new();
    let papers = authority.sign(&["127.0.0.1"], Valid::Now);
    let redis = Redis::with_tls(&papers, &papers, &["--tls-auth-clients", "no", "--requirepass", "canary"]);
    let proxy = Proxy::to(redis.port);
    let url = format!("rediss://:canary@127.0.0.1:{}", proxy.port);
    let line = Line { _redis: redis, proxy, url, authority: Some(authority) };
    line.meet();
    line.takes(1);
}

/// The question who has which slots is one more, which the login goes with.
#[test]
fn in_a_cluster_with_a_password() {
    let bus = free_port().to_string();
    let redis = Redis::with(&[&["--requirepass", "canary"], &in_cluster(&bus)[..]].concat());
    let proxy = Proxy::to(redis.port);
    let asked = |args: &[&str]| redis.cli(&[&["-a", "canary", "--no-auth-warning"][..], args].concat());
    assert_eq!(asked(&["config", "set", "cluster-announce-port", &proxy.port.to_string()]), "OK");
    assert_eq!(asked(&["cluster", "addslotsrange", "0", "16383"]), "OK");
    crate::harness::eventually(Duration::from_secs(20), "the cluster", || {
        asked(&["cluster", "info"]).contains("cluster_state:ok")
    });
    let url = format!("redis+cluster://:canary@127.0.0.1:{}", proxy.port);
    let line = Line { _redis: redis, proxy, url, authority: None };
    line.meet();
    line.takes(1);
}

/// All servers at once: each of them is waited for as often as one alone.
#[test]
fn in_a_quorum_with_a_password() {
    let lines = [(); 3].map(|()| Line::to(with_password(), "redis://:canary@", ""));
    let urls: Vec<&str> = lines.iter().map(|line| &*line.url).collect();
    // Two are a majority, and the last may be late.
    as_expected(true, || {
        let before = lines.each_ref().map(|line| line.proxy.round_trips());
        Redlock::new(&["run", "-k", "X", "--", "false"]).server(&urls.join(" ")).run().expect(1);
        let counted = lines.iter().zip(before).map(|(line, before)| line.proxy.round_trips() - before);
        let counted: Vec<usize> = counted.collect();
        println!("{counted:?}");
        counted.iter().filter(|count| **count == 3).count() >= 2 && counted.iter().all(|count| *count <= 3)
    });
}
