//! A file that the power cut of the last boot tore.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::fcntl::{Flock, FlockArg};
use rusqlite::{Connection, ErrorCode};

use super::database::APPLICATION;
use crate::clock::BootTime;

/// Moves a file aside that the end of the last boot left damaged. Returns what `found` is now.
///
/// # Errors
///
/// The file or its folder cannot be used.
pub fn repair(path: &Path, folder: &Path, found: fs::Metadata) -> io::Result<fs::Metadata> {
    if !is_of_another_boot(&found) {
        return Ok(found);
    }
    // One at a time, so that nobody moves the new file of another.
    let _alone = Flock::lock(fs::File::open(folder)?, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
    let is_ours = |connection: &Connection| {
        connection.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0)) == Ok(APPLICATION)
    };
    if is_of_another_boot(&fs::metadata(path)?)
        && let Ok(connection) = Connection::open(path)
        // Who keeps it busy has examined it in this boot.
        && connection.busy_timeout(Duration::ZERO).is_ok()
        && is_ours(&connection)
        && is_damaged(&connection)
    {
        fs::rename(path, path.with_extension("damaged"))?;
        fs::File::create_new(path)?;
    }
    fs::metadata(path)
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

/// Whether the file was last written before this boot: then no lease in it counts.
fn is_of_another_boot(file: &fs::Metadata) -> bool {
    let booted = SystemTime::now().checked_sub(BootTime::now().since(BootTime::from_nanos(0)));
    matches!((file.modified(), booted), (Ok(written), Some(booted)) if written < booted)
}
