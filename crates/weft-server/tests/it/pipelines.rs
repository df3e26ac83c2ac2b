//! Documents that are ingested through a canvas.

use std::path::Path;

use serde_json::{Value as Json, json};
use weft_app::pipelines::Pipelines;
use weft_core::ErrorKind;
use weft_core::id::{DatasetKey, DocumentKey};
use weft_knowledge::ingest::PipelineRunner as _;
use weft_testkit::{Reply, Script};

use crate::support::{Bench, bench, component, echo_canvas};

const TEXT: &str = "The quick brown fox.\n\nA lazy dog sleeps.";

pub(crate) fn pipeline() -> Json {
    let words =
        json!({"field_name": "summary", "sys_prompt": "One word.", "prompts": "{TokenChunker:C@chunks}"});
    json!({"components": {
        "File": component("File", &json!({}), &["Parser:P"]),
        "Parser:P": component("Parser", &json!({"setups": {"text&markdown": {"output_format": "text"}}}), &["TokenChunker:C"]),
        "TokenChunker:C": component("TokenChunker", &json!({"chunk_token_size": 8, "delimiters": ["\n"]}), &["Extractor:E"]),
        "Extractor:E": component("Extractor", &words, &["Tokenizer:T"]),
        "Tokenizer:T": component("Tokenizer", &json!({"fields": "summary"}), &[]),
    }})
}

/// A dataset with a pipeline; returns its path.
pub(crate) async fn dataset(bench: &Bench, pipeline: &str) -> String {
    let body = json!({"name": "Stories", "parse_type": 2, "pipeline_id": pipeline});
    let created = bench.post("/api/v1/datasets", body).await.data();
    assert_eq!(created["pipeline_id"], pipeline);
    assert_eq!(created["parser_config"].get("pipeline_id"), None);
    format!("/api/v1/datasets/{}", created["id"].as_str().unwrap())
}

