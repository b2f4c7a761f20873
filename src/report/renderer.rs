//! What becomes of an event.

use crate::event::Event;

/// What shows or counts events. Called by every thread, so an event that is not shown must not wait for one that is.
pub trait Renderer: Send + Sync {
    /// Fails with the reason why the event cannot be written where it belongs.
    fn render(&self, event: &Event) -> Result<(), String>;
}
