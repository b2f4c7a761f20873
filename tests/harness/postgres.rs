//! A PostgreSQL server of a test.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use super::certificates::Papers;
use super::port::free_port;
use super::{Folder, children, eventually, other_users};

/// Debian's `nobody`: PostgreSQL and PgBouncer refuse to run as root.
const NOBODY: u32 = 65534;

/// The superuser that [`Postgres::url`] names.
pub const USER: &str = "redlock";

/// A PostgreSQL server of a test's own, on a free port of the loopback interface and on a socket in its folder.
pub struct Postgres {
    child: Child,
    pub port: u16,
    folder: Folder,
    args: Vec<String>,
    /// The library with a clock that can be set.
    clock: Option<PathBuf>,
}

/// What is different from most tests.
#[derive(Default)]
pub struct PostgresSettings<'a> {
    /// Settings of its configuration, each as `name=value`.
    pub conf: &'a [&'a str],
    /// The lines of pg_hba.conf that come first. Without them everybody is trusted.
    pub hba: &'a str,
    /// It also speaks TLS, and shows this certificate.
    pub papers: Option<&'a Papers>,
    /// [`Postgres::set_clock`] works.
    pub has_clock: bool,
}

/// Many connections, little memory; what outlives a death of the program need not outlive one of the machine.
const CONF: [&str; 7] = [
    "fsync=off",
    "shared_buffers=16MB",
    "max_connections=600",
    "max_wal_size=256MB",
    "dynamic_shared_memory_type=mmap",
    "jit=off",
    "listen_addresses=127.0.0.1",
];

impl Postgres {
    /// Whether there is a user who may run it.
    pub fn may_run() -> bool {
        !geteuid().is_root() || other_users()
    }

    pub fn start() -> Postgres {
        Postgres::with(&PostgresSettings::default())
    }

    pub fn with(settings: &PostgresSettings) -> Postgres {
        let folder = folder_for_nobody();
        let data = folder.path("data");
        copy(&template(), &data);
        let hba = data.join("pg_hba.conf");
        let trusting = fs::read_to_string(&hba).expect("pg_hba.conf");
        fs::write(hba, format!("{}\n{trusting}", settings.hba)).expect("pg_hba.conf");
        let mut conf: Vec<String> = settings.conf.iter().map(|line| (*line).to_owned()).collect();
        if let Some(papers) = settings.papers {
            conf.extend(encrypted(&folder, papers));
        }
        let clock = settings.has_clock.then(|| {
            let library = super::clock::adjustable_library(&folder.path("ahead"), &folder);
            fs::set_permissions(&library, fs::Permissions::from_mode(0o755)).expect("a library for all");
            library
        });
        Postgres::serve(folder, conf, clock)
    }

    /// Puts the wall clock of the server this many seconds ahead.
    pub fn set_clock(&self, ahead: i64) {
        let new = self.folder.path("ahead.new");
        fs::write(&new, ahead.to_string()).expect("a file");
        fs::rename(new, self.folder.path("ahead")).expect("a file");
    }

    /// A hot standby that follows this server.
    pub fn standby(&self) -> Postgres {
        let folder = folder_for_nobody();
        let copied = program("pg_basebackup")
            .args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--user", USER, "--pgdata"])
            .arg(folder.path("data"))
            .arg("--host")
            .arg(self.socket_folder())
            .args(["--port", &self.port.to_string()])
            .output()
            .expect("pg_basebackup starts");
        assert!(copied.status.success(), "{copied:?}");
        Postgres::serve(folder, Vec::new(), None)
    }

    fn serve(folder: Folder, conf: Vec<String>, clock: Option<PathBuf>) -> Postgres {
        let port = free_port();
        let mut args = vec!["-D".to_owned(), folder.path("data").display().to_string()];
        args.extend([
            "-p".to_owned(),
            port.to_string(),
            "-k".to_owned(),
            folder.path("").display().to_string(),
        ]);
        let conf = CONF.iter().map(|line| (*line).to_owned()).chain(conf);
        args.extend(conf.flat_map(|line| ["-c".to_owned(), line]));
        let child = spawn(&args, &folder, clock.as_deref());
        let mut postgres = Postgres { child, port, folder, args, clock };
        postgres.await_answer();
        postgres
    }

