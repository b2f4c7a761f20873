//! The login to a store, and the files of TLS.

use std::env;
use std::fmt;
use std::io;
use std::path::{self, PathBuf};
use std::time::Duration;

use crate::clock::BootTime;
use crate::error::Failure;
use crate::secret::{read_password, read_password_again};

/// The login where the URL has none.
#[derive(Clone, Default)]
pub struct Credentials {
    pub user: Option<String>,
    pub password: Option<Password>,
    /// The Sentinels have a login of their own.
    pub sentinel_password: Option<Password>,
    pub tls_files: TlsFiles,
}

impl Credentials {
    /// The same files, for a process that leaves this folder.
    pub fn absolute(mut self) -> io::Result<Credentials> {
        for password in [&mut self.password, &mut self.sentinel_password].into_iter().flatten() {
            if let Password::InFile { path, .. } = password {
                *path = path::absolute(&path)?;
            }
        }
        let files = &mut self.tls_files;
        let named = [&mut files.ca, &mut files.cert, &mut files.key, &mut files.roots.file];
        for file in named.into_iter().flatten().chain(&mut files.roots.folders) {
            *file = path::absolute(&file)?;
        }
        Ok(self)
    }
}

/// A password, which may be rotated while a job runs where it is in a file.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    Fixed(String),
    InFile { path: PathBuf, at_start: String, read: BootTime },
}

/// The first login takes what was read just before.
const FRESH: Duration = Duration::from_secs(1);

impl Password {
    /// Reads the file, which has to be there now.
    pub fn in_file(path: PathBuf) -> Result<Password, Failure> {
        let at_start = read_password(&path)?;
        Ok(Password::InFile { path, at_start, read: BootTime::now() })
    }

    /// The password for the next login. A file that cannot be read now, as one that is being replaced, leaves the old one.
    pub fn current(&self) -> String {
        match self {
            Password::Fixed(password) => password.clone(),
            Password::InFile { at_start, read, .. } if BootTime::now().since(*read) < FRESH => {
                at_start.clone()
            }
            Password::InFile { path, at_start, .. } => {
                read_password_again(path).unwrap_or_else(|| at_start.clone())
            }
        }
    }

    /// The password that was there at the start.
    pub fn at_start(&self) -> &str {
        let (Password::Fixed(password) | Password::InFile { at_start: password, .. }) = self;
        password
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// The PEM files with which an encrypted connection is checked, and which it shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities to trust, instead of the system's roots.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key, for a server that wants one.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Where the system's roots are.
    pub roots: Roots,
}

/// The places that SSL_CERT_FILE and SSL_CERT_DIR name; without them the system knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    pub file: Option<PathBuf>,
    pub folders: Vec<PathBuf>,
}

impl Roots {
    /// The roots that our environment names.
    pub fn named() -> Roots {
        let value = |name| env::var_os(name).filter(|value| !value.is_empty());
        let folders = value("SSL_CERT_DIR").unwrap_or_default();
        let folders = env::split_paths(&folders).filter(|folder| !folder.as_os_str().is_empty()).collect();
        Roots { file: value("SSL_CERT_FILE").map(PathBuf::from), folders }
    }
}
