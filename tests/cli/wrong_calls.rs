//! Calls that people get wrong: the answer names what is wrong and, where it can, the line that was meant.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::harness::{Finished, Redlock, Store};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

/// The line as typed, the answer behind `redlock: `, the exit status. `…` stands for any text.
const CALLS: [(&str, &str, i32); 140] = [
    // No subcommand, or the name that another program has for it.
    ("redlock", "there is no subcommand; try: redlock run -k KEY -- COMMAND, or redlock --help", 64),
    ("redlock -k x -- true", "there is no subcommand; try: redlock run -k x -- true", 64),
    ("redlock -k x true", "there is no subcommand; try: redlock run -k x -- true", 64),
    ("redlock x -- true", "there is no subcommand x; try: redlock run -k x -- true", 64),
    ("redlock x true", "there is no subcommand x; try: redlock run -k x -- true", 64),
    ("redlock -n x true", "there is no subcommand; try: redlock run -k x -n -- true", 64),
    ("redlock ./deploy.sh", "there is no subcommand ./deploy.sh; try: redlock run -k KEY -- ./deploy.sh", 64),
    (
        "redlock ./deploy.sh --prod",
        "there is no subcommand ./deploy.sh; try: redlock run -k KEY -- ./deploy.sh --prod",
        64,
    ),
    ("redlock frobnicate", "there is no subcommand frobnicate; try: redlock run -k KEY -- frobnicate", 64),
    ("redlock rnu -k x -- true", "there is no subcommand rnu; try: redlock run -k x -- true", 64),
    ("redlock relaese x", "there is no subcommand relaese; try: redlock release -k x", 64),
    ("redlock stat x", "there is no subcommand stat; try: redlock status x", 64),
    ("redlock lock x", "there is no subcommand lock; try: redlock acquire -k x", 64),
    ("redlock lock x true", "there is no subcommand lock; try: redlock run -k x -- true", 64),
    ("redlock unlock -k x", "there is no subcommand unlock; try: redlock release -k x", 64),
    ("redlock exec x true", "there is no subcommand exec; try: redlock run -k x -- true", 64),
    ("redlock list", "there is no subcommand list; try: redlock status", 64),
    ("redlock ls x", "there is no subcommand ls; try: redlock status x", 64),
    ("redlock show x", "there is no subcommand show; try: redlock status x", 64),
    // Options in front of the subcommand are those of the subcommand.
    ("redlock -q run -v -k x -- true", "--quiet cannot be used with --verbose; see: redlock run --help", 64),
    ("redlock -q status -v", "--quiet cannot be used with --verbose; see: redlock status --help", 64),
    (
        "redlock -S redis://h run -S local: -k x -- true",
        "--server: local: cannot be one of several servers",
        78,
    ),
    ("redlock -S redis://h status -S local:", "--server: local: cannot be one of several servers", 78),
    ("redlock help frobnicate", "there is no subcommand frobnicate; see: redlock --help", 64),
    ("redlock --tll", "there is no option --tll; see: redlock --help", 64),
    // Something is missing.
    ("redlock run", "there is no key and no command; try: redlock run -k KEY -- COMMAND", 64),
    ("redlock run -- true", "there is no key; try: redlock run -k KEY -- true", 64),
    ("redlock run x", "there is no command; try: redlock run -k x -- COMMAND", 64),
    ("redlock run -k x", "there is no command; try: redlock run -k x -- COMMAND", 64),
    ("redlock run -k x --", "there is no command; try: redlock run -k x -- COMMAND", 64),
    ("redlock run ./deploy.sh", "there is no key; try: redlock run -k KEY -- ./deploy.sh", 64),
    (
        "redlock run ./deploy.sh --prod",
        "there is no option --prod; try: redlock run -k KEY -- ./deploy.sh --prod",
        64,
    ),
    ("redlock run make --jobs 4", "there is no option --jobs; try: redlock run -k KEY -- make --jobs 4", 64),
    ("redlock acquire", "there is no key; try: redlock acquire -k KEY", 64),
    ("redlock break", "there is no key; try: redlock break -k KEY", 64),
    ("redlock release", "there is no key; try: redlock release -k KEY", 64),
    ("redlock release x", "there is no owner token; set REDLOCK_TOKEN, or give --token-file", 64),
    ("redlock completions", "SHELL is missing; see: redlock completions --help", 64),
    ("redlock run -k", "--key needs a value; see: redlock run --help", 64),
    ("redlock run x --ttl", "--ttl needs a value; see: redlock run --help", 64),
    // What cannot be certain.
    (
        "redlock run a b -- true",
        "b is a second key or the command; try: redlock run -k a -k b -- true; or: redlock run -k a -- b -- true",
        64,
    ),
    (
        "redlock run a -k b -- true",
        "a is a second key, or it is out of place; try: redlock run -k a -k b -- true",
        64,
    ),
    (
        "redlock run sleep -k x 5",
        "with -k, sleep is the command or out of place; try: redlock run -k x -- sleep 5",
        64,
    ),
    (
        "redlock run -k x -c echo hi there",
        "with -c the command is one string; try: redlock run -k x -c -- 'echo hi there'",
        64,
    ),
    (
        "redlock run x -c -- echo \"it's\" x",
        "with -c the command is one string; try: redlock run -k x -c -- 'echo it'\\''s x'",
        64,
    ),
    ("redlock acquire a b", "of several keys, each has its own -k; try: redlock acquire -k a -k b", 64),
    ("redlock acquire a -- true", "acquire starts no command; try: redlock run -k a -- true", 64),
    ("redlock break a b", "break takes one key; try: redlock break -k a", 64),
    (
        "redlock release x 68413f2f-8e0b-49a8-8a46-e268c50c52f7",
        "an owner token is given with --token; try: redlock release -k x --token TOKEN",
        64,
    ),
    (
        "redlock check 68413f2f-8e0b-49a8-8a46-e268c50c52f7",
        "an owner token is given with --token; try: redlock check -k KEY --token TOKEN",
        64,
    ),
    // Options.
    (
        "redlock run -k x --tll 3s -- true",
        "there is no option --tll; try: redlock run -k x --ttl 3s -- true",
        64,
    ),
    (
        "redlock run x --timout 3s true",
        "there is no option --timout; try: redlock run -k x --timeout 3s -- true",
        64,
    ),
    (
        "redlock run 'a b' --wiat 3s echo 'x y'",
        "there is no option --wiat; try: redlock run -k 'a b' --wait 3s -- echo 'x y'",
        64,
    ),
    (
        "redlock acquire x --timeout 3s",
        "--timeout is an option of run, not of acquire; see: redlock acquire --help",
        64,
    ),
    (
        "redlock status --password canary",
        "there is no option --password; try: redlock status --password-file FILE",
        64,
    ),
    // As Go's programs have it.
    (
        "redlock run -key x -ttl=5s -wait 5s true",
        "-key needs two dashes; try: redlock run --key x --ttl=5s --wait 5s -- true",
        64,
    ),
    (
        "redlock run -shell x 'echo hi'",
        "-shell needs two dashes; try: redlock run -k x --shell -- 'echo hi'",
        64,
    ),
    ("redlock check x -token canary", "-token needs two dashes; try: redlock check -k x --token TOKEN", 64),
    ("redlock run -k x -z -- true", "there is no option -z; see: redlock run --help", 64),
    ("redlock run -k x --frobnicate -- true", "there is no option --frobnicate; see: redlock run --help", 64),
    (
        "redlock run -k x -s -p 2 -- true",
        "--shared cannot be used with --permits; see: redlock run --help",
        64,
    ),
    ("redlock run -k x --ttl 1s --ttl 2s -- true", "--ttl is given twice; see: redlock run --help", 64),
    ("redlock run -k x --shell=yes -- true", "--shell takes no value; see: redlock run --help", 64),
    ("redlock doctor x", "doctor takes no x; see: redlock doctor --help", 64),
    // Values, and where they come from.
    (
        "redlock run -k x --ttl soon -- true",
        "--ttl soon: a duration looks like …; see: redlock run --help",
        64,
    ),
    (
        "redlock run -k x --ttl 68413f2f-8e0b-49a8-8a46-e268c50c52f7 -- true",
        "--ttl TOKEN: a duration looks like …; see: redlock run --help",
        64,
    ),
    (
        "redlock run -k x --wait soon -- true",
        "--wait soon: a duration looks like …; see: redlock run --help",
        64,
    ),
    ("redlock run -k x -w 5M -- true", "--wait 5M: … m is minutes, d is days; see: redlock run --help", 64),
    (
        "redlock run -k x -t 'redis://u:canary@h?x=y' -- true",
        "--ttl URL: months and years are no units here: …",
        64,
    ),
    (
        "redlock acquire --token canary -k x",
        "there is no option --token; try: redlock acquire --token-file FILE -k x",
        64,
    ),
    ("redlock release -k x --tokn canary", "…", 64),
    ("redlock run -k x --passwort=canary -- true", "…", 64),
    ("redlock status x -S", "--server needs a value; see: redlock status --help", 64),
    // One line has one meaning, whatever the variables.
    ("redlock run x -w true -- true", "true is a second key or the command; …", 64),
    ("REDLOCK_LABEL= redlock run x -w true -- true", "true is a second key or the command; …", 64),
    (
        "REDLOCK_WAIT=soon redlock run x true",
        "REDLOCK_WAIT=soon: a duration looks like …; see: redlock run --help",
        64,
    ),
    ("REDLOCK_TTL=0 redlock run x true", "REDLOCK_TTL=0: a TTL is at least 10ms, …", 64),
    (
        "redlock run -k x -E 300 -- true",
        "--conflict-exit-code 300: an exit status is 0 to 255; see: redlock run --help",
        64,
    ),
    (
        "redlock acquire x --while-pid abc",
        "--while-pid abc: a pid is 1 or more; …; see: redlock acquire --help",
        64,
    ),
    ("redlock run -k x -p 0 -- true", "--permits 0: the number of permits is 1 or more, …", 64),
    (
        "redlock run -k x --on-lost panic -- true",
        "--on-lost panic: it takes terminate, continue; see: redlock run --help",
        64,
    ),
    (
        "redlock run -k \"$(printf '\\377')\" -- true",
        "--key $'\\xff': this is not UTF-8; see: redlock run --help",
        64,
    ),
    (
        "redlock run \"$(printf 'a\\377')\" true",
        "--key $'a\\xff': this is not UTF-8; see: redlock run --help",
        64,
    ),
    (
        "REDLOCK_KILL_AFTER=9s redlock run x --ttl 4s true",
        "REDLOCK_KILL_AFTER 9s leaves no time before the end of --ttl 4s; …",
        64,
    ),
    (
        "redlock run x --ttl 4s --config eleven.toml true",
        "eleven.toml line 1: kill-after 9s leaves no time before the end of --ttl 4s; …",
        78,
    ),
    (
        "redlock status --connect-timeout 0",
        "--connect-timeout 0: it leaves no time to connect; try 5s; …",
        64,
    ),
    ("redlock status --log-file /dev/stderr", "--log-file /dev/stderr: it takes a file; …", 64),
    ("redlock run sleep 5", "'5' is not found; the first word, sleep, is the key", 127),
    ("redlock run -k x no-such-program", "'no-such-program' is not found", 127),
    (
        "redlock run -k x 'sleep 1; echo hi'",
        "'sleep 1; echo hi' is not found; try: redlock run -k x -c -- 'sleep 1; echo hi'",
        127,
    ),
    (
        "redlock run x -S localhost true",
        "--server: localhost: a server is …; did you mean redis://localhost?",
        78,
    ),
    (
        "REDLOCK_SERVER=127.0.0.1:6379 redlock status",
        "REDLOCK_SERVER: …; did you mean redis://127.0.0.1:6379?",
        78,
    ),
    ("redlock status -S a,b", "--server: a,b: …; did you mean --server redis://a --server redis://b?", 78),
    (
        "redlock status -S redis://a,b",
        "--server: redis://a,b: …; did you mean --server redis://a --server redis://b?",
        78,
    ),
    ("redlock status -S '[::1]:6379'", "--server: [::1]:6379: …; did you mean redis://[::1]:6379?", 78),
    ("redlock status -S zookeeper://h", "--server: zookeeper://h: …; did you mean zk://h?", 78),
    ("redlock status -S http://a:2379,b:2379", "…; did you mean etcd://a:2379,b:2379?", 78),
    ("redlock status -S file:///tmp/x.db", "…; did you mean local:/tmp/x.db?", 78),
    ("redlock status -S consul://h", "--server: there is no store consul://; a server is …", 78),
    ("redlock status -S redis://h:99999", "--server: a port is a number up to 65535; …", 78),
    (
        "redlock status -S redis://a:1,redis://b:2",
        "…; did you mean --server redis://a:1 --server redis://b:2?",
        78,
    ),
    // In each folder it would be another file.
    ("redlock run -S 'local:~/x.db' x true", "--server: local:~/x.db: no shell reads this; …", 78),
    (
        "REDLOCK_SERVER='local:$HOME/x' redlock status",
        "REDLOCK_SERVER: local:$HOME/x: no shell reads this; …",
        78,
    ),
    (
        "REDLOCK_SERVER= redlock status --config seven.toml",
        "seven.toml line 1: server = \"local:x.db\": a path in a file begins with '/': …",
        78,
    ),
    ("redlock run x --config ten.toml true", "ten.toml line 1: shared cannot be used with permits", 78),
    ("redlock status --config eight.toml", "eight.toml: this is not UTF-8", 78),
    ("redlock status --config nine.toml", "nine.toml line 1: ttl: it takes one value, such as \"30s\"", 78),
    ("REDLOCK_SHARED=maybe redlock run x true", "REDLOCK_SHARED=maybe: it takes true or false; …", 64),
    ("redlock run -key=x -- true", "-key needs two dashes; try: redlock run --key=x -- true", 64),
    ("redlock acquire -key=x", "-key needs two dashes; try: redlock acquire --key=x", 64),
    (
        "redlock check x --ran-within 1d --token T",
        "--ran-within cannot be used with --token; see: redlock check --help",
        64,
    ),
    ("redlock check x --ran-within 1d --for 5s", "--ran-within cannot be used with --for; …", 64),
    (
        "redlock check x --token-file T --ran-within 1d",
        "--token-file cannot be used with --ran-within; …",
        64,
    ),
    // Those of a job around it are for other calls.
    (
        "REDLOCK_TOKEN=T REDLOCK_FOR=1m redlock check x --ran-within 1d",
        "no run of 'x' succeeded within 1d: its history has no successful run; …",
        1,
    ),
    ("redlock -version", "-version needs two dashes; try: redlock --version", 64),
    ("redlock version", "there is no subcommand version; try: redlock --version", 64),
    ("redlock run -help", "-help needs two dashes; try: redlock run --help", 64),
    ("redlock run --host localhost -k x echo hi", "there is no option --host; see: redlock run --help", 64),
    ("redlock run -c 'echo hi'", "there is no key; try: redlock run -k KEY -c -- 'echo hi'", 64),
    (
        "redlock run -k x ./bad.sh",
        "'./bad.sh' cannot be executed: its interpreter is not found, the one in its first line, …",
        127,
    ),
    ("redlock status -S ''", "--server: it is empty; name a store, or leave it out", 78),
    ("REDLOCK_SERVER=' ' redlock status", "REDLOCK_SERVER: it is empty; name a store, or leave it out", 78),
    // A login is not shown.
    ("redlock run redis://u:SECRET@h", "there is no key; try: redlock run -k KEY -- URL", 64),
    (
        "redlock --url redis://u:SECRET@h",
        "there is no subcommand; try: redlock run -k URL --url -- COMMAND",
        64,
    ),
    (
        "redlock run -k x --sever redis://u:SECRET@h a -- b",
        "a is a second key or the command; try: redlock run -k a -k x --sever URL -- b; or: …",
        64,
    ),
    (
        "redlock status -S \"$(printf 'redis://u:SECRET\\377@h')\"",
        "--server URL: this is not UTF-8; see: redlock status --help",
        64,
    ),
    (
        "redlock run x --ttl redis://u:a-secret-of-more-letters-than-a-message-has-room-for-SECRET@h true",
        "--ttl URL: a duration looks like …",
        64,
    ),
    ("redlock run --close x true", "there is no option --close; see: redlock run --help", 64),
    ("redlock status -S local", "--server: local: …; did you mean local:?", 78),
    (
        "REDLOCK_CONFIG=none.toml redlock status",
        "REDLOCK_CONFIG: there is no configuration file none.toml",
        78,
    ),
    (
        "redlock status --config five.toml",
        "five.toml line 2: connect-timeout = \"0\": it leaves no time to connect; try 5s",
        78,
    ),
    ("redlock status --config one.toml", "one.toml line 1: there is no setting 'tll'; did you mean ttl?", 78),
    ("redlock status --config two.toml", "two.toml line 2: wait = \"soon\": a duration looks like …", 78),
    (
        "redlock status --config three.toml",
        "three.toml line 1: leftovers = \"forget\": it takes release, wait, kill",
        78,
    ),
    // What the store cannot do.
    ("REDLOCK_REPLICAS=1 redlock run x true", "REDLOCK_REPLICAS 1: local: has no replicas; …", 78),
    ("redlock run x -S redis://a -S redis://b -p 2 true", "--permits: it needs one server; …", 78),
    ("redlock run x -S etcd://a --ttl 1s true", "--ttl 1s is too short for this store; use 2s or longer", 78),
    (
        "REDLOCK_TTL=2500ms redlock run x -S etcd://a true",
        "REDLOCK_TTL 2.5s: this store counts in steps of 1s",
        78,
    ),
    ("redlock run x --config six.toml true", "six.toml line 2: replicas 1: local: has no replicas; …", 78),
    (
        "redlock status --config four.toml",
        "four.toml line 1: quiet = \"perhaps\": it takes true or false",
        78,
    ),
];

