//! Checks that a file is fit to hold locks.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::statfs;

use super::file_access::{GROUP, SET_GROUP_ID, journal_of};
use super::holders::remove_all;
use super::store::Local;
use crate::doctor::{Check, Finding, Findings, Requirements, Trial, Trouble, judge};
use crate::lock::{Key, Timeout};
use crate::trusted_file::folder_of;

/// A few hundred locks need less than this.
const SCARCE: u64 = 16 << 20;
const FULL: u64 = 1 << 20;

/// File systems that other hosts see as well, or that leave file locks to somebody else. NFS is refused anyway.
/// Numbers of statfs(2).
const SHARED: [(u32, &str); 6] = [
    (0x0000_517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
];

/// For a call that failed, and for an answer that makes no sense.
const ADVICE: [&str; 2] =
    ["see to that, or name another file: local:PATH", "when no redlock runs here, move the file away"];

/// Examines the file, which is made when it is missing, as by every other command.
pub fn examine(path: Option<PathBuf>, terms: &Requirements) -> Vec<Finding> {
    let mut store = Local::new(path, vec![std::process::id()]);
    let mut report = Findings::about(store.database.name());
    if let Some(path) = store.database.path() {
        file_system(existing(path), &mut report);
    }
    let works = locking(&mut store, terms, &mut report);
    if let (true, Some(path)) = (works, store.database.path()) {
        sharing(path, &mut report);
    }
    report.findings
}

/// The nearest folder that is there.
fn existing(path: &Path) -> &Path {
    let mut folders = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    folders.find(|folder| folder.is_dir()).unwrap_or(Path::new("."))
}

fn file_system(folder: &Path, report: &mut Findings) {
    let found = match statfs(folder) {
        Ok(found) => found,
        Err(errno) => {
            let finding = format!("could not see the file system of {}: {}", folder.display(), errno.desc());
            return report.unknown(Check::Disk, finding, "make sure that it is a local disk with some space");
        }
    };
    let kind = found.filesystem_type().0 as u32;
    if let Some((_, name)) = SHARED.iter().find(|(number, _)| *number == kind) {
        let finding =
            format!("it is on {name}, whose file locks may mean nothing to others who see the file");
        report.warning(Check::Disk, finding, "name a file on a local disk: local:PATH");
    } else {
        report.ok(Check::Disk, "it is not on a network file system that is known as one");
    }
    let free = found.blocks_available().saturating_mul(u64::try_from(found.block_size()).unwrap_or(0));
    let finding = format!("{} MiB are free", free >> 20);
    let scarce = format!("{finding}: no lock can be taken when it is full");
    match free {
        ..FULL => report.bad(Check::Space, scarce, "free some"),
        FULL..SCARCE => report.warning(Check::Space, scarce, "free some"),
        _ => report.ok(Check::Space, finding),
    }
}

/// The users that can use the file beside us: nobody, or a group on purpose. Opening it has refused the rest.
fn sharing(path: &Path, report: &mut Findings) {
    let (folder, journal) = (folder_of(path), journal_of(path));
    let (Ok(file), Ok(folder_metadata)) = (fs::metadata(path), fs::metadata(folder)) else { return };
    let (mode, group) = (file.mode() & GROUP, file.gid());
    let is_of_group = |found: &fs::Metadata, mode: u32| found.mode() & mode == mode && found.gid() == group;
    let may_replace = folder_metadata.mode() & 0o1020 == 0o020;
    if mode == 0 && may_replace {
        let finding =
            format!("group {} can replace it, as it may write to its folder", folder_metadata.gid());
        let advice = format!("chmod g-w {}, or share it with the group: redlock(1)", folder.display());
        report.warning(Check::Sharing, finding, &advice);
    } else if mode == 0 {
        report.ok(Check::Sharing, format!("nobody but user {} can use it", file.uid()));
    } else if is_of_group(&file, GROUP)
        && is_of_group(&folder_metadata, SET_GROUP_ID | 0o030)
        && fs::metadata(&journal).map_or(true, |journal| is_of_group(&journal, GROUP))
    {
        report.ok(Check::Sharing, format!("group {group} shares it"));
    } else {
        let (folder, file, journal) = (folder.display(), path.display(), journal.display());
        let advice = format!(
            "chgrp {group} {folder} {file} {journal}; chmod 2770 {folder}; chmod 660 {file} {journal}"
        );
        report.bad(Check::Sharing, format!("group {group} has a part of what it needs to share it"), &advice);
    }
}

/// Tries the life of a lock that nobody else uses. Returns whether that was possible.
fn locking(store: &mut Local, terms: &Requirements, report: &mut Findings) -> bool {
    let key = Key::scratch();
    let mut waiter = Local::new(store.database.path().map(Path::to_owned), vec![std::process::id()]);
    let trial = Trial { holder: store, waiter: &mut waiter, key: &key, attempt: terms.attempt };
    let lived = trial.run();
    let timeout = Timeout::of(terms.attempt);
    let swept = store.database.transact(&timeout, |tx, _| remove_all(tx, &key));
    let swept = swept.map_err(|error| Trouble::Failed("remove it", error));
    let lived = lived.and_then(|lived| swept.map(|()| lived));
    judge(&lived, ADVICE, report);
    if let Ok(measured) = &lived {
        terms.judge_ttl(measured.round_trip, report);
    }
    lived.is_ok()
}
