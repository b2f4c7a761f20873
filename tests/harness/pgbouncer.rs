//! PgBouncer, which lends a few connections to a PostgreSQL server to many clients.

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::port::free_port;
use super::postgres::{USER, as_nobody, folder_for_nobody};
use super::{Folder, Postgres, eventually};

/// Lends a connection for one transaction at a time.
pub struct PgBouncer {
    child: Child,
    pub port: u16,
    folder: Folder,
}

/// Debian's package would start a service, so tests/run takes the program out of it.
const UNPACKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/pgbouncer");

impl PgBouncer {
    /// Every client is trusted, as is every user that the server knows.
    pub fn before(postgres: &Postgres) -> PgBouncer {
        let folder = folder_for_nobody();
        let port = free_port();
        let [users, config] = ["users", "config"].map(|name| folder.path(name));
        fs::write(&users, format!("\"{USER}\" \"\"\n")).expect("the users");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\nmax_client_conn = 2000\ndefault_pool_size = 10\nserver_idle_timeout = 2\nadmin_users = {USER}\n",
            postgres.port,
            users.display(),
        );
        fs::write(&config, text).expect("the configuration");
        let log = fs::File::create(folder.path("log")).expect("a log");
        // Debian's own is out of the PATH of users.
        let installed = if Path::new(UNPACKED).exists() { UNPACKED } else { "/usr/sbin/pgbouncer" };
        // Nobody may have no way to the folder of the tests.
        let program = folder.path("pgbouncer");
        // By cp: a copy that this process writes would be busy in a child that another test forks at that time.
        let copied = Command::new("cp").arg(installed).arg(&program).status().expect("cp");
        assert!(copied.success(), "PgBouncer is installed; tests/run does that");
        let mut command: Command = as_nobody(program.to_str().expect("a plain path"));
        command.arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // SAFETY: the closure makes one system call.
        unsafe {
            // The end of the test's thread is the end of its servers.
            command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
        }
        let mut pgbouncer = PgBouncer { child: command.spawn().expect("PgBouncer starts"), port, folder };
        eventually(Duration::from_secs(20), "PgBouncer listens", || {
            let ended = pgbouncer.child.try_wait().expect("wait");
            assert_eq!(ended, None, "PgBouncer does not come up: {}", pgbouncer.log());
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        pgbouncer
    }

    /// As `--server` has it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}?pooler=yes", self.port)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path("log")).unwrap_or_default()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
