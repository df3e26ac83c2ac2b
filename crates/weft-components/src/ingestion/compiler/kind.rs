//! The kinds of knowledge that can be compiled, and the schema of each.

use serde_json::{Map, json};
use weft_core::Json;
use weft_knowledge::mind_map;

use super::templates::CompilationTemplate;
use super::tree;
use crate::params::{Choice, choice};

/// What a template compiles a document into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TemplateKind {
    /// Entities and their relations.
    KnowledgeGraph,
    /// Entries of a sort that the author describes.
    List,
    /// A subject with branches.
    MindMap,
    /// The sections of the document.
    PageIndex,
    /// Events by date.
    Timeline,
    /// Summaries of summaries.
    Tree,
    /// A page for each subject.
    Wiki,
}

/// The kinds, as canvases write them.
pub(super) const KINDS: [Choice; 7] = [
    choice("knowledge_graph", "the entities in the document and their relations"),
    choice("list", "entries of the kind that `instruction` describes, with `fields`"),
    choice("mind_map", "its subject, with branches and details"),
    choice("page_index", "its sections, each with a short description"),
    choice("timeline", "events in chronological order"),
    choice("tree", "summaries of its parts, and summaries of these, up to one of the whole"),
    choice("wiki", "a page for each subject that it describes"),
];

/// Alternative names for some of them.
pub(super) const OTHER_NAMES: [&str; 4] = ["artifacts", "graph", "mindmap", "pageindex"];

impl TemplateKind {
    /// Returns the kind of this name, however it is spelled; also accepts [`OTHER_NAMES`].
    pub(super) fn of(name: &str) -> Option<Self> {
        match name.trim().to_lowercase().replace(['-', ' '], "_").as_str() {
            "knowledge_graph" | "graph" => Some(Self::KnowledgeGraph),
            "list" => Some(Self::List),
            "mind_map" | "mindmap" => Some(Self::MindMap),
            "page_index" | "pageindex" => Some(Self::PageIndex),
            "timeline" => Some(Self::Timeline),
            "tree" => Some(Self::Tree),
            "wiki" | "artifacts" => Some(Self::Wiki),
            _ => None,
        }
    }

    /// Returns its name in a canvas.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::KnowledgeGraph => "knowledge_graph",
            Self::List => "list",
            Self::MindMap => "mind_map",
            Self::PageIndex => "page_index",
            Self::Timeline => "timeline",
            Self::Tree => "tree",
            Self::Wiki => "wiki",
        }
    }

    /// Returns its display name, which an author may override.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::KnowledgeGraph => "Knowledge graph",
            Self::List => "List",
            Self::MindMap => "Mind map",
            Self::PageIndex => "Page index",
            Self::Timeline => "Timeline",
            Self::Tree => "Summaries",
            Self::Wiki => "Wiki",
        }
    }

    /// Returns the instructions for the model.
    pub(super) const fn task(self) -> &'static str {
        match self {
            Self::KnowledgeGraph => include_str!("prompts/knowledge_graph.md"),
            Self::List => include_str!("prompts/list.md"),
            Self::MindMap => mind_map::TASK,
            Self::PageIndex => include_str!("prompts/page_index.md"),
            Self::Timeline => include_str!("prompts/timeline.md"),
            Self::Tree => include_str!("prompts/tree.md"),
            Self::Wiki => include_str!("prompts/wiki.md"),
        }
    }

    /// Returns the maximum number of parts of the document that `questions_max` questions can cover.
    pub(super) fn parts_max(self, questions_max: usize) -> usize {
        (0..=questions_max).rev().find(|parts| self.questions(*parts) <= questions_max).unwrap_or_default()
    }

    /// Returns the number of questions that this number of parts requires.
    pub(super) fn questions(self, parts: usize) -> usize {
        match self {
            Self::Tree => tree::questions(parts),
            Self::KnowledgeGraph
            | Self::List
            | Self::MindMap
            | Self::PageIndex
            | Self::Timeline
            | Self::Wiki => parts,
        }
    }

    /// Returns the JSON Schema of an answer.
    pub(super) fn schema(self, template: &CompilationTemplate) -> Json {
        let texts = || json!({"type": "array", "items": {"type": "string"}});
        let text = || json!({"type": "string"});
        let (members, required): (Vec<(&str, Json)>, &[&str]) = match self {
            Self::KnowledgeGraph => (vec![("type", text())], &["name", "type"]),
            Self::List => (vec![("values", values(template))], &["name"]),
            Self::MindMap => (vec![("parent", text())], &["name"]),
            Self::PageIndex => (vec![("level", json!({"type": "integer"}))], &["name", "level"]),
            Self::Timeline => (vec![("time", text())], &["name", "time"]),
            Self::Tree => (Vec::new(), &["name", "description"]),
            Self::Wiki => {
                (vec![("type", text()), ("facts", texts()), ("related", texts())], &["name", "description"])
            }
        };
        let sources = json!({"type": "array", "items": {"type": "integer"}});
        let mut properties = Map::new();
        let common = [("name", text()), ("description", text()), ("sources", sources.clone())];
        for (name, schema) in common.into_iter().chain(members) {
            properties.insert(name.to_owned(), schema);
        }
        let item = json!({"type": "object", "properties": properties, "required": required});
        let mut form = json!({"type": "object", "required": ["items"],
            "properties": {"items": {"type": "array", "items": item}}});
        if self == Self::KnowledgeGraph {
            let relation = json!({"from": text(), "type": text(), "to": text(), "description": text(),
                "sources": sources});
            let relation =
                json!({"type": "object", "properties": relation, "required": ["from", "type", "to"]});
            form["properties"]["relations"] = json!({"type": "array", "items": relation});
        }
        form
    }
}

/// Returns the schema of the values of a list entry.
fn values(template: &CompilationTemplate) -> Json {
    let mut properties = Map::new();
    for field in &template.fields {
        let schema =
            json!({"type": ["string", "number", "boolean", "null"], "description": field.description});
        properties.insert(field.name.clone(), schema);
    }
    json!({"type": "object", "properties": properties})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_limit_bounds_the_parts_asked_about() {
        for calls in 0..500 {
            let parts = TemplateKind::Tree.parts_max(calls);
            let questions = |parts: usize| TemplateKind::Tree.questions(parts);
            assert!(questions(parts) <= calls && questions(parts + 1) > calls, "{parts} parts of {calls}");
            assert_eq!(TemplateKind::Wiki.parts_max(calls), calls);
        }
        assert_eq!([1, 2, 6, 7].map(|parts| TemplateKind::Tree.questions(parts)), [1, 3, 7, 10]);
    }
}
