//! Versions of agents: listed, named, published, labelled, compared, restored; called by name; tags; export and
//! import of agents.

use std::time::Duration;

use serde_json::{Value as Json, json};
use weft_app::config::RetentionConfig;
use weft_app::{Auth, Config, assemble_in_memory};
use weft_server::router::router;
use weft_server::state::ServerState;
use weft_testkit::{Reply, Script};

use crate::support::{Bench, begin, bench, component};

fn saying(text: &str) -> Json {
    json!({"components": {
        "begin": begin("", "Message:M"),
        "Message:M": component("Message", &json!({"content": [text]}), &[]),
    }})
}

/// An agent whose newest version says `two`; its path and the hashes of both versions.
async fn two_versions(bench: &Bench) -> (String, String, String) {
    let path = format!("/api/v1/agents/{}", bench.store("Shop", saying("one")).await);
    let first = bench.get(&format!("{path}/versions/latest")).await.data()["id"].as_str().unwrap().to_owned();
    bench.ask("PUT", &path, json!({"dsl": saying("two")})).await.data();
    let second =
        bench.get(&format!("{path}/versions/latest")).await.data()["id"].as_str().unwrap().to_owned();
    (path, first, second)
}

async fn said(bench: &Bench, path: &str, more: Json) -> Json {
    let mut body = json!({"question": "Q", "stream": false});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    bench.post(&format!("{path}/completions"), body).await.data()
}

#[tokio::test]
async fn a_list_without_paging_returns_more_than_one_page() {
    let bench = bench(Script::new()).await;
    let path = format!("/api/v1/agents/{}", bench.store("Shop", saying("0")).await);
    for n in 1..40 {
        bench.ask("PUT", &path, json!({"dsl": saying(&n.to_string())})).await.data();
    }
    let count = async |query: &str| {
        let listed = bench.get(&format!("{path}/versions?dsl=false{query}")).await.data();
        listed.as_array().unwrap().len()
    };
    assert_eq!((count("").await, count("&page=2").await, count("&page_size=3").await), (40, 10, 3));
}

/// A server with a real store in memory that keeps two versions of each canvas.
async fn bench_with_two_versions() -> Bench {
    let retention = RetentionConfig { versions_per_canvas: 2, ..RetentionConfig::default() };
    let app = assemble_in_memory(&Config { retention, ..Config::default() }).await.unwrap();
    let token = app.first_token().await.unwrap().unwrap().reveal().to_owned();
    let router = router(ServerState::new(app.clone(), Auth::On).unwrap());
    Bench { app, router, token, ..bench(Script::new()).await }
}

#[tokio::test]
async fn saving_removes_old_versions_but_none_that_a_session_is_on() {
    let bench = bench_with_two_versions().await;
    let path = format!("/api/v1/agents/{}", bench.store("Shop", saying("one")).await);
    let save = async |text: &str| {
        // Later than the one before, by the clock of the store.
        tokio::time::sleep(Duration::from_millis(2)).await;
        bench.ask("PUT", &path, json!({"dsl": saying(text)})).await.data();
        bench.get(&format!("{path}/versions/latest")).await.data()["id"].clone()
    };
    let listed = async || {
        let listed = bench.get(&format!("{path}/versions?dsl=false")).await.data();
        listed.as_array().unwrap().iter().map(|version| version["id"].clone()).collect::<Json>()
    };
    let second = save("two").await;
    let answer = said(&bench, &path, json!({})).await;
    assert_eq!((&answer["data"]["content"], &answer["version"]), (&json!("two"), &second));
    let third = save("three").await;
    assert_eq!(listed().await, json!([third, second]));
    let fourth = save("four").await;
    let fifth = save("five").await;
    assert_eq!(listed().await, json!([fifth, fourth, second]));
    let gone = bench.get(&format!("{path}/versions/{}", third.as_str().unwrap())).await.refusal();
    assert_eq!(gone, (102, "Version not found.".to_owned()));
    // The conversation goes on, on its version.
    let next = said(&bench, &path, json!({"session_id": answer["session_id"]})).await;
    assert_eq!((&next["data"]["content"], &next["version"]), (&json!("two"), &second));
    let session = json!({"ids": [answer["session_id"]]});
    bench.ask("DELETE", &format!("{path}/sessions"), session).await.data();
    let sixth = save("six").await;
    assert_eq!(listed().await, json!([sixth, fifth]));
}

