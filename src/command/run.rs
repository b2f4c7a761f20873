//! `redlock run`: acquire, start, keep, wait, release.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use crate::cli::{Leftovers, OnLost};
use crate::clock::Deadline;
use crate::error::{Failure, LOST, NOT_EXECUTABLE, NOT_FOUND, Outcome, TIMED_OUT, UNREACHABLE};
use crate::event::{Event, LeftBehind, LeftoversFate};
use crate::job::{ExitStatus, Job, JobControl, LeftoverPolicy, NotStarted, Reserve, Signals};
use crate::lock::{Keeper, Key, Lease, LeaseEnd, Progress, Store, StoreAdmin};
use crate::options::RunOptions;
use crate::report::names;
use crate::session::renewal_events::RenewalEvents;
use crate::session::supervise::{RunEnd, Supervisor};
use crate::session::{
    self, Abort, Acquisition, Context, Hooks, InterimKeeper, Nesting, history, once_per, sequence,
};

pub fn run(options: &RunOptions, context: &Context) -> anyhow::Result<Outcome> {
    let mut run = Run::prepare(options, context)?;
    let mut store = context.open_store_for(options.lock.replicas, run.holders());
    context.reporter.start_threads();
    let granted = run.acquire(store.as_mut()).map_err(|error| run.fail(error, store.as_mut()))?;
    run.start(&granted, store.as_mut()).map_err(|error| run.fail(error, store.as_mut()))?;
    let keeper = run.keep(granted.own, store);
    let supervisor = Supervisor { options, keys: &run.keys, control: &run.control, context };
    let (mut end, mut keeper) = supervisor.until_end(&mut run.job, &mut run.signals, keeper);
    if let Some(hooks) = &run.hooks {
        run.job.confirm(&mut end.job);
        keeper = hooks.end_under_lease(keeper, &mut end, &mut run.signals);
    }
    let mut is_recorded = false;
    if options.once_per.is_some() {
        run.job.confirm(&mut end.job);
        if outcome(&end, None) == Outcome::SUCCESS && !end.job.expired {
            // The leases are renewed until the release.
            keeper = keeper.map(Keeper::start);
            is_recorded = once_per::record(&run.acquisition, options, &run.signals, context);
            end.locks_outlived_it |= is_recorded;
        }
    }
    let finished = keeper.map(|keeper| supervisor.release(keeper, &mut end, &mut run.job, &mut run.signals));
    let (lease_end, store) = finished.map(|finished| (finished.end, finished.store)).unzip();
    let lease_end = lease_end.as_ref();
    run.report_end(&end, lease_end);
    if let Some(store) = store.flatten().filter(|_| !is_recorded) {
        history::record(outcome(&end, lease_end), options, store, context);
    }
    if let Some(arrived) = run.hooks.as_ref().and_then(|hooks| hooks.await_last(&mut run.signals)) {
        end.note(arrived);
    }
    Ok(outcome(&end, lease_end))
}

/// A run and what it needs, from the fork of the guard on.
struct Run<'a> {
    options: &'a RunOptions,
    context: &'a Context,
    /// The acquisition of the locks that are not inherited.
    acquisition: Acquisition,
    /// The keys of all locks of this run.
    keys: Vec<Key>,
    /// Dropped before the job, whose end may leave processes to redlock that run on.
    hooks: Option<Hooks>,
    job: Job,
    control: JobControl,
    signals: Signals,
}

/// The leases under which the job runs.
struct Granted {
    /// Renewed and released by an enclosing `redlock run`.
    supervised: Vec<Lease>,
    /// Renewed by this run.
    own: Vec<Lease>,
}

