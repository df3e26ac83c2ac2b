//! Tools from functions of the program that embeds the engine. A function takes its arguments as a struct, from which
//! the model's schema is derived, and returns a value, or a value in pieces.

use std::marker::PhantomData;
use std::sync::Arc;

use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Map;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weft_core::tool::{Block, Invocation, Origin, ToolStep, ToolStream};
use weft_core::{Error, Json, Result, Tool, ToolBody, ToolOutput};

use crate::toolkit::{BLOCKS_MAX, OUTPUT_MAX};

// Used by the code that the attribute `tool` generates.
#[doc(hidden)]
pub use {schemars, serde};

/// The result of a generated function that makes a tool.
pub type Made = Result<Tool>;

/// How many pieces an iterator may be ahead of its reader.
// Enough that the thread does not wait for each read, and few enough that an endless iterator does not fill the
// memory.
const PIECES_AHEAD_MAX: usize = 16;

/// The possible results of a function: anything that serializes to JSON, as one value or as a piece of one. A
/// [`ToolOutput`] is used as it is.
pub trait IntoOutput: Send + 'static {
    /// Converts it to the output of a tool.
    ///
    /// # Errors
    /// When it cannot be serialized to JSON.
    fn into_output(self) -> Result<ToolOutput>;
}

impl IntoOutput for ToolOutput {
    fn into_output(self) -> Result<ToolOutput> {
        Ok(self)
    }
}

impl IntoOutput for String {
    fn into_output(self) -> Result<ToolOutput> {
        Ok(ToolOutput::text(self))
    }
}

impl IntoOutput for &'static str {
    fn into_output(self) -> Result<ToolOutput> {
        Ok(ToolOutput::text(self))
    }
}

impl IntoOutput for Json {
    fn into_output(self) -> Result<ToolOutput> {
        Ok(ToolOutput::value(self))
    }
}

/// A value whose output is its JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct AsJson<T>(pub T);

impl<T: Serialize + Send + 'static> IntoOutput for AsJson<T> {
    fn into_output(self) -> Result<ToolOutput> {
        let value = serde_json::to_value(self.0)
            .map_err(|cause| Error::internal("cannot write what the tool gave as JSON").because(cause))?;
        Ok(ToolOutput::value(value))
    }
}

/// Creates a tool from an asynchronous function. Its schema is that of `A`, whose doc comments describe the tool's
/// arguments to the model; invalid arguments never reach the function.
///
/// ```
/// use weft_agent::function::tool;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Sum {
///     /// The numbers to add.
///     numbers: Vec<f64>,
/// }
///
/// let add = |sum: Sum| async move { Ok(format!("{}", sum.numbers.iter().sum::<f64>())) };
/// let tool = tool("add", "Adds numbers.", add)?;
/// assert_eq!(tool.parameters["required"][0], "numbers");
/// # Ok::<(), weft_core::Error>(())
/// ```
///
/// # Errors
/// `Invalid` when `A` is not a struct with named fields.
pub fn tool<A, R, F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    function: F,
) -> Result<Tool>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: IntoOutput,
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R>> + Send + 'static,
{
    typed::<A>(name.into(), description.into(), move |arguments| {
        let work = function(arguments);
        stream::once(async move { work.await?.into_output().map(ToolStep::Done) }).boxed()
    })
}

/// Creates a tool from a function that returns a stream of pieces. The tool's output is the concatenation of all
/// pieces so far, so every chunk contains the one before it; when the stream has ended, the last chunk is sent again,
/// marked as final.
///
/// # Errors
/// As for [`tool`].
pub fn streaming_tool<A, R, F, S>(
    name: impl Into<String>,
    description: impl Into<String>,
    function: F,
) -> Result<Tool>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: IntoOutput,
    F: Fn(A) -> S + Send + Sync + 'static,
    S: Stream<Item = Result<R>> + Send + 'static,
{
    typed::<A>(name.into(), description.into(), move |arguments| accumulated(function(arguments).boxed()))
}

/// Creates a tool from a function that returns an iterator of pieces. It may block: it runs on a thread of its own, a
/// few pieces ahead of its reader, and stops at its next piece when the reader is gone.
///
/// # Errors
/// As for [`tool`].
pub fn iterator_tool<A, R, F, I>(
    name: impl Into<String>,
    description: impl Into<String>,
    function: F,
) -> Result<Tool>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: IntoOutput,
    F: Fn(A) -> I + Send + Sync + 'static,
    I: Iterator<Item = Result<R>>,
{
    let function = Arc::new(function);
    typed::<A>(name.into(), description.into(), move |arguments| {
        let function = Arc::clone(&function);
        accumulated(on_a_thread(move |pieces| {
            for piece in function(arguments) {
                if pieces.blocking_send(piece).is_err() {
                    return;
                }
            }
        }))
    })
}

