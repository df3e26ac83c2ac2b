//! Retrieval: searches datasets and numbers what it finds, so that answers can cite it.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use weft_core::citation::Chunk;
use weft_core::id::{ChunkId, DatasetId};
use weft_core::seam::Knowledge as _;
use weft_core::seam::knowledge::{Found, Passage, SearchRequest};
use weft_core::value::to_text;
use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, Outputs, ParamProblem, Reads, Reference,
    Result, Role, Shape, Template, ToolSpec, Value,
};

use crate::data::kept::Kept;
use crate::params::{self, Params, asks_for_something, pointer};
use crate::passages::{chunks, documents, formalized};

/// Chunks of one search, at most.
const CHUNKS_MAX: usize = 1_024;

/// The spec.
pub static SPEC: ComponentSpec = ComponentSpec {
    kind: "Retrieval",
    role: Role::Step,
    summary: "Searches datasets for passages that answer a question.",
    params_schema: || {
        params::schema(&[
            ("query", "string", "what to look for, with references"),
            ("dataset_ids", "array", "names, ids or references; all datasets when empty"),
            ("kb_ids", "array", "the older name of `dataset_ids`"),
            ("top_n", "integer", "how many passages, at most"),
            ("similarity_threshold", "number", "0 to 1: how well a passage has to match"),
            ("empty_response", "string", "what to hand on when nothing is found"),
        ])
    },
    time_limit: Some(Duration::from_secs(60)),
    measuring_only: false,
    tool: Some(ToolSpec {
        function: "search_my_dataset",
        arguments: || {
            json!({"type": "object", "additionalProperties": false, "required": ["query"], "properties": {"query": {"type": "string",
                "description": "what to look for: the keywords or the question, in the words that a good passage would use"}}})
        },
        idempotent: true,
        sources: true,
    }),
    build: |source| {
        let mut params = Params::of(source);
        let query = params.template("query", "");
        let datasets = datasets(&mut params);
        let count_max = params.count("top_n", 8, 1..=CHUNKS_MAX);
        let score_min = params.number_in("similarity_threshold", 0.0..=1.0).unwrap_or(0.2);
        let empty = params.text("empty_response").unwrap_or_default();
        params.number_in("keywords_similarity_weight", 0.0..=1.0);
        let memory = params.text("retrieval_from").as_deref() == Some("memory")
            || (datasets.is_empty() && params.get("memory_ids").is_some_and(asks_for_something));
        for (key, what) in [
            ("rerank_id", "ranking by a model"),
            ("use_kg", "searching a knowledge graph"),
            ("toc_enhance", "searching tables of contents"),
            ("cross_languages", "translating the question"),
        ] {
            params.without_effect(key, what);
        }
        if params
            .get("meta_data_filter")
            .and_then(|filter| filter.get("method"))
            .is_some_and(asks_for_something)
        {
            params.problem(
                ParamProblem::new("/meta_data_filter", "filtering by metadata isn't part of this build")
                    .help("take the filter out: without it the search would find more than it should"),
            );
        }
        let warnings = params.warnings();
        params.finish(Retrieval { query, datasets, count_max, score_min, empty, memory, warnings })
    },
};

enum Dataset {
    Named(String),
    From(Reference),
}

fn datasets(params: &mut Params<'_>) -> Vec<Dataset> {
    let key =
        if params.get("dataset_ids").is_some_and(asks_for_something) { "dataset_ids" } else { "kb_ids" };
    let mut datasets = Vec::new();
    for (place, text) in params.texts(key).into_iter().enumerate() {
        if text.contains('@') {
            let reference = params.reference_at(pointer(&[key, &place.to_string()]), &text);
            datasets.extend(reference.map(Dataset::From));
        } else if !text.trim().is_empty() {
            datasets.push(Dataset::Named(text));
        }
    }
    datasets
}

