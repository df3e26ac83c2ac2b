//! Builds tables of contents, graphs and mind maps while a document is being processed.

use std::time::Duration;

use serde_json::json;
use weft_core::id::ChunkId;
use weft_core::seam::ModelDirectory;
use weft_core::seam::dataset_store::{Document, Extra, Settings, StoredChunk};
use weft_core::{Json, Result, async_trait};

use crate::ask::{Ask, Direct, Step, passes};
use crate::contents::{self, build};
use crate::graph::extract::{ExtractionMethod, extract};
use crate::graph::refine::{reports, same_names};
use crate::graph::{KINDS, NAME_MAX, cut};
use crate::ingest::{Addition, MadeAddition};
use crate::mind_map;

/// Maximum number of entity kinds that settings may name.
// They are part of every request to a model.
const KINDS_MAX: usize = 30;

/// Pauses before a model that failed temporarily is asked again.
const PAUSES: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(30)];

/// Longest pause in the middle of a document.
const PAUSE_MAX: Duration = Duration::from_secs(120);

/// A model that is asked again after a temporary failure. A document needs many requests, and a single one
/// without an answer would lose the results of all the others.
pub(crate) struct Patient<'a>(Direct<'a>);

#[async_trait]
impl Ask for Patient<'_> {
    async fn ask(&self, step: Step, instructions: &str, question: &str) -> Result<String> {
        for pause in PAUSES {
            match self.0.ask(step, instructions, question).await {
                Err(error) if passes(error.kind) => {
                    // A provider that says when to retry is not asked earlier.
                    let asked = error.retry_after.unwrap_or_default().min(PAUSE_MAX);
                    tokio::time::sleep(pause.max(asked)).await;
                }
                answer => return answer,
            }
        }
        self.0.ask(step, instructions, question).await
    }

    async fn now_ms(&self) -> Result<i64> {
        self.0.now_ms().await
    }
}

pub(crate) fn model<'a>(models: &'a dyn ModelDirectory, document: &'a Document) -> Patient<'a> {
    let llm_id = document.settings.get("llm_id").and_then(Json::as_str).unwrap_or_default();
    // Nothing that is built from a document depends on the time.
    Patient(Direct { models, tenant: &document.key.dataset.tenant, llm_id, now_ms: document.updated_ms })
}

/// The table of contents of a document, requested by `toc_extraction`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contents;

#[async_trait]
impl Addition for Contents {
    fn extra(&self) -> Extra {
        Extra::Contents
    }

    fn wanted(&self, settings: &Settings) -> bool {
        settings.get("toc_extraction").and_then(Json::as_bool) == Some(true)
    }

    /// Builds it from the headings that the chunks are under, or with a model where there are none.
    async fn make(
        &self,
        models: &dyn ModelDirectory,
        document: &Document,
        chunks: &[StoredChunk],
    ) -> Result<MadeAddition> {
        let mut entries =
            build::from_paths(chunks.iter().map(|chunk| (&chunk.id, chunk.headings.as_slice())));
        let mut notes = Vec::new();
        if entries.is_empty() && !chunks.is_empty() {
            if let Some(note) = nobody_writes(models, document)? {
                return Ok(MadeAddition { value: Json::Null, notes: vec![note] });
            }
            let passages: Vec<(ChunkId, String)> =
                chunks.iter().map(|chunk| (chunk.id.clone(), chunk.content.clone())).collect();
            (entries, notes) = build::by_model(&model(models, document), &passages).await??;
        }
        let value = if entries.is_empty() { Json::Null } else { contents::to_json(&entries) };
        Ok(MadeAddition { value, notes })
    }
}

/// The knowledge graph of a document, requested by `graphrag.use_graphrag`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Graph;

#[async_trait]
impl Addition for Graph {
    fn extra(&self) -> Extra {
        Extra::Graph
    }

    fn wanted(&self, settings: &Settings) -> bool {
        settings.get("graphrag").and_then(|graph| graph.get("use_graphrag")).and_then(Json::as_bool)
            == Some(true)
    }

