//! Signals reach the job, once, and the command has the dispositions that the caller gave.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::Pid;

use crate::harness::{
    Fault, Folder, Proxy, Pty, Redis, Redlock, Running, Store, await_file, children, eventually, is_alive,
    pid_in, ttl, within,
};

/// The signal lines of /proc/self/status in a command that a shell starts after `prepare`.
fn masks(store: &Store, prefix: &[&str], prepare: &str) -> String {
    let run = prefix.iter().map(|word| format!("'{word}' ")).collect::<String>();
    let script = format!("{prepare} exec {run}grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status");
    let mut command = Command::new("sh");
    let output = command.args(["-c", &script]).env("REDLOCK_SERVER", &store.url).output().expect("sh");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn dispositions_and_mask_are_the_callers() {
    let store = Store::local();
    let redlock = [env!("CARGO_BIN_EXE_redlock"), "run", "-k", "X", "--"];
    for prepare in [
        "",
        "trap '' HUP;",
        "trap '' PIPE;",
        "trap '' CHLD;",
        "trap '' XFSZ ALRM;",
        "trap '' INT TERM QUIT USR1;",
    ] {
        let alone = masks(&store, &[], prepare);
        assert!(alone.contains("SigIgn"), "{alone}");
        assert_eq!(masks(&store, &redlock, prepare), alone, "{prepare}");
    }
}

#[test]
fn a_blocked_signal_stays_blocked() {
    let store = Store::local();
    for set in [SigSet::from(Signal::SIGUSR1), SigSet::from(Signal::SIGCHLD), SigSet::all()] {
        let blocked = |mut command: Command| {
            // SAFETY: the closure makes one system call.
            unsafe { command.pre_exec(move || Ok(set.thread_block()?)) };
            let output = command.output().expect("it starts");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let mut alone = Command::new("grep");
        alone.args(["SigBlk", "/proc/self/status"]);
        let run = store.redlock(&["run", "-k", "X", "--", "grep", "SigBlk", "/proc/self/status"]);
        let alone = blocked(alone);
        assert!(!alone.ends_with("\t0000000000000000\n"), "{alone}");
        assert_eq!(blocked(run.command), alone);
    }
}

/// The command first, the rest of the job after --kill-after; once to each process, also through other redlocks in it.
#[test]
fn sigterm_reaches_every_process_once() {
    let store = Store::local();
    let folder = store.folder.path("");
    let script = r#"
        cd "$0"
        count() { trap "echo $1 >> got" TERM; echo $1 >> ready; while [ ! -e end ]; do sleep 0.05; done; }
        count child & count command; wait
    "#;
    let program = env!("CARGO_BIN_EXE_redlock");
    let folder_text = folder.display().to_string();
    let nested = [
        "run",
        "-k",
        "A",
        "--",
        program,
        "run",
        "-k",
        "B",
        "--",
        program,
        "run",
        "-k",
        "C",
        "--",
        "bash",
        "-c",
        script,
        &folder_text,
    ];
    let run = store.redlock(&nested).spawn();
    let lines = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default().lines().count();
    eventually(Duration::from_secs(20), "both are ready", || lines("ready") == 2);
    run.signal(Signal::SIGTERM);
    eventually(Duration::from_secs(20), "both got it", || lines("got") >= 2);
    std::fs::write(folder.join("end"), "").expect("the end");
    run.finish().expect(0);
    assert_eq!(lines("got"), 2);
}

/// As `kill -- -PGID`, `docker stop` with `tini -g` and a service manager do. A command that cleans up at the first signal
/// and dies of the second is let clean up.
#[test]
fn a_signal_to_the_group_reaches_the_command_once() {
    let store = Store::local();
    let ready = store.folder.path("ready");
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1] {
        let name = signal.as_str();
        let script = format!(
            "trap 'trap - {name}; sleep 0.3; echo cleaned; exit 7' {name}; touch {ready:?}; while :; do sleep 0.05; done"
        );
        // The next round tells a new signal from the one before.
        for _ in 0..3 {
            let mut run = in_a_group_of_its_own(&store, &script);
            run.await_file(&ready);
            fs::remove_file(&ready).expect("ready");
            killpg(Pid::from_raw(run.pid()), signal).expect("a signal to the group");
            let run = run.finish();
            assert_eq!((run.code(), run.stdout.as_str()), (7, "cleaned\n"), "{name}: {run:?}");
        }
    }
}

/// A signal to the group is not taken for the one that follows, to redlock alone.
#[test]
fn a_signal_to_the_group_and_one_to_redlock_are_two() {
    let store = Store::local();
    let (ready, got) = (store.folder.path("ready"), store.folder.path("got"));
    let script = format!(
        "trap 'echo >> {got:?}' HUP; trap 'exit 5' TERM; touch {ready:?}; while :; do sleep 0.05; done"
    );
    let mut run = in_a_group_of_its_own(&store, &script);
    run.await_file(&ready);
    let lines = || fs::read_to_string(&got).unwrap_or_default().lines().count();
    for number in [1, 3, 5] {
        killpg(Pid::from_raw(run.pid()), Signal::SIGHUP).expect("a signal to the group");
        run.lives_until("the command gets that of the group", || lines() >= number);
        // Two within 20 ms are one.
        std::thread::sleep(Duration::from_millis(300));
        run.signal(Signal::SIGHUP);
        run.lives_until("the command gets that of redlock", || lines() > number);
        std::thread::sleep(Duration::from_millis(300));
    }
    run.signal(Signal::SIGTERM);
    run.finish().expect(5);
    assert_eq!(lines(), 6);
}

/// Servers end their workers themselves: those get a signal of their own only when --kill-after has passed.
#[test]
fn a_signal_to_redlock_is_for_the_command_first() {
    let store = Store::local();
    let [ready, order] = ["ready", "order"].map(|name| store.folder.path(name));
    let script = format!(
        "worker() {{ trap 'date +\"worker %s%3N\" >> {order:?}; exit' TERM; touch {ready:?}; while :; do sleep 0.05; done; }}
         worker & trap 'date +\"command %s%3N\" >> {order:?}' TERM; wait; wait",
    );
    let mut run =
        store.redlock(&["run", "-k", "X", "--kill-after", "4s", "--", "bash", "-c", &script]).spawn();
    run.await_file(&ready);
    run.signal(Signal::SIGTERM);
    run.finish();
    let order = fs::read_to_string(&order).expect("both got it");
    let at = |name: &str| -> u64 {
        let line = order.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.trim().parse().expect("a time in milliseconds")
    };
    assert!(at("worker") > at("command") + 1000 && order.lines().count() == 2, "{order}");
}

/// The time of --timeout runs out between a SIGTERM for the command and the one for the rest of the job, which has it by then.
#[test]
fn a_job_that_was_stopped_is_not_told_again() {
    let store = Store::local();
    let [ready, got] = ["ready", "got"].map(|name| store.folder.path(name));
    let script = format!(
        "(trap 'echo >> {got:?}' TERM; touch {ready:?}; while :; do sleep 0.05; done) & trap '' TERM; while :; do sleep 1; done",
    );
    let args = ["run", "-k", "X", "--timeout", "4s", "--kill-after", "5s", "--", "bash", "-c", &script];
    let mut run = store.redlock(&args).spawn();
    run.await_file(&ready);
    run.signal(Signal::SIGTERM);
    run.finish().expect(124);
    assert_eq!(fs::read_to_string(&got).expect("it was told"), "\n");
}

/// A second request kills within 10 s. A later one goes to the command again, also when the rest of the job had the first.
#[test]
fn a_later_request_is_passed_on_like_the_first() {
    let store = Store::local();
    let [ready, got] = ["ready", "got"].map(|name| store.folder.path(name));
    let count = |who: &str| format!("trap 'echo {who} >> {got:?}' TERM");
    let rest = format!("until [ -e {got:?}.end ]; do sleep 0.05; done");
    let script = format!(
        "({}; touch {ready:?}.worker; {rest}) & {}; until [ -e {ready:?}.worker ]; do sleep 0.05; done; touch {ready:?}; {rest}",
        count("worker"),
        count("command")
    );
    let mut run =
        store.redlock(&["run", "-k", "X", "--kill-after", "1s", "--", "bash", "-c", &script]).spawn();
    run.await_file(&ready);
    let lines = || fs::read_to_string(&got).unwrap_or_default();
    let asked = Instant::now();
    run.signal(Signal::SIGTERM);
    run.lives_until("both got the first", || lines() == "command\nworker\n");
    std::thread::sleep(Duration::from_millis(10_500).saturating_sub(asked.elapsed()));
    run.signal(Signal::SIGTERM);
    run.lives_until("the command gets the second", || lines().matches("command").count() == 2);
    fs::write(got.with_extension("end"), "").expect("the end");
    run.finish();
}

/// A job that adds a line to a file at each of these signals, and exits with 5 at SIGTERM.
struct Counting<'a> {
    run: Running,
    store: &'a Store,
}

