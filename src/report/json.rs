//! Events as lines of JSON, for programs: on stderr, or added to a file.

use std::fs::OpenOptions;
use std::io::{self, Write, stderr};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::human::{Verbosity, least_verbosity, standing, text};
use super::output::{escaped, print_message};
use super::progress::LogPace;
use super::reporter::Renderer;
use super::status::{holder_json, kind_json};
use crate::clock::Deadline;
use crate::error::{Outcome, without_number};
use crate::event::{Event, LeftBehind, LeftoversFate, LossConsequence, Summary, Waited};
use crate::job::{ExitStatus, GuardLoss};
use crate::lock::{Key, LossCause};
use crate::poll::is_writable;
use crate::user::UserAtHost;

/// Of the names and the fields. One that goes or changes its meaning raises it; a new one does not.
const VERSION: u32 = 1;

/// For the rest of a line that a pipe has no room for at once: a lease is renewed by the thread that waits here.
const PATIENCE: Duration = Duration::from_millis(100);
const RETRY: Duration = Duration::from_millis(5);
/// At a line without an end, before it counts as torn.
const LOOKS: u32 = 5;

pub enum LogDestination {
    Stderr,
    /// Opened for each line, so that logrotate(8) can move it away.
    File(PathBuf),
}

/// Writes the events that the verbosity allows. Those that are for programs only come with every other but [`Verbosity::Quiet`].
pub struct JsonRenderer {
    destination: LogDestination,
    verbosity: Verbosity,
    state: Mutex<LogState>,
}

struct LogState {
    wait: LogPace,
    /// That the file cannot be written was said.
    has_complained: bool,
    /// The last line has no end.
    is_cut: bool,
}

impl JsonRenderer {
    pub fn new(destination: LogDestination, verbosity: Verbosity) -> JsonRenderer {
        let state = Mutex::new(LogState { wait: LogPace::new(), has_complained: false, is_cut: false });
        JsonRenderer { destination, verbosity, state }
    }

    fn is_shown(&self, event: &Event) -> bool {
        self.verbosity > Verbosity::Quiet || least_verbosity(event) == Some(Verbosity::Quiet)
    }
}

impl Renderer for JsonRenderer {
    fn render(&self, event: &Event) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_shown(event) || standing(event).is_some_and(|standing| !state.wait.is_due(&standing)) {
            return;
        }
        let Some(line) = line(event) else { return };
        let path = match &self.destination {
            LogDestination::Stderr => return write_in_time(&line, &mut state.is_cut),
            LogDestination::File(path) => path,
        };
        if let Err(error) = append(line, path)
            && !std::mem::replace(&mut state.has_complained, true)
        {
            print_message(&without_number(format!("cannot write to --log-file {}: {error}", path.display())));
        }
    }
}

/// In one write, so that the lines of several processes do not mix (write(2), `O_APPEND`).
fn append(line: String, path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let mut file = options.open(path)?;
    // The last writer may have met a full disk in the middle of a line. One that is still writing ends it soon.
    let is_torn = (0..LOOKS).all(|look| {
        if look > 0 {
            thread::sleep(RETRY);
        }
        is_torn(path).unwrap_or(false)
    });
    let line = if is_torn { format!("\n{line}") } else { line };
    file.write_all(line.as_bytes())
}

/// Writes to stderr as long as a reader takes it. One that stands still misses the line, or the rest of it, which then
/// `is_cut`.
fn write_in_time(line: &str, is_cut: &mut bool) {
    let line = if *is_cut { format!("\n{line}") } else { line.to_owned() };
    // poll(2) promises room for one piece in a pipe.
    for (number, piece) in line.as_bytes().chunks(libc::PIPE_BUF).enumerate() {
        let until = Deadline::after(if number == 0 { Duration::ZERO } else { PATIENCE });
        while !is_writable(stderr().as_fd()) {
            if until.has_passed() {
                return;
            }
            thread::sleep(RETRY);
        }
        *is_cut = true;
        if stderr().write_all(piece).is_err() {
            return;
        }
    }
    *is_cut = false;
}

/// Whether a file ends in the middle of a line.
fn is_torn(path: &Path) -> io::Result<bool> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    let mut last = [b'\n'];
    if metadata.is_file() && metadata.len() > 0 {
        file.read_exact_at(&mut last, metadata.len() - 1)?;
    }
    Ok(last != [b'\n'])
}

