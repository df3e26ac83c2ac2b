//! Finds unused dependencies. Every dependency has to be downloaded, built and audited by everyone, so a manifest must
//! name only what the sources next to it use.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::findings::Findings;
use crate::metadata::{self, WorkspaceMember};
use crate::source::{self, SourceFile};

/// Exceptions: crate, dependency, and the reason for a dependency that no source mentions.
const EXCEPTED: [(&str, &str, &str); 0] = [];

/// Checks every manifest against the sources next to it.
pub(crate) fn check(root: &Path) -> Result<Findings> {
    let metadata = metadata::read(root)?;
    let mut findings = Findings::default();
    let mut count = 0;
    for member in &metadata.members {
        let files = source::of_crate(&member.folder)?;
        count += member.normal.len() + member.dev.len();
        for problem in unused(member, &files, &metadata.code_names) {
            findings.problem(problem);
        }
    }
    for (_, name, reason) in EXCEPTED {
        findings.fact(format!("{name} is excepted: {reason}"));
    }
    findings.fact(format!("{count} dependencies of {} crates", metadata.members.len()));
    Ok(findings)
}

fn unused(
    member: &WorkspaceMember,
    files: &[SourceFile],
    code_names: &BTreeMap<String, String>,
) -> Vec<String> {
    let of_tests = |name: &str| files.iter().any(|file| file.text.lines().any(|line| mentions(line, name)));
    let of_program = |name: &str| {
        let mut code = files.iter().filter(|file| !is_test(&file.path)).flat_map(SourceFile::code);
        code.any(|(_, line)| mentions(line, name))
    };
    let in_code = |package: &String| code_names.get(package).unwrap_or(package).replace('-', "_");
    let is_excepted =
        |package: &str| EXCEPTED.iter().any(|(of, name, _)| *of == member.name && *name == package);
    let mut problems = Vec::new();
    for package in member.normal.iter().filter(|package| !is_excepted(package)) {
        let name = in_code(package);
        if of_program(&name) {
            continue;
        }
        problems.push(if of_tests(&name) {
            format!("{}: only tests mention {package}: it belongs to the dev-dependencies", member.name)
        } else {
            format!("{}: no source mentions the dependency {package}", member.name)
        });
    }
    // A dependency that is repeated for the tests is there to enable more of its features.
    let more = member.dev.difference(&member.normal).filter(|package| !is_excepted(package));
    let more = more.filter(|package| !of_tests(&in_code(package)));
    problems.extend(
        more.map(|package| format!("{}: no source mentions the dev-dependency {package}", member.name)),
    );
    problems
}

/// Whether a file, given by its path from its crate's folder, is built only for tests, benchmarks or examples.
fn is_test(path: &str) -> bool {
    ["tests/", "benches/", "examples/"].iter().any(|folder| path.starts_with(folder))
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
}

/// Whether a line uses a crate by its name: at the beginning of a path, or in a `use`. A field or variable of the same
/// name does not count.
fn mentions(line: &str, name: &str) -> bool {
    !line.trim_start().starts_with("//")
        && line.match_indices(name).any(|(at, _)| is_path(&line[..at], &line[at + name.len()..]))
}

fn is_path(before: &str, after: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let begins = !before.strip_suffix("::").unwrap_or(before).ends_with(|c| is_word(c) || ".:".contains(c));
    let is_used = before.trim_end().ends_with("use") && !after.starts_with(is_word);
    begins && (after.starts_with("::") || is_used)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(normal: &[&str], dev: &[&str]) -> WorkspaceMember {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        WorkspaceMember {
            name: "a".to_owned(),
            normal: set(normal),
            dev: set(dev),
            ..WorkspaceMember::default()
        }
    }

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_path_or_a_use_is_a_mention() {
        for line in [
            "use bytes::Bytes;",
            "    let b = bytes::Bytes::new();",
            "fn f() -> ::bytes::Bytes {",
            "use bytes;",
        ] {
            assert!(mentions(line, "bytes"), "{line}");
        }
        for line in [
            "// use bytes::Bytes;",
            "let bytes = 3;",
            "self.bytes::<u8>()",
            "crate::bytes::read()",
            "use more_bytes::X;",
            "use bytes_more::X;",
        ] {
            assert!(!mentions(line, "bytes"), "{line}");
        }
    }

    #[test]
    fn what_no_source_mentions_is_named() {
        let files = [file("src/lib.rs", "use serde::Serialize;\n")];
        let found = unused(&member(&["serde", "index-map"], &["proptest"]), &files, &BTreeMap::new());
        assert_eq!(
            found,
            [
                "a: no source mentions the dependency index-map",
                "a: no source mentions the dev-dependency proptest"
            ]
        );
    }

    #[test]
    fn what_tests_alone_mention_is_a_dev_dependency() {
        let inline = "#[cfg(test)]\nmod tests {\n    use inner::X;\n}\n";
        let files = [file("src/lib.rs", inline), file("tests/it/main.rs", "use outer::X;\n")];
        let found = unused(&member(&["inner", "outer"], &[]), &files, &BTreeMap::new());
        assert_eq!(
            found,
            [
                "a: only tests mention inner: it belongs to the dev-dependencies",
                "a: only tests mention outer: it belongs to the dev-dependencies"
            ]
        );
        assert_eq!(unused(&member(&[], &["inner", "outer"]), &files, &BTreeMap::new()), [] as [&str; 0]);
    }

    #[test]
    fn a_crate_has_another_name_in_code_than_its_package() {
        let names = BTreeMap::from([("rust-argon2".to_owned(), "argon2".to_owned())]);
        let files = [file("src/lib.rs", "use argon2::Config;\n")];
        assert_eq!(unused(&member(&["rust-argon2"], &[]), &files, &names), [] as [&str; 0]);
    }

    #[test]
    fn more_features_for_the_tests_are_no_second_dependency() {
        let files = [file("src/lib.rs", "tokio::spawn(work)\n")];
        assert_eq!(unused(&member(&["tokio"], &["tokio"]), &files, &BTreeMap::new()), [] as [&str; 0]);
    }
}