    fn await_answer(&mut self) {
        eventually(Duration::from_secs(60), "PostgreSQL answers", || {
            let ended = self.child.try_wait().expect("wait");
            assert_eq!(ended, None, "PostgreSQL does not come up: {}", self.log());
            self.psql("postgres", "select 1").is_ok()
        });
    }

    /// As `--server` has it, with the superuser and over TCP.
    pub fn url(&self) -> String {
        self.url_of(USER, "postgres")
    }

    pub fn url_of(&self, login: &str, database: &str) -> String {
        format!("postgres://{login}@{}/{database}", self.address())
    }

    /// The same over the socket.
    pub fn socket_url(&self, database: &str) -> String {
        let folder = self.socket_folder();
        format!("postgres://{USER}@/{database}?host={}&port={}", folder.display(), self.port)
    }

    /// With the port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The folder with the socket.
    pub fn socket_folder(&self) -> PathBuf {
        self.folder.path("")
    }

    /// The variables with which programs of libpq find the server.
    pub fn env(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("PGHOST", self.socket_folder()),
            ("PGPORT", self.port.to_string().into()),
            ("PGUSER", USER.into()),
            ("PGDATABASE", "postgres".into()),
        ]
    }

    /// The answer to a statement.
    pub fn sql(&self, statement: &str) -> String {
        self.sql_in("postgres", statement)
    }

    pub fn sql_in(&self, database: &str, statement: &str) -> String {
        self.psql(database, statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    /// The answer to statements, or the error.
    pub fn psql(&self, database: &str, statements: &str) -> Result<String, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut command = Command::new("psql");
        command.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-c", statements]).env_clear().env("PATH", path);
        let output = command.envs(self.env()).env("PGDATABASE", database).output();
        let output = output.expect("psql is installed; tests/run does that");
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// A database of a test's own, in which `redlock doctor --setup` made its tables.
    pub fn database(&self) -> String {
        static TEMPLATES: Mutex<Vec<(u16, u32)>> = Mutex::new(Vec::new());
        // Nobody may use a template while it is copied.
        let mut templates = TEMPLATES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = templates.iter().position(|(port, _)| *port == self.port).unwrap_or_else(|| {
            self.sql("create database template_of_redlock");
            self.set_up("template_of_redlock");
            templates.push((self.port, 0));
            templates.len() - 1
        });
        let count = &mut templates[known].1;
        *count += 1;
        let name = format!("t{count}");
        self.sql(&format!("create database {name} template template_of_redlock"));
        name
    }

    /// Makes redlock's tables.
    pub fn set_up(&self, database: &str) {
        let url = self.url_of(USER, database);
        let set_up = super::Redlock::new(&["doctor", "--setup"])
            .server(&url)
            .env("REDLOCK_CONNECT_TIMEOUT", "20s")
            .run();
        assert_eq!(
            self.sql_in(database, "select to_regclass('redlock.lock') is not null"),
            "t",
            "{set_up:?}"
        );
    }

    /// All locks of a database are forgotten.
    pub fn empty(&self, database: &str) {
        self.sql_in(
            database,
            "do $$ declare name text; begin
                for name in select tablename from pg_tables where schemaname = 'redlock' and tablename <> 'meta' loop
                    execute format('delete from redlock.%I', name);
                end loop;
            end $$",
        );
    }

    /// The process that serves the others.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Stops the server with all its processes. The postmaster is the first: it starts nobody then.
    pub fn pause(&self) {
        super::program::pause(self.pid());
        let processes = children(self.pid());
        processes.iter().for_each(|pid| signal(*pid, Signal::SIGSTOP));
        // One may have ended in the meantime, and is a zombie then.
        let is_still = |pid: &i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['T', 'Z', 'X']))
        };
        eventually(Duration::from_secs(60), "PostgreSQL is stopped", || processes.iter().all(is_still));
    }

    pub fn resume(&self) {
        children(self.pid()).into_iter().for_each(|pid| signal(pid, Signal::SIGCONT));
        signal(self.pid(), Signal::SIGCONT);
    }

    /// Ends it without a last checkpoint, so that the next start is that after a crash.
    pub fn kill(&mut self) {
        signal(self.pid(), Signal::SIGQUIT);
        self.child.wait().expect("the death of PostgreSQL");
    }

    /// Ends it as an administrator does who does not wait for clients.
    pub fn shut_down(&mut self) {
        signal(self.pid(), Signal::SIGINT);
        self.child.wait().expect("the end of PostgreSQL");
    }

    /// Starts it with its data on its port.
    pub fn restart(&mut self) {
        self.child = spawn(&self.args, &self.folder, self.clock.as_deref());
        self.await_answer();
    }

    /// A standby becomes a primary.
    pub fn promote(&self) {
        assert_eq!(self.sql("select pg_promote()"), "t");
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path("log")).unwrap_or_default()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An end at once, but one that takes the shared memory along. A stopped process sees no signal.
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGQUIT);
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGCONT);
        let _ = self.child.wait();
    }
}

