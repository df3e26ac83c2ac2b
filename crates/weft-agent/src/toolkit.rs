//! The tools of one agent: unique names, groups, and a uniform way to carry out calls.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _};
use serde_json::Map;
use tokio::time::Instant;
use weft_core::seam::chat_model::ToolSchema;
use weft_core::tool::{
    BASIC_GROUP, Block, Invocation, Purpose, Tool, ToolData, ToolOutput, ToolSession, ToolStep, ToolStream,
};
use weft_core::value::size;
use weft_core::{Error, ErrorKind, Json, Result};

use crate::arguments::ArgumentSchema;
use crate::offered_tools::{found_by_provider, on_offer};
use crate::window::tokens_of_tools;

/// Maximum length of a function name in characters.
// The lowest limit among providers.
const NAME_MAX: usize = 64;
/// Maximum bytes of text in one result for the model; the rest is left out with a note.
// The journal stores every result, and the size of a run's journal is limited.
pub const OUTPUT_MAX: usize = 1 << 20;
/// Maximum bytes of data in one result for a script.
// The same limit as for the rows of a statement.
pub const DATA_MAX: usize = 4 << 20;
/// Maximum number of blocks in one result.
pub(crate) const BLOCKS_MAX: usize = 1_000;
/// Maximum bytes of images, recordings and files in one result.
const MEDIA_MAX: usize = 16 << 20;
/// Upper limit on the duration of one call, whatever its tool declares.
// An instant this far ahead can still be computed; adding an unlimited duration to the current time would overflow.
const TIME_LIMIT_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// A group of tools that are switched on and off together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Whether its tools are offered.
    pub active: bool,
    /// Its purpose.
    pub description: String,
    /// How to use its tools; shown to the model when the group is activated.
    pub notes: String,
}

#[derive(Clone)]
struct ToolEntry {
    tool: Arc<Tool>,
    schema: Arc<ArgumentSchema>,
}

#[derive(Clone, Default)]
struct ToolkitState {
    tools: Vec<ToolEntry>,
    by_name: HashMap<String, usize>,
    groups: BTreeMap<String, Group>,
}

/// The tools of one agent. Clones share their tools.
#[derive(Clone, Default)]
pub struct Toolkit(Arc<Mutex<ToolkitState>>);

impl std::fmt::Debug for Toolkit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.tools().iter().map(|tool| tool.name.clone())).finish()
    }
}

impl Toolkit {
    /// A toolkit without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of the toolkit with the same tools that can be changed independently.
    pub fn fork(&self) -> Self {
        let copy = self.state().clone();
        Self(Arc::new(Mutex::new(copy)))
    }

    /// Adds a tool. Its name is converted to a function name that providers accept.
    ///
    /// # Errors
    /// `Conflict` when there is a tool of that name, `NotFound` for an unknown group, `Invalid` for an invalid schema
    /// of arguments.
    pub fn register(&self, mut tool: Tool) -> Result<Arc<Tool>> {
        tool.name = function_name(&tool.name);
        // Before the schema is compiled: preset arguments are neither requested nor checked.
        hide(&mut tool.parameters, &tool.preset);
        let named = |error: Error| {
            Error::new(error.kind, format!("the tool `{}` cannot be used", tool.name)).because(error)
        };
        // Outside of the lock, because compiling a schema may take milliseconds.
        let schema = ArgumentSchema::shared(&tool.parameters).map_err(named)?;
        let mut state = self.state();
        if tool.group != BASIC_GROUP && !state.groups.contains_key(&tool.group) {
            return Err(Error::not_found(format!("there is no group of tools `{}`", tool.group)));
        }
        if state.by_name.contains_key(&tool.name) {
            return Err(Error::new(ErrorKind::Conflict, format!("there are two tools `{}`", tool.name))
                .help("rename one of them"));
        }
        let tool = Arc::new(tool);
        let place = state.tools.len();
        state.by_name.insert(tool.name.clone(), place);
        state.tools.push(ToolEntry { tool: Arc::clone(&tool), schema });
        Ok(tool)
    }

