//! Renames components of older canvases and of other editions to their current names. Structure and
//! parameters stay as they are, except where the new name alone would change the meaning.
//!
//! Applied to a working copy each time a canvas is loaded; applying it again changes nothing.

use std::collections::{BTreeMap, HashSet};

use serde_json::Map;

use weft_core::Json;
use weft_core::reference::is_name_char;

use crate::canvas::{Canvas, Renamed};
use crate::problem::Problem;

const MERGER: &str = "HierarchicalMerger";
const MANUAL: &str = "ManualChunker";

/// Component types that were renamed, or that another edition names differently.
const KINDS: [(&str, &str); 5] = [
    ("Splitter", "TokenChunker"),
    (MERGER, "TitleChunker"),
    ("PDFGenerator", "DocGenerator"),
    ("GeneralChunker", "TokenChunker"),
    (MANUAL, "TitleChunker"),
];

/// Returns the current name of a component type of older canvases or another edition, if it differs.
pub fn todays_kind(name: &str) -> Option<&'static str> {
    KINDS.iter().find(|(old, _)| old.eq_ignore_ascii_case(name)).map(|(_, new)| *new)
}

/// Editor node types that were renamed.
const NODE_TYPES: [(&str, &str); 1] = [("splitterNode", "chunkerNode")];

/// Component types that exist only in first-generation canvases, where components pass on their results
/// without being referred to. Answer is not among them: canvases that use references may have it, too.
const FIRST_GENERATION: [&str; 3] = ["Generate", "Relevant", "Concentrator"];

/// Returns a warning if a canvas is of the first generation.
pub(crate) fn of_an_older_generation(canvas: &Canvas) -> Option<Problem> {
    let node = canvas.nodes.values().find(|node| FIRST_GENERATION.iter().any(|kind| node.is_a(kind)))?;
    let message = "this canvas has the form used before v0.20, in which a result was passed on without a reference: it \
                   has to be converted";
    let help = "rebuild it with current components, as the other findings say for each, and refer to their outputs, \
                such as `{Agent:Writer@content}`";
    let problem = Problem::warning("older-generation", &node.place.kind, message).help(help);
    Some(problem.about(&node.id, &node.name))
}

/// Returns the DSL with current names, and the ids that changed; `None` when nothing has to change.
pub(crate) fn upgrade(dsl: &Json) -> Option<(Json, Renamed)> {
    let ids = renamed_ids(dsl);
    // Canvases are upgraded each time they are loaded: the many that need no change are not copied.
    if ids.is_empty()
        && !["components", "graph"].iter().any(|half| dsl.get(half).is_some_and(mentions_old_kind))
    {
        return None;
    }
    let mut upgraded = dsl.clone();
    let map = Ids(ids);
    map.components(&mut upgraded);
    map.graph(&mut upgraded);
    for key in ["path", "history", "messages", "reference"] {
        if let Some(value) = upgraded.get_mut(key) {
            map.texts(value);
        }
    }
    // A document in which nothing changes is passed on as written.
    (upgraded != *dsl).then(|| (upgraded, map.0.into_iter().map(|(old, new)| (new, old)).collect()))
}