#[tokio::test]
async fn a_question_runs_the_named_version_and_the_answer_names_it() {
    let bench = bench(Script::new()).await;
    let (path, first, second) = two_versions(&bench).await;
    let newest = said(&bench, &path, json!({})).await;
    assert_eq!((&newest["data"]["content"], &newest["version"]), (&json!("two"), &json!(second)));
    bench.ask("PUT", &format!("{path}/labels/production"), json!({"version": first})).await.data();
    for name in [first.as_str(), "production"] {
        let older = said(&bench, &path, json!({"version": name})).await;
        assert_eq!((&older["data"]["content"], &older["version"]), (&json!("one"), &json!(first)), "{name}");
    }
    let run = newest["message_id"].as_str().unwrap();
    assert_eq!(bench.get(&format!("/api/v1/runs/{run}")).await.data()["version"], second);
    // A session keeps its version.
    let older = said(&bench, &path, json!({"version": "production"})).await;
    let session = older["session_id"].clone();
    assert_eq!(said(&bench, &path, json!({"session_id": session})).await["data"]["content"], "one");
    let other = json!({"question": "Q", "stream": false, "session_id": session, "version": "latest"});
    let refused = bench.post(&format!("{path}/completions"), other).await.refusal();
    assert!(refused.0 == 101 && refused.1.contains("start a new session"), "{refused:?}");
    let unknown = json!({"question": "Q", "stream": false, "version": "none"});
    let refused = bench.post(&format!("{path}/completions"), unknown).await.refusal();
    assert!(refused.0 == 102 && refused.1.contains("no version or label `none`"), "{refused:?}");
    // The OpenAI route: by a field, and by the model name.
    let id = path.rsplit('/').next().unwrap();
    let openai = format!("/api/v1/agents_openai/{id}/chat/completions");
    let asked = json!([{"role": "user", "content": "Q"}]);
    for (model, version, expected) in [
        ("m".to_owned(), Json::Null, ("two", &second)),
        ("m".to_owned(), json!("production"), ("one", &first)),
        (format!("{id}@production"), Json::Null, ("one", &first)),
        ("deepseek-chat@DeepSeek".to_owned(), Json::Null, ("two", &second)),
    ] {
        let body = json!({"model": model, "messages": asked, "stream": false, "version": version});
        let answer = bench.post(&openai, body).await.json();
        let told = answer["choices"][0]["message"]["content"].as_str();
        assert_eq!(
            (told, answer["system_fingerprint"].as_str()),
            (Some(expected.0), Some(expected.1.as_str()))
        );
    }
    let body = json!({"model": "m", "messages": asked, "stream": true, "version": first});
    let frames = bench.post(&openai, body).await.frames();
    let fingerprints =
        frames.iter().filter(|frame| frame.data != "[DONE]").map(|f| f.json()["system_fingerprint"].clone());
    assert!(frames.len() > 1 && fingerprints.into_iter().all(|one| one == first));
    // A stream of events names it in the last one.
    let asked = json!({"id": id, "query": "Q", "version": "production"});
    for route in [&*format!("{path}/completions"), "/api/canvas/completion"] {
        let frames = bench.post(route, asked.clone()).await.frames();
        let end = frames.iter().rfind(|frame| frame.event() == "workflow_finished").unwrap().json();
        assert_eq!(end["data"]["version"], first, "{route}");
    }
}

