//! The append-only records of a run. The run's state is their fold, and what clients see is a
//! projection of them.

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
use crate::seam::chat_model::Usage;
use crate::seam::speech::Audio;
use crate::usage::ModelUse;
use crate::value::{Json, Outputs};

/// The format of the records below. Raised when an old reader would misread a new record: since 2,
/// assignments are operations and no longer their results.
pub const JOURNAL_VERSION: u32 = 2;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_empty(text: &Arc<str>) -> bool {
    text.is_empty()
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Everything that could run has run.
    Succeeded,
    /// A node failed and nothing caught it, or a limit was reached.
    Failed,
    /// Someone asked for it to stop.
    Cancelled,
    /// It waits for a person; a later run of the session goes on from here.
    Waiting,
}

impl Ending {
    /// The word clients see in `status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Waiting => "waiting",
        }
    }
}

/// One step into a frame: which Iteration or Loop, and which of its rounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FrameStep {
    /// The Iteration or Loop.
    pub node: ComponentId,
    /// Its activation, so that re-entering it is another frame.
    pub activation: u32,
    /// 0-based.
    pub round: usize,
}

/// The way from the top of the canvas into nested frames; empty at the top.
pub type FramePath = Arc<[FrameStep]>;

/// Where a run was forked from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forked {
    /// The other run.
    pub run: RunId,
    /// The last entry that they share, apart from what was edited in it.
    pub seq: u64,
    /// Something was edited in it: what that step gives is given, and not what its node would give. Taken to be
    /// so in journals that do not say.
    #[serde(default = "edited", skip_serializing_if = "is_edited")]
    pub edited: bool,
    /// Entries before it that were edited so in runs whose beginning the other run shares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edited_before: Vec<u64>,
}

impl Forked {
    /// The entries whose outputs were given by hand.
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

/// The limits that a run keeps to from its beginning to its end, whoever goes on with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Nodes at the same time.
    pub nodes_at_once: usize,
    /// Activations, beyond one for each node, in each round of an Iteration or a Loop as well.
    pub activations: u64,
}

/// Which activation a record is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActivationRef {
    /// Counts the activations of a turn from 1 on.
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

/// A human task of a waiting run: the form and the node that asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingForm {
    /// The node that asks.
    pub node: ComponentId,
    /// The round it is in.
    #[serde(default = "top", skip_serializing_if = "is_top")]
    pub frame: FramePath,
    /// What it asks.
    pub form: Form,
    /// Its tasks: one for a form that comes before the work, else one for each field in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskId>,
    /// When the first of them is over without an answer, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<i64>,
}

impl WaitingForm {
    /// A form that no task has been made of yet.
    pub fn new(node: ComponentId, frame: FramePath, form: Form) -> Self {
        Self { node, frame, form, tasks: Vec::new(), due_ms: None }
    }

