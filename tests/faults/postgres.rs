//! PostgreSQL hangs, dies, cuts connections, is a standby, refuses, or has settings of its own.

use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use crate::harness::{
    Fault, Finished, Postgres, PostgresSettings, Proxy, Redlock, Running, Store, await_file, eventually,
    throughout, ttl,
};
use crate::takeover::Takeover;
use crate::undisturbed::Undisturbed;

fn store() -> Store {
    Store::own_postgres(Postgres::start())
}

fn with(conf: &[&str]) -> Store {
    Store::own_postgres(Postgres::with(&PostgresSettings { conf, ..PostgresSettings::default() }))
}

fn undisturbed() -> Undisturbed {
    Undisturbed::new(store(), "7", &["--ttl", "5s"])
}

fn three_in_line(store: &Store) -> [Running; 3] {
    ["1", "2", "3"].map(|line| {
        let waiter = store.wait_in_line("X", line, &["--ttl", "20s"]);
        store.await_waiters("X", line.parse().expect("a number"));
        waiter
    })
}

/// In the order in which they came.
fn are_served(store: &Store, holder: Running, waiters: [Running; 3]) {
    holder.let_go().expect(0);
    waiters.into_iter().for_each(|waiter| drop(waiter.finish().expect(0)));
    assert_eq!(store.order(), ["1", "2", "3"]);
}

/// The first line that `run` says without a lock.
fn refused(url: &str, status: i32) -> Finished {
    Redlock::new(&["run", "-k", "X", "--", "echo", "ran"]).server(url).run().expect(status)
}

/// The job is dead by the fence, and the second gets in when the server goes on.
#[test]
fn hung() {
    if !Postgres::may_run() {
        return;
    }
    let mut scene = Takeover::new(store());
    scene.fault(|scene| scene.store.postgres_server().pause());
    scene.await_death(scene.ttl + Duration::from_secs(1));
    scene.store.postgres_server().resume();
    let first = scene.second_is_alone();
    assert_eq!(first.code(), 79, "{first:?}");
    assert!(first.stderr.contains("lost 'X'"), "{first:?}");
}

#[test]
fn stalled() {
    if !Postgres::may_run() {
        return;
    }
    let mut store = store();
    let proxy = Proxy::to(store.postgres_server().port);
    let port = store.postgres_server().port.to_string();
    let url = store.url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port));
    let mut scene = Takeover::through(store, url);
    scene.fault(|_| proxy.set(Fault::Stall));
    scene.await_death(scene.ttl + Duration::from_secs(1));
    assert_eq!(scene.second_is_alone().code(), 79);
}

#[test]
fn killed_for_good() {
    if !Postgres::may_run() {
        return;
    }
    let mut scene = Takeover::new(store());
    scene.fault(|scene| scene.store.postgres_server().kill());
    scene.await_death(scene.ttl + Duration::from_secs(1));
    scene.store.postgres_server().restart();
    assert_eq!(scene.second_is_alone().code(), 79);
}

#[test]
fn a_crash_restart_keeps_locks_and_places() {
    if !Postgres::may_run() {
        return;
    }
    let mut store = store();
    let holder = store.hold("X", &["--ttl", "20s"]);
    let waiters = three_in_line(&store);
    store.postgres_server().kill();
    store.postgres_server().restart();
    are_served(&store, holder, waiters);
}

#[test]
fn connections_cut() {
    if !Postgres::may_run() {
        return;
    }
    let scene = undisturbed();
    scene
        .store
        .sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'redlock'");
    scene.goes_on();
}

#[test]
fn rows_deleted() {
    if !Postgres::may_run() {
        return;
    }
    let store = store();
    let holder = store.hold("X", &["--ttl", &ttl(3000)]);
    store.lose_everything();
    store.await_holder("X");
    let healed = holder.let_go().expect(0);
    assert!(healed.stderr.contains("'X' was gone from the store, for at most"), "{healed:?}");
}

