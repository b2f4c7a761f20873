//! A trial of all commands that redlock sends, as this user.

use redis::{Cmd, ServerError, Value};

use super::probe::Asking;
use super::server_under_test::ServerUnderTest;
use crate::doctor::{Check, Findings, Requirements};
use crate::lock::{Key, Result};
use crate::store::net::RequestError;
use crate::store::redis::keys::{INDEX, KeyNames};
use crate::store::redis::reply::{ErrorClass, classify, explain};

/// The refusals, in the order in which they came.
#[derive(Default)]
struct Refused {
    /// ACL rules that are missing.
    rules: Vec<String>,
    /// Commands that the server does not know, or knows by another name.
    unknown: Vec<String>,
    /// The first refusal that is about something else.
    other: Option<String>,
}

/// Tries every command by itself: of one that is refused inside a script, Redis does not say the name. The answer says
/// whether locks can be tried.
pub fn try_all(
    server: &ServerUnderTest,
    asking: &mut Asking,
    terms: &Requirements,
    report: &mut Findings,
) -> Result<bool> {
    let key = server.scratch_key();
    let mut refused = Refused::default();
    for (name, command) in commands(&KeyNames::of(&key), terms) {
        if let Value::ServerError(error) = asking.ask(&command)? {
            refused.note(name, &error);
        }
    }
    server.sweep(asking, &key)?;
    // The connection is of no other use afterwards.
    let mut listener = server.open(terms).map_err(|error| RequestError::Broken(error.to_string()).of(""))?;
    let channel = KeyNames::of(&key).channel;
    if let Value::ServerError(error) = listener.ask(redis::cmd("SUBSCRIBE").arg(channel))? {
        refused.note("subscribe", &error);
    }
    let stranger = KeyNames::of(&Key::scratch()).state.replace("redlock-doctor-", "");
    let sees_all = !matches!(asking.ask(redis::cmd("HGET").arg(stranger).arg("a"))?, Value::ServerError(_));
    let is_fine = refused.tell(server, sees_all, report);
    if is_fine && server.slots.is_none() {
        try_index(server, asking, report)?;
    }
    Ok(is_fine)
}

/// No lock needs the index, but `status` is slow without.
fn try_index(server: &ServerUnderTest, asking: &mut Asking, report: &mut Findings) -> Result<()> {
    if let Value::ServerError(error) = asking.ask(redis::cmd("ZREM").arg(INDEX).arg("no lock"))? {
        let advice = match classify(&error) {
            ErrorClass::Denied => {
                let user = server.address.login.user.as_deref().unwrap_or("default");
                format!("ACL SETUSER {user} ~{INDEX}")
            }
            ErrorClass::WrongType => format!("delete what is there: DEL {INDEX}"),
            _ => return Ok(()),
        };
        let finding = format!(
            "the index of the locks, {INDEX}, cannot be used: where there are many keys, others do not see these locks in status, which is slow for this user: {}",
            explain(&error)
        );
        report.warning(Check::Permissions, finding, advice);
    }
    Ok(())
}

/// For a user who has the locks of everybody; `redlock(1)` has all of the rules.
const APART: &str = "where teams share the server, give each its own user; for the keys deploy:* with \
    resetkeys ~deploy:* ~redlock:{deploy:* ~redlock:{}:locks resetchannels &redlock:{deploy:*, see PERMISSIONS in redlock(1)";

fn commands(names: &KeyNames, terms: &Requirements) -> Vec<(&'static str, Cmd)> {
    let KeyNames { lock, state, queue, holders, claimed, channel, .. } = names;
    let on =
        |name: &'static str, key: &String, rest: &[&str]| (name, redis::cmd(name).arg(key).arg(rest).take());
    let mut commands = vec![
        ("evalsha", redis::cmd("EVALSHA").arg("0".repeat(40)).arg(0).take()),
        ("eval", redis::cmd("EVAL").arg("return 1").arg(0).take()),
        ("time", redis::cmd("TIME")),
        on("set", lock, &["doctor", "PX", "10000"]),
        on("get", lock, &[]),
        on("pexpire", lock, &["10000"]),
        on("pttl", lock, &[]),
        on("type", lock, &[]),
        on("hset", state, &["a", "1"]),
        on("pexpire", state, &["10000"]),
        on("hget", state, &["a"]),
        on("hmget", state, &["a", "b"]),
        on("hgetall", holders, &[]),
        on("hdel", state, &["a"]),
        on("zadd", queue, &["NX", "1", "a"]),
        on("zrange", queue, &["0", "0"]),
        on("zrank", queue, &["a"]),
        on("zcard", queue, &[]),
        on("zrem", queue, &["b"]),
        on("lpush", claimed, &["1"]),
        on("lindex", claimed, &["0"]),
        on("lrange", claimed, &["0", "0"]),
        on("ltrim", claimed, &["0", "0"]),
        on("lpop", claimed, &[]),
        on("blpop", claimed, &["0.01"]),
        on("publish", channel, &["ask"]),
        on("del", lock, &[]),
        ("scan", redis::cmd("SCAN").arg(0).arg("MATCH").arg(lock).arg("COUNT").arg(1).take()),
    ];
    if terms.replicas > 0 {
        commands.push(("wait", redis::cmd("WAIT").arg(0).arg(1).take()));
    }
    commands
}

impl Refused {
    fn note(&mut self, command: &str, error: &ServerError) {
        let details = error.details().unwrap_or_default();
        let name = command.to_uppercase();
        let (list, item) = match classify(error) {
            ErrorClass::NoScript => return,
            // Redis 6.2 and 7.0 say "one of the keys", later ones "a key"; all of them "run the 'get' command".
            ErrorClass::Denied if details.contains("run the") => (&mut self.rules, format!("+{command}")),
            ErrorClass::Denied if details.contains("channel") => {
                (&mut self.rules, "&redlock:{redlock-doctor-*".to_owned())
            }
            ErrorClass::Denied if details.contains("key") => {
                (&mut self.rules, "~redlock:{redlock-doctor-*".to_owned())
            }
            ErrorClass::Denied => (&mut self.rules, format!("+{command}")),
            _ if details.starts_with("unknown command") => (&mut self.unknown, name),
            _ => {
                self.other.get_or_insert_with(|| format!("{name}: {}", explain(error)));
                return;
            }
        };
        if !list.contains(&item) {
            list.push(item);
        }
    }

    fn tell(self, server: &ServerUnderTest, sees_all: bool, report: &mut Findings) -> bool {
        let is_fine = self.rules.is_empty() && self.unknown.is_empty() && self.other.is_none();
        if !self.rules.is_empty() {
            let rules = self.rules.join(" ");
            let user = server.address.login.user.as_deref().unwrap_or("default");
            let finding = format!("the user '{user}' lacks {rules}: locks fail when they come to that");
            report.bad(Check::Permissions, finding, format!("ACL SETUSER {user} {rules}"));
        }
        if !self.unknown.is_empty() {
            let unknown = self.unknown.join(", ");
            let finding = format!("the server does not know {unknown}, which redlock needs");
            let advice = "undo rename-command, or use Redis 6.2 or later, or Valkey";
            report.bad(Check::Permissions, finding, advice);
        }
        if let Some(other) = self.other {
            report.bad(Check::Locking, format!("it refuses what a lock needs: {other}"), "fix that first");
        }
        if is_fine && sees_all {
            let finding = "all commands that redlock uses are permitted, on the locks of everybody";
            report.note(Check::Permissions, finding, APART);
        } else if is_fine {
            report.ok(Check::Permissions, "all commands that redlock uses are permitted");
        }
        is_fine
    }
}
