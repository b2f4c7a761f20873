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
mod run;
mod status;

use clap::{ArgMatches, FromArgMatches};

use crate::cli::{Command, ConfigArgs, GlobalArgs};
use crate::error::{Failure, Outcome};
use crate::event::Event;
use crate::lock::Key;
use crate::options::{
    self, AcquireOptions, Config, GlobalOptions, Inputs, OwnerOptions, RunOptions, SectionQuery, Sources,
    command_line, settings_in_force,
};
use crate::report::Reporter;
use crate::session::{Context, eval_stop, report_failure};

/// Reads the command line, carries it out, and ends the process. Never returns, as destructors would only take time.
pub fn execute() -> ! {
    let mut reporter = Reporter::default();
    let (result, shell) = match command_line::parse() {
        Ok(matches) => (dispatch(&matches, &mut reporter), eval_stop::shell(&matches)),
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
fn dispatch(matches: &ArgMatches, reporter: &mut Reporter) -> anyhow::Result<Outcome> {
    let mut command = Command::from_arg_matches(matches)?;
    // Options of all subcommands stand behind the subcommand, too.
    let global = GlobalArgs::from_arg_matches(matches.subcommand().map_or(matches, |(_, options)| options))?;
    match &command {
        Command::Completions(args) => {
            return completions::completions(args, global, Sources::of(matches));
        }
        Command::Config(ConfigArgs { check: Some(file), .. }) => return config::check(file),
        _ => {}
    }
    let sources = Sources::of(matches);
    let files = load_files(&global, &mut command, sources)?;
    let global = GlobalOptions::resolve(global, &files, sources);
    if let Ok(global) = &global {
        *reporter = Reporter::new(global.report.clone());
    }
    if let Command::Config(_) = command {
        return config::config(&settings_in_force(&files)?, global.err());
    }
    let global = global?;
    let context = &Context::new(global, reporter.clone());
    if sources.is_flag("token") && !matches!(command, Command::Break(_)) {
        context.reporter.report(&Event::TokenShown);
    }
    let inputs = &Inputs { sources, files, global: &context.options };
    match command {
        Command::Run(args) => run::run(&RunOptions::resolve(args, inputs)?, context),
        Command::Acquire(args) => acquire::acquire(&AcquireOptions::resolve(args, inputs)?, context),
        Command::Renew(args) => {
            let ttl = options::ttl(args.ttl, &inputs.files);
            renew::renew(&OwnerOptions::resolve(args.owner)?, ttl, context)
        }
        Command::Check(args) => match args.ran_within {
            Some(within) => check::ran_within(&args.owner.keys, within.0, context),
            None => {
                let at_least = options::at_least(&args, &inputs.files);
                check::check(&OwnerOptions::resolve(args.owner)?, at_least, context)
            }
        },
        Command::Release(args) => release::release(&OwnerOptions::resolve(args.owner)?, context),
        Command::Status(args) => status::status(&args, inputs.files.key_prefix.as_deref(), context),
        Command::History(args) => history::history(&args, inputs.files.key_prefix.as_deref(), context),
        Command::Break(args) => r#break::break_lock(&args, context),
        Command::Doctor(args) => doctor::doctor(&args, &options::requirements(&args, inputs), context),
        Command::Config(_) | Command::Completions(_) => Ok(Outcome::SUCCESS),
    }
}

/// Reads the files, and puts the prefix that they name before the keys.
fn load_files(global: &GlobalArgs, command: &mut Command, sources: Sources) -> Result<Config, Failure> {
    let keys: Vec<Key> = command.keys_mut().into_iter().map(|key| key.clone()).collect();
    let query = SectionQuery {
        file: global.config.as_deref(),
        profile: global.profile.as_deref(),
        server: &global.server,
        keys: &keys,
    };
    let files = Config::load(&query, sources)?;
    if let Some(prefix) = &files.key_prefix {
        for key in command.keys_mut() {
            *key = key.with_prefix(prefix).map_err(Failure::usage)?;
        }
    }
    Ok(files)
}