/// Rows that are deleted take room until the server vacuums.
#[test]
fn a_run_takes_the_row_of_one_that_is_forgotten() {
    if !Postgres::may_run() {
        return;
    }
    let store = store();
    for _ in 0..5 {
        let holder = store.hold("X", &["--history", "2"]);
        store.redlock(&["run", "--history", "2", "X", "--", "true"]).run().expect(75);
        holder.let_go().expect(0);
    }
    let written = |what: &str| -> u64 {
        let sql = format!("select {what} from pg_stat_user_tables where relname = 'history'");
        store.psql(&sql).expect("the statistics of a table").parse().expect("a number")
    };
    eventually(Duration::from_secs(20), "five runs and five calls", || {
        written("n_tup_ins + n_tup_upd") >= 10
    });
    // Two runs, and how many calls did not get the lock.
    assert_eq!((written("n_tup_ins"), written("n_tup_del")), (3, 0));
}

/// The primary dies, and the standby takes over with the lock and the place in the queue.
#[test]
fn a_standby_takes_over() {
    if !Postgres::may_run() {
        return;
    }
    let mut store = store();
    let database = store.sql("select current_database()");
    let standby = store.postgres_server().standby();
    let both =
        format!("postgres://redlock@{},{}/{database}", store.postgres_server().address(), standby.address());
    store.url = both;
    let mut scene = Undisturbed::new(store, "12", &["--ttl", "10s"]);
    let fence = scene.store.sql("select fence from redlock.lock");
    eventually(Duration::from_secs(20), "the standby has the lock", || {
        standby.psql(&database, "select fence from redlock.lock where queued").is_ok_and(|seen| seen == fence)
    });
    scene.store.postgres_server().kill();
    standby.promote();
    scene.goes_on();
}

#[test]
fn a_standby_alone_grants_nothing() {
    if !Postgres::may_run() {
        return;
    }
    let mut store = store();
    let standby = store.postgres_server().standby();
    let primary = store.postgres_server().address();
    let url = store.url.replace(&primary, &standby.address());
    let refused = refused(&url, 69);
    assert!(refused.line().contains("read-only") && refused.stdout.is_empty(), "{refused:?}");
    // One of two hosts that is a standby is left for the other.
    let both = store.url.replace(&primary, &format!("{},{primary}", standby.address()));
    Redlock::new(&["run", "-k", "X", "--", "true"]).server(&both).run().expect(0);
    let examined = Redlock::new(&["doctor"]).server(&url).run().expect(1);
    assert!(examined.stdout.contains("it is a standby"), "{examined:?}");
    let examined = store.redlock(&["doctor"]).run().expect(0);
    assert!(examined.stdout.contains("its standbys are asynchronous"), "{examined:?}");
}

/// Settings of the database or the user that would break a transaction of ours.
#[test]
fn settings_of_the_database_change_nothing() {
    if !Postgres::may_run() {
        return;
    }
    let store = store();
    for setting in [
        "default_transaction_isolation = serializable",
        "synchronous_commit = off",
        "idle_in_transaction_session_timeout = '1ms'",
        "idle_session_timeout = '300ms'",
        "lock_timeout = '1ms'",
        "search_path = nowhere",
        "default_transaction_read_only = on",
    ] {
        let database = store.sql("select current_database()");
        store.sql(&format!("alter database {database} set {setting}"));
    }
    let holder = store.hold("X", &[]);
    let waiter = store.wait_in_line("X", "1", &[]);
    store.await_waiters("X", 1);
    holder.let_go().expect(0);
    waiter.finish().expect(0);
}

/// The grant ends between two statements of the transaction that would confirm it, and the number of permits has changed.
#[test]
fn a_grant_that_ends_as_it_is_confirmed() {
    if !Postgres::may_run() {
        return;
    }
    let store = store();
    let permit = |file: &str, options: &[&str]| {
        let job = format!("touch {}; cat", store.folder.path(file).display());
        let args = [&["run", "X", "--permits", "1"], options, &["--", "sh", "-c", &job]].concat();
        store.redlock(&args).open_stdin().spawn()
    };
    let holder = permit("first", &[]);
    await_file(&store.folder.path("first"));
    let mut waiter = permit("second", &["--wait", "--connect-timeout", "1m"]);
    store.await_waiters("X", 1);
    store.sql(
        "create function stall() returns trigger language plpgsql as $$ begin
            perform pg_sleep(extract(epoch from until - clock_timestamp()) + 0.1) from redlock.holder
            where until between clock_timestamp() and clock_timestamp() + '3 s';
            return null;
        end $$;
        create trigger stall after insert on redlock.waiter for each statement execute function stall()",
    );
    store.redlock(&["resize", "X", "--permits", "2"]).run().expect(0);
    waiter.lives_until("it holds the other permit", || store.folder.path("second").exists());
    holder.let_go().expect(0);
    waiter.let_go().expect(0);
}

