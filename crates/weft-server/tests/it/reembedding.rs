//! The vectors of a dataset are recomputed with another model.

use serde_json::{Value as Json, json};
use weft_testkit::Script;

use crate::support::{Bench, bench};

/// A dataset with two documents that have vectors; returns its path.
async fn with_vectors(bench: &Bench) -> String {
    let made =
        bench.post("/api/v1/datasets", json!({"name": "Docs", "embedding_model": "hash@test"})).await.data();
    let dataset = format!("/api/v1/datasets/{}", made["id"].as_str().unwrap());
    let fox = bench.document(&dataset, "fox.txt", "the quick fox\nthe slow tortoise").await;
    let sea = bench.document(&dataset, "sea.txt", "a calm sea\nwaves and wind").await;
    bench.read(&dataset, &[&fox, &sea]).await;
    dataset
}

fn id(dataset: &str) -> &str {
    dataset.rsplit('/').next().unwrap()
}

/// The best passage by vectors alone, and its score.
async fn found(bench: &Bench, dataset: &str, question: &str) -> (String, f64) {
    let asked = json!({"dataset_ids": [id(dataset)], "question": question, "vector_similarity_weight": 1.0,
        "similarity_threshold": 0.1});
    let chunks = bench.post("/api/v1/retrieval", asked).await.data()["chunks"].clone();
    let text = chunks[0]["content"].as_str().unwrap_or_default().to_owned();
    (text, chunks[0]["vector_similarity"].as_f64().unwrap_or_default())
}

#[tokio::test]
async fn all_vectors_are_recomputed_with_another_model() {
    let bench = bench(Script::new()).await;
    let dataset = with_vectors(&bench).await;
    let refused = bench.ask("PUT", &dataset, json!({"embedding_model": "longer@test"})).await.refusal();
    let literal = "When chunk_num (4) > 0, embedding_model must remain hash@test";
    assert!(refused.0 == 102 && refused.1.starts_with(literal), "{refused:?}");
    let remedy = format!("POST {dataset}/index?type=embedding");
    assert!(refused.1.contains(&remedy), "{refused:?}");
    let index = format!("{dataset}/index?type=embedding");
    assert_eq!(bench.get(&index).await.data(), json!({}), "nothing was requested");
    let begun = bench.post(&index, json!({"embedding_model": "longer@Local@test"})).await.data();
    let traced = bench.get(&index).await.data();
    assert_eq!((&traced["id"], &traced["progress"]), (&begun["task_id"], &json!(0.0)));
    assert_eq!(traced["embedding_model"], "longer@test");
    let (code, message) = bench.post(&index, json!({"embedding_model": "other@test"})).await.refusal();
    assert!(code == 102 && message.contains("is getting new vectors already"), "{message}");
    let before = found(&bench, &dataset, "quick fox").await;
    assert_eq!((before.0.as_str(), before.1 > 0.5), ("the quick fox", true));
    bench.embed_anew().await;
    let traced = bench.get(&index).await.data();
    assert_eq!((&traced["progress"], &traced["progress_msg"]), (&json!(1.0), &json!("Task done")));
    assert_eq!(bench.get(&dataset).await.data()["embedding_model"], "longer@test");
    let after = found(&bench, &dataset, "quick fox").await;
    assert_eq!((after.0.as_str(), (after.1 - before.1).abs() < 1e-4), ("the quick fox", true));
    // New documents use the new model.
    let bee = bench.document(&dataset, "bee.txt", "a busy bee").await;
    bench.read(&dataset, &[&bee]).await;
    assert_eq!(found(&bench, &dataset, "busy bee").await.0, "a busy bee");
    let chunks = format!("{dataset}/documents/{bee}/chunks");
    bench.post(&chunks, json!({"content": "honey for winter"})).await.data();
    assert_eq!(found(&bench, &dataset, "honey winter").await.0, "honey for winter");
    bench.ask("DELETE", &format!("{dataset}/documents"), json!({"ids": [bee]})).await.data();
    assert_ne!(found(&bench, &dataset, "honey winter").await.0, "honey for winter");
}

#[tokio::test]
async fn recomputing_vectors_needs_an_existing_model() {
    let bench = bench(Script::new()).await;
    let dataset = with_vectors(&bench).await;
    let index = format!("{dataset}/index?type=embedding");
    let refused = async |body: Json| bench.post(&index, body).await.refusal();
    assert_eq!(refused(json!({})).await, (101, "required argument are missing: embedding_model; ".into()));
    let (code, message) = refused(json!({"embedding_model": "m"})).await;
    assert!(code == 101 && message.contains("<model_name>@<provider>"), "{message}");
    assert_eq!(refused(json!({"embedding_model": 7})).await.0, 101);
    let unknown = (102, "Model gone@test not found for model embedding".to_owned());
    assert_eq!(refused(json!({"embedding_model": "gone@test"})).await, unknown);
    // No model is also a valid choice.
    bench.post(&index, json!({"embedding_model": null})).await.data();
    bench.embed_anew().await;
    assert_eq!(bench.get(&dataset).await.data()["embedding_model"], "");
    let asked = json!({"dataset_ids": [id(&dataset)], "question": "tortoise", "similarity_threshold": 0.0});
    let chunks = bench.post("/api/v1/retrieval", asked).await.data()["chunks"].clone();
    assert_eq!(chunks[0]["content"], "the slow tortoise");
}

#[tokio::test]
async fn recomputing_vectors_is_cancelled_only_by_its_tenant() {
    let bench = bench(Script::new()).await;
    let dataset = with_vectors(&bench).await;
    let index = format!("{dataset}/index?type=embedding");
    let (cancel, model) = (format!("{dataset}/embedding"), json!({"embedding_model": "other@test"}));
    let (code, message) = bench.ask("DELETE", &cancel, json!({})).await.refusal();
    assert!(code == 102 && message.contains("is not getting new vectors"), "{message}");
    bench.post(&index, model.clone()).await.data();
    let stranger = bench.as_stranger().await;
    assert_eq!(stranger.post(&index, model).await.refusal().0, 102);
    assert_eq!(stranger.get(&index).await.refusal().0, 102);
    assert_eq!(stranger.ask("DELETE", &cancel, json!({})).await.refusal().0, 102);
    assert_eq!(bench.ask("DELETE", &cancel, json!({})).await.data(), true);
    bench.embed_anew().await;
    let traced = bench.get(&index).await.data();
    assert_eq!((&traced["progress"], &traced["progress_msg"]), (&json!(-1.0), &json!("It was cancelled")));
    assert_eq!(bench.get(&dataset).await.data()["embedding_model"], "hash@test");
    assert_eq!(found(&bench, &dataset, "quick fox").await.0, "the quick fox");
}
