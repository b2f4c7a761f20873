use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Outcome;
use super::context::Context;
use super::enclosing::{self, Enclosing};
use super::failure::{BUG, CONFIGURATION, Failed, LOST, NOT_EXECUTABLE, NOT_FOUND, TIMED_OUT};
use super::taking::{Taking, in_words};
use super::wishes::Wishes;
use crate::cli::{Leftovers, OnLost, RunArgs};
use crate::clock::{BootTime, Deadline};
use crate::lock::{DurationText, Keeper, Kept, Key, Lease, Patience, Progress, Renewal, Request, Store};
use crate::output::{Messages, lost_to};
use crate::process::{self, CommandLine, Control, Ended, Event, Job, NotStarted, Signals, Status};

/// Holds the lock while a command runs.
pub fn run(args: RunArgs, context: &Context) -> anyhow::Result<Outcome> {
    let mut plan = Plan::new(args, context)?;
    let mut job = Job::prepare(plan.command.clone(), plan.kill_after, plan.fate_of_leftovers())?;
    let mut signals = Signals::listen()?;
    // All descriptors that the job needs are there before it starts.
    let control = job.control()?;
    let finish = UnixStream::pair()?;
    let mut store = context.open_store();

    let lease = match plan.enclosing(store.as_mut(), context)? {
        Some(Nested::Kept(lease)) => return plan.run_nested(&lease, job, &control, &mut signals, context),
        Some(Nested::ByHand(lease)) => lease,
        None => {
            if let Some(signal) = plan.splay(&mut signals) {
                return Ok(Outcome::Signal(signal));
            }
            plan.taking.request.pids = vec![std::process::id(), job.guard_pid()];
            match plan.taking.take(store.as_mut(), &mut signals, None, context)? {
                Ok(lease) => lease,
                Err(outcome) => return Ok(outcome),
            }
        }
    };
    // A signal that came between the grant and here: released, no start.
    if let Some(arrived) = signals.next() {
        withdraw(store.as_mut(), &lease);
        return Ok(Outcome::Signal(arrived.signal));
    }
    if let Err(failure) =
        job.start(enclosing::environment(&lease, job.guard_pid()), plan.guarded_until(&lease))
    {
        withdraw(store.as_mut(), &lease);
        return Err(plan.not_started(failure));
    }
    let keeper = plan.keep(store, lease, finish, control.clone(), context.messages);
    let (end, keeper) = plan.attend(&mut job, &control, &mut signals, Some(keeper), context.messages);
    let kept = keeper.map(|keeper| keeper.finish(&mut Wishes { signals, told: end.told_to_end }));
    Ok(plan.conclude(&end, kept, context.messages))
}

/// The command line, checked before anything is contacted.
struct Plan {
    taking: Taking,
    command: CommandLine,
    /// What messages call the command.
    name: String,
    kill_after: Duration,
    on_lost: OnLost,
    timeout: Option<Duration>,
    splay: Duration,
    leftovers: Leftovers,
}

/// A lease that was taken around us.
enum Nested {
    /// By a `redlock run`, which renews it.
    Kept(Lease),
    /// By `redlock acquire`: we renew it while our job runs.
    ByHand(Lease),
}

/// How the job ended.
struct End {
    ended: Ended,
    guard_lost: bool,
    timed_out: bool,
    /// A signal had asked for it.
    told_to_end: bool,
}

impl Plan {
    fn new(args: RunArgs, context: &Context) -> anyhow::Result<Plan> {
        let config = &context.config;
        let mut taking = Taking::new(&args.lock, context, &in_words(&args.command))?;
        if let Some(code) = args.conflict_exit_code.or(config.conflict_exit_code) {
            taking.conflict_exit_code = code;
        }
        let kill_after = args.kill_after.or(config.kill_after);
        let kill_after = kill_after.map_or_else(|| taking.default_kill_after(), |text| text.0);
        taking.reserve(kill_after)?;
        let mut words = args.command.into_iter();
        let first = words.next().unwrap_or_default();
        let name = first.to_string_lossy().into_owned();
        let command = if args.shell || config.shell.unwrap_or(false) {
            let args = ["-c".into(), first].into_iter().chain(words);
            CommandLine { program: OsString::from("/bin/sh"), args: args.collect() }
        } else {
            CommandLine { program: first, args: words.collect() }
        };
        Ok(Plan {
            taking,
            command,
            name,
            kill_after,
            on_lost: args.on_lost.or(config.on_lost).unwrap_or_default(),
            timeout: args.timeout.or(config.timeout).map(|text| text.0).filter(|timeout| !timeout.is_zero()),
            splay: args.splay.or(config.splay).map_or(Duration::ZERO, |text| text.0),
            leftovers: args.leftovers.or(config.leftovers).unwrap_or_default(),
        })
    }

    fn key(&self) -> &Key {
        &self.taking.request.key
    }

