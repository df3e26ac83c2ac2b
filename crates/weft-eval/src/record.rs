//! Writes files: recordings, and suggested expectations.

use std::path::PathBuf;

use serde::Serialize;
use weft_core::Json;
use weft_core::journal::Ending;

use crate::expect::{
    CallTest, CitationsTest, Expectation, OneOrManyTexts, OutputTest, TextTest, ToolsTest, UsageLimits,
};
use crate::file::{EvalFile, Invalid, RecordedCase, Turn, VERSION};
use crate::observed::Observed;

/// The key of recordings, at the end of a file.
const RECORDED: &str = "recorded:";
const NOTE: &str = "# What follows was recorded. `weft eval FILE --live --update` writes it anew.\n";
/// Maximum length in characters of answers that are expected verbatim.
const WHOLE_CHARS_MAX: usize = 200;

/// Creates a file from turns that were run.
pub fn file(canvas: PathBuf, turns: Vec<(Turn, Observed)>, recorded: RecordedCase) -> EvalFile {
    let turns = turns.into_iter().map(|(turn, seen)| Turn { expect: suggested(&seen), ..turn });
    EvalFile {
        weft_eval: VERSION,
        about: String::new(),
        canvas,
        dataset: None,
        repeat: 1,
        pass: 1.0,
        turns: turns.collect(),
        recorded: vec![recorded],
    }
}

/// Suggests expectations for a turn. Users remove what does not matter.
fn suggested(seen: &Observed) -> Vec<Expectation> {
    let mut expect = Vec::new();
    if seen.ending != Ending::Succeeded {
        expect.push(Expectation::Status(seen.ending));
    }
    if !seen.answer.trim().is_empty() {
        // Long answers of a model differ a little each time, so that they would hardly ever match verbatim.
        let whole = seen.answer.chars().count() <= WHOLE_CHARS_MAX;
        let text = Some(seen.answer.clone());
        expect.push(Expectation::Answer(if whole {
            TextTest { equals: text, ..TextTest::default() }
        } else {
            TextTest { similar_to: text, ..TextTest::default() }
        }));
    }
    for node in &seen.nodes {
        if let Some(value) = node.outputs.get("structured").filter(|value| **value != Json::Null) {
            // A node in a loop ends several times, and an expectation can only concern the last.
            expect.retain(
                |known| !matches!(known, Expectation::Output(of) if of.node.as_deref() == Some(&node.node)),
            );
            expect.push(Expectation::Output(Box::new(OutputTest {
                node: Some(node.node.clone()),
                at: "/structured".to_owned(),
                equals: Some(value.clone()),
                ..OutputTest::default()
            })));
        }
    }
    if !seen.tools.is_empty() {
        let called = seen.tools.iter().map(|call| CallTest {
            tool: call.tool.clone(),
            // No count: how often a call is made says little about whether the turn is good.
            arguments: Some((*call.arguments).clone()),
            times: None,
            failed: call.failed.then_some(true),
        });
        let called = called.collect();
        expect.push(Expectation::Tools(ToolsTest { called, only: true, ..ToolsTest::default() }));
    }
    if !seen.cited.is_empty() {
        // Sorted: the order in which sources are cited changes with the wording.
        let mut names: Vec<_> = seen.cited.iter().map(|cited| cited.chunk.document_name.clone()).collect();
        names.sort();
        names.dedup();
        let documents = Some(OneOrManyTexts::Many(names));
        expect.push(Expectation::Citations(CitationsTest {
            resolve: true,
            documents,
            ..CitationsTest::default()
        }));
    }
    // Calls and not tokens, which differ with every wording.
    if seen.spent.model_calls > 0 {
        let model_calls = Some(seen.spent.model_calls);
        expect.push(Expectation::AtMost(UsageLimits { model_calls, ..UsageLimits::default() }));
    }
    expect
}

/// Formats a file as text.
///
/// # Errors
/// When it cannot be written so that it would be parsed as the same.
pub fn text(file: &EvalFile) -> Result<String, Invalid> {
    let people = yaml(&EvalFile { recorded: Vec::new(), ..file.clone() })?;
    with_recorded(&people, &file.recorded)
}