/// A machine that stands still between the login and the first request.
#[test]
fn a_connection_that_the_server_ends_before_the_first_request() {
    if !Postgres::may_run() {
        return;
    }
    let mut store = store();
    let database = store.sql("select current_database()");
    store.sql(&format!("alter database {database} set idle_session_timeout = '300ms'"));
    let port = store.postgres_server().port;
    let proxy = Proxy::to(port);
    let url = store.url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port));
    proxy.set(Fault::Hold("BEGIN"));
    let run = Redlock::new(&["run", "-k", "X", "--", "echo", "ran"]).server(&url);
    let run = run.env("REDLOCK_CONNECT_TIMEOUT", "1m").spawn();
    eventually(Duration::from_secs(20), "the first request", || proxy.late() > 0);
    let others =
        "select count(*) from pg_stat_activity where datname is not null and pid <> pg_backend_pid()";
    eventually(Duration::from_secs(20), "the end of the connection", || store.sql(others) == "0");
    proxy.set(Fault::None);
    assert_eq!(run.finish().expect(0).stdout, "ran\n");
}

#[test]
fn a_server_without_a_free_connection_is_asked_again() {
    if !Postgres::may_run() {
        return;
    }
    let store = with(&["max_connections=6", "superuser_reserved_connections=3"]);
    store.sql(
        "create role plain login; grant usage on schema redlock to plain;
        grant select, insert, update, delete on all tables in schema redlock to plain",
    );
    let url = store.url.replace("redlock@", "plain@");
    let holders = ["a", "b", "c"].map(|key| {
        let holder = Redlock::new(&["run", "-k", key, "--", "cat"]).server(&url).open_stdin().spawn();
        eventually(Duration::from_secs(20), "a holder", || {
            store.sql(&format!("select count(*) from redlock.lock where key = '{key}' and owner is not null"))
                == "1"
        });
        holder
    });
    let full = refused(&url, 69);
    assert!(
        full.line().contains("too many") || full.line().contains("remaining connection slots"),
        "{full:?}"
    );
    let waiter = Redlock::new(&["run", "-k", "d", "--wait", "1m", "--", "true"]).server(&url).spawn();
    holders.into_iter().for_each(|holder| drop(holder.let_go().expect(0)));
    waiter.finish().expect(0);
}

/// A transaction of somebody else has the rows of all keys from now on.
fn lock_all_rows(store: &mut Store) -> Child {
    let database = store.sql("select current_database()");
    let locker = Command::new("psql")
        .args(["-XqAt", "-c", "begin; select from redlock.lock for update; select pg_sleep(600)"])
        .envs(store.postgres_server().env())
        .env("PGDATABASE", &database)
        .spawn()
        .expect("psql");
    let is_locked =
        "select count(*) from pg_stat_activity where query like '%pg_sleep(600)%' and wait_event = 'PgSleep'";
    eventually(Duration::from_secs(20), "the locked row", || store.sql(is_locked) == "1");
    locker
}

fn unlock(mut locker: Child, store: &Store) {
    locker.kill().expect("its end");
    locker.wait().expect("its end");
    store.sql("select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(600)%' and pid <> pg_backend_pid()");
}

/// A waiter that cannot ask for the lock says all the same that it is alive. One that says nothing for 15 seconds loses its place.
#[test]
fn places_outlast_a_row_that_is_locked() {
    if !Postgres::may_run() {
        return;
    }
    let mut store = store();
    let holder = store.hold("X", &["--ttl", "1h"]);
    let waiters = three_in_line(&store);
    let locker = lock_all_rows(&mut store);
    throughout(Duration::from_secs(18), || assert_eq!(store.waiters("X"), 3));
    unlock(locker, &store);
    are_served(&store, holder, waiters);
}

