//! A night in which everything happens to one job, and what can be seen of it: then, and the next morning.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::{Folder, Network, Redis, Redlock, Running, Store, eventually, namespaces, pause, ttl};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");
const SOON: Duration = Duration::from_secs(30);

/// Three hosts, their Redis, and what they write.
struct Night {
    network: Network,
    redis: Redis,
    folder: Folder,
    ttl: String,
}

impl Night {
    fn new() -> Night {
        let redis = Redis::with(&["--bind", "0.0.0.0", "--protected-mode", "no"]);
        Night { network: Network::of(3), redis, folder: Folder::new(), ttl: ttl(3000) }
    }

    /// The job on one of web1, web2 and web3, until it is let go.
    fn nightly(&self, host: usize) -> Running {
        let url = format!("redis://{}:{}", self.network.test_address(), self.redis.port);
        let [log, metrics] = ["log", "metrics.prom"].map(|name| self.folder.path(name).display().to_string());
        let name = format!("web{}", host + 1);
        let mut line = self.network.on(host);
        line.extend(
            ["unshare", "--uts", "sh", "-c", "hostname \"$0\" && exec \"$@\"", &name].map(str::to_owned),
        );
        let run = [PROGRAM, "run", "-k", "nightly", "--wait", "--ttl", &self.ttl, "--history", "20", "-q"];
        line.extend(run.map(str::to_owned));
        line.extend(["--log-file", &log, "--metrics-file", &metrics, "--", "cat"].map(str::to_owned));
        let args: Vec<&str> = line[1..].iter().map(String::as_str).collect();
        Redlock::under(&line[0], &args).server(&url).open_stdin().spawn()
    }

    fn ask(&self, args: &[&str]) -> Redlock {
        Redlock::new(args).server(&self.redis.url())
    }

    /// Waits until `status nightly` has all these words in its line about the holder, or in that about its lease.
    fn await_status(&self, holder: &str, lease: &str) {
        eventually(SOON, &format!("{holder} {lease}"), || {
            let status = self.ask(&["status", "nightly"]).run().expect(0).stdout;
            let has = |name: &str, words: &str| {
                status.lines().any(|line| line.trim_start().starts_with(name) && line.contains(words))
            };
            has("holder", &format!(" {holder} (pid ")) && has("lease", lease)
        });
    }
}

/// One host is cut off, one is stopped, one holds the lock and loses it to an administrator.
#[test]
fn of_three_hosts() {
    if !namespaces() {
        return;
    }
    let night = Night::new();
    let cut_off = night.nightly(0);
    night.await_status("web1", "alive: renewed ");
    let stopped = night.nightly(1);
    eventually(SOON, "the next one", || waiting(&night) == ["web2"]);
    let broken = night.nightly(2);
    eventually(SOON, "the last one", || waiting(&night) == ["web2", "web3"]);

    night.network.cut_off(0);
    night.await_status("web1", "not renewed for ");
    assert!(cut_off.finish().expect(79).stderr.contains("no renewal came through in time"));
    night.await_status("web2", "alive: renewed ");
    pause(stopped.pid());
    night.await_status("web2", "not renewed for ");
    night.await_status("web3", "alive: renewed ");
    night.ask(&["break", "nightly", "--yes", "--reason", "stuck since 02:00"]).run().expect(0);
    let last_words = broken.finish().expect(79).stderr;
    assert!(
        last_words.contains("it was broken with `redlock break` by ")
            && last_words.contains(": stuck since 02:00")
    );
    night.ask(&["check", "--ran-within", "1h", "nightly"]).run().expect(1);

    stopped.signal(Signal::SIGCONT);
    stopped.finish().expect(79);
    night.network.join(0);
    night.nightly(2).let_go().expect(0);
    let ask = |args: &[&str]| night.ask(args);
    eventually(SOON, "three runs", || history(&ask).len() == 3);
    let runs = history(&ask);
    let told: Vec<[&str; 2]> =
        runs.iter().map(|run| ["host", "outcome"].map(|name| run[name].as_str().expect("a text"))).collect();
    // That of web1 could not reach the store when it ended.
    assert_eq!(told, [["web3", "success"], ["web3", "lost"], ["web2", "lost"]]);
    assert!(runs[1]["broken_by"].as_str().is_some_and(|by| by.ends_with(": stuck since 02:00")), "{runs:#?}");
    night.ask(&["check", "--ran-within", "1h", "nightly"]).run().expect(0);
    // The hosts' own file knows of it.
    let metrics = night.folder.path("metrics.prom");
    assert_eq!((counted(&metrics, "lost"), counted(&metrics, "success")), (3.0, 1.0));
}

/// What each of them says of itself is in three places, which agree to the last one.
#[test]
fn of_two_hundred_runs() {
    let store = Store::redis();
    let [log, metrics] = ["log", "metrics.prom"].map(|name| store.folder.path(name));
    let files = ["--log-file", path(&log), "--metrics-file", path(&metrics)];
    let run = |number: usize| {
        let status = format!("exit {}", number % 2);
        let args = ["run", "-k", "nightly", "--wait", "--history", "200", "-q"];
        store.redlock(&[&args[..], &files, &["--", "sh", "-c", &status]].concat()).spawn()
    };
    for first in (0..200).step_by(50) {
        let running: Vec<Running> = (first..first + 50).map(run).collect();
        running.into_iter().zip(0..).for_each(|(run, number)| drop(run.finish().expect(number % 2)));
    }
    let ask = |args: &[&str]| store.redlock(args);
    eventually(SOON, "all runs", || history(&ask).len() == 200);
    let log = fs::read_to_string(&log).expect("a log");
    // A writer that this machine held up may be followed by an empty one.
    let ends = log
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let ends: Vec<Value> = ends.filter(|event| event["event"] == "ended").collect();
    for outcome in ["success", "failure"] {
        let of = |runs: &[Value]| runs.iter().filter(|run| run["outcome"] == outcome).count();
        assert_eq!((of(&history(&ask)), of(&ends)), (100, 100), "{outcome}");
        assert_eq!(counted(&metrics, outcome), 100.0);
    }
}

fn history(ask: &dyn Fn(&[&str]) -> Redlock) -> Vec<Value> {
    let shown = ask(&["history", "nightly", "--json"]).run().expect(0).stdout;
    let mut shown: Value = serde_json::from_str(&shown).expect("JSON");
    shown[0]["runs"].take().as_array().expect("runs").clone()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// The hosts that wait, in their order.
fn waiting(night: &Night) -> Vec<String> {
    let shown = night.ask(&["status", "nightly", "--json"]).run().expect(0).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let waiters = shown[0]["waiters"].as_array().expect("waiters").iter();
    waiters.map(|waiter| waiter["host"].as_str().expect("a host").to_owned()).collect()
}

/// The runs in the metrics file that came to this.
fn counted(metrics: &Path, outcome: &str) -> f64 {
    let metrics = fs::read_to_string(metrics).expect("the metrics");
    let label = format!("outcome=\"{outcome}\"");
    let runs =
        metrics.lines().filter(|line| line.starts_with("redlock_runs_total{") && line.contains(&label));
    runs.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}
