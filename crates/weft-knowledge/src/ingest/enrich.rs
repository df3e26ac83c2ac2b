//! What a model adds to chunks and documents: keywords, questions, metadata, and whatever else is derived
//! from a document.

use weft_core::filter::Metadata;
use weft_core::seam::dataset_store::{Document, Extra, Settings, StoredChunk};
use weft_core::seam::{ChatModel, ModelDirectory};
use weft_core::value::Json;
use weft_core::{Result, async_trait};

use super::plan::{IngestPlan, KEYWORDS_MAX, QUESTIONS_MAX};
use crate::ask::{answer, request};

/// Maximum number of characters of a text that a model is shown.
const SHOWN_MAX: usize = 8_000;

/// Maximum number of characters of a keyword or a question; longer ones are discarded.
const ANSWER_LINE_MAX: usize = 300;

/// Something derived from a document besides its chunks, such as its table of contents or its graph.
///
/// It is built again when a worker has to start over, so an implementation should return the same kind of
/// result each time.
#[async_trait]
pub trait Addition: Send + Sync {
    /// What it builds.
    fn extra(&self) -> Extra;

    /// Whether these settings ask for it.
    fn wanted(&self, settings: &Settings) -> bool;

    /// Builds it from the chunks of a document, which come in order and without parents.
    ///
    /// # Errors
    /// A temporary failure, after which it is requested again later; after any other, the document is
    /// completed without it, with a note.
    async fn make(
        &self,
        models: &dyn ModelDirectory,
        document: &Document,
        chunks: &[StoredChunk],
    ) -> Result<MadeAddition>;
}

/// What was derived from a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MadeAddition {
    /// The result; null if there is none.
    pub value: Json,
    /// What is missing from it, for people to read.
    pub notes: Vec<String>,
}

/// What a model adds to a chunk.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ChunkAdditions {
    pub(super) keywords: Option<Vec<String>>,
    pub(super) questions: Option<Vec<String>>,
}

/// What a model lists about a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Keywords by which it is found.
    Keywords,
    /// Questions that it answers.
    Questions,
}

impl Listing {
    /// Returns the maximum number of entries.
    pub fn most(self) -> u64 {
        match self {
            Self::Keywords => KEYWORDS_MAX,
            Self::Questions => QUESTIONS_MAX,
        }
    }

    /// Returns the instructions for a model that is to list `count` entries.
    pub fn instructions(self, count: u64) -> String {
        match self {
            Self::Keywords => format!(
                "You read a passage and name the {count} most important keywords or phrases in it. Write them in the language of the \
                 passage, in one line, with commas between them, and nothing else."
            ),
            Self::Questions => format!(
                "You read a passage and write {count} questions that it answers, the most important first. Each question can be \
                 understood without the passage. Write them in the language of the passage, one in each line, and nothing else."
            ),
        }
    }

    /// Parses up to `count` entries from the model's answer.
    pub fn read(self, answer: &str, count: u64) -> Vec<String> {
        let between: &[char] = match self {
            Self::Keywords => &[',', '，', '、', ';', '；', '\n'],
            Self::Questions => &['\n'],
        };
        listed(answer, between, count)
    }

    async fn of(self, model: &dyn ChatModel, count: u64, passage: &str) -> Result<Vec<String>> {
        Ok(self.read(&ask(model, &self.instructions(count), passage).await?, count))
    }
}

/// Requests what is wanted but missing from a chunk. Existing entries are kept.
pub(super) async fn chunk(
    model: &dyn ChatModel,
    plan: &IngestPlan,
    chunk: &StoredChunk,
) -> Result<ChunkAdditions> {
    let mut added = ChunkAdditions::default();
    if plan.keywords > 0 && chunk.keywords.is_empty() {
        added.keywords = Some(Listing::Keywords.of(model, plan.keywords, &chunk.content).await?);
    }
    if plan.questions > 0 && chunk.questions.is_empty() {
        added.questions = Some(Listing::Questions.of(model, plan.questions, &chunk.content).await?);
    }
    Ok(added)
}

