//! Concurrent requests: none undoes another, and a removal is final.

use futures::future::join_all;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use weft_app::chats::ChatTurn;
use weft_core::{CanvasKey, ErrorKind, TurnInput};
use weft_testkit::Script;

use crate::support::{Bench, Reading, bench, default_tenant, echo_canvas, form_canvas};

impl Bench {
    /// Sends all requests concurrently.
    async fn all(&self, requests: &[(&str, &str, Json)]) -> Vec<Reading> {
        join_all(requests.iter().map(|(method, path, body)| self.ask(method, path, body.clone()))).await
    }

    async fn all_fine(&self, requests: &[(&str, &str, Json)]) {
        for answer in self.all(requests).await {
            assert_eq!(answer.json()["code"], 0, "{}", answer.text);
        }
    }
}

#[tokio::test]
async fn concurrent_changes_to_fields_of_a_dataset_are_all_kept() {
    let bench = bench(Script::new()).await;
    let path = bench.dataset("Laws").await;
    let (config, older) = (format!("{path}/metadata/config"), format!("{path}/auto_metadata"));
    let metadata = json!({"metadata": [{"key": "author", "description": "Who?"}]});
    bench
        .all_fine(&[
            ("PUT", &path, json!({"name": "Codes"})),
            ("PUT", &path, json!({"pagerank": 9})),
            ("PUT", &path, json!({"parser_config": {"chunk_token_num": 77}})),
            ("PUT", &path, json!({"parser_config": {"delimiter": "#"}})),
            ("PUT", &path, json!({"description": "all of them"})),
            ("PUT", &config, metadata),
            ("PUT", &older, json!({"enabled": true})),
        ])
        .await;
    let dataset = bench.get(&path).await.data();
    assert_eq!((&dataset["name"], &dataset["pagerank"]), (&json!("Codes"), &json!(9)), "{dataset}");
    assert_eq!(dataset["description"], "all of them");
    let settings = &dataset["parser_config"];
    assert_eq!(
        (&settings["chunk_token_num"], &settings["delimiter"]),
        (&json!(77), &json!("#")),
        "{settings}"
    );
    assert!(bench.get(&config).await.data().to_string().contains("author"));
}

#[tokio::test]
async fn concurrent_changes_to_settings_and_metadata_of_a_document_are_all_kept() {
    let bench = bench(Script::new()).await;
    let path = bench.dataset("Laws").await;
    let id = bench.document(&path, "a.txt", "text").await;
    let (one, update) = (format!("{path}/documents/{id}"), format!("{path}/metadata/update"));
    let metadata =
        |key: &str| json!({"selector": {"document_ids": [id]}, "updates": [{"key": key, "value": "v"}]});
    bench
        .all_fine(&[
            ("PUT", &one, json!({"parser_config": {"chunk_token_num": 77}})),
            ("PUT", &one, json!({"parser_config": {"delimiter": "#"}})),
            ("POST", &update, metadata("first")),
            ("POST", &update, metadata("second")),
            (
                "PUT",
                &format!("{one}/metadata/config"),
                json!({"metadata": [{"key": "k", "description": "?"}]}),
            ),
        ])
        .await;
    let documents = bench.get(&format!("{path}/documents?id={id}")).await.data();
    let document = &documents["docs"][0];
    let settings = &document["parser_config"];
    assert_eq!(
        (&settings["chunk_token_num"], &settings["delimiter"]),
        (&json!(77), &json!("#")),
        "{settings}"
    );
    let known = &document["meta_fields"];
    assert!(known["first"] == "v" && known["second"] == "v", "{document}");
}

#[tokio::test]
async fn a_concurrent_double_removal_is_counted_once() {
    let bench = bench(Script::new()).await;
    let path = bench.dataset("Laws").await;
    for name in 0..5 {
        bench.document(&path, &format!("{name}.txt"), "text").await;
    }
    let (documents, all) = (format!("{path}/documents"), json!({"delete_all": true}));
    let answers =
        bench.all(&[("DELETE", &documents, all.clone()), ("DELETE", &documents, all.clone())]).await;
    let counts: Vec<u64> = answers.iter().map(|answer| answer.data()["deleted"].as_u64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 5, "{counts:?}");

    for name in 0..3 {
        bench.dataset(&name.to_string()).await;
    }
    let answers =
        bench.all(&[("DELETE", "/api/v1/datasets", all.clone()), ("DELETE", "/api/v1/datasets", all)]).await;
    let counts: Vec<u64> =
        answers.iter().map(|answer| answer.data()["success_count"].as_u64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 4, "{counts:?}");
}

