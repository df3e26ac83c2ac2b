//! The DeepResearch component: researches a question in several searches and answers it from what was found.

mod sources;

use std::time::Duration;

use serde_json::json;
use weft_agent::answer_stream::AnswerStream;
use weft_agent::ask::{Ending, ask_text, empty_answer};
use weft_agent::research::{Claim, Effort, Findings, Limits, Mode, Research, Source, StopReason};
use weft_agent::window::{self, Line};
use weft_core::context::Signal;
use weft_core::field::AnyField;
use weft_core::seam::chat_model::{Audience, Author, ChatMessage, ChatModel, ChatRequest};
use weft_core::stream::TextWriter;
use weft_core::value::truth;
use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, NodeOutputs, OutputSpec, Outputs, Piece,
    Reads, Result, Role, Shape, Template, ToolSpec, Value, async_trait,
};

use crate::data::retrieval::search::{
    CROSS_LANGUAGES, DATASET_IDS, DOC_IDS, DatasetSearch, KB_VARS, KEYWORD, KEYWORDS_SIMILARITY_WEIGHT,
    META_DATA_FILTER, RERANK_ID, SIMILARITY_THRESHOLD, TOC_ENHANCE, TOP_K, TOP_N, USE_KG,
};
use crate::model::caller::{begin_aloud, end_aloud, warn_of_prices};
use crate::model::prompt::CITATION;
use crate::model::settings::{self, Asking};
use crate::params::{Field, FieldGroup, Params, Widget, asks_for_something, choice, fields};
use crate::passages::{chunks, documents, formalized};
use crate::tools::search::{API_KEY, BASE_URL, ServiceNode};
use crate::tools::searxng::SEARXNG_URL;
use crate::tools::web_search::{self, ENGINE, ENGINE_FIELDS};
use sources::{DatasetSource, GraphSource, Web};

const ANSWER: &str = include_str!("prompts/research_answer.md");
/// Number of times a model that only asks for searches is asked for its answer.
const ANSWERS_MAX: usize = 2;
/// What the model is told in that case.
const IN_WORDS: &str =
    "The searches are over. Answer in words now, with what is known, and without search tags.";
/// The prompt for an answer without any source.
const NOTHING: &str = "Nothing was found for this question. Say so, and what was looked for.";

/// The same if the model may answer from its own knowledge.
const NOTHING_BUT_THE_MODEL: &str = "Nothing was found for this question. Say so first, and what was looked for. Then answer from \
                                     what you know, and say plainly that no source confirms it.";

static QUERY: Field<Template> = Field::template("query", "the question to research")
    .or("sys.query")
    .by_model("the question to look into, in one sentence that can be understood by itself");
static REASONING: Field<Template> = Field::template(
    "reasoning",
    "whether to search in several steps: `true`, `false` (search once), or a reference to a switch in a form; for `agentic`, the effort: `low`, `medium`, `high` or `ultra`",
)
.or("true");
static STRATEGY: Field<&str> = Field::choice(
    "strategy",
    "iterative",
    &[
        choice("iterative", "the model alternates reasoning and searches until it has enough"),
        choice("tree", "missing information becomes subquestions"),
        choice(
            "agentic",
            "the points of the question are researched in parallel, and the report on each is verified against its passages",
        ),
    ],
    "how to research the question",
);
static MAX_STEPS: Field<usize> =
    Field::count("max_steps", 5, &(1..=20), "the maximum number of reasoning rounds")
        .shown_when("strategy", &["iterative"]);
static MAX_QUERIES: Field<usize> = Field::count(
    "max_queries_per_step",
    3,
    &(1..=10),
    "the maximum number of searches per round, or of subquestions or points per question",
);
static DEPTH: Field<usize> = Field::count(
    "depth",
    3,
    &(0..=5),
    "how many times a question is decomposed, or its open points are researched again",
)
.shown_when("strategy", &["tree", "agentic"]);
static MAX_SEARCHES: Field<usize> =
    Field::count("max_searches", 10, &(1..=100), "the maximum number of searches")
        .shown_when("strategy", &["tree", "agentic"]);
