//! The Extractor component: has a model write something about every chunk of a document.

mod several;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::StreamExt as _;
use regex::Regex;
use weft_agent::arguments;
use weft_agent::ask::ask_text;
use weft_core::context::Signal;
use weft_core::filter::Metadata;
use weft_core::pipeline::{PipelineChunk, PipelineDocument};
use weft_core::seam::chat_model::{Author, ChatMessage, ChatModel};
use weft_core::suggest::{did_you_mean, misspelled};
use weft_core::{
    Component, ComponentSpec, Error, ErrorKind, Finished, Json, NodeContext, NodeOutputs, ParamProblem,
    Reads, Reference, Result, Role, Shape, Template, Value, async_trait,
};
use weft_knowledge::ingest::{Listing, filled_in};

use crate::ingestion::passed::{self, CHUNKS_OUTPUT, DOCUMENT_OUTPUT, Passed};
use crate::model::caller::warn_of_prices;
use crate::model::settings::{self, Asking, author_of};
use crate::params::{Field, Kind, Params, Widget, fields};
use crate::text::without_thinking;

/// Number of concurrent questions to a model.
const QUESTIONS_AT_ONCE: usize = 4;
/// Time limit for all chunks.
// A document may have tens of thousands of chunks, and each is a question to a model.
const TIME_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Maximum number of chunks for which a missing answer is reported.
// One cause often affects every chunk: a warning for each would hide all the others.
const WARNINGS_MAX: usize = 5;
/// Added to instructions for metadata that do not specify the format.
const AS_JSON: &str = "\n\nWrite it as one JSON object, with nothing around it.";

static FIELD_NAME: Field<String> = Field::text(
    "field_name",
    "what the answer is: `summary`, `keywords`, `questions`, `metadata`, `toc`, or a custom name",
);
static SYS_PROMPT: Field<String> =
    Field::text("sys_prompt", "the instructions").with_references().widget(Widget::Lines);
static PROMPTS: Field = Field::raw(
    "prompts",
    Kind::Any,
    "the message with the chunk: a text, or a list of `{role, content}`; `{…@chunks}` in it is the current chunk",
);

/// Answers with a special meaning. [`ExtractorQuestion::put`] and `run` know the purpose of each.
const MEANT: [&str; 5] = ["summary", "keywords", "questions", "metadata", TOC];
/// The answer that is not requested from a model: it is built from the chunks of the dataset, once for the document.
const TOC: &str = "toc";
/// Members of a chunk that an answer must not replace.
const TAKEN: [&str; 9] = [
    "text",
    "tokens",
    "positions",
    "headings",
    "mom",
    "doc_type_kwd",
    "picture_number",
    "searched",
    "columns",
];

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Extractor",
    role: Role::Step,
    summary: "Has a model write something about every chunk of a document, in an ingestion pipeline.",
    fields: &[
        fields(&[
            &FIELD_NAME,
            &SYS_PROMPT,
            &PROMPTS,
            &several::KEYWORDS,
            &several::QUESTIONS,
            &several::SUMMARY_ASKED,
            &several::METADATA,
            &several::TAGS,
            &several::AUTO_KEYWORDS,
            &several::AUTO_QUESTIONS,
            &several::AUTO_TAGS,
            &several::ENABLE_METADATA,
        ]),
        settings::MODEL,
        settings::SAMPLING,
    ],
    outputs: &[DOCUMENT_OUTPUT, CHUNKS_OUTPUT],
    time_limit: Some(TIME_MAX),
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let passed = Passed::of(&mut params);
        let field = params.take(&FIELD_NAME).trim().to_owned();
        if field.is_empty() && !several::is_said(&params) {
            let problem = ParamProblem::new("/field_name", "the kind of answer is missing");
            params.problem(problem.help(format!("use {}, or a name of your own", MEANT.join(", "))));
        }
        if let Some(meant) = misspelled(&field, MEANT).filter(|meant| *meant != field) {
            let problem = ParamProblem::new("/field_name", format!("`{field}` is treated as a custom name"));
            params.warn(problem.help(did_you_mean(meant)));
        }
        if TAKEN.contains(&field.as_str()) {
            params.problem(ParamProblem::new(
                "/field_name",
                format!("`{field}` is a built-in field of chunks"),
            ));
        }
        let system = Words::read(&params.take(&SYS_PROMPT), &params);
        let prompts = prompts(&mut params);
        let mut questions = Vec::new();
        if !field.is_empty() {
            questions.push(ExtractorQuestion { field, system, prompts, reading: AnswerFormat::AsWritten });
        }
        questions.extend(several::questions(&mut params));
        let asking = Asking::read(&mut params);
        let warnings = params.warnings();
        params.finish(Extractor { passed, questions, asking, warnings })
    },
};

