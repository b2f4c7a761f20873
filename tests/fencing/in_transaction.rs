//! The fence in the transaction of the job, as docs/fencing.md shows it: the locks are in the database of the data.

use std::fs;
use std::path::PathBuf;

use crate::harness::{Folder, Postgres, Store};
use crate::late_writer::{Example, Late, Outcome, late_write_in};

struct Database {
    store: Store,
    folder: Folder,
}

/// The script of the page, with a job before its transaction: there it is frozen.
fn script() -> String {
    let page = include_str!("../../docs/fencing.md");
    let script = page.split("```").find_map(|block| block.strip_prefix("sh\n")).expect("the first script");
    assert_eq!(script.matches("psql -X").count(), 1, "{script}");
    script.replace("psql -X", "echo 0 | \"$@\" >/dev/null\npsql \"$REDLOCK_SERVER\" -X")
}

impl Database {
    fn new(script: &str) -> Database {
        let database = Database { store: Store::postgres(), folder: Folder::new() };
        database.store.sql("create table ledger (id int primary key, total bigint not null)");
        database.store.sql("insert into ledger values (1, 100)");
        fs::write(database.folder.path("add-ten.sh"), script).expect("the script");
        database
    }
}

impl Example for Database {
    fn command(&self) -> Vec<PathBuf> {
        vec![self.folder.path("add-ten.sh")]
    }

    fn env(&self) -> Vec<(&'static str, PathBuf)> {
        Vec::new()
    }

    fn number(&self) -> String {
        self.store.sql("select total from ledger")
    }

    fn refusal(&self) -> &'static str {
        "is not held any more"
    }
}

/// The same late writer gets in when its transaction does not call the function.
#[test]
fn a_late_transaction_gets_an_error() {
    if !Postgres::may_run() {
        return;
    }
    let with = Database::new(&script());
    let outcome = late_write_in(&with.store, &with, Late::AfterTheSecond);
    assert_eq!(outcome, Outcome::new(3, 0, "110"));

    let guard = "select redlock.fenced(:'key', :fence);";
    assert_eq!(script().matches(guard).count(), 1);
    let without = Database::new(&script().replace(guard, ""));
    let outcome = late_write_in(&without.store, &without, Late::AfterTheSecond);
    assert_eq!(outcome, Outcome::new(0, 0, "120"));
}
