//! Run events in the format of RAGFlow's clients: one JSON object for each entry that clients see.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use weft_core::component::MessageEnd;
use weft_core::journal::{ActivationRef, FramePath, NextEdges};
use weft_core::seam::run_store::StoredRun;
use weft_core::seam::speech::Audio;
use weft_core::{ComponentId, Entry, Json, Outputs, Record, RunId, SessionId};

mod form;
mod node_trace;
pub mod tool;
mod usage;

use self::form::FormFields;
pub(super) use self::form::FormFrame;
pub(crate) use self::node_trace::NodeTrace;
pub use self::usage::TokenCounts;
use super::write_json;

/// State shared by all frames of a run.
#[derive(Clone, Debug)]
pub struct RunView {
    /// The run id.
    pub run: RunId,
    /// The session id.
    pub session: SessionId,
    /// Start of the run, in milliseconds since 1970.
    pub started_ms: i64,
    /// The version of the canvas; empty until it is known.
    pub version: Arc<str>,
    /// The form values that its caller gave.
    pub inputs: serde_json::Map<String, Json>,
    /// The frames of activations under way, by activation; those at the top level are left out.
    frames: HashMap<u32, FramePath>,
    /// The part of every frame between the event's name and its data. Rendered once per run, because it is longer
    /// than most pieces of an answer.
    common: Vec<u8>,
}

impl RunView {
    /// Creates the view of a run whose entries are yet to come; see [`RunView::learn`].
    pub fn new(run: &RunId, session: &SessionId) -> Self {
        Self::begun(run, session, 0)
    }

    fn begun(run: &RunId, session: &SessionId, started_ms: i64) -> Self {
        let (inputs, frames) = (serde_json::Map::new(), HashMap::new());
        let common = common(run, session, started_ms);
        let version = Arc::from("");
        Self { run: run.clone(), session: session.clone(), started_ms, version, inputs, frames, common }
    }

    /// Updates the state from an entry. Must be called with all entries of a run, in order.
    pub fn learn(&mut self, entry: &Entry) {
        match &entry.record {
            // A view created from an id alone gets the rest here.
            Record::RunStarted { session, input, canvas_version, .. } => {
                self.session = session.clone();
                self.version = Arc::clone(canvas_version);
                self.started_ms = entry.at_ms;
                // The last frame repeats them.
                self.inputs.clone_from(&input.inputs);
                self.common = common(&self.run, &self.session, self.started_ms);
            }
            Record::NodeStarted { who } if !who.frame.is_empty() => {
                self.frames.insert(who.activation, Arc::clone(&who.frame));
            }
            // A loop has many activations, and those that have ended say nothing more.
            Record::NodeFinished { who, .. } if !who.frame.is_empty() => {
                self.frames.remove(&who.activation);
            }
            _ => {}
        }
    }
}

impl From<&StoredRun> for RunView {
    fn from(run: &StoredRun) -> Self {
        Self::begun(&run.key.id, &run.session, run.started_ms)
    }
}

/// Optional parts of frames, which some routes add.
#[derive(Clone, Copy, Debug, Default)]
pub struct Additions<'a> {
    /// Adds an empty `content` to frames that are not messages: clients before 0.24 expect one in every frame.
    pub blank_content: bool,
    /// The nodes that have finished so far, for callers that requested a trace.
    pub trace: Option<&'a [Json]>,
}

