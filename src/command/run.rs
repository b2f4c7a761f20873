use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Outcome;
use super::around::{Around, Meanwhile};
use super::context::Context;
use super::enclosing;
use super::failure::{self, BUG, Failed, LOST, NOT_EXECUTABLE, NOT_FOUND, TIMED_OUT, UNREACHABLE};
use super::taking::{Taking, in_words};
use super::wishes::Wishes;
use crate::cli::{Leftovers, OnLost, RunArgs};
use crate::clock::Deadline;
use crate::lock::{DurationText, Keeper, Kept, Lease, Patience, Progress, Store};
use crate::output::{Messages, lost_to};
use crate::process::{self, CommandLine, Control, Ended, Event, Job, NotStarted, Signals, Status};

/// Holds the lock while a command runs.
pub fn run(args: RunArgs, context: &Context) -> anyhow::Result<Outcome> {
    let mut plan = Plan::new(args, context)?;
    let job = Job::prepare(plan.command.clone(), plan.kill_after, plan.fate_of_leftovers());
    let mut job = job.map_err(|error| failure::of_the_system("start the guard of the job", &error))?;
    let mut signals = Signals::listen()?;
    // All descriptors that the job needs are there before it starts.
    let control = job.control()?;
    let finish = UnixStream::pair()?;
    let mut store = context.open_store();

    let mut around = Around::find(&mut plan.taking.requests, store.as_mut(), context)?;
    plan.taking.kept_alive_by(&[std::process::id(), job.guard_pid()]);
    let taken = match plan.take(&mut around, store.as_mut(), &mut signals, context)? {
        Ok(taken) => taken,
        Err(outcome) => return Ok(outcome),
    };
    let Around { kept, by_hand } = around;
    let leases = [by_hand, taken].concat();
    // A signal that came between the grant and here: released, no start.
    if let Some(arrived) = signals.next() {
        plan.withdraw(store.as_mut());
        return Ok(Outcome::Signal(arrived.signal));
    }
    let environment = enclosing::environment(&[&kept[..], &leases[..]].concat(), job.guard_pid());
    let deadline = Lease::first_deadline(&leases);
    let guarded = !leases.is_empty() && plan.on_lost == OnLost::Terminate;
    // Also a job that may go on without the lock starts with it.
    let start_by = deadline.minus(plan.kill_after);
    if let Err(failure) = job.start(environment, start_by, guarded.then_some(deadline)) {
        plan.withdraw(store.as_mut());
        return Err(plan.not_started(failure));
    }
    let keeper = plan.keep(store, leases, finish, control.clone(), context.messages);
    let (end, keeper) = plan.attend(&mut job, &control, &mut signals, keeper, context.messages);
    let kept = keeper.map(|keeper| keeper.finish(&mut Wishes { signals, told: end.told_to_end }));
    Ok(plan.conclude(&end, kept, context.messages))
}

/// The command line, checked before anything is contacted.
struct Plan {
    /// What is not held around us.
    taking: Taking,
    /// What messages call the locks.
    locks: String,
    command: CommandLine,
    /// What messages call the command.
    name: String,
    kill_after: Duration,
    on_lost: OnLost,
    timeout: Option<Duration>,
    splay: Duration,
    leftovers: Leftovers,
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
            locks: taking.names(),
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

