//! JSON document → [`Canvas`], in any of the many forms in use.
//!
//! A document is refused only if nothing in it can be read. Problems in its parts are noted and reported when
//! the canvas is compiled.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Map;
use weft_core::context::HistoryMessage;
use weft_core::suggest::did_you_mean;
use weft_core::value::{kind_of, to_text};
use weft_core::{ComponentId, Json};

use crate::canvas::{Canvas, CanvasNode, NodePlace, Renamed, WrittenEdge};
use crate::container::{self, Container};
use crate::drawing;
use crate::globals::EnvVariable;
use crate::pointer::join;
use crate::problem::Problem;
use crate::suggest::Suggester;
use crate::upgrade::upgrade;

/// Maximum number of components of a canvas.
// This also bounds everything that is computed for pairs of nodes.
pub(crate) const COMPONENTS_MAX: usize = 10_000;

/// Reads a document whose text is `source`.
///
/// # Errors
/// When it is not a canvas at all, or too large.
pub(crate) fn canvas(source: Arc<str>, written: Json) -> Result<Canvas, Vec<Problem>> {
    let (container, taken_out) = container::find(&written)?;
    let dsl = match &taken_out {
        Some(dsl) => dsl,
        None => written.pointer(&container.pointer).unwrap_or(&written),
    };
    let upgraded = upgrade(dsl);
    let renamed = upgraded.is_some();
    let (own_dsl, old_ids) = match upgraded {
        Some((dsl, old_ids)) => (Some(dsl), old_ids),
        None => (taken_out, Renamed::new()),
    };
    let text = |key: &str| said_around(&written, &container, key).map(str::to_owned);
    let (category, canvas_type) = (text("canvas_category"), text("canvas_type"));
    let mut canvas = Canvas {
        source,
        category,
        canvas_type,
        container,
        dsl: own_dsl,
        renamed,
        old_ids: old_ids.clone(),
        problems: Vec::new(),
        nodes: IndexMap::new(),
        variables: IndexMap::new(),
        globals: Map::new(),
        history: Vec::new(),
        written,
    };
    let mut reader = CanvasReader {
        base: canvas.container.pointer.clone(),
        old_ids,
        suggester: Suggester::default(),
        problems: Vec::new(),
    };
    let dsl = canvas.dsl();
    reader.keys(dsl, &OF_A_CANVAS, &canvas.container.pointer, "a canvas");
    let nodes = reader.nodes(dsl, &canvas.container)?;
    let variables = reader.variables(dsl);
    let globals = dsl.get("globals").and_then(Json::as_object).cloned().unwrap_or_default();
    let history = dsl.get("history").map(history).unwrap_or_default();
    (canvas.nodes, canvas.variables, canvas.globals, canvas.history) = (nodes, variables, globals, history);
    // Problems name components, and a drawing may contain the ids of many things that are not components.
    canvas.old_ids.retain(|new, _| canvas.nodes.contains_key(new.as_str()));
    canvas.problems = reader.problems;
    Ok(canvas)
}

/// Returns a property of a canvas from the DSL itself or from one of the objects around it; the innermost one
/// takes precedence.
fn said_around<'a>(written: &'a Json, container: &Container, key: &str) -> Option<&'a str> {
    let mut at = container.pointer.as_str();
    loop {
        let said = written.pointer(at).and_then(|object| object.get(key)).and_then(Json::as_str);
        if said.is_some() {
            return said;
        }
        // One object further out each time, up to the root.
        at = &at[..at.rfind('/')?];
    }
}

/// The keys that are read: of a canvas, of a component, of the object inside it, and of a variable.
const OF_A_CANVAS: [&str; 5] = ["components", "graph", "globals", "variables", "history"];
const OF_A_COMPONENT: [&str; 4] = ["obj", "downstream", "upstream", "parent_id"];
const OF_AN_OBJECT: [&str; 2] = ["component_name", "params"];
const OF_A_VARIABLE: [&str; 4] = ["name", "type", "value", "description"];

/// What a part of a component has to be, and how to write it.
struct Expected {
    what: &'static str,
    help: &'static str,
}

