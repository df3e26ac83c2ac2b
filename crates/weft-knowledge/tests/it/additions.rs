//! Contents and graphs, built from the chunks of a document with a scripted model.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::ModelInfo;
use weft_core::seam::{ChatModel, ModelDirectory};
use weft_core::{ErrorKind, Result, TenantId};
use weft_knowledge::additions::{Contents, Graph, MindMap};
use weft_knowledge::ingest::Addition as _;
use weft_testkit::{Reply, Script, ScriptedModel};

use crate::kit::Library;

struct Scripted(ScriptedModel);

impl ModelDirectory for Scripted {
    fn resolve(&self, _: &TenantId, _: &str) -> Result<Arc<dyn ChatModel>> {
        Ok(Arc::new(self.0.clone()))
    }

    fn list(&self, _: &TenantId) -> Vec<ModelInfo> {
        Vec::new()
    }
}

fn library() -> Library {
    Library::default().with("d", "", &[("book", json!({}), &["Ada lived here.", "And worked."])])
}

#[tokio::test]
async fn headings_in_a_file_need_no_model() {
    let library = library();
    library.change("book-1", |chunk| chunk.headings = vec!["Work".to_owned()]);
    let (document, chunks) = library.document("book");
    let models = Scripted(ScriptedModel::new(Script::new()));
    let made = Contents.make(&models, &document, &chunks).await.unwrap().value;
    assert_eq!(made["entries"], json!([{"level": 1, "title": "Work", "chunks": ["book-1"]}]));
}

#[tokio::test]
async fn a_model_supplies_what_the_file_lacks() {
    let (document, chunks) = library().document("book");
    let headings =
        Script::new().reply(Reply::text("[{\"title\": \"Life\", \"passage\": 0}]")).reply(Reply::text("[1]"));
    let models = Scripted(ScriptedModel::new(headings));
    let made = Contents.make(&models, &document, &chunks).await.unwrap().value;
    assert_eq!(made["entries"][0]["chunks"], json!(["book-0", "book-1"]));

    let graph = json!({"entities": [{"name": "Ada", "kind": "person", "description": "x"}], "relations": []});
    let models = Scripted(ScriptedModel::new(Script::new().reply(Reply::text(graph.to_string()))));
    let made = Graph.make(&models, &document, &chunks).await.unwrap().value;
    assert_eq!(made["entities"][0]["name"], "Ada");
    let nothing = Script::new().reply(Reply::text("{\"entities\": [], \"relations\": []}"));
    let models = Scripted(ScriptedModel::new(nothing));
    assert_eq!(Graph.make(&models, &document, &chunks).await.unwrap().value, Json::Null);
}

#[tokio::test(start_paused = true)]
async fn a_transient_model_failure_is_retried() {
    let (document, chunks) = library().document("book");
    let graph = json!({"entities": [{"name": "Ada", "kind": "person", "description": "x"}], "relations": []});
    let away = || Reply::error(ErrorKind::Unavailable, "the model is away");
    let script = Script::new().reply(away()).reply(away()).reply(Reply::text(graph.to_string()));
    let models = Scripted(ScriptedModel::new(script));
    let made = Graph.make(&models, &document, &chunks).await.unwrap();
    assert_eq!((made.value["entities"][0]["name"].as_str(), made.notes.len()), (Some("Ada"), 0));
    // Not forever: then the document is read later.
    let script = (0..4).fold(Script::new(), |script, _| script.reply(away()));
    let models = Scripted(ScriptedModel::new(script));
    let failed = Graph.make(&models, &document, &chunks).await.unwrap_err();
    assert_eq!((failed.kind, models.0.requests().len()), (ErrorKind::Unavailable, 4));
}

#[tokio::test(start_paused = true)]
async fn a_mind_map_is_built_from_the_parts_of_a_document() {
    let (first, second) = (format!("Ada. {}", "x".repeat(7_000)), "y".repeat(7_000));
    let library =
        Library::default().with("d", "", &[("book", json!({}), &[first.as_str(), second.as_str()])]);
    library.change("book-1", |chunk| chunk.headings = vec!["Work".to_owned()]);
    let (document, chunks) = library.document("book");
    let answer = |items: Json| Reply::text(json!({"items": items}).to_string());
    let script =
        Script::new().reply(answer(json!([{"name": "Ada"}, {"name": "Life", "parent": "Ada"}]))).reply(
            answer(json!([{"name": "ADA"}, {"name": "Work", "parent": "Ada", "description": "Programs."}])),
        );
    let models = Scripted(ScriptedModel::new(script));
    let made = MindMap.make(&models, &document, &chunks).await.unwrap();
    let life = json!({"name": "Life", "parent": "Ada"});
    let work = json!({"name": "Work", "parent": "Ada", "description": "Programs."});
    assert_eq!(made.value, json!({"nodes": [{"name": "Ada"}, life, work]}));
    assert!(made.notes.is_empty(), "{:?}", made.notes);
    let asked = models.0.requests();
    assert_eq!(asked.len(), 2);
    assert!(asked[0].messages[0].text.contains("What is wanted is a mind map"));
    assert!(asked[1].messages[1].text.starts_with("[2] Work\nyyy"));
    // An unreadable part is reported and affects no other part; if none can be read, the document continues
    // without additions.
    let script = Script::new().reply(Reply::text("?")).reply(answer(json!([{"name": "Ada"}])));
    let made = MindMap.make(&Scripted(ScriptedModel::new(script)), &document, &chunks).await.unwrap();
    assert_eq!((made.value, made.notes.len()), (json!({"nodes": [{"name": "Ada"}]}), 1));
    let script = Script::new().reply(Reply::text("?")).reply(Reply::text("?"));
    let failed = MindMap.make(&Scripted(ScriptedModel::new(script)), &document, &chunks).await.unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Garbled);
    let nothing = Script::new().reply(answer(json!([]))).reply(answer(json!([])));
    let made = MindMap.make(&Scripted(ScriptedModel::new(nothing)), &document, &chunks).await.unwrap();
    assert_eq!(made.value, Json::Null);
}