impl Counting<'_> {
    fn start<'a>(store: &'a Store, signals: &str) -> Counting<'a> {
        let (ready, got) = (store.folder.path("ready"), store.folder.path("got"));
        let script = format!(
            "trap 'echo >> {got:?}' {signals}; trap 'exit 5' TERM; touch {ready:?}; while :; do sleep 0.05; done"
        );
        let mut run = store.redlock(&["run", "-k", "X", "--", "bash", "-c", &script]).spawn();
        run.await_file(&ready);
        Counting { run, store }
    }

    /// Sends the signal to redlock, and waits until the command has had so many.
    fn gets(&mut self, signal: libc::c_int, number: usize) {
        // SAFETY: kill(2) takes any numbers.
        assert_eq!(unsafe { libc::kill(self.run.pid(), signal) }, 0);
        let got = self.store.folder.path("got");
        let lines = || std::fs::read_to_string(&got).unwrap_or_default().lines().count();
        self.run.lives_until(&format!("signal {signal} reaches the command"), || lines() >= number);
    }

    fn ends(self) {
        self.run.signal(Signal::SIGTERM);
        self.run.finish().expect(5);
    }
}

/// A signal that means nothing to redlock goes to the command each time, and neither ends redlock nor leaves the lock.
#[test]
fn other_signals_are_for_the_command() {
    let store = Store::local();
    let mut job = Counting::start(&store, "USR1 ABRT PWR IO VTALRM WINCH CONT RTMIN+3");
    let signals = [
        libc::SIGUSR1,
        libc::SIGABRT,
        libc::SIGPWR,
        libc::SIGIO,
        libc::SIGVTALRM,
        libc::SIGWINCH,
        libc::SIGCONT,
        libc::SIGRTMIN() + 3,
    ];
    for (index, signal) in signals.into_iter().chain(signals).enumerate() {
        job.gets(signal, index + 1);
    }
    job.ends();
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

/// SIGHUP asks a service to read its configuration again, however often.
#[test]
fn every_reload_is_one() {
    let store = Store::local();
    let mut job = Counting::start(&store, "HUP");
    for number in 1..=3 {
        job.gets(libc::SIGHUP, number);
        // Two within 20 ms are one.
        std::thread::sleep(Duration::from_millis(300));
    }
    job.ends();
}

#[test]
fn the_death_is_that_of_the_command() {
    let store = Store::local();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        let file = store.folder.path(signal.as_str());
        let script = format!("echo $$ > {file:?}; exec sleep 100");
        let run = store.redlock(&["run", "-k", "X", "--", "sh", "-c", &script]).spawn();
        let pid = pid_in(&file);
        run.signal(signal);
        let run = run.finish();
        assert_eq!((run.code(), run.stderr.as_str()), (-(signal as i32), ""));
        assert!(!is_alive(pid));
    }
    assert_eq!(store.status("X")["holders"][0], serde_json::Value::Null);
}

