use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::RwLock;
use std::time::Duration;

use nix::sys::statfs::{NFS_SUPER_MAGIC, statfs};
use nix::unistd::geteuid;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::repair::repair;
use crate::account;
use crate::lock::{Patience, StoreError};

/// The file, opened when it is first used.
pub struct Database {
    path: Result<PathBuf, String>,
    open: Option<Open>,
}

struct Open {
    connection: Connection,
    is_set_up: bool,
    /// Which file it is: one that was replaced holds no locks any more.
    file: (u64, u64),
    /// The id of this boot; leases of another one are over.
    boot: String,
}

/// Marks the file as ours: "rlck".
pub const APPLICATION: i32 = 0x726c_636b;
/// Bumped when the tables change.
const VERSION: i32 = 2;

const TABLES: &str = "
    CREATE TABLE lock (
        key TEXT PRIMARY KEY,
        fence INTEGER NOT NULL,
        owner TEXT,
        since INTEGER NOT NULL,
        until INTEGER NOT NULL,
        boot TEXT NOT NULL,
        keep INTEGER NOT NULL,
        broken INTEGER NOT NULL,
        pids TEXT NOT NULL,
        metadata TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE waiter (
        ticket INTEGER PRIMARY KEY AUTOINCREMENT,
        token TEXT NOT NULL,
        key TEXT NOT NULL,
        boot TEXT NOT NULL,
        bell TEXT NOT NULL,
        pids TEXT NOT NULL,
        metadata TEXT NOT NULL
    );
";

/// What the second version added, with what it means for the rows of the first.
const SECOND_VERSION: &str = "
    ALTER TABLE lock ADD COLUMN kind TEXT NOT NULL DEFAULT 'exclusive';
    ALTER TABLE waiter ADD COLUMN kind TEXT NOT NULL DEFAULT 'exclusive';
    CREATE TABLE holder (
        key TEXT NOT NULL,
        token TEXT NOT NULL,
        fence INTEGER NOT NULL,
        since INTEGER NOT NULL,
        until INTEGER NOT NULL,
        boot TEXT NOT NULL,
        keep INTEGER NOT NULL,
        broken INTEGER NOT NULL,
        pids TEXT NOT NULL,
        metadata TEXT NOT NULL,
        PRIMARY KEY (key, token)
    ) WITHOUT ROWID;
";

/// Closing any descriptor of a file drops all locks of the process on it (fcntl(2)): nobody looks at one while
/// another thread is in a transaction.
static FILES: RwLock<()> = RwLock::new(());

impl Database {
    /// At `path`, or at the default place for this user; touches nothing.
    pub fn new(path: Option<PathBuf>) -> Database {
        Database { path: path.map_or_else(default_path, Ok), open: None }
    }

    /// Runs one transaction, alone on the whole host; `work` is told the id of this boot, and may be run again.
    ///
    /// # Errors
    ///
    /// The file was busy all the time, cannot be used, or the patience was interrupted: nothing was changed.
    pub fn transact<T>(
        &mut self,
        patience: &Patience,
        mut work: impl FnMut(&Transaction, &str) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut pause = Duration::from_micros(100);
        let mut mended = false;
        loop {
            match self.try_transact(&mut work) {
                Ok(outcome) => return Ok(outcome),
                Err(Failure::Store(error)) => return Err(error),
                Err(Failure::Sql(error)) if is_busy(&error) && !patience.until.has_passed() => {
                    // SQLite's own handler sleeps ever longer and is unfair to those who wait long.
                    patience.pause(pause.mul_f64(0.5 + fastrand::f64()))?;
                    pause = (pause * 2).min(Duration::from_millis(2));
                }
                // Who made the tables was killed before it was done, and SQLite has just undone it.
                Err(Failure::Sql(error)) if lacks_table(&error) && !mended => {
                    mended = true;
                    if let Some(open) = &self.open {
                        let _ = make_tables(&open.connection);
                    }
                }
                Err(Failure::Sql(error)) => return Err(self.failed(&error)),
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

    /// An error about something beside the file.
    pub fn unusable(&self, error: &io::Error) -> StoreError {
        StoreError::Unusable { store: self.name(), why: error.to_string() }
    }

    fn try_transact<T>(
        &mut self,
        work: &mut impl FnMut(&Transaction, &str) -> rusqlite::Result<T>,
    ) -> Result<T, Failure> {
        if let (Some(open), Ok(path)) = (&self.open, &self.path)
            && fs::metadata(path).ok().map(|found| identity(&found)) != Some(open.file)
        {
            // Somebody removed the file; others use a new one now.
            self.open = None;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                let path = self.path.as_ref().map_err(|why| {
                    Failure::Store(StoreError::Unusable { store: "local:".to_owned(), why: why.clone() })
                })?;
                let _alone = FILES.write();
                none.insert(Open::at(path)?)
            }
        };
        let _among_others = FILES.read();
        let tx = open
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(Failure::Sql)?;
        if !open.is_set_up {
            set_up(&tx).map_err(Failure::Sql)?;
            open.is_set_up = true;
        }
        let outcome = work(&tx, &open.boot).map_err(Failure::Sql)?;
        tx.commit().map_err(Failure::Sql)?;
        Ok(outcome)
    }

    /// The file, if there can be one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref().ok()
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        self.path.as_ref().map_or("local:".to_owned(), |path| format!("local:{}", path.display()))
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        let store = self.name();
        let unreachable = |why: &str| StoreError::Unreachable {
            store: store.clone(),
            why: why.to_owned(),
            transient: false,
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => unreachable("others keep it busy"),
            Some(ErrorCode::DiskFull) => unreachable("the disk is full"),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                unreachable("it cannot be written; check the permissions of the file and of its folder")
            }
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::Unusable {
                store,
                why: "the file is damaged or holds something else; when no redlock runs here, move it away"
                    .to_owned(),
            },
            _ => unreachable(&error.to_string()),
        }
    }
}

enum Failure {
    Sql(rusqlite::Error),
    Store(StoreError),
}

impl Open {
    fn at(path: &Path) -> Result<Open, Failure> {
        let store = || format!("local:{}", path.display());
        let unreachable = |error: io::Error| {
            Failure::Store(StoreError::Unreachable { store: store(), why: plain(&error), transient: false })
        };
        let unusable =
            |why: &str| Failure::Store(StoreError::Unusable { store: store(), why: why.to_owned() });
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let found = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(path, folder).map_err(unreachable)?
            }
            other => other.map_err(unreachable)?,
        };
        if found.is_dir() {
            return Err(unusable("it is a directory; name a file"));
        }
        if statfs(folder).is_ok_and(|fs| fs.filesystem_type() == NFS_SUPER_MAGIC) {
            return Err(unusable(
                "it is on NFS, whose file locks are no base for this; name a file on a local disk",
            ));
        }
        let file = identity(&repair(path, folder, found).map_err(unreachable)?);
        // Before SQLite opens the file: see `FILES`.
        let is_ready = has_our_header(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|error| {
            // SQLite says no more than "unable to open"; the system says why.
            let opened = fs::OpenOptions::new().read(true).write(true).open(path);
            opened.err().map_or(Failure::Sql(error), unreachable)
        })?;
        // Who finds the file busy asks again himself, sooner than SQLite would.
        connection.busy_timeout(Duration::ZERO).map_err(Failure::Sql)?;
        if !is_ready && !make_tables(&connection).map_err(Failure::Sql)? {
            return Err(unusable("it is the database of another program; name another file"));
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(unreachable)?;
        Ok(Open { connection, is_set_up: false, file, boot: boot.trim_end().to_owned() })
    }
}

