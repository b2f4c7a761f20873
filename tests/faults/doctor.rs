//! What makes a server unfit to hold locks is found when it is planted, and not when it is not.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{
    Authority, Fault, Finished, Folder, Proxy, Redis, Redlock, Valid, eventually, free_port, in_cluster,
    namespaces, ttl, within,
};

/// Of a server that is fit, for a quorum as well.
const FIT: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// What `doctor` said.
struct Diagnosis {
    code: i32,
    findings: Vec<Value>,
}

/// `urls` are separated by spaces.
fn diagnose(urls: &str, options: &[&str]) -> Diagnosis {
    Diagnosis::of(&Redlock::new(&[&["doctor", "--json"][..], options].concat()).server(urls).run())
}

impl Diagnosis {
    #[track_caller]
    fn of(output: &Finished) -> Diagnosis {
        assert_eq!(output.stderr, "");
        let findings = serde_json::from_str(&output.stdout);
        let findings = findings.unwrap_or_else(|error| panic!("{error}: {output:?}"));
        Diagnosis { code: output.code(), findings }
    }

    fn level(&self, check: &str) -> &str {
        self.one(check)["level"].as_str().unwrap_or("none")
    }

    /// The worst finding of a check.
    #[track_caller]
    fn one(&self, check: &str) -> &Value {
        let rank =
            |one: &&Value| ["ok", "unknown", "warning", "bad"].iter().position(|name| one["level"] == *name);
        let found = self.findings.iter().filter(|one| one["check"] == check).max_by_key(rank);
        found.unwrap_or_else(|| panic!("nothing about {check}: {:?}", self.findings))
    }

    /// It is found, it is `level`, and it says all of `words`.
    #[track_caller]
    fn expect(&self, check: &str, level: &str, words: &[&str]) {
        let one = self.one(check);
        let text = format!("{} {}", one["finding"], one["advice"]);
        assert!(one["level"] == level && words.iter().all(|word| text.contains(word)), "{one}");
        assert_eq!(self.code, i32::from(self.findings.iter().any(|one| one["level"] == "bad")));
    }
}

fn fit(count: usize) -> Vec<Redis> {
    (0..count).map(|_| Redis::with(&FIT)).collect()
}

