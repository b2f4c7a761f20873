//! A script and its call.

use redis::{Cmd, Value};

use crate::lock::{FencingToken, Key, OwnerToken, Result, StoreError, Timeout};
use crate::store::net::{self, RequestError};
use crate::store::redis::keys::KeyNames;
use crate::store::redis::reply::{ErrorClass, accepted, classify, in_short, text};
use crate::store::redis::routing::{Routing, Target};

/// The text of a script, with its hash.
pub struct Script {
    pub text: &'static [u8],
    /// The SHA-1 of the text, in hexadecimal digits. To compute it at each start would take 3 % of a short run.
    pub hash: [u8; 40],
}

/// The text of a script without comments, indentation and empty lines, and its length: some requests carry it.
pub const fn shortened<const LENGTH: usize>(text: &str) -> ([u8; LENGTH], usize) {
    let (text, mut short, mut at, mut length) = (text.as_bytes(), [0; LENGTH], 0, 0);
    while at < text.len() {
        while at < text.len() && (text[at] == b' ' || text[at] == b'\n') {
            at += 1;
        }
        let is_comment = at + 1 < text.len() && text[at] == b'-' && text[at + 1] == b'-';
        let mut has_ended = false;
        while at < text.len() && !has_ended {
            has_ended = text[at] == b'\n';
            if !is_comment {
                short[length] = text[at];
                length += 1;
            }
            at += 1;
        }
    }
    (short, length)
}

pub const fn beginning<const LENGTH: usize>(bytes: &[u8]) -> [u8; LENGTH] {
    let (mut beginning, mut at) = ([0; LENGTH], 0);
    while at < LENGTH {
        beginning[at] = bytes[at];
        at += 1;
    }
    beginning
}

pub const fn hash(text: &[u8]) -> [u8; 40] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let (bytes, mut digits, mut at) = (const_sha1::sha1(text).as_bytes(), [0; 40], 0);
    while at < bytes.len() {
        digits[2 * at] = DIGITS[(bytes[at] >> 4) as usize];
        digits[2 * at + 1] = DIGITS[(bytes[at] & 15) as usize];
        at += 1;
    }
    digits
}

/// A script from the files that it consists of, behind the one that all have: one that does without the shared
/// functions, if there is one, more functions, and the one that needs them.
macro_rules! script {
    ($file:literal $(, behind $fast:literal)? $(, with $functions:literal)?) => {{
        const TEXT: &str = concat!(
            include_str!("lua/keys.lua"),
            $(include_str!(concat!("lua/", $fast)),)?
            include_str!("lua/holders.lua"),
            include_str!("lua/queue.lua"),
            $(include_str!(concat!("lua/", $functions)),)?
            include_str!(concat!("lua/", $file)),
        );
        const SHORTENED: ([u8; TEXT.len()], usize) = super::call::shortened(TEXT);
        const SHORT: [u8; SHORTENED.1] = super::call::beginning(&SHORTENED.0);
        const HASH: [u8; 40] = super::call::hash(&SHORT);
        super::call::Script { text: &SHORT, hash: HASH }
    }};
}
pub(super) use script;

/// One call of a script, with the decoder of its reply.
pub struct ScriptCall<T> {
    script: &'static Script,
    keys: Vec<Key>,
    /// The least fencing token that the members of a quorum grant: the same one then. A single server asks its own clock.
    floor: Option<FencingToken>,
    token: String,
    /// The arguments of this script alone.
    arguments: Vec<String>,
    decode: fn(Value, &[Key]) -> Option<T>,
}

