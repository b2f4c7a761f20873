//! What people and programs read.

mod doctor;
pub mod github;
mod json;
mod phrases;
mod progress;
mod shell;
mod status;
mod stderr;

pub use doctor::{findings, findings_json};
pub use phrases::{busy, holder, lost_to, names};
pub use progress::WaitDisplay;
pub use shell::Shell;
pub use status::{json, table};
pub use stderr::{Messages, print};
