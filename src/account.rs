//! The user as whom redlock runs.

use std::sync::LazyLock;

use nix::unistd::{User, geteuid};

/// The passwd entry of the effective user, looked up once: it may come from a server far away.
///
/// The home directory in it is the same under cron, sudo and a login shell; `$HOME` is not.
pub static ACCOUNT: LazyLock<Option<User>> = LazyLock::new(|| User::from_uid(geteuid()).ok().flatten());