static SECONDS: Field<usize> =
    Field::count("seconds", 300, &(1..=3_600), "the time limit for searching; the answer is still given")
        .unit("seconds");
static WEB_RESULTS: Field<usize> =
    Field::count("web_results", 6, &(1..=20), "the maximum number of results per web search");
static SYS_PROMPT: Field<Template> =
    Field::template("sys_prompt", "how to answer; built-in instructions if empty").widget(Widget::Lines);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "DeepResearch",
    role: Role::Step,
    summary: "Looks into a question in several searches of datasets, their knowledge graph and the web, and answers it \
              with citations. What it thinks and looks for is shown as thinking.",
    fields: &[
        fields(&[
            &QUERY,
            &REASONING,
            &STRATEGY,
            &MAX_STEPS,
            &MAX_QUERIES,
            &DEPTH,
            &MAX_SEARCHES,
            &SECONDS,
            &SYS_PROMPT,
        ]),
        settings::MODEL,
        FieldGroup {
            title: "Datasets",
            fields: &[
                &DATASET_IDS,
                &KB_VARS,
                &DOC_IDS,
                &META_DATA_FILTER,
                &USE_KG,
                &TOP_N,
                &TOP_K,
                &SIMILARITY_THRESHOLD,
                &KEYWORDS_SIMILARITY_WEIGHT,
                &RERANK_ID,
                &CROSS_LANGUAGES,
                &KEYWORD,
                &TOC_ENHANCE,
            ],
        },
        FieldGroup { title: "Web", fields: &[&ENGINE, &API_KEY, &SEARXNG_URL, &BASE_URL, &WEB_RESULTS] },
        settings::SAMPLING,
        ENGINE_FIELDS,
    ],
    outputs: &[
        OutputSpec::new("content", "string", "the answer"),
        OutputSpec::new("formalized_content", "string", "the results as text for prompts"),
        OutputSpec::new("chunks", "array", "the passages found"),
        OutputSpec::new("doc_aggs", "array", "the number of passages per document"),
        OutputSpec::new("queries", "array", "the searches: `query`, `hits`, `summary`, `failed`"),
        OutputSpec::new("sources", "array", "the number of passages per kind of source"),
        OutputSpec::new(
            "claims",
            "array",
            "with `agentic`, the points of the question: `claim`, `report`, `verified`, `confidence`, `evidence_ids`, `gaps`",
        )
        .when_asked_for(),
        OutputSpec::new("gaps", "array", "what is still missing"),
        OutputSpec::new("stop_reason", "string", "`enough`, `limit`, `time`, `failed` if no source has answered, or `once` for a single search"),
        OutputSpec::new("notes", "array", "what could not be done as requested"),
    ],
    // An hour of searching at most, followed by the answer.
    time_limit: Some(Duration::from_hours(2)),
    measuring_only: false,
    tool: Some(ToolSpec { function: "deep_research", idempotent: true, sources: true }),
    build: |source| {
        let mut params = Params::of(source);
        let query = params.take(&QUERY);
        let reasoning = params.take(&REASONING);
        let mode = match params.take(&STRATEGY) {
            "tree" => Mode::Tree,
            "agentic" => Mode::Agentic,
            _ => Mode::Iterative,
        };
        let says = |field: &dyn AnyField| params.get(field).is_some_and(asks_for_something);
        // Read from the parameters as written: the values taken may be defaults.
        let set = [says(&MAX_QUERIES), says(&DEPTH), says(&MAX_SEARCHES)];
        let limits = Limits {
            steps: params.take(&MAX_STEPS),
            queries: params.take(&MAX_QUERIES),
            depth: params.take(&DEPTH),
            nodes: params.take(&MAX_SEARCHES),
            time: Duration::from_secs(u64::try_from(params.take(&SECONDS)).unwrap_or(u64::MAX)),
            effort: Effort::default(),
        };
        let datasets = DatasetSearch::of(&mut params);
        let web = web(&mut params);
        let system = params.take(&SYS_PROMPT);
        let asking = Asking::read(&mut params);
        let exception = params.exception();
        // An answer that may go to another branch must not have been shown before.
        let streams = exception.goto.is_empty();
        let default = exception.covering();
        params.finish(DeepResearch {
            query,
            reasoning,
            mode,
            limits,
            set,
            datasets,
            web,
            system,
            asking,
            streams,
            default,
        })
    },
};

