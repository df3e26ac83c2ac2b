//! Tools from functions of the program that embeds the engine. A function takes a struct of its own, from
//! which the model's schema is made, and gives a value, or pieces of one.

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

// What the code has at hand that the attribute `tool` writes.
#[doc(hidden)]
pub use {schemars, serde};

/// A tool, or why there is none.
pub type Made = Result<Tool>;

/// Pieces that an iterator may be ahead of its reader.
// Enough that the thread need not wait for each reading, few enough that an iterator without end fills
// nothing.
const PIECES_AHEAD_MAX: usize = 16;

/// What a function of the program may give: anything that can be written as JSON, as one value or as a piece
/// of one. A [`ToolOutput`] is taken as it is.
pub trait IntoOutput: Send + 'static {
    /// The same as the output of a tool.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
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

/// A value that is given as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct AsJson<T>(pub T);

impl<T: Serialize + Send + 'static> IntoOutput for AsJson<T> {
    fn into_output(self) -> Result<ToolOutput> {
        let value = serde_json::to_value(self.0)
            .map_err(|cause| Error::internal("cannot write what the tool gave as JSON").because(cause))?;
        Ok(ToolOutput::value(value))
    }
}

/// A tool from an asynchronous function. Its schema is that of `A`, whose doc comments describe the tool's
/// arguments to the model; arguments that do not fit never reach the function.
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
/// `Invalid` when `A` is no struct with named fields.
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

/// A tool from a function that gives a stream of pieces. What the tool gives is all pieces so far, so every
/// chunk contains the one before it; the last one comes once more, marked as such, when the stream has ended.
///
/// # Errors
/// As [`tool`].
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

/// The same for an iterator. It may block: it runs on a thread of its own, a few pieces ahead of whoever
/// reads them, and stops at its next piece when nobody does any more.
///
/// # Errors
/// As [`tool`].
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

/// The items that blocking work sends, as a stream that owns the work.
fn on_a_thread<R: Send + 'static>(
    work: impl FnOnce(mpsc::Sender<Result<R>>) + Send + 'static,
) -> BoxStream<'static, Result<R>> {
    async_stream::stream! {
        let (send, mut pieces) = mpsc::channel(PIECES_AHEAD_MAX);
        // Owned by the stream: a reader that goes away lets the channel close, and the thread ends at its
        // next piece.
        let mut thread = JoinSet::new();
        thread.spawn_blocking(move || work(send));
        while let Some(piece) = pieces.recv().await {
            yield piece;
        }
        // A panic of the iterator closes the channel like its end does; only the join tells them apart.
        if let Some(Err(cause)) = thread.join_next().await {
            yield Err(Error::internal("the tool broke").because(cause));
        }
    }
    .boxed()
}

/// Pieces as the steps of a call: each has everything that came before it.
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
            // Cumulative, as chunks of every tool are: a reader may skip any of them.
            yield Ok(ToolStep::Progress(whole.clone()));
        }
        yield Ok(ToolStep::Done(whole));
    }
    .boxed()
}

/// Adds a piece: text goes on where text ended. Of what nobody would be shown no more is kept.
fn append(whole: &mut ToolOutput, piece: ToolOutput) {
    for block in piece.blocks {
        // One more than may be shown, so that the toolkit sees that there was more and says so.
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

/// A tool whose body reads its arguments as `A`.
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
            // What the schema cannot say, such as a number's range, the type still may.
            Err(cause) => {
                let error = Error::invalid("the arguments are wrong").because(cause);
                let error = error.help("call it again with arguments that follow its schema");
                stream::once(async { Err(error) }).boxed()
            }
        }
    }
}

/// The JSON schema of a struct, as models and validators get it: without titles, without references where
/// the type is not recursive.
///
/// # Errors
/// `Invalid` when the type's JSON is no object with named members.
pub fn arguments_schema<A: JsonSchema>() -> Result<Json> {
    // Some providers refuse `$ref` in the schema of a tool.
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<A>();
    let mut schema = schema.to_value();
    if let Json::Object(members) = &mut schema {
        // Providers check for fields that they know.
        members.shift_remove("$schema");
        // The type's own words are about the type, and the tool has a description.
        members.shift_remove("description");
        if members.get("type").and_then(Json::as_str) == Some("object") {
            members.entry("properties").or_insert_with(|| Json::Object(Map::new()));
        }
    }
    // Titles repeat the names of fields; in each request they would cost tokens and say nothing.
    without_titles(&mut schema, Place::Schema);
    match schema.get("properties") {
        Some(Json::Object(_)) => Ok(schema),
        _ => Err(Error::invalid(format!("`{}` is not a struct with named fields", A::schema_name()))),
    }
}

/// What a part of a schema is: in a map of properties a `title` is a name.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Schema,
    Names,
}

fn without_titles(schema: &mut Json, place: Place) {
    match schema {
        Json::Object(members) => {
            if place == Place::Schema && members.get("title").is_some_and(Json::is_string) {
                members.shift_remove("title");
            }
            for (name, member) in members {
                let names = matches!(name.as_str(), "properties" | "$defs" | "patternProperties");
                let place = match place {
                    Place::Schema if names => Place::Names,
                    // Values, not schemas: nothing in them is ours.
                    Place::Schema if matches!(name.as_str(), "default" | "examples" | "enum" | "const") => {
                        continue;
                    }
                    Place::Schema | Place::Names => Place::Schema,
                };
                without_titles(member, place);
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| without_titles(item, Place::Schema)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}
