use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use super::Outcome;
use super::context::Context;
use super::failure::{Failed, NOT_HELD, Usage};
use super::github::Workflow;
use super::keeping::Attendant;
use super::owner;
use super::taking::Taking;
use crate::cli::{AcquireArgs, Format};
use crate::lock::{Lease, Patience};
use crate::process::{Signals, stdout_was_closed};

/// Takes the lock and hands out its owner token.
pub fn acquire(args: AcquireArgs, context: &Context) -> anyhow::Result<Outcome> {
    let name = args
        .while_pid
        .map_or("redlock acquire".to_owned(), |pid| format!("redlock acquire --while-pid {pid}"));
    let mut taking = Taking::new(&args.lock, context, &name)?;
    let target = Target::new(&args)?;
    let keeper = match args.while_pid {
        Some(pid) => Some(Attendant::start(pid, &args, &mut taking, context)?),
        None => None,
    };
    let mut signals = Signals::listen()?;
    let mut store = context.open_store();
    let lease = match taking.take(store.as_mut(), &mut signals, keeper.as_ref().map(AsFd::as_fd), context)? {
        Ok(lease) => lease,
        Err(outcome) => {
            keeper.iter().try_for_each(Attendant::check)?;
            return Ok(outcome);
        }
    };
    let kept = keeper.iter().try_for_each(|keeper| keeper.keep(&lease));
    let handed_out = kept.and_then(|()| target.hand_out(&lease));
    store.settle(&lease.request);
    let interrupted = signals.next();
    if handed_out.is_ok() && interrupted.is_none() {
        keeper.iter().for_each(Attendant::go_on);
        return Ok(Outcome::SUCCESS);
    }
    drop(keeper);
    // Nobody knows the token, so nobody could give the lock back.
    let _ = store.withdraw(&lease.request, &Patience::of(Duration::from_secs(1)));
    handed_out?;
    Ok(interrupted.map_or(Outcome::SUCCESS, |arrived| Outcome::Signal(arrived.signal)))
}

/// Where the owner token goes.
enum Target<'a> {
    File(&'a Path),
    Stdout(Format),
    Workflow(Workflow),
}

impl Target<'_> {
    /// Refuses what cannot work, before the lock is taken for nothing.
    fn new(args: &AcquireArgs) -> anyhow::Result<Target<'_>> {
        if let Some(path) = &args.token_file {
            owner::refuse_bad_target(path)?;
            return Ok(Target::File(path));
        }
        if stdout_was_closed() {
            let why = "standard output is closed, so nobody would get the owner token; use --token-file";
            return Err(Usage::new(why).into());
        }
        Ok(match args.format {
            Format::Github => Target::Workflow(Workflow::of_environment()?),
            format => Target::Stdout(format),
        })
    }

    fn hand_out(&self, lease: &Lease) -> anyhow::Result<()> {
        match self {
            Target::File(path) => write_file(path, lease),
            Target::Stdout(format) => print(*format, lease),
            Target::Workflow(workflow) => workflow.tell(lease),
        }
    }
}

fn print(format: Format, lease: &Lease) -> anyhow::Result<()> {
    let (key, token, fence) = (lease.request.key.as_str(), lease.request.token.expose(), lease.fence);
    let text = match format {
        Format::Token | Format::Github => format!("{token}\n"),
        Format::Env => {
            format!("export REDLOCK_KEY={} REDLOCK_TOKEN={token} REDLOCK_FENCE={fence}\n", quoted(key))
        }
        Format::Json => {
            let ttl = lease.request.ttl.as_millis();
            json!({ "key": key, "token": token, "fence": fence.0, "ttl_ms": ttl }).to_string() + "\n"
        }
    };
    let mut stdout = io::stdout();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| {
        Failed {
            code: NOT_HELD,
            why: format!("cannot print the owner token: {error}; '{key}' was given back"),
        }
        .into()
    })
}

fn write_file(path: &Path, lease: &Lease) -> anyhow::Result<()> {
    let key = &lease.request.key;
    owner::write(path, &lease.request.token).with_context(|| format!("'{key}' was given back"))
}

/// In single quotes, for a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