/// Turns the items sent by blocking work into a stream that owns the work.
fn on_a_thread<R: Send + 'static>(
    work: impl FnOnce(mpsc::Sender<Result<R>>) + Send + 'static,
) -> BoxStream<'static, Result<R>> {
    async_stream::stream! {
        let (send, mut pieces) = mpsc::channel(PIECES_AHEAD_MAX);
        // Owned by the stream: when the reader is gone, the channel closes, and the thread ends at its next piece.
        let mut thread = JoinSet::new();
        thread.spawn_blocking(move || work(send));
        while let Some(piece) = pieces.recv().await {
            yield piece;
        }
        // A panic of the iterator closes the channel just like its end; only the join distinguishes them.
        if let Some(Err(cause)) = thread.join_next().await {
            yield Err(Error::internal("the tool broke").because(cause));
        }
    }
    .boxed()
}

/// Converts pieces to the steps of a call: each contains everything before it.
fn accumulated<R: IntoOutput>(mut pieces: BoxStream<'static, Result<R>>) -> ToolStream {
    async_stream::stream! {
        let mut whole = ToolOutput::default();
        while let Some(piece) = pieces.next().await {
            match piece.and_then(IntoOutput::into_output) {
                Ok(piece) => append(&mut whole, piece),
                Err(error) => {
                    yield Err(error);
                    return;
                }
            }
            // Cumulative, as the chunks of every tool are: a reader may skip any of them.
            yield Ok(ToolStep::Progress(whole.clone()));
        }
        yield Ok(ToolStep::Done(whole));
    }
    .boxed()
}

/// Appends a piece: text continues the last text block. What exceeds the limits of a result is not kept.
fn append(whole: &mut ToolOutput, piece: ToolOutput) {
    for block in piece.blocks {
        // One more than may be shown, so that the toolkit sees that there was more and adds its note.
        let room = whole.blocks.len() <= BLOCKS_MAX;
        match (whole.blocks.last_mut(), block) {
            (Some(Block::Text { text }), Block::Text { text: more }) => {
                if text.len() <= OUTPUT_MAX {
                    text.push_str(&more);
                }
            }
            (_, block) if room => whole.blocks.push(block),
            (_, _) => {}
        }
    }
    whole.failed |= piece.failed;
    whole.metadata.extend(piece.metadata);
}

/// A tool whose body deserializes its arguments as `A`.
fn typed<A>(
    name: String,
    description: String,
    begin: impl Fn(A) -> ToolStream + Send + Sync + 'static,
) -> Result<Tool>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
{
    let parameters = arguments_schema::<A>()
        .map_err(|error| Error::invalid(format!("`{name}` cannot be a tool")).because(error))?;
    let body = Arc::new(Typed { begin, arguments: PhantomData });
    Ok(Tool::new(name, description, parameters, Origin::Function, body))
}

struct Typed<A, F> {
    begin: F,
    arguments: PhantomData<fn() -> A>,
}

impl<A, F> ToolBody for Typed<A, F>
where
    A: DeserializeOwned,
    F: Fn(A) -> ToolStream + Send + Sync,
{
    fn call(&self, invocation: Invocation) -> ToolStream {
        match serde_json::from_value(Json::Object(invocation.arguments)) {
            Ok(arguments) => (self.begin)(arguments),
            // The type may still enforce what the schema cannot express, such as the range of a number.
            Err(cause) => {
                let error = Error::invalid("the arguments are wrong").because(cause);
                let error = error.help("call it again with arguments that follow its schema");
                stream::once(async { Err(error) }).boxed()
            }
        }
    }
}

/// The JSON schema of a struct, for models and validators: without titles, and without references unless the type is
/// recursive.
///
/// # Errors
/// `Invalid` when the type's JSON is not an object with named members.
pub fn arguments_schema<A: JsonSchema>() -> Result<Json> {
    // Some providers reject `$ref` in the schema of a tool.
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<A>();
    let mut schema = schema.to_value();
    if let Json::Object(members) = &mut schema {
        // Providers accept only fields that they know.
        members.shift_remove("$schema");
        // The type's description is about the type, and the tool has its own description.
        members.shift_remove("description");
        if members.get("type").and_then(Json::as_str) == Some("object") {
            members.entry("properties").or_insert_with(|| Json::Object(Map::new()));
        }
    }
    // Titles repeat the names of fields; they would cost tokens in each request and add nothing.
    without_titles(&mut schema, SchemaPart::Schema);
    match schema.get("properties") {
        Some(Json::Object(_)) => Ok(schema),
        _ => Err(Error::invalid(format!("`{}` is not a struct with named fields", A::schema_name()))),
    }
}

/// The kind of a part of a schema: in a map of properties, `title` is a property name.
#[derive(Clone, Copy, PartialEq)]
enum SchemaPart {
    Schema,
    Names,
}

fn without_titles(schema: &mut Json, place: SchemaPart) {
    match schema {
        Json::Object(members) => {
            if place == SchemaPart::Schema && members.get("title").is_some_and(Json::is_string) {
                members.shift_remove("title");
            }
            for (name, member) in members {
                let names = matches!(name.as_str(), "properties" | "$defs" | "patternProperties");
                let place = match place {
                    SchemaPart::Schema if names => SchemaPart::Names,
                    // Values, not schemas: nothing in them must be changed.
                    SchemaPart::Schema
                        if matches!(name.as_str(), "default" | "examples" | "enum" | "const") =>
                    {
                        continue;
                    }
                    SchemaPart::Schema | SchemaPart::Names => SchemaPart::Schema,
                };
                without_titles(member, place);
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| without_titles(item, SchemaPart::Schema)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}
