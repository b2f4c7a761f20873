use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::cli::{AcquireArgs, Format};
use crate::error::Outcome;
use crate::error::{Failed, NOT_HELD, Usage, cannot};
use crate::job::{Signals, stdout_was_closed};
use crate::lock::{Lease, OwnerToken, Ttl};
use crate::options::Context;
use crate::options::Given;
use crate::report::Shell;
use crate::report::github::{self, Workflow};
use crate::session::Acquisition;
use crate::session::token_file;
use crate::session::while_pid::KeeperProcess;
use crate::session::{FENCE, KEY, TOKEN, lines};

/// Takes the locks and hands out their owner token.
pub fn acquire(args: AcquireArgs, given: Given, context: &Context) -> anyhow::Result<Outcome> {
    if args.while_pid.is_none() && given.has("on_lost") {
        return Err(Usage::new("--on-lost needs --while-pid: without it nobody looks after the lock").into());
    }
    let name = args
        .while_pid
        .map_or("redlock acquire".to_owned(), |pid| format!("redlock acquire --while-pid {pid}"));
    let mut taking = Acquisition::new(&args.lock, context, &name, args.while_pid.is_none())?;
    let target = Target::new(&args)?;
    let keeper = match args.while_pid {
        Some(pid) => Some(KeeperProcess::start(pid, &args, &mut taking, context)?),
        None => None,
    };
    let mut signals = Signals::listen().map_err(cannot("listen for signals"))?;
    target.announce(&taking.token)?;
    let holders = keeper.as_ref().map(KeeperProcess::holders).unwrap_or_default();
    let mut store = context.open_store_of(taking.replicas, holders);
    let also: Vec<_> = keeper.iter().map(AsFd::as_fd).collect();
    let leases = match taking.take(store.as_mut(), &mut signals, &also, context)? {
        Ok(leases) => leases,
        Err(outcome) => {
            keeper.iter().try_for_each(KeeperProcess::check)?;
            return Ok(outcome);
        }
    };
    let kept = keeper.iter().try_for_each(|keeper| keeper.keep(&leases));
    let handed_out = kept.and_then(|()| target.hand_out(&Locks::new(&taking, &leases)));
    store.on_idle();
    let interrupted = signals.take();
    if handed_out.is_ok() && interrupted.is_none() {
        keeper.iter().for_each(KeeperProcess::go_on);
        return Ok(Outcome::SUCCESS);
    }
    drop(keeper);
    // Nobody knows the token, so nobody could give the locks back.
    if let Err(error) = handed_out {
        return Err(taking.withdraw_after(error, store.as_mut()));
    }
    let _ = taking.withdraw(store.as_mut());
    Ok(interrupted.map_or(Outcome::SUCCESS, |arrived| Outcome::Signal(arrived.signal)))
}

/// What is handed out.
pub struct Locks<'a> {
    pub token: &'a OwnerToken,
    /// One for each line.
    pub keys: String,
    pub fences: String,
    /// What messages call the locks.
    pub names: String,
    ttl: Ttl,
    leases: &'a [Lease],
}

impl<'a> Locks<'a> {
    fn new(taking: &'a Acquisition, leases: &'a [Lease]) -> Locks<'a> {
        Locks {
            token: &taking.token,
            keys: lines(leases.iter().map(|lease| &lease.request.key)),
            fences: lines(leases.iter().map(|lease| lease.fence)),
            names: taking.names(),
            ttl: taking.ttl,
            leases,
        }
    }
}

/// Where the owner token goes.
enum Target<'a> {
    File(&'a Path),
    Stdout(Text),
    Workflow(Workflow),
}

/// What is printed.
#[derive(Clone, Copy)]
enum Text {
    Token,
    Exports(Shell),
    Json,
}

impl Target<'_> {
    /// Refuses what cannot work, before the lock is taken for nothing.
    fn new(args: &AcquireArgs) -> anyhow::Result<Target<'_>> {
        if let Some(path) = &args.token_file {
            token_file::refuse_bad_target(path)?;
            return Ok(Target::File(path));
        }
        if stdout_was_closed() {
            let why = "standard output is closed, so nobody would get the owner token; use --token-file";
            return Err(Usage::new(why).into());
        }
        Ok(match args.format {
            Format::Token => Target::Stdout(Text::Token),
            Format::Env => Target::Stdout(Text::Exports(Shell::Posix)),
            Format::Fish => Target::Stdout(Text::Exports(Shell::Fish)),
            Format::Json => Target::Stdout(Text::Json),
            Format::Github => Target::Workflow(Workflow::of_environment()?),
        })
    }

    /// Before anything is printed that may have the token in it.
    fn announce(&self, token: &OwnerToken) -> anyhow::Result<()> {
        match self {
            Target::Workflow(_) => github::mask(token),
            Target::File(_) | Target::Stdout(_) => Ok(()),
        }
    }

    fn hand_out(&self, locks: &Locks) -> anyhow::Result<()> {
        match self {
            Target::File(path) => {
                token_file::write(path, locks.token).with_context(|| format!("gave {} back", locks.names))
            }
            Target::Stdout(text) => print(*text, locks),
            Target::Workflow(workflow) => workflow.tell(locks),
        }
    }
}

fn print(text: Text, locks: &Locks) -> anyhow::Result<()> {
    let token = locks.token.expose();
    let text = match text {
        Text::Token => format!("{token}\n"),
        Text::Exports(shell) => shell.export(&[(KEY, &locks.keys), (TOKEN, token), (FENCE, &locks.fences)]),
        Text::Json => json(locks).to_string() + "\n",
    };
    let mut stdout = io::stdout();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| {
        let why = format!("cannot print the owner token: {error}; gave {} back", locks.names);
        Failed { code: NOT_HELD, why }.into()
    })
}

/// Of one lock the key and the fencing token stand by themselves; of each they stand in `locks`.
fn json(locks: &Locks) -> Value {
    let each: Vec<Value> = locks
        .leases
        .iter()
        .map(|lease| json!({ "key": lease.request.key.as_str(), "fence": lease.fence.0 }))
        .collect();
    let mut all = json!({ "token": locks.token.expose(), "ttl_ms": locks.ttl.as_millis(), "locks": each });
    if let [one] = &each[..] {
        all["key"] = one["key"].clone();
        all["fence"] = one["fence"].clone();
    }
    all
}
