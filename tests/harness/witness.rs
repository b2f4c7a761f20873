//! A witness of mutual exclusion: jobs that would see each other.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use super::standstill::Standstill;
use super::{Folder, is_alive};

/// A red says whether the machine could keep a deadline at all.
static STANDSTILL: LazyLock<Standstill> = LazyLock::new(Standstill::watch);

/// Jobs that would see each other.
///
/// Each job makes an owner file with O_EXCL, checks that its fencing token is greater than every one before,
/// works for a moment, and removes the file. A job that was killed leaves its file behind: then its process
/// is looked for, and only one that lives is an overlap. The folder that it is in tells it from another process with its
/// pid: the whole suite gives out all pids in less than a minute.
pub struct Witness {
    folder: Folder,
}

/// Says where a process and those above it are. One that was killed and has not yet got a processor to die has the bit 100 in
/// ShdPnd. Only root sees the stacks.
macro_rules! describe {
    () => {
        r#"
describe() {
    above=$1
    while [ "${above:-0}" -gt 1 ]; do
        echo $(grep -E '^(Name|Pid|State|SigPnd|ShdPnd):' "/proc/$above/status") $(cat "/proc/$above/stack")
        above=$(sed -n 's/^PPid://p' "/proc/$above/status")
    done
} 2>&1
"#
    };
}
pub(crate) use describe;

/// Says whether a process of this folder can still do something. One that the kernel is ending (PF_EXITING in the flags of
/// /proc/PID/stat) executes no instruction of its own, however long it stands in `exit_mmap` on a crowded machine.
macro_rules! lives {
    () => {
        r#"
lives() {
    [ "/proc/$1/cwd" -ef . ] || return 1
    { read -r stat < "/proc/$1/stat"; } 2>/dev/null || return 1
    set -- ${stat##*) }
    [ $(($7 & 4)) -eq 0 ]
}
"#
    };
}
pub(crate) use lives;

/// `$0` is the folder, `$1` how long to work: so many seconds, or with `-` until the end of stdin.
const JOB: &str = concat!(
    describe!(),
    lives!(),
    r#"
cd "$0" || exit 9
until (set -C; echo $$ > owner) 2>/dev/null; do
    { read -r other < owner; } 2>/dev/null
    if lives "${other:-0}"; then
        {
            echo "$other inside as $$ came"
            describe "$other"
        } >> overlaps
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
case $1 in 0) ;; -) cat ;; *) sleep "$1" ;; esac
echo end >> log
rm -f owner
"#
);

impl Witness {
    pub fn new() -> Witness {
        LazyLock::force(&STANDSTILL);
        Witness { folder: Folder::new() }
    }

    /// The command line of a job that stays inside for `seconds`, or until the end of its stdin where that is `-`.
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
        let stood = STANDSTILL.longest();
        assert_eq!(self.overlaps(), Vec::<String>::new(), "a processor stood still for {stood:?} at most");
    }
}

/// A witness for jobs that may meet some others: a reader every reader, one with a permit a few with a permit.
///
/// Each job makes a file with its role and pid, and then looks who else is inside: of two that meet, the later
/// one sees the other.
pub struct Rules {
    folder: Folder,
    permits: usize,
}

/// `$0` is the folder, `$1` the role, `$2` the number of permits, `$3` how long to work.
const ROLE: &str = concat!(
    describe!(),
    lives!(),
    r#"
cd "$0" || exit 9
: > "$1.$$"
together=1
for file in reader.* writer.* permit.*; do
    pid=${file#*.}
    [ "$pid" = '*' ] || [ "$pid" = $$ ] && continue
    if ! lives "$pid"; then
        rm -f "$file"
        continue
    fi
    case $1,$file in
        reader,reader.*) ;;
        permit,permit.*) together=$((together + 1)) inside="$inside $pid" ;;
        *) echo "$1 $$ met $file" >> broken ;;
    esac
done
[ $together -le "$2" ] || {
    echo "$together at once"
    for pid in $inside; do describe "$pid"; done
} >> broken
[ "$3" = 0 ] || sleep "$3"
rm -f "$1.$$"
"#
);

impl Rules {
    pub fn new(permits: usize) -> Rules {
        Rules { folder: Folder::new(), permits }
    }

    /// The command line of a job in this role that stays inside for `seconds`.
    pub fn job(&self, role: &str, seconds: &str) -> Vec<String> {
        let folder = self.folder.path("").display().to_string();
        ["sh", "-c", ROLE, &folder, role, &self.permits.to_string(), seconds].map(str::to_owned).to_vec()
    }

    /// What jobs saw that must not be.
    pub fn broken(&self) -> Vec<String> {
        let seen = fs::read_to_string(self.folder.path("broken")).unwrap_or_default();
        seen.lines().map(str::to_owned).collect()
    }
}
