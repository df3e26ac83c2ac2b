//! The older names of the agent routes.

use serde_json::{Value as Json, json};
use weft_testkit::Script;

use crate::support::{bench, echo_canvas, events, said};

#[tokio::test]
async fn both_prefixes_set_get_list_run_reset_and_remove() {
    for prefix in ["/v1/canvas", "/api/canvas"] {
        let bench = bench(Script::new()).await;
        let at = |path: &str| format!("{prefix}{path}");
        let set =
            bench.post(&at("/set"), json!({"title": "Echo", "dsl": echo_canvas(), "extra": 1})).await.data();
        assert_eq!((&set["title"], &set["extra"]), (&json!("Echo"), &json!(1)));
        let id = set["id"].as_str().unwrap();
        bench.post(&at("/set"), json!({"id": id, "dsl": echo_canvas(), "description": "new"})).await.data();
        let got = bench.get(&at(&format!("/get/{id}"))).await.data();
        assert_eq!((&got["title"], &got["description"]), (&json!("Echo"), &json!("new")));
        let listed = bench.get(&at("/list")).await.data();
        assert_eq!((&listed["total"], &listed["canvas"][0]["dsl"]), (&json!(1), &echo_canvas()));
        let all = bench.get(&at("/list?page=2&page_size=0")).await.data();
        assert_eq!(all, listed, "without a page size every page has all of them");

        let stream = bench.post(&at("/completion"), json!({"id": id, "query": "hello"})).await;
        let frames = stream.frames();
        assert_eq!(said(&frames), "you said: hello");
        assert_eq!(events(&frames).first().unwrap(), "workflow_started");
        assert_eq!(events(&frames).last().unwrap(), "workflow_finished");
        let session = frames[0].json()["session_id"].clone();
        let again = bench.post(&at("/completion"), json!({"id": id, "query": "again"})).await.frames();
        assert_eq!(again[0].json()["session_id"], session, "the same user continues the session");
        let other = json!({"id": id, "query": "hello", "user_id": "somebody else"});
        let other = bench.post(&at("/completion"), other).await.frames();
        assert_ne!(other[0].json()["session_id"], session, "another user gets another session");

        assert_eq!(bench.post(&at("/reset"), json!({"id": id})).await.data(), echo_canvas());
        let messages = format!("/api/v1/agents/{id}/sessions/{}", session.as_str().unwrap());
        assert_eq!(bench.get(&messages).await.refusal().0, 102);
        assert_eq!(bench.ask("PUT", &at("/cancel/whatever"), json!(null)).await.data(), true);
        assert_eq!(bench.post(&at("/rm"), json!({"canvas_ids": [id, "gone"]})).await.refusal().0, 103);
        assert_eq!(bench.get(&at(&format!("/get/{id}"))).await.refusal(), (102, "canvas not found.".into()));
        assert_eq!(bench.post(&at("/completion"), json!({"id": id})).await.refusal().0, 102);
        let missing = bench.post(&at("/set"), json!({"title": "x"})).await.refusal();
        assert_eq!(missing, (101, "required argument are missing: dsl; ".into()));
    }
}

/// Canvases can be megabytes each, so a long list is loaded one canvas at a time as the client reads.
#[tokio::test]
async fn a_list_of_canvases_is_loaded_as_the_client_reads() {
    let bench = bench(Script::new()).await;
    for n in 0..5 {
        bench.store(&format!("Echo {n}"), echo_canvas()).await;
    }
    let drawn = |list: &Json| -> Vec<bool> {
        list["canvas"].as_array().unwrap().iter().map(|canvas| canvas["dsl"].is_object()).collect()
    };
    let path = "/v1/canvas/list";
    let all = bench.get(path).await.data();
    assert_eq!(drawn(&all), [true; 5]);
    let mut list = bench.opened("GET", path, Json::Null).await;
    list.until("\"id\"").await;
    bench.post("/v1/canvas/rm", json!({"canvas_ids": [all["canvas"][4]["id"]]})).await.data();
    list.until("\"total\":5").await;
    let read: Json = serde_json::from_str(&list.text).unwrap();
    assert_eq!(
        drawn(&read["data"]),
        [true, true, true, true, false],
        "the removed canvas had not been loaded yet"
    );
}

#[tokio::test]
async fn an_edited_canvas_runs_in_its_new_version() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let ask =
        async || said(&bench.post("/v1/canvas/completion", json!({"id": id, "query": "q"})).await.frames());
    assert_eq!(ask().await, "you said: q");
    let mut edited = echo_canvas();
    edited["components"]["Message:Echo"]["obj"]["params"]["content"][0] = json!("now: {sys.query}");
    bench.post("/v1/canvas/set", json!({"id": id, "dsl": edited})).await.data();
    assert_eq!(ask().await, "now: q");
}

/// Editors export only the canvas document.
#[tokio::test]
async fn a_canvas_document_alone_is_stored_run_exported_and_imported() {
    let bench = bench(Script::new()).await;
    let node = |id: &str, label: &str, form: serde_json::Value| json!({"id": id, "data": {"label": label, "name": label, "form": form}});
    let drawing = json!({
        "nodes": [node("begin", "Begin", json!({})), node("m", "Message", json!({"content": ["{env.town}: {sys.query}"]}))],
        "edges": [{"source": "begin", "target": "m"}],
        "variables": {"town": {"type": "string", "value": "Ulm"}},
    });
    let made = bench.post("/api/v1/agents", json!({"title": "Drawn", "dsl": drawing})).await.data();
    assert_eq!(made["dsl"], drawing);
    let errors = made["problems"].as_array().into_iter().flatten().filter(|one| one["severity"] == "error");
    assert_eq!(errors.count(), 0, "{made}");
    let id = made["id"].as_str().unwrap();
    let set = bench.post("/v1/canvas/set", json!({"id": id, "dsl": drawing.to_string()})).await.data();
    assert_eq!(set["dsl"], drawing);
    let asked = bench.post("/v1/canvas/completion", json!({"id": id, "query": "hi"})).await;
    assert_eq!(said(&asked.frames()), "Ulm: hi");
    let import = json!({"title": "Taken in", "dsl": {"dsl": drawing}});
    let imported = bench.post("/api/v1/agents/import", import).await.data();
    let asked = json!({"id": imported["id"], "query": "hi"});
    assert_eq!(said(&bench.post("/v1/canvas/completion", asked).await.frames()), "Ulm: hi");
    let export = bench.get(&format!("/api/v1/agents/{id}/export")).await;
    assert_eq!(export.data()["dsl"]["graph"]["nodes"], drawing["nodes"]);
}
