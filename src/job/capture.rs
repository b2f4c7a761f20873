//! The output of a short-lived program.

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::dispositions;
use crate::clock::Deadline;
use crate::poll::wait_readable;

/// The most output that is read, in bytes. A program that prints more is treated as one that does not end.
const LONGEST: usize = 1 << 20;

/// Runs a program and returns what it prints, within `timeout`.
pub fn capture(program: &mut Command, timeout: Duration) -> io::Result<String> {
    // With SIGCHLD ignored, as some callers leave it, its pid may be another's when it is killed.
    let ignored = dispositions::is_ignored(libc::SIGCHLD);
    dispositions::set_ignored(libc::SIGCHLD, false);
    let program = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let answer = program.and_then(|mut child| {
        let answer = read(&mut child, Deadline::after(timeout));
        // It has printed everything, or is too late.
        child.kill()?;
        child.wait()?;
        answer
    });
    dispositions::set_ignored(libc::SIGCHLD, ignored);
    answer
}

fn read(child: &mut Child, until: Deadline) -> io::Result<String> {
    let Some(mut stdout) = child.stdout.take() else { return Ok(String::new()) };
    let mut answer = Vec::new();
    while answer.len() < LONGEST && !until.has_passed() {
        let mut chunk = [0; 4096];
        if wait_readable([stdout.as_fd()], until) == [true] {
            match stdout.read(&mut chunk)? {
                0 => return Ok(String::from_utf8_lossy(&answer).into_owned()),
                length => answer.extend(&chunk[..length]),
            }
        }
    }
    Err(io::Error::new(ErrorKind::TimedOut, "its output did not end in time, or is too long"))
}
