//! The file of an eval: the questions, the expectations, and the recorded answers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weft_core::context::Pin;
use weft_core::seam::chat_model::ModelInfo;
use weft_core::{ComponentId, Json, TurnInput};
use weft_engine::recording::RecordedAnswers;

use crate::dataset::{self, Row};
use crate::expect::Expectation;

/// The version of the format. Increased when an old reader would misread a new file.
pub const VERSION: u32 = 1;
/// Maximum number of bytes in a file.
pub const FILE_BYTES_MAX: usize = 64 << 20;
/// Maximum nesting depth of lists and maps.
const DEPTH_MAX: usize = 200;
/// Maximum number of turns in a conversation.
const TURNS_MAX: usize = 1_000;
/// Maximum number of repetitions of a case.
const REPEAT_MAX: u32 = 100;

/// An eval as written in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalFile {
    /// The version: [`VERSION`].
    pub weft_eval: u32,
    /// What it demonstrates, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The canvas, as a path relative to the folder of this file.
    pub canvas: PathBuf,
    /// Rows to run it with, one case for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<DatasetFile>,
    /// How often each case runs; every run has its own recording.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub repeat: u32,
    /// The share of cases that must pass, 0 to 1.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    pub pass: f64,
    /// The conversation.
    pub turns: Vec<Turn>,
    /// Answers of models, tools and services. The last section of the file, written by the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorded: Vec<RecordedCase>,
}

fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_once(repeat: &u32) -> bool {
    *repeat == 1
}

fn all() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_all(pass: &f64) -> bool {
    *pass >= 1.0
}

/// The source of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetFile {
    /// A `.csv` with a header or a `.jsonl` of objects, as a path relative to the folder of the eval.
    pub file: PathBuf,
    /// The column that names the cases; without it they are numbered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// One turn of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The question.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub query: String,
    /// Form values.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub inputs: serde_json::Map<String, Json>,
    /// Attached files as texts or data URIs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Json>,
    /// The user who asks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user_id: String,
    /// Nodes that do not run, with their outputs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pins: BTreeMap<ComponentId, Pin>,
    /// The webhook call of another program: `query`, `headers`, `body`, `request`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Json>,
    /// Expectations. Unless one concerns the status, the turn has to succeed, or to wait for a person if another turn
    /// follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Expectation>,
}

impl Turn {
    /// Returns the input for the engine.
    pub fn input(&self) -> TurnInput {
        TurnInput {
            query: self.query.clone(),
            user_id: self.user_id.clone(),
            files: self.files.clone(),
            inputs: self.inputs.clone(),
            pins: self.pins.clone(),
            webhook: self.webhook.clone().map(Box::new),
            ..TurnInput::default()
        }
    }

    /// Creates a turn from the input of an engine, without expectations.
    pub fn of(input: TurnInput) -> Self {
        // Without `..`, so that a new field of an input is not forgotten here.
        let TurnInput {
            query,
            user_id,
            files,
            inputs,
            pins,
            webhook,
            parallel_messages: _,
            background: _,
            all_sources: _,
            notes: _,
        } = input;
        Self { query, inputs, files, user_id, pins, webhook: webhook.map(|call| *call), expect: Vec::new() }
    }
}

/// Recorded answers for one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedCase {
    /// The name of the case.
    pub case: String,
    /// The turns, in order.
    pub turns: Vec<RecordedTurn>,
}

/// Recorded answers for one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedTurn {
    /// The time that it uses as the current time, in milliseconds since 1970.
    pub now_ms: i64,
    /// The seed of random choices.
    pub seed: u64,
    /// The models, by their ids in the canvas.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelInfo>,
    /// The answers, by activation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<RecordedAnswers>,
    /// Verdicts of models on criteria, in the order of the expectations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judged: Vec<JudgedCriterion>,
}

/// A model's verdict on a criterion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgedCriterion {
    /// The criterion.
    pub criterion: String,
    /// The answer that was judged; the verdict does not apply to another one.
    pub answer: String,
    /// Whether the answer meets it.
    pub meets: bool,
    /// The reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub because: String,
}

/// Why a file is not a valid eval, with the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// What is wrong, and where.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

