//! Where the options come from.

use super::config::Config;
use super::global::GlobalOptions;
use super::sources::Sources;

/// What the options of a subcommand are resolved with, beside its arguments.
pub struct Inputs<'a> {
    pub sources: Sources<'a>,
    pub files: Config,
    pub global: &'a GlobalOptions,
}
