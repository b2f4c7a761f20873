//! The findings of `doctor`: on a terminal, in lines, and as JSON.

use clap::builder::styling::{AnsiColor, Style};
use serde_json::json;

use super::details::wrapped;
use super::output::document;
use super::width::{pad, widest};
use crate::doctor::{Finding, Level, name};
use crate::sanitize::sanitize;

/// For a terminal: each server as a heading, the details of what is not ok, and a verdict. `shows_all` adds the other details.
pub fn report(findings: &[Finding], colour: bool, columns: usize, shows_all: bool) -> String {
    let mut text = String::new();
    let bold = if colour { Style::new().bold() } else { Style::new() };
    for of_server in findings.chunk_by(|one, next| one.server == next.server) {
        text += &format!("{bold}{}{bold:#}\n", sanitize(&of_server[0].server));
        let is_brief = |one: &&Finding| one.level == Level::Ok && !shows_all;
        let (brief, detailed): (Vec<_>, Vec<_>) = of_server.iter().partition(is_brief);
        if !brief.is_empty() {
            let names: Vec<String> = brief.iter().map(|one| name(one.check)).collect();
            text += &entry(Level::Ok, &names.join(", "), colour, columns);
        }
        for one in detailed {
            text += &entry(one.level, &sentence(one), colour, columns);
        }
    }
    let more = if shows_all { "" } else { "; -v shows the rest" };
    text + &verdict(findings, colour) + more + "\n"
}

/// A level, and behind it a text in lines of their own.
fn entry(level: Level, text: &str, colour: bool, columns: usize) -> String {
    let indent = LEVEL_WIDTH + 4;
    let style = if colour { style(level) } else { Style::new() };
    let lines = wrapped(&sanitize(text), columns.saturating_sub(indent)).join(&format!("\n{:indent$}", ""));
    format!("  {style}{:LEVEL_WIDTH$}{style:#}  {lines}\n", name(level))
}

/// `fit to hold locks: 12 ok, 1 warning`.
fn verdict(findings: &[Finding], colour: bool) -> String {
    let worst = findings.iter().map(|one| one.level).max_by_key(|level| *level as u8).unwrap_or(Level::Ok);
    let verdict = if worst == Level::Bad { "not fit to hold locks" } else { "fit to hold locks" };
    let count = |level: Level| {
        let count = findings.iter().filter(|one| one.level == level).count();
        let plural = if level == Level::Warning && count > 1 { "s" } else { "" };
        (count > 0).then(|| format!("{count} {}{plural}", name(level)))
    };
    let levels = [Level::Bad, Level::Warning, Level::Unknown, Level::Ok];
    let counts: Vec<String> = levels.into_iter().filter_map(count).collect();
    let style = if colour { style(worst).bold() } else { Style::new() };
    format!("{style}{verdict}{style:#}: {}", counts.join(", "))
}

fn sentence(Finding { check, finding, advice, .. }: &Finding) -> String {
    let advice = advice.as_ref().map_or(String::new(), |advice| format!("; {advice}"));
    format!("{}: {finding}{advice}", name(check))
}

/// The longest name of a level.
const LEVEL_WIDTH: usize = "warning".len();

/// The findings of `doctor`, a line for each: `bad  redis://h:6379  eviction: …; change this`.
pub fn findings(findings: &[Finding], colour: bool) -> String {
    let level_width = findings.iter().map(|one| name(one.level).len()).max().unwrap_or(0);
    let server_width = widest(findings.iter().map(|one| &one.server[..]));
    let line = |one: &Finding| {
        let style = if colour { style(one.level) } else { Style::new() };
        // A part of it came from the server.
        let text = sanitize(&format!("{}  {}", pad(&one.server, server_width), sentence(one)));
        format!("{style}{:level_width$}{style:#}  {text}\n", name(one.level))
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

#[test]
fn a_screen_says_what_is_wrong_and_no_more() {
    use crate::doctor::{Check, Findings};
    let mut all = Vec::new();
    for server in ["redis://a:6379", "redis://b:6379"] {
        let mut report = Findings::about(server);
        [Check::Reachable, Check::Version, Check::Role]
            .into_iter()
            .for_each(|check| report.ok(check, "fine"));
        report.warning(Check::Persistence, "a restart frees \u{1b}locks ".repeat(5), "set appendonly yes");
        all.append(&mut report.findings);
    }
    let screen = report(&all, false, 60, false);
    let lines: Vec<&str> = screen.lines().collect();
    assert_eq!(lines[..2], ["redis://a:6379", "  ok       reachable, version, role"]);
    assert!(lines[2].starts_with("  warning  persistence: a restart"), "{screen}");
    assert!(lines[3].starts_with("           "), "{screen}");
    assert_eq!(lines.last(), Some(&"fit to hold locks: 2 warnings, 6 ok; -v shows the rest"));
    assert!(lines.iter().all(|line| line.len() <= 60) && !screen.contains('\u{1b}'), "{screen}");
    assert!(report(&all, false, 60, true).contains("  ok       reachable: fine"));
}
