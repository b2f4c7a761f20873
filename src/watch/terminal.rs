//! The terminal, borrowed for a while. One process draws; the one that the caller waits for gives the terminal back as it
//! was, however the other one ends.

use std::cell::Cell;
use std::io::{self, Stdout, Write, stderr, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpgrp, tcgetpgrp};
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use serde::{Deserialize, Serialize};

use crate::clock::Deadline;
use crate::error::{BUG, Failure, Outcome, UNREACHABLE};
use crate::job::{Channel, Signals, fork_off};
use crate::poll::{is_readable, is_writable, wait_readable};
use crate::sanitize::sanitize;

/// From the process that draws to the other one.
#[derive(Serialize, Deserialize)]
enum LoanRequest {
    Take,
    /// Ctrl-Z: the terminal is somebody else's until the caller continues this job.
    Suspend,
    /// With lines for standard error, once the terminal is given back.
    End(WatchEnd, Vec<String>),
}

/// From the process that the caller waits for to the one that draws.
#[derive(Serialize, Deserialize)]
pub enum LoanNews {
    /// The answer to the first two.
    Taken,
    /// Somebody stops this job, as Ctrl-Z does.
    Suspend,
    /// It was stopped and goes on: others may have used the terminal.
    Continued,
}

/// Why the watching ended.
#[derive(Serialize, Deserialize)]
pub enum WatchEnd {
    Quit,
    /// Ctrl-C, which is no signal while the terminal is ours.
    Interrupted,
    Failed {
        code: u8,
        reason: String,
    },
}

impl WatchEnd {
    pub fn of(failure: &Failure) -> WatchEnd {
        match failure {
            Failure::Failed { code, reason } => WatchEnd::Failed { code: *code, reason: reason.clone() },
            other => WatchEnd::Failed { code: UNREACHABLE, reason: other.to_string() },
        }
    }
}

/// What the process that draws has of the terminal.
pub struct Loan {
    line: Channel,
    terminal: BorrowedTerminal,
}

/// Forks a process that does `draw`, and waits for its end. To be called before any thread is started.
pub fn borrow(draw: impl FnOnce(&Loan)) -> anyhow::Result<Outcome> {
    let terminal = BorrowedTerminal::find().map_err(Failure::cannot("use the terminal"))?;
    let (drawer, line) = fork_off(|line| {
        // What tells of another size of the terminal.
        let _ = SigSet::from(Signal::SIGWINCH).thread_unblock();
        draw(&Loan { line, terminal: terminal.clone() });
    })
    .map_err(Failure::cannot("start a process"))?;
    let mut signals = Signals::listen().map_err(Failure::cannot("handle signals"))?;
    let stops = stops().map_err(|errno| Failure::cannot("handle signals")(errno.into()))?;
    let end = serve(&terminal, &line, &mut signals, &stops);
    let _ = kill(drawer, Signal::SIGKILL);
    let _ = waitpid(drawer, None);
    terminal.give_back();
    let (outcome, last_words) = end?;
    for line in last_words {
        let _ = writeln!(stderr(), "redlock: {}", sanitize(&line));
    }
    Ok(outcome)
}