/// One line; `None` for what is only to be cleared from a terminal.
fn line(event: &Event) -> Option<String> {
    let (name, fields) = fields(event)?;
    let UserAtHost { user, host } = UserAtHost::own();
    let mut line = Map::new();
    line.insert("version".to_owned(), VERSION.into());
    line.insert("time".to_owned(), humantime::format_rfc3339_millis(SystemTime::now()).to_string().into());
    line.insert("event".to_owned(), name.into());
    line.insert("level".to_owned(), level(event).into());
    line.insert("host".to_owned(), host.into());
    line.insert("user".to_owned(), user.into());
    line.insert("pid".to_owned(), std::process::id().into());
    if let Value::Object(fields) = fields {
        line.extend(fields);
    }
    let message = text(event);
    if !message.is_empty() {
        line.insert("message".to_owned(), message.into());
    }
    Some(escaped(&Value::Object(line).to_string()) + "\n")
}

fn level(event: &Event) -> &'static str {
    match least_verbosity(event) {
        Some(Verbosity::Quiet) => "error",
        Some(Verbosity::Normal) => "warning",
        Some(Verbosity::Verbose) | None => "info",
    }
}

/// The name of an event, and its own fields. They are documented in redlock-events(7), and stable.
fn fields(event: &Event) -> Option<(&'static str, Value)> {
    let millis = |duration: &Duration| duration.as_millis() as u64;
    let limit = |waited: &Waited| waited.limit.as_ref().map(millis);
    Some(match event {
        // The lock that was waited for has its own event.
        Event::WaitEnded | Event::WaitedFor { .. } => return None,
        Event::EvenQuorum { servers } => ("quorum_even", json!({ "servers": servers })),
        Event::MinHoldExceedsTtl { min_hold, ttl } => {
            ("min_hold_exceeds_ttl", json!({ "min_hold_ms": millis(min_hold), "ttl_ms": ttl.as_millis() }))
        }
        Event::Splay { pause } => ("splay", json!({ "pause_ms": millis(pause) })),
        Event::Requested { requests } => {
            let first = requests.first()?;
            let keys = requests.iter().map(|request| request.key.as_str()).collect::<Vec<_>>();
            let (kind, permits) = kind_json(first.mode);
            let (ttl_ms, label) = (first.ttl.as_millis(), &first.metadata.label);
            let asked =
                json!({ "keys": keys, "kind": kind, "permits": permits, "ttl_ms": ttl_ms, "label": label });
            ("lock_acquire_attempt", asked)
        }
        Event::Waiting { busy, waited } => (
            "lock_waiting",
            json!({
                "keys": [busy.key.as_str()], "holder": busy.holder.as_ref().map(holder_json), "ahead": busy.ahead,
                "waited_ms": millis(&waited.so_far), "limit_ms": limit(waited),
            }),
        ),
        Event::StoreUnreachable { error, waited } => (
            "store_unreachable",
            json!({ "error": error.to_string(), "waited_ms": millis(&waited.so_far), "limit_ms": limit(waited) }),
        ),
        Event::NotAcquired { busy, gave_up_after } => (
            "lock_failed",
            json!({
                "keys": [busy.key.as_str()], "holder": busy.holder.as_ref().map(holder_json), "ahead": busy.ahead,
                "waited_ms": gave_up_after.as_ref().map(millis),
            }),
        ),
        Event::Acquired { key, fence, waited } => (
            "lock_acquired",
            json!({ "keys": [key.as_str()], "fence": fence.0, "waited_ms": millis(waited) }),
        ),
        Event::Started { keys } => ("run_started", json!({ "keys": names(keys) })),
        Event::Renewed { keys, took } => {
            ("lock_renewed", json!({ "keys": names(keys), "took_ms": millis(took) }))
        }
        Event::RenewedByHand { key, ttl } => {
            ("lock_renewed", json!({ "keys": [key.as_str()], "ttl_ms": ttl.as_millis() }))
        }
        Event::RenewalFailed { key, error, left } => (
            "lock_renewal_failed",
            json!({ "keys": [key.as_str()], "error": error.to_string(), "left_ms": millis(left) }),
        ),
        Event::Healed { key, gone } => {
            ("lock_healed", json!({ "keys": [key.as_str()], "gone_ms": millis(gone) }))
        }
        Event::Lost { keys, cause, consequence } => (
            "lock_lost",
            json!({ "keys": names(keys), "cause": loss_cause(cause), "consequence": loss_consequence(*consequence) }),
        ),
        Event::Held { key, left } => {
            ("lock_held", json!({ "keys": [key.as_str()], "left_ms": left.as_ref().map(millis) }))
        }
        Event::Released { keys, leftovers } => {
            ("lock_released", json!({ "keys": names(keys), "leftovers": leftovers.map(left_behind) }))
        }
        Event::NotReleased { keys, ttl, leftovers } => (
            "lock_release_failed",
            json!({ "keys": names(keys), "ttl_ms": ttl.as_millis(), "leftovers": leftovers.map(left_behind) }),
        ),
        Event::TimedOut { limit, .. } => ("run_timed_out", json!({ "limit_ms": millis(limit) })),
        Event::Leftovers { of, fate } => {
            ("leftovers", json!({ "leftovers": left_behind(of), "fate": leftovers_fate(*fate) }))
        }
        Event::GuardLost { keys, how } => (
            "guard_lost",
            json!({ "keys": names(keys), "how": match how { GuardLoss::Killed => "killed", GuardLoss::Stopped => "stopped" } }),
        ),
        Event::Broken { key, holder, others } => (
            "lock_broken",
            json!({ "keys": [key.as_str()], "holder": holder_json(holder), "others": others, "freed": false }),
        ),
        Event::Freed { key, holder, others } => (
            "lock_broken",
            json!({ "keys": [key.as_str()], "holder": holder_json(holder), "others": others, "freed": true }),
        ),
        Event::CommandEnded { status } => ("command_ended", exit(*status)),
        Event::Failed { exit_status, .. } => ("failed", json!({ "exit_status": exit_status })),
        Event::Ended { summary } => ("ended", ended(summary)),
    })
}