/// A transaction of somebody else has the row: nobody is granted the lock meanwhile, and one who was killed never is.
#[test]
fn a_row_that_is_locked_by_somebody_else() {
    if !Postgres::may_run() {
        return;
    }
    let mut store = store();
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    let locker = lock_all_rows(&mut store);
    let killed = store.redlock(&["run", "-k", "X", "--wait", "--", "echo", "ran"]).spawn();
    eventually(Duration::from_secs(20), "who waits for the row", || {
        store.sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") != "0"
    });
    killed.signal(nix::sys::signal::Signal::SIGKILL);
    killed.finish().expect(-9);
    let waiter = store.redlock(&["run", "-k", "X", "--wait", "2m", "--", "echo", "ran"]).spawn();
    eventually(Duration::from_secs(20), "the next one waits for the row", || {
        store.sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == "1"
    });
    unlock(locker, &store);
    assert_eq!(waiter.finish().expect(0).stdout, "ran\n");
}

/// A statement that takes too long changes nothing, and is made again.
#[test]
fn a_statement_that_is_canceled() {
    if !Postgres::may_run() {
        return;
    }
    let mut store = store();
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
    let database = store.sql("select current_database()");
    store.sql(&format!("alter database {database} set statement_timeout = '300ms'"));
    let postgres = store.postgres_server();
    let locked =
        "set statement_timeout = 0; begin; select from redlock.lock for update; select pg_sleep(600)";
    let mut locker = std::process::Command::new("psql")
        .args(["-XqAt", "-c", locked])
        .envs(postgres.env())
        .env("PGDATABASE", &database)
        .spawn()
        .expect("psql");
    let is_locked = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
    eventually(Duration::from_secs(20), "the locked row", || store.sql(is_locked) == "1");
    let waiter = store.redlock(&["run", "-k", "X", "--wait", "2m", "--", "echo", "ran"]).spawn();
    eventually(Duration::from_secs(20), "a statement that is canceled", || {
        store.postgres_server().log().contains("canceling statement due to statement timeout")
    });
    locker.kill().expect("its end");
    locker.wait().expect("its end");
    store.sql("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'");
    assert_eq!(waiter.finish().expect(0).stdout, "ran\n");
}

/// As `doctor --setup` does: for a moment, which may take longer than a statement waits.
#[test]
fn a_table_that_is_locked_delays_each_call() {
    if !Postgres::may_run() {
        return;
    }
    let store = store();
    let acquired = store.redlock(&["acquire", "X"]).run().expect(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            store.psql("begin; lock table redlock.lock; select pg_sleep(4); commit").expect("a lock")
        });
        let is_locked = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
        eventually(Duration::from_secs(20), "the locked table", || store.sql(is_locked) == "1");
        let calls = ["check", "renew", "status"].map(|call| {
            let call = store.redlock(&[call, "X"]).env("REDLOCK_TOKEN", acquired.stdout.trim());
            call.env("REDLOCK_CONNECT_TIMEOUT", "20s").spawn()
        });
        calls.into_iter().for_each(|call| drop(call.finish().expect(0)));
    });
}

#[test]
fn without_the_schema_it_says_how_to_make_it() {
    if !Postgres::may_run() {
        return;
    }
    let postgres = Postgres::start();
    postgres.sql("create database empty");
    let url = postgres.url_of("redlock", "empty");
    let missing = refused(&url, 78);
    assert!(missing.stderr.contains("doctor --setup"), "{missing:?}");
    assert_eq!(postgres.sql_in("empty", "select count(*) from pg_namespace where nspname = 'redlock'"), "0");
    let script = Redlock::new(&["doctor", "--sql"]).server(&url).run().expect(0).stdout;
    postgres.sql_in("empty", &script);
    // A second time changes nothing.
    postgres.sql_in("empty", &script);
    Redlock::new(&["doctor", "--setup"]).server(&url).run().expect(0);
    assert_eq!(refused(&url, 0).stdout, "ran\n");
}

#[test]
fn two_that_set_up_at_once() {
    if !Postgres::may_run() {
        return;
    }
    let postgres = Postgres::start();
    postgres.sql("create database empty");
    let url = postgres.url_of("redlock", "empty");
    let setup =
        || Redlock::new(&["doctor", "--setup"]).server(&url).env("REDLOCK_CONNECT_TIMEOUT", "1m").spawn();
    let setups = [(); 8].map(|()| setup());
    for setup in setups {
        setup.finish().expect(0);
    }
}

