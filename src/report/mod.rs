//! What people and programs read.

pub mod acquired;
mod config;
mod details;
mod doctor;
pub mod github;
mod history;
mod human;
mod json;
mod lock_metrics;
mod metrics;
mod output;
mod phrases;
mod progress;
mod prometheus;
mod record;
mod renderer;
mod reporter;
mod shell;
mod status;
mod syslog;
mod verbosity;
mod width;

pub use config::{SettingInForce, settings};
pub use details::{details, is_late, wrapped};
pub use doctor::{findings, findings_json};
pub use history::{histories, histories_json, latest_runs, result};
pub use human::text;
pub use lock_metrics::lock_metrics;
pub use output::{print, print_all};
pub use phrases::{age, break_question, clock, holder, loss, names, not_as_asked, not_held, one_of, process};
pub use renderer::Renderer;
pub use reporter::{ReportOptions, Reporter};
pub use shell::ShellSyntax;
pub use status::{Row, headings, json, rows_of, table, time_left};
pub use verbosity::Verbosity;
pub use width::{aligned, columns, cut, size};
