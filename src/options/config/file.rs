//! One configuration file: read, checked, and taken apart into its sections.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use toml::Value;
use toml::de::{DeTable, DeValue, Error, ValueDeserializer};

use super::Config;
use super::section::{CONTRADICTIONS, Place, Scope, Section, Setting};
use crate::error::Failure;
use crate::lock::Key;
use crate::options::key_pattern::KeyPattern;
use crate::options::server_urls::{has_password, split_urls};
use crate::options::suggestion::nearest;
use crate::store::ServerUrl;
use crate::trusted_file::{check_folders_of, refuse_shared, refuse_writable};

/// The tables of a file that hold sections.
const TABLES: [&str; 3] = ["servers", "keys", "profiles"];

/// The most bytes that are read of a file; a device may have no end.
const LONGEST: u64 = 1 << 20;

/// Reads the sections of a file; `None` when there is no such file. One with a password is for its owner only.
pub fn read(path: &Path) -> Result<Option<Vec<Section>>, Failure> {
    let refused = |why: &str| Failure::configuration(format!("{}: {why}", path.display()));
    let unreadable = |error| refused(&format!("cannot be read: {error}"));
    let mut file = match File::open(path) {
        Ok(file) => file,
        // A link to what is not there, as to a share that is not mounted, may name another server.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
                && path.symlink_metadata().is_err() =>
        {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error)),
    };
    let mut bytes = Vec::new();
    (&mut file).take(LONGEST).read_to_end(&mut bytes).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|_| refused("this is not UTF-8"))?;
    let wrong =
        |error: Error| Failure::configuration(format!("{} {}", path.display(), one_line(&error, &text)));
    let config: Config = toml::from_str(&text).map_err(wrong)?;
    misplaced(&config).map_or(Ok(()), |why| Err(refused(&why)))?;
    for (section, config) in config.parts() {
        let refused = |why: &str| refused(&format!("{section}{why}"));
        if let Some(Err(why)) = config.key_prefix.as_ref().map(|prefix| format!("{prefix}x").parse::<Key>()) {
            return Err(refused(&format!("key-prefix: {why}")));
        }
        if has_password(&config.server) {
            refuse_shared(&file).map_err(|why| refused(&format!("it contains a password, and {why}")))?;
        }
    }
    // It may name hooks, which are commands.
    refuse_writable(&file).map_err(|why| refused(&why.to_string()))?;
    check_folders_of(path).map_err(|why| refused(&why))?;
    let sections = sections(&text, path).map_err(wrong)?;
    sections.iter().find_map(contradiction).map_or(Ok(Some(sections)), |why| Err(Failure::configuration(why)))
}

/// Reads what may be the text of a configuration file.
#[cfg(any(test, fuzzing))]
pub fn read_text(text: &str) {
    match toml::from_str::<Config>(text) {
        Ok(config) => {
            let _ = (misplaced(&config), has_password(&config.server));
            let sections = sections(text, Path::new("config.toml")).unwrap_or_default();
            sections.iter().for_each(|section| _ = contradiction(section));
        }
        Err(error) => _ = one_line(&error, text),
    }
}

fn contradiction(section: &Section) -> Option<String> {
    let [one, other] =
        CONTRADICTIONS.into_iter().find(|pair| pair.iter().all(|name| section.asks_for(name)))?;
    Some(format!("{}: {one} cannot be used with {other}", section.setting(one)?.place))
}

/// Checks a file that is to become a configuration file.
pub fn check(path: &Path) -> Result<(), Failure> {
    let refused = |why: String| Failure::configuration(format!("{}: {why}", path.display()));
    let Some(sections) = read(path)? else {
        return Err(refused("there is no such file; check the path".to_owned()));
    };
    for section in &sections {
        for setting in section.settings.iter().filter(|setting| setting.name == "server") {
            let values = setting.value.as_array().into_iter().flatten().chain([&setting.value]);
            let values: Vec<&str> = values.filter_map(Value::as_str).collect();
            let urls = split_urls(&values);
            // A name is one of another file, perhaps; a server has no other server.
            let is_name = matches!(&urls[..], [one] if is_name(one));
            if !urls.is_empty() && (matches!(section.scope, Scope::Server(_)) || !is_name) {
                let wrong = |why| Failure::configuration(format!("{setting}: {why}"));
                ServerUrl::parse(&urls).map_err(wrong)?;
            }
        }
    }
    Ok(())
}

