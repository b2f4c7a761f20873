//! Saves memory of redlock and its guard in the linker, and makes a link to the program where people look for it.

use std::error::Error;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The first glibc that starts a program with packed relocations (its NEWS for 2.36: DT_RELR).
const FIRST: (u32, u32) = (2, 36);

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS")? != "linux" {
        return Err("redlock runs on Linux only: its guard needs pidfds, futexes and subreapers".into());
    }
    name_commit()?;
    let has =
        |name: &str, value: &str| env::var(name).is_ok_and(|found| found.split(',').any(|one| one == value));
    let is_static = has("CARGO_CFG_TARGET_ENV", "gnu") && has("CARGO_CFG_TARGET_FEATURE", "crt-static");
    // The C library of another machine is unknown here.
    let is_for_this_machine = env::var("HOST").is_ok_and(|host| has("TARGET", &host));
    if is_for_this_machine {
        link_from_the_usual_place()?;
    }
    if !is_static || !is_for_this_machine {
        return Ok(());
    }
    // The program is loaded at any address, and reads at each start what to adapt to that. The table is 186 KB long, and
    // 3 KB when it is packed.
    if glibc_version().is_some_and(|version| version >= FIRST) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    Ok(())
}

/// Tells `--version` the commit, unless the environment does. A package of the registry has it in a file. A build for
/// releases asks git; other builds do not, as they would compile everything again after each commit.
fn name_commit() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=REDLOCK_COMMIT");
    if env::var_os("REDLOCK_COMMIT").is_some() {
        return Ok(());
    }
    let root = env::var("CARGO_MANIFEST_DIR")?;
    let packaged = fs::read_to_string(Path::new(&root).join(".cargo_vcs_info.json")).unwrap_or_default();
    let is_release = env::var("PROFILE")? == "release" && Path::new(&root).join(".git").exists();
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&root).args(args).output().ok();
        output.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default().trim().to_owned()
    };
    let commit = match packaged.split_once("\"sha1\": \"").and_then(|(_, rest)| rest.split_once('"')) {
        Some((commit, _)) => commit.to_owned(),
        None if is_release => {
            // This file changes with each commit, and when another one is checked out.
            println!(
                "cargo::rerun-if-changed={}",
                git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])
            );
            git(&["rev-parse", "HEAD"])
        }
        None => return Ok(()),
    };
    if let Some(commit) = commit.get(..12) {
        println!("cargo::rustc-env=REDLOCK_COMMIT={commit}");
    }
    Ok(())
}

/// A build that names its target puts the program in `target/TARGET/release`. People look for it in `target/release`.
fn link_from_the_usual_place() -> Result<(), Box<dyn Error>> {
    let (target, profile) = (env::var("TARGET")?, env::var("PROFILE")?);
    // target/TARGET/PROFILE/build/redlock-cli-HASH/out
    let out = env::var("OUT_DIR")?;
    let Some(root) = Path::new(&out).ancestors().nth(5).filter(|_| out.contains(&target)) else {
        return Ok(());
    };
    let link = root.join(&profile).join("redlock");
    // Cargo puts the program there itself when no target is named.
    if link.is_symlink() || !link.exists() {
        fs::create_dir_all(root.join(&profile))?;
        let _ = fs::remove_file(&link);
        symlink(Path::new("..").join(target).join(profile).join("redlock"), link)?;
    }
    Ok(())
}

/// As getconf(1) prints it: `glibc 2.36`.
fn glibc_version() -> Option<(u32, u32)> {
    let printed = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?.stdout;
    let (major, minor) =
        std::str::from_utf8(&printed).ok()?.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
