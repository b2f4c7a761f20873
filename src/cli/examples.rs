//! The examples below each help page, which the man pages have too, and the table of exit statuses.

pub const REDLOCK: &str = "\
Examples:
  redlock run -k nightly -- ./backup.sh            # not while another one runs
  redlock run -k deploy --wait 10m -- ./deploy.sh  # one after the other";

pub const RUN: &str = "\
Examples:
  redlock run -k nightly -- ./backup.sh            # not while another one runs
  redlock run -k deploy --wait 10m -- ./deploy.sh  # one after the other
  redlock run deploy ./deploy.sh --prod            # the same key as a word";

pub const ACQUIRE: &str = "\
Examples:
  eval \"$(redlock acquire -k deploy --wait --format env || echo exit $?)\"
  redlock acquire -k deploy --while-pid 4123       # until that process ends
  redlock acquire -k deploy --ttl 10m --token-file deploy.token";

pub const RENEW: &str = "\
Examples:
  redlock renew -k deploy --token-file deploy.token --ttl 10m
  redlock renew --ttl 10m          # the lock of REDLOCK_KEY and REDLOCK_TOKEN";

pub const CHECK: &str = "\
Examples:
  redlock check -k deploy --token-file deploy.token
  redlock check --for 2m && ./switch-over    # only with 2 minutes left
  redlock check --ran-within 25h nightly     # for a monitoring system";

pub const RELEASE: &str = "\
Examples:
  redlock release -k deploy --token-file deploy.token
  redlock release                  # the lock of REDLOCK_KEY and REDLOCK_TOKEN";

pub const STATUS: &str = "\
Examples:
  redlock status deploy            # one in full, with what to do next
  redlock status                   # every lock that redlock knows
  redlock status 'deploy/*' nightly
  redlock status deploy --json | jq '.[0].holders'";

pub const WAIT: &str = "\
Examples:
  redlock wait deploy              # until it is free
  redlock wait -k db -k web --timeout 10m && ./report.sh
  redlock wait 'deploy/*'          # until none of them is in use";

pub const HISTORY: &str = "\
Examples:
  redlock history nightly          # all that is known of one
  redlock history                  # when did each of them run last
  redlock history 'deploy/*' --json | jq '.[].runs[0].outcome'";

pub const BREAK: &str = "\
Examples:
  redlock break deploy             # asks first; the holder stops its job
  redlock break deploy --reason 'stuck since 02:00'
  redlock break deploy --yes       # once more, when its job is dead";

pub const RESIZE: &str = "\
Examples:
  redlock resize gpus --permits 6  # two more: the first waiters start
  redlock resize gpus --permits 2  # fewer: no new job until two are left";

pub const DOCTOR: &str = "\
Examples:
  redlock doctor                   # the store that run would use
  redlock doctor --server redis://locks.example.net --ttl 1m
  redlock doctor --server postgres://db.example.net/app --setup";

pub const CONFIG: &str = "\
Examples:
  redlock config                   # what a call without flags would use
  redlock config deploy/web        # with the settings for this key
  redlock config --profile cron --server prod
  redlock config --check /etc/redlock/conf.d/50-team.toml";

pub const COMPLETIONS: &str = "\
Examples:
  redlock completions bash >~/.local/share/bash-completion/completions/redlock
  redlock completions zsh >~/.zfunc/_redlock    # a folder of fpath
  redlock completions fish >~/.config/fish/completions/redlock.fish";

/// Short enough that no terminal breaks its lines.
pub const EXIT_STATUS: &str = "\
Exit status: that of the command under `run`, or
    1  this token does not hold the lock
   64  usage
   69  no store could be reached
   70  a bug in redlock
   75  held by another, or the wait ran out (run: see -E)
   77  the store refused the login or lacks a permission
   78  configuration
   79  the lock was lost while the command ran
  124  --timeout stopped the command
  126  the command cannot be executed
  127  the command is not found";

/// The first of the examples, for the short help.
pub fn first(examples: &str) -> String {
    let line = examples.lines().nth(1).unwrap_or_default();
    format!("Example: {}", line.split("  #").next().unwrap_or(line).trim())
}

/// The end of the long help of a subcommand: its examples and the exit statuses.
pub fn with_exit_status(examples: &str) -> String {
    format!("{examples}\n\n{EXIT_STATUS}")
}
