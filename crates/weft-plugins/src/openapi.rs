//! Turns an OpenAPI document into tools: one for each operation.

mod address;
mod answers;
mod arguments;
mod call;
mod described;
mod media;
mod schema;
mod style;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use url::Url;
use weft_agent::arguments::ArgumentSchema;
use weft_core::tool::{Origin, ToolTraits};
use weft_core::{Error, Json, Result, Tool};

use crate::settings::PluginSettings;
use arguments::OperationArguments;
use call::OperationCall;
use described::{DescribedOperation, text};
use schema::REFERENCES_MAX;

/// Maximum number of operations in a document.
pub const OPERATIONS_MAX: usize = 1_000;
/// Maximum number of characters in a tool's name: the limit of providers.
const NAME_MAX: usize = 60;
/// Maximum number of characters in a tool's description.
const DESCRIPTION_MAX: usize = 1_000;
/// The methods that an operation may have.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];
/// Methods for which repeating a call has no further effect (RFC 9110, section 9.2.2).
const IDEMPOTENT: [&str; 5] = ["get", "put", "delete", "options", "head"];

/// The tools of one document.
#[derive(Clone, Debug)]
pub struct Plugin {
    name: String,
    title: String,
    tools: Vec<Arc<Tool>>,
    left_out: Vec<LeftOutOperation>,
}

/// An operation that cannot be a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutOperation {
    /// The name that the tool would have.
    pub tool: String,
    /// Why it cannot be a tool.
    pub reason: String,
}

impl fmt::Display for LeftOutOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.tool, self.reason)
    }
}

impl Plugin {
    /// Reads a document.
    ///
    /// # Errors
    /// `Invalid` for what is not an OpenAPI document of version 3, has more than [`OPERATIONS_MAX`] operations or no
    /// address, for two operations that make tools of one name, and for settings that do not fit it.
    pub fn new(name: &str, document: &Json, settings: PluginSettings) -> Result<Self> {
        let version = document.get("openapi").and_then(Json::as_str).unwrap_or_default();
        if !version.starts_with("3.") {
            return Err(Error::invalid(
                "it is not an OpenAPI document of version 3: `openapi` is missing or different",
            )
            .help("convert documents of version 2 first"));
        }
        if !(1..=3_600).contains(&settings.seconds) {
            return Err(Error::invalid("`seconds` must be from 1 to 3600"));
        }
        let operations = operations(document)?;
        let own = |one: &DescribedOperation<'_>| address::own(one).is_some();
        // For operations without their own address; if all have one, the document need not contain any.
        let base = match settings.base_url.as_deref() {
            None if !operations.is_empty() && operations.iter().all(own) => None,
            said => Some(address::base(document, said)?),
        };
        let title = text(document, "/info/title");
        let mut plugin = Self { name: name.to_owned(), title, tools: Vec::new(), left_out: Vec::new() };
        let settings = Arc::new(settings);
        let mut names = BTreeSet::new();
        for described in &operations {
            names.insert(tool_name(described));
            plugin.add(document, described, base.as_ref(), &settings)?;
        }
        plugin.left_out.extend(lost(document));
        check_named(&names, &settings)?;
        Ok(plugin)
    }

    fn add(
        &mut self,
        document: &Json,
        described: &DescribedOperation<'_>,
        base: Option<&Url>,
        settings: &Arc<PluginSettings>,
    ) -> Result<()> {
        let &DescribedOperation { path, method, item, operation } = described;
        let name = tool_name(described);
        // Before it is read: an operation that is not wanted may be one that cannot be read.
        let enabled = settings.enable.as_ref().is_none_or(|enabled| enabled.contains(&name));
        if !enabled || settings.disable.contains(&name) {
            return Ok(());
        }
        let read = arguments::read(document, item, operation).and_then(|arguments| {
            // Checked with the parser that agents use: otherwise they would drop the tool in the middle of their work.
            let usable = ArgumentSchema::new(&arguments.schema);
            let base = address::of_operation(described, base, settings.base_url.as_deref());
            let base = base.map_err(|error| error.full())?;
            usable.map(|_| (arguments, base)).map_err(|error| error.full())
        });
        let (OperationArguments { schema, parameters, body }, base) = match read {
            Ok(read) => read,
            Err(reason) => {
                // One unusable operation does not remove the others; the operator is notified of it.
                self.left_out.push(LeftOutOperation { tool: name, reason });
                return Ok(());
            }
        };
        // A model calls by name, so that one of the two could never be called.
        if self.tools.iter().any(|tool| tool.name == name) {
            return Err(Error::invalid(format!("two operations are called `{name}`"))
                .help("change the `operationId` of one of them, or disable it"));
        }
        let traits = ToolTraits {
            idempotent: IDEMPOTENT.contains(&method),
            approval: settings.approval.contains(&name),
            time_limit: Duration::from_secs(settings.seconds),
            ..ToolTraits::default()
        };
        let call = OperationCall {
            base,
            path: path.to_owned(),
            method: method.to_uppercase(),
            parameters,
            body,
            accept: answers::accepted(document, operation),
            settings: Arc::clone(settings),
        };
        let description = description(described);
        let mut tool = Tool::new(name, description, schema, Origin::Function, Arc::new(call));
        tool.traits = traits;
        self.tools.push(Arc::new(tool));
        Ok(())
    }

