//! What a component is: one spec, one build step, one `run`.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::assign::Assignment;
use crate::citation::Cited;
use crate::context::NodeContext;
use crate::error::Result;
use crate::field::{FieldGroup, schema};
use crate::id::{ComponentId, FileId};
use crate::past_calls::ToolHistory;
use crate::reference::{Inputs, Names, Reference, Template};
use crate::seam::databases::{DatabaseKind, SqlPart};
use crate::seam::sandbox::Language;
use crate::value::{Json, Outputs};
use crate::webhook::Webhook;

/// What the engine must know about a component type to schedule it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Where a run starts.
    Entry,
    /// An ordinary step.
    Step,
    /// Waits for a person before it runs.
    Pause,
    /// Opens a frame that runs its body once for each item of a list.
    Each,
    /// Opens a frame that repeats its body.
    Repeat,
    /// The first node of every round of a frame.
    RoundStart,
    /// Closes the nearest Repeat frame around it.
    Leave,
}

/// One component type; the only source for validation, forms, reference pages and tool schemas.
#[derive(Debug)]
pub struct ComponentSpec {
    /// The name in the canvas, such as `StringTransform`.
    pub kind: &'static str,
    /// How the engine treats it.
    pub role: Role,
    /// One sentence for people and for models that may call it.
    pub summary: &'static str,
    /// Its parameters, besides those that every component has ([`common`](crate::field::common)).
    pub fields: &'static [FieldGroup],
    /// Its outputs, as far as they do not follow from the parameters of a node.
    pub outputs: &'static [OutputSpec],
    /// How long one activation may take; `None` for no limit of its own.
    pub time_limit: Option<Duration>,
    /// Whether runs that are being measured may use it and others may not.
    pub measuring_only: bool,
    /// How agents call it; absent: by whichever of its parameters the canvas leaves open.
    pub tool: Option<ToolSpec>,
    /// Reads the parameters once.
    pub build: Build,
}

/// An output that the nodes of a component type have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputSpec {
    /// Its name, as in `{Agent:A@content}`.
    pub name: &'static str,
    /// Its type in the words of JSON Schema, such as `string`; `any` leaves it open.
    pub kind: &'static str,
    /// What it holds, as a sentence fragment for people.
    pub summary: &'static str,
    /// Whether only the nodes have it that name it in [`Shape::outputs`].
    pub optional: bool,
}

impl ComponentSpec {
    /// The JSON Schema of its parameters.
    pub fn parameters(&self) -> Json {
        schema::of_parameters(self.fields)
    }

    /// The JSON Schema of what a model fills in when it calls the component as a tool; `None` when there is nothing that is
    /// for models to fill in, so that it may fill in whatever the canvas leaves open.
    pub fn arguments(&self) -> Option<Json> {
        self.tool.as_ref().map(|_| schema::of_arguments(self.fields))
    }
}

impl OutputSpec {
    /// An output that every node of the type has.
    pub const fn new(name: &'static str, kind: &'static str, summary: &'static str) -> Self {
        Self { name, kind, summary, optional: false }
    }

    /// The same for an output that only some nodes of the type have, as their parameters say.
    #[must_use]
    pub const fn when_asked_for(self) -> Self {
        Self { optional: true, ..self }
    }
}

/// The outputs of one node that follow from its parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeOutputs {
    /// Those that are known before it runs.
    pub named: Vec<NodeOutput>,
    /// Whether there may be others, of which nobody knows the names before it runs.
    pub open: bool,
}

/// An output that one node has.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOutput {
    /// Its name.
    pub name: String,
    /// Its type in the words of JSON Schema, such as `array`; `any` leaves it open.
    pub kind: &'static str,
    /// The members of an object that has no others, where that is known.
    pub members: Option<Vec<String>>,
}

impl NodeOutputs {
    /// These and no others.
    pub fn named(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::typed(names.into_iter().map(|name| (name, "any")))
    }

