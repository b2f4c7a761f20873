//! `redlock acquire`: acquires the locks and hands out their owner token.

use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::time::Duration;

use crate::cli::{Format, OnLost};
use crate::error::{BUSY, Failure, NOT_HELD, Outcome};
use crate::event::Event;
use crate::job::{Signals, stdout_was_closed};
use crate::options::AcquireOptions;
use crate::report::acquired::AcquiredLocks;
use crate::report::github::{self, Workflow};
use crate::report::{ShellSyntax, print_all};
use crate::secret;
use crate::session::while_pid::KeeperProcess;
use crate::session::{Acquisition, Context};

pub fn acquire(options: &AcquireOptions, context: &Context) -> anyhow::Result<Outcome> {
    let reserve = match (options.while_pid, options.on_lost) {
        (Some(_), OnLost::Terminate) => options.lock.ttl.default_kill_after(),
        _ => Duration::ZERO,
    };
    let mut acquisition = Acquisition::new(&options.lock, reserve, BUSY, context);
    let target = TokenDestination::new(options)?;
    let start =
        |pid| KeeperProcess::start(pid, options.on_lost, options.lock.replicas, &mut acquisition, context);
    let keeper = options.while_pid.map(start).transpose()?;
    let mut signals = Signals::listen().map_err(Failure::cannot("listen for signals"))?;
    if let TokenDestination::Workflow(_) = target {
        // Before anything is printed that may have the token in it.
        github::mask(&acquisition.token)?;
    }
    let holders = keeper.as_ref().map(KeeperProcess::holders).unwrap_or_default();
    let mut store = context.open_store_for(options.lock.replicas, holders);
    let aborts = keeper.iter().map(KeeperProcess::abort).collect();
    context
        .reporter
        .report(&Event::Requested { requests: &acquisition.requests, one_of: options.lock.one_of });
    let leases = acquisition.acquire(store.as_mut(), &mut signals, aborts, context)?;
    let kept = keeper.iter().try_for_each(|keeper| keeper.keep(&acquisition.requests, &leases));
    acquisition.keep_granted(&leases);
    let pool = options.lock.pool_variables(&leases);
    let locks = AcquiredLocks { token: &acquisition.token, ttl: acquisition.ttl, leases: &leases, pool };
    let handed_out = kept.and_then(|()| target.hand_out(&locks));
    store.settle();
    let interrupted = signals.take().map(|arrived| Failure::Signal(arrived.signal).into());
    let Some(error) = handed_out.err().or(interrupted) else {
        keeper.iter().for_each(KeeperProcess::go_on);
        if keeper.is_none() && stderr().is_terminal() {
            context.reporter.report(&Event::HeldByHand { keys: &acquisition.keys(), ttl: acquisition.ttl });
        }
        return Ok(Outcome::SUCCESS);
    };
    drop(keeper);
    // Nobody has the token, so nobody else could release the locks.
    Err(match acquisition.withdraw(store.as_mut()) {
        Ok(()) => Failure::with_more(error, &format!("released {}", acquisition.names())),
        Err(why) => acquisition.may_stay_after(error, &why, &context.reporter),
    })
}

enum TokenDestination<'a> {
    File(&'a Path),
    /// The text of this function.
    Stdout(fn(&AcquiredLocks) -> String),
    Workflow(Workflow),
}

impl TokenDestination<'_> {
    /// Refuses what cannot work before the lock is acquired for nothing.
    fn new(options: &AcquireOptions) -> Result<TokenDestination<'_>, Failure> {
        if let Some(path) = &options.token_file {
            secret::refuse_bad_target(path)?;
            return Ok(TokenDestination::File(path));
        }
        if stdout_was_closed() {
            let reason = "standard output is closed, so nobody would get the owner token; use --token-file";
            return Err(Failure::usage(reason));
        }
        Ok(match options.format {
            Format::Token => TokenDestination::Stdout(|locks| locks.token_line()),
            Format::Env => TokenDestination::Stdout(|locks| locks.exports(ShellSyntax::Posix)),
            Format::Fish => TokenDestination::Stdout(|locks| locks.exports(ShellSyntax::Fish)),
            Format::Json => TokenDestination::Stdout(|locks| locks.json()),
            Format::Github => TokenDestination::Workflow(Workflow::from_environment()?),
        })
    }

    fn hand_out(&self, locks: &AcquiredLocks) -> anyhow::Result<()> {
        match self {
            TokenDestination::File(path) => Ok(secret::write_token(path, locks.token)?),
            TokenDestination::Stdout(text) => print_all(text(locks).as_bytes()).map_err(|error| {
                Failure::new(NOT_HELD, format!("cannot print the owner token: {error}")).into()
            }),
            TokenDestination::Workflow(workflow) => Ok(workflow.write(locks)?),
        }
    }
}
