//! The view: the locks and texts that are on the screen.

mod keys;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::change::changes;
use super::surveyor::BreakOrder;
use crate::error::Failure;
use crate::lock::{Holder, Key, LockStatus, Metadata, Survey, unix_millis};
use crate::report::{clock, not_as_asked};
use crate::session::AskedAbout;

/// So many events are kept.
const EVENTS: usize = 200;

/// The list shows at most so many holders and waiters of a lock; the lock in full shows all of them.
pub const LISTED: usize = 3;

/// By what the list is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Key,
    HeldLongest,
    LeastLeft,
    MostWaiters,
}

impl Sort {
    const ALL: [Sort; 4] = [Sort::Key, Sort::HeldLongest, Sort::LeastLeft, Sort::MostWaiters];

    pub fn name(self) -> &'static str {
        match self {
            Sort::Key => "key",
            Sort::HeldLongest => "held longest",
            Sort::LeastLeft => "least left",
            Sort::MostWaiters => "most waiters",
        }
    }

    fn next(self) -> Sort {
        let place = Sort::ALL.iter().position(|one| *one == self).unwrap_or(0);
        Sort::ALL[(place + 1) % Sort::ALL.len()]
    }
}

/// The text that is being typed, or the question that is asked.
#[derive(PartialEq, Eq)]
pub enum Prompt {
    None,
    Filter,
    /// Asks for confirmation before this lock is broken.
    Break {
        key: Key,
        asked: AskedAbout,
        question: String,
    },
    /// Why, for its holder and the history.
    Reason {
        key: Key,
        asked: AskedAbout,
        reason: String,
    },
    /// The reason why no question is asked, or none any more. Text that was typed for it is not a command: only Enter
    /// and Esc are keys here.
    Refused(String),
}

/// An action that a key asks for and the view cannot do itself.
pub enum Action {
    Break(BreakOrder),
    Quit,
    Interrupt,
    Suspend,
    Redraw,
}

pub struct View {
    pub locks: Vec<LockStatus>,
    /// The locks that the filter lets through, sorted: indices into `locks`.
    pub shown: Vec<usize>,
    /// Why not all of the locks are there.
    pub trouble: Option<String>,
    /// When the locks were seen last.
    pub seen: Instant,
    pub filter: String,
    pub sort: Sort,
    pub prompt: Prompt,
    pub events: VecDeque<String>,
    /// The result of the last key, until the next one.
    pub answer: Option<String>,
    /// One lock in full, from this line on.
    pub full: Option<usize>,
    /// The lock that the keys are about. It stays the same where others come and go.
    selected: Option<Key>,
    /// The first lock in the list.
    pub top: usize,
    /// How far a page is, as it was drawn last.
    pub page: usize,
    /// How many columns and lines a question can have, as it was drawn last.
    pub room: (usize, usize),
    /// The locks that are being broken.
    pub orders: Vec<Key>,
}

impl View {
    pub fn new(survey: Survey, is_one: bool) -> View {
        let mut view = View {
            locks: Vec::new(),
            shown: Vec::new(),
            trouble: None,
            seen: Instant::now(),
            filter: String::new(),
            sort: Sort::Key,
            prompt: Prompt::None,
            events: VecDeque::new(),
            answer: None,
            full: None,
            selected: None,
            top: 0,
            page: 1,
            room: (80, 22),
            orders: Vec::new(),
        };
        view.replace(survey);
        view.full = is_one.then_some(0);
        view
    }

    /// Takes what the store answered, and notes what has happened since the last answer.
    pub fn take(&mut self, answer: Result<Survey, Failure>) {
        match answer {
            // A part that is hidden looks as if it were free.
            Ok(survey) => {
                if self.trouble.is_none() && survey.hidden.is_empty() {
                    changes(&self.locks, &survey.locks).into_iter().for_each(|change| self.note(&change));
                }
                self.replace(survey);
            }
            Err(failure) => self.trouble = Some(failure.to_string()),
        }
    }

