//! Pools: a call takes one of their locks. The files have properties of each.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

use super::value::words;
use crate::cli::PoolProperty;
use crate::lock::Key;
use crate::options::suggestion::nearest;

/// The pool that a call names, and what a member has to have.
pub struct PoolQuery<'a> {
    pub name: &'a str,
    pub with: &'a [PoolProperty],
}

/// A lock of a pool.
#[derive(Clone, Debug)]
pub struct PoolMember {
    pub key: Key,
    /// Its labels have one name, and one value each.
    properties: Vec<PoolProperty>,
}

const LABELS: &str = "labels";

impl PoolMember {
    pub fn new(key: Key) -> PoolMember {
        PoolMember { key, properties: Vec::new() }
    }

    /// The same member by another key.
    pub fn with_key(&self, key: &Key) -> PoolMember {
        PoolMember { key: key.clone(), ..self.clone() }
    }

    /// Adds a property, or says what is wrong with it.
    pub fn add(&mut self, name: &str, value: &Value) -> Result<(), String> {
        refusal(name, value).map_or(Ok(()), Err)?;
        let property = |value| PoolProperty { name: name.to_owned(), value };
        self.properties.extend(words(value).into_iter().map(property));
        Ok(())
    }

    /// The variables in which the command finds its properties.
    pub fn variables(&self) -> Vec<(String, String)> {
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        for PoolProperty { name, value } in &self.properties {
            let variable = format!("REDLOCK_POOL_{}", name.to_uppercase().replace('-', "_"));
            let known = values.entry(variable).or_default();
            *known += &format!("{}{value}", if known.is_empty() { "" } else { " " });
        }
        values.into_iter().collect()
    }

    fn has(&self, wanted: &PoolProperty) -> bool {
        let name = if wanted.name == "label" { LABELS } else { &wanted.name };
        self.properties.iter().any(|own| own.name == name && own.value == wanted.value)
    }
}

/// For a pool without a table of members.
pub const NONE: &str = "a pool has members; one begins with a line such as [pools.NAME.KEY]";

/// The table, or where one is missing.
pub fn table(value: Spanned<DeValue>) -> Result<DeTable, Range<usize>> {
    match (value.span(), value.into_inner()) {
        (_, DeValue::Table(table)) => Ok(table),
        (span, _) => Err(span),
    }
}

/// Says what is wrong with a property of a member.
fn refusal(name: &str, value: &Value) -> Option<String> {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let is_list = matches!(value, Value::Array(values) if values.iter().all(Value::is_str));
    let has_control = |text: &str| text.chars().any(char::is_control);
    match value {
        _ if name == "label" => Some("label: the labels of a member are in its `labels`".to_owned()),
        Value::String(text) if has_control(text) => Some(format!("{name}: it has control characters")),
        _ if !is_name => {
            Some(format!("{name}: a name is a letter, then letters, digits, - and _; it becomes a variable"))
        }
        Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => None,
        Value::Array(_) if name == LABELS && is_list => None,
        _ => Some(format!("{name}: it takes one value, such as {name} = \"x\"; {LABELS} takes a list")),
    }
}

/// The members of a pool that have the wanted properties. If several files name a member, the last one counts.
pub fn members(pools: &[(String, PoolMember)], query: &PoolQuery) -> Result<Vec<PoolMember>, String> {
    let PoolQuery { name, with } = query;
    let of_pool = pools.iter().filter(|(pool, _)| pool == name);
    let all: BTreeMap<&Key, &PoolMember> = of_pool.map(|(_, member)| (&member.key, member)).collect();
    if all.is_empty() {
        let near = nearest(name, pools.iter().map(|(pool, _)| pool.as_str())).map_or_else(
            || format!("add its members, each with a line such as [pools.{name}.KEY]"),
            |near| format!("did you mean {near}?"),
        );
        return Err(format!("no configuration file has a pool '{name}'; {near}"));
    }
    if all.len() == 1 {
        return Err(format!("the pool '{name}' has one member; add another one, or name its key with -k"));
    }
    let has_all = |member: &&PoolMember| with.iter().all(|wanted| member.has(wanted));
    let members: Vec<PoolMember> = all.into_values().filter(has_all).cloned().collect();
    if members.is_empty() {
        let with: Vec<String> = with.iter().map(|one| format!("{}={}", one.name, one.value)).collect();
        return Err(format!("no member of the pool '{name}' has {}", with.join(" and ")));
    }
    Ok(members)
}
