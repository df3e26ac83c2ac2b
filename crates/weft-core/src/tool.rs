//! What an agent may call. Tools of every origin have one shape: a record that says what the tool is,
//! and a body that carries out a call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};
use serde::{Deserialize, Serialize};

use crate::component::Suspension;
use crate::context::NodeContext;
use crate::error::{Error, Result};
use crate::id::ComponentId;
use crate::value::{Json, to_text};

/// Where a tool comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A component that was given to the agent.
    Component(ComponentId),
    /// Another agent.
    Agent(ComponentId),
    /// A tool of an MCP server, by the server's id.
    Mcp(String),
    /// A function of the program that embeds the engine.
    Function,
}

/// What the loop has to know about a tool to call it rightly.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolTraits {
    /// A call that was cut off may be made again: it changes nothing, or the same call twice changes
    /// nothing more.
    pub idempotent: bool,
    /// A person has to agree before each call.
    pub approval: bool,
    /// How long to wait for that, if its agent does not say; in seconds. No answer is a no.
    pub approval_timeout: Option<u64>,
    /// It is meant to be asked again and again until something has happened, so equal calls are no
    /// sign of a loop.
    pub poll: bool,
    /// It must not run beside another call of its round.
    pub alone: bool,
    /// A call goes on beside the conversation: its agent is told that it has begun, and what it gave when that is there.
    pub background: bool,
    /// It adds sources that the answer may cite.
    pub sources: bool,
    /// How long one call may take.
    pub time_limit: Duration,
    /// What it is there for.
    pub purpose: Purpose,
}

/// What a tool is there for, as far as it decides when a model is shown it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// The work at hand.
    #[default]
    Work,
    /// Finding other tools, which are shown when they are found.
    FindsTools,
    /// The same, in an agent whose model's provider does it: it is not shown, and its being there says that the tools of the
    /// work are to be found.
    LeavesFindingToProvider,
    /// Reading results that were too long to be shown.
    ReadsResults,
    /// Running scripts that call the other tools, which are then not shown one by one.
    RunsScripts,
}

/// How long a call may take when nobody says otherwise.
pub const TOOL_TIME_LIMIT: Duration = Duration::from_secs(60);

impl Default for ToolTraits {
    fn default() -> Self {
        Self {
            // Who says nothing has not thought of it: what is done twice by mistake is worse than what is
            // asked about once more.
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

/// The group that every tool is in unless it says otherwise; it is always active.
pub const BASIC_GROUP: &str = "basic";

/// Changes what a tool gave before anybody sees it; `None` leaves it. It sees every chunk.
pub type Postprocess = dyn Fn(&Invocation, &ToolOutput) -> Option<ToolOutput> + Send + Sync;

/// One tool.
#[derive(Clone)]
pub struct Tool {
    /// What the model calls it: 1 to 64 letters, digits, `_` and `-`. A toolkit makes names unique.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// A JSON schema of its arguments, without the presets.
    pub parameters: Json,
    /// What a program is given that calls it, in a few words, where that is not what the model reads.
    pub returns: Option<String>,
    /// Arguments that are fixed. They win over what the model writes, and it does not see them.
    pub preset: serde_json::Map<String, Json>,
    /// Which tools are switched on and off together.
    pub group: String,
    /// Where it comes from.
    pub origin: Origin,
    /// How it is to be called.
    pub traits: ToolTraits,
    /// What happens to its output before anybody sees it.
    pub postprocess: Option<Arc<Postprocess>>,
    /// What carries out a call.
    pub body: Arc<dyn ToolBody>,
}

impl Tool {
    /// A tool of the basic group with nothing special about it.
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

    /// A tool that calls an asynchronous function of the embedding program. One that blocks its thread
    /// is for [`Tool::blocking`].
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

    /// A tool that calls a function of the embedding program that blocks its thread. It runs on a
    /// thread of its own, so that it holds up nobody else; a call that is given up on runs to its end
    /// unheard.
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
                // It may compute for long, and the threads of tasks serve every run.
                let work = tokio::task::spawn_blocking(move || function(arguments));
                work.await.map_err(|cause| Error::internal("the tool broke").because(cause))?
            }
        })
    }
}

/// What makes a tool special, for tools that are put together by hand.
impl Tool {
    /// Fixes an argument: the model does not see it, and what it writes for it does not count.
    #[must_use]
    pub fn with_preset(mut self, argument: impl Into<String>, value: Json) -> Self {
        self.preset.insert(argument.into(), value);
        self
    }

    /// Puts it into a group of tools.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// Changes what it gives before anybody sees it: every chunk goes through the function, and `None`
    /// leaves it.
    #[must_use]
    pub fn with_postprocess(
        mut self,
        postprocess: impl Fn(&Invocation, &ToolOutput) -> Option<ToolOutput> + Send + Sync + 'static,
    ) -> Self {
        self.postprocess = Some(Arc::new(postprocess));
        self
    }

    /// Says how it is to be called.
    #[must_use]
    pub fn with_traits(mut self, traits: ToolTraits) -> Self {
        self.traits = traits;
        self
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without its presets, which may hold keys.
        f.debug_struct("Tool").field("name", &self.name).field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// One call, checked and ready to be carried out.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The call's id, unique within its agent's activation.
    pub id: String,
    /// The arguments with the presets.
    pub arguments: serde_json::Map<String, Json>,
    /// The agent that calls: its run, its budget, the way to it from the top. Its `part` is the call's
    /// own, so that what the call does has a place of its own among the activation's effects.
    pub agent: Arc<NodeContext>,
    /// What the call had to remember when it stopped to wait for a person.
    pub resumed: Option<Json>,
}

/// A part of what a tool gives.
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

/// What a program works with that calls a tool itself. It neither goes into the conversation nor into the trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolData {
    /// What everybody is given.
    #[default]
    Same,
    /// This, of which the model is shown a part or a text made of it.
    Value(Json),
    /// There were so many bytes of it that nobody is given all of them.
    TooLarge(usize),
}