/// A text with placeholders for the current chunk, and other references.
struct Words(Vec<PromptPart>);

enum PromptPart {
    Text(Template),
    Chunk,
}

impl Words {
    /// Accepts a reference to chunks of any component: nodes get copied, and the current chunk is always meant.
    fn read(text: &str, params: &Params<'_>) -> Self {
        #[expect(clippy::unwrap_used, reason = "a constant")]
        static CHUNKS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{+[^{}@]*@chunks\s*\}+").unwrap());
        let names = params.source.names();
        let mut parts = Vec::new();
        let mut from = 0;
        for found in CHUNKS.find_iter(text) {
            parts.push(PromptPart::Text(Template::parse(&text[from..found.start()], names)));
            parts.push(PromptPart::Chunk);
            from = found.end();
        }
        parts.push(PromptPart::Text(Template::parse(&text[from..], names)));
        Self(parts)
    }

    fn references(&self) -> impl Iterator<Item = &Reference> {
        self.0.iter().flat_map(|part| match part {
            PromptPart::Text(template) => template.references().collect::<Vec<_>>(),
            PromptPart::Chunk => Vec::new(),
        })
    }

    fn has_chunk(&self) -> bool {
        self.0.iter().any(|part| matches!(part, PromptPart::Chunk))
    }

    fn render(&self, ctx: &NodeContext, chunk: &str) -> Result<String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                PromptPart::Text(template) => text.push_str(&template.render(&ctx.inputs)?),
                PromptPart::Chunk => text.push_str(chunk),
            }
        }
        Ok(text)
    }
}

struct Extractor {
    passed: Passed,
    questions: Vec<ExtractorQuestion>,
    asking: Asking,
    warnings: Vec<ParamProblem>,
}

/// The question that the model is asked about every chunk.
struct ExtractorQuestion {
    /// The purpose of the answer.
    field: String,
    system: Words,
    prompts: Vec<(Author, Words)>,
    reading: AnswerFormat,
}

/// How an answer is read.
enum AnswerFormat {
    /// As the canvas tells the model to write it.
    AsWritten,
    /// As a text.
    Text,
    /// As a list of this many entries.
    Entries(Listing, u64),
    /// As metadata with these keys.
    Form(Vec<(String, String)>),
}

fn prompts(params: &mut Params<'_>) -> Vec<(Author, Words)> {
    let entries = match params.get(&PROMPTS) {
        Some(Json::Array(entries)) => entries.clone(),
        Some(Json::String(text)) if !text.is_empty() => vec![Json::String(text.clone())],
        None | Some(Json::String(_) | Json::Null) => Vec::new(),
        Some(_) => {
            params.problem(ParamProblem::new("/prompts", "must be a text or a list of {role, content}"));
            Vec::new()
        }
    };
    let mut prompts = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        let text = entry.as_str().or_else(|| entry.get("content").and_then(Json::as_str)).unwrap_or_default();
        let Some(author) = author_of(params, place, entry) else { continue };
        prompts.push((author, Words::read(text, params)));
    }
    prompts
}