    /// The lock that we are to take, when it is held around us: then its lease is ours.
    fn enclosing(&self, store: &mut dyn Store, context: &Context) -> anyhow::Result<Option<Nested>> {
        let Some(enclosing) = Enclosing::on(self.key()) else { return Ok(None) };
        let Some(token) = enclosing.token() else { return Ok(None) };
        let request = Request { token, ..self.taking.request.clone() };
        let sent = BootTime::now();
        let patience = context.patience();
        let held = if enclosing.is_kept() {
            store.check(&request.key, &request.token, &patience).map(|left| left.is_some())
        } else {
            // From now on somebody renews it, at least as long as our job runs.
            store.renew(&request, None, &patience).map(|renewal| matches!(renewal, Renewal::Extended))
        };
        if !held.map_err(|error| context.explain(error))? {
            return Ok(None);
        }
        let status = store.status(std::slice::from_ref(&request.key), &patience);
        let status = status.map_err(|error| context.explain(error))?;
        if let Some(status) = status.first().filter(|status| !status.kind.covers(request.kind)) {
            let why = format!(
                "a job around this one holds '{}' as {}, and this one would wait for it; ask for the same kind in both",
                request.key, status.kind
            );
            return Err(Failed { code: CONFIGURATION, why }.into());
        }
        let lease = Lease::borrowed(request, enclosing.fence(), sent);
        let nested = if enclosing.is_kept() { Nested::Kept(lease) } else { Nested::ByHand(lease) };
        Ok(Some(nested))
    }

    /// Under the lease of the job around us, which renews and releases it, and whose guard guards us.
    fn run_nested(
        &self,
        lease: &Lease,
        mut job: Job,
        control: &Control,
        signals: &mut Signals,
        context: &Context,
    ) -> anyhow::Result<Outcome> {
        job.start(enclosing::environment(lease, job.guard_pid()), None)
            .map_err(|failure| self.not_started(failure))?;
        let (end, _) =
            self.attend(&mut job, control, signals, None::<Keeper<fn(Progress)>>, context.messages);
        Ok(self.conclude(&end, None, context.messages))
    }

    /// Sleeps a random part of the splay. Returns the signal that ended it.
    fn splay(&self, signals: &mut Signals) -> Option<i32> {
        let end = Deadline::after(self.splay.mul_f64(fastrand::f64()));
        while !end.has_passed() {
            if let Some(arrived) = signals.next_until(end) {
                return Some(arrived.signal);
            }
        }
        None
    }

    /// What the guard does with the processes that outlive the command.
    fn fate_of_leftovers(&self) -> process::Leftovers {
        match self.leftovers {
            Leftovers::Release => process::Leftovers::Leave,
            Leftovers::Wait => process::Leftovers::Await,
            Leftovers::Kill => process::Leftovers::Stop,
        }
    }

    /// The deadline that the guard enforces.
    fn guarded_until(&self, lease: &Lease) -> Option<Deadline> {
        (self.on_lost == OnLost::Terminate).then(|| lease.deadline())
    }

    fn not_started(&self, failure: NotStarted) -> anyhow::Error {
        let name = &self.name;
        let (code, why) = match failure {
            NotStarted::NotFound => (NOT_FOUND, format!("'{name}' is not found")),
            NotStarted::NotExecutable(why) => (NOT_EXECUTABLE, format!("'{name}' cannot be executed: {why}")),
            NotStarted::NoGuard => {
                (BUG, format!("the guard ended before it could start '{name}'; nothing was started"))
            }
        };
        Failed { code, why }.into()
    }

