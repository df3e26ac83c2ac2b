//! Limits on numbers that tend to grow unnoticed.

use std::path::Path;

use anyhow::Result;

use crate::findings::Findings;
use crate::source::{self, SourceFile};

/// Maximum number of lines in a file, not counting its tests.
const FILE_LINES_MAX: usize = 500;

/// Longer files, each with its own maximum. The list may only shrink: no file is added, and no maximum is raised.
const LONGER_FILES: &[(&str, usize)] = &[];

/// Targets for all files together; printed, so that a drift is noticed.
const MEDIAN_AIM: usize = 150;
const P90_AIM: usize = 350;

/// Maximum number of places with conditional compilation, which hides code from builds without the feature.
const FEATURE_SITES_MAX: usize = 20;

/// Maximum number of packages, since each is third-party code to trust and to build. Raised only deliberately, with a
/// reason in the commit.
const PACKAGES_MAX: usize = 838;

/// Measures file lengths, conditional code and packages.
pub(crate) fn check(root: &Path) -> Result<Findings> {
    let mut findings = Findings::default();
    let files = source::read(root)?;
    file_lengths(&files, LONGER_FILES, &mut findings);
    feature_sites(&files, &mut findings);
    packages(&source::read_text(&root.join("Cargo.lock"))?, &mut findings);
    Ok(findings)
}

fn file_lengths(files: &[SourceFile], longer: &[(&str, usize)], findings: &mut Findings) {
    let mut lengths = Vec::with_capacity(files.len());
    for file in files {
        let length = file.code().count();
        lengths.push(length);
        let allowed = longer.iter().find(|(path, _)| *path == file.path).map(|(_, max)| *max);
        match allowed {
            None if length > FILE_LINES_MAX => {
                findings.problem(format!(
                    "{} has {length} lines, {FILE_LINES_MAX} are the most: split it",
                    file.path
                ));
            }
            Some(max) if length > max => {
                findings.problem(format!("{} grew to {length} lines, its exception is {max}", file.path));
            }
            Some(_) if length <= FILE_LINES_MAX => {
                findings.problem(format!("{} needs no exception any more: take it off the list", file.path));
            }
            _ => {}
        }
    }
    for (path, _) in longer.iter().filter(|(path, _)| !files.iter().any(|file| file.path == *path)) {
        findings.problem(format!("{path} is excepted and does not exist"));
    }
    lengths.sort_unstable();
    findings.fact(format!(
        "{} files, {} lines without tests; median {} (aim {MEDIAN_AIM}), p90 {} (aim {P90_AIM}), longest {}",
        lengths.len(),
        lengths.iter().sum::<usize>(),
        quantile(&lengths, 50),
        quantile(&lengths, 90),
        quantile(&lengths, 100),
    ));
}

/// The value that `percent` of the sorted values do not exceed; 0 if there are none.
fn quantile(sorted: &[usize], percent: usize) -> usize {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or_default()
}

fn feature_sites(files: &[SourceFile], findings: &mut Findings) {
    let sites: Vec<String> = files
        .iter()
        .filter(|file| !file.path.starts_with("xtask/"))
        .flat_map(|file| {
            let lines = file.code().filter(|(_, line)| is_feature_site(line));
            lines.map(|(number, _)| format!("{}:{number}", file.path))
        })
        .collect();
    findings
        .fact(format!("{} places depend on a feature, fewer than {FEATURE_SITES_MAX} allowed", sites.len()));
    if sites.len() >= FEATURE_SITES_MAX {
        findings.problem(format!("too many places depend on a feature: {}", sites.join(", ")));
    }
}

fn is_feature_site(line: &str) -> bool {
    let line = line.trim_start();
    !line.starts_with("//") && line.contains("cfg") && line.contains("feature = \"")
}

fn packages(lock: &str, findings: &mut Findings) {
    let count = lock.lines().filter(|line| *line == "[[package]]").count();
    findings.fact(format!("{count} packages in Cargo.lock, {PACKAGES_MAX} allowed"));
    if count > PACKAGES_MAX {
        findings
            .problem(format!("Cargo.lock has {count} packages: raise PACKAGES_MAX on purpose, or use fewer"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, lines: usize) -> SourceFile {
        SourceFile { path: path.to_owned(), text: "x\n".repeat(lines) }
    }

    #[test]
    fn long_files_need_an_exception_and_exceptions_shrink() {
        let check = |lines: usize, longer: &[(&str, usize)], expected: &[&str]| {
            let mut findings = Findings::default();
            file_lengths(&[file("a.rs", lines)], longer, &mut findings);
            assert_eq!(findings.problems, expected, "{lines} {longer:?}");
        };
        check(500, &[], &[]);
        check(501, &[], &["a.rs has 501 lines, 500 are the most: split it"]);
        check(501, &[("a.rs", 520)], &[]);
        check(521, &[("a.rs", 520)], &["a.rs grew to 521 lines, its exception is 520"]);
        check(500, &[("a.rs", 520)], &["a.rs needs no exception any more: take it off the list"]);
        check(1, &[("b.rs", 520)], &["b.rs is excepted and does not exist"]);
    }

    #[test]
    fn quantiles() {
        let check = |sorted: &[usize], expected: [usize; 3]| {
            assert_eq!([50, 90, 100].map(|percent| quantile(sorted, percent)), expected);
        };
        check(&[], [0, 0, 0]);
        check(&[7], [7, 7, 7]);
        check(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [5, 9, 10]);
    }

    #[test]
    fn feature_sites_are_attributes_and_macros() {
        let check = |line: &str, expected: bool| assert_eq!(is_feature_site(line), expected, "{line}");
        check("    #[cfg(feature = \"mysql\")]", true);
        check("#[cfg(not(any(feature = \"mysql\", feature = \"postgres\")))]", true);
        check("if cfg!(feature = \"mysql\") {", true);
        check("// #[cfg(feature = \"mysql\")]", false);
        check("let feature = \"x\";", false);
    }

    #[test]
    fn packages_are_counted() {
        let mut findings = Findings::default();
        packages(&"[[package]]\nname = \"x\"\n".repeat(PACKAGES_MAX + 1), &mut findings);
        assert_eq!(findings.problems.len(), 1);
    }
}
