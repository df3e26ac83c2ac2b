//! What a component is: one spec, one build step, one `run`.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

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
    /// Waits for a person's input before it runs.
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

/// One component type. The single source for validation, forms, reference pages and tool schemas.
#[derive(Debug)]
pub struct ComponentSpec {
    /// The name in the canvas, such as `StringTransform`.
    pub kind: &'static str,
    /// How the engine treats it.
    pub role: Role,
    /// One sentence for people and for models that may call it.
    pub summary: &'static str,
    /// Its parameters, apart from those that every component has ([`common`](crate::field::common)).
    pub fields: &'static [FieldGroup],
    /// Its outputs, except those that depend on the parameters of a node.
    pub outputs: &'static [OutputSpec],
    /// The time limit of one activation; `None` if the type sets no limit of its own.
    pub time_limit: Option<Duration>,
    /// Whether only runs that are being measured may use it.
    pub measuring_only: bool,
    /// How agents call it. If absent, a model fills in whichever parameters the canvas leaves open.
    pub tool: Option<ToolSpec>,
    /// Reads the parameters of a node once.
    pub build: Build,
}

/// An output that the nodes of a component type have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputSpec {
    /// Its name, as in `{Agent:A@content}`.
    pub name: &'static str,
    /// Its JSON Schema type, such as `string`; `any` leaves it open.
    pub kind: &'static str,
    /// What it holds, as a sentence fragment for people.
    pub summary: &'static str,
    /// Whether a node has it only if it names it in [`Shape::outputs`].
    pub optional: bool,
}

impl ComponentSpec {
    /// Returns the JSON Schema of its parameters.
    pub fn parameters(&self) -> Json {
        schema::of_parameters(self.fields)
    }

    /// Returns the JSON Schema of the arguments that a model fills in when it calls the component as a tool. `None`
    /// when the type declares no such arguments; the model may then fill in whatever the canvas leaves open.
    pub fn arguments(&self) -> Option<Json> {
        self.tool.as_ref().map(|_| schema::of_arguments(self.fields))
    }
}

impl OutputSpec {
    /// Creates an output that every node of the type has.
    pub const fn new(name: &'static str, kind: &'static str, summary: &'static str) -> Self {
        Self { name, kind, summary, optional: false }
    }

    /// Marks the output as one that a node has only when its parameters ask for it.
    #[must_use]
    pub const fn when_asked_for(self) -> Self {
        Self { optional: true, ..self }
    }
}

/// The outputs of one node that depend on its parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeOutputs {
    /// The outputs that are known before the node runs.
    pub named: Vec<NodeOutput>,
    /// Whether there may be others, whose names are not known before it runs.
    pub open: bool,
    /// The outputs of its type that it never sets with these parameters.
    pub without: &'static [&'static str],
}

/// An output of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOutput {
    /// Its name.
    pub name: String,
    /// Its JSON Schema type, such as `array`; `any` leaves it open.
    pub kind: &'static str,
    /// All members of an object, if they are known and it can have no others.
    pub members: Option<Vec<String>>,
}

impl NodeOutputs {
    /// Exactly these outputs, of any type.
    pub fn named(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::typed(names.into_iter().map(|name| (name, "any")))
    }

    /// Exactly these outputs, each with its JSON Schema type.
    pub fn typed(outputs: impl IntoIterator<Item = (impl Into<String>, &'static str)>) -> Self {
        let named = outputs.into_iter();
        let named = named.map(|(name, kind)| NodeOutput { name: name.into(), kind, members: None });
        Self { named: named.collect(), ..Self::default() }
    }

    /// Any outputs.
    pub fn any() -> Self {
        Self { open: true, ..Self::default() }
    }
}

/// How agents call a component as a tool. The model fills in the fields that are marked for it.
#[derive(Debug)]
pub struct ToolSpec {
    /// The function name that the model sees unless the canvas gives one: lower case with underscores.
    pub function: &'static str,
    /// Whether an interrupted call may be repeated.
    pub idempotent: bool,
    /// Whether it adds sources that the answer may cite.
    pub sources: bool,
}

/// Reads the parameters of a node once. Returns the component, or every problem found in them.
pub type Build = fn(&NodeSource<'_>) -> Result<Arc<dyn Component>, Vec<ParamProblem>>;

/// One node as written in the canvas, passed to [`ComponentSpec::build`].
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
    /// The item node of the enclosing Iteration, to which `{item}` and its relatives refer.
    pub item: Option<&'a ComponentId>,
    /// Its successors, in order.
    pub downstream: &'a [ComponentId],
    /// Its predecessors, in the order of the canvas.
    pub upstream: &'a [ComponentId],
    /// The other nodes of the canvas, for agents that name one as a tool.
    pub others: &'a dyn Others,
    /// Whether components that exist only for measuring may be used.
    pub measuring: bool,
}

/// The nodes of a canvas, as written.
pub trait Others: fmt::Debug + Sync {
    /// Returns the type and the parameters of the node with this id.
    fn get(&self, id: &ComponentId) -> Option<(&str, &serde_json::Map<String, Json>)>;
}

/// A canvas that has no other nodes.
#[derive(Clone, Copy, Debug)]
pub struct NoOthers;

impl Others for NoOthers {
    fn get(&self, _: &ComponentId) -> Option<(&str, &serde_json::Map<String, Json>)> {
        None
    }
}

impl NodeSource<'_> {
    /// Returns what its texts may refer to.
    pub fn names(&self) -> Names<'_> {
        Names { components: self.components, item: self.item }
    }
}

