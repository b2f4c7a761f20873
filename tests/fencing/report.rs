//! A plain file.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::harness::{Folder, Store, children, eventually, pid_in};
use crate::late_writer::{Example, Frozen, Late, Outcome, late_write, script, start, write};

struct Report(Folder);

impl Report {
    /// With 100 in it.
    fn new(changes: &[(&str, &str)]) -> Report {
        let folder = Folder::new();
        fs::write(folder.path("report.sh"), script("report.sh", changes)).expect("the script");
        fs::write(folder.path("report"), "100\n").expect("the report");
        Report(folder)
    }
}

impl Example for Report {
    fn command(&self) -> Vec<PathBuf> {
        ["report.sh", "report"].map(|name| self.0.path(name)).to_vec()
    }

    fn env(&self) -> Vec<(&'static str, PathBuf)> {
        Vec::new()
    }

    fn number(&self) -> String {
        fs::read_to_string(self.0.path("report")).expect("the report").trim_end().to_owned()
    }
}

#[test]
fn a_late_write_is_refused() {
    let outcome = late_write(&Report::new(&[]), Late::AfterTheSecond);
    assert_eq!(outcome, Outcome::new(1, 0, "110"));
}

#[test]
fn a_late_write_between_the_reading_and_the_writing_of_another_is_refused() {
    let outcome = late_write(&Report::new(&[]), Late::AmidTheSecond);
    assert_eq!(outcome, Outcome::new(1, 0, "110"));
}

/// That the tests above can fail.
#[test]
fn without_the_condition_the_second_write_is_lost() {
    let unfenced = [("if_fence -eq \"$new\" \"$file\"", "mv \"$new\" \"$file\"")];
    let outcome = late_write(&Report::new(&unfenced), Late::AfterTheSecond);
    assert_eq!(outcome, Outcome::new(0, 0, "101"));
}

/// Frozen between the comparison and the change, it writes late, but still before the second one reads.
#[test]
fn in_the_step_under_flock_it_holds_up_the_next() {
    let waiting = r#"echo $$ >"$3.step"; until [ -e "$file.go" ]; do sleep 0.05; done; mv "$2" "$3""#;
    let report = Report::new(&[(r#"mv "$2" "$3""#, waiting)]);
    let store = Store::redis();
    fs::write(report.0.path("report.go"), "").expect("a file");
    let mut first = start(&store, &report, "first", "1");
    pid_in(&store.folder.path("first"));
    fs::remove_file(report.0.path("report.go")).expect("a file");
    drop(first.child.stdin.take());
    pid_in(&report.0.path("report.step"));
    let frozen = Frozen::with_all_of(&first);

    let mut second = start(&store, &report, "second", "10");
    eventually(Duration::from_secs(20), "the second one at the flock", || runs_below(second.pid(), "flock"));
    fs::write(report.0.path("report.go"), "").expect("a file");
    frozen.let_job_go_on();
    assert_eq!(write(&store, &mut first, "first"), 0);
    assert_eq!(write(&store, &mut second, "second"), 0);
    assert_eq!(report.number(), "111");
    drop(frozen);
    first.finish().expect(79);
    second.finish().expect(0);
}

fn runs_below(pid: i32, name: &str) -> bool {
    let named =
        |pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name);
    children(pid).into_iter().any(|child| named(child) || runs_below(child, name))
}
