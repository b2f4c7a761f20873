//! The terminal, borrowed for a while. One process draws; the one that the caller waits for gives the terminal back as it
//! was, however the other one ends.

use std::cell::Cell;
use std::io::{self, Stdout, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpgrp, tcgetpgrp};
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use serde::{Deserialize, Serialize};

use crate::clock::Deadline;
use crate::error::{BUG, Failure, Outcome};
use crate::job::{Channel, Signals, fork_off};
use crate::poll::{is_readable, is_writable, wait_readable};

/// From the process that draws to the other one.
#[derive(Serialize, Deserialize)]
enum LoanRequest {
    Take,
    /// Ctrl-Z: the terminal is somebody else's until the caller continues this job.
    Suspend,
    End(WatchEnd),
}

/// The answer to the first two. Not a unit struct: an empty packet is the end of the line.
#[derive(Serialize, Deserialize)]
enum LoanReply {
    Taken,
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
    let end = serve(&terminal, drawer, &line, &mut signals);
    let _ = kill(drawer, Signal::SIGKILL);
    let _ = waitpid(drawer, None);
    terminal.give_back();
    Ok(end?)
}

/// Lends the terminal until one of the two wants no more.
fn serve(
    terminal: &BorrowedTerminal,
    drawer: Pid,
    line: &Channel,
    signals: &mut Signals,
) -> Result<Outcome, Failure> {
    loop {
        wait_readable([signals.as_fd(), line.as_fd()], Deadline::NEVER);
        if let Some(signal) = last_signal(signals) {
            return Ok(Outcome::Signal(signal));
        }
        if !is_readable(line.as_fd()) {
            continue;
        }
        match line.receive() {
            Some(LoanRequest::Take) => {}
            Some(LoanRequest::Suspend) => {
                // No signal of the group stops it.
                let _ = kill(drawer, Signal::SIGSTOP);
                terminal.give_back();
                stop_job(Signal::SIGTSTP);
            }
            Some(LoanRequest::End(WatchEnd::Quit)) => return Ok(Outcome::SUCCESS),
            Some(LoanRequest::End(WatchEnd::Interrupted)) => return Ok(Outcome::Signal(libc::SIGINT)),
            Some(LoanRequest::End(WatchEnd::Failed { code, reason })) => {
                return Err(Failure::new(code, reason));
            }
            None => {
                return Err(Failure::new(
                    BUG,
                    "the process that draws the screen was killed; start it again",
                ));
            }
        }
        while !is_in_front() {
            if let Some(signal) = last_signal(signals) {
                return Ok(Outcome::Signal(signal));
            }
            stop_job(Signal::SIGTTOU);
            wait_readable([signals.as_fd()], Deadline::after(IN_BACKGROUND));
        }
        terminal.take().map_err(Failure::cannot("use the terminal"))?;
        let _ = kill(drawer, Signal::SIGCONT);
        line.send(&LoanReply::Taken);
    }
}

/// A terminal that takes nothing more does not keep this process for longer.
const FULL_TERMINAL: Duration = Duration::from_millis(500);
/// Where nothing stops a job in the background.
const IN_BACKGROUND: Duration = Duration::from_millis(100);

/// Whether the terminal is that of this job now, and no other one's.
pub fn is_in_front() -> bool {
    tcgetpgrp(stdout()).is_ok_and(|group| group == getpgrp())
}

/// Stops the whole process group, as the terminal does, until the caller continues it.
fn stop_job(signal: Signal) {
    let _ = kill(Pid::from_raw(0), signal);
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
        self.terminal.is_taken.set(self.line.receive::<LoanReply>().is_some());
        self.terminal.is_taken.get()
    }

    /// Asks the other process to end both.
    pub fn end(&self, end: WatchEnd) {
        self.line.send(&LoanRequest::End(end));
    }

    /// Gives the terminal back and ends this process: the other one is gone.
    pub fn abandon(&self) -> ! {
        self.terminal.give_back();
        std::process::exit(0)
    }
}

/// It is readable when the other process is gone.
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
        let _ = tcsetattr(stdout(), SetArg::TCSANOW, &self.found);
    }
}
