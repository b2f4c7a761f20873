//! The label of a command when none is given. Its arguments may be secret.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Run a script that is their first argument.
const INTERPRETERS: [&str; 9] = ["fish", "python", "perl", "ruby", "node", "php", "lua", "tclsh", "Rscript"];
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"];

/// Run the command that follows their own words: the letters of their options that have a value, and how many words
/// precede the command.
const PREFIX_COMMANDS: [(&str, &str, usize); 9] = [
    ("chronic", "", 0),
    ("env", "uCS", 0),
    ("ionice", "cn", 0),
    ("nice", "n", 0),
    ("nohup", "", 0),
    ("setsid", "", 0),
    ("stdbuf", "ioe", 0),
    ("time", "fo", 0),
    ("timeout", "ks", 1),
];

/// The variables in which a CI system names its run: GitHub, GitLab, Jenkins. A page comes before a number.
const PAGES: [&[&str]; 3] =
    [&["GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"], &["CI_JOB_URL"], &["BUILD_URL"]];
const NUMBERS: [&str; 3] = ["GITHUB_RUN_ID", "CI_JOB_ID", "BUILD_TAG"];

/// The run of a CI system: there is a log of it, which tells more than a name.
pub fn of_ci_run(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let page =
        |names: &&[&str]| match names.iter().map(|name| set(name)).collect::<Option<Vec<_>>>()?.as_slice() {
            [server, repository, run] => Some(format!("{server}/{repository}/actions/runs/{run}")),
            [page, ..] => Some(page.clone()),
            [] => None,
        };
    let number = |name: &&str| Some(format!("{name} {}", set(name)?));
    let mut pages = PAGES.iter().filter_map(page).filter(|page| is_public(page));
    pages.next().or_else(|| NUMBERS.iter().find_map(number))
}

/// Without a password or a token in it.
fn is_public(url: &str) -> bool {
    url.starts_with("http") && !url.contains(|c: char| c.is_whitespace() || "@?#".contains(c))
}

/// The name of the program, and of the script if it is an interpreter: `mysql`, `sh backup.sh`.
pub fn of_command(mut command: &[OsString]) -> String {
    while let Some(wrapped) = wrapped(command) {
        command = wrapped;
    }
    let Some((program, mut rest)) = command.split_first() else { return String::new() };
    if program.as_encoded_bytes().contains(&b'=') {
        // An assignment, which only a shell takes for one.
        return String::new();
    }
    let program = file_name(program);
    // A whole line in the place of a program will not start, and is not to be published either.
    let program = program.split_whitespace().next().unwrap_or_default();
    // python3.11
    let interpreter = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    while SHELLS.contains(&interpreter)
        && let Some(options) = rest.first().and_then(|word| word.to_str()).filter(|word| is_of_shell(word))
    {
        rest = rest.get(if options.ends_with('o') { 2 } else { 1 }..).unwrap_or_default();
    }
    let script = rest.first().map(|word| file_name(word)).filter(|word| is_script(word));
    let script = script.filter(|_| INTERPRETERS.contains(&interpreter) || SHELLS.contains(&interpreter));
    script.map_or_else(|| program.to_owned(), |script| format!("{program} {script}"))
}

/// The command that follows `timeout 5m`, or `env A=b`. `None` where it is not certain what is the command.
fn wrapped(command: &[OsString]) -> Option<&[OsString]> {
    let (program, mut rest) = command.split_first()?;
    let name = file_name(program);
    let (_, with_value, own) = PREFIX_COMMANDS.iter().find(|(wrapper, ..)| *wrapper == name)?;
    while let Some(word) = rest.first().map(|word| word.to_string_lossy()) {
        let skipped = match word.strip_prefix('-') {
            Some("-") => {
                rest = &rest[1..];
                break;
            }
            Some("-foreground" | "-preserve-status" | "-verbose") => 1,
            Some(option) if option.starts_with('-') && !option.contains('=') => return None,
            Some(letter) if letter.len() == 1 && with_value.contains(letter) => 2,
            Some(_) => 1,
            None if name == "env" && word.contains('=') => 1,
            None => break,
        };
        rest = rest.get(skipped..)?;
    }
    rest.get(*own..).filter(|rest| !rest.is_empty())
}

/// `-e`, `-eu`, or `-euo` with a word: options of a shell that precede its script.
fn is_of_shell(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|letters| {
        !letters.is_empty() && letters.trim_end_matches('o').chars().all(|c| "aefnuvxEC".contains(c))
    })
}

