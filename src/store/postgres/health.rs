//! The checks of `doctor` for a database.

use super::answer::{number, text};
use super::error::ServerError;
use super::message::Statement;
use super::statements::SETUP;
use super::store::Postgres;
use super::url::PostgresAddress;
use crate::doctor::{Check, Finding, Findings, Level, Requirements, Trial, judge};
use crate::lock::{Key, Result, StoreError, Timeout};
use crate::store::call_error::CallError;

/// For a call that failed, and for an answer that makes no sense.
const ADVICE: [&str; 2] = ["see to that", "is something between redlock and PostgreSQL (a proxy)?"];

const LOOK: &str = "SELECT current_setting('server_version'), current_setting('server_encoding'),
    pg_is_in_recovery()::int, current_setting('synchronous_standby_names'),
    (SELECT count(*) FROM pg_stat_replication),
    to_regclass('redlock.lock') IS NOT NULL, current_setting('fsync'), current_setting('full_page_writes')";

/// Examines each server, and the life of a lock.
pub fn examine(address: &PostgresAddress, terms: &Requirements) -> Vec<Finding> {
    let mut findings = Vec::new();
    for one in address.each() {
        findings.extend(examine_server(one, terms).findings);
    }
    if findings.iter().any(|finding| finding.level == Level::Bad && finding.check == Check::Permissions) {
        // Each of its steps would fail for the same reason.
        return findings;
    }
    let mut report = Findings::about(address.to_string());
    let (mut holder, mut waiter) = (Postgres::new(address.clone()), Postgres::new(address.clone()));
    let key = Key::scratch();
    let trial = Trial { holder: &mut holder, waiter: &mut waiter, key: &key, attempt: terms.attempt };
    let lived = trial.run();
    let forget = Statement::of("DELETE FROM redlock.lock WHERE key = $1::text", [key.as_str()]);
    // A row of a trial is forgotten later anyway.
    let _ = holder.database.run(&[forget], &Timeout::of(terms.attempt));
    judge(&lived, ADVICE, &mut report);
    if let Ok(measured) = &lived {
        terms.judge_ttl(measured.round_trip, &mut report);
    }
    findings.extend(report.findings);
    findings
}

fn examine_server(address: PostgresAddress, terms: &Requirements) -> Findings {
    let mut report = Findings::about(address.to_string());
    let server = &address.servers[0];
    match (address.tls(server), server) {
        (Some(_), _) => report.ok(Check::Encryption, "the connection is encrypted"),
        (None, crate::store::net::Endpoint::Unix(_)) => {
            report.ok(Check::Encryption, "the connection stays on this host");
        }
        (None, _) => report.note(
            Check::Encryption,
            "the connection is in plain",
            "leave out sslmode=disable where others can listen",
        ),
    }
    let is_pooled = address.is_pooled;
    let mut store = Postgres::new(address);
    let asked = store.database.run(&[Statement::plain(LOOK)], &Timeout::of(terms.attempt));
    let answer = match asked.and_then(|answer| match answer.error {
        Some(error) => Err(CallError::from(error).of(&report.server)),
        None => Ok(answer),
    }) {
        Ok(answer) => answer,
        Err(StoreError::Denied { why, .. }) => {
            report.bad(Check::Login, why, "name a user and a password: --user and --password-file");
            return report;
        }
        Err(StoreError::Unreachable { why, .. } | StoreError::Unusable { why, .. }) => {
            report.bad(Check::Reachable, why, "is PostgreSQL running there, and does it have this database?");
            return report;
        }
        Err(error) => {
            report.bad(Check::Reachable, error.to_string(), ADVICE[0]);
            return report;
        }
    };
    report.ok(Check::Reachable, "it answers");
    let nothing = Vec::new();
    let row = answer.rows.first().and_then(|rows| rows.first()).unwrap_or(&nothing);
    let shown = |column| crate::sanitize::sanitize(&text(row, column).chars().take(40).collect::<String>());
    let version = shown(0);
    match version.split('.').next().and_then(|major| major.parse().ok()) {
        Some(12_u32..) => report.ok(Check::Version, format!("PostgreSQL {version}")),
        _ => report.bad(
            Check::Version,
            format!("PostgreSQL {version}"),
            "redlock needs PostgreSQL 12 or later",
        ),
    }
    if shown(1) != "UTF8" {
        let finding = format!("the encoding of the database is {}: some keys cannot be stored", shown(1));
        report.warning(Check::Permissions, finding, "use a database with the encoding UTF8");
    }
    if text(row, 2) == "1" {
        report.warning(Check::Role, "it is a standby", "redlock uses the server that is read-write");
    }
    if text(row, 5) != "t" {
        let advice = "run 'redlock doctor --setup', or the script that 'redlock doctor --sql' prints";
        report.bad(Check::Permissions, "the schema 'redlock' is missing", advice);
    }
    if shown(6) == "off" || shown(7) == "off" {
        let finding = "fsync or full_page_writes is off: a crash of its host may lose locks";
        report.warning(Check::Persistence, finding, "set both to on");
    } else {
        report.ok(Check::Persistence, "a granted lock is on disk");
    }
    match (number(row, 4), text(row, 3)) {
        (Some(1..), "") => report.warning(
            Check::Replicas,
            "its standbys are asynchronous: a failover may lose the last locks",
            "set synchronous_standby_names",
        ),
        (Some(0) | None, _) => report.note(
            Check::Replicas,
            "no standby is connected, as far as this user sees",
            "a standby takes over when it is lost",
        ),
        _ => report.ok(Check::Replicas, "a standby has each lock before it counts"),
    }
    if is_pooled {
        report.note(
            Check::Sessions,
            "the URL says pooler=yes: waiters poll",
            "name the server itself for a quick handover",
        );
    }
    report
}

/// Makes the schema, or leaves it as it is.
pub fn set_up(address: &PostgresAddress, timeout: &Timeout) -> Result<()> {
    let mut store = Postgres::new(address.clone());
    // Statement by statement: the protocol takes one at a time.
    let statements: Vec<Statement> = statements(SETUP).into_iter().map(Statement::plain).collect();
    let answer = loop {
        let answer = store.database.run(&statements, timeout)?;
        // Locks that are in use may have been in the way.
        let is_undone = answer.error.as_ref().is_some_and(ServerError::is_undone);
        if !is_undone || timeout.until.has_passed() {
            break answer;
        }
    };
    match answer.error {
        Some(error) => {
            let denied = error.code == "42501";
            let (name, text) = (store.database.name(), error.text.clone());
            Err(match denied {
                true => StoreError::Denied {
                    store: name,
                    why: format!("{text}; run it as a user who may create schemas"),
                },
                false => CallError::from(error).of(&name),
            })
        }
        None => Ok(()),
    }
}

/// The statements of a script: they end with a semicolon at the end of a line, outside of a function.
fn statements(script: &'static str) -> Vec<String> {
    let (mut statements, mut current, mut is_function) = (Vec::new(), String::new(), false);
    for line in script.lines().filter(|line| !line.starts_with("--")) {
        current.push_str(line);
        current.push('\n');
        is_function ^= line.matches("$$").count() % 2 == 1;
        if line.ends_with(';') && !is_function {
            statements.push(std::mem::take(&mut current));
        }
    }
    statements
}