/// Replaces the recordings in the text of a file. What users wrote is unchanged.
///
/// # Errors
/// As [`text`]; also when the recordings are not the last section of the file.
pub fn with_recorded(text: &str, recorded: &[RecordedCase]) -> Result<String, Invalid> {
    #[derive(Serialize)]
    struct RecordedSection<'a> {
        recorded: &'a [RecordedCase],
    }
    let people = match before_recorded(text) {
        Some((people, rest)) => {
            if let Some(line) = rest.lines().find(|line| is_key(line)) {
                return Err(Invalid::new(format!("`{line}` comes after `{RECORDED}`"))
                    .help("move it before the recordings, which are replaced up to the end of the file"));
            }
            people
        }
        None => text,
    };
    // The note is written again with the recording, and would otherwise be duplicated.
    let people = people.strip_suffix(NOTE).unwrap_or(people);
    let gap = if people.ends_with('\n') || people.is_empty() { "" } else { "\n" };
    let whole = format!("{people}{gap}{NOTE}{}", yaml(&RecordedSection { recorded })?);
    // Parsed before it is written: it includes what users wrote, of which there is no other copy.
    let read = EvalFile::parse(&whole)?;
    if read.recorded != recorded {
        return Err(Invalid::new("the recording would not be read back unchanged"));
    }
    Ok(whole)
}

fn before_recorded(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        // Only at the beginning of a line: if indented, it is part of what users wrote.
        if line.starts_with(RECORDED) {
            return Some((text.get(..at)?, text.get(at + line.len()..)?));
        }
        at += line.len();
    }
    None
}

/// Whether a line begins a top-level member of the file.
fn is_key(line: &str) -> bool {
    line.starts_with(|c: char| c.is_alphabetic() || matches!(c, '"' | '\''))
}

fn yaml(value: &impl Serialize) -> Result<String, Invalid> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 100 };
    let mut text = String::new();
    serde_saphyr::to_fmt_writer_with_options(&mut text, value, options)
        .map_err(|error| Invalid::new(format!("it cannot be written: {error}")))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::RecordedTurn;
    use proptest::prelude::*;
    use serde_json::json;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use weft_core::effect::EffectResult;
    use weft_core::{ErrorKind, Json};
    use weft_engine::recording::{RecordedAnswers, Where};

    fn recorded(value: Json, failure: &str) -> Vec<RecordedCase> {
        let gave = BTreeMap::from([
            (Arc::from("model#0"), EffectResult::Value(Arc::new(value))),
            (
                Arc::from("a/b-->http#1"),
                EffectResult::Failure { kind: ErrorKind::Timeout, message: failure.into() },
            ),
        ]);
        let asked = BTreeMap::from([(Arc::from("model#0"), Arc::from("0123456789012345"))]);
        let place = Where { node: "LLM:A".into(), rounds: vec![0, 2] };
        let answers = vec![RecordedAnswers { place, gave, asked }];
        let turn = RecordedTurn {
            now_ms: 1_700_000_000_000,
            seed: u64::MAX,
            models: BTreeMap::new(),
            answers,
            judged: Vec::new(),
        };
        vec![RecordedCase { case: "run".into(), turns: vec![turn] }]
    }

    const PEOPLE: &str = "# Kept.\nweft_eval: 1\ncanvas: c.json # here, too\nturns:\n- query: x\n";

    #[test]
    fn handwritten_parts_stay_when_recordings_are_replaced() {
        let first = with_recorded(PEOPLE, &recorded(json!("one"), "late")).unwrap();
        assert!(first.starts_with(&format!("{PEOPLE}{NOTE}{RECORDED}")), "{first}");
        let second = with_recorded(&first, &recorded(json!("two"), "late")).unwrap();
        assert_eq!(second, first.replace("one", "two"));
        let after = format!("{first}pass: 0.5\n");
        assert!(with_recorded(&after, &[]).unwrap_err().message.contains("pass: 0.5"));
    }

    fn value() -> impl Strategy<Value = Json> {
        let text = prop_oneof![
            "\\PC{0,12}",
            "[ \\n\\t:#'\"-]{0,6}",
            "([a-z: ]{0,8}\\n){1,3}[ a-z]{0,90}",
            Just("\u{1}\u{7f}\u{85}\u{feff}\u{2028}\r\n".to_owned()),
            prop::sample::select(vec![
                "null",
                "~",
                "true",
                "no",
                "1",
                "1.0",
                "0x1f",
                "1e3",
                ".nan",
                "",
                " ",
                "<<",
                "---",
                "2020-01-01",
                "|",
                "&a",
                "*a",
                "!t"
            ])
            .prop_map(str::to_owned),
        ];
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            (-1e9f64..1e9).prop_map(Json::from),
            text.prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::vec(("\\PC{0,6}", inner), 0..4)
                    .prop_map(|all| Json::Object(all.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn recordings_round_trip(value in value(), failure in "\\PC{0,20}") {
            let recorded = recorded(value, &failure);
            let text = with_recorded(PEOPLE, &recorded).unwrap();
            prop_assert_eq!(EvalFile::parse(&text).unwrap().recorded, recorded);
        }
    }
}
