//! The sources of the options.

use super::config::Config;
use super::global::GlobalOptions;
use super::sources::Sources;

/// The inputs with which the options of a subcommand are resolved, beside its arguments.
pub struct Inputs<'a> {
    pub sources: Sources<'a>,
    pub files: Config,
    pub global: &'a GlobalOptions,
}
