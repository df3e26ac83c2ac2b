//! The append-only records of a run. The run's state is a fold over them, and the events that clients see are a
//! projection of them.

mod settings;

use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::assign::Assignment;
use crate::budget::Spent;
use crate::citation::Cited;
use crate::component::{Form, MessageEnd, Route, Suspension};
use crate::context::{Limited, ToolFinished, ToolStarted, TurnInput};
use crate::effect::EffectResult;
use crate::id::{CanvasId, ComponentId, RunId, SessionId, TaskId};
use crate::seam::speech::Audio;
use crate::tokens::Usage;
use crate::usage::ModelUse;
use crate::value::{Json, Outputs};

pub use self::settings::RunSettings;
pub use crate::ending::Ending;

/// Version of the record format below. Raised when an old reader would misread a new record: since 2, assignments are
/// recorded as operations instead of their results.
pub const JOURNAL_VERSION: u32 = 2;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_empty(text: &Arc<str>) -> bool {
    text.is_empty()
}

/// One step into a frame: which Iteration or Loop, and which of its rounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FrameStep {
    /// The Iteration or Loop.
    pub node: ComponentId,
    /// The activation of that node, so that re-entering it opens a different frame.
    pub activation: u32,
    /// 0-based.
    pub round: usize,
}

/// The path from the top of the canvas into nested frames; empty at the top.
pub type FramePath = Arc<[FrameStep]>;

/// The point at which a run was forked from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forked {
    /// The other run.
    pub run: RunId,
    /// The last entry that both share, apart from edits to that entry.
    pub seq: u64,
    /// Whether that entry was edited: the edited output is used instead of what its node would produce. Journals that
    /// lack the field are read as edited.
    #[serde(default = "edited", skip_serializing_if = "is_edited")]
    pub edited: bool,
    /// Earlier entries that were edited in the same way in runs whose beginning the other run shares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edited_before: Vec<u64>,
}

impl Forked {
    /// Returns the entries whose outputs were supplied by hand.
    pub fn given(&self) -> impl Iterator<Item = u64> {
        self.edited_before.iter().copied().chain(self.edited.then_some(self.seq))
    }
}

fn edited() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_edited(edited: &bool) -> bool {
    *edited
}

/// The limits that hold for a run from start to end, whichever process continues it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Maximum number of nodes that run concurrently.
    pub nodes_at_once: usize,
    /// Maximum number of activations beyond one for each node. Also applies to each round of an Iteration or Loop.
    pub activations: u64,
}

/// Which activation a record is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActivationRef {
    /// The number of the activation within the turn, counted from 1.
    pub activation: u32,
    /// The node.
    pub node: ComponentId,
    /// Its display name.
    pub name: Arc<str>,
    /// Its component type.
    pub kind: Arc<str>,
    /// The round it is in.
    #[serde(default = "top", skip_serializing_if = "is_top")]
    pub frame: FramePath,
}

fn top() -> FramePath {
    Arc::from([])
}

fn is_top(frame: &FramePath) -> bool {
    frame.is_empty()
}

/// A form of a waiting run, and the node that asks it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingForm {
    /// The node that asks.
    pub node: ComponentId,
    /// The round it is in.
    #[serde(default = "top", skip_serializing_if = "is_top")]
    pub frame: FramePath,
    /// What it asks.
    pub form: Form,
    /// Its tasks: one for a form that comes before the node's work, otherwise one for each field, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskId>,
    /// When the first of them expires without an answer, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<i64>,
}

impl WaitingForm {
    /// Creates a form that has no tasks yet.
    pub fn new(node: ComponentId, frame: FramePath, form: Form) -> Self {
        Self { node, frame, form, tasks: Vec::new(), due_ms: None }
    }

    /// Returns the key under which a caller's inputs answer this form and no other: the node's id, followed by the
    /// round number of each enclosing frame, as in `Agent:A[2]`.
    pub fn address(&self) -> String {
        let mut address = self.node.to_string();
        for step in self.frame.iter() {
            // Writing to a String cannot fail.
            let _ = write!(address, "[{}]", step.round);
        }
        address
    }
}