/// The rights that the script names are enough, and without them the message names what is missing.
#[test]
fn a_restricted_user() {
    if !Postgres::may_run() {
        return;
    }
    let store = store();
    store.sql("create role guest login");
    let url = store.url.replace("redlock@", "guest@");
    let denied = refused(&url, 77);
    assert!(
        denied.stderr.contains("permission denied") && denied.stderr.contains("doctor --sql"),
        "{denied:?}"
    );
    let no_setup = Redlock::new(&["doctor", "--setup"]).server(&url).run().expect(78);
    assert!(no_setup.stderr.contains("may create"), "{no_setup:?}");
    store.sql(
        "grant usage on schema redlock to guest; grant select, insert, update, delete on all tables in schema redlock to guest",
    );
    let guest = |args: &[&str]| Redlock::new(args).server(&url).run();
    assert_eq!(refused(&url, 0).stdout, "ran\n");
    guest(&["run", "-k", "X", "--shared", "--", "true"]).expect(0);
    guest(&["run", "-k", "a", "-k", "b", "--wait", "--", "true"]).expect(0);
    guest(&["status"]).expect(0);
    guest(&["history", "X"]).expect(0);
    guest(&["doctor"]).expect(0);
}

/// The password comes from the URL, from PGPASSWORD or from the password file of libpq.
#[test]
fn a_login_with_a_password() {
    if !Postgres::may_run() {
        return;
    }
    let hba = "host all keyed 127.0.0.1/32 scram-sha-256";
    let store = Store::own_postgres(Postgres::with(&PostgresSettings { hba, ..PostgresSettings::default() }));
    store.sql("create role keyed superuser login password 'canary'");
    let url = |login: &str| store.url.replace("redlock@", login);
    let run = |login: &str| Redlock::new(&["run", "-k", "X", "--", "true"]).server(&url(login));
    run("keyed:canary@").run().expect(0);
    // That of Redis is not for this server.
    run("keyed@").env("PGPASSWORD", "canary").env("REDISCLI_AUTH", "wrong").run().expect(0);
    let file = store.folder.path("pgpass");
    std::fs::write(&file, "*:*:*:keyed:canary\n").expect("a file");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, private).expect("a private file");
    run("keyed@").env("PGPASSFILE", &file).run().expect(0);
    let wrong = run("keyed:wrong@").run().expect(77);
    assert!(wrong.stderr.contains("password authentication failed"), "{wrong:?}");
    let none = run("keyed@").run().expect(77);
    assert!(none.stderr.contains("it asks for a password"), "{none:?}");
    for refused in [wrong, none] {
        assert!(!refused.stderr.contains("canary"), "{refused:?}");
    }
}

/// A certificate of an authority that nobody knows is refused before the login.
#[test]
fn an_encrypted_connection() {
    if !Postgres::may_run() {
        return;
    }
    let authority = crate::harness::Authority::new();
    let papers = authority.sign(&["127.0.0.1"], crate::harness::Valid::Now);
    let settings = PostgresSettings { papers: Some(&papers), ..PostgresSettings::default() };
    let store = Store::own_postgres(Postgres::with(&settings));
    let url = format!("{}?sslmode=verify-full", store.url);
    let unknown = refused(&url, 69);
    assert!(unknown.stderr.contains("certificate"), "{unknown:?}");
    let run = Redlock::new(&["run", "-k", "X", "--", "echo", "ran"]).server(&url);
    assert_eq!(run.env("REDLOCK_TLS_CA", &papers.ca).run().expect(0).stdout, "ran\n");
    let plain = Postgres::start();
    let url = format!("{}?sslmode=require", plain.url());
    assert!(refused(&url, 78).stderr.contains("does not speak TLS"));
}

#[test]
fn a_redis_is_no_postgres() {
    let redis = crate::harness::Redis::start();
    let refused = refused(&format!("postgres://127.0.0.1:{}/db", redis.port), 69);
    assert!(refused.stdout.is_empty(), "{refused:?}");
}

fn with_a_clock() -> Store {
    Store::own_postgres(Postgres::with(&PostgresSettings { has_clock: true, ..PostgresSettings::default() }))
}