impl ExtractorQuestion {
    fn messages(&self, ctx: &NodeContext, chunk: &str) -> Result<Vec<ChatMessage>> {
        let mut system = self.system.render(ctx, chunk)?;
        // Canvases from elsewhere ask for metadata in any wording, but the answer is parsed as JSON.
        let says_how = system.trim().is_empty() || system.to_lowercase().contains("json");
        if self.field == "metadata" && !says_how {
            system.push_str(AS_JSON);
        }
        let mut messages = vec![ChatMessage::new(Author::System, system)];
        for (author, words) in &self.prompts {
            messages.push(ChatMessage::new(*author, words.render(ctx, chunk)?));
        }
        let says_it = self.system.has_chunk() || self.prompts.iter().any(|(_, words)| words.has_chunk());
        if !chunk.is_empty() && !says_it {
            messages.push(ChatMessage::new(Author::User, chunk.to_owned()));
        }
        // Providers refuse an empty message.
        messages.retain(|message| !message.text.trim().is_empty());
        Ok(messages)
    }

    /// Returns the context of a question about a chunk. Concurrent questions have separate parts of the journal.
    fn part(&self, ctx: &NodeContext, place: usize) -> NodeContext {
        let part = match self.reading {
            AnswerFormat::AsWritten => format!("{}chunk-{place}/", ctx.part),
            AnswerFormat::Text | AnswerFormat::Entries(..) | AnswerFormat::Form(_) => {
                format!("{}{}-chunk-{place}/", ctx.part, self.field)
            }
        };
        NodeContext { part: part.into(), ..ctx.clone() }
    }

    /// Stores an answer with its chunk.
    fn put(&self, chunk: &mut PipelineChunk, answer: String) -> Result<()> {
        match self.field.as_str() {
            "summary" => chunk.summary = Some(answer),
            "keywords" => chunk.keywords = self.entries(answer),
            "questions" => chunk.questions = self.entries(answer),
            "metadata" => chunk.metadata.extend(self.metadata(&answer)?),
            name => drop(chunk.rest.insert(name.to_owned(), answer.into())),
        }
        Ok(())
    }

    /// Returns an answer that is a list: as written, unless a number of entries was requested.
    fn entries(&self, answer: String) -> Json {
        match &self.reading {
            AnswerFormat::Entries(listing, count) => listing.read(&answer, *count).into(),
            AnswerFormat::AsWritten | AnswerFormat::Text | AnswerFormat::Form(_) => answer.into(),
        }
    }

    fn metadata(&self, answer: &str) -> Result<Metadata> {
        match &self.reading {
            AnswerFormat::Form(wanted) => Ok(filled_in(answer, wanted)),
            AnswerFormat::AsWritten | AnswerFormat::Text | AnswerFormat::Entries(..) => object(answer),
        }
    }
}

impl Extractor {
    async fn answer(
        &self,
        ctx: &NodeContext,
        model: &dyn ChatModel,
        question: &ExtractorQuestion,
        chunk: &str,
    ) -> Result<String> {
        let request = self.asking.request(question.messages(ctx, chunk)?);
        let answer = ask_text(ctx, model, request, &mut |_| {}).await?;
        Ok(without_thinking(&answer).trim().to_owned())
    }

