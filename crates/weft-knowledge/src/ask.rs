//! What a search, and the making of contents and graphs, may ask a language model.

use async_trait::async_trait;
use weft_agent::arguments;
use weft_core::{Error, ErrorKind, Json, Result};

/// What a model is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Conditions on metadata.
    Filter,
    /// The question in other languages.
    Translate,
    /// Words that a good passage would hold.
    Keywords,
    /// Which entries of a table of contents have to do with the question.
    ContentsChoice,
    /// The headings of a document that marks none.
    Contents,
    /// What a question to a graph is about.
    GraphQuestion,
    /// Entities and relations of a text.
    Graph,
}

impl Step {
    /// What the step is for, for messages.
    pub fn purpose(self) -> &'static str {
        match self {
            Self::Filter => "choosing a filter",
            Self::Translate => "translating the question",
            Self::Keywords => "finding keywords",
            Self::ContentsChoice => "choosing from the table of contents",
            Self::Contents => "finding headings",
            Self::GraphQuestion => "reading the question for the graph",
            Self::Graph => "finding entities and relations",
        }
    }
}

/// A language model, as far as a search needs one, and the time.
///
/// An implementation that is part of a run keeps what it was answered, so that work done again asks
/// nothing twice, and counts what it uses.
#[async_trait]
pub trait Ask: Send + Sync {
    /// The text that the model answers, without its reasoning.
    ///
    /// # Errors
    /// What the model fails with; `QuotaExceeded` when nothing may be asked any more.
    async fn ask(&self, step: Step, instructions: &str, question: &str) -> Result<String>;

    /// What time it is, in milliseconds since 1970.
    ///
    /// # Errors
    /// `Interrupted` when the work is done from a recording that does not have it.
    async fn now_ms(&self) -> Result<i64>;
}

/// Asks for JSON and reads the answer leniently. The inner error is one that a search goes on without.
///
/// # Errors
/// What ends the whole work: it was called off, its budget is used up, or a recording lacks the answer.
pub async fn ask_json(
    model: &dyn Ask,
    step: Step,
    instructions: &str,
    question: &str,
) -> Result<Result<Json>> {
    let answer = match model.ask(step, instructions, question).await {
        Ok(answer) => answer,
        Err(error) if ends_the_work(error.kind) => return Err(error),
        Err(error) => return Ok(Err(error)),
    };
    Ok(arguments::parse(&answer).map(|parsed| parsed.value))
}

/// Whether nothing more can be done after such a failure. A model that is not there at all is a mistake to
/// be named and not one to go on with.
pub fn ends_the_work(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Cancelled | ErrorKind::QuotaExceeded | ErrorKind::Interrupted | ErrorKind::NotFound
    )
}

/// An answer that is not what was asked for.
pub(crate) fn unexpected(what: &str) -> Error {
    Error::new(ErrorKind::Garbled, format!("the model was asked for {what} and answered something else"))
}
