//! Agents: stored, listed, changed, removed.

use serde_json::{Value as Json, json};
use weft_testkit::Script;

use crate::support::{bench, component, echo_canvas};

#[tokio::test]
async fn missing_resources_of_a_canvas_are_reported_when_it_is_stored() {
    let bench = bench(Script::new()).await;
    let named = |dataset: &str| {
        let search = json!({"query": "{sys.query}", "dataset_ids": [dataset]});
        let agent = json!({"llm_id": "", "mcp": [{"mcp_id": "nobody", "tools": {"t": {}}}],
            "prompts": [{"role": "user", "content": "{Retrieval:R@formalized_content}"}]});
        json!({"components": {
            "begin": component("Begin", &json!({}), &["Retrieval:R"]),
            "Retrieval:R": component("Retrieval", &search, &["Agent:A"]),
            "Agent:A": component("Agent", &agent, &["Message:M"]),
            "Message:M": component("Message", &json!({"content": ["{Agent:A@content}"]}), &[]),
        }})
    };
    let told = async |title: &str, dataset: &str| {
        let body = json!({"title": title, "dsl": named(dataset)});
        let made = bench.post("/api/v1/agents", body).await.data();
        let codes = made["problems"]
            .as_array()
            .unwrap()
            .iter()
            .map(|problem| problem["code"].as_str().unwrap().to_owned());
        codes.filter(|code| code.starts_with("unknown-")).collect::<Vec<_>>()
    };
    assert_eq!(told("A", "goods").await, ["unknown-dataset", "unknown-tool-server"]);
    let dataset = bench.post("/api/v1/datasets", json!({"name": "goods"})).await.data();
    assert_eq!(told("B", "goods").await, ["unknown-tool-server"]);
    assert_eq!(told("C", dataset["id"].as_str().unwrap()).await, ["unknown-tool-server"]);
}

/// The canvas is compiled from the parsed body, which has lost the digits already.
#[tokio::test]
async fn digits_lost_by_parsing_a_canvas_are_reported_when_it_is_stored() {
    let bench = bench(Script::new()).await;
    let canvas = echo_canvas().to_string().replacen(
        "\"prologue\":",
        "\"order\": 12345678901234567890123, \"prologue\":",
        1,
    );
    assert!(canvas.contains("1234567890"), "{canvas}");
    let told = async |method: &str, path: &str, dsl: &str| {
        let mut request = bench.request(method, path, &json!({}));
        *request.body_mut() = format!("{{\"title\": \"{path}\", \"dsl\": {dsl}}}").into();
        let answer = bench.send(request).await.data();
        let problems = answer["problems"].as_array().unwrap().clone();
        let lost = problems.into_iter().filter(|problem| problem["code"] == "lost-digits");
        let lost: Vec<Json> = lost.map(|problem| problem["pointer"].clone()).collect();
        (answer["id"].as_str().unwrap_or_default().to_owned(), lost)
    };
    let (id, created) = told("POST", "/api/v1/agents", &canvas).await;
    assert!(
        created.len() == 1 && created[0].as_str().unwrap().starts_with("/components/begin/"),
        "{created:?}"
    );
    let one = format!("/api/v1/agents/{id}");
    assert_eq!(told("PUT", &one, &canvas).await.1, created);
    assert_eq!(told("POST", "/v1/canvas/set", &canvas).await.1, created);
    // Also for a canvas given as a string, and only once.
    assert_eq!(told("PUT", &one, &json!(canvas).to_string()).await.1, created);
    assert_eq!(told("PUT", &one, &echo_canvas().to_string()).await.1, Vec::<Json>::new());
}