struct Retrieval {
    query: Template,
    datasets: Vec<Dataset>,
    count_max: usize,
    score_min: f64,
    empty: String,
    memory: bool,
    warnings: Vec<ParamProblem>,
}

impl Retrieval {
    fn unsupported(&self) -> Option<String> {
        self.memory.then(|| "searching long-term memory isn't part of this build".to_owned())
    }

    /// The names of the datasets; none means all.
    fn names(&self, ctx: &NodeContext) -> Result<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        for dataset in &self.datasets {
            let more = match dataset {
                Dataset::Named(name) => vec![name.clone()],
                Dataset::From(reference) => match &*ctx.inputs.json(reference) {
                    Json::Array(items) => items.iter().map(to_text).collect(),
                    value => vec![to_text(value)],
                },
            };
            for name in more.into_iter().filter(|name| !name.trim().is_empty()) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        if names.is_empty() && !self.datasets.is_empty() {
            return Err(Error::invalid("no dataset is selected: what `dataset_ids` refers to is empty")
                .help("choose a dataset, or leave `dataset_ids` empty to search all"));
        }
        Ok(names)
    }
}

impl Retrieval {
    async fn found(&self, ctx: &NodeContext, query: &str) -> Result<Vec<Chunk>> {
        let (knowledge, tenant) = (Kept(ctx), &ctx.run.tenant);
        let datasets: Vec<DatasetId> =
            knowledge.datasets(tenant, &self.names(ctx)?).await?.into_iter().map(|brief| brief.id).collect();
        let request = SearchRequest {
            datasets,
            questions: vec![query.to_owned()],
            similarity_min: self.score_min,
            vector_weight: 0.5,
            candidates_max: CHUNKS_MAX,
            limit: self.count_max,
            ..SearchRequest::default()
        };
        let Found { passages, .. } = knowledge.search(tenant, &request).await?;
        if passages.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<ChunkId> = passages.iter().map(|scored| scored.chunk.clone()).collect();
        let texts = knowledge.passages(tenant, &request.datasets, &ids).await?;
        let chunk = |Passage { chunk, .. }: Passage| {
            let scored = passages.iter().find(|scored| scored.chunk.as_str() == chunk.id);
            Chunk {
                similarity: scored.map(|scored| scored.similarity),
                vector_similarity: scored.and_then(|scored| scored.vector),
                term_similarity: scored.map(|scored| scored.term),
                ..chunk
            }
        };
        Ok(texts.into_iter().map(chunk).collect())
    }
}

