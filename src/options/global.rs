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
        let credentials = credentials(&args, &server)?;
        let verbosity = match (args.verbose, args.quiet) {
            (true, _) => Verbosity::Verbose,
            (false, true) => Verbosity::Quiet,
            (false, false) => Verbosity::Normal,
        };
        refuse_useless_flags(&server, files, sources)?;
        let report = ReportOptions {
            verbosity,
            color: args.color,
            log_format: args.log_format,
            log_file: args.log_file.map(absolute).transpose()?,
            syslog: args.syslog,
            metrics_file: args.metrics_file.map(absolute).transpose()?,
        };
        let connect_timeout = args.connect_timeout.0;
        Ok(GlobalOptions {
            server,
            is_default_server,
            credentials,
            connect_timeout,
            report,
            color: args.color,
        })
    }
}

/// The server, and whether it is the default one.
fn server(args: &GlobalArgs, files: &Config, sources: Sources) -> Result<(ServerUrl, bool), Failure> {
    let setting = files.setting("server");
    let named = setting.filter(|_| files.is_named_server).map(Setting::words);
    let values = named.as_ref().unwrap_or(&args.server);
    let refused = |why: &str| {
        let source = setting.map_or_else(|| sources.name("server", None), Setting::to_string);
        Failure::configuration(format!("{source}: {why}"))
    };
    if values.iter().any(|value| value.trim().is_empty()) {
        return Err(refused(EMPTY));
    }
    let urls = split_urls(values);
    let server = ServerUrl::parse(&urls).map_err(|why| refused(&why))?;
    Ok((server, setting.is_none() && !sources.is_set("server")))
}

/// User, passwords and TLS files. A variable of another program, as `REDISCLI_AUTH`, is the weakest source.
///
/// A store without a login leaves the password files closed: not everybody who uses `local:` may read those of a fleet.
fn credentials(args: &GlobalArgs, server: &ServerUrl) -> Result<Credentials, Failure> {
    let password_file = |file: &Option<PathBuf>| file.clone().filter(|_| server.takes_login());
    let password = match password_file(&args.password_file) {
        Some(path) => Some(Password::in_file(path)?),
        None => {
            let password = server.password_variable().and_then(|name| std::env::var(name).ok());
            password.filter(|password| !password.is_empty()).map(Password::Fixed)
        }
    };
    let sentinel_file = password_file(&args.sentinel_password_file);
    let credentials = Credentials {
        user: args.user.clone(),
        password,
        sentinel_password: sentinel_file.map(Password::in_file).transpose()?,
        tls_files: TlsFiles {
            ca: args.tls_ca.clone(),
            cert: args.tls_cert.clone(),
            key: args.tls_key.clone(),
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
        return Err(Failure::usage("a password in --server is seen by everyone who lists processes")
            .hint("use --password-file"));
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
