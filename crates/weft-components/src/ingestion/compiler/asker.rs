//! Asks a model about the parts of a document, several concurrently.

use futures::StreamExt as _;
use weft_agent::ask::ask_structured;
use weft_agent::structured::Schema;
use weft_core::seam::chat_model::{Author, ChatMessage, ChatModel, ChatRequest};
use weft_core::{Error, ErrorKind, Json, NodeContext, Result};
use weft_knowledge::mind_map::FRAME;

use super::kind::TemplateKind;
use super::knowledge::{Collected, Knowledge};
use super::material::{Material, room};
use super::templates::CompilationTemplate;
use super::tree;
use crate::model::settings::Asking;

/// The instructions for summaries of summaries.
const ABOVE: &str = include_str!("prompts/tree_above.md");
/// Number of concurrent questions to a model.
const QUESTIONS_AT_ONCE: usize = 4;
/// Maximum number of parts for which a missing answer is reported.
const WARNINGS_MAX: usize = 5;

/// A question, and the schema of its answer.
#[derive(Debug)]
pub(super) struct TemplateQuestion {
    instructions: String,
    schema: Schema,
}

impl TemplateQuestion {
    /// Returns the question about a part of the document.
    ///
    /// # Errors
    /// `Invalid` when the names of fields cannot form a schema.
    pub(super) fn of_parts(template: &CompilationTemplate) -> Result<Self> {
        Self::new(&format!("{FRAME}\n{}", template.kind.task()), template)
    }

    /// Returns the question about several summaries.
    ///
    /// # Errors
    /// As [`TemplateQuestion::of_parts`].
    pub(super) fn of_summaries(template: &CompilationTemplate) -> Result<Self> {
        Self::new(ABOVE, template)
    }

    fn new(task: &str, template: &CompilationTemplate) -> Result<Self> {
        let schema = Schema::new(template.kind.schema(template))?;
        let mut instructions = format!("{}\n\n", task.trim_end());
        if !template.words.is_empty() {
            instructions.push_str(&template.words);
            instructions.push_str("\n\n");
        }
        instructions.push_str(&schema.instructions());
        Ok(Self { instructions, schema })
    }
}

/// The outcome of a template.
#[derive(Debug)]
pub(super) struct TemplateOutcome {
    /// What was found.
    pub knowledge: Knowledge,
    /// What is missing, as messages for people.
    pub warnings: Vec<String>,
}

/// Asks a model on behalf of a node.
pub(super) struct TemplateAsker<'a> {
    /// The node's activation.
    pub ctx: &'a NodeContext,
    /// The model.
    pub model: &'a dyn ChatModel,
    /// How the model is used.
    pub asking: &'a Asking,
}

impl TemplateAsker<'_> {
    /// Returns the maximum number of tokens of a document in one question.
    pub(super) fn room(&self) -> usize {
        room(self.model.info().window)
    }

    /// Compiles a document by a template. What the model cannot answer is missing, and reported.
    ///
    /// # Errors
    /// Errors of the model, except for `Invalid`, `Filtered` and `Garbled`, which concern a single question.
    pub(super) async fn compiled(
        &self,
        part: &str,
        template: &CompilationTemplate,
        material: Material,
    ) -> Result<TemplateOutcome> {
        let form = TemplateQuestion::of_parts(template)?;
        let mut notes = TemplateNotes::of(template);
        if let Some(place) = material.ends_before {
            notes.missing(&format!("the chunks from {place} on: `max_calls` is exhausted"));
        }
        let (texts, places): (Vec<_>, Vec<_>) =
            material.parts.into_iter().map(|part| (part.text, part.places)).unzip();
        let answers = self.each(part, &form, texts).await?;
        let mut collected = Collected::new(template.kind);
        for (places, answer) in places.iter().zip(answers) {
            match answer {
                Ok(answer) => collected.add(&answer, places),
                Err(error) => {
                    let (first, last) = (places.first().unwrap_or(&0), places.last().unwrap_or(&0));
                    notes.missing(&format!("the chunks {first} to {last}: {}", reason(&error)));
                }
            }
        }
        if collected.left_out() > 0 {
            notes.missing(&format!("{} entries: there are too many", collected.left_out()));
        }
        let mut knowledge = collected.finish();
        if template.kind == TemplateKind::Tree {
            // Boxed, so that the templates of other kinds reserve no space for this future.
            Box::pin(tree::grow(self, part, template, &mut knowledge, &mut notes)).await?;
        }
        Ok(TemplateOutcome { knowledge, warnings: notes.finish() })
    }

    /// Returns the model's answers to these texts, in their order. A question that cannot be answered does not end the
    /// others.
    ///
    /// # Errors
    /// As [`TemplateAsker::compiled`].
    pub(super) async fn each(
        &self,
        part: &str,
        form: &TemplateQuestion,
        texts: Vec<String>,
    ) -> Result<Vec<Result<Json>>> {
        let asked = texts.into_iter().enumerate().map(|(place, text)| {
            // Concurrent questions have separate parts of the journal.
            let part = format!("{}{part}-{place}/", self.ctx.part);
            async move { self.answer(part, form, text).await }
        });
        let asked: Vec<_> = asked.collect();
        // In the order of the document: sections nest by what precedes them, and a first mention names the entry.
        let mut coming = futures::stream::iter(asked).buffered(QUESTIONS_AT_ONCE);
        let mut answers = Vec::new();
        while let Some(answer) = coming.next().await {
            match answer {
                // Ends the other questions as well: they would fail in the same way, and some would be paid for.
                Err(error) if !is_about_the_question(&error) => return Err(error),
                answer => answers.push(answer),
            }
        }
        Ok(answers)
    }

    async fn answer(&self, part: String, form: &TemplateQuestion, text: String) -> Result<Json> {
        let ctx = NodeContext { part: part.into(), ..self.ctx.clone() };
        let messages = vec![
            ChatMessage::new(Author::System, form.instructions.clone()),
            ChatMessage::new(Author::User, text),
        ];
        let schema = Some(form.schema.json.clone());
        let request = ChatRequest { schema, ..self.asking.request(messages) };
        ask_structured(&ctx, self.model, request, &form.schema, self.asking.repairs()).await
    }
}

/// Whether other questions may still be answered after this error.
fn is_about_the_question(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Invalid | ErrorKind::Filtered | ErrorKind::Garbled)
}

/// Returns why there is no answer, as a message for people.
pub(super) fn reason(error: &Error) -> String {
    match error.kind {
        ErrorKind::Garbled => "no answer of the model had the required form".to_owned(),
        _ => error.full(),
    }
}

/// Collects what is missing in what was compiled.
#[derive(Debug)]
pub(super) struct TemplateNotes<'a> {
    template: &'a CompilationTemplate,
    warnings: Vec<String>,
    unsaid: usize,
}

impl<'a> TemplateNotes<'a> {
    fn of(template: &'a CompilationTemplate) -> Self {
        Self { template, warnings: Vec::new(), unsaid: 0 }
    }

    /// Records that something is missing, and why.
    pub(super) fn missing(&mut self, what: &str) {
        if self.warnings.len() < WARNINGS_MAX {
            self.warnings.push(format!("`{}` is compiled without {what}", self.template.name));
        } else {
            self.unsaid += 1;
        }
    }

    fn finish(mut self) -> Vec<String> {
        if self.unsaid > 0 {
            let more = format!("`{}` is compiled without {} more parts", self.template.name, self.unsaid);
            self.warnings.push(more);
        }
        self.warnings
    }
}