impl ToolData {
    /// Whether it is what everybody is given.
    pub fn is_same(&self) -> bool {
        *self == Self::Same
    }
}

/// What a tool has given so far. A later chunk replaces an earlier one, it never adds to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// For the model.
    pub blocks: Vec<Block>,
    /// The same as a value, for programs; absent when the blocks say everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
    /// What a program works with that calls the tool itself; see [`NodeContext::keeps_data`].
    #[serde(default, skip_serializing_if = "ToolData::is_same")]
    pub data: ToolData,
    /// The tool says that it failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// What else programs are told, such as where it comes from. No model sees it.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: serde_json::Map<String, Json>,
}

impl ToolOutput {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { blocks: vec![Block::Text { text: text.into() }], ..Self::default() }
    }

    /// A value: a text as it is, anything else as JSON.
    pub fn value(value: Json) -> Self {
        let text = to_text(&value);
        // A text would be kept twice.
        let value = (!value.is_string()).then_some(value);
        Self { blocks: vec![Block::Text { text }], value, ..Self::default() }
    }

    /// The same with a note for programs.
    #[must_use]
    pub fn with_metadata(mut self, name: impl Into<String>, value: Json) -> Self {
        self.metadata.insert(name.into(), value);
        self
    }

    /// What a model that reads only text is told.
    pub fn to_text(&self) -> String {
        let parts = self.blocks.iter().map(|block| match block {
            Block::Text { text } => text.clone(),
            // A data URL is megabytes of base64, of which a model reads nothing and pays for each token.
            Block::Image { url } if url.starts_with("data:") => "[an image]".to_owned(),
            Block::Audio { url } if url.starts_with("data:") => "[a recording]".to_owned(),
            Block::Image { url } => format!("[an image: {url}]"),
            Block::Audio { url } => format!("[a recording: {url}]"),
            // With its address, by which a model can refer to it and ask for it again.
            Block::Resource { uri, text: Some(text), .. } => format!("{uri}\n{text}"),
            Block::Resource { uri, media_type, .. } if uri.starts_with("data:") => {
                format!("[a file: {}]", media_type.as_deref().unwrap_or("of unknown type"))
            }
            Block::Resource { uri, .. } => format!("[a resource: {uri}]"),
        });
        parts.collect::<Vec<_>>().join("\n")
    }

    /// The images, for models that see.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Image { url } => Some(url.as_str()),
            Block::Text { .. } | Block::Audio { .. } | Block::Resource { .. } => None,
        })
    }

    /// What programs are told: the value, else the text.
    pub fn to_json(&self) -> Json {
        self.value.clone().unwrap_or_else(|| Json::String(self.to_text()))
    }
}

/// A step of a call.
#[derive(Clone, Debug)]
pub enum ToolStep {
    /// What there is so far; more will come.
    Progress(ToolOutput),
    /// All of it. The last step of a call that was carried out.
    Done(ToolOutput),
    /// It waits for a person. The call is made again with [`Invocation::resumed`].
    Suspended(Suspension),
}

/// The steps of one call. It ends after `Done`, `Suspended` or an error; dropping it stops the call.
pub type ToolStream = BoxStream<'static, Result<ToolStep>>;

/// Carries out calls of one tool. One instance serves all calls, so it keeps nothing between them.
pub trait ToolBody: Send + Sync {
    /// Begins a call.
    fn call(&self, invocation: Invocation) -> ToolStream;
}

/// The steps of a call that is done in one go.
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

/// What a model is told about a call that could not be carried out: `{error: {kind, message,
/// retryable}}`, the remedy included.
pub fn failure_text(error: &Error) -> String {
    // A model that knows repeats the call; else it tells its user that the thing can't be done.
    let retryable = error.kind.is_passing();
    serde_json::json!({"error": {"kind": error.kind.code(), "message": error.full(), "retryable": retryable}})
        .to_string()
}

/// A session of tools, as an agent loop sees it: what may be called, and calling it.
#[async_trait]
pub trait ToolSession: Send + Sync {
    /// The tools on offer now, in order. Names are unique.
    fn tools(&self) -> Vec<Arc<Tool>>;

    /// Begins a call of a tool by its name. Arguments are those the model wrote, presets not yet
    /// among them. Never panics and never waits: what is wrong comes as the stream's error.
    fn call(&self, name: &str, invocation: Invocation) -> ToolStream;
}

/// The schema of the arguments in what a server, or a canvas, says of a tool: `inputSchema`, or else `parameters` as a schema or, as
/// older servers write it, as the bare properties of one. Nothing where there is none.
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
    fn a_schema_is_found_however_a_definition_has_it() {
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
    fn outputs_are_told_as_text_and_as_values() {
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
    fn failures_are_told_with_what_to_do() {
        let error = Error::new(ErrorKind::Timeout, "too slow").help("ask for less");
        let told: Json = serde_json::from_str(&failure_text(&error)).unwrap();
        assert_eq!(
            told,
            serde_json::json!({"error": {"kind": "TIMEOUT", "message": "too slow (ask for less)", "retryable": true}})
        );
    }
}
