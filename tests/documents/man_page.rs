//! A man page: what the argument definitions say, and the sections that somebody wrote.

use clap::{Arg, Command};

/// The day of the last release, see CHANGELOG.md.
const DATE: &str = "2026-11-22";

/// As typed.
const SYNOPSES: [(&str, &[&str]); 14] = [
    ("redlock", &["run -k nightly -- ./backup.sh", "SUBCOMMAND [OPTIONS]", "SUBCOMMAND --help"]),
    ("run", &["[OPTIONS] KEY [--] COMMAND [ARG]...", "[OPTIONS] -k KEY... [--] COMMAND [ARG]..."]),
    ("acquire", &["[OPTIONS] KEY", "[OPTIONS] -k KEY..."]),
    ("renew", &["[OPTIONS] [KEY]", "[OPTIONS] -k KEY..."]),
    ("check", &["[OPTIONS] [KEY]", "[OPTIONS] -k KEY...", "--ran-within DURATION KEY"]),
    ("release", &["[OPTIONS] [KEY]", "[OPTIONS] -k KEY..."]),
    ("status", &["[OPTIONS] [KEY|PATTERN]...", "[OPTIONS] [-k KEY]..."]),
    ("wait", &["[OPTIONS] KEY|PATTERN...", "[OPTIONS] -k KEY..."]),
    ("history", &["[OPTIONS] [KEY|PATTERN]...", "[OPTIONS] [-k KEY]..."]),
    ("break", &["[OPTIONS] KEY", "[OPTIONS] -k KEY"]),
    ("resize", &["KEY --permits N"]),
    ("doctor", &["[OPTIONS]"]),
    ("config", &["[OPTIONS] [KEY]", "--check FILE"]),
    ("completions", &["bash|zsh|fish"]),
];

pub struct ManPage<'a> {
    /// `redlock-run`.
    name: String,
    /// `redlock run`.
    typed: String,
    command: &'a Command,
    /// The options of every subcommand are explained in redlock(1) alone.
    has_global_options: bool,
}

