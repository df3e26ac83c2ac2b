//! Calls that run beside the conversation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use weft_agent::Toolkit;
use weft_agent::react::{BackgroundTask, Settings, TASKS_RUNNING_MAX, TaskStatus};
use weft_core::seam::chat_model::{Author, ChatRequest};
use weft_core::{ErrorKind, Tool};
use weft_models::{Reply, ScriptedModel};

use crate::react_kit::{ada, finish, remembered, script, slow};

/// A tool that ends on a signal and counts how many times it has.
fn gated(name: &str, gate: &Arc<Notify>, ended: &Arc<AtomicUsize>) -> Tool {
    let (gate, ended) = (Arc::clone(gate), Arc::clone(ended));
    Tool::function(name, "Builds.", json!({"type": "object", "properties": {}}), move |_| {
        let (gate, ended) = (Arc::clone(&gate), Arc::clone(&ended));
        async move {
            gate.notified().await;
            ended.fetch_add(1, Ordering::SeqCst);
            Ok(json!("built"))
        }
    })
}

/// The last message of a request.
fn last(request: &ChatRequest) -> &str {
    &request.messages.last().unwrap().text
}

/// The last result of a tool in a request.
fn gave(request: &ChatRequest) -> &str {
    &request.messages.iter().rfind(|message| message.author == Author::Tool).unwrap().text
}

fn view(task: &str) -> Reply {
    Reply::call("view_task", json!({"task_id": task}))
}

fn statuses(tasks: &[BackgroundTask]) -> Vec<(&str, TaskStatus)> {
    tasks.iter().map(|task| (task.id.as_str(), task.status)).collect()
}

#[tokio::test]
async fn a_background_call_returns_a_task_that_the_model_waits_for() {
    let (gate, ended) = (Arc::new(Notify::new()), Arc::default());
    let opener = Arc::clone(&gate);
    let model = ScriptedModel::from_fn(move |request, number| match number {
        0 => Reply::call("build", json!({})),
        1 => view("task_1"),
        2 => {
            assert!(
                last(request).starts_with("The task `task_1` of `build` is running."),
                "{}",
                last(request)
            );
            opener.notify_one();
            Reply::call("wait_task", json!({"task_id": "task_1"}))
        }
        _ => finish(last(request)),
    });
    let agent = ada(&model).background_tool(gated("build", &gate, &ended)).build().unwrap();
    let mut session = agent.session();
    let reply = session.reply("Build it.").await.unwrap();
    assert_eq!(reply.text(), "The task `task_1` of `build` is finished.\nbuilt");
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    let offered: Vec<String> = model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["look", "build", "view_task", "wait_task", "cancel_task", "generate_response"]);
    assert!(remembered(session.memory())[2].starts_with("system:=The task `task_1` has started."));
}

#[tokio::test]
async fn a_task_outlives_its_reply_and_its_end_is_reported_once() {
    let (gate, ended) = (Arc::new(Notify::new()), Arc::default());
    let model = script([
        Reply::call("build", json!({})),
        finish("It goes on."),
        view("task_1"),
        finish("It is built."),
        finish("Still."),
    ]);
    let agent = ada(&model).background_tool(gated("build", &gate, &ended)).build().unwrap();
    let mut session = agent.session();
    session.reply("Build it.").await.unwrap();
    assert_eq!(statuses(&session.background_tasks()), [("task_1", TaskStatus::Running)]);
    gate.notify_one();
    while session.background_tasks()[0].status == TaskStatus::Running {
        tokio::task::yield_now().await;
    }
    session.reply("And now?").await.unwrap();
    session.reply("And now?").await.unwrap();
    let news = "The task `task_1` of `build` is finished.\n`view_task` shows what it gave.";
    let told = model.requests().iter().filter(|request| last(request) == news).count();
    assert_eq!((told, last(&model.requests()[2]) == news), (1, true), "once, at the first opportunity");
    assert!(!remembered(session.memory()).iter().any(|line| line.contains("shows what it gave")));
}

/// A request that got no answer has told the model nothing.
#[tokio::test]
async fn the_end_of_a_task_is_told_again_when_the_request_with_it_failed() {
    let (gate, ended) = (Arc::new(Notify::new()), Arc::default());
    let model = script([
        Reply::call("build", json!({})),
        finish("It goes on."),
        Reply::error(ErrorKind::Denied, "not now"),
        finish("It is built."),
        finish("Still."),
    ]);
    let agent = ada(&model).background_tool(gated("build", &gate, &ended)).build().unwrap();
    let mut session = agent.session();
    session.reply("Build it.").await.unwrap();
    gate.notify_one();
    while session.background_tasks()[0].status == TaskStatus::Running {
        tokio::task::yield_now().await;
    }
    assert_eq!(session.reply("And now?").await.unwrap_err().kind, ErrorKind::Denied);
    session.reply("And now?").await.unwrap();
    session.reply("And now?").await.unwrap();
    let news = "The task `task_1` of `build` is finished.\n`view_task` shows what it gave.";
    let told: Vec<bool> = model.requests().iter().map(|request| last(request) == news).collect();
    assert_eq!(told, [false, false, true, true, false]);
}