    /// Adds a tool of the agent itself, under another name if its name is already taken.
    ///
    /// # Errors
    /// As for [`Toolkit::register`].
    pub fn register_own(&self, tool: Tool) -> Result<Arc<Tool>> {
        let taken = |name: &str| self.state().by_name.contains_key(name);
        let others = (2..).map(|place| numbered(&tool.name, place));
        let name = std::iter::once(tool.name.clone()).chain(others).find(|name| !taken(name));
        self.register(Tool { name: name.unwrap_or_default(), ..tool })
    }

    /// Removes tools, such as those of one server. Returns how many were removed.
    pub fn remove(&self, which: impl Fn(&Tool) -> bool) -> usize {
        let mut state = self.state();
        let before = state.tools.len();
        state.tools.retain(|entry| !which(&entry.tool));
        state.by_name =
            // The positions after a removed tool have changed.
            (0..).zip(&state.tools).map(|(place, entry)| (entry.tool.name.clone(), place)).collect();
        before - state.tools.len()
    }

    /// Adds a group.
    ///
    /// # Errors
    /// `Conflict` when there is one of that name.
    pub fn add_group(&self, name: &str, group: Group) -> Result<()> {
        let mut state = self.state();
        if name == BASIC_GROUP || state.groups.contains_key(name) {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("there is a group of tools `{name}` already"),
            ));
        }
        state.groups.insert(name.to_owned(), group);
        Ok(())
    }

    /// Activates exactly these groups, in addition to the basic one.
    ///
    /// # Errors
    /// `NotFound` naming the first unknown group; nothing changes then.
    pub fn set_active(&self, names: &BTreeSet<String>) -> Result<()> {
        let mut state = self.state();
        // Checked before anything changes: a partial change would leave the model with groups that it did not ask
        // for.
        if let Some(name) =
            names.iter().find(|name| *name != BASIC_GROUP && !state.groups.contains_key(*name))
        {
            return Err(Error::not_found(format!("there is no group of tools `{name}`")));
        }
        for (name, group) in &mut state.groups {
            group.active = names.contains(name);
        }
        Ok(())
    }

    /// The groups that are active, besides the basic one.
    pub fn active_groups(&self) -> BTreeSet<String> {
        let state = self.state();
        let active = state.groups.iter().filter(|(_, group)| group.active);
        active.map(|(name, _)| name.clone()).collect()
    }

    /// Its groups besides the basic one, by name.
    pub fn groups(&self) -> BTreeMap<String, Group> {
        self.state().groups.clone()
    }

    /// A weak reference, for one of its own tools, which must not keep the toolkit alive.
    pub(crate) fn downgrade(&self) -> WeakToolkit {
        WeakToolkit(Arc::downgrade(&self.0))
    }

    fn state(&self) -> MutexGuard<'_, ToolkitState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tool with this name, or the one that was most likely meant.
    pub(crate) fn find(&self, name: &str) -> Result<(Arc<Tool>, Arc<ArgumentSchema>)> {
        let state = self.state();
        let exact = state.by_name.get(name).and_then(|place| state.tools.get(*place));
        let entry = exact.or_else(|| {
            let tools: Vec<Arc<Tool>> = state.tools.iter().map(|entry| Arc::clone(&entry.tool)).collect();
            let name = &meant(&tools, name)?.name;
            state.by_name.get(name).and_then(|place| state.tools.get(*place))
        });
        let Some(entry) = entry else { return Err(unknown(name, active(&state))) };
        if !is_active(&state, &entry.tool) {
            let message =
                format!("the tool `{name}` is switched off: its group `{}` isn't active", entry.tool.group);
            return Err(Error::new(ErrorKind::Denied, message));
        }
        Ok((Arc::clone(&entry.tool), Arc::clone(&entry.schema)))
    }
}

/// A weak reference to a toolkit.
#[derive(Clone)]
pub(crate) struct WeakToolkit(Weak<Mutex<ToolkitState>>);