impl ManPage<'_> {
    pub fn of_program(command: &Command) -> ManPage<'_> {
        let name = "redlock".to_owned();
        ManPage { typed: name.clone(), name, command, has_global_options: true }
    }

    pub fn of_subcommand(command: &Command) -> ManPage<'_> {
        let [name, typed] = ["-", " "].map(|joint| format!("redlock{joint}{}", command.get_name()));
        ManPage { name, typed, command, has_global_options: false }
    }

    /// The page. A section that `written` has is not made; `SEE ALSO` comes last.
    pub fn text(&self, written: &str) -> String {
        let (written, see_also) = match written.find(".SH SEE ALSO\n") {
            Some(place) => written.split_at(place),
            None => (written, ".SH SEE ALSO\n.BR redlock (1)\n"),
        };
        let mut text = format!(".TH {} 1 {DATE} redlock \"User Commands\"\n", self.name.to_uppercase());
        text += &format!(".SH NAME\n{} \\- {}\n", roff(&self.name), roff(&text_of(self.command.get_about())));
        text += ".SH SYNOPSIS\n.nf\n";
        let own = SYNOPSES.iter().find(|(name, _)| *name == self.command.get_name());
        for form in own.expect("a line in SYNOPSES").1 {
            text += &format!("\\fB{}\\fR {}\n", roff(&self.typed), roff(form));
        }
        text += ".fi\n.SH DESCRIPTION\n";
        text += &paragraphs(&text_of(self.command.get_long_about().or(self.command.get_about())), ".PP\n");
        text += &self.subcommands();
        text += &self.options();
        for (section, made) in [
            ("EXAMPLES", self.examples()),
            ("ENVIRONMENT", self.environment()),
            ("FILES", self.files()),
            ("EXIT STATUS", ".SH EXIT STATUS\nSee \\fBredlock\\fR(1).\n".to_owned()),
        ] {
            if !written.contains(&format!(".SH {section}\n")) {
                text += &made;
            }
        }
        folded(&(text + written + see_also))
    }

    fn subcommands(&self) -> String {
        let subcommands = self.command.get_subcommands().filter(|one| one.get_name() != "help");
        let line = |one: &Command| {
            let page = roff(&format!("redlock-{}", one.get_name()));
            format!(".TP\n\\fB{page}\\fR(1)\n{}.\n", roff(&text_of(one.get_about())))
        };
        let lines: String = subcommands.map(line).collect();
        if lines.is_empty() { lines } else { format!(".SH SUBCOMMANDS\n{lines}") }
    }

    fn arguments(&self) -> impl Iterator<Item = &Arg> {
        let is_shown = |arg: &&Arg| !arg.is_hide_set() && (self.has_global_options || !arg.is_global_set());
        self.command.get_arguments().filter(is_shown)
    }

    fn options(&self) -> String {
        let mut text = ".SH OPTIONS\n".to_owned();
        for arg in self.arguments() {
            let name = roff(&arg.get_value_names().unwrap_or_default().join(" "));
            let short = arg.get_short().map(|short| format!("\\fB\\-{short}\\fR"));
            let long = arg.get_long().map(|long| format!("\\fB\\-\\-{}\\fR", roff(long)));
            let flags: Vec<String> = short.into_iter().chain(long).collect();
            let values = arg.get_num_args().unwrap_or_default();
            let value = match (flags.is_empty(), values.takes_values(), values.min_values()) {
                (true, ..) => format!("\\fI{name}\\fR"),
                (_, false, _) => String::new(),
                (_, _, 0) => format!(" [\\fI{name}\\fR]"),
                _ => format!(" \\fI{name}\\fR"),
            };
            let help = text_of(arg.get_long_help().or(arg.get_help()));
            let default = match arg.get_default_values() {
                [value] if arg.get_action().takes_values() && !arg.is_hide_default_value_set() => {
                    format!(" [default: {}]", value.to_string_lossy())
                }
                _ => String::new(),
            };
            let help = match help.split_once("\n\n") {
                Some((first, rest)) => format!("{first}{default}\n\n{rest}"),
                None => help + &default,
            };
            let help = help
                .replace(" (see more with '--help')", "")
                .replace("see a summary with '-h'", "'-h' prints a summary")
                .replace(&format!("see {}(1)", self.name), "see below");
            text += &format!(".TP\n{}{value}\n{}", flags.join(", "), paragraphs(&help, ".IP\n"));
            for possible in arg.get_possible_values().iter().filter(|value| value.get_help().is_some()) {
                let help = roff(&text_of(possible.get_help()));
                text += &format!(".IP\n\\fB{}\\fR: {help}.\n", roff(possible.get_name()));
            }
        }
        if !self.has_global_options {
            text += ".PP\nThe options of every subcommand (\\fB\\-\\-server\\fR, \\fB\\-\\-quiet\\fR, \\fB\\-\\-tls\\-ca\\fR and others) are in \\fBredlock\\fR(1).\n";
        }
        text
    }

    /// Those of the help.
    fn examples(&self) -> String {
        let text = text_of(self.command.get_after_long_help());
        let examples = text.lines().take_while(|line| !line.is_empty());
        let lines = examples.filter(|line| line.starts_with("  "));
        let lines: String = lines.map(|line| roff(&line[2..]) + "\n").collect();
        format!(".SH EXAMPLES\n.nf\n{lines}.fi\n")
    }

    fn environment(&self) -> String {
        let variables = self.arguments().filter_map(|arg| arg.get_env()?.to_str());
        let variables: Vec<String> = variables.map(|variable| format!("\\fB{variable}\\fR")).collect();
        match variables.join(", ") {
            none if none.is_empty() => none,
            all => {
                let meaning = "each variable sets the option of that name when its flag is not given";
                format!(".SH ENVIRONMENT\n{all}: {meaning}.\n")
            }
        }
    }

    fn files(&self) -> String {
        if self.command.get_name() == "completions" {
            return String::new();
        }
        "\
.SH FILES
\\fI~/.config/redlock/config.toml\\fR, \\fI/etc/redlock/config.toml\\fR: see CONFIGURATION in \\fBredlock\\fR(1).
"
        .to_owned()
    }
}

fn text_of(text: Option<&impl ToString>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// The paragraphs, with `between` between them.
fn paragraphs(text: &str, between: &str) -> String {
    let end = |one: &str| if one.ends_with(['.', ':', ']', ')', '"']) { "\n" } else { ".\n" };
    let paragraphs: Vec<String> = text.split("\n\n").map(|one| roff(one.trim()) + end(one.trim())).collect();
    paragraphs.join(between)
}

/// With the lines of running text broken at 80 columns, as readers of the source want it. A label is one line.
fn folded(text: &str) -> String {
    let (mut folded, mut is_filled, mut is_label) = (String::new(), true, false);
    for line in text.lines() {
        is_filled = if line == ".nf" { false } else { is_filled || line == ".fi" };
        let is_text = is_filled && !line.starts_with('.') && !is_label;
        is_label = line == ".TP";
        let mut width = 0;
        for word in line.split(' ') {
            // A line may not begin with a request.
            let is_full = width + word.len() > 80 && !word.starts_with(['.', '\'']);
            if width > 0 {
                let breaks = is_text && is_full;
                folded.push(if breaks { '\n' } else { ' ' });
                width = if breaks { 0 } else { width };
            }
            folded += word;
            width += word.len() + 1;
        }
        folded.push('\n');
    }
    folded
}

/// Text for roff.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let guarded =
        |line: &str| if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() };
    text.lines().map(guarded).collect::<Vec<_>>().join("\n")
}