#[async_trait]
impl Component for Retrieval {
    fn shape(&self) -> Shape {
        let datasets = self.datasets.iter().filter_map(|dataset| match dataset {
            Dataset::Named(_) => None,
            Dataset::From(reference) => Some(reference.clone()),
        });
        Shape {
            reads: Reads::always(self.query.references().cloned().chain(datasets)),
            main_output: "formalized_content",
            warnings: self.warnings.clone(),
            unsupported: self.unsupported(),
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        if let Some(sentence) = self.unsupported() {
            return Err(
                Error::new(weft_core::ErrorKind::Unsupported, sentence).help("choose datasets to search")
            );
        }
        let nothing = || Outputs::of("formalized_content", Value::text(self.empty.as_str())).into();
        let query = self.query.render(&ctx.inputs);
        let prefix = query.trim_start().get(..5).filter(|prefix| prefix.eq_ignore_ascii_case("user:"));
        let query = prefix.map_or(query.as_str(), |_| &query.trim_start()[5..]).trim();
        if query.is_empty() {
            return Ok(nothing());
        }
        let found = self.found(ctx, query).await?;
        if found.is_empty() {
            return Ok(nothing());
        }
        let found = ctx.run.citations.number(found);
        let mut outputs = Outputs::of("formalized_content", Value::text(formalized(&found)));
        let chunks = chunks(&found);
        outputs.set("json", chunks.clone());
        outputs.set("chunks", chunks);
        outputs.set("doc_aggs", documents(&found));
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, Stage, failure};
    use serde_json::{Value as Json, json};
    use weft_core::ErrorKind;
    use weft_core::citation::Chunk;
    use weft_core::id::DatasetId;

    fn chunk(id: &str, content: &str, document: &str) -> Chunk {
        Chunk {
            id: id.to_owned(),
            content: content.to_owned(),
            document_id: document.to_owned(),
            document_name: format!("{document}.md"),
            ..Chunk::default()
        }
    }

    #[tokio::test]
    async fn what_is_found_is_numbered_and_put_into_blocks() {
        let node = Node::new(
            "Retrieval",
            json!({"query": "user: {sys.query}", "kb_ids": ["one", "{begin@set}"], "top_n": "3", "similarity_threshold": 0.1}),
        );
        let component = node.build();
        let mut setting = Setting { query: "Q", cited: vec![chunk("0", "", "")], ..Setting::default() };
        setting.values.insert("begin@set", json!(["two", "one"]).into());
        let stage = Stage::new(&node, &*component, setting);
        *stage.outside.found.lock().unwrap() =
            vec![chunk("a", "A text", "d1"), chunk("b", "B text", "d2"), chunk("c", "C", "d2")];
        let finished = component.run(&stage.ctx).await.unwrap();
        let outputs = json!(finished.outputs);
        let expected = "ID: 1\nTitle: d1.md\nA text\n------\nID: 2\nTitle: d2.md\nB text\n------\nID: 3\nTitle: d2.md\nC";
        assert_eq!(outputs["formalized_content"], expected);
        assert_eq!(outputs["json"][1]["number"], 2);
        assert_eq!(outputs["doc_aggs"][0], json!({"doc_id": "d2", "doc_name": "d2.md", "count": 2}));
        let request = stage.outside.searched.lock().unwrap().remove(0);
        assert_eq!((request.limit, request.similarity_min), (3, 0.1));
        assert_eq!(request.questions, ["Q"]);
        assert_eq!(request.datasets, [DatasetId::from("one"), "two".into()]);
    }

    #[tokio::test]
    async fn nothing_found_and_nothing_asked() {
        let check = async |query: &'static str, searches: usize| {
            let node = Node::new("Retrieval", json!({"query": "sys.query", "empty_response": "Nothing."}));
            let component = node.build();
            let stage = Stage::new(&node, &*component, Setting { query, ..Setting::default() });
            let finished = component.run(&stage.ctx).await.unwrap();
            assert_eq!(json!(finished.outputs), json!({"formalized_content": "Nothing."}));
            assert_eq!(stage.outside.searched.lock().unwrap().len(), searches);
        };
        check("Q", 1).await;
        check("  ", 0).await;
    }

    #[tokio::test]
    async fn failures_and_problems() {
        let kind = async |params: Json| {
            failure(&Node::new("Retrieval", params), Setting { query: "Q", ..Setting::default() }).await.kind
        };
        assert_eq!(
            kind(json!({"query": "sys.query", "dataset_ids": ["missing"]})).await,
            ErrorKind::NotFound
        );
        assert_eq!(kind(json!({"query": "sys.query", "kb_ids": ["begin@set"]})).await, ErrorKind::Invalid);
        assert_eq!(
            kind(json!({"query": "sys.query", "retrieval_from": "memory"})).await,
            ErrorKind::Unsupported
        );
        let node = Node::new(
            "Retrieval",
            json!({"top_n": 0, "similarity_threshold": 2, "meta_data_filter": {"method": "auto"}, "kb_ids": ["x@y"]}),
        );
        assert_eq!(node.problems(), ["/kb_ids/0", "/top_n", "/similarity_threshold", "/meta_data_filter"]);
        let shape = Node::new("Retrieval", json!({"rerank_id": "x", "use_kg": false, "cross_languages": []}))
            .build()
            .shape();
        assert_eq!(shape.warnings.len(), 1);
    }
}
