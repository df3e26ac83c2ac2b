//! Graphs and summaries of whole datasets.

use serde_json::json;
use weft_testkit::{Reply, Script};

use crate::support::bench;

#[tokio::test]
async fn a_graph_of_all_documents_is_requested_and_traced() {
    let graph = json!({"entities": [{"name": "fox", "kind": "animal", "description": "It is quick."}], "relations": []});
    let bench = bench(Script::new().reply(Reply::text(graph.to_string()))).await;
    let dataset = bench.dataset("Docs").await;
    let id = dataset.rsplit('/').next().unwrap();
    let run = format!("{dataset}/run_graphrag");
    let refused = bench.post(&run, json!({})).await.refusal();
    assert_eq!(refused, (102, format!("No documents in Dataset {id}")));
    let trace = format!("{dataset}/trace_graphrag");
    assert_eq!(bench.get(&trace).await.data(), json!({}), "nothing was requested");
    let document = bench.document(&dataset, "a.txt", "The quick fox").await;
    let task = bench.post(&run, json!({})).await.data()["graphrag_task_id"].as_str().unwrap().to_owned();
    assert_eq!(task.len(), 32);
    let traced = bench.get(&trace).await.data();
    assert_eq!((&traced["id"], &traced["progress_msg"]), (&json!(task), &json!("0 of 1 document done")));
    let refused = bench.post(&run, json!({})).await.refusal();
    assert!(refused.1.contains("a.txt is being read"), "{refused:?}");
    let read = bench.work(&dataset).await;
    assert_eq!(read["docs"][0]["parser_config"]["graphrag"]["use_graphrag"], true);
    let traced = bench.get(&trace).await.data();
    assert_eq!((&traced["progress"], &traced["id"]), (&json!(1.0), &json!(task)));
    assert!(traced["begin_at"].is_i64(), "{traced}");
    let shown = bench.get(&format!("{dataset}/knowledge_graph")).await.data();
    assert!(shown.to_string().contains("It is quick."), "{shown}");
    assert_eq!(
        bench.get(&format!("{dataset}/trace_raptor")).await.data(),
        json!({}),
        "the other task is not affected"
    );
    let stranger = bench.as_stranger().await;
    for path in [&trace, &format!("{dataset}/trace_raptor")] {
        assert_eq!(stranger.get(path).await.refusal().0, 102);
    }
    assert_eq!(stranger.post(&run, json!({})).await.refusal().0, 102);
    drop(document);
}

#[tokio::test]
async fn summaries_without_vectors_give_a_warning() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    bench.document(&dataset, "a.txt", "one\ntwo").await;
    assert!(
        bench.post(&format!("{dataset}/run_raptor"), json!({})).await.data()["raptor_task_id"].is_string()
    );
    let read = bench.work(&dataset).await;
    let said = read["docs"][0]["progress_msg"].as_str().unwrap();
    assert!(said.contains("Summaries (raptor) need vectors"), "{said}");
    let traced = bench.get(&format!("{dataset}/trace_raptor")).await.data();
    assert_eq!(traced["progress"], 1.0);
}

#[tokio::test]
async fn summaries_of_all_documents_are_requested_for_the_dataset() {
    let bench = bench(Script::new()).await;
    let made = json!({"name": "Docs", "parser_config": {"raptor": {"scope": "dataset"}}});
    let id = bench.post("/api/v1/datasets", made).await.data()["id"].as_str().unwrap().to_owned();
    let dataset = format!("/api/v1/datasets/{id}");
    bench.document(&dataset, "a.txt", "one\ntwo").await;
    bench.post(&format!("{dataset}/run_raptor"), json!({})).await.data();
    let read = bench.work(&dataset).await;
    let raptor = &read["docs"][0]["parser_config"]["raptor"];
    assert_eq!((&raptor["use_raptor"], &raptor["scope"]), (&json!(true), &json!("dataset")));
    let said = read["docs"][0]["progress_msg"].as_str().unwrap();
    assert!(said.contains("Summaries (raptor) need vectors"), "{said}");
    assert_eq!(bench.get(&format!("{dataset}/trace_raptor")).await.data()["progress"], 1.0);
    // A document that has summaries configured already is not read again.
    bench.post(&format!("{dataset}/run_raptor"), json!({})).await.data();
    assert_eq!(bench.get(&format!("{dataset}/documents")).await.data()["docs"][0]["run"], "DONE");
}