fn names(keys: &[Key]) -> Vec<&str> {
    keys.iter().map(Key::as_str).collect()
}

fn left_behind(of: &LeftBehind) -> Value {
    json!({ "pid": of.one.as_ref().map(|one| one.0), "name": of.one.as_ref().map(|one| &one.1) })
}

fn exit(status: ExitStatus) -> Value {
    match status {
        ExitStatus::Exited(code) => json!({ "exit_status": code, "signal": null }),
        ExitStatus::Signaled(signal) => json!({ "exit_status": null, "signal": signal }),
    }
}

fn ended(summary: &Summary) -> Value {
    let (exit_status, signal) = match summary.exit {
        Some(Outcome::Exit(code)) => (Some(code), None),
        Some(Outcome::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    json!({
        "keys": names(&summary.keys),
        "label": summary.label,
        "outcome": summary.outcome().name(),
        "exit_status": exit_status,
        "signal": signal,
        "fences": summary.fences.iter().map(|fence| fence.0).collect::<Vec<_>>(),
        "acquired": summary.was_acquired(),
        "waited_ms": summary.waited.as_millis() as u64,
        "held_ms": summary.held.map(|held| held.as_millis() as u64),
        "renewals": summary.renewals,
        "failed_renewals": summary.failed_renewals,
        "slowest_renewal_ms": summary.slowest_renewal.as_millis() as u64,
    })
}

fn loss_cause(cause: &LossCause) -> &'static str {
    match cause {
        LossCause::Released => "released",
        LossCause::NotHeld => "not_held",
        LossCause::Taken(Some(holder)) if holder.broken.is_some() => "broken",
        LossCause::Taken(_) => "taken",
        LossCause::Expired(_) => "expired",
    }
}

fn loss_consequence(consequence: LossConsequence) -> &'static str {
    match consequence {
        LossConsequence::JobIsStopped | LossConsequence::JobWasStopped => "job_stopped",
        LossConsequence::JobContinues => "job_continues",
        LossConsequence::NothingStarted | LossConsequence::NothingStartedAfterWait => "nothing_started",
        LossConsequence::ProcessTerminated(_) => "process_terminated",
        LossConsequence::ProcessContinues(_) => "process_continues",
    }
}

fn leftovers_fate(fate: LeftoversFate) -> &'static str {
    match fate {
        LeftoversFate::Awaited { .. } => "awaited",
        LeftoversFate::Unwanted | LeftoversFate::Stopped { .. } => "stopped",
        LeftoversFate::Signalled => "signalled",
        LeftoversFate::WithoutLocks { .. } => "without_locks",
        LeftoversFate::Unguarded { .. } => "unguarded",
    }
}
