//! Datasets: created, listed, changed, removed.

use serde_json::{Value as Json, json};
use weft_testkit::Script;

use crate::support::bench;

const UNKNOWN: &str = "0f0e0d0c0b0a11ee8000000000000001";

#[tokio::test]
async fn a_dataset_is_created_read_changed_and_removed() {
    let bench = bench(Script::new()).await;
    let body = json!({
        "name": " Laws ", "avatar": null, "description": null, "embedding_model": null, "permission": "me",
        "chunk_method": "naive", "parser_config": {"chunk_token_num": 64},
    });
    let created = bench.post("/api/v1/datasets/", body).await.data();
    let id = created["id"].as_str().unwrap();
    assert_eq!((id.len(), &id[12..13]), (32, "1"), "the form of a version-1 UUID: {id}");
    // Without an embedder it is searched by words alone, and says so.
    assert_eq!((&created["name"], &created["embedding_model"]), (&json!("Laws"), &json!("")));
    assert_eq!(created["parser_config"]["chunk_token_num"], 64);
    assert_eq!(created["parser_config"]["topn_tags"], 3);
    for key in ["document_count", "chunk_count", "token_num", "pagerank"] {
        assert_eq!(created[key], 0, "{key}");
    }
    for key in ["create_time", "create_date", "update_time", "update_date", "tenant_id", "created_by"] {
        assert!(!created[key].is_null(), "{key}");
    }
    let path = format!("/api/v1/datasets/{id}");
    assert_eq!(bench.get(&path).await.data()["name"], "Laws");

    // A name that is taken gets a number, regardless of case.
    let second = bench.post("/api/v1/datasets", json!({"name": "lAWS"})).await.data();
    assert_eq!(second["name"], "lAWS(1)");
    let listed = bench.get("/api/v1/datasets?page=1&page_size=30&orderby=create_time&desc=True").await.json();
    assert_eq!((&listed["code"], &listed["total_datasets"]), (&json!(0), &json!(2)));
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    let named = bench.get("/api/v1/datasets?name=laws").await.json();
    assert_eq!((&named["data"][0]["id"], &named["total_datasets"]), (&json!(id), &json!(1)));
    let paged = bench.get("/api/v1/datasets?page=2&page_size=1&desc=false").await.json();
    assert_eq!((&paged["data"][0]["name"], &paged["total_datasets"]), (&json!("lAWS(1)"), &json!(2)));

    let change = json!({"name": "Codes", "pagerank": 7, "parser_config": {"delimiter": "\n!"}});
    let changed = bench.ask("PUT", &path, change).await.data();
    assert_eq!((&changed["name"], &changed["pagerank"]), (&json!("Codes"), &json!(7)));
    assert_eq!(changed["parser_config"]["chunk_token_num"], 64);
    let refusal = bench.ask("PUT", &path, json!({"name": "LAWS(1)"})).await.refusal();
    assert_eq!(refusal, (102, "Dataset name 'LAWS(1)' already exists".to_owned()));
    assert_eq!(
        bench.ask("PUT", &path, json!({})).await.refusal(),
        (102, "no properties were modified".into())
    );
    // The response may be sent back as a request.
    let config = json!({"parser_config": changed["parser_config"]});
    assert_eq!(bench.ask("PUT", &path, config).await.data()["parser_config"], changed["parser_config"]);

    assert_eq!(
        bench.ask("DELETE", "/api/v1/datasets", json!({"ids": [id]})).await.data()["success_count"],
        1
    );
    assert_eq!(bench.get(&path).await.refusal().0, 102);
    let all = json!({"ids": null, "delete_all": true});
    assert_eq!(bench.ask("DELETE", "/api/v1/datasets", all).await.data()["success_count"], 1);
    assert_eq!(bench.get("/api/v1/datasets").await.json()["total_datasets"], 0);
}