/// As below `ssh -t`: the kernel tells redlock alone, which leads the session.
#[test]
fn the_end_of_its_terminal_ends_the_job() {
    let store = Store::local();
    let (started, told) = (store.folder.path("started"), store.folder.path("told"));
    let job = format!(
        "trap 'touch {}; exit 3' HUP; touch {}; while :; do sleep 0.05; done",
        told.display(),
        started.display()
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
    command.args(["run", "-k", "X", "-q", "--", "sh", "-c", &job]).env("REDLOCK_SERVER", &store.url);
    let mut run = Pty::start(command);
    await_file(&started);
    run.hang_up();
    assert_eq!(run.finish(), 3);
    assert!(told.exists());
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

#[test]
fn nohup_survives_a_hangup() {
    let store = Store::local();
    let file = store.folder.path("pid");
    let script = format!("echo $$ > {file:?}; sleep 1; echo end");
    let mut run = store.redlock(&["run", "-k", "X", "--", "sh", "-c", &script]);
    // SAFETY: the closure makes one system call.
    unsafe {
        run.command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            Ok(())
        });
    }
    let run = run.spawn();
    pid_in(&file);
    run.signal(Signal::SIGHUP);
    assert_eq!(run.finish().expect(0).stdout, "end\n");
}

/// Again and again, at the moment at which redlock begins to catch SIGTERM.
#[test]
fn the_splay_ends_with_a_signal() {
    let store = Store::local();
    let file = store.folder.path("started");
    let args = ["run", "-k", "X", "--splay", "1h", "--", "touch", &file.display().to_string()];
    for _ in 0..20 {
        let run = store.redlock(&args).spawn();
        let end = Instant::now() + Duration::from_secs(60);
        while !catches(run.pid(), Signal::SIGTERM) {
            assert!(Instant::now() < end, "it does not catch SIGTERM");
        }
        run.signal(Signal::SIGTERM);
        assert_eq!(run.finish().code(), -15);
    }
    assert!(!file.exists());
}