    /// Takes what is not held around us, or says how to end.
    fn take(
        &self,
        around: &mut Around,
        store: &mut dyn Store,
        signals: &mut Signals,
        context: &Context,
    ) -> anyhow::Result<Result<Vec<Lease>, Outcome>> {
        if self.taking.requests.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let meanwhile = around.keep_meanwhile(self.taking.reserve, context)?;
        if let Some(signal) = self.splay(signals) {
            return Ok(Err(Outcome::Signal(signal)));
        }
        let taken = self.taking.take(store, signals, meanwhile.as_ref().map(AsFd::as_fd), context)?;
        match &taken {
            Ok(_) => {
                if let Err(lost) = around.confirm(store, context) {
                    self.withdraw(store);
                    return Err(lost);
                }
            }
            Err(Outcome::Signal(_)) => {}
            Err(Outcome::Exit(_)) => meanwhile.iter().try_for_each(Meanwhile::check)?,
        }
        Ok(taken)
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

    /// Gives back what was taken, as nothing ran under it.
    fn withdraw(&self, store: &mut dyn Store) {
        // An unreachable store frees the locks when their leases end.
        let _ = store.withdraw(&self.taking.requests, &Patience::of(Duration::from_secs(1)));
    }

    fn not_started(&self, failure: NotStarted) -> anyhow::Error {
        let name = &self.name;
        let (code, why) = match failure {
            NotStarted::NotFound => (NOT_FOUND, format!("'{name}' is not found")),
            NotStarted::NotExecutable(why) => (NOT_EXECUTABLE, format!("'{name}' cannot be executed: {why}")),
            NotStarted::TooLate => {
                let locks = &self.locks;
                let why = "redlock was stopped, or the machine slept";
                (
                    UNREACHABLE,
                    format!(
                        "the lease of {locks} was over before '{name}' could start ({why}); nothing was started, try again"
                    ),
                )
            }
            NotStarted::NoGuard => {
                (BUG, format!("the guard ended before it could start '{name}'; nothing was started"))
            }
        };
        Failed { code, why }.into()
    }

    /// Renews in the background what nobody else renews; tells the guard and the person what comes of it.
    fn keep(
        &self,
        store: Box<dyn Store>,
        leases: Vec<Lease>,
        finish: (UnixStream, UnixStream),
        control: Control,
        messages: Messages,
    ) -> Option<Keeper<impl FnMut(Progress) + Send + 'static>> {
        let terminate = self.on_lost == OnLost::Terminate;
        let (locks, kill_after) = (self.locks.clone(), self.kill_after);
        let what_now = if terminate { "stopping the job" } else { "the job goes on without it" };
        let reserve = if terminate { kill_after } else { Duration::ZERO };
        let report = move |progress: Progress| {
            match progress {
            Progress::Renewed(deadline) => {
                control.extend(deadline);
                messages.note(format_args!("renewed {locks}"));
            }
            Progress::Healed(lease, gone) => messages.warning(format_args!(
                "'{}' was gone from the store, for at most {}; nobody else was granted it, and it is held again",
                lease.request.key,
                DurationText(gone)
            )),
            Progress::Failed(lease, error) => messages.note(format_args!(
                "could not renew '{}': {error}; {} left on its lease",
                lease.request.key,
                DurationText(lease.deadline().left())
            )),
            Progress::Released(lease) => {
                if terminate {
                    control.stop(lease.deadline().min(Deadline::after(kill_after)));
                }
                let key = &lease.request.key;
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
                messages.error(format_args!("lost '{}': {by}; {what_now}", lease.request.key));
            }
            Progress::Expired(lease) => messages.error(format_args!(
                "lost '{}': no renewal came through before its lease ended; {what_now}",
                lease.request.key
            )),
        }
        };
        (!leases.is_empty()).then(|| Keeper::new(store, leases, finish, reserve, report))
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
                        "'{}' left processes behind; {} held until they have ended",
                        self.name, self.locks
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
        let (locks, taken) = (&self.locks, self.taking.names());
        if end.guard_lost {
            messages.error(format_args!(
                "the guard of {locks} was killed; the job was killed too, as nothing guarded it"
            ));
        }
        match kept {
            _ if !end.ended.leftovers => {}
            // The job around us has them now.
            None => {}
            Some(Kept::Borrowed) => messages.warning(format_args!(
                "'{}' left processes behind; nothing ends them with the lease of {locks} any more",
                self.name
            )),
            Some(_) => messages.warning(format_args!(
                "'{}' left processes behind; redlock gave {taken} back while they run",
                self.name
            )),
        }
        match kept {
            Some(Kept::Lost) => return Outcome::Exit(LOST),
            _ if end.ended.expired => {
                messages.error(format_args!(
                    "lost {locks}: the lease was not renewed in time; the job was stopped"
                ));
                return Outcome::Exit(LOST);
            }
            Some(Kept::Unreleased) => messages.warning(format_args!(
                "could not give {taken} back; free when the lease ends, within {}",
                self.taking.ttl
            )),
            Some(Kept::Released) => messages.note(format_args!("released {taken}")),
            Some(Kept::Borrowed) | None => {}
        }
        match end.ended.status {
            _ if end.timed_out => Outcome::Exit(TIMED_OUT),
            Status::Exited(code) => Outcome::Exit(code as u8),
            Status::Signaled(signal) => Outcome::Signal(signal),
        }
    }
}