impl WeakToolkit {
    /// The toolkit, while a strong reference to it exists.
    pub(crate) fn upgrade(&self) -> Option<Toolkit> {
        self.0.upgrade().map(Toolkit)
    }
}

/// The tool that a name refers to: the one with exactly this name, or else the only one that matches without its
/// number and with a misspelling corrected that occurs in saved canvases and their prompts.
pub(crate) fn meant<'a>(tools: &'a [Arc<Tool>], name: &str) -> Option<&'a Arc<Tool>> {
    if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
        return Some(tool);
    }
    // Saved canvases and prompts written by people still contain an older engine's spelling of the name.
    let corrected = |name: &str| name.replace("search_my_dateset", "search_my_dataset");
    let name = corrected(name);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = |tool: &&Arc<Tool>| {
        let own = corrected(&tool.name);
        own == name || own.rsplit_once('_').is_some_and(|(stem, place)| stem == name && is_number(place))
    };
    let mut fitting = tools.iter().filter(fits);
    fitting.next().filter(|_| fitting.next().is_none())
}

fn is_active(state: &ToolkitState, tool: &Tool) -> bool {
    tool.group == BASIC_GROUP || state.groups.get(&tool.group).is_some_and(|group| group.active)
}

fn active(state: &ToolkitState) -> Vec<Arc<Tool>> {
    let active = state.tools.iter().filter(|entry| is_active(state, &entry.tool));
    active.map(|entry| Arc::clone(&entry.tool)).collect()
}

/// The error for an unknown tool name, with the names that exist.
fn unknown(name: &str, active: Vec<Arc<Tool>>) -> Error {
    let unknown = Error::not_found(format!("there is no tool `{name}`"));
    if found_by_provider(&active) {
        return unknown.help("search for one that does it");
    }
    // Those offered from the beginning: when there are many tools, these include a search, whose name says enough.
    let shown = on_offer(active, &[]);
    let known: Vec<&str> = shown.iter().map(|tool| &*tool.name).collect();
    unknown.help(format!("use one of these: {}", known.join(", ")))
}

impl ToolSession for Toolkit {
    fn tools(&self) -> Vec<Arc<Tool>> {
        active(&self.state())
    }

