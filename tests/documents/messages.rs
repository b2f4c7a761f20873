//! The messages of the program in one file, so that they can be read one after the other, and a change shows.

use std::fs;

use super::style::files;
use super::{check, root};

/// Text for servers and kernels.
const NOT_FOR_PEOPLE: [&str; 7] = ["SELECT ", "BEGIN ", "SET ", "DELETE ", "INSERT ", "INFO ", "/proc/"];

/// The string literals of a source file: without its tests, comments and bytes.
fn literals(source: &str) -> Vec<String> {
    let tests = ["\n#[cfg(test)]", "\n#[test]"].iter().filter_map(|mark| source.find(mark)).min();
    let mut rest = &source[..tests.unwrap_or(source.len())];
    let mut found = Vec::new();
    while let Some(place) = rest.find(['"', '\'', '/']) {
        let (before, from) = rest.split_at(place);
        rest = match from.as_bytes() {
            [b'/', b'/', ..] => from.split_once('\n').map_or("", |(_, after)| after),
            [b'\'', b'\\', _, ..] => {
                from.get(3..).and_then(|after| after.split_once('\'')).map_or("", |(_, after)| after)
            }
            [b'\'', _, b'\'', ..] => &from[3..],
            [b'"', ..] if before.ends_with(['r', '#']) => {
                let hashes = before.len() - before.trim_end_matches('#').len();
                let end = format!("\"{}", "#".repeat(hashes));
                let (text, after) = from[1..].split_once(&end).unwrap_or((&from[1..], ""));
                found.push(text.to_owned());
                after
            }
            [b'"', ..] => {
                let end = end_of_string(&from[1..]);
                if !before.ends_with('b') {
                    found.push(unescaped(&from[1..=end]));
                }
                from.get(end + 2..).unwrap_or("")
            }
            _ => &from[1..],
        };
    }
    found
}

fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.unwrap_or(text.len())
}

/// The text of a literal in one line.
fn unescaped(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let joined = lines.fold(first, |all, line| all + line.trim_start());
    joined.replace("\\\"", "\"").replace("\\n", " ").replace('\n', " ")
}

/// Several words.
fn is_message(text: &str) -> bool {
    let words = text.split(' ').filter(|word| word.chars().filter(|c| c.is_alphabetic()).count() > 1);
    words.count() > 1 && !NOT_FOR_PEOPLE.iter().any(|start| text.trim_start().starts_with(start))
}

#[test]
fn messages() {
    let source = root().join("src");
    let mut all = String::new();
    for path in files(&source, &[".rs"]) {
        let name = path.strip_prefix(&source).expect("below src").display().to_string();
        if name.ends_with("_test.rs") || name == "fuzz.rs" || name.ends_with("fake.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("source");
        let messages: Vec<String> = literals(&text).into_iter().filter(|text| is_message(text)).collect();
        if !messages.is_empty() {
            all += &format!("{name}\n    {}\n", messages.join("\n    "));
        }
    }
    check("tests/documents/messages.txt", &all);
}
