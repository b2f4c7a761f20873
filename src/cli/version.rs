//! The text of `--version`, which names this build of redlock.

use std::env::consts::ARCH;
use std::sync::LazyLock;

use crate::store::SCHEMES;

/// The commit of the source, where the build knows it (`build.rs`).
const COMMIT: &str = match option_env!("REDLOCK_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};
const LIBC: &str = if cfg!(target_env = "musl") { "musl" } else { "gnu" };

pub static DETAILS: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    let mut stores: Vec<&str> = SCHEMES.iter().filter(|one| one.is_in).map(|one| one.feature).collect();
    stores.dedup();
    let stores = stores.join(" ");
    format!("{version}\ncommit: {COMMIT}\ntarget: {ARCH}-linux-{LIBC}\nstores: {stores}")
});