fn new_name(table: &[(&str, &'static str)], old: &str) -> Option<&'static str> {
    table.iter().find(|(name, _)| *name == old).map(|(_, new)| *new)
}

/// Returns the renames, from old to new. An id whose new name is taken keeps its old one.
fn renamed_ids(dsl: &Json) -> BTreeMap<String, String> {
    let components = dsl.get("components").and_then(Json::as_object).into_iter().flat_map(|c| c.keys());
    let nodes = dsl.pointer("/graph/nodes").and_then(Json::as_array).into_iter().flatten();
    let nodes = nodes.filter_map(|node| node.get("id")?.as_str());
    let all: HashSet<&str> = components.map(String::as_str).chain(nodes).collect();
    let renamed = |id: &str| {
        let (kind, suffix) = id.split_once(':')?;
        let new = format!("{}:{suffix}", new_name(&KINDS, kind)?);
        // Two components with the same id would become one.
        (!all.contains(new.as_str())).then_some(new)
    };
    all.iter().filter_map(|id| Some(((*id).to_owned(), renamed(id)?))).collect()
}

fn mentions_old_kind(json: &Json) -> bool {
    match json {
        Json::Array(items) => items.iter().any(mentions_old_kind),
        Json::Object(map) => map.iter().any(|(key, value)| match (key.as_str(), value) {
            ("component_name" | "label", Json::String(text)) => new_name(&KINDS, text).is_some(),
            ("type", Json::String(text)) => new_name(&NODE_TYPES, text).is_some(),
            (_, value) => mentions_old_kind(value),
        }),
        _ => false,
    }
}

/// Renames, from old id to new id.
struct Ids(BTreeMap<String, String>);

impl Ids {
    fn components(&self, dsl: &mut Json) {
        let Some(components) = dsl.get_mut("components").and_then(Json::as_object_mut) else { return };
        *components = std::mem::take(components)
            .into_iter()
            .map(|(id, mut component)| {
                self.texts(&mut component);
                rename_kinds(&mut component);
                (self.0.get(&id).cloned().unwrap_or(id), component)
            })
            .collect();
    }

    fn graph(&self, dsl: &mut Json) {
        let Some(graph) = dsl.get_mut("graph").and_then(Json::as_object_mut) else { return };
        for node in graph.get_mut("nodes").and_then(Json::as_array_mut).into_iter().flatten() {
            self.node(node);
        }
        for edge in graph.get_mut("edges").and_then(Json::as_array_mut).into_iter().flatten() {
            // Editors derive the id of an edge from the ids at its ends. Only these two are searched for: a
            // drawing may have ten thousand ids that change, and even more edges.
            let ends = ["source", "target"].map(|end| edge.get(end).and_then(Json::as_str));
            let mut ids: Vec<_> =
                ends.into_iter().flatten().filter_map(|id| self.0.get_key_value(id)).collect();
            for end in ["source", "target"] {
                edge.get_mut(end).into_iter().for_each(|id| self.texts(id));
            }
            if let Some(Json::String(id)) = edge.get_mut("id") {
                // Longest first: one id may be a prefix of another.
                ids.sort_by_key(|(old, _)| std::cmp::Reverse(old.len()));
                ids.into_iter().for_each(|(old, new)| *id = id.replace(old, new));
            }
        }
    }

    fn node(&self, node: &mut Json) {
        for key in ["id", "parentId"] {
            node.get_mut(key).into_iter().for_each(|id| self.texts(id));
        }
        node.get_mut("type").into_iter().for_each(|name| rename(name, &NODE_TYPES));
        let Some(data) = node.get_mut("data") else { return };
        let kept = kept(data.get("label"));
        for key in ["label", "name"] {
            data.get_mut(key).into_iter().for_each(|name| rename(name, &KINDS));
        }
        if let Some(form) = data.get_mut("form") {
            self.texts(form);
            rename_kinds(form);
            if let (Some((key, value)), Some(form)) = (kept, form.as_object_mut()) {
                form.entry(key).or_insert_with(|| value.into());
            }
        }
    }

    /// Renames ids in every text inside `json`; keys are kept.
    fn texts(&self, json: &mut Json) {
        match json {
            Json::String(text) => {
                if let Some(new) = self.text(text) {
                    *text = new;
                }
            }
            Json::Array(items) => items.iter_mut().for_each(|item| self.texts(item)),
            Json::Object(map) => map.values_mut().for_each(|value| self.texts(value)),
            _ => {}
        }
    }

    /// Renames ids in a text that is an id, is a reference, or contains references in braces.
    fn text(&self, text: &str) -> Option<String> {
        if self.0.is_empty() || !text.contains(':') {
            return None;
        }
        if let Some(new) = self.0.get(text) {
            return Some(new.clone());
        }
        if let Some((id, path)) = text.split_once('@')
            && let Some(new) = self.0.get(id)
        {
            return Some(format!("{new}@{path}"));
        }
        let mut renamed = String::new();
        let mut kept = 0;
        for (open, _) in text.match_indices('{') {
            let from = open + 1 + text[open + 1..].len() - text[open + 1..].trim_start_matches(' ').len();
            let is_id = |c: char| is_name_char(c) || matches!(c, ':' | '-');
            let Some(length) = text[from..].find(|c| !is_id(c)) else { continue };
            let to = from + length;
            let closed = text[to..].starts_with('@')
                && text[to..].find(['{', '}', '\n']).is_some_and(|end| text[to + end..].starts_with('}'));
            if let (true, Some(new)) = (closed, self.0.get(&text[from..to])) {
                renamed.push_str(&text[kept..from]);
                renamed.push_str(new);
                kept = to;
            }
        }
        renamed.push_str(&text[kept..]);
        (kept > 0).then_some(renamed)
    }
}

fn rename(json: &mut Json, table: &[(&str, &'static str)]) {
    if let Json::String(text) = json
        && let Some(new) = new_name(table, text)
    {
        new.clone_into(text);
    }
}

/// Renames the type of a component and of the tools inside it.
fn rename_kinds(json: &mut Json) {
    match json {
        Json::Array(items) => items.iter_mut().for_each(rename_kinds),
        Json::Object(map) => {
            keep_meaning(map);
            for (key, value) in map {
                if key == "component_name" { rename(value, &KINDS) } else { rename_kinds(value) }
            }
        }
        _ => {}
    }
}

/// Adds the parameter that preserves the meaning of a component whose new name would change it.
fn keep_meaning(component: &mut Map<String, Json>) {
    if let Some((key, value)) = kept(component.get("component_name"))
        && let Some(params) = component.get_mut("params").and_then(Json::as_object_mut)
    {
        params.entry(key).or_insert_with(|| value.into());
    }
}

/// Returns the parameter that a component type needs under its new name, used unless it is set already.
fn kept(kind: Option<&Json>) -> Option<(&'static str, &'static str)> {
    match kind.and_then(Json::as_str)? {
        // Its lists of patterns are the levels; those of its successor are families of patterns.
        MERGER => Some(("levels_are", "levels")),
        MANUAL => Some(("method", "group")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn old() -> Json {
        json!({
            "components": {
                "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["PDFGenerator:One"]},
                "PDFGenerator:One": {
                    "obj": {"component_name": "PDFGenerator", "params": {"title": "PDFGenerator", "Splitter": 1}},
                    "downstream": ["Message:M"], "upstream": ["begin"], "parent_id": null
                },
                "Message:M": {"obj": {"component_name": "Message", "params": {
                    "content": ["{PDFGenerator:One@download} { PDFGenerator:One@a } {PDFGenerator:One} {PDFGenerator:Two@x}"],
                    "ref": "PDFGenerator:One@download"
                }}, "upstream": ["PDFGenerator:One"]},
            },
            "graph": {
                "nodes": [
                    {"id": "PDFGenerator:One", "type": "ragNode",
                     "data": {"label": "PDFGenerator", "name": "PDFGenerator", "form": {"x": "{PDFGenerator:One@y}"}}},
                    {"id": "Splitter:S", "type": "splitterNode", "parentId": "PDFGenerator:One",
                     "data": {"label": "Splitter", "name": "My Splitter"}},
                ],
                "edges": [{"id": "xy-edge__PDFGenerator:Onestart-Splitter:Send", "source": "PDFGenerator:One", "target": "Splitter:S"}]
            },
            "path": ["PDFGenerator:One"],
            "history": [["user", "{PDFGenerator:One@z}"]],
            "globals": {"env.x": "PDFGenerator:One"},
        })
    }

    #[test]
    fn names_are_mapped_everywhere_and_nothing_else_is() {
        let (new, renamed) = upgrade(&old()).unwrap();
        assert_eq!(renamed["DocGenerator:One"], "PDFGenerator:One");
        let expected = old()
            .to_string()
            .replace("PDFGenerator:One", "DocGenerator:One")
            .replace("{DocGenerator:One}", "{PDFGenerator:One}")
            .replace(r#""env.x":"DocGenerator:One""#, r#""env.x":"PDFGenerator:One""#)
            .replace(r#""component_name":"PDFGenerator""#, r#""component_name":"DocGenerator""#)
            .replace(
                r#""label":"PDFGenerator","name":"PDFGenerator""#,
                r#""label":"DocGenerator","name":"DocGenerator""#,
            )
            .replace("Splitter:S", "TokenChunker:S")
            .replace("splitterNode", "chunkerNode")
            .replace(r#""label":"Splitter""#, r#""label":"TokenChunker""#);
        assert_eq!(new.to_string(), expected);
        assert_eq!(upgrade(&new), None, "applying it again changes nothing");
    }

    #[test]
    fn chunkers_of_another_edition_mean_the_same_here() {
        let pipeline = |general: &str, manual: &str, params: Json, form: Json| {
            let (general_id, manual_id) = (format!("{general}:G"), format!("{manual}:M"));
            json!({
                "components": {
                    general_id.as_str(): {"obj": {"component_name": general, "params": {"delimiters": ["!"]}}, "downstream": [manual_id]},
                    manual_id.as_str(): {"obj": {"component_name": manual, "params": params}, "upstream": [general_id]},
                },
                "graph": {"nodes": [{"id": manual_id, "data": {"label": manual, "form": form}}]},
            })
        };
        let given = pipeline("GeneralChunker", "ManualChunker", json!({"hierarchy": 0}), json!({}));
        let grouped = json!({"hierarchy": 0, "method": "group"});
        let expected = pipeline("TokenChunker", "TitleChunker", grouped, json!({"method": "group"}));
        assert_eq!(upgrade(&given).unwrap().0, expected);
    }

    #[test]
    fn a_new_name_that_is_taken_is_left_alone() {
        let dsl = json!({"components": {"PDFGenerator:A": {"downstream": []}, "DocGenerator:A": {}}});
        assert_eq!(upgrade(&dsl), None);
    }

    #[test]
    fn tools_of_agents_are_renamed() {
        let tool = |name: &str| {
            json!({"components": {"Agent:A": {"obj": {"component_name": "Agent",
            "params": {"tools": [{"component_name": name, "params": {}}]}}}}})
        };
        assert_eq!(upgrade(&tool("PDFGenerator")).unwrap().0, tool("DocGenerator"));
    }
}