impl Invalid {
    /// Creates an error without a remedy.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// A case that is ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Its name, unique in the file.
    pub name: String,
    /// The conversation, filled with the values of its row.
    pub turns: Vec<Turn>,
    /// The recorded answers.
    pub recorded: Option<RecordedCase>,
}

impl EvalFile {
    /// Parses a file and checks everything in it that can be checked in isolation.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() > FILE_BYTES_MAX {
            return Err(Invalid::new(format!("it is larger than {FILE_BYTES_MAX} bytes"))
                .help("split it into several files, or its data set"));
        }
        // A field that is unknown to this reader may be known to its writer.
        #[derive(Deserialize)]
        struct Head {
            weft_eval: Option<u32>,
        }
        let place = |error: &serde_saphyr::Error| Invalid::new(error.without_snippet().to_string());
        // The size of the file bounds the rest.
        let budget = || {
            serde_saphyr::budget! {
                max_events: FILE_BYTES_MAX, max_nodes: FILE_BYTES_MAX, max_total_scalar_bytes: FILE_BYTES_MAX,
                max_depth: DEPTH_MAX,
            }
        };
        let options = || serde_saphyr::options! { budget: budget() };
        // Read before the whole file, so that a newer file is reported by its version.
        let head: Head = serde_saphyr::from_str_with_options(text, options()).map_err(|e| place(&e))?;
        match head.weft_eval {
            Some(VERSION) => {}
            None => {
                return Err(Invalid::new("it has no `weft_eval`, so it is not an eval").help(format!(
                    "start it with `weft_eval: {VERSION}`, or let `weft eval record` write it"
                )));
            }
            Some(other) => {
                return Err(Invalid::new(format!(
                    "it has version {other}; this Weft reads version {VERSION}"
                ))
                .help("use the version of Weft that wrote it, or record it again"));
            }
        }
        let file: Self = serde_saphyr::from_str_with_options(text, options()).map_err(|e| place(&e))?;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), Invalid> {
        if self.turns.is_empty() || self.turns.len() > TURNS_MAX {
            return Err(Invalid::new(format!("`turns` must contain 1 to {TURNS_MAX} turns")));
        }
        if !(1..=REPEAT_MAX).contains(&self.repeat) {
            return Err(Invalid::new(format!("`repeat` must be from 1 to {REPEAT_MAX}")));
        }
        if !(0.0..=1.0).contains(&self.pass) {
            return Err(Invalid::new("`pass` must be a share from 0 to 1, such as 0.9"));
        }
        for (at, turn) in self.turns.iter().enumerate() {
            for (nth, expectation) in turn.expect.iter().enumerate() {
                expectation
                    .check()
                    .map_err(|why| Invalid::new(format!("turns[{at}].expect[{nth}]: {why}")))?;
            }
        }
        Ok(())
    }

    /// Returns its cases: one for each row and repetition. `rows` is `None` for an eval without a data set.
    ///
    /// # Errors
    /// When a text names a column that a row does not have, or two cases have the same name.
    pub fn cases(&self, rows: Option<&[Row]>) -> Result<Vec<Case>, Invalid> {
        let mut cases: Vec<Case> = Vec::new();
        // Both by name: with many rows, looking through all earlier cases for each one would take minutes.
        let mut names: HashSet<String> = HashSet::new();
        // In reverse, so that the first of several recordings of a case counts.
        let recordings: HashMap<&str, &RecordedCase> =
            self.recorded.iter().rev().map(|of| (of.case.as_str(), of)).collect();
        // An eval without a data set is one case, as with a single row without columns.
        let whole = [Row::new()];
        let column = self.dataset.as_ref().and_then(|dataset| dataset.name.as_deref());
        for (at, row) in rows.unwrap_or(&whole).iter().enumerate() {
            let number = rows.map(|_| at + 1);
            let turns = dataset::fill(&self.turns, row).map_err(|why| match number {
                Some(number) => Invalid::new(format!("row {number}: {why}")),
                None => Invalid::new(why).help("name a data set: dataset: {file: rows.csv}"),
            })?;
            let name = case_name(number, column, row)?;
            for repetition in 1..=self.repeat {
                // The first repetition keeps its name, so that recordings remain valid when `repeat` is increased.
                let name = if repetition == 1 { name.clone() } else { format!("{name} #{repetition}") };
                if !names.insert(name.clone()) {
                    return Err(Invalid::new(format!("two cases are named `{name}`"))
                        .help("let `dataset.name` name a column whose values differ"));
                }
                let recorded = recordings.get(name.as_str()).map(|of| (*of).clone());
                cases.push(Case { name, turns: turns.clone(), recorded });
            }
        }
        Ok(cases)
    }
}

