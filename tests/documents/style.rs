//! Looks for the habits of style that CONTRIBUTING.md rules out: in the documents and in src.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// A sentence does not begin with one of these in place of a noun; a question may.
const BARE: [&str; 5] = ["Of", "Who", "What", "Those", "Whether"];
const PHRASES: [&str; 14] = [
    "is no",
    "are no",
    "stands behind",
    "stand behind",
    "stands before",
    "stand before",
    "stands for",
    "stand for",
    "in vain",
    "anew",
    "comes along",
    "come along",
    "is over",
    "is told",
];
const MEANWHILE: &str = "meanwhile";

/// The files below a folder that end with one of these.
pub fn files(folder: &Path, ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, ends));
        } else if ends.iter().any(|end| path.to_string_lossy().ends_with(end)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Running text, taken apart into paragraphs.
#[derive(Default)]
struct Paragraphs(Vec<String>);

impl Paragraphs {
    fn begin(&mut self) {
        self.0.push(String::new());
    }

    fn go_on(&mut self, line: &str) {
        if self.0.is_empty() {
            self.begin();
        }
        let last = self.0.last_mut().expect("one");
        *last += line.trim();
        last.push(' ');
    }
}

fn of_markdown(text: &str) -> Paragraphs {
    let mut paragraphs = Paragraphs::default();
    let mut is_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let content = line.trim_start();
        let number = content.trim_start_matches(|c: char| c.is_ascii_digit());
        let item = content.strip_prefix("* ").or(number.strip_prefix(". ").filter(|_| number != content));
        if line.is_empty() || is_code || line.starts_with("    ") || line.starts_with(['#', '`', '<']) {
            paragraphs.begin();
        } else if let Some(row) = line.strip_prefix('|') {
            for cell in row.split('|') {
                paragraphs.begin();
                paragraphs.go_on(cell);
            }
        } else if let Some(item) = item {
            paragraphs.begin();
            paragraphs.go_on(item);
        } else {
            paragraphs.go_on(line);
        }
    }
    for paragraph in &mut paragraphs.0 {
        // Code within a line is a word of any kind.
        let parts: Vec<&str> = paragraph.split('`').collect();
        let text =
            |(place, part): (usize, &&str)| if place % 2 == 0 { (*part).to_owned() } else { "x".into() };
        *paragraph = parts.iter().enumerate().map(text).collect::<String>().replace("**", "");
    }
    paragraphs
}

fn of_roff(text: &str) -> Paragraphs {
    let mut paragraphs = Paragraphs::default();
    let mut is_code = false;
    for line in text.lines() {
        is_code = line == ".nf" || is_code && line != ".fi";
        if line.starts_with('.') || is_code {
            paragraphs.begin();
        } else {
            let plain = line.replace("\\fB", "").replace("\\fI", "").replace("\\fR", "").replace("\\-", "-");
            paragraphs.go_on(&plain);
        }
    }
    paragraphs
}

/// The comments, which begin with `mark`, and each line of code for its strings.
fn of_source(text: &str, mark: &str) -> Paragraphs {
    let mut paragraphs = Paragraphs::default();
    for line in text.lines() {
        match line.trim_start().strip_prefix(mark) {
            Some(comment) => match comment.trim_start_matches(['/', '!']).trim() {
                "" => paragraphs.begin(),
                comment => paragraphs.go_on(comment),
            },
            None => {
                // No sentence begins with code.
                paragraphs.begin();
                paragraphs.go_on(&format!("code {}", line.replace(". ", " ")));
                paragraphs.begin();
            }
        }
    }
    paragraphs
}

fn faults(paragraphs: &Paragraphs) -> Vec<String> {
    let mut faults = Vec::new();
    for paragraph in &paragraphs.0 {
        for sentence in paragraph.replace("? ", "?. ").split(". ") {
            let first = sentence.split_whitespace().next().unwrap_or_default();
            if BARE.contains(&first) && !sentence.trim_end().ends_with('?') {
                faults.push(sentence.to_owned());
            }
            let words: Vec<String> = sentence
                .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '\'')
                .filter(|word| !word.is_empty())
                .map(str::to_lowercase)
                .collect();
            let text = format!(" {} ", words.join(" "));
            for phrase in PHRASES.iter().chain(&[MEANWHILE]) {
                let count = text.matches(&format!(" {phrase} ")).count();
                faults.extend((0..count).map(|_| format!("{phrase}: {}", sentence.trim())));
            }
        }
    }
    faults
}

#[test]
fn style_of_the_documents() {
    let mut all = Vec::new();
    let mut documents = files(&root().join("docs"), &[".md"]);
    for name in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"] {
        documents.push(root().join(name));
    }
    for path in documents {
        let text = fs::read_to_string(&path).expect("a document");
        // The rules name what they rule out.
        let text = text.replace("\"Of\", \"Who\", \"What\", \"Those\"", "").replace("not \"is no\"", "");
        all.extend(faults(&of_markdown(&text)).iter().map(|fault| format!("{}: {fault}", path.display())));
    }
    let mut pages = files(&root().join("man/sections"), &[".roff"]);
    pages.push(root().join("man/redlock-events.7"));
    for path in pages {
        let text = fs::read_to_string(&path).expect("a page");
        all.extend(faults(&of_roff(&text)).iter().map(|fault| format!("{}: {fault}", path.display())));
    }
    assert!(all.is_empty(), "{}:\n{}", all.len(), all.join("\n"));
}

/// A paragraph of a man page has at most five sentences.
#[test]
fn style_of_paragraphs() {
    let mut long = Vec::new();
    for path in files(&root().join("man/sections"), &[".roff"]) {
        for paragraph in of_roff(&fs::read_to_string(&path).expect("a page")).0 {
            let ends = [". ", "? ", ".) "].iter().map(|end| paragraph.matches(end).count()).sum::<usize>();
            if ends > 5 {
                long.push(format!("{}: {ends} sentences: {paragraph}", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn style_of_the_source() {
    let mut all = Vec::new();
    for path in files(&root().join("src"), &[".rs", ".lua", ".sql"]) {
        let text = fs::read_to_string(&path).expect("source");
        let mark = if path.extension().is_some_and(|extension| extension == "rs") { "//" } else { "--" };
        all.extend(
            faults(&of_source(&text, mark)).iter().map(|fault| format!("{}: {fault}", path.display())),
        );
    }
    assert!(all.is_empty(), "{}:\n{}", all.len(), all.join("\n"));
}
