use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Messages, phrases};
use crate::clock::{BootTime, Deadline};
use crate::lock::{Busy, DurationText, StoreError, WaitObserver};
use crate::sanitize::sanitize;

/// Shows the waiting: one live line on a terminal, elsewhere a line at once and then ever more rarely.
pub struct WaitDisplay {
    messages: Messages,
    start: BootTime,
    live: Option<ProgressBar>,
    next_line: Deadline,
    pause: Duration,
}

/// Between the first two lines where there is no terminal; each next pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(30);

impl WaitDisplay {
    /// Shows nothing yet; the time of the waiting counts from here.
    pub fn new(messages: Messages) -> WaitDisplay {
        let start = BootTime::now();
        WaitDisplay { messages, start, live: None, next_line: start, pause: FIRST_PAUSE }
    }

    fn show(&mut self, text: &str) {
        if self.messages.quiet {
            return;
        }
        let waited = BootTime::now().since(self.start);
        let text = match waited.as_secs() {
            0 => text.to_owned(),
            _ => format!("{text}; waiting for {}", DurationText(waited)),
        };
        if io::stderr().is_terminal() {
            let live = self.live.get_or_insert_with(live_line);
            live.set_message(sanitize(&format!("redlock: {text}")));
            live.tick();
        } else if self.next_line.has_passed() {
            self.messages.warning(text);
            self.next_line = Deadline::after(self.pause);
            self.pause *= 2;
        }
    }
}

impl WaitObserver for WaitDisplay {
    fn waiting(&mut self, busy: &Busy) {
        let ahead = match busy.ahead {
            None => String::new(),
            Some(0) => "; next in line".to_owned(),
            Some(ahead) => format!("; {ahead} ahead in line"),
        };
        self.show(&format!("{}{ahead}", phrases::busy(busy)));
    }

    fn unreachable(&mut self, error: &StoreError) {
        self.show(&error.to_string());
    }

    fn over(&mut self) {
        if let Some(live) = self.live.take() {
            live.finish_and_clear();
        }
    }
}

fn live_line() -> ProgressBar {
    let live = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    live.set_style(
        ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    live
}
