//! What crates offer to others, and what they ask for: nothing that nobody uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use crate::findings::Findings;
use crate::metadata::{self, Member};
use crate::source::{self, SourceFile};

/// Crates whose public names are for programs that are not here, or that are a program.
const FOR_OTHERS: [&str; 3] = ["weft-agent", "weft-cli", "xtask"];

/// Dependencies that no line of code names, with the reason.
const NAMELESS: [(&str, &str); 0] = [];

/// What begins the declaration of a public name.
const KINDS: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "static", "const"];

/// Words between `pub` and the kind.
const MODIFIERS: [&str; 3] = ["async", "const", "unsafe"];

/// Looks for public names that no other crate, test or document names, and for dependencies that no code names.
pub fn check(root: &Path) -> Result<Findings> {
    let mut findings = Findings::default();
    let everything = source::read_all(root)?;
    let users = users(&everything);
    let mut count = 0;
    for file in source::read(root)? {
        let own = crate_of(&file.path).unwrap_or_default();
        if FOR_OTHERS.contains(&own) {
            continue;
        }
        for (line, name) in public_names(&file) {
            count += 1;
            let used = users.get(name).is_some_and(|users| users.iter().any(|user| *user != own));
            if !used {
                findings.problem(format!(
                    "{}:{line}: `{name}` is used by no other crate: make it pub(crate)",
                    file.path
                ));
            }
        }
    }
    findings.fact(format!("{count} public names"));
    for member in &metadata::read(root)?.members {
        unused_dependencies(member, &everything, &mut findings);
    }
    Ok(findings)
}

/// The crate whose public names a file sees from inside: tests, benches and examples are outside.
fn crate_of(path: &str) -> Option<&str> {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", name, "src", ..] => Some(name),
        ["xtask", ..] => Some("xtask"),
        _ => None,
    }
}

/// Word → crates that use it; what is outside of all of them counts as one without a name.
fn users(files: &[SourceFile]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut users: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        let user = crate_of(&file.path).unwrap_or_default();
        for word in words(&file.text) {
            users.entry(word).or_default().insert(user);
        }
    }
    users
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The names that a file declares as public, each with its line.
fn public_names(file: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    file.code().filter_map(|(number, line)| Some((number, public_name(line)?)))
}

fn public_name(line: &str) -> Option<&str> {
    let mut rest = words(line.trim_start().strip_prefix("pub ")?).skip_while(|word| {
        // `pub const fn` is a function, `pub const X` a constant.
        MODIFIERS.contains(word) && line.contains(" fn ")
    });
    let kind = rest.next()?;
    KINDS.contains(&kind).then(|| rest.next())?
}

fn unused_dependencies(member: &Member, files: &[SourceFile], findings: &mut Findings) {
    let folder =
        if member.name == "xtask" { "xtask/".to_owned() } else { format!("crates/{}/", member.name) };
    let named: BTreeSet<&str> = files
        .iter()
        .filter(|file| file.path.starts_with(&folder))
        .flat_map(|file| words(&file.text))
        .collect();
    for dependency in member.normal.union(&member.dev) {
        let exempt = NAMELESS.iter().any(|(name, _)| name == dependency);
        if !exempt && !named.contains(dependency.replace('-', "_").as_str()) {
            findings.problem(format!("{} does not use {dependency}", member.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_names_are_told_from_others() {
        for (line, name) in [
            ("pub fn f(x: u8) {", Some("f")),
            ("    pub const fn g() {", Some("g")),
            ("pub async fn h() {", Some("h")),
            ("pub const X: u8 = 1;", Some("X")),
            ("pub struct S<T>(T);", Some("S")),
            ("pub(crate) fn f() {}", None),
            ("pub use a::b;", None),
            ("pub mod m;", None),
            ("    pub field: u8,", None),
            ("// pub fn f", None),
        ] {
            assert_eq!(public_name(line), name, "{line}");
        }
    }

    #[test]
    fn a_dependency_that_no_code_names_is_a_problem() {
        let member = Member {
            name: "weft-x".to_owned(),
            normal: ["serde-json".to_owned(), "bytes".to_owned()].into(),
            ..Member::default()
        };
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("crates/weft-x/src/lib.rs", "use serde_json::Value;"),
            file("crates/weft-y/src/lib.rs", "use bytes::Bytes;"),
        ];
        let mut findings = Findings::default();
        unused_dependencies(&member, &files, &mut findings);
        assert_eq!(findings.problems, ["weft-x does not use bytes"]);
    }
}