    async fn make(
        &self,
        models: &dyn ModelDirectory,
        document: &Document,
        chunks: &[StoredChunk],
    ) -> Result<MadeAddition> {
        let settings = document.settings.get("graphrag");
        let method = settings.and_then(|graph| graph.get("method")).and_then(Json::as_str);
        let kinds = kinds(settings);
        let passages: Vec<String> = chunks.iter().map(|chunk| chunk.content.clone()).collect();
        let method = ExtractionMethod::parse(method.unwrap_or_default());
        if let Some(note) = nobody_writes(models, document)? {
            return Ok(MadeAddition { value: Json::Null, notes: vec![note] });
        }
        let asked = model(models, document);
        let (mut graph, mut notes) = extract(&asked, method, &kinds, &passages).await??;
        let wants =
            |key: &str| settings.and_then(|graph| graph.get(key)).and_then(Json::as_bool) == Some(true);
        // Before the communities, which are built from the remaining entities.
        if wants("resolution") {
            notes.extend(same_names(&asked, &mut graph).await??);
        }
        if wants("community") {
            notes.extend(reports(&asked, &mut graph).await??);
        }
        let value = if graph.entities.is_empty() { Json::Null } else { json!(graph) };
        Ok(MadeAddition { value, notes })
    }
}

/// The mind map of a document, requested by `mindmap.use_mindmap`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MindMap;

#[async_trait]
impl Addition for MindMap {
    fn extra(&self) -> Extra {
        Extra::MindMap
    }

    fn wanted(&self, settings: &Settings) -> bool {
        settings.get("mindmap").and_then(|map| map.get("use_mindmap")).and_then(Json::as_bool) == Some(true)
    }

    async fn make(
        &self,
        models: &dyn ModelDirectory,
        document: &Document,
        chunks: &[StoredChunk],
    ) -> Result<MadeAddition> {
        if let Some(note) = nobody_writes(models, document)? {
            return Ok(MadeAddition { value: Json::Null, notes: vec![note] });
        }
        let (map, notes) = mind_map::extract(&model(models, document), chunks).await??;
        let value = if map.nodes.is_empty() { Json::Null } else { json!(map) };
        Ok(MadeAddition { value, notes })
    }
}

/// Returns a note if the document's model cannot write but only quotes.
pub(crate) fn nobody_writes(models: &dyn ModelDirectory, document: &Document) -> Result<Option<String>> {
    let llm_id = document.settings.get("llm_id").and_then(Json::as_str).unwrap_or_default();
    let model = models.resolve(&document.key.dataset.tenant, llm_id)?;
    let note = "a table of contents, a graph and a mind map need a language model, and none is configured";
    Ok((!model.info().writes()).then(|| note.to_owned()))
}

fn kinds(settings: Option<&Json>) -> Vec<String> {
    let named = settings.and_then(|graph| graph.get("entity_types")).and_then(Json::as_array);
    let named = named.into_iter().flatten().filter_map(Json::as_str).map(|kind| cut(kind, NAME_MAX));
    let named: Vec<String> = named.filter(|kind| !kind.is_empty()).take(KINDS_MAX).collect();
    if named.is_empty() { KINDS.map(str::to_owned).to_vec() } else { named }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_are_enabled_by_settings() {
        let settings = |json: Json| json.as_object().cloned().unwrap();
        let check = |json: Json, expected: [bool; 3]| {
            let settings = settings(json);
            let wanted = [Contents.wanted(&settings), Graph.wanted(&settings), MindMap.wanted(&settings)];
            assert_eq!(wanted, expected, "{settings:?}");
        };
        check(json!({}), [false; 3]);
        check(json!({"toc_extraction": true, "graphrag": {"use_graphrag": false}}), [true, false, false]);
        check(json!({"toc_extraction": "x", "graphrag": {"use_graphrag": true}}), [false, true, false]);
        check(json!({"mindmap": {"use_mindmap": true}}), [false, false, true]);
        check(json!({"mindmap": {"use_mindmap": "yes"}}), [false; 3]);
    }

    #[test]
    fn entity_kinds_come_from_settings_or_defaults() {
        assert_eq!(kinds(None), KINDS);
        assert_eq!(kinds(Some(&json!({"entity_types": [" law ", "", 7]}))), ["law"]);
    }
}