fn catches(pid: i32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal as i32 - 1)) != 0
}

/// The guard is not in the way of `systemctl stop`, which sends SIGTERM to everything.
#[test]
fn a_guard_lives_through_sigterm() {
    let store = Store::local();
    let file = store.folder.path("ready");
    let script =
        format!("trap 'sleep 0.3; echo clean; exit 0' TERM; touch {file:?}; while :; do sleep 0.05; done");
    let run = store.redlock(&["run", "-k", "X", "--", "sh", "-c", &script]).spawn();
    await_file(&file);
    let _ = kill(Pid::from_raw(run.guard()), Signal::SIGTERM);
    run.signal(Signal::SIGTERM);
    assert_eq!(run.finish().expect(0).stdout, "clean\n");
}

/// Starts `run -k X` with a bash script as the leader of a process group, as a shell with job control does.
fn in_a_group_of_its_own(store: &Store, script: &str) -> Running {
    let mut run: Redlock = store.redlock(&["run", "-k", "X", "--", "bash", "-c", script]);
    run.command.process_group(0);
    run.spawn()
}

/// `timeout 1h redlock run ...` sends SIGTERM to redlock and then to the group that both are in: one request
/// to end, after which the command cleans up as it does under timeout(1) alone.
#[test]
fn a_signal_to_redlock_and_its_group_is_one() {
    let store = Store::local();
    let start = |round| {
        let ready = store.folder.path(&format!("ready {round}"));
        let script = format!(
            "trap '[ $asked ] || {{ asked=1; trap : TERM; sleep 0.2 & wait; wait; echo cleaned; exit 0; }}' TERM; \
             touch '{}'; while :; do sleep 0.05; done",
            ready.display()
        );
        let run = in_a_group_of_its_own(&store, &script);
        await_file(&ready);
        run
    };
    are_one_request(start, |run| {
        run.signal(Signal::SIGTERM);
        // So far apart that the kernel does not merge them, as it may under timeout(1).
        std::thread::sleep(Duration::from_millis(1));
        killpg(Pid::from_raw(run.pid()), Signal::SIGTERM).expect("a signal to the group");
    });
}