/// Whether this can be the name of a server, and is no URL.
pub fn is_name(server: &str) -> bool {
    !server.contains([':', '/', '.'])
}

/// Settings that are right elsewhere in the file: what to move.
fn misplaced(file: &Config) -> Option<String> {
    let of_keys =
        file.keys.iter().find(|(_, section)| section.key_prefix.is_some() || !section.server.is_empty());
    if let Some((pattern, _)) = of_keys {
        return Some(format!(
            "[keys.\"{pattern}\"]: server and key-prefix cannot differ between keys; move them before the first section"
        ));
    }
    let nested = file.parts().into_iter().find(|(name, section)| !name.is_empty() && section.has_sections());
    nested.map(|(name, _)| format!("{name}it contains another section; move that one out of it"))
}

/// What a text says, part by part.
fn sections(text: &str, path: &Path) -> Result<Vec<Section>, Error> {
    let path: Arc<Path> = path.into();
    let settings = |table: DeTable| -> Result<Vec<Setting>, Error> {
        let setting = |(name, value): (toml::Spanned<_>, toml::Spanned<DeValue>)| {
            let line = line_of(text, name.span().start);
            let name = toml::de::DeString::into_owned(name.into_inner());
            let value = Value::deserialize(ValueDeserializer::from(value))?;
            Ok(Setting { name, value, place: Place { path: Arc::clone(&path), line } })
        };
        table.into_iter().map(setting).collect()
    };
    let (mut general, mut sections) = (DeTable::parse(text)?.into_inner(), Vec::new());
    for kind in TABLES {
        let Some(DeValue::Table(named)) = general.remove(kind).map(toml::Spanned::into_inner) else {
            continue;
        };
        for (name, section) in named {
            let DeValue::Table(section) = section.into_inner() else { continue };
            let name = name.into_inner().into_owned();
            let scope = match kind {
                "servers" => Scope::Server(name),
                "profiles" => Scope::Profile(name),
                _ => Scope::Keys(KeyPattern::new(&name)),
            };
            sections.push(Section { scope, settings: settings(section)? });
        }
    }
    sections.push(Section { scope: Scope::Every, settings: settings(general)? });
    Ok(sections)
}

/// The number of the line with this byte, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).map_or(1, |before| before.matches('\n').count() + 1)
}

/// `line 3: ttl = "soon": a duration looks like …`. The line itself may hold a password.
fn one_line(error: &Error, text: &str) -> String {
    let message = error.message().replace('\n', ", ");
    let Some(start) = error.span().map(|span| span.start) else { return message };
    let number = line_of(text, start);
    let setting = text.lines().nth(number - 1).and_then(setting_of);
    // "unknown field `tll`, expected one of `server`, `user`, …"
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = quoted.next().filter(|_| message.starts_with("unknown field"));
    let what = match (unknown, setting) {
        (Some(name), _) => match nearest(name, quoted) {
            Some(near) => format!("there is no setting '{name}'; did you mean {near}?"),
            None => format!("there is no setting '{name}'; see CONFIGURATION in redlock(1)"),
        },
        (None, Some(setting)) if message.starts_with('"') => format!("{setting} = {message}"),
        (None, Some(setting)) if message.contains("it takes ") => format!("{setting}: {message}"),
        (None, _) if message.contains("expected struct Config") || message.contains("expected a map") => {
            "servers, keys and profiles have sections; one begins with a line such as [servers.prod]"
                .to_owned()
        }
        (None, Some(setting)) if message.starts_with("invalid type") || message.starts_with("duplicate") => {
            format!(
                "{setting}: {}",
                if message.starts_with('d') { "it is set twice" } else { "it takes a text" }
            )
        }
        _ => "this cannot be read; a line looks like ttl = \"30s\"".to_owned(),
    };
    format!("line {number}: {what}")
}

/// The name before the `=`.
fn setting_of(line: &str) -> Option<&str> {
    line.split_once('=').map(|(name, _)| name.trim().trim_matches(['"', '\'']))
}
