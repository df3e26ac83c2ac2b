//! The streams that the routes give, each with its own choice of frames.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use weft_core::{Ending, Entry, Error, Json, Record};

use crate::answer::Answer;
use crate::dialect::ag_ui::{self, AgUiRun, Names};
use crate::dialect::agent::AgentRun;
use crate::dialect::openai::Completion;
use crate::dialect::ragflow::{self, Additions, RunView};
use crate::dialect::responses::ResponseRun;
use crate::dialect::write_json;
use crate::source_metadata::SourceMetadata;
use crate::sse::{Frames, Prefix, put_failure, put_frame, put_text};
use crate::wire::session::sources;

/// What a run without an end in its journal is told as.
pub(crate) const CUT_OFF: &str = "the run was interrupted before its end; start the turn again";

/// What a caller is told who knows no run to read on.
pub(crate) const GOES_ON: &str =
    "the rest of the answer cannot be read here; the run goes on, and its answer will be in the session";

/// Nodes that a trace tells at most: each frame of a traced stream holds all of them so far.
const TRACED_MAX: usize = 1_000;

/// Which events of a run a route forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// All of them.
    All,
    /// What a conversation needs: nodes that finished, messages, forms, the end.
    Session,
    /// The same in a form that clients before 2026 can read: an empty `content` in every frame.
    Older,
    /// What is said and asked, and the end: nothing of how a canvas works.
    Messages,
}

impl Kinds {
    fn takes(self, record: &Record) -> bool {
        match record {
            Record::NodeFinished { .. } => self != Self::Messages,
            Record::Said { .. }
            | Record::Played { .. }
            | Record::ThinkingStarted { .. }
            | Record::ThinkingEnded { .. }
            | Record::MessageEnded { .. } => true,
            Record::Waiting { .. } | Record::RunFinished { .. } => true,
            // It has no `content`, which clients of old look for in every frame.
            Record::MessageReset { .. } => self != Self::Older,
            Record::RunStarted { .. }
            | Record::NodeStarted { .. }
            | Record::ToolStarted { .. }
            | Record::ToolFinished { .. }
            | Record::Warned { .. } => self == Self::All,
            Record::NodeSkipped { .. }
            | Record::FrameOpened { .. }
            | Record::ModelUsed { .. }
            | Record::EffectStarted { .. }
            | Record::EffectFinished { .. }
            | Record::Published { .. }
            | Record::Sourced { .. }
            | Record::PickedUp { .. }
            | Record::Limited { .. } => false,
        }
    }
}

/// Whether a stream says that it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// `data:[DONE]`
    Done,
    /// It just ends.
    None,
}

/// Run events as RAGFlow's clients know them.
pub struct RunEvents {
    view: RunView,
    kinds: Kinds,
    terminator: Terminator,
    after: u64,
    trace: Option<Vec<Json>>,
    failure: Option<String>,
    ended: bool,
}

impl RunEvents {
    /// The events of these kinds.
    pub fn new(view: RunView, kinds: Kinds, terminator: Terminator) -> Self {
        Self { view, kinds, terminator, after: 0, trace: None, failure: None, ended: false }
    }

    /// Only the events after this number.
    #[must_use]
    pub fn after(mut self, event: u64) -> Self {
        self.after = event;
        self
    }

    /// With the nodes that have finished so far in every `node_finished`.
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.trace = Some(Vec::new());
        self
    }

    /// Why the run failed, before the event that says so. Many clients look at messages only.
    fn tell_failure(&mut self, error: Option<&str>, out: &mut Vec<u8>) {
        let error = error.unwrap_or("the run failed");
        // Readers of all events find the reason in the last of them.
        if self.kinds != Kinds::All {
            let content = format!("**ERROR**: {error}");
            put_frame(out, Prefix::Tight, None, |out| {
                ragflow::write_message(&self.view, &content, out);
                true
            });
        }
        self.failure = Some(error.to_owned());
    }
}

impl Frames for RunEvents {
    fn write(&mut self, entry: &Arc<Entry>, out: &mut Vec<u8>) {
        self.view.learn(entry);
        if let Some(trace) = self.trace.as_mut().filter(|trace| trace.len() < TRACED_MAX) {
            trace.extend(ragflow::traced(entry));
        }
        if let Record::RunFinished { ending, error, .. } = &entry.record {
            self.ended = true;
            if *ending == Ending::Failed {
                self.tell_failure(error.as_deref(), out);
            }
        }
        // What is known already is learned and not shown: what follows refers to it.
        let new = entry.event.is_some_and(|event| event > self.after);
        if new && self.kinds.takes(&entry.record) {
            let additions =
                Additions { blank_content: self.kinds == Kinds::Older, trace: self.trace.as_deref() };
            put_frame(out, Prefix::Tight, entry.event, |out| {
                ragflow::write_frame(entry, &self.view, additions, out)
            });
        }
    }

