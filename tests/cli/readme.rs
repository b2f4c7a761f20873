//! What README.md, docs/ and the help say is typed and shown: all of it works as it stands there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use redlock::cli::GROUPS;

use crate::harness::{Folder, Postgres, Redlock, Store, namespaces};

/// As long as a server on a busy machine may take.
const SLOWEST_ANSWER: &str = "1m";
const PROGRAM: &str = env!("CARGO_BIN_EXE_redlock");

/// What the lines run; each of these is a script that succeeds.
/// The numbers of a run in the CI systems of the recipes.
const NUMBERS: [(&str, &str); 3] =
    [("CI_PIPELINE_IID", "7"), ("GITHUB_RUN_NUMBER", "7"), ("BUILD_NUMBER", "7")];

const COMMANDS: [&str; 22] = [
    "import-orders.sh",
    "migrate-everything.sh",
    "test-on-phone.sh",
    "adb",
    "report",
    "backup",
    "backup.sh",
    "deploy.sh",
    "migrate",
    "switch-over",
    "reindex.sh",
    "publish.sh",
    "job",
    "a",
    "b",
    "make",
    "jq",
    "psql",
    "ledger.sh",
    "report.sh",
    "add-line.sh",
    "add-ten.sh",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("a document")
}

/// A folder in which `redlock` is the program.
fn with_program() -> Folder {
    let folder = Folder::new();
    symlink(PROGRAM, folder.path("redlock")).expect("its name");
    folder
}

fn path_with(folder: &Folder) -> String {
    format!("{}:{}", folder.path("").display(), std::env::var("PATH").unwrap_or_default())
}

/// The documents that show lines to type, by their names.
fn documents() -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/stores"] {
        let files = fs::read_dir(root().join(folder)).expect("the folder").flatten();
        let files = files.map(|file| file.file_name().to_string_lossy().into_owned());
        names.extend(files.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")));
    }
    names.into_iter().map(|name| (name.clone(), read(&name))).collect()
}

/// The blocks of code in a text, each with its language; an indented block has none. A block of `text` is shown, not typed.
fn blocks(text: &str) -> Vec<(String, Vec<&str>)> {
    let (mut blocks, mut is_fenced, mut is_list) = (Vec::<(String, Vec<&str>)>::new(), false, false);
    let mut is_open = false;
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            is_fenced = !is_fenced;
            is_open = false;
            if is_fenced {
                blocks.push((language.to_owned(), Vec::new()));
            }
        } else if is_fenced {
            blocks.last_mut().expect("its fence").1.push(line);
        } else if line.starts_with("    ") && !is_list {
            if !is_open {
                blocks.push((String::new(), Vec::new()));
            }
            is_open = true;
            blocks.last_mut().expect("its first line").1.push(line);
        } else {
            is_open = false;
            is_list = line.starts_with(['*', '-']) || is_list && line.starts_with("  ");
        }
    }
    blocks.retain(|(language, _)| language != "text");
    blocks
}

/// The lines of code in a text that a shell, a crontab or a configuration may have.
fn code(text: &str) -> Vec<&str> {
    let blocks = blocks(text).into_iter().filter(|(language, _)| !["toml", "sql"].contains(&&**language));
    blocks.flat_map(|(_, lines)| lines).map(str::trim).collect()
}

/// Lines that are typed and are not redlock's: each is part of what a line of redlock needs, or is run by another test.
const OTHERS: [&str; 7] = ["tests/run", "./", "touch ", "echo ", "mv ", "update ", "select "];

/// What a shell is given of the lines, without the crontab, the YAML or the other program in front of it.
fn commands(lines: &[&str]) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        let list = line.strip_prefix("command: [").and_then(|list| list.strip_suffix(']'));
        let line = list.map_or((*line).to_owned(), |list| list.replace(", ", " "));
        let line = line.replace("cargo run --release -- ", "redlock ");
        let begin = if line.starts_with("eval ") { Some(0) } else { line.find("redlock ") };
        let is_ours =
            |begin: &usize| !line[..*begin].ends_with(|c: char| c.is_alphanumeric() || "./#$".contains(c));
        match begin.filter(is_ours) {
            _ if goes_on => *commands.last_mut().expect("its begin") += &format!(" {line}"),
            Some(begin) if line[..begin].ends_with('\'') => {
                commands.push(line[begin..].trim_end_matches('\'').to_owned())
            }
            Some(begin) => commands.push(line[begin..].to_owned()),
            None => continue,
        }
        goes_on = line.ends_with("&&");
    }
    commands
}

