//! The tools that an agent may call. Tools of every origin have the same shape: a record that describes the tool, and
//! a body that carries out a call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use serde::{Deserialize, Serialize};
use weft_macros::async_trait;

use crate::component::Suspension;
use crate::context::NodeContext;
use crate::error::{Error, Result};
use crate::id::ComponentId;
use crate::value::{Json, to_text};

/// Where a tool comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A component that the canvas assigns to the agent.
    Component(ComponentId),
    /// Another agent.
    Agent(ComponentId),
    /// A tool of an MCP server, by the server's id.
    Mcp(String),
    /// A function of the program that embeds the engine.
    Function,
}

/// The properties of a tool that the agent loop needs in order to call it correctly.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolTraits {
    /// Whether an interrupted call may be repeated: it changes nothing, or repeating it changes nothing further.
    pub idempotent: bool,
    /// Whether a person has to approve each call.
    pub approval: bool,
    /// How long to wait for the approval if its agent does not say, in seconds. No answer counts as a refusal.
    pub approval_timeout: Option<u64>,
    /// Whether it is meant to be called repeatedly until something has happened, so that identical calls are no sign
    /// of a loop.
    pub poll: bool,
    /// Whether it must not run concurrently with another call of its round.
    pub alone: bool,
    /// Whether a call runs in the background of the conversation: the agent is notified that it has started, and
    /// receives its result later.
    pub background: bool,
    /// Whether it adds sources that the answer may cite.
    pub sources: bool,
    /// How long one call may take.
    pub time_limit: Duration,
    /// What it is for.
    pub purpose: Purpose,
}

/// What a tool is for, as far as this decides when a model is shown it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// The work at hand.
    #[default]
    Work,
    /// Finding other tools, which are shown once they have been found.
    FindsTools,
    /// Finding other tools, when the model's provider does the search itself. The tool is not shown; its presence
    /// means that the work tools have to be found first.
    LeavesFindingToProvider,
    /// Reading results that were too long to be shown.
    ReadsResults,
    /// Running scripts that call the other tools, which are then not shown one by one.
    RunsScripts,
}

/// Default time limit of a call.
pub const TOOL_TIME_LIMIT: Duration = Duration::from_secs(60);

impl Default for ToolTraits {
    fn default() -> Self {
        Self {
            // Whoever declares nothing has not considered it, and an accidental repetition is worse than one question
            // too many.
            idempotent: false,
            approval: false,
            approval_timeout: None,
            poll: false,
            alone: false,
            background: false,
            sources: false,
            time_limit: TOOL_TIME_LIMIT,
            purpose: Purpose::Work,
        }
    }
}

/// The group of every tool that names no other; it is always active.
pub const BASIC_GROUP: &str = "basic";

/// Changes the output of a tool before anything else sees it; `None` leaves it unchanged. Called for every chunk.
pub type Postprocess = dyn Fn(&Invocation, &ToolOutput) -> Option<ToolOutput> + Send + Sync;

/// One tool.
#[derive(Clone)]
pub struct Tool {
    /// What the model calls it: 1 to 64 letters, digits, `_` and `-`. A toolkit makes names unique.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// A JSON Schema of its arguments, without the presets.
    pub parameters: Json,
    /// What a calling program receives, in a few words, if that differs from what the model reads.
    pub returns: Option<String>,
    /// Fixed arguments. They override what the model writes, and the model does not see them.
    pub preset: serde_json::Map<String, Json>,
    /// The group of tools with which it is switched on and off.
    pub group: String,
    /// Where it comes from.
    pub origin: Origin,
    /// How it is to be called.
    pub traits: ToolTraits,
    /// Changes its output before anything else sees it.
    pub postprocess: Option<Arc<Postprocess>>,
    /// What carries out a call.
    pub body: Arc<dyn ToolBody>,
}

