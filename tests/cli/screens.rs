//! `status` on screens of two sizes, and where it is no screen.

use std::time::Duration;

use crate::harness::{Store, Tmux, eventually, log_command};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

/// What others may call themselves: longer than a line, wide, from right to left, with orders to a terminal and to a CI
/// system.
fn labels() -> [String; 4] {
    [
        "日本語のとても長いラベル".repeat(20),
        "פריסה של השירות".repeat(20),
        "\u{1b}[2J\u{1b}]0;title\u{7}\u{202e}##[set-output name=x]y\n::error::x\n".to_owned(),
        "x".repeat(10_000),
    ]
}

#[test]
fn a_line_for_each_lock() {
    let store = Store::local();
    let holders: Vec<_> = (0..)
        .zip(labels())
        .map(|(number, label)| store.hold(&format!("key{number}"), &["--label", &label]))
        .collect();
    for size in [[80, 24], [200, 50]] {
        let table = Tmux::start(
            &store,
            size,
            &format!("{}", size[0]),
            &format!("{PROGRAM} status; echo end; sleep 60"),
        );
        eventually(Duration::from_secs(20), "the end", || table.lines(&[]).iter().any(|line| line == "end"));
        let lines = table.lines(&[]);
        assert_eq!(lines.len(), 6, "{lines:#?}");
        assert!(lines[0].starts_with("KEY   STATE  HOST  "), "{lines:#?}");
        for (number, line) in (0..4).zip(&lines[1..]) {
            assert!(line.starts_with(&format!("key{number}  held   ")), "{lines:#?}");
        }
        assert!(lines[1].ends_with('…') && lines[2].ends_with('…') && lines[4].ends_with('…'), "{lines:#?}");
        for number in 0..4 {
            let line = format!("{PROGRAM} status key{number}; echo end; sleep 60");
            let full = Tmux::start(&store, size, &format!("{}.{number}", size[0]), &line);
            eventually(Duration::from_secs(20), "the end", || {
                full.lines(&[]).iter().any(|line| line == "end")
            });
            let lines = full.lines(&[]);
            let names = ["  holder  ", "  since   ", "  lease   alive: renewed ", "  fence   ", "  next    "];
            let is_there = |name: &&str| lines.iter().filter(|line| line.starts_with(*name)).count() == 1;
            assert!(
                lines[0].starts_with(&format!("key{number}")) && names.iter().all(is_there),
                "{lines:#?}"
            );
        }
    }
    for args in
        [&["status"][..], &["status", "key2"], &["status", "--json"], &["status", "--format", "prometheus"]]
    {
        let piped = store.redlock(args).run().expect(0).stdout;
        assert!(!piped.contains(|c: char| c.is_control() && c != '\n'), "{piped:?}");
        assert!(!piped.contains('\u{202e}') && log_command(&piped).is_none(), "{piped}");
    }
    holders.into_iter().for_each(|holder| drop(holder.let_go().expect(0)));
}