    /// Renews in the background; tells the guard and the person what comes of it.
    fn keep(
        &self,
        store: Box<dyn Store>,
        lease: Lease,
        finish: (UnixStream, UnixStream),
        control: Control,
        messages: Messages,
    ) -> Keeper<impl FnMut(Progress) + Send + 'static> {
        let terminate = self.on_lost == OnLost::Terminate;
        let (key, kill_after) = (self.key().clone(), self.kill_after);
        let what_now = if terminate { "stopping the job" } else { "the job goes on without it" };
        let reserve = if terminate { kill_after } else { Duration::ZERO };
        let report = move |progress: Progress| match progress {
            Progress::Renewed(lease) => {
                control.extend(lease.deadline());
                messages.note(format_args!("renewed '{key}' for {}", lease.request.ttl));
            }
            Progress::Healed(lease, gone) => {
                control.extend(lease.deadline());
                messages.warning(format_args!(
                    "'{key}' was gone from the store, for at most {}; nobody else was granted it, and it is held again",
                    DurationText(gone)
                ));
            }
            Progress::Failed(lease, error) => messages.note(format_args!(
                "could not renew '{key}': {error}; {} left on its lease",
                DurationText(lease.deadline().left())
            )),
            Progress::Released(lease) => {
                if terminate {
                    control.stop(lease.deadline().min(Deadline::after(kill_after)));
                }
                messages
                    .error(format_args!("lost '{key}': it was given back with its owner token; {what_now}"));
            }
            Progress::Lost(lease, now_held) => {
                if terminate {
                    control.stop(lease.deadline().min(Deadline::after(kill_after)));
                }
                let by = match now_held {
                    None if lease.is_borrowed => "nobody holds it any more".to_owned(),
                    _ => lost_to(now_held),
                };
                messages.error(format_args!("lost '{key}': {by}; {what_now}"));
            }
            Progress::Expired(_) => {
                messages.error(format_args!(
                    "lost '{key}': no renewal came through before its lease ended; {what_now}"
                ));
            }
        };
        Keeper::new(store, lease, finish, reserve, report)
    }

    /// Waits for the end of the job, has its lease renewed, and passes on the signals that only redlock got.
    fn attend<R: FnMut(Progress) + Send + 'static>(
        &self,
        job: &mut Job,
        control: &Control,
        signals: &mut Signals,
        mut keeper: Option<Keeper<R>>,
        messages: Messages,
    ) -> (End, Option<Keeper<R>>) {
        let mut stop_at = self.timeout.map(Deadline::after);
        let (mut told_to_end, mut passed_on, mut timed_out) = (false, false, false);
        let mut command_ended = false;
        loop {
            let renew_at = keeper.as_ref().and_then(Keeper::start_at);
            match job.next(signals, renew_at.into_iter().chain(stop_at).min()) {
                Event::Signal(arrived) if arrived.is_for_the_command() => {
                    control.signal_command(arrived.signal)
                }
                // The terminal told the job, and the command decides what becomes of it; when that has ended, we do.
                Event::Signal(arrived) if arrived.from_terminal && !(command_ended && arrived.is_key()) => {
                    told_to_end = true;
                }
                Event::Signal(arrived) if passed_on && !arrived.is_same_wish => control.kill(),
                Event::Signal(arrived) if arrived.from_terminal => {
                    (told_to_end, passed_on) = (true, true);
                    control.signal_outside(arrived.signal);
                    messages.warning(format_args!(
                        "told the processes that '{}' left behind; once more kills them",
                        self.name
                    ));
                }
                Event::Signal(arrived) => {
                    (told_to_end, passed_on) = (true, true);
                    control.signal(arrived.signal);
                }
                Event::TimeUp if renew_at.is_some_and(Deadline::has_passed) => {
                    keeper = keeper.map(Keeper::start);
                }
                Event::TimeUp => {
                    (timed_out, stop_at) = (true, None);
                    control.stop(Deadline::after(self.kill_after));
                }
                Event::CommandEnded => {
                    command_ended = true;
                    if self.leftovers == Leftovers::Kill {
                        // The command ended in time.
                        stop_at = None;
                    }
                    messages.note(format_args!(
                        "'{}' left processes behind; '{}' is held until they have ended",
                        self.name,
                        self.key()
                    ));
                }
                Event::Ended { ended, guard_lost } => {
                    return (End { ended, guard_lost, timed_out, told_to_end }, keeper);
                }
            }
        }
    }

    /// Says what was out of the ordinary, and how to end.
    fn conclude(&self, end: &End, kept: Option<Kept>, messages: Messages) -> Outcome {
        let key = self.key();
        if end.guard_lost {
            messages.error(format_args!(
                "the guard of '{key}' was killed; the job was killed too, as nothing guarded it"
            ));
        }
        if end.ended.leftovers {
            let what = if matches!(kept, Some(Kept::Borrowed) | None) {
                "guards them no more"
            } else {
                "was given back while they run"
            };
            messages.warning(format_args!("'{}' left processes behind; '{key}' {what}", self.name));
        }
        match kept {
            Some(Kept::Lost) => return Outcome::Exit(LOST),
            _ if end.ended.expired => {
                messages.error(format_args!(
                    "lost '{key}': its lease was not renewed in time; the job was stopped"
                ));
                return Outcome::Exit(LOST);
            }
            Some(Kept::Unreleased) => messages.warning(format_args!(
                "could not give '{key}' back; it is free when its lease ends, within {}",
                self.taking.request.ttl
            )),
            Some(Kept::Released) => messages.note(format_args!("released '{key}'")),
            Some(Kept::Borrowed) | None => {}
        }
        match end.ended.status {
            _ if end.timed_out => Outcome::Exit(TIMED_OUT),
            Status::Exited(code) => Outcome::Exit(code as u8),
            Status::Signaled(signal) => Outcome::Signal(signal),
        }
    }
}

/// Gives back a grant under which nothing ran.
fn withdraw(store: &mut dyn Store, lease: &Lease) {
    if !lease.is_borrowed {
        // An unreachable store frees the lock when the lease ends.
        let _ = store.withdraw(&lease.request, &Patience::of(Duration::from_secs(1)));
    }
}
