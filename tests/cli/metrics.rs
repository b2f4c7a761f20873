//! `--metrics-file`: what the runs of a host add up to.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{Folder, Store, ttl};

/// tests/run unpacks it.
const PROMTOOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/promtool");

/// Each series with its value.
fn series(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').expect("a series"))
        .map(|(name, value)| (name.to_owned(), value.parse().expect("a number")))
        .collect()
}

#[test]
fn each_end_is_counted_as_what_it_is() {
    let store = Store::redis();
    let folder = Folder::new();
    let path = folder.path("redlock.prom");
    let file = path.to_str().expect("a path");
    let run = |args: &[&str], status| {
        store.redlock(&[&["run", "--metrics-file", file, "X"], args].concat()).run().expect(status)
    };
    run(&["true"], 0);
    run(&["false"], 1);
    run(&["no-such-command"], 127);
    run(&["--", "sh", "-c", "kill -9 $$"], -9);
    let holder = store.hold("X", &[]);
    run(&["true"], 75);
    run(&["-w=100ms", "--", "true"], 75);
    holder.let_go().expect(0);
    let text = fs::read_to_string(&path).expect("the metrics");
    let series = series(&text);
    let value = |name: &str| series.get(name).copied().unwrap_or_default();
    for (outcome, runs) in [
        ("success", 1.0),
        ("failure", 1.0),
        ("not_started", 1.0),
        ("killed", 1.0),
        ("busy", 1.0),
        ("gave_up", 1.0),
    ] {
        assert_eq!(
            value(&format!("redlock_runs_total{{key=\"X\",outcome=\"{outcome}\"}}")),
            runs,
            "{outcome} {text}"
        );
    }
    assert_eq!(value("redlock_acquisitions_total{key=\"X\",outcome=\"acquired\"}"), 4.0);
    assert_eq!(value("redlock_wait_seconds_count{key=\"X\"}"), 6.0);
    assert_eq!(value("redlock_hold_seconds_count{key=\"X\"}"), 4.0);
    let [end, success] =
        ["end", "success"].map(|what| value(&format!("redlock_last_{what}_timestamp_seconds{{key=\"X\"}}")));
    assert!(success > 1.7e9 && end >= success, "{text}");
    assert_eq!(fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o644);
}

/// An inherited lock was not asked for; of several locks that one is lost which was broken.
#[test]
fn each_lock_counts_for_itself() {
    let store = Store::redis();
    let folder = Folder::new();
    let path = folder.path("redlock.prom");
    let file = path.to_str().expect("a path");
    let program = env!("CARGO_BIN_EXE_redlock");
    let nested =
        ["run", "--metrics-file", file, "n", "--", program, "run", "--metrics-file", file, "n", "--", "true"];
    store.redlock(&nested).run().expect(0);
    let ttl = ttl(1500);
    let two = store
        .redlock(&["run", "--metrics-file", file, "-k", "a", "-k", "b", "-t", &ttl, "--", "sleep", "60"])
        .spawn();
    store.await_holder("b");
    store.redlock(&["break", "-y", "b"]).run().expect(0);
    two.finish().expect(79);
    let series = series(&fs::read_to_string(&path).expect("the metrics"));
    for (name, value) in [
        ("redlock_acquisitions_total{key=\"n\",outcome=\"acquired\"}", 1.0),
        ("redlock_acquisitions_total{key=\"n\",outcome=\"failed\"}", 0.0),
        ("redlock_runs_total{key=\"n\",outcome=\"success\"}", 2.0),
        ("redlock_hold_seconds_count{key=\"n\"}", 1.0),
        ("redlock_locks_lost_total{key=\"a\"}", 0.0),
        ("redlock_locks_lost_total{key=\"b\"}", 1.0),
    ] {
        assert_eq!(series.get(name), Some(&value), "{name}");
    }
    assert_eq!(series.get("redlock_acquisitions_total{key=\"n\",outcome=\"success\"}"), None);
}

/// None is missing, whoever writes at the same time.
#[test]
fn two_hundred_runs_at_once_add_up() {
    let store = Store::local();
    let folder = Folder::new();
    let path = folder.path("redlock.prom");
    let file = path.to_str().expect("a path");
    for batch in 0..10 {
        let run = |one: usize| {
            let key = format!("key-{}", (batch + one) % 4);
            store.redlock(&["run", "-w", "--metrics-file", file, "-k", &key, "--", "true"]).spawn()
        };
        let running: Vec<_> = (0..20).map(run).collect();
        running
            .into_iter()
            .for_each(|one| assert_eq!(one.finish().expect(0).stderr.matches("metrics").count(), 0));
    }
    let series = series(&fs::read_to_string(&path).expect("the metrics"));
    let runs =
        series.iter().filter(|(name, _)| name.starts_with("redlock_runs_total")).map(|(_, value)| value);
    assert_eq!(runs.sum::<f64>(), 200.0);
}

#[test]
fn prometheus_understands_the_file() {
    let store = Store::local();
    let folder = Folder::new();
    let path = folder.path("redlock.prom");
    for key in ["plain", "a \"quoted\" \\ key", "schl\u{fc}ssel"] {
        let file = path.to_str().expect("a path");
        store.redlock(&["run", "--metrics-file", file, "-k", key, "--", "true"]).run().expect(0);
    }
    check(&path);
}

