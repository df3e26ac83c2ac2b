//! Deep research: a question is looked into in several searches before it is answered.
//!
//! | mode | how |
//! |---|---|
//! | [`Mode::Iterative`] | the model reasons aloud and has things looked up until it says that it is enough |
//! | [`Mode::Tree`] | what was found is judged; what is missing becomes questions of its own, down to a depth |
//! | [`Mode::Agentic`] | the points of the question are looked into side by side; each report is checked against its passages |
//!
//! All sources are asked at the same time; one that fails is told, and the others count. What was found is numbered in
//! the turn's citations, so that an answer can cite all of it. The course of a research is made of what models and
//! sources said, and of the journal's clock, so it goes on after a crash without asking anybody twice.

mod agentic;
mod effort;
mod iterative;
mod known;
mod steps;
pub mod tags;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_core::citation::Cited;
use weft_core::context::ToolStarted;
use weft_core::effect::Delivery;
use weft_core::seam::chat_model::{ChatMessage, ChatModel, ChatRequest};
use weft_core::{Error, ErrorKind, NodeContext, Result};

pub use self::agentic::Claim;
pub use self::effort::Effort;
use self::known::Known;
use crate::trace::{Gave, Traced};
use crate::window::cut;

/// Tokens of what was found for one query, at most, as the model reads it.
// A search of its own is read by a request of its own; several of these must fit beside the reasoning.
const FOUND_MAX: usize = 4_096;
/// What a query is called where the run is told of it.
const QUERY_TOOL: &str = "research_query";

/// How a question is looked into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Searches while it reasons.
    #[default]
    Iterative,
    /// Takes the question apart.
    Tree,
    /// Looks into the points of the question, and checks what is said of each.
    Agentic,
}

/// What a research may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rounds of reasoning, of the iterative mode.
    pub steps: usize,
    /// Queries of one round, or questions or points that one question is taken apart into.
    pub queries: usize,
    /// How often a question is taken apart, or its open points are looked into again.
    pub depth: usize,
    /// Queries of the whole tree, or for all points.
    pub nodes: usize,
    /// How long it may go on. What has begun is ended.
    pub time: Duration,
    /// How sure one has to be of the points of the agentic mode, and what is done for that.
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

/// Where passages come from.
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

/// What a source has for a query.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The passages, with the numbers they are cited by.
    pub cited: Vec<Cited>,
    /// The same as a model reads them.
    pub text: String,
}

/// Something that can be searched.
#[async_trait]
pub trait Source: Send + Sync {
    /// What it is.
    fn kind(&self) -> SourceKind;

    /// What it has for a query. Calls go through `ctx`, so that they are kept.
    ///
    /// # Errors
    /// What the search fails with.
    async fn search(&self, ctx: &NodeContext, query: &str) -> Result<Found>;
}

/// A question that is looked into.
pub struct Research<'a> {
    /// Whose work it is.
    pub ctx: &'a NodeContext,
    /// Who reasons, reads and judges.
    pub model: &'a dyn ChatModel,
    /// A request to it.
    pub request: &'a (dyn Fn(Vec<ChatMessage>) -> ChatRequest + Sync),
    /// What is searched, in the order in which passages are shown.
    pub sources: &'a [&'a dyn Source],
    /// How.
    pub mode: Mode,
    /// Within which limits.
    pub limits: Limits,
}

/// A query, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Query {
    /// The words that were looked for.
    pub query: String,
    /// How many passages there were.
    pub hits: usize,
    /// What they say about it, or what is missing after all.
    pub summary: String,
    /// The sources that failed, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

/// Why a research ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// There is enough to answer.
    Enough,
    /// As many rounds, levels or queries as there may be.
    Limit,
    /// Its time was up.
    Time,
    /// No source has answered a single query.
    Failed,
}

/// What came of a research.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The queries in their order.
    pub queries: Vec<Query>,
    /// How many passages each kind of source gave, each passage counted once.
    pub sources: BTreeMap<SourceKind, usize>,
    /// The passages, each once, in the order in which they were found.
    pub cited: Vec<Cited>,
    /// The points of the question, of the agentic mode.
    pub claims: Vec<Claim>,
    /// What is still missing, as far as a model said it.
    pub gaps: Vec<String>,
    /// Why it ended.
    pub stopped: StopReason,
    /// What could not be done.
    pub notes: Vec<String>,
}

