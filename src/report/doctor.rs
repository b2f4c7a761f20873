//! The findings of `doctor`, in lines and as JSON.

use clap::builder::styling::{AnsiColor, Style};
use serde_json::json;

use super::output::document;
use super::width::{pad, widest};
use crate::doctor::{Finding, Level, name};
use crate::sanitize::sanitize;

/// What `doctor` found, a line for each: `bad  redis://h:6379  eviction: …; change this`.
pub fn findings(findings: &[Finding], colour: bool) -> String {
    let level_width = findings.iter().map(|one| name(one.level).len()).max().unwrap_or(0);
    let server_width = widest(findings.iter().map(|one| &one.server[..]));
    let line = |Finding { server, check, level, finding, advice }: &Finding| {
        let style = if colour { style(*level) } else { Style::new() };
        let advice = advice.as_ref().map_or(String::new(), |advice| format!("; {advice}"));
        // A part of it came from the server.
        let text = sanitize(&format!("{}  {}: {finding}{advice}", pad(server, server_width), name(check)));
        format!("{style}{:level_width$}{style:#}  {text}\n", name(level))
    };
    findings.iter().map(line).collect()
}

fn style(level: Level) -> Style {
    match level {
        Level::Ok => AnsiColor::Green.on_default(),
        Level::Unknown => AnsiColor::Cyan.on_default(),
        Level::Warning => AnsiColor::Yellow.on_default(),
        Level::Bad => AnsiColor::Red.on_default().bold(),
    }
}

/// The same as JSON. The fields are documented in redlock-doctor(1) and stable.
pub fn findings_json(findings: &[Finding]) -> String {
    document(&json!(findings))
}
