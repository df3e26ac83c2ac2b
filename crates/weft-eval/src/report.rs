//! Results of evals: as lines for a terminal, JSON, JUnit XML, or an HTML page.

mod html;
mod junit;

use std::fmt::Write as _;

use serde::Serialize;
use weft_core::effect::{Match, RecordedCall};
use weft_core::value::{plural, to_text};

pub use self::html::page;
pub use self::junit::junit;
use crate::expect::Miss;
use crate::file::RecordedCase;
use crate::observed::Observed;
use crate::text::short;

/// Result of a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileReport {
    /// The file, as it was named by the caller.
    pub file: String,
    /// What it demonstrates.
    pub about: String,
    /// The share of cases that must pass.
    pub pass: f64,
    /// Its cases.
    pub cases: Vec<CaseReport>,
}

/// Result of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseReport {
    /// Its name.
    pub case: String,
    /// The turns that were run.
    pub turns: Vec<TurnReport>,
    /// Why it could not be completed.
    pub error: Option<String>,
    /// Duration in seconds.
    pub seconds: f64,
    /// The recording of a live run.
    #[serde(skip)]
    pub recorded: Option<RecordedCase>,
}

/// Result of a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TurnReport {
    /// The question.
    pub query: String,
    /// Number of expectations.
    pub expectations: usize,
    /// All deviations.
    pub misses: Vec<Miss>,
    /// Calls that were answered from the recording although their question has changed.
    pub stale: Vec<String>,
    /// What it did.
    pub seen: Observed,
}

/// Whether a call whose question differs from the recording is a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// It is only reported.
    Lenient,
    /// It fails the case.
    Strict,
}

impl CaseReport {
    pub(crate) fn new(name: &str) -> Self {
        Self { case: name.to_owned(), turns: Vec::new(), error: None, seconds: 0.0, recorded: None }
    }

    /// Whether there are no deviations and no error.
    pub fn passed(&self) -> bool {
        self.error.is_none() && self.turns.iter().all(|turn| turn.misses.is_empty())
    }

    /// Reports an unusable recording immediately rather than when it is used.
    pub(crate) fn lacking(&mut self, calls: &[RecordedCall]) {
        if let Some(call) = calls.iter().find(|call| call.answered == Match::Lacking) {
            let why = format!(
                "it cannot be replayed from the recording: the call {} of {} differs each time",
                call.key, call.node
            );
            // Only the first: a call that differs each time also leaves those after it without an answer.
            self.error.get_or_insert(why);
        }
    }

    /// Returns everything that is wrong with it, as one text each.
    pub fn problems(&self) -> Vec<String> {
        let error = self.error.iter().cloned();
        let several = self.turns.len() > 1;
        let misses = self.turns.iter().enumerate().flat_map(|(at, turn)| {
            turn.misses.iter().map(move |miss| {
                let turn = if several { format!("turn {}: ", at + 1) } else { String::new() };
                let nth = miss.expectation.map(|nth| format!(" (expect[{nth}])")).unwrap_or_default();
                format!("{turn}{}{nth}\n  expected: {}\n  got:      {}", miss.what, miss.expected, miss.got)
            })
        });
        error.chain(misses).collect()
    }

    /// Turns what is otherwise only reported into failures.
    fn judge_strictly(&mut self) {
        for turn in &mut self.turns {
            let stale = turn.stale.iter();
            let misses = stale.map(|call| {
                Miss::new(
                    "recording",
                    format!("{call} asks the recorded question"),
                    "it asks another question: record it again",
                )
            });
            let misses: Vec<_> = misses.collect();
            turn.misses.extend(misses);
        }
    }
}

impl FileReport {
    /// Returns how many of its cases passed.
    pub fn passed_count(&self) -> usize {
        self.cases.iter().filter(|case| case.passed()).count()
    }

    /// Whether enough of its cases passed.
    #[expect(clippy::cast_precision_loss, reason = "there are far fewer cases than 2^52")]
    pub fn passed(&self) -> bool {
        // Products such as 0.07 * 100 lie a little above the intended whole number.
        self.passed_count() as f64 + 1e-9 >= self.pass * self.cases.len() as f64
    }

    /// Applies a strictness.
    #[must_use]
    pub fn judged(mut self, strictness: Strictness) -> Self {
        if strictness == Strictness::Strict {
            self.cases.iter_mut().for_each(CaseReport::judge_strictly);
        }
        self
    }

    /// Returns calls that were answered although their question has changed.
    pub fn stale(&self) -> impl Iterator<Item = &str> {
        let turns = self.cases.iter().flat_map(|case| &case.turns);
        turns.flat_map(|turn| turn.stale.iter().map(String::as_str))
    }

