//! The SQLite file: opened, checked, and one transaction at a time.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{AccessFlags, eaccess};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::file_access::{self, FileError};
use super::host::Host;
use super::repair::repair;
use super::wakeup::WakeFifo;
use crate::lock::{Result, StoreError, Timeout};
use crate::poll::Backoff;

/// The file, opened when it is first used.
pub struct Database {
    path: Result<PathBuf, String>,
    /// Nobody named a file.
    is_default: bool,
    /// The processes that hold our locks: see [`Host::holders`].
    holders: Vec<u32>,
    open: Option<Open>,
}

struct Open {
    connection: Connection,
    is_set_up: bool,
    /// Others may put a journal beside it.
    is_exposed: bool,
    /// Which file it is: one that was replaced holds no locks any more.
    file: (u64, u64),
    host: Host,
}

/// The version of the tables below; another version of redlock has another one.
const LAYOUT: i32 = 4;

/// As the file has to have them, word by word: a file is refused that has something else, or more.
const TABLES: [&str; 4] = [
    "CREATE TABLE lock (
        key TEXT PRIMARY KEY,
        mode TEXT NOT NULL,
        fence INTEGER NOT NULL
    ) WITHOUT ROWID",
    "CREATE TABLE holder (
        key TEXT NOT NULL,
        fence INTEGER NOT NULL,
        owner BLOB,
        since INTEGER NOT NULL,
        renewed INTEGER NOT NULL,
        until INTEGER NOT NULL,
        boot TEXT NOT NULL,
        hold_until INTEGER NOT NULL,
        broken TEXT NOT NULL,
        processes TEXT NOT NULL,
        metadata TEXT NOT NULL,
        PRIMARY KEY (key, fence)
    ) WITHOUT ROWID",
    "CREATE TABLE waiter (
        ticket INTEGER PRIMARY KEY AUTOINCREMENT,
        owner BLOB NOT NULL,
        key TEXT NOT NULL,
        mode TEXT NOT NULL,
        asked INTEGER NOT NULL,
        fifo TEXT NOT NULL,
        processes TEXT NOT NULL,
        metadata TEXT NOT NULL
    )",
    "CREATE TABLE history (
        key TEXT NOT NULL,
        number INTEGER NOT NULL,
        ended INTEGER NOT NULL,
        skipped INTEGER NOT NULL,
        run TEXT NOT NULL,
        PRIMARY KEY (key, number)
    ) WITHOUT ROWID",
];
/// The table that SQLite adds for AUTOINCREMENT.
const SEQUENCE: &str = "CREATE TABLE sqlite_sequence(name,seq)";

/// SQLite looks at the timeout after this many steps of its virtual machine, well below a millisecond.
const STEPS: i32 = 1000;
/// Between two attempts while another process uses the file.
const SHORTEST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

impl Database {
    /// At `path`, or at the default place for this user; touches nothing.
    pub fn new(path: Option<PathBuf>, holders: Vec<u32>) -> Database {
        let is_default = path.is_none();
        Database { path: path.map_or_else(file_access::default_path, Ok), is_default, holders, open: None }
    }

    /// Runs one transaction, alone on the whole host; `work` may be run again. After an error nothing was changed.
    pub fn transact<T>(
        &mut self,
        timeout: &Timeout,
        mut work: impl FnMut(&Transaction, &Host) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        loop {
            let outcome = self.try_transact(timeout, &mut work);
            if let Some(open) = &mut self.open {
                let _ = open.connection.progress_handler(0, None::<fn() -> bool>);
            }
            match outcome {
                Ok(outcome) => return Ok(outcome),
                Err(FileError::Replaced) if !timeout.until.has_passed() => self.open = None,
                Err(FileError::Sql(error)) if is_busy(&error) && !timeout.until.has_passed() => {
                    // SQLite's own handler sleeps ever longer and is unfair to those who wait long.
                    timeout.pause(backoff.pause())?;
                }
                Err(error) => {
                    if let FileError::Sql(error) = &error
                        && error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
                    {
                        timeout.pause(Duration::ZERO)?;
                    }
                    return Err(self.failed(error));
                }
            }
        }
    }

    /// Compiles statements for a later transaction.
    pub fn prepare(&self, statements: &[&str]) {
        if let Some(open) = &self.open {
            for statement in statements {
                let _ = open.connection.prepare_cached(statement);
            }
        }
    }

    /// A FIFO beside the file.
    pub fn make_fifo(&self) -> Result<WakeFifo> {
        let path = self.path().unwrap_or(Path::new(""));
        WakeFifo::create(path)
            .map_err(|error| self.unreachable(format!("cannot make a FIFO beside it: {}", plain(&error))))
    }

