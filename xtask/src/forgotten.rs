//! Finds changes that have to be made in two places but were made in one.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::examples;
use crate::features;
use crate::findings::Findings;
use crate::source::{self, SourceFile};

const CATALOG: &str = "crates/weft-components/src/catalog.rs";

/// Documents that name tests for their claims.
const NAMING_TESTS: [&str; 8] = [
    "docs/accounts.md",
    "docs/behaviours.md",
    "docs/datasets.md",
    "docs/documents.md",
    "docs/retrieval.md",
    "docs/schedules.md",
    "docs/security.md",
    "docs/versions.md",
];

/// Required files of every folder in `canvases/`, besides `events.txt`, which is written by a test.
const SAMPLE_FILES: [&str; 3] = ["canvas.json", "script.json", "input.json"];

/// A component type as its source file declares it.
#[derive(Clone, Debug, PartialEq)]
struct Spec {
    /// `module::NAME`, as the list refers to it.
    path: String,
    kind: String,
    measuring_only: bool,
}

/// Checks that the components agree with the catalog and the samples, and the feature list with the tests.
pub(crate) fn check(root: &Path) -> Result<Findings> {
    let mut findings = Findings::default();
    let files = source::read(root)?;
    let in_components = |file: &&SourceFile| file.path.starts_with("crates/weft-components/src/");
    let specs: Vec<Spec> = files.iter().filter(in_components).flat_map(specs).collect();
    let catalog = files.iter().find(|file| file.path == CATALOG);
    listed(&specs, catalog.map_or("", |file| &file.text), &mut findings);
    samples(root, &mut findings)?;
    pipelines(root, &mut findings)?;
    let drawn = examples::shown(root)?;
    if source::read_text(&root.join(examples::FILE))? != examples::text(&drawn)? {
        findings.problem(format!("{} is out of date: run `cargo xtask generated`", examples::FILE));
    }
    let shown: BTreeSet<String> = drawn.into_iter().map(|component| component.kind).collect();
    let undrawn = specs.iter().filter(|spec| !spec.measuring_only && !shown.contains(&spec.kind));
    for spec in undrawn {
        findings
            .problem(format!("no canvas below canvases/ or pipelines/ shows the component {}", spec.kind));
    }
    findings.fact(format!("{} components, {} kinds in sample canvases", specs.len(), shown.len()));
    features::check(root, &source::read_text(&root.join("docs/features.md"))?, &mut findings);
    for file in NAMING_TESTS {
        let text = source::read_text(&root.join(file))?;
        features::check_named(root, file, &text, &mut findings);
    }
    Ok(findings)
}

/// The specs declared in a file: `pub static NAME: ComponentSpec = ComponentSpec { … };`.
fn specs(file: &SourceFile) -> Vec<Spec> {
    let lines: Vec<&str> = file.code().map(|(_, line)| line).collect();
    let module = match file.stem() {
        "mod" => file.path.rsplit('/').nth(1).unwrap_or_default(),
        stem => stem,
    };
    let starts = lines.iter().enumerate().filter_map(|(place, line)| Some((place, declared_name(line)?)));
    starts
        .map(|(place, name)| {
            let body = || lines[place..].iter().map(|line| line.trim()).take_while(|line| *line != "};");
            let kind = body().find_map(|line| line.strip_prefix("kind: \"")?.split('"').next());
            Spec {
                path: format!("{module}::{name}"),
                kind: kind.unwrap_or_default().to_owned(),
                measuring_only: body().any(|line| line.starts_with("measuring_only: true")),
            }
        })
        .collect()
}

fn declared_name(line: &str) -> Option<&str> {
    let line = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
    let rest = line.strip_prefix("static ").or_else(|| line.strip_prefix("const "))?;
    let (name, declared) = rest.split_once(':')?;
    declared.trim_start().starts_with("ComponentSpec =").then_some(name)
}

