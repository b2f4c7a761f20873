//! The sections that are about a call, and the settings that they have together.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Config;
use super::file::{self, ConfigFile};
use super::pool::{PoolQuery, members};
use super::section::{FILE_CONTRADICTIONS, Scope, Section, Setting};
use super::value::KEY_PREFIX;
use crate::error::Failure;
use crate::lock::Key;
use crate::options::Sources;
use crate::options::suggestion::nearest;
use crate::user;

const SYSTEM_FILE: &str = "/etc/redlock/config.toml";
const SYSTEM_FOLDER: &str = "/etc/redlock/conf.d";

/// The parts of a call on which the choice of sections depends.
pub struct SectionQuery<'a> {
    /// The file of `--config`.
    pub file: Option<&'a Path>,
    pub profile: Option<&'a str>,
    /// The values of a flag or a variable.
    pub server: &'a [String],
    pub keys: &'a [Key],
    /// In place of keys.
    pub pool: Option<PoolQuery<'a>>,
}

impl Config {
    /// Reads what the files say about a call. A profile is stronger than a pattern of keys, that than a named server, and that
    /// than the settings before the sections; a longer pattern is stronger than a shorter one. Among equals the user's file
    /// is stronger than those of the system.
    pub fn load(query: &SectionQuery, sources: Sources) -> Result<Config, Failure> {
        let ConfigFile { sections, pools } = read_all(query.file, sources)?;
        let of = |scope: Scope| sections.iter().filter(|section| section.scope == scope).collect::<Vec<_>>();
        let refused = |option, setting, why: String| {
            Failure::configuration(format!("{}: {why}", sources.name(option, setting)))
        };
        let general = of(Scope::Every);
        let profile = query.profile.map_or(Vec::new(), |name| of(Scope::Profile(name.to_owned())));
        if let Some(name) = query.profile.filter(|_| profile.is_empty()) {
            let near = nearest(name, sections.iter().filter_map(|section| section.scope.profile()));
            let near = near
                .map_or("add it, or name another profile".to_owned(), |near| format!("did you mean {near}?"));
            return Err(refused(
                "profile",
                None,
                format!("no configuration file has a section [profiles.{name}]; {near}"),
            ));
        }
        let setting = strongest("server", &[&general, &profile]).filter(|_| query.server.is_empty());
        let name = match query.server {
            [] => setting.and_then(Setting::text),
            [one] => Some(one.as_str()),
            _ => None,
        };
        let server = name.map_or(Vec::new(), |name| of(Scope::Server(name.to_owned())));
        // A word that names no server may name a host.
        if let Some(name) = name.filter(|name| server.is_empty() && file::is_name(name))
            && let Some(near) = nearest(name, sections.iter().filter_map(|section| section.scope.server()))
        {
            return Err(refused("server", setting, format!("unknown server '{name}'; did you mean {near}?")));
        }
        let prefix = strongest(KEY_PREFIX, &[&general, &server, &profile]).and_then(Setting::text);
        let pool = query.pool.as_ref().map(|pool| members(&pools, pool)).transpose();
        let pool = pool.map_err(|why| refused("pool", None, why))?.unwrap_or_default();
        let keys: Vec<Key> = pool.iter().map(|member| &member.key).chain(query.keys).cloned().collect();
        let keys = of_keys(&sections, &keys, prefix.unwrap_or_default());
        let config = merge([&general, &server, &keys, &profile].into_iter().flatten().copied());
        let config = Config { pool, ..config };
        match name {
            Some(name) if !server.is_empty() => config.at_server(name, &server),
            _ => Ok(config),
        }
    }

    /// The named servers.
    pub fn servers(file: Option<&Path>, sources: Sources) -> Result<Vec<String>, Failure> {
        names(file, sources, Scope::server)
    }

    /// The profiles.
    pub fn profiles(file: Option<&Path>, sources: Sources) -> Result<Vec<String>, Failure> {
        names(file, sources, Scope::profile)
    }

    /// The pools.
    pub fn pools(file: Option<&Path>, sources: Sources) -> Result<Vec<String>, Failure> {
        let names: BTreeSet<String> =
            read_all(file, sources)?.pools.into_iter().map(|(pool, _)| pool).collect();
        Ok(names.into_iter().collect())
    }

