//! Why a store did not do what it was asked.

use thiserror::Error;

use super::{Key, Mode};

/// The result of a call to a store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a store did not do what it was asked. [`StoreError::is_unknown`] tells the errors that leave the outcome open.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// No answer, so the outcome is unknown.
    #[error("cannot reach {store}: {why}")]
    Unreachable {
        store: String,
        why: String,
        /// Asking again within seconds makes sense.
        transient: bool,
    },
    /// The store did it, and cannot confirm that it is as safe as was asked for (too few replicas have it), or all that
    /// there is (a status). The outcome counts as unknown. The text says which part is missing and what was done about it.
    #[error("{0}")]
    Unconfirmed(String),
    /// The login was refused, or a permission is missing.
    #[error("{store} refuses: {why}")]
    Denied { store: String, why: String },
    /// The key holds something that is not a lock.
    #[error("'{key}' is not a lock: {store} has {found}; choose another key")]
    NotALock { store: String, key: Key, found: String },
    /// The key is in use in a mode that excludes the one asked for.
    #[error("'{key}' is in use as {}; {}", in_use(.found), how_to_join(.found))]
    OtherMode { key: Key, found: Mode },
    /// The store itself cannot be used.
    #[error("{store} cannot be used: {why}")]
    Unusable { store: String, why: String },
    /// The interrupt of the [`Timeout`](super::Timeout) came first; the outcome is unknown.
    #[error("interrupted")]
    Interrupted,
}

impl StoreError {
    /// The store may answer later: asking again makes sense, and what was asked for may have been done.
    pub fn is_unknown(&self) -> bool {
        matches!(self, StoreError::Unreachable { .. } | StoreError::Unconfirmed(_))
    }
}

fn in_use(found: &Mode) -> String {
    match found {
        Mode::Semaphore(permits) => format!("a semaphore of {permits}"),
        _ => "a lock without permits".to_owned(),
    }
}

fn how_to_join(found: &Mode) -> String {
    match found {
        Mode::Semaphore(permits) => format!("ask with --permits {permits}, or choose another key"),
        _ => "ask without --permits, or choose another key".to_owned(),
    }
}