#[tokio::test]
async fn an_agent_is_created_read_listed_changed_and_removed() {
    let bench = bench(Script::new()).await;
    let created = bench
        .post(
            "/api/v1/agents",
            json!({"title": " Echo ", "dsl": echo_canvas(), "description": "d", "avatar": null}),
        )
        .await
        .data();
    assert_eq!(created["title"], "Echo");
    assert_eq!(created["dsl"], echo_canvas());
    assert_eq!(
        created["problems"].as_array().unwrap().iter().filter(|p| p["severity"] == "error").count(),
        0
    );
    let path = format!("/api/v1/agents/{}", created["id"].as_str().unwrap());

    let got = bench.get(&path).await.data();
    let keys =
        ["id", "title", "description", "permission", "canvas_category", "dsl", "create_time", "update_date"];
    for key in keys {
        assert!(!got[key].is_null(), "{key}: {got}");
    }
    assert_eq!((&got["permission"], &got["canvas_category"]), (&json!("me"), &json!("agent_canvas")));

    let listed = bench.get("/api/v1/agents?page=1&page_size=30&orderby=update_time&desc=True").await.data();
    assert_eq!((&listed["total"], &listed["canvas"][0]["title"]), (&json!(1), &json!("Echo")));
    assert!(listed["canvas"][0].get("dsl").is_none());
    assert_eq!(bench.get("/api/v1/agents/?keywords=nope").await.data()["total"], 0);

    let blank = bench.ask("PUT", &path, json!({"title": " "})).await.refusal();
    assert!(blank.0 == 101 && blank.1.contains("No title in request."), "{blank:?}");
    let updated = bench.ask("PUT", &path, json!({"title": "Echo 2"})).await.data();
    assert!(updated["update_time"].is_i64());
    let got = bench.get(&path).await.data();
    assert_eq!(
        (&got["title"], &got["description"], &got["dsl"]),
        (&json!("Echo 2"), &json!("d"), &echo_canvas())
    );

    assert_eq!(bench.ask("DELETE", &path, json!({})).await.data(), true);
    assert_eq!(bench.get(&path).await.refusal(), (102, "canvas not found.".into()));
    assert_eq!(bench.ask("DELETE", &path, json!({})).await.refusal().0, 103);
    assert_eq!(bench.ask("PUT", &path, json!({"title": "x"})).await.refusal().0, 103);
}

#[tokio::test]
async fn invalid_agent_requests_are_refused_with_a_reason() {
    let bench = bench(Script::new()).await;
    bench.store("Echo", echo_canvas()).await;
    let check = async |body: Json, code: u64, words: &str| {
        let (got, message) = bench.post("/api/v1/agents", body.clone()).await.refusal();
        assert_eq!(got, code, "{body}: {message}");
        assert!(message.contains(words), "{body}: {message}");
    };
    check(json!({"title": "x"}), 101, "No DSL data in request.").await;
    check(json!({"dsl": {}}), 101, "No title in request.").await;
    check(json!({"title": "  ", "dsl": {}}), 101, "No title in request.").await;
    check(json!({"title": 3, "dsl": {}}), 101, "Field: <title> - Message: <Input should be a valid string>")
        .await;
    check(json!({"title": "x", "dsl": "{"}), 101, "Invalid DSL JSON string.").await;
    check(json!({"title": "x", "dsl": "[]"}), 101, "DSL must be a JSON object.").await;
    check(json!({"title": "x", "dsl": 7}), 101, "DSL must be a JSON object.").await;
    check(json!({"title": "eCHO", "dsl": echo_canvas()}), 102, "eCHO already exists.").await;
    check(json!({"title": "x", "dsl": {}, "permission": "all"}), 101, "`permission`").await;
    check(json!({"title": "x", "dsl": {}, "canvas_category": "other"}), 101, "dataflow_canvas").await;
    check(json!({"title": "x".repeat(300), "dsl": {}}), 101, "255").await;
    for name in ["avatar", "description"] {
        let long = json!({"title": "x", "dsl": {}, name: "x".repeat(65_536)});
        check(long, 101, &format!("`{name}` has more than 65535 characters")).await;
    }
    assert_eq!(bench.get("/api/v1/agents").await.data()["total"], 1);
}