fn check(metrics: &Path) {
    let file = fs::File::open(metrics).expect("the metrics");
    let mut promtool = Command::new(PROMTOOL);
    let checked = promtool.args(["check", "metrics"]).stdin(Stdio::from(file)).output().expect("promtool");
    let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
    assert!(checked.status.success() && said.is_empty(), "{said}");
}

#[test]
fn prometheus_understands_the_locks() {
    let store = Store::local();
    let key = "a \"quoted\" \\ key";
    let holder = store.hold(key, &[]);
    let waiter = store.redlock(&["acquire", "--wait", "-k", key]).spawn();
    store.await_waiters(key, 1);
    let shown = store.redlock(&["status", "--format", "prometheus"]).run().expect(0).stdout;
    let series = series(&shown);
    let value = |name: &str| series[&format!("{name}{{key=\"a \\\"quoted\\\" \\\\ key\"}}")];
    assert_eq!((value("redlock_lock_holders"), value("redlock_lock_waiters")), (1.0, 1.0));
    assert!((20.0..=30.0).contains(&value("redlock_lock_left_seconds")), "{shown}");
    assert!(value("redlock_lock_held_seconds") >= value("redlock_lock_waited_seconds"), "{shown}");
    let file = Folder::new();
    fs::write(file.path("shown"), &shown).expect("a file");
    check(&file.path("shown"));
    holder.let_go().expect(0);
    waiter.finish().expect(0);
    // Free, and waited for by nobody.
    let shown = store.redlock(&["status", "--format", "prometheus", "another"]).run().expect(0).stdout;
    assert!(shown.contains("redlock_lock_holders{key=\"another\"} 0\n"), "{shown}");
}

/// A file that redlock did not write is left as it is, and no failure to count changes the job's result.
#[test]
fn a_file_that_cannot_be_counted_in() {
    let store = Store::local();
    let folder = Folder::new();
    let foreign = folder.path("foreign.prom");
    fs::write(&foreign, "up 1\n").expect("a file");
    let endless = folder.path("endless.prom");
    std::os::unix::fs::symlink("/dev/zero", &endless).expect("a link");
    for file in [&foreign, &folder.path("none/x.prom"), &endless] {
        let path = file.to_str().expect("a path");
        let ran =
            store.redlock(&["run", "--metrics-file", path, "-k", "X", "--", "sh", "-c", "exit 3"]).run();
        let ran = ran.expect(3);
        assert!(ran.line().starts_with("redlock: cannot update --metrics-file "), "{ran:?}");
    }
    assert_eq!(fs::read_to_string(foreign).expect("the file"), "up 1\n");
}

#[test]
fn prometheus_understands_the_alerts() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/monitoring/alerts.yml");
    let checked = Command::new(PROMTOOL).args(["check", "rules", rules]).output().expect("promtool");
    assert!(checked.status.success(), "{checked:?}");
}

/// What alerts and dashboard ask for is what the file has.
#[test]
fn alerts_and_dashboard_ask_for_metrics_that_exist() {
    let store = Store::local();
    let folder = Folder::new();
    let path = folder.path("redlock.prom");
    store
        .redlock(&["run", "--metrics-file", path.to_str().expect("a path"), "X", "--", "true"])
        .run()
        .expect(0);
    let metrics = fs::read_to_string(path).expect("the metrics");
    for name in ["alerts.yml", "dashboard.json"] {
        let file = format!("{}/docs/monitoring/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(file).expect("a file");
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let asked: Vec<&str> = words.filter(|word| word.starts_with("redlock_")).collect();
        assert!(asked.len() > 5, "{asked:?}");
        for series in asked {
            assert!(metrics.lines().any(|line| line.starts_with(&format!("{series}{{"))), "{name}: {series}");
        }
    }
    let dashboard = include_str!("../../docs/monitoring/dashboard.json");
    serde_json::from_str::<serde_json::Value>(dashboard).expect("JSON");
}

/// What the first run of a key counts is seen, although no series was there before; so is what a later one adds.
#[test]
fn alerts_see_the_first_count_and_the_later_ones() {
    let folder = Folder::new();
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/monitoring/alerts.yml");
    let lost = |labels: &str, values: &str, alerts: &str| {
        format!(
            "- interval: 1m\n  input_series: [{{series: 'redlock_locks_lost_total{{{labels}}}', values: '{values}'}}]\n  \
             alert_rule_test: [{{eval_time: 30m, alertname: RedlockLockLost, exp_alerts: [{alerts}]}}]\n"
        )
    };
    let fires = "{exp_labels: {severity: critical, key: X, instance: web1}, exp_annotations: {\
        summary: 'X was lost on web1 while its job ran', \
        description: 'The job was stopped before another could hold the lock. The event lock_lost in the log has the cause.'}}";
    let labels = "key=\"X\",instance=\"web1\"";
    let tests = [("_x10 1x60", fires), ("0x10 1x60", fires), ("0x80", "")];
    let tests: String = tests.iter().map(|(values, alerts)| lost(labels, values, alerts)).collect();
    let file = folder.path("tests.yml");
    fs::write(&file, format!("rule_files: [{rules}]\nevaluation_interval: 1m\ntests:\n{tests}"))
        .expect("a file");
    let tested = Command::new(PROMTOOL).args(["test", "rules"]).arg(file).output().expect("promtool");
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
}
