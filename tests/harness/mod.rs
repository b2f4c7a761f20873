//! What all test binaries share: servers, the program, waiting for events, the witness.
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

mod certificates;
mod clock;
mod cluster;
mod debugger;
mod etcd;
mod freezer;
mod memcached;
mod network;
mod pace;
mod pgbouncer;
mod port;
mod postgres;
mod program;
mod proxy;
mod pty;
mod quorum;
mod redis;
mod requirements;
mod sentinel;
mod server_pool;
mod stalled_exec;
pub mod standstill;
mod tmux;
pub mod witness;
mod zookeeper;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, process, thread};

pub use certificates::{Authority, Papers, Valid};
pub use cluster::{Cluster, in_cluster};
pub use debugger::{await_death, await_freeze, await_tracer, freeze, interrupt};
pub use etcd::Etcd;
pub use freezer::Freezer;
pub use memcached::Memcached;
pub use network::Network;
pub use pace::{fits, in_ms, is_within, slowed, ttl, within};
pub use pgbouncer::PgBouncer;
pub use port::free_port;
pub use postgres::{Postgres, PostgresSettings};
pub use program::{
    Finished, Redlock, Running, await_file, children, command_below, is_alive, pause, pid_in,
    with_default_signals,
};
pub use proxy::{Fault, Proxy, hold_one};
pub use pty::Pty;
pub use quorum::urls;
pub use redis::Redis;
pub use requirements::{
    autogroups, first_nice_value, freezer, held_up_executions, namespaces, other_users, real_time,
    time_slices,
};
pub use sentinel::Sentinel;
use server_pool::{PooledServer, ServerPool};
pub use stalled_exec::HeldUp;
pub use tmux::Tmux;
pub(crate) use witness::lives;
pub use witness::{Rules, Witness};
pub use zookeeper::{Settings, ZooKeeper, python};

/// The replicas refuse, and follow.
fn empty(servers: &[Redis]) {
    servers.iter().for_each(|server| drop(server.cli(&["flushall"])));
}

/// Checks again and again that something holds for all of this time.
#[track_caller]
pub fn throughout(time: Duration, mut check: impl FnMut()) {
    let start = Instant::now();
    while start.elapsed() < time {
        check();
        // A check may start processes, which the tests beside this one would wait for.
        thread::sleep((time / 50).min(Duration::from_millis(500)));
    }
    check();
}

/// Waits until `condition` holds; panics with `what` when it does not within `limit`, or what is as long on this
/// machine.
#[track_caller]
pub fn eventually(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut pause = Duration::from_millis(20);
    while !condition() {
        assert!(is_within(limit, start), "not within {limit:?}: {what}");
        thread::sleep(pause);
        // Many a condition starts a process: those that wait longest leave the processor to the others.
        pause = (pause * 3 / 2).min(Duration::from_millis(250));
    }
}

/// Ends the work of other threads, also when the test failed.
pub struct End<'a>(pub &'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The first line in which the runner of a CI system finds a command: `##[x]`, `##vso[x]`, `::x::`.
pub fn log_command(text: &str) -> Option<&str> {
    text.lines().find(|line| line.contains("##") || line.trim_start().starts_with("::"))
}

