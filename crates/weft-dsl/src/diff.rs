//! Computes the differences between two canvases, component by component.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Map;
use weft_core::Json;

use crate::canvas::{Canvas, CanvasNode};
use crate::pointer::join;

/// Maximum number of changes listed individually for one component; beyond it, whole values are listed.
const CHANGES_MAX: usize = 1_000;

/// The differences between two canvases.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CanvasDiff {
    /// Components that only the second has.
    pub added: Vec<NodeSummary>,
    /// Components that only the first has.
    pub removed: Vec<NodeSummary>,
    /// Components that both have, with differences.
    pub changed: Vec<NodeDiff>,
    /// Differences in the declared variables.
    pub variables: Vec<ValueChange>,
}

/// A component that only one of two canvases has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeSummary {
    /// Its id.
    pub id: String,
    /// Its type.
    pub component_name: String,
}

/// The differences of one component.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeDiff {
    /// Its id.
    pub id: String,
    /// Its type in the second canvas.
    pub component_name: String,
    /// What differs: its type (`/component_name`), its parent (`/parent_id`), its parameters (`/params/…`).
    pub changes: Vec<ValueChange>,
    /// Targets it leads to only in the second canvas.
    pub edges_added: Vec<String>,
    /// Targets it leads to only in the first canvas.
    pub edges_removed: Vec<String>,
}

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueChange {
    /// JSON pointer to the value.
    pub pointer: String,
    /// The old value; absent when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Json>,
    /// The new value; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Json>,
}

impl CanvasDiff {
    /// Compares two canvases.
    pub fn between(old: &Canvas, new: &Canvas) -> Self {
        let only = |one: &Canvas, other: &Canvas| {
            let own = one.nodes.values().filter(|node| !other.nodes.contains_key(&node.id));
            own.map(summary).collect()
        };
        let both = new.nodes.values().filter_map(|node| Some((old.nodes.get(&node.id)?, node)));
        Self {
            added: only(new, old),
            removed: only(old, new),
            changed: both.filter_map(|(old, new)| of_node(old, new)).collect(),
            variables: of_variables(old, new),
        }
    }

    /// Whether there are no differences.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

fn summary(node: &CanvasNode) -> NodeSummary {
    NodeSummary { id: node.id.to_string(), component_name: node.kind.clone() }
}

fn of_node(old: &CanvasNode, new: &CanvasNode) -> Option<NodeDiff> {
    let mut changes = Vec::new();
    let text = |text: &str| Json::String(text.to_owned());
    if old.kind != new.kind {
        note(&mut changes, "/component_name", Some(&text(&old.kind)), Some(&text(&new.kind)));
    }
    let parent = |node: &CanvasNode| node.parent.as_ref().map(|parent| text(parent.as_str()));
    if old.parent != new.parent {
        note(&mut changes, "/parent_id", parent(old).as_ref(), parent(new).as_ref());
    }
    objects("/params", &old.params, &new.params, &mut changes);
    let leads = |node: &CanvasNode| -> BTreeSet<String> {
        node.downstream.iter().map(|link| link.to.to_string()).collect()
    };
    // Compared as sets: the order of edges that are taken together makes no difference.
    let (before, now) = (leads(old), leads(new));
    let diff = NodeDiff {
        id: new.id.to_string(),
        component_name: new.kind.clone(),
        changes,
        edges_added: now.difference(&before).cloned().collect(),
        edges_removed: before.difference(&now).cloned().collect(),
    };
    let same = diff.changes.is_empty() && diff.edges_added.is_empty() && diff.edges_removed.is_empty();
    (!same).then_some(diff)
}

fn of_variables(old: &Canvas, new: &Canvas) -> Vec<ValueChange> {
    let mut changes = Vec::new();
    let declared = |canvas: &Canvas| -> Map<String, Json> {
        let all = canvas.variables.iter();
        all.map(|(name, variable)| {
            let mut shown = Map::new();
            shown.insert("type".to_owned(), variable.kind.clone().into());
            shown.insert("value".to_owned(), variable.value.clone());
            shown.insert("description".to_owned(), variable.description.clone().into());
            (name.clone(), Json::Object(shown))
        })
        .collect()
    };
    objects("", &declared(old), &declared(new), &mut changes);
    changes
}

fn note(changes: &mut Vec<ValueChange>, pointer: &str, from: Option<&Json>, to: Option<&Json>) {
    changes.push(ValueChange { pointer: pointer.to_owned(), from: from.cloned(), to: to.cloned() });
}

fn objects(pointer: &str, old: &Map<String, Json>, new: &Map<String, Json>, changes: &mut Vec<ValueChange>) {
    for (key, value) in old {
        let place = join(pointer, key);
        match new.get(key) {
            Some(other) => values(&place, value, other, changes),
            None => note(changes, &place, Some(value), None),
        }
    }
    for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
        note(changes, &join(pointer, key), None, Some(value));
    }
}