fn signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

fn spawn(args: &[String], folder: &Folder, clock: Option<&Path>) -> Child {
    let log = fs::File::options().create(true).append(true).open(folder.path("log")).expect("a log");
    let mut server = program("postgres");
    server.envs(clock.map(|library| ("LD_PRELOAD", library)));
    server.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    // SAFETY: the closure makes one system call.
    unsafe {
        // The end of the test's thread is the end of its servers.
        server.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGQUIT)?));
    }
    server.spawn().expect("postgres starts")
}

/// The files of a new server. They are made once: initdb takes seconds.
fn template() -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let template = place.join(format!("postgres-{}", version()));
    if !template.exists() {
        let folder = folder_for_nobody();
        let made = program("initdb")
            .args(["--auth", "trust", "--username", USER, "--encoding", "UTF8", "--locale", "C.UTF-8"])
            .args(["--no-sync", "--wal-segsize=1"])
            .arg(folder.path("data"))
            .output()
            .expect("initdb starts");
        assert!(made.status.success(), "{made:?}");
        // Other test binaries may do the same.
        let copied = place.join(format!("postgres-{}", std::process::id()));
        copy(&folder.path("data"), &copied);
        if fs::rename(&copied, &template).is_err() {
            fs::remove_dir_all(&copied).expect("a folder of ours");
        }
    }
    template
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-a", "--reflink=auto"]).args([from, to]).status();
    assert!(copied.expect("cp").success());
}

/// A folder of the user who may run PostgreSQL.
pub(super) fn folder_for_nobody() -> Folder {
    let folder = Folder::plain();
    let path = folder.path("");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("a private folder");
    give_to_nobody(&path);
    folder
}

fn give_to_nobody(path: &Path) {
    if geteuid().is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("a file of nobody's");
    }
}

/// The settings for a server with a certificate, whose key nobody else may read.
fn encrypted(folder: &Folder, papers: &Papers) -> Vec<String> {
    let own = |name: &str, from: &Path| {
        let path = folder.path(name);
        fs::copy(from, &path).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a private file");
        give_to_nobody(&path);
        path.display().to_string()
    };
    let (cert, key) = (own("cert.pem", &papers.cert), own("key.pem", &papers.key));
    let ca = own("ca.pem", &papers.ca);
    vec![
        "ssl=on".to_owned(),
        format!("ssl_cert_file={cert}"),
        format!("ssl_key_file={key}"),
        format!("ssl_ca_file={ca}"),
    ]
}

/// The newest version that is installed.
fn version() -> u32 {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let numbers = versions.filter_map(|version| version.file_name().to_str()?.parse().ok());
    numbers.max().expect("PostgreSQL is installed; tests/run does that")
}

/// A program of the server, which Debian keeps out of PATH, as a user that may run it.
fn program(name: &str) -> Command {
    as_nobody(&format!("/usr/lib/postgresql/{}/bin/{name}", version()))
}

/// A program that refuses to run as root.
pub(super) fn as_nobody(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").env_clear().env("PATH", "/usr/bin:/bin");
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}