    fn replace(&mut self, survey: Survey) {
        self.trouble = survey.hidden.first().map(|error| format!("this is not all: {error}"));
        let place = self.place();
        self.locks = survey.locks;
        self.seen = Instant::now();
        self.choose(place);
        self.check_question();
    }

    /// Takes back a question when the lock is not as it was asked about any more.
    fn check_question(&mut self) {
        let (Prompt::Break { key, asked, .. } | Prompt::Reason { key, asked, .. }) = &self.prompt else {
            return;
        };
        let lock = self.locks.iter().find(|lock| lock.key == *key);
        let holders = lock.map_or(&[][..], |lock| &lock.holders);
        let why = match asked.change(holders) {
            Some(now) => not_as_asked(key, now),
            None if holders.is_empty() => format!("nobody holds '{key}' any more"),
            None => return,
        };
        self.refuse(why);
    }

    /// Asks no question, and says why.
    pub fn refuse(&mut self, why: String) {
        self.note(&why);
        self.prompt = Prompt::Refused(why);
    }

    /// Says what became of a lock that was to be broken.
    pub fn answer_order(&mut self, key: &Key, answer: String) {
        self.orders.retain(|order| order != key);
        self.note(&answer);
        self.answer = Some(answer);
    }

    /// Adds a line to the events.
    pub fn note(&mut self, what: &str) {
        self.events.push_back(format!("{}  {what}", clock(unix_millis())));
        if self.events.len() > EVENTS {
            self.events.pop_front();
        }
    }

    /// How long ago the locks were seen, in whole seconds: what counts down does so once a second.
    pub fn age(&self) -> Duration {
        Duration::from_secs(self.seen.elapsed().as_secs())
    }

    pub fn selected(&self) -> Option<&LockStatus> {
        self.shown.get(self.place()?).map(|index| &self.locks[*index])
    }

    /// Where the selected lock is in the list.
    pub fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.shown.iter().position(|index| self.locks[*index].key == *selected)
    }

    /// Chooses and sorts what is shown. The selected lock stays selected, or else the one that took its place.
    fn choose(&mut self, place: Option<usize>) {
        let filter = self.filter.to_lowercase();
        self.shown = (0..self.locks.len()).filter(|index| matches(&self.locks[*index], &filter)).collect();
        let locks = &self.locks;
        match self.sort {
            Sort::Key => self.shown.sort_by_key(|index| &locks[*index].key),
            Sort::HeldLongest => {
                let since = |lock: &LockStatus| lock.holders.iter().filter_map(|holder| holder.since).min();
                self.shown.sort_by_key(|index| since(&locks[*index]).unwrap_or(u64::MAX));
            }
            Sort::LeastLeft => {
                let left = |lock: &LockStatus| lock.holders.iter().filter_map(|holder| holder.left).min();
                self.shown.sort_by_key(|index| left(&locks[*index]).unwrap_or(Duration::MAX));
            }
            Sort::MostWaiters => {
                self.shown.sort_by_key(|index| std::cmp::Reverse(locks[*index].waiters.len()));
            }
        }
        if self.place().is_none() {
            // Nobody meant the lock that took its place.
            self.full = None;
            self.select(place.unwrap_or(0));
        }
    }

    fn select(&mut self, place: usize) {
        let place = place.min(self.shown.len().saturating_sub(1));
        self.selected = self.shown.get(place).map(|index| self.locks[*index].key.clone());
    }

    /// Moves by so many locks in the list, or by so many lines in a lock in full.
    fn go(&mut self, by: isize) {
        match &mut self.full {
            Some(line) => *line = line.saturating_add_signed(by),
            None => self.select(self.place().unwrap_or(0).saturating_add_signed(by)),
        }
    }
}

/// True if the key, or a party of the lock, contains the filter.
fn matches(lock: &LockStatus, filter: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(filter);
    let names = |one: &Metadata| has(&one.host) || has(&one.user) || has(&one.label);
    let metadata = |holder: &Holder| holder.metadata.as_ref().is_some_and(names);
    filter.is_empty()
        || has(lock.key.as_str())
        || lock.holders.iter().any(metadata)
        || lock.waiters.iter().any(|waiter| names(&waiter.metadata))
}