#[tokio::test]
async fn a_task_is_stopped_by_the_model_the_program_or_the_end_of_its_session() {
    let (gate, ended): (_, Arc<AtomicUsize>) = (Arc::new(Notify::new()), Arc::default());
    let build = || Reply::call("build", json!({}));
    let stop = Reply::call("cancel_task", json!({"task_id": "task_1"}));
    let model = script([build(), build(), build(), stop, finish("ok")]);
    let agent = ada(&model).background_tool(gated("build", &gate, &ended)).build().unwrap();
    let mut session = agent.session();
    session.reply("Build it.").await.unwrap();
    let over = |tasks: &[BackgroundTask], place: usize| tasks[place].status == TaskStatus::Cancelled;
    while !over(&session.background_tasks(), 0) {
        tokio::task::yield_now().await;
    }
    assert_eq!(session.background_tasks()[1].status, TaskStatus::Running);
    session.cancel_background_tasks();
    while !(1..3).all(|place| over(&session.background_tasks(), place)) {
        tokio::task::yield_now().await;
    }
    // Dropping a session stops its tasks.
    let weak = Arc::downgrade(&gate);
    let model = script([build(), finish("ok")]);
    let agent = ada(&model).background_tool(gated("build", &gate, &ended)).build().unwrap();
    let mut session = agent.session();
    session.reply("Build it.").await.unwrap();
    drop((session, agent, gate));
    while weak.strong_count() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ended.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_failure_is_reported_and_fails_no_reply() {
    let schema = || json!({"type": "object", "properties": {}});
    let failing = Tool::function("fail", "Fails.", schema(), |_| async {
        Err(weft_core::Error::invalid("no such branch"))
    });
    let breaking = Tool::function("break", "Breaks.", schema(), |_| async { panic!("of course") });
    let mut slow = slow("slow", 90_000);
    slow.traits.time_limit = Duration::from_secs(30);
    let wait = |task: &str| Reply::call("wait_task", json!({"task_id": task, "seconds": 1_000}));
    let model = script([
        Reply::call("fail", json!({})).and_call("break", json!({})).and_call("slow", json!({})),
        wait("task_1"),
        wait("task_2"),
        wait("task_3"),
        view("task_4"),
        finish("ok"),
    ]);
    let agent = ada(&model).background_tool(failing).background_tool(breaking).background_tool(slow);
    let mut session = agent.build().unwrap().session();
    session.reply("Do all.").await.unwrap();
    let requests = model.requests();
    let told = |place: usize| gave(&requests[place]);
    assert!(
        told(2).starts_with("The task `task_1` of `fail` is failed.") && told(2).contains("no such branch")
    );
    assert!(told(3).contains("`break` is failed") && told(3).contains("the tool broke"), "{}", told(3));
    assert!(told(4).contains("`slow` is failed") && told(4).contains("30"), "{}", told(4));
    assert!(told(5).contains("there is no task `task_4`") && told(5).contains("task_1, task_2, task_3"));
}

#[tokio::test]
async fn running_tasks_are_limited_and_numbering_continues_in_a_saved_session() {
    let (gate, ended) = (Arc::new(Notify::new()), Arc::default());
    let mut replies: Vec<Reply> = (0..=TASKS_RUNNING_MAX).map(|_| Reply::call("build", json!({}))).collect();
    replies.push(finish("ok"));
    let model = script(replies);
    let settings = Settings { max_iters: 30, ..Settings::default() };
    let agent =
        ada(&model).background_tool(gated("build", &gate, &ended)).settings(settings).build().unwrap();
    let mut session = agent.session();
    session.reply("Build it all.").await.unwrap();
    assert_eq!(session.background_tasks().len(), TASKS_RUNNING_MAX);
    assert!(last(model.requests().last().unwrap()).contains("16 tasks run already"));
    let resumed = agent.resume(session.state()).unwrap();
    assert!(resumed.background_tasks().is_empty(), "tasks are not saved");
    assert_eq!(resumed.state(), session.state(), "but their number is");
}

#[tokio::test]
async fn duplicate_tool_names_are_refused_at_build() {
    let model = script([]);
    let twice = ada(&model).background_tool(slow("view_task", 1)).build().unwrap_err();
    assert_eq!(twice.kind, ErrorKind::Conflict);
    let tools = Toolkit::new();
    tools.register(slow("wait", 1)).unwrap();
    let twice = ada(&model).toolkit(tools).background_tool(slow("wait", 1)).build().unwrap_err();
    assert_eq!(twice.kind, ErrorKind::Conflict);
}
