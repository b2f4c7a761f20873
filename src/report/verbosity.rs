//! How much is shown on stderr, and from where on each event is.

use crate::event::{Event, LeftoversFate};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// Warnings as well.
    #[default]
    Normal,
    /// Notes as well.
    Verbose,
}

pub fn is_shown(event: &Event, verbosity: Verbosity) -> bool {
    least_verbosity(event).is_some_and(|least| least <= verbosity)
}

/// An event is shown from this verbosity on: errors always, warnings unless quiet, notes on request; `None` is for programs
/// only.
pub fn least_verbosity(event: &Event) -> Option<Verbosity> {
    Some(match event {
        Event::WaitEnded
        | Event::Requested { .. }
        | Event::Started { .. }
        | Event::CommandEnded { .. }
        | Event::Ended { .. } => return None,
        Event::Lost { .. } | Event::GuardLost { .. } | Event::Failed { .. } => Verbosity::Quiet,
        Event::MinHoldExceedsTtl { .. }
        | Event::Splay { .. }
        | Event::Acquired { .. }
        | Event::Renewed { .. }
        | Event::RenewedByHand { .. }
        | Event::RenewalFailed { .. }
        | Event::Held { .. }
        | Event::Released { leftovers: None, .. }
        | Event::Leftovers { fate: LeftoversFate::Awaited { .. } | LeftoversFate::Unwanted, .. } => {
            Verbosity::Verbose
        }
        Event::LogFailed { .. }
        | Event::EvenQuorum { .. }
        | Event::HeldByHand { .. }
        | Event::UnknownVariable { .. }
        | Event::TokenShown
        | Event::Waiting { .. }
        | Event::StoreUnreachable { .. }
        | Event::WaitedFor { .. }
        | Event::NotAcquired { .. }
        | Event::AlreadyRan { .. }
        | Event::Outdated { .. }
        | Event::Superseded { .. }
        | Event::Healed { .. }
        | Event::Released { leftovers: Some(_), .. }
        | Event::NotReleased { .. }
        | Event::TimedOut { .. }
        | Event::Leftovers { .. }
        | Event::Broken { .. }
        | Event::Resized { .. }
        | Event::HookFailed { .. } => Verbosity::Normal,
    })
}
