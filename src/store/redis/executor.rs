//! What runs commands: one server, or the topology that finds the server for them.

use redis::{Cmd, Value};

use super::net::Endpoint;
use crate::lock::{Key, Result, Timeout};

/// The server that a command is for.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// The primary that has this key.
    Key(&'a Key),
    Server(&'a Endpoint),
    /// A command about nothing.
    Any,
}

/// Runs commands on the server that they are for.
pub trait Executor {
    /// Sends a command and reads its reply, which may be an error.
    fn execute(&mut self, target: Target, command: &Cmd, timeout: &Timeout) -> Result<Value>;

    /// Sends a command behind the last one: on the same connection, or not at all.
    fn follow_up(&mut self, command: &Cmd, timeout: &Timeout) -> Result<Value>;

    /// The last reply made no sense: its connection is not used again.
    fn reject_reply(&mut self);

    /// What messages call it.
    fn name(&self) -> &str;
}