    async fn each_chunk(
        &self,
        ctx: &NodeContext,
        model: &Arc<dyn ChatModel>,
        question: &ExtractorQuestion,
        chunks: &mut [PipelineChunk],
    ) -> Result<()> {
        let (mut silent, mut refused) = (0, 0);
        let asked = chunks.iter().enumerate().map(|(place, chunk)| {
            let text = chunk.text.clone();
            async move { self.answer(&question.part(ctx, place), &**model, question, &text).await }
        });
        let asked: Vec<_> = asked.collect();
        // In order, because `place` counts along.
        let mut answers = futures::stream::iter(asked).buffered(QUESTIONS_AT_ONCE);
        let mut place = 0;
        while let Some(answer) = answers.next().await {
            let kept = match answer {
                Ok(answer) => question.put(&mut chunks[place], answer),
                Err(error) => {
                    refused += 1;
                    Err(error)
                }
            };
            place += 1;
            match kept {
                Ok(()) => {}
                // A document continues without what a model cannot answer.
                Err(error)
                    if matches!(
                        error.kind,
                        ErrorKind::Invalid | ErrorKind::Filtered | ErrorKind::Garbled
                    ) =>
                {
                    silent += 1;
                    if silent <= WARNINGS_MAX {
                        let message = format!("chunk {place} has no {}: {}", question.field, error.full());
                        ctx.signal(Signal::Warn(message)).await?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        match silent {
            // An unreadable answer about a single chunk says nothing about the prompts: the chunk may have no metadata.
            1 if place == 1 && refused == 0 => Ok(()),
            count if count > 0 && count == place => Err(Error::new(
                ErrorKind::Garbled,
                format!(
                    "the model returned no usable answer for any chunk ({} in total)",
                    weft_core::value::plural(count, "chunk")
                ),
            )
            .help("check the prompts, and the warnings of this run")),
            _ => Ok(()),
        }
    }

    /// Asks about the whole document, before it is split.
    async fn once(
        &self,
        ctx: &NodeContext,
        model: &Arc<dyn ChatModel>,
        question: &ExtractorQuestion,
        mut document: PipelineDocument,
    ) -> Result<Finished> {
        let answer = self.answer(&question.part(ctx, 0), &**model, question, "").await?;
        if question.field == "metadata" {
            document.metadata.extend(object(&answer)?);
        }
        let mut finished = passed::finished(&document, None)?;
        finished.outputs.set(question.field.as_str(), Value::text(answer));
        Ok(finished)
    }
}

/// Parses the JSON object in an answer.
fn object(answer: &str) -> Result<Metadata> {
    match arguments::parse(answer)?.value {
        Json::Object(object) => Ok(object),
        _ => Err(Error::new(ErrorKind::Garbled, "the answer is not a JSON object")),
    }
}

#[async_trait]
impl Component for Extractor {
    fn shape(&self) -> Shape {
        let words = |question: &ExtractorQuestion| {
            let prompts = question.prompts.iter().map(|(_, words)| words);
            prompts.chain([&question.system]).flat_map(Words::references).cloned().collect::<Vec<_>>()
        };
        let texts = self.questions.iter().flat_map(words);
        // No model is needed if everything is switched off.
        let model = self.questions.first().map(|_| ("/llm_id".to_owned(), self.asking.llm_id.clone()));
        Shape {
            reads: Reads::always(self.passed.references().chain(texts)),
            models: model.into_iter().collect(),
            outputs: NodeOutputs::named(self.questions.iter().map(|question| question.field.as_str())),
            ..self.passed.shape("chunks", &self.warnings)
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let mut document = self.passed.document(ctx)?;
        let chunks = self.passed.chunks(ctx)?;
        let (contents, asked): (Vec<_>, Vec<_>) =
            self.questions.iter().partition(|question| question.field == TOC);
        document.contents |= !contents.is_empty();
        if asked.is_empty() {
            return passed::finished(&document, chunks);
        }
        let model = ctx.run.seams.models.resolve(&ctx.run.tenant, &self.asking.llm_id)?;
        if !model.info().writes() {
            // A document without keywords can still be found.
            let message = "nothing is extracted: no language model is configured";
            ctx.signal(Signal::Warn(message.to_owned())).await?;
            return passed::finished(&document, chunks);
        }
        warn_of_prices(ctx, &*model).await?;
        let Some(mut chunks) = chunks else {
            return match asked.as_slice() {
                [one] if matches!(one.reading, AnswerFormat::AsWritten) => {
                    self.once(ctx, &model, one, document).await
                }
                _ => Err(Error::invalid("the document has not been split into chunks")
                    .help("put a chunker such as TokenChunker before it")),
            };
        };
        for question in asked {
            self.each_chunk(ctx, &model, question, &mut chunks).await?;
        }
        passed::finished(&document, Some(chunks))
    }
}
