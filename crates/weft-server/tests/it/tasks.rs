//! Open tasks: listed, shown and answered once, or expired.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use weft_app::config::{Auth, LimitsConfig};
use weft_app::tasks::waiting_run;
use weft_core::context::Pin;
use weft_core::seam::clock::FixedClock;
use weft_core::seam::session_store::SessionCommit;
use weft_core::seam::task_store::{Task, TaskChange, TaskKind};
use weft_core::{CanvasKey, Ending, ErrorKind, Record, SessionKey, TaskKey};
use weft_engine::engine::{ForkPoint, PickedUp};
use weft_testkit::memory_store::MemoryStore;
use weft_testkit::{Script, ScriptedModel, open_task};

use crate::rehearsal::canvas;
use crate::support::{Bench, bench, default_tenant, echo_canvas, events, process_at, said};

fn approvals(tasks: &[&str]) -> Json {
    let field = |task: &&str| {
        let field = json!({"name": "Allow delete_file?", "type": "approval", "tool": "delete_file",
            "arguments": {"path": "a"}, "options": ["approve", "deny", "edit"], "optional": false});
        ((*task).to_owned(), field)
    };
    json!({"approve": tasks.iter().map(field).collect::<serde_json::Map<_, _>>()})
}

fn form() -> Json {
    let fields = json!({"go": {"type": "boolean", "name": "Go on?"}, "note": {"optional": true}});
    json!({"components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["UserFillUp:F"]},
        "UserFillUp:F": {"obj": {"component_name": "UserFillUp", "params": {"tips": "Look:", "inputs": fields}},
            "downstream": ["Message:M"]},
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": ["go: {UserFillUp:F@go}"]}}},
    }})
}

impl Bench {
    async fn wait(&self, agent: &str) -> Json {
        let path = format!("/api/v1/agents/{agent}/completions");
        let ended = self.post(&path, json!({"query": "q", "stream": false})).await.data();
        assert_eq!(ended["data"]["status"], "waiting", "{ended}");
        ended["session_id"].clone()
    }

    pub(crate) async fn inbox(&self, query: &str) -> Vec<Json> {
        let listed = self.get(&format!("/api/v1/tasks{query}")).await.data();
        listed["tasks"].as_array().unwrap().clone()
    }
}

fn id(task: &Json) -> &str {
    task["id"].as_str().unwrap()
}

