//! A terminal with a screen that can be read.

use std::process::{Command, Output};

use super::Store;

/// A terminal of this size in a tmux of its own, in which a program runs.
pub struct Tmux {
    socket: String,
}

impl Tmux {
    pub fn start(store: &Store, [columns, rows]: [u32; 2], name: &str, line: &str) -> Tmux {
        let socket = store.folder.path(name).display().to_string();
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let server = format!("REDLOCK_SERVER={}", store.url);
        let started = tmux(&socket, &["new-session", "-d", "-x", &columns, "-y", &rows, "-e", &server, line]);
        assert!(started.status.success(), "{started:?}");
        Tmux { socket }
    }

    /// The lines on the screen that have something on them.
    pub fn lines(&self, options: &[&str]) -> Vec<String> {
        let seen = tmux(&self.socket, &[&["capture-pane", "-p"], options].concat());
        let text = String::from_utf8_lossy(&seen.stdout).into_owned();
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Types keys, by the names that tmux has for them.
    pub fn press(&self, keys: &[&str]) {
        tmux(&self.socket, &[&["send-keys"], keys].concat());
    }

    pub fn resize(&self, [columns, rows]: [u32; 2]) {
        tmux(&self.socket, &["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// What tmux knows of the terminal, in its format language.
    pub fn says(&self, format: &str) -> String {
        let said = tmux(&self.socket, &["display-message", "-p", format]);
        String::from_utf8_lossy(&said.stdout).trim_end().to_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        tmux(&self.socket, &["kill-server"]);
    }
}

fn tmux(socket: &str, args: &[&str]) -> Output {
    let mut command = Command::new("tmux");
    command.args(["-u", "-f", "/dev/null", "-S", socket]).args(args);
    command.env("LC_ALL", "C.UTF-8").env_remove("TMUX").output().expect("tmux; tests/run installs it")
}
