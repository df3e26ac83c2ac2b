//! A canvas as written: the whole document, and the parts of it that Weft reads.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Map;
use sha2::{Digest as _, Sha256};
use weft_core::component::Others;
use weft_core::context::HistoryMessage;
use weft_core::{ComponentId, Json};

use crate::container::{Container, Form};
use crate::globals::EnvVariable;
use crate::problem::Problem;

/// The category of canvases that process documents on their way into a dataset.
pub const PIPELINE: &str = "dataflow_canvas";
/// The component type that a pipeline starts with.
pub const PIPELINE_ENTRY: &str = "File";

/// Component ids that were renamed: new → old.
pub(crate) type Renamed = BTreeMap<String, String>;

/// A parsed canvas. Nothing of the document is lost: what Weft does not know is kept and written back.
#[derive(Clone, Debug)]
pub struct Canvas {
    pub(crate) source: Arc<str>,
    pub(crate) written: Json,
    pub(crate) container: Container,
    /// The DSL, when it differs from what `written` contains: after renames, extracted from a text, or built
    /// around a drawing.
    pub(crate) dsl: Option<Json>,
    pub(crate) renamed: bool,
    /// Component ids that differ from those in the document.
    pub(crate) old_ids: Renamed,
    pub(crate) problems: Vec<Problem>,
    /// `agent_canvas`, `dataflow_canvas`, or nothing.
    pub category: Option<String>,
    /// The heading it is listed under, such as `Customer Support`.
    pub canvas_type: Option<String>,
    /// The components, in document order.
    pub nodes: IndexMap<ComponentId, CanvasNode>,
    /// Declarations of `env.*`, by the name after the dot.
    pub variables: IndexMap<String, EnvVariable>,
    /// `globals` as written: left over from the last run.
    pub globals: Map<String, Json>,
    /// The conversation stored in the file; a new session does not continue it.
    pub history: Vec<HistoryMessage>,
}

/// One component of a canvas.
#[derive(Clone, Debug, PartialEq)]
pub struct CanvasNode {
    /// Its id, with its type's current name.
    pub id: ComponentId,
    /// Its component type; empty when the document names none, which is reported.
    pub kind: String,
    /// Its display name.
    pub name: Arc<str>,
    /// Its parameters.
    pub params: Map<String, Json>,
    /// Its ordinary successors in order.
    pub downstream: Vec<WrittenEdge>,
    /// The enclosing Iteration or Loop.
    pub parent: Option<ComponentId>,
    /// Where it is in the document.
    pub place: NodePlace,
}

impl CanvasNode {
    /// Whether it has this type. As in the catalog, case does not matter.
    pub(crate) fn is_a(&self, kind: &str) -> bool {
        self.kind.eq_ignore_ascii_case(kind)
    }
}

/// JSON pointers to the parts of a component in the document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePlace {
    /// The component.
    pub node: String,
    /// The name of its type.
    pub kind: String,
    /// Its parameters.
    pub params: String,
    /// The id of its parent.
    pub parent: String,
}

/// A control edge as written.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenEdge {
    /// Its target.
    pub to: ComponentId,
    /// JSON pointer to the place that defines it.
    pub pointer: String,
}

impl Canvas {
    /// Whether the canvas processes documents on their way into a dataset, instead of talking to users.
    pub fn is_pipeline(&self) -> bool {
        let has = |kind: &str| self.nodes.values().any(|node| node.is_a(kind));
        self.category.as_deref() == Some(PIPELINE) || (has(PIPELINE_ENTRY) && !has("Begin"))
    }

    /// Returns the source text that it was read from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the document as it was read.
    pub fn as_written(&self) -> &Json {
        &self.written
    }

    /// Returns the document with current names; equal to [`Canvas::as_written`] when no name had to change.
    pub fn to_json(&self) -> Json {
        let Some(dsl) = self.dsl.as_ref().filter(|_| self.renamed) else { return self.written.clone() };
        let dsl = match self.container.form {
            Form::Object | Form::Drawing => dsl.clone(),
            // As text again, as in the document, so that its other readers still understand it.
            Form::Text => Json::String(dsl.to_string()),
        };
        let mut document = self.written.clone();
        if let Some(place) = document.pointer_mut(&self.container.pointer) {
            *place = dsl;
        }
        document
    }

    /// Returns the DSL itself, unwrapped, with current names.
    pub fn dsl(&self) -> &Json {
        let written = || self.written.pointer(&self.container.pointer);
        self.dsl.as_ref().or_else(written).unwrap_or(&self.written)
    }

    /// Rewrites a problem so that it names components as the document does.
    pub(crate) fn in_its_words(&self, mut problem: Problem) -> Problem {
        // Longer ids first: one may be a prefix of another.
        for (new, old) in self.old_ids.iter().rev() {
            problem.message = problem.message.replace(new.as_str(), old);
            problem.help = problem.help.map(|help| help.replace(new.as_str(), old));
            if problem.component.as_ref().is_some_and(|id| id.as_str() == new) {
                problem.component = Some(old.as_str().into());
            }
            if problem.name.as_deref() == Some(new) {
                problem.name = Some(old.as_str().into());
            }
        }
        problem
    }

    /// Returns what surrounds the DSL.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// Returns the name of this version: the SHA-256 of the document without insignificant whitespace, in
    /// lower-case hex.
    pub fn version(&self) -> Arc<str> {
        let mut hash = Hashing(Sha256::new());
        // Serializing JSON that was just parsed into a hash cannot fail; and even a partial hash would still
        // be a name.
        let _ = serde_json::to_writer(&mut hash, &self.written);
        let digest = hash.0.finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
    }
}

struct Hashing(Sha256);

impl io::Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Others for Canvas {
    fn get(&self, id: &ComponentId) -> Option<(&str, &Map<String, Json>)> {
        self.nodes.get(id).map(|node| (node.kind.as_str(), &node.params))
    }
}