#[tokio::test]
async fn datasets_are_removed_only_by_explicit_ids() {
    let bench = bench(Script::new()).await;
    let path = bench.dataset("Kept").await;
    let nothing = bench.ask("DELETE", "/api/v1/datasets", json!(null)).await.refusal();
    assert_eq!(nothing.0, 101, "a request without a body: {}", nothing.1);
    for body in [json!({}), json!({"ids": null, "delete_all": false}), json!({"ids": []})] {
        let removed = bench.ask("DELETE", "/api/v1/datasets", body.clone()).await.data();
        assert_eq!(removed["success_count"], 0, "{body}");
    }
    // One unknown id prevents the removal of the others.
    let id = path.rsplit('/').next().unwrap();
    let refusal = bench.ask("DELETE", "/api/v1/datasets", json!({"ids": [id, UNKNOWN]})).await.refusal();
    assert_eq!(refusal, (102, format!("User 'default' lacks permission for datasets: '{UNKNOWN}'")));
    bench.get(&path).await.data();
}

#[tokio::test]
async fn invalid_dataset_requests_are_refused_with_a_reason() {
    let bench = bench(Script::new()).await;
    let path = bench.dataset("One").await;
    let check = async |method: &str, path: &str, body: Json, code: u64, words: &str| {
        let (got, message) = bench.ask(method, path, body.clone()).await.refusal();
        assert_eq!(got, code, "{body}: {message}");
        assert!(message.contains(words), "{body}: {message}");
    };
    let all = "/api/v1/datasets";
    check("POST", all, json!({}), 101, "Field: <name> - Message: <Field required> - Value: <{}>").await;
    check("POST", all, json!({"name": "x", "more": 1}), 101, "Extra inputs are not permitted").await;
    let unknown = json!({"fields": [{"name": "x", "type": "colour"}]});
    let words = "Field: <auto_metadata_config.fields.0.type> - Message: <Input should be 'string',";
    check("POST", all, json!({"name": "x", "auto_metadata_config": unknown}), 101, words).await;
    let unknown = json!({"name": "x", "auto_metadata_config": {"enabled": "maybe", "metadata": 5}});
    check("POST", all, unknown.clone(), 101, "Field: <auto_metadata_config.enabled>").await;
    check("POST", all, unknown, 101, "Field: <auto_metadata_config.metadata>").await;
    check(
        "POST",
        all,
        json!({"name": "x", "embedding_model": "m@p"}),
        102,
        "Provider p not found for model m@p.",
    )
    .await;
    check("PUT", &path, json!({"embedding_model": "m"}), 101, "must follow <model_name>@<provider> format")
        .await;
    check("PUT", &path, json!({"embedding_model": "@p"}), 101, "must be non-empty strings").await;
    check("PUT", "/api/v1/datasets/x", json!({"name": "y"}), 101, "Invalid UUID format").await;
    check("GET", "/api/v1/datasets/x", json!(null), 102, "lacks permission for dataset 'x'").await;
    for method in ["POST", "DELETE"] {
        check(method, all, json!(null), 101, "Malformed JSON syntax").await;
    }
    check("PUT", &path, json!(null), 101, "Malformed JSON syntax").await;
    check("DELETE", all, json!({"ids": ["x"]}), 101, "Invalid UUID format").await;
    check("GET", "/api/v1/datasets?more=1", json!(null), 101, "Field: <more> - Message: <Extra inputs").await;
    check(
        "GET",
        "/api/v1/datasets?name=none",
        json!(null),
        102,
        "User 'default' lacks permission for dataset 'none'",
    )
    .await;
    let unknown = format!("/api/v1/datasets?id={UNKNOWN}");
    check("GET", &unknown, json!(null), 102, "lacks permission for dataset").await;
    let array = bench.request("POST", all, &json!([1]));
    assert_eq!(
        bench.send(array).await.refusal(),
        (101, "Invalid request payload: expected object, got list".to_owned())
    );
}

