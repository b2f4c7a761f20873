//! A terminal for the program under test.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, poll};

use super::eventually;

/// A program at a terminal of its own.
pub struct Pty {
    child: Child,
    /// `None` when the terminal is gone.
    keys: Option<File>,
    screen: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Pty {
    /// Starts `command` as the leader of a session whose terminal this is.
    pub fn start(mut command: Command) -> Pty {
        // Closed on exec from the first moment: other tests start programs at the same time.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = nix::pty::posix_openpt(flags).expect("a pseudo terminal");
        nix::pty::grantpt(&master).expect("its rights");
        nix::pty::unlockpt(&master).expect("its lock");
        let name = nix::pty::ptsname_r(&master).expect("its name");
        let terminal = File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(name);
        let terminal = terminal.expect("the terminal");
        let size = libc::winsize { ws_row: 24, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the pointer is to a winsize that lives through the call.
        unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &size) };
        let slave = || Stdio::from(terminal.try_clone().expect("a second handle"));
        command.stdin(slave()).stdout(slave()).stderr(slave());
        super::with_default_signals(&mut command);
        // SAFETY: the closure makes system calls only.
        unsafe {
            command.pre_exec(|| {
                nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
                nix::unistd::setsid()?;
                if libc::ioctl(0, libc::TIOCSCTTY, 0) == -1 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("the program at the terminal");
        drop(terminal);
        let keys = File::from(OwnedFd::from(master));
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut output, text) = (keys.try_clone().expect("a second handle"), Arc::clone(&screen));
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let reader = thread::spawn(move || {
            let mut chunk = [0; 4096];
            while !ends.load(Ordering::Relaxed) {
                if poll(&mut [PollFd::new(output.as_fd(), PollFlags::POLLIN)], 20_u8) == Ok(0) {
                    continue;
                }
                let Ok(length @ 1..) = output.read(&mut chunk) else { return };
                text.lock().expect("the screen").push_str(&String::from_utf8_lossy(&chunk[..length]));
            }
        });
        Pty { child, keys: Some(keys), screen, reader: Some(reader), is_over }
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn send(&mut self, keys: &str) {
        let terminal = self.keys.as_mut().expect("a terminal");
        terminal.write_all(keys.as_bytes()).expect("keys to the terminal");
    }

    /// Takes the terminal away.
    pub fn hang_up(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.reader.take().expect("a reader").join().expect("its end");
        self.keys = None;
    }

    /// All that was written to the terminal.
    pub fn screen(&self) -> String {
        self.screen.lock().expect("the screen").clone()
    }

    #[track_caller]
    pub fn expect(&self, text: &str) {
        eventually(Duration::from_secs(20), &format!("{text:?} on the terminal"), || {
            self.screen().contains(text)
        });
    }

    /// How it ended; a death by signal is its negative number.
    pub fn finish(&mut self) -> i32 {
        eventually(Duration::from_secs(30), "the end of the program at the terminal", || {
            self.child.try_wait().expect("wait").is_some()
        });
        let status = self.child.wait().expect("wait");
        status.code().unwrap_or_else(|| -status.signal().unwrap_or(0))
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
