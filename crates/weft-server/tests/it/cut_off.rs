//! Runs whose process has ended: another process resumes them, and clients continue to read.

use serde_json::json;
use weft_core::journal::Ending;
use weft_core::seam::run_store::RunFilter;
use weft_engine::engine::PickedUp;
use weft_testkit::{Reply, Script, ScriptedModel};

use crate::support::{Bench, bench, default_tenant, endless, frames, said};

/// Runs this in a process that is then killed with everything it has started.
fn killed(work: impl AsyncFnOnce() -> Bench) -> Bench {
    let process = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    process.block_on(work())
}

#[test]
fn a_run_resumes_in_another_process_and_its_stream_at_its_number() {
    let canvas = json!({"components": {
        "begin": crate::support::component("Begin", &json!({}), &["LLM:First"]),
        "LLM:First": crate::support::component("LLM", &json!({"llm_id": "first", "cite": false}), &["LLM:Second"]),
        "LLM:Second": crate::support::component(
            "LLM", &json!({"llm_id": "second", "prompts": "{LLM:First@content}", "cite": false}), &["Message:M"]),
        "Message:M": crate::support::component("Message", &json!({"content": ["{LLM:Second@content}"]}), &[]),
    }});
    let mut seen = 0;
    let bench = killed(async || {
        let script =
            Script::new().reply(Reply::text("draft").when_model("first")).reply(endless(&["It ", "is "]));
        let bench = bench(script).await;
        let id = bench.store("Two", canvas).await;
        let mut stream = bench.open("/v1/canvas/completion", json!({"id": id, "query": "q"})).await;
        stream.until("is ").await;
        seen = frames(&stream.text).len();
        bench
    });
    let after =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    after.block_on(async {
        let model =
            ScriptedModel::new(Script::new().reply(Reply::text("It is finished.").when_model("second")));
        let settings = (weft_app::Auth::On, bench.app.limits.clone());
        let Bench { app, router, .. } = crate::support::process(bench.store.clone(), model.clone(), settings);
        let bench = Bench { app, router, model, ..bench };
        let filter = RunFilter { unfinished: true, limit: 10, ..RunFilter::default() };
        let run = bench.app.runs.list(&default_tenant(), &filter).await.unwrap().remove(0);
        assert!(bench.app.cut_off().await.unwrap().is_empty(), "its process has just sent a heartbeat");
        let found = bench.app.all_cut_off().await.unwrap();
        assert_eq!(found.iter().map(|run| &run.key).collect::<Vec<_>>(), [&run.key]);
        let PickedUp::Running(mut handle) = bench.app.pick_up(&run).await.unwrap() else {
            panic!("the run was not resumed")
        };
        while handle.entries.next().await.unwrap().is_some() {}
        assert_eq!(bench.app.runs.get(&run.key).await.unwrap().ending, Some(Ending::Succeeded));
        // The first model had answered and is not called again.
        assert_eq!(bench.model.requests().len(), 1);
        assert!(bench.model.requests()[0].messages.iter().any(|message| message.text == "draft"));
        // A client continues to read where it stopped, without a gap, and is told to discard the partial sentence.
        let events = bench.get(&format!("/api/v1/runs/{}/events", run.key.id)).await.frames();
        let kinds: Vec<String> =
            events.iter().filter(|f| f.id.is_some()).map(crate::support::Frame::event).collect();
        assert!(seen > 0 && kinds[..seen].iter().all(|kind| kind != "message_reset"), "{kinds:?}");
        assert_eq!(kinds.iter().filter(|kind| *kind == "message_reset").count(), 1);
        assert_eq!(kinds.iter().filter(|kind| *kind == "workflow_finished").count(), 1);
        let numbers: Vec<u64> = events.iter().filter_map(|frame| frame.id).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        assert!(said(&events).ends_with("It is finished."));
        // A second attempt finds nothing to resume.
        assert!(bench.app.pick_up(&run).await.is_err());
    });
}

#[test]
fn a_turn_of_a_chat_assistant_resumes_with_the_settings_it_began_with() {
    let chats = "/api/v1/chats";
    let mut id = String::new();
    let bench = killed(async || {
        let bench = bench(Script::new().reply(endless(&["It ", "is "]))).await;
        let made =
            bench.post(chats, json!({"name": "One", "prompt_config": {"system": "Be brief."}})).await.data();
        id = made["id"].as_str().unwrap().to_owned();
        let mut stream = bench.open(&format!("{chats}/{id}/completions"), json!({"question": "q"})).await;
        stream.until("\" is\"").await;
        bench
    });
    let after =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    after.block_on(async {
        let model = ScriptedModel::new(Script::new().reply(Reply::text("It is finished.").always()));
        let settings = (weft_app::Auth::On, bench.app.limits.clone());
        let Bench { app, router, .. } = crate::support::process(bench.store.clone(), model.clone(), settings);
        let bench = Bench { app, router, model, ..bench };
        let change = json!({"prompt_config": {"system": "Be long."}});
        bench.ask("PATCH", &format!("{chats}/{id}"), change).await.data();
        let run = bench.app.all_cut_off().await.unwrap().remove(0);
        let PickedUp::Running(mut handle) = bench.app.pick_up(&run).await.unwrap() else {
            panic!("the run was not resumed")
        };
        while handle.entries.next().await.unwrap().is_some() {}
        assert_eq!(bench.model.requests()[0].messages[0].text, "Be brief.");
        let sessions = bench.get(&format!("{chats}/{id}/sessions")).await.data();
        assert_eq!(sessions[0]["messages"][2]["content"], "It is finished.");
    });
}