#[tokio::test]
async fn chunks_get_the_tags_of_the_most_similar_texts() {
    let bench = bench(Script::new()).await;
    let tags = bench.dataset("Tags").await;
    let set = bench.document(&tags, "tags.txt", "pump oil valve\ntax court form").await;
    bench.read(&tags, &[&set]).await;
    let chunks = format!("{tags}/documents/{set}/chunks");
    let listed = bench.get(&chunks).await.data();
    for chunk in listed["chunks"].as_array().unwrap() {
        let tag = if chunk["content"].as_str().unwrap().contains("pump") { "machines" } else { "law" };
        let path = format!("{chunks}/{}", chunk["id"].as_str().unwrap());
        bench.ask("PUT", &path, json!({"important_keywords": [tag]})).await.data();
    }
    let made = json!({"name": "Docs", "parser_config": {
        "tag_kb_ids": [tags.rsplit('/').next().unwrap(), "0f0e0d0c0b0a11ee8000000000000001"], "topn_tags": 1}});
    let id = bench.post("/api/v1/datasets", made).await.data()["id"].as_str().unwrap().to_owned();
    let dataset = format!("/api/v1/datasets/{id}");
    let document = bench.document(&dataset, "a.txt", "The pump lost its oil.\nNothing of the kind.").await;
    let read = bench.read(&dataset, &[&document]).await;
    let said = read["docs"][0]["progress_msg"].as_str().unwrap();
    assert!(said.contains("The tag set `0f0e0d0c0b0a11ee8000000000000001` does not exist"), "{said}");
    let listed = bench.get(&format!("{dataset}/documents/{document}/chunks")).await.data();
    let of = |word: &str| {
        let chunks = listed["chunks"].as_array().unwrap();
        let found = chunks.iter().find(|chunk| chunk["content"].as_str().unwrap().contains(word));
        found.unwrap()["important_keywords"].clone()
    };
    assert_eq!((of("pump"), of("kind")), (json!(["machines"]), json!([])));
}

#[tokio::test]
async fn summaries_are_removed_and_no_longer_requested() {
    let bench = bench(Script::new().reply(Reply::text("Both.").always())).await;
    let made =
        bench.post("/api/v1/datasets", json!({"name": "Docs", "embedding_model": "hash@test"})).await.data();
    let id = made["id"].as_str().unwrap().to_owned();
    let dataset = format!("/api/v1/datasets/{id}");
    let document = bench.document(&dataset, "a.txt", "the quick fox\nthe quick fox runs\nthe fox").await;
    bench.post(&format!("{dataset}/index?type=raptor"), json!({})).await.data();
    let delete = async |index: &str| bench.ask("DELETE", &format!("{dataset}/{index}"), json!({})).await;
    // Removal stops a reading that is producing them.
    assert_eq!(delete("raptor").await.data(), true);
    assert_eq!(bench.get(&format!("{dataset}/documents")).await.data()["docs"][0]["run"], "CANCEL");
    bench.post(&format!("{dataset}/index?type=raptor"), json!({})).await.data();
    bench.work(&dataset).await;
    let chunks =
        async || bench.get(&format!("{dataset}/documents/{document}/chunks")).await.data()["total"].as_u64();
    let with = chunks().await;
    assert!(with > Some(3), "{with:?}");
    assert_eq!(delete("raptor").await.data(), true);
    assert_eq!(chunks().await, Some(3));
    assert_eq!(bench.get(&format!("{dataset}/index?type=raptor")).await.data(), json!({}));
    let refused = delete("mood").await.refusal();
    assert_eq!(
        refused,
        (102, "Invalid index type 'mood'. Must be one of ['graph', 'raptor', 'mindmap', 'embedding']".into())
    );
    let stranger = bench.as_stranger().await;
    assert_eq!(stranger.ask("DELETE", &format!("{dataset}/raptor"), json!({})).await.refusal().0, 102);
    assert_eq!(delete("graph").await.data(), true);
}

