//! The graph agent: its nodes, edges, state, events and limits.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;
use weft_agent::graph::{
    AfterLoop, EDGES, EventKind, GraphAgent, GraphSettings, GraphState, Metadata, Node, STATUS, StopReason,
    TurnOptions, Update, next, to_mermaid,
};
use weft_agent::message::{ContentBlock, Message, Role, ToolUse};
use weft_agent::react::ToolCalls;
use weft_core::ErrorKind;
use weft_core::seam::chat_model::{StopReason as ModelStop, ToolChoice};
use weft_models::Reply;

use crate::graph_kit::{Counted, Watched, ada, count, log, look, script, streamed};

fn asks(name: &str) -> Message {
    let call =
        ToolUse { id: "1".to_owned(), name: name.to_owned(), input: Default::default(), raw_input: None };
    Message::new(Role::Assistant, "Ada", vec![ContentBlock::ToolUse(call)])
}

#[test]
fn the_graph_has_the_declared_nodes_and_edges() {
    let expected = json!([
        {"from": "__start__", "to": "init_state", "kind": "always"},
        {"from": "init_state", "to": "memory_trigger", "kind": "always"},
        {"from": "memory_trigger", "to": "agent", "kind": "always"},
        {"from": "agent", "to": "tools", "kind": "conditional"},
        {"from": "agent", "to": "finalize", "kind": "conditional"},
        {"from": "tools", "to": "agent", "kind": "always"},
        {"from": "finalize", "to": "__end__", "kind": "always"},
    ]);
    assert_eq!(serde_json::to_value(EDGES).unwrap(), expected);
    assert!(to_mermaid().contains("    agent -.-> tools\n    agent -.-> finalize\n    tools --> agent\n"));
    // The documented graph is the one that runs.
    let mut states =
        vec![GraphState::default(), GraphState { messages: vec![asks("look")], ..GraphState::default() }];
    states.push(GraphState { stop: true, ..states[1].clone() });
    for edge in EDGES {
        assert!(states.iter().any(|state| next(edge.from, state) == edge.to), "{edge:?}");
        for state in &states {
            assert!(EDGES.iter().any(|drawn| (drawn.from, drawn.to) == (edge.from, next(edge.from, state))));
        }
    }
}

#[test]
fn stop_takes_precedence_over_calls() {
    let calls = GraphState { messages: vec![Message::user("Q"), asks("look")], ..GraphState::default() };
    assert_eq!(next(Node::Agent, &calls), Node::Tools);
    assert_eq!(next(Node::Agent, &GraphState { stop: true, ..calls.clone() }), Node::Finalize);
    let answer = Message::new(Role::Assistant, "Ada", vec![ContentBlock::text("A")]);
    let answered = GraphState { messages: vec![Message::user("Q"), answer], ..GraphState::default() };
    assert_eq!(next(Node::Agent, &answered), Node::Finalize);
    assert_eq!(next(Node::Tools, &GraphState { stop: true, ..calls }), Node::Agent, "always");
}