/// The rollback journal makes the file consistent after a kill; it is overwritten, which is faster than a new one
/// each time. (A write-ahead log would be read from its beginning by every short-lived process.) Nothing is synced
/// to the disk, which only the build can say without another look at the file: what a power cut takes with it, the
/// reboot has freed anyway, and `repair` makes a file good that it tore.
fn set_up(tx: &Transaction) -> rusqlite::Result<()> {
    // In the first transaction, as outside of one it takes a look at the file of its own.
    tx.execute_batch("PRAGMA journal_mode = PERSIST")
}

/// Whether the file has our tables, by the numbers at bytes 60 and 68 of an SQLite file: a look at them takes
/// a fraction of the time of two PRAGMAs. See "The Database Header" in the file format of SQLite.
fn has_our_header(path: &Path) -> bool {
    let mut header = [0; 72];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    let (version, application) = (&header[60..64], &header[68..72]);
    read.is_ok() && version == VERSION.to_be_bytes() && application == APPLICATION.to_be_bytes()
}

/// Makes the tables in a new file. `false` for a database that is not ours.
fn make_tables(connection: &Connection) -> rusqlite::Result<bool> {
    let tx = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    // Another may have been faster.
    let version = tx.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0))?;
    if version != VERSION {
        let tables: i32 = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        let application = tx.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0))?;
        match (tables, application, version) {
            (0, ..) => tx.execute_batch(TABLES)?,
            (_, APPLICATION, 1) => {}
            _ => return Ok(false),
        }
        tx.execute_batch(SECOND_VERSION)?;
        tx.pragma_update(None, "application_id", APPLICATION)?;
        tx.pragma_update(None, "user_version", VERSION)?;
    }
    tx.commit()?;
    Ok(true)
}

/// root: /var/lib/redlock/locks.db; others: ~/.local/state/redlock/locks.db, with the home directory of
/// the passwd entry: cron and sudo change the environment, and that must not split a lock into two.
fn default_path() -> Result<PathBuf, String> {
    if geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/redlock/locks.db"));
    }
    match account::home() {
        Ok(Some(home)) => Ok(home.join(".local/state/redlock/locks.db")),
        Ok(None) => {
            Err("this user has no passwd entry and so no home directory; name a file: local:PATH".to_owned())
        }
        Err(why) => Err(format!("{why}; name a file: local:PATH")),
    }
}

fn identity(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// An empty file, in a folder that is made when it is missing.
fn create(path: &Path, folder: &Path) -> io::Result<fs::Metadata> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Another may be faster; append(true) leaves its file as it is.
    fs::OpenOptions::new().append(true).create(true).open(path)?.metadata()
}

fn lacks_table(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::Unknown) && error.to_string().contains("no such table")
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// "Permission denied (os error 13)" without the number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}
