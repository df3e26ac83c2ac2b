//! The history of document ingestion, and documents addressed by their ids alone.

use serde_json::{Value as Json, json};
use weft_testkit::{Reply, Script};

use crate::pipelines::{dataset as with_pipeline, pipeline};
use crate::support::{Bench, bench, default_tenant};

async fn logs(bench: &Bench, path: &str, query: &str) -> Json {
    bench.get(&format!("{path}/ingestions{query}")).await.data()
}

#[tokio::test]
async fn every_ingestion_is_listed_with_its_result() {
    let bench = bench(Script::new()).await;
    let path = bench.dataset("Stories").await;
    assert_eq!(logs(&bench, &path, "").await, json!({"logs": [], "total": 0}));
    let good = bench.document(&path, "Good.txt", "one\ntwo").await;
    let bad = bench.document(&path, "bad.txt", "broken").await;
    bench.read(&path, &[&good]).await;
    bench.read(&path, &[&bad]).await;
    bench.read(&path, &[&bad]).await;
    let all = logs(&bench, &path, "").await;
    assert_eq!(all["total"], 3, "{all}");
    let [last, _, first] = all["logs"].as_array().unwrap().as_slice() else { panic!("{all}") };
    assert_eq!((&first["document_id"], &first["run"]), (&json!(good), &json!("DONE")));
    assert_eq!(
        (&first["chunk_count"], &first["error"], &first["progress"]),
        (&json!(2), &Json::Null, &json!(1.0))
    );
    assert_eq!((&last["document_name"], &last["operation_status"]), (&json!("bad.txt"), &json!("4")));
    assert!(last["error"].as_str().unwrap().contains("broken"), "{last}");
    // Under each of its names, with paging and filters.
    for name in ["ingestion_logs", "pipeline_logs"] {
        let page = bench.get(&format!("{path}/{name}?page=2&page_size=1")).await.data();
        assert_eq!((&page["total"], page["logs"].as_array().unwrap().len()), (&json!(3), 1));
    }
    let count = async |query: &str| logs(&bench, &path, query).await["total"].as_u64().unwrap();
    assert_eq!(count("?operation_status=FAIL").await, 2);
    assert_eq!(count("?operation_status=3,2").await, 1);
    assert_eq!(count("?create_date_from=2025-02-01&create_date_to=2025-01-01").await, 0);
    assert_eq!(count("?create_date_from=1970-01-01&create_date_to=9998-12-31%2023:59:59").await, 3);
    assert_eq!(count("?keywords=GOOD").await, 1);
    assert_eq!(count(&format!("?document_id={bad}")).await, 2);
    assert_eq!(bench.get(&format!("{path}/ingestions?operation_status=RUNNING")).await.refusal().0, 101);

    let one = last["id"].as_str().unwrap();
    let shown = bench.get(&format!("{path}/ingestions/{one}")).await.data();
    assert_eq!((&shown["id"], shown.get("dsl")), (&json!(one), None));
    let other = bench.dataset("Other").await;
    assert_eq!(
        bench.get(&format!("{other}/ingestions/{one}")).await.refusal(),
        (102, "Log not found.".into())
    );

    let summary = bench.get(&format!("{path}/ingestions/summary")).await.data();
    assert_eq!((&summary["doc_num"], &summary["chunk_num"]), (&json!(2), &json!(2)));
    assert_eq!((&summary["status"]["done_count"], &summary["status"]["fail_count"]), (&json!(1), &json!(1)));

    bench.ask("DELETE", &format!("{path}/documents"), json!({"ids": [bad]})).await.data();
    assert_eq!(count("").await, 1);
}

