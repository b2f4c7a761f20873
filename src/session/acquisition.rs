//! Taking the lock, as `run` and `acquire` do it.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::unistd::geteuid;

use crate::cli::LockArgs;
use crate::error::Outcome;
use crate::error::{self, BUSY, Failed, UNREACHABLE, Usage, cannot};
use crate::job::Signals;
use crate::lock::{
    DurationText, Key, Lease, Metadata, Mode, NotAcquired, OwnerToken, Request, Store, StoreError, Timeout,
    Ttl, Wait, Wanted, acquire,
};
use crate::options::Context;
use crate::options::{Config, WaitSetting};
use crate::report::{WaitDisplay, busy, names};
use crate::user::USER;

/// A person may wait for the prompt.
const WITHDRAWAL: Duration = Duration::from_secs(1);

/// How locks are to be taken.
pub struct Acquisition {
    /// In the order in which everybody takes them; they differ in nothing but their keys.
    pub requests: Vec<Request>,
    pub token: OwnerToken,
    pub ttl: Ttl,
    /// As many replicas have to have the locks.
    pub replicas: u8,
    pub wait: Wait,
    /// Exit status when the lock is held by another.
    pub conflict_exit_code: u8,
    /// The part of the lease that must be left after the grant.
    pub reserve: Duration,
}

impl Acquisition {
    /// Locks that are `detached` have to outlive this process.
    pub fn new(
        args: &LockArgs,
        context: &Context,
        default_label: &str,
        detached: bool,
    ) -> anyhow::Result<Acquisition> {
        let config = &context.config;
        let ttl = config.ttl(args.ttl);
        let min_hold = args.min_hold.or(config.min_hold).map_or(Duration::ZERO, |text| text.0);
        let label = args.label.as_deref().or(config.label.as_deref()).unwrap_or(default_label);
        if min_hold >= ttl.validity() && !min_hold.is_zero() {
            // Not wrong: the keeper renews. But after a crash nothing holds the lock that long.
            context
                .messages
                .note(format_args!("--min-hold {} is longer than --ttl {ttl}", DurationText(min_hold)));
        }
        if let Some(advice) = context.server.advice() {
            context.messages.warning(advice);
        }
        let (replicas, mode) = (config.replicas(args.replicas), mode(args, config));
        context.server.capabilities().check(&Wanted { mode, ttl, replicas, detached })?;
        let (token, metadata) = (OwnerToken::random(), metadata(label));
        let request = |key| {
            let (token, metadata) = (token.clone(), metadata.clone());
            Request { key, mode, token, ttl, min_hold, metadata }
        };
        let requests = in_order(&args.keys)?.into_iter().map(request).collect();
        let wait = match (args.no_wait, args.wait, config.wait) {
            (true, ..) => Wait::No,
            (_, Some(None), _) | (_, None, Some(WaitSetting::Forever(true))) => Wait::Forever,
            (_, Some(Some(limit)), _) | (_, None, Some(WaitSetting::AtMost(limit))) => Wait::AtMost(limit.0),
            (_, None, None | Some(WaitSetting::Forever(false))) => Wait::No,
        };
        Ok(Acquisition {
            requests,
            token,
            ttl,
            replicas,
            wait,
            conflict_exit_code: BUSY,
            reserve: Duration::ZERO,
        })
    }

    /// Reserves the time that stopping the job takes, out of the lease.
    pub fn reserve(&mut self, kill_after: Duration) -> Result<(), Usage> {
        let ttl = self.ttl;
        if kill_after >= ttl.validity() {
            return Err(Usage::new(format!(
                "--kill-after {} leaves no time before the end of --ttl {ttl}; it must be shorter than the TTL, for example {}",
                DurationText(kill_after),
                DurationText(ttl.duration() / 4)
            )));
        }
        self.reserve = kill_after;
        Ok(())
    }

    /// What messages call the locks.
    pub fn names(&self) -> String {
        names(self.requests.iter().map(|request| &request.key))
    }

    /// Gives back what nobody used. A store that cannot be reached frees the locks when their leases end.
    pub fn withdraw(&self, store: &mut dyn Store) -> Result<(), StoreError> {
        store.cancel(&self.requests, &Timeout::of(WITHDRAWAL))
    }