impl<'a> Run<'a> {
    fn prepare(options: &'a RunOptions, context: &'a Context) -> Result<Run<'a>, Failure> {
        let RunOptions { args, lock, command, kill_after, .. } = options;
        let reserve = Reserve::new(lock.ttl.validity(), *kill_after);
        let acquisition = Acquisition::new(lock, reserve.length(), args.conflict_exit_code, context);
        let leftovers = match args.leftovers {
            None => LeftoverPolicy::LeaveUnlessKilled,
            Some(Leftovers::Release) => LeftoverPolicy::Leave,
            Some(Leftovers::Wait) => LeftoverPolicy::Await,
            Some(Leftovers::Kill) => LeftoverPolicy::Stop,
        };
        context.reporter.report(&Event::Requested { requests: &acquisition.requests, one_of: lock.one_of });
        let job = Job::prepare(command.clone(), reserve, leftovers);
        let job = job.map_err(Failure::cannot("start the guard of the job"))?;
        let hooks = Hooks::prepare(options, reserve, &job, &context.reporter)?;
        let signals = Signals::listen().map_err(Failure::cannot("listen for signals"))?;
        let control = job.control().map_err(Failure::cannot("connect to the guard"))?;
        let keys = acquisition.keys();
        Ok(Run { options, context, acquisition, keys, hooks, job, control, signals })
    }

    fn acquire(&mut self, store: &mut dyn StoreAdmin) -> anyhow::Result<Granted> {
        let requests = &self.acquisition.requests;
        let nesting = Nesting::find(requests, store, self.signals.as_fd(), self.context);
        self.stop_if_signalled()?;
        let mut nesting = nesting?;
        let is_enough = self.acquisition.one_of && nesting.keep_one();
        self.acquisition.requests.retain(|request| !is_enough && !nesting.has(&request.key));
        let acquired = if self.acquisition.requests.is_empty() {
            Vec::new()
        } else {
            self.acquire_rest(&mut nesting, store)?
        };
        self.acquisition.keep_granted(&acquired);
        self.keys.retain(|key| nesting.has(key) || acquired.iter().any(|lease| lease.request.key == *key));
        if let Some(period) = self.options.once_per {
            let acquired = (&self.acquisition, Lease::first_deadline(&acquired));
            once_per::check(period, &self.keys, acquired, store, &self.signals, self.context)?;
        }
        if let Some(number) = self.options.args.sequence {
            let leases = [&nesting.supervised[..], &nesting.manual, &acquired].concat();
            let (keep, acquired) =
                (self.options.history, (&self.acquisition, Lease::first_deadline(&acquired)));
            sequence::begin(number, &leases, keep, acquired, store, &mut self.signals, self.context)?;
        }
        // Between the grant and here.
        if let Err(signal) = self.stop_if_signalled() {
            return Err(self.acquisition.withdraw_after(signal.into(), store, &self.context.reporter));
        }
        Ok(Granted { supervised: nesting.supervised, own: [nesting.manual, acquired].concat() })
    }

    fn acquire_rest(&mut self, nesting: &mut Nesting, store: &mut dyn Store) -> anyhow::Result<Vec<Lease>> {
        let Run { options, context, acquisition, job, signals, .. } = self;
        let interim = nesting.keep_meanwhile(acquisition.reserve, options.lock.replicas, context)?;
        let most = options.args.splay.map_or(Duration::ZERO, |text| text.0);
        splay(most, signals, context)?;
        let guard_killed = || {
            let why =
                format!("the guard was killed before '{}' could start; nothing of it runs", options.name);
            Failure::new(UNREACHABLE, why).into()
        };
        let reason = || job.has_lost_guard().then(guard_killed);
        let guard = Abort { fd: job.as_fd(), reason: Box::new(reason) };
        let aborts = interim.iter().map(InterimKeeper::abort).chain([guard]).collect();
        let leases = acquisition.acquire(store, signals, aborts, context)?;
        let until = Lease::first_deadline(&leases).minus(acquisition.reserve);
        if let Err(lost) = nesting.confirm(until, store, signals.as_fd(), context) {
            let why = signals.take().map_or(lost, |arrived| Failure::Signal(arrived.signal).into());
            return Err(acquisition.withdraw_after(why, store, &context.reporter));
        }
        Ok(leases)
    }

    /// The processes that keep the locks alive.
    fn holders(&self) -> Vec<u32> {
        let of_hooks = self.hooks.iter().flat_map(Hooks::holders);
        [std::process::id(), self.job.guard_pid()].into_iter().chain(of_hooks).collect()
    }

    /// Reports why nothing runs, adds that to the history, and waits for the hooks, unless a signal ended the run.
    fn fail(&mut self, error: anyhow::Error, store: &mut dyn Store) -> anyhow::Error {
        let outcome = session::report_failure(&error, &self.context.reporter);
        history::record(outcome, self.options, store, self.context);
        let Outcome::Exit(code) = outcome else { return error };
        let arrived = self.hooks.as_ref().and_then(|hooks| hooks.await_last(&mut self.signals));
        let pressed = arrived.filter(|arrived| arrived.is_key_press());
        pressed.map_or(Failure::Quiet(code), |arrived| Failure::Signal(arrived.signal)).into()
    }

    fn stop_if_signalled(&mut self) -> Result<(), Failure> {
        self.signals.take().map_or(Ok(()), |arrived| Err(Failure::Signal(arrived.signal)))
    }

    fn start(&mut self, granted: &Granted, store: &mut dyn Store) -> anyhow::Result<()> {
        let leases = [&granted.supervised[..], &granted.own].concat();
        let mut environment = session::environment(&leases, self.job.guard_pid());
        environment.extend(self.options.lock.pool_variables(&leases));
        let deadline = Lease::first_deadline(&granted.own);
        self.hooks.iter().for_each(|hooks| hooks.control().extend(deadline));
        // A job that may go on without the lock starts with it all the same.
        let ends_in_time = !granted.own.is_empty() && self.options.args.on_lost == OnLost::Terminate;
        let Run { job, signals, options, acquisition, context, keys, .. } = self;
        job.start(environment, deadline, ends_in_time, Some(signals)).map_err(|reason| {
            let failure = not_started(&reason, &options.name, &names(&*keys));
            acquisition.withdraw_after(failure.into(), store, &context.reporter)
        })?;
        self.context.reporter.report(&Event::Started { keys: &self.keys });
        Ok(())
    }

    /// Renews in the background what no enclosing run renews.
    fn keep(&mut self, leases: Vec<Lease>, store: Box<dyn Store>) -> Option<Keeper> {
        let on_lost = self.options.args.on_lost;
        let (control, reporter) = (self.control.clone(), self.context.reporter.clone());
        let (hooks, keys) = (self.hooks.as_ref().map(Hooks::control), self.keys.clone());
        let events = RenewalEvents { control, hooks, reporter, keys, on_lost };
        let reserve = if on_lost == OnLost::Terminate { self.acquisition.reserve } else { Duration::ZERO };
        let report = move |progress: Progress| events.handle(progress);
        (!leases.is_empty()).then(|| Keeper::new(store, leases, reserve, Box::new(report)))
    }

    /// Reports what was out of the ordinary, and the release.
    fn report_end(&self, end: &RunEnd, lease_end: Option<&LeaseEnd>) {
        let keys = &self.keys[..];
        let report = |event: &Event| self.context.reporter.report(event);
        if let Some(how) = end.guard_lost {
            report(&Event::GuardLost { keys, how });
        }
        let left_behind = || LeftBehind { command: &self.options.name, one: self.job.leftover() };
        let leftovers = end.job.leftovers.then(left_behind);
        let leftovers = leftovers.as_ref();
        let own = &self.acquisition.keys()[..];
        match lease_end {
            Some(LeaseEnd::Released) => report(&Event::Released { keys: own, leftovers }),
            Some(LeaseEnd::Unreleased(error)) => {
                report(&Event::NotReleased { keys: own, ttl: self.acquisition.ttl, error, leftovers });
            }
            // An enclosing run has the leftovers in its job.
            None => {}
            Some(LeaseEnd::Borrowed | LeaseEnd::Lost) => {
                let fate = match lease_end {
                    Some(LeaseEnd::Borrowed) => LeftoversFate::Unguarded { keys },
                    _ => LeftoversFate::WithoutLocks { keys },
                };
                leftovers.into_iter().for_each(|of| report(&Event::Leftovers { of, fate }));
            }
        }
    }
}

