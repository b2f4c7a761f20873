//! Who runs redlock, and where: what others are shown.

use nix::unistd::{geteuid, gethostname};

use crate::user::USER;

pub struct UserAtHost {
    pub user: String,
    pub host: String,
}

impl UserAtHost {
    /// Of this process.
    pub fn own() -> UserAtHost {
        let user = USER.as_ref().ok().and_then(Option::as_ref);
        UserAtHost {
            user: user.map_or_else(|| geteuid().to_string(), |user| user.name.clone()),
            host: gethostname().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}
