//! The command ended and left processes behind: they run on, are waited for, or are stopped.

use std::fs::{self, File};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    Fault, Folder, Proxy, Pty, Redis, Redlock, Running, Store, Witness, await_file, eventually, is_alive,
    is_within, pid_in, slowed, ttl,
};

/// How a process stays behind.
#[derive(Clone, Copy, Debug)]
enum Left {
    /// As a child in the background, in the group of the command.
    InGroup,
    /// As a daemon: the child of a process that has ended, in a session of its own.
    AsDaemon,
}

const BOTH: [Left; 2] = [Left::InGroup, Left::AsDaemon];

const OBEYS: &str = "trap 'echo told >>told; exit' TERM";
const IGNORES: &str = "trap 'echo told >>told' TERM";

/// A command that ends with 3, and leaves a process behind.
struct Scene {
    folder: Folder,
}

impl Scene {
    fn new() -> Scene {
        Scene { folder: Folder::new() }
    }

    /// What it leaves behind does `first`, and then lives until [`Scene::let_go`] or the end of the test.
    fn job(&self, left: Left, first: &str) -> String {
        let stay = "echo $$ >pid; until [ -e end ] || [ ! -e pid ]; do sleep 0.01; done";
        fs::write(self.folder.path("leftover"), format!("{first}; {stay}")).expect("a script");
        self.leaving(left, "sh leftover")
    }

    fn leaving(&self, left: Left, leftover: &str) -> String {
        let folder = self.folder.path("");
        let start = match left {
            Left::InGroup => format!("{leftover} >/dev/null 2>&1 &"),
            Left::AsDaemon => format!("(setsid {leftover} >/dev/null 2>&1 &)"),
        };
        format!("cd {folder:?}; echo $$ >command; {start}\nuntil [ -s pid ]; do sleep 0.01; done; exit 3")
    }

    fn run(&self, store: &Store, options: &[&str], job: &str) -> Redlock {
        store.redlock(&[&["run", "-k", "X"][..], options, &["--", "sh", "-c", job]].concat())
    }

    /// Waits for the end of the command. Returns the pid of what it left behind.
    fn left_behind(&self) -> i32 {
        let command = pid_in(&self.folder.path("command"));
        let pid = pid_in(&self.folder.path("pid"));
        eventually(Duration::from_secs(20), "the end of the command", || !is_alive(command));
        pid
    }

    /// With a stderr that can be read while it runs.
    fn telling(&self, mut run: Redlock) -> Redlock {
        run.command.stderr(File::create(self.folder.path("stderr")).expect("a file"));
        run
    }

    fn await_words(&self, words: &str) {
        eventually(Duration::from_secs(20), words, || {
            fs::read_to_string(self.folder.path("stderr")).is_ok_and(|text| text.contains(words))
        });
    }

    fn let_go(&self) {
        fs::write(self.folder.path("end"), "").expect("the end");
    }

    fn lines(&self, name: &str) -> usize {
        fs::read_to_string(self.folder.path(name)).unwrap_or_default().lines().count()
    }
}

/// A `run --leftovers wait` whose command has ended, and what is left of its job.
fn waiting(scene: &Scene, store: &Store, options: &[&str], left: Left, first: &str) -> (Running, i32) {
    let options = [&["-v", "--leftovers", "wait"], options].concat();
    let run = scene.run(store, &options, &scene.job(left, first));
    let run = scene.telling(run).spawn();
    let pid = scene.left_behind();
    scene.await_words("left processes behind");
    (run, pid)
}

#[track_caller]
fn is_held(store: &Store) {
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(75);
}

#[track_caller]
fn is_free(store: &Store) {
    store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(0);
}

#[test]
fn they_run_on_and_are_told_of() {
    for (left, options) in BOTH.into_iter().zip([&[][..], &["--leftovers", "release"]]) {
        let (scene, store) = (Scene::new(), Store::local());
        let run = scene.run(&store, options, &scene.job(left, ":")).run().expect(3);
        assert!(run.line().contains("left processes behind"), "{run:?}");
        assert!(is_alive(scene.left_behind()), "{left:?}");
        is_free(&store);
        scene.let_go();
    }
}

