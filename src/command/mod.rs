//! One file for each subcommand, which tells its story from top to bottom.

mod acquire;
mod r#break;
mod check;
mod completions;
mod config;
mod doctor;
mod history;
mod release;
mod renew;
mod resize;
mod run;
mod status;
mod wait;

use std::time::Duration;

use clap::FromArgMatches;

use crate::cli::{Command, ConfigArgs, GlobalArgs};
use crate::error::{Failure, Outcome};
use crate::event::Event;
use crate::lock::Key;
use crate::options::command_line;
use crate::options::variables;
use crate::options::{
    self, AcquireOptions, GlobalOptions, Inputs, OwnerOptions, PoolQuery, ReadLine, RunOptions, Sources,
    WaitOptions, settings_in_force, with_files,
};
use crate::report::Reporter;
use crate::session::{Context, eval_stop, report_failure};

/// Reads the command line, carries it out, and ends the process. Never returns, as destructors would only take time.
pub fn execute() -> ! {
    let mut reporter = Reporter::default();
    let (result, shell) = match command_line::parse() {
        Ok(line) => {
            let shell = eval_stop::shell(&line.matches);
            (dispatch(line, &mut reporter), shell)
        }
        Err(error) => (command_line::answer(error), eval_stop::shell_in_arguments()),
    };
    let outcome = result.unwrap_or_else(|error| report_failure(&error, &reporter));
    if let Some(shell) = shell {
        eval_stop::stop_unless_acquired(shell, outcome);
    }
    reporter.end(outcome);
    outcome.end()
}

/// Resolves the options of the subcommand and carries it out.
fn dispatch(line: ReadLine, reporter: &mut Reporter) -> anyhow::Result<Outcome> {
    let mut command = Command::from_arg_matches(&line.matches)?;
    match &command {
        Command::Completions(args) => return completions::completions(args, line),
        Command::Config(ConfigArgs { check: Some(file), .. }) => return config::check(file),
        _ => {}
    }
    let keys: Vec<Key> = command.keys_mut().into_iter().map(|key| key.clone()).collect();
    let pool = command
        .lock_mut()
        .and_then(|lock| Some(PoolQuery { name: lock.pool.as_deref()?, with: &lock.pool_with }));
    let (matches, files) = with_files(line, &keys, pool)?;
    command = Command::from_arg_matches(&matches)?;
    if let Some(lock) = command.lock_mut().filter(|lock| lock.pool.is_some()) {
        lock.choose_from(files.pool.iter().map(|member| member.key.clone()).collect());
    }
    let sources = Sources::of(&matches);
    if let Some(prefix) = files.key_prefix() {
        for key in command.keys_mut() {
            *key = key.with_prefix(prefix).map_err(Failure::usage)?;
        }
    }
    let global = GlobalArgs::of(&matches)?;
    let global = GlobalOptions::resolve(global, &files, sources);
    if let Ok(global) = &global {
        *reporter = Reporter::new(global.report.clone());
    }
    if let Command::Config(_) = command {
        return config::config(&settings_in_force(sources, &files), global.err());
    }
    let global = global?;
    let context = &Context::new(global, reporter.clone());
    for (name, near) in &variables::misspelt_variables() {
        context.reporter.report(&Event::UnknownVariable { name, near });
    }
    if sources.is_flag("token") && !matches!(command, Command::Break(_)) {
        context.reporter.report(&Event::TokenShown);
    }
    let inputs = &Inputs { sources, files, global: &context.options };
    match command {
        Command::Run(args) => run::run(&RunOptions::resolve(args, inputs)?, context),
        Command::Acquire(args) => acquire::acquire(&AcquireOptions::resolve(args, inputs)?, context),
        Command::Renew(args) => renew::renew(&OwnerOptions::resolve(args.owner, inputs)?, args.ttl, context),
        Command::Check(args) => match args.ran_within {
            Some(within) => check::ran_within(&args.owner.keys, within.0, context),
            None => {
                let at_least = args.at_least.map_or(Duration::ZERO, |text| text.0);
                check::check(&OwnerOptions::resolve(args.owner, inputs)?, at_least, context)
            }
        },
        Command::Release(args) => release::release(&OwnerOptions::resolve(args.owner, inputs)?, context),
        Command::Status(args) => status::status(&args, inputs.files.key_prefix(), context),
        Command::Wait(args) => wait::wait(&WaitOptions::resolve(&args)?, context),
        Command::History(args) => history::history(&args, inputs.files.key_prefix(), context),
        Command::Break(args) => r#break::break_lock(&args, context),
        Command::Resize(args) => resize::resize(&args, context),
        Command::Doctor(args) => doctor::doctor(&args, &options::requirements(&args, inputs), context),
        Command::Config(_) | Command::Completions(_) => Ok(Outcome::SUCCESS),
    }
}