#[tokio::test]
async fn each_node_changes_only_its_own_state() {
    let (tools, watched) = (Counted::default(), Watched::default());
    let model = script([look("x").and_call("pay", json!({"q": "5"})), Reply::text("Done.")]);
    let settings = GraphSettings { max_steps: 7, ..GraphSettings::default() };
    let agent =
        ada(&model, &tools).settings(settings).checkpointer(Arc::new(watched.clone())).build().unwrap();
    let reply = agent.process_message("t", "Q").await.unwrap();
    let nodes = ["__start__", "init_state", "memory_trigger", "agent", "tools", "agent", "finalize"];
    assert_eq!(watched.nodes(), nodes);

    let (_, state) = &watched.after(Node::InitState)[0];
    assert_eq!((state.current_step, state.max_steps, state.llm_calls), (0, 7, 0));
    assert_eq!(state.messages.len(), 1);
    assert_eq!(watched.after(Node::MemoryTrigger)[0].0.update, Update::default());

    let keys = |update: &Update| -> Vec<String> {
        let Json::Object(fields) = serde_json::to_value(update).unwrap() else { panic!("an object") };
        fields.keys().cloned().collect()
    };
    let agents = watched.after(Node::Agent);
    assert_eq!(keys(&agents[0].0.update), ["messages", "llm_calls", "stop", "stop_reason"]);
    assert_eq!(agents[0].0.update.messages.len(), 1);
    assert_eq!((agents[0].1.llm_calls, agents[1].1.llm_calls), (1, 2));
    assert!(agents[0].1.tool_call_history.is_empty(), "a model node calls no tool");

    let (made, state) = &watched.after(Node::Tools)[0];
    assert_eq!(
        keys(&made.update),
        ["messages", "current_step", "tool_call_history", "tool_result_history", "tools_used"]
    );
    assert_eq!(state.current_step, 1, "once per round, however many calls there are");
    let names: Vec<_> = state.tool_call_history.iter().map(|call| (&*call.name, &call.args)).collect();
    assert_eq!(names, [("look", &json!({"q": "x"})), ("pay", &json!({"q": "5"}))]);
    assert_eq!(state.tool_result_history, ["looked x", "payed 5"]);
    assert_eq!(state.tools_used, ["look", "pay"]);
    let statuses: Vec<_> =
        made.update.messages.iter().map(|message| message.metadata[STATUS].clone()).collect();
    assert_eq!(statuses, ["success", "success"]);

    assert_eq!(reply.reply, "Done.");
    let metadata = json!({
        "steps_taken": 1, "tools_used": ["look", "pay"], "stop_reason": "completed", "llm_calls": 2
    });
    assert_eq!(serde_json::to_value(&reply.metadata).unwrap(), metadata);
}

#[tokio::test]
async fn each_visit_sends_one_model_request() {
    let (tools, watched) = (Counted::default(), Watched::default());
    let model = script([look("a"), look("b"), Reply::text("Done.")]);
    let agent = ada(&model, &tools).checkpointer(Arc::new(watched.clone())).build().unwrap();
    agent.process_message("t", "Q").await.unwrap();
    assert_eq!(watched.after(Node::Agent).len(), model.requests().len());
    assert_eq!(model.requests().len(), 3);
    assert_eq!(tools.calls(), ["look a", "look b"]);
}

#[tokio::test]
async fn after_the_last_step_the_model_has_no_tools() {
    let tools = Counted::default();
    let model =
        script([look("a"), look("b"), look("c").then(weft_models::script::Step::Text("So far.".into()))]);
    let settings = GraphSettings { max_steps: 2, ..GraphSettings::default() };
    let agent = ada(&model, &tools).settings(settings).build().unwrap();
    let reply = agent.process_message("t", "Q").await.unwrap();
    let choices: Vec<_> = model.requests().iter().map(|request| request.tool_choice.clone()).collect();
    assert_eq!(choices, [ToolChoice::Auto, ToolChoice::Auto, ToolChoice::None]);
    assert_eq!((reply.reply.as_str(), reply.metadata.stop_reason), ("So far.", StopReason::MaxSteps));
    assert_eq!(tools.calls().len(), 2, "a call of a tool not offered is a mistake");

    // A model that gives no answer even then.
    let model = script([look("a"), look("b"), look("c"), look("d")]);
    let settings = GraphSettings { max_steps: 2, ..GraphSettings::default() };
    let agent = ada(&model, &tools).settings(settings).build().unwrap();
    let reply = agent.process_message("t", "Что там?").await.unwrap();
    assert_eq!((reply.reply.as_str(), reply.metadata.llm_calls), ("Модель не дала ответа.", 4));
}

