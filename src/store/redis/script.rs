use std::sync::LazyLock;

use redis::{Cmd, Script as Source, Value};

use super::keys::KeyNames;
use super::topology::Target;
use crate::lock::{FencingToken, Key, OwnerToken};

/// A Lua script of ours: one atomic step in the server.
pub struct Script {
    text: &'static str,
    /// With its hash, computed when it is first needed.
    source: LazyLock<Source>,
}

macro_rules! script {
    ($file:literal) => {{
        const TEXT: &str = concat!(include_str!("lua/queue.lua"), include_str!(concat!("lua/", $file)));
        Script { text: TEXT, source: LazyLock::new(|| Source::new(TEXT)) }
    }};
}

/// Takes locks, all or none, or a place in a queue. Each file says what it takes and returns.
pub static TAKE: Script = script!("take.lua");
/// Extends a lease, and takes a lock again that was lost with the data.
pub static RENEW: Script = script!("renew.lua");
/// Gives locks back, leaves their queues, and hands them on.
pub static RELEASE: Script = script!("release.lua");
/// Asks all in line to show themselves when nobody confirms that it got the lock.
pub static PROBE: Script = script!("probe.lua");
/// What is left of a lease, in milliseconds.
pub static CHECK: Script = script!("check.lua");
/// Takes a lock away from its holders.
pub static BREAK: Script = script!("break.lua");
/// Makes fencing tokens as high as the highest in a quorum.
pub static RAISE: Script = script!("raise.lua");
/// Who holds a lock and who waits for it.
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
    keys: Vec<Key>,
    arguments: Vec<String>,
}

impl Call {
    /// A call about one lock.
    pub fn new(script: &'static Script, key: &Key, token: Option<&OwnerToken>) -> Call {
        Call::of_several(script, [key], token)
    }

    /// The arguments that all scripts share; see `lua/queue.lua`.
    pub fn of_several<'a>(
        script: &'static Script,
        keys: impl IntoIterator<Item = &'a Key>,
        token: Option<&OwnerToken>,
    ) -> Call {
        let keys: Vec<Key> = keys.into_iter().cloned().collect();
        let names: Vec<String> = keys.iter().map(KeyNames::of).flat_map(KeyNames::into_all).collect();
        let call = Call { script, keys, arguments: vec![names.len().to_string()] };
        let call = names.iter().fold(call, Call::arg);
        call.arg(FencingToken::floor()).arg(token.map_or("", OwnerToken::expose))
    }

    /// The locks that it is about, without their side keys.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Where its locks are.
    pub fn place(&self) -> Target<'_> {
        self.keys.first().map_or(Target::Node(0), Target::Key)
    }

    /// One more argument behind those that all scripts share.
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
