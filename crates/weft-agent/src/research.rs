//! Deep research: investigates a question with several searches before it is answered.
//!
//! | mode | how |
//! |---|---|
//! | [`Mode::Iterative`] | the model reasons aloud and requests searches until it says that it has enough |
//! | [`Mode::Tree`] | the results are judged; what is missing becomes subquestions, down to a maximum depth |
//! | [`Mode::Agentic`] | its points are investigated in parallel; each report is checked against its passages |
//!
//! All sources are searched concurrently; a source that fails is reported, and the others count. Passages get numbers
//! among the turn's citations, so that an answer can cite all of them. The course of a research depends only on the
//! answers of models and sources and on the recorded clock, so after a crash it continues without repeating any
//! request.

mod agentic;
mod effort;
mod iterative;
mod known;
mod steps;
pub mod tags;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_core::citation::Cited;
use weft_core::context::ToolStarted;
use weft_core::effect::Delivery;
use weft_core::seam::chat_model::{ChatMessage, ChatModel, ChatRequest};
use weft_core::{Error, ErrorKind, NodeContext, Result, async_trait};

pub use self::agentic::Claim;
pub use self::effort::Effort;
use self::known::PastQueries;
use crate::trace::{Traced, TracedResult};
use crate::window::cut;

/// Maximum tokens of the results of one query, as the model reads them.
// The results of each search are read in a request of their own; several of these must fit beside the reasoning.
const FOUND_MAX: usize = 4_096;
/// The name under which a query is reported to the run.
const QUERY_TOOL: &str = "research_query";

/// How a question is investigated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Searches while it reasons.
    #[default]
    Iterative,
    /// Splits the question into subquestions.
    Tree,
    /// Investigates the points of the question, and checks what is said about each.
    Agentic,
}

/// Limits of a research.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rounds of reasoning in the iterative mode.
    pub steps: usize,
    /// Queries of one round, or the number of questions or points that one question is split into.
    pub queries: usize,
    /// How often a question is split, or its open points are investigated again.
    pub depth: usize,
    /// Queries of the whole tree, or for all points.
    pub nodes: usize,
    /// Time limit for starting new work. What has started is completed.
    pub time: Duration,
    /// How certain the points of the agentic mode have to be, and the effort spent on that.
    pub effort: Effort,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 5,
            queries: 3,
            depth: 3,
            nodes: 10,
            time: Duration::from_mins(5),
            effort: Effort::default(),
        }
    }
}

/// The kinds of sources of passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// A knowledge graph.
    Graph,
    /// Datasets.
    Dataset,
    /// The web.
    Web,
}

impl SourceKind {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Dataset => "dataset",
            Self::Web => "web",
        }
    }
}

/// The results of a source for a query.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The passages, with their citation numbers.
    pub cited: Vec<Cited>,
    /// The same passages as text for the model.
    pub text: String,
}

/// A source that can be searched.
#[async_trait]
pub trait Source: Send + Sync {
    /// Its kind.
    fn kind(&self) -> SourceKind;

    /// Searches for a query. Calls go through `ctx`, so that they are recorded.
    ///
    /// # Errors
    /// The errors of the search.
    async fn search(&self, ctx: &NodeContext, query: &str) -> Result<Found>;
}

/// The investigation of a question.
pub struct Research<'a> {
    /// The context of the work.
    pub ctx: &'a NodeContext,
    /// The model that reasons, reads and judges.
    pub model: &'a dyn ChatModel,
    /// Builds a request to it.
    pub request: &'a (dyn Fn(Vec<ChatMessage>) -> ChatRequest + Sync),
    /// The sources, in the order in which passages are shown.
    pub sources: &'a [&'a dyn Source],
    /// The mode.
    pub mode: Mode,
    /// The limits.
    pub limits: Limits,
}

/// A query and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Query {
    /// The text that was searched for.
    pub query: String,
    /// The number of passages found.
    pub hits: usize,
    /// What they say about it, or what is still missing.
    pub summary: String,
    /// The sources that failed, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

/// Why a research stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// There is enough to answer.
    Enough,
    /// The maximum of rounds, levels or queries was reached.
    Limit,
    /// The time limit was reached.
    Time,
    /// No source answered any query.
    Failed,
}

