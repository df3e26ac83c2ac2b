//! Mind maps: a subject, its branches and their details, extracted by a model document by document and merged
//! for a dataset.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_agent::structured::Schema;
use weft_core::id::{DatasetKey, DocumentId};
use weft_core::seam::DatasetStore;
use weft_core::seam::dataset_store::{Extra, StoredChunk};
use weft_core::value::plural_with;
use weft_core::{Error, Json, Result};

use crate::ask::{Ask, Step, ask_json, passes, unexpected};
use crate::graph::extract::packs;
use crate::graph::gather::DOCUMENTS_AT_ONCE;
use crate::graph::{DESCRIPTION_MAX, NAME_MAX, cut, folded};

/// Instructions for a model that turns passages into knowledge of a fixed form.
pub const FRAME: &str = include_str!("prompts/compile.md");
/// Instructions for extracting a mind map.
pub const TASK: &str = include_str!("prompts/mind_map.md");
/// Maximum number of nodes of a map: more would not be readable, and a model that falls into a loop is stopped here.
pub const NODES_MAX: usize = 4_000;
/// Maximum number of parts of one document about which a model is asked: about as many as a book of five
/// hundred pages has.
pub const PARTS_MAX: usize = 200;

/// A node of a mind map, which names its parent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MindMapNode {
    /// A few words.
    pub name: String,
    /// The name of its parent; the subject has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub parent: String,
    /// What is said about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// The mind map of one document, as stored with it, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MindMap {
    /// Its nodes, each name once, in the order in which they were found.
    pub nodes: Vec<MindMapNode>,
}

impl MindMap {
    /// Returns the nodes as they are drawn, each after its parent and with its depth.
    pub fn outline(&self) -> Vec<(usize, &MindMapNode)> {
        let places: HashMap<String, usize> =
            self.nodes.iter().enumerate().map(|(at, node)| (folded(&node.name), at)).collect();
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut roots = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let above = places.get(&folded(&node.parent)).filter(|above| **above != at);
            match above.and_then(|above| below.get_mut(*above)) {
                Some(children) => children.push(at),
                None => roots.push(at),
            }
        }
        let mut is_drawn = vec![false; self.nodes.len()];
        let mut outline = Vec::with_capacity(self.nodes.len());
        // Nodes in a cycle have no root: the first of them is drawn as one.
        for root in roots.into_iter().chain(0..self.nodes.len()) {
            let mut open = vec![(0, root)];
            while let Some((depth, at)) = open.pop() {
                let (Some(node), Some(drawn)) = (self.nodes.get(at), is_drawn.get_mut(at)) else { continue };
                if std::mem::replace(drawn, true) {
                    continue;
                }
                outline.push((depth, node));
                let children = below.get(at).map(Vec::as_slice).unwrap_or_default();
                open.extend(children.iter().rev().map(|child| (depth + 1, *child)));
            }
        }
        outline
    }
}

/// Collects nodes: the same name is one node, wherever it was found.
#[derive(Debug, Default)]
struct CollectedNodes {
    nodes: IndexMap<String, MindMapNode>,
    left_out: usize,
}

impl CollectedNodes {
    fn add(&mut self, nodes: impl IntoIterator<Item = MindMapNode>) {
        for node in nodes {
            let is_full = self.nodes.len() >= NODES_MAX;
            let name = folded(&node.name);
            match self.nodes.get_mut(&name) {
                Some(known) => {
                    for (mine, others) in
                        [(&mut known.parent, node.parent), (&mut known.description, node.description)]
                    {
                        if mine.is_empty() {
                            *mine = others;
                        }
                    }
                }
                None if is_full => self.left_out += 1,
                None => drop(self.nodes.insert(name, node)),
            }
        }
    }

    /// Returns a note if there were too many nodes.
    fn note(&self) -> Option<String> {
        let left_out = || plural_with(self.left_out, "node", ["was", "were"]);
        (self.left_out > 0)
            .then(|| format!("{} left out of the mind map: it has at most {NODES_MAX}", left_out()))
    }

    fn finish(self) -> MindMap {
        MindMap { nodes: self.nodes.into_values().collect() }
    }
}

/// Returns the mind map of a dataset, merged from those of its documents, and a note on what is missing from it.
///
/// # Errors
/// When the store cannot be read.
pub async fn of_dataset(store: &dyn DatasetStore, dataset: &DatasetKey) -> Result<(MindMap, Option<String>)> {
    let mut collected = CollectedNodes::default();
    let mut after: Option<DocumentId> = None;
    loop {
        let page = store.extras(dataset, Extra::MindMap, after.as_ref(), DOCUMENTS_AT_ONCE).await?;
        let is_last = (page.len() as u64) < DOCUMENTS_AT_ONCE;
        after = page.last().map(|(id, _)| id.clone());
        for (_, kept) in page {
            // A stored map that cannot be read counts as empty; processing the document again rebuilds it.
            let map: MindMap = serde_json::from_value(kept).unwrap_or_default();
            collected.add(map.nodes);
        }
        if is_last {
            let note = collected.note();
            return Ok((collected.finish(), note));
        }
    }
}