    /// These and no others, each with its type in the words of JSON Schema.
    pub fn typed(outputs: impl IntoIterator<Item = (impl Into<String>, &'static str)>) -> Self {
        let named = outputs.into_iter();
        let named = named.map(|(name, kind)| NodeOutput { name: name.into(), kind, members: None });
        Self { named: named.collect(), open: false }
    }

    /// Any.
    pub fn any() -> Self {
        Self { named: Vec::new(), open: true }
    }
}

/// A component as a tool of agents. A model fills in the fields that say so.
#[derive(Debug)]
pub struct ToolSpec {
    /// What the model calls it when the canvas does not say: lower case with underscores.
    pub function: &'static str,
    /// A call that was cut off may be made again.
    pub idempotent: bool,
    /// It adds sources that the answer may cite.
    pub sources: bool,
}

/// Reads the parameters of a node once: the component, or everything that is wrong with them.
pub type Build = fn(&NodeSource<'_>) -> Result<Arc<dyn Component>, Vec<ParamProblem>>;

/// One node as written, handed to [`ComponentSpec::build`].
#[derive(Clone, Copy, Debug)]
pub struct NodeSource<'a> {
    /// Its id.
    pub id: &'a ComponentId,
    /// The component type's name as the canvas spells it.
    pub kind: &'a str,
    /// `obj.params`.
    pub params: &'a serde_json::Map<String, Json>,
    /// The enclosing Iteration or Loop: its id and parameters.
    pub parent: Option<(&'a ComponentId, &'a serde_json::Map<String, Json>)>,
    /// Every component id of the canvas.
    pub components: &'a HashSet<ComponentId>,
    /// The item node of the enclosing Iteration, for `{item}` and its kin.
    pub item: Option<&'a ComponentId>,
    /// Its successors in order.
    pub downstream: &'a [ComponentId],
    /// The nodes that lead to it, in the order of the canvas.
    pub upstream: &'a [ComponentId],
    /// The other nodes of the canvas, for agents that name one as a tool.
    pub others: &'a dyn Others,
    /// Whether components that only serve for measuring may be used.
    pub measuring: bool,
}

/// The nodes of a canvas as written.
pub trait Others: fmt::Debug + Sync {
    /// The type and the parameters of the node with this id.
    fn get(&self, id: &ComponentId) -> Option<(&str, &serde_json::Map<String, Json>)>;
}

/// A canvas without other nodes.
#[derive(Clone, Copy, Debug)]
pub struct NoOthers;

impl Others for NoOthers {
    fn get(&self, _: &ComponentId) -> Option<(&str, &serde_json::Map<String, Json>)> {
        None
    }
}

impl NodeSource<'_> {
    /// What its texts may refer to.
    pub fn names(&self) -> Names<'_> {
        Names { components: self.components, item: self.item }
    }
}

/// Something wrong with one parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamProblem {
    /// JSON pointer inside `params`, such as `/conditions/0/items/1/operator`.
    pub pointer: String,
    /// What is wrong, as a sentence fragment without the place.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl ParamProblem {
    /// A problem at `pointer`.
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into(), help: None }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// A text of a node that must not come out empty, such as a key that is in a variable.
#[derive(Clone, Debug)]
pub struct NeededText {
    /// The text.
    pub text: Template,
    /// What is said when it is empty.
    pub problem: ParamProblem,
}

/// SQL that is written down, so that what becomes of it does not depend on a run, whatever its values are then.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenSql {
    /// Where it is, as a JSON pointer inside `params`.
    pub pointer: String,
    /// What kind of server it is for.
    pub kind: DatabaseKind,
    /// One statement or several, as they are handed over, with null in the place of each value.
    pub parts: Vec<SqlPart>,
}

/// A program that is written down as a whole, so that whether it can be parsed does not depend on a run.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenProgram {
    /// Where it is, as a JSON pointer inside `params`.
    pub pointer: String,
    /// What it is written in.
    pub language: Language,
    /// Its text, as it is handed over.
    pub text: String,
    /// The names of what its `main` is called with.
    pub arguments: Vec<String>,
}