fn file_name(word: &OsStr) -> String {
    Path::new(word).file_name().unwrap_or(word).to_string_lossy().into_owned()
}

/// True if it is not an option, which code or a password may follow, nor an assignment, code or a URL.
fn is_script(word: &str) -> bool {
    !word.starts_with(['-', '+']) && !word.contains(|c: char| c.is_whitespace() || "=:@".contains(c))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn arguments_are_not_shown() {
        let label = |line: &str| of_command(&line.split('|').map(OsString::from).collect::<Vec<_>>());
        for (command, expected) in [
            ("mysql|-psecret|db", "mysql"),
            ("/usr/local/bin/backup|--key=secret", "backup"),
            ("sh|./jobs/backup.sh|secret", "sh backup.sh"),
            ("/usr/bin/python3.11|report.py|secret", "python3.11 report.py"),
            ("bash|-c|mysql -psecret", "bash"),
            ("perl|-e|secret", "perl"),
            ("sh|mysql -psecret", "sh"),
            ("env|PASSWORD=secret|mysql|-psecret", "mysql"),
            ("env|--unset|secret|mysql", "env"),
            ("timeout|-k|5|10m|nice|-n19|./backup.sh|secret", "backup.sh"),
            ("/usr/bin/timeout|--signal=INT|5|sh|x.sh", "sh x.sh"),
            ("timeout|--foreground|5|sh|-x|x.sh", "sh x.sh"),
            ("env|-u|secret|--|./x.sh|secret", "x.sh"),
            ("bash|-euo|pipefail|x.sh", "bash x.sh"),
            ("bash|-ec|secret", "bash"),
            ("bash|-o|pipefail|-c|secret", "bash"),
            ("env|-S|mysql -psecret", "env"),
            ("mysql -psecret", "mysql"),
            ("timeout|5", "timeout"),
            ("nohup", "nohup"),
            ("bash|PASSWORD=secret", "bash"),
            ("node|https://user:secret@host", "node"),
            ("curl|https://user:secret@host/", "curl"),
            ("PASSWORD=secret|mysql", ""),
            ("nohup|PASSWORD=secret|mysql", ""),
            ("..|secret", ".."),
            ("", ""),
        ] {
            assert_eq!(label(command), expected, "{command}");
        }
    }

    #[test]
    fn words_that_are_not_utf8_are_not_shown() {
        let words =
            [&b"env"[..], b"PASSWORD=secret\xff", b"mysql"].map(|word| OsStr::from_bytes(word).to_owned());
        assert_eq!(of_command(&words), "mysql");
    }

    /// A number of words that a command line takes.
    #[test]
    fn any_number_of_programs_may_start_the_next() {
        let words = std::iter::repeat_n("nohup", 200_000).chain(["make", "all"]).map(OsString::from);
        assert_eq!(of_command(&words.collect::<Vec<_>>()), "make");
    }

    #[test]
    fn a_ci_run_is_shown_by_its_page() {
        let label = |line: &str| {
            let value = |name: &str| {
                line.split(' ').find_map(|word| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
            };
            of_ci_run(value).unwrap_or_default()
        };
        let github = "GITHUB_SERVER_URL=https://github.com GITHUB_REPOSITORY=a/b GITHUB_RUN_ID=7";
        for (environment, expected) in [
            (github, "https://github.com/a/b/actions/runs/7"),
            ("GITHUB_RUN_ID=7 GITHUB_REPOSITORY=a/b", "GITHUB_RUN_ID 7"),
            (
                "CI_JOB_URL=https://git.example.net/a/-/jobs/9 CI_JOB_ID=9",
                "https://git.example.net/a/-/jobs/9",
            ),
            ("CI_JOB_URL=https://ci:secret@git.example.net/9 CI_JOB_ID=9", "CI_JOB_ID 9"),
            ("BUILD_URL=http://jenkins/job/a/3/", "http://jenkins/job/a/3/"),
            ("BUILD_URL=http://jenkins/job/a/3/?token=secret BUILD_TAG=jenkins-a-3", "BUILD_TAG jenkins-a-3"),
            ("BUILD_URL=secret", ""),
            ("BUILD_URL= CI_JOB_URL=", ""),
        ] {
            assert_eq!(label(environment), expected, "{environment}");
        }
    }
}
