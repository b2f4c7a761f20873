//! The progress display while a lock is waited for.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output::print_message;
use crate::clock::{BootTime, Deadline};
use crate::sanitize::sanitize;

/// One live line on a terminal; elsewhere a line at once and then ever more rarely.
pub struct WaitDisplay {
    live: Option<ProgressBar>,
    next_line: Deadline,
    pause: Duration,
}

/// Between the first two lines where there is no terminal; each next pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(30);

impl WaitDisplay {
    pub fn new() -> WaitDisplay {
        WaitDisplay { live: None, next_line: BootTime::from_nanos(0), pause: FIRST_PAUSE }
    }

    pub fn show(&mut self, text: &str) {
        if io::stderr().is_terminal() {
            let live = self.live.get_or_insert_with(live_line);
            live.set_message(sanitize(&format!("redlock: {text}")));
            live.tick();
        } else if self.next_line.has_passed() {
            print_message(text);
            self.next_line = Deadline::after(self.pause);
            self.pause *= 2;
        }
    }

    pub fn clear(&mut self) {
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
