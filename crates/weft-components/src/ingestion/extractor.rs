//! Extractor: has a model write something about every chunk of a document.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use regex::Regex;
use weft_agent::arguments;
use weft_agent::ask::ask_text;
use weft_core::context::Signal;
use weft_core::pipeline::{PipelineChunk, PipelineDocument};
use weft_core::seam::chat_model::{Author, ChatMessage, ChatModel};
use weft_core::{
    Component, ComponentSpec, Error, ErrorKind, Finished, Json, NodeContext, NodeOutputs, ParamProblem,
    Reads, Reference, Result, Role, Shape, Template, Value,
};

use crate::ingestion::passed::{self, CHUNKS_OUTPUT, DOCUMENT_OUTPUT, Passed};
use crate::model::caller::warn_of_prices;
use crate::model::settings::{self, Asking, author_of};
use crate::params::{Field, Kind, Params, Widget, fields};
use crate::suggest::SLIPS_MAX;
use crate::text::without_thinking;

/// Questions to a model at the same time.
const QUESTIONS_AT_ONCE: usize = 4;
/// How long all chunks may take.
const TIME_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Chunks of which it is told that the model could not answer, at most.
const WARNINGS_MAX: usize = 5;

static FIELD_NAME: Field<String> = Field::text(
    "field_name",
    "what the answer is: `summary`, `keywords`, `questions`, `metadata`, `toc`, or a name of its own",
);
static SYS_PROMPT: Field<String> =
    Field::text("sys_prompt", "the instructions").with_references().widget(Widget::Lines);
static PROMPTS: Field = Field::raw(
    "prompts",
    Kind::Any,
    "what is said with the chunk: a text, or a list of `{role, content}`; `{…@chunks}` in it is the chunk at hand",
);

/// The names with a meaning.
const OF_OUR_OWN: [&str; 5] = ["summary", "keywords", "questions", "metadata", "toc"];

/// Whether a name is nearly another one.
fn is_slip(name: &str, other: &str) -> bool {
    name != other && other.len() > SLIPS_MAX * 2 && strsim::osa_distance(name, other) <= SLIPS_MAX
}

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Extractor",
    role: Role::Step,
    summary: "Has a model write something about every chunk of a document, in an ingestion pipeline.",
    fields: &[fields(&[&FIELD_NAME, &SYS_PROMPT, &PROMPTS]), settings::MODEL, settings::SAMPLING],
    outputs: &[DOCUMENT_OUTPUT, CHUNKS_OUTPUT],
    time_limit: Some(TIME_MAX),
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let passed = Passed::of(&mut params);
        let field = params.take(&FIELD_NAME).trim().to_owned();
        if field.is_empty() {
            let problem = ParamProblem::new("/field_name", "nothing says what the answers are");
            params.problem(
                problem.help("use summary, keywords, questions, metadata, toc, or a name of your own"),
            );
        }
        if let Some(meant) = OF_OUR_OWN.into_iter().find(|name| is_slip(&field, name)) {
            let problem = ParamProblem::new("/field_name", format!("`{field}` is a name of its own"));
            params.warn(problem.help(format!("did you mean `{meant}`?")));
        }
        if ["text", "tokens", "positions", "headings", "mom", "doc_type_kwd"].contains(&field.as_str()) {
            params
                .problem(ParamProblem::new("/field_name", format!("`{field}` is what a chunk has already")));
        }
        let system = Words::read(&params.take(&SYS_PROMPT), &params);
        let prompts = prompts(&mut params);
        let asking = Asking::read(&mut params);
        let warnings = params.warnings();
        params.finish(Extractor { passed, field, system, prompts, asking, warnings })
    },
};

/// A text with places where the chunk at hand goes, and other references.
struct Words(Vec<Part>);

enum Part {
    Text(Template),
    Chunk,
}

impl Words {
    /// Whichever component a reference to chunks names: people copy nodes, and what is meant is always the chunk.
    fn read(text: &str, params: &Params<'_>) -> Self {
        #[expect(clippy::unwrap_used, reason = "a constant")]
        static CHUNKS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{+[^{}@]*@chunks\s*\}+").unwrap());
        let names = params.source.names();
        let mut parts = Vec::new();
        let mut from = 0;
        for found in CHUNKS.find_iter(text) {
            parts.push(Part::Text(Template::parse(&text[from..found.start()], names)));
            parts.push(Part::Chunk);
            from = found.end();
        }
        parts.push(Part::Text(Template::parse(&text[from..], names)));
        Self(parts)
    }

    fn references(&self) -> impl Iterator<Item = &Reference> {
        self.0.iter().flat_map(|part| match part {
            Part::Text(template) => template.references().collect::<Vec<_>>(),
            Part::Chunk => Vec::new(),
        })
    }

    fn has_chunk(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Chunk))
    }

    fn render(&self, ctx: &NodeContext, chunk: &str) -> Result<String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(template) => text.push_str(&template.render(&ctx.inputs)?),
                Part::Chunk => text.push_str(chunk),
            }
        }
        Ok(text)
    }
}

