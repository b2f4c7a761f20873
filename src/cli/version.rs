//! What `--version` says: which build of redlock this is.

use std::env::consts::ARCH;
use std::sync::LazyLock;

/// Of the source, where the build knows it.
const COMMIT: &str = match option_env!("REDLOCK_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};
const LIBC: &str = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
const STORES: [(bool, &str); 4] = [
    (cfg!(feature = "local"), "local"),
    (cfg!(feature = "redis"), "redis"),
    (cfg!(feature = "etcd"), "etcd"),
    (cfg!(feature = "zookeeper"), "zookeeper"),
];

pub static DETAILS: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    let stores: Vec<&str> = STORES.iter().filter(|(is_in, _)| *is_in).map(|(_, name)| *name).collect();
    let stores = stores.join(" ");
    format!("{version}\ncommit: {COMMIT}\ntarget: {ARCH}-linux-{LIBC}\nstores: {stores}")
});
