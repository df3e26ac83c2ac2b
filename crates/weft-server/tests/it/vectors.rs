//! Embedding models on every bench: a dataset has vectors when it names one.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::{ChatModel, ModelInfo};
use weft_core::seam::embedder::{Embedded, EmbeddingPurpose};
use weft_core::seam::{Embedder, ModelDirectory};
use weft_core::{Error, Result, TenantId, async_trait};
use weft_testkit::{HashEmbedder, Script, ScriptedModel};

use crate::support::bench;

/// A scripted model, beside `hash@test` and `other@test`, whose vectors have nothing in common.
#[derive(Clone)]
pub(crate) struct WithVectors(pub ScriptedModel);

impl ModelDirectory for WithVectors {
    fn resolve(&self, tenant: &TenantId, llm_id: &str) -> Result<Arc<dyn ChatModel>> {
        self.0.resolve(tenant, llm_id)
    }

    fn substitution(&self, tenant: &TenantId, llm_id: &str) -> Option<String> {
        self.0.substitution(tenant, llm_id)
    }

    fn embedder(&self, _: &TenantId, id: &str) -> Result<Arc<dyn Embedder>> {
        match id.replace("@Local@", "@").as_str() {
            "hash@test" => Ok(Arc::new(HashEmbedder::named("hash@test"))),
            "other@test" => Ok(Arc::new(Shifted(HashEmbedder::named("other@test")))),
            "longer@test" => Ok(Arc::new(Longer(HashEmbedder::named("longer@test")))),
            other => Err(Error::not_found(format!("there is no embedder `{other}`"))),
        }
    }

    fn list(&self, tenant: &TenantId) -> Vec<ModelInfo> {
        self.0.list(tenant)
    }

    fn makers(&self, tenant: &TenantId) -> Vec<String> {
        self.list(tenant).into_iter().map(|_| "Actors".to_owned()).chain(["test".to_owned()]).collect()
    }
}

/// The same numbers in other positions.
struct Shifted(HashEmbedder);

#[async_trait]
impl Embedder for Shifted {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn tokens_max(&self) -> usize {
        self.0.tokens_max()
    }

    async fn embed(&self, purpose: EmbeddingPurpose, texts: &[String]) -> Result<Embedded> {
        let mut answer = self.0.embed(purpose, texts).await?;
        answer.vectors.iter_mut().for_each(|vector| vector.rotate_left(1));
        Ok(answer)
    }
}

/// The same numbers and one more.
struct Longer(HashEmbedder);

#[async_trait]
impl Embedder for Longer {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn tokens_max(&self) -> usize {
        self.0.tokens_max()
    }

    async fn embed(&self, purpose: EmbeddingPurpose, texts: &[String]) -> Result<Embedded> {
        let mut answer = self.0.embed(purpose, texts).await?;
        answer.vectors.iter_mut().for_each(|vector| vector.push(0.0));
        Ok(answer)
    }
}

#[tokio::test]
async fn a_dataset_shows_its_model_by_the_name_that_was_given() {
    let bench = bench(Script::new()).await;
    let all = "/api/v1/datasets";
    let made = bench.post(all, json!({"name": "Docs", "embedding_model": "hash@Local@test"})).await.data();
    assert_eq!(made["embedding_model"], "hash@Local@test");
    let path = format!("{all}/{}", made["id"].as_str().unwrap());
    let put = async |body: Json| bench.ask("PUT", &path, body).await.data();
    // Changing other settings does not change the name, and it may be sent back.
    for body in [
        json!({"chunk_method": "qa"}),
        json!({"parser_config": {}}),
        json!({"embedding_model": "hash@Local@test"}),
    ] {
        let changed = put(body).await;
        assert_eq!(changed["embedding_model"], "hash@Local@test");
        assert!(changed["parser_config"].get("embedding_model").is_none(), "{changed}");
    }
    assert_eq!(put(json!({"embedding_model": "hash@test"})).await["embedding_model"], "hash@test");
    assert_eq!(
        put(json!({"embedding_model": "other@Local@test"})).await["embedding_model"],
        "other@Local@test"
    );
    assert_eq!(put(json!({"embedding_model": null})).await["embedding_model"], "");
    // Both names mean the same model.
    let one = bench.post(all, json!({"name": "One", "embedding_model": "hash@Local@test"})).await.data();
    let two = bench.post(all, json!({"name": "Two", "embedding_model": "hash@test"})).await.data();
    let asked = json!({"question": "x", "dataset_ids": [one["id"], two["id"]]});
    assert_eq!(bench.post("/api/v1/retrieval", asked).await.data()["chunks"], json!([]));
}

#[tokio::test]
async fn for_an_unknown_model_the_wrong_part_of_the_name_is_reported() {
    let bench = bench(Script::new()).await;
    let refused = async |model: &str| {
        bench.post("/api/v1/datasets", json!({"name": "x", "embedding_model": model})).await.refusal()
    };
    assert_eq!(refused("gone@test").await, (102, "Model gone@test not found for model embedding".into()));
    assert_eq!(refused("gone@TEST").await, (102, "Model gone@TEST not found for model embedding".into()));
    assert_eq!(
        refused("hash@nobody").await,
        (102, "Provider nobody not found for model hash@nobody.".into())
    );
}

#[tokio::test]
async fn another_model_is_compared_with_the_existing_vectors() {
    let bench = bench(Script::new()).await;
    let made =
        bench.post("/api/v1/datasets", json!({"name": "Docs", "embedding_model": "hash@test"})).await.data();
    let id = made["id"].as_str().unwrap();
    let path = format!("/api/v1/datasets/{id}");
    let check = format!("{path}/embedding/check");
    let refused = async |body: Json| bench.post(&check, body).await.refusal();
    assert_eq!(refused(json!({})).await, (101, "required argument are missing: embd_id; ".into()));
    assert_eq!(refused(json!({"embd_id": "gone@test"})).await.0, 102);
    let (code, message) = refused(json!({"embd_id": "hash@test"})).await;
    assert!(code == 102 && message.contains("no vectors"), "{message}");
    let document = bench.document(&path, "a.txt", "the quick fox\nthe slow tortoise").await;
    bench.read(&path, &[&document]).await;
    let same = bench.post(&check, json!({"embd_id": "hash@Local@test"})).await.data();
    assert_eq!((&same["summary"]["sampled"], &same["results"][0]["doc_id"]), (&json!(2), &json!(document)));
    assert!(same["summary"]["avg_cos_sim"].as_f64().unwrap() > 0.999, "{same}");
    let (code, message) = refused(json!({"embd_id": "hash@test", "check_num": "all"})).await;
    assert!(code == 101 && message.contains("`check_num`"), "{code} {message}");
    let (code, message) = refused(json!({"embd_id": "other@test", "check_num": 1})).await;
    assert!(code == 10 && message.contains("too different"), "{code} {message}");
    assert_eq!(
        bench.as_stranger().await.post(&check, json!({"embd_id": "hash@test"})).await.refusal().0,
        102
    );
}