async fn found(bench: &Bench, dataset: &str, question: &str) -> Vec<String> {
    let id = dataset.rsplit('/').next().unwrap();
    let body = json!({"question": question, "dataset_ids": [id], "similarity_threshold": 0.0});
    let found = bench.post("/api/v1/retrieval", body).await.data();
    let chunks = found["chunks"].as_array().unwrap();
    chunks.iter().map(|chunk| chunk["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_document_goes_through_the_pipeline_of_its_dataset() {
    let script = Script::new().reply(Reply::text("vulpine").times(1)).reply(Reply::text("canine").times(1));
    let bench = bench(script).await;
    let agent = bench.store("Agent", echo_canvas()).await;
    let id = bench.store("Way in", pipeline()).await;
    let of = async |category: &str| {
        let listed = bench.get(&format!("/api/v1/agents?canvas_category={category}")).await.data();
        let named = |agent: &Json| agent["title"].as_str().unwrap().to_owned();
        (listed["total"].clone(), listed["canvas"].as_array().unwrap().iter().map(named).collect::<Vec<_>>())
    };
    assert_eq!(of("dataflow_canvas").await, (json!(1), vec!["Way in".to_owned()]));
    assert_eq!(of("agent_canvas").await, (json!(1), vec!["Agent".to_owned()]));
    assert_eq!(of("other").await.0, 0);
    let shown = bench.get(&format!("/api/v1/agents/{id}")).await.data();
    assert_eq!(shown["canvas_category"], "dataflow_canvas");

    let stories = dataset(&bench, &id).await;
    let document = bench.document(&stories, "fox.md", TEXT).await;
    let read = bench.read(&stories, &[&document]).await;
    let read = &read["docs"][0];
    assert_eq!((&read["run"], &read["chunk_count"]), (&json!("DONE"), &json!(2)), "{read}");
    assert_eq!(read["pipeline_id"], id.as_str());
    // The summary is searched, and the text is shown.
    assert_eq!(found(&bench, &stories, "vulpine").await, ["The quick brown fox."]);
    assert_eq!(found(&bench, &stories, "lazy").await, Vec::<String>::new());
    let seen = bench.model.requests();
    assert_eq!(seen.len(), 2);
    assert!(seen[1].messages.last().unwrap().text.contains("lazy dog"));

    // Repeating the same ingestion, as after a crash, is the same run: no model is called twice.
    let key = DocumentKey::new(
        &DatasetKey::new(&"default".into(), stories.rsplit('/').next().unwrap()),
        document.as_str(),
    );
    let stored = bench.app.library.store().document(&key).await.unwrap();
    let runner = Pipelines::of(&bench.app);
    let outputs = runner.run(&id.as_str().into(), &stored).await.unwrap();
    assert_eq!(outputs["chunks"][1]["summary"], "canine");
    assert_eq!(bench.model.requests().len(), 2);

    // The pipeline decides how a file is read, whatever its type.
    let slides = bench.document(&stories, "fox.pptx", "no slides").await;
    let path = format!("{stories}/documents/{slides}");
    let shown =
        async || bench.get(&format!("{stories}/documents?id={slides}")).await.data()["docs"][0].clone();
    assert_eq!(shown().await["pipeline_id"], id.as_str());
    assert_eq!(bench.ask("PUT", &path, json!({"pipeline_id": ""})).await.data()["pipeline_id"], json!(null));
    let body = json!({"parse_type": 2, "pipeline_id": id});
    assert_eq!(bench.ask("PUT", &path, body).await.data()["pipeline_id"], id.as_str());
    assert_eq!(shown().await["pipeline_id"], id.as_str());
    let kept = json!({"parser_config": {"chunk_token_num": 64}});
    assert_eq!(bench.ask("PUT", &path, kept).await.data()["pipeline_id"], id.as_str());
    for (id, words) in [
        ("a".repeat(32), "not found"),
        (agent.clone(), "not an ingestion pipeline"),
        ("x".to_owned(), "32 hex"),
    ] {
        let (code, message) =
            bench.ask("PUT", &path, json!({"parse_type": 2, "pipeline_id": id})).await.refusal();
        assert!(code == 102 && message.contains(words), "{message}");
    }

    // A chunk method replaces the pipeline.
    let changed = bench.ask("PUT", &stories, json!({"chunk_method": "naive"})).await.data();
    assert_eq!(changed["pipeline_id"], json!(null));
    for (id, words) in [("a".repeat(32), "not found"), (agent, "not an ingestion pipeline")] {
        let body = json!({"name": "Other", "parse_type": 2, "pipeline_id": id});
        let (code, message) = bench.post("/api/v1/datasets", body).await.refusal();
        assert!(code == 102 && message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn compiled_results_of_a_document_are_found_with_its_text() {
    let events = json!({"items": [{"name": "The fox is seen", "time": "2021-05-03", "sources": [1]},
        {"name": "The dog is adopted", "time": "2019", "sources": [2]}]});
    let script = Script::new()
        .reply(Reply::text(events.to_string()).times(1))
        .reply(Reply::text("no JSON at all").always());
    let bench = bench(script).await;
    let templates = json!({"compilation_template_group_id": "timeline", "templates": [{"kind": "wiki"}]});
    let canvas = json!({"components": {
        "File": component("File", &json!({}), &["Parser:P"]),
        "Parser:P": component("Parser", &json!({"setups": {"text&markdown": {"output_format": "text"}}}), &["TokenChunker:C"]),
        "TokenChunker:C": component("TokenChunker", &json!({"chunk_token_size": 8, "delimiters": ["\n"]}), &["Compiler:K"]),
        "Compiler:K": component("Compiler", &templates, &["Tokenizer:T"]),
        "Tokenizer:T": component("Tokenizer", &json!({}), &[]),
    }});
    let id = bench.store("Way in", canvas).await;
    let stories = dataset(&bench, &id).await;
    let document = bench.document(&stories, "fox.md", TEXT).await;
    let read = bench.read(&stories, &[&document]).await;
    let read = &read["docs"][0];
    assert_eq!((&read["run"], &read["chunk_count"]), (&json!("DONE"), &json!(3)), "{read}");
    let timeline = "Timeline (fox.md)\n\n- 2019: The dog is adopted\n- 2021-05-03: The fox is seen";
    assert_eq!(found(&bench, &stories, "adopted").await, [timeline]);
    assert_eq!(found(&bench, &stories, "quick brown").await, ["The quick brown fox."]);
    // The document reports what could not be compiled.
    let message = read["progress_msg"].as_str().unwrap();
    assert!(message.contains("`Wiki` is compiled without the chunks 1 to 2"), "{message}");
    assert_eq!(bench.model.requests().len(), 3);
}

#[tokio::test]
async fn a_failed_pipeline_gives_a_reason_and_can_be_retried() {
    let script = Script::new()
        .reply(Reply::error(ErrorKind::Denied, "no such key").times(2))
        .reply(Reply::text("word").always());
    let bench = bench(script).await;
    let id = bench.store("Way in", pipeline()).await;
    let stories = dataset(&bench, &id).await;
    let document = bench.document(&stories, "fox.md", TEXT).await;
    let failed = bench.read(&stories, &[&document]).await;
    let message = failed["docs"][0]["progress_msg"].as_str().unwrap();
    assert_eq!(failed["docs"][0]["run"], "FAIL", "{failed}");
    assert!(message.contains("no such key"), "{message}");
    let read = bench.read(&stories, &[&document]).await;
    assert_eq!(read["docs"][0]["run"], "DONE", "{read}");

    // A removed pipeline is named.
    bench.ask("DELETE", &format!("/api/v1/agents/{id}"), Json::Null).await.data();
    let failed = bench.read(&stories, &[&document]).await;
    let message = failed["docs"][0]["progress_msg"].as_str().unwrap();
    assert!(message.contains("does not exist"), "{message}");
}

#[tokio::test]
async fn a_pipeline_cannot_be_run_without_a_file() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Way in", pipeline()).await;
    let answer = bench
        .post(&format!("/api/v1/agents/{id}/completions"), json!({"query": "x", "stream": false}))
        .await
        .json();
    assert!(answer.to_string().contains("no file was given"), "{answer}");
    assert!(bench.model.requests().is_empty());
}

/// Existing pipelines of users, with a document that has headings.
#[tokio::test]
async fn existing_pipelines_ingest_a_document() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/canvases/ragflow");
    if !folder.is_dir() {
        weft_testkit::skipped(format_args!("there are no published canvases at {}", folder.display()));
        return;
    }
    for (name, asked) in [("title_chunker", 0), ("chunk_summary", 1), ("advanced_ingestion_pipeline", 4)] {
        let bench = bench(Script::new().reply(Reply::text("{\"city\": \"Bonn\"}").always())).await;
        let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let file: Json = serde_json::from_str(&text).unwrap();
        let id = bench.store(name, file["dsl"].clone()).await;
        let stories = dataset(&bench, &id).await;
        let document = bench.document(&stories, "fox.md", "# Fox\n\nQuick.\n\n## Dog\n\nLazy.").await;
        let read = bench.read(&stories, &[&document]).await;
        assert_eq!(read["docs"][0]["run"], "DONE", "{name}: {read}");
        let chunks = if asked == 0 { 2 } else { 1 };
        assert_eq!(read["docs"][0]["chunk_count"], chunks, "{name}: {read}");
        assert_eq!(bench.model.requests().len(), asked, "{name}");
        let last = bench.model.requests().pop();
        let saw = last.is_none_or(|last| last.messages.iter().any(|message| message.text.contains("Lazy.")));
        assert!(saw, "{name}");
        let metadata = (name == "advanced_ingestion_pipeline").then_some("Bonn");
        assert_eq!(read["docs"][0]["meta_fields"]["city"].as_str(), metadata, "{read}");
    }
}
