//! Where the options come from.

use super::command_line::Sources;
use super::config::Config;
use super::global::GlobalOptions;

/// What the options of a subcommand are resolved with, beside its arguments.
pub struct Inputs<'a> {
    pub sources: Sources<'a>,
    pub files: Config,
    pub global: &'a GlobalOptions,
}
