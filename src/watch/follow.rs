//! Draws what happens, and does what the keys say.

use std::io::{self, Stdout, stdout};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::Signal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

use super::news::News;
use super::screen::Screen;
use super::surveyor::Order;
use super::terminal::{TakenTerminal, is_in_front};
use super::view::{Action, Prompt, View};
use crate::clock::Deadline;
use crate::error::{Failure, Outcome};
use crate::mailbox::Mailbox;
use crate::poll::wait_readable;
use crate::report::{names, size};

/// The clock and the leases are drawn again so often.
const TICK: Duration = Duration::from_secs(1);

/// A look at the store that is under way ends in this time, or the store does not answer: then it holds no one up.
const LOOK: Duration = Duration::from_secs(1);

/// The tools of the thread that draws.
pub struct Watching {
    view: View,
    screen: Screen,
    terminal: TakenTerminal,
    orders: mpsc::Sender<Order>,
    /// How long a user who leaves waits for the answers to orders.
    patience: Duration,
    /// Why to end when these have come, and when to end without them.
    leaving: Option<(Outcome, Deadline)>,
    last_words: Vec<String>,
    /// The locks that are drawn; `None` when none of them is there any more.
    area: Option<Rect>,
}

/// Why the watching ended, and what is left to be said on the terminal that was given back.
pub type WatchEnd = (Result<Outcome, Failure>, Vec<String>);

impl Watching {
    pub fn new(
        view: View,
        screen: Screen,
        terminal: TakenTerminal,
        orders: mpsc::Sender<Order>,
        patience: Duration,
    ) -> Watching {
        let (leaving, last_words, area) = (None, Vec::new(), None);
        Watching { view, screen, terminal, orders, patience, leaving, last_words, area }
    }

    /// Draws until the end.
    pub fn follow(mut self, news: &Mailbox<News>) -> WatchEnd {
        let end = self.draw_until_the_end(news);
        let unknown = |key| format!("whether '{key}' was broken is unknown: the store has not answered");
        self.last_words.extend(self.view.orders.iter().map(unknown));
        (end, self.last_words)
    }

    fn draw_until_the_end(&mut self, news: &Mailbox<News>) -> Result<Outcome, Failure> {
        // ratatui would ask another program about a terminal that does not know its size.
        let options = TerminalOptions { viewport: Viewport::Fixed(area()) };
        let mut terminal =
            Terminal::with_options(CrosstermBackend::new(stdout()), options).map_err(|_| no_terminal())?;
        loop {
            // In the background somebody else has the terminal.
            if is_in_front() {
                self.draw(&mut terminal).map_err(|_| no_terminal())?;
            }
            let fds = [self.terminal.signals.as_fd(), self.terminal.stops.as_fd(), news.as_fd()];
            wait_readable(fds, Deadline::after(TICK));
            if let Some(end) = self.terminal.ending() {
                return Ok(end);
            }
            while let Ok(Some(signal)) = self.terminal.stops.read_signal() {
                match signal.ssi_signo == Signal::SIGTSTP as u32 {
                    true => self.rest(TakenTerminal::suspend)?,
                    false => self.rest(TakenTerminal::enter)?,
                }
            }
            while let Ok(Some(news)) = news.take() {
                if let Some(end) = self.hear(news)? {
                    return Ok(end);
                }
            }
            let is_over = |(_, until): &mut (_, Deadline)| self.view.orders.is_empty() || until.has_passed();
            if let Some((end, _)) = self.leaving.take_if(is_over) {
                return Ok(end);
            }
        }
    }

    fn draw(&mut self, terminal: &mut Terminal<CrosstermBackend<Stdout>>) -> io::Result<()> {
        let area = area();
        if self.area.replace(area) != Some(area) {
            terminal.resize(area)?;
        }
        terminal.draw(|frame| self.screen.draw(&mut self.view, frame)).map(drop)
    }

    /// Takes a piece of news; the end, if it is that.
    fn hear(&mut self, news: News) -> Result<Option<Outcome>, Failure> {
        match news {
            News::Key(key) => match self.view.press(key) {
                None => {}
                Some(Action::Break(order)) => drop(self.orders.send(Order::Break(order))),
                Some(Action::Quit) => return Ok(self.leave(Outcome::SUCCESS)),
                // Ctrl-C sends no signal while the terminal is ours.
                Some(Action::Interrupt) => return Ok(self.leave(Outcome::Signal(libc::SIGINT))),
                Some(Action::Suspend) => self.rest(TakenTerminal::suspend)?,
                Some(Action::Redraw) => self.area = None,
            },
            News::Paste(text) => self.view.paste(&text),
            News::Resized => self.area = None,
            News::NoInput => return Err(no_terminal()),
            News::Locks(answer) => self.view.take(answer),
            News::Answer { key, text } => {
                if self.leaving.is_some() {
                    self.last_words.push(text.clone());
                }
                self.view.answer_order(&key, text);
            }
        }
        Ok(None)
    }

    /// Ends at once when nothing was ordered, or when that is asked for a second time.
    fn leave(&mut self, end: Outcome) -> Option<Outcome> {
        if self.view.orders.is_empty() || self.leaving.is_some() {
            return Some(end);
        }
        let orders = names(&self.view.orders);
        self.view.answer = Some(format!("waiting to hear what became of {orders}; q again leaves at once"));
        self.view.prompt = Prompt::None;
        self.leaving = Some((end, Deadline::after(self.patience)));
        None
    }

    /// Does what may stop this process while nobody asks the store: stopped in the middle of a transaction, it would
    /// keep every other process on this host waiting.
    fn rest(&mut self, stop: fn(&mut TakenTerminal) -> Result<(), Failure>) -> Result<(), Failure> {
        let ((resting, is_resting), (go_on, until)) = (mpsc::channel(), mpsc::channel());
        drop(self.orders.send(Order::Rest(resting, until)));
        let _ = is_resting.recv_timeout(LOOK);
        let stopped = stop(&mut self.terminal);
        drop(go_on);
        self.area = None;
        stopped
    }
}

fn no_terminal() -> Failure {
    Failure::usage("--watch needs a terminal that it can read keys from and draw on")
}

fn area() -> Rect {
    let (columns, rows) = size(stdout());
    Rect::new(0, 0, columns, rows)
}
