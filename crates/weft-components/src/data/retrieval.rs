//! The Retrieval component: searches datasets and numbers what it finds, so that answers can cite it.

mod kept;
mod model;
mod recollection;
pub(crate) mod search;

use std::time::Duration;

use weft_core::citation::{Chunk, Cited};
use weft_core::context::Signal;
use weft_core::seam::knowledge::Passage;
use weft_core::{
    Component, ComponentSpec, Finished, Json, NodeContext, Outputs, ParamProblem, Reads, Result, Role, Shape,
    Template, ToolSpec, Value, async_trait,
};
use weft_knowledge::retrieve::Retrieved;

use crate::data::retrieval::recollection::{MEMORY_IDS, MemorySearch, USER_ID};
use crate::data::retrieval::search::{
    CHOOSE, CROSS_LANGUAGES, DATASET_IDS, DOC_IDS, DatasetSearch, KB_VARS, KEYWORD,
    KEYWORDS_SIMILARITY_WEIGHT, LLM_ID, META_DATA_FILTER, RERANK_ID, SIMILARITY_THRESHOLD, TOC_ENHANCE,
    TOP_K, TOP_N, USE_KG,
};
use crate::params::{self, Field, FieldGroup, Params, Widget, choice, fields};
use crate::passages::{PassageBlock, blocks, chunks, documents};

static QUERY: Field<Template> = Field::template("query", "the search query")
    .by_model("what to look for: the keywords or the question, in the words that a good passage would use");
static EMPTY_RESPONSE: Field<String> =
    Field::text("empty_response", "the text to return when nothing is found").widget(Widget::Lines);
static RETRIEVAL_FROM: Field<String> = Field::text(
    "retrieval_from",
    "what to search; if empty, the datasets, or the memories if no dataset is named",
)
.one_of(&[
    choice("", "datasets, or memories if no dataset is named"),
    choice("dataset", ""),
    choice("memory", ""),
]);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Retrieval",
    role: Role::Step,
    summary: "Searches datasets for passages that answer a question.",
    fields: &[
        fields(&[&QUERY, &DATASET_IDS, &KB_VARS, &DOC_IDS, &META_DATA_FILTER, &EMPTY_RESPONSE]),
        FieldGroup {
            title: "Search",
            fields: &[
                &TOP_N,
                &TOP_K,
                &SIMILARITY_THRESHOLD,
                &KEYWORDS_SIMILARITY_WEIGHT,
                &RERANK_ID,
                &CROSS_LANGUAGES,
                &KEYWORD,
                &TOC_ENHANCE,
                &USE_KG,
                &LLM_ID,
                &RETRIEVAL_FROM,
                &MEMORY_IDS,
                &USER_ID,
            ],
        },
    ],
    outputs: &[
        weft_core::OutputSpec::new("formalized_content", "string", "the passages as text for prompts"),
        weft_core::OutputSpec::new("json", "array", "the passages"),
        weft_core::OutputSpec::new("chunks", "array", "the same as `json`"),
        weft_core::OutputSpec::new("doc_aggs", "array", "the number of passages per document"),
        weft_core::OutputSpec::new("content", "string", "the same as `formalized_content`"),
        weft_core::OutputSpec::new("filter", "any", "the metadata filter that was applied"),
        weft_core::OutputSpec::new("notes", "array", "what could not be done as requested"),
    ],
    // A search may ask a model several times.
    time_limit: Some(Duration::from_secs(600)),
    measuring_only: false,
    tool: Some(ToolSpec { function: "search_my_dataset", idempotent: true, sources: true }),
    build: |source| {
        let mut params = Params::of(source);
        let query = params.take(&QUERY);
        let search = DatasetSearch::of(&mut params);
        let empty = params.take(&EMPTY_RESPONSE);
        let memory = MemorySearch::of(&mut params);
        let remembered = match params.take(&RETRIEVAL_FROM).as_str() {
            "memory" => true,
            "dataset" => false,
            _ => search.chooses_nothing() && !memory.chooses_nothing(),
        };
        params.finish(Retrieval { query, search, empty, memory: remembered.then_some(memory) })
    },
};

struct Retrieval {
    query: Template,
    search: DatasetSearch,
    empty: String,
    /// Searched instead of the datasets.
    memory: Option<MemorySearch>,
}

fn block<'a>(cited: &'a Cited, passage: &'a Passage) -> PassageBlock<'a> {
    PassageBlock { cited, metadata: &passage.metadata, tokens: passage.tokens }
}

impl Retrieval {
    /// Published canvases leave the choice to the user who loads them, so this is not an error before they run.
    fn warnings(&self) -> Vec<ParamProblem> {
        if let Some(memory) = &self.memory {
            return memory.warning().into_iter().collect();
        }
        let unchosen = self.search.chooses_nothing();
        let warning =
            || ParamProblem::new("/dataset_ids", "names no dataset, so every search will fail").help(CHOOSE);
        unchosen.then(warning).into_iter().chain(self.search.warnings()).collect()
    }