    /// Creates a plugin with these tools.
    pub(crate) fn with_tools(name: &str, title: &str, tools: Vec<Arc<Tool>>) -> Self {
        Self { name: name.to_owned(), title: title.to_owned(), tools, left_out: Vec::new() }
    }

    /// Returns its name, as canvases write it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the service's own name.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns its operations as tools.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// Returns the operations that cannot be tools, each with the reason.
    pub fn left_out(&self) -> &[LeftOutOperation] {
        &self.left_out
    }
}

/// Iterates over the paths of a document with their items; references are resolved where possible.
fn paths(document: &Json) -> impl Iterator<Item = (&String, &Json)> {
    let paths = document.get("paths").and_then(Json::as_object).into_iter().flatten();
    paths.map(move |(path, item)| {
        let mut item = item;
        // Bounded: a reference may lead to itself.
        for _ in 0..REFERENCES_MAX {
            // An item with its own operations is not resolved: the specification does not define the combination.
            let reference = item.get("$ref").and_then(Json::as_str).filter(|_| !has_operations(item));
            match reference.and_then(|reference| schema::target(document, reference)) {
                Some(target) => item = target,
                None => break,
            }
        }
        (path, item)
    })
}

fn has_operations(item: &Json) -> bool {
    METHODS.iter().any(|method| item.get(method).is_some())
}

/// Returns the paths whose items cannot be found, such as those in other files.
fn lost(document: &Json) -> impl Iterator<Item = LeftOutOperation> {
    paths(document).filter_map(|(path, item)| {
        let reference = item.get("$ref").and_then(Json::as_str)?;
        let reason = format!("`{reference}` does not exist in the document");
        (!has_operations(item)).then(|| LeftOutOperation { tool: plain_name(path), reason })
    })
}

/// Returns the operations of a document, including those that settings exclude: reading them is the expensive part.
fn operations(document: &Json) -> Result<Vec<DescribedOperation<'_>>> {
    let mut operations = Vec::new();
    for (path, item) in paths(document) {
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            if operations.len() >= OPERATIONS_MAX {
                return Err(Error::invalid(format!("it has more than {OPERATIONS_MAX} operations")));
            }
            operations.push(DescribedOperation { path, method, item, operation });
        }
    }
    Ok(operations)
}

/// Checks that the operations named in the settings exist: a misspelled name would switch off nothing.
fn check_named(names: &BTreeSet<String>, settings: &PluginSettings) -> Result<()> {
    let enabled = settings.enable.iter().flatten();
    let mut named = enabled.chain(&settings.disable).chain(&settings.approval);
    match named.find(|name| !names.contains(*name)) {
        None => Ok(()),
        Some(name) => {
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            Err(Error::invalid(format!("its settings name an operation `{name}`, which does not exist"))
                .help(format!("it has {}", known.join(", "))))
        }
    }
}

/// Returns the name of an operation's tool, in the form that providers accept for functions.
fn tool_name(described: &DescribedOperation<'_>) -> String {
    let DescribedOperation { path, method, operation, .. } = described;
    let id = operation.get("operationId").and_then(Json::as_str).map(plain_name);
    // An id in Chinese becomes empty, and a function must have a name.
    id.filter(|name| !name.is_empty())
        .unwrap_or_else(|| plain_name(&format!("{method}_{}", path.trim_matches('/'))))
}

fn plain_name(written: &str) -> String {
    let mut name = String::new();
    // Providers refuse a function whose name contains other characters, and with it the whole request.
    for c in written.chars().take(NAME_MAX) {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
            name.push(c);
        } else if name.ends_with('_') {
        } else {
            name.push('_');
        }
    }
    name.trim_matches('_').to_owned()
}

fn description(described: &DescribedOperation<'_>) -> String {
    let DescribedOperation { path, method, operation, .. } = described;
    let part = |name| operation.get(name).and_then(Json::as_str).unwrap_or_default().trim();
    let said = [part("summary"), part("description")].into_iter().filter(|text| !text.is_empty());
    let mut said = said.collect::<Vec<_>>().join("\n");
    if said.is_empty() {
        said = format!("{} {path}", method.to_uppercase());
    }
    said.chars().take(DESCRIPTION_MAX).collect()
}
