use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_width::UnicodeWidthStr;

use super::screen::Screen;
use super::view::{Action, View};
use crate::lock::{Breaker, FencingToken, Holder, LockStatus, Metadata, Mode, Survey, Waiter, unix_millis};

/// By a clock that is ahead: so the age stays the same.
fn since() -> u64 {
    unix_millis() + 3_600_000
}

fn process(pid: u32, label: &str) -> Metadata {
    let [host, label, user] = ["ci-7", label, "anna"].map(str::to_owned);
    Metadata { host, pid, label, user, ttl_ms: 30_000, since: since(), ..Metadata::default() }
}

fn lock(key: &str, left: u64, label: &str, waiters: usize) -> LockStatus {
    let holder = Holder {
        metadata: Some(process(4123, label)),
        fence: Some(FencingToken(left)),
        since: Some(since()),
        left: Some(Duration::from_secs(left)),
        ..Holder::default()
    };
    let waiter = |place| Waiter { mode: Mode::Exclusive, metadata: process(5000 + place as u32, "wait") };
    let waiters = (0..waiters).map(waiter).collect();
    LockStatus { key: key.parse().expect("a key"), mode: Mode::Exclusive, holders: vec![holder], waiters }
}

fn view(locks: Vec<LockStatus>) -> View {
    View::new(Survey::of_all(locks), false)
}

/// The lines of a screen of this size, without the clock.
fn screen(view: &mut View, size: [u16; 2]) -> Vec<String> {
    screen_of("", "", view, size)
}

fn screen_of(words: &str, server: &str, view: &mut View, [columns, rows]: [u16; 2]) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
    let [words, server] = [words, server].map(str::to_owned);
    let screen = Screen { colour: true, server, words };
    terminal.draw(|frame| screen.draw(view, frame)).expect("a drawing");
    let buffer = terminal.backend().buffer();
    let row = |row: u16| (0..columns).map(|column| buffer[(column, row)].symbol()).collect::<String>();
    let mut lines: Vec<String> = (0..rows).map(|at| row(at).trim_end().to_owned()).collect();
    let end = lines[0].len().saturating_sub(8);
    lines[0] = lines[0][..end].trim_end().to_owned();
    lines
}

fn press(view: &mut View, keys: &str) -> Option<Action> {
    let code = |c| match c {
        '\n' => KeyCode::Enter,
        '\u{1b}' => KeyCode::Esc,
        c => KeyCode::Char(c),
    };
    keys.chars().filter_map(|c| view.press(KeyEvent::new(code(c), KeyModifiers::NONE))).last()
}

#[test]
fn the_list_has_a_line_for_each() {
    let mut view = view(vec![lock("deploy", 26, "make", 5), lock("backup", 9, "dump.sh", 0)]);
    let lines = screen(&mut view, [80, 24]);
    assert_eq!(lines[0], "redlock: 2 locks, 5 waiting");
    assert_eq!(lines[1], "KEY     STATE           LEFT          HOST  PID   USER  FOR  LABEL");
    assert_eq!(lines[2], "backup  late            ██▍░░░░░ 9s   ci-7  4123  anna  0s   dump.sh");
    assert_eq!(lines[3], "deploy  held            ██████▉░ 26s  ci-7  4123  anna  0s   make");
    assert!(lines[4].starts_with("        waiting 1                     ci-7  5000  anna  "), "{lines:#?}");
    assert_eq!(lines[7], "        2 more waiting");
    assert!(lines[17].starts_with("── events ──") && lines[17].width() == 80, "{lines:#?}");
    assert_eq!(lines[23], "/ filter   s sort: key   Enter in full   b break   q quit");
    let wide = screen(&mut view, [200, 50]);
    assert_eq!((wide.len(), &wide[2]), (50, &lines[2]));
}