/// The outcome of a research.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The queries, in order.
    pub queries: Vec<Query>,
    /// How many passages each kind of source gave, each passage counted once.
    pub sources: BTreeMap<SourceKind, usize>,
    /// The passages, each once, in the order in which they were found.
    pub cited: Vec<Cited>,
    /// The points of the question, in the agentic mode.
    pub claims: Vec<Claim>,
    /// What is still missing, as far as a model named it.
    pub gaps: Vec<String>,
    /// Why it stopped.
    pub stopped: StopReason,
    /// What could not be done.
    pub notes: Vec<String>,
}

impl Research<'_> {
    /// Investigates a question. Reasoning goes to `show` as it arrives.
    ///
    /// # Errors
    /// The errors of the model. A source that fails is reported in the findings.
    pub async fn run(&self, question: &str, show: &mut (dyn FnMut(&str) + Send)) -> Result<Findings> {
        let time_ms = i64::try_from(self.limits.time.as_millis()).unwrap_or(i64::MAX);
        // The start time is in the journal: a research that resumes after an interruption has no more time than
        // before.
        let mut course = self.course(show, self.now_ms().await?.saturating_add(time_ms));
        let stopped = match self.mode {
            Mode::Iterative => iterative::run(&mut course, question).await?,
            Mode::Tree => tree::run(&mut course, question).await?,
            Mode::Agentic => agentic::run(&mut course, question).await?,
        };
        // Without any answer, there is nothing to judge whether it is enough.
        let failed = !course.answered && !course.findings.queries.is_empty();
        course.findings.stopped = if failed { StopReason::Failed } else { stopped };
        Ok(course.findings)
    }

    /// Searches once, for the question itself.
    ///
    /// # Errors
    /// The errors that end the whole work.
    pub async fn once(&self, question: &str) -> Result<Findings> {
        let mut quiet = |_: &str| {};
        let mut course = self.course(&mut quiet, i64::MAX);
        let answers = course.search(&[question.to_owned()], &self.kinds()).await?;
        answers.iter().for_each(|answer| course.keep(answer, String::new()));
        Ok(course.findings)
    }

    /// The kinds of the sources.
    fn kinds(&self) -> Vec<SourceKind> {
        self.sources.iter().map(|source| source.kind()).collect()
    }

    /// Searches these sources for these queries; `before` queries precede them.
    async fn search(
        &self,
        before: usize,
        queries: &[String],
        of: &[SourceKind],
    ) -> Result<Vec<QueryResults>> {
        // Numbered over the whole research: the number is the position in the journal, regardless of which query
        // finishes first.
        let answers = queries.iter().enumerate().map(|(place, query)| self.answer(before + place, query, of));
        join_all(answers).await.into_iter().collect()
    }

    async fn answer(&self, place: usize, query: &str, of: &[SourceKind]) -> Result<QueryResults> {
        let asked = self.sources.iter().filter(|source| of.contains(&source.kind()));
        let each = asked.map(|source| async move {
            let kind = source.kind();
            let inside = self.inside(&format!("{place}-{}", kind.name()));
            (kind, source.search(&inside, query).await)
        });
        let traced = self.traced(place, query).await?;
        // Waits for all of them, even when one fails: the results of the others are recorded and count.
        let found = join_all(each).await;
        let mut answer = QueryResults { query: query.to_owned(), found };
        // A run that has ended or whose budget is used up is not a failure of a source, and continuing would only
        // fail again.
        let ends = |found: &Result<Found>| found.as_ref().is_err_and(|error| ends_the_work(error.kind));
        let ended = answer.found.iter().position(|(_, found)| ends(found));
        let failed = ended.is_some() || answer.found.iter().all(|(_, found)| found.is_err());
        let result = json!({"hits": answer.hits(), "failed": failures(&answer)});
        let told = traced.finish(TracedResult { result, failed, repaired: false }).await;
        if let Some(place) = ended
            && let (_, Err(error)) = answer.found.swap_remove(place)
        {
            return Err(error);
        }
        told?;
        Ok(answer)
    }

    /// Reports a query as a tool call.
    async fn traced(&self, place: usize, query: &str) -> Result<Traced<'_>> {
        let ctx = self.ctx;
        let started = ToolStarted {
            agent: ctx.node.clone(),
            path: format!("{}-->{QUERY_TOOL}", ctx.name).into(),
            call: format!("{}research-{place}", ctx.part).into(),
            tool: QUERY_TOOL.into(),
            arguments: json!({"query": query}).into(),
        };
        Traced::start(ctx, started).await
    }

    /// A context with its own part in the journal, because similar work runs concurrently.
    fn inside(&self, name: &str) -> NodeContext {
        NodeContext { part: format!("{}research-{name}/", self.ctx.part).into(), ..self.ctx.clone() }
    }

    fn course<'r>(&'r self, show: &'r mut (dyn FnMut(&str) + Send), end_ms: i64) -> Course<'r, 'r> {
        let findings = Findings {
            queries: Vec::new(),
            sources: BTreeMap::new(),
            cited: Vec::new(),
            claims: Vec::new(),
            gaps: Vec::new(),
            stopped: StopReason::Enough,
            notes: Vec::new(),
        };
        let (done, known) = (BTreeSet::new(), PastQueries::default());
        Course { research: self, show, end_ms, done, known, looks: 0, answered: false, findings }
    }

    /// The time as recorded when it was first asked for.
    async fn now_ms(&self) -> Result<i64> {
        let clock = &self.ctx.run.seams.clock;
        let now = self.ctx.effect("clock", Delivery::Idempotent, async { Ok(clock.now_ms()) });
        now.await.map(|(now, _)| now)
    }
}

