//! Reading replies: each function takes any reply, as the server may be anything.

use std::time::Duration;

use redis::Value;

/// The elements of an array reply; none for any other reply.
pub fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

/// A string reply; empty for any other.
pub fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::BulkString(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(Value::SimpleString(text) | Value::VerbatimString { text, .. }) => text.clone(),
        _ => String::new(),
    }
}

/// A number, sent as such or as a string; zero for anything else.
pub fn number(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Int(number)) => *number,
        other => text(other).parse().unwrap_or(0),
    }
}

/// A number of milliseconds; zero for anything else.
pub fn millis(value: Option<&Value>) -> Duration {
    Duration::from_millis(number(value).max(0) as u64)
}