/// A problem with one parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamProblem {
    /// JSON pointer inside `params`, such as `/conditions/0/items/1/operator`.
    pub pointer: String,
    /// What is wrong, as a sentence fragment that does not name the place.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The code of the finding that it becomes, if it keeps the component from being built and is another problem than
    /// a wrong parameter.
    pub code: Option<&'static str>,
}

impl ParamProblem {
    /// Creates a problem at `pointer`.
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into(), help: None, code: None }
    }

    /// Adds advice on what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// A text of a node that must not evaluate to an empty string, such as a key that comes from a variable.
#[derive(Clone, Debug)]
pub struct NeededText {
    /// The text.
    pub text: Template,
    /// The problem to report when it is empty.
    pub problem: ParamProblem,
}

/// SQL that is fully written in the canvas, so that it can be checked before a run, whatever the values are then.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenSql {
    /// Where it is, as a JSON pointer inside `params`.
    pub pointer: String,
    /// What kind of server it is for.
    pub kind: DatabaseKind,
    /// One statement or several, as they are sent, with null in place of each value.
    pub parts: Vec<SqlPart>,
}

/// A program that is fully written in the canvas, so that whether it parses can be checked before a run.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenProgram {
    /// Where it is, as a JSON pointer inside `params`.
    pub pointer: String,
    /// What it is written in.
    pub language: Language,
    /// Its text, as it is sent to the sandbox.
    pub text: String,
    /// The names of the arguments that its `main` is called with.
    pub arguments: Vec<String>,
}

/// What a node reads. It starts only when every component named here has finished or can no longer run in this turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reads {
    /// What every activation reads.
    pub always: Vec<Reference>,
    /// What each of several alternative texts reads. One of the texts is chosen when the node starts, and the node
    /// waits only for what that one reads. Empty when there is no choice.
    pub alternatives: Vec<Vec<Reference>>,
}

impl Reads {
    /// Reads these references and has no alternatives.
    pub fn always(references: impl IntoIterator<Item = Reference>) -> Self {
        Self { always: references.into_iter().collect(), alternatives: Vec::new() }
    }

    /// Returns every reference, whichever alternative is chosen.
    pub fn all(&self) -> impl Iterator<Item = &Reference> {
        self.always.iter().chain(self.alternatives.iter().flatten())
    }
}

/// What the value of a reference must be for the node that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A list; the node fails on anything else.
    List,
    /// A text, or what can be written as one; the node fails on a list or an object.
    Text,
    /// A list of objects or lists, an object, or one of them as JSON text; the node fails on anything else.
    Rows,
    /// An object or a list of objects; anything else is skipped.
    Objects,
}