impl Tool {
    /// Creates a tool of the basic group with default traits.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Json,
        origin: Origin,
        body: Arc<dyn ToolBody>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
            returns: None,
            preset: serde_json::Map::new(),
            group: BASIC_GROUP.to_owned(),
            origin,
            traits: ToolTraits::default(),
            postprocess: None,
            body,
        }
    }

    /// Creates a tool that calls an asynchronous function of the embedding program. For a function that blocks its
    /// thread, use [`Tool::blocking`].
    pub fn function<F, Fut>(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Json,
        function: F,
    ) -> Self
    where
        F: Fn(serde_json::Map<String, Json>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Json>> + Send + 'static,
    {
        Self::new(name, description, parameters, Origin::Function, Arc::new(Function(function)))
    }

    /// Creates a tool that calls a function of the embedding program which blocks its thread. It runs on its own
    /// thread, so that it holds up nothing else. If a call is abandoned, the function still runs to its end, and its
    /// result is discarded.
    pub fn blocking<F>(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Json,
        function: F,
    ) -> Self
    where
        F: Fn(serde_json::Map<String, Json>) -> Result<Json> + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        Self::function(name, description, parameters, move |arguments| {
            let function = Arc::clone(&function);
            async move {
                // It may compute for a long time, and the async worker threads serve every run.
                let work = tokio::task::spawn_blocking(move || function(arguments));
                work.await.map_err(|cause| Error::internal("the tool broke").because(cause))?
            }
        })
    }
}

/// Options for tools that are built by hand.
impl Tool {
    /// Fixes an argument: the model does not see it, and a value that the model writes for it is ignored.
    #[must_use]
    pub fn with_preset(mut self, argument: impl Into<String>, value: Json) -> Self {
        self.preset.insert(argument.into(), value);
        self
    }

    /// Puts the tool into a group.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// Changes its output before anything else sees it: every chunk goes through the function, and `None` leaves it
    /// unchanged.
    #[must_use]
    pub fn with_postprocess(
        mut self,
        postprocess: impl Fn(&Invocation, &ToolOutput) -> Option<ToolOutput> + Send + Sync + 'static,
    ) -> Self {
        self.postprocess = Some(Arc::new(postprocess));
        self
    }

    /// Sets how it is to be called.
    #[must_use]
    pub fn with_traits(mut self, traits: ToolTraits) -> Self {
        self.traits = traits;
        self
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The presets are left out because they may hold keys.
        f.debug_struct("Tool").field("name", &self.name).field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// One call, checked and ready to be carried out.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The call's id, unique within its agent's activation.
    pub id: String,
    /// The arguments, including the presets.
    pub arguments: serde_json::Map<String, Json>,
    /// The calling agent: its run, its budget, its path from the top. Its `part` is the call's own, so that what the
    /// call does has its own place among the activation's effects.
    pub agent: Arc<NodeContext>,
    /// The state that the call saved when it suspended to wait for a person.
    pub resumed: Option<Json>,
}

/// A part of a tool's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image as a data or http URL.
    Image {
        /// The URL.
        url: String,
    },
    /// Sound as a data or http URL.
    Audio {
        /// The URL.
        url: String,
    },
    /// Something that can be read elsewhere, or its content.
    Resource {
        /// Its address.
        uri: String,
        /// Its media type, if known.
        media_type: Option<String>,
        /// Its content, when it is text; bytes come as a data URL in `uri`.
        text: Option<String>,
    },
}

/// What a program receives that calls a tool itself. It appears neither in the conversation nor in the trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolData {
    /// The same as for every other caller.
    #[default]
    Same,
    /// This value, of which the model is shown a part or a text derived from it.
    Value(Json),
    /// The data is this many bytes, too large to be passed on in full.
    TooLarge(usize),
}

impl ToolData {
    /// Returns whether it is the same as for every other caller.
    pub fn is_same(&self) -> bool {
        *self == Self::Same
    }
}

/// The output of a tool so far. A later chunk replaces an earlier one; it never adds to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// For the model.
    pub blocks: Vec<Block>,
    /// The same output as a value, for programs; absent when the blocks contain everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
    /// What a program receives that calls the tool itself; see [`NodeContext::keeps_data`].
    #[serde(default, skip_serializing_if = "ToolData::is_same")]
    pub data: ToolData,
    /// Whether the tool reports a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Further information for programs, such as where the output comes from. Models do not see it.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: serde_json::Map<String, Json>,
}