/// Returns the `event` of a record; `None` if clients do not see it.
pub fn event_name(record: &Record) -> Option<&'static str> {
    match record {
        Record::RunStarted { .. } => Some("workflow_started"),
        Record::NodeStarted { .. } => Some("node_started"),
        Record::Said { .. }
        | Record::Played { .. }
        | Record::ThinkingStarted { .. }
        | Record::ThinkingEnded { .. } => Some("message"),
        Record::MessageEnded { .. } => Some("message_end"),
        Record::MessageReset { .. } => Some("message_reset"),
        Record::NodeFinished { .. } => Some("node_finished"),
        Record::Waiting { .. } => Some("user_inputs"),
        Record::ToolStarted { .. } => Some("tool_start"),
        Record::ToolFinished { .. } => Some("tool_end"),
        Record::Warned { .. } => Some("warning"),
        Record::RunFinished { .. } => Some("workflow_finished"),
        Record::NodeSkipped { .. }
        | Record::FrameOpened { .. }
        | Record::ModelUsed { .. }
        | Record::EffectStarted { .. }
        | Record::EffectFinished { .. }
        | Record::Published { .. }
        | Record::Sourced { .. }
        | Record::PickedUp { .. }
        | Record::Limited { .. } => None,
    }
}

/// Returns the frame of an entry as one line of JSON; `None` if clients do not see it.
pub fn frame(entry: &Entry, view: &RunView) -> Option<String> {
    let mut out = Vec::new();
    write_frame(entry, view, Additions::default(), &mut out)
        .then(|| String::from_utf8_lossy(&out).into_owned())
}

/// Appends the frame of an entry. Returns whether there is one.
pub fn write_frame(entry: &Entry, view: &RunView, additions: Additions<'_>, out: &mut Vec<u8>) -> bool {
    let Some(event) = event_name(&entry.record) else { return false };
    let Some(data) = data(entry, view, additions) else { return false };
    write_event(event, view, &data, out);
    true
}

/// Appends a `message` frame with a text that is in no entry, such as the reason of a failure.
pub fn write_message(view: &RunView, content: &str, out: &mut Vec<u8>) {
    write_event("message", view, &Message::text(content), out);
}

fn common(run: &RunId, session: &SessionId, started_ms: i64) -> Vec<u8> {
    let mut out = b",\"message_id\":".to_vec();
    write_json(run, &mut out);
    // Writing to a Vec cannot fail. Clients expect whole seconds here; the times of nodes have fractions.
    let _ = write!(out, ",\"created_at\":{}", started_ms.div_euclid(1000));
    // Clients use it to cancel the run and to look up tool calls.
    out.extend_from_slice(b",\"task_id\":");
    write_json(run, &mut out);
    out.extend_from_slice(b",\"session_id\":");
    write_json(session, &mut out);
    out.extend_from_slice(b",\"data\":");
    out
}

/// Appends an event: its name, the common part and its data.
fn write_event<D: Serialize>(event: &str, view: &RunView, data: &D, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"event\":\"");
    // A constant of this file, which needs no escaping.
    out.extend_from_slice(event.as_bytes());
    out.push(b'"');
    out.extend_from_slice(&view.common);
    write_json(data, out);
    out.push(b'}');
}

