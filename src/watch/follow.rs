//! Draws what happens, and does what the keys say.

use std::io::{self, Stdout, stdout};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

use super::news::News;
use super::screen::Screen;
use super::surveyor::Order;
use super::terminal::{Loan, LoanNews, WatchEnd, is_in_front};
use super::view::{Action, Prompt, View};
use crate::clock::Deadline;
use crate::error::Failure;
use crate::mailbox::Mailbox;
use crate::poll::{is_readable, wait_readable};
use crate::report::{names, size};

/// The clock and the leases are drawn anew so often.
const TICK: Duration = Duration::from_secs(1);

/// What the thread that draws works with.
pub struct Watching<'a> {
    view: View,
    screen: Screen,
    loan: &'a Loan,
    orders: mpsc::Sender<Order>,
    /// How long one who leaves waits for the answers to orders.
    patience: Duration,
    /// Why to end when these have come, and when to end without them.
    leaving: Option<(WatchEnd, Deadline)>,
    last_words: Vec<String>,
    /// What is drawn; `None` when nothing of it is there any more.
    area: Option<Rect>,
}

impl Watching<'_> {
    pub fn new(
        view: View,
        screen: Screen,
        loan: &Loan,
        orders: mpsc::Sender<Order>,
        patience: Duration,
    ) -> Watching<'_> {
        let (leaving, last_words, area) = (None, Vec::new(), None);
        Watching { view, screen, loan, orders, patience, leaving, last_words, area }
    }

    /// Draws until the end, and returns what is to be said then.
    pub fn follow(mut self, news: &Mailbox<News>) -> (WatchEnd, Vec<String>) {
        let end = self.draw_until_the_end(news);
        let unknown = |key| format!("whether '{key}' was broken is unknown: the store has not answered");
        self.last_words.extend(self.view.orders.iter().map(unknown));
        (end, self.last_words)
    }

    fn draw_until_the_end(&mut self, news: &Mailbox<News>) -> WatchEnd {
        self.lend(Loan::take);
        // Of a terminal that does not know its size, ratatui would ask another program.
        let options = TerminalOptions { viewport: Viewport::Fixed(area()) };
        let Ok(mut terminal) = Terminal::with_options(CrosstermBackend::new(stdout()), options) else {
            return no_terminal();
        };
        loop {
            // Somebody stopped the other process, and has the terminal.
            if is_in_front() && self.draw(&mut terminal).is_err() {
                return no_terminal();
            }
            wait_readable([self.loan.as_fd(), news.as_fd()], Deadline::after(TICK));
            if is_readable(self.loan.as_fd()) {
                match self.loan.hear() {
                    Some(LoanNews::Suspend) => self.lend(Loan::suspend),
                    Some(LoanNews::Continued) => self.lend(Loan::take),
                    Some(LoanNews::Taken) => {}
                    None => self.loan.abandon(),
                }
            }
            while let Ok(Some(news)) = news.take() {
                if let Some(end) = self.hear(news) {
                    return end;
                }
            }
            let is_over = |(_, until): &mut (_, Deadline)| self.view.orders.is_empty() || until.has_passed();
            if let Some((end, _)) = self.leaving.take_if(is_over) {
                return end;
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
    fn hear(&mut self, news: News) -> Option<WatchEnd> {
        match news {
            News::Key(key) => match self.view.press(key)? {
                Action::Break(order) => drop(self.orders.send(Order::Break(order))),
                Action::Quit => return self.leave(WatchEnd::Quit),
                Action::Interrupt => return self.leave(WatchEnd::Interrupted),
                Action::Suspend => self.lend(Loan::suspend),
                Action::Redraw => self.area = None,
            },
            News::Paste(text) => self.view.paste(&text),
            News::Resized => self.area = None,
            News::NoInput => return Some(no_terminal()),
            News::Locks(answer) => self.view.take(answer),
            News::Answer { key, text } => {
                if self.leaving.is_some() {
                    self.last_words.push(text.clone());
                }
                self.view.answer_order(&key, text);
            }
        }
        None
    }

    /// Ends at once when nothing was ordered, or when that is asked for a second time.
    fn leave(&mut self, end: WatchEnd) -> Option<WatchEnd> {
        if self.view.orders.is_empty() || self.leaving.is_some() {
            return Some(end);
        }
        let orders = names(&self.view.orders);
        self.view.answer = Some(format!("waiting to hear what became of {orders}; q again leaves at once"));
        self.view.prompt = Prompt::None;
        self.leaving = Some((end, Deadline::after(self.patience)));
        None
    }

    /// Asks the other process for the terminal, or gives it up. Nobody asks the store until this is answered; what is being
    /// asked at the moment is brought to its end.
    fn lend(&mut self, request: fn(&Loan) -> bool) {
        let (go_on, until) = mpsc::channel();
        drop(self.orders.send(Order::Rest(until)));
        if !request(self.loan) {
            self.loan.abandon();
        }
        drop(go_on);
        self.area = None;
    }
}

fn no_terminal() -> WatchEnd {
    WatchEnd::of(&Failure::usage("--watch needs a terminal that it can read keys from and draw on"))
}

fn area() -> Rect {
    let (columns, rows) = size(stdout());
    Rect::new(0, 0, columns, rows)
}