/// The job that `start` starts gets both signals, and cleans up. On a busy machine the test itself may send them so far
/// apart that they are two requests.
fn are_one_request(start: impl Fn(usize) -> Running, send: impl Fn(&Running)) {
    let mut counted = 0;
    for round in 0..100 {
        let run = start(round);
        let sending = Instant::now();
        send(&run);
        let is_one = sending.elapsed() < Duration::from_millis(10);
        let run = run.finish();
        if is_one {
            assert_eq!((run.code(), run.stdout.as_str()), (0, "cleaned\n"), "{run:?}");
            counted += 1;
        }
        if counted == 10 {
            return;
        }
    }
    panic!("{counted} of 100 rounds counted");
}

/// A job that ignores SIGTERM keeps the lock; a second signal kills all of it, whatever session it is in.
#[test]
fn a_second_signal_kills_what_ignores_the_first() {
    let store = Store::local();
    let [command, daemon] = ["command", "daemon"].map(|name| store.folder.path(name));
    let heard = store.folder.path("heard");
    // The daemon is the child of a process that has ended, in a session of its own.
    let script = format!(
        "trap 'touch {heard:?}' TERM; \
         (setsid sh -c '(trap \"\" TERM; sh -c \"echo \\$PPID\" >{daemon:?}; while :; do sleep 0.05; done) & exit') & \
         wait $!; echo $$ >{command:?}; while :; do sleep 0.05; done"
    );
    let run = in_a_group_of_its_own(&store, &script);
    let pids = [pid_in(&command), pid_in(&daemon)];
    run.signal(Signal::SIGTERM);
    await_file(&heard);
    assert!(pids.into_iter().all(is_alive));
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
    // Later than the second signal of timeout(1), which is none.
    std::thread::sleep(Duration::from_millis(100));
    run.signal(Signal::SIGTERM);
    assert_eq!(run.finish().code(), -9);
    assert!(!pids.into_iter().any(is_alive));
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

#[test]
fn a_command_that_is_stopped_ends_with_the_signal() {
    let store = Store::local();
    let file = store.folder.path("pid");
    let run = in_a_group_of_its_own(&store, &format!("echo $$ > {file:?}; exec sleep 100"));
    let command = pid_in(&file);
    kill(Pid::from_raw(command), Signal::SIGSTOP).expect("a signal to the command");
    eventually(Duration::from_secs(5), "the command is stopped", || {
        std::fs::read_to_string(format!("/proc/{command}/stat")).is_ok_and(|stat| stat.contains(") T "))
    });
    run.signal(Signal::SIGTERM);
    assert_eq!(run.finish().code(), -15);
}

/// Before the grant, between grant and start, while the command runs, while the lock is given back.
#[test]
fn a_signal_at_any_moment_leaves_nothing() {
    for store in [Store::local(), Store::redis()] {
        let started = store.folder.path("started");
        let script = format!("echo $$ > {started:?}; exec sleep 0.01");
        for round in 0..60 {
            let run = store.redlock(&["run", "-k", "X", "--", "sh", "-c", &script]).spawn();
            // Another moment in each round.
            std::thread::sleep(Duration::from_micros(500 * round));
            let _ = kill(Pid::from_raw(run.pid()), Signal::SIGINT);
            let run = run.finish();
            let seen = format!("in round {round} on {}: {run:?}", store.url);
            assert!([0, -2].contains(&run.code()) && run.stderr.is_empty(), "{seen}");
            assert!(store.status("X")["holders"][0].is_null(), "{seen}");
            let job = std::fs::read_to_string(&started).unwrap_or_default();
            assert!(!job.trim().parse().is_ok_and(is_alive), "{seen}");
        }
    }
}

/// The lock is given back all the same: only a second signal is in a hurry.
#[test]
fn a_first_signal_while_the_lock_is_given_back() {
    let redis = Redis::start();
    let proxy = Proxy::to(redis.port);
    // Long after the first renewal, and before it.
    for ttl in [&ttl(1200), "10m"] {
        let run = Redlock::new(&["run", "-k", "X", "--ttl", ttl, "--", "cat"]).server(&proxy.url());
        let mut run = run.open_stdin().spawn();
        let command = parent_of_command(&run);
        if ttl != "10m" {
            let before = redis.commandstats();
            eventually(Duration::from_secs(10), "a renewal", || redis.commandstats() != before);
        }
        proxy.set(Fault::Delay(Duration::from_millis(300)));
        drop(run.child.stdin.take());
        eventually(Duration::from_secs(5), "the end of the command", || !is_alive(command));
        run.signal(Signal::SIGTERM);
        let run = run.finish();
        proxy.set(Fault::None);
        assert_eq!((run.code(), run.stderr.as_str()), (0, ""), "--ttl {ttl}");
        assert_eq!(redis.cli(&["EXISTS", "X"]), "0", "--ttl {ttl}");
    }
}

/// Ctrl-C at the prompt has to end the loop of a shell around redlock, too.
#[test]
fn a_key_while_the_lock_is_given_back() {
    let redis = Redis::start();
    let (proxy, folder) = (Proxy::to(redis.port), Folder::new());
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
    let job = format!("echo $$ >{}; read -r _", folder.path("job").display());
    command.args(["run", "-S", &proxy.url(), "-k", "X", "--ttl", "10m", "--", "sh", "-c", &job]);
    let mut terminal = Pty::start(command);
    pid_in(&folder.path("job"));
    // Most of the time that a release may take.
    proxy.set(Fault::Delay(Duration::from_millis(1800)));
    terminal.send("\n");
    eventually(Duration::from_secs(20), "the answer to the release", || proxy.injected() > 0);
    terminal.send("\x03");
    assert_eq!(terminal.finish(), -2);
    assert_eq!(redis.cli(&["EXISTS", "X"]), "0");
}

/// On a server that hangs the release would take two seconds. Where the machine is too busy for two signals in that time, the test
/// tries again.
#[test]
fn a_second_signal_while_the_lock_is_given_back() {
    for _ in 0..20 {
        let redis = Redis::start();
        let proxy = Proxy::to(redis.port);
        let mut run =
            Redlock::new(&["run", "-k", "X", "--", "cat"]).server(&proxy.url()).open_stdin().spawn();
        let command = parent_of_command(&run);
        proxy.set(Fault::Stall);
        let end = Instant::now();
        drop(run.child.stdin.take());
        eventually(Duration::from_secs(20), "the end of the command", || !is_alive(command));
        let start = Instant::now();
        run.signal(Signal::SIGTERM);
        std::thread::sleep(Duration::from_millis(100));
        let has_ended = run.has_ended();
        run.signal(Signal::SIGTERM);
        let was_in_time = end.elapsed() < Duration::from_millis(1500);
        let run = run.finish();
        if !was_in_time {
            continue;
        }
        assert!(!has_ended);
        within(Duration::from_secs(1), start);
        assert!(run.code() == 0 && run.line().contains("could not release 'X': interrupted;"), "{run:?}");
        return;
    }
    panic!("the machine is too busy");
}

/// The process that waits for the command, and ends right after it.
fn parent_of_command(run: &Running) -> i32 {
    run.command();
    children(run.guard())[0]
}

/// Those behind it move up.
#[test]
fn a_waiter_that_is_told_to_end_leaves_the_queue() {
    for store in [Store::local(), Store::redis()] {
        let holder = store.hold("X", &[]);
        let first = store.wait_in_line("X", "first", &[]);
        store.await_waiters("X", 1);
        let second = store.wait_in_line("X", "second", &[]);
        store.await_waiters("X", 2);
        // One that redlock would pass on to a command.
        let third = store.wait_in_line("X", "third", &[]);
        store.await_waiters("X", 3);
        third.signal(Signal::SIGABRT);
        assert_eq!(third.finish().code(), -6);
        first.signal(Signal::SIGTERM);
        let first = first.finish();
        assert_eq!((first.code(), first.line().contains("next in line")), (-15, true), "{first:?}");
        assert_eq!(store.waiters("X"), 1);
        holder.let_go().expect(0);
        second.finish().expect(0);
        assert_eq!(store.order(), ["second"]);
    }
}

/// The guard ends with a signal for the command still unread: what it reported before is what counts.
#[test]
fn a_report_is_read_behind_an_order_that_was_not() {
    let store = Store::local();
    let (job, ready) = ("trap '' USR1 USR2; : > \"$0\"; sleep 0.5; exit 7", store.folder.path("ready"));
    let place = ready.display().to_string();
    let run = store.redlock(&["run", "-k", "X", "--", "sh", "-c", job, &place]).spawn();
    await_file(&ready);
    let (guard, command) = (run.guard(), parent_of_command(&run));
    // An order wakes the guard, so it is stopped again and again; where the order comes late it may have ended.
    let send = |pid, signal| kill(Pid::from_raw(pid), signal).unwrap_or_default();
    send(guard, Signal::SIGSTOP);
    send(run.pid(), Signal::SIGUSR1);
    send(run.pid(), Signal::SIGUSR2);
    eventually(Duration::from_secs(10), "the end of the command", || {
        send(guard, Signal::SIGSTOP);
        !is_alive(command)
    });
    send(run.pid(), Signal::SIGSTOP);
    send(guard, Signal::SIGCONT);
    eventually(Duration::from_secs(10), "the end of the guard", || !is_alive(guard));
    send(run.pid(), Signal::SIGCONT);
    run.finish().expect(7);
}

/// As systemd does with SendSIGHUP=: one wish, after which the command cleans up.
#[test]
fn two_signals_at_once_are_one_wish() {
    let store = Store::local();
    let start = |round| {
        let ready = store.folder.path(&format!("ready {round}"));
        let script = format!(
            "trap '' HUP; trap 'sleep 0.2; echo cleaned; exit 0' TERM; touch {ready:?}; while :; do sleep 0.05; done"
        );
        let run = store.redlock(&["run", "-k", "X", "--", "bash", "-c", &script]).spawn();
        await_file(&ready);
        run
    };
    are_one_request(start, |run| {
        run.signal(Signal::SIGTERM);
        run.signal(Signal::SIGHUP);
    });
}

/// As a wrapper of cron jobs limits them: the alarm goes through exec.
#[test]
fn an_alarm_of_the_caller_ends_the_job() {
    let store = Store::local();
    let alarm = "import os, signal, sys; signal.alarm(1); os.execv(sys.argv[1], sys.argv[1:])";
    let job = ["-c", alarm, env!("CARGO_BIN_EXE_redlock"), "run", "-k", "X", "--", "sleep", "60"];
    let ended = store.reached_by(Redlock::under("python3", &job)).run();
    assert_eq!(ended.code(), -libc::SIGALRM, "{ended:?}");
    assert!(store.status("X")["holders"][0].is_null());
}

/// A waiter leaves the queue.
#[test]
fn an_alarm_ends_the_wait() {
    let store = Store::local();
    let holder = store.hold("X", &[]);
    let waiter = store.redlock(&["run", "-k", "X", "--wait", "--", "true"]).spawn();
    store.await_waiters("X", 1);
    waiter.signal(Signal::SIGALRM);
    assert_eq!(waiter.finish().code(), -libc::SIGALRM);
    assert_eq!(store.waiters("X"), 0);
    holder.let_go().expect(0);
}

/// What redlock has to say has no room in its file: that is no reason to end with the lock held.
#[test]
fn a_limit_on_the_size_of_files() {
    let store = Store::redis();
    let stderr = store.folder.path("stderr");
    let script =
        format!("ulimit -f 0; exec \"$0\" run -v -k X -- \"$0\" check -k X 2>'{}'", stderr.display());
    let ended = store.reached_by(Redlock::under("sh", &["-c", &script, env!("CARGO_BIN_EXE_redlock")])).run();
    ended.expect(0);
    assert_eq!(std::fs::read(&stderr).expect("a file"), b"");
    assert!(store.status("X")["holders"][0].is_null());
}
