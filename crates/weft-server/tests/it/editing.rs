//! Routes for canvas editors: running one component, prompts, databases, settings.

use serde_json::{Value as Json, json};
use weft_testkit::{Reply, Script};

use crate::support::{Bench, begin, bench, chat_canvas, component, echo_canvas, form_canvas};

async fn form(bench: &Bench, agent: &str, component: &str) -> Json {
    let new = bench.get(&format!("/api/v1/agents/{agent}/components/{component}/input-form")).await.data();
    for prefix in ["/v1/canvas", "/api/canvas"] {
        let path = format!("{prefix}/input_form?id={agent}&component_id={component}");
        assert_eq!(bench.get(&path).await.data(), new);
        let refused = bench.get(&format!("{prefix}/input_form?id={agent}")).await.refusal();
        assert_eq!(refused, (101, "required argument are missing: component_id; ".to_owned()));
    }
    new
}

async fn tried(bench: &Bench, agent: &str, component: &str, params: Json) -> Json {
    let path = format!("/api/v1/agents/{agent}/components/{component}/debug");
    bench.post(&path, json!({"params": params})).await.data()
}

#[tokio::test]
async fn a_component_runs_alone_with_given_values() {
    let bench = bench(Script::new().reply(Reply::text("Hello").always())).await;
    let agent = bench.store("A", chat_canvas()).await;
    let line =
        |name: &str| json!({"type": "line", "name": name, "optional": false, "options": [], "value": ""});
    assert_eq!(form(&bench, &agent, "Agent:A").await, json!({"sys.query": line("sys.query")}));
    assert_eq!(form(&bench, &agent, "Message:M").await, json!({"Agent:A@content": line("Agent:A@content")}));

    let outputs =
        tried(&bench, &agent, "Agent:A", json!({"sys.query": {"value": "Who?", "type": "line"}})).await;
    assert_eq!(outputs["content"], "Hello", "{outputs}");
    assert_eq!(outputs.get("_ERROR"), None);
    let asked = bench.model.requests();
    assert_eq!((asked.len(), asked[0].messages.last().unwrap().text.as_str()), (1, "Who?"));

    // The components before it do not run.
    let outputs = tried(&bench, &agent, "Message:M", json!({"Agent:A@content": "typed"})).await;
    assert_eq!((&outputs["content"], bench.model.requests().len()), (&json!("typed"), 1), "{outputs}");
    let old =
        json!({"id": agent, "component_id": "Message:M", "params": {"Agent:A@content": {"value": "old"}}});
    assert_eq!(bench.post("/v1/canvas/debug", old).await.data()["content"], "old");

    // It leaves no session and no run, and the canvas is unchanged.
    assert_eq!(bench.get(&format!("/api/v1/agents/{agent}/sessions")).await.json()["total"], 0);
    assert_eq!(bench.get("/api/v1/runs").await.data()["runs"], json!([]));
    let shown = bench.get(&format!("/api/v1/agents/{agent}")).await.data();
    assert_eq!(shown["dsl"], chat_canvas());
}

#[tokio::test]
async fn usage_of_a_component_run_alone_is_counted() {
    let bench = bench(Script::new().reply(Reply::text("Hello").always())).await;
    let agent = bench.store("A", chat_canvas()).await;
    tried(&bench, &agent, "Agent:A", json!({"sys.query": "Who?"})).await;
    let spent = bench.get("/api/v1/spending").await.data();
    assert!(spent.to_string().contains(&agent), "{spent}");
}

