//! A PostgreSQL server of a test.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::harness::{Folder, eventually, other_users};

/// Debian's `nobody`: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65534;

/// A PostgreSQL server of a test's own, on a socket in its folder and nowhere else.
pub struct Postgres {
    child: Child,
    folder: Folder,
}

impl Postgres {
    /// Whether there is a user who may run it.
    pub fn may_run() -> bool {
        !geteuid().is_root() || other_users()
    }

    pub fn start() -> Postgres {
        let folder = Folder::plain();
        let path = folder.path("");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("a private folder");
        if geteuid().is_root() {
            chown(&path, Some(NOBODY), Some(NOBODY)).expect("a folder of nobody's");
        }
        let data = folder.path("data");
        let made = program("initdb")
            .args(["--auth", "trust", "--username", "redlock", "--encoding", "UTF8", "--locale", "C"])
            .arg("--no-sync")
            .arg(&data)
            .output()
            .expect("initdb starts");
        assert!(made.status.success(), "{made:?}");
        let mut server = program("postgres");
        server.arg("-D").arg(&data).arg("-k").arg(&path).args(["-h", "", "-F"]);
        server.stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: the closure makes one system call.
        unsafe {
            // The end of the test's thread is the end of its servers.
            server.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGQUIT)?));
        }
        let mut postgres = Postgres { child: server.spawn().expect("postgres starts"), folder };
        eventually(Duration::from_secs(20), "PostgreSQL answers", || {
            let ended = postgres.child.try_wait().expect("wait");
            assert_eq!(ended, None, "PostgreSQL does not come up");
            postgres.psql("select 1").is_some()
        });
        postgres
    }

    /// Where psql finds the server.
    pub fn env(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("PGHOST", self.folder.path("")),
            ("PGUSER", "redlock".into()),
            ("PGDATABASE", "postgres".into()),
        ]
    }

    /// The answer to a statement.
    pub fn sql(&self, statement: &str) -> String {
        self.psql(statement).unwrap_or_else(|| panic!("failed: {statement}"))
    }

    fn psql(&self, statement: &str) -> Option<String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut command = Command::new("psql");
        command.args(["-XqAtc", statement]).env_clear().env("PATH", path).envs(self.env());
        let output = command.output();
        let output = output.expect("psql is installed; tests/run does that");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An end at once, but one that takes the shared memory along.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGQUIT);
        let _ = self.child.wait();
    }
}

/// A program of the server, which Debian keeps out of PATH, as a user that may run it.
fn program(name: &str) -> Command {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest =
        versions.max_by_key(|version| version.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    let newest = newest.expect("PostgreSQL is installed; tests/run does that");
    let mut command = Command::new(newest.path().join("bin").join(name));
    command.current_dir("/").env_clear().env("PATH", "/usr/bin:/bin");
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}