/// A fact about a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// The run began.
    RunStarted {
        /// [`JOURNAL_VERSION`] of the writer.
        version: u32,
        /// The canvas that runs.
        canvas: CanvasId,
        /// The content hash of the canvas version that runs.
        canvas_version: Arc<str>,
        /// The conversation it is part of.
        session: SessionId,
        /// The caller's input.
        // Boxed because every piece of an answer is also a record, and each is as large as the largest variant.
        input: Box<TurnInput>,
        /// The seed of all random choices.
        seed: u64,
        /// The waiting run that this one continues.
        resumes: Option<RunId>,
        /// The text that answers a waiting run's form, when it arrived as a question.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reply: String,
        /// The time that the run uses as its own, in milliseconds since 1970.
        #[serde(default)]
        now_ms: i64,
        /// The session revision at which it started.
        #[serde(default)]
        revision: i64,
        /// The engine's state of the session at that revision, so that the run can be replayed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Arc<Json>>,
        /// The run whose beginning this one shares.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forks: Option<Forked>,
        /// The limits that affect the order in which its nodes run; if absent, those configured for the process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<RunLimits>,
        /// The settings that its results depend on; absent in older journals.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<Arc<RunSettings>>,
        /// The writer from here on: a name that no other writer has, so that no writer mistakes identical records of
        /// another for its own.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        by: Arc<str>,
    },
    /// A node started.
    NodeStarted {
        /// Which activation.
        who: ActivationRef,
    },
    /// A node can no longer run in its round.
    NodeSkipped {
        /// The node.
        node: ComponentId,
        /// The round it is in.
        #[serde(default = "top", skip_serializing_if = "is_top")]
        frame: FramePath,
    },
    /// An Iteration or Loop opened its frame.
    FrameOpened {
        /// Its activation.
        activation: u32,
        /// What the Iteration or Loop itself has produced so far.
        #[serde(default)]
        outputs: Arc<Outputs>,
        /// The items, for an Iteration.
        items: Option<Arc<Vec<Json>>>,
    },
    /// A piece of the visible answer.
    Said {
        /// Which activation says it.
        activation: u32,
        /// Its node.
        node: ComponentId,
        /// The piece.
        text: Arc<str>,
    },
    /// The most recent text, as speech.
    Played {
        /// Which activation speaks.
        activation: u32,
        /// Its node.
        node: ComponentId,
        /// The recording.
        audio: Audio,
    },
    /// What follows is the model's reasoning.
    ThinkingStarted {
        /// Which activation.
        activation: u32,
        /// Its node.
        node: ComponentId,
    },
    /// The reasoning is over.
    ThinkingEnded {
        /// Which activation.
        activation: u32,
        /// Its node.
        node: ComponentId,
    },
    /// A message is complete.
    MessageEnded {
        /// Which activation.
        activation: u32,
        /// Its node.
        node: ComponentId,
        /// What came with it.
        end: MessageEnd,
    },
    /// Everything this node has said so far is void: it starts again.
    MessageReset {
        /// The activation whose message is void. Absent in older journals, which mean the activation of the node that
        /// spoke last. A node may be at work in several rounds at the same time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        activation: Option<u32>,
        /// Its node.
        node: ComponentId,
    },
    /// A model was used.
    // Stored journals use this name.
    #[serde(rename = "effect_finished")]
    ModelUsed {
        /// Which activation made it.
        activation: u32,
        /// What kind of call: `model`, `http`.
        effect: Arc<str>,
        /// Tokens, when it was a model.
        usage: Usage,
        /// The model that answered; empty in older journals.
        #[serde(default, skip_serializing_if = "is_empty")]
        model: Arc<str>,
        /// Its cost, in millionths.
        #[serde(default, skip_serializing_if = "is_zero")]
        micros: u64,
    },
    /// An agent calls a tool.
    ToolStarted {
        /// Which activation.
        activation: u32,
        /// The call.
        call: ToolStarted,
    },
    /// A tool call has ended.
    ToolFinished {
        /// Which activation.
        activation: u32,
        /// The call and its outcome.
        call: ToolFinished,
    },
    /// A limit has cut an agent's work short.
    Limited {
        /// Which activation.
        activation: u32,
        /// Its node.
        node: ComponentId,
        /// Which limit.
        reason: Limited,
    },
    /// An external call is about to be made.
    // Stored journals, which are older than the name here, use this one.
    #[serde(rename = "effect_began")]
    EffectStarted {
        /// Which activation makes it.
        activation: u32,
        /// Its place in the activation's work.
        key: Arc<str>,
        /// What kind of call: `model`, `http`, `tool`.
        effect: Arc<str>,
    },
    /// An external call has ended, with a value or a failure.
    #[serde(rename = "effect_gave")]
    EffectFinished {
        /// Which activation made it.
        activation: u32,
        /// Its place in the activation's work.
        key: Arc<str>,
        /// Its result.
        gave: EffectResult,
    },
    /// A node has started to write a text that other nodes may already read.
    Published {
        /// Which activation.
        activation: u32,
        /// The output.
        output: Arc<str>,
    },
    /// Sources were found; they follow those found earlier.
    Sourced {
        /// The sources with their numbers.
        sources: Vec<Cited>,
    },
    /// The run was interrupted here and has been resumed.
    PickedUp {
        /// The writer from here on, as in `RunStarted`.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        by: Arc<str>,
        /// Whether the previous process released the run, as it does on shutdown, instead of disappearing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        handed_over: bool,
    },
    /// A problem worth reporting that is not a failure.
    Warned {
        /// The node that it concerns.
        node: ComponentId,
        /// The warning, for people.
        message: Arc<str>,
    },
    /// A node ended.
    NodeFinished {
        /// Which activation.
        who: ActivationRef,
        /// What it read: reference → value.
        inputs: Arc<Outputs>,
        /// What it produced.
        outputs: Arc<Outputs>,
        /// Why it failed, if it did; also when an exception setting caught it.
        error: Option<Arc<str>>,
        /// How long it ran, in seconds.
        elapsed: f64,
        /// Which edges fire.
        route: NextEdges,
        /// Its changes to globals and to outputs of other components, applied in the order of the journal.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        assigned: Vec<Assignment>,
        /// What it asks and the state it saves, if it has only stopped to wait for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suspension: Option<Box<Suspension>>,
        /// What it used of the budgets, excluding time.
        #[serde(default, skip_serializing_if = "Spent::is_none")]
        spent: Spent,
    },
    /// Nothing more can run until a person has answered.
    Waiting {
        /// The open forms.
        forms: Vec<WaitingForm>,
    },
    /// The run is over. The last record of every journal.
    RunFinished {
        /// How it ended.
        ending: Ending,
        /// The outputs of the last Message, or of the last node if there is none.
        outputs: Arc<Outputs>,
        /// Why, unless it succeeded or waits.
        error: Option<Arc<str>>,
        /// Tokens and calls of the whole run.
        usage: Usage,
        /// The same by node and model, excluding what the earlier run that it continues had used.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        uses: Vec<ModelUse>,
        /// The limits that cut agents' work short.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        limited: Vec<Limited>,
        /// What it used of the budgets, excluding what the earlier run that it continues had used.
        #[serde(default, skip_serializing_if = "Spent::is_none")]
        spent: Spent,
        /// How long it took, in seconds.
        elapsed: f64,
    },
}