    fn call(&self, name: &str, invocation: Invocation) -> ToolStream {
        match self.find(name).and_then(|(tool, schema)| Ok((arguments(&tool, &schema, &invocation)?, tool))) {
            Ok((arguments, tool)) => carry_out(tool, Invocation { arguments, ..invocation }),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }
}

/// The arguments that the tool gets: those the model may set are validated, then presets override them.
fn arguments(tool: &Tool, schema: &ArgumentSchema, invocation: &Invocation) -> Result<Map<String, Json>> {
    let mut given = invocation.arguments.clone();
    // Removed and not refused: a model that sets a preset has guessed a name it was never shown.
    given.retain(|name, _| !tool.preset.contains_key(name));
    let mut arguments = schema.check(given).map_err(|problem| {
        Error::invalid(format!("the arguments of `{}` are wrong: {problem}", tool.name))
            .help("call it again with arguments that follow its schema")
    })?;
    arguments.extend(tool.preset.clone());
    Ok(arguments)
}

/// A call in progress.
struct CallInProgress {
    tool: Arc<Tool>,
    invocation: Invocation,
    steps: Option<ToolStream>,
    deadline: Instant,
    so_far: Option<ToolOutput>,
    over: bool,
}

/// Carries out a call that ends within its time limit even if its tool is slow, silent, endless or panics.
fn carry_out(tool: Arc<Tool>, invocation: Invocation) -> ToolStream {
    let deadline = Instant::now() + tool.traits.time_limit.min(TIME_LIMIT_MAX);
    let call = CallInProgress { tool, invocation, steps: None, deadline, so_far: None, over: false };
    stream::unfold(call, |mut call| async move {
        if call.over {
            return None;
        }
        let step = call.next().await;
        match &step {
            Ok(ToolStep::Progress(output)) => call.so_far = Some(output.clone()),
            Ok(ToolStep::Done(_) | ToolStep::Suspended(_)) | Err(_) => {
                call.over = true;
                // Dropped when the call ends and not with the stream, which the reader may keep: this stops any work
                // still going on.
                call.steps = None;
            }
        }
        Some((step, call))
    })
    .boxed()
}

impl CallInProgress {
    async fn next(&mut self) -> Result<ToolStep> {
        let Self { tool, invocation, steps, deadline, so_far, .. } = self;
        // A panicking tool ends only its own call; its stream is not polled again.
        let next = AssertUnwindSafe(async {
            // Created inside the part that catches panics: a body may panic before it returns a stream.
            let steps = steps.get_or_insert_with(|| tool.body.call(invocation.clone()));
            steps.next().await
        });
        let step = tokio::select! {
            // A step that is ready counts even when the call is being cancelled.
            biased;
            next = tokio::time::timeout_at(*deadline, next.catch_unwind()) => match next {
                Ok(Ok(Some(step))) => step?,
                Ok(Ok(None)) => return Err(Error::new(ErrorKind::Garbled, "the tool ended without a result")),
                Ok(Err(_)) => return Err(Error::internal("the tool broke").help("don't call it again like this")),
                Err(_) => return Err(too_slow(tool.traits.time_limit, so_far.as_ref())),
            },
            () = invocation.agent.cancel.cancelled() => {
                return Err(Error::new(ErrorKind::Cancelled, "the call was stopped"));
            }
        };
        Ok(match step {
            ToolStep::Progress(output) => ToolStep::Progress(polished(tool, invocation, output)),
            ToolStep::Done(output) => ToolStep::Done(polished(tool, invocation, output)),
            ToolStep::Suspended(suspension) => ToolStep::Suspended(suspension),
        })
    }
}

/// The final form of a tool's output.
fn polished(tool: &Tool, invocation: &Invocation, output: ToolOutput) -> ToolOutput {
    let processed = tool.postprocess.as_ref().and_then(|postprocess| postprocess(invocation, &output));
    let mut output = processed.unwrap_or(output);
    let whole = bounded(&mut output);
    let data = std::mem::take(&mut output.data);
    // Measured only for callers that keep the data: it traverses all of it.
    if invocation.agent.keeps_data {
        output.data = weighed(if data.is_same() { whole } else { data });
    }
    output
}

/// Cuts what is too long for a model to read. Returns the data for a program, which has room for more.
fn bounded(output: &mut ToolOutput) -> ToolData {
    let whole: usize = output.blocks.iter().map(|block| text_of(block).map_or(0, str::len)).sum();
    let more = output.blocks.len().saturating_sub(BLOCKS_MAX);
    let (mut cut, mut cut_text) = (more > 0, more > 0);
    if more > 0 {
        output.blocks.truncate(BLOCKS_MAX);
        output.blocks.push(Block::Text { text: format!("[… {more} more parts were left out]") });
    }
    // Counted separately: images are large but cost the model little, while text fills its window.
    let (mut left, mut media) = (OUTPUT_MAX, MEDIA_MAX);
    for block in &mut output.blocks {
        let (what, length) = match block {
            Block::Text { .. } => ("text", 0),
            Block::Image { url } => ("an image", url.len()),
            Block::Audio { url } => ("a recording", url.len()),
            Block::Resource { uri, .. } => ("a file", uri.len()),
        };
        if length > media {
            *block = Block::Text { text: format!("[… {length} bytes of {what} were left out]") };
            cut = true;
        } else {
            media -= length;
        }
        let (Block::Text { text } | Block::Resource { text: Some(text), .. }) = block else { continue };
        if text.len() > left {
            let end = text.floor_char_boundary(left);
            let more = text.len() - end;
            text.truncate(end);
            text.push_str(&format!("\n[… {more} more bytes were left out]"));
            (cut, cut_text) = (true, true);
        }
        left = left.saturating_sub(text.len());
    }
    if !cut {
        return ToolData::Same;
    }
    // The full value is not kept in the model's output, as it would bring back the omitted text. A script must not
    // take a part of a text for the whole.
    match output.value.take() {
        Some(value) => ToolData::Value(value),
        None if cut_text => ToolData::TooLarge(whole),
        None => ToolData::Same,
    }
}

fn weighed(data: ToolData) -> ToolData {
    match data {
        ToolData::Value(value) if size(&value) > DATA_MAX => ToolData::TooLarge(size(&value)),
        data => data,
    }
}

fn text_of(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text } => Some(text),
        Block::Resource { text, .. } => text.as_deref(),
        Block::Image { .. } | Block::Audio { .. } => None,
    }
}