    /// Where answers for this form go among a caller's inputs, so that no other form can take them:
    /// the node's id, and for each frame around it the number of the round, as in `Agent:A[2]`.
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
        /// The canvas.
        canvas: CanvasId,
        /// The content hash of the canvas version that runs.
        canvas_version: Arc<str>,
        /// The conversation.
        session: SessionId,
        /// What the caller gave.
        // Boxed: every word of an answer is a record, too, and as large as the largest of them.
        input: Box<TurnInput>,
        /// What random choices derive from.
        seed: u64,
        /// The waiting run that this one goes on with.
        resumes: Option<RunId>,
        /// The words that answer a waiting run's form, when they came as a question.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reply: String,
        /// The time that the run takes as its own, in milliseconds since 1970.
        #[serde(default)]
        now_ms: i64,
        /// The revision of the session that it began with.
        #[serde(default)]
        revision: i64,
        /// The engine's state of the session at that revision, so that the run can be done again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Arc<Json>>,
        /// The run whose beginning this one shares.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forks: Option<Forked>,
        /// What decides which of its nodes runs when; absent: what the process is set to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<RunLimits>,
        /// Who writes from here on: a name that no other writer has, so that nobody takes the same
        /// words of somebody else for their own.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        by: Arc<str>,
    },
    /// A node began. `inputs` are what it reads.
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
    /// What was said last, as speech.
    Played {
        /// Which activation says it.
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
    /// What this node has said so far does not count: it starts again.
    MessageReset {
        /// Which activation has said it; absent in older journals: then the last of the node that has said
        /// something. A node may be at work in several rounds at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        activation: Option<u32>,
        /// Its node.
        node: ComponentId,
    },
    /// A model was used.
    // The name that stored journals have for it.
    #[serde(rename = "effect_finished")]
    ModelUsed {
        /// Which activation made it.
        activation: u32,
        /// What kind of call: `model`, `http`.
        effect: Arc<str>,
        /// Tokens, when it was a model.
        usage: Usage,
        /// Which model has answered; empty in older journals.
        #[serde(default, skip_serializing_if = "is_empty")]
        model: Arc<str>,
        /// What it cost, in millionths.
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
    /// A tool's call is over.
    ToolFinished {
        /// Which activation.
        activation: u32,
        /// The call and what came of it.
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
    /// A call to the outside is about to be made.
    // As it is called in stored journals, which are older than the name here.
    #[serde(rename = "effect_began")]
    EffectStarted {
        /// Which activation makes it.
        activation: u32,
        /// Its place in the activation's work.
        key: Arc<str>,
        /// What kind of call: `model`, `http`, `tool`.
        effect: Arc<str>,
    },
    /// A call to the outside has ended, with a value or a failure.
    #[serde(rename = "effect_gave")]
    EffectFinished {
        /// Which activation made it.
        activation: u32,
        /// Its place in the activation's work.
        key: Arc<str>,
        /// What it gave.
        gave: EffectResult,
    },
    /// A node has begun to write a text that others may begin with.
    Published {
        /// Which activation.
        activation: u32,
        /// The output.
        output: Arc<str>,
    },
    /// Sources were found; they follow those found before.
    Sourced {
        /// With their numbers.
        sources: Vec<Cited>,
    },
    /// The run was cut off here and has been picked up again.
    PickedUp {
        /// Who writes from here on, as in `RunStarted`.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        by: Arc<str>,
        /// Whether its process had let go of it, as one that stops does, and was not just gone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        handed_over: bool,
    },
    /// Something worth knowing that is no failure.
    Warned {
        /// Where.
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
        /// How long it worked, in seconds.
        elapsed: f64,
        /// Where the run goes on.
        route: NextEdges,
        /// How it changed globals and outputs of other components, to be applied in the order of the
        /// journal.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        assigned: Vec<Assignment>,
        /// What it asks and remembers, when it only stopped to wait for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suspension: Option<Box<Suspension>>,
        /// What it has used of the budgets, without time.
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
        /// How.
        ending: Ending,
        /// The outputs of the last Message, else of the last node.
        outputs: Arc<Outputs>,
        /// Why, unless it succeeded or waits.
        error: Option<Arc<str>>,
        /// Tokens and calls of the whole run.
        usage: Usage,
        /// The same by node and model, without what an earlier run used that it went on with.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        uses: Vec<ModelUse>,
        /// The limits that have cut agents' work short.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        limited: Vec<Limited>,
        /// What it has used of the budgets, without what an earlier run used that it went on with.
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
    /// Those that the component chose.
    #[serde(rename = "by")]
    Routed(Route),
    /// The exception branch.
    Exception,
    /// None: it failed and nothing caught it, or it was cancelled.
    #[default]
    #[serde(rename = "nowhere")]
    None,
    /// None yet: a person has to answer first, and then the node starts again.
    Suspended,
}

impl Record {
    /// Whether clients see it. Only these carry an event number.
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
    /// Place in the journal, from 1 on, without gaps.
    pub seq: u64,
    /// Number of the event a client sees, from 1 on, without gaps; absent when clients do not see it.
    pub event: Option<u64>,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The fact.
    pub record: Record,
}