#[tokio::test]
async fn two_identical_rounds_are_a_loop() {
    let looped = |first: &str, second: &str, window| {
        let model = script([look(first), look(second), Reply::text("Enough.")]);
        let (tools, settings) =
            (Counted::default(), GraphSettings { loop_window: window, ..GraphSettings::default() });
        let agent = ada(&model, &tools).settings(settings).build().unwrap();
        async move { (agent.process_message("t", "Q").await.unwrap(), model.requests()) }
    };
    let (reply, requests) = looped("the  Weather", "the weather ", 2).await;
    assert_eq!((reply.reply.as_str(), reply.metadata.stop_reason), ("Enough.", StopReason::LoopDetected));
    assert_eq!(requests[2].tool_choice, ToolChoice::None, "an answer is requested");
    assert_eq!(looped("page 1", "page 2", 2).await.0.metadata.stop_reason, StopReason::Completed);
    assert_eq!(looped("x", "x", 3).await.0.metadata.stop_reason, StopReason::Completed);

    let model = script([look("x"), look("x")]);
    let settings = GraphSettings { after_loop: AfterLoop::Explain, ..GraphSettings::default() };
    let agent = ada(&model, &Counted::default()).settings(settings).build().unwrap();
    let reply = agent.process_message("t", "天气怎么样?").await.unwrap();
    assert_eq!(reply.reply, "最近几步反复得到相同的结果,因此我停了下来。");
    assert_eq!(model.requests().len(), 2, "and nothing more is requested");
}

#[tokio::test]
async fn a_tool_failure_is_reported_to_the_model() {
    let (tools, watched) = (Counted::default(), Watched::default());
    let model = script([Reply::call("fail", json!({"q": "x"})), Reply::text("It does not work.")]);
    let agent = ada(&model, &tools).checkpointer(Arc::new(watched.clone())).build().unwrap();
    let (events, reply) = streamed(&agent, "t", "Q", TurnOptions::default()).await;
    assert_eq!(reply.unwrap().metadata.stop_reason, StopReason::Completed);
    assert_eq!(watched.after(Node::Tools)[0].0.update.messages[0].metadata[STATUS], "error");
    assert!(events.iter().any(|event| matches!(&event.kind,
        EventKind::ToolEnd { is_error: true, result, .. } if result.contains("no such thing"))));
}

#[tokio::test]
async fn events_are_emitted_in_order() {
    let model = script([look("x").thinking("hm"), Reply::pieces(["It is ", "x."])]);
    let agent = ada(&model, &Counted::default()).build().unwrap();
    let (events, reply) = streamed(&agent, "t", "Q", TurnOptions::default()).await;
    assert_eq!(reply.unwrap().reply, "It is x.");
    let id = match &events[3].kind {
        EventKind::ToolStart { id, .. } => id.clone(),
        other => panic!("{other:?}"),
    };
    let expected = [
        json!({"event": "node_start", "data": {"node": "agent"}, "seq": 1, "step": 0}),
        json!({"event": "llm_token", "data": {"token": "", "reasoning_token": "hm"}, "seq": 2, "step": 0}),
        json!({"event": "node_end", "data": {"node": "agent"}, "seq": 3, "step": 0}),
        json!({"event": "tool_start", "data": {"tool": "look", "args": {"q": "x"}, "id": id}, "seq": 4, "step": 0}),
        json!({"event": "tool_end", "data": {"tool": "look", "id": id, "result": "looked x",
            "is_error": false, "truncated": false}, "seq": 5, "step": 0}),
        json!({"event": "node_start", "data": {"node": "agent"}, "seq": 6, "step": 1}),
        json!({"event": "llm_token", "data": {"token": "It is ", "reasoning_token": ""}, "seq": 7, "step": 1}),
        json!({"event": "llm_token", "data": {"token": "x.", "reasoning_token": ""}, "seq": 8, "step": 1}),
        json!({"event": "node_end", "data": {"node": "agent"}, "seq": 9, "step": 1}),
    ];
    assert_eq!(log(&events), expected);
    let back: Vec<weft_agent::graph::GraphEvent> = events
        .iter()
        .map(|event| serde_json::from_value(serde_json::to_value(event).unwrap()).unwrap())
        .collect();
    assert_eq!(back, events);
}