/// Which of a finished node's edges fire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextEdges {
    /// Those chosen by the component.
    #[serde(rename = "by")]
    Routed(Route),
    /// The exception branch.
    Exception,
    /// None: it failed and nothing caught it, or it was cancelled.
    #[default]
    #[serde(rename = "nowhere")]
    None,
    /// None yet: a person has to answer first, and then the node runs again.
    Suspended,
}

impl Record {
    /// Returns whether clients see it. Only such records carry an event number.
    pub fn is_event(&self) -> bool {
        match self {
            Self::RunStarted { .. }
            | Self::NodeStarted { .. }
            | Self::Said { .. }
            | Self::Played { .. }
            | Self::ThinkingStarted { .. }
            | Self::ThinkingEnded { .. }
            | Self::MessageEnded { .. }
            | Self::MessageReset { .. }
            | Self::NodeFinished { .. }
            | Self::ToolStarted { .. }
            | Self::ToolFinished { .. }
            | Self::Warned { .. }
            | Self::Waiting { .. }
            | Self::RunFinished { .. } => true,
            Self::NodeSkipped { .. }
            | Self::FrameOpened { .. }
            | Self::ModelUsed { .. }
            | Self::EffectStarted { .. }
            | Self::EffectFinished { .. }
            | Self::Published { .. }
            | Self::Sourced { .. }
            | Self::PickedUp { .. }
            | Self::Limited { .. } => false,
        }
    }
}

/// A record with its place in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Position in the journal, counted from 1, without gaps.
    pub seq: u64,
    /// Number of the event that a client sees, counted from 1, without gaps; absent if clients do not see the record.
    pub event: Option<u64>,
    /// When it was written, in milliseconds since 1970.
    pub at_ms: i64,
    /// The fact.
    pub record: Record,
}
