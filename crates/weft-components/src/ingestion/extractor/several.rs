//! What newer editors request from one Extractor: keywords, questions, a summary and metadata, each with built-in
//! instructions unless the canvas has its own.

use weft_core::seam::chat_model::Author;
use weft_core::{Json, ParamProblem};
use weft_knowledge::ingest::{Listing, form_instructions, wanted_metadata};

use super::{AnswerFormat, ExtractorQuestion, Words};
use crate::params::{Field, Kind, Params, asks_for_something, number, pointer, truth, whole};

/// The text that the model reads.
const PASSAGE: &str = "<passage>\n{Chunker@chunks}\n</passage>";
const SUMMARY: &str = "You read a passage and write a summary of it: what matters most, with nothing that it does not say, in a few \
                       sentences, in the language of the passage. Write the summary and nothing else.";

// Accepted, but not offered: canvases made here use `field_name`, with a node for each.
pub(super) static KEYWORDS: Field = Field::raw(
    "keywords",
    Kind::Any,
    "as newer editors ask for keywords: an object with `top_n` and `system_prompt`",
)
.not_offered();
pub(super) static QUESTIONS: Field = Field::raw(
    "questions",
    Kind::Any,
    "as newer editors ask for questions: an object with `top_n` and `system_prompt`",
)
.not_offered();
pub(super) static SUMMARY_ASKED: Field = Field::raw(
    "summary",
    Kind::Any,
    "as newer editors ask for a summary: an object with `enabled` and `system_prompt`",
)
.not_offered();
pub(super) static METADATA: Field = Field::raw(
    "metadata",
    Kind::Any,
    "as newer editors ask for metadata: an object with `enabled` and `metadata`, or the keys",
)
.not_offered();
pub(super) static TAGS: Field = Field::raw("tags", Kind::Any, "has no effect").not_offered();
pub(super) static AUTO_KEYWORDS: Field =
    Field::raw("auto_keywords", Kind::Any, "how many keywords").not_offered();
pub(super) static AUTO_QUESTIONS: Field =
    Field::raw("auto_questions", Kind::Any, "how many questions").not_offered();
pub(super) static AUTO_TAGS: Field = Field::raw("auto_tags", Kind::Any, "has no effect").not_offered();
pub(super) static ENABLE_METADATA: Field =
    Field::raw("enable_metadata", Kind::Any, "whether metadata is wanted").not_offered();

/// Whether a node is written in this format, even if it requests nothing: its editor writes all of them, switched off.
pub(super) fn is_said(params: &Params<'_>) -> bool {
    let grouped = [&KEYWORDS, &QUESTIONS, &SUMMARY_ASKED, &METADATA, &TAGS];
    let flat = [&AUTO_KEYWORDS, &AUTO_QUESTIONS, &AUTO_TAGS, &ENABLE_METADATA];
    grouped.into_iter().chain(flat).any(|field| params.get(field).is_some())
}

/// Returns the questions, and reports problems.
pub(super) fn questions(params: &mut Params<'_>) -> Vec<ExtractorQuestion> {
    let mut asked = Vec::new();
    asked.extend(listing(params, Listing::Keywords));
    asked.extend(listing(params, Listing::Questions));
    asked.extend(summary(params));
    asked.extend(metadata(params));
    for field in [&TAGS, &AUTO_TAGS] {
        let value = params.get(field).map(|value| value.get("top_n").unwrap_or(value));
        if value.is_some_and(asks_for_something) {
            let message = "has no effect: tags come from the sets that a dataset names";
            let problem = ParamProblem::new(params.pointer(field), message);
            params.warn(problem.help("name them in `tag_kb_ids` of the settings of the dataset"));
        }
    }
    asked
}

fn question(
    params: &Params<'_>,
    field: &str,
    instructions: &str,
    reading: AnswerFormat,
) -> ExtractorQuestion {
    ExtractorQuestion {
        field: field.to_owned(),
        system: Words::read(instructions, params),
        prompts: vec![(Author::User, Words::read(PASSAGE, params))],
        reading,
    }
}

/// Returns the instructions of the canvas, or the built-in ones.
fn instructions(params: &Params<'_>, field: &Field, ours: String) -> String {
    let given = params.get(field).and_then(|asked| asked.get("system_prompt")).and_then(Json::as_str);
    given.filter(|text| !text.trim().is_empty()).map_or(ours, str::to_owned)
}

fn listing(params: &mut Params<'_>, listing: Listing) -> Option<ExtractorQuestion> {
    let (field, older) = match listing {
        Listing::Keywords => (&KEYWORDS, &AUTO_KEYWORDS),
        Listing::Questions => (&QUESTIONS, &AUTO_QUESTIONS),
    };
    let count = match (params.get(field).and_then(|asked| asked.get("top_n")), params.get(older)) {
        (Some(asked), _) => count(params, &pointer(&[field.name(), "top_n"]), asked, listing.most()),
        (None, Some(asked)) => count(params, &pointer(&[older.name()]), asked, listing.most()),
        (None, None) => 0,
    };
    if count == 0 {
        return None;
    }
    let instructions = instructions(params, field, listing.instructions(count));
    Some(question(params, field.name(), &instructions, AnswerFormat::Entries(listing, count)))
}

fn count(params: &mut Params<'_>, at: &str, asked: &Json, most: u64) -> u64 {
    if !asks_for_something(asked) {
        return 0;
    }
    match number(asked).and_then(whole).and_then(|count| u64::try_from(count).ok()) {
        Some(count) => count.min(most),
        None => {
            params.problem(ParamProblem::new(at, format!("must be a whole number from 0 to {most}")));
            0
        }
    }
}

fn summary(params: &mut Params<'_>) -> Option<ExtractorQuestion> {
    let asked = params.get(&SUMMARY_ASKED).and_then(|asked| asked.get("enabled"));
    asked.and_then(truth).filter(|wanted| *wanted)?;
    let instructions = instructions(params, &SUMMARY_ASKED, SUMMARY.to_owned());
    Some(question(params, SUMMARY_ASKED.name(), &instructions, AnswerFormat::Text))
}

fn metadata(params: &mut Params<'_>) -> Option<ExtractorQuestion> {
    let older = params.get(&ENABLE_METADATA);
    let (asked, keys) = match params.get(&METADATA) {
        Some(Json::Object(asked)) => (asked.get("enabled").or(older), asked.get("metadata")),
        keys => (older, keys),
    };
    asked.and_then(truth).filter(|wanted| *wanted)?;
    let wanted = wanted_metadata(keys);
    if wanted.is_empty() {
        let problem = ParamProblem::new(params.pointer(&METADATA), "no metadata keys are given");
        params.warn(problem.help("name the keys, each with a description, or switch it off"));
        return None;
    }
    let instructions = form_instructions("a passage", &wanted);
    Some(question(params, METADATA.name(), &instructions, AnswerFormat::Form(wanted)))
}