impl<T> ScriptCall<T> {
    /// A call about one lock or several, with the arguments that all scripts share: see `lua/keys.lua`.
    pub fn new<'a>(
        script: &'static Script,
        keys: impl IntoIterator<Item = &'a Key>,
        token: Option<&OwnerToken>,
        decode: fn(Value, &[Key]) -> Option<T>,
    ) -> Self {
        let keys = keys.into_iter().cloned().collect();
        let token = token.map_or("", OwnerToken::expose).to_owned();
        ScriptCall { script, keys, floor: None, token, arguments: Vec::new(), decode }
    }

    /// The same call for each member of a quorum.
    pub fn in_quorum(self) -> Self {
        ScriptCall { floor: Some(FencingToken::floor()), ..self }
    }

    /// One more argument behind those that all scripts share.
    pub fn arg(mut self, argument: impl ToString) -> Self {
        self.arguments.push(argument.to_string());
        self
    }

    /// The locks that it is about, without their side keys.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    fn target(&self) -> Target<'_> {
        self.keys.first().map_or(Target::Any, Target::Key)
    }

    /// The call by the script's hash: short, but the server has to know the script. `index` is the name of the index, or
    /// empty.
    pub fn by_hash(&self, index: &str) -> Cmd {
        self.command("EVALSHA", &self.script.hash, index)
    }

    pub fn in_full(&self, index: &str) -> Cmd {
        self.command("EVAL", self.script.text, index)
    }

    fn command(&self, name: &str, script: &[u8], index: &str) -> Cmd {
        let names: Vec<String> = self.keys.iter().map(KeyNames::of).flat_map(KeyNames::into_all).collect();
        let mut command = redis::cmd(name);
        command
            .arg(script)
            .arg(names.len())
            .arg(names)
            .arg(self.floor.map(|floor| floor.to_string()).unwrap_or_default());
        command.arg(&self.token).arg(index).arg(&self.arguments).take()
    }

    /// Runs the script, in full where the server does not know it.
    pub fn reply(&self, on: &mut impl Routing, timeout: &Timeout) -> Result<Value> {
        let is =
            |reply: &Value, class| matches!(reply, Value::ServerError(error) if classify(error) == class);
        let mut reply = on.execute(self.target(), &self.by_hash(on.index()), timeout)?;
        if is(&reply, ErrorClass::NoScript) {
            let was_repeated = *on.has_repeated();
            reply = on.execute(self.target(), &self.in_full(on.index()), timeout)?;
            *on.has_repeated() |= was_repeated;
        }
        if is(&reply, ErrorClass::WrongType) {
            self.explain_wrong_type(on, timeout)?;
        }
        accepted(reply, on.name())
    }

    /// Reads a reply; `None` for one that makes no sense.
    pub fn decode(&self, reply: Value) -> Option<T> {
        (self.decode)(reply, &self.keys)
    }

    pub fn run(&self, on: &mut impl Routing, timeout: &Timeout) -> Result<T> {
        let reply = self.reply(on, timeout)?;
        understood(on, self.decode(reply))
    }

    /// Runs the script on the primary. When the server turns out to be none, the script runs again on the one that is: the
    /// owner token makes that safe.
    pub fn run_on_primary(&self, on: &mut impl Routing, timeout: &Timeout) -> Result<T> {
        let mut is_repeated = false;
        loop {
            let reply = self.reply(on, timeout)?;
            *on.has_repeated() |= std::mem::replace(&mut is_repeated, true);
            if on.verify_primary(self.target(), timeout)? {
                return understood(on, self.decode(reply));
            }
            // Two servers that name each other do so without end.
            net::check(timeout).map_err(|error| error.of(on.name()))?;
        }
    }

    /// An error that names the key with the wrong type, if it is still there.
    fn explain_wrong_type(&self, on: &mut impl Routing, timeout: &Timeout) -> Result<()> {
        for key in &self.keys {
            for (name, expected) in KeyNames::of(key).types() {
                let found = text(Some(&on.execute(self.target(), redis::cmd("TYPE").arg(name), timeout)?));
                if ![expected, "none", ""].contains(&found.as_str()) {
                    let (store, key) = (on.name().to_owned(), key.clone());
                    let found = format!("a {}{} under '{name}'", in_short(&found), keeper_of(&found));
                    return Err(StoreError::NotALock { store, key, found });
                }
            }
        }
        Ok(())
    }
}

/// The library that keeps its locks in a key of this type.
fn keeper_of(kind: &str) -> &'static str {
    match kind {
        "hash" => " (as Redisson's)",
        "zset" => " (as Symfony's)",
        _ => "",
    }
}

/// The meaning of a reply. One that makes no sense leaves the outcome unknown, and the connection is of no more use.
pub fn understood<T>(on: &mut impl Routing, meaning: Option<T>) -> Result<T> {
    meaning.ok_or_else(|| {
        on.reject_reply();
        let why = "its answer makes no sense; is it a Redis server?".to_owned();
        RequestError::Broken(why).of(on.name())
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::store::redis::reply::samples::{array, bulk};

    pub fn keys(names: &[&str]) -> Vec<Key> {
        names.iter().map(|name| name.parse().unwrap_or_else(|why| panic!("{why}"))).collect()
    }

    /// A holder.
    pub fn described(broken: &str) -> Value {
        array([bulk("{}"), bulk("5"), bulk("1"), Value::Int(900), bulk("1000"), bulk(broken)])
    }
}

#[test]
fn the_hash_is_that_of_redis() {
    const TEXT: &str = "return redis.call('TIME')";
    assert_eq!(&hash(TEXT.as_bytes()), redis::Script::new(TEXT).get_hash().as_bytes());
}

#[test]
fn a_script_is_sent_without_comments() {
    const TEXT: &str = "-- One.\n\nlocal a = 1 -- 2\n  -- Two.\n\n  return '--' .. a\n";
    const SHORTENED: ([u8; TEXT.len()], usize) = shortened(TEXT);
    assert_eq!(&SHORTENED.0[..SHORTENED.1], b"local a = 1 -- 2\nreturn '--' .. a\n");
}
