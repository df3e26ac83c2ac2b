//! Search apps: created, changed, asked; isolation between tenants.

use serde_json::{Value as Json, json};
use weft_testkit::{Reply, Script};

use crate::support::{Bench, bench};

const SEARCHES: &str = "/api/v1/searches";

/// Creates a dataset with a document about animals and returns its id.
async fn animals(bench: &Bench) -> String {
    let dataset = bench.dataset("Docs").await;
    let document = bench.document(&dataset, "animals.txt", "The quick brown fox.\nA lazy dog sleeps.").await;
    bench.read(&dataset, &[&document]).await;
    dataset.rsplit('/').next().unwrap().to_owned()
}

async fn search_app(bench: &Bench, body: Json) -> String {
    bench.post(SEARCHES, body).await.data()["search_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_search_app_is_created_listed_changed_and_removed() {
    let bench = bench(Script::new()).await;
    let app = search_app(&bench, json!({"name": " Find ", "description": "of animals"})).await;
    let second = search_app(&bench, json!({"name": "find"})).await;
    let listed = bench.get(&format!("{SEARCHES}?orderby=name&desc=false")).await.data();
    let names: Vec<_> =
        listed["search_apps"].as_array().unwrap().iter().map(|app| app["name"].clone()).collect();
    assert_eq!((names, &listed["total"]), (vec![json!("Find"), json!("find(1)")], &json!(2)));
    let shown = bench.get(&format!("{SEARCHES}/{app}")).await.data();
    assert_eq!((&shown["id"], &shown["description"]), (&json!(app), &json!("of animals")));
    assert_eq!(shown["search_config"], json!({}));

    let change = json!({"name": "Found", "search_config": {"top_k": 3, "summary": true}});
    let changed = bench.ask("PUT", &format!("{SEARCHES}/{app}"), change).await.data();
    assert_eq!((&changed["name"], &changed["search_config"]["top_k"]), (&json!("Found"), &json!(3)));
    let taken = json!({"name": "FIND(1)", "search_config": {}});
    let refused = bench.ask("PUT", &format!("{SEARCHES}/{app}"), taken).await.refusal();
    assert_eq!(refused, (102, "Duplicated search name.".to_owned()));
    let kept = bench.get(&format!("{SEARCHES}/{app}")).await.data();
    assert_eq!((&kept["name"], &kept["search_config"]["summary"]), (&json!("Found"), &json!(true)));
    let detail = bench.get(&format!("/api/v1/searchbots/detail?search_id={app}")).await.data();
    assert_eq!(detail, kept);

    // An assistant is not a search app, and vice versa.
    let chat = bench.post("/api/v1/chats", json!({"name": "Found"})).await.data()["id"].clone();
    let chat = chat.as_str().unwrap();
    assert_eq!(bench.get(&format!("{SEARCHES}/{chat}")).await.refusal().0, 103);
    assert_eq!(bench.ask("DELETE", &format!("{SEARCHES}/{chat}"), json!({})).await.refusal().0, 109);
    assert_eq!(bench.get(&format!("/api/v1/chats/{app}")).await.refusal().0, 109);
    assert_eq!(bench.ask("DELETE", &format!("/api/v1/chats/{app}"), json!({})).await.refusal().0, 109);
    let chats = bench.get("/api/v1/chats").await.data();
    assert_eq!((&chats["total"], &chats["chats"][0]["id"]), (&json!(1), &json!(chat)));

    assert_eq!(bench.ask("DELETE", &format!("{SEARCHES}/{app}"), json!({})).await.data(), json!(true));
    assert_eq!(bench.ask("DELETE", &format!("{SEARCHES}/{app}"), json!({})).await.refusal().0, 109);
    let removed = bench.ask("DELETE", "/api/v1/chats", json!({"delete_all": true})).await.data();
    assert_eq!(removed["success_count"], 1);
    assert_eq!(bench.get(&format!("{SEARCHES}/{second}")).await.data()["name"], "find(1)", "it is no chat");
}

#[tokio::test]
async fn invalid_search_apps_give_the_error_messages_of_the_api() {
    let bench = bench(Script::new()).await;
    let app = search_app(&bench, json!({"name": "S"})).await;
    let at = format!("{SEARCHES}/{app}");
    for (body, expected) in [
        (json!({}), (101, "required argument are missing: name; ")),
        (json!({"name": ""}), (102, "Search name can't be empty.")),
        (json!({"name": 5}), (102, "Search name must be string.")),
        (
            json!({"name": "x", "search_config": {"top_k": -1}}),
            (102, "`top_k` should be a number from 1 to 2048."),
        ),
    ] {
        assert_eq!(bench.post(SEARCHES, body).await.refusal(), (expected.0, expected.1.to_owned()));
    }
    let refused = bench.ask("PUT", &at, json!({"name": "x"})).await.refusal();
    assert_eq!(refused, (101, "required argument are missing: search_config; ".to_owned()));
    let other = bench
        .ask("PUT", &format!("{SEARCHES}/nobodys"), json!({"name": "x", "search_config": {"a": 1}}))
        .await;
    assert_eq!(other.refusal(), (109, "No authorization.".to_owned()));
    for path in ["completion", "completions"] {
        let at = format!("{at}/{path}");
        let (code_, words) = bench.post(&at, json!({})).await.refusal();
        assert!(code_ == 101 && words.contains("question is required"), "{words}");
        let refused = bench.post(&at, json!({"question": "Who?"})).await.refusal();
        assert_eq!(refused, (102, "`kb_ids` is required.".to_owned()));
        let refused = bench.post(&at, json!({"question": "Who?", "kb_ids": ["nobodys"]})).await.refusal();
        assert_eq!(refused, (102, "You don't own the dataset nobodys".to_owned()));
    }
}

#[tokio::test]
async fn datasets_of_others_are_not_stored() {
    let bench = bench(Script::new()).await;
    let path = bench.dataset("Docs").await;
    let dataset = path.rsplit('/').next().unwrap();
    let stranger = bench.with(&bench.stranger().await);
    let app = search_app(&stranger, json!({"name": "S"})).await;
    let at = format!("{SEARCHES}/{app}");
    let body = json!({"name": "S", "search_config": {"kb_ids": [dataset]}});
    let expected = (102, format!("You don't own the dataset {dataset}"));
    assert_eq!(stranger.post(SEARCHES, body.clone()).await.refusal(), expected);
    assert_eq!(stranger.ask("PUT", &at, body.clone()).await.refusal(), expected);
    assert_eq!(stranger.get(&at).await.data()["search_config"], json!({}));
    let many: Vec<String> = (0..1_001).map(|number| number.to_string()).collect();
    let many = json!({"name": "S", "search_config": {"kb_ids": many}});
    let refused = bench.post(SEARCHES, many).await.refusal();
    assert_eq!(refused, (102, "a search app can have at most 1000 datasets".to_owned()));
    // What it has may be removed later, and other settings can be changed as before.
    let own = format!("{SEARCHES}/{}", search_app(&bench, body).await);
    bench.ask("DELETE", "/api/v1/datasets", json!({"ids": [dataset]})).await.data();
    let change = json!({"name": "S", "search_config": {"top_k": 3}});
    assert_eq!(bench.ask("PUT", &own, change).await.data()["search_config"]["top_k"], 3);
}

#[tokio::test]
async fn a_question_is_answered_from_the_datasets_with_sources() {
    let script = Script::new().reply(Reply::text("The fox is quick [ID:0].").always());
    let bench = bench(script).await;
    let dataset = animals(&bench).await;
    let config = json!({"kb_ids": [dataset], "similarity_threshold": 0.0});
    let app = search_app(&bench, json!({"name": "S", "search_config": config})).await;
    let ask = json!({"question": "Who is quick? fox"});
    for (path, body) in [
        (format!("{SEARCHES}/{app}/completions"), ask.clone()),
        (format!("{SEARCHES}/{app}/completion"), json!({"question": "fox", "kb_ids": ["nobodys"]})),
        ("/api/v1/searchbots/ask".to_owned(), json!({"question": "fox", "kb_ids": [dataset]})),
        ("/api/v1/searchbots/ask".to_owned(), json!({"question": "fox", "search_id": app})),
    ] {
        let frames = bench.post(&path, body).await.frames();
        let last = frames.last().unwrap().json();
        assert_eq!(last["data"], json!(true), "{path}");
        let said: String = frames
            .iter()
            .filter_map(|frame| frame.json()["data"]["answer"].as_str().map(str::to_owned))
            .collect();
        assert!(said.starts_with("The fox is quick"), "{path}: {said}");
        let told = frames.iter().map(|frame| frame.json()["data"]["reference"]["chunks"].clone());
        let sources: Vec<_> = told.filter(Json::is_array).collect();
        assert!(sources[0][0].to_string().contains("quick brown fox"), "{path}: {sources:?}");
    }
    let whole = json!({"question": "fox", "stream": false});
    let whole = bench.post(&format!("{SEARCHES}/{app}/completions"), whole).await.data();
    assert!(whole["answer"].as_str().unwrap().starts_with("The fox is quick"), "{whole}");
    // The prompt of the model contains the passages.
    let asked = bench.model.requests().remove(0);
    assert!(asked.messages[0].text.contains("quick brown fox"), "{:?}", asked.messages[0]);
}

#[tokio::test]
async fn datasets_are_searched_on_the_older_route() {
    const ASK: &str = "/api/v1/sessions/ask";
    let bench = bench(Script::new().reply(Reply::text("The fox is quick [ID:0].").always())).await;
    let dataset = animals(&bench).await;
    let empty = bench.dataset("Empty").await;
    let empty = empty.rsplit('/').next().unwrap();
    let frames = bench.post(ASK, json!({"question": "fox", "dataset_ids": [dataset]})).await.frames();
    assert_eq!(frames.last().unwrap().json()["data"], json!(true));
    let answers: Vec<Json> = frames.iter().map(|frame| frame.json()["data"].clone()).collect();
    let last = answers.iter().rfind(|data| data["answer"].is_string()).unwrap();
    assert!(
        last["answer"].as_str().unwrap().starts_with("The fox is quick"),
        "each frame has the whole answer so far: {last}"
    );
    assert!(last["reference"]["chunks"][0].to_string().contains("quick brown fox"), "{last}");
    for (body, expected) in [
        (json!({"dataset_ids": [dataset]}), "`question` is required.".to_owned()),
        (json!({"question": "fox"}), "`dataset_ids` is required.".to_owned()),
        (json!({"question": "fox", "dataset_ids": "x"}), "`dataset_ids` should be a list.".to_owned()),
        (json!({"question": "fox", "dataset_ids": ["x"]}), "You don't own the dataset x.".to_owned()),
        (
            json!({"question": "fox", "dataset_ids": [empty]}),
            format!("The dataset {empty} doesn't own parsed file"),
        ),
    ] {
        assert_eq!(bench.post(ASK, body).await.refusal(), (102, expected));
    }
}

#[tokio::test]
async fn passages_are_found_with_the_settings_of_a_search_app() {
    const FIND: &str = "/api/v1/searchbots/retrieval_test";
    let bench = bench(Script::new()).await;
    let dataset = animals(&bench).await;
    let one = search_app(&bench, json!({"name": "S", "search_config": {"top_k": 1}})).await;
    let own = search_app(&bench, json!({"name": "Own", "search_config": {"kb_ids": [dataset]}})).await;
    for (body, count) in [
        (json!({"question": "fox dog", "kb_id": [dataset]}), 2),
        (json!({"question": "fox dog", "kb_id": dataset}), 2),
        (json!({"question": "fox dog", "kb_id": [dataset], "search_id": one}), 1),
        (json!({"question": "fox dog", "search_id": own}), 2),
    ] {
        let found = bench.post(FIND, body.clone()).await.data();
        assert_eq!(found["chunks"].as_array().unwrap().len(), count, "{body}: {found}");
    }
    for body in [json!({"question": "fox"}), json!({"question": "fox", "kb_id": []})] {
        let none = (102, "Please specify dataset firstly.".to_owned());
        assert_eq!(bench.post(FIND, body).await.refusal(), none);
    }
    assert_eq!(bench.post(FIND, json!({"kb_id": [dataset]})).await.refusal().0, 101);
    assert_eq!(bench.post(FIND, json!({"question": "fox", "kb_id": ["nobodys"]})).await.refusal().0, 102);
    let other = json!({"question": "fox", "kb_id": [dataset], "search_id": "nobodys"});
    assert_eq!(bench.post(FIND, other).await.refusal(), (109, "No authorization.".to_owned()));
    let stranger = bench.with(&bench.stranger().await);
    assert_eq!(stranger.post(FIND, json!({"question": "fox", "kb_id": [dataset]})).await.refusal().0, 102);
    // What is removed later takes nothing with it, as when the app answers.
    let path = bench.dataset("Removed later").await;
    let config = json!({"kb_ids": [path.rsplit('/').next().unwrap(), dataset]});
    let both = search_app(&bench, json!({"name": "Both", "search_config": config})).await;
    let remove = async |id: &str| bench.ask("DELETE", "/api/v1/datasets", json!({"ids": [id]})).await.data();
    remove(path.rsplit('/').next().unwrap()).await;
    let asked = json!({"question": "fox dog", "search_id": both});
    let found = bench.post(FIND, asked.clone()).await.data();
    assert_eq!(found["chunks"].as_array().unwrap().len(), 2, "{found}");
    remove(&dataset).await;
    let (code, message) = bench.post(FIND, asked).await.refusal();
    assert!(code == 102 && message.contains("have been removed"), "{message}");
}

#[tokio::test]
async fn a_mind_map_is_made_from_search_results() {
    const DRAW: &str = "/api/v1/searchbots/mindmap";
    let outline = "# Animals\n- foxes\n  - quick\n- dogs";
    let bench = bench(Script::new().reply(Reply::text(outline).always())).await;
    let dataset = animals(&bench).await;
    let app = search_app(&bench, json!({"name": "S", "search_config": {"kb_ids": [dataset]}})).await;
    let leaf = |id: &str| json!({"id": id, "children": []});
    let tree =
        json!({"id": "Animals", "children": [{"id": "foxes", "children": [leaf("quick")]}, leaf("dogs")]});
    for body in [json!({"kb_ids": [dataset]}), json!({"search_id": app})] {
        let mut body = body;
        body["question"] = "fox".into();
        for path in [DRAW, "/api/v1/chat/mindmap"] {
            assert_eq!(bench.post(path, body.clone()).await.data(), tree, "{path}");
        }
    }
    let asked = bench.model.requests().remove(0);
    let system = &asked.messages[0].text;
    assert!(system.contains("mind map") && system.contains("quick brown fox"), "{system}");
    let refused = bench.post(DRAW, json!({"question": "fox"})).await.refusal();
    assert_eq!(refused, (102, "`kb_ids` is required.".to_owned()));
    assert_eq!(bench.post(DRAW, json!({"kb_ids": [dataset]})).await.refusal().0, 101);
    let other = json!({"question": "fox", "search_id": "nobodys"});
    assert_eq!(bench.post(DRAW, other).await.refusal(), (109, "No authorization.".to_owned()));
}