struct Extractor {
    passed: Passed,
    field: String,
    system: Words,
    prompts: Vec<(Author, Words)>,
    asking: Asking,
    warnings: Vec<ParamProblem>,
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

impl Extractor {
    fn messages(&self, ctx: &NodeContext, chunk: &str) -> Result<Vec<ChatMessage>> {
        let mut messages = vec![ChatMessage::new(Author::System, self.system.render(ctx, chunk)?)];
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

    /// Asks about one chunk. Those that are asked about side by side have parts of their own in the journal.
    async fn answer(
        &self,
        ctx: &NodeContext,
        model: &dyn ChatModel,
        place: usize,
        chunk: &str,
    ) -> Result<String> {
        let ctx = NodeContext { part: format!("{}chunk-{place}/", ctx.part).into(), ..ctx.clone() };
        let request = self.asking.request(self.messages(&ctx, chunk)?);
        let answer = ask_text(&ctx, model, request, &mut |_| {}).await?;
        Ok(without_thinking(&answer).trim().to_owned())
    }

    /// Keeps an answer with its chunk.
    fn put(&self, chunk: &mut PipelineChunk, answer: String) -> Result<()> {
        match self.field.as_str() {
            "summary" => chunk.summary = Some(answer),
            "keywords" => chunk.keywords = answer.into(),
            "questions" => chunk.questions = answer.into(),
            "metadata" => chunk.metadata.extend(object(&answer)?),
            name => drop(chunk.rest.insert(name.to_owned(), answer.into())),
        }
        Ok(())
    }

    async fn each_chunk(
        &self,
        ctx: &NodeContext,
        model: &Arc<dyn ChatModel>,
        chunks: &mut [PipelineChunk],
    ) -> Result<()> {
        let mut silent = 0;
        let asked = chunks.iter().enumerate().map(|(place, chunk)| {
            let text = chunk.text.clone();
            async move { self.answer(ctx, &**model, place, &text).await }
        });
        let asked: Vec<_> = asked.collect();
        // In their order, because `place` counts along.
        let mut answers = futures::stream::iter(asked).buffered(QUESTIONS_AT_ONCE);
        let mut place = 0;
        while let Some(answer) = answers.next().await {
            let kept = match answer {
                Ok(answer) => self.put(&mut chunks[place], answer),
                Err(error) => Err(error),
            };
            place += 1;
            match kept {
                Ok(()) => {}
                // A document goes on without what a model cannot answer.
                Err(error)
                    if matches!(
                        error.kind,
                        ErrorKind::Invalid | ErrorKind::Filtered | ErrorKind::Garbled
                    ) =>
                {
                    silent += 1;
                    if silent <= WARNINGS_MAX {
                        let message = format!("chunk {place} has no {}: {}", self.field, error.full());
                        ctx.signal(Signal::Warn(message)).await?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        match silent {
            count if count > 0 && count == place => Err(Error::new(
                ErrorKind::Garbled,
                format!("the model could answer for none of the {count} chunks"),
            )
            .help("look at the prompts, and at the warnings of this run")),
            _ => Ok(()),
        }
    }

    /// What is asked of the whole document, before it is cut.
    async fn once(
        &self,
        ctx: &NodeContext,
        model: &Arc<dyn ChatModel>,
        mut document: PipelineDocument,
    ) -> Result<Finished> {
        let answer = self.answer(ctx, &**model, 0, "").await?;
        if self.field == "metadata" {
            document.metadata.extend(object(&answer)?);
        }
        let mut finished = passed::finished(&document, None)?;
        finished.outputs.set(self.field.as_str(), Value::text(answer));
        Ok(finished)
    }
}

/// The JSON object in an answer.
fn object(answer: &str) -> Result<serde_json::Map<String, Json>> {
    match arguments::parse(answer)?.value {
        Json::Object(object) => Ok(object),
        _ => Err(Error::new(ErrorKind::Garbled, "the answer is no JSON object")),
    }
}

#[async_trait]
impl Component for Extractor {
    fn shape(&self) -> Shape {
        let words = self.prompts.iter().map(|(_, words)| words).chain([&self.system]);
        let texts = words.flat_map(Words::references).cloned();
        Shape {
            reads: Reads::always(self.passed.references().chain(texts)),
            models: vec![("/llm_id".to_owned(), self.asking.llm_id.clone())],
            outputs: NodeOutputs::named([self.field.as_str()]),
            ..self.passed.shape("chunks", &self.warnings)
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let mut document = self.passed.document(ctx)?;
        let chunks = self.passed.chunks(ctx)?;
        if self.field == "toc" {
            // It is made of the chunks of the dataset, once for the document.
            document.contents = true;
            return passed::finished(&document, chunks);
        }
        let model = ctx.run.seams.models.resolve(&ctx.run.tenant, &self.asking.llm_id)?;
        if !model.info().writes() {
            // A document without keywords is found all the same.
            let message = "nothing is extracted: no language model is configured";
            ctx.signal(Signal::Warn(message.to_owned())).await?;
            return passed::finished(&document, chunks);
        }
        warn_of_prices(ctx, &*model).await?;
        let Some(mut chunks) = chunks else { return self.once(ctx, &model, document).await };
        self.each_chunk(ctx, &model, &mut chunks).await?;
        passed::finished(&document, Some(chunks))
    }
}
