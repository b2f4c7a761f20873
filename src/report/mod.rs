//! What people and programs read.

pub mod acquired;
mod columns;
mod doctor;
pub mod github;
mod human;
mod json;
mod output;
mod phrases;
mod progress;
mod shell;
mod status;

pub use doctor::{findings, findings_json};
pub use human::Verbosity;
pub use output::{print, print_all};
pub use phrases::{holder, loss, names};
pub use shell::Shell;
pub use status::{json, table};

use std::sync::Arc;

use crate::event::Event;
use human::HumanRenderer;

/// Shows or counts events. Called by every thread, so an event that is not shown must not wait for one that is.
trait Renderer: Send + Sync {
    fn render(&self, event: &Event);
}

/// Passes each event on to every renderer.
#[derive(Clone)]
pub struct Reporter {
    renderers: Arc<[Box<dyn Renderer>]>,
}

impl Reporter {
    pub fn new(verbosity: Verbosity) -> Reporter {
        Reporter { renderers: Arc::new([Box::new(HumanRenderer::new(verbosity))]) }
    }

    pub fn report(&self, event: &Event) {
        self.renderers.iter().for_each(|renderer| renderer.render(event));
    }
}

impl Default for Reporter {
    fn default() -> Reporter {
        Reporter::new(Verbosity::default())
    }
}
