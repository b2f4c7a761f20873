//! `--syslog`: what the daemon that keeps a host's log receives.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::harness::{Finished, Redlock, Store, namespaces};

/// In a /run and a /dev of its own, where the sockets are those of the folder $0.
const SCENE: &str = r#"
    mount -t tmpfs none /run && mkdir -p /run/systemd/journal
    [ -e "$0/journal" ] && mount --bind "$0/journal" /run/systemd/journal
    mkdir "$0/dev" && touch "$0/dev/null" && mount --bind /dev/null "$0/dev/null"
    ln -s "$0/log" "$0/dev/log" && mount --rbind "$0/dev" /dev
    exec "$@""#;

/// With what would end a quoted value, and begin another one.
const LABEL: &str = "a\n##[error] \u{202e}label\\\" outcome=success";

/// Runs a job that ends with 3 under the lock "deploy".
fn run(store: &Store) -> Finished {
    let folder = store.folder.path("").display().to_string();
    let program = env!("CARGO_BIN_EXE_redlock");
    let job = ["--syslog", "--label", LABEL, "deploy", "sh", "-c", "exit 3"];
    let args = [&["--mount", "sh", "-c", SCENE, &folder, program, "run"][..], &job].concat();
    store.reached_by(Redlock::under("unshare", &args)).run().expect(3)
}

/// What arrived until the end of a run.
fn received(socket: &UnixDatagram) -> Vec<String> {
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let (mut messages, mut buffer) = (Vec::new(), [0; 65536]);
    while messages.last().is_none_or(|message: &String| !message.contains("outcome=failure")) {
        let length = socket.recv(&mut buffer).expect("a message");
        messages.push(String::from_utf8(buffer[..length].to_vec()).expect("UTF-8"));
    }
    messages
}

#[test]
fn journald_gets_fields() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    std::fs::create_dir(store.folder.path("journal")).expect("a folder");
    let socket = UnixDatagram::bind(store.folder.path("journal/socket")).expect("a socket");
    assert_eq!(run(&store).stderr, "");
    let messages = received(&socket);
    let last = messages.last().expect("the end");
    for field in [
        "PRIORITY=6",
        "SYSLOG_IDENTIFIER=redlock",
        "REDLOCK_EVENT=ended",
        "REDLOCK_KEYS=deploy",
        "REDLOCK_EXIT_STATUS=3",
        "REDLOCK_OUTCOME=failure",
    ] {
        assert!(last.lines().any(|line| line == field), "{field} in {last}");
    }
    assert!(last.starts_with("MESSAGE=ended ") && last.contains(" outcome=failure "), "{last}");
    let acquired = messages.iter().find(|message| message.contains("REDLOCK_EVENT=lock_acquired"));
    assert!(acquired.expect("the grant").starts_with("MESSAGE=acquired 'deploy'"), "{acquired:?}");
    // A label makes no field of its own.
    let has_name = |line: &str| line.split_once('=').is_some_and(|(name, _)| !name.contains(' '));
    assert!(messages.iter().flat_map(|message| message.lines()).all(has_name), "{messages:?}");
    assert!(!messages.concat().contains('\u{202e}'), "{messages:?}");
}

#[test]
fn other_daemons_get_lines() {
    if !namespaces() {
        return;
    }
    let store = Store::local();
    let socket = UnixDatagram::bind(store.folder.path("log")).expect("a socket");
    assert_eq!(run(&store).stderr, "");
    let messages = received(&socket);
    let last = messages.last().expect("the end");
    assert!(last.contains("label\\\\\\\" outcome=success\" outcome=failure"), "{last}");
    assert!(last.starts_with("<14>1 20") && last.contains(" outcome=failure "), "{last}");
    assert!(last.split(' ').nth(3) == Some("redlock") && last.split(' ').nth(5) == Some("ended"), "{last}");
    assert!(!messages.concat().contains(|c: char| c.is_control() || c == '\u{202e}'), "{messages:?}");
}

/// The job's result is its own.
#[test]
fn without_a_daemon() {
    if !namespaces() {
        return;
    }
    let ended = run(&Store::local());
    assert!(
        ended.line().starts_with("redlock: cannot write to --syslog: neither /run/systemd/"),
        "{ended:?}"
    );
}