/// Also where nothing fits.
#[test]
fn hostile_names_are_harmless_on_any_screen() {
    let hostile = "\u{1b}[2J\u{202e}日本語 ##[set-output] ".repeat(300);
    let mut view = view((0..50).map(|number| lock(&format!("key{number:03}"), 20, &hostile, 9)).collect());
    for (columns, rows) in [(1, 1), (2, 3), (20, 5), (80, 24), (200, 50)] {
        for keys in ["", "\n", "\u{1b}b", "y", "\u{1b}/日本", "\n"] {
            press(&mut view, keys);
            let lines = screen(&mut view, [columns, rows]);
            let text = lines.join("\n");
            assert!(!text.contains(['\u{1b}', '\u{202e}']) && !text.contains("##["), "{text}");
        }
        press(&mut view, "\u{1b}");
    }
}

/// However many there are, and whichever comes first.
#[test]
fn what_is_selected_stays_in_sight() {
    let many =
        || (0..1000).map(|number| lock(&format!("key{number:03}"), 1 + number % 30, "job", 3)).collect();
    let mut view = view(many());
    press(&mut view, "G");
    let end = screen(&mut view, [80, 24]);
    assert!(end[..17].iter().any(|line| line.starts_with("key999")), "{end:#?}");
    press(&mut view, "kkk");
    view.take(Ok(Survey::of_all(many())));
    assert_eq!(view.selected().map(|lock| lock.key.as_str()), Some("key996"));
    press(&mut view, "s");
    assert_eq!(view.selected().map(|lock| lock.key.as_str()), Some("key996"));
    let sorted = screen(&mut view, [80, 24]);
    assert!(sorted[..17].iter().any(|line| line.starts_with("key996")), "{sorted:#?}");
    press(&mut view, "/key00\n");
    assert_eq!(view.shown.len(), 10);
    press(&mut view, "/key00");
    view.press(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
    assert_eq!((view.shown.len(), &*view.filter), (1000, ""));
    press(&mut view, "key00\n");
    press(&mut view, "\u{1b}g");
    assert_eq!(view.shown.len(), 1000);
    assert_eq!(view.place(), Some(0));
}

#[test]
fn breaking_asks_first() {
    let mut view = view(vec![lock("deploy", 26, "make", 0)]);
    press(&mut view, "b");
    let asked = screen(&mut view, [60, 24])[22..].join(" ");
    let question =
        "'deploy' is held by ci-7 (pid 4123, \"make\") for 0s; 26s left on its lease. Break it? [y/N]";
    assert_eq!(asked, question);
    assert!(press(&mut view, "nb\u{1b}byno\u{1b}\nbq\u{1b}").is_none());
    press(&mut view, "\u{1b}");
    match press(&mut view, "bystuck, b\n") {
        Some(Action::Break(order)) => {
            assert_eq!((order.key.as_str(), order.reason.as_deref()), ("deploy", Some("stuck, b")));
        }
        _ => panic!("no order"),
    }
    // A second order would free it while its job runs.
    assert!(press(&mut view, "by\n").is_none());
    let key = "deploy".parse().expect("a key");
    view.answer_order(&key, "broke 'deploy'".to_owned());
    assert_eq!(screen(&mut view, [60, 24])[23], "broke 'deploy'");
    match press(&mut view, "by \n") {
        Some(Action::Break(order)) => assert_eq!(order.reason, None),
        _ => panic!("no order"),
    }
    assert!(matches!(press(&mut view, "q"), Some(Action::Quit)));
}

/// It frees the lock at once.
#[test]
fn breaking_a_second_time_is_another_question() {
    let broken = || {
        let mut lock = lock("deploy", 26, "make", 0);
        lock.holders[0].broken = Some(Breaker::new("anna", "web3", Some("stuck")));
        Survey::of_all(vec![lock])
    };
    for keys in ["b", "by", "byno"] {
        let mut view = view(vec![lock("deploy", 26, "make", 0)]);
        press(&mut view, keys);
        view.take(Ok(broken()));
        let said = screen(&mut view, [80, 24])[22..].join(" ");
        assert!(
            said.contains("did not break 'deploy': it was already broken by anna@web3: stuck. Enter"),
            "{said}"
        );
        // Text that was typed for the question is not a command.
        assert!(press(&mut view, "yquit by me").is_none());
        assert!(press(&mut view, "\nb").is_none());
        let asked = screen(&mut view, [80, 24])[21..].join(" ");
        assert!(
            asked.ends_with("it again frees it at once, even if its job still runs. Break it? [y/N]"),
            "{asked}"
        );
        view.take(Ok(broken()));
        assert!(matches!(press(&mut view, "y\n"), Some(Action::Break(_))));
    }
}

#[test]
fn no_question_is_asked_that_cannot_be_seen_or_answered() {
    let free = LockStatus { holders: Vec::new(), ..lock("free", 1, "", 0) };
    let long = "k".repeat(100);
    let mut view = view(vec![free, lock(&long, 26, "make", 0)]);
    press(&mut view, "b");
    let why = "nobody holds 'free', so there is nothing to break. Enter goes on";
    assert_eq!(screen(&mut view, [80, 24])[23], why);
    press(&mut view, "jbygb\n");
    assert_eq!(view.selected().map(|lock| lock.key.as_str()), Some("free"));
    press(&mut view, "jb");
    assert!(screen(&mut view, [60, 24])[20..].concat().contains(&format!("'{long}'")));
    // It was asked, and is not seen any more.
    assert!(screen(&mut view, [20, 8]).concat().contains("no room to ask"));
    assert!(press(&mut view, "y\n").is_none());
    press(&mut view, "b");
    assert!(press(&mut view, "y\n").is_none());
}

/// Someone who comes to hold the lock in that time keeps it, and is not shown in the place of another.
#[test]
fn a_question_is_about_one_holder() {
    let mut view = view(vec![lock("deploy", 26, "make", 0), lock("other", 9, "job", 0)]);
    for keys in ["b", "by", "byno"] {
        press(&mut view, keys);
        view.take(Ok(Survey::of_all(vec![lock("deploy", 20, "make", 0), lock("other", 9, "job", 0)])));
        let said = screen(&mut view, [80, 10])[8].clone();
        assert!(said.starts_with("did not break 'deploy': it is now held by ci-7 (pid 4123"), "{said}");
        assert!(press(&mut view, "\n\u{1b}").is_none());
        view.take(Ok(Survey::of_all(vec![lock("deploy", 26, "make", 0), lock("other", 9, "job", 0)])));
    }
    press(&mut view, "b");
    view.take(Ok(Survey::of_all(vec![lock("other", 9, "job", 0)])));
    assert_eq!(screen(&mut view, [80, 24])[23], "nobody holds 'deploy' any more. Enter goes on");
    press(&mut view, "\n");
    view.take(Ok(Survey::of_all(vec![lock("deploy", 26, "make", 0), lock("other", 9, "job", 0)])));
    press(&mut view, "g\n");
    assert!(screen(&mut view, [80, 24])[1].starts_with("deploy "));
    view.take(Ok(Survey::of_all(vec![lock("other", 9, "job", 0)])));
    assert!(screen(&mut view, [80, 24])[1].starts_with("KEY "));
}

/// One that is named comes in full, and the title says whose lock it is.
#[test]
fn the_start_is_what_was_asked_for() {
    let mut view = View::new(Survey::of_all(vec![lock("deploy", 26, "make", 0)]), true);
    let lines = screen_of("deploy", "redis://h:6379", &mut view, [80, 24]);
    assert!(lines[0].ends_with("1 lock, 0 waiting   deploy at redis://h:6379"), "{lines:#?}");
    assert!(lines[1].starts_with("deploy ") && lines[2].starts_with("  holder "), "{lines:#?}");
    let mut view = View::new(Survey::of_all(Vec::new()), false);
    let lines = screen_of("deploy/*", "local:", &mut view, [80, 24]);
    assert_eq!(lines[1], "no lock that is in use matches deploy/*");
    let lines = screen_of("", &"s".repeat(300), &mut view, [80, 24]);
    assert!(
        lines[0].starts_with("redlock: 0 locks, 0 waiting   sss") && lines[0].ends_with('…'),
        "{lines:#?}"
    );
}

/// A lease runs on between two looks, and who was in time then is not late for that.
#[test]
fn who_was_in_time_is_not_late_because_nobody_looked() {
    let mut view = view(vec![lock("deploy", 16, "make", 0)]);
    view.seen -= Duration::from_millis(5200);
    let lines = screen(&mut view, [80, 24]);
    assert!(lines[1].starts_with("as it was 5."), "{lines:#?}");
    assert!(lines[3].contains("░ 11s  ci-7  4123"), "{lines:#?}");
    press(&mut view, "\n");
    let lines = screen(&mut view, [80, 24]);
    assert!(lines.iter().any(|line| line.ends_with("alive: renewed 19s ago, 11s left of 30s")), "{lines:#?}");
}

/// Nor is a key that came right behind Esc lost.
#[test]
fn pasted_text_is_no_command() {
    let mut view = view(vec![lock("deploy", 26, "make", 0)]);
    view.paste("bybye\nq");
    assert!(screen(&mut view, [80, 24])[23].starts_with("/ filter "));
    press(&mut view, "by");
    view.paste("stuck\nsince 02:00");
    let alt = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::ALT);
    assert!(screen(&mut view, [80, 24])[23].ends_with(") stuck since 02:00_"));
    assert!(matches!(view.press(alt), Some(Action::Quit)));
}

