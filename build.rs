//! Packs the relocations of the program: it is loaded at any address, and reads at each start what to adapt to that. The
//! table is 186 KB long, and 3 KB when it is packed, which is 6 % of the memory of redlock and its guard.

use std::env;
use std::process::Command;

/// The first glibc that starts such a program (its NEWS for 2.36: DT_RELR).
const FIRST: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let has =
        |name: &str, value: &str| env::var(name).is_ok_and(|found| found.split(',').any(|one| one == value));
    let is_static = has("CARGO_CFG_TARGET_ENV", "gnu") && has("CARGO_CFG_TARGET_FEATURE", "crt-static");
    // The C library of another machine is unknown here.
    let is_for_this_machine = env::var("HOST").is_ok_and(|host| has("TARGET", &host));
    if is_static && is_for_this_machine && glibc_version().is_some_and(|version| version >= FIRST) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// As getconf(1) prints it: `glibc 2.36`.
fn glibc_version() -> Option<(u32, u32)> {
    let printed = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?.stdout;
    let (major, minor) =
        std::str::from_utf8(&printed).ok()?.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