    /// With the URL of a server in place of its name.
    fn at_server(self, name: &str, sections: &[&Section]) -> Result<Config, Failure> {
        let Some(url) = merge(sections.iter().copied()).settings.remove("server") else {
            return Err(Failure::configuration(format!(
                "the section [servers.{name}] has no URL; add a line such as server = \"redis://…\""
            )));
        };
        let mut settings = self.settings;
        settings.insert(url.name.clone(), url);
        Ok(Config { settings, is_named_server: true, ..self })
    }
}

fn names(
    file: Option<&Path>,
    sources: Sources,
    name: fn(&Scope) -> Option<&str>,
) -> Result<Vec<String>, Failure> {
    let sections = read_all(file, sources)?.sections;
    let names: BTreeSet<&str> = sections.iter().filter_map(|section| name(&section.scope)).collect();
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// The contents of all files, those of the strongest file last. One that `--config` names must exist.
fn read_all(named: Option<&Path>, sources: Sources) -> Result<ConfigFile, Failure> {
    let mut all = file::read(Path::new(SYSTEM_FILE))?.unwrap_or_default();
    let mut add = |file: Option<ConfigFile>| {
        let file = file.unwrap_or_default();
        all.sections.extend(file.sections);
        all.pools.extend(file.pools);
    };
    for path in files_of_system()? {
        add(file::read(&path)?);
    }
    let of_user = match named {
        Some(path) => Some(file::read(path)?.ok_or_else(|| {
            let source = sources.name("config", None);
            Failure::configuration(format!("{source}: configuration file {} does not exist", path.display()))
        })?),
        // If it is not known where the file is: it may name another server.
        None => match user::home().map_err(|why| {
            Failure::configuration(format!("{why}; name the configuration file with --config"))
        })? {
            Some(home) => file::read(&home.join(".config/redlock/config.toml"))?,
            None => None,
        },
    };
    add(of_user);
    Ok(all)
}

/// The files of packages and of a configuration management, in the order of their names.
fn files_of_system() -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error| Failure::configuration(format!("{SYSTEM_FOLDER}: cannot be read: {error}"));
    let mut files = Vec::new();
    match fs::read_dir(SYSTEM_FOLDER) {
        Ok(folder) => {
            for entry in folder {
                files.push(entry.map_err(unreadable)?.path());
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(unreadable(error)),
    }
    files.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    files.sort();
    Ok(files)
}

/// Later sections are stronger: they undo what contradicts them.
pub fn merge<'a>(sections: impl Iterator<Item = &'a Section>) -> Config {
    let mut settings = BTreeMap::new();
    for section in sections {
        for [one, other] in
            FILE_CONTRADICTIONS.into_iter().flat_map(|[one, other]| [[one, other], [other, one]])
        {
            if section.asks_for(one) {
                settings.remove(other);
            }
        }
        let stronger = section.settings.iter().filter(|setting| !setting.is_empty_list());
        settings.extend(stronger.map(|setting| (setting.name.as_str(), setting)));
    }
    let settings = settings.into_iter().map(|(name, setting)| (name.to_owned(), setting.clone()));
    Config { settings: settings.collect(), ..Config::default() }
}

/// The setting in the last of these sections that has it.
fn strongest<'a>(name: &str, sections: &[&[&'a Section]]) -> Option<&'a Setting> {
    let mut settings = sections.iter().copied().flatten().rev().filter_map(|section| section.setting(name));
    settings.find(|setting| !setting.is_empty_list())
}

/// The sections about these keys, the one with the longest pattern last. A pattern is without the prefix of the keys.
fn of_keys<'a>(sections: &'a [Section], keys: &[Key], prefix: &str) -> Vec<&'a Section> {
    let keys: Vec<&str> =
        keys.iter().map(|key| key.as_str().strip_prefix(prefix).unwrap_or(key.as_str())).collect();
    let mut found: Vec<(usize, &Section)> = sections
        .iter()
        .filter_map(|section| {
            let pattern = section.scope.pattern().filter(|_| !keys.is_empty())?;
            keys.iter().all(|key| pattern.matches(key)).then(|| (pattern.as_str().len(), section))
        })
        .collect();
    found.sort_by_key(|(length, _)| *length);
    found.into_iter().map(|(_, section)| section).collect()
}
