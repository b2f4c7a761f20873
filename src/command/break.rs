//! `redlock break`: takes a lock away from its holder, on purpose and visibly.

use std::io::{self, BufRead, IsTerminal, Write};
use std::slice::from_ref;

use crate::cli::BreakArgs;
use crate::error::{Failure, NOT_HELD, Outcome};
use crate::event::Event;
use crate::lock::{Broken, Holder};
use crate::report::{self, break_question, holder, names, not_as_asked};
use crate::sanitize::sanitize;
use crate::session::{self, AskedAbout, Context};

pub fn break_lock(args: &BreakArgs, context: &Context) -> anyhow::Result<Outcome> {
    let key = &args.key;
    let not_held = |reason: String| Err(Failure::new(NOT_HELD, reason).into());
    let mut store = context.open_store();
    let status = store.status(from_ref(key), &context.timeout());
    let status = status.map_err(|error| context.explain(error))?;
    let held = status.first().map_or(&[][..], |lock| &lock.holders);
    let Some((now, others)) = held.split_first() else {
        return not_held(format!("nobody holds '{key}'"));
    };
    if !args.yes && !confirmed(&break_question(key, now, others, args.token.is_some()))? {
        return not_held(format!("did not break '{key}': the answer was not y"));
    }
    let asked = (!args.yes).then(|| AskedAbout::these(held));
    let is_change = |now: &Holder| asked.as_ref().is_some_and(|asked| asked.change(from_ref(now)).is_some());
    let (token, reason) = (args.token.as_ref(), args.reason.as_deref());
    // All of them, unless one is named by its token.
    let others = if token.is_some() { 0 } else { others.len() };
    let report = |holder: &Holder, is_freed| {
        context.reporter.report(&Event::Broken { key, holder, others, is_freed });
    };
    match session::break_lock(store.as_mut(), key, token, asked.as_ref(), reason, context)? {
        Broken::Told(holder) => report(&holder, false),
        Broken::Freed(holder) => report(&holder, true),
        Broken::Free => return not_held(format!("nobody holds '{key}' any more")),
        Broken::Other(now) if token.is_none() || is_change(&now) => {
            return not_held(not_as_asked(key, &now));
        }
        Broken::Other(now) => {
            return not_held(format!(
                "{}, which is held by {}",
                report::not_held(&names([key])),
                holder(&now)
            ));
        }
    }
    Ok(Outcome::SUCCESS)
}

fn confirmed(question: &str) -> Result<bool, Failure> {
    let unasked = |why: &str| Failure::usage(format!("break asks before it breaks, and {why}; add --yes"));
    if !io::stdin().is_terminal() {
        return Err(unasked("this is not a terminal, so redlock cannot ask"));
    }
    let mut stderr = io::stderr();
    let asked = stderr.write_all(sanitize(&format!("redlock: {question} [y/N] ")).as_bytes());
    asked.map_err(|error| unasked(&format!("cannot write to standard error: {error}")))?;
    let mut answer = String::new();
    let answered = io::stdin().lock().read_line(&mut answer);
    answered.map_err(|error| unasked(&format!("cannot read from the terminal: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
