//! The output of `cargo metadata`, reduced to dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// A crate of this workspace with the dependencies in its manifest, by package name.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct WorkspaceMember {
    /// Name of the crate.
    pub name: String,
    /// Folder of its manifest.
    pub folder: PathBuf,
    /// `[dependencies]`.
    pub normal: BTreeSet<String>,
    /// `[dev-dependencies]`.
    pub dev: BTreeSet<String>,
}

/// The workspace and all packages linked with it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct WorkspaceMetadata {
    /// The crates of the workspace.
    pub members: Vec<WorkspaceMember>,
    /// Package → packages that link it; normal dependencies only, with all features, on this platform.
    pub linked_by: BTreeMap<String, BTreeSet<String>>,
    /// Package → name of its library in code.
    pub code_names: BTreeMap<String, String>,
}

/// Runs `cargo metadata`.
pub(crate) fn read(root: &Path) -> Result<WorkspaceMetadata> {
    let version = run(root, "rustc", &["-vV"])?;
    let host =
        version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc does not name a host")?;
    let arguments =
        ["metadata", "--format-version", "1", "--locked", "--all-features", "--filter-platform", host];
    let json = run(root, "cargo", &arguments)?;
    Ok(parse(&serde_json::from_str(&json).context("cargo metadata is not JSON")?))
}

/// Cargo's target directory.
pub(crate) fn target_directory(root: &Path) -> Result<PathBuf> {
    let json = run(root, "cargo", &["metadata", "--format-version", "1", "--no-deps"])?;
    let json: Value = serde_json::from_str(&json).context("cargo metadata is not JSON")?;
    let folder = json["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(PathBuf::from(folder))
}

/// A cargo command with the environment of a terminal. Variables that cargo has set for this program are removed, since
/// they would make some build scripts run again and half of the packages be rebuilt.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_PRIMARY_"].iter().any(|told| name.starts_with(told)) {
            cargo.env_remove(&*name);
        }
    }
    cargo
}

/// Runs a program in the folder of the workspace and returns what it prints.
pub(crate) fn run(root: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    ensure!(
        output.status.success(),
        "{program} {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).with_context(|| format!("{program} does not speak UTF-8"))
}

fn parse(json: &Value) -> WorkspaceMetadata {
    let names: BTreeMap<&str, &str> = list(json, "/packages")
        .filter_map(|package| Some((text(package, "/id")?, text(package, "/name")?)))
        .collect();
    let ours: BTreeSet<&str> = list(json, "/workspace_members").filter_map(Value::as_str).collect();
    let members = list(json, "/packages")
        .filter(|package| text(package, "/id").is_some_and(|id| ours.contains(id)))
        .map(member)
        .collect();
    let code_names = list(json, "/packages")
        .filter_map(|package| Some((text(package, "/name")?.to_owned(), library(package)?)))
        .collect();
    let mut metadata = WorkspaceMetadata { members, code_names, ..WorkspaceMetadata::default() };
    for node in list(json, "/resolve/nodes") {
        let Some(user) = text(node, "/id").and_then(|id| names.get(id)) else { continue };
        for dependency in list(node, "/deps").filter(|dependency| is_linked(dependency)) {
            let Some(used) = text(dependency, "/pkg").and_then(|id| names.get(id)) else { continue };
            metadata.linked_by.entry((*used).to_owned()).or_default().insert((*user).to_owned());
        }
    }
    metadata
}

fn member(package: &Value) -> WorkspaceMember {
    let of_kind = |kind: Option<&str>| {
        list(package, "/dependencies")
            .filter(|dependency| text(dependency, "/kind") == kind)
            .filter_map(|dependency| text(dependency, "/name").map(str::to_owned))
            .collect()
    };
    WorkspaceMember {
        name: text(package, "/name").unwrap_or_default().to_owned(),
        folder: Path::new(text(package, "/manifest_path").unwrap_or_default())
            .parent()
            .map(Path::to_owned)
            .unwrap_or_default(),
        normal: of_kind(None),
        dev: of_kind(Some("dev")),
    }
}

/// Name of a package's library in code, which may differ from the name of the package.
fn library(package: &Value) -> Option<String> {
    let kinds = |target: &Value| list(target, "/kind").any(|kind| kind == "lib" || kind == "proc-macro");
    let target = list(package, "/targets").find(|target| kinds(target))?;
    Some(text(target, "/name")?.replace('-', "_"))
}

fn is_linked(dependency: &Value) -> bool {
    list(dependency, "/dep_kinds").any(|kind| text(kind, "/kind").is_none())
}

fn list<'a>(json: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    json.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(json: &'a Value, pointer: &str) -> Option<&'a str> {
    json.pointer(pointer).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dev_and_build_dependencies_are_not_linked() {
        let metadata = parse(&json!({
            "workspace_members": ["a 1"],
            "packages": [
                {"id": "a 1", "name": "a", "manifest_path": "/w/a/Cargo.toml", "dependencies": [
                    {"name": "b", "kind": null}, {"name": "c", "kind": "dev"}, {"name": "d", "kind": "build"}]},
                {"id": "b 1", "name": "b", "targets": [{"kind": ["lib"], "name": "b-lib"}], "dependencies": []},
                {"id": "c 1", "name": "c", "dependencies": []},
            ],
            "resolve": {"nodes": [{"id": "a 1", "deps": [
                {"pkg": "b 1", "dep_kinds": [{"kind": null}]},
                {"pkg": "c 1", "dep_kinds": [{"kind": "dev"}]}]}]},
        }));
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(
            metadata,
            WorkspaceMetadata {
                members: vec![WorkspaceMember {
                    name: "a".to_owned(),
                    folder: PathBuf::from("/w/a"),
                    normal: set(&["b"]),
                    dev: set(&["c"])
                }],
                linked_by: BTreeMap::from([("b".to_owned(), set(&["a"]))]),
                code_names: BTreeMap::from([("b".to_owned(), "b_lib".to_owned())]),
            }
        );
    }
}