    /// Gives back what nobody used because of this error, which says so if that cannot be done either.
    pub fn withdraw_after(&self, error: anyhow::Error, store: &mut dyn Store) -> anyhow::Error {
        match self.withdraw(store) {
            Ok(()) => error,
            Err(_) => {
                let why = format!("{error:#}; {}", self.may_stay());
                Failed { code: error::code(&error), why }.into()
            }
        }
    }

    fn may_stay(&self) -> String {
        format!("{} may stay locked for up to {}", self.names(), self.ttl)
    }

    /// Takes the locks, or says how to end. A signal ends the waiting, and so does `also` when it is readable.
    pub fn take(
        &self,
        store: &mut dyn Store,
        signals: &mut Signals,
        also: &[BorrowedFd],
        context: &Context,
    ) -> anyhow::Result<Result<Vec<Lease>, Outcome>> {
        let names = self.names();
        let any = signals.or(also).map_err(cannot("wait for several things at once"))?;
        let interrupt = any.as_fd();
        let mut display = WaitDisplay::new(context.messages);
        let taken =
            acquire(store, &self.requests, self.wait, context.attempt, self.reserve, interrupt, &mut display);
        let failed = |code, why| Err(Failed { code, why }.into());
        match taken {
            Ok(leases) => {
                for lease in &leases {
                    let key = &lease.request.key;
                    context.messages.note(format_args!("took '{key}', fencing token {}", lease.fence));
                }
                Ok(Ok(leases))
            }
            Err(NotAcquired::Interrupted) => Ok(Err(match signals.take() {
                Some(arrived) => Outcome::Signal(arrived.signal),
                None => Outcome::Exit(UNREACHABLE),
            })),
            Err(NotAcquired::Busy(_) | NotAcquired::TimedOut(..)) if context.messages.quiet => {
                Ok(Err(Outcome::Exit(self.conflict_exit_code)))
            }
            Err(NotAcquired::Busy(holder)) => {
                failed(self.conflict_exit_code, format!("{}. --wait to stand in line", busy(&holder)))
            }
            Err(NotAcquired::TimedOut(holder, waited)) => {
                let ahead = holder.ahead.filter(|ahead| *ahead > 0);
                let ahead = ahead.map_or(String::new(), |ahead| format!(", {ahead} ahead in line"));
                failed(
                    self.conflict_exit_code,
                    format!("waited {} in vain: {}{ahead}", DurationText(waited), busy(&holder)),
                )
            }
            Err(NotAcquired::TooSlow { took }) => failed(
                UNREACHABLE,
                format!(
                    "taking {names} took {}, which leaves too little of --ttl {}, and nothing was kept; use a longer TTL",
                    DurationText(took),
                    self.ttl
                ),
            ),
            Err(NotAcquired::Unresolved(error)) => {
                failed(UNREACHABLE, format!("{:#}; {}", context.explain(error), self.may_stay()))
            }
            Err(NotAcquired::Store(error)) => Err(context.explain(error)),
        }
    }
}

/// The environment of a command takes 128 KiB for one variable (execve(2)), and REDLOCK_OUTER has each key and more.
const MOST_KEYS: usize = 64;

/// Everybody takes the same locks in the same order, so that nobody waits for somebody who waits for him.
pub fn in_order(keys: &[Key]) -> Result<Vec<Key>, Usage> {
    let mut keys = keys.to_vec();
    keys.sort();
    if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Usage::new(format!("the key '{}' is given twice", pair[0])));
    }
    if keys.len() > MOST_KEYS {
        return Err(Usage::new(format!(
            "{} keys are too many; one command takes at most {MOST_KEYS}",
            keys.len()
        )));
    }
    Ok(keys)
}

fn mode(args: &LockArgs, config: &Config) -> Mode {
    match (args.permits, args.shared, config.permits) {
        (Some(permits), ..) | (None, false, Some(permits)) => Mode::Semaphore(permits),
        (None, true, _) => Mode::Shared,
        _ if config.shared.unwrap_or(false) => Mode::Shared,
        _ => Mode::Exclusive,
    }
}

fn metadata(label: &str) -> Metadata {
    let host = nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned();
    let user = USER.as_ref().map_or_else(|| geteuid().to_string(), |user| user.name.clone());
    Metadata::new(host, std::process::id(), user, label)
}