const PARAMETERS: Expected =
    Expected { what: "the parameters must be an object", help: r#"write {"name": value, …}"# };
const PARENT: Expected =
    Expected { what: "`parent_id` must be an id", help: "write the id of an Iteration or Loop" };
const SUCCESSOR: Expected =
    Expected { what: "a successor must be an id", help: "write the id of a component as a text" };
const SUCCESSORS: Expected = Expected {
    what: "`downstream` must be a list of ids",
    help: r#"write a list of ids, such as ["Message:Answer"]"#,
};

struct CanvasReader {
    base: String,
    old_ids: Renamed,
    suggester: Suggester,
    problems: Vec<Problem>,
}

impl CanvasReader {
    fn nodes(
        &mut self,
        dsl: &Json,
        container: &Container,
    ) -> Result<IndexMap<ComponentId, CanvasNode>, Vec<Problem>> {
        let written =
            dsl.get("components").and_then(Json::as_object).filter(|components| !components.is_empty());
        let Some(written) = written else {
            let graph = container.graph();
            let nodes = drawing::components(dsl, &graph);
            check_count(nodes.len(), &join(&graph, "nodes"))?;
            return Ok(nodes);
        };
        let all = container.components();
        // Before any of them is read.
        check_count(written.len(), &all)?;
        // Display names are only in the drawing: `components` has ids alone.
        let names = display_names(dsl);
        let mut nodes = IndexMap::with_capacity(written.len());
        for (id, component) in written {
            // A finding points into the document as written, where the id is still the old one.
            let place = join(&all, self.old_ids.get(id).unwrap_or(id));
            let name = names.get(id.as_str()).copied().filter(|name| !name.is_empty()).unwrap_or(id);
            let node = self.node(id, name, component, place);
            nodes.insert(node.id.clone(), node);
        }
        self.problems.extend(drawing::only::problems(dsl, &container.graph(), &nodes));
        Ok(nodes)
    }

    /// Notes keys of an object that look like misspellings of keys that are read but missing.
    fn keys(&mut self, object: &Json, read: &[&'static str], at: &str, what: &str) {
        let Some(object) = object.as_object() else { return };
        for key in object.keys().filter(|key| !read.contains(&key.as_str())) {
            let missing = read.iter().copied().filter(|known| !object.contains_key(*known));
            if let Some(meant) = self.suggester.misspelled(key, missing) {
                let message = format!("{what} has no key `{key}`: it is not read");
                let problem = Problem::warning("unknown-key", join(at, key), message);
                self.problems.push(problem.help(did_you_mean(meant)));
            }
        }
    }

    fn node(&mut self, id: &str, name: &str, component: &Json, node: String) -> CanvasNode {
        self.keys(component, &OF_A_COMPONENT, &node, "a component");
        let (object, at) = match component.get("obj") {
            // Without `obj` its members stand in the component itself, as in files written by hand.
            Some(object @ Json::Object(_)) => (object, join(&node, "obj")),
            _ => (component, node.clone()),
        };
        self.keys(object, &OF_AN_OBJECT, &at, "a component");
        // Some files use `name` instead.
        let key = if object.get("component_name").is_some() { "component_name" } else { "name" };
        let place = NodePlace {
            kind: join(&at, key),
            params: join(&at, "params"),
            parent: join(&node, "parent_id"),
            node,
        };
        let kind = object.get(key).and_then(Json::as_str).unwrap_or_default();
        let mut found = CanvasNode {
            id: id.into(),
            kind: kind.to_owned(),
            name: name.into(),
            params: Map::new(),
            downstream: Vec::new(),
            parent: None,
            place,
        };
        if kind.is_empty() {
            let message = match component {
                Json::Object(_) => "the component does not name its type".to_owned(),
                other => format!("a component is an object, but this is {}", kind_of(other)),
            };
            let help = r#"write {"obj": {"component_name": "Message", "params": {…}}, "downstream": […]}"#;
            self.note(&found, Problem::error("malformed-component", &found.place.node, message).help(help));
        }
        match object.get("params") {
            Some(Json::Object(params)) => found.params = params.clone(),
            None | Some(Json::Null) => {}
            Some(other) => {
                self.expected(&found, &found.place.params, &PARAMETERS, other);
            }
        }
        found.downstream = self.links(&found, component.get("downstream"));
        match component.get("parent_id") {
            Some(Json::String(parent)) if !parent.is_empty() => found.parent = Some(parent.as_str().into()),
            None | Some(Json::Null | Json::String(_)) => {}
            Some(other) => self.expected(&found, &found.place.parent, &PARENT, other),
        }
        found
    }

    fn links(&mut self, node: &CanvasNode, written: Option<&Json>) -> Vec<WrittenEdge> {
        let pointer = join(&node.place.node, "downstream");
        match written {
            None | Some(Json::Null) => Vec::new(),
            // As for branches: an editor's empty field names nothing.
            Some(Json::String(to)) if to.is_empty() => Vec::new(),
            // A single successor is often written without a list.
            Some(Json::String(to)) => vec![WrittenEdge { to: to.as_str().into(), pointer }],
            Some(Json::Array(items)) => {
                let mut links = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    let pointer = join(&pointer, index);
                    match item {
                        Json::String(to) if to.is_empty() => {}
                        Json::String(to) => links.push(WrittenEdge { to: to.as_str().into(), pointer }),
                        other => self.expected(node, &pointer, &SUCCESSOR, other),
                    }
                }
                links
            }
            Some(other) => {
                self.expected(node, &pointer, &SUCCESSORS, other);
                Vec::new()
            }
        }
    }

    fn variables(&mut self, dsl: &Json) -> IndexMap<String, EnvVariable> {
        let pointer = format!("{}/variables", self.base);
        match dsl.get("variables") {
            Some(Json::Object(map)) => map
                .iter()
                .map(|(name, value)| (name.clone(), self.variable(value, join(&pointer, name))))
                .collect(),
            Some(Json::Array(items)) => {
                let named = items.iter().enumerate().filter_map(|(place, item)| {
                    Some((item.get("name")?.as_str()?.to_owned(), self.variable(item, join(&pointer, place))))
                });
                named.collect()
            }
            None | Some(Json::Null) => IndexMap::new(),
            Some(other) => {
                let message = format!("`variables` is an object, but this is {}", kind_of(other));
                self.problems.push(Problem::error("malformed-variables", pointer, message));
                IndexMap::new()
            }
        }
    }

    fn variable(&mut self, written: &Json, pointer: String) -> EnvVariable {
        let Some(declared) = written.as_object() else {
            return EnvVariable { value: written.clone(), pointer, ..EnvVariable::default() };
        };
        self.keys(written, &OF_A_VARIABLE, &pointer, "a variable");
        let text = |key: &str| declared.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        EnvVariable {
            kind: text("type"),
            value: declared.get("value").cloned().unwrap_or_default(),
            description: text("description"),
            pointer,
        }
    }

    fn expected(&mut self, node: &CanvasNode, pointer: &str, expected: &Expected, found: &Json) {
        let message = format!("{}, but this is {}", expected.what, kind_of(found));
        self.note(node, Problem::error("malformed-component", pointer, message).help(expected.help));
    }

    fn note(&mut self, node: &CanvasNode, problem: Problem) {
        self.problems.push(problem.about(&node.id, &node.name));
    }
}

fn check_count(count: usize, pointer: &str) -> Result<(), Vec<Problem>> {
    if count <= COMPONENTS_MAX {
        return Ok(());
    }
    let message = format!("the canvas has {count} components; at most {COMPONENTS_MAX} are allowed");
    Err(vec![Problem::error("too-many-components", pointer, message).help("split it into several canvases")])
}

fn display_names(dsl: &Json) -> HashMap<&str, &str> {
    let nodes = dsl.pointer("/graph/nodes").and_then(Json::as_array).into_iter().flatten();
    nodes
        .filter_map(|node| Some((node.get("id")?.as_str()?, node.pointer("/data/name")?.as_str()?)))
        .collect()
}

/// Reads pairs `[role, payload]` or objects `{role, content}`; the payload may be a text or the outputs of
/// the component that answered.
fn history(written: &Json) -> Vec<HistoryMessage> {
    let read = |entry: &Json| {
        let (role, payload) = match entry {
            Json::Array(pair) => (pair.first()?, pair.get(1)?),
            Json::Object(object) => (object.get("role")?, object.get("content")?),
            _ => return None,
        };
        let payload =
            payload.as_object().map_or(payload, |outputs| outputs.get("content").unwrap_or(&Json::Null));
        Some(HistoryMessage { role: role.as_str()?.to_owned(), content: to_text(payload), run: None })
    };
    written.as_array().into_iter().flatten().filter_map(read).collect()
}
