//! A cgroup that is frozen: its processes stay as they are, whatever signal comes. In version 1 also after SIGKILL.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use super::eventually;

/// Thawed and removed in the end.
pub struct Freezer {
    folder: PathBuf,
}

impl Freezer {
    /// None where this user cannot make cgroups.
    pub fn make() -> Option<Freezer> {
        let roots = ["/sys/fs/cgroup/freezer", "/sys/fs/cgroup"].map(Path::new);
        let folder = roots.into_iter().find(|root| root.exists())?.join(format!("redlock-{}", process::id()));
        fs::create_dir(&folder).ok()?;
        let freezer = Freezer { folder };
        [freezer.state(), freezer.folder.join("cgroup.procs")]
            .iter()
            .all(|file| file.exists())
            .then_some(freezer)
    }

    fn state(&self) -> PathBuf {
        ["freezer.state", "cgroup.freeze"]
            .map(|name| self.folder.join(name))
            .into_iter()
            .find(|file| file.exists())
            .unwrap_or_default()
    }

    fn is_old(&self) -> bool {
        self.state().ends_with("freezer.state")
    }

    pub fn freeze(&self, pid: i32) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).expect("a process in the cgroup");
        fs::write(self.state(), if self.is_old() { "FROZEN" } else { "1" }).expect("a freezer");
        let [file, frozen] = match self.is_old() {
            true => ["freezer.state", "FROZEN"],
            false => ["cgroup.events", "frozen 1"],
        };
        eventually(Duration::from_secs(5), "the freeze", || {
            fs::read_to_string(self.folder.join(file)).is_ok_and(|state| state.contains(frozen))
        });
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = fs::write(self.state(), if self.is_old() { "THAWED" } else { "0" });
        for _ in 0..500 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