#[tokio::test]
async fn concurrent_changes_to_fields_of_an_agent_are_all_kept() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let path = format!("/api/v1/agents/{id}");
    let first = bench.get(&format!("{path}/versions")).await.data()[0]["id"].as_str().unwrap().to_owned();
    bench
        .all_fine(&[
            ("PUT", &path, json!({"title": "Form"})),
            ("PUT", &path, json!({"dsl": form_canvas()})),
            ("PUT", &path, json!({"description": "asks"})),
            ("POST", "/v1/canvas/setting", json!({"id": id, "title": "Form", "permission": "team"})),
        ])
        .await;
    let agent = bench.get(&path).await.data();
    assert_eq!((&agent["title"], &agent["description"]), (&json!("Form"), &json!("asks")), "{agent}");
    assert_eq!(agent["permission"], "team");
    assert!(agent["dsl"]["components"]["UserFillUp:F"].is_object(), "{agent}");

    let restore = format!("{path}/versions/{first}/restore");
    bench
        .all_fine(&[("POST", &restore, Json::Null), ("PUT", &path, json!({"description": "repeats"}))])
        .await;
    let agent = bench.get(&path).await.data();
    assert_eq!(agent["description"], "repeats");
    assert!(agent["dsl"]["components"]["Message:Echo"].is_object(), "{agent}");
}

#[tokio::test]
async fn an_agent_removed_during_a_change_stays_removed() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let path = format!("/api/v1/agents/{id}");
    let answers = bench
        .all(&[
            ("PUT", &path, json!({"title": "a"})),
            ("DELETE", &path, Json::Null),
            ("PUT", &path, json!({"description": "b"})),
            ("POST", "/v1/canvas/set", json!({"id": id, "dsl": form_canvas()})),
        ])
        .await;
    assert_eq!(answers[1].json()["code"], 0, "{}", answers[1].text);
    assert_eq!(bench.get(&path).await.refusal(), (102, "canvas not found.".into()));
}

#[tokio::test]
async fn unpublishing_an_old_version_does_not_unpublish_the_current_one() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    let path = format!("/api/v1/agents/{id}");
    let versions = format!("{path}/versions");
    let first = bench.get(&versions).await.data()[0]["id"].as_str().unwrap().to_owned();
    bench.ask("PUT", &format!("{versions}/{first}"), json!({"release": true})).await.data();
    bench.ask("PUT", &path, json!({"dsl": form_canvas(), "release": true})).await.data();
    bench.ask("PUT", &format!("{versions}/{first}"), json!({"release": false})).await.data();
    assert_eq!(bench.get(&path).await.data()["release"], true);
}

#[tokio::test]
async fn concurrent_changes_to_fields_of_a_memory_are_all_kept() {
    let bench = bench(Script::new()).await;
    let body = json!({"name": "Notes", "memory_type": ["raw"], "embd_id": "", "llm_id": ""});
    let made = bench.post("/api/v1/memories", body).await.data();
    let path = format!("/api/v1/memories/{}", made["id"].as_str().unwrap());
    bench
        .all_fine(&[
            ("PUT", &path, json!({"description": "what was said"})),
            ("PUT", &path, json!({"temperature": 0.75})),
            ("PUT", &path, json!({"name": "Remembered"})),
        ])
        .await;
    let memory = bench.get(&format!("{path}/config")).await.data();
    assert_eq!((&memory["name"], &memory["description"]), (&json!("Remembered"), &json!("what was said")));
    assert_eq!(memory["temperature"], 0.75, "{memory}");
}

#[tokio::test]
async fn concurrent_changes_to_a_tool_server_are_all_kept_and_a_removal_is_final() {
    let bench = bench(Script::new()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (router, mut tasks) = (bench.router.clone(), JoinSet::new());
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    let body = json!({"name": "Own", "url": url, "server_type": "streamable-http",
        "headers": {"Authorization": format!("Bearer {}", bench.token)}});
    let made = bench.post("/api/v1/mcp/servers", body).await.data();
    let id = made["id"].as_str().unwrap();
    let path = format!("/api/v1/mcp/servers/{id}");
    let off = json!({"mcp_id": id, "tools": [{"name": "ragflow_retrieval", "enabled": false}]});
    bench
        .all_fine(&[
            ("PUT", &path, json!({"name": "Other"})),
            ("PUT", &path, json!({"description": "ours"})),
            ("POST", "/v1/mcp_server/cache_tools", off.clone()),
        ])
        .await;
    let server = bench.get(&path).await.data();
    assert_eq!((&server["name"], &server["description"]), (&json!("Other"), &json!("ours")), "{server}");
    assert_eq!(server["variables"]["tools"]["ragflow_retrieval"]["enabled"], false, "{server}");

    let answers = bench
        .all(&[
            ("POST", "/v1/mcp_server/cache_tools", off),
            ("DELETE", &path, Json::Null),
            ("PUT", &path, json!({"name": "Back"})),
        ])
        .await;
    assert_eq!(answers[1].json()["code"], 0, "{}", answers[1].text);
    assert_eq!(bench.get(&path).await.refusal().0, 102);
}

#[tokio::test]
async fn an_assistant_removed_during_a_question_leaves_no_canvas() {
    let bench = bench(Script::new()).await;
    let made = bench.post("/api/v1/chats", json!({"name": "Ann"})).await.data();
    let key = CanvasKey::new(&default_tenant(), made["id"].as_str().unwrap());
    let input = TurnInput { inputs: ChatTurn::default().inputs().unwrap(), ..TurnInput::default() };
    let (plan, removed) = futures::join!(bench.app.plan_of_chat(&key, &input), bench.app.remove_chat(&key));
    removed.unwrap();
    assert_eq!(plan.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(bench.app.canvases.get(&key).await.unwrap_err().kind, ErrorKind::NotFound);
}