#[tokio::test]
async fn every_component_type_can_be_tried_or_gives_a_reason() {
    let bench = bench(Script::new()).await;
    let switch = json!({
        "conditions": [{"logical_operator": "and", "to": ["Message:Yes"],
            "items": [{"cpn_id": "sys.query", "operator": "=", "value": "yes"}]}],
        "end_cpn_ids": ["Message:No"],
    });
    let each = json!({"items_ref": "begin@list"});
    let canvas = json!({"components": {
        "begin": component("Begin", &json!({"mode": "conversational", "prologue": "Hi",
            "inputs": {"q": {"name": "Q", "type": "line", "optional": false}}}), &["Switch:S"]),
        "Switch:S": component("Switch", &switch, &["Message:Yes", "Message:No"]),
        "Message:Yes": component("Message", &json!({"content": ["{begin@q} {env.x}"]}), &[]),
        "Message:No": component("Message", &json!({"content": ["no"]}), &[]),
        "StringTransform:T": component("StringTransform",
            &json!({"method": "merge", "script": "<{Message:No@content}>", "delimiters": [","]}), &[]),
    }, "variables": {"x": {"name": "x", "type": "string", "value": "start"}}});
    let agent = bench.store("A", canvas).await;

    assert_eq!(form(&bench, &agent, "begin").await["q"]["name"], "Q");
    assert_eq!(tried(&bench, &agent, "begin", json!({"q": {"value": 7}})).await, json!({"q": 7}));
    let shown = tried(&bench, &agent, "Message:Yes", json!({"begin@q": "a", "env.x": "b"})).await;
    assert_eq!(shown["content"], "a b");
    // Values that are not given come from the canvas, or are empty.
    assert_eq!(tried(&bench, &agent, "Message:Yes", json!({})).await["content"], " start");
    let transformed = tried(&bench, &agent, "StringTransform:T", json!({"Message:No@content": "x"})).await;
    assert_eq!(transformed["result"], "<x>", "{transformed}");
    let chosen = tried(&bench, &agent, "Switch:S", json!({"sys.query": "yes"})).await;
    assert!(chosen.to_string().contains("Message:Yes"), "{chosen}");

    let person = bench.store("B", form_canvas()).await;
    assert_eq!(form(&bench, &person, "UserFillUp:F").await["colour"]["name"], "Colour");
    assert_eq!(
        tried(&bench, &person, "UserFillUp:F", json!({"colour": "red"})).await,
        json!({"colour": "red"})
    );

    let iteration = json!({"components": {
        "begin": begin("", "Iteration:I"),
        "Iteration:I": component("Iteration", &each, &[]),
        "IterationItem:I": {"obj": {"component_name": "IterationItem", "params": {}},
            "downstream": ["Message:M"], "upstream": [], "parent_id": "Iteration:I"},
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": ["<{item}>"]}},
            "downstream": [], "upstream": ["IterationItem:I"], "parent_id": "Iteration:I"},
    }});
    let loops = bench.store("C", iteration).await;
    assert_eq!(form(&bench, &loops, "Message:M").await["IterationItem:I@item"]["type"], "line");
    let inside = tried(&bench, &loops, "Message:M", json!({"IterationItem:I@item": "one"})).await;
    assert_eq!(inside["content"], "<one>", "{inside}");
    let path = format!("/api/v1/agents/{loops}/components/Iteration:I/debug");
    let (code, message) = bench.post(&path, json!({"params": {}})).await.refusal();
    assert!(code == 100 && message.contains("loop"), "{code} {message}");
}

#[tokio::test]
async fn components_that_cannot_be_tried_are_refused() {
    let bench =
        bench(Script::new().reply(Reply::error(weft_core::ErrorKind::Denied, "no such key").always())).await;
    let agent = bench.store("A", chat_canvas()).await;
    let path = |component: &str| format!("/api/v1/agents/{agent}/components/{component}");
    let (code, message) = bench.get(&format!("{}/input-form", path("Agent:B"))).await.refusal();
    assert!(code == 100 && message.contains("Agent:B"), "{message}");
    let unread = json!({"params": {"sys.quary": "x"}});
    let (code, message) = bench.post(&format!("{}/debug", path("Agent:A")), unread).await.refusal();
    assert!(code == 100 && message.contains("sys.query"), "{message}");
    let (code, _) = bench.post("/v1/canvas/debug", json!({"id": agent})).await.refusal();
    assert_eq!(code, 101);
    let debug = format!("{}/debug", path("Agent:A"));
    for body in [json!({}), json!({"params": null}), json!({"sys.query": "x"})] {
        let refused = bench.post(&debug, body).await.refusal();
        assert_eq!(refused, (101, "required argument are missing: params; ".into()));
    }
    for params in [json!(5), json!("x"), json!(["x"]), json!(true)] {
        let named = json!({"id": agent, "component_id": "Agent:A", "params": params});
        for (path, body) in [(debug.as_str(), json!({"params": params})), ("/v1/canvas/debug", named)] {
            let (code, message) = bench.post(path, body).await.refusal();
            assert!(code == 101 && message.contains("Field: <params>"), "{code} {message}");
        }
    }
    assert!(bench.model.requests().is_empty(), "nothing has run");
    let nobodys = "/api/v1/agents/nobodys/components/Agent:A/debug";
    assert_eq!(bench.post(nobodys, json!({"params": {}})).await.refusal(), (102, "canvas not found.".into()));

    let deep = format!("begin@x{}", ".a".repeat(100));
    let says = component("Message", &json!({"content": [format!("{{{deep}}}")]}), &[]);
    let canvas = json!({"components": {"begin": begin("", "Message:M"), "Message:M": says}});
    let deepest = bench.store("Deep", canvas).await;
    let path = format!("/api/v1/agents/{deepest}/components/Message:M/debug");
    let (code, message) = bench.post(&path, json!({"params": {deep: "x"}})).await.refusal();
    assert!(code == 100 && message.contains("more than 64 parts"), "{message}");

    let failed = tried(&bench, &agent, "Agent:A", json!({"sys.query": "x"})).await;
    assert!(failed["_ERROR"].as_str().is_some_and(|why| why.contains("no such key")), "{failed}");
}