/// Requests the metadata of a document.
pub(super) async fn metadata(model: &dyn ChatModel, plan: &IngestPlan, text: &str) -> Result<Metadata> {
    let instructions = form_instructions("the beginning", &plan.metadata);
    Ok(filled_in(&ask(model, &instructions, text).await?, &plan.metadata))
}

/// Returns the instructions for a model that is to determine metadata of a document of which it reads a part,
/// such as the beginning: the keys, each with its description.
pub fn form_instructions(part: &str, wanted: &[(String, String)]) -> String {
    let mut instructions = format!(
        "You read {part} of a document and fill in a form about the document. Answer with one JSON object with the keys below \
         and nothing else. A value is a text, a number or a list of them. Leave out what the text does not say.\n"
    );
    for (key, said) in wanted {
        instructions.push_str(&format!("- {}: {said}\n", Json::from(key.as_str())));
    }
    instructions
}

/// Returns the values of an answer that filters can use, for keys that were requested.
pub fn filled_in(answer: &str, wanted: &[(String, String)]) -> Metadata {
    // Models often add text around the object.
    let object = answer.find('{').zip(answer.rfind('}')).filter(|(begin, end)| begin < end);
    let object = object.and_then(|(begin, end)| serde_json::from_str::<Metadata>(&answer[begin..=end]).ok());
    let plain = |value: &Json| match value {
        Json::String(text) => !text.trim().is_empty(),
        Json::Number(_) => true,
        _ => false,
    };
    let fits = |value: &Json| match value {
        Json::Array(values) => !values.is_empty() && values.iter().all(plain),
        value => plain(value),
    };
    let mut object = object.unwrap_or_default();
    object.retain(|key, value| wanted.iter().any(|(one, _)| one == key) && fits(value));
    object
}

/// Parses the entries of a list as models write it, removing numbers, bullets, quotes and repetitions.
fn listed(answer: &str, between: &[char], most: u64) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for entry in answer.split(between) {
        let entry = entry.trim().trim_start_matches(['-', '*', '•', '·']).trim_start();
        let digits = entry.chars().take_while(char::is_ascii_digit).count();
        let entry = match entry[digits..].strip_prefix(['.', ')', '、']) {
            // `3.5 million` is not a numbered entry.
            Some(rest) if digits > 0 && !rest.starts_with(|c: char| c.is_ascii_digit()) => rest,
            _ => entry,
        };
        let entry = entry.trim().trim_matches(['"', '“', '”', '`']).trim();
        let known = || entries.iter().any(|one| one.to_lowercase() == entry.to_lowercase());
        if !entry.is_empty() && entry.chars().count() <= ANSWER_LINE_MAX && !known() {
            entries.push(entry.to_owned());
        }
        if entries.len() as u64 >= most {
            break;
        }
    }
    entries
}

async fn ask(model: &dyn ChatModel, instructions: &str, text: &str) -> Result<String> {
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    answer(model, request(instructions, &format!("<passage>\n{shown}\n</passage>"))).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_in_model_answers_are_parsed() {
        assert_eq!(
            listed("alpha, \"beta\"，Alpha, ,gamma, delta", &[',', '，'], 3),
            ["alpha", "beta", "gamma"]
        );
        let questions = listed("1. Why?\n2) How many are 3.5?\n- 7 What?\n\n* Who\n3.5 is what?", &['\n'], 9);
        assert_eq!(questions, ["Why?", "How many are 3.5?", "7 What?", "Who", "3.5 is what?"]);
        assert!(listed(&"x".repeat(301), &['\n'], 9).is_empty());
    }

    #[test]
    fn only_requested_metadata_fields_are_filled() {
        let wanted = [("author".to_owned(), String::new()), ("year".to_owned(), String::new())];
        let answer = "Here:\n```json\n{\"author\": [\"Ada\"], \"year\": 1843, \"x\": 1}\n```";
        assert_eq!(Json::from(filled_in(answer, &wanted)), json!({"author": ["Ada"], "year": 1843}));
        assert_eq!(Json::from(filled_in("{\"author\": {\"a\": 1}, \"year\": \" \"}", &wanted)), json!({}));
        assert!(filled_in("}{", &wanted).is_empty() && filled_in("no", &wanted).is_empty());
    }
}
