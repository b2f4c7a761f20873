use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Outcome;
use super::around::{Around, Meanwhile};
use super::context::Context;
use super::enclosing;
use super::failure::{Failed, LOST, NOT_EXECUTABLE, NOT_FOUND, TIMED_OUT, UNREACHABLE, cannot};
use super::label;
use super::taking::Taking;
use super::telling::Telling;
use super::watch::{End, Watch};
use super::wishes::Wishes;
use crate::cli::{Leftovers, OnLost, RunArgs};
use crate::clock::Deadline;
use crate::lock::{Keeper, Kept, Lease, Progress, Store};
use crate::output::Messages;
use crate::process::{self, CommandLine, Control, GuardLoss, Job, NotStarted, Signals, Status};

/// Holds the lock while a command runs.
pub fn run(args: RunArgs, context: &Context) -> anyhow::Result<Outcome> {
    let mut plan = Plan::new(args, context)?;
    let mut job = plan.prepare().map_err(cannot("start the guard of the job"))?;
    let mut signals = Signals::listen().map_err(cannot("listen for signals"))?;
    // All descriptors that the job needs are there before it starts.
    let control = job.control().map_err(cannot("make a second line to the guard"))?;
    let finish = UnixStream::pair().map_err(cannot("make a line to the keeper"))?;
    let mut store = context.open_store();

    let around = Around::find(&mut plan.taking.requests, store.as_mut(), signals.as_fd(), context);
    if let Some(arrived) = signals.next() {
        return Ok(Outcome::Signal(arrived.signal));
    }
    let mut around = around?;
    plan.taking.kept_alive_by(&[std::process::id(), job.guard_pid()]);
    let taken = match plan.take(&job, &mut around, store.as_mut(), &mut signals, context)? {
        Ok(taken) => taken,
        Err(outcome) => return Ok(outcome),
    };
    // A signal that came between the grant and here: released, no start.
    if let Some(arrived) = signals.next() {
        let _ = plan.taking.withdraw(store.as_mut());
        return Ok(Outcome::Signal(arrived.signal));
    }
    let Around { kept, by_hand } = around;
    let leases = [by_hand, taken].concat();
    if let Err(failure) = plan.start(&mut job, &kept, &leases) {
        return Err(plan.taking.withdraw_after(plan.not_started(failure), store.as_mut()));
    }
    let keeper = plan.keep(store, leases, finish, control.clone(), context.messages);
    let watch = Watch::new(&plan, &control, context.messages);
    let (end, keeper) = watch.until_end(&mut job, &mut signals, keeper);
    let kept = keeper.map(|keeper| keeper.finish(&mut Wishes { signals, told: end.told_to_end }));
    Ok(plan.conclude(&end, kept, context.messages))
}

/// The command line, checked before anything is contacted.
pub struct Plan {
    /// What is not held around us.
    taking: Taking,
    /// What messages call the locks.
    pub locks: String,
    command: CommandLine,
    /// What messages call the command.
    pub name: String,
    pub kill_after: Duration,
    on_lost: OnLost,
    pub timeout: Option<Duration>,
    splay: Duration,
    /// `None` where nobody said what becomes of them.
    pub leftovers: Option<Leftovers>,
}