#[tokio::test]
async fn started_nodes_and_tools_end_when_they_fail() {
    let model = script([look("x"), Reply::error(ErrorKind::Unavailable, "away")]);
    let agent = ada(&model, &Counted::default()).build().unwrap();
    let (events, reply) = streamed(&agent, "t", "Q", TurnOptions::default()).await;
    assert_eq!(reply.unwrap_err().kind, ErrorKind::Unavailable);
    let starts = |kind: &EventKind| matches!(kind, EventKind::NodeStart { .. } | EventKind::ToolStart { .. });
    let ends = |kind: &EventKind| matches!(kind, EventKind::NodeEnd { .. } | EventKind::ToolEnd { .. });
    assert_eq!((count(&events, starts), count(&events, ends)), (3, 3));
    let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn started_nodes_and_tools_end_when_the_turn_is_cancelled() {
    let toolkit = Counted::default().toolkit();
    toolkit.register(crate::react_kit::slow("wait", 10_000)).unwrap();
    let slow_tool = [look("x").and_call("wait", json!({})), Reply::text("never")];
    let slow_model = [look("x"), Reply::text("late").delay_ms(10_000)];
    for (replies, calls) in [(slow_tool, 2), (slow_model, 1)] {
        let agent =
            GraphAgent::builder("Ada", Arc::new(script(replies))).toolkit(toolkit.clone()).build().unwrap();
        let cancel = CancellationToken::new();
        let options = TurnOptions { cancel: cancel.clone(), ..TurnOptions::default() };
        let stop = async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            cancel.cancel();
        };
        let ((events, reply), ()) = tokio::join!(streamed(&agent, "t", "Q", options), stop);
        assert_eq!(reply.unwrap().metadata.stop_reason, StopReason::Cancelled);
        let (mut begun, mut ended, mut nodes) = (Vec::new(), Vec::new(), 0);
        for event in &events {
            match &event.kind {
                EventKind::ToolStart { id, .. } => begun.push(id.as_str()),
                EventKind::ToolEnd { id, .. } => ended.push(id.as_str()),
                EventKind::NodeStart { .. } => nodes += 1,
                EventKind::NodeEnd { .. } => nodes -= 1,
                _ => {}
            }
        }
        assert_eq!((begun.len(), &begun, nodes), (calls, &ended, 0));
    }
}

#[tokio::test]
async fn long_results_are_truncated_only_in_events() {
    let watched = Watched::default();
    let long = "y".repeat(9_000);
    let model = script([look(&long), Reply::text("Done.")]);
    let agent = ada(&model, &Counted::default()).checkpointer(Arc::new(watched.clone())).build().unwrap();
    let (events, _) = streamed(&agent, "t", "Q", TurnOptions::default()).await;
    assert!(events.iter().any(|event| matches!(&event.kind,
        EventKind::ToolEnd { truncated: true, result, .. } if result.chars().count() == 4_000)));
    assert_eq!(watched.after(Node::Tools)[0].1.tool_result_history[0].len(), 9_007);
    assert!(model.requests()[1].messages.iter().any(|message| message.text.len() == 9_007));
}