/// Extracts the mind map of a document, with notes on what is missing from it. Parts with unusable answers
/// are left out as long as others are usable; if none is, that is the inner error. So is a temporary failure.
///
/// # Errors
/// When the whole work has ended.
pub(crate) async fn extract(
    model: &dyn Ask,
    chunks: &[StoredChunk],
) -> Result<Result<(MindMap, Vec<String>)>> {
    let instructions = format!("{FRAME}\n{}\n\n{}", TASK.trim_end(), Schema::new(form())?.instructions());
    let parts = packs(&chunks.iter().enumerate().map(passage).collect::<Vec<_>>());
    let (mut collected, mut notes) = (CollectedNodes::default(), Vec::new());
    if parts.len() > PARTS_MAX {
        let all = parts.len();
        notes.push(format!("the mind map covers only the first {PARTS_MAX} of {all} parts of the document"));
    }
    let mut usable = false;
    let mut last: Option<Error> = None;
    for (number, text) in parts.into_iter().take(PARTS_MAX).enumerate() {
        let answer = ask_json(model, Step::MindMap, &instructions, &text).await?;
        match answer.and_then(|json| read(&json)) {
            Ok(nodes) => {
                usable = true;
                collected.add(nodes);
            }
            Err(error) if passes(error.kind) => return Ok(Err(error)),
            Err(error) => {
                notes.push(format!("cannot draw a mind map of part {}: {}", number + 1, error.full()));
                last = Some(error);
            }
        }
    }
    match last {
        Some(error) if !usable => Ok(Err(error)),
        _ => {
            notes.extend(collected.note());
            Ok(Ok((collected.finish(), notes)))
        }
    }
}

/// Formats a chunk as the instructions describe it: with its number and its headings.
fn passage((place, chunk): (usize, &StoredChunk)) -> String {
    format!("[{}] {}\n{}", place + 1, chunk.headings.join(" › "), chunk.content)
}

/// Returns the schema of an answer. Sources are requested because a model that has to name them keeps to the
/// passages.
fn form() -> Json {
    let text = || json!({"type": "string"});
    let sources = json!({"type": "array", "items": {"type": "integer"}});
    let node = json!({"name": text(), "parent": text(), "description": text(), "sources": sources});
    let node = json!({"type": "object", "properties": node, "required": ["name"]});
    json!({"type": "object", "required": ["items"], "properties": {"items": {"type": "array", "items": node}}})
}

/// Parses an answer, ignoring items that are not nodes.
fn read(answer: &Json) -> Result<Vec<MindMapNode>> {
    let items = answer.get("items").and_then(Json::as_array);
    let items = items.ok_or_else(|| unexpected("the nodes of a mind map"))?;
    let text = |item: &Json, key: &str, max: usize| {
        let text = item.get(key).and_then(Json::as_str).unwrap_or_default();
        cut(&text.split_whitespace().collect::<Vec<_>>().join(" "), max)
    };
    let node = |item: &Json| {
        let node = MindMapNode {
            name: text(item, "name", NAME_MAX),
            parent: text(item, "parent", NAME_MAX),
            description: text(item, "description", DESCRIPTION_MAX),
        };
        (!node.name.is_empty()).then_some(node)
    };
    Ok(items.iter().filter_map(node).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(nodes: &[(&str, &str)]) -> MindMap {
        let node = |(name, parent): &(&str, &str)| MindMapNode {
            name: (*name).to_owned(),
            parent: (*parent).to_owned(),
            ..MindMapNode::default()
        };
        MindMap { nodes: nodes.iter().map(node).collect() }
    }

    fn drawn(map: &MindMap) -> Vec<(usize, &str)> {
        map.outline().into_iter().map(|(depth, node)| (depth, node.name.as_str())).collect()
    }

    #[test]
    fn nodes_are_listed_below_their_parent() {
        let animals = map(&[("quick", "FOXES"), ("Animals", ""), ("Dogs", "animals"), ("Foxes", "Animals")]);
        assert_eq!(drawn(&animals), [(0, "Animals"), (1, "Dogs"), (1, "Foxes"), (2, "quick")]);
        assert_eq!(drawn(&map(&[("a", "nowhere"), ("b", "b")])), [(0, "a"), (0, "b")]);
    }

    #[test]
    fn nodes_in_a_cycle_are_listed_once() {
        let ring = map(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "b"), ("e", "")]);
        assert_eq!(drawn(&ring), [(0, "e"), (0, "a"), (1, "c"), (2, "b"), (3, "d")]);
    }

    #[test]
    fn a_long_chain_causes_no_deep_recursion() {
        let nodes: Vec<(String, String)> =
            (0..NODES_MAX).map(|at| (at.to_string(), (at + 1).to_string())).collect();
        let nodes: Vec<(&str, &str)> = nodes.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let chain = map(&nodes);
        assert_eq!(chain.outline().last().map(|(depth, _)| *depth), Some(NODES_MAX - 1));
    }

    #[test]
    fn nodes_of_one_name_are_merged_and_the_map_is_bounded() {
        let mut collected = CollectedNodes::default();
        collected
            .add(read(&json!({"items": [{"name": " Foxes "}, {"name": " "}, 7, {"parent": "x"}]})).unwrap());
        collected.add(
            read(&json!({"items": [{"name": "foxes", "parent": "Animals", "description": "Quick."}]}))
                .unwrap(),
        );
        assert_eq!(collected.note(), None);
        collected.add(map(&[("Foxes", "Dogs")]).nodes);
        let many =
            (0..NODES_MAX + 2).map(|at| MindMapNode { name: at.to_string(), ..MindMapNode::default() });
        collected.add(many);
        assert!(collected.note().unwrap().contains("3 nodes were left out"));
        let found = collected.finish();
        assert_eq!(found.nodes.len(), NODES_MAX);
        let foxes = &found.nodes[0];
        assert_eq!((foxes.name.as_str(), foxes.parent.as_str()), ("Foxes", "Animals"));
        assert_eq!(foxes.description, "Quick.");
        assert!(read(&json!({"nodes": []})).is_err());
    }
}