/// The facts about one built node that do not change while it runs.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// What it reads.
    pub reads: Reads,
    /// For a branching node: `(pointer inside params, ids)` of every branch. These are its successors, instead of
    /// `downstream`.
    pub branches: Option<Vec<(String, Vec<ComponentId>)>>,
    /// Whether it writes a text while it runs and can publish it piece by piece (models).
    pub streams: bool,
    /// Whether it can start while a text that it reads is still being written (Message).
    pub listens: bool,
    /// For an Iteration: each output's name and the reference whose value is collected into it from every round.
    pub collects: Vec<(String, Reference)>,
    /// How many rounds of a frame run concurrently; 0 means 1.
    pub parallelism: usize,
    /// Maximum number of turns of the conversation that it looks back at.
    pub history_turns: usize,
    /// What it sees, in later turns, of the calls it has made. Determines how much of them is stored with the
    /// session.
    pub tool_history: ToolHistory,
    /// The chat models it uses, as `(pointer inside params, llm_id)`.
    pub models: Vec<(String, String)>,
    /// The reranking models it uses, in the same form.
    pub rerankers: Vec<(String, String)>,
    /// Where its parameters say that its text is read aloud, if it is. This requires a speech model.
    pub aloud: Option<&'static str>,
    /// The datasets it searches, by name or id, as `(pointer inside params, name)`.
    pub datasets: Vec<(String, String)>,
    /// The memories it searches or adds to, by id, as `(pointer inside params, id)`.
    pub memories: Vec<(String, String)>,
    /// The SQL that it and its tools send, if all of it is written in the canvas.
    pub sql: Vec<WrittenSql>,
    /// The programs of the node and of its tools, if their whole text is written in the canvas.
    pub programs: Vec<WrittenProgram>,
    /// The output that receives the default value after a failure.
    pub main_output: &'static str,
    /// The outputs it has besides those of its type.
    pub outputs: NodeOutputs,
    /// The references whose values must be of a certain kind, and what each must be.
    pub expects: Vec<(Reference, Expected)>,
    /// The outputs that its `retry_if` reads by name, as `(pointer inside params, name)`.
    pub retry_outputs: Vec<(String, String)>,
    /// Parameters that were given but have no effect, and similar problems. `check` shows them as warnings.
    pub warnings: Vec<ParamProblem>,
    /// Parameters left empty without which the node fails or produces nothing. `check` shows them as warnings, except
    /// for tools, whose model fills them in.
    pub unfilled: Vec<ParamProblem>,
    /// Set when this build knows the component but cannot run it.
    pub unsupported: Option<String>,
    /// Set when something is missing without which it fails whenever it runs, such as a key: where and what. An agent
    /// carries on without a tool in this state.
    pub lacks: Option<ParamProblem>,
    /// Texts without which it fails. Whether they are empty is known only when it runs. An agent carries on without a
    /// tool that has an empty one.
    pub needs: Vec<NeededText>,
    /// References it can do without if they name a secret that does not exist: those that only tools of an agent
    /// read.
    pub dispensable: Vec<Reference>,
    /// References whose values are secret, such as those in headers.
    pub secrets: Vec<Reference>,
    /// References it reads only in order to change them. It waits for them as for any other, but they are not part of
    /// its inputs; otherwise a list that a loop appends to would be written to the journal once per round.
    pub changes: Vec<Reference>,
    /// Other nodes of the canvas that it calls as tools. They need no incoming edge.
    pub calls: Vec<ComponentId>,
    /// For a Begin that other programs call: who may call it, and how.
    pub webhook: Option<Arc<Webhook>>,
}

/// Which successors an activation leads to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// All ordinary successors.
    #[default]
    Onward,
    /// Only these of its branches.
    To(Vec<ComponentId>),
    /// Set by a RoundStart: there is no further round.
    EndFrame,
}

/// What an activation produced.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// The outputs. They replace those of an earlier activation.
    pub outputs: Outputs,
    /// Which successors run next.
    pub route: Route,
    /// For an Each node: the items of its frame.
    pub items: Option<Vec<Json>>,
    /// Changes to globals and to outputs of other components, in order. When the node finishes, the engine applies
    /// all of them to the then current values, or none: if one cannot be applied, the node fails.
    pub assigned: Vec<Assignment>,
    /// What completes a message, if this is one.
    pub message_end: Option<Box<MessageEnd>>,
    /// Set when it has not finished because a person has to answer first. All other fields are then ignored.
    pub suspended: Option<Box<Suspension>>,
}

/// Work that has stopped midway to wait for a person. It continues, possibly in another process, by running again
/// with [`NodeContext::resumed`] and the answers in [`NodeContext::filled`].
///
/// Answers may arrive one at a time: they are stored, and the node runs again once every required field has one.
/// Texts start over: what the resumed node publishes or says must begin with what it had published or said before,
/// and that part is not delivered twice. The writer of a text that it published is dropped without being finished.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspension {
    /// What to ask. The keys of its fields are the ids of the human tasks.
    pub form: Form,
    /// The state that the work needs in order to continue: plain data with its own version.
    pub state: Json,
}

impl Finished {
    /// No result yet: the node waits for a person.
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

/// What a Message reports when its text is complete.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageEnd {
    /// The HTTP status of a webhook's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i64>,
    /// The sources that the text cites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cited: Vec<Cited>,
    /// The file that the text was turned into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Attachment>,
    /// How to download the files it shows: objects with `doc_id`, `filename`, `mime_type` and more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub downloads: Vec<Json>,
}

/// A file that a message was turned into.
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
    /// Maps each field key to its description (`name`, `type`, `optional`, `options`, `value`).
    pub fields: serde_json::Map<String, Json>,
    /// The instructions for the person, with references filled in.
    pub tips: Option<String>,
    /// How long to wait for an answer, in seconds; without limit if absent. A field that was asked in the middle of a
    /// node's work has its own `timeout_seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
}

/// A built node. Stateless: one instance serves every activation of every run of its plan.
#[async_trait]
pub trait Component: Send + Sync {
    /// Returns the facts that the plan retains. Called once.
    fn shape(&self) -> Shape;

    /// Does the work of one activation. Dropping the future stops it.
    ///
    /// # Errors
    /// Any failure; the engine applies the node's exception settings.
    async fn run(&self, ctx: &NodeContext) -> Result<Finished>;

    /// For a Pause node: the form to fill in. For an Entry: the inputs that a run may start with.
    fn form(&self, _inputs: &Inputs) -> Form {
        Form::default()
    }

    /// Returns the outputs that a default value fills after a failure; `None` if that is the main output.
    fn default_outputs(&self, _default: &Json) -> Option<Outputs> {
        None
    }
}