/// Returns the web search, if an engine is named or its parameters imply one.
fn web(params: &mut Params<'_>) -> Option<ServiceNode> {
    let says = |field: &dyn AnyField| params.get(field).is_some_and(asks_for_something);
    let named = says(&ENGINE) || says(&SEARXNG_URL);
    if !named && !says(&API_KEY) {
        return None;
    }
    // A copy, so that the additions are not taken for what the canvas sets.
    let mut given = params.source.params.clone();
    // Research needs more of each page.
    given.entry("search_depth").or_insert_with(|| json!("advanced"));
    if !named {
        given.insert("engine".to_owned(), json!("tavily"));
    }
    let source = weft_core::NodeSource { params: &given, ..params.source };
    let mut own = Params::of(&source);
    let asking = web_search::asking(&mut own, &QUERY, &WEB_RESULTS);
    for problem in own.problems() {
        params.problem(problem.clone());
    }
    Some(asking)
}

/// The question to investigate, and how far.
struct ResearchQuestion {
    question: String,
    /// Its limits; `None` for a single search.
    limits: Option<Limits>,
}

impl ResearchQuestion {
    /// Returns the prompt for an answer without any source.
    fn without_sources(&self) -> &'static str {
        let bare = self.limits.is_some_and(|limits| limits.effort.may_go_without_sources());
        if bare { NOTHING_BUT_THE_MODEL } else { NOTHING }
    }
}

/// The model that writes the answer, and where it is streamed.
#[derive(Clone, Copy)]
struct AnswerWriter<'a> {
    model: &'a dyn ChatModel,
    /// The listener, if any.
    writer: Option<&'a TextWriter>,
}

struct DeepResearch {
    query: Template,
    /// Whether there are several steps.
    reasoning: Template,
    mode: Mode,
    limits: Limits,
    /// Which of points, depth and searches the canvas sets; an effort decides the others.
    set: [bool; 3],
    datasets: DatasetSearch,
    web: Option<ServiceNode>,
    system: Template,
    asking: Asking,
    streams: bool,
    default: Option<Json>,
}

impl DeepResearch {
    /// Researches the question and answers it.
    async fn work(&self, ctx: &NodeContext, writer: Option<&TextWriter>) -> Result<Outputs> {
        let question = self.query.render(&ctx.inputs)?.trim().to_owned();
        if question.is_empty() {
            return Err(Error::invalid("there is no question").help("enter the question in `query`"));
        }
        // The model is resolved first: without it the searches would be paid for in vain.
        let model = ctx.run.seams.models.resolve(&ctx.run.tenant, &self.asking.llm_id)?;
        warn_of_prices(ctx, &*model).await?;
        let reasoning = self.reasoning.value(&ctx.inputs)?;
        // Only this mode knows efforts; in the others the word only means that there are several steps.
        let effort = Effort::named(&reasoning).filter(|_| self.mode == Mode::Agentic);
        let several = effort.is_some() || truth(&reasoning).unwrap_or(true);
        let asked = ResearchQuestion { question, limits: several.then(|| self.limits(effort)) };
        let voice = AnswerWriter { model: &*model, writer };
        let findings = self.findings(ctx, voice, &asked).await?;
        ctx.run.citations.note_search();
        // Sent before the answer is written, so that the reader sees why it is thin.
        for note in &findings.notes {
            ctx.signal(Signal::Warn(note.clone())).await?;
        }
        let answer = self.answer(ctx, voice, &asked, &findings).await?;
        let stopped = if several { json!(findings.stopped) } else { json!("once") };
        let mut outputs = Outputs::of("content", Value::text(answer));
        outputs.set("formalized_content", Value::text(formalized(&findings.cited)));
        outputs.set("chunks", chunks(&findings.cited));
        outputs.set("doc_aggs", documents(&findings.cited));
        outputs.set("queries", json!(findings.queries));
        let sources = findings.sources.iter().map(|(kind, count)| json!({"kind": kind, "count": count}));
        outputs.set("sources", sources.collect::<Json>());
        if !findings.claims.is_empty() {
            outputs.set("claims", json!(findings.claims));
        }
        outputs.set("gaps", json!(findings.gaps));
        outputs.set("stop_reason", stopped);
        if !findings.notes.is_empty() {
            outputs.set("notes", json!(findings.notes));
        }
        Ok(outputs)
    }