/// Says when somebody stops this process, before it stops, and when it goes on.
fn stops() -> nix::Result<SignalFd> {
    let signals = SigSet::from_iter([Signal::SIGTSTP, Signal::SIGCONT]);
    signals.thread_block()?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

/// Lends the terminal until one of the two wants no more. Returns what is left to be said, too.
fn serve(
    terminal: &BorrowedTerminal,
    line: &Channel,
    signals: &mut Signals,
    stops: &SignalFd,
) -> Result<(Outcome, Vec<String>), Failure> {
    loop {
        wait_readable([signals.as_fd(), line.as_fd(), stops.as_fd()], Deadline::NEVER);
        if let Some(signal) = last_signal(signals) {
            return Ok((Outcome::Signal(signal), Vec::new()));
        }
        while let Ok(Some(signal)) = stops.read_signal() {
            let is_stop = signal.ssi_signo == Signal::SIGTSTP as u32;
            match terminal.is_taken.get() {
                // The one that draws asks for it when it is ready.
                true => line.offer(&if is_stop { LoanNews::Suspend } else { LoanNews::Continued }),
                false if is_stop => stop_job(Signal::SIGTSTP),
                false => {}
            }
        }
        if !is_readable(line.as_fd()) {
            continue;
        }
        match line.receive() {
            Some(LoanRequest::Take) => {}
            Some(LoanRequest::Suspend) => {
                terminal.give_back();
                stop_job(Signal::SIGTSTP);
            }
            Some(LoanRequest::End(end, last_words)) => return Ok((outcome(end)?, last_words)),
            None => {
                return Err(Failure::new(
                    BUG,
                    "the process that draws the screen was killed; start it again",
                ));
            }
        }
        while !is_in_front() {
            if let Some(signal) = last_signal(signals) {
                return Ok((Outcome::Signal(signal), Vec::new()));
            }
            stop_job(Signal::SIGTTOU);
            wait_readable([signals.as_fd()], Deadline::after(IN_BACKGROUND));
        }
        terminal.take().map_err(Failure::cannot("use the terminal"))?;
        line.send(&LoanNews::Taken);
    }
}

fn outcome(end: WatchEnd) -> Result<Outcome, Failure> {
    match end {
        WatchEnd::Quit => Ok(Outcome::SUCCESS),
        WatchEnd::Interrupted => Ok(Outcome::Signal(libc::SIGINT)),
        WatchEnd::Failed { code, reason } => Err(Failure::new(code, reason)),
    }
}

/// A terminal that takes nothing more does not keep this process for longer.
const FULL_TERMINAL: Duration = Duration::from_millis(500);
/// From one look to the next whether the terminal is ours again, where nothing stops a job in the background.
pub const IN_BACKGROUND: Duration = Duration::from_millis(100);

/// Whether the terminal is that of this job now, and no other one's. Fails when it is gone.
pub fn in_front() -> nix::Result<bool> {
    Ok(tcgetpgrp(stdout())? == getpgrp())
}

/// The same; `true` when the terminal is gone, as the next use of it reports that.
pub fn is_in_front() -> bool {
    in_front().unwrap_or(true)
}

/// Stops the whole process group, as the terminal does, until the caller continues it. The process that draws goes on: it
/// may be in the middle of a transaction, for which every other process on this host would wait.
fn stop_job(signal: Signal) {
    let Ok(mask) = SigSet::from(signal).thread_swap_mask(SigmaskHow::SIG_UNBLOCK) else { return };
    let _ = kill(Pid::from_raw(0), signal);
    let _ = mask.thread_set_mask();
}

/// A signal that ends this process.
fn last_signal(signals: &mut Signals) -> Option<i32> {
    signals.take().filter(|arrived| !arrived.is_for_the_command()).map(|arrived| arrived.signal)
}

impl Loan {
    /// Takes the terminal; `false` when the other process is gone.
    pub fn take(&self) -> bool {
        self.ask(&LoanRequest::Take)
    }

    /// Stops this job until the caller continues it.
    pub fn suspend(&self) -> bool {
        self.ask(&LoanRequest::Suspend)
    }

    fn ask(&self, request: &LoanRequest) -> bool {
        self.terminal.is_taken.set(false);
        self.line.send(request);
        loop {
            match self.line.receive() {
                Some(LoanNews::Taken) => break self.terminal.is_taken.set(true),
                // The answer to this request comes when the job goes on, and the terminal is taken anew.
                Some(LoanNews::Suspend | LoanNews::Continued) => {}
                None => return false,
            }
        }
        true
    }

    /// What the other process says; `None` when it is gone.
    pub fn hear(&self) -> Option<LoanNews> {
        self.line.receive()
    }

    /// Asks the other process to end both, with these lines on standard error.
    pub fn end(&self, end: WatchEnd, last_words: Vec<String>) -> ! {
        self.line.send(&LoanRequest::End(end, last_words));
        // This is not reached unless the other process is killed meanwhile.
        while self.hear().is_some() {}
        self.abandon()
    }

    /// Gives the terminal back and ends this process: the other one is gone.
    pub fn abandon(&self) -> ! {
        self.terminal.give_back();
        std::process::exit(0)
    }
}

/// It is readable when the other process says something, or is gone.
impl AsFd for Loan {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

/// How the caller's terminal was found.
#[derive(Clone)]
struct BorrowedTerminal {
    found: Termios,
    is_taken: Cell<bool>,
}

impl BorrowedTerminal {
    fn find() -> io::Result<BorrowedTerminal> {
        Ok(BorrowedTerminal { found: tcgetattr(stdout())?, is_taken: Cell::new(false) })
    }

    fn take(&self) -> io::Result<()> {
        let mut raw = self.found.clone();
        cfmakeraw(&mut raw);
        self.is_taken.set(true);
        tcsetattr(stdout(), SetArg::TCSANOW, &raw)?;
        execute!(stdout(), EnterAlternateScreen, Hide, EnableBracketedPaste)
    }

    fn give_back(&self) {
        if !self.is_taken.replace(false) {
            return;
        }
        if is_writable(Stdout::as_fd(&stdout()), FULL_TERMINAL) {
            let _ = execute!(stdout(), DisableBracketedPaste, Show, LeaveAlternateScreen);
        }
        // Of another job, which has the terminal now, the modes are its own.
        if is_in_front() {
            let _ = tcsetattr(stdout(), SetArg::TCSANOW, &self.found);
        }
    }
}
