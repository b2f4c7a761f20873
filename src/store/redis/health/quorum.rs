//! The servers of a quorum, compared.

use std::time::Duration;

use super::examination::Examined;
use crate::doctor::{Check, Finding, Findings, millis};

/// Clocks that are further apart are not kept together by NTP. The Redlock algorithm needs clocks of the same speed,
/// not of the same time; but a clock that is off is one that somebody will set.
const FAR_APART: Duration = Duration::from_millis(500);

/// Judges what only shows beside the others: their number, their clocks, and whether they are as many servers.
pub fn compare(members: &[Examined]) -> Vec<Finding> {
    let mut report = Findings::about(format!("quorum of {}", members.len()));
    number(members, &mut report);
    distinct(members, &mut report);
    clocks(members, &mut report);
    report.findings
}

fn number(members: &[Examined], report: &mut Findings) {
    let count = members.len();
    let (majority, spare) = (count / 2 + 1, count - (count / 2 + 1));
    if count.is_multiple_of(2) {
        let as_good = if spare == 0 { "one".to_owned() } else { (count - 1).to_string() };
        let finding = format!(
            "{count} servers survive the loss of {spare}, no better than {as_good}: the majority is {majority}"
        );
        report.warning(Check::Size, finding, format!("use {} servers", count + 1));
    } else {
        report.ok(Check::Size, format!("{count} servers survive the loss of {spare}"));
    }
    let reached = members.iter().filter(|member| member.is_reached).count();
    if reached < majority {
        let finding = format!("{reached} of {count} servers can be reached: no lock can be taken");
        report.bad(Check::Majority, finding, format!("bring back at least {}", majority - reached));
    }
}

fn distinct(members: &[Examined], report: &mut Findings) {
    let mut all_distinct = true;
    for (index, member) in members.iter().enumerate() {
        let same = |other: &&Examined| other.run_id.is_some() && other.run_id == member.run_id;
        if let Some(earlier) = members[..index].iter().find(same) {
            all_distinct = false;
            let (one, other) = (&earlier.report.server, &member.report.server);
            let finding = format!("{one} and {other} are the same server, whose vote counts twice");
            report.bad(Check::Distinct, finding, "name servers that are independent of one another");
        }
    }
    let unseen = members.iter().filter(|member| member.is_reached && member.run_id.is_none());
    let unseen: Vec<&str> = unseen.map(|member| member.report.server.as_str()).collect();
    if !unseen.is_empty() {
        let finding = format!("could not see the run_id (INFO) of {}", unseen.join(", "));
        report.unknown(Check::Distinct, finding, "make sure that no server is named twice");
    } else if all_distinct {
        report.ok(Check::Distinct, "the servers that were reached are different ones");
    }
}

fn clocks(members: &[Examined], report: &mut Findings) {
    let known = members.iter().filter_map(|member| Some((member.clock?, &member.report.server)));
    let mut known: Vec<_> = known.collect();
    known.sort_by_key(|(clock, _)| clock.ahead);
    let [(first, behind), .., (last, ahead)] = &known[..] else { return };
    let apart = Duration::from_micros(last.ahead.abs_diff(first.ahead));
    let finding = format!("the clock of {ahead} is {} ahead of that of {behind}", millis(apart));
    if apart.saturating_sub(first.error + last.error) > FAR_APART {
        let why = "when they are corrected, their leases end too early or too late";
        let advice = "keep the clocks with NTP (chrony), which slews them instead of setting them";
        report.warning(Check::Clocks, format!("{finding}: {why}"), advice);
    } else {
        report.ok(Check::Clocks, finding);
    }
}
