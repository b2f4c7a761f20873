use clap::ArgMatches;
use clap::parser::ValueSource;

/// Which options the command line itself gives. For clap a value in the environment is as good as one.
#[derive(Clone, Copy)]
pub struct Given<'a>(Option<&'a ArgMatches>);

impl Given<'_> {
    pub fn in_matches(matches: &ArgMatches) -> Given<'_> {
        Given(matches.subcommand().map(|(_, matches)| matches))
    }

    pub fn has(self, option: &str) -> bool {
        self.0.is_some_and(|matches| matches.value_source(option) == Some(ValueSource::CommandLine))
    }
}
