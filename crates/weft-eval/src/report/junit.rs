//! JUnit XML, which continuous integration servers read.

use std::fmt::Write as _;

use super::{FileReport, escaped};

/// Formats all files, each as a test suite.
pub fn junit(files: &[FileReport]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for file in files {
        let failed = file.cases.len() - file.passed_count();
        let seconds: f64 = file.cases.iter().map(|case| case.seconds).sum();
        // Writing to a String cannot fail.
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\" time=\"{seconds:.3}\">",
            escaped(&file.file),
            file.cases.len()
        );
        for case in &file.cases {
            let _ = write!(
                xml,
                "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\">",
                escaped(&file.file),
                escaped(&case.case),
                case.seconds
            );
            // Some readers of this format show only the attribute, and some only the text.
            for problem in case.problems() {
                let first = problem.lines().next().unwrap_or_default();
                let _ = write!(
                    xml,
                    "\n      <failure message=\"{}\">{}</failure>",
                    escaped(first),
                    escaped(&problem)
                );
            }
            let asked: Vec<_> = case.turns.iter().map(|turn| escaped(&turn.query)).collect();
            let _ = writeln!(xml, "\n      <system-out>{}</system-out>\n    </testcase>", asked.join("\n"));
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}
