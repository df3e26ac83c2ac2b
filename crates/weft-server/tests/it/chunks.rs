//! Chunks: listed, added by hand, changed, switched, removed; and searches of datasets.

use serde_json::{Value as Json, json};
use weft_core::seam::dataset_store::Extra;
use weft_core::{DatasetKey, DocumentKey, ErrorKind};
use weft_testkit::{Reply, Script};

use crate::support::{Bench, bench};

/// A dataset with one parsed document of three lines; returns their paths.
async fn with_document(bench: &Bench) -> (String, String) {
    let dataset = bench.dataset("Docs").await;
    let text = "The quick brown fox.\nA lazy dog sleeps.\nFoxes are quick, too.";
    let document = bench.document(&dataset, "animals.txt", text).await;
    bench.read(&dataset, &[&document]).await;
    let path = format!("{dataset}/documents/{document}");
    (dataset, path)
}

fn contents(answer: &Json) -> Vec<&str> {
    answer["chunks"].as_array().unwrap().iter().map(|chunk| chunk["content"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn chunks_are_listed_added_changed_and_removed() {
    let bench = bench(Script::new()).await;
    let (dataset, document) = with_document(&bench).await;
    let chunks = format!("{document}/chunks");
    // As the SDK sends it: with empty strings.
    let listed = bench.get(&format!("{chunks}?keywords=&page=1&page_size=30&id=")).await.data();
    assert_eq!((&listed["total"], &listed["doc"]["name"]), (&json!(3), &json!("animals.txt")));
    assert_eq!(contents(&listed)[0], "The quick brown fox.");
    let first = &listed["chunks"][0];
    assert_eq!(first["dataset_id"], dataset.rsplit('/').next().unwrap());
    assert_eq!(first["document_id"], document.rsplit('/').next().unwrap());
    assert_eq!((&first["positions"], &first["available"]), (&json!([[1, 1.0, 2.0, 3.0, 4.0]]), &json!(true)));
    let found = bench.get(&format!("{chunks}?keywords=quick")).await.data();
    assert_eq!(contents(&found), ["The <em>quick</em> brown fox.", "Foxes are <em>quick</em>, too."]);
    let paged = bench.get(&format!("{chunks}?page=2&page_size=2")).await.data();
    assert_eq!((contents(&paged), &paged["total"]), (vec!["Foxes are quick, too."], &json!(3)));

    let body = json!({"content": "Cats purr.", "important_keywords": ["cat"], "tag_kwd": ["pet", "pet"],
        "questions": ["Who purrs?", " "]});
    let added = bench.post(&chunks, body).await.data()["chunk"].take();
    let id = added["id"].as_str().unwrap();
    assert_eq!((&added["content"], &added["questions"]), (&json!("Cats purr."), &json!(["Who purrs?"])));
    assert!(added["create_timestamp"].is_f64() && added["create_time"].is_string(), "{added}");
    let one = format!("{chunks}/{id}");
    let alone = bench.get(&one).await.data();
    assert_eq!((&alone["important_keywords"], &alone["important_kwd"]), (&json!(["cat"]), &json!(["cat"])));
    assert_eq!(
        (&alone["tag_kwd"], &alone["content_with_weight"]),
        (&json!(["pet", "pet"]), &json!("Cats purr."))
    );
    assert_eq!(bench.get(&format!("{chunks}?id={id}")).await.data()["total"], 1);

    let edit = json!({"content": "Cats sleep.", "available": false, "tag_kwd": ["cat"]});
    assert_eq!(bench.ask("PATCH", &one, edit).await.data(), true);
    let got = bench.get(&one).await.data();
    assert_eq!((&got["content"], &got["available"]), (&json!("Cats sleep."), &json!(false)));
    assert_eq!((&got["questions"], &got["tag_kwd"]), (&json!(["Who purrs?"]), &json!(["cat"])));
    let switch = json!({"chunk_ids": [id], "available_int": 1});
    assert_eq!(bench.ask("PATCH", &chunks, switch).await.data(), true);
    assert_eq!(bench.get(&one).await.data()["available"], true);

    // Nothing is removed without ids; with known and unknown ids the known ones are removed.
    for body in [json!({}), json!({"chunk_ids": null, "delete_all": false}), json!({"chunk_ids": []})] {
        bench.ask("DELETE", &chunks, body).await.data();
        assert_eq!(bench.get(&chunks).await.data()["total"], 4);
    }
    let refusal = bench.ask("DELETE", &chunks, json!({"chunk_ids": [id, "x"]})).await.refusal();
    assert_eq!(refusal, (102, "rm_chunk deleted chunks 1, expect 2".to_owned()));
    let other = listed["chunks"][1]["id"].as_str().unwrap();
    let told = bench.ask("DELETE", &chunks, json!({"chunk_ids": [other, other]})).await.data();
    assert_eq!(told, json!({"success_count": 1, "errors": [format!("Duplicate chunk ids: {other}")]}));
    assert_eq!(
        bench.get(&document.replace("/documents/", "/documents?id=")).await.data()["docs"][0]["chunk_count"],
        2
    );
    bench.ask("DELETE", &chunks, json!({"chunk_ids": null, "delete_all": true})).await.data();
    assert_eq!(bench.get(&chunks).await.data()["total"], 0);
}

#[tokio::test]
async fn invalid_chunk_requests_are_refused_with_a_reason() {
    let bench = bench(Script::new()).await;
    let (dataset, document) = with_document(&bench).await;
    let chunks = format!("{document}/chunks");
    let id = dataset.rsplit('/').next().unwrap();
    let check = async |method: &str, path: String, body: Json, words: String| {
        let refusal = bench.ask(method, &path, body).await.refusal();
        assert_eq!(refusal, (102, words), "{method} {path}");
    };
    check("GET", format!("{chunks}?id=x"), json!(null), format!("Chunk not found: {id}/x")).await;
    check("GET", format!("{chunks}/x"), json!(null), "Chunk not found!".into()).await;
    check("PATCH", format!("{chunks}/x"), json!({"content": "y"}), "Can't find this chunk x".into()).await;
    check("POST", chunks.clone(), json!({"content": " "}), "`content` is required".into()).await;
    check("PATCH", chunks.clone(), json!({"available": true}), "`chunk_ids` is required.".into()).await;
    check("PATCH", format!("{dataset}/documents/x/chunks"), json!({}), "document not found".into()).await;
    check("GET", format!("{dataset}/documents/x/chunks"), json!(null), "you don't own the document x".into())
        .await;
    let other = bench.as_stranger().await;
    let theirs = other.dataset("Theirs").await;
    let owned = (102, format!("You don't own the dataset {id}."));
    for (method, path) in [
        ("GET", chunks.clone()),
        ("POST", chunks.clone()),
        ("PATCH", chunks.clone()),
        ("DELETE", chunks.clone()),
        ("PUT", format!("{chunks}/x")),
    ] {
        let body = if method == "GET" { Json::Null } else { json!({"delete_all": true, "content": "x"}) };
        assert_eq!(other.ask(method, &path, body).await.refusal(), owned, "{method} {path}");
    }
    // Also not through a document of their own.
    let own = other.document(&theirs, "own.txt", "x").await;
    let chunk = bench.get(&chunks).await.data()["chunks"][0]["id"].as_str().unwrap().to_owned();
    let through = format!("{theirs}/documents/{own}/chunks");
    assert_eq!(other.get(&format!("{through}/{chunk}")).await.refusal().1, "Chunk not found!");
    let refusal = other.ask("DELETE", &through, json!({"chunk_ids": [chunk]})).await.refusal();
    assert_eq!(refusal, (102, "rm_chunk deleted chunks 0, expect 1".to_owned()));
    assert_eq!(bench.get(&chunks).await.data()["total"], 3);
}

/// The search route of datasets uses other names for the same parameters.
#[tokio::test]
async fn datasets_are_searched_with_the_other_parameter_names() {
    let bench = bench(Script::new()).await;
    let (dataset, document) = with_document(&bench).await;
    let (id, document_id) = (dataset.rsplit('/').next().unwrap(), document.rsplit('/').next().unwrap());
    let path = format!("{dataset}/documents/{document_id}");
    bench.ask("PATCH", &path, json!({"meta_fields": {"kind": "animals"}})).await.data();
    let body = json!({"question": "quick brown fox", "dataset_ids": [id], "similarity_threshold": 0.0});
    let total = bench.post("/api/v1/retrieval", body).await.data()["total"].clone();
    assert!(total.as_u64().is_some_and(|total| total > 0), "{total}");
    let filter =
        |value: &str| json!({"method": "manual", "manual": [{"key": "kind", "op": "=", "value": value}]});
    for path in ["/api/v1/datasets/search".to_owned(), format!("{dataset}/search")] {
        let asked = |filter: Json| {
            json!({"question": "quick brown fox", "dataset_ids": [id], "doc_ids": [document_id],
            "size": 1, "meta_data_filter": filter})
        };
        let found = bench.post(&path, asked(filter("animals"))).await.data();
        let hit = &found["chunks"][0];
        assert_eq!((&hit["content_with_weight"], &hit["doc_id"]), (&hit["content"], &json!(document_id)));
        assert_eq!((&found["total"], found["chunks"].as_array().unwrap().len()), (&total, 1));
        assert_eq!(bench.post(&path, asked(filter("plants"))).await.data()["total"], 0);
        let refusal = bench.post(&path, json!({"dataset_ids": [id]})).await.refusal();
        assert!(refusal.0 == 101 && refusal.1.contains("<question>"), "{refusal:?}");
    }
}

#[tokio::test]
async fn searches_find_passages() {
    let bench = bench(Script::new()).await;
    let (dataset, document) = with_document(&bench).await;
    let (id, document_id) = (dataset.rsplit('/').next().unwrap(), document.rsplit('/').next().unwrap());
    // As the SDK sends it.
    let body = json!({
        "page": 1, "page_size": 30, "similarity_threshold": 0.0, "vector_similarity_weight": 0.3, "top_k": 1024,
        "rerank_id": null, "keyword": false, "question": "quick brown fox", "dataset_ids": [id], "document_ids": [],
        "cross_languages": null, "metadata_condition": null, "use_kg": false, "toc_enhance": false,
    });
    let with = |key: &str, value: Json| {
        let mut body = body.clone();
        body[key] = value;
        body
    };
    let ask = async |body: Json| bench.post("/api/v1/retrieval", body).await;
    let found = ask(body.clone()).await.data();
    assert_eq!(contents(&found)[0], "The quick brown fox.");
    let hit = &found["chunks"][0];
    assert_eq!((&hit["document_id"], &hit["dataset_id"]), (&json!(document_id), &json!(id)));
    assert_eq!(hit["document_keyword"], "animals.txt");
    for key in ["similarity", "vector_similarity", "term_similarity"] {
        assert!(hit[key].as_f64().is_some_and(|score| (0.0..=1.0).contains(&score)), "{key}: {hit}");
    }
    assert!(hit.get("highlight").is_none(), "{hit}");
    let total = found["total"].as_u64().unwrap();
    assert_eq!(
        found["doc_aggs"],
        json!([{"doc_name": "animals.txt", "doc_id": document_id, "count": total}])
    );
    let marked = ask(with("highlight", json!(true))).await.data();
    assert!(marked["chunks"][0]["highlight"].as_str().unwrap().contains("<em>quick</em>"), "{marked}");
    let hits = marked["chunks"].as_array().unwrap();
    assert!(hits.iter().all(|hit| hit["highlight"].is_string()), "{marked}");

    // Pages neither repeat nor omit chunks, and agree on the total.
    let mut seen = Vec::new();
    for page in 1..=total + 1 {
        let mut body = with("page_size", json!(1));
        body["page"] = json!(page);
        let found = ask(body).await.data();
        assert_eq!(found["total"], total);
        seen.extend(contents(&found).into_iter().map(str::to_owned));
    }
    assert_eq!(seen, contents(&found));
    for nothing in [with("question", json!(" ")), with("question", json!("zebra"))] {
        let found = ask(nothing).await.data();
        assert_eq!(
            (&found["chunks"], &found["doc_aggs"], &found["total"]),
            (&json!([]), &json!([]), &json!(0))
        );
    }
    let only = with("document_ids", json!([document_id]));
    assert_eq!(ask(only).await.data()["total"], total);

    let path = format!("{dataset}/documents/{document_id}");
    bench.ask("PATCH", &path, json!({"meta_fields": {"kind": "animals"}})).await.data();
    let condition =
        |value: &str| json!({"conditions": [{"name": "kind", "comparison_operator": "is", "value": value}]});
    assert_eq!(ask(with("metadata_condition", condition("animals"))).await.data()["total"], total);
    assert_eq!(ask(with("metadata_condition", condition("plants"))).await.data()["total"], 0);
    let shown = ask(with("reference_metadata", json!({"include": true}))).await.data();
    assert_eq!(shown["chunks"][0]["document_metadata"], json!({"kind": "animals"}));
    // A chunk that is switched off is not found; the same holds for a document.
    let first = found["chunks"][0]["id"].as_str().unwrap();
    bench.ask("PATCH", &format!("{document}/chunks/{first}"), json!({"available": 0})).await.data();
    assert_eq!(ask(body.clone()).await.data()["total"], total - 1);
    bench.ask("PATCH", &path, json!({"enabled": false})).await.data();
    assert_eq!(ask(body.clone()).await.data()["total"], 0);
}

/// Datasets are named by id here: a dataset whose name equals an id does not replace it.
#[tokio::test]
async fn searches_use_the_dataset_with_the_id() {
    let bench = bench(Script::new()).await;
    let (dataset, _) = with_document(&bench).await;
    let id = dataset.rsplit('/').next().unwrap();
    let other = bench.dataset(id).await;
    let false_friend = bench.document(&other, "false.txt", "A fox of another dataset.").await;
    bench.read(&other, &[&false_friend]).await;
    let body = json!({"dataset_ids": [id], "question": "fox", "similarity_threshold": 0.0});
    let found = bench.post("/api/v1/retrieval", body).await.data();
    assert!(found["chunks"].as_array().is_some_and(|chunks| !chunks.is_empty()), "{found}");
    assert!(found["chunks"].as_array().unwrap().iter().all(|chunk| chunk["dataset_id"] == *id), "{found}");
}

#[tokio::test]
async fn a_removed_graph_is_not_searched() {
    let bench = bench(Script::new().reply(Reply::error(ErrorKind::Unavailable, "away").always())).await;
    let (dataset, document) = with_document(&bench).await;
    let (id, document) = (dataset.rsplit('/').next().unwrap(), document.rsplit('/').next().unwrap());
    let key = DocumentKey::new(&DatasetKey::new(&"default".into(), id), document);
    let fox = json!({"entities": [{"name": "fox", "kind": "animal", "description": "It is quick."}], "relations": []});
    bench.app.datasets.put_extra(&key, Extra::Graph, &fox).await.unwrap();
    let ask = async |documents: Json| {
        let body = json!({"dataset_ids": [id], "question": "fox", "use_kg": true, "document_ids": documents});
        let found = bench.post("/api/v1/retrieval", body).await.data();
        contents(&found).iter().any(|content| content.contains("It is quick."))
    };
    assert!(ask(json!([])).await);
    assert!(ask(json!([document])).await);
    let other = bench.document(&dataset, "other.txt", "x").await;
    assert!(!ask(json!([other])).await, "the graph does not cover another document");
    bench.ask("DELETE", &format!("{dataset}/knowledge_graph"), json!(null)).await.data();
    assert!(!ask(json!([])).await);
}

#[tokio::test]
async fn invalid_searches_are_refused_with_a_reason() {
    let bench = bench(Script::new()).await;
    let (dataset, document) = with_document(&bench).await;
    let id = dataset.rsplit('/').next().unwrap();
    let check = async |bench: &Bench, body: Json, words: &str| {
        let refusal = bench.post("/api/v1/retrieval", body.clone()).await.refusal();
        assert_eq!(refusal, (102, words.to_owned()), "{body}");
    };
    check(&bench, json!({"question": "x"}), "`dataset_ids` is required.").await;
    check(&bench, json!({"question": "x", "dataset_ids": id}), "`dataset_ids` should be a list").await;
    check(&bench, json!({"dataset_ids": [id]}), "`question` is required.").await;
    check(&bench, json!({"dataset_ids": [id, "x"], "question": "x"}), "You don't own the dataset x.").await;
    let body = json!({"dataset_ids": [id], "question": "x", "document_ids": ["y"]});
    check(&bench, body, "The datasets don't own the document y").await;
    let mut other =
        bench.app.datasets.dataset(&weft_core::DatasetKey::new(&"default".into(), id)).await.unwrap();
    other.key.id = "0f0e0d0c0b0a11ee8000000000000009".into();
    (other.name, other.embedder) = ("Other".to_owned(), "a@b".to_owned());
    bench.app.datasets.create(&other).await.unwrap();
    let third = "0f0e0d0c0b0a11ee8000000000000008";
    (other.key.id, other.name, other.embedder) = (third.into(), "Third".to_owned(), "c@d".to_owned());
    bench.app.datasets.create(&other).await.unwrap();
    let body = json!({"dataset_ids": ["0f0e0d0c0b0a11ee8000000000000009", third], "question": "x"});
    check(&bench, body, "Datasets use different embedding models.").await;

    let stranger = bench.as_stranger().await;
    let owned = format!("You don't own the dataset {id}.");
    check(&stranger, json!({"dataset_ids": [id], "question": "fox"}), &owned).await;
    let theirs = stranger.dataset("Theirs").await;
    let theirs = theirs.rsplit('/').next().unwrap();
    let document = document.rsplit('/').next().unwrap();
    let body = json!({"dataset_ids": [theirs], "question": "fox", "document_ids": [document]});
    check(&stranger, body, &format!("The datasets don't own the document {document}")).await;
    let found =
        stranger.post("/api/v1/retrieval", json!({"dataset_ids": [theirs], "question": "fox"})).await.data();
    assert_eq!((&found["total"], &found["chunks"]), (&json!(0), &json!([])));
}

#[tokio::test]
async fn the_search_interface_of_dify_works() {
    let bench = bench(Script::new()).await;
    let (dataset, _) = with_document(&bench).await;
    let id = dataset.rsplit('/').next().unwrap();
    let ask = async |bench: &Bench, body: Json| bench.post("/api/v1/dify/retrieval", body).await;
    let setting = json!({"top_k": 1, "score_threshold": 0.0});
    let body = json!({"knowledge_id": id, "query": "quick brown fox", "retrieval_setting": setting});
    let found = ask(&bench, body.clone()).await;
    let record = &found.json()["records"][0];
    assert_eq!(
        (&record["content"], &record["title"]),
        (&json!("The quick brown fox."), &json!("animals.txt"))
    );
    assert!(record["score"].as_f64().unwrap() > 0.0 && record["metadata"]["doc_id"].is_string(), "{record}");
    assert_eq!(found.json()["records"].as_array().unwrap().len(), 1);
    let address = format!("/api/v1/dify/retrieval?knowledge_id={id}&query=quick+brown+fox&top_k=1");
    assert_eq!(bench.get(&address).await.json(), found.json(), "with the parameters in the URL");
    assert_eq!(bench.get("/api/v1/dify/retrieval?query=x").await.status.as_u16(), 400);
    let stranger = bench.as_stranger().await;
    let refused = ask(&stranger, body.clone()).await;
    assert_eq!(
        (refused.status.as_u16(), refused.json()),
        (404, json!({"code": 404, "message": "Knowledgebase not found!"}))
    );
    let refused = ask(&bench, json!({"query": "x"})).await;
    assert_eq!(refused.status.as_u16(), 400);
    let mut nobody = bench.as_stranger().await;
    nobody.token = "nonsense".to_owned();
    assert_eq!(ask(&nobody, body).await.status.as_u16(), 403);
}

#[tokio::test]
async fn links_in_a_document_are_not_fetched() {
    // Reading a document with links must not request any of them.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Docs").await;
    let text =
        format!("<img src=\"http://{address}/a.png\">\n![x](http://{address}/b.png)\nhttp://{address}/c");
    let ids = [
        bench.document(&dataset, "a.html", &text).await,
        bench.document(&dataset, "b.md", &text).await,
        bench.document(&dataset, "c.txt", &text).await,
    ];
    let read = bench.read(&dataset, &ids.each_ref().map(String::as_str)).await;
    assert!(read["docs"].as_array().unwrap().iter().all(|doc| doc["run"] == "DONE"), "{read}");
    let body = json!({"url": format!("http://{address}/d"), "name": "d"});
    assert_eq!(bench.post(&format!("{dataset}/documents?type=web"), body).await.refusal().0, 102);
    let waited = tokio::time::timeout(std::time::Duration::from_millis(100), listener.accept()).await;
    assert!(waited.is_err(), "a connection was made: {waited:?}");
}