fn case_name(number: Option<usize>, column: Option<&str>, row: &Row) -> Result<String, Invalid> {
    match (number, column) {
        (None, _) => Ok("run".to_owned()),
        (Some(number), None) => Ok(format!("row {number}")),
        (Some(number), Some(column)) => {
            row.get(column).map(weft_core::value::to_text).filter(|name| !name.is_empty()).ok_or_else(|| {
                Invalid::new(format!(
                    "row {number} has no value in the column `{column}`, which names the cases"
                ))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "weft_eval: 1\ncanvas: canvas.json\nturns:\n- query: hi\n  expect:\n  - answer:\n      contains: hi\n";

    #[test]
    fn errors_are_reported_with_their_place() {
        let check = |change: (&str, &str), part: &str| {
            let text = SMALL.replace(change.0, change.1);
            let message = EvalFile::parse(&text).unwrap_err().message;
            assert!(message.contains(part), "{message}");
        };
        EvalFile::parse(SMALL).unwrap();
        check(("      contains: hi", "      contians: hi"), "line 7");
        check(("      contains: hi", "      contians: hi"), "contians");
        check(("  - answer:", "  - anwser:"), "anwser");
        check(("- query: hi", "- question: hi"), "line 4");
        check(("weft_eval: 1\n", ""), "not an eval");
        check(("weft_eval: 1", "weft_eval: 9\nnew_thing: 1"), "version 9");
        check(("turns:", "pass: 2\nturns:"), "`pass`");
        check(("contains: hi", "matches: '('"), "turns[0].expect[0]");
        check(("- query: hi\n", "- query: [hi\n"), "line");
        check(("contains: hi", "contains: ''"), "every text");
        check(("query: hi", &format!("inputs: {{x: {}}}", "[".repeat(100_000))), "limit");
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        (1..12).for_each(|n| {
            let inner = format!("*a{},", n - 1).repeat(10);
            bomb.push_str(&format!("a{n}: &a{n} [{inner}]\n"));
        });
        assert!(EvalFile::parse(&format!("{bomb}{SMALL}")).is_err());
    }

    #[test]
    fn cases_are_rows_times_repetitions() {
        let text = SMALL
            .replace("query: hi", "query: 'say {{row.word}}'")
            .replace("turns:", "dataset: {file: rows.csv, name: word}\nrepeat: 2\nturns:");
        let file = EvalFile::parse(&text).unwrap();
        let row = |word: &str| Row::from_iter([("word".to_owned(), Json::from(word))]);
        let cases = file.cases(Some(&[row("a"), row("b")])).unwrap();
        let told: Vec<_> = cases.iter().map(|case| (&*case.name, &*case.turns[0].query)).collect();
        assert_eq!(told, [("a", "say a"), ("a #2", "say a"), ("b", "say b"), ("b #2", "say b")]);
        assert!(file.cases(Some(&[row("a"), row("a")])).unwrap_err().message.contains("two cases"));
        assert!(file.cases(Some(&[Row::new()])).unwrap_err().message.contains("row 1"));
    }

    #[test]
    fn many_rows_take_no_more_than_their_share_of_time() {
        let text = SMALL.replace("turns:", "dataset: {file: rows.csv, name: word}\nrepeat: 2\nturns:");
        let file = EvalFile::parse(&text).unwrap();
        let row = |at: usize| Row::from_iter([("word".to_owned(), Json::from(format!("word {at:06}")))]);
        let rows: Vec<Row> = (0..60_000).map(row).collect();
        let began = std::time::Instant::now();
        assert_eq!(file.cases(Some(&rows)).unwrap().len(), 120_000);
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
