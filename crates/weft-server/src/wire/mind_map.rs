//! Mind maps: builds a tree from the outline that a model writes, or from the stored nodes of a dataset.

use std::iter::Peekable;

use serde_json::{Value as Json, json};
use weft_knowledge::mind_map::{MindMap, MindMapNode};

/// Maximum depth of the tree; deeper points are put on the last level.
const DEPTH_MAX: usize = 8;

/// Position of a line in an outline: below headings of a smaller level, and below items that are indented less.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum OutlineLevel {
    Heading(usize),
    Item(usize),
}

/// Builds the tree of an outline in Markdown, from its headings and list items. Without a single top-level point the
/// question becomes the root.
pub fn tree(outline: &str, asked: &str) -> Json {
    let points = points(outline).into_iter().map(|(level, text)| (level, json!({"id": text})));
    whole(points, asked)
}

/// Builds the tree of a stored map; an empty object if the map is empty. Several top-level subjects are put below
/// `name`.
pub fn kept(map: &MindMap, name: &str) -> Json {
    if map.nodes.is_empty() {
        return json!({});
    }
    whole(map.outline().into_iter().map(|(level, node)| (level.min(DEPTH_MAX), shown(node))), name)
}

fn shown(node: &MindMapNode) -> Json {
    let mut shown = json!({"id": node.name});
    if !node.description.is_empty() {
        shown["description"] = json!(node.description);
    }
    shown
}

fn whole(points: impl Iterator<Item = (usize, Json)>, name: &str) -> Json {
    let mut all = below(&mut points.peekable(), 0);
    if all.len() == 1 { all.swap_remove(0) } else { json!({"id": name, "children": all}) }
}

/// Returns the points with their levels.
fn points(outline: &str) -> Vec<(usize, &str)> {
    let mut above: Vec<OutlineLevel> = Vec::new();
    let mut points = Vec::new();
    for (place, text) in outline.lines().filter_map(point) {
        while above.pop_if(|last| *last >= place).is_some() {}
        points.push((above.len().min(DEPTH_MAX), text));
        above.push(place);
    }
    points
}

/// Parses a line that is a heading or an item.
fn point(line: &str) -> Option<(OutlineLevel, &str)> {
    let text = line.trim_start();
    let level = text.len() - text.trim_start_matches('#').len();
    let (place, said) = match level {
        0 => (
            OutlineLevel::Item(line.len() - text.len()),
            text.strip_prefix(['-', '*', '+'])?.strip_prefix(' ')?,
        ),
        _ => (OutlineLevel::Heading(level), &text[level..]),
    };
    // Models often set points in bold.
    let said = said.trim().trim_matches('*').trim();
    (!said.is_empty()).then_some((place, said))
}

fn below(points: &mut Peekable<impl Iterator<Item = (usize, Json)>>, level: usize) -> Vec<Json> {
    let mut all = Vec::new();
    while let Some((_, mut node)) = points.next_if(|(at, _)| *at >= level) {
        node["children"] = Json::Array(below(points, level + 1));
        all.push(node);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_and_list_items_become_nodes() {
        let outline = "Here it is:\n# **Animals**\n## Foxes\n- quick\n  - very\n- brown\n## Dogs\n\n* lazy\n-no item\n#\n";
        let leaf = |id: &str| json!({"id": id, "children": []});
        let foxes = json!([{"id": "quick", "children": [leaf("very")]}, leaf("brown")]);
        let dogs = json!({"id": "Dogs", "children": [leaf("lazy")]});
        let expected = json!({"id": "Animals", "children": [{"id": "Foxes", "children": foxes}, dogs]});
        assert_eq!(tree(outline, "What?"), expected);
    }

    #[test]
    fn nodes_without_a_root_are_below_the_question() {
        let leaf = |id: &str| json!({"id": id, "children": []});
        assert_eq!(tree("- a\n- b", "What?"), json!({"id": "What?", "children": [leaf("a"), leaf("b")]}));
        assert_eq!(tree("Nothing is known.", "What?"), leaf("What?"));
        assert_eq!(tree("  - a\n- b\n### c", "What?")["children"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn the_depth_is_limited() {
        let outline: String = (0..1_000).map(|at| format!("{}- p{at}\n", " ".repeat(at))).collect();
        let mut deepest = &tree(&outline, "What?");
        let mut depth = 0;
        while let Some(first) = deepest["children"].get(0) {
            (deepest, depth) = (first, depth + 1);
        }
        assert_eq!(depth, DEPTH_MAX);
    }

    #[test]
    fn stored_nodes_become_a_tree_below_the_title() {
        let node = |name: &str, parent: &str, description: &str| MindMapNode {
            name: name.to_owned(),
            parent: parent.to_owned(),
            description: description.to_owned(),
        };
        assert_eq!(kept(&MindMap::default(), "Docs"), json!({}));
        let mut map = MindMap { nodes: vec![node("Foxes", "Animals", "Quick."), node("Animals", "", "")] };
        let foxes = json!({"id": "Foxes", "description": "Quick.", "children": []});
        assert_eq!(kept(&map, "Docs"), json!({"id": "Animals", "children": [foxes]}));
        map.nodes.push(node("Law", "", ""));
        let both = kept(&map, "Docs");
        assert_eq!((&both["id"], &both["children"][1]["id"]), (&json!("Docs"), &json!("Law")));
        // Even for a very long chain of nodes the depth of the tree stays within the limit.
        let nodes = (0..1_000).map(|at| node(&at.to_string(), &(at + 1).to_string(), "")).collect();
        let deep = kept(&MindMap { nodes }, "Docs");
        let (mut deepest, mut depth) = (&deep, 0);
        while let Some(first) = deepest["children"].get(0) {
            (deepest, depth) = (first, depth + 1);
        }
        assert_eq!(depth, DEPTH_MAX);
    }
}