/// What a node reads. It starts only when every component named here has finished or can no longer
/// run in this turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reads {
    /// Read by every activation.
    pub always: Vec<Reference>,
    /// Of several alternative texts one is chosen when the node starts; only what the chosen one
    /// reads is waited for. Empty when there is no choice.
    pub alternatives: Vec<Vec<Reference>>,
}

impl Reads {
    /// Reads these and has no alternatives.
    pub fn always(references: impl IntoIterator<Item = Reference>) -> Self {
        Self { always: references.into_iter().collect(), alternatives: Vec::new() }
    }

    /// Every reference, whichever alternative is chosen.
    pub fn all(&self) -> impl Iterator<Item = &Reference> {
        self.always.iter().chain(self.alternatives.iter().flatten())
    }
}

/// The facts about one built node that do not change while it runs.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// What it reads.
    pub reads: Reads,
    /// For a branching node: `(pointer inside params, ids)` of every branch. Its successors are
    /// these and not `downstream`.
    pub branches: Option<Vec<(String, Vec<ComponentId>)>>,
    /// It writes a text while it runs and can hand it over piece by piece (models).
    pub streams: bool,
    /// It can begin while a text that it reads is still being written (Message).
    pub listens: bool,
    /// For Iteration: output name and what is collected into it from each round.
    pub collects: Vec<(String, Reference)>,
    /// How many rounds of a frame run at once; 0 means 1.
    pub parallelism: usize,
    /// How many turns of the conversation it looks back at most.
    pub history_turns: usize,
    /// What it sees in later turns of the calls that it has made: so much of them is kept with the session.
    pub tool_history: ToolHistory,
    /// The models it asks for, as `(pointer inside params, llm_id)`.
    pub models: Vec<(String, String)>,
    /// The models that order passages for it, in the same way.
    pub rerankers: Vec<(String, String)>,
    /// Where its parameters say that it is read aloud, if it is: it needs a model for that.
    pub aloud: Option<&'static str>,
    /// The datasets it searches by their names or ids, as `(pointer inside params, name)`.
    pub datasets: Vec<(String, String)>,
    /// What it asks a database, and what tools of it ask, where all of it is written down.
    pub sql: Vec<WrittenSql>,
    /// Its programs, and those of tools of it, where all of their text is written down.
    pub programs: Vec<WrittenProgram>,
    /// The output that a default value after a failure goes to.
    pub main_output: &'static str,
    /// The outputs that it has besides those of its type.
    pub outputs: NodeOutputs,
    /// What it reads that has to be a list: it fails with anything else.
    pub lists: Vec<Reference>,
    /// The outputs that its `retry_if` looks at by name, as `(pointer inside params, name)`.
    pub retry_outputs: Vec<(String, String)>,
    /// Known parameters that were given and that have no effect, and similar: shown by `check` as
    /// warnings.
    pub warnings: Vec<ParamProblem>,
    /// What is not filled in although the node fails, or gives nothing, without it: shown by `check` as warnings. Of a
    /// tool nothing is said, since its model fills that in.
    pub unfilled: Vec<ParamProblem>,
    /// Set when this build knows the component and cannot run it.
    pub unsupported: Option<String>,
    /// Set when it lacks what it fails without whenever it runs, such as a key: where and what. An agent goes on
    /// without such a tool.
    pub lacks: Option<ParamProblem>,
    /// Texts that it fails without: whether they are empty is known only when it runs. An agent goes on without a tool
    /// of which one is.
    pub needs: Vec<NeededText>,
    /// What it reads and goes on without when it is a secret that there is not: what only tools of an agent read.
    pub dispensable: Vec<Reference>,
    /// What it reads of which the values are secret, such as those of headers.
    pub secrets: Vec<Reference>,
    /// What it reads only to change it: it waits for that as for everything it reads, and it is none of its
    /// inputs. A list that a loop adds to would else be in the journal once for each round.
    pub changes: Vec<Reference>,
    /// Other nodes of the canvas that it calls as tools: they need no edge that leads to them.
    pub calls: Vec<ComponentId>,
    /// For a Begin that other programs call: who may, and how.
    pub webhook: Option<Arc<Webhook>>,
}