/// Every lease ends by that. The holder takes its lock again, if nobody else was granted it before its renewal.
#[test]
fn a_clock_set_forward() {
    if !Postgres::may_run() {
        return;
    }
    let mut store = with_a_clock();
    let lease = ttl(6000);
    let alone = store.hold("alone", &["--ttl", &lease]);
    let holder = store.hold("X", &["--ttl", &lease]);
    let waiter = store.wait_in_line("X", "1", &[]);
    store.await_waiters("X", 1);
    store.postgres_server().set_clock(3600);
    waiter.finish().expect(0);
    let lost = holder.finish().expect(79);
    assert!(lost.stderr.contains("lost 'X'"), "{lost:?}");
    store.await_holder("alone");
    let healed = alone.let_go().expect(0);
    assert!(healed.stderr.contains("'alone' was gone from the store"), "{healed:?}");
}

/// A lease lasts longer by that, and a release frees the lock all the same. Fencing tokens grow.
#[test]
fn a_clock_set_back() {
    if !Postgres::may_run() {
        return;
    }
    let mut store = with_a_clock();
    let holder = store.hold("X", &["--ttl", "6s"]);
    let fence = store.status("X")["holders"][0]["fence"].as_u64();
    let waiter = store.wait_in_line("X", "1", &[]);
    store.await_waiters("X", 1);
    store.postgres_server().set_clock(-3600);
    holder.let_go().expect(0);
    waiter.finish().expect(0);
    let next = store.hold("X", &[]);
    assert!(store.status("X")["holders"][0]["fence"].as_u64() > fence);
    next.let_go().expect(0);
}

/// Some who work and wait while the server crashes and comes back.
#[test]
fn workers_outlive_a_crash() {
    if !Postgres::may_run() {
        return;
    }
    let mut store = store();
    let witness = crate::harness::Witness::new();
    let job = witness.job("0");
    let job: Vec<&str> = job.iter().map(String::as_str).collect();
    let lease = ttl(10_000);
    let args = [&["run", "-k", "X", "--wait", "5m", "--ttl", &lease, "--"][..], &job].concat();
    for _ in 0..2 {
        let workers: Vec<_> = (0..6).map(|_| store.redlock(&args).spawn()).collect();
        store.postgres_server().kill();
        store.postgres_server().restart();
        for worker in workers {
            let ended = worker.finish();
            // One that did not wait yet may find no server.
            assert!([0, 69, 79].contains(&ended.code()), "{ended:?}");
        }
        witness.assert_alone();
    }
    let before = witness.entries();
    store.redlock(&args).run().expect(0);
    assert_eq!(witness.entries(), before + 1);
}

/// An hour of waiting makes up for one step of priority, so nobody starves.
#[test]
fn a_long_wait_is_ahead_of_a_higher_priority() {
    if !Postgres::may_run() {
        return;
    }
    let store = store();
    let holder = store.hold("X", &[]);
    let mut waiters = vec![store.wait_in_line("X", "patient", &["--priority", "-1"])];
    store.await_waiters("X", 1);
    store.sql("update redlock.waiter set ticket = ticket - 3700000000");
    for (count, priority) in [(2, "0"), (3, "1")] {
        waiters.push(store.wait_in_line("X", priority, &["--priority", priority]));
        store.await_waiters("X", count);
    }
    holder.let_go().expect(0);
    waiters.into_iter().for_each(|waiter| drop(waiter.finish().expect(0)));
    assert_eq!(store.order(), ["1", "patient", "0"]);
}

/// Its connection was cut, and somebody changed the number of permits before it came back.
#[test]
fn a_waiter_comes_back_after_the_number_of_permits_changed() {
    if !Postgres::may_run() {
        return;
    }
    let store = store();
    let first = store.hold("X", &["-p", "2"]);
    let second = store.redlock(&["run", "X", "-p", "2", "--", "cat"]).open_stdin().spawn();
    eventually(Duration::from_secs(20), "both hold it", || {
        store.status("X")["holders"][1]["pid"] == second.pid()
    });
    let waiter = store.wait_in_line("X", "waiter", &["-p", "2"]);
    store.await_waiters("X", 1);
    store.redlock(&["resize", "X", "-p", "1"]).run().expect(0);
    store.sql("with gone as (delete from redlock.waiter returning process) select pg_terminate_backend(process) from gone");
    store.await_waiters("X", 1);
    [first, second].into_iter().for_each(|holder| drop(holder.let_go().expect(0)));
    waiter.finish().expect(0);
    assert_eq!(store.order(), ["waiter"]);
}
