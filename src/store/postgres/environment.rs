//! The password file of libpq: `~/.pgpass`, or the one that PGPASSFILE names.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use crate::store::net::Endpoint;
use crate::trusted_file::refuse_shared;

/// The password in the first line `host:port:database:user:password` that fits. A file that others can read is not used.
pub fn password_in_file(server: &Endpoint, database: &str, user: &str) -> Option<String> {
    let named = env::var_os("PGPASSFILE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = named.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".pgpass")))?;
    let file = File::open(path).ok()?;
    refuse_shared(&file).ok()?;
    let (hosts, port) = match server {
        Endpoint::Tcp { host, port } => (vec![host.clone()], port.to_string()),
        // A socket goes by its folder, or by localhost.
        Endpoint::Unix(path) => {
            let port = path.extension().map_or_else(String::new, |port| port.to_string_lossy().into_owned());
            let folder = path.parent().map_or_else(String::new, |folder| folder.display().to_string());
            (vec![folder, "localhost".to_owned()], port)
        }
    };
    BufReader::new(file)
        .lines()
        .map_while(Result::ok)
        .find_map(|line| hosts.iter().find_map(|host| password(&line, [host, &port, database, user])))
}

fn password(line: &str, wanted: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let fields = fields(line);
    let (password, names) = fields.split_last()?;
    let fits = names.len() == wanted.len()
        && names.iter().zip(wanted).all(|(name, wanted)| name == "*" || name == wanted);
    fits.then(|| password.clone())
}

/// The fields between colons; a backslash makes the next character an ordinary one.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut characters) = (vec![String::new()], line.chars());
    while let Some(character) = characters.next() {
        let ordinary = match character {
            ':' => {
                fields.push(String::new());
                continue;
            }
            '\\' => characters.next(),
            other => Some(other),
        };
        if let Some(last) = fields.last_mut() {
            last.extend(ordinary);
        }
    }
    fields
}

#[test]
fn lines_are_read_as_libpq_reads_them() {
    let wanted = ["h", "5432", "db", "anna"];
    for (line, expected) in [
        ("h:5432:db:anna:se\\:cret", Some("se:cret")),
        ("*:*:*:anna:\\\\", Some("\\")),
        ("h:5432:db:bert:x", None),
        ("# h:5432:db:anna:x", None),
        ("h:5432:db", None),
        ("", None),
    ] {
        assert_eq!(password(line, wanted).as_deref(), expected, "{line}");
    }
}
