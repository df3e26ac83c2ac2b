//! Rows of the contract as a client sees them: a real server, and a model server that records its requests.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value as Json, json};
use weft_core::ErrorKind;
use weft_testkit::{Reply, Script, ScriptedServer};

use crate::support::{begin, component, said};
use crate::wire::{Server, config, start};

/// A canvas around one node that calls a model.
fn around(kind: &str, params: &Json) -> Json {
    let id = format!("{kind}:A");
    let message = json!({"content": [format!("{{{id}@content}}")]});
    json!({"components": {
        "begin": begin("", &id),
        id: component(kind, params, &["Message:M"]),
        "Message:M": component("Message", &message, &[]),
    }})
}

fn llm(more: &Json) -> Json {
    let mut params = json!({"llm_id": "m", "cite": false, "sys_prompt": "Be kind.",
        "prompts": [{"role": "user", "content": "Asked: {sys.query}"}]});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    around("LLM", &params)
}

/// Stores a canvas over HTTP under a unique title; returns its id.
async fn store(server: &Server, dsl: &Json) -> String {
    static STORED: AtomicU32 = AtomicU32::new(0);
    let title = format!("T{}", STORED.fetch_add(1, Ordering::Relaxed));
    let body = json!({"title": title, "dsl": dsl});
    let stored = server.request("POST", "/api/canvas/set").json(&body).send().await.unwrap();
    let stored: Json = stored.json().await.unwrap();
    stored["data"]["id"].as_str().unwrap_or_else(|| panic!("{stored}")).to_owned()
}

async fn asked(server: &Server, id: &str, query: &str, session: Option<&str>) -> Json {
    let body = json!({"query": query, "stream": false, "session_id": session});
    let path = format!("/api/v1/agents/{id}/completions");
    let answer: Json = server.request("POST", &path).json(&body).send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["code"], 0, "{answer}");
    answer["data"].clone()
}

