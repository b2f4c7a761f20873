//! What the caller of redlock sees of its processes.

use crate::harness::{Redlock, Store, namespaces, with_default_signals};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

/// As under cron or in a container: nobody in the session is the parent of the group. The end of a command whose parent
/// is in another group makes such a group an orphan, and the kernel ends it when one of it is stopped.
#[test]
fn a_stopped_process_of_the_callers_group() {
    let store = Store::local();
    let script = r#"
        sleep 100 & stopped=$!
        kill -STOP $stopped
        until grep -q ') T ' /proc/$stopped/stat; do sleep 0.01; done
        "$0" run -k X -- true
        echo "survived $?"
        kill -KILL $stopped"#;
    let mut redlock = Redlock::under("setsid", &["-w", "bash", "-c", script, PROGRAM]);
    with_default_signals(&mut redlock.command);
    let ended = store.reached_by(redlock).run();
    assert_eq!((ended.code(), ended.stdout.as_str()), (0, "survived 0\n"), "{ended:?}");
}

/// The first process of a container that is an application waits for its own children only.
#[test]
fn no_zombies() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    let script = r#"
import os, subprocess, sys
run = [sys.argv[1], "run", "-k"]
for job in (["X", "--", "true"], ["X", "--", "sh", "-c", "sleep 1 & exit 3"], ["X", "--", "no such command"]):
    subprocess.run(run + job, stderr=subprocess.DEVNULL)
with subprocess.Popen(run + ["X", "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
    holder.stdin.write(b"x"), holder.stdin.flush(), holder.stdout.read(1)
    print(subprocess.run(run + ["X", "--", "true"], stderr=subprocess.DEVNULL).returncode)
for pid in filter(str.isdigit, os.listdir("/proc")):
    stat = open(f"/proc/{pid}/stat").read()
    if "lock-" in stat or "redlock" in stat:
        print(stat)
"#;
    let args = ["-pf", "--mount-proc", "python3", "-c", script, PROGRAM];
    let ended = store.reached_by(Redlock::under("unshare", &args)).run().expect(0);
    assert_eq!(ended.stdout, "75\n");
}

/// For `time`, and for whoever accounts what jobs use.
#[test]
fn the_processor_time_of_the_command() {
    let store = Store::local();
    let script = r#"
import resource, subprocess, sys
burn = "import time\nwhile time.process_time() < 0.3: pass"
subprocess.run([sys.argv[1], "run", "-k", "X", "--", sys.executable, "-c", burn], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime > 0.25)
"#;
    let ended = store.reached_by(Redlock::under("python3", &["-c", script, PROGRAM])).run().expect(0);
    assert_eq!(ended.stdout, "True\n");
}
