//! What the options of a subcommand are resolved with, beside its arguments.

use super::command_line::Sources;
use super::config_file::Config;
use super::global::GlobalOptions;

pub struct Inputs<'a> {
    pub sources: Sources<'a>,
    pub files: Config,
    pub global: &'a GlobalOptions,
}