/// Compares members of objects and items of lists of equal length. An insertion shifts everything after it,
/// so lists of different lengths differ as a whole.
fn values(pointer: &str, old: &Json, new: &Json, changes: &mut Vec<ValueChange>) {
    match (old, new) {
        _ if old == new => {}
        (Json::Object(old), Json::Object(new)) if changes.len() < CHANGES_MAX => {
            objects(pointer, old, new, changes);
        }
        (Json::Array(olds), Json::Array(news)) if olds.len() == news.len() && changes.len() < CHANGES_MAX => {
            for (index, (old, new)) in olds.iter().zip(news).enumerate() {
                values(&join(pointer, index), old, new, changes);
            }
        }
        _ => note(changes, pointer, Some(old), Some(new)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn diff(old: &Json, new: &Json) -> Json {
        let read = |json: &Json| crate::load(json.to_string().as_bytes()).unwrap();
        serde_json::to_value(CanvasDiff::between(&read(old), &read(new))).unwrap()
    }

    fn node(kind: &str, params: &Json, downstream: &[&str]) -> Json {
        json!({"obj": {"component_name": kind, "params": params}, "downstream": downstream})
    }

    #[test]
    fn added_removed_and_changed_components_are_listed() {
        let old = json!({"components": {
            "begin": node("Begin", &json!({}), &["Message:A"]),
            "Message:A": node("Message", &json!({"content": ["a", "b"], "stream": true}), &[]),
            "Message:Old": node("Message", &json!({}), &[]),
        }, "variables": {"city": {"type": "string", "value": "Ulm"}}});
        let new = json!({"components": {
            "begin": node("Begin", &json!({}), &["Message:A", "Message:New"]),
            "Message:A": node("Message", &json!({"content": ["a", "c"], "x": {"y": 1}}), &[]),
            "Message:New": node("Message", &json!({}), &[]),
        }, "variables": {"city": {"type": "string", "value": "Köln"}, "n": {"type": "number"}}});
        let expected = json!({
            "added": [{"id": "Message:New", "component_name": "Message"}],
            "removed": [{"id": "Message:Old", "component_name": "Message"}],
            "changed": [
                {"id": "begin", "component_name": "Begin", "changes": [], "edges_added": ["Message:New"],
                    "edges_removed": []},
                {"id": "Message:A", "component_name": "Message", "edges_added": [], "edges_removed": [], "changes": [
                    {"pointer": "/params/content/1", "from": "b", "to": "c"},
                    {"pointer": "/params/stream", "from": true},
                    {"pointer": "/params/x", "to": {"y": 1}},
                ]},
            ],
            "variables": [
                {"pointer": "/city/value", "from": "Ulm", "to": "Köln"},
                {"pointer": "/n", "to": {"type": "number", "value": null, "description": ""}},
            ],
        });
        assert_eq!(diff(&old, &new), expected);
    }

    #[test]
    fn running_or_moving_nodes_is_not_a_change() {
        let canvas = json!({"components": {"begin": node("Begin", &json!({}), &[])}, "history": []});
        let mut other = canvas.clone();
        other["history"] = json!([["user", "hi"]]);
        other["graph"] = json!({"nodes": [{"id": "begin", "position": {"x": 7}}]});
        assert!(
            CanvasDiff::between(
                &crate::load(canvas.to_string().as_bytes()).unwrap(),
                &crate::load(other.to_string().as_bytes()).unwrap()
            )
            .is_empty()
        );
    }
}