/// A shell in which `redlock` is the program.
fn shell(store: &Store, line: &str) -> Finished {
    let folder = store.folder.path("shell");
    if fs::create_dir(&folder).is_ok() {
        symlink(PROGRAM, folder.join("redlock")).expect("its name");
        fs::write(folder.join("one.toml"), "tll = \"3s\"\n").expect("a file");
        fs::write(folder.join("two.toml"), "\nwait = \"soon\"\n").expect("a file");
        fs::write(folder.join("three.toml"), "leftovers = \"forget\"\n").expect("a file");
        fs::write(folder.join("five.toml"), "ttl = 5\nconnect-timeout = 0\n").expect("a file");
        fs::write(folder.join("six.toml"), "ttl = 5\nreplicas = 1\n").expect("a file");
        fs::write(folder.join("seven.toml"), "server = \"local:x.db\"\n").expect("a file");
        fs::write(folder.join("eight.toml"), b"label = \"\xff\"\n").expect("a file");
        fs::write(folder.join("nine.toml"), "ttl = [\"5s\"]\n").expect("a file");
        fs::write(folder.join("ten.toml"), "shared = true\npermits = 3\n").expect("a file");
        fs::write(folder.join("eleven.toml"), "kill-after = \"9s\"\n").expect("a file");
        fs::write(folder.join("bad.sh"), "#!/no/such/program\n").expect("a script");
        fs::set_permissions(folder.join("bad.sh"), fs::Permissions::from_mode(0o755)).expect("its mode");
        fs::write(folder.join("four.toml"), "quiet = \"perhaps\"\n").expect("a file");
    }
    let mut redlock = Redlock::under("bash", &["-c", line]).server(&store.url);
    let path = std::env::var("PATH").unwrap_or_default();
    redlock.command.current_dir(&folder).env("PATH", format!("{}:{path}", folder.display()));
    redlock.run()
}

