//! Reads keys, in a thread of its own.

use std::io::{self, IsTerminal, stdin, stdout};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::news::News;
use super::terminal::{IN_BACKGROUND, in_front};
use crate::clock::Deadline;
use crate::mailbox::MailboxSender;
use crate::poll::wait_readable;

/// A key of which a part has come is there as a whole by then.
const HALF_A_KEY: Duration = Duration::from_millis(20);

/// Reads keys while the terminal is this job's. Elsewhere, and when the terminal is gone, reading fails, which crossterm
/// would try again without a pause.
pub fn read_keys(news: &MailboxSender<News>) {
    let (stdin, stdout) = (stdin(), stdout());
    let terminal = if stdin.is_terminal() { stdin.as_fd() } else { stdout.as_fd() };
    loop {
        match in_front() {
            Ok(true) => match read_what_is_there(news) {
                Ok(true) => {}
                Ok(false) => thread::sleep(HALF_A_KEY),
                Err(_) => return news.send(News::NoInput),
            },
            Ok(false) => thread::sleep(IN_BACKGROUND),
            Err(_) => return news.send(News::NoInput),
        }
        wait_readable([terminal], Deadline::NEVER);
    }
}

/// True if there was something.
fn read_what_is_there(news: &MailboxSender<News>) -> io::Result<bool> {
    let mut is_some = false;
    while event::poll(Duration::ZERO)? {
        is_some = true;
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => news.send(News::Key(key)),
            Event::Paste(text) => news.send(News::Paste(text)),
            Event::Resize(..) => news.send(News::Resized),
            _ => {}
        }
    }
    Ok(is_some)
}