    fn finish(&mut self, cut: Option<&Error>, out: &mut Vec<u8>) {
        match (&self.failure, cut) {
            (Some(failure), _) => put_failure(out, failure),
            (None, Some(_)) => put_failure(out, &read_on(&self.view)),
            (None, None) if !self.ended => put_failure(out, CUT_OFF),
            (None, None) => {}
        }
        // A stream that broke off is not done: whoever reads events comes back with the last number.
        if self.terminator == Terminator::Done && cut.is_none() {
            put_text(out, Prefix::Tight, "[DONE]");
        }
    }
}

/// Run events as those of one agent at work.
pub struct AgentEvents {
    run: AgentRun,
    terminator: Terminator,
    after: u64,
}

impl AgentEvents {
    /// The events after a number.
    pub fn new(view: RunView, terminator: Terminator, after: u64) -> Self {
        Self { run: AgentRun::new(view), terminator, after }
    }
}

impl Frames for AgentEvents {
    fn write(&mut self, entry: &Arc<Entry>, out: &mut Vec<u8>) {
        self.run.learn(entry);
        if entry.event.is_some_and(|event| event > self.after) {
            put_frame(out, Prefix::Tight, entry.event, |out| self.run.write_frame(entry, out));
        }
    }

    fn finish(&mut self, cut: Option<&Error>, out: &mut Vec<u8>) {
        match cut {
            Some(_) => put_failure(out, &read_on(self.run.view())),
            None if !self.run.is_over() => put_failure(out, CUT_OFF),
            // The reply has said how it ended.
            None => {}
        }
        if self.terminator == Terminator::Done && cut.is_none() {
            put_text(out, Prefix::Tight, "[DONE]");
        }
    }
}

/// Run events as those of the AG-UI protocol. An entry may be several of them.
pub struct AgUiEvents(AgUiRun);

impl AgUiEvents {
    /// Of a run with these names.
    pub fn new(names: Names) -> Self {
        Self(AgUiRun::new(names))
    }
}

fn put_event(event: &Json, out: &mut Vec<u8>) {
    put_frame(out, Prefix::Spaced, None, |out| {
        write_json(event, out);
        true
    });
}

/// The whole stream of a run that does nothing, because what it was to go on with is given up.
pub(crate) fn given_up(names: &Names, at_ms: i64) -> Vec<u8> {
    let mut out = Vec::new();
    ag_ui::given_up(names, at_ms).iter().for_each(|event| put_event(event, &mut out));
    out
}

impl Frames for AgUiEvents {
    fn write(&mut self, entry: &Arc<Entry>, out: &mut Vec<u8>) {
        self.0.events(entry).iter().for_each(|event| put_event(event, out));
    }

    fn finish(&mut self, cut: Option<&Error>, out: &mut Vec<u8>) {
        let message = if cut.is_some() { GOES_ON } else { CUT_OFF };
        self.0.broken_off(message).iter().for_each(|event| put_event(event, out));
    }
}

/// Run events as those of OpenAI's Responses API.
pub struct ResponseEvents {
    run: ResponseRun,
    after: Option<u64>,
}

impl ResponseEvents {
    /// Of a response, after the event of this number.
    pub fn new(run: ResponseRun, after: Option<u64>) -> Self {
        Self { run, after }
    }
}

/// Its clients know an event by its name before they look into it.
fn put_named(event: &Json, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(event["type"].as_str().unwrap_or("error").as_bytes());
    out.push(b'\n');
    put_event(event, out);
}

impl Frames for ResponseEvents {
    fn write(&mut self, entry: &Arc<Entry>, out: &mut Vec<u8>) {
        for event in self.run.events(entry) {
            // Both sides are optional: without a number to go on from, every number is above it.
            if event["sequence_number"].as_u64() > self.after {
                put_named(&event, out);
            }
        }
    }

    fn finish(&mut self, cut: Option<&Error>, out: &mut Vec<u8>) {
        if cut.is_some() || !self.run.is_over() {
            let message = if cut.is_some() { GOES_ON } else { CUT_OFF };
            put_named(&self.run.broken_off(message), out);
        }
        put_text(out, Prefix::Spaced, "[DONE]");
    }
}

/// What a reader is told whose stream ends before the run does: how to read on.
fn read_on(view: &RunView) -> String {
    format!(
        "the rest of the run cannot be read here; it goes on: GET /api/v1/runs/{}/events with the number of the last \
         event as `Last-Event-ID` gives what follows",
        view.run
    )
}

