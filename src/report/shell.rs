//! Lines that a shell evaluates: `eval "$(redlock acquire … --format env)"`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellSyntax {
    Posix,
    Fish,
}

impl ShellSyntax {
    /// A line that puts these variables into the environment.
    pub fn export(self, variables: &[(&str, &str)]) -> String {
        let assign = |(name, value): &(&str, &str)| match self {
            ShellSyntax::Posix => format!(" {name}={}", self.quote(value)),
            ShellSyntax::Fish => format!("set -gx {name} {};", self.quote(value)),
        };
        let assigned: String = variables.iter().map(assign).collect();
        match self {
            ShellSyntax::Posix => format!("export{assigned}\n"),
            ShellSyntax::Fish => assigned + "\n",
        }
    }

    /// A line that takes these variables out of the environment and ends the script, also from within functions and
    /// sourced files.
    ///
    /// At a prompt it does what Ctrl-C does: the shell stays, and the rest of its line does not run. A prompt is an
    /// interactive shell that has the flag `s` (commands come from standard input; zsh drops it in a sourced file) and
    /// a terminal there: `ksh -i FILE` and `bash -i <FILE` would go on after a Ctrl-C.
    pub fn stop(self, variables: &[&str], code: i32) -> String {
        let names = variables.join(" ");
        match self {
            // ksh: it is an error to unset what is not set.
            ShellSyntax::Posix => format!(
                "unset {names} || :; case $-${{ZSH_VERSION:+s}} in *i*s*|*s*i*) test -t 0 && kill -INT $$;; esac; exit {code}\n"
            ),
            ShellSyntax::Fish => format!(
                "set -e {names}; status is-interactive; and test -t 0; and kill -INT $fish_pid; exit {code};\n"
            ),
        }
    }

    fn quote(self, text: &str) -> String {
        match self {
            ShellSyntax::Posix => format!("'{}'", text.replace('\'', r"'\''")),
            // Line feeds stand outside of quotes: `eval (redlock …)` gets one argument for each line.
            ShellSyntax::Fish => {
                let text = text.replace('\\', r"\\").replace('\'', r"\'").replace('\n', r"'\n'");
                format!("'{text}'")
            }
        }
    }
}
