//! The messages of the other threads to the one that draws.

use ratatui::crossterm::event::KeyEvent;

use crate::error::Failure;
use crate::lock::{Key, Survey};

pub enum News {
    Key(KeyEvent),
    Paste(String),
    Resized,
    /// The terminal is gone.
    NoInput,
    Locks(Result<Survey, Failure>),
    /// The result of an attempt to break a lock.
    Answer {
        key: Key,
        text: String,
    },
}
