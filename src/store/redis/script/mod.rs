//! The Lua scripts: each is one atomic step in the server.
//!
//! Each operation has a file with its arguments, its call and the decoding of its reply; its Lua is in `lua/`.

pub mod acquire;
pub mod break_lock;
pub mod check;
pub mod handover;
pub mod holder;
pub mod raise;
pub mod release;
pub mod renew;
pub mod status;

use std::sync::LazyLock;

use redis::{Cmd, Script as Source, Value};

use super::error_reply::{ErrorClass, accepted, classify, in_short};
use super::executor::{Executor, Target};
use super::keys::KeyNames;
use super::net::RequestError;
use super::value::text;
use crate::lock::{FencingToken, Key, OwnerToken, Result, StoreError, Timeout};

/// The text of a script, with its hash.
pub struct Script {
    text: &'static str,
    /// Computed when it is first needed.
    source: LazyLock<Source>,
}

impl Script {
    /// Computes the hash, while there is time.
    pub fn prepare(&self) {
        LazyLock::force(&self.source);
    }
}

/// A script from the files that it consists of, behind the one that all have: those that do without the shared
/// functions, `;`, and those that need them.
macro_rules! script {
    ($($fast:literal),*; $file:literal) => {{
        const TEXT: &str = concat!(
            include_str!("lua/keys.lua"),
            $(include_str!(concat!("lua/", $fast)),)*
            include_str!("lua/queue.lua"),
            include_str!(concat!("lua/", $file)),
        );
        super::Script { text: TEXT, source: std::sync::LazyLock::new(|| redis::Script::new(TEXT)) }
    }};
}
use script;

/// One call of a script.
pub struct ScriptCall {
    script: &'static Script,
    keys: Vec<Key>,
    arguments: Vec<String>,
}

impl ScriptCall {
    /// A call about one lock or several, with the arguments that all scripts share: see `lua/keys.lua`.
    pub fn new<'a>(
        script: &'static Script,
        keys: impl IntoIterator<Item = &'a Key>,
        token: Option<&OwnerToken>,
    ) -> ScriptCall {
        let keys: Vec<Key> = keys.into_iter().cloned().collect();
        let names: Vec<String> = keys.iter().map(KeyNames::of).flat_map(KeyNames::into_all).collect();
        let call = ScriptCall { script, keys, arguments: vec![names.len().to_string()] };
        let call = names.iter().fold(call, ScriptCall::arg);
        call.arg(FencingToken::floor()).arg(token.map_or("", OwnerToken::expose))
    }

    /// One more argument behind those that all scripts share.
    pub fn arg(mut self, argument: impl ToString) -> ScriptCall {
        self.arguments.push(argument.to_string());
        self
    }

    /// The locks that it is about, without their side keys.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Where its locks are.
    pub fn target(&self) -> Target<'_> {
        self.keys.first().map_or(Target::Any, Target::Key)
    }

    /// The call by the script's hash: short, but the server has to know the script.
    pub fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", self.script.source.get_hash())
    }

    /// The call with the script's text.
    pub fn in_full(&self) -> Cmd {
        self.command("EVAL", self.script.text)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(&self.arguments);
        command
    }

    /// Runs the script, in full where the server does not know it.
    pub fn run(&self, on: &mut dyn Executor, timeout: &Timeout) -> Result<Value> {
        let mut reply = on.execute(self.target(), &self.by_hash(), timeout)?;
        if is(&reply, ErrorClass::NoScript) {
            reply = on.execute(self.target(), &self.in_full(), timeout)?;
        }
        if is(&reply, ErrorClass::WrongType) {
            self.explain_wrong_type(on, timeout)?;
        }
        accepted(reply, on.name())
    }

    /// Runs the script and decodes its reply.
    pub fn run_and<T>(
        &self,
        on: &mut dyn Executor,
        timeout: &Timeout,
        decode: impl FnOnce(Value) -> Option<T>,
    ) -> Result<T> {
        let reply = self.run(on, timeout)?;
        understood(on, decode(reply))
    }

    /// An error that names the key with the wrong type, if it is still there.
    fn explain_wrong_type(&self, on: &mut dyn Executor, timeout: &Timeout) -> Result<()> {
        for key in &self.keys {
            for (name, expected) in KeyNames::of(key).types() {
                let found = on.execute(self.target(), redis::cmd("TYPE").arg(name), timeout)?;
                let found = text(Some(&found));
                if ![expected, "none", ""].contains(&found.as_str()) {
                    let found = format!("a {} under '{name}'", in_short(&found));
                    return Err(StoreError::NotALock {
                        store: on.name().to_owned(),
                        key: key.clone(),
                        found,
                    });
                }
            }
        }
        Ok(())
    }
}

fn is(reply: &Value, class: ErrorClass) -> bool {
    matches!(reply, Value::ServerError(error) if classify(error) == class)
}

/// What a reply means. One that makes no sense leaves the outcome unknown, and the connection is of no more use.
pub fn understood<T>(on: &mut dyn Executor, meaning: Option<T>) -> Result<T> {
    meaning.ok_or_else(|| {
        on.reject_reply();
        RequestError::senseless_reply().of(on.name())
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    pub fn array(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(items.into_iter().collect())
    }

    /// Replies of a server that is none, or hostile.
    pub fn garbage() -> Vec<Value> {
        let words =
            ["", "granted", "busy", "kind", "vanished", "exhausted", "extended", "lost", "told", "freed"];
        let numbers = [0, 1, -1, i64::MAX, i64::MIN].map(Value::Int);
        let deep = (0..50).fold(Value::Nil, |inner, _| array([inner]));
        let mut replies = vec![Value::Nil, Value::Okay, Value::Boolean(true), Value::Double(f64::NAN), deep];
        replies.extend(numbers.clone());
        for word in words {
            replies.push(bulk(word));
            replies.push(array([bulk(word)]));
            for number in &numbers {
                replies.push(array([bulk(word), number.clone()]));
                replies.push(array(std::iter::once(bulk(word)).chain(vec![number.clone(); 7])));
            }
            replies.push(array([bulk(word), array([bulk("{"), bulk("\u{1b}[2J")]), array([])]));
            replies.push(array([bulk(word), Value::Int(1), array(vec![Value::Int(i64::MAX); 6]), bulk("x")]));
        }
        replies.push(Value::BulkString(vec![0xff; 1000]));
        replies
    }

    /// Decodes all garbage, none of which may panic. Returns what has a meaning all the same.
    pub fn decoded<T>(decode: impl Fn(Value) -> Option<T>) -> Vec<T> {
        garbage().into_iter().filter_map(decode).collect()
    }
}
