//! Plans that an agent makes and follows.

use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};
use weft_agent::Session;
use weft_agent::plan_notebook::{
    HISTORY_MAX, Notebook, PLAN_GROUP, PlanDraft, PlanState, Revision, SUBTASKS_MAX, SubtaskDraft,
};
use weft_agent::react::{EQUIP_FUNCTION, FinishStyle, Hints, ReActAgent, Settings};
use weft_core::ErrorKind;
use weft_models::{Reply, ScriptedModel};

use crate::react_kit::{ada, printed, script, shown};

fn subtask(name: &str) -> SubtaskDraft {
    SubtaskDraft {
        name: name.to_owned(),
        description: format!("do {name}"),
        expected_outcome: format!("{name} done"),
    }
}

fn plan(name: &str, subtasks: &[&str]) -> PlanDraft {
    PlanDraft {
        name: name.to_owned(),
        description: "D".to_owned(),
        expected_outcome: "E".to_owned(),
        subtasks: subtasks.iter().map(|name| subtask(name)).collect(),
    }
}

fn states(notebook: &Notebook) -> Vec<PlanState> {
    notebook.current.as_ref().unwrap().subtasks.iter().map(|one| one.state).collect()
}

fn agent(model: &ScriptedModel) -> ReActAgent {
    let settings = Settings { finish: FinishStyle::Text, max_iters: 20, ..Settings::default() };
    ada(model).settings(settings).with_plan_notebook(5).build().unwrap()
}

fn call(name: &str, arguments: Json) -> Reply {
    Reply::call(name, arguments)
}

fn create() -> Reply {
    let subtask = |name: &str| json!({"name": name, "description": "d", "expected_outcome": "e"});
    call(
        "create_plan",
        json!({
            "name": "Trip", "description": "Plan {index} a trip", "expected_outcome": "tickets",
            "subtasks": [subtask("look"), subtask("book"), subtask("pack")],
        }),
    )
}

/// The hints of the requests, in order, without their frame.
fn hints(model: &ScriptedModel) -> Vec<String> {
    let last =
        |request: &weft_core::seam::chat_model::ChatRequest| request.messages.last().unwrap().text.clone();
    model.requests().iter().map(last).collect()
}

/// The tool results, in order.
fn results(session: &Session) -> Vec<String> {
    let text = |result: &weft_agent::message::ToolResult| {
        weft_agent::Message::new(weft_agent::message::Role::System, "", result.output.clone()).text()
    };
    session
        .memory()
        .messages()
        .iter()
        .flat_map(|message| message.tool_results().map(text).collect::<Vec<_>>())
        .collect()
}

