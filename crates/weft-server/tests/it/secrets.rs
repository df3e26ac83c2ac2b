//! Secret values of a canvas are used where the canvas uses them, and are shown to nobody.

use serde_json::{Value as Json, json};
use weft_core::seam::RunStore as _;
use weft_core::{RunId, RunKey};
use weft_testkit::{Reply, Script};

use crate::support::{Bench, begin, bench, component, default_tenant, said};

const TOKEN: &str = "open-sesame-4711";
const DECLARED: &str = "rosebud-0815";

/// A token in a header, a variable that is declared secret, and everything that could repeat them.
fn canvas() -> Json {
    let call = json!({
        "url": "http://127.0.0.1:9/{env.pin}", "headers": {"Authorization": "Bearer {env.token}"},
        "exception_method": "comment", "exception_default_value": "down",
    });
    let model = json!({
        "llm_id": "m", "cite": false, "sys_prompt": "Use {env.token} and {env.pin}.",
        "prompts": [{"role": "user", "content": "{sys.query}"}],
    });
    let merge = json!({"method": "merge", "script": "<{env.token}|{env.pin}>"});
    json!({
        "components": {
            "begin": begin("", "Invoke:I"),
            "Invoke:I": component("Invoke", &call, &["StringTransform:S"]),
            "StringTransform:S": component("StringTransform", &merge, &["LLM:A"]),
            "LLM:A": component("LLM", &model, &["Message:M"]),
            "Message:M": component("Message", &json!({"content": ["{StringTransform:S@result} {LLM:A@content}"]}), &[]),
        },
        "variables": {
            "token": {"type": "string", "value": TOKEN},
            "pin": {"type": "secret", "value": DECLARED},
        },
    })
}