#[tokio::test]
async fn one_version_is_published_and_selected_by_release() {
    let bench = bench(Script::new()).await;
    let (path, first, second) = two_versions(&bench).await;
    let none = (102, "No available published version".to_owned());
    let release = json!({"question": "Q", "stream": false, "release": true});
    assert_eq!(bench.post(&format!("{path}/completions"), release).await.refusal(), none);
    let published =
        bench.ask("PUT", &format!("{path}/versions/{first}"), json!({"release": true})).await.data();
    assert_eq!((&published["release"], &published["id"]), (&json!(true), &json!(first)));
    assert_eq!(said(&bench, &path, json!({"release": true})).await["data"]["content"], "one");
    assert_eq!(said(&bench, &path, json!({"version": "published"})).await["version"], first);
    let session = bench.post(&format!("{path}/sessions"), json!({"release": true})).await.data();
    assert_eq!(session["version_title"], first);
    let listed = bench.get("/api/v1/agents").await.data()["canvas"][0].clone();
    assert!(listed["release"] == true && listed["release_time"].is_i64(), "{listed}");
    // Storing with `release` publishes the stored version, and storing without it publishes nothing.
    bench.ask("PUT", &path, json!({"dsl": saying("three"), "release": true})).await.data();
    bench.ask("PUT", &path, json!({"dsl": saying("four")})).await.data();
    assert_eq!(said(&bench, &path, json!({"release": true})).await["data"]["content"], "three");
    assert!(bench.get(&path).await.data()["last_publish_time"].is_i64());
    bench.ask("PUT", &format!("{path}/versions/{second}"), json!({"release": false})).await.data();
    assert_eq!(
        said(&bench, &path, json!({"release": true})).await["data"]["content"],
        "three",
        "another version was published"
    );
    bench.ask("PUT", &format!("{path}/versions/published"), json!({"release": false})).await.data();
    let release = json!({"question": "Q", "stream": false, "release": true});
    assert_eq!(bench.post(&format!("{path}/completions"), release).await.refusal(), none);
}

#[tokio::test]
async fn versions_are_listed_named_compared_and_restored() {
    let bench = bench(Script::new()).await;
    let (path, first, second) = two_versions(&bench).await;
    let listed = bench.get(&format!("{path}/versions")).await.data();
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert!(ids.len() == 2 && ids.contains(&first.as_str()) && ids.contains(&second.as_str()));
    assert!(listed[0]["title"].as_str().unwrap().starts_with("Shop_20") && listed[0]["dsl"].is_object());
    assert!(bench.get(&format!("{path}/versions?dsl=false")).await.data()[0]["dsl"].is_null());
    let change = json!({"title": "Spring", "description": "with longer hours"});
    bench.ask("PATCH", &format!("{path}/versions/{first}"), change).await.data();
    let one = bench.get(&format!("{path}/versions/{first}")).await.data();
    assert_eq!((&one["title"], &one["description"]), (&json!("Spring"), &json!("with longer hours")));
    assert_eq!(bench.get(&format!("/v1/canvas/getversion/{first}")).await.data(), one);
    let id = path.rsplit('/').next().unwrap();
    assert_eq!(
        bench.get(&format!("/v1/canvas/getlistversion/{id}")).await.data(),
        bench.get(&format!("{path}/versions")).await.data()
    );

    let diff = bench.get(&format!("{path}/versions/{first}/diff")).await.data();
    let changes = json!([{"pointer": "/params/content/0", "from": "one", "to": "two"}]);
    assert_eq!((&diff["changed"][0]["id"], &diff["changed"][0]["changes"]), (&json!("Message:M"), &changes));
    assert_eq!((&diff["from"], &diff["to"], &diff["added"]), (&json!(first), &json!(second), &json!([])));
    let same = bench.get(&format!("{path}/versions/{first}/diff?with={first}")).await.data();
    assert_eq!(same["changed"], json!([]));

    let restored = bench.post(&format!("{path}/versions/{first}/restore"), json!({})).await.data();
    assert_eq!(restored["dsl"], saying("one"));
    assert_eq!(said(&bench, &path, json!({})).await["data"]["content"], "one");
    assert_eq!(bench.get(&format!("{path}/versions/latest")).await.data()["title"], "Spring");
    let gone = bench.ask("DELETE", &format!("{path}/labels/none"), Json::Null).await.refusal();
    assert_eq!(gone.0, 102);
    assert_eq!(bench.get(&format!("{path}/versions/none")).await.refusal().0, 102);
    let bad = bench.ask("PUT", &format!("{path}/labels/latest"), json!({"version": first})).await.refusal();
    assert_eq!(bad.0, 101);

    // Another tenant finds none of this.
    let theirs = Bench { token: bench.stranger().await, ..bench };
    for part in ["versions", "export"] {
        assert_eq!(theirs.get(&format!("{path}/{part}")).await.refusal().0, 102, "{part}");
    }
    for part in [String::new(), "/diff".to_owned()] {
        assert_eq!(theirs.get(&format!("{path}/versions/{first}{part}")).await.refusal().0, 102);
    }
    assert_eq!(theirs.get(&format!("/v1/canvas/getversion/{first}")).await.refusal().0, 102);
    assert_eq!(theirs.post(&format!("{path}/versions/{first}/restore"), json!({})).await.refusal().0, 102);
    let label = theirs.ask("PUT", &format!("{path}/labels/x"), json!({"version": first})).await;
    assert_eq!(label.refusal().0, 102);
    let tags = theirs.ask("PUT", &format!("{path}/tags"), json!({"tags": "a"})).await;
    assert_eq!(tags.refusal().0, 103);
}