#[tokio::test]
async fn a_pipeline_can_be_rerun_for_a_document() {
    let bench = bench(Script::new().reply(Reply::text("word").always())).await;
    let id = bench.store("Way in", pipeline()).await;
    let path = with_pipeline(&bench, &id).await;
    let document = bench.document(&path, "fox.md", "The quick brown fox.\n\nA lazy dog sleeps.").await;
    bench.read(&path, &[&document]).await;
    let log = logs(&bench, &path, "").await["logs"][0].clone();
    assert_eq!(log["pipeline_id"], id.as_str());
    let shown = bench.get(&format!("{path}/ingestions/{}", log["id"].as_str().unwrap())).await.data();
    assert_eq!(shown["dsl"], pipeline());
    let again = |change: Json| {
        let mut body = json!({"id": log["id"], "dsl": shown["dsl"], "component_id": "TokenChunker:C"});
        for (name, value) in change.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let asked = bench.model.requests().len();
    assert_eq!(bench.post("/api/v1/agents/rerun", again(json!({}))).await.data(), true);
    let (code, message) = bench.post("/v1/canvas/rerun", again(json!({}))).await.refusal();
    assert_eq!((code, message.as_str()), (102, "`fox.md` is processing..."));
    bench.work(&path).await;
    assert_eq!(bench.model.requests().len(), 2 * asked, "the pipeline ran again");
    assert_eq!(logs(&bench, &path, "").await["total"], 2);

    let refused = async |change: Json| bench.post("/v1/canvas/rerun", again(change)).await.refusal();
    assert_eq!(refused(json!({"id": "nothing"})).await, (102, "Document not found.".into()));
    assert!(refused(json!({"component_id": "x"})).await.1.contains("no component `x`"));
    let (code, message) = refused(json!({"dsl": {"components": {}}})).await;
    assert!(code == 101 && message.contains("store it first"), "{message}");
    assert_eq!(bench.post("/v1/canvas/rerun", json!({"id": "x"})).await.refusal().0, 101);

    let plain = bench.dataset("Plain").await;
    let document = bench.document(&plain, "a.txt", "a").await;
    bench.read(&plain, &[&document]).await;
    let log = logs(&bench, &plain, "").await["logs"][0]["id"].clone();
    let (code, message) = refused(json!({"id": log})).await;
    assert!(code == 101 && message.contains("existing pipeline"), "{message}");
}

#[tokio::test]
async fn documents_are_found_by_their_ids_alone() {
    let bench = bench(Script::new()).await;
    let (one, two) = (bench.dataset("One").await, bench.dataset("Two").await);
    let a = bench.document(&one, "a.txt", "a").await;
    let b = bench.document(&two, "b.txt", "b").await;
    let sent = bench.get(&format!("/api/v1/documents/{b}")).await;
    assert_eq!(sent.text, "b");
    assert!(sent.headers["content-disposition"].to_str().unwrap().contains("b.txt"));
    assert_eq!(bench.get(&format!("/api/v1/documents/{b}/preview")).await.text, "b");
    let nobodys = bench.get("/api/v1/documents/nobodys").await.refusal();
    assert_eq!(nobodys, (102, "document not found".into()));
    let stranger = bench.with(&bench.stranger().await);
    assert_eq!(stranger.get(&format!("/api/v1/documents/{b}")).await.refusal().0, 102);

    let ingest = async |body: Json| bench.post("/api/v1/documents/ingest", body).await;
    let unknown = ingest(json!({"doc_ids": [a, "nobodys"], "run": 1})).await.refusal();
    assert_eq!(unknown, (109, "No authorization.".to_owned()));
    let idle = (102, "Cannot cancel a task that is not in RUNNING status".to_owned());
    assert_eq!(ingest(json!({"doc_ids": [a], "run": 2})).await.refusal(), idle);
    assert_eq!(ingest(json!({"doc_ids": [a, b], "run": "1"})).await.data(), true);
    let run =
        async |path: &str| bench.get(&format!("{path}/documents")).await.data()["docs"][0]["run"].clone();
    assert_eq!((run(&one).await, run(&two).await), (json!("RUNNING"), json!("RUNNING")));
    assert_eq!(ingest(json!({"doc_ids": [a, b], "run": 2})).await.data(), true);
    assert_eq!(ingest(json!({"doc_ids": [a], "run": 2})).await.data(), true);
    assert_eq!((run(&one).await, run(&two).await), (json!("CANCEL"), json!("CANCEL")));
    assert_eq!(ingest(json!({"doc_ids": [a], "run": 3})).await.refusal().0, 101);
    let stopped = bench.get(&format!("{one}/documents")).await.data()["docs"][0].clone();
    assert_eq!(stopped["progress"], 0.0);
    assert!(stopped["process_begin_at"].as_str().is_some_and(|text| text.ends_with("GMT")), "{stopped}");

    bench.read(&one, &[&a]).await;
    assert_eq!(
        ingest(json!({"doc_ids": [b, a], "run": 2})).await.refusal(),
        idle,
        "the document is already parsed"
    );
    let again = json!({"doc_ids": [a], "run": 1, "delete": true});
    ingest(again).await.data();
    assert_eq!(bench.get(&format!("{one}/documents")).await.data()["docs"][0]["chunk_count"], 0);

    let set = json!({"doc_ids": [b, a], "status": 0});
    let switch = format!("{two}/documents/batch-update-status");
    let wrong = bench.post(&switch, json!({"doc_ids": [b], "status": 2})).await.refusal();
    assert_eq!(wrong, (101, "\"Status\" must be either 0 or 1!".to_owned()));
    let told = bench.post(&switch, set).await.data();
    assert_eq!((&told[&b]["status"], &told[&a]["error"]), (&json!("0"), &json!("No authorization.")));
    assert_eq!(bench.get(&format!("{two}/documents")).await.data()["docs"][0]["status"], "0");
}

#[tokio::test]
async fn pictures_and_artifacts_have_their_own_urls() {
    let bench = bench(Script::new()).await;
    let nobody = bench.with("nobody");
    for picture in ["images/x", "d/images/x", "d/thumbnail"] {
        let path = format!("/api/v1/documents/{picture}");
        assert_eq!(bench.get(&path).await.refusal(), (102, "Image not found.".into()), "{picture}");
        assert_eq!(nobody.get(&path).await.status, 401, "{picture}");
    }
    let artifact = async |name: &str| bench.get(&format!("/api/v1/documents/artifact/{name}")).await;
    assert_eq!(artifact("x.exe").await.refusal(), (102, "invalid file type".into()));
    assert_eq!(artifact("x.txt").await.refusal(), (102, "Artifact not found.".into()));
    let kept = bench.app.keep_file(&default_tenant(), None, "a.txt", "made".into()).await.unwrap();
    assert_eq!(artifact(&format!("{}.txt", kept.id)).await.text, "made");
}

#[tokio::test]
async fn a_picture_document_is_shown_to_its_tenant_only() {
    let bench = bench(Script::new()).await;
    let dataset = bench.dataset("Pictures").await;
    let fox = bench.document(&dataset, "fox.gif", "GIF89a of a fox").await;
    let fake = bench.document(&dataset, "fake.png", "<html>").await;
    let text = bench.document(&dataset, "text.txt", "GIF89a").await;
    bench.read(&dataset, &[&fox]).await;
    let listed = bench.get(&format!("{dataset}/documents?id={fox}")).await.data();
    let thumbnail = format!("/api/v1/documents/{fox}/thumbnail");
    assert_eq!(listed["docs"][0]["thumbnail"], thumbnail);
    let chunks = bench.get(&format!("{dataset}/documents/{fox}/chunks")).await.data();
    let id = dataset.rsplit('/').next().unwrap();
    let image = chunks["chunks"][0]["image_id"].as_str().unwrap().to_owned();
    assert_eq!(image, format!("{id}-{fox}"));
    let asked = json!({"dataset_ids": [id], "question": "fox"});
    let found = bench.post("/api/v1/retrieval", asked).await.data();
    assert_eq!(found["chunks"][0]["image_id"], image);
    let stranger = bench.as_stranger().await;
    for path in [
        thumbnail,
        format!("/api/v1/documents/images/{image}"),
        format!("/api/v1/documents/{fox}/images/{image}"),
        format!("/v1/document/image/{image}"),
    ] {
        let sent = bench.get(&path).await;
        assert_eq!(
            (sent.headers["content-type"].to_str().unwrap(), sent.text.as_str()),
            ("image/gif", "GIF89a of a fox"),
            "{path}"
        );
        assert_eq!(stranger.get(&path).await.refusal(), (102, "Image not found.".into()), "{path}");
    }
    // A file that only has the name of a picture is not one, nor is one that only starts like a picture.
    for none in [
        format!("/api/v1/documents/{fake}/thumbnail"),
        format!("/api/v1/documents/{text}/thumbnail"),
        format!("/api/v1/documents/images/{id}-{text}"),
        format!("/api/v1/documents/{text}/images/{image}"),
    ] {
        assert_eq!(bench.get(&none).await.refusal(), (102, "Image not found.".into()), "{none}");
    }
    let all = bench.get(&format!("/api/v1/thumbnails?doc_ids={fox},{text}&doc_ids=gone")).await.data();
    assert_eq!(all, json!({fox.as_str(): format!("/api/v1/documents/{fox}/thumbnail"), text.as_str(): ""}));
    assert_eq!(stranger.get(&format!("/api/v1/thumbnails?doc_ids={fox}")).await.data(), json!({}));
    assert_eq!(bench.get("/api/v1/thumbnails").await.refusal().0, 101);
}

#[tokio::test]
async fn a_picture_in_a_document_is_shown_to_its_tenant_only() {
    let bench = bench(Script::new().reply(Reply::text("A fox [ID:0].").always())).await;
    let dataset = bench.dataset("Figures").await;
    let report = bench.document(&dataset, "report.txt", "some words\nfigure: a fox\nfigure: a bee").await;
    bench.read(&dataset, &[&report]).await;
    let id = dataset.rsplit('/').next().unwrap();
    let listed = bench.get(&format!("{dataset}/documents/{report}/chunks")).await.data();
    let chunks = listed["chunks"].as_array().unwrap();
    let images: Vec<&str> = chunks.iter().map(|chunk| chunk["image_id"].as_str().unwrap()).collect();
    assert!(images[0].is_empty() && images[1].starts_with(&format!("{id}-{report}.")), "{images:?}");
    assert!(images[2].starts_with(&format!("{id}-{report}.")) && images[1] != images[2], "{images:?}");

    // In search results, and in the sources of an answer.
    let of_fox = |chunks: &Json| {
        let mut chunks = chunks.as_array().unwrap().iter();
        let fox = chunks.find(|chunk| chunk["content"].as_str().unwrap().contains("fox")).unwrap();
        fox["image_id"].as_str().unwrap().to_owned()
    };
    let asked = json!({"dataset_ids": [id], "question": "fox"});
    assert_eq!(of_fox(&bench.post("/api/v1/retrieval", asked).await.data()["chunks"]), images[1]);
    let zoo = json!({"name": "Zoo", "dataset_ids": [id], "prompt_config": {"system": "Know: {knowledge}", "prologue": "Hello!"}});
    let chat = bench.post("/api/v1/chats", zoo).await.data()["id"].as_str().unwrap().to_owned();
    let question = json!({"question": "fox", "stream": false});
    let answer = bench.post(&format!("/api/v1/chats/{chat}/completions"), question).await.data();
    assert_eq!(of_fox(&answer["reference"]["chunks"]), images[1], "{answer}");

    let thumbnail = format!("/api/v1/documents/{report}/thumbnail");
    let documents = bench.get(&format!("{dataset}/documents?id={report}")).await.data();
    assert_eq!(documents["docs"][0]["thumbnail"], thumbnail);
    let all = bench.get(&format!("/api/v1/thumbnails?doc_ids={report}")).await.data();
    assert_eq!(all, json!({report.as_str(): thumbnail}));
    let paths = [
        thumbnail,
        format!("/api/v1/documents/images/{}", images[1]),
        format!("/api/v1/documents/{report}/images/{}", images[1]),
        format!("/v1/document/image/{}", images[1]),
    ];
    let stranger = bench.as_stranger().await;
    let none = (102, "Image not found.".to_owned());
    for path in &paths {
        let sent = bench.get(path).await;
        let kind = sent.headers["content-type"].to_str().unwrap();
        assert_eq!((kind, sent.text.as_str()), ("image/gif", "GIF89a of a fox"), "{path}");
        assert_eq!(stranger.get(path).await.refusal(), none, "{path}");
    }
    let bee = bench.get(&format!("/api/v1/documents/images/{}", images[2])).await;
    assert_eq!(bee.text, "GIF89a of a bee");
    for other in [format!("{id}-{report}"), images[1].replace(&report, "x"), format!("{}0", images[1])] {
        let path = format!("/api/v1/documents/images/{other}");
        assert_eq!(bench.get(&path).await.refusal(), none, "{other}");
    }
    bench.ask("DELETE", &format!("{dataset}/documents"), json!({"ids": [report]})).await.data();
    for path in &paths {
        assert_eq!(bench.get(path).await.refusal(), none, "{path}");
    }
}

#[tokio::test]
async fn metadata_is_listed_flat() {
    let bench = bench(Script::new()).await;
    let (one, two) = (bench.dataset("One").await, bench.dataset("Two").await);
    let mut ids = Vec::new();
    for (path, metadata) in
        [(&one, json!({"author": ["Ada", "Bob"], "year": 1952})), (&two, json!({"author": "Ada"}))]
    {
        let id = bench.document(path, "a.txt", "a").await;
        let body = json!({"meta_fields": metadata});
        bench.ask("PATCH", &format!("{path}/documents/{id}"), body).await.data();
        ids.push(id);
    }
    let sets: Vec<&str> = [&one, &two].map(|path| path.rsplit('/').next().unwrap()).to_vec();
    let flat = async |query: String| bench.get(&format!("/api/v1/datasets/metadata/flattened?{query}")).await;
    let told = flat(format!("dataset_ids={}", sets.join(","))).await.data();
    assert_eq!(told, json!({"author": {"Ada": ids, "Bob": [ids[0]]}, "year": {"1952": [ids[0]]}}));
    assert_eq!(flat(String::new()).await.refusal().0, 101);
    assert_eq!(flat("dataset_ids=nobodys".into()).await.refusal().0, 102);
}

#[tokio::test]
async fn indexes_are_started_and_traced_by_type() {
    let bench = bench(Script::new()).await;
    let path = bench.dataset("One").await;
    bench.document(&path, "a.txt", "a").await;
    let asked = async |method: &str, kind: &str| {
        bench.ask(method, &format!("{path}/index?type={kind}"), Json::Null).await
    };
    assert_eq!(asked("GET", "raptor").await.data(), json!({}));
    let task = asked("POST", "raptor").await.data()["task_id"].clone();
    assert_eq!(asked("GET", "raptor").await.data()["id"], task);
    let (code, message) = asked("POST", "mood").await.refusal();
    assert!(code == 102 && message.starts_with("Invalid index type 'mood'"), "{message}");
}

#[tokio::test]
async fn models_and_server_status_are_available_on_older_routes() {
    let bench = bench(Script::new()).await;
    let usual = bench.get("/v1/user/tenant_info").await.data();
    assert_eq!(usual["tenant_id"], "default");
    assert!(usual["llm_id"].as_str().is_some_and(|name| !name.is_empty()), "{usual}");
    for path in ["/api/v1/users/me/models", "/api/v1/models/default"] {
        assert_eq!(bench.get(path).await.data(), usual);
        let (code, message) = bench.ask("PATCH", path, json!({"llm_id": "x"})).await.refusal();
        assert!(code == 103 && message.contains("configuration"), "{message}");
    }
    let chat = bench.get("/v1/llm/list?model_type=chat").await.data();
    let rows = chat.as_object().unwrap().values().flat_map(|rows| rows.as_array().unwrap());
    assert!(rows.clone().count() > 0 && rows.clone().all(|row| row["model_type"] == "chat"), "{chat}");
    let mine = bench.get("/v1/llm/my_llms").await.data();
    assert!(mine["Actors"]["llm"][0]["name"].is_string(), "grouped by the part after the `@`: {mine}");
    assert_eq!(bench.get("/api/v1/providers").await.data()[0]["name"], "Actors");

    let nobody = bench.with("");
    let health = nobody.get("/v1/system/healthz").await.json();
    assert_eq!((&health["status"], &health["db"]), (&json!("ok"), &json!("ok")));
    assert_eq!(nobody.get("/v1/system/ping").await.text, "pong");
    assert_eq!(bench.get("/v1/system/status").await.data()["database"]["status"], "green");
    assert_eq!(nobody.get("/v1/system/status").await.status, 401);
}

#[tokio::test]
async fn a_session_is_shown_by_its_id_alone() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("A", crate::support::echo_canvas()).await;
    let session = bench.post(&format!("/api/v1/agents/{agent}/sessions"), json!({})).await.data();
    let id = session["id"].as_str().unwrap();
    assert_eq!(
        bench.get(&format!("/v1/api/conversation/{id}")).await.data()["messages"][0]["content"],
        "Hi!"
    );
    let unknown = bench.get("/v1/api/conversation/nobodys").await.refusal();
    assert_eq!(unknown, (102, "Conversation not found!".to_owned()));
}
