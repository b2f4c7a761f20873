//! Whether a file is fit to hold locks.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::statfs::statfs;

use super::Local;
use super::database::Database;
use super::file::{GROUP, SET_GROUP_ID, folder_of, journal_of};
use crate::clock::BootTime;
use crate::doctor::{Finding, Findings, Requirements, millis};
use crate::lock::{
    AcquireOutcome, Grant, Key, Metadata, Mode, OwnerToken, Renewal, Request, Store, StoreError, Timeout,
};

/// A few hundred locks need less than this.
const SCARCE: u64 = 16 << 20;
/// A transaction needs this much.
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

/// Examines the file, which is made when it is missing, as by every other command.
pub fn examine(path: Option<PathBuf>, terms: &Requirements) -> Vec<Finding> {
    let mut store = Local::new(path, vec![std::process::id()]);
    let mut report = Findings::about(store.database.name());
    if let Some(path) = store.database.path() {
        let folder = existing(path);
        file_system(folder, &mut report);
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
            return report.unknown("disk", finding, "make sure that it is a local disk with some space");
        }
    };
    let kind = found.filesystem_type().0 as u32;
    if let Some((_, name)) = SHARED.iter().find(|(number, _)| *number == kind) {
        let finding =
            format!("it is on {name}, whose file locks may mean nothing to others who see the file");
        report.warning("disk", finding, "name a file on a local disk: local:PATH");
    } else {
        report.ok("disk", "it is not on a network file system that is known as one");
    }
    let free = found.blocks_available().saturating_mul(u64::try_from(found.block_size()).unwrap_or(0));
    let finding = format!("{} MiB are free", free >> 20);
    match free {
        ..FULL => {
            report.bad("space", format!("{finding}: no lock can be taken when it is full"), "free some")
        }
        FULL..SCARCE => {
            report.warning("space", format!("{finding}: no lock can be taken when it is full"), "free some")
        }
        _ => report.ok("space", finding),
    }
}

/// Who else can use the file: nobody, or a group on purpose. Opening it has refused the rest.
fn sharing(path: &Path, report: &mut Findings) {
    let (folder, journal) = (folder_of(path), journal_of(path));
    let (Ok(file), Ok(around)) = (fs::metadata(path), fs::metadata(folder)) else { return };
    let (mode, group) = (file.mode() & GROUP, file.gid());
    let is_of_group = |found: &fs::Metadata, mode: u32| found.mode() & mode == mode && found.gid() == group;
    let may_replace = around.mode() & 0o1020 == 0o020;
    if mode == 0 && may_replace {
        let finding = format!("group {} can replace it, as it may write to its folder", around.gid());
        let advice = format!("chmod g-w {}, or share it with the group: redlock(1)", folder.display());
        report.warning("sharing", finding, &advice);
    } else if mode == 0 {
        report.ok("sharing", format!("nobody but user {} can use it", file.uid()));
    } else if is_of_group(&file, GROUP)
        && is_of_group(&around, SET_GROUP_ID | 0o030)
        && fs::metadata(&journal).map_or(true, |journal| is_of_group(&journal, GROUP))
    {
        report.ok("sharing", format!("group {group} shares it"));
    } else {
        let (folder, file, journal) = (folder.display(), path.display(), journal.display());
        let advice = format!(
            "chgrp {group} {folder} {file} {journal}; chmod 2770 {folder}; chmod 660 {file} {journal}"
        );
        report.bad("sharing", format!("group {group} has a part of what it needs to share it"), &advice);
    }
}

/// Takes and gives back a lock that nobody else uses. Returns whether that was possible.
fn locking(store: &mut Local, terms: &Requirements, report: &mut Findings) -> bool {
    let key = Key::scratch();
    let request = Request {
        key: key.clone(),
        mode: Mode::Exclusive,
        token: OwnerToken::random(),
        ttl: crate::lock::Ttl::DEFAULT,
        min_hold: Duration::ZERO,
        metadata: Metadata::new(String::new(), std::process::id(), String::new(), "redlock doctor"),
    };
    let begin = BootTime::now();
    let lived = live(store, &request, terms);
    // Take, renewal, check, release.
    let transaction = BootTime::now().since(begin) / 4;
    let swept = sweep(&mut store.database, &key, terms);
    match lived.and_then(|lived| swept.map(|()| lived)) {
        Ok(None) => {
            let finding = format!("a lock was taken, renewed and released, each in {}", millis(transaction));
            report.ok("locking", finding);
            terms.judge_ttl(transaction, report);
            return true;
        }
        Ok(Some(step)) => {
            let finding = format!("a lock for a trial failed at '{step}': the answer makes no sense");
            report.bad("locking", finding, "when no redlock runs here, move the file away");
        }
        Err(StoreError::Unreachable { why, .. } | StoreError::Unusable { why, .. }) => {
            let advice = "see to that, or name another file: local:PATH";
            report.bad("locking", format!("it cannot be used: {why}"), advice);
        }
        Err(error) => report.bad("locking", error.to_string(), "name another file: local:PATH"),
    }
    false
}

/// The step that went wrong, if one did.
fn live(
    store: &mut Local,
    request: &Request,
    terms: &Requirements,
) -> Result<Option<&'static str>, StoreError> {
    let patience = || Timeout::of(terms.attempt);
    let AcquireOutcome::Granted(Grant { fences, .. }) =
        store.acquire(std::slice::from_ref(request), &patience())?
    else {
        return Ok(Some("take"));
    };
    let renewal = store.renew(request, fences.first().copied(), &patience())?;
    if !matches!(renewal, Renewal::Extended) {
        return Ok(Some("renew"));
    }
    if store.check(&request.key, &request.token, &patience())?.is_none() {
        return Ok(Some("check"));
    }
    let released = store.release(std::slice::from_ref(&request.key), &request.token, &patience())?;
    Ok((released != [true]).then_some("release"))
}

/// Removes all that is kept for the key.
fn sweep(database: &mut Database, key: &Key, terms: &Requirements) -> Result<(), StoreError> {
    database.transact(&Timeout::of(terms.attempt), |tx, _| {
        tx.execute("DELETE FROM lock WHERE key = ?", [key.as_str()])?;
        Ok(())
    })
}
