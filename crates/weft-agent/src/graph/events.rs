//! Events that a graph agent emits while it works.

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use weft_core::context::{ToolFinished, ToolStarted};
use weft_core::{Error, ErrorKind, Json, Result};

use super::topology::Node;

/// Maximum number of events that wait for a reader; the work waits beyond that.
// Backpressure: a slow reader slows the turn down instead of filling the memory.
const EVENTS_QUEUED_MAX: usize = 64;
/// Maximum number of characters of a tool's result in an event. The model and the state get all of it.
pub const EVENT_RESULT_MAX: usize = 4_000;

/// One event, ordered by its `seq`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphEvent {
    /// The kind of event and its data.
    #[serde(flatten)]
    pub kind: EventKind,
    /// The turn.
    pub run_id: String,
    /// The sequence number within the turn: 1, 2, 3 …
    pub seq: u64,
    /// The time, in milliseconds since 1970-01-01 UTC.
    pub ts: i64,
    /// Rounds of tool calls before it.
    pub step: u32,
}

/// The kind of an event. In JSON the name is under `event` and the rest under `data`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum EventKind {
    /// A request to the model starts.
    NodeStart {
        /// Always `agent`: other nodes are not reported.
        node: Node,
    },
    /// A piece of the model's answer. One of the two fields is not empty.
    LlmToken {
        /// Text.
        token: String,
        /// Reasoning.
        reasoning_token: String,
    },
    /// The model's answer starts over because its connection broke: the pieces since the last `node_start` are void.
    LlmRestart {},
    /// The model has answered or failed. Follows each `node_start`.
    NodeEnd {
        /// As in `node_start`.
        node: Node,
    },
    /// A tool call starts.
    ToolStart {
        /// The tool.
        tool: String,
        /// The arguments.
        args: Json,
        /// The id of the call.
        id: String,
    },
    /// A tool call has ended. Follows each `tool_start`.
    ToolEnd {
        /// The tool.
        tool: String,
        /// The id of the call.
        id: String,
        /// Its result as text, up to [`EVENT_RESULT_MAX`] characters.
        result: String,
        /// Whether it failed, was refused or was stopped.
        is_error: bool,
        /// Whether the full result is longer than `result`.
        truncated: bool,
    },
    /// What the user asked to remember has been stored.
    MemoryStored {
        /// The ids given by the store.
        ids: Vec<String>,
    },
}

/// Numbers the events of one turn and sends them.
#[derive(Debug)]
pub(super) struct Events {
    to: Option<mpsc::Sender<GraphEvent>>,
    run_id: String,
    seq: std::sync::atomic::AtomicU64,
    step: std::sync::atomic::AtomicU32,
}

impl Events {
    /// Events without a reader.
    pub(super) fn unread(run_id: &str) -> Self {
        Self { to: None, run_id: run_id.to_owned(), seq: 0.into(), step: 0.into() }
    }

    /// Events and their receiver.
    pub(super) fn read(run_id: &str) -> (Self, mpsc::Receiver<GraphEvent>) {
        let (to, events) = mpsc::channel(EVENTS_QUEUED_MAX);
        (Self { to: Some(to), ..Self::unread(run_id) }, events)
    }

    pub(super) fn set_step(&self, step: u32) {
        self.step.store(step, std::sync::atomic::Ordering::Relaxed);
    }

    /// Sends an event. Waits while the reader is far behind.
    pub(super) async fn send(&self, ts: i64, kind: EventKind) -> Result<()> {
        let Some(to) = &self.to else { return Ok(()) };
        // The number is assigned when there is room: an event that is never sent must not leave a gap.
        let room = to.reserve().await;
        let room = room.map_err(|_| Error::new(ErrorKind::Cancelled, "the events are no longer read"))?;
        let seq = self.seq.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let step = self.step.load(std::sync::atomic::Ordering::Relaxed);
        room.send(GraphEvent { kind, run_id: self.run_id.clone(), seq, ts, step });
        Ok(())
    }
}

pub(super) fn tool_start(started: &ToolStarted) -> EventKind {
    EventKind::ToolStart {
        tool: started.tool.to_string(),
        args: (*started.arguments).clone(),
        id: started.call.to_string(),
    }
}

pub(super) fn tool_end(finished: &ToolFinished) -> EventKind {
    let text = match &*finished.result {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let cut = text.char_indices().nth(EVENT_RESULT_MAX).map(|(place, _)| place);
    EventKind::ToolEnd {
        tool: finished.started.tool.to_string(),
        id: finished.started.call.to_string(),
        result: cut.and_then(|place| text.get(..place)).unwrap_or(&text).to_owned(),
        is_error: finished.failed,
        truncated: cut.is_some(),
    }
}
