use std::io::{self, BufRead, IsTerminal, Write};

use crate::cli::BreakArgs;
use crate::error::Outcome;
use crate::error::{Failed, NOT_HELD, Usage};
use crate::lock::{Broken, DurationText};
use crate::options::Context;
use crate::report::holder;

/// Takes a lock away from its holder, on purpose and visibly.
pub fn break_lock(args: &BreakArgs, context: &Context) -> anyhow::Result<Outcome> {
    let key = &args.key;
    let mut store = context.open_store();
    let status = store
        .status(std::slice::from_ref(key), &context.patience())
        .map_err(|error| context.explain(error))?;
    let Some(now) = status.iter().flat_map(|lock| &lock.holders).next() else {
        return Err(Failed { code: NOT_HELD, why: format!("nobody holds '{key}'") }.into());
    };
    if !args.yes && !confirmed(&format!("'{key}' is held by {}. Break it?", holder(now)))? {
        return Ok(Outcome::Exit(NOT_HELD));
    }
    let broken = store
        .break_lock(key, args.token.as_ref(), &context.patience())
        .map_err(|error| context.explain(error))?;
    match broken {
        Broken::Told(held) => {
            let holder = holder(&held);
            let latest =
                held.left.map_or(String::new(), |left| format!(", in {} at the latest", DurationText(left)));
            context.messages.warning(format_args!(
                "broke '{key}', held by {holder}; it is free when that has let go of it{latest}"
            ));
        }
        Broken::Freed(held) => {
            context.messages.warning(format_args!("freed '{key}', which was held by {}", holder(&held)))
        }
        Broken::Free => {
            return Err(Failed { code: NOT_HELD, why: format!("nobody holds '{key}' any more") }.into());
        }
        Broken::Other(held) => {
            let why = format!("another token holds '{key}': {}", holder(&held));
            return Err(Failed { code: NOT_HELD, why }.into());
        }
    }
    Ok(Outcome::SUCCESS)
}

fn confirmed(question: &str) -> anyhow::Result<bool> {
    let unasked = |why: &str| Usage::new(format!("break asks before it breaks, and {why}; add --yes"));
    if !io::stdin().is_terminal() {
        return Err(unasked("there is no terminal to ask on").into());
    }
    let mut stderr = io::stderr();
    let asked = write!(stderr, "redlock: {question} [y/N] ").and_then(|()| stderr.flush());
    asked.map_err(|error| unasked(&format!("cannot write to standard error: {error}")))?;
    let mut answer = String::new();
    let answered = io::stdin().lock().read_line(&mut answer);
    answered.map_err(|error| unasked(&format!("cannot read from the terminal: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
