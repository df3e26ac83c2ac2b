//! Tags of whole datasets.

use serde_json::{Value as Json, json};
use weft_testkit::Script;

use crate::support::{Bench, bench};

async fn tagged(bench: &Bench, dataset: &str, chunks: &[(&str, Json)]) {
    let document = bench.document(dataset, "a.txt", "x").await;
    for (content, tags) in chunks {
        let path = format!("{dataset}/documents/{document}/chunks");
        bench.post(&path, json!({"content": content, "tag_kwd": tags})).await.data();
    }
}

#[tokio::test]
async fn tags_are_counted_renamed_and_removed() {
    let bench = bench(Script::new()).await;
    let (one, two) = (bench.dataset("One").await, bench.dataset("Two").await);
    tagged(&bench, &one, &[("a", json!(["red", "blue"])), ("b", json!(["red"])), ("c", json!([]))]).await;
    tagged(&bench, &two, &[("d", json!(["blue"]))]).await;
    let tags = async |path: &str| bench.get(&format!("{path}/tags")).await.data();
    assert_eq!(tags(&one).await, json!([["red", 2], ["blue", 1]]));
    let id = |path: &str| path.rsplit('/').next().unwrap().to_owned();
    let both = format!("/api/v1/datasets/tags/aggregation?dataset_ids={},{}", id(&one), id(&two));
    assert_eq!(bench.get(&both).await.data(), json!([["blue", 2], ["red", 2]]));
    let path = format!("{one}/tags");
    let rename =
        async |from: &str, to: &str| bench.ask("PUT", &path, json!({"from_tag": from, "to_tag": to})).await;
    assert_eq!(rename("red", "blue").await.data(), true);
    assert_eq!(tags(&one).await, json!([["blue", 2]]), "a chunk that already has the new tag keeps one copy");
    assert_eq!(tags(&two).await, json!([["blue", 1]]), "another dataset is unchanged");
    let delete = async |body: Json| bench.ask("DELETE", &path, body).await;
    assert_eq!(delete(json!({"tags": ["blue", "no such tag"]})).await.data(), true);
    assert_eq!(tags(&one).await, json!([]));
    assert_eq!(rename("", "x").await.refusal().0, 101);
    assert_eq!(delete(json!({})).await.refusal(), (101, "required argument are missing: tags; ".into()));
    assert_eq!(delete(json!({"tags": "blue"})).await.refusal().0, 101);
    assert_eq!(bench.get("/api/v1/datasets/tags/aggregation").await.refusal().0, 101);
    let stranger = bench.as_stranger().await;
    let none = (102, "no authorization".to_owned());
    assert_eq!(stranger.get(&path).await.refusal(), none);
    assert_eq!(stranger.get(&both).await.refusal(), none);
    assert_eq!(stranger.ask("DELETE", &path, json!({"tags": ["blue"]})).await.refusal(), none);
}

#[tokio::test]
async fn tags_of_a_tag_set_are_used_to_find_its_texts() {
    let bench = bench(Script::new()).await;
    let set = bench.dataset("Set").await;
    bench.ask("PUT", &set, json!({"chunk_method": "tag"})).await.data();
    let document = bench.document(&set, "tags.txt", "pump oil valve").await;
    let path = format!("{set}/documents/{document}/chunks");
    let added =
        bench.post(&path, json!({"content": "pump", "important_keywords": ["oil", "metal"]})).await.data();
    bench.ask("PUT", &format!("{set}/tags"), json!({"from_tag": "oil", "to_tag": "grease"})).await.data();
    let chunk = format!("{path}/{}", added["chunk"]["id"].as_str().unwrap());
    assert_eq!(bench.get(&chunk).await.data()["important_kwd"], json!(["grease", "metal"]));
    assert_eq!(bench.get(&format!("{set}/tags")).await.data(), json!([["grease", 1], ["metal", 1]]));
}