#[derive(Serialize)]
#[serde(untagged)]
enum Data<'a> {
    WorkflowStarted {
        inputs: &'a serde_json::Map<String, Json>,
        #[serde(skip_serializing_if = "Option::is_none")]
        resumes: Option<&'a RunId>,
    },
    NodeStarted {
        inputs: (),
        created_at: f64,
        component_id: &'a ComponentId,
        component_name: &'a str,
        component_type: &'a str,
        thoughts: &'static str,
    },
    NodeFinished(NodeFinished<'a>),
    Message(Message<'a>),
    MessageEnd(MessageEndData<'a>),
    MessageReset(Speaker<'a>),
    UserInputs {
        inputs: FormFields<'a>,
        tips: &'a str,
        forms: Vec<FormFrame<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<&'static str>,
    },
    ToolStart(tool::ToolCallStart<'a>),
    ToolEnd(tool::ToolCallEnd<'a>),
    Warning {
        component_id: &'a ComponentId,
        message: &'a str,
    },
    WorkflowFinished(WorkflowFinished<'a>),
}

#[derive(Serialize)]
struct Message<'a> {
    content: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    start_to_think: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    end_to_think: bool,
    /// Speech audio, hex-encoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    audio_binary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    component_id: Option<&'a ComponentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frame: Option<&'a FramePath>,
}

/// The sender of a message.
#[derive(Clone, Copy, Serialize)]
struct Speaker<'a> {
    component_id: &'a ComponentId,
    /// The frames that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    frame: Option<&'a FramePath>,
}

impl<'a> Message<'a> {
    fn text(content: &'a str) -> Self {
        Self {
            content,
            start_to_think: false,
            end_to_think: false,
            audio_binary: None,
            audio_type: None,
            component_id: None,
            frame: None,
        }
    }

    fn with(self, audio: &'a Audio) -> Self {
        let bytes = STANDARD.decode(audio.base64.as_bytes());
        // Clients expect hex encoding.
        let audio_binary = bytes.ok().map(|bytes| weft_core::hex(&bytes));
        Self { audio_binary, audio_type: Some(&audio.media_type), ..self }
    }
}

#[derive(Serialize)]
struct NodeFinished<'a> {
    inputs: &'a Outputs,
    outputs: TimedOutputs<'a>,
    component_id: &'a ComponentId,
    component_name: &'a str,
    component_type: &'a str,
    error: Option<&'a str>,
    /// Not really finished: it is suspended for a person, or for a node that is, and starts again once the person has
    /// answered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    suspended: bool,
    elapsed_time: f64,
    created_at: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a [Json]>,
}

#[derive(Serialize)]
struct WorkflowFinished<'a> {
    inputs: &'a serde_json::Map<String, Json>,
    outputs: &'a Outputs,
    status: &'static str,
    /// The limit that stopped an agent early, although there was an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<&'static str>,
    error: Option<&'a str>,
    elapsed_time: f64,
    created_at: f64,
    usage: TokenCounts,
    /// The version that answered; chat assistants have none.
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'static str>,
}

/// The outputs of a node, plus the two times that clients look for among them.
struct TimedOutputs<'a> {
    outputs: &'a Outputs,
    created: f64,
    elapsed: f64,
}

impl Serialize for TimedOutputs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.outputs.0.len() + 2))?;
        for (name, value) in &self.outputs.0 {
            map.serialize_entry(&**name, value)?;
        }
        map.serialize_entry("_created_time", &self.created)?;
        map.serialize_entry("_elapsed_time", &self.elapsed)?;
        map.end()
    }
}

/// Data at the end of a message.
struct MessageEndData<'a>(&'a MessageEnd, Speaker<'a>);

impl Serialize for MessageEndData<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("component_id", self.1.component_id)?;
        if let Some(frame) = self.1.frame {
            map.serialize_entry("frame", frame)?;
        }
        if let Some(status) = self.0.status {
            map.serialize_entry("status", &status)?;
        }
        if let Some(attachment) = &self.0.attachment {
            map.serialize_entry("attachment", attachment)?;
        }
        if !self.0.downloads.is_empty() {
            map.serialize_entry("downloads", &self.0.downloads)?;
        }
        if !self.0.cited.is_empty() {
            map.serialize_entry("reference", &weft_core::citation::reference(&self.0.cited))?;
        }
        map.end()
    }
}

fn seconds(ms: i64) -> f64 {
    // Exact for every time within 280,000 years.
    #[expect(clippy::cast_precision_loss, reason = "see above")]
    let ms = ms as f64;
    ms / 1000.0
}

