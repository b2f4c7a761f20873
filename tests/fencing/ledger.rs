//! A row of a PostgreSQL table.

use std::fs;
use std::path::PathBuf;

use crate::harness::{Folder, Postgres};
use crate::late_writer::{Example, Late, Outcome, late_write, script};

struct Ledger {
    postgres: Postgres,
    folder: Folder,
}

impl Ledger {
    /// With a total of 100.
    fn new(changes: &[(&str, &str)]) -> Ledger {
        let ledger = Ledger { postgres: Postgres::start(), folder: Folder::new() };
        let script = script("ledger.sh", changes);
        let table = script.lines().find_map(|line| line.strip_prefix("# The table: ")).expect("the table");
        ledger.postgres.sql(table);
        ledger.postgres.sql("insert into ledger values (1, 100)");
        fs::write(ledger.folder.path("ledger.sh"), script).expect("the script");
        ledger
    }
}

impl Example for Ledger {
    fn command(&self) -> Vec<PathBuf> {
        vec![self.folder.path("ledger.sh")]
    }

    fn env(&self) -> Vec<(&'static str, PathBuf)> {
        self.postgres.env()
    }

    fn number(&self) -> String {
        self.postgres.sql("select total from ledger")
    }
}

#[test]
fn a_late_write_is_refused() {
    if !Postgres::may_run() {
        return;
    }
    let outcome = late_write(&Ledger::new(&[]), Late::AfterTheSecond);
    assert_eq!(outcome, Outcome::new(1, 0, "110"));
}

#[test]
fn a_late_write_between_the_reading_and_the_writing_of_another_is_refused() {
    if !Postgres::may_run() {
        return;
    }
    let outcome = late_write(&Ledger::new(&[]), Late::AmidTheSecond);
    assert_eq!(outcome, Outcome::new(1, 0, "110"));
}

/// That the tests above can fail.
#[test]
fn without_the_condition_the_second_write_is_lost() {
    if !Postgres::may_run() {
        return;
    }
    let unfenced = [(" where id = 1 and fence = :fence", " where id = 1")];
    let outcome = late_write(&Ledger::new(&unfenced), Late::AfterTheSecond);
    assert_eq!(outcome, Outcome::new(0, 0, "101"));
}

/// Why the stamp comes first: a smaller token is refused only when the second has written already.
#[test]
fn without_the_stamp_a_write_is_lost() {
    if !Postgres::may_run() {
        return;
    }
    let at_the_write_only = [
        ("set fence = :fence where id = 1 and fence < :fence", "set fence = fence where id = 1"),
        (
            "total = :'total' where id = 1 and fence = :fence",
            "total = :'total', fence = :fence where id = 1 and fence < :fence",
        ),
    ];
    let outcome = late_write(&Ledger::new(&at_the_write_only), Late::AmidTheSecond);
    assert_eq!(outcome, Outcome::new(0, 0, "110"));
}
