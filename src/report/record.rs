//! Events as records of a log. The names and the fields are documented in redlock-events(7), and stable.

use std::env;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::human::text;
use super::status::{holder_json, kind_json};
use super::verbosity::{Verbosity, least_verbosity};
use crate::error::Outcome;
use crate::event::{Event, GaveUp, LeftBehind, LeftoversFate, LossConsequence, Summary, Waited};
use crate::job::{ExitStatus, GuardLoss};
use crate::lock::{Key, LossCause};

pub struct Record {
    /// The name of the event.
    pub event: &'static str,
    pub level: EventLevel,
    pub fields: Map<String, Value>,
    /// As people read it; events for programs only have none.
    pub message: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventLevel {
    Error,
    Warning,
    Info,
}

impl Record {
    /// `None` for what is only to be cleared from a terminal.
    pub fn of(event: &Event) -> Option<Record> {
        let (name, fields) = fields(event)?;
        let level = match least_verbosity(event) {
            Some(Verbosity::Quiet) => EventLevel::Error,
            Some(Verbosity::Normal) => EventLevel::Warning,
            Some(Verbosity::Verbose) | None => EventLevel::Info,
        };
        let mut fields = if let Value::Object(fields) = fields { fields } else { Map::new() };
        fields.extend(traceparent().map(|parent| ("traceparent".to_owned(), parent.into())));
        Some(Record {
            event: name,
            level,
            fields,
            message: Some(text(event)).filter(|text| !text.is_empty()),
        })
    }
}

/// The span in which redlock was called: W3C Trace Context, in the variable by which OpenTelemetry's tools hand it on.
fn traceparent() -> Option<String> {
    let parent = env::var("TRACEPARENT").ok()?;
    let is_plain = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    ((55..=256).contains(&parent.len()) && parent.bytes().all(is_plain)).then_some(parent)
}

impl EventLevel {
    pub fn name(self) -> &'static str {
        match self {
            EventLevel::Error => "error",
            EventLevel::Warning => "warning",
            EventLevel::Info => "info",
        }
    }
}

/// The name of an event, and its own fields.
fn fields(event: &Event) -> Option<(&'static str, Value)> {
    let millis = |duration: &Duration| duration.as_millis() as u64;
    let limit = |waited: &Waited| waited.limit.as_ref().map(millis);
    Some(match event {
        // The lock that was waited for has its own event.
        Event::WaitEnded | Event::WaitedFor { .. } | Event::HeldByHand { .. } => return None,
        Event::EvenQuorum { servers } => ("quorum_even", json!({ "servers": servers })),
        Event::TokenShown => ("token_shown", json!({})),
        Event::UnknownVariable { name, near } => (
            "unknown_variable",
            json!({ "variable": format!("REDLOCK_{name}"), "near": format!("REDLOCK_{near}") }),
        ),
        Event::MinHoldExceedsTtl { min_hold, ttl } => {
            ("min_hold_exceeds_ttl", json!({ "min_hold_ms": millis(min_hold), "ttl_ms": ttl.as_millis() }))
        }
        Event::Splay { pause } => ("splay", json!({ "pause_ms": millis(pause) })),
        Event::Requested { requests, one_of } => {
            let first = requests.first()?;
            let keys = requests.iter().map(|request| request.key.as_str()).collect::<Vec<_>>();
            let (kind, permits) = kind_json(first.mode);
            let (ttl_ms, label) = (first.ttl.as_millis(), &first.metadata.label);
            let asked = json!({ "keys": keys, "one_of": one_of, "kind": kind, "permits": permits, "ttl_ms": ttl_ms, "label": label });
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
        Event::NotAcquired { busy, why } => {
            let waited = if let GaveUp::After(waited) = why { Some(millis(waited)) } else { None };
            let queue_limit = if let GaveUp::QueueFull(limit) = why { Some(limit) } else { None };
            let failed = json!({
                "keys": [busy.key.as_str()], "holder": busy.holder.as_ref().map(holder_json), "ahead": busy.ahead,
                "waited_ms": waited, "queue_limit": queue_limit,
            });
            ("lock_failed", failed)
        }
        Event::Superseded { key, by } => (
            "superseded",
            json!({ "keys": [key.as_str()], "host_of_later": by.host, "pid_of_later": by.pid, "label_of_later": by.label }),
        ),
        Event::AlreadyRan { key, success, period } => (
            "already_ran",
            json!({ "keys": [key.as_str()], "host_of_success": success.host, "fence": success.fence, "once_per_ms": millis(period) }),
        ),
        Event::Outdated { key, number, later } => (
            "outdated",
            json!({ "keys": [key.as_str()], "sequence": number, "sequence_of_later": later.sequence, "host_of_later": later.host, "fence": later.fence }),
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
        Event::NotReleased { keys, ttl, error, leftovers } => (
            "lock_release_failed",
            json!({
                "keys": names(keys),
                "ttl_ms": ttl.as_millis(),
                "error": error.to_string(),
                "leftovers": leftovers.map(left_behind),
            }),
        ),
        Event::TimedOut { limit, .. } => ("run_timed_out", json!({ "limit_ms": millis(limit) })),
        Event::Leftovers { of, fate } => {
            ("leftovers", json!({ "leftovers": left_behind(of), "fate": leftovers_fate(*fate) }))
        }
        Event::GuardLost { keys, how } => (
            "guard_lost",
            json!({ "keys": names(keys), "how": match how { GuardLoss::Killed => "killed", GuardLoss::Stopped => "stopped" } }),
        ),
        Event::Broken { key, holder, others, is_freed } => (
            "lock_broken",
            json!({ "keys": [key.as_str()], "holder": holder_json(holder), "others": others, "freed": is_freed }),
        ),
        Event::Resized { key, permits, before } => {
            ("lock_resized", json!({ "keys": [key.as_str()], "permits": permits, "permits_before": before }))
        }
        Event::HookFailed { hook, reason } => ("hook_failed", json!({ "hook": hook, "error": reason })),
        Event::LogFailed { reason } => ("log_failed", json!({ "error": reason })),
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
        LossConsequence::JobRanOn => "job_ran_on",
        LossConsequence::JobHadEnded => "job_had_ended",
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