/// Whether `text` is `pattern`, in which `…` stands for any text.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    for (number, part) in parts.iter().enumerate() {
        let found = if number + 1 == parts.len() {
            rest.ends_with(part).then(|| rest.len() - part.len())
        } else {
            rest.find(part)
        };
        match found {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

#[test]
fn wrong_calls_are_answered_with_the_line_that_was_meant() {
    let store = Store::local();
    let mut wrong = Vec::new();
    for (line, answer, code) in CALLS {
        let said = shell(&store, line);
        let text = said.stderr.strip_prefix("redlock: ").unwrap_or(&said.stderr).trim_end();
        if said.code() != code || !is_like(text, answer) || !said.stdout.is_empty() {
            wrong
                .push(format!("{line}\n    expected {code}: {answer}\n    answered {}: {text}", said.code()));
        }
        // The parser's and the language's own words.
        let foreign =
            ["<", "tip:", "unexpected argument", "invalid digit", "unknown field", "unknown variant"];
        let foreign = foreign.iter().find(|word| said.stderr.contains(**word));
        if said.stderr.contains("canary") {
            wrong.push(format!("{line}: the secret in {text}"));
        }
        if let Some(word) = foreign {
            wrong.push(format!("{line}: {word:?} in {text}"));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A line that redlock shows can be given to a shell as it is, and is no wrong call.
#[test]
fn what_is_shown_works() {
    let store = Store::local();
    for (line, answer, _) in CALLS {
        let Some((_, shown)) = answer.rsplit_once("; try: ") else { continue };
        let shown = shown.split("; or: ").next().unwrap_or(shown);
        if ["KEY", "COMMAND", "TOKEN", "URL", "./deploy.sh"].iter().any(|name| shown.contains(name)) {
            continue;
        }
        let run = shell(&store, &format!("{shown} >/dev/null"));
        assert!(!run.stderr.contains("try:") && !run.stderr.contains("see:"), "{line}: {shown}: {run:?}");
        shell(&store, "for key in a x; do redlock break -k $key --yes; redlock break -k $key --yes; done");
    }
}

/// The key is the first word, and so is the command behind it: what follows is the command's.
#[test]
fn a_line_needs_no_more_than_its_words() {
    let store = Store::local();
    for (line, output) in [
        ("redlock run x -- echo hi", "hi\n"),
        ("redlock run x echo hi", "hi\n"),
        ("redlock run -k x echo hi", "hi\n"),
        ("redlock run x echo -k --ttl 3 -- hi", "-k --ttl 3 -- hi\n"),
        ("redlock run x sh -c 'echo $REDLOCK_KEY'", "x\n"),
        ("redlock run -k x timeout 5 sh -c 'echo $0' --help", "--help\n"),
        ("redlock -k x --ttl 5s run echo hi", "hi\n"),
        ("redlock run x --ttl 5s --wait echo hi", "hi\n"),
        ("redlock run --wait x echo hi", "hi\n"),
        ("redlock run --wait 5s x echo hi", "hi\n"),
        ("redlock run -k x -c 'echo hi; echo there'", "hi\nthere\n"),
        ("redlock run x -c 'echo hi; echo there'", "hi\nthere\n"),
        ("redlock -S \"$REDLOCK_SERVER\" run x echo hi", "hi\n"),
        ("redlock acquire z >/dev/null; redlock --json status z | grep -c fence", "1\n"),
        ("redlock --token \"$(redlock acquire y)\" release -q y; redlock -V status | grep -c stores", "1\n"),
        ("REDLOCK_WAIT= redlock run x echo hi", "hi\n"),
        (
            "token=$(redlock acquire x); redlock status x --json | grep -c fence; redlock status -k x | grep -o held;
             redlock -q check x --token $token && redlock renew -q x --token=$token && redlock release x -q --token $token",
            "1\nheld\n",
        ),
        ("redlock acquire x >/dev/null; redlock break x --yes 2>/dev/null; redlock status x | grep -c broken", "1\n"),
    ] {
        let run = shell(&store, line);
        assert_eq!((run.code(), &run.stdout[..], &run.stderr[..]), (0, output, ""), "{line}");
    }
}

/// Lines of other lock commands, with words replaced and nothing moved.
#[test]
fn lines_of_other_lock_commands() {
    let store = Store::local();
    let folder = store.folder.path("shell");
    for (theirs, words) in [
        ("flock -n F echo hi", &[("flock", "redlock run")][..]),
        ("flock -w 5 F echo hi", &[("flock", "redlock run")]),
        ("flock -s F echo hi", &[("flock", "redlock run")]),
        ("flock --nonblock --exclusive F echo hi", &[("flock", "redlock run")]),
        ("flock -x F -c 'echo hi'", &[("flock", "redlock run")]),
        ("flock F echo hi", &[("flock", "redlock run --wait")]),
        ("flock -E 3 -n F echo hi", &[("flock", "redlock run")]),
        ("consul lock -n 3 P 'echo hi'", &[("consul lock", "redlock run"), ("-n", "-p"), (" P", " P -c")]),
        ("consul lock -n 3 P echo hi", &[("consul lock", "redlock run"), ("-n", "--permits")]),
        ("etcdctl lock N echo hi", &[("etcdctl lock", "redlock run --wait")]),
        ("etcdctl lock N --ttl=30 echo hi", &[("etcdctl lock", "redlock run --wait")]),
        ("setlock -n F echo hi", &[("setlock", "redlock run")]),
    ] {
        let ours = words.iter().fold(theirs.to_owned(), |line, (word, ours)| line.replacen(word, ours, 1));
        let run = shell(&store, &ours);
        assert_eq!((run.code(), &run.stdout[..], &run.stderr[..]), (0, "hi\n", ""), "{theirs}: {ours}");
        assert!(!folder.join("F").exists());
    }
}

/// The server is there: the URL is wrong.
#[test]
fn a_database_that_the_server_does_not_have() {
    let store = Store::redis();
    let refused = store.redlock(&["run", "x", "-S", &format!("{}/17", store.url), "true"]).run().expect(78);
    assert!(refused.line().contains("it has no database 17"), "{refused:?}");
}
