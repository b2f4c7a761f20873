//! One configuration file: read, checked, and taken apart into its sections.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use toml::de::{DeString, DeTable, DeValue, Error, ValueDeserializer};
use toml::{Spanned, Value};

use super::pool::{self, PoolMember};
use super::section::{FILE_CONTRADICTIONS, Place, Scope, Section, Setting};
use super::value::{KEY_PREFIX, refusal, words};
use crate::error::Failure;
use crate::options::key_pattern::KeyPattern;
use crate::options::server_urls::{has_password, split_urls};
use crate::store::ServerUrl;
use crate::trusted_file::{check_folders_of, refuse_shared, refuse_writable};

/// The tables of a file that hold sections.
const TABLES: [&str; 3] = ["servers", "keys", "profiles"];

/// The most bytes that are read of a file; a device may have no end.
const LONGEST: u64 = 1 << 20;

/// The contents of a file, or of several.
#[derive(Default)]
pub struct ConfigFile {
    pub sections: Vec<Section>,
    /// Each member with the name of its pool.
    pub pools: Vec<(String, PoolMember)>,
}

/// Reads a file; `None` when the file does not exist. One with a password is for its owner only.
pub fn read(path: &Path) -> Result<Option<ConfigFile>, Failure> {
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
    let wrong = |(line, why)| Failure::configuration(format!("{} line {line}: {why}", path.display()));
    let contents = contents(&text, path).map_err(wrong)?;
    let has_password = |setting: &Setting| setting.name == "server" && has_password(&words(&setting.value));
    if contents.sections.iter().flat_map(|section| &section.settings).any(has_password) {
        refuse_shared(&file).map_err(|why| refused(&format!("it contains a password, and {why}")))?;
    }
    // It may name hooks, which are commands.
    refuse_writable(&file).map_err(|why| refused(&why.to_string()))?;
    check_folders_of(path).map_err(|why| refused(&why))?;
    let contradiction = contents.sections.iter().find_map(contradiction);
    contradiction.map_or(Ok(Some(contents)), |why| Err(Failure::configuration(why)))
}

/// Reads what may be the text of a configuration file.
#[cfg(any(test, fuzzing))]
pub fn read_text(text: &str) {
    for section in contents(text, Path::new("config.toml")).unwrap_or_default().sections {
        let servers = section.setting("server").map(Setting::words);
        let _ = (contradiction(&section), servers.map(|servers| has_password(&servers)));
    }
}

fn contradiction(section: &Section) -> Option<String> {
    let [one, other] =
        FILE_CONTRADICTIONS.into_iter().find(|pair| pair.iter().all(|name| section.asks_for(name)))?;
    Some(format!("{}: {one} cannot be used with {other}", section.setting(one)?.place))
}

