//! The way from a key to the server that has it, as scripts and `status` take it.

use redis::{Cmd, Pipeline, Value};

use super::keys::INDEX;
use crate::lock::{Key, Result, Timeout};
use crate::store::net::Endpoint;

#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// The primary that has this key.
    Key(&'a Key),
    Server(&'a Endpoint),
    /// A command about nothing.
    Any,
}

/// One server, or several that share the keys.
pub trait Routing {
    /// The name in messages.
    fn name(&self) -> &str;

    /// Sends a command and reads its reply, which may be an error.
    fn execute(&mut self, target: Target, command: &Cmd, timeout: &Timeout) -> Result<Value>;

    /// Sends a command behind the last one: on the same connection, or not at all.
    fn follow_up(&mut self, command: &Cmd, timeout: &Timeout) -> Result<Value>;

    /// Sends requests behind the last one, each of them before it reads the replies to the one before, and hands the last
    /// reply to each on. They only read: after an error they may be sent again.
    fn stream(
        &mut self,
        requests: &mut dyn Iterator<Item = Pipeline>,
        timeout: &Timeout,
        take: &mut dyn FnMut(Value),
    ) -> Result<()>;

    /// The last reply made no sense: its connection is not used again.
    fn reject_reply(&mut self);

    /// The last request was sent more than once, as there was no answer to it at first.
    fn has_repeated(&mut self) -> &mut bool;

    /// A reply of more bytes than this is an error.
    fn set_longest(&mut self, bytes: u64);

    /// The primary of this target, as far as that is known.
    fn known(&self, target: Target) -> Option<Endpoint>;

    /// All primaries, as they are now.
    fn primaries(&mut self, timeout: &Timeout) -> Result<Vec<Endpoint>>;

    /// The server that answered last is the primary of this target. One that hung may have been replaced, and not
    /// know it yet. Only what a primary did counts.
    fn verify_primary(&mut self, _target: Target, _timeout: &Timeout) -> Result<bool> {
        Ok(true)
    }

    /// Keys may be on different servers.
    fn is_cluster(&self) -> bool {
        false
    }

    /// The name of the index of the locks, empty where there is none: the servers of a cluster have no key in common.
    fn index(&self) -> &'static str {
        if self.is_cluster() { "" } else { INDEX }
    }
}