/// The longest names hide nothing else, and are shown as far as they fit.
#[test]
fn what_counts_most_is_always_seen() {
    let mut one = lock("nightly-database-backup", 26, "dump", 0);
    let metadata = one.holders[0].metadata.as_mut().expect("metadata");
    metadata.host = "ip-10-20-30-40.eu-central-1.compute.internal".to_owned();
    metadata.user = "u".repeat(300);
    let mut locks = vec![one];
    locks.extend((0..9).map(|number| lock(&format!("key{number}"), 20, "job", 0)));
    let mut view = view(locks);
    let lines = screen(&mut view, [80, 24]);
    assert!(
        lines[11].starts_with("nightly-database-backup  held ") && lines[11].contains("26s"),
        "{lines:#?}"
    );
    press(&mut view, "G");
    assert!(screen(&mut view, [80, 6])[4].starts_with("nightly"));
    assert!(screen(&mut view, [80, 24])[2].starts_with("key0"));
}

/// Making a name harmless may make it longer.
#[test]
fn a_hostile_name_stays_in_its_column() {
    let mut one = lock("deploy", 26, "make", 0);
    one.holders[0].metadata.as_mut().expect("metadata").host = "#".repeat(19);
    let lines = screen(&mut view(vec![one]), [80, 24]);
    let column = |line: &str, what| line[..line.find(what).expect("it")].width();
    assert_eq!(column(&lines[1], "PID"), column(&lines[2], "4123"), "{lines:#?}");
    assert!(lines[2].contains("# # # #"), "{lines:#?}");
}

/// A server that does not answer: what was seen last stays, and its leases run on.
#[test]
fn what_is_old_is_said_to_be() {
    let mut view = view(vec![lock("deploy", 26, "make", 0)]);
    view.take(Err(crate::error::Failure::usage("cannot reach it")));
    let lines = screen(&mut view, [80, 24]);
    assert_eq!(lines[1], "cannot reach it");
    assert!(lines[3].starts_with("deploy"), "{lines:#?}");
    view.take(Ok(Survey::of_all(Vec::new())));
    let lines = screen(&mut view, [80, 24]);
    assert_eq!(lines[1], "no locks are in use");
    assert!(lines[18].is_empty(), "what happened since is unknown: {lines:#?}");
    view.take(Ok(Survey::of_all(vec![lock("deploy", 26, "make", 0)])));
    let lines = screen(&mut view, [80, 24]);
    assert!(lines[18].ends_with("'deploy' is held by ci-7 (pid 4123, \"make\")"), "{lines:#?}");
}