fn too_slow(limit: Duration, so_far: Option<&ToolOutput>) -> Error {
    let message = match so_far {
        Some(output) => format!(
            "it took longer than its {} s; until then it had given: {}",
            limit.as_secs_f64(),
            output.to_text()
        ),
        None => format!("it took longer than its {} s", limit.as_secs_f64()),
    };
    Error::new(ErrorKind::Timeout, message)
}

/// Removes presets from a schema: the model neither sees them nor has to set them.
fn hide(parameters: &mut Json, preset: &Map<String, Json>) {
    if let Some(Json::Object(properties)) = parameters.get_mut("properties") {
        properties.retain(|name, _| !preset.contains_key(name));
    }
    if let Some(Json::Array(required)) = parameters.get_mut("required") {
        required.retain(|name| name.as_str().is_none_or(|name| !preset.contains_key(name)));
    }
}

/// Converts a name to one that providers accept for functions: letters, digits, `_` and `-`.
pub fn function_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = name.trim().chars().map(plain).take(NAME_MAX).collect();
    if name.is_empty() { "tool".to_owned() } else { name }
}

/// A function name followed by the tool's position, as canvases number their tools: `calculator_0`.
pub fn numbered(name: &str, place: usize) -> String {
    let suffix = format!("_{place}");
    let stem: String = function_name(name).chars().take(NAME_MAX.saturating_sub(suffix.len())).collect();
    format!("{stem}{suffix}")
}

/// The offered tools as a model sees them. Rebuilt only when the offered tools change.
#[derive(Debug, Default)]
pub struct Offered {
    tools: Vec<Arc<Tool>>,
    schemas: Arc<[ToolSchema]>,
    tokens: usize,
}

impl Offered {
    /// The schemas of the tools offered now, and the number of tokens they take.
    pub fn now(&mut self, tools: Vec<Arc<Tool>>) -> (Arc<[ToolSchema]>, usize) {
        // By identity: comparing definitions would cost as much as rebuilding them.
        let same = tools.len() == self.tools.len()
            && tools.iter().zip(&self.tools).all(|(now, before)| Arc::ptr_eq(now, before));
        if !same {
            self.schemas = schemas(&tools).into();
            self.tokens = tokens_of_tools(&self.schemas);
            self.tools = tools;
        }
        (Arc::clone(&self.schemas), self.tokens)
    }
}

/// The tools as a model sees them. With a provider's search, the definitions of work tools are deferred until the
/// model has found them.
pub fn schemas(tools: &[Arc<Tool>]) -> Vec<ToolSchema> {
    let deferred = found_by_provider(tools);
    let schema = |tool: &Arc<Tool>| ToolSchema {
        name: tool.name.clone(),
        description: if tool.traits.background {
            format!("{} It works in the background: you go on meanwhile.", tool.description.trim_end())
        } else {
            tool.description.clone()
        },
        parameters: tool.parameters.clone(),
        deferred: deferred && tool.traits.purpose == Purpose::Work,
    };
    let shown = |tool: &&Arc<Tool>| tool.traits.purpose != Purpose::LeavesFindingToProvider;
    tools.iter().filter(shown).map(schema).collect()
}