#[tokio::test]
async fn a_plan_is_made_followed_and_ended() {
    let model = script([
        create(),
        call("update_subtask_state", json!({"subtask_idx": 0, "state": "in_progress"})),
        call("finish_subtask", json!({"subtask_idx": 0, "subtask_outcome": "found a train"})),
        call("update_subtask_state", json!({"subtask_idx": 1, "state": "abandoned"})),
        call("finish_subtask", json!({"subtask_idx": 2, "subtask_outcome": "packed"})),
        call("finish_plan", json!({"state": "done", "outcome": "ready"})),
        call("view_historical_plans", json!({})),
        Reply::text("All is ready."),
    ]);
    let mut session = agent(&model).session();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    session.plan_notebook().unwrap().on_change("watch", move |plan| {
        let states =
            plan.map(|plan| plan.subtasks.iter().map(|one| one.state.as_str()).collect::<Vec<_>>().join(" "));
        told.lock().unwrap().push(states.unwrap_or_default());
    });
    session.reply("Plan my trip.").await.unwrap();
    let expected = [
        "todo todo todo",
        "in_progress todo todo",
        "done in_progress todo",
        "done abandoned todo",
        "done abandoned done",
        "",
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
    let hints = hints(&model);
    let check = |at: usize, part: &str| {
        assert!(hints[at].starts_with("<system-hint>\n") && hints[at].contains(part), "{at}: {}", hints[at]);
    };
    check(0, "There is no plan.");
    check(1, "nothing of it has begun");
    check(1, "# Trip\n\nPlan {index} a trip");
    check(2, "You are working on subtask 0:\n\n## look");
    check(3, "- [x] 0. look\n- [ ] 1. [WIP] book\n- [ ] 2. pack");
    check(3, "You are working on subtask 1");
    check(4, "none of its subtasks is in progress");
    check(4, "Set subtask 2 to `in_progress`");
    check(5, "all of its subtasks are over");
    check(5, "1. [Abandoned] book");
    check(6, "There is no plan.");
    let history = &session.plan_notebook().unwrap().notebook().history;
    assert_eq!((history[0].state, history[0].outcome.as_deref()), (PlanState::Done, Some("ready")));
    assert_eq!(history[0].subtasks[0].outcome.as_deref(), Some("found a train"));
    assert!(results(&session)[6].contains("Trip (done"), "{}", results(&session)[6]);
    let memory: Vec<String> = session.memory().messages().iter().map(weft_agent::Message::text).collect();
    assert!(!memory.iter().any(|text| text.contains("<system-hint>")), "a hint is for one step");
}

#[tokio::test]
async fn hints_are_shown_when_enabled() {
    for (hints, count) in [(Hints::Hidden, 0), (Hints::Printed, 2)] {
        let model = script([create(), Reply::text("Done.")]);
        let settings = Settings { finish: FinishStyle::Text, hints, ..Settings::default() };
        let mut session = ada(&model).settings(settings).with_plan_notebook(5).build().unwrap().session();
        let (_, messages) = printed(&mut session, "Q").await;
        assert_eq!(shown(&messages).iter().filter(|line| line.contains("<system-hint>")).count(), count);
    }
}

#[tokio::test]
async fn plan_mistakes_are_reported_to_the_model() {
    let model = script([
        call("finish_subtask", json!({"subtask_idx": 0, "subtask_outcome": "x"})),
        create(),
        call("finish_subtask", json!({"subtask_idx": 1, "subtask_outcome": "x"})),
        call("update_subtask_state", json!({"subtask_idx": 9, "state": "todo"})),
        call("update_subtask_state", json!({"subtask_idx": -1, "state": "todo"})),
        call("revise_current_plan", json!({"subtask_idx": 0, "action": "add"})),
        call("view_subtasks", json!({"subtask_idx": [1, 1, 7]})),
        call("recover_historical_plan", json!({"plan_id": "nosuch"})),
        Reply::text("I give up."),
    ]);
    let mut session = agent(&model).session();
    session.reply("Q").await.unwrap();
    let results = results(&session);
    let expected = [
        "there is no plan",
        "The plan `Trip` is made.",
        "subtask 0 comes before it",
        "there is no subtask 9: use one from 0 to 2",
        "subtask_idx",
        "`subtask` is missing",
        "There is no subtask 7",
        "there is no plan `nosuch` in the history",
    ];
    for (result, part) in results.iter().zip(expected) {
        assert!(result.contains(part), "{part}: {result}");
    }
    assert_eq!(results[6].matches("## book").count(), 1);
}

#[tokio::test]
async fn an_earlier_plan_can_be_recovered() {
    let id = Arc::new(Mutex::new(String::new()));
    let wanted = Arc::clone(&id);
    let model = ScriptedModel::from_fn(move |_, nth| match nth {
        0 => create(),
        1 => call("finish_plan", json!({"state": "abandoned", "outcome": "no time"})),
        2 => Reply::text("Another day."),
        3 => call("recover_historical_plan", json!({"plan_id": *wanted.lock().unwrap()})),
        _ => Reply::text("Where were we?"),
    });
    let mut session = agent(&model).session();
    session.reply("Plan my trip.").await.unwrap();
    let before = session.plan_notebook().unwrap().notebook();
    assert!(before.current.is_none());
    id.lock().unwrap().push_str(&before.history[0].id);
    session.reply("Now I have time.").await.unwrap();
    let after = session.plan_notebook().unwrap().notebook();
    let plan = after.current.as_ref().unwrap();
    assert_eq!((plan.id.as_str(), plan.outcome.as_deref()), (before.history[0].id.as_str(), None));
    assert!(after.history.is_empty());
    assert!(results(&session)[2].contains("is the current one again"), "{}", results(&session)[2]);
    let hint = hints(&model).pop().unwrap();
    assert!(hint.contains("# Trip"), "{hint}");
}

#[tokio::test]
async fn plans_belong_to_a_session_and_are_saved_with_it() {
    let model = script([create(), Reply::text("Made.")]);
    let agent = agent(&model);
    let mut session = agent.session();
    session.reply("Q").await.unwrap();
    assert!(agent.session().plan_notebook().unwrap().notebook().current.is_none());
    let saved = serde_json::to_string(&session.state()).unwrap();
    let resumed = agent.resume(serde_json::from_str(&saved).unwrap()).unwrap();
    assert_eq!(resumed.plan_notebook().unwrap().notebook(), session.plan_notebook().unwrap().notebook());
    assert_eq!(resumed.state(), session.state());
    // States from before plans existed can be read.
    let mut old: Json = serde_json::from_str(&saved).unwrap();
    old.as_object_mut().unwrap().remove("notebook");
    let resumed = agent.resume(serde_json::from_value(old).unwrap()).unwrap();
    assert_eq!(resumed.plan_notebook().unwrap().notebook(), Notebook::default());
}

#[tokio::test]
async fn with_a_meta_tool_planning_is_a_group() {
    let model = script([call(EQUIP_FUNCTION, json!({PLAN_GROUP: true})), Reply::text("Ready.")]);
    let settings = Settings { finish: FinishStyle::Text, ..Settings::default() };
    let agent =
        ada(&model).settings(settings).with_meta_tool().with_plan_notebook(SUBTASKS_MAX).build().unwrap();
    agent.session().reply("Q").await.unwrap();
    let offers = |at: usize| model.requests()[at].tools.iter().any(|tool| tool.name == "create_plan");
    assert_eq!((offers(0), offers(1)), (false, true));
}

#[test]
fn plan_changes_follow_rules() {
    let refused = |work: weft_core::Result<()>, part: &str| {
        let error = work.expect_err(part);
        assert!(error.kind == ErrorKind::Invalid && error.full().contains(part), "{part}: {}", error.full());
    };
    let mut notebook = Notebook::default();
    refused(notebook.create(plan("p", &[]), 3, 1).map(drop), "at least one");
    refused(notebook.create(plan("p", &["a", "b", "c", "d"]), 3, 1).map(drop), "3 are allowed");
    assert_eq!(notebook.create(plan("p", &["a", "b"]), 3, 1).unwrap(), None);
    refused(notebook.update(1, PlanState::InProgress, 2), "subtask 0 comes before it");
    notebook.update(0, PlanState::InProgress, 2).unwrap();
    assert_eq!(notebook.current.as_ref().unwrap().state, PlanState::InProgress);
    refused(notebook.update(0, PlanState::Done, 2), "finish_subtask");
    notebook.revise(Revision::Add(0, subtask("first")), 3, 3).unwrap();
    refused(notebook.revise(Revision::Add(1, subtask("x")), 3, 3), "as many as are allowed");
    refused(notebook.revise(Revision::Delete(3), 3, 3), "there is no subtask 3");
    notebook.revise(Revision::Revise(2, subtask("b2")), 3, 3).unwrap();
    refused(notebook.update(0, PlanState::InProgress, 4), "subtask 1 is in progress");
    refused(notebook.finish_subtask(1, String::new(), 4).map(drop), "subtask 0 comes before it");
    notebook.update(0, PlanState::Abandoned, 4).unwrap();
    assert_eq!(notebook.finish_subtask(1, "ok".to_owned(), 5).unwrap(), Some(2));
    assert_eq!(states(&notebook), [PlanState::Abandoned, PlanState::Done, PlanState::InProgress]);
    assert_eq!(notebook.finish_subtask(2, "ok".to_owned(), 6).unwrap(), None);
    assert_eq!(notebook.current.as_ref().unwrap().state, PlanState::Todo, "it ends by `finish_plan` alone");
    refused(notebook.finish(PlanState::Todo, String::new(), 7), "`done` or as `abandoned`");
    let id = notebook.current.as_ref().unwrap().id.clone();
    notebook.finish(PlanState::Abandoned, "enough".to_owned(), 7).unwrap();
    assert_eq!(notebook.finish(PlanState::Done, String::new(), 7).unwrap_err().kind, ErrorKind::NotFound);

    notebook.create(plan("q", &["a"]), 3, 8).unwrap();
    refused(notebook.revise(Revision::Delete(0), 3, 8), "only subtask");
    assert_eq!(notebook.recover(&id, 9).unwrap().as_deref(), Some("q"));
    assert_eq!((notebook.current.as_ref().unwrap().id.as_str(), notebook.history.len()), (id.as_str(), 1));
    assert_eq!((notebook.history[0].name.as_str(), notebook.history[0].state), ("q", PlanState::Abandoned));
    assert_eq!(
        notebook.create(plan("r", &["a"]), 3, 10).unwrap().as_deref(),
        Some("p"),
        "the old plan is abandoned"
    );
    notebook.create(plan("t", &["a"]), 3, 10).unwrap();
    notebook.update(0, PlanState::InProgress, 10).unwrap();
    notebook.revise(Revision::Add(0, subtask("first")), 3, 10).unwrap();
    notebook.revise(Revision::Add(1, subtask("second")), 3, 10).unwrap();
    assert_eq!(notebook.finish_subtask(0, "ok".to_owned(), 10).unwrap(), Some(1));
    assert_eq!(states(&notebook), [PlanState::Done, PlanState::InProgress, PlanState::Todo], "one at a time");
    for _ in 0..HISTORY_MAX + 5 {
        notebook.create(plan("s", &["a"]), 3, 11).unwrap();
    }
    assert_eq!(notebook.history.len(), HISTORY_MAX);
}