#[tokio::test]
async fn turns_without_an_answer_say_why() {
    let reason = |replies: Vec<Reply>| {
        let agent = ada(&script(replies), &Counted::default()).build().unwrap();
        async move {
            let reply = agent.process_message("t", "Q").await.unwrap();
            (reply.metadata.stop_reason, reply.reply)
        }
    };
    let (why, said) = reason(vec![Reply::empty(), Reply::empty()]).await;
    assert_eq!((why, said.as_str()), (StopReason::EmptyResponse, "The model gave no answer."));
    let (why, said) = reason(vec![Reply::text("cut").stop(ModelStop::Length)]).await;
    assert_eq!((why, said.as_str()), (StopReason::Length, "cut"));
    let (why, said) = reason(vec![Reply::text("x").stop(ModelStop::Filtered)]).await;
    assert_eq!(
        (why, said.as_str()),
        (StopReason::ContentFilter, "The model's provider held the answer back.")
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_leaves_a_valid_thread() {
    let tools = Counted::default();
    let toolkit = tools.toolkit();
    toolkit.register(crate::react_kit::slow("wait", 10_000)).unwrap();
    for tool_calls in [ToolCalls::Sequential, ToolCalls::Parallel] {
        let model = script([look("x").and_call("wait", json!({})), Reply::text("Hello again.")]);
        let settings = GraphSettings { tool_calls, ..GraphSettings::default() };
        let agent = GraphAgent::builder("Ada", Arc::new(model.clone()))
            .toolkit(toolkit.clone())
            .settings(settings)
            .build()
            .unwrap();
        let cancel = CancellationToken::new();
        let options = TurnOptions { cancel: cancel.clone(), ..TurnOptions::default() };
        let stop = async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            cancel.cancel();
        };
        let (reply, ()) = tokio::join!(agent.process_message_with("t", "Q", options), stop);
        let reply = reply.unwrap();
        assert_eq!(reply.metadata.stop_reason, StopReason::Cancelled);
        assert_eq!(reply.reply, "The work was cancelled.");
        let state = agent.state("t").await.unwrap().unwrap();
        assert!(state.open_calls().is_empty(), "every call has a result");
        assert_eq!(state.tool_result_history[0], "looked x", "finished work stays");
        let reply = agent.process_message("t", "Q2").await.unwrap();
        assert_eq!(
            (reply.reply.as_str(), reply.metadata.stop_reason),
            ("Hello again.", StopReason::Completed)
        );
    }
}

#[tokio::test]
async fn a_turn_starts_clean_and_keeps_the_conversation() {
    let model =
        script([look("x"), look("x"), Reply::text("One."), Reply::text("Two."), Reply::text("Three.")]);
    let agent = ada(&model, &Counted::default()).build().unwrap();
    let first = agent.process_message("t", "Q1").await.unwrap();
    assert_eq!(first.metadata.stop_reason, StopReason::LoopDetected);
    let second = agent.process_message("t", "Q2").await.unwrap();
    let clean = Metadata { stop_reason: StopReason::Completed, llm_calls: 1, ..Metadata::default() };
    assert_eq!((second.reply.as_str(), second.metadata), ("Two.", clean));
    let last = model.requests().pop().unwrap();
    assert!(last.messages.iter().any(|message| message.text == "One."));
    agent.process_message("other", "Q").await.unwrap();
    let other = model.requests().pop().unwrap();
    assert_eq!(other.messages.len(), 2, "instructions and question: threads are isolated");
}

#[tokio::test]
async fn both_entry_points_give_the_same_reply() {
    let replies = || [look("x"), Reply::pieces(["It is ", "x."]).usage(5, 3)];
    let whole = ada(&script(replies()), &Counted::default()).build().unwrap();
    let whole = whole.process_message("t", "Q").await.unwrap();
    let agent = ada(&script(replies()), &Counted::default()).build().unwrap();
    let (events, reply) = streamed(&agent, "t", "Q", TurnOptions::default()).await;
    assert_eq!(reply.unwrap(), whole);
    let metadata =
        json!({"steps_taken": 1, "tools_used": ["look"], "stop_reason": "completed", "llm_calls": 2});
    assert_eq!(serde_json::to_value(&whole.metadata).unwrap(), metadata);
    let text: String = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::LlmToken { token, .. } => Some(token.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, whole.reply);
    let again = agent.resume("t", TurnOptions::default()).await.unwrap();
    assert_eq!((again.reply, again.metadata), (whole.reply, whole.metadata), "a finished turn is replayed");
    assert_eq!(agent.resume("nobody", TurnOptions::default()).await.unwrap_err().kind, ErrorKind::NotFound);
}