#[track_caller]
fn tells_nothing(text: &str) {
    for secret in [TOKEN, DECLARED] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

async fn journal(bench: &Bench, run: &str) -> String {
    let key = RunKey::new(&default_tenant(), RunId::from(run));
    let entries = bench.store.entries(&key, 0, 1_000).await.unwrap();
    assert!(!entries.is_empty());
    entries.iter().map(|entry| entry.record.to_string()).collect()
}

#[tokio::test]
async fn no_route_prompt_or_journal_contains_a_secret() {
    let bench = bench(Script::new().reply(Reply::text("fine").always())).await;
    let id = bench.store("Secrets", canvas()).await;
    let path = format!("/api/v1/agents/{id}/completions");
    let stream = bench.post(&path, json!({"question": "Q", "stream": true})).await;
    tells_nothing(&stream.text);
    assert_eq!(said(&stream.frames()), "<***|***> fine");
    let finished = stream.frames().into_iter().find(|frame| {
        let frame = frame.json();
        frame["event"] == "node_finished" && frame["data"]["component_id"] == "Invoke:I"
    });
    assert_eq!(finished.unwrap().json()["data"]["inputs"]["env.token"], "***");
    tells_nothing(
        &bench.post(&path, json!({"question": "Q", "stream": false, "return_trace": true})).await.text,
    );
    let openai = json!({"model": "m", "messages": [{"role": "user", "content": "Q"}], "stream": false});
    tells_nothing(&bench.post(&format!("/api/v1/agents_openai/{id}/chat/completions"), openai).await.text);
    let first = stream.frames()[0].json();
    let (run, session) = (first["message_id"].as_str().unwrap(), first["session_id"].as_str().unwrap());
    let read = bench.get(&format!("/api/v1/agents/{id}/sessions/{session}")).await.json();
    assert_eq!(read["data"]["messages"][1]["content"], "<***|***> fine", "{read}");
    tells_nothing(&journal(&bench, run).await);
    let asked = bench.model.requests();
    assert!(!asked.is_empty());
    for request in asked {
        let text: String = request.messages.iter().map(|message| message.text.as_str()).collect();
        tells_nothing(&text);
        assert!(text.contains("Use *** and ***."), "{text}");
    }
}

/// A secret of the tenant, whose value a canvas may receive.
const KEPT: &str = "wil\"helmina-9-lives";

/// Whether a text contains it in any encoding.
fn holds_kept(text: &str) -> bool {
    text.contains("helmina")
}

async fn put(bench: &Bench, name: &str, value: &str) {
    bench.ask("PUT", &format!("/api/v1/secrets/{name}"), json!({"value": value})).await.data();
}

#[tokio::test]
async fn secrets_are_set_listed_and_removed_only_by_their_tenant() {
    let bench = bench(Script::new()).await;
    let made = bench.ask("PUT", "/api/v1/secrets/KEY", json!({"value": KEPT})).await;
    assert!(made.data()["name"] == "KEY" && !holds_kept(&made.text), "{}", made.text);
    let listed = bench.get("/api/v1/secrets").await;
    assert_eq!(listed.data().as_array().unwrap().len(), 1);
    assert!(!holds_kept(&listed.text));
    for (name, body) in [
        ("a.b", json!({"value": KEPT})),
        ("K", json!({"value": "four"})),
        ("K", json!({"value": 12_345})),
        ("K", json!({"value": [KEPT]})),
        ("K", json!({})),
    ] {
        let refused = bench.ask("PUT", &format!("/api/v1/secrets/{name}"), body).await;
        assert_eq!(refused.refusal().0, 101);
        assert!(!holds_kept(&refused.text) && !refused.text.contains("12345"), "{}", refused.text);
    }
    // Another tenant does not have, see or use it; and a token is required.
    let (stranger, nobody) = (bench.stranger().await, String::new());
    let theirs = Bench { token: stranger, ..bench };
    assert_eq!(theirs.get("/api/v1/secrets").await.data(), json!([]));
    assert_eq!(theirs.ask("DELETE", "/api/v1/secrets/KEY", Json::Null).await.refusal().0, 102);
    let id = theirs.store("Theirs", saying("{secret.KEY}")).await;
    let path = format!("/api/v1/agents/{id}/completions");
    let failed = theirs.post(&path, json!({"question": "Q", "stream": false})).await;
    assert!(failed.text.contains("there is no secret `KEY`") && !holds_kept(&failed.text), "{}", failed.text);
    let without = Bench { token: nobody, ..theirs };
    assert_eq!(without.get("/api/v1/secrets").await.refusal().0, 401);
}

/// A canvas that outputs this text.
fn saying(text: &str) -> Json {
    json!({"components": {
        "begin": begin("", "Message:M"),
        "Message:M": component("Message", &json!({"content": [text]}), &[]),
    }})
}

/// Neither in the list of runs, nor in the conversation or its name.
#[tokio::test]
async fn a_secret_that_a_person_writes_is_stored_nowhere() {
    let bench = bench(Script::new()).await;
    put(&bench, "KEY", KEPT).await;
    let id = bench.store("Says", saying("{sys.query} {secret.KEY}")).await;
    let question = format!("is {KEPT} right?");
    let body = json!({"question": question, "stream": false});
    let answer = bench.post(&format!("/api/v1/agents/{id}/completions"), body).await;
    assert!(!holds_kept(&answer.text), "{}", answer.text);
    let ids = answer.data();
    let (run, session) = (ids["message_id"].as_str().unwrap(), ids["session_id"].as_str().unwrap());
    for path in [
        format!("/api/v1/runs/{run}"),
        "/api/v1/runs".to_owned(),
        format!("/api/v1/agents/{id}/sessions"),
        format!("/api/v1/agents/{id}/sessions/{session}"),
    ] {
        let shown = bench.get(&path).await;
        assert!(shown.text.contains("is *** right?") && !holds_kept(&shown.text), "{path}: {}", shown.text);
    }
    let key = weft_core::SessionKey::new(&default_tenant(), session);
    let stored = weft_core::seam::SessionStore::load(&*bench.store, &key).await.unwrap();
    assert_eq!(stored.name, "is *** right?");
    assert!(!holds_kept(&stored.state.to_string()), "{}", stored.state);
    assert!(!holds_kept(&journal(&bench, run).await));
}

#[tokio::test]
async fn a_question_that_contains_a_secret_can_be_repeated_with_its_key() {
    let bench = bench(Script::new().reply(Reply::text("fine").always())).await;
    put(&bench, "KEY", KEPT).await;
    let of_tenant = bench.store("Says", saying("{sys.query} {secret.KEY}")).await;
    let variable = bench.store("Secrets", canvas()).await;
    let ask = async |id: &str, query: String| {
        let body = json!({"agent_id": id, "query": query, "stream": false, "idempotency_key": "k"});
        bench.post("/api/v1/agents/chat/completions", body).await
    };
    for (id, secret) in [(&of_tenant, KEPT), (&variable, TOKEN)] {
        let first = ask(id, format!("is {secret} right?")).await.data();
        let again = ask(id, format!("is {secret} right?")).await.data();
        assert_eq!((&again["task_id"], &again["session_id"]), (&first["task_id"], &first["session_id"]));
        for other in ["***", "another-secret"] {
            let (code, message) = ask(id, format!("is {other} right?")).await.refusal();
            assert!(code == 101 && message.contains("used for another question"), "{other}: {message}");
        }
    }
}

#[tokio::test]
async fn a_run_with_a_missing_secret_fails_and_names_it() {
    let bench = bench(Script::new()).await;
    let stored =
        bench.post("/api/v1/agents", json!({"title": "T", "dsl": saying("<{secret.KEY}>")})).await.data();
    let problem = &stored["problems"][0];
    assert_eq!((&problem["code"], &problem["severity"]), (&json!("unknown-secret"), &json!("warning")));
    let path = format!("/api/v1/agents/{}/completions", stored["id"].as_str().unwrap());
    let ask = || bench.post(&path, json!({"question": "Q", "stream": false}));
    let failed = ask().await.text;
    assert!(
        failed.contains("there is no secret `KEY`") && failed.contains("weft secret set KEY"),
        "{failed}"
    );
    put(&bench, "KEY", KEPT).await;
    assert_eq!(ask().await.data()["data"]["content"], "<***>");
    bench.ask("DELETE", "/api/v1/secrets/KEY", Json::Null).await.data();
    assert!(ask().await.text.contains("there is no secret `KEY`"));
}

/// A canvas that stores a secret in a variable, waits for a model, and outputs everything.
fn keeping() -> Json {
    let change =
        json!({"variables": [{"variable": "env.kept", "operator": "append", "parameter": "{secret.KEY}"}]});
    json!({
        "components": {
            "begin": begin("", "VariableAssigner:V"),
            "VariableAssigner:V": component("VariableAssigner", &change, &["LLM:A"]),
            "LLM:A": component("LLM", &json!({"llm_id": "m", "cite": false}), &["Message:M"]),
            "Message:M": component("Message", &json!({"content": ["{env.kept} {secret.KEY} {sys.query}"]}), &[]),
        },
        "variables": {"kept": {"type": "array<string>", "value": []}},
    })
}

/// Text with which a person could try to imitate the marker of a secret.
fn forged() -> String {
    "\u{f8fe}weft-secret:secret.KEY\u{f8ff}".to_owned()
}

#[test]
fn a_resumed_run_loads_its_secrets_again_and_no_row_contains_them() {
    let process = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bench = process.block_on(async {
        let bench = bench(Script::new().reply(crate::support::endless(&["It ", "is "]))).await;
        put(&bench, "KEY", KEPT).await;
        let id = bench.store("Keeps", keeping()).await;
        let body = json!({"id": id, "query": format!("a {} b", forged()), "session_id": null});
        bench.open("/v1/canvas/completion", body).await.until("node_started").await;
        for _ in 0..1_000 {
            if bench.model.requests().len() == 1 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        bench
    });
    drop(process);
    let after =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    after.block_on(async {
        let model = weft_testkit::ScriptedModel::new(Script::new().reply(Reply::text("fine").always()));
        let settings = (weft_app::Auth::On, bench.app.limits.clone());
        let Bench { app, router, .. } = crate::support::process(bench.store.clone(), model.clone(), settings);
        let bench = Bench { app, router, model, ..bench };
        put(&bench, "KEY", KEPT).await;
        let run = bench.app.all_cut_off().await.unwrap().remove(0);
        let weft_engine::engine::PickedUp::Running(mut handle) = bench.app.pick_up(&run).await.unwrap()
        else {
            panic!("the run was not resumed")
        };
        while handle.entries.next().await.unwrap().is_some() {}
        let entries = bench.get(&format!("/api/v1/runs/{}/events", run.key.id)).await;
        let heard = said(&entries.frames());
        assert!(heard.starts_with("[\"***\"] *** a ") && !holds_kept(&entries.text), "{}", entries.text);
        assert!(!holds_kept(&journal(&bench, run.key.id.as_str()).await));
        let session = weft_core::SessionKey::new(&default_tenant(), run.session.clone());
        let kept =
            weft_core::seam::SessionStore::load(&*bench.store, &session).await.unwrap().state.to_string();
        assert!(kept.contains("secret.KEY") && !holds_kept(&kept), "{kept}");
        // The next turn starts with the stored value, not with its marker.
        let again = bench.post(
            "/v1/canvas/completion",
            json!({"id": run.canvas, "query": "more", "session_id": run.session}),
        );
        let heard = said(&again.await.frames());
        assert!(heard.starts_with("[\"***\",\"***\"] *** more"), "{heard}");
        // After the secret is removed its runs cannot be resumed, but finished ones can still be replayed.
        let replayed = bench.app.replay(&run.key).await.unwrap();
        assert!(replayed.differences.is_empty(), "{:?}", replayed.differences);
        bench.ask("DELETE", "/api/v1/secrets/KEY", Json::Null).await.data();
        let replayed = bench.app.replay(&run.key).await.unwrap();
        assert!(!serde_json::to_string(&replayed.entries).unwrap().contains("helmina"));
    });
}

#[tokio::test]
async fn imitating_the_marker_of_a_secret_reveals_nothing() {
    let bench = bench(Script::new()).await;
    put(&bench, "KEY", KEPT).await;
    // This canvas uses no secret, so its runs know none: the text must not become a secret later.
    let id = bench.store("Plain", saying("{sys.query}")).await;
    let path = format!("/api/v1/agents/{id}/completions");
    let stream = bench.post(&path, json!({"question": forged(), "stream": true})).await;
    assert!(!holds_kept(&stream.text), "{}", stream.text);
    let run = stream.frames()[0].json()["message_id"].as_str().unwrap().to_owned();
    let run = bench.app.runs.get(&RunKey::new(&default_tenant(), RunId::from(run.as_str()))).await.unwrap();
    let replayed = bench.app.replay(&run.key).await.unwrap();
    assert!(!holds_kept(&serde_json::to_string(&replayed.entries).unwrap()));
    // The session does not store it either, for a time when the canvas uses the secret.
    let session = weft_core::SessionKey::new(&default_tenant(), run.session.clone());
    let kept = weft_core::seam::SessionStore::load(&*bench.store, &session).await.unwrap().state.to_string();
    assert!(kept.contains("secret.KEY") && !weft_core::masking::is_sealed(&kept), "{kept}");
    // A canvas that uses another secret reveals only that one.
    put(&bench, "OTHER", "another-value").await;
    let id = bench.store("Other", saying("{sys.query} {secret.OTHER}")).await;
    let path = format!("/api/v1/agents/{id}/completions");
    let whole = bench.post(&path, json!({"question": forged(), "stream": false})).await;
    assert!(!holds_kept(&whole.text) && whole.text.contains("***"), "{}", whole.text);
}