    fn outputs(&self, ctx: &NodeContext, retrieved: Retrieved) -> Outputs {
        let Retrieved { passages, filter, notes, .. } = retrieved;
        let found: Vec<Chunk> = passages.iter().map(|passage| passage.chunk.clone()).collect();
        ctx.run.citations.note_search();
        let found = ctx.run.citations.number(found);
        let text = if found.is_empty() {
            Value::text(self.empty.as_str())
        } else {
            Value::text(blocks(found.iter().zip(&passages).map(|(cited, passage)| block(cited, passage))))
        };
        let mut outputs = Outputs::of("formalized_content", text.clone());
        let chunks = chunks(&found);
        outputs.set("json", chunks.clone());
        outputs.set("chunks", chunks);
        outputs.set("doc_aggs", documents(&found));
        outputs.set("content", text);
        if let Some(word) = filter.word() {
            outputs.set("filter", Json::from(word));
        }
        if !notes.is_empty() {
            outputs.set("notes", Json::from(notes));
        }
        outputs
    }
}

#[async_trait]
impl Component for Retrieval {
    fn shape(&self) -> Shape {
        let query = self.query.references().cloned();
        let shape = match &self.memory {
            Some(memory) => {
                let reads = Reads::always(query.chain(memory.references().cloned()));
                Shape { reads, memories: memory.named(), ..Shape::default() }
            }
            None => Shape {
                reads: Reads::always(query.chain(self.search.references().cloned())),
                models: self.search.models(),
                rerankers: self.search.rerankers(),
                datasets: self.search.named(),
                ..Shape::default()
            },
        };
        let so = "nothing is searched for";
        let unfilled =
            params::unfilled(&QUERY, &self.query, so, "enter a search query, such as `{sys.query}`");
        let unfilled = unfilled.into_iter().collect();
        Shape { main_output: "formalized_content", warnings: self.warnings(), unfilled, ..shape }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        // The question is sent to models that embed and rewrite it.
        let question = ctx.run.masks.text(&self.query.render(&ctx.inputs)?).into_owned();
        if let Some(memory) = &self.memory {
            let found = memory.recalled(ctx, &question, &self.search).await?;
            ctx.run.citations.note_search();
            return Ok(recollection::outputs(found, &self.empty).into());
        }
        let retrieved = self.search.retrieved(ctx, question).await;
        // After a failed search, too, a citation mark in the answer leads to no source.
        let retrieved = retrieved.inspect_err(|_| ctx.run.citations.note_search())?;
        for note in &retrieved.notes {
            ctx.signal(Signal::Warn(note.clone())).await?;
        }
        Ok(self.outputs(ctx, retrieved).into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, Stage, failure};
    use serde_json::{Value as Json, json};
    use weft_core::ErrorKind;
    use weft_core::citation::Chunk;
    use weft_core::context::Signal;
    use weft_core::id::DatasetId;
    use weft_core::seam::knowledge::TokensRead;

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
    async fn passages_are_numbered_and_formatted_as_blocks() {
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
        assert_eq!(outputs["chunks"], outputs["json"]);
        assert_eq!(outputs["content"], outputs["formalized_content"]);
        assert_eq!(outputs["doc_aggs"][0], json!({"doc_id": "d2", "doc_name": "d2.md", "count": 2}));
        let request = stage.outside.searched.lock().unwrap().remove(0);
        assert_eq!((request.limit, request.similarity_min), (3, 0.1));
        assert_eq!(request.questions, ["Q"]);
        assert_eq!(request.datasets, [DatasetId::from("one"), "two".into()]);
    }

    #[tokio::test]
    async fn tokens_used_by_a_search_are_reported() {
        let node = Node::new("Retrieval", json!({"query": "sys.query", "kb_ids": ["one"]}));
        let component = node.build();
        let mut stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
        *stage.outside.read.lock().unwrap() = [("embedder@test", 3), ("ranker@test", 40)]
            .map(|(model, tokens)| TokensRead { model: model.to_owned(), tokens })
            .into();
        component.run(&stage.ctx).await.unwrap();
        let told = stage.signals().into_iter().filter_map(|signal| match signal {
            Signal::Used(used) => Some((used.model.to_string(), used.usage.prompt_tokens, used.usage.calls)),
            _ => None,
        });
        let expected = [("embedder@test".to_owned(), 3, 1), ("ranker@test".to_owned(), 40, 1)];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[tokio::test]
    async fn no_hits_and_an_empty_question_give_no_passages() {
        let check = async |query: &'static str, searches: usize| {
            let node = Node::new(
                "Retrieval",
                json!({"query": "sys.query", "empty_response": "Nothing.", "dataset_ids": "*"}),
            );
            let component = node.build();
            let stage = Stage::new(&node, &*component, Setting { query, ..Setting::default() });
            let finished = component.run(&stage.ctx).await.unwrap();
            let expected = json!({"formalized_content": "Nothing.", "content": "Nothing.", "json": [], "chunks": [], "doc_aggs": []});
            assert_eq!(json!(finished.outputs), expected);
            assert_eq!(stage.outside.searched.lock().unwrap().len(), searches);
            assert!(stage.ctx.run.citations.was_searched());
        };
        check("Q", 1).await;
        check("  ", 0).await;
    }

    #[tokio::test]
    async fn parameters_reach_the_search() {
        let params = json!({
            "query": "sys.query", "dataset_ids": ["d"], "kb_vars": ["begin@set"], "top_n": 3, "top_k": 50,
            "similarity_threshold": 0.4, "keywords_similarity_weight": 0.75, "rerank_id": "r",
            "meta_data_filter": {"method": "manual", "logic": "or", "manual": [
                {"key": "year", "op": "≥", "value": "{Agent:A@year}"}, {"key": "kind", "op": "is", "value": "law"}]},
        });
        let node = Node::new("Retrieval", params);
        let component = node.build();
        let mut setting = Setting { query: "Q", ..Setting::default() };
        setting.values.insert("begin@set", json!(["e", "d"]).into());
        setting.values.insert("Agent:A@year", json!(1999).into());
        let stage = Stage::new(&node, &*component, setting);
        component.run(&stage.ctx).await.unwrap();
        let request = json!(stage.outside.searched.lock().unwrap().remove(0));
        let expected = json!({
            "datasets": ["d", "e"], "questions": ["Q"], "similarity_min": 0.4, "vector_weight": 0.25,
            "candidates_max": 50, "reranker": "r", "reranked_max": 64, "offset": 0, "limit": 3,
            "filter": {"logic": "or", "conditions": [
                {"key": "year", "operator": "≥", "value": 1999}, {"key": "kind", "operator": "=", "value": "law"}]},
        });
        assert_eq!(request, expected);
    }

    #[tokio::test]
    async fn as_many_candidates_as_editors_offer_are_as_many_as_a_search_has() {
        let asked = |top_k: u64| json!({"query": "sys.query", "dataset_ids": ["d"], "top_k": top_k});
        let node = Node::new("Retrieval", asked(2_048));
        let component = node.build();
        let stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
        component.run(&stage.ctx).await.unwrap();
        assert_eq!(stage.outside.searched.lock().unwrap().remove(0).candidates_max, 1_024);
        assert_eq!(Node::new("Retrieval", asked(2_049)).problems(), ["/top_k"]);
    }

    #[tokio::test]
    async fn a_method_of_the_filter_means_the_same_in_every_spelling() {
        let params = json!({"query": "sys.query", "dataset_ids": ["d"], "meta_data_filter": {
            "method": " Manual", "manual": [{"key": "year", "op": "≥", "value": "{Agent:A@year}"}]}});
        let node = Node::new("Retrieval", params);
        let component = node.build();
        let mut setting = Setting { query: "Q", ..Setting::default() };
        setting.values.insert("Agent:A@year", json!(1999).into());
        let stage = Stage::new(&node, &*component, setting);
        component.run(&stage.ctx).await.unwrap();
        let request = json!(stage.outside.searched.lock().unwrap().remove(0));
        assert_eq!(request["filter"]["conditions"][0]["value"], 1999);
        let params =
            json!({"query": "sys.query", "dataset_ids": ["d"], "meta_data_filter": {"method": "Auto"}});
        let component = Node::new("Retrieval", params).build();
        assert_eq!(component.shape().models, [("/llm_id".to_owned(), String::new())]);
    }

    #[tokio::test]
    async fn a_search_continues_without_a_missing_reranker_with_a_notice() {
        let params = json!({"query": "sys.query", "dataset_ids": ["d"], "rerank_id": "missing"});
        let node = Node::new("Retrieval", params);
        let component = node.build();
        assert_eq!(component.shape().rerankers, [("/rerank_id".to_owned(), "missing".to_owned())]);
        let mut stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
        let outputs = json!(component.run(&stage.ctx).await.unwrap().outputs);
        assert_eq!(stage.outside.searched.lock().unwrap().remove(0).reranker, "");
        assert_eq!(outputs["notes"], json!(["ranked without `missing`"]));
        let warned =
            |signal: &Signal| matches!(signal, Signal::Warn(text) if text == "ranked without `missing`");
        assert!(stage.signals().iter().any(warned));
    }

    #[tokio::test]
    async fn documents_are_chosen_by_id_or_by_reference() {
        let documents = async |doc_ids: Json, given: Json| {
            let node = Node::new(
                "Retrieval",
                json!({"query": "sys.query", "dataset_ids": ["d"], "doc_ids": doc_ids}),
            );
            let component = node.build();
            let setting = Setting { query: "Q", ..Setting::values([("begin@documents", given)]) };
            let stage = Stage::new(&node, &*component, setting);
            component.run(&stage.ctx).await.unwrap();
            json!(stage.outside.searched.lock().unwrap().remove(0))["documents"].clone()
        };
        assert_eq!(documents(json!(["a"]), json!(null)).await, json!(["a"]));
        assert_eq!(documents(json!([]), json!(["x"])).await, json!(null));
        let by_reference = json!(["{begin@documents}"]);
        assert_eq!(documents(by_reference.clone(), json!(null)).await, json!(null));
        assert_eq!(documents(by_reference.clone(), json!("")).await, json!(null));
        assert_eq!(documents(by_reference.clone(), json!("x")).await, json!(["x"]));
        // Documents were chosen, and none was left: that does not mean all of them.
        assert_eq!(documents(by_reference.clone(), json!([])).await, json!([]));
        assert_eq!(
            documents(json!(["a", "{begin@documents}"]), json!(["x", "y"])).await,
            json!(["a", "x", "y"])
        );
    }

    #[tokio::test]
    async fn a_model_assists_the_search_and_its_failures_are_reported() {
        let params = json!({"query": "sys.query", "dataset_ids": ["*"],
            "cross_languages": ["German", "Chinese"], "keyword": true});
        let node = Node::new("Retrieval", params);
        let component = node.build();
        assert_eq!(component.shape().models, [("/llm_id".to_owned(), String::new())]);
        let mut stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
        stage.answer_text("```json\n[\"F\", \"问\"]\n```").answer_text("no idea");
        let outputs = json!(component.run(&stage.ctx).await.unwrap().outputs);
        let request = stage.outside.searched.lock().unwrap().remove(0);
        assert_eq!(request.questions, ["Q", "F", "问"]);
        assert!(request.keywords.is_empty());
        let note = outputs["notes"][0].as_str().unwrap();
        assert!(note.contains("without further keywords"), "{note}");
        let warned = |signal: &Signal| matches!(signal, Signal::Warn(text) if text == note);
        assert!(stage.signals().iter().any(warned));
    }

    #[test]
    fn a_search_waits_for_a_slow_model() {
        // Five model calls of a minute each, and a search.
        assert!(super::SPEC.time_limit.unwrap() >= std::time::Duration::from_secs(6 * 60));
    }

    #[tokio::test]
    async fn two_searches_of_a_turn_share_one_numbering() {
        let node = Node::new("Retrieval", json!({"query": "sys.query", "kb_ids": ["*"], "top_n": 1024}));
        let component = node.build();
        let stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
        let numbers = async |ids: &[String]| {
            *stage.outside.found.lock().unwrap() = ids.iter().map(|id| chunk(id, id, "d")).collect();
            let outputs = json!(component.run(&stage.ctx).await.unwrap().outputs);
            outputs["chunks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|c| c["number"].as_u64().unwrap())
                .collect::<Vec<_>>()
        };
        let ids = |range: std::ops::Range<u64>| range.map(|n| format!("c{n}")).collect::<Vec<_>>();
        assert_eq!(numbers(&ids(0..600)).await, (0..600).collect::<Vec<_>>());
        // Passages found before keep their numbers, new ones get the next.
        assert_eq!(numbers(&ids(598..603)).await, [598, 599, 600, 601, 602]);
        let cited = stage.ctx.run.citations.all();
        assert!(cited.iter().all(|one| one.chunk.id == format!("c{}", one.number)));
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
        assert_eq!(kind(json!({"query": "sys.query", "kb_ids": []})).await, ErrorKind::Invalid);
        assert_eq!(kind(json!({"query": "sys.query", "retrieval_from": "memory"})).await, ErrorKind::Invalid);
        assert_eq!(kind(json!({"query": "sys.query", "memory_ids": "m"})).await, ErrorKind::NotFound);
        let node = Node::new(
            "Retrieval",
            json!({"top_n": 0, "similarity_threshold": 2, "kb_ids": ["x@y"], "kb_vars": ["nothing"],
                "meta_data_filter": {"method": "manual", "manual": [{"key": "a", "op": "like"}]}}),
        );
        let problems =
            ["/kb_ids/0", "/kb_vars/0", "/meta_data_filter/manual/0", "/top_n", "/similarity_threshold"];
        assert_eq!(node.problems(), problems);
    }
}
