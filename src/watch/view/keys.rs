//! The effects of the keys on the view.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Action, Prompt, View};
use crate::report::break_question;
use crate::session::AskedAbout;
use crate::watch::lines::folded;
use crate::watch::surveyor::BreakOrder;

/// In bytes, of the filter and of the reason.
const LONGEST_INPUT: usize = 200;

impl View {
    pub fn press(&mut self, key: KeyEvent) -> Option<Action> {
        self.answer = None;
        let mut code = key.code;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match code {
                KeyCode::Char('c') => return Some(Action::Interrupt),
                KeyCode::Char('z') => return Some(Action::Suspend),
                KeyCode::Char('l') => return Some(Action::Redraw),
                // The character that some terminals send for Backspace.
                KeyCode::Char('h') => code = KeyCode::Backspace,
                KeyCode::Char('u') => {
                    self.clear_input();
                    return None;
                }
                _ => return None,
            }
        }
        // Esc, and a key that came right behind it.
        if key.modifiers.contains(KeyModifiers::ALT) {
            self.react(KeyCode::Esc);
        }
        self.react(code)
    }

    fn react(&mut self, key: KeyCode) -> Option<Action> {
        match &self.prompt {
            Prompt::None => self.command(key),
            Prompt::Filter => {
                self.type_filter(key);
                None
            }
            Prompt::Break { .. } | Prompt::Reason { .. } => self.decide(key),
            Prompt::Refused(_) => {
                if matches!(key, KeyCode::Enter | KeyCode::Esc) {
                    self.prompt = Prompt::None;
                }
                None
            }
        }
    }

    /// Pasted text is not a command.
    pub fn paste(&mut self, text: &str) {
        if matches!(self.prompt, Prompt::Filter | Prompt::Reason { .. }) {
            for c in text.chars().take(LONGEST_INPUT).map(|c| if c.is_control() { ' ' } else { c }) {
                self.react(KeyCode::Char(c));
            }
        }
    }

    fn command(&mut self, key: KeyCode) -> Option<Action> {
        let page = self.page as isize;
        match key {
            KeyCode::Char('q') => return Some(Action::Quit),
            KeyCode::Esc if self.full.is_some() => self.full = None,
            KeyCode::Esc => self.set_filter(String::new()),
            KeyCode::Char('/') => (self.full, self.prompt) = (None, Prompt::Filter),
            KeyCode::Char('s') if self.full.is_none() => {
                self.sort = self.sort.next();
                self.choose(None);
            }
            KeyCode::Enter => self.full = if self.full.is_none() { self.selected().map(|_| 0) } else { None },
            KeyCode::Char('b') => self.ask_to_break(),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.go(page),
            KeyCode::Home | KeyCode::Char('g') => self.go(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.go(isize::MAX),
            _ => {}
        }
        None
    }

    fn type_filter(&mut self, key: KeyCode) {
        let mut filter = self.filter.clone();
        match key {
            KeyCode::Char(c) if filter.len() < LONGEST_INPUT => filter.push(c),
            KeyCode::Backspace => drop(filter.pop()),
            KeyCode::Enter => self.prompt = Prompt::None,
            KeyCode::Esc => (self.prompt, filter) = (Prompt::None, String::new()),
            KeyCode::Up => self.go(-1),
            KeyCode::Down => self.go(1),
            _ => {}
        }
        self.set_filter(filter);
    }

    fn set_filter(&mut self, filter: String) {
        if filter != self.filter {
            self.filter = filter;
            self.choose(None);
        }
    }

    fn clear_input(&mut self) {
        match &mut self.prompt {
            Prompt::Filter => self.set_filter(String::new()),
            Prompt::Reason { reason, .. } => reason.clear(),
            _ => {}
        }
    }

    fn ask_to_break(&mut self) {
        let Some(lock) = self.selected() else { return };
        let key = lock.key.clone();
        let Some((first, others)) = lock.holders.split_first() else {
            return self.refuse(format!("nobody holds '{key}', so there is nothing to break"));
        };
        // The answer says whether it is broken: a second time frees it while its job runs.
        if self.orders.contains(&key) {
            return self.refuse(format!("'{key}' is being broken: wait for the answer of the store"));
        }
        let question = format!("{} [y/N]", break_question(&key, first, others, false));
        self.prompt = Prompt::Break { key, asked: AskedAbout::these(&lock.holders), question };
        self.check_room();
    }

    /// Takes back a question that cannot be seen as a whole.
    pub fn check_room(&mut self) {
        let (columns, lines) = self.room;
        if let Prompt::Break { question, .. } = &self.prompt
            && folded(question, columns).len() > lines
        {
            self.refuse("no room to ask here: make the terminal larger".to_owned());
        }
    }

    /// Takes a key of the dialogue before a lock is broken.
    fn decide(&mut self, pressed: KeyCode) -> Option<Action> {
        self.prompt = match (std::mem::replace(&mut self.prompt, Prompt::None), pressed) {
            (Prompt::Break { key, asked, .. }, KeyCode::Char('y' | 'Y')) => {
                Prompt::Reason { key, asked, reason: String::new() }
            }
            (Prompt::Reason { key, asked, reason }, KeyCode::Enter) => {
                self.answer = Some(format!("breaking '{key}'"));
                self.orders.push(key.clone());
                let reason = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
                return Some(Action::Break(BreakOrder { key, asked, reason }));
            }
            (Prompt::Reason { key, asked, mut reason }, pressed) if pressed != KeyCode::Esc => {
                match pressed {
                    KeyCode::Char(c) if reason.len() < LONGEST_INPUT => reason.push(c),
                    KeyCode::Backspace => drop(reason.pop()),
                    _ => {}
                }
                Prompt::Reason { key, asked, reason }
            }
            _ => Prompt::None,
        };
        None
    }
}