#[tokio::test]
async fn a_canvas_with_errors_is_stored_but_does_not_run() {
    let bench = bench(Script::new()).await;
    let dsl = json!({"components": {
        "begin": component("Begin", &json!({}), &["Nonsense:1", "Message:M"]),
        "Nonsense:1": component("Nonsense", &json!({}), &[]),
        "Message:M": component("Message", &json!({"content": ["{Gone:1@x}"]}), &["Gone:2"]),
    }});
    let created =
        bench.post("/api/v1/agents", json!({"title": "Broken", "dsl": dsl.to_string()})).await.data();
    assert_eq!(created["dsl"], dsl);
    let problems: Vec<_> =
        created["problems"].as_array().unwrap().iter().filter(|p| p["severity"] == "error").collect();
    assert!(problems.len() >= 2, "{created}");
    let id = created["id"].as_str().unwrap();
    for path in [format!("/api/v1/agents/{id}/completions"), format!("/api/v1/agents/{id}/sessions")] {
        let (code, message) = bench.post(&path, json!({"query": "hi"})).await.refusal();
        assert_eq!(code, 101, "{message}");
        for problem in &problems {
            let what = problem["message"].as_str().unwrap();
            assert!(message.contains(what), "{what} is not in {message}");
        }
    }
}

#[tokio::test]
async fn lists_are_filtered_and_unpublished_versions_are_refused() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Echo", echo_canvas()).await;
    bench.store("Other", echo_canvas()).await;
    let listed = async |query: &str| {
        let data = bench.get(&format!("/api/v1/agents?{query}")).await.data();
        let titles =
            data["canvas"].as_array().unwrap().iter().map(|one| one["title"].as_str().unwrap().to_owned());
        (titles.collect::<Vec<_>>(), data["total"].as_u64().unwrap())
    };
    assert_eq!(listed("").await.1, 2);
    assert_eq!(listed(&format!("id={id}")).await, (vec!["Echo".to_owned()], 1));
    assert_eq!(listed("title=other").await, (vec!["Other".to_owned()], 1));
    assert_eq!(listed("title=Oth").await.1, 0, "a title is matched as a whole");
    assert_eq!(listed("tags=sales").await.1, 0, "no agent has a tag");
    assert_eq!(listed("owner_ids=default").await.1, 2);
    let refused = bench.get("/api/v1/agents?owner_ids=default,somebody").await.refusal();
    assert_eq!(refused, (103, "Only authorized owner_ids can be queried.".into()));

    let path = format!("/api/v1/agents/{id}");
    bench.ask("PUT", &path, json!({"release": false, "title": "Echo"})).await.data();
    let none = (102, "No available published version".to_owned());
    let turn = json!({"query": "x", "release": true, "stream": false});
    assert_eq!(bench.post(&format!("{path}/completions"), turn).await.refusal(), none);
    let sessions = format!("{path}/sessions");
    assert_eq!(bench.post(&sessions, json!({"release": true})).await.refusal(), none);
    bench.post(&sessions, json!({"name": "About rivers"})).await.data();
    for (query, count) in [("keywords=RIVER", 1), ("keywords=zzz", 0), ("", 1)] {
        let found = bench.get(&format!("{sessions}?{query}")).await.json();
        assert_eq!(
            (found["total"].as_u64(), found["data"].as_array().unwrap().len()),
            (Some(count), count as usize)
        );
    }
    let refused = bench.get(&format!("{sessions}?from_date=2026-01-01")).await.refusal();
    assert!(refused.0 == 101 && refused.1.contains("from_date"), "{refused:?}");
}

#[tokio::test]
async fn agents_are_listed_in_the_requested_order() {
    let bench = bench(Script::new()).await;
    for title in ["b", "C", "a"] {
        bench.store(title, echo_canvas()).await;
    }
    let titles = async |path: &str| {
        let listed = bench.get(path).await.data();
        let canvases = listed["canvas"].as_array().unwrap().clone();
        canvases.iter().map(|one| one["title"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for list in ["/api/v1/agents", "/v1/canvas/list"] {
        assert_eq!(titles(&format!("{list}?orderby=title&desc=false")).await, ["a", "b", "C"], "{list}");
        assert_eq!(titles(&format!("{list}?orderby=create_time")).await.len(), 3, "{list}");
        let refused = bench.get(&format!("{list}?orderby=mood")).await.refusal();
        assert_eq!(refused, (101, "invalid orderby field: mood".to_owned()), "{list}");
    }
}