    /// Returns the limits: what the canvas sets, and otherwise the defaults of the effort.
    fn limits(&self, effort: Option<Effort>) -> Limits {
        let Some(effort) = effort else { return self.limits };
        let (own, usual, [queries, depth, nodes]) = (self.limits, effort.limits(self.limits), self.set);
        Limits {
            queries: if queries { own.queries } else { usual.queries },
            depth: if depth { own.depth } else { usual.depth },
            nodes: if nodes { own.nodes } else { usual.nodes },
            ..usual
        }
    }

    /// Returns a request that is streamed to `writer`, if there is one.
    fn request(&self, writer: Option<&TextWriter>, messages: Vec<ChatMessage>) -> ChatRequest {
        // Several requests write concurrently: what one of them has written cannot be retracted on its own.
        let audience = if writer.is_some() { Audience::Listening } else { Audience::Nobody };
        ChatRequest { audience, ..self.asking.request(messages) }
    }

    async fn findings(
        &self,
        ctx: &NodeContext,
        AnswerWriter { model, writer }: AnswerWriter<'_>,
        asked: &ResearchQuestion,
    ) -> Result<Findings> {
        let datasets = DatasetSource(&self.datasets);
        let graph = GraphSource(&self.datasets);
        let web = self.web.as_ref().map(Web);
        let mut sources: Vec<&dyn Source> = Vec::new();
        // The graph's result comes first, as in a search of Retrieval.
        if self.datasets.how().graph {
            sources.push(&graph);
        }
        if !self.datasets.chooses_nothing() {
            sources.push(&datasets);
        }
        sources.extend(web.as_ref().map(|web| web as &dyn Source));
        if sources.is_empty() {
            let help = "choose datasets in `dataset_ids`, or a search engine in `engine`";
            return Err(Error::invalid("there is nothing to search").help(help));
        }
        let request = |messages| self.request(writer, messages);
        let research = Research {
            ctx,
            model,
            request: &request,
            sources: &sources,
            mode: self.mode,
            limits: asked.limits.unwrap_or(self.limits),
        };
        let mut show = |text: &str| {
            if let Some(writer) = writer
                && !text.is_empty()
            {
                writer.push(Piece::Thinking(text.into()));
            }
        };
        match asked.limits {
            Some(_) => research.run(&asked.question, &mut show).await,
            None => research.once(&asked.question).await,
        }
    }

    async fn answer(
        &self,
        ctx: &NodeContext,
        AnswerWriter { model, writer }: AnswerWriter<'_>,
        asked: &ResearchQuestion,
        findings: &Findings,
    ) -> Result<String> {
        let own = self.system.render(&ctx.inputs)?;
        let words = if own.trim().is_empty() { ANSWER.trim_end() } else { own.trim_end() };
        let mut system = vec![words.to_owned()];
        if findings.cited.is_empty() {
            let looked: Vec<&str> = findings.queries.iter().map(|query| query.query.as_str()).collect();
            system.push(format!("{}\n{}", asked.without_sources(), looked.join("\n")));
        } else {
            // Half of the window, which leaves room for the question and the answer.
            let passages = formalized(&findings.cited);
            let passages = window::cut(&passages, model.info().window / 2);
            system.push(format!("## The material\n\n{passages}"));
            system.push(CITATION.trim_end().to_owned());
        }
        let reports: Vec<String> =
            findings.claims.iter().filter(|claim| claim.is_likely()).map(reported).collect();
        if !reports.is_empty() {
            system.push(format!("## What was made out\n\n{}", reports.join("\n\n")));
        }
        // If the findings were sufficient, what is left open is not a gap.
        if !findings.gaps.is_empty() && findings.stopped != StopReason::Enough {
            system.push(format!("## Not found\n\n- {}", findings.gaps.join("\n- ")));
        }
        let lines = vec![
            Line::pinned(ChatMessage::new(Author::System, system.join("\n\n"))),
            Line::pinned(ChatMessage::new(Author::User, &*asked.question)),
        ];
        let room = window::room(model.info().window, self.asking.sampling.max_tokens, 0);
        let (messages, note) = window::fit(lines, room)?;
        if let Some(note) = note {
            ctx.signal(Signal::Warn(note)).await?;
        }
        self.written(ctx, AnswerWriter { model, writer }, messages, findings).await
    }

