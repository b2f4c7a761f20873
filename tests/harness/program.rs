//! The program under test: started, watched, ended.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::eventually;

/// The program under test, in an environment with nothing but PATH and HOME.
pub struct Redlock {
    pub command: Command,
}

impl Redlock {
    pub fn new(args: &[&str]) -> Redlock {
        super::pace::watch();
        let program = env!("CARGO_BIN_EXE_redlock");
        // Redlock warns of a token on the command line.
        match args.iter().position(|arg| *arg == "--token") {
            Some(flag) if matches!(args[0], "check" | "release" | "renew") => {
                let others = [&args[..flag], &args[flag + 2..]].concat();
                Redlock::under(program, &others).env("REDLOCK_TOKEN", args[flag + 1])
            }
            _ => Redlock::under(program, args),
        }
    }

    /// Another program, which starts it.
    pub fn under(program: &str, args: &[&str]) -> Redlock {
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", "/nonexistent");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        with_default_signals(&mut command);
        Redlock { command }
    }

    pub fn server(mut self, url: &str) -> Redlock {
        self.command.env("REDLOCK_SERVER", url);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Redlock {
        self.command.env(name, value);
        self
    }

    /// With a stdin that stays open until [`Running::let_go`].
    pub fn open_stdin(mut self) -> Redlock {
        self.command.stdin(Stdio::piped());
        self
    }

    /// Runs to the end; fails the test when that takes longer than a minute.
    pub fn run(self) -> Finished {
        self.spawn().finish()
    }

    /// Ends with what this returns.
    pub fn spawn(mut self) -> Running {
        Running { child: self.command.spawn().expect("redlock starts") }
    }
}

const SIGNALS: [libc::c_int; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];

/// Starts the program with the signals as at a prompt: those that run the tests may ignore some (nohup, `&`).
pub fn with_default_signals(command: &mut Command) {
    static IGNORED: LazyLock<bool> = LazyLock::new(|| SIGNALS.into_iter().any(is_ignored));
    // With a closure the memory of this process is copied at each start: a fifth of the processor time of a crowd.
    if !*IGNORED {
        return;
    }
    // SAFETY: the closure makes system calls only.
    unsafe {
        command.pre_exec(|| {
            for signal in SIGNALS {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: an all-zero sigaction is a valid one, and the call only fills it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// The program, running.
pub struct Running {
    pub child: Child,
}

impl Running {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("a signal to redlock");
    }

    /// The pid of its guard.
    pub fn guard(&self) -> i32 {
        let mut found = None;
        eventually(Duration::from_secs(10), "the guard", || {
            found = children(self.pid()).into_iter().next();
            found.is_some()
        });
        found.expect("just seen")
    }

    /// The pid of its command.
    pub fn command(&self) -> i32 {
        let (guard, mut found) = (self.guard(), None);
        eventually(Duration::from_secs(10), "the command", || {
            found = command_below(guard);
            found.is_some()
        });
        found.expect("just seen")
    }

    /// Waits until a file exists that its job makes.
    #[track_caller]
    pub fn await_file(&mut self, path: &Path) {
        self.lives_until(&format!("{} exists", path.display()), || path.exists());
    }

    /// Waits for `condition`, and fails when redlock ends before that.
    #[track_caller]
    pub fn lives_until(&mut self, what: &str, mut condition: impl FnMut() -> bool) {
        eventually(Duration::from_secs(20), what, || condition() || self.has_ended());
        if !condition() {
            let end = self.output();
            panic!("ended before {what}: {end:?}");
        }
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("wait").is_some()
    }

    /// Closes the stdin of a job that waits for that.
    pub fn let_go(mut self) -> Finished {
        drop(self.child.stdin.take());
        self.finish()
    }

    pub fn finish(mut self) -> Finished {
        self.output()
    }

    fn output(&mut self) -> Finished {
        // Read beside the waiting: a full pipe would stop the program.
        let out = reader(self.child.stdout.take());
        let err = reader(self.child.stderr.take());
        eventually(Duration::from_secs(60), "the end of redlock", || self.has_ended());
        let status = self.child.wait().expect("wait");
        Finished { status, stdout: out.join().expect("stdout"), stderr: err.join().expect("stderr") }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn reader(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// How the program ended and what it wrote.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// The exit status; a death by signal is its negative number.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| -self.status.signal().unwrap_or(0))
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Finished {
        assert_eq!(self.code(), code, "{self:?}");
        self
    }

    /// The only line on stderr.
    #[track_caller]
    pub fn line(&self) -> &str {
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        self.stderr.trim_end()
    }
}

/// The command that a guard has started. Before that its process sleeps, with the name of its parent.
pub fn command_below(guard: i32) -> Option<i32> {
    let name = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let mut below = children(guard).into_iter().flat_map(children);
    below.find(|pid| name(pid).trim_end() != "lock-command")
}

/// The children of a process, of all its threads.
pub fn children(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Stops a process: each of its threads, as others may go on for a while when one has the signal.
pub fn pause(pid: i32) {
    let is_stopped = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with('T'))
    };
    kill(Pid::from_raw(pid), Signal::SIGSTOP).expect("a signal");
    eventually(Duration::from_secs(20), "all of its threads are stopped", || {
        let mut tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten();
        tasks.all(is_stopped)
    });
}

/// Whether a process exists and is no zombie.
pub fn is_alive(pid: i32) -> bool {
    let mut stat = String::new();
    let read = File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read_to_string(&mut stat));
    read.is_ok() && stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The number in a file that a job wrote.
pub fn pid_in(path: &Path) -> i32 {
    let mut pid = None;
    eventually(Duration::from_secs(20), &format!("a pid in {}", path.display()), || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        pid = text.ends_with('\n').then(|| text.trim().parse().ok()).flatten();
        pid.is_some()
    });
    pid.expect("just read")
}

/// Waits until a file exists.
pub fn await_file(path: &Path) {
    eventually(Duration::from_secs(20), &format!("{} exists", path.display()), || path.exists());
}