fn urls(servers: &[Redis]) -> String {
    servers.iter().map(Redis::url).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_server_that_evicts_locks() {
    for policy in ["allkeys-lru", "volatile-lru", "volatile-ttl"] {
        let redis = Redis::with(&["--maxmemory", "50mb", "--maxmemory-policy", policy]);
        diagnose(&redis.url(), &[]).expect("eviction", "bad", &[policy, "noeviction"]);
        redis.cli(&["config", "set", "maxmemory-policy", "noeviction"]);
        diagnose(&redis.url(), &[]).expect("eviction", "ok", &[]);
    }
}

#[test]
fn a_replica() {
    let master = Redis::start();
    let replica = Redis::with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    eventually(Duration::from_secs(20), "the replica follows", || {
        replica.cli(&["info", "replication"]).contains("master_link_status:up")
            && master.cli(&["info", "replication"]).contains("state=online")
    });
    diagnose(&replica.url(), &[]).expect("role", "bad", &["replica", &format!("127.0.0.1:{}", master.port)]);
    let diagnosis = diagnose(&master.url(), &[]);
    diagnosis.expect("role", "ok", &[]);
    diagnosis.expect("replicas", "ok", &["1", "--replicas 1"]);
    diagnosis.expect("persistence", "warning", &["on its replicas as well"]);
    assert_eq!(diagnosis.code, 0);
    diagnose(&master.url(), &["--replicas", "2"]).expect("replicas", "bad", &["--replicas 2"]);
    // Where INFO does not say what it is, its refusal does.
    replica.cli(&["acl", "setuser", "default", "-info"]);
    let hidden = diagnose(&replica.url(), &[]);
    hidden.expect("role", "unknown", &["could not see"]);
    hidden.expect("locking", "bad", &["name its master"]);
}

#[test]
fn one_server_under_two_names() {
    let servers = fit(2);
    let (first, second) = (servers[0].url(), servers[1].url());
    let again = format!("redis://localhost:{}", servers[0].port);
    let diagnosis = diagnose(&format!("{first} {second} {again}"), &[]);
    diagnosis.expect("distinct", "bad", &[&first, &again]);
    assert!(!diagnosis.one("distinct")["finding"].to_string().contains(&second));
}

#[test]
fn a_quorum() {
    let mut servers = fit(3);
    let healthy = diagnose(&urls(&servers), &["--ttl", "1s"]);
    for one in &healthy.findings {
        assert_eq!(one["level"], "ok", "{one}");
    }
    assert_eq!(healthy.code, 0);
    for server in &servers {
        assert_eq!(server.cli(&["dbsize"]), "0", "something is left");
    }

    // Two of them are enough to go on, and too few to begin with.
    diagnose(&urls(&servers[..2]), &[]).expect("size", "warning", &["survive the loss of 0", "use 3"]);

    let dead = servers[2].url();
    servers[2].kill();
    let diagnosis = diagnose(&urls(&servers), &[]);
    diagnosis.expect("reachable", "bad", &["connection refused"]);
    assert_eq!(diagnosis.one("reachable")["server"], dead);
    diagnosis.expect("locking", "ok", &[]);
    assert_eq!(diagnosis.code, 1);
    assert!(!diagnosis.findings.iter().any(|one| one["check"] == "majority"));
    servers[1].kill();
    diagnose(&urls(&servers), &[]).expect("majority", "bad", &["1 of 3"]);
}

#[test]
fn a_quorum_that_forgets() {
    let mut servers = fit(2);
    servers.push(Redis::start());
    let forgetful = servers[2].url();
    let diagnosis = diagnose(&urls(&servers), &["--ttl", "1h"]);
    diagnosis.expect(
        "persistence",
        "bad",
        &["restart", "appendonly", "longer than the longest TTL (1h here)"],
    );
    diagnosis.expect("uptime", "bad", &["less than a TTL of 1h"]);
    for check in ["persistence", "uptime"] {
        assert_eq!(diagnosis.one(check)["server"], forgetful);
    }
    // By itself it is worth a warning; and a log that lags a second is worth one in a quorum.
    diagnose(&forgetful, &[]).expect("persistence", "warning", &["restart"]);
    servers[2].cli(&["config", "set", "appendonly", "yes"]);
    diagnose(&forgetful, &[]).expect("persistence", "ok", &["everysec"]);
    diagnose(&urls(&servers), &[]).expect("persistence", "warning", &["everysec"]);
}

/// In a quorum nobody can wait for replicas, and none of them may take a place.
#[test]
fn a_replica_of_a_member_of_a_quorum() {
    let servers = fit(3);
    let _replica = Redis::with(&["--replicaof", "127.0.0.1", &servers[0].port.to_string()]);
    eventually(Duration::from_secs(20), "the replica follows", || {
        servers[0].cli(&["info", "replication"]).contains("state=online")
    });
    let diagnosis = diagnose(&urls(&servers), &[]);
    assert_eq!(diagnosis.code, 0, "{:?}", diagnosis.findings);
    let about = |server: &Redis| {
        let url = server.url();
        let mut of_it = diagnosis.findings.iter().filter(|one| one["server"] == url);
        of_it.find(|one| one["check"] == "replicas").expect("a finding")
    };
    let advice = about(&servers[0])["advice"].as_str().expect("advice");
    assert!(!advice.contains("--replicas") && advice.contains("second holder"), "{advice}");
    assert_eq!(about(&servers[1])["advice"], Value::Null);
    let asked = diagnose(&urls(&servers), &["--replicas", "1"]);
    asked.expect("replicas", "bad", &["the servers of a quorum are independent", "leave out --replicas"]);
    diagnose("local:", &["--replicas", "1"]).expect("replicas", "bad", &["local: has no replicas"]);
}

#[test]
fn a_permission_that_is_missing() {
    let redis = Redis::with(&FIT);
    let url = format!("redis://locks:canary@127.0.0.1:{}", redis.port);
    let allow = |rules: &[&str]| {
        let all = ["acl", "setuser", "locks", "reset", "on", ">canary", "~*", "&*", "+@all"];
        assert_eq!(redis.cli(&[&all[..], rules].concat()), "OK");
        diagnose(&url, &[])
    };
    allow(&[]).expect("permissions", "ok", &[]);
    let commands = "evalsha eval get set del pexpire pttl hget hgetall hset hmget hdel time zadd zrem \
                    zrange zrank zcard lpush blpop publish subscribe type scan";
    for command in commands.split_whitespace() {
        let diagnosis = allow(&[&format!("-{command}")]);
        let advice = format!("ACL SETUSER locks +{command}\"");
        diagnosis.expect("permissions", "bad", &[&advice]);
    }
    allow(&["-zadd", "-publish"]).expect("permissions", "bad", &["SETUSER locks +zadd +publish"]);
    allow(&["resetkeys", "~other:*"]).expect(
        "permissions",
        "bad",
        &["SETUSER locks ~redlock:{redlock-doctor-*"],
    );
    allow(&["resetchannels"]).expect("permissions", "bad", &["SETUSER locks &redlock:{redlock-doctor-*"]);
    let without_index = allow(&["resetkeys", "~redlock:{redlock-doctor-*"]);
    without_index.expect("permissions", "warning", &["SETUSER locks ~redlock:{}:locks"]);
    redis.cli(&["acl", "setuser", "locks", "-@all"]);
    eventually(Duration::from_secs(20), "what was tried without DEL is gone", || {
        redis.cli(&["dbsize"]) == "0"
    });
}

#[test]
fn a_clock_that_is_off() {
    for ahead in [5, -5] {
        let redis = Redis::with_clock(ahead, &FIT);
        let side = if ahead > 0 { "5.0s ahead of" } else { "5.0s behind" };
        diagnose(&redis.url(), &[]).expect("clock", "warning", &["NTP", side]);
        let right = fit(2);
        let diagnosis = diagnose(&format!("{} {}", urls(&right), redis.url()), &[]);
        diagnosis.expect("clocks", "warning", &[&redis.url(), "ahead"]);
        diagnose(&urls(&right), &[]).expect("clocks", "ok", &[]);
    }
}

#[test]
fn a_ttl_too_short_for_the_link() {
    let redis = Redis::with(&FIT);
    let proxy = Proxy::to(redis.port);
    proxy.set(Fault::Delay(Duration::from_millis(20)));
    diagnose(&proxy.url(), &["--ttl", "50ms"]).expect("ttl", "bad", &["--ttl 50ms", "or longer"]);
    diagnose(&proxy.url(), &["--ttl", "30s"]).expect("ttl", "ok", &[]);
    // Stopping the job takes its time, too.
    diagnose(&proxy.url(), &["--ttl", "2s", "--kill-after", "1900ms"]).expect("ttl", "bad", &["1.9s"]);
    assert!(proxy.injected() > 0);
    diagnose(&redis.url(), &["--ttl", &ttl(500)]).expect("ttl", "ok", &[]);
    // The TTL in use may stand elsewhere.
    let folder = Folder::new();
    std::fs::write(folder.path("config.toml"), "ttl = \"50ms\"\n").expect("a configuration");
    let config = folder.path("config.toml").display().to_string();
    diagnose(&proxy.url(), &["--config", &config]).expect("ttl", "bad", &["--ttl 50ms"]);
}

/// It bounds what it asks, and asks the others meanwhile.
#[test]
fn a_server_that_hangs() {
    let servers = fit(3);
    servers[0].pause();
    servers[1].pause();
    let begin = Instant::now();
    let diagnosis = diagnose(&urls(&servers), &["--connect-timeout", "3s"]);
    // One after the other it were six.
    within(Duration::from_secs(5), begin);
    diagnosis.expect("reachable", "bad", &["no answer in time"]);
    diagnosis.expect("majority", "bad", &["1 of 3"]);
    assert_eq!(diagnosis.level("locking"), "ok");
    for server in &servers {
        server.resume();
    }
    let end = Duration::from_secs(10);
    eventually(end, "nothing is left", || servers.iter().all(|server| server.cli(&["dbsize"]) == "0"));
}

#[test]
fn a_server_that_refuses_writes() {
    let redis = Redis::with(&FIT);
    redis.cli(&["config", "set", "maxmemory", "1"]);
    let diagnosis = diagnose(&redis.url(), &[]);
    diagnosis.expect("locking", "bad", &["OOM"]);
    diagnosis.expect("eviction", "warning", &["refuse"]);
}

#[test]
fn something_that_is_no_redis() {
    let redis = Redis::start();
    let proxy = Proxy::to(redis.port);
    proxy.set(Fault::Rubbish("HTTP/1.1 400 Bad Request\r\n\r\n"));
    diagnose(&proxy.url(), &[]).expect("reachable", "bad", &["Redis protocol"]);
    let url = format!("redis://127.0.0.1:{}", free_port());
    diagnose(&url, &[]).expect("reachable", "bad", &["connection refused"]);
}

/// A Sentinel of a test's own.
struct Sentinel {
    child: Child,
    port: u16,
    _folder: Folder,
}

impl Sentinel {
    fn of(master: &Redis, quorum: u8) -> Sentinel {
        let (folder, port) = (Folder::new(), free_port());
        let text = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor mine 127.0.0.1 {} {quorum}\n\
             requirepass canary\nsentinel sentinel-pass canary\n",
            master.port
        );
        std::fs::write(folder.path("sentinel.conf"), text).expect("a configuration");
        let mut command = Command::new("redis-server");
        command.arg(folder.path("sentinel.conf")).arg("--sentinel").stdout(Stdio::null());
        let child = command.spawn().expect("redis-server is installed; tests/run does that");
        Sentinel { child, port, _folder: folder }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file with the password of the Sentinels.
fn password(folder: &Folder) -> String {
    let file = folder.path("password");
    std::fs::write(&file, "canary\n").expect("a password file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("for us alone");
    file.display().to_string()
}

#[test]
fn sentinels() {
    let master = Redis::with(&FIT);
    let sentinels = [(); 3].map(|()| Sentinel::of(&master, 2));
    let list = sentinels.each_ref().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).join(",");
    let (url, wrong) = (format!("redis+sentinel://{list}/mine"), format!("redis+sentinel://{list}/other"));
    let folder = Folder::new();
    let password = password(&folder);
    let password = ["--sentinel-password-file", &password];
    // They find one another within some seconds.
    let found = |diagnosis: &Diagnosis| {
        let all = diagnosis.findings.iter().filter(|one| one["check"] == "sentinels" && one["level"] == "ok");
        all.count() == 3
    };
    eventually(Duration::from_secs(30), "three Sentinels", || found(&diagnose(&url, &password)));
    let diagnosis = diagnose(&url, &password);
    diagnosis.expect("master", "warning", &["no replica"]);
    diagnosis.expect("locking", "ok", &[]);
    assert_eq!(diagnosis.one("locking")["server"], master.url());
    assert_eq!(diagnosis.code, 0);
    diagnose(&wrong, &password).expect("master", "bad", &["does not know the master 'other'"]);
    diagnose(&url, &[]).expect("login", "bad", &["--sentinel-password-file"]);
}

#[test]
fn a_sentinel_that_is_alone() {
    let master = Redis::with(&FIT);
    let alone = Sentinel::of(&master, 2);
    let folder = Folder::new();
    let password = password(&folder);
    let options = ["--sentinel-password-file", &password];
    let url = format!("redis+sentinel://127.0.0.1:{}/mine", alone.port);
    eventually(Duration::from_secs(20), "the Sentinel answers", || {
        diagnose(&url, &options).findings.iter().any(|one| one["check"] == "sentinels")
    });
    diagnose(&url, &options).expect("sentinels", "bad", &["no failover can happen"]);
}

/// The disk of a local file.
#[test]
fn a_disk_that_is_full() {
    if !namespaces() {
        return;
    }
    let folder = Folder::new();
    let script =
        "mount -t tmpfs -o size=$1 none \"$0\" && exec \"$2\" doctor --json --server \"local:$0/locks.db\"";
    for (size, level) in [("512k", "bad"), ("4m", "warning"), ("64m", "ok")] {
        let place = folder.path("").display().to_string();
        let program = env!("CARGO_BIN_EXE_redlock");
        let args = ["-m", "sh", "-c", script, &place, size, program];
        let output = Redlock::under("unshare", &args).run();
        let diagnosis = Diagnosis::of(&output);
        diagnosis.expect("space", level, &[]);
        diagnosis.expect("locking", "ok", &[]);
    }
}

#[test]
fn a_cluster() {
    let buses = [(); 2].map(|()| free_port().to_string());
    let servers =
        buses.each_ref().map(|bus| Redis::with(&[&["--appendonly", "yes"], &in_cluster(bus)[..]].concat()));
    assert_eq!(servers[0].cli(&["cluster", "addslotsrange", "0", "8191"]), "OK");
    servers[0].cli(&["cluster", "meet", "127.0.0.1", &servers[1].port.to_string(), &buses[1]]);
    assert_eq!(servers[1].cli(&["cluster", "addslotsrange", "8192", "16382"]), "OK");
    let url = format!("redis+cluster://127.0.0.1:{}", servers[0].port);
    let all_known = |covered: &str| {
        eventually(Duration::from_secs(30), "the servers know each other", || {
            let info = servers[0].cli(&["cluster", "info"]);
            info.contains("cluster_size:2") && info.contains(&format!("cluster_slots_assigned:{covered}"))
        });
    };
    all_known("16383");
    diagnose(&url, &[]).expect("slots", "bad", &["1 of 16384"]);
    assert_eq!(servers[1].cli(&["cluster", "addslots", "16383"]), "OK");
    all_known("16384");
    eventually(Duration::from_secs(30), "the cluster works", || {
        servers.iter().all(|server| server.cli(&["cluster", "info"]).contains("cluster_state:ok"))
    });
    let diagnosis = diagnose(&url, &[]);
    diagnosis.expect("cluster", "warning", &["2 masters"]);
    diagnosis.expect("locking", "ok", &[]);
    let tried = diagnosis.findings.iter().filter(|one| one["check"] == "locking").count();
    assert_eq!(tried, 2, "{:?}", diagnosis.findings);
    assert_eq!(diagnosis.code, 0, "{:?}", diagnosis.findings);
}

/// A server of another host, as far as its address tells: in a network of its own.
#[test]
fn a_server_that_is_spoken_to_in_plain() {
    if !namespaces() {
        return;
    }
    let authority = Authority::new();
    let papers = authority.sign(&["192.0.2.2"], Valid::Now);
    let script = r#"
        ip link set lo up && ip address add 192.0.2.1/32 dev lo && ip address add 192.0.2.2/32 dev lo
        # Comes from another address than it goes to.
        ip route replace local 192.0.2.2 dev lo src 192.0.2.1 table local
        serve() { redis-server --save "" --daemonize no --protected-mode no "$@" >&2 & }
        serve --port 1111
        serve --port 0 --tls-port 2222 --tls-auth-clients no --tls-cert-file "$CERT" --tls-key-file "$KEY" \
            --tls-ca-cert-file "$REDLOCK_TLS_CA"
        until redis-cli -p 1111 ping && redis-cli -p 2222 --tls --insecure ping; do sleep 0.05; done >&2
        exec "$0" doctor --json
    "#;
    for (url, is_open) in [
        ("redis://192.0.2.2:1111", true),
        ("redis://192.0.2.1:1111", false),
        ("redis://localhost:1111", false),
        ("rediss://192.0.2.2:2222", false),
    ] {
        let redlock = Redlock::under(
            "unshare",
            &["-rnpf", "--kill-child", "bash", "-c", script, env!("CARGO_BIN_EXE_redlock")],
        );
        let (cert, key) = (&papers.cert, &papers.key);
        let redlock = redlock.server(url).env("CERT", cert).env("KEY", key).env("REDLOCK_TLS_CA", &papers.ca);
        let diagnosis = Diagnosis::of(&Finished { stderr: String::new(), ..redlock.run() });
        diagnosis.expect("reachable", "ok", &[]);
        match is_open {
            true => diagnosis.expect("encryption", "warning", &["nothing is encrypted", "rediss://"]),
            false => assert!(diagnosis.findings.iter().all(|one| one["check"] != "encryption"), "{url}"),
        }
    }
}