impl ToolOutput {
    /// An output that is a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { blocks: vec![Block::Text { text: text.into() }], ..Self::default() }
    }

    /// An output that is a value: a text as it is, anything else as JSON.
    pub fn value(value: Json) -> Self {
        let text = to_text(&value);
        // A text would be stored twice.
        let value = (!value.is_string()).then_some(value);
        Self { blocks: vec![Block::Text { text }], value, ..Self::default() }
    }

    /// Adds a metadata entry for programs.
    #[must_use]
    pub fn with_metadata(mut self, name: impl Into<String>, value: Json) -> Self {
        self.metadata.insert(name.into(), value);
        self
    }

    /// Returns the output as shown to a model that reads only text.
    pub fn to_text(&self) -> String {
        let parts = self.blocks.iter().map(|block| match block {
            Block::Text { text } => text.clone(),
            // A data URL is megabytes of base64, which a model cannot read but pays for by the token.
            Block::Image { url } if url.starts_with("data:") => "[an image]".to_owned(),
            Block::Audio { url } if url.starts_with("data:") => "[a recording]".to_owned(),
            Block::Image { url } => format!("[an image: {url}]"),
            Block::Audio { url } => format!("[a recording: {url}]"),
            // Includes the address, so that the model can refer to it and request it again.
            Block::Resource { uri, text: Some(text), .. } => format!("{uri}\n{text}"),
            Block::Resource { uri, media_type, .. } if uri.starts_with("data:") => {
                format!("[a file: {}]", media_type.as_deref().unwrap_or("of unknown type"))
            }
            Block::Resource { uri, .. } => format!("[a resource: {uri}]"),
        });
        parts.collect::<Vec<_>>().join("\n")
    }

    /// Returns the images, for models with vision.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Image { url } => Some(url.as_str()),
            Block::Text { .. } | Block::Audio { .. } | Block::Resource { .. } => None,
        })
    }

    /// Returns the output for programs: the value if there is one, otherwise the text.
    pub fn to_json(&self) -> Json {
        self.value.clone().unwrap_or_else(|| Json::String(self.to_text()))
    }
}

/// A step of a call.
#[derive(Clone, Debug)]
pub enum ToolStep {
    /// The output so far; more will come.
    Progress(ToolOutput),
    /// The complete output. The last step of a call that was carried out.
    Done(ToolOutput),
    /// The call waits for a person. It is repeated with [`Invocation::resumed`] set.
    Suspended(Suspension),
}

/// The steps of one call. The stream ends after `Done`, `Suspended` or an error; dropping it stops the call.
pub type ToolStream = BoxStream<'static, Result<ToolStep>>;

/// Carries out calls of one tool. One instance serves all calls, so it keeps no state between them.
pub trait ToolBody: Send + Sync {
    /// Starts a call.
    fn call(&self, invocation: Invocation) -> ToolStream;
}

/// Returns the steps of a call that completes in a single step.
pub fn once(call: impl Future<Output = Result<ToolOutput>> + Send + 'static) -> ToolStream {
    stream::once(async move { call.await.map(ToolStep::Done) }).boxed()
}

struct Function<F>(F);

impl<F, Fut> ToolBody for Function<F>
where
    F: Fn(serde_json::Map<String, Json>) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Json>> + Send + 'static,
{
    fn call(&self, invocation: Invocation) -> ToolStream {
        let work = (self.0)(invocation.arguments);
        once(async move { work.await.map(ToolOutput::value) })
    }
}

/// Returns what a model is told about a call that could not be carried out: `{error: {kind, message, retryable}}`,
/// including the remedy.
pub fn failure_text(error: &Error) -> String {
    // A model that knows a failure is transient retries; otherwise it tells its user that the task is impossible.
    let retryable = error.kind.is_passing();
    serde_json::json!({"error": {"kind": error.kind.code(), "message": error.full(), "retryable": retryable}})
        .to_string()
}

