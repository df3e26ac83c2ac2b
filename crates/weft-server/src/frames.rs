//! The event streams of the routes, each with its own selection of frames.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use weft_core::{Ending, Entry, Error, Json, Record};

use crate::answer::Answer;
use crate::dialect::ag_ui::{self, AgUiRun, ClientNames};
use crate::dialect::agent::AgentRun;
use crate::dialect::openai::Completion;
use crate::dialect::ragflow::{self, Additions, NodeTrace, RunView};
use crate::dialect::responses::ResponseRun;
use crate::dialect::write_json;
use crate::source_metadata::SourceMetadata;
use crate::sse::{Frames, Prefix, put_failure, put_frame, put_text};
use crate::wire::session::sources;

/// Message for a run whose journal has no end.
pub(crate) const CUT_OFF: &str = "the run was interrupted before its end; start the turn again";

/// Message for a client that has no run id to continue reading with.
pub(crate) const GOES_ON: &str =
    "the rest of the answer cannot be read here; the run continues, and its answer will be in the session";

/// Selection of the events that a route forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// All of them.
    All,
    /// Events for a conversation: finished nodes, messages, forms, the end.
    Session,
    /// The same in the form for clients before 2026: an empty `content` in every frame.
    Older,
    /// Messages, questions and the end: nothing about how a canvas works.
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
            // It has no `content`, which old clients expect in every frame.
            Record::MessageReset { .. } => self != Self::Older,
            // Those that clients never see have no frame.
            _ => self == Self::All,
        }
    }
}

/// The marker at the end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// `data:[DONE]`
    Done,
    /// No marker.
    None,
}

/// Run events in the format of RAGFlow's clients.
pub struct RunEvents {
    view: RunView,
    kinds: Kinds,
    terminator: Terminator,
    after: u64,
    trace: Option<NodeTrace>,
    failure: Option<String>,
    ended: bool,
}

impl RunEvents {
    /// Creates a stream of the events of these kinds.
    pub fn new(view: RunView, kinds: Kinds, terminator: Terminator) -> Self {
        Self { view, kinds, terminator, after: 0, trace: None, failure: None, ended: false }
    }

    /// Skips events up to this number.
    #[must_use]
    pub fn after(mut self, event: u64) -> Self {
        self.after = event;
        self
    }

    /// Includes the nodes that have finished so far in every `node_finished`.
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.trace = Some(NodeTrace::default());
        self
    }

    /// Sends the reason of a failure as a message before the event for the failure, because many clients only read
    /// messages.
    fn tell_failure(&mut self, error: Option<&str>, out: &mut Vec<u8>) {
        let error = error.unwrap_or("the run failed");
        // Clients of all events find the reason in the last one.
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
        if let Some(trace) = &mut self.trace {
            trace.learn(entry);
        }
        if let Record::RunFinished { ending, error, .. } = &entry.record {
            self.ended = true;
            if *ending == Ending::Failed {
                self.tell_failure(error.as_deref(), out);
            }
        }
        // Events that the client already has update the state but are not sent: later ones refer to them.
        let new = entry.event.is_some_and(|event| event > self.after);
        if new && self.kinds.takes(&entry.record) {
            let trace = self.trace.as_ref().map(NodeTrace::nodes);
            let additions = Additions { blank_content: self.kinds == Kinds::Older, trace };
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
        // An interrupted stream has no end marker: clients of events reconnect with the last number.
        if self.terminator == Terminator::Done && cut.is_none() {
            put_text(out, Prefix::Tight, "[DONE]");
        }
    }
}

/// Run events in the format of a single agent at work.
pub struct AgentEvents {
    run: AgentRun,
    terminator: Terminator,
    after: u64,
}

impl AgentEvents {
    /// Creates a stream of the events after a number.
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
            // The reply already contains the ending.
            None => {}
        }
        if self.terminator == Terminator::Done && cut.is_none() {
            put_text(out, Prefix::Tight, "[DONE]");
        }
    }
}

/// Run events in the format of the AG-UI protocol. One entry may produce several.
pub struct AgUiEvents(AgUiRun);

impl AgUiEvents {
    /// Creates the stream of a run with these names.
    pub fn new(names: ClientNames) -> Self {
        Self(AgUiRun::new(names))
    }
}

fn put_event(event: &Json, out: &mut Vec<u8>) {
    put_frame(out, Prefix::Spaced, None, |out| {
        write_json(event, out);
        true
    });
}

/// Returns the whole stream of a run that does nothing, because the run that it would resume was given up.
pub(crate) fn given_up(names: &ClientNames, at_ms: i64) -> Vec<u8> {
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

/// Run events in the format of OpenAI's Responses API.
pub struct ResponseEvents {
    run: ResponseRun,
    after: Option<u64>,
}

impl ResponseEvents {
    /// Creates the stream of a response, after the event with this number.
    pub fn new(run: ResponseRun, after: Option<u64>) -> Self {
        Self { run, after }
    }
}

/// Appends an event with its name: clients identify an event by the name before they parse it.
fn put_named(event: &Json, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(event["type"].as_str().unwrap_or("error").as_bytes());
    out.push(b'\n');
    put_event(event, out);
}

impl Frames for ResponseEvents {
    fn write(&mut self, entry: &Arc<Entry>, out: &mut Vec<u8>) {
        for event in self.run.events(entry) {
            // Compares options: every number is greater than `None`, so that everything is sent without a start.
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

/// Message for a client whose stream ends before the run does: how to continue reading.
fn read_on(view: &RunView) -> String {
    format!(
        "the rest of the run cannot be read here; it continues: GET /api/v1/runs/{}/events with the number of the \
         last event as `Last-Event-ID` returns the rest",
        view.run
    )
}

/// Chunks of an OpenAI chat completion.
pub struct CompletionChunks {
    completion: Completion,
    answer: Answer,
    /// Metadata of the source documents to add.
    metadata: Option<SourceMetadata>,
    /// The sources with their metadata, once they are known.
    sources: Option<Json>,
}

impl CompletionChunks {
    /// Creates the chunks of this completion; `metadata` is added to its sources.
    pub fn new(completion: Completion, metadata: Option<SourceMetadata>) -> Self {
        Self { completion, answer: Answer::default(), metadata, sources: None }
    }

    async fn find_metadata(&mut self) {
        self.sources = self.completion.told_sources(&self.answer);
        if let (Some(metadata), Some(Json::Array(sources))) = (&self.metadata, &mut self.sources)
            && let Err(error) = metadata.put(sources).await
        {
            // The answer has already been sent: its sources come without metadata.
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

/// The frames of `/completion`: each contains the whole answer so far.
pub struct AnswersSoFar {
    view: RunView,
    answer: Answer,
}

impl AnswersSoFar {
    /// Creates the frames of this run.
    pub fn new(view: RunView) -> Self {
        Self { view, answer: Answer::default() }
    }
}

/// The answer in the format of `/completion`.
pub fn answer_data(answer: &Answer, view: &RunView) -> Json {
    json!({"answer": answer.text(), "reference": sources(&answer.reference()), "id": view.run, "session_id": view.session})
}

impl Frames for AnswersSoFar {
    fn write(&mut self, entry: &Arc<Entry>, out: &mut Vec<u8>) {
        self.view.learn(entry);
        self.answer.learn(entry);
        let shown = match &entry.record {
            // A piece of reasoning does not change the answer so far, so it has no frame.
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
