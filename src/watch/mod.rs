//! `status --watch`: the locks on the whole screen, until a key ends it.

mod change;
mod follow;
mod keyboard;
mod lines;
mod news;
mod screen;
mod surveyor;
mod terminal;
mod view;
#[cfg(test)]
mod watch_test;

use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write, stderr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::thread;

use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::dup2_stderr;
use ratatui::crossterm::style::force_color_output;

use self::follow::Watching;
use self::keyboard::read_keys;
use self::screen::Screen;
use self::surveyor::{keep_looking, look};
use self::terminal::TakenTerminal;
use self::view::View;
use crate::error::{Failure, Outcome};
use crate::mailbox::mailbox;
use crate::options::LockSelection;
use crate::sanitize::sanitize;
use crate::session::Context;

/// Shows the locks until the user has seen enough. Standard output is a terminal, which stays as it is until the store has
/// answered for the first time.
pub fn watch(selection: LockSelection, context: Context) -> anyhow::Result<Outcome> {
    let mut store = context.open_store();
    let view = View::new(look(&selection, store.as_mut(), &context)?, selection.is_one());
    let (colour, patience) = (context.colour(), context.options.connect_timeout);
    let screen = Screen { colour, server: context.options.server.to_string(), words: selection.words() };
    let terminal = TakenTerminal::take()?;
    let (orders, received) = mpsc::channel();
    let (sender, news) = mailbox().map_err(Failure::cannot("open a descriptor"))?;
    let keys = sender.clone();
    // The threads may be waiting at the end: they end with the process.
    spawn_without_signals(move || read_keys(&keys));
    spawn_without_signals(move || keep_looking(&selection, store.as_mut(), &context, &received, &sender));
    let stderr_before = leave_stderr();
    force_color_output(colour);
    let (end, last_words) = Watching::new(view, screen, terminal, orders, patience).follow(&news);
    if let Some(before) = stderr_before {
        let _ = dup2_stderr(before);
    }
    for line in last_words {
        let _ = writeln!(stderr(), "redlock: {}", sanitize(&line));
    }
    Ok(end?)
}

/// Starts a thread that gets no signal. A shell ends a stopped screen by SIGTERM and then SIGCONT. A thread that took the
/// SIGTERM could be stopped again before it says so, and the screen would stay stopped.
fn spawn_without_signals(work: impl FnOnce() + Send + 'static) {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
    thread::spawn(work);
    let _ = before.and_then(|before| before.thread_set_mask());
}

/// Events are for files and logs from here on: on the screen they would be in the way. Returns where stderr led.
fn leave_stderr() -> Option<OwnedFd> {
    let stderr = io::stderr();
    let before = stderr.as_fd().try_clone_to_owned().ok().filter(|_| stderr.is_terminal())?;
    let null = OpenOptions::new().write(true).open("/dev/null").ok()?;
    dup2_stderr(&null).ok().map(|()| before)
}
