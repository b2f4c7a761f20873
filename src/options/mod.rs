//! What the command line, the environment and the files say, checked before anything is contacted.

mod config;
mod given;

pub use self::config::{Config, ConfigError, WaitSetting};
use std::io::IsTerminal;
use std::time::Duration;

pub use self::given::Given;
use crate::cli::{Color, GlobalArgs};
use crate::doctor::{Check, Finding, Level, Requirements};
use crate::error::{Failed, UNREACHABLE, Usage};
use crate::job::forbid_core_dumps;
use crate::lock::{Store, StoreAdmin, StoreError, Timeout};
use crate::report::Messages;
use crate::store::{Credentials, OpenOptions, ServerUrl};

/// Of the default server not being there.
const WAYS_OUT: &str =
    "name your Redis with --server redis://HOST, or use --server local: for a lock on this host only";

/// What all commands share: the configuration, checked before anything is contacted.
pub struct Context {
    pub config: Config,
    pub messages: Messages,
    pub server: ServerUrl,
    /// Nobody named a server.
    default_server: bool,
    /// For each exchange with the store.
    pub attempt: Duration,
    login: Credentials,
    color: Color,
}

impl Context {
    pub fn new(global: GlobalArgs, given: Given) -> anyhow::Result<Context> {
        let config = Config::load(&global)?;
        let (server, default_server) = config.server(&global)?;
        let login = config.login(&global)?;
        if server.is_secret(&login) {
            forbid_core_dumps();
        }
        let attempt = config.connect_timeout(&global)?;
        let quiet = global.quiet || (config.quiet.unwrap_or(false) && !global.verbose);
        let messages =
            Messages { quiet, verbose: !quiet && (global.verbose || config.verbose.unwrap_or(false)) };
        let color = global.color.or(config.color).unwrap_or_default();
        refuse_what_cannot_be_meant(&server, given)?;
        Ok(Context { config, messages, server, default_server, attempt, login, color })
    }

    /// A store that takes no locks.
    pub fn open_store(&self) -> Box<dyn StoreAdmin> {
        self.server.clone().open(self.open_options(0, Vec::new()))
    }

    /// A store for locks that as many replicas have to have, and that these processes keep alive.
    pub fn open_store_of(&self, replicas: u8, holders: Vec<u32>) -> Box<dyn Store> {
        self.server.clone().open(self.open_options(replicas, holders))
    }

    /// How to open the store in a process that leaves this folder.
    pub fn store_anywhere(&self, replicas: u8) -> std::io::Result<(ServerUrl, OpenOptions)> {
        let credentials = self.login.clone().absolute()?;
        Ok((self.server.clone().absolute()?, OpenOptions { credentials, replicas, holders: Vec::new() }))
    }

    fn open_options(&self, replicas: u8, holders: Vec<u32>) -> OpenOptions {
        OpenOptions { credentials: self.login.clone(), replicas, holders }
    }

    /// Whether the store is fit to be used so.
    pub fn examine_store(&self, terms: &Requirements) -> Vec<Finding> {
        let mut findings = self.server.clone().examine(&self.login, terms);
        let is_missing =
            |finding: &&mut Finding| finding.check == Check::Reachable && finding.level == Level::Bad;
        if self.default_server {
            findings.iter_mut().filter(is_missing).for_each(|one| one.advice = Some(WAYS_OUT.to_owned()));
        }
        findings
    }

    /// The error, with both ways out when the default server is not there.
    pub fn explain(&self, error: StoreError) -> anyhow::Error {
        match error {
            StoreError::Unreachable { .. } if self.default_server => {
                Failed { code: UNREACHABLE, why: format!("{error}; {WAYS_OUT}") }.into()
            }
            other => other.into(),
        }
    }

    pub fn patience(&self) -> Timeout<'static> {
        Timeout::of(self.attempt)
    }

    /// Whether stdout is to be coloured. NO_COLOR: see no-color.org.
    pub fn colour(&self) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                std::io::stdout().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        }
    }
}

/// Options of the command line that are wrong for this server. What stands in the environment or in a file may be there
/// for other calls.
fn refuse_what_cannot_be_meant(server: &ServerUrl, given: Given) -> Result<(), Usage> {
    if given.has("server") && server.has_password() {
        let why = "a password in --server is seen by everyone who lists processes; use --password-file";
        return Err(Usage::new(why));
    }
    if let Some(address) = server.plain_server()
        && ["tls_ca", "tls_cert", "tls_key"].into_iter().any(|option| given.has(option))
    {
        let why = "for TLS its URL begins with rediss";
        return Err(Usage::new(format!(
            "--tls-ca, --tls-cert and --tls-key do nothing for {address}; {why}"
        )));
    }
    Ok(())
}
