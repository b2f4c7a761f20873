//! Who runs redlock, and where: what others are shown.

use nix::unistd::{geteuid, gethostname};

use crate::user::USER;

pub struct Identity {
    pub user: String,
    pub host: String,
}

impl Identity {
    /// Of this process.
    pub fn own() -> Identity {
        let user = USER.as_ref().ok().and_then(Option::as_ref);
        Identity {
            user: user.map_or_else(|| geteuid().to_string(), |user| user.name.clone()),
            host: gethostname().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}