/// Longer than a TTL, so that only renewals keep the lock.
#[track_caller]
fn never_beside_the_next(store: Store, left: Left) {
    let (scene, witness) = (Scene::new(), Witness::new());
    let (ttl, longer) = (ttl(2000), slowed(3000).as_secs_f64().to_string());
    let job = witness.job(&longer);
    fs::write(scene.folder.path("inside"), &job[2]).expect("a script");
    let leftover = format!("sh -c 'echo $$ >pid; . ./inside' {:?} {longer}", witness.folder());
    let job = scene.leaving(left, &leftover);
    let run = scene.run(&store, &["--ttl", &ttl, "--leftovers", "wait"], &job).spawn();
    await_file(&witness.file("owner"));
    let next = [&["run", "-k", "X", "--wait", "--"].map(str::to_owned)[..], &witness.job("0")].concat();
    let next = store.redlock(&next.iter().map(String::as_str).collect::<Vec<_>>()).spawn();
    let run = run.finish().expect(3);
    next.finish().expect(0);
    assert_eq!(run.stderr, "");
    assert_eq!(witness.entries(), 2);
    witness.assert_alone();
}

#[test]
fn the_next_one_waits_for_a_child() {
    never_beside_the_next(Store::local(), Left::InGroup);
}

#[test]
fn the_next_one_waits_for_a_daemon() {
    never_beside_the_next(Store::redis(), Left::AsDaemon);
}

#[test]
fn those_waited_for_get_the_signal() {
    for left in BOTH {
        let (scene, store) = (Scene::new(), Store::local());
        let (run, pid) = waiting(&scene, &store, &[], left, OBEYS);
        is_held(&store);
        run.signal(Signal::SIGTERM);
        run.finish().expect(3);
        assert_eq!((scene.lines("told"), is_alive(pid)), (1, false), "{left:?}");
        is_free(&store);
    }
}

#[test]
fn a_second_signal_kills_those_waited_for() {
    for left in BOTH {
        let (scene, store) = (Scene::new(), Store::local());
        let (run, pid) = waiting(&scene, &store, &[], left, IGNORES);
        run.signal(Signal::SIGTERM);
        await_file(&scene.folder.path("told"));
        is_held(&store);
        assert!(is_alive(pid));
        // Later than two signals that are one wish.
        std::thread::sleep(Duration::from_millis(100));
        run.signal(Signal::SIGINT);
        run.finish().expect(3);
        assert!(!is_alive(pid), "{left:?}");
        is_free(&store);
    }
}

#[test]
fn the_timeout_ends_the_wait() {
    for left in BOTH {
        let (scene, store) = (Scene::new(), Store::local());
        let (timeout, kill_after) = (ttl(1500), ttl(500));
        let options = ["--timeout", &timeout, "--kill-after", &kill_after];
        let (run, pid) = waiting(&scene, &store, &options, left, IGNORES);
        run.finish().expect(124);
        assert_eq!((scene.lines("told"), is_alive(pid)), (1, false), "{left:?}");
        is_free(&store);
    }
}

#[test]
fn they_are_stopped() {
    for left in BOTH {
        for store in [Store::local(), Store::redis()] {
            let scene = Scene::new();
            let job = scene.job(left, OBEYS);
            let run = scene.run(&store, &["--leftovers", "kill"], &job).run().expect(3);
            assert_eq!((run.stderr.as_str(), scene.lines("told")), ("", 1), "{left:?}");
            assert!(!is_alive(scene.left_behind()), "{left:?}");
            is_free(&store);
        }
    }
}

/// After --kill-after; until then they have the lock. That --timeout ends meanwhile is not the command's fault.
#[test]
fn those_that_do_not_stop_are_killed() {
    for left in BOTH {
        let (scene, store) = (Scene::new(), Store::local());
        let options = ["--leftovers", "kill", "--kill-after", "10s", "--timeout", "8s"];
        let run = scene.run(&store, &options, &scene.job(left, IGNORES)).spawn();
        await_file(&scene.folder.path("told"));
        is_held(&store);
        let pid = scene.left_behind();
        assert!(is_alive(pid));
        let run = run.finish().expect(3);
        assert_eq!((run.stderr.as_str(), is_alive(pid)), ("", false), "{left:?}");
        is_free(&store);
    }
}

#[test]
fn they_die_with_the_lock() {
    for left in BOTH {
        let (scene, store) = (Scene::new(), Store::redis());
        let (run, pid) = waiting(&scene, &store, &["--ttl", &ttl(1000)], left, IGNORES);
        store.redis.as_ref().expect("a Redis").cli(&["SET", "X", "another", "PX", "60000"]);
        run.finish().expect(79);
        scene.await_words("lost 'X'");
        assert!(!is_alive(pid), "{left:?}");
    }
}

#[test]
fn they_die_at_the_deadline() {
    for left in BOTH {
        let scene = Scene::new();
        let redis = Redis::start();
        let proxy = Proxy::to(redis.port);
        let mut store = Store::of(redis);
        store.url = proxy.url();
        let (run, pid) = waiting(&scene, &store, &["--ttl", &ttl(1000)], left, IGNORES);
        proxy.set(Fault::Stall);
        run.finish().expect(79);
        assert!(!is_alive(pid), "{left:?}");
    }
}

