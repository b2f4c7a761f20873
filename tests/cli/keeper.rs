//! The keeper of `acquire --while-pid`, as a process.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Pty, Redlock, Running, Store, await_file, eventually, is_alive, other_users, pid_in, slowed, ttl,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

/// Nothing of the terminal is left to it: it neither holds it nor hears of its keys.
#[test]
fn a_session_of_its_own() {
    let store = Store::local();
    let mut command = Command::new("bash");
    let script = r#"trap 'echo interrupted' INT; exec 7</etc/passwd
        eval "$("$0" acquire -k X --while-pid $$ --format env)"; echo "has it"
        until read -r line && [ "$line" = end ]; do :; done; echo done"#;
    command.args(["--norc", "--noprofile", "-c", script, PROGRAM]).env("REDLOCK_SERVER", &store.url);
    let mut pty = Pty::start(command);
    pty.expect("has it");
    let keeper = store.status("X")["holders"][0]["pid"].as_i64().expect("its pid") as i32;

    let stat = fs::read_to_string(format!("/proc/{keeper}/stat")).expect("its state");
    let (name, rest) = stat.rsplit_once(") ").expect("its name");
    assert!(name.ends_with("(lock-keeper"), "{stat}");
    let words: Vec<&str> = rest.split(' ').collect();
    let (group, session, terminal) = (words[2], words[3], words[4]);
    assert_eq!((group, session, terminal), (&*keeper.to_string(), &*keeper.to_string(), "0"), "{stat}");
    let link = |name: &str| fs::read_link(format!("/proc/{keeper}/{name}")).expect("a link");
    for fd in 0..3 {
        assert_eq!(link(&format!("fd/{fd}")), Path::new("/dev/null"));
    }
    assert_eq!(link("cwd"), Path::new("/"));
    let open = fs::read_dir(format!("/proc/{keeper}/fd")).expect("its descriptors").flatten();
    let files = open.filter_map(|fd| fs::read_link(fd.path()).ok());
    let caller: Vec<_> = files.filter(|file| file.ends_with("passwd")).collect();
    assert_eq!(caller, Vec::<std::path::PathBuf>::new());

    pty.send("\x03");
    pty.expect("interrupted");
    assert!(is_alive(keeper));
    pty.send("end\n");
    pty.expect("done");
    assert_eq!(pty.finish(), 0);
    eventually(Duration::from_secs(1), "the end of the keeper", || !is_alive(keeper));
}

/// A service manager, a shutdown or `kill -TERM -1` signals the keeper together with the script, which cleans up under its lock.
#[test]
fn no_signal_ends_the_keeper_while_its_process_lives() {
    let store = Store::local();
    let [pid, order, cleaning] = ["pid", "order", "cleaning"].map(|name| store.folder.path(name));
    let script = r#"trap ': > "$3"; sleep 1; echo cleaned >> "$2"; exit 7' TERM
        eval "$("$0" acquire -k X --while-pid $$ --format env)" && echo $$ > "$1"; while :; do sleep 0.05; done"#;
    let [pid_path, order, cleaning_path] =
        [&pid, &order, &cleaning].map(|path| path.to_str().expect("a path"));
    let args = ["-c", script, PROGRAM, pid_path, order, cleaning_path];
    let running = Redlock::under("bash", &args).server(&store.url).spawn();
    let script = pid_in(&pid);
    let keeper = store.status("X")["holders"][0]["pid"].as_i64().expect("its pid") as i32;
    let waiter = store.wait_in_line("X", "entered", &[]);
    store.await_waiters("X", 1);

    // The C library keeps the signals between these two ranges for itself.
    let all = (1..32).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    for signal in all.filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
        // SAFETY: kill takes any numbers; the keeper is alive as long as the script is.
        unsafe { libc::kill(keeper, signal) };
    }
    kill(Pid::from_raw(script), Signal::SIGTERM).expect("a signal to the script");
    await_file(&cleaning);
    assert!(is_alive(keeper));
    running.finish().expect(7);
    waiter.finish().expect(0);
    assert_eq!(store.order(), ["cleaned", "entered"]);
    eventually(Duration::from_secs(5), "the end of the keeper", || !is_alive(keeper));
}

/// Another program took the key: nobody asked the holder.
#[test]
fn a_lock_that_another_program_took() {
    for (options, code, says) in
        [("", -15, "SIGTERM was sent to process"), ("--on-lost continue", 7, "goes on without it")]
    {
        let store = Store::redis();
        let script = script(&store, &format!("--ttl {} {options}", ttl(1500)));
        let redis = store.redis.as_ref().expect("Redis");
        let keeper = store.status("X")["holders"][0]["pid"].as_i64().expect("its pid") as i32;
        redis.cli(&["set", "X", "somebody", "PX", "60000"]);
        eventually(Duration::from_secs(5), "the end of the keeper", || !is_alive(keeper));
        let lost = script.let_go().expect(code);
        let line = lost.line();
        assert!(line.starts_with("redlock: lost 'X': it is held by another program; "), "{line}");
        assert!(line.contains(says), "{line}");
        assert_eq!(redis.cli(&["get", "X"]), "somebody");
    }
}

/// No renewal comes through: the script is told before the lease ends.
#[test]
fn a_store_that_does_not_answer() {
    let store = Store::redis();
    let script = script(&store, &format!("--ttl {}", ttl(1500)));
    store.redis.as_ref().expect("Redis").pause();
    let lost = script.finish().expect(-15);
    assert!(lost.line().contains("no renewal came through"), "{lost:?}");
    store.redis.as_ref().expect("Redis").resume();
}

#[test]
fn a_store_in_the_folder_of_the_caller() {
    let store = Store::local();
    let folder = store.folder.path("");
    let (ttl, longer) = (ttl(1500), slowed(3000).as_secs_f64());
    let script = format!(
        r#"eval "$("$0" acquire -k X --ttl {ttl} --while-pid $$ --format env)"; sleep {longer}; "$0" check"#
    );
    let mut acquire = Redlock::under("bash", &["-c", &script, PROGRAM]).server("local:locks.db");
    acquire.command.current_dir(&folder);
    acquire.run().expect(0);
}

/// A script that has the lock X and exits with 7 when it is let go.
fn script(store: &Store, options: &str) -> Running {
    let pid = store.folder.path("pid");
    let script = format!(
        r#"eval "$("$0" acquire -k X {options} --while-pid $$ --format env)" && echo $$ > "$1"; read -r _; exit 7"#
    );
    let args = ["-c", &script, PROGRAM, pid.to_str().expect("a path")];
    let running = Redlock::under("bash", &args).server(&store.url).open_stdin().spawn();
    pid_in(&pid);
    running
}

/// As somebody who may not signal the first process.
#[test]
fn a_process_of_another_user() {
    let store = Store::local();
    let mut acquire = store.redlock(&["acquire", "-k", "X", "--while-pid", "1"]);
    if nix::unistd::geteuid().is_root() {
        if !other_users() {
            return;
        }
        acquire.command.uid(65534);
    }
    let refused = acquire.run().expect(64);
    assert!(refused.line().contains("process 1 belongs to another user"), "{refused:?}");
}
