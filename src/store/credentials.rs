//! How to log in to a store, and the files of TLS.

use std::env;
use std::io;
use std::path::{self, PathBuf};

/// How to log in where the URL does not say.
#[derive(Clone, Default)]
pub struct Credentials {
    pub user: Option<String>,
    pub password: Option<String>,
    /// Of the Sentinels, which have a login of their own.
    pub sentinel_password: Option<String>,
    pub tls_files: TlsFiles,
}

impl Credentials {
    /// The same files, for a process that leaves this folder.
    pub fn absolute(mut self) -> io::Result<Credentials> {
        let files = &mut self.tls_files;
        let named = [&mut files.ca, &mut files.cert, &mut files.key, &mut files.roots.file];
        for file in named.into_iter().flatten().chain(&mut files.roots.folders) {
            *file = path::absolute(&file)?;
        }
        Ok(self)
    }
}

/// What an encrypted connection is checked with, and shows, as PEM files.
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
    /// Those of our environment.
    pub fn named() -> Roots {
        let value = |name| env::var_os(name).filter(|value| !value.is_empty());
        let folders = value("SSL_CERT_DIR").unwrap_or_default();
        let folders = env::split_paths(&folders).filter(|folder| !folder.as_os_str().is_empty()).collect();
        Roots { file: value("SSL_CERT_FILE").map(PathBuf::from), folders }
    }
}
