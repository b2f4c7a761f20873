//! What the threads tell the one that draws.

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
    /// What became of a lock that was to be broken.
    Answer {
        key: Key,
        text: String,
    },
}
