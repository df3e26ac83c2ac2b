//! Checks docs/features.md: each promised feature and the tests that prove it.

use std::path::Path;

use crate::findings::Findings;
use crate::source;

/// Number of rows in the table.
const ROWS: usize = 158;

/// Placeholder for a feature without tests.
const OPEN: &str = "—";

/// A row of the table.
#[derive(Debug, PartialEq)]
struct FeatureRow {
    number: usize,
    /// `file::function`.
    tests: Vec<String>,
}

/// Checks that every numbered row occurs once and that all tests named in any row exist.
pub(crate) fn check(root: &Path, text: &str, findings: &mut Findings) {
    let rows = rows(text, findings);
    numbers(&rows, findings);
    for row in &rows {
        for test in &row.tests {
            if let Some(problem) = missing(root, test) {
                findings.problem(format!("docs/features.md, row {}: {problem}", row.number));
            }
        }
    }
    for line in text.lines().filter(|line| !is_numbered(line)) {
        check_named(root, "docs/features.md", line, findings);
    }
    let proven = rows.iter().filter(|row| !row.tests.is_empty()).count();
    findings.fact(format!("{proven} of {ROWS} features are proven by a test"));
}

/// Checks that each `file::function` in a text of docs/ is a test.
pub(crate) fn check_named(root: &Path, file: &str, text: &str, findings: &mut Findings) {
    for test in named(text) {
        if let Some(problem) = missing(root, &test) {
            findings.problem(format!("{file}: {problem}"));
        }
    }
}

/// The `file::function`s in a text. The files are below `crates/`, whether or not the text says so.
fn named(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|letter: char| letter.is_whitespace() || "`|,()".contains(letter))
        .filter(|word| word.contains(".rs::"))
        .map(|word| format!("crates/{}", word.trim_start_matches("crates/")))
}

/// Whether a line is a row of the table with numbers.
fn is_numbered(line: &str) -> bool {
    let first = line.trim().trim_matches('|').split('|').next().unwrap_or_default();
    first.trim().parse::<usize>().is_ok()
}

fn rows(text: &str, findings: &mut Findings) -> Vec<FeatureRow> {
    let mut rows = Vec::with_capacity(ROWS);
    for (number, line) in (1..).zip(text.lines()) {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [first, feature, tests] = cells.as_slice() else { continue };
        let Ok(row) = first.parse() else { continue };
        let named: Vec<String> =
            tests.split([',', ' ', '`']).filter(|test| !test.is_empty()).map(str::to_owned).collect();
        match named.as_slice() {
            _ if feature.is_empty() => {
                findings.problem(format!("docs/features.md:{number}: row {row} says nothing"));
            }
            [] => findings.problem(format!("docs/features.md:{number}: row {row} needs a test or {OPEN}")),
            [open] if open == OPEN => rows.push(FeatureRow { number: row, tests: Vec::new() }),
            _ => rows.push(FeatureRow { number: row, tests: named }),
        }
    }
    rows
}

fn numbers(rows: &[FeatureRow], findings: &mut Findings) {
    for wanted in 1..=ROWS {
        match rows.iter().filter(|row| row.number == wanted).count() {
            1 => {}
            count => findings.problem(format!("docs/features.md has row {wanted} {count} times, not once")),
        }
    }
    for row in rows.iter().filter(|row| row.number == 0 || row.number > ROWS) {
        findings.problem(format!("docs/features.md has a row {}, the contract ends at {ROWS}", row.number));
    }
}

/// Why `file::function` is not a valid test, if it is not.
fn missing(root: &Path, test: &str) -> Option<String> {
    let Some((path, function)) = test.split_once("::") else {
        return Some(format!("{test} is not of the form file::function"));
    };
    match source::read_text(&root.join(path)) {
        Err(_) => Some(format!("{path} does not exist")),
        Ok(text) if !has_test(&text, function) => Some(format!("{path} has no test {function}")),
        Ok(_) => None,
    }
}

/// Whether a text defines a function of this name with a test attribute.
fn has_test(text: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let Some(place) = lines.iter().position(|line| defines(line, function)) else { return false };
    lines[..place]
        .iter()
        .rev()
        .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
        .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

fn defines(line: &str, function: &str) -> bool {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")
        .and_then(|rest| rest.strip_prefix(function))
        .is_some_and(|rest| rest.starts_with(['(', '<']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_with_any_number_of_tests() {
        let mut findings = Findings::default();
        let text = "| # | feature | proof |\n|---|---|---|\n| 1 | a | — |\n| 2 | b | `x.rs::t`, `y.rs::u` |\n| 3 | c |  |\n";
        let expected = [
            FeatureRow { number: 1, tests: vec![] },
            FeatureRow { number: 2, tests: vec!["x.rs::t".to_owned(), "y.rs::u".to_owned()] },
        ];
        assert_eq!(rows(text, &mut findings), expected);
        assert_eq!(findings.problems, ["docs/features.md:5: row 3 needs a test or —"]);
    }

    #[test]
    fn tests_are_found_in_any_text() {
        let text = "shown by `weft-a/src/b.rs::t` (crates/weft-c/d.rs::u), e.rs::v|see f.rs and g::h";
        let expected = ["crates/weft-a/src/b.rs::t", "crates/weft-c/d.rs::u", "crates/e.rs::v"];
        assert_eq!(named(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn tests_of_rows_without_a_number_are_checked() {
        let mut findings = Findings::default();
        let text = "| feature | proof |\n|---|---|\n| a | crates/none.rs::x |\n";
        check(Path::new(env!("CARGO_MANIFEST_DIR")), text, &mut findings);
        let expected = "docs/features.md: crates/none.rs does not exist";
        assert!(findings.problems.iter().any(|problem| problem == expected), "{:?}", findings.problems);
    }

    #[test]
    fn numbers_are_complete_and_single() {
        let row = |number| FeatureRow { number, tests: vec![] };
        let mut findings = Findings::default();
        numbers(&(1..=ROWS).map(row).collect::<Vec<_>>(), &mut findings);
        assert_eq!(findings.problems, [""; 0]);
        numbers(&(2..=ROWS).chain([7, 200]).map(row).collect::<Vec<_>>(), &mut findings);
        assert_eq!(
            findings.problems,
            [
                "docs/features.md has row 1 0 times, not once",
                "docs/features.md has row 7 2 times, not once",
                "docs/features.md has a row 200, the contract ends at 158",
            ]
        );
    }

    #[test]
    fn a_function_counts_only_as_a_test() {
        let text = "fn helper() {}\n\n    #[tokio::test(start_paused = true)]\n    // Why.\n    async fn joins_once() {}\n\n#[test]\nfn joins() {}\n";
        let check =
            |function: &str, expected: bool| assert_eq!(has_test(text, function), expected, "{function}");
        check("joins_once", true);
        check("joins", true);
        check("helper", false);
        check("joins_on", false);
        check("absent", false);
    }

    #[test]
    fn a_missing_file_is_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(missing(root, "src/none.rs::x").as_deref(), Some("src/none.rs does not exist"));
        assert_eq!(missing(root, "src/main.rs::x").as_deref(), Some("src/main.rs has no test x"));
        assert_eq!(missing(root, "src/features.rs::a_missing_file_is_named"), None);
        assert_eq!(missing(root, "x").as_deref(), Some("x is not of the form file::function"));
    }
}