/// One of the two is killed: the other one sees to it that nothing goes on without the lock.
#[test]
fn they_die_with_redlock_or_its_guard() {
    for left in BOTH {
        for guard in [false, true] {
            let (scene, store) = (Scene::new(), Store::local());
            let (run, pid) = waiting(&scene, &store, &[], left, IGNORES);
            is_held(&store);
            if guard {
                kill(Pid::from_raw(run.guard()), Signal::SIGKILL).expect("a signal to the guard");
                run.finish().expect(3);
                scene.await_words("the guard of 'X' was killed");
            } else {
                run.signal(Signal::SIGKILL);
                run.finish().expect(-9);
            }
            eventually(Duration::from_secs(10), "its death", || !is_alive(pid));
            store.redlock(&["run", "-k", "X", "--wait", "5m", "-q", "--", "true"]).run().expect(0);
        }
    }
}

/// What ends by itself right after the command was not left behind.
#[test]
fn what_is_on_its_way_out_is_no_leftover() {
    for what in ["release", "wait", "kill"] {
        let (scene, store) = (Scene::new(), Store::local());
        let script = "trap 'echo told >>told' TERM; echo $$ >pid; while kill -0 $1; do :; done; sleep 0.005";
        fs::write(scene.folder.path("leftover"), script).expect("a script");
        let job = scene.leaving(Left::InGroup, "sh leftover $$");
        let (mut noticed, mut unnoticed, start) = (0, 0, Instant::now());
        // A busy machine may need longer for most of them.
        while unnoticed < 5 {
            let is_in_time = is_within(Duration::from_secs(30), start);
            assert!(is_in_time, "{what}: {noticed} were noticed, {unnoticed} were not");
            let _ = fs::remove_file(scene.folder.path("pid"));
            let run = scene.run(&store, &["-v", "--leftovers", what], &job).run().expect(3);
            match run.stderr.contains("left processes behind") {
                true => noticed += 1,
                false => unnoticed += 1,
            }
        }
        assert!(scene.lines("told") <= noticed, "{what}: {noticed} were noticed");
    }
}

/// The guard that has no lock of its own to keep does the same.
#[test]
fn nested_runs() {
    let program = env!("CARGO_BIN_EXE_redlock");
    for left in BOTH {
        for (outer, inner) in [("release", "wait"), ("wait", "release"), ("wait", "wait")] {
            let (scene, store) = (Scene::new(), Store::local());
            fs::write(scene.folder.path("job"), scene.job(left, OBEYS)).expect("a script");
            let job = scene.folder.path("job").display().to_string();
            let run = [program, "run", "-k", "X", "--leftovers", inner, "--", "sh", &job];
            let run = [&["run", "-v", "-k", "X", "--leftovers", outer, "--"][..], &run].concat();
            let run = scene.telling(store.redlock(&run).env("REDLOCK_VERBOSE", "1")).spawn();
            let pid = scene.left_behind();
            scene.await_words("held until they have ended");
            is_held(&store);
            assert!(is_alive(pid));
            run.signal(Signal::SIGTERM);
            run.finish().expect(3);
            assert_eq!((scene.lines("told"), is_alive(pid)), (1, false), "{left:?} {outer} {inner}");
            is_free(&store);
        }
        let (scene, store) = (Scene::new(), Store::local());
        fs::write(scene.folder.path("job"), scene.job(left, OBEYS)).expect("a script");
        let job = scene.folder.path("job").display().to_string();
        let run = [program, "run", "-k", "X", "--leftovers", "kill", "--", "sh", &job];
        let run = store.redlock(&[&["run", "-k", "X", "--"][..], &run].concat()).run().expect(3);
        assert_eq!((run.stderr.as_str(), scene.lines("told")), ("", 1), "{left:?}");
        assert!(!is_alive(scene.left_behind()));
    }
}

/// Flag over environment over file.
#[test]
fn the_setting_has_its_sources() {
    let store = Store::local();
    let file = store.folder.path("config.toml");
    fs::write(&file, "leftovers = \"kill\"\n").expect("a file");
    let file = file.display().to_string();
    let seen = |flag: &[&str], env: Option<&str>| {
        let scene = Scene::new();
        let options = [&["--config", &file], flag].concat();
        let mut run = scene.run(&store, &options, &scene.job(Left::InGroup, OBEYS));
        if let Some(env) = env {
            run = run.env("REDLOCK_LEFTOVERS", env);
        }
        let warned = !run.run().expect(3).stderr.is_empty();
        let alive = is_alive(scene.left_behind());
        scene.let_go();
        (warned, alive)
    };
    assert_eq!(seen(&[], None), (false, false));
    assert_eq!(seen(&[], Some("release")), (true, true));
    assert_eq!(seen(&["--leftovers", "release"], Some("kill")), (true, true));
    assert_eq!(seen(&["--leftovers", "kill"], Some("release")), (false, false));
}