#[tokio::test]
async fn tags_come_with_an_agent_and_are_refused_when_they_are_none() {
    let bench = bench(Script::new()).await;
    for tags in [json!(5), json!(true), json!({"a": 1}), json!(["a", 7])] {
        for path in ["/api/v1/agents", "/api/v1/agents/import", "/v1/canvas/set"] {
            let body = json!({"title": "A", "dsl": saying("x"), "tags": tags});
            let (code, message) = bench.post(path, body).await.refusal();
            assert!(code == 101 && message.contains("Field: <tags>"), "{path} {tags}: {message}");
        }
    }
    assert_eq!(bench.get("/api/v1/agents").await.data()["total"], 0, "nothing was stored");
    let body = json!({"title": "A", "dsl": saying("x"), "tags": "Sales, beta ,sales"});
    let made = bench.post("/api/v1/agents", body).await.data();
    assert_eq!(made["tags"], "Sales,beta");
    let path = format!("/api/v1/agents/{}", made["id"].as_str().unwrap());
    let tags = async || bench.get(&path).await.data()["tags"].as_str().unwrap().to_owned();
    let change = async |body: Json| bench.ask("PUT", &path, body).await;
    assert_eq!(tags().await, "Sales,beta");
    change(json!({"description": "d", "tags": null})).await.data();
    assert_eq!(tags().await, "Sales,beta", "null changes nothing");
    let (code, message) = change(json!({"tags": {"a": 1}})).await.refusal();
    assert!(code == 101 && message.contains("Field: <tags>"), "{message}");
    change(json!({"tags": ["new"], "release": true})).await.data();
    assert_eq!(tags().await, "new");
    let set = json!({"id": made["id"], "dsl": saying("x"), "tags": []});
    bench.post("/v1/canvas/set", set).await.data();
    assert_eq!(tags().await, "");
}

#[tokio::test]
async fn agents_are_found_by_their_tags() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Shop", saying("one")).await;
    bench.store("Other", saying("two")).await;
    let path = format!("/api/v1/agents/{id}");
    assert_eq!(bench.get("/api/v1/agents/tags").await.data(), json!([]));
    let set = bench.ask("PUT", &format!("{path}/tags"), json!({"tags": "Sales, beta ,sales"})).await.data();
    assert_eq!(set["tags"], "Sales,beta");
    assert_eq!(bench.get("/api/v1/agents/tags").await.data(), json!(["beta", "Sales"]));
    let found =
        async |query: &str| bench.get(&format!("/api/v1/agents?{query}")).await.data()["total"].clone();
    assert_eq!(found("tags=sales").await, 1);
    assert_eq!(found("tags=none,BETA").await, 1);
    assert_eq!(found("tags=none").await, 0);
    assert_eq!(found("tags=sales&keywords=other").await, 0);
    bench.ask("PUT", &path, json!({"description": "changed"})).await.data();
    assert_eq!(bench.get(&path).await.data()["tags"], "Sales,beta", "a change keeps them");
    bench.ask("PUT", &format!("{path}/tags"), json!({"tags": []})).await.data();
    assert_eq!(found("tags=sales").await, 0);
    let wrong = bench.ask("PUT", &format!("{path}/tags"), json!({"tags": ["a\nb"]})).await.refusal();
    assert_eq!(wrong.0, 101);
}