/// What an activation leads to besides its outputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// All ordinary successors.
    #[default]
    Onward,
    /// Only these of its branches.
    To(Vec<ComponentId>),
    /// A RoundStart says that there is no further round.
    EndFrame,
}

/// What an activation produced.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// The outputs; they replace those of an earlier activation.
    pub outputs: Outputs,
    /// Where the run goes on.
    pub route: Route,
    /// For an Each node: the items of its frame.
    pub items: Option<Vec<Json>>,
    /// How it changes globals and outputs of other components, in order. The engine applies all of it to
    /// the values as they are when the node finishes, or nothing: then the node fails.
    pub assigned: Vec<Assignment>,
    /// What came with the end of a message.
    pub message_end: Option<Box<MessageEnd>>,
    /// It is not finished: a person has to answer first. Everything else here is ignored.
    pub suspended: Option<Box<Suspension>>,
}

/// Work that waits for a person in the middle. It goes on, also in another process, by running
/// again with [`NodeContext::resumed`] and the answers in [`NodeContext::filled`].
///
/// Answers may come one by one: they are kept, and the node runs again when every field that is not
/// optional has one. Texts begin anew: what the node publishes or says when it goes on starts with
/// what it had published or said before. Nobody hears that part twice. The writer of a text that it
/// published is dropped and not finished.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspension {
    /// What to ask. The keys of its fields are the ids of the human tasks.
    pub form: Form,
    /// What the work has to remember: plain data with a version of its own.
    pub state: Json,
}

impl Finished {
    /// Nothing yet: it waits for a person.
    pub fn suspended(suspension: Suspension) -> Self {
        Self { suspended: Some(Box::new(suspension)), ..Self::default() }
    }

    /// Outputs and nothing else.
    pub fn with(outputs: Outputs) -> Self {
        Self { outputs, ..Self::default() }
    }
}

impl From<Outputs> for Finished {
    fn from(outputs: Outputs) -> Self {
        Self::with(outputs)
    }
}

/// What a Message says when its text is complete.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageEnd {
    /// The status for a webhook's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i64>,
    /// The sources that the text cites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cited: Vec<Cited>,
    /// The file that the text has become.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Attachment>,
    /// How to get the files that it shows: objects with `doc_id`, `filename`, `mime_type` and more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub downloads: Vec<Json>,
}

/// A file that a message has become.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its id.
    pub doc_id: FileId,
    /// What kind of file: `pdf`, `docx` …
    pub format: String,
    /// Its name.
    pub file_name: String,
}

/// A form that a person fills in before a Pause node runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Form {
    /// Field key → description (`name`, `type`, `optional`, `options`, `value`).
    pub fields: serde_json::Map<String, Json>,
    /// What to tell the person, with its references filled in.
    pub tips: Option<String>,
    /// How long to wait for an answer, if not for ever; in seconds. A field that came up in the middle of
    /// a node's work has a `timeout_seconds` of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
}

/// A built node. Stateless: one instance serves every activation of every run of its plan.
#[async_trait]
pub trait Component: Send + Sync {
    /// The facts that the plan keeps. Called once.
    fn shape(&self) -> Shape;

    /// Does the work of one activation. Dropping the future stops it.
    ///
    /// # Errors
    /// Whatever went wrong; the engine applies the node's exception settings.
    async fn run(&self, ctx: &NodeContext) -> Result<Finished>;

    /// For a Pause node: what to ask. For an Entry: what a run may begin with.
    fn form(&self, _inputs: &Inputs) -> Form {
        Form::default()
    }

    /// The outputs that a default value after a failure fills; `None` when that is the main output.
    fn default_outputs(&self, _default: &Json) -> Option<Outputs> {
        None
    }
}