/// A research in progress.
struct Course<'r, 'a> {
    research: &'r Research<'a>,
    show: &'r mut (dyn FnMut(&str) + Send),
    end_ms: i64,
    /// The queries made so far, normalized.
    done: BTreeSet<String>,
    /// What they found, in the agentic mode.
    known: PastQueries,
    /// The number of reports requested so far; each has its own part in the journal.
    looks: usize,
    /// Whether any source has answered a query.
    answered: bool,
    findings: Findings,
}

/// The results of all sources for one query.
struct QueryResults {
    query: String,
    found: Vec<(SourceKind, Result<Found>)>,
}

impl QueryResults {
    /// The results as text for a model, up to a number of tokens.
    fn text(&self, tokens_max: usize) -> String {
        let texts = self.found.iter().filter_map(|(_, found)| found.as_ref().ok());
        let texts: Vec<&str> = texts.map(|found| found.text.trim()).filter(|text| !text.is_empty()).collect();
        cut(&texts.join("\n------\n"), tokens_max).to_owned()
    }

    fn hits(&self) -> usize {
        self.found.iter().filter_map(|(_, found)| found.as_ref().ok()).map(|found| found.cited.len()).sum()
    }
}

impl Course<'_, '_> {
    fn say(&mut self, text: &str) {
        (self.show)(text);
    }

    async fn is_late(&mut self) -> Result<bool> {
        Ok(self.research.now_ms().await? >= self.end_ms)
    }

    /// Whether a query is new, regardless of how it is written.
    fn is_new(&mut self, query: &str) -> bool {
        self.done.insert(known::plain(query))
    }

    /// Searches these sources for these queries, all concurrently.
    async fn search(&mut self, queries: &[String], of: &[SourceKind]) -> Result<Vec<QueryResults>> {
        let answers = self.research.search(self.findings.queries.len(), queries, of).await?;
        self.answered |= answers.iter().flat_map(|answer| &answer.found).any(|(_, found)| found.is_ok());
        Ok(answers)
    }

    /// Adds the results of a query to the findings.
    fn keep(&mut self, answer: &QueryResults, summary: String) {
        let findings = &mut self.findings;
        for (kind, found) in &answer.found {
            let Ok(found) = found else { continue };
            for cited in &found.cited {
                // Several queries may find the same passage; counting it once makes a source's number show how much
                // it contributed.
                if !findings.cited.iter().any(|known| known.number == cited.number) {
                    findings.cited.push(cited.clone());
                    *findings.sources.entry(*kind).or_default() += 1;
                }
            }
        }
        let failed = failures(answer);
        for failure in &failed {
            // A source that is down fails every query with the same message.
            if !findings.notes.contains(failure) {
                findings.notes.push(failure.clone());
            }
        }
        findings.queries.push(Query { query: answer.query.clone(), hits: answer.hits(), summary, failed });
    }
}

fn failures(answer: &QueryResults) -> Vec<String> {
    let told = |(kind, error): (&SourceKind, &Error)| {
        format!("the source `{}` failed: {}", kind.name(), error.full())
    };
    answer.found.iter().filter_map(|(kind, found)| Some((kind, found.as_ref().err()?))).map(told).collect()
}

/// Whether an error ends the research and not only a search.
fn ends_the_work(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Cancelled | ErrorKind::QuotaExceeded | ErrorKind::Interrupted)
}