#[tokio::test]
async fn datasets_are_isolated_by_tenant() {
    let bench = bench(Script::new()).await;
    let path = bench.dataset("Mine").await;
    let id = path.rsplit('/').next().unwrap().to_owned();
    let other = bench.as_stranger().await;
    let lacks = (102, format!("User 'another' lacks permission for dataset '{id}'"));
    assert_eq!(other.get(&path).await.refusal(), lacks);
    assert_eq!(other.get(&format!("/api/v1/datasets?id={id}")).await.refusal(), lacks);
    assert_eq!(other.ask("PUT", &path, json!({"name": "Theirs"})).await.refusal(), lacks);
    let refusal = other.ask("DELETE", "/api/v1/datasets", json!({"ids": [id]})).await.refusal();
    assert_eq!(refusal, (102, format!("User 'another' lacks permission for datasets: '{id}'")));
    let all = json!({"delete_all": true});
    assert_eq!(other.ask("DELETE", "/api/v1/datasets", all).await.data()["success_count"], 0);
    assert_eq!(other.get("/api/v1/datasets").await.json()["total_datasets"], 0);
    // Another tenant may use the same name.
    assert_eq!(other.post("/api/v1/datasets", json!({"name": "Mine"})).await.data()["name"], "Mine");
    for path in [format!("{path}/knowledge_graph")] {
        assert_eq!(other.get(&path).await.refusal(), (109, "no authorization".to_owned()));
        assert_eq!(other.ask("DELETE", &path, json!(null)).await.refusal().0, 109);
        assert_eq!(bench.get(&path).await.data()["graph"]["nodes"], json!([]));
        assert_eq!(bench.ask("DELETE", &path, json!(null)).await.data(), true);
    }

    let mut nobody = bench.as_stranger().await;
    nobody.token = "nonsense".to_owned();
    for (method, path) in [
        ("GET", "/api/v1/datasets"),
        ("POST", "/api/v1/datasets"),
        ("DELETE", "/api/v1/datasets"),
        ("PUT", path.as_str()),
        ("POST", "/api/v1/retrieval"),
    ] {
        let refused = nobody.ask(method, path, json!({})).await;
        assert_eq!((refused.status.as_u16(), refused.refusal().0), (401, 401), "{method} {path}");
    }
}

#[tokio::test]
async fn null_resets_a_field_to_its_default() {
    let bench = bench(Script::new()).await;
    let new =
        json!({"name": "d", "description": "x", "avatar": null, "parser_config": {"chunk_token_num": 64}});
    let made = bench.post("/api/v1/datasets", new).await.data();
    let path = format!("/api/v1/datasets/{}", made["id"].as_str().unwrap());
    let put = async |body: Json| bench.ask("PUT", &path, body).await;
    assert_eq!(put(json!({"description": null})).await.data()["description"], Json::Null);
    let avatar = "data:image/png;base64,AAAA";
    assert_eq!(put(json!({"avatar": avatar})).await.data()["avatar"], avatar);
    assert_eq!(put(json!({"avatar": null})).await.data()["avatar"], Json::Null);
    for reset in [json!(null), json!({})] {
        let set = put(json!({"parser_config": {"chunk_token_num": 77}})).await.data();
        assert_eq!(set["parser_config"]["chunk_token_num"], 77);
        let back = put(json!({"parser_config": reset})).await.data();
        assert_eq!(back["parser_config"]["chunk_token_num"], 512, "{back}");
    }
    put(json!({"ext": {"similarity_threshold": 0.7}})).await.data();
    let back = put(json!({"ext": {"similarity_threshold": null}})).await.data();
    assert_eq!(back["similarity_threshold"], 0.2, "{back}");
    put(json!({"ext": {"language": "Chinese", "vector_similarity_weight": 0.9}})).await.data();
    let back = put(json!({"ext": {"language": null, "vector_similarity_weight": null}})).await.data();
    assert_eq!((&back["language"], &back["vector_similarity_weight"]), (&json!("English"), &json!(0.3)));
    assert_eq!(put(json!({"embedding_model": ""})).await.data()["embedding_model"], "");
    let begun = &made["embedding_model"];
    assert_eq!(put(json!({"embedding_model": null})).await.data()["embedding_model"], *begun);
    for field in ["name", "pagerank"] {
        let refused = put(json!({field: null})).await.refusal();
        assert!(refused.0 == 101 && refused.1.contains(field), "a dataset must have one: {refused:?}");
    }
}