/// Chunks of an OpenAI chat completion.
pub struct CompletionChunks {
    completion: Completion,
    answer: Answer,
    /// What is told of the documents of the sources besides.
    metadata: Option<SourceMetadata>,
    /// The sources with that, once they are known.
    sources: Option<Json>,
}

impl CompletionChunks {
    /// Of this completion, whose sources come with this metadata of their documents.
    pub fn new(completion: Completion, metadata: Option<SourceMetadata>) -> Self {
        Self { completion, answer: Answer::default(), metadata, sources: None }
    }

    async fn find_metadata(&mut self) {
        self.sources = self.completion.told_sources(&self.answer);
        if let (Some(metadata), Some(Json::Array(sources))) = (&self.metadata, &mut self.sources)
            && let Err(error) = metadata.put(sources).await
        {
            // The answer has been told already: its sources come without.
            tracing::warn!(error = error.detail(), "the metadata of sources could not be read");
        }
    }
}

impl Frames for CompletionChunks {
    fn write(&mut self, entry: &Arc<Entry>, out: &mut Vec<u8>) {
        if let Record::RunStarted { canvas_version, .. } = &entry.record {
            self.completion.started_ms = entry.at_ms;
            self.completion.version = Arc::clone(canvas_version);
        }
        put_frame(out, Prefix::Spaced, entry.event, |out| {
            self.completion.write_frame(entry, &self.answer, out)
        });
        self.answer.learn(entry);
    }

    fn before_the_end(&mut self) -> Option<BoxFuture<'_, ()>> {
        self.metadata.is_some().then(|| self.find_metadata().boxed())
    }

    fn finish(&mut self, cut: Option<&Error>, out: &mut Vec<u8>) {
        let whole = cut.is_none() && self.answer.end.is_some();
        let sources = self.sources.take().or_else(|| self.completion.told_sources(&self.answer));
        let frames = if whole { self.completion.write_end_with(&self.answer, sources) } else { Vec::new() };
        for frame in frames {
            put_frame(out, Prefix::Spaced, None, |out| {
                out.extend_from_slice(&frame);
                true
            });
        }
        if !whole {
            let message = if cut.is_some() { GOES_ON } else { CUT_OFF };
            let error = json!({"error": {"message": message, "type": "server_error"}});
            put_frame(out, Prefix::Spaced, None, |out| {
                write_json(&error, out);
                true
            });
        }
        put_text(out, Prefix::Spaced, "[DONE]");
    }
}

/// The frames of `/completion`: each holds the whole answer so far.
pub struct AnswersSoFar {
    view: RunView,
    answer: Answer,
}

impl AnswersSoFar {
    /// Of this run.
    pub fn new(view: RunView) -> Self {
        Self { view, answer: Answer::default() }
    }
}

/// The answer as `/completion` gives it.
pub fn answer_data(answer: &Answer, view: &RunView) -> Json {
    json!({"answer": answer.text(), "reference": sources(&answer.reference()), "id": view.run, "session_id": view.session})
}

impl Frames for AnswersSoFar {
    fn write(&mut self, entry: &Arc<Entry>, out: &mut Vec<u8>) {
        self.view.learn(entry);
        self.answer.learn(entry);
        let shown = match &entry.record {
            // A piece of reasoning changes nothing of the answer so far, so it has no frame.
            Record::Said { activation, .. } => !self.answer.is_thinking(*activation),
            Record::MessageEnded { .. } | Record::MessageReset { .. } => true,
            _ => false,
        };
        if shown {
            let frame = json!({"code": 0, "message": "", "data": answer_data(&self.answer, &self.view)});
            put_frame(out, Prefix::Tight, entry.event, |out| {
                write_json(&frame, out);
                true
            });
        }
    }

    fn finish(&mut self, cut: Option<&Error>, out: &mut Vec<u8>) {
        let whole = cut.is_none() && self.answer.end.is_some();
        let elsewhere = cut.map(|_| read_on(&self.view));
        let failure = if whole { self.answer.failure() } else { elsewhere.as_deref().or(Some(CUT_OFF)) };
        if let Some(failure) = failure {
            let data = json!({"answer": format!("**ERROR**: {failure}"), "reference": []});
            let frame = json!({"code": crate::error::code::FAILED, "message": failure, "data": data});
            put_frame(out, Prefix::Tight, None, |out| {
                write_json(&frame, out);
                true
            });
        }
        put_text(out, Prefix::Tight, r#"{"code":0,"message":"","data":true}"#);
    }
}