/// `bash -c` at a terminal, with a `run --leftovers wait` in the middle whose job this is.
fn at_a_terminal(store: &Store, job: &str) -> Pty {
    let mut command = Command::new("bash");
    let program = env!("CARGO_BIN_EXE_redlock");
    let script = "trap : INT; \"$0\" run -v -k X --leftovers wait -- sh -c \"$1\"; echo \"status $?\"";
    command.args(["-c", script, program, job]).env("REDLOCK_SERVER", &store.url);
    Pty::start(command)
}

/// Those in another session, whom the terminal does not tell, get it as well; and nobody gets it twice.
#[test]
fn ctrl_c_is_for_those_waited_for_and_the_second_one_kills() {
    let store = Store::local();
    let scenes = BOTH.map(|left| {
        let scene = Scene::new();
        // A child in the background of a shell ignores SIGINT and cannot trap it, unless told otherwise.
        let script = "trap 'echo int >>told' INT; sleep 60 & echo $$ >pid; while [ -e pid ]; do wait; done";
        fs::write(scene.folder.path("leftover"), script).expect("a script");
        let job = scene.leaving(left, "env --default-signal=INT bash leftover");
        (scene, job)
    });
    let [(child, job), (daemon, other)] = scenes;
    let mut pty = at_a_terminal(&store, &format!("({job}); {other}"));
    let pids = [child.left_behind(), daemon.left_behind()];
    pty.expect("left processes behind");
    pty.send("\x03");
    pty.expect("a second one kills them");
    eventually(Duration::from_secs(10), "both got it", || {
        child.lines("told") > 0 && daemon.lines("told") > 0
    });
    is_held(&store);
    assert_eq!([child.lines("told"), daemon.lines("told")], [1, 1]);
    assert!(pids.into_iter().all(is_alive));
    // So much later that it is a second wish.
    thread::sleep(Duration::from_millis(100));
    pty.send("\x03");
    pty.expect("status 3");
    assert!(!pids.into_iter().any(is_alive));
    is_free(&store);
    pty.finish();
}

/// Who left the session does not want to hear of its end.
#[test]
fn a_daemon_waited_for_outlives_the_terminal() {
    let (scene, store) = (Scene::new(), Store::local());
    let first = "trap 'echo hup >>told' HUP";
    let pty = at_a_terminal(&store, &scene.job(Left::AsDaemon, first));
    let pid = scene.left_behind();
    pty.expect("left processes behind");
    // The end of the session's leader is that of its terminal.
    drop(pty);
    for _ in 0..5 {
        is_held(&store);
    }
    assert_eq!((scene.lines("told"), is_alive(pid)), (0, true));
    scene.let_go();
    store.redlock(&["run", "-k", "X", "--wait", "5m", "-q", "--", "true"]).run().expect(0);
}

/// The out-of-memory killer, or a signal that nobody handles: such a command leaves nothing behind on purpose.
#[test]
fn a_killed_command_leaves_nothing_behind() {
    let store = Store::local();
    for left in BOTH {
        for signal in ["KILL", "USR1"] {
            let scene = Scene::new();
            let job = scene.job(left, OBEYS).replace("exit 3", &format!("kill -{signal} $$; sleep 20"));
            let ended = scene.run(&store, &[], &job).run();
            let number = if signal == "KILL" { 9 } else { 10 };
            assert_eq!(ended.code(), -number, "{ended:?}");
            // By then they may be dead, without a name to be shown.
            let line = ended.line();
            assert!(line.contains("'sh' left processes behind"), "{line}");
            assert!(line.contains(&format!("when signal {number} killed it")), "{line}");
            assert!(!is_alive(scene.left_behind()), "{left:?} {signal}");
            assert_eq!(fs::read_to_string(scene.folder.path("told")).unwrap_or_default(), "told\n");
        }
    }
}

/// Unless somebody says that they are to run on.
#[test]
fn what_a_killed_command_left_behind_runs_on_on_wish() {
    let store = Store::local();
    let scene = Scene::new();
    let job = scene.job(Left::AsDaemon, OBEYS).replace("exit 3", "kill -KILL $$; sleep 20");
    scene.run(&store, &["--leftovers", "release"], &job).run().expect(-9);
    assert!(is_alive(scene.left_behind()));
    scene.let_go();
}
