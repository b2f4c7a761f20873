//! The fence in the transaction of a job that uses psycopg, and a takeover that waits for that transaction.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Folder, Postgres, Store, eventually, throughout};
use crate::late_writer::{Example, Late, Outcome, late_write_in, script};

/// It has psycopg.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/venv/bin/python");

struct Transaction {
    store: Store,
    folder: Folder,
}

impl Transaction {
    /// With a total of 100.
    fn new() -> Transaction {
        let (store, folder) = (Store::postgres(), Folder::new());
        store.sql("create table ledger (id int primary key, total bigint not null)");
        store.sql("insert into ledger values (1, 100)");
        fs::write(folder.path("transaction.py"), script("transaction.py", &[])).expect("the script");
        Transaction { store, folder }
    }

    fn late_write(&self, late: Late) -> Outcome {
        late_write_in(&self.store, self, late)
    }
}

impl Example for Transaction {
    fn command(&self) -> Vec<PathBuf> {
        // The job is a script of sh.
        let script = self.folder.path("transaction.py");
        vec!["-c".into(), r#"exec "$0" "$@""#.into(), PYTHON.into(), script]
    }

    fn env(&self) -> Vec<(&'static str, PathBuf)> {
        self.store.libpq()
    }

    fn number(&self) -> String {
        self.store.sql("select total from ledger")
    }
}

#[test]
fn a_late_transaction_of_psycopg_gets_an_error() {
    if !Postgres::may_run() {
        return;
    }
    assert_eq!(Transaction::new().late_write(Late::AfterTheSecond), Outcome::new(1, 0, "110"));
    assert_eq!(Transaction::new().late_write(Late::AmidTheSecond), Outcome::new(1, 0, "110"));
}

/// A holder is frozen in its transaction: the next one waits for the end of that, and sees what it wrote.
#[test]
fn a_takeover_waits_for_the_commit() {
    if !Postgres::may_run() {
        return;
    }
    let store = Store::postgres();
    store.sql("create table written (line text)");
    let acquired = store.redlock(&["acquire", "-k", "X", "--ttl", "10m", "--format", "json"]).run().expect(0);
    let acquired: serde_json::Value = serde_json::from_str(&acquired.stdout).expect("JSON");
    let fence = &acquired["locks"][0]["fence"];
    let env = store.libpq();
    let mut session = Command::new("psql");
    session.args(["-XqAt", "-v", "ON_ERROR_STOP=1"]).envs(env.iter().cloned());
    let mut session = session.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("psql");
    let mut stdin = session.stdin.take().expect("its stdin");
    writeln!(stdin, "begin; select redlock.fenced('X', {fence}); insert into written values ('late');")
        .expect("psql");
    let is_open = "select count(*) from pg_stat_activity where state = 'idle in transaction' and datname = current_database()";
    eventually(Duration::from_secs(20), "the transaction", || store.sql(is_open) == "1");

    let look = ["psql", "-XqAt", "-c", "select line from written"];
    let next = [&["run", "-k", "X", "--wait", "2m", "--"][..], &look].concat();
    let next =
        env.iter().fold(store.redlock(&next), |redlock, (name, value)| redlock.env(name, value)).spawn();
    store.await_waiters("X", 1);
    store.sql("update redlock.lock set until = clock_timestamp() where key = 'X'");
    eventually(Duration::from_secs(20), "the end of the lease", || store.status("X")["holders"][0].is_null());
    // The claim of a handover would be over as well.
    throughout(Duration::from_secs(4), || assert_eq!(store.waiters("X"), 1));
    let ended = Instant::now();
    writeln!(stdin, "commit;").expect("psql");
    drop(stdin);
    let next = next.finish().expect(0);
    assert_eq!(next.stdout, "late\n");
    println!("granted {:?} after the commit", ended.elapsed());
    assert!(session.wait().expect("psql").success());
    // Too late.
    let late = store.psql(&format!("select redlock.fenced('X', {fence})"));
    assert!(late.is_err_and(|error| error.contains("is not held any more")));
}

/// The function alone can be granted to a user who may not see the locks.
#[test]
fn a_user_who_may_only_check_tokens() {
    if !Postgres::may_run() {
        return;
    }
    let store = Store::postgres();
    let role = format!("guest_{}", store.sql("select current_database()"));
    store.sql(&format!("create role {role}; grant usage on schema redlock to {role}"));
    let check = format!("set role {role}; select redlock.fenced('X', 1)");
    assert!(store.psql(&check).is_err_and(|error| error.contains("permission denied for function")));
    store.sql(&format!("grant execute on function redlock.fenced(text, bigint) to {role}"));
    assert!(store.psql(&check).is_err_and(|error| error.contains("is not held any more")));
    let look = format!("set role {role}; select from redlock.lock");
    assert!(store.psql(&look).is_err_and(|error| error.contains("permission denied for table")));
}