#[tokio::test]
async fn a_mind_map_of_all_documents_is_created_shown_and_removed() {
    let answer = |name: &str| {
        let nodes =
            json!([{"name": "Animals"}, {"name": name, "parent": "Animals", "description": "It runs."}]);
        Reply::text(json!({"items": nodes}).to_string())
    };
    let script = Script::new().reply(answer("Foxes")).reply(answer("Dogs")).reply(answer("Cats"));
    let bench = bench(script).await;
    let dataset = bench.dataset("Docs").await;
    let index = format!("{dataset}/index?type=mindmap");
    assert!(bench.post(&index, json!({})).await.refusal().1.starts_with("No documents in Dataset"));
    let drawn = async || bench.get(&format!("{dataset}/knowledge_graph")).await.data()["mind_map"].clone();
    assert_eq!((bench.get(&index).await.data(), drawn().await), (json!({}), json!({})));
    let first = bench.document(&dataset, "a.txt", "The quick fox").await;
    let task = bench.post(&index, json!({})).await.data()["task_id"].clone();
    let read = bench.work(&dataset).await;
    assert_eq!(read["docs"][0]["parser_config"]["mindmap"]["use_mindmap"], true);
    let traced = bench.get(&index).await.data();
    assert_eq!((&traced["progress"], &traced["id"]), (&json!(1.0), &task));
    let leaf = |id: &str| json!({"id": id, "description": "It runs.", "children": []});
    assert_eq!(drawn().await, json!({"id": "Animals", "children": [leaf("Foxes")]}));
    // A document that requests a mind map adds its own part, and removes it when it is removed.
    let second = bench.document(&dataset, "b.txt", "The lazy dog").await;
    let asked = json!({"parser_config": {"mindmap": {"use_mindmap": true}}});
    bench.ask("PUT", &format!("{dataset}/documents/{second}"), asked).await.data();
    bench.read(&dataset, &[&second]).await;
    let children = async || drawn().await["children"].as_array().unwrap().len();
    assert_eq!(children().await, 2);
    bench.ask("DELETE", &format!("{dataset}/documents"), json!({"ids": [first]})).await.data();
    assert_eq!(drawn().await, json!({"id": "Animals", "children": [leaf("Dogs")]}));
    // When it is read again, its part is created again.
    bench.read(&dataset, &[&second]).await;
    assert_eq!(drawn().await["children"], json!([leaf("Cats")]));
    let stranger = bench.as_stranger().await;
    assert_eq!(stranger.get(&index).await.refusal().0, 102);
    assert_eq!(stranger.post(&index, json!({})).await.refusal().0, 102);
    assert_eq!(stranger.ask("DELETE", &format!("{dataset}/mindmap"), json!({})).await.refusal().0, 102);
    assert_eq!(drawn().await["id"], "Animals");
    assert_eq!(bench.ask("DELETE", &format!("{dataset}/mindmap"), json!({})).await.data(), true);
    assert_eq!((drawn().await, bench.get(&index).await.data()), (json!({}), json!({})));
}

#[tokio::test]
async fn a_mind_map_in_progress_is_cancelled() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    bench.document(&dataset, "a.txt", "The quick fox").await;
    bench.post(&format!("{dataset}/index?type=mindmap"), json!({})).await.data();
    assert_eq!(bench.ask("DELETE", &format!("{dataset}/mindmap"), json!({})).await.data(), true);
    let document = bench.get(&format!("{dataset}/documents")).await.data()["docs"][0].clone();
    assert_eq!(document["run"], "CANCEL");
    // A document that was stopped in time does not request it at its next reading, either.
    assert_eq!(document["parser_config"]["mindmap"]["use_mindmap"], false);
    assert_eq!(bench.get(&format!("{dataset}/index?type=mindmap")).await.data(), json!({}));
}