    fn try_transact<T>(
        &mut self,
        timeout: &Timeout,
        work: &mut impl FnMut(&Transaction, &Host) -> rusqlite::Result<T>,
    ) -> Result<T, FileError> {
        let path = self.path.as_ref().map_err(|why| FileError::Unfit(why.clone()))?;
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Open::at(path, &self.holders, timeout)?),
        };
        if open.is_set_up && open.is_exposed {
            file_access::check_journal(path)?;
        }
        limit(&mut open.connection, timeout)?;
        let tx = open.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Somebody removed the file, or put another in its place, which others use now.
        if fs::symlink_metadata(path).ok().map(|found| identity(&found)) != Some(open.file) {
            return Err(FileError::Replaced);
        }
        if !open.is_set_up {
            set_up(&tx)?;
            if !has_our_tables(&tx)? {
                let number = |name| tx.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
                let is_other_version = number("application_id")? == file_access::APPLICATION
                    && number("user_version")? != LAYOUT;
                let why = match is_other_version {
                    true => "another version of redlock made it",
                    false => "its tables are not those of redlock: another program made or changed it",
                };
                let advice = "name another file, or when no redlock runs here, move it away";
                return Err(FileError::Unfit(format!("{why}; {advice}")));
            }
        }
        let outcome = work(&tx, &open.host)?;
        tx.commit()?;
        open.is_set_up = true;
        Ok(outcome)
    }

    /// The file, if there can be one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref().ok()
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        self.path.as_ref().map_or("local:".to_owned(), |path| format!("local:{}", path.display()))
    }

    fn unreachable(&self, why: String) -> StoreError {
        StoreError::Unreachable { store: self.name(), why, transient: false }
    }

    fn failed(&self, error: FileError) -> StoreError {
        let error = match error {
            FileError::Unfit(why) => return StoreError::Unusable { store: self.name(), why },
            FileError::Replaced => {
                return self.unreachable("the file is replaced again and again".to_owned());
            }
            FileError::Io(error) if self.is_default => {
                return self.unreachable(format!("{}; name a file: local:PATH", plain(&error)));
            }
            FileError::Io(error) => return self.unreachable(plain(&error)),
            FileError::Sql(error) => error,
        };
        let why = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "other processes keep it busy",
            Some(ErrorCode::OperationInterrupted) => {
                "reading it takes too long; when no redlock runs here, move it away"
            }
            Some(ErrorCode::DiskFull) => "the disk is full",
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                "it cannot be written; check the permissions of the file and of its folder"
            }
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                let why = "the file is damaged or holds something else; name another one, or move it away if it was redlock's";
                return self.failed(FileError::Unfit(why.to_owned()));
            }
            _ => return self.unreachable(error.to_string()),
        };
        self.unreachable(why.to_owned())
    }
}

impl Open {
    fn at(path: &Path, holders: &[u32], timeout: &Timeout) -> Result<Open, FileError> {
        let found = file_access::find(path)?;
        let host = Host::of(path, holders)?;
        repair(path, &found, &host, || {
            let mut connection = connect(path)?;
            limit(&mut connection, timeout)?;
            Ok(connection)
        })?;
        let connection = connect(path).map_err(|error| {
            // SQLite says no more than "unable to open"; the system says why.
            let allowed = eaccess(path, AccessFlags::R_OK | AccessFlags::W_OK);
            allowed.err().map_or(FileError::Sql(error), |errno| FileError::Io(errno.into()))
        })?;
        if found.len() == 0 {
            // An empty file is changed by the beginning of a transaction, which is too late for it.
            set_up(&connection)?;
        }
        // As it was before the opening: the transaction sees whether it is another one by now.
        let (is_set_up, is_exposed) = (false, file_access::is_exposed(path, &found)?);
        Ok(Open { connection, is_set_up, is_exposed, file: identity(&found), host })
    }
}

/// Opens a file that is there. Nothing in it is carried out.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // `transact` tries again by itself, sooner than SQLite would.
    connection.busy_timeout(Duration::ZERO)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    for what in [
        DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
        DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
        DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA,
    ] {
        connection.set_db_config(what, false)?;
    }
    Ok(connection)
}

/// Whatever is in the file, SQLite stops at the end of the timeout.
fn limit(connection: &mut Connection, timeout: &Timeout) -> rusqlite::Result<()> {
    let until = timeout.until;
    let interrupt = timeout.interrupt.and_then(|interrupt| interrupt.try_clone_to_owned().ok());
    connection.progress_handler(
        STEPS,
        Some(move || {
            let interrupt = interrupt.as_ref().map(|interrupt| interrupt.as_fd());
            until.has_passed() || Timeout { until, interrupt }.pause(Duration::ZERO).is_err()
        }),
    )
}

/// The rollback journal makes the file consistent after a kill; it is overwritten, which is faster than a new one
/// each time. (A write-ahead log would be read from its beginning by every short-lived process.) Nothing is synced
/// to the disk, which only the build can say without another look at the file: what a power cut takes with it, the
/// reboot has freed anyway, and `repair` makes a file good that it tore.
fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    // In the first transaction, as outside of one it takes a look at the file of its own.
    connection.execute_batch("PRAGMA journal_mode = PERSIST")
}

/// The file has our tables and nothing else. An empty file gets them.
fn has_our_tables(tx: &Transaction) -> rusqlite::Result<bool> {
    let mut statement = tx.prepare("SELECT sql FROM sqlite_schema")?;
    let mut rows = statement.query([])?;
    let mut found = 0;
    while let Some(row) = rows.next()? {
        let sql = row.get_ref(0)?.as_str().unwrap_or_default();
        if !TABLES.contains(&sql) && sql != SEQUENCE {
            return Ok(false);
        }
        found += 1;
    }
    drop(rows);
    if found == 0 {
        TABLES.iter().try_for_each(|table| tx.execute_batch(table))?;
        tx.pragma_update(None, "application_id", file_access::APPLICATION)?;
        tx.pragma_update(None, "user_version", LAYOUT)?;
        found = TABLES.len() + 1;
    }
    // No two have one name.
    Ok(found == TABLES.len() + 1)
}

fn identity(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// "Permission denied (os error 13)" without the number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// Where everyone may create files, a write-ahead log beside the file could be anybody's. The flags in .cargo/config.toml
/// leave it out, so the file need not be refused for one, with which anybody could stop everyone.
#[test]
fn no_write_ahead_log_is_read() {
    let connection = Connection::open_in_memory().expect("a database");
    let is_left_out =
        connection.query_row("SELECT sqlite_compileoption_used('OMIT_WAL')", [], |row| row.get(0));
    assert_eq!(is_left_out, Ok(true));
}
