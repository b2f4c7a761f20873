//! What people and programs read.

mod findings;
mod json;
mod messages;
mod shell;
mod table;
mod waiting;
mod words;

pub use findings::{findings, findings_json};
pub use messages::{Messages, print};
pub use shell::Shell;
pub use table::{json, table};
pub use waiting::WaitDisplay;
pub use words::{busy, holder, lost_to, names};