    /// Formats the result for a terminal: one line for the file, and what is wrong.
    pub fn lines(&self) -> String {
        let mut lines = String::new();
        let (passed, all) = (self.passed_count(), self.cases.len());
        let mark = if self.passed() { "ok    " } else { "FAILED" };
        let share =
            if self.pass < 1.0 { format!(", {} required", percent(self.pass)) } else { String::new() };
        let count = match all {
            1 => String::new(),
            _ => format!("  {passed} of {all} cases passed{share}"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "{mark} {}{count}", self.file);
        for case in self.cases.iter().filter(|case| !case.passed()) {
            if all > 1 {
                let _ = writeln!(lines, "  {}", case.case);
            }
            for problem in case.problems() {
                problem.lines().for_each(|line| {
                    let _ = writeln!(lines, "    {line}");
                });
            }
        }
        let stale: Vec<_> = self.stale().collect();
        if let Some(first) = stale.first() {
            let more = if stale.len() > 1 { format!(" and {} more", stale.len() - 1) } else { String::new() };
            let _ = writeln!(
                lines,
                "    note: {first}{more}: the question differs from the recording; `--live --update` records it again"
            );
        }
        lines
    }
}

/// Returns the last line: a summary of all files.
pub fn summary(files: &[FileReport]) -> String {
    let failed = files.iter().filter(|file| !file.passed()).count();
    let cases: usize = files.iter().map(|file| file.cases.len()).sum();
    let passed: usize = files.iter().map(FileReport::passed_count).sum();
    let word =
        |count: usize, word: &str| if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") };
    let (files, all) = (word(files.len(), "file"), word(cases, "case"));
    match failed {
        0 => format!("all passed: {files}, {passed} of {all}"),
        failed => format!("{failed} of {files} failed; {passed} of {all} passed"),
    }
}

/// Returns one JSON object with everything.
pub fn json(files: &[FileReport]) -> serde_json::Value {
    let files: Vec<_> = files
        .iter()
        .map(|file| {
            let mut told = serde_json::json!(file);
            told["passed"] = file.passed().into();
            for (case, told) in file.cases.iter().zip(told["cases"].as_array_mut().into_iter().flatten()) {
                told["passed"] = case.passed().into();
            }
            told
        })
        .collect();
    // Derived from the reported values, so that the total and its parts cannot disagree.
    let passed = files.iter().all(|file| file["passed"] == true);
    serde_json::json!({"passed": passed, "files": files})
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

/// Escapes a text for XML and HTML, including quoted attributes. Characters that XML cannot represent are left out.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => safe.push(c),
        }
    }
    safe
}

/// Describes the usage of a turn.
fn used(seen: &Observed) -> String {
    let spent = &seen.spent;
    let mut parts = vec![plural(spent.model_calls, "model call"), plural(spent.tokens, "token")];
    if spent.tool_calls > 0 {
        parts.push(plural(spent.tool_calls, "tool call"));
    }
    if spent.micros > 0 {
        parts.push(format!("{:.4} money", seen.money()));
    }
    parts.join(", ")
}

/// Returns the nodes that ran, with their outputs.
fn nodes(seen: &Observed) -> impl Iterator<Item = (&str, String)> {
    seen.nodes.iter().map(|node| (node.node.as_str(), short(&to_text(&node.outputs))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weft_core::budget::Spent;
    use weft_core::journal::Ending;

    pub(super) fn report(passed: &[bool], pass: f64) -> FileReport {
        let seen = Observed {
            answer: "<script>alert('x')</script> & \u{1}\"".into(),
            outputs: json!({}),
            nodes: Vec::new(),
            tools: Vec::new(),
            cited: Vec::new(),
            warnings: Vec::new(),
            ending: Ending::Succeeded,
            error: None,
            spent: Spent::default(),
        };
        let miss = Miss { expectation: Some(0), ..Miss::new("answer contains", "\"<b>\"", "\"]]>&\"") };
        let case = |(at, passed): (usize, &bool)| CaseReport {
            case: format!("row {at} <&>"),
            turns: vec![TurnReport {
                query: "</pre><img src=x onerror=alert(1)>".into(),
                expectations: 1,
                misses: if *passed { Vec::new() } else { vec![miss.clone()] },
                stale: vec!["model#0 of LLM:A".into()],
                seen: seen.clone(),
            }],
            error: None,
            seconds: 0.5,
            recorded: None,
        };
        let cases = passed.iter().enumerate().map(case).collect();
        FileReport { file: "a/eval.yaml".into(), about: "shows <i>".into(), pass, cases }
    }

    #[test]
    fn the_pass_threshold_is_enforced() {
        let check = |passed: &[bool], pass, expected| assert_eq!(report(passed, pass).passed(), expected);
        check(&[true, true], 1.0, true);
        check(&[true, false], 1.0, false);
        check(&[true, false], 0.5, true);
        check(&[true, false, false], 0.5, false);
        check(&[true, true, true, true, true, true, true, false, false, false], 0.7, true);
        check(&[false], 0.0, true);
    }

    #[test]
    fn failure_lines_state_place_expected_and_actual() {
        let lines = report(&[true, false], 1.0).lines();
        let told = "FAILED a/eval.yaml  1 of 2 cases passed\n  row 1 <&>\n    answer contains (expect[0])\n      expected: \"<b>\"\n      got:      \"]]>&\"\n    note: model#0 of LLM:A and 1 more: the question differs";
        assert!(lines.starts_with(told), "{lines}");
        assert!(report(&[true], 1.0).lines().starts_with("ok     a/eval.yaml\n"));
        let files = [report(&[true, false], 1.0), report(&[true], 1.0)];
        assert_eq!(summary(&files), "1 of 2 files failed; 2 of 3 cases passed");
        assert_eq!(summary(&files[1..]), "all passed: 1 file, 1 of 1 case");
        assert_eq!(json(&files)["files"][0]["cases"][1]["passed"], false);
    }

    #[test]
    fn warnings_can_be_treated_as_failures() {
        assert!(report(&[true], 1.0).judged(Strictness::Lenient).passed());
        assert!(!report(&[true], 1.0).judged(Strictness::Strict).passed());
    }

    #[test]
    fn model_output_is_escaped() {
        let files = [report(&[true, false], 1.0)];
        for text in [page(&files), junit(&files)] {
            assert!(text.contains("&lt;img src=x"), "{text}");
            for evil in ["<img", "<script>alert", "<b>", "<i>", "]]>", "\u{1}"] {
                assert!(!text.contains(evil), "{evil} in {text}");
            }
        }
        let page = page(&files);
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("<script"), "{page}");
    }
}