#[tokio::test]
async fn the_default_prompts_of_agents_are_shown_on_both_routes() {
    let bench = bench(Script::new()).await;
    let prompts = bench.get("/api/v1/agents/prompts").await.data();
    for name in ["task_analysis", "plan_generation", "reflection", "citation_guidelines"] {
        assert!(prompts[name].as_str().is_some_and(|text| text.len() > 100), "{name}: {prompts}");
    }
    assert!(prompts["citation_guidelines"].as_str().unwrap().contains("[ID:"));
    assert_eq!(bench.get("/v1/canvas/prompts").await.data(), prompts);
}

#[tokio::test]
async fn a_database_connection_error_does_not_show_the_password() {
    let bench = bench(Script::new()).await;
    let database = json!({"db_type": "mysql", "database": "d", "username": "u", "host": "127.0.0.1", "port": 3306,
        "password": "s3cret"});
    for path in ["/api/v1/agents/test_db_connection", "/v1/canvas/test_db_connect"] {
        let answer = bench.post(path, database.clone()).await;
        assert_eq!(answer.refusal().0, 100);
        assert!(!answer.text.contains("s3cret"), "{}", answer.text);
        assert_eq!(bench.post(path, json!({"db_type": "mysql"})).await.refusal().0, 101);
    }
}

#[tokio::test]
async fn settings_change_the_description_of_an_agent_but_not_its_canvas() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("A", echo_canvas()).await;
    bench.store("B", echo_canvas()).await;
    let set = async |body: Json| bench.post("/v1/canvas/setting", body).await;
    let changed = json!({"id": agent, "title": "C", "permission": "team", "description": "d", "dsl": {}});
    assert_eq!(set(changed).await.data(), 1);
    let shown = bench.get(&format!("/api/v1/agents/{agent}")).await.data();
    assert_eq!((&shown["title"], &shown["permission"]), (&json!("C"), &json!("team")));
    assert_eq!((&shown["description"], &shown["dsl"]), (&json!("d"), &echo_canvas()));
    assert_eq!(
        bench.get(&format!("/api/v1/agents/{agent}/versions")).await.data().as_array().unwrap().len(),
        1
    );
    assert_eq!(set(json!({"id": agent, "title": "b", "permission": "me"})).await.refusal().0, 102);
    assert_eq!(set(json!({"id": "nobodys", "title": "x", "permission": "me"})).await.refusal().0, 103);
    assert_eq!(set(json!({"id": agent})).await.refusal().0, 101);
}

#[tokio::test]
async fn sessions_are_listed_with_their_total_on_the_older_route() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("A", echo_canvas()).await;
    for name in ["a", "b"] {
        bench.post(&format!("/api/v1/agents/{agent}/sessions"), json!({"name": name})).await.data();
    }
    let listed = bench.get(&format!("/v1/canvas/{agent}/sessions?page=1&page_size=1")).await.data();
    assert_eq!((&listed["total"], listed["sessions"].as_array().unwrap().len()), (&json!(2), 1));
    let (code, _) = bench.get("/v1/canvas/nobodys/sessions").await.refusal();
    assert_eq!(code, 102);
}

#[tokio::test]
async fn a_public_page_gets_only_the_greeting_and_the_begin_form() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("A", chat_canvas()).await;
    let other = bench.store("B", echo_canvas()).await;
    let share = bench.post(&format!("/api/v1/agents/{agent}/shares"), json!({"name": "p"})).await.data();
    let page = bench.with(share["token"].as_str().unwrap());
    let shown = page.get(&format!("/v1/canvas/getsse/{agent}")).await;
    assert_eq!(shown.data()["dsl"]["components"]["begin"]["obj"]["component_name"], "Begin");
    assert!(!shown.text.contains("You are helpful") && !shown.text.contains("Agent:A"), "{}", shown.text);
    assert_eq!(page.get(&format!("/v1/canvas/getsse/{other}")).await.refusal().0, 103);
    assert_eq!(bench.get(&format!("/v1/canvas/getsse/{agent}")).await.data()["dsl"], chat_canvas());
}
