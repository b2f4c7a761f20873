//! The options of every subcommand: the store, and the output.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};

use crate::lock::DurationText;

// Brackets in a help text are not links.
#[allow(rustdoc::broken_intra_doc_links)]
#[derive(Debug, Args)]
#[command(next_display_order = 500, next_help_heading = "Store")]
pub struct GlobalArgs {
    /// Use this store
    ///
    /// redis://[user[:password]@]host[:port][/db], rediss:// for TLS, redis+sentinel://, redis+cluster://,
    /// redis+unix://PATH[?db=N], etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port],
    /// zks:// for TLS, postgres://[user@]host[:port]/database, memcached://host[:port], or local:[PATH] for a lock on
    /// this host only, with one file per user unless a PATH is named; see STORES in redlock(1). Given
    /// more than once, it is a quorum of independent servers.
    #[arg(
        short = 'S',
        long,
        global = true,
        value_name = "URL",
        env = "REDLOCK_SERVER",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    pub server: Vec<String>,
    /// Print only errors; a busy lock is not an error
    #[arg(help_heading = "Output", short, long, global = true, env = "REDLOCK_QUIET", value_parser = switch, conflicts_with = "verbose", overrides_with = "quiet")]
    pub quiet: bool,
    /// Print each step
    #[arg(help_heading = "Output", short, long, global = true, env = "REDLOCK_VERBOSE", value_parser = switch, overrides_with = "verbose")]
    pub verbose: bool,
    /// Read this file instead of ~/.config/redlock/config.toml
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE", env = "REDLOCK_CONFIG")]
    pub config: Option<PathBuf>,
    /// Use the settings of [profiles.NAME] in configuration files
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME", env = "REDLOCK_PROFILE")]
    pub profile: Option<String>,
    /// Log in to the store as this user
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME", env = "REDLOCK_USER")]
    pub user: Option<String>,
    /// Log in with the password in the first line of this file
    ///
    /// Others must not be able to read it.
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE", env = "REDLOCK_PASSWORD_FILE")]
    pub password_file: Option<PathBuf>,
    /// Log in to the Sentinels with the first line of this file
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "FILE",
        env = "REDLOCK_SENTINEL_PASSWORD_FILE"
    )]
    pub sentinel_password_file: Option<PathBuf>,
    /// Trust certificates signed by these (PEM), not the system's
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE", env = "REDLOCK_TLS_CA")]
    pub tls_ca: Option<PathBuf>,
    /// Show this client certificate (PEM) to a server that asks
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE", env = "REDLOCK_TLS_CERT")]
    pub tls_cert: Option<PathBuf>,
    /// Use this private key (PEM) for --tls-cert
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE", env = "REDLOCK_TLS_KEY")]
    pub tls_key: Option<PathBuf>,
    /// Wait at most this long for an answer from the store
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "DURATION",
        env = "REDLOCK_CONNECT_TIMEOUT",
        default_value = "5s",
        value_parser = connect_timeout
    )]
    pub connect_timeout: DurationText,
    /// Color the output
    #[arg(
        help_heading = "Output",
        long,
        global = true,
        hide_short_help = true,
        value_name = "WHEN",
        env = "REDLOCK_COLOR",
        default_value = "auto"
    )]
    pub color: Color,
    /// Write messages as text, or events as JSON
    ///
    /// With json each event is a line of JSON. Every event is written, -v or not; redlock-events(7) has the names and the fields.
    #[arg(
        help_heading = "Output",
        long,
        global = true,
        hide_short_help = true,
        value_name = "FORMAT",
        env = "REDLOCK_LOG_FORMAT",
        default_value = "text"
    )]
    pub log_format: LogFormat,
    /// Add each event to this file as a line of JSON
    #[arg(help_heading = "Output", long, global = true, hide_short_help = true, value_name = "FILE", env = "REDLOCK_LOG_FILE", value_parser = PathBufValueParser::new().try_map(log_file))]
    pub log_file: Option<PathBuf>,
    /// Send each event to the log of this host: journald or syslog
    #[arg(help_heading = "Output", long, global = true, hide_short_help = true, env = "REDLOCK_SYSLOG", value_parser = switch, overrides_with = "syslog")]
    pub syslog: bool,
    /// Add the outcome to the Prometheus metrics in this file
    ///
    /// For the textfile collector of node_exporter: its name ends with .prom. All runs of one user on this host may share it.
    #[arg(
        help_heading = "Output",
        long,
        global = true,
        hide_short_help = true,
        value_name = "FILE",
        env = "REDLOCK_METRICS_FILE",
        value_parser = PathBufValueParser::new().try_map(metrics_file)
    )]
    pub metrics_file: Option<PathBuf>,
}

impl GlobalArgs {
    /// The options of every subcommand, which may follow the subcommand.
    pub fn of(matches: &ArgMatches) -> Result<GlobalArgs, clap::Error> {
        GlobalArgs::from_arg_matches(matches.subcommand().map_or(matches, |(_, options)| options))
    }
}

/// The form of events on stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// When the output has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// They lead elsewhere once the command runs.
const STREAMS: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self"];

fn log_file(path: PathBuf) -> Result<PathBuf, String> {
    match STREAMS.iter().any(|stream| path.starts_with(stream)) {
        true => Err("it takes a file; for lines on standard error use --log-format json".to_owned()),
        false => Ok(path),
    }
}

fn metrics_file(path: PathBuf) -> Result<PathBuf, String> {
    match path.extension().is_some_and(|end| end == "prom") {
        true => Ok(path),
        false => Err("its name ends with .prom: node_exporter reads no other file".to_owned()),
    }
}

fn connect_timeout(text: &str) -> Result<DurationText, String> {
    match text.parse::<DurationText>()? {
        none if none.0.is_zero() => Err("it leaves no time to connect; try 5s".to_owned()),
        timeout => Ok(timeout),
    }
}

/// The variable, or the line in a file, of a switch.
pub fn switch(text: &str) -> Result<bool, String> {
    match &*text.to_lowercase() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("it takes true or false".to_owned()),
    }
}
