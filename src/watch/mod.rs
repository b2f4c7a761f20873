//! `status --watch`: the locks on the whole screen, until a key ends it.

mod change;
mod screen;
mod surveyor;
mod terminal;
mod view;
#[cfg(test)]
mod watch_test;

use std::fs::OpenOptions;
use std::io::{IsTerminal, stderr, stdout};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::unistd::dup2_stderr;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::crossterm::style::force_color_output;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

use self::screen::Screen;
use self::surveyor::{BreakOrder, keep_looking, look};
use self::terminal::{Loan, WatchEnd, borrow, is_in_front};
use self::view::{Action, View};
use crate::clock::Deadline;
use crate::error::{Failure, Outcome, UNREACHABLE};
use crate::lock::{Key, Survey};
use crate::mailbox::{Mailbox, mailbox};
use crate::options::LockSelection;
use crate::poll::{is_readable, wait_readable};
use crate::report::size;
use crate::session::Context;

/// The clock and the leases are drawn anew so often.
const TICK: Duration = Duration::from_secs(1);

/// What the threads tell the one that draws.
enum News {
    Key(KeyEvent),
    Paste(String),
    Resized,
    /// The terminal is gone.
    NoInput,
    Locks(Result<Survey, Failure>),
    /// What became of a lock that was to be broken.
    Answer {
        key: Key,
        text: String,
    },
}

/// Shows the locks until the user has seen enough. Standard output is a terminal, which stays as it is until the store has
/// answered for the first time.
pub fn watch(selection: &LockSelection, context: &Context) -> anyhow::Result<Outcome> {
    borrow(|loan| {
        let mut store = context.open_store();
        let first = match look(selection, store.as_mut(), context) {
            Ok(survey) => survey,
            Err(failure) => return loan.end(failed(&failure)),
        };
        let (orders, received) = mpsc::channel();
        let (sender, news) = match mailbox() {
            Ok(mailbox) => mailbox,
            Err(error) => return loan.end(failed(&Failure::cannot("open a descriptor")(error))),
        };
        let input = sender.clone();
        thread::scope(|scope| {
            scope.spawn(move || {
                loop {
                    input.send(match event::read() {
                        Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => News::Key(key),
                        Ok(Event::Paste(text)) => News::Paste(text),
                        Ok(Event::Resize(..)) => News::Resized,
                        Ok(_) => continue,
                        Err(_) => return input.send(News::NoInput),
                    });
                }
            });
            scope.spawn(move || keep_looking(selection, store.as_mut(), context, &received, &sender));
            leave_stderr();
            force_color_output(context.colour());
            let screen = Screen {
                colour: context.colour(),
                server: context.options.server.to_string(),
                words: selection.words(),
            };
            let end = follow(View::new(first, selection.is_one()), &screen, loan, &news, &orders);
            // The threads may be waiting: they end with the process.
            loan.end(end);
        });
    })
}

/// Draws what happens, and does what the keys say.
fn follow(
    mut view: View,
    screen: &Screen,
    loan: &Loan,
    news: &Mailbox<News>,
    orders: &mpsc::Sender<BreakOrder>,
) -> WatchEnd {
    if !loan.take() {
        loan.abandon();
    }
    // Of a terminal that does not know its size, ratatui would ask another program.
    let viewport = Viewport::Fixed(area());
    let Ok(mut terminal) =
        Terminal::with_options(CrosstermBackend::new(stdout()), TerminalOptions { viewport })
    else {
        return WatchEnd::Quit;
    };
    loop {
        // Somebody stopped the other process, and has the terminal.
        if is_in_front() && terminal.draw(|frame| screen.draw(&mut view, frame)).is_err() {
            return WatchEnd::Quit;
        }
        wait_readable([loan.as_fd(), news.as_fd()], Deadline::after(TICK));
        if is_readable(loan.as_fd()) {
            loan.abandon();
        }
        while let Ok(Some(news)) = news.take() {
            let action = match news {
                News::Key(key) => view.press(key),
                News::Resized => Some(Action::Redraw),
                News::Paste(text) => {
                    view.paste(&text);
                    None
                }
                News::NoInput => {
                    return failed(&Failure::usage("--watch needs a terminal that it can read keys from"));
                }
                News::Locks(answer) => {
                    view.take(answer);
                    None
                }
                News::Answer { key, text } => {
                    view.answer_order(&key, text);
                    None
                }
            };
            match action {
                None => {}
                Some(Action::Break(order)) => drop(orders.send(order)),
                Some(Action::Quit) => return WatchEnd::Quit,
                Some(Action::Interrupt) => return WatchEnd::Interrupted,
                Some(Action::Suspend) if !loan.suspend() => loan.abandon(),
                Some(Action::Suspend | Action::Redraw) => drop(terminal.resize(area())),
            }
        }
    }
}

/// Events are for files and logs from here on: on the screen they would be in the way.
fn leave_stderr() {
    if stderr().is_terminal()
        && let Ok(null) = OpenOptions::new().write(true).open("/dev/null")
    {
        let _ = dup2_stderr(&null);
    }
}

fn area() -> Rect {
    let (columns, rows) = size(stdout());
    Rect::new(0, 0, columns, rows)
}

fn failed(failure: &Failure) -> WatchEnd {
    match failure {
        Failure::Failed { code, reason } => WatchEnd::Failed { code: *code, reason: reason.clone() },
        other => WatchEnd::Failed { code: UNREACHABLE, reason: other.to_string() },
    }
}
