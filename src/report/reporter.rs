//! Passes each event on to every renderer.

use std::sync::Arc;

use super::human::{HumanRenderer, Verbosity};
use super::renderer::Renderer;
use crate::event::Event;

/// What is reported, and how. A new renderer has its options here.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportOptions {
    pub verbosity: Verbosity,
}

#[derive(Clone)]
pub struct Reporter {
    renderers: Arc<[Box<dyn Renderer>]>,
}

impl Reporter {
    pub fn new(options: ReportOptions) -> Reporter {
        Reporter { renderers: Arc::new([Box::new(HumanRenderer::new(options.verbosity))]) }
    }

    pub fn report(&self, event: &Event) {
        self.renderers.iter().for_each(|renderer| renderer.render(event));
    }
}

impl Default for Reporter {
    fn default() -> Reporter {
        Reporter::new(ReportOptions::default())
    }
}
