use std::fs;
use std::path::PathBuf;

use super::{Folder, is_alive};

/// Jobs that would see each other.
///
/// Each job makes an owner file with O_EXCL, checks that its fencing token is greater than every one before,
/// works for a moment, and removes the file. A job that was killed leaves its file behind: then its process
/// is looked for, and only one that lives is an overlap.
pub struct Witness {
    folder: Folder,
}

/// `$0` is the folder, `$1` how long to work.
const JOB: &str = r#"
cd "$0" || exit 9
until (set -C; echo $$ > owner) 2>/dev/null; do
    { read -r other < owner; } 2>/dev/null
    if [ -n "$other" ] && kill -0 "$other" 2>/dev/null; then
        echo "$other inside as $$ came" >> overlaps
        exit 9
    fi
    rm -f owner
done
echo start >> log
if [ -n "$REDLOCK_FENCE" ]; then
    { read -r last < fence; } 2>/dev/null
    [ "$REDLOCK_FENCE" -gt "${last:-0}" ] || echo "fence $REDLOCK_FENCE after $last" >> overlaps
    echo "$REDLOCK_FENCE" > fence
fi
[ "$1" = 0 ] || sleep "$1"
echo end >> log
rm -f owner
"#;

impl Witness {
    pub fn new() -> Witness {
        Witness { folder: Folder::new() }
    }

    /// The command line of a job that stays inside for `seconds`.
    pub fn job(&self, seconds: &str) -> Vec<String> {
        ["sh", "-c", JOB, &self.folder(), seconds].map(str::to_owned).to_vec()
    }

    pub fn entries(&self) -> usize {
        fs::read_to_string(self.folder.path("log")).unwrap_or_default().matches("start").count()
    }

    /// What jobs saw that must not be.
    pub fn overlaps(&self) -> Vec<String> {
        let seen = fs::read_to_string(self.folder.path("overlaps")).unwrap_or_default();
        seen.lines().map(str::to_owned).collect()
    }

    /// Whether a job is inside now.
    pub fn is_occupied(&self) -> bool {
        let owner = fs::read_to_string(self.file("owner")).unwrap_or_default();
        owner.trim().parse().is_ok_and(is_alive)
    }

    /// Where the jobs meet.
    pub fn folder(&self) -> String {
        self.folder.path("").display().to_string()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    #[track_caller]
    pub fn assert_alone(&self) {
        assert_eq!(self.overlaps(), Vec::<String>::new());
    }
}