impl Research<'_> {
    /// Looks into a question. Reasoning goes to `show` as it comes.
    ///
    /// # Errors
    /// What the model fails with. A source that fails is told in the findings.
    pub async fn run(&self, question: &str, show: &mut (dyn FnMut(&str) + Send)) -> Result<Findings> {
        let time_ms = i64::try_from(self.limits.time.as_millis()).unwrap_or(i64::MAX);
        // The beginning is kept in the journal: a research that is
        // taken up after a cut has no more time than before.
        let mut course = self.course(show, self.now_ms().await?.saturating_add(time_ms));
        let stopped = match self.mode {
            Mode::Iterative => iterative::run(&mut course, question).await?,
            Mode::Tree => tree::run(&mut course, question).await?,
            Mode::Agentic => agentic::run(&mut course, question).await?,
        };
        // Nobody knows whether it is enough when nobody has said anything.
        let failed = !course.answered && !course.findings.queries.is_empty();
        course.findings.stopped = if failed { StopReason::Failed } else { stopped };
        Ok(course.findings)
    }

    /// Searches once for the question itself.
    ///
    /// # Errors
    /// What ends the work as a whole.
    pub async fn once(&self, question: &str) -> Result<Findings> {
        let mut quiet = |_: &str| {};
        let mut course = self.course(&mut quiet, i64::MAX);
        let answers = course.search(&[question.to_owned()], &self.kinds()).await?;
        answers.iter().for_each(|answer| course.keep(answer, String::new()));
        Ok(course.findings)
    }

    /// The sources that there are.
    fn kinds(&self) -> Vec<SourceKind> {
        self.sources.iter().map(|source| source.kind()).collect()
    }

    /// Asks these sources for these queries, which follow so many others.
    async fn search(&self, before: usize, queries: &[String], of: &[SourceKind]) -> Result<Vec<Answer>> {
        // Numbered over the whole research: the number is the place in the journal, whoever of them is
        // faster.
        let answers = queries.iter().enumerate().map(|(place, query)| self.answer(before + place, query, of));
        join_all(answers).await.into_iter().collect()
    }

    async fn answer(&self, place: usize, query: &str, of: &[SourceKind]) -> Result<Answer> {
        let asked = self.sources.iter().filter(|source| of.contains(&source.kind()));
        let each = asked.map(|source| async move {
            let kind = source.kind();
            let inside = self.inside(&format!("{place}-{}", kind.name()));
            (kind, source.search(&inside, query).await)
        });
        let traced = self.traced(place, query).await?;
        // All of them, also when one fails: what the others have found is kept in the journal and counts.
        let found = join_all(each).await;
        let mut answer = Answer { query: query.to_owned(), found };
        // A run that is over or has no budget left is no failure of a source, and going on would only fail
        // again.
        let ends = |found: &Result<Found>| found.as_ref().is_err_and(|error| ends_the_work(error.kind));
        let ended = answer.found.iter().position(|(_, found)| ends(found));
        let failed = ended.is_some() || answer.found.iter().all(|(_, found)| found.is_err());
        let result = json!({"hits": answer.hits(), "failed": failures(&answer)});
        let told = traced.finish(Gave { result, failed, repaired: false }).await;
        if let Some(place) = ended
            && let (_, Err(error)) = answer.found.swap_remove(place)
        {
            return Err(error);
        }
        told?;
        Ok(answer)
    }

    /// A query is shown as the call of a tool.
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

    /// Work that has a part of its own in the journal, because others of its kind go on beside it.
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
        let (done, known) = (BTreeSet::new(), Known::default());
        Course { research: self, show, end_ms, done, known, looks: 0, answered: false, findings }
    }

    /// The time, as it was when this was first asked.
    async fn now_ms(&self) -> Result<i64> {
        let clock = &self.ctx.run.seams.clock;
        let now = self.ctx.effect("clock", Delivery::Idempotent, async { Ok(clock.now_ms()) });
        now.await.map(|(now, _)| now)
    }
}

/// A research under way.
struct Course<'r, 'a> {
    research: &'r Research<'a>,
    show: &'r mut (dyn FnMut(&str) + Send),
    end_ms: i64,
    /// Queries that were made, in one way of writing.
    done: BTreeSet<String>,
    /// What they found, of the agentic mode.
    known: Known,
    /// How many reports were asked for, each of which has a part of its own in the journal.
    looks: usize,
    /// Some source has answered a query.
    answered: bool,
    findings: Findings,
}

/// What all sources have for one query.
struct Answer {
    query: String,
    found: Vec<(SourceKind, Result<Found>)>,
}

impl Answer {
    /// What was found as a model reads it, within a budget.
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

    /// Whether a query is new, however it is written.
    fn is_new(&mut self, query: &str) -> bool {
        self.done.insert(known::plain(query))
    }

    /// Asks these sources for these queries, all at the same time.
    async fn search(&mut self, queries: &[String], of: &[SourceKind]) -> Result<Vec<Answer>> {
        let answers = self.research.search(self.findings.queries.len(), queries, of).await?;
        self.answered |= answers.iter().flat_map(|answer| &answer.found).any(|(_, found)| found.is_ok());
        Ok(answers)
    }

    /// Counts what was found.
    fn keep(&mut self, answer: &Answer, summary: String) {
        let findings = &mut self.findings;
        for (kind, found) in &answer.found {
            let Ok(found) = found else { continue };
            for cited in &found.cited {
                // Several queries find the same passage; counted once, a source's number says how much it has
                // contributed.
                if !findings.cited.iter().any(|known| known.number == cited.number) {
                    findings.cited.push(cited.clone());
                    *findings.sources.entry(*kind).or_default() += 1;
                }
            }
        }
        let failed = failures(answer);
        for failure in &failed {
            // A source that is down fails every query in the same words.
            if !findings.notes.contains(failure) {
                findings.notes.push(failure.clone());
            }
        }
        findings.queries.push(Query { query: answer.query.clone(), hits: answer.hits(), summary, failed });
    }
}

fn failures(answer: &Answer) -> Vec<String> {
    let told = |(kind, error): (&SourceKind, &Error)| {
        format!("the source `{}` failed: {}", kind.name(), error.full())
    };
    answer.found.iter().filter_map(|(kind, found)| Some((kind, found.as_ref().err()?))).map(told).collect()
}

/// What ends a research and not only a search.
fn ends_the_work(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Cancelled | ErrorKind::QuotaExceeded | ErrorKind::Interrupted)
}
