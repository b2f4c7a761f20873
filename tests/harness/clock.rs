//! Another time of day for one process.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Folder;

/// Builds the library that puts the wall clock of a program this many seconds ahead.
pub fn library(ahead: i64, folder: &Folder) -> PathBuf {
    build(&format!("-DAHEAD={ahead}"), folder)
}

/// The same for a clock that can be set while the program runs: `file` has the seconds.
pub fn adjustable_library(file: &Path, folder: &Folder) -> PathBuf {
    build(&format!("-DAHEAD_FILE=\"{}\"", file.display()), folder)
}

fn build(definition: &str, folder: &Folder) -> PathBuf {
    let library = folder.path("clock.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/clock.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", definition, "-o"]).arg(&library).arg(source);
    let status = compiler.status().expect("a C compiler is installed; tests/run does that");
    assert!(status.success(), "the library is built");
    library
}