fn splay(splay: Duration, signals: &mut Signals, context: &Context) -> Result<(), Failure> {
    if splay.is_zero() {
        return Ok(());
    }
    let pause = splay.mul_f64(fastrand::f64());
    context.reporter.report(&Event::Splay { pause });
    let end = Deadline::after(pause);
    while !end.has_passed() {
        if let Some(arrived) = signals.next_until(end) {
            return Err(Failure::Signal(arrived.signal));
        }
    }
    Ok(())
}

fn outcome(end: &RunEnd, lease_end: Option<&LeaseEnd>) -> Outcome {
    match (end.job.status, end.pressed) {
        _ if lease_end == Some(&LeaseEnd::Lost) && !end.locks_outlived_it => Outcome::Exit(LOST),
        _ if end.timed_out => Outcome::Exit(TIMED_OUT),
        (ExitStatus::Signaled(signal), _) | (_, Some(signal)) => Outcome::Signal(signal),
        (ExitStatus::Exited(code), None) => Outcome::Exit(code as u8),
    }
}

fn not_started(reason: &NotStarted, command: &str, locks: &str) -> Failure {
    match reason {
        NotStarted::NotFound if command.contains('/') && Path::new(command).exists() => Failure::new(
            NOT_FOUND,
            format!(
                "'{command}' cannot be executed: its interpreter is not found, the one in its first line, or the loader of a program that was built for another system"
            ),
        ),
        NotStarted::NotFound => {
            Failure::new(NOT_FOUND, format!("'{command}' is not found")).hint(hint(command, locks))
        }
        NotStarted::NotExecutable(why) => {
            Failure::new(NOT_EXECUTABLE, format!("'{command}' cannot be executed: {why}"))
                .hint(hint(command, locks))
        }
        NotStarted::NoRoom(why) => Failure::new(UNREACHABLE, format!("cannot start '{command}': {why}"))
            .hint("see ulimit -u and -n, and pids.max of its cgroup"),
        NotStarted::ProcessKilled => Failure::new(
            UNREACHABLE,
            format!(
                "'{command}' was not started: somebody killed its process while redlock took the lock; try again"
            ),
        ),
        NotStarted::Interrupted(signal) => Failure::Signal(*signal),
        NotStarted::TooLate { has_begun: true } => Failure::new(
            LOST,
            format!(
                "the lease of {locks} had ended when '{command}' started (redlock was stopped, the machine slept, or is too busy); it was killed"
            ),
        ),
        NotStarted::TooLate { has_begun: false } => Failure::new(
            UNREACHABLE,
            format!(
                "the lease of {locks} had ended before '{command}' could start (redlock was stopped, the machine slept, or the store or a file system was slow); nothing was started, try again"
            ),
        ),
    }
}

/// Commands that a shell has within itself, and no program.
const BUILTINS: [&str; 14] = [
    ".", "alias", "cd", "eval", "exec", "export", "for", "if", "set", "source", "ulimit", "umask", "unset",
    "while",
];

/// A guess at a command that cannot be started: a part of the shell's language, or a line for the shell, or its first word became the key.
fn hint(command: &str, locks: &str) -> String {
    if BUILTINS.contains(&command) {
        return "it is a builtin of the shell; run it with -c, in one quoted word".to_owned();
    }
    match command.contains([' ', ';', '|', '&', '<', '>', '$']) {
        true => "with -c a shell runs it".to_owned(),
        false => format!("the key is {locks}"),
    }
}
