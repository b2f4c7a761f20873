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
use std::io::{IsTerminal, stderr};
use std::sync::mpsc;
use std::thread;

use nix::unistd::dup2_stderr;
use ratatui::crossterm::style::force_color_output;

use self::follow::Watching;
use self::keyboard::read_keys;
use self::screen::Screen;
use self::surveyor::{keep_looking, look};
use self::terminal::{WatchEnd, borrow};
use self::view::View;
use crate::error::{Failure, Outcome};
use crate::mailbox::mailbox;
use crate::options::LockSelection;
use crate::session::Context;

/// Shows the locks until the user has seen enough. Standard output is a terminal, which stays as it is until the store has
/// answered for the first time.
pub fn watch(selection: &LockSelection, context: &Context) -> anyhow::Result<Outcome> {
    borrow(|loan| {
        let mut store = context.open_store();
        let first = match look(selection, store.as_mut(), context) {
            Ok(survey) => survey,
            Err(failure) => loan.end(WatchEnd::of(&failure), Vec::new()),
        };
        let (orders, received) = mpsc::channel();
        let (sender, news) = match mailbox() {
            Ok(mailbox) => mailbox,
            Err(error) => loan.end(WatchEnd::of(&Failure::cannot("open a descriptor")(error)), Vec::new()),
        };
        let keys = sender.clone();
        thread::scope(|scope| {
            scope.spawn(move || read_keys(&keys));
            scope.spawn(move || keep_looking(selection, store.as_mut(), context, &received, &sender));
            leave_stderr();
            force_color_output(context.colour());
            let screen = Screen {
                colour: context.colour(),
                server: context.options.server.to_string(),
                words: selection.words(),
            };
            let view = View::new(first, selection.is_one());
            let patience = context.options.connect_timeout;
            let (end, last_words) = Watching::new(view, screen, loan, orders, patience).follow(&news);
            // The threads may be waiting: they end with the process.
            loan.end(end, last_words);
        });
    })
}

/// Events are for files and logs from here on: on the screen they would be in the way.
fn leave_stderr() {
    if stderr().is_terminal()
        && let Ok(null) = OpenOptions::new().write(true).open("/dev/null")
    {
        let _ = dup2_stderr(&null);
    }
}
