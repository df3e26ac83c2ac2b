//! What is built twice when one command builds the program and the next one the workspace.
//!
//! A package is built once for each set of features that is asked of it, and everything above it with it. A feature that
//! only a test or a tool of this workspace asks for therefore has half of the program built again by `cargo test`.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use crate::findings::Findings;
use crate::metadata;

/// Compares the features of all packages in the two commands of the README.
pub(crate) fn check(root: &Path) -> Result<Findings> {
    let tree = |selection: &[&str], kinds: &str| {
        let shown = ["tree", "--locked", "--prefix", "none", "--format", "{p} with {f}", "--edges", kinds];
        metadata::run(root, "cargo", &[&shown, selection].concat())
    };
    let program = tree(&["--package", "weft-cli"], "normal,build")?;
    let workspace = tree(&["--workspace"], "normal,build,dev")?;
    Ok(compared(&program, &workspace))
}

fn compared(program: &str, workspace: &str) -> Findings {
    let (program, workspace) = (packages(program), packages(workspace));
    let mut findings = Findings::default();
    findings.fact(format!("{} packages with their features in the program", program.len()));
    for package in program.difference(&workspace) {
        findings.problem(format!(
            "the program needs {}, and the workspace asks for other features of it: everything above it is built twice",
            package.trim_end_matches(" with ")
        ));
    }
    findings
}

/// Each package with its features; cargo marks those that it has shown before.
fn packages(tree: &str) -> BTreeSet<&str> {
    tree.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_more_features_for_the_workspace_is_named() {
        let program = "weft-cli v0.1.0 (/weft/crates/weft-cli) with \nanyhow v1.0.0 with std\nbytes v1.0.0 with std (*)\n";
        let same = "bytes v1.0.0 with std\nanyhow v1.0.0 with std (*)\nweft-cli v0.1.0 (/weft/crates/weft-cli) with \n";
        assert_eq!(compared(program, same).problems, [""; 0]);
        let more = same.replace("anyhow v1.0.0 with std", "anyhow v1.0.0 with default,std");
        let found = compared(program, &more).problems;
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("anyhow v1.0.0 with std,"), "{found:?}");
    }
}
