//! What `--version` says: which build of redlock this is.

use std::env::consts::ARCH;
use std::sync::LazyLock;

/// Of the source, where the build knows it.
const COMMIT: &str = match option_env!("REDLOCK_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};
const LIBC: &str = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
const ETCD: &str = if cfg!(feature = "etcd") { " etcd" } else { "" };
const ZOOKEEPER: &str = if cfg!(feature = "zookeeper") { " zookeeper" } else { "" };

pub static DETAILS: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    format!("{version}\ncommit: {COMMIT}\ntarget: {ARCH}-linux-{LIBC}\nstores: local redis{ETCD}{ZOOKEEPER}")
});