/// A set of tools as an agent loop sees it: lists what may be called, and calls it.
#[async_trait]
pub trait ToolSession: Send + Sync {
    /// Returns the tools currently on offer, in order. Names are unique.
    fn tools(&self) -> Vec<Arc<Tool>>;

    /// Starts a call of a tool by its name. The arguments are those that the model wrote, without presets. Never
    /// panics or blocks: problems are reported as an error of the stream.
    fn call(&self, name: &str, invocation: Invocation) -> ToolStream;
}

/// Returns the schema of the arguments from a server's or a canvas's definition of a tool: `inputSchema`, or else
/// `parameters`, given either as a schema or, as older servers write it, as the bare properties of one. `None` if
/// there is neither.
pub fn declared_parameters(definition: &serde_json::Map<String, Json>) -> Option<Json> {
    let input = definition.get("inputSchema");
    let fields = input.or_else(|| definition.get("parameters"))?.as_object()?;
    let is_schema = input.is_some()
        || fields.get("type").is_some_and(|of| of == "object")
        || fields.contains_key("properties");
    if !is_schema {
        return Some(serde_json::json!({"type": "object", "properties": fields}));
    }
    let mut schema = fields.clone();
    schema.entry("type").or_insert_with(|| "object".into());
    Some(Json::Object(schema))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_schema_is_found_in_any_definition_format() {
        let check = |definition: &Json, expected: &Json| {
            let found = declared_parameters(definition.as_object().unwrap()).unwrap_or_default();
            assert_eq!(&found, expected, "{definition}");
        };
        let json = |text: &str| serde_json::from_str::<Json>(text).unwrap();
        let whole = json(r#"{"type": "object", "properties": {"q": {"type": "string"}}}"#);
        check(&serde_json::json!({"inputSchema": whole}), &whole);
        check(&serde_json::json!({"parameters": whole}), &whole);
        check(&json(r#"{"parameters": {"q": {"type": "string"}}}"#), &whole);
        check(&json(r#"{"inputSchema": {"properties": {"q": {"type": "string"}}}}"#), &whole);
        check(&json(r#"{"inputSchema": {}}"#), &json(r#"{"type": "object"}"#));
        check(&json(r#"{"parameters": {}}"#), &json(r#"{"type": "object", "properties": {}}"#));
        check(&json(r#"{"inputSchema": null, "parameters": {}}"#), &Json::Null);
        check(&json(r#"{"inputSchema": "object"}"#), &Json::Null);
        check(&json("{}"), &Json::Null);
    }

    #[test]
    fn outputs_are_available_as_text_and_values() {
        let blocks = vec![
            Block::Text { text: "a".to_owned() },
            Block::Image { url: "data:image/png;base64,AA".to_owned() },
            Block::Audio { url: "http://x/y.mp3".to_owned() },
            Block::Resource { uri: "file:///n".to_owned(), media_type: None, text: Some("note".to_owned()) },
            Block::Resource { uri: "mem://b".to_owned(), media_type: None, text: None },
        ];
        let output = ToolOutput { blocks, ..ToolOutput::default() };
        assert_eq!(
            output.to_text(),
            "a\n[an image]\n[a recording: http://x/y.mp3]\nfile:///n\nnote\n[a resource: mem://b]"
        );
        assert_eq!(output.images().collect::<Vec<_>>(), ["data:image/png;base64,AA"]);
        assert_eq!(ToolOutput::value(serde_json::json!({"a": 1})).to_json(), serde_json::json!({"a": 1}));
        assert_eq!(ToolOutput::value("x".into()).to_json(), Json::from("x"));
    }

    #[test]
    fn failures_are_reported_with_the_remedy() {
        let error = Error::new(ErrorKind::Timeout, "too slow").help("ask for less");
        let told: Json = serde_json::from_str(&failure_text(&error)).unwrap();
        assert_eq!(
            told,
            serde_json::json!({"error": {"kind": "TIMEOUT", "message": "too slow (ask for less)", "retryable": true}})
        );
    }
}