fn data<'a>(entry: &'a Entry, view: &'a RunView, additions: Additions<'a>) -> Option<Data<'a>> {
    let created_at = seconds(entry.at_ms);
    let speaker =
        |activation: u32, component_id| Speaker { component_id, frame: view.frames.get(&activation) };
    let message = |content, Speaker { component_id, frame }| Message {
        component_id: Some(component_id),
        frame,
        ..Message::text(content)
    };
    Some(match &entry.record {
        Record::RunStarted { input, resumes, .. } => {
            Data::WorkflowStarted { inputs: &input.inputs, resumes: resumes.as_ref() }
        }
        Record::NodeStarted { who: ActivationRef { node, name, kind, .. } } => Data::NodeStarted {
            inputs: (),
            created_at,
            component_id: node,
            component_name: name,
            component_type: kind,
            thoughts: "",
        },
        Record::Said { activation, node, text } => Data::Message(message(text, speaker(*activation, node))),
        Record::Played { activation, node, audio } => {
            Data::Message(message("", speaker(*activation, node)).with(audio))
        }
        Record::ThinkingStarted { activation, node } => {
            Data::Message(Message { start_to_think: true, ..message("", speaker(*activation, node)) })
        }
        Record::ThinkingEnded { activation, node } => {
            Data::Message(Message { end_to_think: true, ..message("", speaker(*activation, node)) })
        }
        Record::MessageEnded { activation, node, end } => {
            Data::MessageEnd(MessageEndData(end, speaker(*activation, node)))
        }
        Record::MessageReset { activation, node } => {
            Data::MessageReset(speaker(activation.unwrap_or_default(), node))
        }
        Record::NodeFinished { .. } => Data::NodeFinished(node_finished(entry, additions)?),
        Record::Waiting { forms } => Data::UserInputs {
            inputs: FormFields(forms),
            tips: forms.iter().rev().find_map(|waiting| waiting.form.tips.as_deref()).unwrap_or(""),
            forms: forms.iter().map(FormFrame::from).collect(),
            content: additions.blank_content.then_some(""),
        },
        Record::RunFinished { ending, outputs, error, usage, limited, elapsed, spent: _, uses: _ } => {
            Data::WorkflowFinished(WorkflowFinished {
                inputs: &view.inputs,
                outputs,
                status: ending.as_str(),
                stop_reason: limited.first().map(|reason| reason.as_str()),
                error: error.as_deref(),
                elapsed_time: *elapsed,
                created_at,
                usage: (*usage).into(),
                version: &view.version,
                content: additions.blank_content.then_some(""),
            })
        }
        Record::ToolStarted { call, .. } => Data::ToolStart(tool::start(call)),
        Record::ToolFinished { call, .. } => Data::ToolEnd(tool::end(call)),
        Record::Warned { node, message } => Data::Warning { component_id: node, message },
        Record::NodeSkipped { .. }
        | Record::FrameOpened { .. }
        | Record::ModelUsed { .. }
        | Record::EffectStarted { .. }
        | Record::EffectFinished { .. }
        | Record::Published { .. }
        | Record::Sourced { .. }
        | Record::PickedUp { .. }
        | Record::Limited { .. } => return None,
    })
}

fn node_finished<'a>(entry: &'a Entry, additions: Additions<'a>) -> Option<NodeFinished<'a>> {
    let Record::NodeFinished { who, inputs, outputs, error, elapsed, route, .. } = &entry.record else {
        return None;
    };
    let created_at = seconds(entry.at_ms);
    Some(NodeFinished {
        inputs,
        outputs: TimedOutputs { outputs, created: round_ms(created_at - elapsed), elapsed: *elapsed },
        component_id: &who.node,
        component_name: &who.name,
        component_type: &who.kind,
        error: error.as_deref(),
        suspended: *route == NextEdges::Suspended,
        elapsed_time: *elapsed,
        created_at,
        content: additions.blank_content.then_some(""),
        trace: additions.trace,
    })
}

/// Rounds to milliseconds, the resolution of the clock.
fn round_ms(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// The data of a `node_finished` entry as a value, for callers that requested a trace.
pub fn traced(entry: &Entry) -> Option<Json> {
    let finished = node_finished(entry, Additions::default())?;
    let component = finished.component_id;
    Some(serde_json::json!({"component_id": component, "trace": [finished]}))
}

/// The data of the last entry of a run as a value, for single answers.
pub fn finished_data(entry: &Entry, view: &RunView) -> Option<serde_json::Map<String, Json>> {
    match serde_json::to_value(data(entry, view, Additions::default())?) {
        Ok(Json::Object(map)) => Some(map),
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests;
