use std::sync::LazyLock;

use redis::{Cmd, Script as Source, Value};

use super::keys::Names;
use crate::lock::{FencingToken, OwnerToken};

/// A Lua script of ours: one atomic step in the server.
pub struct Script {
    text: &'static str,
    /// With its hash, computed when it is first needed.
    source: LazyLock<Source>,
}

macro_rules! script {
    ($file:literal) => {{
        const TEXT: &str =
            concat!(include_str!("scripts/queue.lua"), include_str!(concat!("scripts/", $file)));
        Script { text: TEXT, source: LazyLock::new(|| Source::new(TEXT)) }
    }};
}

pub static TAKE: Script = script!("take.lua");
pub static RENEW: Script = script!("renew.lua");
pub static RELEASE: Script = script!("release.lua");
pub static CHECK: Script = script!("check.lua");
pub static BREAK: Script = script!("break.lua");
pub static STATUS: Script = script!("status.lua");

impl Script {
    /// Computes the hash, while there is time.
    pub fn make_ready(&self) {
        LazyLock::force(&self.source);
    }
}

/// One call of a script.
pub struct Call {
    script: &'static Script,
    arguments: Vec<String>,
}

impl Call {
    /// The arguments that all scripts share; see `scripts/queue.lua`.
    pub fn new(script: &'static Script, names: &Names, token: Option<&OwnerToken>) -> Call {
        let mut call = Call { script, arguments: vec!["4".to_owned()] };
        for name in [&names.lock, &names.state, &names.queue, &names.holders, &names.channel] {
            call = call.arg(name);
        }
        call.arg(FencingToken::floor()).arg(token.map_or("", OwnerToken::expose))
    }

    pub fn arg(mut self, argument: impl ToString) -> Call {
        self.arguments.push(argument.to_string());
        self
    }

    /// The call by the script's hash: short, but the server has to know the script.
    pub fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", self.script.source.get_hash())
    }

    /// The call with the script's text, after a restart or a SCRIPT FLUSH.
    pub fn in_full(&self) -> Cmd {
        self.command("EVAL", self.script.text)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(&self.arguments);
        command
    }
}

/// The elements of an array reply; none for any other reply.
pub fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

/// A string reply; empty for any other.
pub fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::BulkString(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(Value::SimpleString(text)) => text.clone(),
        _ => String::new(),
    }
}

/// A number, sent as such or as a string; zero for anything else.
pub fn number(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Int(number)) => *number,
        other => text(other).parse().unwrap_or(0),
    }
}