impl Plan {
    fn new(args: RunArgs, context: &Context) -> anyhow::Result<Plan> {
        let config = &context.config;
        let shell = args.shell || config.shell.unwrap_or(false);
        let label = if shell { "sh -c".to_owned() } else { label::of_command(&args.command) };
        let mut taking = Taking::new(&args.lock, context, &label)?;
        if let Some(code) = args.conflict_exit_code.or(config.conflict_exit_code) {
            taking.conflict_exit_code = code;
        }
        let kill_after = config.kill_after(args.kill_after, taking.ttl);
        taking.reserve(kill_after)?;
        let mut words = args.command.into_iter();
        let first = words.next().unwrap_or_default();
        let name = if shell { label } else { first.to_string_lossy().into_owned() };
        let command = if shell {
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
            leftovers: args.leftovers.or(config.leftovers),
        })
    }

    /// Takes what is not held around us, or says how to end.
    fn take(
        &self,
        job: &Job,
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
        let also: Vec<_> = meanwhile.iter().map(AsFd::as_fd).chain([job.as_fd()]).collect();
        let taken = self.taking.take(store, signals, &also, context)?;
        match &taken {
            Ok(leases) => {
                let until = Lease::first_deadline(leases).minus(self.taking.reserve);
                if let Err(lost) = around.confirm(until, store, signals.as_fd(), context) {
                    let lost = self.taking.withdraw_after(lost, store);
                    return signals
                        .next()
                        .map_or(Err(lost), |arrived| Ok(Err(Outcome::Signal(arrived.signal))));
                }
            }
            Err(Outcome::Signal(_)) => {}
            Err(Outcome::Exit(_)) => {
                meanwhile.iter().try_for_each(Meanwhile::check)?;
                if job.has_lost_guard() {
                    return Err(self.not_started(NotStarted::NoGuard));
                }
            }
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

    fn prepare(&self) -> io::Result<Job> {
        let leftovers = match self.leftovers {
            None => process::Leftovers::LeaveUnlessKilled,
            Some(Leftovers::Release) => process::Leftovers::Leave,
            Some(Leftovers::Wait) => process::Leftovers::Await,
            Some(Leftovers::Kill) => process::Leftovers::Stop,
        };
        Job::prepare(self.command.clone(), self.kill_after, leftovers)
    }

    /// Starts the command with what it holds.
    fn start(&self, job: &mut Job, kept: &[Lease], leases: &[Lease]) -> Result<(), NotStarted> {
        let environment = enclosing::environment(&[kept, leases].concat(), job.guard_pid());
        let deadline = Lease::first_deadline(leases);
        let guarded = !leases.is_empty() && self.on_lost == OnLost::Terminate;
        // Also a job that may go on without the lock starts with it.
        job.start(environment, deadline.minus(self.kill_after), guarded.then_some(deadline))
    }

    fn not_started(&self, failure: NotStarted) -> anyhow::Error {
        let name = &self.name;
        let (code, why) = match failure {
            NotStarted::NotFound => (NOT_FOUND, format!("'{name}' is not found")),
            NotStarted::NotExecutable(why) => (NOT_EXECUTABLE, format!("'{name}' cannot be executed: {why}")),
            NotStarted::TooLate => {
                let locks = &self.locks;
                let why = "redlock was stopped, the machine slept, or the store or a file system was slow";
                (
                    UNREACHABLE,
                    format!(
                        "the lease of {locks} was over before '{name}' could start ({why}); nothing was started, try again"
                    ),
                )
            }
            NotStarted::NoGuard => {
                (UNREACHABLE, format!("the guard was killed before '{name}' had started; nothing of it runs"))
            }
        };
        Failed { code, why }.into()
    }

    /// Renews in the background what nobody else renews.
    fn keep(
        &self,
        store: Box<dyn Store>,
        leases: Vec<Lease>,
        finish: (UnixStream, UnixStream),
        control: Control,
        messages: Messages,
    ) -> Option<Keeper<impl FnMut(Progress) + Send + 'static>> {
        let &Plan { on_lost, kill_after, .. } = self;
        let telling = Telling { control, messages, locks: self.locks.clone(), on_lost, kill_after };
        let reserve = if on_lost == OnLost::Terminate { kill_after } else { Duration::ZERO };
        let report = move |progress: Progress| telling.tell(&progress);
        (!leases.is_empty()).then(|| Keeper::new(store, leases, finish, reserve, report))
    }

    /// Says what was out of the ordinary, and how to end.
    fn conclude(&self, end: &End, kept: Option<Kept>, messages: Messages) -> Outcome {
        let Plan { locks, name, taking, .. } = self;
        let (taken, ttl, leftovers) = (taking.names(), taking.ttl, end.ended.leftovers);
        match end.guard_lost {
            Some(GuardLoss::Killed) => messages.error(format_args!(
                "the guard of {locks} was killed; the job was killed too, as nothing guarded it"
            )),
            Some(GuardLoss::Stopped) => messages.error(format_args!(
                "the guard of {locks} was stopped when it had to end the job; both were killed"
            )),
            None => {}
        }
        let is_lost = kept == Some(Kept::Lost);
        if end.ended.expired && !is_lost {
            messages
                .error(format_args!("lost {locks}: the lease was not renewed in time; the job was stopped"));
            return Outcome::Exit(LOST);
        }
        match (kept, leftovers) {
            // The job around us has them now.
            (None, _) | (Some(Kept::Borrowed | Kept::Lost), false) => {}
            (Some(Kept::Borrowed), true) => messages.warning(format_args!(
                "'{name}' left processes behind; nothing ends them with the lease of {locks} any more"
            )),
            (Some(Kept::Lost), true) => messages
                .warning(format_args!("'{name}' left processes behind; they run on without {locks}")),
            (Some(Kept::Released), false) => messages.note(format_args!("released {taken}")),
            (Some(Kept::Released), true) => messages.warning(format_args!(
                "'{name}' left processes behind; redlock gave {taken} back while they run"
            )),
            (Some(Kept::Unreleased), false) => messages.warning(format_args!(
                "could not give {taken} back; free when the lease ends, within {ttl}"
            )),
            (Some(Kept::Unreleased), true) => messages.warning(format_args!(
                "'{name}' left processes behind, and redlock could not give {taken} back; free when the lease ends, within {ttl}"
            )),
        }
        match end.ended.status {
            _ if is_lost => Outcome::Exit(LOST),
            _ if end.timed_out => Outcome::Exit(TIMED_OUT),
            Status::Exited(code) => Outcome::Exit(code as u8),
            Status::Signaled(signal) => Outcome::Signal(signal),
        }
    }
}
