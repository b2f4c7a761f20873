//! The caller's terminal, taken for a while and given back as it was found.

use std::io::{self, Stdout, stdout};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgrp, tcgetpgrp};
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};

use crate::clock::Deadline;
use crate::error::{Failure, Outcome};
use crate::job::Signals;
use crate::poll::{is_writable, wait_readable};

/// A terminal that takes nothing more does not keep this process for longer.
const FULL_TERMINAL: Duration = Duration::from_millis(500);
/// From one look to the next whether the terminal is ours again, where nothing stops a job in the background.
pub const IN_BACKGROUND: Duration = Duration::from_millis(100);

/// The terminal while it is ours. It is given back when this is dropped.
pub struct TakenTerminal {
    found: Termios,
    is_taken: bool,
    /// The signal that came while the terminal was another's.
    end: Option<Outcome>,
    pub signals: Signals,
    /// Says when somebody stops this process, before it stops, and when it goes on.
    pub stops: SignalFd,
}

impl TakenTerminal {
    /// Takes the terminal. To be called before the threads start that must not get the signals.
    pub fn take() -> Result<TakenTerminal, Failure> {
        let signals = Signals::listen().map_err(Failure::cannot("handle signals"))?;
        let stops = stops().map_err(|errno| Failure::cannot("handle signals")(errno.into()))?;
        let found = tcgetattr(stdout()).map_err(|errno| cannot_use(errno.into()))?;
        let mut terminal = TakenTerminal { found, is_taken: false, end: None, signals, stops };
        terminal.enter()?;
        Ok(terminal)
    }

    /// The end of this process that a signal asks for.
    pub fn ending(&mut self) -> Option<Outcome> {
        let mut arrived = || self.signals.take().filter(|arrived| !arrived.is_for_the_command());
        self.end.take().or_else(|| arrived().map(|arrived| Outcome::Signal(arrived.signal)))
    }

    /// Gives the terminal back and stops the process group, until the caller continues it; then takes the terminal again.
    pub fn suspend(&mut self) -> Result<(), Failure> {
        self.give_back();
        stop_job(Signal::SIGTSTP);
        self.enter()
    }

    /// Takes the terminal, once this job is in the foreground or a signal came. Others may have used it since.
    pub fn enter(&mut self) -> Result<(), Failure> {
        while !is_in_front() {
            // A shell ends a stopped job by SIGTERM and then SIGCONT. Stopped again, it would never end.
            self.end = self.ending();
            if self.end.is_some() {
                return Ok(());
            }
            stop_job(Signal::SIGTTOU);
            wait_readable([self.signals.as_fd()], Deadline::after(IN_BACKGROUND));
        }
        let mut raw = self.found.clone();
        cfmakeraw(&mut raw);
        self.is_taken = true;
        tcsetattr(stdout(), SetArg::TCSANOW, &raw).map_err(|errno| cannot_use(errno.into()))?;
        execute!(stdout(), EnterAlternateScreen, Hide, EnableBracketedPaste).map_err(cannot_use)
    }

    fn give_back(&mut self) {
        if !std::mem::take(&mut self.is_taken) {
            return;
        }
        if is_writable(Stdout::as_fd(&stdout()), FULL_TERMINAL) {
            let _ = execute!(stdout(), DisableBracketedPaste, Show, LeaveAlternateScreen);
        }
        // Another job that has the terminal now has set its modes.
        if is_in_front() {
            let _ = tcsetattr(stdout(), SetArg::TCSANOW, &self.found);
        }
    }
}

impl Drop for TakenTerminal {
    fn drop(&mut self) {
        self.give_back();
    }
}

fn cannot_use(error: io::Error) -> Failure {
    Failure::cannot("use the terminal")(error)
}

fn stops() -> nix::Result<SignalFd> {
    let signals = SigSet::from_iter([Signal::SIGTSTP, Signal::SIGCONT]);
    signals.thread_block()?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

/// True if the terminal is that of this job now, and of no other one. Fails when it is gone.
pub fn in_front() -> nix::Result<bool> {
    Ok(tcgetpgrp(stdout())? == getpgrp())
}

/// The same; `true` when the terminal is gone, as the next use of it reports that.
pub fn is_in_front() -> bool {
    in_front().unwrap_or(true)
}

/// Stops the process group, as the terminal does, until the caller continues it.
fn stop_job(signal: Signal) {
    let Ok(mask) = SigSet::from(signal).thread_swap_mask(SigmaskHow::SIG_UNBLOCK) else { return };
    let _ = kill(Pid::from_raw(0), signal);
    let _ = mask.thread_set_mask();
}
