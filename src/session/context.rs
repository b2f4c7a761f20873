//! The store and the reporter, with which every subcommand works.

use std::io::IsTerminal;

use crate::doctor::{Check, Finding, Level, Requirements};
use crate::error::{Failure, Outcome};
use crate::event::Event;
use crate::job::forbid_core_dumps;
use crate::lock::{StoreAdmin, StoreError, Timeout};
use crate::options::GlobalOptions;
use crate::report::{Reporter, is_coloured};
use crate::store::OpenOptions;

/// The advice for a default server that does not answer.
const WAYS_OUT: &str =
    "name your Redis with --server redis://HOST, or use --server local: for a lock on this host only";

#[derive(Clone)]
pub struct Context {
    pub options: GlobalOptions,
    pub reporter: Reporter,
}

impl Context {
    pub fn new(options: GlobalOptions, reporter: Reporter) -> Context {
        if options.server.is_secret(&options.credentials) {
            forbid_core_dumps();
        }
        Context { options, reporter }
    }

    /// A store for what acquires no locks.
    pub fn open_store(&self) -> Box<dyn StoreAdmin> {
        self.open_store_for(0, Vec::new())
    }

    /// Opens a store for locks that `replicas` replicas must have and that the processes `holders` keep alive.
    pub fn open_store_for(&self, replicas: u8, holders: Vec<u32>) -> Box<dyn StoreAdmin> {
        let credentials = self.options.credentials.clone();
        self.options.server.open(OpenOptions { credentials, replicas, holders })
    }

    pub fn examine_store(&self, requirements: &Requirements) -> Vec<Finding> {
        let mut findings = self.options.server.examine(&self.options.credentials, requirements);
        let is_missing =
            |finding: &&mut Finding| finding.check == Check::Reachable && finding.level == Level::Bad;
        if self.options.is_default_server {
            findings.iter_mut().filter(is_missing).for_each(|one| one.advice = Some(WAYS_OUT.to_owned()));
        }
        findings
    }

    /// The failure that an error of the store means, and what to do about a server that is not there.
    pub fn explain(&self, error: StoreError) -> Failure {
        let is_missing = matches!(error, StoreError::Unreachable { .. });
        // A reason may say itself what to do.
        let has_advice = error.to_string().contains("; ");
        let failure = Failure::from(error);
        match is_missing {
            true if self.options.is_default_server => failure.hint(WAYS_OUT),
            true if !has_advice => failure.hint("'redlock doctor' with the same server says more"),
            _ => failure,
        }
    }

    /// The timeout of one exchange with the store.
    pub fn timeout(&self) -> Timeout<'static> {
        Timeout::of(self.options.connect_timeout)
    }

    /// True if standard output is to be colored.
    pub fn colour(&self) -> bool {
        is_coloured(self.options.color, std::io::stdout().is_terminal())
    }
}

/// Reports why a subcommand failed, and says how redlock ends.
pub fn report_failure(error: &anyhow::Error, reporter: &Reporter) -> Outcome {
    let outcome = Failure::outcome(error);
    if let (true, Outcome::Exit(exit_status)) = (Failure::is_unreported(error), outcome) {
        let (reason, hint) = Failure::reason_and_hint(error);
        reporter.report(&Event::Failed { reason: &reason, hint, exit_status });
    }
    outcome
}
