//! Calls that people get wrong: the answer names what is wrong, and shows a line that is right.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::harness::{Finished, Redlock, Store};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

/// The line as typed, the answer behind `redlock: `, the exit status. `…` stands for any text. A subcommand's fixed example
/// ends the answers about its options.
const CALLS: [(&str, &str, i32); 191] = [
    // No subcommand, or the name that another program has for it.
    ("redlock", "Hold a distributed lock while a command runs…Usage: redlock …", 64),
    (
        "redlock -k x -- true",
        "unexpected argument '-k' found; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    ("redlock -k x true", "unexpected argument '-k' found; …", 64),
    (
        "redlock x -- true",
        "unrecognized subcommand 'x'; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    ("redlock x true", "unrecognized subcommand 'x'; …", 64),
    (
        "redlock -n x true",
        "unexpected argument '-n' found; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    (
        "redlock ./deploy.sh",
        "unrecognized subcommand './deploy.sh'; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    ("redlock ./deploy.sh --prod", "unrecognized subcommand './deploy.sh'; …", 64),
    (
        "redlock frobnicate",
        "unrecognized subcommand 'frobnicate'; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    (
        "redlock rnu -k x -- true",
        "unrecognized subcommand 'rnu'; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    (
        "redlock relaese x",
        "unrecognized subcommand 'relaese'; a similar subcommand exists: 'release'; for example: redlock release -k deploy --token-file deploy.token",
        64,
    ),
    (
        "redlock stat x",
        "unrecognized subcommand 'stat'; a similar subcommand exists: 'status'; for example: redlock status deploy",
        64,
    ),
    (
        "redlock lock x",
        "unrecognized subcommand 'lock'; redlock calls it run; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    ("redlock lock x true", "unrecognized subcommand 'lock'; redlock calls it run; …", 64),
    (
        "redlock unlock -k x",
        "unrecognized subcommand 'unlock'; redlock calls it release; for example: redlock release -k deploy --token-file deploy.token",
        64,
    ),
    (
        "redlock exec x true",
        "unrecognized subcommand 'exec'; redlock calls it run; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    (
        "redlock list",
        "unrecognized subcommand 'list'; redlock calls it status; for example: redlock status deploy",
        64,
    ),
    (
        "redlock ls x",
        "unrecognized subcommand 'ls'; redlock calls it status; for example: redlock status deploy",
        64,
    ),
    (
        "redlock show x",
        "unrecognized subcommand 'show'; redlock calls it status; for example: redlock status deploy",
        64,
    ),
    // Options in front of the subcommand are those of the subcommand.
    (
        "redlock -q run -v -k x -- true",
        "the argument '--quiet' cannot be used with '--verbose'; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    (
        "redlock -q status -v",
        "the argument '--quiet' cannot be used with '--verbose'; for example: redlock status deploy",
        64,
    ),
    (
        "redlock -S redis://h run -S local: -k x -- true",
        "--server: local: cannot be one of several servers",
        78,
    ),
    ("redlock -S redis://h status -S local:", "--server: local: cannot be one of several servers", 78),
    ("redlock help frobnicate", "unrecognized subcommand 'frobnicate'", 64),
    (
        "redlock --tll",
        "unexpected argument '--tll' found; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    // Something is missing.
    ("redlock run", "key and command are missing; for example: redlock run -k nightly -- ./backup.sh", 64),
    ("redlock run -- true", "the key is missing; …", 64),
    ("redlock run x", "the command is missing: the first word, x, is the key; …", 64),
    ("redlock run -k x", "the command is missing; …", 64),
    ("redlock run -k x --", "the command is missing; …", 64),
    ("redlock run ./deploy.sh", "the command is missing: the first word, ./deploy.sh, is the key; …", 64),
    (
        "redlock run ./deploy.sh --prod",
        "unexpected argument '--prod' found; a similar argument exists: '--profile'; the first word, ./deploy.sh, is the key; …",
        64,
    ),
    (
        "redlock run make --jobs 4",
        "unexpected argument '--jobs' found; the first word, make, is the key; …",
        64,
    ),
    (
        "redlock acquire",
        "the key is missing; for example: eval \"$(redlock acquire -k deploy --wait --format env || echo exit $?)\"",
        64,
    ),
    ("redlock break", "the key is missing; for example: redlock break deploy", 64),
    (
        "redlock release",
        "the key is missing; for example: redlock release -k deploy --token-file deploy.token",
        64,
    ),
    ("redlock release x", "the owner token is missing; set REDLOCK_TOKEN, or give --token-file; …", 64),
    (
        "redlock completions",
        "the following required arguments were not provided: <SHELL>; for example: redlock completions bash >~/.local/share/bash-completion/completions/redlock",
        64,
    ),
    ("redlock run -k", "a value is required for '--key <KEY>' but none was supplied; …", 64),
    ("redlock run x --ttl", "a value is required for '--ttl <DURATION>' but none was supplied; …", 64),
    // What cannot be certain.
    (
        "redlock run a b -- true",
        "b before -- is a second key, or the command; give each of several keys with its own -k; …",
        64,
    ),
    (
        "redlock run a -k b -- true",
        "a is a second key beside that of -k, or the command; give each of several keys with its own -k; …",
        64,
    ),
    (
        "redlock run sleep -k x 5",
        "sleep is a second key beside that of -k, or the command; give each of several keys with its own -k; …",
        64,
    ),
    ("redlock run -k x -c echo hi there", "with -c the command is one string: quote it; …", 64),
    ("redlock run x -c -- echo \"it's\" x", "with -c the command is one string: quote it; …", 64),
    ("redlock acquire a b", "b is a second key; give each of several keys with its own -k; …", 64),
    (
        "redlock acquire a -- true",
        "acquire starts no command; run does; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    ("redlock break a b", "b is a second key; it takes one key; …", 64),
    (
        "redlock release x 68413f2f-8e0b-49a8-8a46-e268c50c52f7",
        "an owner token is not a key; give it with --token-file, or in REDLOCK_TOKEN; …",
        64,
    ),
    (
        "redlock check 68413f2f-8e0b-49a8-8a46-e268c50c52f7",
        "an owner token is not a key; give it with --token-file, or in REDLOCK_TOKEN; for example: redlock check -k deploy --token-file deploy.token",
        64,
    ),
    (
        "redlock check x",
        "the owner token is missing; set REDLOCK_TOKEN, or give --token-file; `redlock status` shows who holds a lock",
        64,
    ),
    // A word processor made other dashes.
    (
        "redlock run x \u{2013}\u{2013}ttl 5s true",
        "\u{2013}\u{2013}ttl begins with a dash that is not a hyphen: type --ttl; …",
        64,
    ),
    ("redlock run \u{2013}k x true", "\u{2013}k begins with a dash that is not a hyphen: type -k; …", 64),
    ("redlock \u{2014}S local: status", "\u{2014}S begins with a dash that is not a hyphen: type -S; …", 64),
    (
        "redlock run x cd /tmp",
        "'cd' is not found; it is a builtin of the shell; run it with -c, in one quoted word",
        127,
    ),
    // Options.
    (
        "redlock run x --ttl 30S true",
        "invalid value '30S' for '--ttl <DURATION>': units are small letters: did you mean 30s?; …",
        64,
    ),
    (
        "redlock run x --ttl 400d true",
        "invalid value '400d' for '--ttl <DURATION>': it is longer than a year, the most that redlock takes; …",
        64,
    ),
    (
        "redlock run x --metrics-file /tmp/m.txt true",
        "invalid value '/tmp/m.txt' for '--metrics-file <FILE>': its name ends with .prom: node_exporter reads no other file; …",
        64,
    ),
    (
        "redlock status --config twelve.toml",
        "twelve.toml line 1: server: a text needs quotes, as in ttl = \"30s\"",
        78,
    ),
    (
        "redlock status --config thirteen.toml",
        "thirteen.toml line 1: [server] is not a section; sections are [servers.NAME], [keys.\"PATTERN\"], [profiles.NAME] and …",
        78,
    ),
    (
        "redlock run -k x --tll 3s -- true",
        "unexpected argument '--tll' found; a similar argument exists: '--ttl'; …",
        64,
    ),
    (
        "redlock run x --timout 3s true",
        "unexpected argument '--timout' found; a similar argument exists: '--timeout'; the first word, x, is the key; …",
        64,
    ),
    (
        "redlock run 'a b' --wiat 3s echo 'x y'",
        "unexpected argument '--wiat' found; a similar argument exists: '--wait'; the first word, a b, is the key; …",
        64,
    ),
    ("redlock acquire x --timeout 3s", "unexpected argument '--timeout' found; …", 64),
    (
        "redlock status --password canary",
        "unexpected argument '--password' found; a similar argument exists: '--password-file'; for example: redlock status deploy",
        64,
    ),
    // As Go's programs have it.
    ("redlock run -key x -ttl=5s -wait 5s true", "-key needs two dashes: --key; …", 64),
    ("redlock run -shell x 'echo hi'", "-shell needs two dashes: --shell; …", 64),
    ("redlock check x -token canary", "-token needs two dashes: --token; …", 64),
    ("redlock run -k x -z -- true", "unexpected argument '-z' found; …", 64),
    ("redlock run -k x --frobnicate -- true", "unexpected argument '--frobnicate' found; …", 64),
    (
        "redlock run -k x -s -p 2 -- true",
        "the argument '--shared' cannot be used with '--permits <N>'; …",
        64,
    ),
    (
        "redlock run -k x --ttl 1s --ttl 2s -- true",
        "the argument '--ttl <DURATION>' cannot be used multiple times; …",
        64,
    ),
    (
        "redlock run -k x --shell=yes -- true",
        "unexpected value 'yes' for '--shell' found; no more were expected; …",
        64,
    ),
    ("redlock doctor x", "unexpected argument 'x' found; for example: redlock doctor", 64),
    // Values, and where they come from.
    (
        "redlock run -k x --ttl soon -- true",
        "invalid value 'soon' for '--ttl <DURATION>': a duration looks like …; …",
        64,
    ),
    (
        "redlock run -k x --ttl 68413f2f-8e0b-49a8-8a46-e268c50c52f7 -- true",
        "invalid value 'TOKEN' for '--ttl <DURATION>': a duration looks like …; …",
        64,
    ),
    ("redlock run -k x --wait soon -- true", "--wait soon: a duration looks like …; …", 64),
    (
        "redlock run -k x -w 5M -- true",
        "--wait 5M: months and years are not units here: m is minutes, d is days; …",
        64,
    ),
    (
        "redlock run -k x -t 'redis://u:canary@h?x=y' -- true",
        "invalid value 'URL' for '--ttl <DURATION>': months and years are not units here: m is minutes, d is days; …",
        64,
    ),
    (
        "redlock acquire --token canary -k x",
        "unexpected argument '--token' found; a similar argument exists: '--token-file'; …",
        64,
    ),
    ("redlock release -k x --tokn canary", "…", 64),
    ("redlock run -k x --passwort=canary -- true", "…", 64),
    ("redlock status x -S", "a value is required for '--server <URL>' but none was supplied; …", 64),
    // One line has one meaning, whatever the variables.
    ("redlock run x -w true -- true", "--wait true: a duration looks like …; …", 64),
    ("REDLOCK_LABEL= redlock run x -w true -- true", "--wait true: a duration looks like …; …", 64),
    (
        "REDLOCK_WAIT=soon redlock run x true",
        "invalid value 'soon' for '--wait[=<DURATION>]': a duration looks like …; it is the value of REDLOCK_WAIT; …",
        64,
    ),
    (
        "REDLOCK_TTL=0 redlock run x true",
        "invalid value '0' for '--ttl <DURATION>': a TTL is at least 10ms, for example 500ms, 30s, 5m or 1h30m; it is the value of REDLOCK_TTL; …",
        64,
    ),
    (
        "redlock run -k x -E 300 -- true",
        "invalid value '300' for '--conflict-exit-code <N>': an exit status is 0 to 255; …",
        64,
    ),
    (
        "redlock acquire x --while-pid abc",
        "invalid value 'abc' for '--while-pid <PID>': a pid is 1 or more; in a script its own is $$; …",
        64,
    ),
    (
        "redlock run -k x -p 0 -- true",
        "invalid value '0' for '--permits <N>': the number of permits is 1 or more, for example --permits 3; …",
        64,
    ),
    (
        "redlock run -k x --on-lost panic -- true",
        "invalid value 'panic' for '--on-lost <WHAT>'; [possible values: terminate, continue]; …",
        64,
    ),
    (
        "redlock run -k \"$(printf '\\377')\" -- true",
        "invalid UTF-8 was detected in one or more arguments; …",
        64,
    ),
    ("redlock run \"$(printf 'a\\377')\" true", "invalid UTF-8 was detected in one or more arguments; …", 64),
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
        "invalid value '0' for '--connect-timeout <DURATION>': it leaves no time to connect; try 5s; …",
        64,
    ),
    (
        "redlock status --log-file /dev/stderr",
        "invalid value '/dev/stderr' for '--log-file <FILE>': it takes a file; for lines on standard error use --log-format json; …",
        64,
    ),
    ("redlock run sleep 5", "'5' is not found; the key is 'sleep'", 127),
    ("redlock run -k x no-such-program", "'no-such-program' is not found; the key is 'x'", 127),
    ("redlock run -k x 'sleep 1; echo hi'", "'sleep 1; echo hi' is not found; with -c a shell runs it", 127),
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
    (
        "redlock status -S mysql://u:canary@h/db",
        "--server: redlock keeps no locks in MySQL or MariaDB: they cannot wake a waiter, which would have to poll; use postgres://, redis://, or local: on one host",
        78,
    ),
    ("redlock status -S MariaDB://h", "--server: redlock keeps no locks in MySQL or MariaDB: …", 78),
    ("redlock status -S consul://h", "--server: redlock has no store consul://; a server is …", 78),
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
    (
        "REDLOCK_SHARED=maybe redlock run x true",
        "invalid value 'maybe' for '--shared': it takes true or false; it is the value of REDLOCK_SHARED; …",
        64,
    ),
    ("redlock run -key=x -- true", "-key needs two dashes: --key; …", 64),
    ("redlock acquire -key=x", "-key needs two dashes: --key; …", 64),
    (
        "redlock check x --ran-within 1d --token T",
        "the argument '--ran-within <DURATION>' cannot be used with '--token <TOKEN>'; …",
        64,
    ),
    (
        "redlock check x --ran-within 1d --for 5s",
        "the argument '--ran-within <DURATION>' cannot be used with '--for <DURATION>'; …",
        64,
    ),
    (
        "redlock check x --token-file T --ran-within 1d",
        "the argument '--token-file <FILE>' cannot be used with '--ran-within <DURATION>'; …",
        64,
    ),
    // Those of a job around it are for other calls.
    (
        "REDLOCK_TOKEN=T REDLOCK_FOR=1m redlock check x --ran-within 1d",
        "no run of 'x' succeeded within 1d: its history has no successful run; …",
        1,
    ),
    (
        "redlock -version",
        "unexpected argument '-e' found; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    (
        "redlock version",
        "unrecognized subcommand 'version'; redlock calls it --version; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    ("redlock run -help", "-help needs two dashes: --help; …", 64),
    (
        "redlock run --host localhost -k x echo hi",
        "unexpected argument '--host' found; redlock calls it --server; …",
        64,
    ),
    ("redlock run -c 'echo hi'", "the command is missing: the first word, echo hi, is the key; …", 64),
    (
        "redlock run -k x ./bad.sh",
        "'./bad.sh' cannot be executed: its interpreter is not found, the one in its first line, …",
        127,
    ),
    ("redlock status -S ''", "--server: it is empty; name a store, or leave it out", 78),
    ("REDLOCK_SERVER=' ' redlock status", "REDLOCK_SERVER: it is empty; name a store, or leave it out", 78),
    // A login is not shown.
    ("redlock run redis://u:SECRET@h", "the command is missing: the first word, URL, is the key; …", 64),
    (
        "redlock --url redis://u:SECRET@h",
        "unexpected argument '--url' found; redlock calls it --server; for example: redlock run -k nightly -- ./backup.sh",
        64,
    ),
    (
        "redlock run -k x --sever redis://u:SECRET@h a -- b",
        "unexpected argument '--sever' found; a similar argument exists: '--server'; …",
        64,
    ),
    (
        "redlock status -S \"$(printf 'redis://u:SECRET\\377@h')\"",
        "invalid UTF-8 was detected in one or more arguments; …",
        64,
    ),
    (
        "redlock run x --ttl redis://u:a-secret-of-more-letters-than-a-message-has-room-for-SECRET@h true",
        "invalid value 'URL' for '--ttl <DURATION>': a duration looks like …; …",
        64,
    ),
    ("redlock run --close x true", "unexpected argument '--close' found; …", 64),
    ("redlock status -S local", "--server: local: …; did you mean local:?", 78),
    (
        "REDLOCK_CONFIG=none.toml redlock status",
        "REDLOCK_CONFIG: configuration file none.toml does not exist",
        78,
    ),
    (
        "redlock status --config five.toml",
        "five.toml line 2: connect-timeout = \"0\": it leaves no time to connect; try 5s",
        78,
    ),
    ("redlock status --config one.toml", "one.toml line 1: unknown setting 'tll'; did you mean ttl?", 78),
    ("redlock status --config two.toml", "two.toml line 2: wait = \"soon\": a duration looks like …", 78),
    (
        "redlock status --config three.toml",
        "three.toml line 1: leftovers = \"forget\": it takes release, wait, kill",
        78,
    ),
    // What the store cannot do.
    ("REDLOCK_REPLICAS=1 redlock run x true", "REDLOCK_REPLICAS 1: local: has no replicas; …", 78),
    ("redlock run x -S redis://a -S redis://b -p 2 true", "--permits: it needs one server; …", 78),
    (
        "redlock run x -S memcached://a --ttl 2s true",
        "--ttl 2s is too short for this store; use 3s or longer",
        78,
    ),
    (
        "redlock run x -S memcached://a --ttl 30d true",
        "--ttl 30d is too long for this store; use 29d or shorter",
        78,
    ),
    (
        "redlock run x -S memcached://a --min-hold 30d true",
        "--min-hold 30d is too long for this store; use 29d or shorter",
        78,
    ),
    (
        "redlock run x -S memcached://a --shared true",
        "--shared: Memcached holds exclusive locks only; use another store for shared ones",
        78,
    ),
    ("redlock status -S memcached://a", "Memcached cannot list its locks; name them: redlock status KEY", 78),
    ("redlock run x -S etcd://a --ttl 1s true", "--ttl 1s is too short for this store; use 2s or longer", 78),
    ("redlock run x -S etcd://a --once-per 20h true", "--once-per: etcd keeps no history: …", 78),
    (
        "redlock run x --once-per 31d true",
        "--once-per: a success is forgotten after 30 days; use a shorter time",
        78,
    ),
    (
        "redlock run x --once-per 1h --shared true",
        "--once-per: holders of a shared lock or a permit start …",
        78,
    ),
    (
        "redlock run x -S memcached://a -w --queue-limit 2 true",
        "--queue-limit: waiters form no queue in this store, so nobody knows who they are; leave it out",
        78,
    ),
    (
        "redlock run x --queue-limit 0 true",
        "invalid value '0' for '--queue-limit <N>': the number of waiters is 1 or more; nobody waits with …",
        64,
    ),
    (
        "redlock run x -S etcd://a -w --priority 2 true",
        "--priority: etcd serves waiters in the order of their arrival",
        78,
    ),
    (
        "redlock run x -S memcached://a -w --priority -1 true",
        "--priority: the waiters of Memcached form no queue",
        78,
    ),
    (
        "redlock run x --priority 101 true",
        "invalid value '101' for '--priority <N>': a priority is -100 to 100, for example --priority 10; …",
        64,
    ),
    (
        "REDLOCK_PRIORITY=2 redlock run x -w --supersede true",
        "REDLOCK_PRIORITY: it does not go with --supersede or --replace, which go by arrival",
        78,
    ),
    ("redlock run x -S etcd://a --sequence 2 true", "--sequence: etcd keeps no history: …", 78),
    ("redlock run x --sequence 2 -p 2 true", "--sequence: holders of a shared lock or a permit start …", 78),
    (
        "redlock run x --sequence v2 true",
        "invalid value 'v2' for '--sequence <N>': give a whole number, such as that of a pipeline: --sequence 42; …",
        64,
    ),
    ("redlock run x --replace true", "--replace: the holder takes some time to stop; add --wait", 78),
    (
        "redlock run x --replace -w --shared true",
        "--replace: it takes the place of one holder; use it with an exclusive lock",
        78,
    ),
    ("redlock run x --take 2 true", "--take: it takes several permits of a semaphore; add --permits", 78),
    ("redlock run x -p 2 --take 3 true", "--take: it is more than the number of --permits", 78),
    (
        "redlock run x -p 2000 --take 1001 true",
        "invalid value '1001' for '--take <N>': a holder takes 1 to 1000 permits, for example --permits 16 --take 4; …",
        64,
    ),
    (
        "redlock run x -p 4 --take 2 -S etcd://a true",
        "--take: each entry of this store's queue is one of a fixed number of permits; use Redis, local: or PostgreSQL",
        78,
    ),
    ("redlock resize x", "the following required arguments were not provided: --permits <N>; …", 64),
    (
        "redlock resize x -p 0",
        "invalid value '0' for '--permits <N>': the number of permits is 1 or more, for example --permits 3; …",
        64,
    ),
    (
        "redlock resize x -p 2 -S zk://a",
        "cannot resize 'x': each entry of this store's queue is one of a fixed number of permits; …",
        78,
    ),
    ("redlock resize x -p 2 -S memcached://a", "cannot resize 'x': Memcached has no permits", 78),
    ("redlock run --tree a//b true", "--tree: 'a//b' has an empty level; write it as data/eu/orders", 64),
    (
        "redlock run --tree -k a -k a/b true",
        "--tree: 'a' contains other keys that are given; leave them out",
        64,
    ),
    ("redlock run --tree -s a/b true", "--tree: it takes KEY alone; leave out --shared and --permits", 78),
    (
        "redlock run --tree --one-of -k a -k b true",
        "--tree: it does not go with --one-of or --pool, which take one of several keys",
        78,
    ),
    (
        "redlock run --tree a/b --once-per 1h true",
        "--once-per: it does not go with --tree; leave one of them out",
        78,
    ),
    (
        "redlock run --tree a/b -S memcached://x true",
        "--tree: Memcached holds exclusive locks only; use another store for shared ones",
        78,
    ),
    (
        "redlock run --one-of -k x true",
        "--one-of: it chooses among several keys; give another one with -k",
        78,
    ),
    (
        "redlock acquire --one-of -k x -k y",
        "the owner token alone does not say which of the locks it is for; add --format env or json",
        64,
    ),
    (
        "redlock run --one-of -k x -k y -p 2 true",
        "--one-of: it takes an exclusive lock; for one of N equal places use --permits alone",
        78,
    ),
    (
        "redlock run --one-of -k x -k y -w --supersede true",
        "--one-of: it does not go with --supersede or --replace, which are for one lock",
        78,
    ),
    (
        "redlock run --one-of -k x -k y -S etcd://a -w true",
        "--one-of: etcd has a queue for each lock, and a request can wait in only one; leave out --wait",
        78,
    ),
    ("redlock run x --once-per 20x true", "invalid value '20x' for '--once-per <DURATION>': …", 64),
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
        fs::write(folder.join("twelve.toml"), "server = redis://h\n").expect("a file");
        fs::write(folder.join("thirteen.toml"), "[server]\nurl = \"redis://h\"\n").expect("a file");
        fs::write(folder.join("fourteen.toml"), "wait = \"yes\"\n").expect("a file");
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
fn wrong_calls_are_answered_with_what_is_wrong_and_what_is_right() {
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
        let foreign = ["tip:", "invalid digit", "unknown field", "unknown variant"];
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
        ("redlock run -k x --ttl 5s echo hi", "hi\n"),
        ("redlock run x --ttl 5s --wait echo hi", "hi\n"),
        ("redlock run --wait x echo hi", "hi\n"),
        ("redlock run --wait 5s x echo hi", "hi\n"),
        ("redlock run -qw 5s x sh -c 'echo $REDLOCK_KEY'", "x\n"),
        ("redlock run --wait 2024-backup sh -c 'echo $REDLOCK_KEY'", "2024-backup\n"),
        ("redlock run -k 5m --wait=5s sh -c 'echo $REDLOCK_KEY'", "5m\n"),
        ("redlock run -k x rsync-w --version 2>&1 || redlock run -k x echo -w 5m", "redlock: 'rsync-w' is not found; the key is 'x'\n-w 5m\n"),
        ("redlock run -k x -c 'echo hi; echo there'", "hi\nthere\n"),
        ("redlock run x -c 'echo hi; echo there'", "hi\nthere\n"),
        ("redlock -S \"$REDLOCK_SERVER\" run x echo hi", "hi\n"),
        ("redlock acquire z >/dev/null; redlock status --json z | grep -c fence", "1\n"),
        ("redlock release --token \"$(redlock acquire y)\" -q y; redlock -V status | grep -c stores", "1\n"),
        ("REDLOCK_WAIT= redlock run x echo hi", "hi\n"),
        ("redlock run x --config fourteen.toml echo hi", "hi\n"),
        ("REDLOCK_LABLE=a redlock run x echo hi 2>&1", "redlock: redlock does not know the variable REDLOCK_LABLE, so it changes nothing; did you mean REDLOCK_LABEL?\nhi\n"),
        ("REDLOCK_BUILD_NUMBER=3 redlock run x echo hi", "hi\n"),
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
