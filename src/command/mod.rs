//! One file for each subcommand, which tells its story from top to bottom.

mod acquire;
mod r#break;
mod check;
mod completions;
mod doctor;
mod release;
mod renew;
mod run;
mod status;

use clap::{ArgMatches, FromArgMatches};

use crate::cli::{Cli, Command};
use crate::error::Outcome;
use crate::options::{
    self, AcquireOptions, Config, GlobalOptions, Inputs, OwnerOptions, RunOptions, Sources, command_line,
};
use crate::report::Reporter;
use crate::session::{Context, eval_guard, report_failure};

/// Reads the command line, carries it out, and ends the process. Never returns, as destructors would only take time.
pub fn execute() -> ! {
    let mut reporter = Reporter::default();
    let (result, shell) = match command_line::parse() {
        Ok(matches) => (dispatch(&matches, &mut reporter), eval_guard::shell(&matches)),
        Err(error) => (command_line::answer(error), eval_guard::shell_in_arguments()),
    };
    let outcome = result.unwrap_or_else(|error| report_failure(&error, &reporter));
    if let Some(shell) = shell {
        eval_guard::stop_unless_acquired(shell, outcome);
    }
    reporter.end(outcome);
    outcome.end()
}

/// Resolves the options of the subcommand and carries it out.
fn dispatch(matches: &ArgMatches, reporter: &mut Reporter) -> anyhow::Result<Outcome> {
    let Cli { global, command } = Cli::from_arg_matches(matches)?;
    if let Command::Completions(args) = command {
        return completions::completions(args.shell);
    }
    let sources = Sources::of(matches);
    let files = Config::load(global.config.as_deref(), sources)?;
    let global = GlobalOptions::resolve(global, &files, sources)?;
    *reporter = Reporter::new(global.report.clone());
    let context = &Context::new(global, reporter.clone());
    let inputs = &Inputs { sources, files, global: &context.options };
    match command {
        Command::Run(args) => run::run(&RunOptions::resolve(args, inputs)?, context),
        Command::Acquire(args) => acquire::acquire(&AcquireOptions::resolve(args, inputs)?, context),
        Command::Renew(args) => {
            let ttl = options::ttl(args.ttl, &inputs.files);
            renew::renew(&OwnerOptions::resolve(args.owner)?, ttl, context)
        }
        Command::Check(args) => {
            let at_least = options::at_least(&args, &inputs.files);
            check::check(&OwnerOptions::resolve(args.owner)?, at_least, context)
        }
        Command::Release(args) => release::release(&OwnerOptions::resolve(args.owner)?, context),
        Command::Status(args) => status::status(&args, context),
        Command::Break(args) => r#break::break_lock(&args, context),
        Command::Doctor(args) => doctor::doctor(args.json, &options::requirements(&args, inputs), context),
        Command::Completions(_) => Ok(Outcome::SUCCESS),
    }
}
