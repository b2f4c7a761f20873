//! The interface through which events are shown or counted.

use crate::event::Event;

/// Shows or counts events. Every thread calls it, so an event that is not shown must not wait for one that is.
pub trait Renderer: Send + Sync {
    /// Fails with the reason why the event cannot be written where it belongs.
    fn render(&self, event: &Event) -> Result<(), String>;

    /// This process makes no others from now on: a thread may do what takes long.
    fn start_thread(&self) {}

    /// Finds out whether the next event can be written, so that what fails together is reported together.
    fn probe(&self) -> Result<(), String> {
        Ok(())
    }

    /// Ends what a thread does. Fails with the reason why not all was written.
    fn finish(&self) -> Result<(), String> {
        Ok(())
    }
}