/// Checks that the catalog lists exactly the specs that exist.
fn listed(specs: &[Spec], catalog: &str, findings: &mut Findings) {
    let named: BTreeSet<String> = catalog
        .lines()
        .map(str::trim)
        .filter_map(|line| line.strip_prefix('&')?.strip_suffix(','))
        .filter_map(|path| {
            let mut parts = path.rsplit("::");
            let (name, module) = (parts.next()?, parts.next()?);
            Some(format!("{module}::{name}"))
        })
        .collect();
    for spec in specs.iter().filter(|spec| !named.contains(&spec.path)) {
        findings.problem(format!("{} ({}) is not in {CATALOG}", spec.path, spec.kind));
    }
    for path in named.iter().filter(|path| !specs.iter().any(|spec| spec.path == **path)) {
        findings.problem(format!("{CATALOG} names {path}, which no file declares"));
    }
}

/// Checks that each sample canvas is listed and has its files.
fn samples(root: &Path, findings: &mut Findings) -> Result<()> {
    let listed = source::read_text(&root.join("canvases/README.md"))?;
    for folder in source::entries(&root.join("canvases"))?.into_iter().filter(|path| path.is_dir()) {
        let sample = source::relative(&root.join("canvases"), &folder);
        if !listed.contains(&format!("| `{sample}` |")) {
            findings.problem(format!("canvases/README.md does not list {sample}"));
        }
        for name in SAMPLE_FILES {
            let path = folder.join(name);
            let place = source::relative(root, &path);
            match source::read_text(&path) {
                Err(_) => findings.problem(format!("{place} is missing")),
                Ok(text) => drop(serde_json::from_str::<Value>(&text).with_context(|| place.clone())?),
            }
        }
    }
    Ok(())
}

/// Checks that each sample pipeline is listed.
fn pipelines(root: &Path, findings: &mut Findings) -> Result<()> {
    let folder = root.join("pipelines");
    let listed = source::read_text(&folder.join("README.md"))?;
    let is_json = |path: &std::path::PathBuf| path.extension().is_some_and(|ending| ending == "json");
    for path in source::entries(&folder)?.into_iter().filter(is_json) {
        let name = source::relative(&folder, &path);
        if !listed.contains(&format!("| `{name}` |")) {
            findings.problem(format!("pipelines/README.md does not list {name}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
/// Says hello.
pub static SPEC: ComponentSpec = ComponentSpec {
    kind: \"Greet\",
    measuring_only: false,
};

const MORE: ComponentSpec = ComponentSpec {
    kind: \"Lookup\",
    measuring_only: true,
};
const OTHER: usize = 3;
";

    fn greet() -> Vec<Spec> {
        specs(&SourceFile {
            path: "crates/weft-components/src/control/greet.rs".to_owned(),
            text: FILE.to_owned(),
        })
    }

    #[test]
    fn specs_are_found_in_a_file() {
        let spec = |path: &str, kind: &str, measuring_only| Spec {
            path: path.to_owned(),
            kind: kind.to_owned(),
            measuring_only,
        };
        assert_eq!(greet(), [spec("greet::SPEC", "Greet", false), spec("greet::MORE", "Lookup", true)]);
    }

    #[test]
    fn the_list_and_the_disk_must_agree() {
        let check = |catalog: &str, expected: &[&str]| {
            let mut findings = Findings::default();
            listed(&greet(), catalog, &mut findings);
            assert_eq!(findings.problems, expected, "{catalog}");
        };
        check("    &control::greet::SPEC,\n    &greet::MORE,\n", &[]);
        check("&greet::SPEC,", &["greet::MORE (Lookup) is not in crates/weft-components/src/catalog.rs"]);
        check(
            "&greet::SPEC,\n&greet::MORE,\n&gone::SPEC,",
            &["crates/weft-components/src/catalog.rs names gone::SPEC, which no file declares"],
        );
    }
}