/// Row 15: the text is streamed in pieces, and the end has the total usage of all requests.
#[tokio::test]
async fn an_agent_streams_and_its_tokens_are_the_sum_of_its_requests() {
    let look = Reply::call("calculator_0", json!({"expression": "6 * 7"})).usage(10, 2);
    let answer = Reply::pieces(["It ", "is ", "42."]).usage(20, 3);
    let models = ScriptedServer::start(Script::new().reply(look.times(1)).reply(answer)).await;
    let folder = tempfile::tempdir().unwrap();
    let server = start(&config(folder.path(), &models)).await;
    let id = store(&server, &around("Agent", &json!({"llm_id": "m", "tools": ["Calculator"]}))).await;
    let path = format!("/api/v1/agents/{id}/completions");
    let frames =
        server.stream(&path, json!({"query": "six times seven?", "stream": true})).await.whole().await;
    let kinds: Vec<String> = frames.iter().map(crate::support::Frame::event).collect();
    let place = |kind: &str| kinds.iter().position(|own| own == kind).unwrap();
    let pieces = kinds[..place("message_end")].iter().filter(|kind| *kind == "message").count();
    assert!(pieces >= 2, "{kinds:?}");
    assert_eq!(said(&frames), "It is 42.");
    let usage = frames[place("workflow_finished")].json()["data"]["usage"].clone();
    let expected = json!({"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35, "calls": 2});
    assert_eq!(usage, expected);
    server.stop().await;
}

/// Row 53: the provider gets the prompt of the node, and a parameter only if it is enabled.
#[tokio::test]
async fn the_model_node_sends_its_prompt_and_enabled_parameters() {
    let models = ScriptedServer::start(Script::new().reply(Reply::text("Yes.").always())).await;
    let folder = tempfile::tempdir().unwrap();
    let server = start(&config(folder.path(), &models)).await;
    let parameters = [
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "max_tokens",
        "max_completion_tokens",
    ];
    let values = json!({"temperature": 0.25, "top_p": 0.5, "presence_penalty": -1.5, "frequency_penalty": 0.75,
        "max_tokens": 77});
    let mut on = values.clone();
    for switch in ["temperature", "topP", "presencePenalty", "frequencyPenalty", "maxTokens"] {
        on[format!("{switch}Enabled")] = json!(true);
    }
    for (params, expected) in [(values.clone(), json!({})), (on, values)] {
        let id = store(&server, &llm(&params)).await;
        asked(&server, &id, "Q", None).await;
        let body = models.requests().last().unwrap().body.clone();
        let sent = parameters.iter().filter_map(|name| Some(((*name).to_owned(), body.get(*name)?.clone())));
        assert_eq!(Json::Object(sent.collect()), expected, "{body}");
        let said =
            json!([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Asked: Q"}]);
        assert_eq!(body["messages"], said);
    }
    // A window of one turn: of two earlier turns only the last is sent.
    let id = store(&server, &llm(&json!({"message_history_window_size": 1}))).await;
    let session = asked(&server, &id, "one", None).await["session_id"].as_str().unwrap().to_owned();
    asked(&server, &id, "two", Some(&session)).await;
    asked(&server, &id, "three", Some(&session)).await;
    let body = models.requests().last().unwrap().body.clone();
    let texts: Vec<_> = body["messages"].as_array().unwrap().iter().map(|m| m["content"].clone()).collect();
    assert_eq!(json!(texts), json!(["Be kind.", "two", "Yes.", "Asked: three"]));
    server.stop().await;
}

/// Row 50: a provider that answers every request with status 500 gives the default value, or an error of the node.
#[tokio::test]
async fn a_provider_that_is_down_gives_the_default_value_or_an_error_of_the_node() {
    let down = Reply::error(ErrorKind::Internal, "it broke").always();
    let models = ScriptedServer::start(Script::new().reply(down)).await;
    let folder = tempfile::tempdir().unwrap();
    let server = start(&config(folder.path(), &models)).await;
    for (kind, tools) in [("Agent", json!(["Calculator"])), ("LLM", json!([]))] {
        let asks = json!({"llm_id": "m", "max_retries": 1, "delay_after_error": 0,
            "prompts": [{"role": "user", "content": "{sys.query}"}]});
        let run = async |more: Json| {
            let mut params = asks.clone();
            if kind == "Agent" {
                params["tools"] = tools.clone();
            }
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let id = store(&server, &around(kind, &params)).await;
            let path = format!("/api/v1/agents/{id}/completions");
            let stream = server.stream(&path, json!({"query": "Q", "stream": true})).await;
            let frames = stream.whole().await;
            let of = |event: &str, component: Option<&str>| {
                let fits = |frame: &Json| {
                    frame["event"] == event && component.is_none_or(|id| frame["data"]["component_id"] == id)
                };
                let found = frames.iter().map(crate::support::Frame::json).find(fits);
                found.unwrap_or_else(|| panic!("no {event} in {frames:?}"))["data"].clone()
            };
            let node = of("node_finished", Some(&format!("{kind}:A")));
            (said(&frames), node["error"].to_string(), of("workflow_finished", None)["status"].clone())
        };
        let (shown, _, status) =
            run(json!({"exception_method": "comment", "exception_default_value": "sorry"})).await;
        assert_eq!((shown.as_str(), status), ("sorry", json!("succeeded")), "{kind}");
        let before = models.requests().len();
        let (shown, error, status) = run(json!({})).await;
        assert_eq!(status, "failed", "{kind}");
        assert!(error.contains("status 500") && error.contains("it broke"), "{kind}: {error}");
        assert!(!shown.contains("sorry"), "{kind}: {shown}");
        assert_eq!(models.requests().len() - before, 2, "{kind}: the request is retried once");
    }
    server.stop().await;
}

/// Row 54: with this option of the node, the second equal question makes no request.
#[tokio::test]
async fn a_node_can_answer_equal_questions_from_the_cache() {
    let models = ScriptedServer::start(Script::new().reply(Reply::text("Yes.").always())).await;
    let folder = tempfile::tempdir().unwrap();
    let server = start(&config(folder.path(), &models)).await;
    for (cache, expected) in [(true, 1), (false, 2)] {
        let before = models.requests().len();
        let id = store(&server, &llm(&json!({"cache": cache}))).await;
        for _ in 0..2 {
            assert_eq!(asked(&server, &id, &format!("{cache}?"), None).await["data"]["content"], "Yes.");
        }
        assert_eq!(models.requests().len() - before, expected, "{cache}");
    }
    server.stop().await;
}

/// Row 82: a stored canvas with everything that a canvas may contain is loaded and run, and no member is lost.
#[tokio::test]
async fn a_canvas_with_every_member_runs_and_keeps_them() {
    let models = ScriptedServer::start(Script::new().reply(Reply::text("Kindly.").always())).await;
    let folder = tempfile::tempdir().unwrap();
    let server = start(&config(folder.path(), &models)).await;
    let mut dsl = llm(&json!({"sys_prompt": "Be {env.tone}."}));
    let found = json!({"chunks": {}, "doc_aggs": {}});
    let parts = json!({
        "globals": {"sys.query": "", "sys.user_id": "", "sys.conversation_turns": 0, "sys.files": [], "env.tone": "calm"},
        "variables": {"tone": {"name": "tone", "type": "string", "value": "calm"}},
        "history": [["user", "before"], ["assistant", "then"]],
        "path": ["begin"], "retrieval": [found], "memory": [["before", "then", "noted"]],
        "graph": {"nodes": [], "edges": []}, "messages": [], "answer": [], "task_id": "t",
    });
    dsl.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
    let id = store(&server, &dsl).await;
    assert_eq!(asked(&server, &id, "Q", None).await["data"]["content"], "Kindly.");
    let sent = models.requests()[0].body["messages"].clone();
    assert_eq!(sent[0]["content"], "Be calm.");
    assert_eq!(sent.as_array().unwrap().last().unwrap()["content"], "Asked: Q");
    let listed = server.request("GET", &format!("/api/v1/agents/{id}")).send().await.unwrap();
    let stored: Json = listed.json().await.unwrap();
    for part in ["globals", "variables", "path", "retrieval", "memory", "graph", "task_id"] {
        assert_eq!(stored["data"]["dsl"][part], dsl[part], "{part}");
    }
    server.stop().await;
}

/// Row 84: an error in a parameter names the component and the field, and nothing runs.
#[tokio::test]
async fn a_bad_parameter_is_named_and_nothing_runs() {
    let models = ScriptedServer::start(Script::new().reply(Reply::text("Yes.").always())).await;
    let folder = tempfile::tempdir().unwrap();
    let server = start(&config(folder.path(), &models)).await;
    let id = store(&server, &llm(&json!({"temperature": 9, "temperatureEnabled": true}))).await;
    let body = json!({"query": "Q", "stream": false});
    let path = format!("/api/v1/agents/{id}/completions");
    let refused: Json = server.request("POST", &path).json(&body).send().await.unwrap().json().await.unwrap();
    let message = refused["message"].as_str().unwrap();
    assert_ne!(refused["code"], 0);
    assert!(message.contains("LLM:A") && message.contains("temperature"), "{message}");
    assert!(models.requests().is_empty());
    let sessions: Json = server
        .request("GET", &format!("/api/v1/agents/{id}/sessions"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(sessions["data"], json!([]), "{sessions}");
    server.stop().await;
}

/// The inputs of a turn are checked like the answers to a form, and nothing runs.
#[tokio::test]
async fn inputs_that_do_not_fit_the_begin_form_are_refused() {
    let models = ScriptedServer::start(Script::new().reply(Reply::text("Yes.").always())).await;
    let folder = tempfile::tempdir().unwrap();
    let server = start(&config(folder.path(), &models)).await;
    let mut dsl = llm(&json!({}));
    dsl["components"]["begin"]["obj"]["params"]["inputs"] = json!({
        "n": {"type": "integer"}, "o": {"type": "options", "options": ["red"], "optional": true},
        "f": {"type": "file", "optional": true},
    });
    let id = store(&server, &dsl).await;
    let path = format!("/api/v1/agents/{id}/completions");
    let asked = async |inputs: Json| -> Json {
        let body = json!({"query": "Q", "stream": false, "inputs": inputs});
        server.request("POST", &path).json(&body).send().await.unwrap().json().await.unwrap()
    };
    for (inputs, expected) in [
        (json!({"n": "abc"}), "field `n` of begin must be a whole number"),
        (json!({"n": {"value": 1.5}}), "field `n` of begin must be a whole number"),
        (json!({"n": 1, "o": "green"}), "field `o` of begin must be one of `red`"),
        (json!({"n": 1, "f": "some text"}), "field `f` of begin must be a file"),
        (json!({"n": 1, "f": {"id": "1", "name": "x.txt"}}), "the field `f`: there is no file `1`"),
    ] {
        let refused = asked(inputs).await;
        let message = refused["message"].as_str().unwrap();
        assert!(refused["code"] != 0 && message.contains(expected), "{refused}");
    }
    assert!(models.requests().is_empty());
    assert_eq!(asked(json!({"n": "7", "o": "red", "f": ""})).await["code"], 0);
    server.stop().await;
}