#[tokio::test]
async fn an_agent_is_exported_without_secrets_and_imported_again() {
    let bench = bench(Script::new().reply(Reply::text("fine").always())).await;
    let call = json!({"url": "http://127.0.0.1:9/", "headers": {"Authorization": "Bearer rosebud-0815"},
        "exception_method": "comment", "exception_default_value": "down"});
    let canvas = json!({
        "components": {
            "begin": begin("", "Invoke:I"),
            "Invoke:I": component("Invoke", &call, &["Message:M"]),
            "Message:M": component("Message", &json!({"content": ["{secret.CRM} {env.pin}"]}), &[]),
        },
        "variables": {"pin": {"type": "secret", "value": "4711-0815"}},
    });
    let id = bench.store("Shop", canvas).await;
    bench.ask("PUT", &format!("/api/v1/agents/{id}/tags"), json!({"tags": "a,b"})).await.data();
    let handed_on = bench.get(&format!("/api/v1/agents/{id}/export")).await;
    assert!(!handed_on.text.contains("rosebud") && !handed_on.text.contains("4711"), "{}", handed_on.text);
    let export = handed_on.data();
    assert_eq!((&export["secrets"], export["stripped"].as_array().unwrap().len()), (&json!(["CRM"]), 2));
    let imported = bench.post("/api/v1/agents/import", export.clone()).await.data();
    assert_eq!((&imported["title"], &imported["missing_secrets"]), (&json!("Shop (2)"), &json!(["CRM"])));
    assert_eq!(imported["tags"], "a,b");
    assert_eq!(imported["dsl"], export["dsl"]);
    // A template in the format of RAGFlow.
    let template = json!({"id": 7, "title": {"de": "Laden", "en": "Market"}, "description": {"zh": "商店"},
        "canvas_type": "Agent", "dsl": export["dsl"]});
    let imported = bench.post("/api/v1/agents/import", template).await.data();
    assert_eq!((&imported["title"], &imported["description"]), (&json!("Market"), &json!("商店")));
    let wrong = bench.post("/api/v1/agents/import", json!({"title": "X", "dsl": {"n": 1}})).await.refusal();
    assert_eq!(wrong.0, 101);
}

#[tokio::test]
async fn templates_are_listed_and_used_to_create_agents() {
    let bench = bench(Script::new().reply(Reply::text("fine").always())).await;
    let listed = bench.get("/api/v1/agents/templates").await.data();
    assert!(listed.as_array().unwrap().len() >= 12);
    assert_eq!(bench.get("/v1/canvas/templates").await.data(), listed);
    for template in listed.as_array().unwrap() {
        let path = format!("/api/v1/agents/templates/{}", template["id"].as_str().unwrap());
        let made = bench.post(&path, json!({})).await.data();
        let told = made["problems"].as_array().unwrap().iter();
        // The documents of a sample become a dataset only when somebody creates one.
        let told: Vec<_> = told.filter(|problem| problem["code"] != "unknown-dataset").collect();
        assert_eq!(told, Vec::<&Json>::new(), "{path}");
        assert_eq!(made["title"], template["title"]["en"]);
    }
    let greet = bench.post("/api/v1/agents/templates/greet", json!({"title": "Mine"})).await.data();
    let path = format!("/api/v1/agents/{}", greet["id"].as_str().unwrap());
    assert!(said(&bench, &path, json!({})).await["data"]["content"].as_str().unwrap().contains('Q'));
    assert_eq!(bench.post("/api/v1/agents/templates/none", json!({})).await.refusal().0, 102);
}
