//! Passes each event on to every renderer.

use std::sync::Arc;

use super::human::{HumanRenderer, Verbosity};
use super::renderer::Renderer;
use crate::event::Event;

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
