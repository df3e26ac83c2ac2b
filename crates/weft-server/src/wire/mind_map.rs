//! Mind maps: a tree from the outline that a model writes.

use std::iter::Peekable;

use serde_json::{Value as Json, json};

/// Points within points, at most; what is deeper is on the last level.
const DEPTH_MAX: usize = 8;

/// Where a line of an outline stands: below headings of a smaller level, and below items that begin further left.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Place {
    Heading(usize),
    Item(usize),
}

/// The tree of an outline in Markdown, of its headings and the items of its lists. Without one point above all others that
/// is what was asked.
pub fn tree(outline: &str, asked: &str) -> Json {
    let mut points = points(outline).into_iter().peekable();
    let mut all = below(&mut points, 0);
    if all.len() == 1 { all.swap_remove(0) } else { json!({"id": asked, "children": all}) }
}

/// The points with their levels.
fn points(outline: &str) -> Vec<(usize, &str)> {
    let mut above: Vec<Place> = Vec::new();
    let mut points = Vec::new();
    for (place, text) in outline.lines().filter_map(point) {
        while above.pop_if(|last| *last >= place).is_some() {}
        points.push((above.len().min(DEPTH_MAX), text));
        above.push(place);
    }
    points
}

/// What a line says, if it is a heading or an item.
fn point(line: &str) -> Option<(Place, &str)> {
    let text = line.trim_start();
    let level = text.len() - text.trim_start_matches('#').len();
    let (place, said) = match level {
        0 => (Place::Item(line.len() - text.len()), text.strip_prefix(['-', '*', '+'])?.strip_prefix(' ')?),
        _ => (Place::Heading(level), &text[level..]),
    };
    let said = said.trim().trim_matches('*').trim();
    (!said.is_empty()).then_some((place, said))
}

fn below<'a>(points: &mut Peekable<impl Iterator<Item = (usize, &'a str)>>, level: usize) -> Vec<Json> {
    let mut all = Vec::new();
    while let Some((_, text)) = points.next_if(|(at, _)| *at >= level) {
        all.push(json!({"id": text, "children": below(points, level + 1)}));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_and_items_are_points() {
        let outline = "Here it is:\n# **Animals**\n## Foxes\n- quick\n  - very\n- brown\n## Dogs\n\n* lazy\n-no item\n#\n";
        let leaf = |id: &str| json!({"id": id, "children": []});
        let foxes = json!([{"id": "quick", "children": [leaf("very")]}, leaf("brown")]);
        let dogs = json!({"id": "Dogs", "children": [leaf("lazy")]});
        let expected = json!({"id": "Animals", "children": [{"id": "Foxes", "children": foxes}, dogs]});
        assert_eq!(tree(outline, "What?"), expected);
    }

    #[test]
    fn what_has_no_root_is_below_the_question() {
        let leaf = |id: &str| json!({"id": id, "children": []});
        assert_eq!(tree("- a\n- b", "What?"), json!({"id": "What?", "children": [leaf("a"), leaf("b")]}));
        assert_eq!(tree("Nothing is known.", "What?"), leaf("What?"));
        assert_eq!(tree("  - a\n- b\n### c", "What?")["children"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn depth_has_an_end() {
        let outline: String = (0..1_000).map(|at| format!("{}- p{at}\n", " ".repeat(at))).collect();
        let mut deepest = &tree(&outline, "What?");
        let mut depth = 0;
        while let Some(first) = deepest["children"].get(0) {
            (deepest, depth) = (first, depth + 1);
        }
        assert_eq!(depth, DEPTH_MAX);
    }
}
