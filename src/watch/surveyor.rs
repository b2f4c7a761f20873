//! Asks the store, in a thread of its own: a store that does not answer leaves the screen alive.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::news::News;
use crate::error::Failure;
use crate::event::Event;
use crate::lock::{Broken, Key, StoreAdmin, Survey};
use crate::mailbox::MailboxSender;
use crate::options::LockSelection;
use crate::report::{not_as_asked, text};
use crate::session::{AskedAbout, Context, break_lock, survey};

/// From one look at the locks to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// A look takes about this part of the time, here and at the server, as long as the pause is below LONGEST.
const SHARE: u32 = 20;

/// The longest time without a look.
const LONGEST: Duration = Duration::from_secs(10);

pub enum Order {
    Break(BreakOrder),
    /// Leave the store alone until the other end is dropped. The sender is dropped when nobody asks the store any more.
    Rest(Sender<()>, Receiver<()>),
}

/// A lock that is to be taken away from its holders.
pub struct BreakOrder {
    pub key: Key,
    pub asked: AskedAbout,
    pub reason: Option<String>,
}

/// Looks at the locks again and again, until nobody orders any more.
pub fn keep_looking(
    selection: &LockSelection,
    store: &mut dyn StoreAdmin,
    context: &Context,
    orders: &Receiver<Order>,
    news: &MailboxSender<News>,
) {
    let mut pause = INTERVAL;
    loop {
        match orders.recv_timeout(pause) {
            Ok(Order::Break(order)) => {
                let text = carry_out(&order, store, context);
                news.send(News::Answer { key: order.key, text });
            }
            Ok(Order::Rest(resting, until)) => {
                drop(resting);
                let _ = until.recv();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let start = Instant::now();
        let seen = look(selection, store, context);
        pause = if seen.is_ok() { (start.elapsed() * SHARE).clamp(INTERVAL, LONGEST) } else { INTERVAL };
        news.send(News::Locks(seen));
    }
}

/// The locks that are there now. A store of which nothing can be seen is a failure.
pub fn look(
    selection: &LockSelection,
    store: &mut dyn StoreAdmin,
    context: &Context,
) -> Result<Survey, Failure> {
    let mut seen = survey(selection, store, context)?;
    match seen.hidden.pop() {
        Some(error) if seen.locks.is_empty() => Err(context.explain(error)),
        hidden => {
            seen.hidden.extend(hidden);
            Ok(seen)
        }
    }
}

/// Breaks the lock, and says what came of it.
fn carry_out(order: &BreakOrder, store: &mut dyn StoreAdmin, context: &Context) -> String {
    let (key, others) = (&order.key, order.asked.others());
    let broken = break_lock(store, key, None, Some(&order.asked), order.reason.as_deref(), context);
    let event = match &broken {
        Ok(Broken::Told(holder)) => Event::Broken { key, holder, others, is_freed: false },
        Ok(Broken::Freed(holder)) => Event::Broken { key, holder, others, is_freed: true },
        Ok(Broken::Free) => return format!("nobody holds '{key}' any more"),
        Ok(Broken::Other(now)) => return not_as_asked(key, now),
        Err(failure) => return format!("could not break '{key}': {failure}"),
    };
    context.reporter.report(&event);
    text(&event)
}
