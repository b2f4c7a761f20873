//! Repair of a file that a power cut damaged before this boot.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use super::file_access::{self, GROUP};
use super::host::Host;

/// Moves a file aside that the end of the last boot left damaged. `open` opens it.
pub fn repair(
    path: &Path,
    found: &Metadata,
    host: &Host,
    open: impl FnOnce() -> rusqlite::Result<Connection>,
) -> io::Result<()> {
    // A file that cannot be opened or locked now is left to whoever uses it. A process that keeps it busy has examined
    // it in this boot.
    if is_of_another_boot(found, host)
        && let Ok(connection) = open()
        && is_ours(&connection)
        && let Ok(alone) = Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)
        // Another process may have put a new file there by now.
        && fs::metadata(path).is_ok_and(|now| now.ino() == found.ino())
        && is_damaged(&alone)
    {
        fs::rename(path, path.with_extension("damaged"))?;
        file_access::create(path, 0o600)?;
        // A group that shares it goes on sharing it.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600 | found.mode() & GROUP))?;
    }
    Ok(())
}

fn is_ours(connection: &Connection) -> bool {
    let application = connection.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0));
    application == Ok(file_access::APPLICATION)
}

/// A file that cannot be examined now may be a good one, with locks in it that are held.
fn is_damaged(connection: &Connection) -> bool {
    match connection.pragma_query_value(None, "quick_check", |row| row.get::<_, String>(0)) {
        Ok(verdict) => verdict != "ok",
        Err(error) => {
            matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        }
    }
}

/// The file was last written before this boot: then no lease in it counts.
fn is_of_another_boot(file: &Metadata, host: &Host) -> bool {
    let up = Duration::from_nanos(host.now().max(0) as u64);
    let booted = SystemTime::now().checked_sub(up);
    matches!((file.modified(), booted), (Ok(written), Some(booted)) if written < booted)
}
