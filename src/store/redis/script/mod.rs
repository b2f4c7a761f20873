//! The Lua scripts: each is one atomic step in the server.
//!
//! Each operation has a file with its arguments, its call and the decoding of its reply; its Lua is in `lua/`.

mod acquire;
mod break_lock;
mod call;
mod check;
mod handover;
mod holder;
mod raise;
mod release;
mod renew;
mod resize;
mod status;

pub use self::acquire::{AcquireReply, BusyReply, MakeCall, OneReply, Queueing, acquire, acquire_one};
pub use self::break_lock::break_lock;
pub use self::call::{ScriptCall, understood};
pub use self::check::check;
pub use self::handover::confirm_handover;
pub use self::raise::raise;
pub use self::release::{ReleaseCall, ReleaseReply, cancel, release};
pub use self::renew::renew;
pub use self::resize::resize;
pub use self::status::{read_simple_status, simple_status, status};

/// Reads a reply as that to each script.
#[cfg(any(test, fuzzing))]
pub fn read_reply(reply: &redis::Value, keys: &[crate::lock::Key]) {
    let _ = (acquire::decode(reply.clone(), keys), acquire::decode_one(reply.clone(), keys));
    let _ = (break_lock::decode(reply.clone(), keys), check::decode(reply.clone(), keys));
    let _ = (release::decode(reply.clone(), keys), renew::decode(reply.clone(), keys));
    let _ = (
        resize::decode(reply.clone(), keys),
        status::decode(reply.clone(), keys),
        read_simple_status(reply, keys),
    );
}