/// A list is read in batches, and must equal a list read at once.
#[tokio::test]
async fn a_long_list_of_tasks_is_complete_and_paged() {
    let bench = bench(Script::new()).await;
    let names: Vec<String> = (0..20).map(|number| format!("call_{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let calls = bench.store("Approvals", canvas(&approvals(&names))).await;
    bench.wait(&calls).await;
    let all = bench.inbox("?page_size=50").await;
    let ids = |tasks: &[Json]| tasks.iter().map(|task| id(task).to_owned()).collect::<Vec<_>>();
    let distinct: std::collections::HashSet<_> = ids(&all).into_iter().collect();
    assert_eq!((all.len(), distinct.len()), (20, 20));
    assert_eq!(ids(&bench.inbox("?page_size=9&page=1").await), ids(&all[..9]));
    assert_eq!(ids(&bench.inbox("?page_size=9&page=2").await), ids(&all[9..18]));
    assert_eq!(ids(&bench.inbox("?page_size=9&page=3").await), ids(&all[18..]));
    assert_eq!(bench.get("/api/v1/tasks?page_size=9").await.data()["total"], 20);
}

/// While a client reads, tasks that it has read already are answered.
#[tokio::test]
async fn tasks_answered_while_a_list_is_read_hide_no_others() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Form", form()).await;
    for _ in 0..20 {
        bench.wait(&agent).await;
    }
    let all = bench.inbox("?page_size=50").await;
    let mut list = bench.opened("GET", "/api/v1/tasks?page_size=50", Json::Null).await;
    list.until(id(&all[0])).await;
    for task in &all[..4] {
        let path = format!("/api/v1/tasks/{}/answer", id(task));
        bench.post(&path, json!({"inputs": {"go": true}})).await.data();
    }
    list.until("],\"total\":20}").await;
    let read: Json = serde_json::from_str(&list.text).unwrap();
    let read = read["data"]["tasks"].as_array().unwrap();
    assert_eq!(read.iter().map(id).collect::<Vec<_>>(), all.iter().map(id).collect::<Vec<_>>());
}

#[tokio::test]
async fn tasks_are_listed_shown_and_answered_one_by_one() {
    let bench = bench(Script::new()).await;
    let (calls, asks) = (
        bench.store("Approvals", canvas(&approvals(&["call_1", "call_2"]))).await,
        bench.store("Form", form()).await,
    );
    let session = bench.wait(&calls).await;
    bench.wait(&asks).await;
    let all = bench.inbox("").await;
    assert_eq!(all.len(), 3);
    let kinds: Vec<_> = all.iter().map(|task| task["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "tool_approval").count(), 2);
    assert_eq!(bench.inbox(&format!("?agent_id={asks}")).await.len(), 1);
    assert_eq!(bench.inbox("?kind=form").await.len(), 1);
    assert_eq!(bench.inbox("?kind=tool_approval&page_size=1&page=2").await.len(), 1);
    assert_eq!(bench.inbox("?overdue=true").await.len(), 0);
    let wrong = bench.get("/api/v1/tasks?kind=chore").await.json();
    assert_eq!(wrong["code"], 101);
    assert!(wrong["message"].as_str().unwrap().contains("form, tool_approval"), "{wrong}");

    let mine = bench.inbox(&format!("?session_id={}", session.as_str().unwrap())).await;
    let shown = bench.get(&format!("/api/v1/tasks/{}", id(&mine[0]))).await.data();
    assert_eq!(shown, mine[0]);
    assert_eq!((&shown["title"], &shown["address"]), (&json!("Allow delete_file?"), &json!("Agent:A")));
    assert_eq!(shown["inputs"]["call_1"]["arguments"], json!({"path": "a"}));

    // Another process takes the first answer, and the run waits for the second.
    let bench = bench.restarted();
    let answer = format!("/api/v1/tasks/{}/answer", id(&mine[0]));
    let first = bench.post(&answer, json!({"deny": true, "reason": "no"})).await.data();
    assert_eq!(first["data"]["status"], "waiting");
    assert_eq!(bench.inbox("?kind=tool_approval").await.len(), 1);
    let last = format!("/api/v1/tasks/{}/answer", id(&mine[1]));
    let second = bench.post(&last, json!({"approve": true, "stream": true})).await.frames();
    assert_eq!(said(&second), r#"call_1: {"decision":"deny","reason":"no"}. call_2: approve. Done."#);
    assert!(events(&second).contains(&"workflow_finished".to_owned()));
    let ended = bench.inbox("?status=answered").await;
    assert_eq!(ended.len(), 2);
    assert!(ended.iter().all(|task| task["ended_by"].is_string() && task["end_time"].is_i64()));
}

#[tokio::test]
async fn a_task_is_answered_once_and_only_with_a_valid_answer() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Form", form()).await;
    bench.wait(&agent).await;
    let open = bench.inbox("").await;
    let path = format!("/api/v1/tasks/{}/answer", id(&open[0]));
    let check = async |body: Json, part: &str| {
        let refused = bench.post(&path, body).await.json();
        assert_eq!(refused["code"], 101, "{refused}");
        assert!(refused["message"].as_str().unwrap().contains(part), "{refused}");
    };
    check(json!({}), "the answer is missing").await;
    check(json!({"approve": true}), "is a form").await;
    check(json!({"inputs": {"note": "x"}}), "needs a value for `go`").await;
    check(json!({"inputs": {"go": true, "og": 1}}), "no field `og`").await;
    assert_eq!(bench.inbox("").await, open, "the tasks are unchanged");
    let unknown = bench.post("/api/v1/tasks/nothing/answer", json!({"approve": true})).await.json();
    assert_eq!(unknown["code"], 102);

    let (one, two) = futures::join!(
        bench.post(&path, json!({"inputs": {"go": true}})),
        bench.post(&path, json!({"inputs": {"go": false}})),
    );
    let (won, lost) = if one.status == StatusCode::OK { (one, two) } else { (two, one) };
    assert!(won.data()["data"]["content"].as_str().unwrap().starts_with("go: "));
    assert_eq!(lost.status, StatusCode::CONFLICT);
    let again = bench.post(&path, json!({"inputs": {"go": true}})).await;
    assert_eq!((again.status, &again.json()["code"]), (StatusCode::CONFLICT, &json!(409)));
    assert!(again.json()["message"].as_str().unwrap().contains("was answered already (run "));
    // Another tenant does not find it, and the old route to stop runs still works.
    let stranger = Bench { token: bench.stranger().await, ..bench.restarted() };
    assert_eq!(stranger.inbox("?status=all").await.len(), 0);
    assert_eq!(stranger.get(&format!("/api/v1/tasks/{}", id(&open[0]))).await.json()["code"], 102);
    let stopped =
        bench.ask("PATCH", &format!("/api/v1/tasks/{}", id(&open[0])), json!({"action": "stop"})).await;
    assert_eq!(stopped.json()["data"], true);
}

/// On every route the values are checked before anything starts, so a wrong one loses nothing. Both requests found
/// the task open: the second waits for its turn, and then gets the run of the first.
#[tokio::test]
async fn a_second_answer_is_refused_with_the_run_of_the_first() {
    let slow = weft_testkit::Reply::pieces(["So "])
        .then(weft_testkit::Step::Wait(300))
        .then(weft_testkit::Step::Text("on".into()));
    let bench = bench(Script::new().reply(slow.always())).await;
    let fields = json!({"go": {"type": "boolean", "name": "Go on?"}});
    let mut canvas = crate::support::chat_canvas();
    canvas["components"]["begin"]["downstream"] = json!(["UserFillUp:F"]);
    canvas["components"]["UserFillUp:F"] = json!({"obj": {"component_name": "UserFillUp",
        "params": {"tips": "Look:", "inputs": fields}}, "downstream": ["Agent:A"], "upstream": ["begin"]});
    let agent = bench.store("Form", canvas).await;
    bench.wait(&agent).await;
    let task = bench.inbox("").await.remove(0);
    let path = format!("/api/v1/tasks/{}/answer", id(&task));
    let answer = || bench.post(&path, json!({"inputs": {"go": true}, "stream": false}));
    let (first, second) = futures::future::join(answer(), answer()).await;
    let run = first.data()["message_id"].as_str().unwrap().to_owned();
    assert_eq!(second.status, StatusCode::CONFLICT, "{}", second.text);
    assert!(second.text.contains(&run) && second.text.contains("answered already"), "{}", second.text);
}

/// A form that its page submits twice is answered once: the second submission starts no run of its own.
#[tokio::test]
async fn values_submitted_twice_at_once_start_one_run() {
    let slow = weft_testkit::Reply::pieces(["So "])
        .then(weft_testkit::Step::Wait(300))
        .then(weft_testkit::Step::Text("on".into()));
    let bench = bench(Script::new().reply(slow.always())).await;
    let mut form = crate::support::form_canvas();
    form["components"]["Message:M"]["obj"]["params"]["content"] = json!(["{Agent:A@content}"]);
    form["components"]["Agent:A"] = crate::support::chat_canvas()["components"]["Agent:A"].clone();
    form["components"]["Agent:A"]["downstream"] = json!(["Message:M"]);
    form["components"]["UserFillUp:F"]["downstream"] = json!(["Agent:A"]);
    let agent = bench.store("Form", form).await;
    let path = format!("/api/v1/agents/{agent}/completions");
    for inputs in [json!({"colour": "red"}), json!({"UserFillUp:F": {"colour": {"value": "red"}}})] {
        let session = bench.wait(&agent).await;
        let body = json!({"session_id": session, "inputs": inputs, "stream": false});
        let (one, two) = futures::join!(bench.post(&path, body.clone()), bench.post(&path, body));
        let (first, second) = if two.text.contains("answered already") { (one, two) } else { (two, one) };
        let run = first.data()["message_id"].as_str().unwrap().to_owned();
        let refused = second.refusal();
        assert!(refused.1.contains("answered already") && refused.1.contains(&run), "{refused:?}");
        assert_eq!((second.status, refused.0), (StatusCode::CONFLICT, 409));
        let open = bench.inbox(&format!("?session_id={}", session.as_str().unwrap())).await;
        assert!(open.is_empty(), "no new task was created: {open:?}");
    }
}

/// A turn may be about to start whose run no store knows yet.
#[tokio::test]
async fn a_task_is_not_cancelled_while_a_turn_of_its_session_starts() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Form", form()).await;
    let session = SessionKey::new(&default_tenant(), bench.wait(&agent).await.as_str().unwrap());
    let run = waiting_run(&bench.app.sessions.load(&session).await.unwrap()).unwrap();
    let held = bench.app.engine.hold_session(&session).unwrap();
    let busy = bench.app.give_up_waiting(&session, &run).await.unwrap_err();
    assert_eq!((busy.kind, bench.inbox("").await.len()), (ErrorKind::Conflict, 1));
    drop(held);
    assert!(bench.app.give_up_waiting(&session, &run).await.unwrap());
    assert_eq!(bench.inbox("").await.len(), 0);
    assert!(!bench.app.give_up_waiting(&session, &run).await.unwrap());
}

/// Values of two people for two tasks of one run are both used.
#[tokio::test]
async fn concurrent_values_for_two_tasks_are_both_used() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Approvals", canvas(&approvals(&["call_1", "call_2"]))).await;
    let session = bench.wait(&agent).await;
    let path = format!("/api/v1/agents/{agent}/completions");
    let with = |inputs: Json| json!({"session_id": session, "inputs": inputs, "stream": false});
    let (one, two) = futures::join!(
        bench.post(&path, with(json!({"call_1": "approve"}))),
        bench.post(&path, with(json!({"Agent:A": {"call_2": "deny"}}))),
    );
    let ended = [one.data(), two.data()];
    let last =
        ended.iter().find(|ended| ended["data"]["status"] == "succeeded").expect("a run that succeeded");
    assert_eq!(last["data"]["content"], "call_1: approve. call_2: deny. Done.");
}

#[tokio::test]
async fn invalid_values_are_refused_and_the_task_stays_open() {
    let bench = bench(Script::new()).await;
    let mut canvas = form();
    canvas["components"]["UserFillUp:F"]["obj"]["params"]["inputs"] = json!({"go": {"type": "boolean"}, "size": {"type": "options", "options": ["S", "M"], "optional": true}});
    let agent = bench.store("Form", canvas).await;
    let session = bench.wait(&agent).await;
    let open = bench.inbox("").await;
    let answer = format!("/api/v1/tasks/{}/answer", id(&open[0]));
    let turn = format!("/api/v1/agents/{agent}/completions");
    let with = |inputs: Json| json!({"session_id": session, "inputs": inputs, "stream": false});
    let wrong = [
        (&answer, json!({"inputs": {"go": "maybe"}}), "field `go`"),
        (&answer, json!({"inputs": {"go": true, "size": "XL"}}), "field `size`"),
        (&turn, with(json!({"go": {"value": "maybe"}})), "field `go`"),
        (&turn, with(json!({"UserFillUp:F": {"go": true, "size": ["S"]}})), "field `size`"),
        (
            &turn,
            json!({"session_id": session, "query": "?", "inputs": {"go": 7}, "stream": true}),
            "field `go`",
        ),
    ];
    for (path, body, part) in wrong {
        let refused = bench.post(path, body).await;
        let told = refused.json();
        assert_eq!(told["code"], 101, "{told}");
        assert!(told["message"].as_str().unwrap().contains(part), "{told}");
        assert_eq!(bench.inbox("").await, open, "the tasks are unchanged");
    }
    let ended = bench.post(&answer, json!({"inputs": {"go": "true", "size": "M"}})).await.data();
    assert_eq!(ended["data"]["content"], "go: true");
}

/// Each answer counts, also when they arrive at the same time.
#[tokio::test]
async fn two_tasks_of_one_agent_are_answered_together() {
    let bench = bench(Script::new()).await;
    let agent = bench.store("Approvals", canvas(&approvals(&["call_1", "call_2"]))).await;
    bench.wait(&agent).await;
    let open = bench.inbox("").await;
    let path = |task: &Json| format!("/api/v1/tasks/{}/answer", id(task));
    let (first, second) = (path(&open[0]), path(&open[1]));
    let (one, two) = futures::join!(
        bench.post(&first, json!({"approve": true})),
        bench.post(&second, json!({"deny": true})),
    );
    let ended = [one.data(), two.data()];
    let status = |ended: &Json| ended["data"]["status"].as_str().map(str::to_owned);
    let mut all: Vec<_> = ended.iter().map(status).collect();
    all.sort();
    assert_eq!(all, [Some("succeeded".to_owned()), Some("waiting".to_owned())], "{ended:?}");
    let last = ended.iter().find(|ended| ended["data"]["status"] == "succeeded").unwrap();
    assert_eq!(last["data"]["content"], "call_1: approve. call_2: deny. Done.");
    assert_eq!(bench.inbox("?status=answered").await.len(), 2);
}

/// When the waiting runs of these tests started to wait.
const ASKED_MS: i64 = 1_700_000_000_000;

/// A process with this store, this many seconds after the runs started to wait.
async fn later(store: &Arc<MemoryStore>, token: Option<&Bench>, seconds: i64) -> Bench {
    let clock = Arc::new(FixedClock(ASKED_MS + seconds * 1_000));
    let settings = (Auth::On, LimitsConfig::default());
    let bench = process_at(store.clone(), ScriptedModel::new(Script::new()), settings, clock);
    let token = match token {
        Some(bench) => bench.token.clone(),
        None => bench.app.first_token().await.unwrap().unwrap().reveal().to_owned(),
    };
    Bench { token, ..bench }
}

fn timed(params: &Json) -> Json {
    let mut canvas = form();
    let own = canvas["components"]["UserFillUp:F"]["obj"]["params"].as_object_mut().unwrap();
    own.extend(params.as_object().unwrap().clone());
    canvas["components"]["Message:Late"] =
        json!({"obj": {"component_name": "Message", "params": {"content": ["too late: {UserFillUp:F@go}"]}}});
    canvas
}

impl Bench {
    /// The text of the runs whose time limit has passed.
    async fn time_out(&self) -> Vec<String> {
        let mut said = Vec::new();
        for mut run in self.app.time_out_tasks().await.unwrap() {
            let mut text = String::new();
            while let Some(entry) = run.entries.next().await.unwrap() {
                match &entry.record {
                    weft_core::Record::Said { text: piece, .. } => text.push_str(piece),
                    weft_core::Record::RunFinished { error: Some(error), .. } => text.push_str(error),
                    _ => {}
                }
            }
            said.push(text);
        }
        said
    }
}

#[tokio::test]
async fn an_unanswered_form_takes_its_timeout_route_once_even_after_a_restart() {
    let check = async |params: Json, expected: &str| {
        let store = Arc::new(MemoryStore::new());
        let first = later(&store, None, 0).await;
        let agent = first.store("Timed", timed(&params)).await;
        first.wait(&agent).await;
        let open = first.inbox("").await;
        assert_eq!(open[0]["due_time"], ASKED_MS + 60_000);
        let early = later(&store, Some(&first), 59).await;
        assert_eq!(early.time_out().await, [""; 0]);
        let (one, two) = (later(&store, Some(&first), 60).await, later(&store, Some(&first), 61).await);
        assert_eq!(one.time_out().await, [expected]);
        assert_eq!(two.time_out().await, [""; 0]);
        let ended = two.get(&format!("/api/v1/tasks/{}", id(&open[0]))).await.data();
        assert_eq!(ended["status"], "timed_out");
        let path = format!("/api/v1/tasks/{}/answer", id(&open[0]));
        let late = two.post(&path, json!({"inputs": {"go": true}})).await;
        assert_eq!(late.status, StatusCode::CONFLICT);
        assert!(late.text.contains("was not answered in time"), "{}", late.text);
    };
    Box::pin(check(json!({"timeout_seconds": 60, "timeout_goto": ["Message:Late"]}), "too late: ")).await;
    let both =
        json!({"timeout_seconds": 60, "timeout_goto": ["Message:Late"], "timeout_default": {"go": false}});
    Box::pin(check(both, "too late: false")).await;
    Box::pin(check(json!({"timeout_seconds": 60, "timeout_default": {"go": false}}), "go: false")).await;
    let failed = "UserFillUp:F failed: nobody filled in the form within 60 s (name components in `timeout_goto`, \
        or values in `timeout_default`)";
    Box::pin(check(json!({"timeout_seconds": 60}), failed)).await;
}

/// An answer in time takes the route for answers.
#[tokio::test]
async fn an_answer_in_time_counts_and_a_late_one_is_refused() {
    let store = Arc::new(MemoryStore::new());
    let first = later(&store, None, 0).await;
    let params = json!({"timeout_seconds": 60, "timeout_goto": ["Message:Late"]});
    let agent = first.store("Timed", timed(&params)).await;
    first.wait(&agent).await;
    first.wait(&agent).await;
    let open = first.inbox("").await;
    let path = |task: &Json| format!("/api/v1/tasks/{}/answer", id(task));
    let in_time = later(&store, Some(&first), 59).await;
    let answered = in_time.post(&path(&open[0]), json!({"inputs": {"go": true}})).await.data();
    assert_eq!(answered["data"]["content"], "go: true");
    // No process has checked since the deadline: the answer is refused all the same.
    let too_late = later(&store, Some(&first), 60).await;
    let refused = too_late.post(&path(&open[1]), json!({"inputs": {"go": true}})).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(refused.text.contains("was not answered in time"), "{}", refused.text);
    assert_eq!(too_late.time_out().await, ["too late: "]);
}

/// Otherwise the values would pass the form by in a new run with an empty question.
#[tokio::test]
async fn an_answer_to_an_ended_task_starts_nothing_as_values_of_a_turn() {
    let store = Arc::new(MemoryStore::new());
    let first = later(&store, None, 0).await;
    let params = json!({"timeout_seconds": 60, "timeout_goto": ["Message:Late"]});
    let agent = first.store("Timed", timed(&params)).await;
    let path = format!("/api/v1/agents/{agent}/completions");
    let (answered, unanswered) = (first.wait(&agent).await, first.wait(&agent).await);
    let values =
        |session: &Json, inputs: &Json| json!({"session_id": session, "inputs": inputs, "stream": false});
    let go = json!({"UserFillUp:F": {"go": true}});
    assert_eq!(first.post(&path, values(&answered, &go)).await.data()["data"]["content"], "go: true");
    let second = later(&store, Some(&first), 60).await;
    for (session, how) in [(&answered, "was answered already"), (&unanswered, "was not answered in time")] {
        for inputs in [&go, &json!({"go": {"value": true}}), &json!({"UserFillUp:F": {}})] {
            let late = second.post(&path, values(session, inputs)).await;
            assert_eq!((late.status, late.refusal().0), (StatusCode::CONFLICT, 409), "{}", late.text);
            assert!(late.text.contains(how), "{}", late.text);
        }
        let listed = second.get(&format!("/api/v1/runs?session_id={}", session.as_str().unwrap())).await;
        assert_eq!(listed.data()["runs"].as_array().unwrap().len(), 2, "{}", listed.text);
    }
    // With a question it is a new turn, whose form may be filled in beforehand.
    let asked = json!({"session_id": answered, "query": "again", "inputs": go, "stream": false});
    assert_eq!(second.post(&path, asked).await.data()["data"]["content"], "go: true");
}

/// Nobody has said anything about the other form, even though it needs no value.
#[tokio::test]
async fn a_form_whose_time_is_up_answers_no_other_one() {
    let store = Arc::new(MemoryStore::new());
    let first = later(&store, None, 0).await;
    let mut canvas = timed(&json!({"timeout_seconds": 60, "timeout_default": {"go": false}}));
    canvas["components"]["begin"]["downstream"] = json!(["UserFillUp:F", "UserFillUp:G"]);
    let params = json!({"tips": "Release it?", "inputs": {"note": {"optional": true}}});
    canvas["components"]["UserFillUp:G"] = json!({
        "obj": {"component_name": "UserFillUp", "params": params}, "downstream": ["Message:G"],
    });
    canvas["components"]["Message:G"] =
        json!({"obj": {"component_name": "Message", "params": {"content": ["released"]}}});
    let agent = first.store("Two", canvas).await;
    first.wait(&agent).await;
    let second = later(&store, Some(&first), 60).await;
    assert_eq!(second.time_out().await, ["go: false"]);
    let open = second.inbox("").await;
    assert_eq!((open.len(), &open[0]["component_id"]), (1, &json!("UserFillUp:G")));
    let path = format!("/api/v1/tasks/{}/answer", id(&open[0]));
    let ended = second.post(&path, json!({"inputs": {"note": "yes"}})).await.data();
    assert_eq!(ended["data"]["content"], "released");
}

/// What nobody answered in time is not asked again in a fork of the run that continued without an answer.
#[tokio::test]
async fn a_fork_of_a_run_that_continued_by_itself_continues_as_well() {
    let store = Arc::new(MemoryStore::new());
    let first = later(&store, None, 0).await;
    let params = json!({"timeout_seconds": 60, "timeout_default": {"go": 7}});
    let agent = first.store("Timed", timed(&params)).await;
    first.wait(&agent).await;
    let second = later(&store, Some(&first), 60).await;
    let mut runs = second.app.time_out_tasks().await.unwrap();
    while runs[0].entries.next().await.unwrap().is_some() {}
    let point = ForkPoint { node: "UserFillUp:F".into(), activation: None, edit: Pin::default() };
    let (_, _, forked) = second.app.fork(&runs[0].key, None, &point).await.unwrap();
    let PickedUp::Running(mut run) = forked else { panic!("it was given up") };
    let (mut text, mut ended) = (String::new(), None);
    while let Some(entry) = run.entries.next().await.unwrap() {
        match &entry.record {
            Record::Said { text: piece, .. } => text.push_str(piece),
            Record::RunFinished { ending, .. } => ended = Some(*ending),
            _ => {}
        }
    }
    assert_eq!((text.as_str(), ended), ("go: 7", Some(Ending::Succeeded)));
    assert_eq!(second.inbox("?status=all").await.len(), 1, "there is no other task");
}

/// However many runs cannot continue, because what they need is gone, those behind them do.
#[tokio::test]
async fn waits_that_cannot_end_do_not_hold_up_others() {
    let store = Arc::new(MemoryStore::new());
    let first = later(&store, None, 0).await;
    let key = CanvasKey::new(&default_tenant(), first.store("Echo", echo_canvas()).await);
    let broken = first.app.open_session(&key, "", None).await.unwrap();
    let open = (0..1_000).map(|number| {
        let key = TaskKey::new(&default_tenant(), format!("broken-{number}"));
        let task = open_task(TaskKind::Form, &json!({}));
        Task { key, session: broken.key.id.clone(), due_ms: Some(ASKED_MS), ..task }
    });
    let change = TaskChange { run: "r".into(), at_ms: ASKED_MS, open: open.collect(), ended: Vec::new() };
    let (state, tasks) = (&broken.state, Some(&change));
    let commit = SessionCommit { revision: broken.revision, state, messages: &[], tasks, lease: None };
    first.app.sessions.commit(&broken.key, commit).await.unwrap();
    let params = json!({"timeout_seconds": 60, "timeout_default": {"go": false}});
    let agent = first.store("Timed", timed(&params)).await;
    first.wait(&agent).await;
    let second = later(&store, Some(&first), 60).await;
    let mut after = None;
    assert_eq!(second.app.time_out_tasks_after(&mut after).await.unwrap().len(), 0);
    assert_eq!(second.app.time_out_tasks_after(&mut after).await.unwrap().len(), 1);
    assert_eq!(after, None, "from the beginning again");
}

/// Also for tenants other than the default one.
#[tokio::test]
async fn waits_of_every_tenant_time_out() {
    let store = Arc::new(MemoryStore::new());
    let first = later(&store, None, 0).await;
    let params = json!({"timeout_seconds": 60, "timeout_goto": ["Message:Late"]});
    for one in [&first, &first.with(&first.stranger().await)] {
        let agent = one.store("Timed", timed(&params)).await;
        one.wait(&agent).await;
    }
    assert_eq!(later(&store, Some(&first), 60).await.time_out().await, ["too late: ", "too late: "]);
}

/// Without a periodic check, the next turn handles the timeout, and loses no question.
#[tokio::test]
async fn the_next_turn_handles_due_timeouts_first() {
    let store = Arc::new(MemoryStore::new());
    let first = later(&store, None, 0).await;
    let agent =
        first.store("Timed", timed(&json!({"timeout_seconds": 60, "timeout_default": {"go": 7}}))).await;
    let session = first.wait(&agent).await;
    let second = later(&store, Some(&first), 3_600).await;
    let body = json!({"query": "next", "session_id": session, "stream": false});
    let ended = second.post(&format!("/api/v1/agents/{agent}/completions"), body).await.data();
    assert_eq!(ended["data"]["status"], "waiting", "it is a turn of its own: {ended}");
    let stored = second.get(&format!("/api/v1/agents/{agent}/sessions/{}", session.as_str().unwrap())).await;
    let messages = stored.data()["messages"].clone();
    let said: Vec<_> = messages.as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(said[1..], ["q", "go: 7", "next"], "after the greeting");
    assert_eq!((second.inbox("").await.len(), second.inbox("?status=timed_out").await.len()), (1, 1));
}

#[tokio::test]
async fn an_unanswered_approval_becomes_a_denial() {
    let store = Arc::new(MemoryStore::new());
    let first = later(&store, None, 0).await;
    let mut params = approvals(&["call_1", "call_2"]);
    params["approve"]["call_1"]["timeout_seconds"] = json!(60);
    let agent = first.store("Approvals", canvas(&params)).await;
    first.wait(&agent).await;
    assert_eq!(first.inbox("?overdue=true").await.len(), 0);
    let second = later(&store, Some(&first), 60).await;
    assert_eq!(second.inbox("?overdue=true").await.len(), 1);
    assert_eq!(second.time_out().await, [""], "the other call still waits");
    let open = second.inbox("").await;
    assert_eq!(open.len(), 1);
    let answer = format!("/api/v1/tasks/{}/answer", id(&open[0]));
    let ended = second.post(&answer, json!({"approve": true})).await.data();
    let denied =
        r#"call_1: {"decision":"deny","reason":"nobody answered within 60 s"}. call_2: approve. Done."#;
    assert_eq!(ended["data"]["content"], denied);
}