/// Checks a file that is to become a configuration file.
pub fn check(path: &Path) -> Result<(), Failure> {
    let refused = |why: String| Failure::configuration(format!("{}: {why}", path.display()));
    let Some(contents) = read(path)? else {
        return Err(refused("the file does not exist; check the path".to_owned()));
    };
    for section in &contents.sections {
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

/// True if this can be the name of a server, and is not a URL.
pub fn is_name(server: &str) -> bool {
    !server.contains([':', '/', '.'])
}

/// A line, and what is wrong there.
pub type Wrong = (usize, String);

/// The sections of a text, each with its settings, and its pools.
pub fn contents(text: &str, path: &Path) -> Result<ConfigFile, Wrong> {
    let at = |span: Range<usize>| text.get(..span.start).map_or(1, |before| before.matches('\n').count() + 1);
    let unreadable = |error: Error| {
        let line = error.span().map_or(1, at);
        (line, unreadable(error.message(), text.lines().nth(line - 1).unwrap_or_default()))
    };
    let path: Arc<Path> = path.into();
    let settings = |table: DeTable, scope: &Scope| -> Result<Vec<Setting>, Wrong> {
        let setting = |(name, value): (Spanned<DeString>, Spanned<DeValue>)| {
            let line = at(name.span());
            let name = name.into_inner().into_owned();
            let value = Value::deserialize(ValueDeserializer::from(value)).map_err(unreadable)?;
            let wrong = misplaced(&name, &value, scope).or_else(|| refusal(&name, &value));
            let place = Place { path: Arc::clone(&path), line };
            wrong.map_or(Ok(Setting { name, value, place }), |why| Err((line, why)))
        };
        table.into_iter().map(setting).collect()
    };
    let (mut general, mut sections) = (DeTable::parse(text).map_err(unreadable)?.into_inner(), Vec::new());
    for kind in TABLES {
        let Some(named) = general.remove(kind) else { continue };
        let none = || {
            (
                at(named.span()),
                format!(
                    "servers, keys and profiles have sections; one begins with a line such as [{kind}.NAME]"
                ),
            )
        };
        let DeValue::Table(named_sections) = named.get_ref().clone() else { return Err(none()) };
        for (name, section) in named_sections {
            let DeValue::Table(section) = section.into_inner() else { return Err(none()) };
            let name = name.into_inner().into_owned();
            let scope = match kind {
                "servers" => Scope::Server(name),
                "profiles" => Scope::Profile(name),
                _ => Scope::Keys(KeyPattern::new(&name)),
            };
            sections.push(Section { settings: settings(section, &scope)?, scope });
        }
    }
    let none = |span| (at(span), pool::NONE.to_owned());
    let tables = general.remove("pools").map(pool::table).transpose().map_err(none)?;
    let mut pools = Vec::new();
    for (pool, members) in tables.into_iter().flatten() {
        for (key, properties) in pool::table(members).map_err(none)? {
            let wrong = |why| (at(key.span()), format!("[pools.{}]: {why}", pool.get_ref()));
            let mut member = PoolMember::new(key.get_ref().parse().map_err(wrong)?);
            for (name, value) in pool::table(properties).map_err(none)? {
                let value = Value::deserialize(ValueDeserializer::from(value)).map_err(unreadable)?;
                member.add(name.get_ref(), &value).map_err(|why| (at(name.span()), why))?;
            }
            pools.push((pool.get_ref().clone().into_owned(), member));
        }
    }
    sections.push(Section { settings: settings(general, &Scope::Every)?, scope: Scope::Every });
    Ok(ConfigFile { sections, pools })
}

/// Says what to move to another place in the file, or to call by another name.
fn misplaced(name: &str, value: &Value, scope: &Scope) -> Option<String> {
    let is_of_all = matches!(name, "server" | KEY_PREFIX);
    match (scope, value) {
        (Scope::Every, Value::Table(_)) => Some(format!(
            "[{name}] is not a section; sections are [servers.NAME], [keys.\"PATTERN\"], [profiles.NAME] and [pools.NAME.KEY]"
        )),
        (scope, Value::Table(_)) => {
            Some(format!("{scope}: it contains another section; move that one out of it"))
        }
        (scope @ Scope::Keys(_), _) if is_of_all => Some(format!(
            "{scope}: server and key-prefix cannot differ between keys; move them before the first section"
        )),
        _ => None,
    }
}

/// Says what is wrong with a line that is not TOML. The line itself may hold a password.
fn unreadable(message: &str, line: &str) -> String {
    match line.split_once('=').map(|(name, value)| (name.trim().trim_matches(['"', '\'']), value.trim())) {
        Some((name, _)) if message.starts_with("duplicate") => format!("{name}: it is set twice"),
        Some((name, value)) if value.starts_with(|c: char| c.is_alphanumeric() || c == '/') => {
            format!("{name}: a text needs quotes, as in ttl = \"30s\"")
        }
        _ => "this cannot be read; a line looks like ttl = \"30s\"".to_owned(),
    }
}
