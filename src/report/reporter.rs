//! Passes each event on to every renderer.

use std::sync::Arc;

use super::human::{HumanRenderer, Verbosity};
use crate::cli::Color;
use crate::event::Event;

/// What shows or counts events. Called by every thread, so an event that is not shown must not wait for one that is.
pub trait Renderer: Send + Sync {
    fn render(&self, event: &Event);
}

/// What is reported, and how. A new renderer has its options here.
#[derive(Clone, Copy, Default)]
pub struct ReportOptions {
    pub verbosity: Verbosity,
    pub color: Color,
}

#[derive(Clone)]
pub struct Reporter(Arc<[Box<dyn Renderer>]>);

impl Reporter {
    pub fn new(options: ReportOptions) -> Reporter {
        Reporter(Arc::new([Box::new(HumanRenderer::new(options))]))
    }

    pub fn report(&self, event: &Event) {
        self.0.iter().for_each(|renderer| renderer.render(event));
    }
}

impl Default for Reporter {
    fn default() -> Reporter {
        Reporter::new(ReportOptions::default())
    }
}
