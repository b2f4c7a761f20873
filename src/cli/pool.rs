//! A property of a member of a pool.

use std::str::FromStr;

/// `label=android`, or another name with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolProperty {
    pub name: String,
    pub value: String,
}

impl FromStr for PoolProperty {
    type Err = String;

    fn from_str(text: &str) -> Result<PoolProperty, String> {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, value)| !name.is_empty() && !value.is_empty())
            .ok_or("give a name and a value, for example --with label=android")?;
        Ok(PoolProperty { name: name.to_owned(), value: value.to_owned() })
    }
}
