//! The options of every subcommand: which server, how to log in, and what is shown.

use std::path::{self, PathBuf};
use std::time::Duration;

use super::config::{Config, Setting};
use super::server_urls::{EMPTY, split_urls};
use super::sources::Sources;
use crate::cli::{Color, GlobalArgs};
use crate::error::Failure;
use crate::report::{ReportOptions, Verbosity};
use crate::store::{Credentials, Password, Roots, ServerUrl, TlsFiles};

const DEFAULT_SERVER: &str = "redis://127.0.0.1:6379";
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct GlobalOptions {
    pub server: ServerUrl,
    /// No server was named.
    pub is_default_server: bool,
    pub credentials: Credentials,
    /// For one exchange with the store.
    pub connect_timeout: Duration,
    pub report: ReportOptions,
    pub color: Color,
}

impl GlobalOptions {
    pub fn resolve(args: GlobalArgs, files: &Config, sources: Sources) -> Result<GlobalOptions, Failure> {
        let (server, is_default_server) = server(&args, files, sources)?;
        let credentials = credentials(&args, files, &server)?;
        let connect_timeout =
            args.connect_timeout.or(files.connect_timeout).map_or(DEFAULT_CONNECT_TIMEOUT, |text| text.0);
        let quiet = sources.switch("quiet", args.quiet).or(files.quiet) == Some(true);
        let verbose = sources.switch("verbose", args.verbose);
        let verbosity = match verbose.or(files.verbose) {
            Some(true) if !quiet || verbose == Some(true) => Verbosity::Verbose,
            _ if quiet => Verbosity::Quiet,
            _ => Verbosity::Normal,
        };
        let color = args.color.or(files.color).unwrap_or_default();
        refuse_useless_flags(&server, files, sources)?;
        let path = |flag: Option<PathBuf>, file: &Option<PathBuf>| {
            flag.or_else(|| file.clone()).map(absolute).transpose()
        };
        let report = ReportOptions {
            verbosity,
            color,
            log_format: args.log_format.or(files.log_format).unwrap_or_default(),
            log_file: path(args.log_file, &files.log_file)?,
            syslog: sources.switch("syslog", args.syslog).or(files.syslog) == Some(true),
            metrics_file: path(args.metrics_file, &files.metrics_file)?,
        };
        Ok(GlobalOptions { server, is_default_server, credentials, connect_timeout, report, color })
    }
}

/// The server, and whether it is the default one.
fn server(args: &GlobalArgs, files: &Config, sources: Sources) -> Result<(ServerUrl, bool), Failure> {
    let is_of_file = args.server.is_empty() || files.is_named_server;
    let values = if is_of_file { &files.server } else { &args.server };
    let refused = |why: &str| {
        let setting = files.setting("server").filter(|_| is_of_file);
        let source = setting.map_or_else(|| sources.name("server", None), Setting::to_string);
        Failure::configuration(format!("{source}: {why}"))
    };
    if values.iter().any(|value| value.trim().is_empty()) {
        return Err(refused(EMPTY));
    }
    let mut urls = split_urls(values);
    let is_default = urls.is_empty();
    if is_default {
        urls.push(DEFAULT_SERVER);
    }
    let server = ServerUrl::parse(&urls).map_err(|why| refused(&why))?;
    Ok((server, is_default))
}

/// User, passwords and TLS files. `REDISCLI_AUTH` is the weakest source, as it is meant for another program.
///
/// A store without a login leaves the password files closed: not everybody who uses `local:` may read those of a fleet.
fn credentials(args: &GlobalArgs, files: &Config, server: &ServerUrl) -> Result<Credentials, Failure> {
    let or = |flag: &Option<PathBuf>, file: &Option<PathBuf>| flag.clone().or_else(|| file.clone());
    let password_file = |flag, file| or(flag, file).filter(|_| server.takes_login());
    let password = match password_file(&args.password_file, &files.password_file) {
        Some(path) => Some(Password::in_file(path)?),
        None => {
            let password = std::env::var("REDISCLI_AUTH").ok().filter(|password| !password.is_empty());
            password.map(Password::Fixed)
        }
    };
    let sentinel_file = password_file(&args.sentinel_password_file, &files.sentinel_password_file);
    let credentials = Credentials {
        user: args.user.clone().or_else(|| files.user.clone()),
        password,
        sentinel_password: sentinel_file.map(Password::in_file).transpose()?,
        tls_files: TlsFiles {
            ca: or(&args.tls_ca, &files.tls_ca),
            cert: or(&args.tls_cert, &files.tls_cert),
            key: or(&args.tls_key, &files.tls_key),
            roots: Roots::named(),
        },
    };
    credentials.absolute().map_err(Failure::cannot("find out the current folder"))
}

pub fn absolute(path: PathBuf) -> Result<PathBuf, Failure> {
    path::absolute(path).map_err(Failure::cannot("find out the current folder"))
}

/// Refuses flags that are wrong for this server. Variables and files may be meant for other calls.
fn refuse_useless_flags(server: &ServerUrl, files: &Config, sources: Sources) -> Result<(), Failure> {
    if sources.is_flag("server") && !files.is_named_server && server.has_password() {
        return Err(Failure::usage(
            "a password in --server is seen by everyone who lists processes; use --password-file",
        ));
    }
    if let Some(address) = server.plain_server()
        && ["tls_ca", "tls_cert", "tls_key"].into_iter().any(|option| sources.is_flag(option))
    {
        return Err(Failure::usage(format!(
            "--tls-ca, --tls-cert and --tls-key do nothing for {address}; for TLS its URL begins with {}",
            match address.split_once(':') {
                Some(("etcd", _)) => "etcds",
                Some(("zk", _)) => "zks",
                _ => "rediss",
            }
        )));
    }
    Ok(())
}
