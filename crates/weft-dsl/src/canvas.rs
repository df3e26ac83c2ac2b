//! A canvas as written: the document with everything in it, and the parts that Weft reads.

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
use crate::upgrade::Renamed;

/// A parsed canvas. Nothing of the document is lost: what Weft does not know is kept and written
/// back.
#[derive(Clone, Debug)]
pub struct Canvas {
    pub(crate) source: Arc<str>,
    pub(crate) written: Json,
    pub(crate) container: Container,
    /// The DSL, when it is not simply a part of `written`: after renames, taken out of a text, or around a drawing.
    pub(crate) dsl: Option<Json>,
    pub(crate) renamed: bool,
    /// The ids that are others in the document.
    pub(crate) old_ids: Renamed,
    pub(crate) problems: Vec<Problem>,
    /// `agent_canvas`, `dataflow_canvas`, or nothing.
    pub category: Option<String>,
    /// The heading it is listed under, such as `Customer Support`.
    pub canvas_type: Option<String>,
    /// The components in their order.
    pub nodes: IndexMap<ComponentId, CanvasNode>,
    /// Declarations of `env.*`, by the name after the dot.
    pub variables: IndexMap<String, EnvVariable>,
    /// `globals` as written: leftovers of the last run.
    pub globals: Map<String, Json>,
    /// The conversation that the file holds, which a new session does not continue.
    pub history: Vec<HistoryMessage>,
}

/// One component of a canvas.
#[derive(Clone, Debug, PartialEq)]
pub struct CanvasNode {
    /// Its id, with today's name.
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
    /// Where it is written.
    pub place: NodePlace,
}

/// Where the parts of a component are written: JSON pointers into the document.
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
    /// Where it leads.
    pub to: ComponentId,
    /// JSON pointer of the place that says so.
    pub pointer: String,
}

impl Canvas {
    /// Whether documents go through it on their way into a dataset, and nobody talks to it.
    pub fn is_pipeline(&self) -> bool {
        let has = |kind: &str| self.nodes.values().any(|node| node.kind == kind);
        self.category.as_deref() == Some(crate::compile::PIPELINE)
            || (has(crate::compile::PIPELINE_ENTRY) && !has("Begin"))
    }

    /// The source text it was read from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The document as it was read.
    pub fn as_written(&self) -> &Json {
        &self.written
    }

    /// The document with today's names; equal to [`Canvas::as_written`] when no name had to change.
    pub fn to_json(&self) -> Json {
        let Some(dsl) = self.dsl.as_ref().filter(|_| self.renamed) else { return self.written.clone() };
        let dsl = match self.container.form {
            Form::Object | Form::Drawing => dsl.clone(),
            // As a text again, as the document has it: whoever wrote it reads it so.
            Form::Text => Json::String(dsl.to_string()),
        };
        let mut document = self.written.clone();
        if let Some(place) = document.pointer_mut(&self.container.pointer) {
            *place = dsl;
        }
        document
    }

    /// The DSL itself, unwrapped, with today's names.
    pub fn dsl(&self) -> &Json {
        let written = || self.written.pointer(&self.container.pointer);
        self.dsl.as_ref().or_else(written).unwrap_or(&self.written)
    }

    /// A problem that names components as the document does.
    pub(crate) fn in_its_words(&self, mut problem: Problem) -> Problem {
        // The longer ids first: one may be the start of another.
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

    /// What surrounds the DSL.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// Names this version: lower-case hex SHA-256 of the document without insignificant space.
    pub fn version(&self) -> Arc<str> {
        let mut hash = Hashing(Sha256::new());
        // Writing JSON that was just read into a hash cannot fail; half a hash would still be a name.
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