/// A folder of a test's own, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        Folder::within(&std::env::temp_dir()).expect("a temporary folder")
    }

    /// With a path that can be anything: that of a socket has 107 bytes at most, LD_PRELOAD is divided at spaces.
    pub fn plain() -> Folder {
        let temporary = std::env::temp_dir();
        let is_plain =
            |path: &&Path| path.to_str().is_some_and(|path| path.len() < 60 && !path.contains([' ', ':']));
        let places = Some(temporary.as_path())
            .filter(is_plain)
            .into_iter()
            .chain(["/tmp", "/var/tmp", "/dev/shm"].map(Path::new));
        places.flat_map(Folder::within).next().expect("a temporary folder with a plain path")
    }

    fn within(place: &Path) -> io::Result<Folder> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("redlock-test-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = place.join(name);
        fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A store under test, started for it.
pub struct Store {
    pub url: String,
    pub redis: Option<Redis>,
    /// The servers of a quorum.
    pub members: Vec<Redis>,
    pub folder: Folder,
    /// The variables that say how to reach it.
    env: Vec<(&'static str, String)>,
    authority: Option<Authority>,
    pub fleet: Fleet,
}

/// Servers that many tests share answer late on a busy machine.
fn patience() -> Vec<(&'static str, String)> {
    vec![("REDLOCK_CONNECT_TIMEOUT", "20s".to_owned())]
}

/// The PostgreSQL server that all tests share.
fn shared_postgres() -> PooledServer<Postgres> {
    static POOL: ServerPool<Postgres> = ServerPool::new(Postgres::start, |_| {});
    POOL.share()
}

/// Servers that are one store together.
pub enum Fleet {
    None,
    Sentinel(PooledServer<Sentinel>),
    Cluster(PooledServer<Cluster>),
    Etcd(PooledServer<Etcd>),
    ZooKeeper(PooledServer<ZooKeeper>),
    /// The server, and the database of the test.
    Postgres(PooledServer<Postgres>, String),
    Memcached(PooledServer<Memcached>),
}

impl Store {
    pub fn sentinel() -> Store {
        static POOL: ServerPool<Sentinel> =
            ServerPool::new(Sentinel::start, |sentinel| empty(&sentinel.servers));
        Store::behind(POOL.lend())
    }

    /// With Sentinels and servers of a test's own.
    pub fn own_sentinel() -> Store {
        Store::behind(PooledServer::owned(Sentinel::start()))
    }

    fn behind(sentinel: PooledServer<Sentinel>) -> Store {
        Store { url: sentinel.url(), fleet: Fleet::Sentinel(sentinel), ..Store::local() }
    }

    pub fn cluster() -> Store {
        static POOL: ServerPool<Cluster> = ServerPool::new(Cluster::start, |cluster| empty(&cluster.servers));
        Store::in_cluster(POOL.lend())
    }

    /// With a cluster of a test's own.
    pub fn own_cluster() -> Store {
        Store::in_cluster(PooledServer::owned(Cluster::start()))
    }

    fn in_cluster(cluster: PooledServer<Cluster>) -> Store {
        Store { url: cluster.url(), fleet: Fleet::Cluster(cluster), ..Store::local() }
    }

    pub fn etcd() -> Store {
        static POOL: ServerPool<Etcd> = ServerPool::new(Etcd::start, |_| {});
        Store::in_shared_etcd(POOL.share())
    }

    /// Three members of one cluster.
    pub fn etcd3() -> Store {
        static POOL: ServerPool<Etcd> = ServerPool::new(Etcd::three, |_| {});
        Store::in_shared_etcd(POOL.share())
    }

    /// With members of a test's own.
    pub fn own_etcd(etcd: Etcd) -> Store {
        Store::in_etcd(PooledServer::owned(etcd))
    }

    /// Below a prefix that nobody used before.
    fn in_shared_etcd(etcd: PooledServer<Etcd>) -> Store {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let url = format!("{}/t{}", etcd.url(), NEXT.fetch_add(1, Ordering::Relaxed));
        Store { url, env: patience(), ..Store::in_etcd(etcd) }
    }

    fn in_etcd(etcd: PooledServer<Etcd>) -> Store {
        Store { url: etcd.url(), fleet: Fleet::Etcd(etcd), ..Store::local() }
    }

    pub fn zookeeper() -> Store {
        static POOL: ServerPool<ZooKeeper> = ServerPool::new(ZooKeeper::start, |_| {});
        Store::in_shared_zookeeper(POOL.share())
    }

    /// Three servers of one ensemble.
    pub fn zookeeper3() -> Store {
        static POOL: ServerPool<ZooKeeper> = ServerPool::new(ZooKeeper::three, |_| {});
        Store::in_shared_zookeeper(POOL.share())
    }

    /// With servers of a test's own.
    pub fn own_zookeeper(zookeeper: ZooKeeper) -> Store {
        Store::in_zookeeper(PooledServer::owned(zookeeper))
    }

    fn in_shared_zookeeper(zookeeper: PooledServer<ZooKeeper>) -> Store {
        Store { env: patience(), ..Store::in_zookeeper(zookeeper) }
    }

    fn in_zookeeper(zookeeper: PooledServer<ZooKeeper>) -> Store {
        Store { url: zookeeper.url(), fleet: Fleet::ZooKeeper(zookeeper), ..Store::local() }
    }

    /// A database of its own.
    pub fn postgres() -> Store {
        Store { env: patience(), ..Store::in_postgres(shared_postgres()) }
    }

    /// The same over the socket.
    pub fn postgres_on_a_socket() -> Store {
        let store = Store::postgres();
        let Fleet::Postgres(postgres, database) = &store.fleet else { panic!("a store in PostgreSQL") };
        Store { url: postgres.socket_url(database), ..store }
    }

    /// The same behind PgBouncer in transaction mode.
    pub fn pgbouncer() -> Store {
        static POOL: ServerPool<PgBouncer> =
            ServerPool::new(|| PgBouncer::before(&shared_postgres()), |_| {});
        let store = Store::postgres();
        let Fleet::Postgres(_, database) = &store.fleet else { panic!("a store in PostgreSQL") };
        Store { url: POOL.share().url(database), ..store }
    }

    /// No connection tells who waits, so a dead waiter is known by the end of its time only.
    pub fn is_pooled(&self) -> bool {
        self.url.ends_with("pooler=yes")
    }

    /// With a server of a test's own.
    pub fn own_postgres(postgres: Postgres) -> Store {
        Store::in_postgres(PooledServer::owned(postgres))
    }

    fn in_postgres(postgres: PooledServer<Postgres>) -> Store {
        let database = postgres.database();
        let url = postgres.url_of(postgres::USER, &database);
        Store { url, fleet: Fleet::Postgres(postgres, database), ..Store::local() }
    }

    /// One after the other: the keys of a Memcached are nobody's own.
    pub fn memcached() -> Store {
        static POOL: ServerPool<Memcached> = ServerPool::new(Memcached::start, Memcached::empty);
        Store { env: patience(), ..Store::in_memcached(POOL.lend()) }
    }

    /// With a server of a test's own.
    pub fn own_memcached(memcached: Memcached) -> Store {
        Store::in_memcached(PooledServer::owned(memcached))
    }

    fn in_memcached(memcached: PooledServer<Memcached>) -> Store {
        Store { url: memcached.url(), fleet: Fleet::Memcached(memcached), ..Store::local() }
    }

    pub fn redis() -> Store {
        Store::of(Redis::start())
    }

    /// With a Redis of this kind.
    pub fn of(redis: Redis) -> Store {
        let url = redis.url();
        Store { url, redis: Some(redis), ..Store::local() }
    }

    /// The oldest Redis that redlock works with.
    pub fn redis62() -> Store {
        Store::of(Redis::oldest())
    }

    /// A Redis on a socket.
    pub fn unix() -> Store {
        Store::of(Redis::on_a_socket())
    }

    /// A Redis that speaks TLS and wants a certificate from everybody.
    pub fn tls() -> Store {
        let authority = Authority::new();
        let (server, client) =
            (authority.sign(&["127.0.0.1"], Valid::Now), authority.sign(&["client"], Valid::Now));
        let env = [
            ("REDLOCK_TLS_CA", &client.ca),
            ("REDLOCK_TLS_CERT", &client.cert),
            ("REDLOCK_TLS_KEY", &client.key),
        ];
        let env = env.map(|(name, path)| (name, path.display().to_string())).to_vec();
        let redis = Redis::with_tls(&server, &client, &[]);
        Store { env, authority: Some(authority), ..Store::of(redis) }
    }

    /// A Redis in which redlock may do what its manual page says and nothing else, on any key.
    pub fn acl() -> Store {
        // Behind ~* no other pattern may follow.
        Store::with_user(&least_acl().replace(" ~deploy:*", " ~?*").replace("{deploy:", "{"))
    }

    /// A Redis with one more user than the default one, which redlock is.
    pub fn with_user(acl: &str) -> Store {
        let acl = acl.replace(">PASSWORD", ">canary");
        let redis = Redis::with(&["--user"].into_iter().chain(acl.split(' ')).collect::<Vec<_>>());
        let user = acl.split(' ').next().unwrap_or_default();
        let url = redis.url().replace("redis://", &format!("redis://{user}:canary@"));
        Store { url, ..Store::of(redis) }
    }

    pub fn local() -> Store {
        let folder = Folder::new();
        Store {
            url: format!("local:{}", folder.path("locks.db").display()),
            redis: None,
            members: Vec::new(),
            folder,
            env: Vec::new(),
            authority: None,
            fleet: Fleet::None,
        }
    }

    pub fn is_local(&self) -> bool {
        self.url.starts_with("local:")
    }

    pub fn is_etcd(&self) -> bool {
        matches!(self.fleet, Fleet::Etcd(_))
    }

    pub fn is_zookeeper(&self) -> bool {
        matches!(self.fleet, Fleet::ZooKeeper(_))
    }

    pub fn is_memcached(&self) -> bool {
        matches!(self.fleet, Fleet::Memcached(_))
    }

    /// Leases have whole seconds, or nearly so.
    pub fn counts_in_seconds(&self) -> bool {
        self.is_etcd() || self.is_zookeeper() || self.is_memcached()
    }

    /// The ZooKeeper, where it is one.
    pub fn zookeeper_servers(&mut self) -> &mut ZooKeeper {
        match &mut self.fleet {
            Fleet::ZooKeeper(zookeeper) => zookeeper,
            _ => panic!("a store in ZooKeeper"),
        }
    }

    /// The etcd, where it is one.
    pub fn etcd_members(&mut self) -> &mut Etcd {
        match &mut self.fleet {
            Fleet::Etcd(etcd) => etcd,
            _ => panic!("a store in etcd"),
        }
    }

    /// The PostgreSQL server, where it is one.
    pub fn postgres_server(&mut self) -> &mut Postgres {
        match &mut self.fleet {
            Fleet::Postgres(postgres, _) => postgres,
            _ => panic!("a store in PostgreSQL"),
        }
    }

    /// The answer to a statement in the database of the test.
    pub fn sql(&self, statement: &str) -> String {
        match &self.fleet {
            Fleet::Postgres(postgres, database) => postgres.sql_in(database, statement),
            _ => panic!("a store in PostgreSQL"),
        }
    }

    /// The answer to statements in the database of the test, or the error.
    pub fn psql(&self, statements: &str) -> Result<String, String> {
        match &self.fleet {
            Fleet::Postgres(postgres, database) => postgres.psql(database, statements),
            _ => panic!("a store in PostgreSQL"),
        }
    }

    /// The variables with which programs of libpq find the database of the test.
    pub fn libpq(&self) -> Vec<(&'static str, PathBuf)> {
        match &self.fleet {
            Fleet::Postgres(postgres, database) => {
                postgres.env().into_iter().chain([("PGDATABASE", database.into())]).collect()
            }
            _ => panic!("a store in PostgreSQL"),
        }
    }

    /// The Memcached, where it is one.
    pub fn memcached_server(&mut self) -> &mut Memcached {
        match &mut self.fleet {
            Fleet::Memcached(memcached) => memcached,
            _ => panic!("a store in Memcached"),
        }
    }

    /// A lease for the command line that a test wants renewed: this many milliseconds on an idle machine. In etcd some
    /// seconds, as it shows what is left of one in whole seconds.
    pub fn ttl(&self, millis: u64) -> String {
        in_ms(self.lease(slowed(millis)))
    }

    /// The shortest lease that this store can have and that is as long as that.
    pub fn lease(&self, wanted: Duration) -> Duration {
        match self.counts_in_seconds() {
            true => Duration::from_secs(wanted.max(slowed(1500)).as_millis().div_ceil(1000).max(4) as u64),
            false => wanted,
        }
    }

    /// The shortest lease with which many hold a lock on a busy machine.
    pub fn shortest(&self) -> &'static str {
        match self {
            store if store.is_memcached() => "3s",
            store if store.counts_in_seconds() => "2s",
            _ => "1s",
        }
    }

    /// How long the death of a waiter may go unseen.
    pub fn until_a_dead_waiter_is_passed_over(&self) -> Duration {
        Duration::from_secs(match self {
            store if store.counts_in_seconds() => 5,
            store if store.is_pooled() => 9,
            _ => 2,
        })
    }

    /// The program, with this store as its server.
    pub fn redlock(&self, args: &[&str]) -> Redlock {
        self.reached_by(Redlock::new(args))
    }

    /// A program that has this store as its server.
    pub fn reached_by(&self, redlock: Redlock) -> Redlock {
        self.env.iter().fold(redlock.server(&self.url), |redlock, (name, value)| redlock.env(name, value))
    }

    /// A job that holds the key until it is let go.
    pub fn hold(&self, key: &str, options: &[&str]) -> Running {
        let args = [&["run", "--key", key][..], options, &["--", "cat"]].concat();
        let mut running = self.redlock(&args).open_stdin().spawn();
        let pid = u64::try_from(running.pid()).expect("a pid");
        running.lives_until(&format!("it holds {key}"), || self.status(key)["holders"][0]["pid"] == pid);
        running
    }

    /// A job that waits for the key and then adds a line to the file "order".
    pub fn wait_in_line(&self, key: &str, line: &str, options: &[&str]) -> Running {
        self.wait_in_line_at(&self.url, key, line, options)
    }

    /// The same at this URL, which leads to the same store.
    pub fn wait_in_line_at(&self, url: &str, key: &str, line: &str, options: &[&str]) -> Running {
        let order = self.folder.path("order");
        let job = ["--", "sh", "-c", "echo \"$0\" >> \"$1\"", line, order.to_str().expect("a path")];
        let args = [&["run", "--key", key, "--wait"][..], options, &job].concat();
        self.redlock(&args).server(url).spawn()
    }

    /// The lines of the file "order".
    pub fn order(&self) -> Vec<String> {
        let lines = fs::read_to_string(self.folder.path("order")).unwrap_or_default();
        lines.lines().map(str::to_owned).collect()
    }

    /// The store loses all that it knows.
    pub fn lose_everything(&self) {
        self.members.iter().for_each(|member| assert_eq!(member.cli(&["flushall"]), "OK"));
        match &self.fleet {
            Fleet::None => {}
            Fleet::Sentinel(sentinel) => empty(&sentinel.servers),
            Fleet::Cluster(cluster) => empty(&cluster.servers),
            Fleet::Etcd(etcd) => etcd.empty(&self.url),
            Fleet::ZooKeeper(zookeeper) => zookeeper.empty(&self.url),
            Fleet::Postgres(postgres, database) => postgres.empty(database),
            Fleet::Memcached(memcached) => memcached.empty(),
        }
        match &self.redis {
            Some(redis) => assert_eq!(redis.cli(&["flushall"]), "OK"),
            None => ["", "-wal", "-shm", "-journal"].iter().for_each(|end| {
                let _ = fs::remove_file(self.folder.path(&format!("locks.db{end}")));
            }),
        }
    }

    /// The entry of a key in `status --json`.
    pub fn status(&self, key: &str) -> serde_json::Value {
        let status = || self.redlock(&["status", "--json", key]).run();
        let mut output = status();
        // On a busy machine a server may not answer in time, and a cluster may be choosing its leader.
        eventually(Duration::from_secs(20), "an answer", || {
            let answered = output.code() != 69;
            if !answered {
                output = status();
            }
            answered
        });
        let locks: serde_json::Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        locks[0].clone()
    }

    /// How many wait for the key.
    pub fn waiters(&self, key: &str) -> usize {
        if !self.members.is_empty() {
            return self.listeners(key);
        }
        if let Fleet::Memcached(memcached) = &self.fleet {
            return memcached.waiters(key);
        }
        self.status(key)["waiters"].as_array().map_or(0, Vec::len)
    }

    pub fn await_waiters(&self, key: &str, count: usize) {
        let mut last = 0;
        eventually(Duration::from_secs(60), &format!("{count} waiters for {key}"), || {
            let now = self.waiters(key);
            if now != std::mem::replace(&mut last, now) && now != count {
                println!("{now} waiters for {key}");
            }
            now == count
        });
    }

    pub fn await_holder(&self, key: &str) {
        eventually(Duration::from_secs(20), &format!("a holder of {key}"), || {
            self.status(key)["holders"][0].is_object()
        });
    }
}

/// The user that the section PERMISSIONS of the manual page makes, as ACL SETUSER reads it.
pub fn least_acl() -> String {
    let page = include_str!("../../man/sections/redlock.roff");
    let (_, rest) = page.split_once("ACL SETUSER ").expect("the section PERMISSIONS");
    let (acl, _) = rest.split_once(".fi").expect("its end");
    acl.replace('\\', "").split_whitespace().collect::<Vec<_>>().join(" ")
}