/// The same for this machine, without long waits.
fn here(command: &str, url: &str) -> String {
    let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    for place in 1..words.len() {
        if ["-S", "--server"].contains(&&*words[place - 1]) {
            words[place] = format!("'{url}'");
        }
    }
    let command = words.join(" ").replace("/usr/local/bin/", "./").replace("--splay 20s", "--splay 20ms");
    let command = command.replace("--while-pid 4123", "--while-pid $$");
    let command = command.replace("/var/log/", "./").replace("/var/lib/prometheus/node-exporter/", "./");
    let asks = !command.contains("--yes");
    if asks { command.replace("redlock break", "redlock break --yes") } else { command }
}

fn run(command: &str) -> Result<(), String> {
    let store = match command.contains("postgres://") {
        true if Postgres::may_run() => Store::postgres(),
        true => return Ok(()),
        false => Store::local(),
    };
    let folder = with_program();
    for name in COMMANDS {
        fs::write(folder.path(name), "#!/bin/sh\ncat >/dev/null\n").expect("a script");
        fs::set_permissions(folder.path(name), fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    for name in [".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"] {
        fs::create_dir_all(folder.path(name)).expect("a folder");
    }
    let pool: String = ["phone-1", "phone-2"]
        .map(|phone| format!("[pools.phones.{phone}]\nlabels = \"tablet\"\nserial = \"1\"\n"))
        .concat();
    fs::write(folder.path("pools.toml"), pool).expect("a file");
    let line = here(command, &store.url);
    // A lock that the line takes for granted.
    let is_about_held = ["renew", "check", "release", "break"]
        .iter()
        .any(|name| line.starts_with(&format!("redlock {name}")));
    let before = match is_about_held {
        _ if line.starts_with("redlock resize") => {
            "for key in gpus cpus; do redlock acquire $key -p 9; done;"
        }
        true if line.contains("--ran-within") => "redlock run nightly true;",
        true if line.contains("--token-file") => "redlock acquire -k deploy --token-file deploy.token;",
        true => "eval \"$(redlock acquire -k deploy --ttl 10m --format env)\";",
        false => "",
    };
    let shell = if line.contains("; or ") { "fish" } else { "bash" };
    // A shell that has nothing left to do becomes its last command, and has no pid of its own.
    let end = if shell == "fish" { "exit $status" } else { "exit $?" };
    let mut script = Redlock::under(shell, &["-c", &format!("{before} {line}\n{end}")]);
    script = script
        .env("PATH", path_with(&folder))
        .env("HOME", folder.path(""))
        .env("GITHUB_ENV", folder.path("env"))
        .env("REDLOCK_CONFIG", folder.path("pools.toml"))
        .env("REDLOCK_CONNECT_TIMEOUT", SLOWEST_ANSWER);
    script.command.current_dir(folder.path("")).envs(NUMBERS);
    let run = script.server(&store.url).run();
    if run.code() == 0 { Ok(()) } else { Err(format!("{command}\n    {before} {line}\n    {run:?}")) }
}

#[test]
fn every_command_of_the_documents_works() {
    let mut texts: Vec<String> = documents().into_iter().map(|(_, text)| text).collect();
    let examples = |name: &&str| {
        let help = Redlock::new(&[name, "--help"]).run().expect(0).stdout;
        let (_, examples) = help.split_once("\nExamples:").expect("examples");
        examples.replace("\n  ", "\n    ")
    };
    // The examples of config are about files and servers that are not here.
    let subcommands = GROUPS.iter().flat_map(|(_, names)| names.iter()).filter(|name| **name != "config");
    texts.extend(subcommands.map(examples));
    let mut commands: Vec<String> = texts.iter().flat_map(|text| commands(&code(text))).collect();
    commands.sort();
    commands.dedup();
    assert!(commands.len() > 40, "{} commands: {commands:#?}", commands.len());
    let wrong: Vec<String> = commands.iter().filter_map(|command| run(command).err()).collect();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// No line is left out in silence: what the test above does not run is marked as `text`, or is not for a shell.
#[test]
fn every_line_of_the_documents_is_run_or_marked() {
    let mut left = Vec::new();
    for (name, text) in documents() {
        for (language, lines) in blocks(&text) {
            if !["", "sh"].contains(&&*language) || lines[0].starts_with("#!") {
                continue;
            }
            let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
            let alone = |line: &&&str| commands(&[line]).is_empty();
            let mut unknown: Vec<&&str> = lines.iter().filter(alone).collect();
            unknown.retain(|line| !line.is_empty() && !OTHERS.iter().any(|other| line.starts_with(other)));
            left.extend(unknown.iter().map(|line| format!("{name}: {line}")));
        }
    }
    assert!(left.is_empty(), "{}", left.join("\n"));
}

/// The configuration files that the documents show.
#[test]
fn every_file_of_the_documents_is_right() {
    let mut count = 0;
    for (name, text) in documents() {
        for (_, lines) in blocks(&text).into_iter().filter(|(language, _)| language == "toml") {
            let folder = with_program();
            let file = folder.path("config.toml");
            fs::write(&file, lines.join("\n")).expect("a file");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
            let checked = Redlock::new(&["config", "--check", &file.display().to_string()]).run();
            assert_eq!(checked.code(), 0, "{name}: {lines:?} {checked:?}");
            count += 1;
        }
    }
    assert!(count > 5, "{count}");
}

/// The script of docs/fencing.md changes its file once, and never under a later stamp.
#[test]
fn the_script_of_the_fencing_page() {
    let text = read("docs/fencing.md");
    let blocks = blocks(&text);
    let place = blocks
        .iter()
        .position(|(_, lines)| lines.contains(&"# add-line.sh FILE: adds a line to FILE."))
        .expect("the script");
    let store = Store::local();
    let folder = with_program();
    fs::write(folder.path("add-line.sh"), blocks[place].1.join("\n")).expect("the script");
    fs::set_permissions(folder.path("add-line.sh"), fs::Permissions::from_mode(0o755)).expect("its mode");
    let mut reports = Vec::new();
    for (_, lines) in &blocks[place + 1..place + 3] {
        let lines: Vec<String> = lines.iter().map(|line| here(line.trim(), &store.url)).collect();
        let mut script = Redlock::under("bash", &["-c", &lines.join("\n")]).env("PATH", path_with(&folder));
        script.command.current_dir(folder.path(""));
        assert_eq!(script.run().code(), 0, "{lines:?}");
        reports.push(fs::read_to_string(folder.path("report")).expect("the report"));
    }
    assert_eq!(reports[0].lines().count(), 1, "{reports:?}");
    assert_eq!(reports[0], reports[1]);
}

/// The script of docs/fencing.md for PostgreSQL writes under its lock, and gets an error with a late token.
#[test]
fn the_script_of_the_fencing_page_for_postgresql() {
    if !Postgres::may_run() {
        return;
    }
    let text = read("docs/fencing.md");
    let blocks = blocks(&text);
    let place = blocks.iter().position(|(_, lines)| lines[0] == "#!/bin/sh").expect("the script");
    let server = Postgres::start();
    server.set_up("postgres");
    server.sql("create table ledger (id int primary key, total bigint not null)");
    server.sql("insert into ledger values (1, 100)");
    let folder = with_program();
    fs::write(folder.path("add-ten.sh"), blocks[place].1.join("\n")).expect("the script");
    fs::set_permissions(folder.path("add-ten.sh"), fs::Permissions::from_mode(0o755)).expect("its mode");
    let line = here(blocks[place + 1].1[0].trim(), &server.url());
    let late = line.replace("./add-ten.sh", "env REDLOCK_FENCE=1 ./add-ten.sh");
    for (line, status, total) in [(line, 0, "110"), (late, 3, "110")] {
        let mut script = Redlock::under("bash", &["-c", &line])
            .env("PATH", path_with(&folder))
            .env("REDLOCK_CONNECT_TIMEOUT", SLOWEST_ANSWER);
        script.command.current_dir(folder.path("")).envs(server.env());
        let run = script.run();
        assert_eq!(run.code(), status, "{line} {run:?}");
        assert_eq!(run.stderr.contains("is not held any more"), status != 0, "{run:?}");
        assert_eq!(server.sql("select total from ledger"), total);
    }
}

/// The statements that docs/stores/postgres.md shows: they are the rights of its two users, no fewer and no more.
#[test]
fn the_grants_of_the_page_about_postgresql() {
    if !Postgres::may_run() {
        return;
    }
    let server = Postgres::start();
    server.set_up("postgres");
    server.sql("create role deployer login; create role job login");
    let take =
        || Redlock::new(&["run", "-k", "x", "true"]).server(&server.url_of("deployer", "postgres")).run();
    let as_job = |statement: &str| {
        let answer = server.psql("postgres", &format!("set role job; {statement}"));
        answer.expect_err("an error in any case")
    };
    let fenced = "select redlock.fenced('x', 1)";
    assert_eq!(take().code(), 77);
    assert!(as_job(fenced).contains("permission denied"));
    let text = read("docs/stores/postgres.md");
    let grants: Vec<_> = blocks(&text).into_iter().filter(|(language, _)| language == "sql").collect();
    assert_eq!(grants.len(), 2, "{grants:?}");
    for (_, lines) in grants {
        server.sql(&lines.join("\n"));
    }
    assert_eq!(take().code(), 0);
    assert!(as_job(fenced).contains("is not held any more"));
    assert!(as_job("select from redlock.lock").contains("permission denied"));
}

/// A link to a page or a heading of the documents leads there.
#[test]
fn every_link_of_the_documents_leads_somewhere() {
    let mut names: Vec<(String, String)> = documents();
    for name in ["CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md", "CHANGELOG.md"] {
        names.push((name.to_owned(), read(name)));
    }
    let mut broken = Vec::new();
    for (name, text) in &names {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            if link.contains("://") {
                continue;
            }
            let page = root().join(name).parent().expect("its folder").join(path);
            let page = if path.is_empty() { root().join(name) } else { page };
            let anchor = |line: &str| {
                let title = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
                title.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect::<String>()
            };
            let has_heading = |page: &Path| {
                let text = fs::read_to_string(page).unwrap_or_default();
                text.lines().any(|line| line.starts_with('#') && anchor(line) == heading)
            };
            if !page.exists() || !heading.is_empty() && !has_heading(&page) {
                broken.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Numbers and the width of columns differ from run to run, and a waiter that is looked at late says how long it has waited.
fn shape(text: &str) -> Vec<String> {
    let numbers: String =
        text.chars().map(|c| if c.is_ascii_digit() || c == '.' { '0' } else { c }).collect();
    let mut shapes = Vec::new();
    for line in numbers.lines() {
        let words: Vec<String> = line
            .split_whitespace()
            .map(|word| {
                let mut word = word.to_owned();
                while word.contains("00") {
                    word = word.replace("00", "0");
                }
                word
            })
            .collect();
        shapes.push(words.join(" ").replace(", 0s of 0m:", ":"));
    }
    shapes
}

/// What is written in an SVG, a line for each of its rows.
fn written(picture: &str) -> String {
    let mut text = String::new();
    for row in picture.lines().filter(|row| row.starts_with("<text")) {
        let words = row.split('>').skip(1).filter_map(|part| part.split('<').next());
        text += &words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        text += "\n";
    }
    text.replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
}

/// What is on a terminal, without its colors and empty lines.
fn plain(screen: &str) -> String {
    let mut text = String::new();
    for (place, part) in screen.split('\x1b').enumerate() {
        text += if place == 0 { part } else { part.split_once('m').map_or("", |(_, rest)| rest) };
    }
    text.lines().filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
}

/// The picture at the top is of a session that the program had.
#[test]
fn the_picture_of_the_readme() {
    if !namespaces() {
        return;
    }
    let folder = with_program();
    let pictures = root().join("docs/pictures");
    let session = Command::new(pictures.join("session.sh"))
        .env("PATH", path_with(&folder))
        .output()
        .expect("a session");
    assert!(session.status.success(), "{session:?}");
    let screen = String::from_utf8(session.stdout).expect("text");
    for background in ["light", "dark"] {
        let file = pictures.join(format!("session-{background}.svg"));
        if std::env::var_os("REDLOCK_WRITE_DOCUMENTS").is_some() {
            fs::write(folder.path("screen"), &screen).expect("the screen");
            let screen = fs::File::open(folder.path("screen")).expect("the screen");
            let drawn = Command::new(pictures.join("svg.py")).arg(background).stdin(screen).output();
            fs::write(&file, drawn.expect("python3").stdout).expect("a picture");
        }
        let picture = fs::read_to_string(&file).expect("a picture");
        let advice = "REDLOCK_WRITE_DOCUMENTS=1 cargo test --test cli readme";
        assert_eq!(shape(&written(&picture)), shape(&plain(&screen)), "{advice}");
    }
}