    /// Returns the answer as text, even from a model that keeps asking for searches.
    async fn written(
        &self,
        ctx: &NodeContext,
        AnswerWriter { model, writer }: AnswerWriter<'_>,
        mut messages: Vec<ChatMessage>,
        findings: &Findings,
    ) -> Result<String> {
        let citations = Some(ctx.run.citations.clone());
        let mut voice = AnswerStream::new(writer, citations, "").without_search_tags().told_to_cite();
        for _ in 0..ANSWERS_MAX {
            // Only the answer may be retracted: nothing else is being written at that time.
            let request =
                ChatRequest { audience: Audience::of(writer), ..self.request(writer, messages.clone()) };
            ask_text(ctx, model, request, &mut |piece| voice.piece(piece)).await?;
            voice.pause();
            if !voice.said().trim().is_empty() {
                return Ok(voice.finish());
            }
            // It only asked for searches. Appended to the same message, because authors have to alternate.
            if let Some(question) = messages.last_mut() {
                question.text = format!("{}\n\n{IN_WORDS}", question.text);
            }
        }
        // The searches have been paid for: what they have found is better than no answer.
        let known: Vec<&str> = findings.queries.iter().map(|query| query.summary.trim()).collect();
        let known: Vec<&str> = known.into_iter().filter(|summary| !summary.is_empty()).collect();
        if known.is_empty() {
            return Err(empty_answer(Ending::Whole, &[]));
        }
        voice.piece(Piece::Text(known.join("\n\n").into()));
        Ok(voice.finish())
    }
}

/// Formats a point of the question for the author of the answer.
fn reported(claim: &Claim) -> String {
    let caveat = if claim.verified { "" } else { "\nThis is not certain: say so, and why." };
    format!("### {}\n{}{caveat}", claim.claim, claim.report)
}

#[async_trait]
impl Component for DeepResearch {
    fn shape(&self) -> Shape {
        let web = self.web.as_ref().map(Component::shape);
        let texts = [&self.query, &self.reasoning, &self.system].into_iter().flat_map(Template::references);
        let mut reads: Vec<_> = texts.chain(self.datasets.references()).cloned().collect();
        let mut shape = Shape {
            streams: self.streams,
            models: vec![("/llm_id".to_owned(), self.asking.llm_id.clone())],
            datasets: self.datasets.named(),
            warnings: self.datasets.warnings(),
            main_output: "content",
            outputs: NodeOutputs::named((self.mode == Mode::Agentic).then_some("claims")),
            ..Shape::default()
        };
        if let Some(web) = web {
            reads.extend(web.reads.all().cloned());
            shape.warnings.extend(web.warnings);
            shape.secrets = web.secrets;
            (shape.lacks, shape.needs) = (web.lacks, web.needs);
        }
        shape.reads = Reads::always(reads);
        shape
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        if !(self.streams && ctx.heard) {
            return self.work(ctx, None).await.map(Finished::from);
        }
        let writer = begin_aloud(ctx).await?;
        let outputs = self.work(ctx, Some(&writer)).await;
        end_aloud(writer, &outputs, self.default.as_ref());
        outputs.map(Finished::from)
    }
}

#[cfg(test)]
mod tests;
