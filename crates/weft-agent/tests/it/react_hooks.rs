//! Hooks, and the limits of a prompt.

use std::sync::{Arc, Mutex};

use serde_json::json;
use weft_agent::message::{ContentBlock, Message, Role, ToolResult};
use weft_agent::react::{Formatter, Hooks, Settings};
use weft_agent::toolkit::Toolkit;
use weft_core::seam::chat_model::{Author, ChatMessage, ToolChoice};
use weft_core::{Error, ErrorKind, Tool, ToolOutput};
use weft_models::Reply;

use crate::react_kit::{ada, call, finish, is_tidy, printed, remembered, script, session, shown};

/// The events, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

macro_rules! note_all {
    ($hooks:expr, $log:expr, $level:literal, $($point:ident),+) => {$(
        let log = $log.clone();
        $hooks.$point.add("note", move |context, _| {
            log.note(format!("{} {} {}", $level, stringify!($point), context.iteration));
            async { Ok(None) }
        });
    )+};
}

fn note_stages(hooks: &Hooks, log: &Log) {
    note_all!(
        hooks,
        log,
        "own",
        pre_reply,
        post_reply,
        pre_reasoning,
        post_reasoning,
        pre_acting,
        post_acting,
        pre_print,
        post_print,
        pre_observe,
        post_observe
    );
}

#[tokio::test]
async fn hooks_run_before_and_after_every_stage() {
    let log = Log::default();
    let mut session = session(&script([call("x"), finish("done")]));
    note_stages(session.hooks(), &log);
    session.reply("Q").await.unwrap();
    let expected = [
        "pre_reply 0",
        "pre_reasoning 0",
        "pre_print 0",
        "post_print 0",
        "post_reasoning 0",
        "pre_acting 0",
        "post_acting 0",
        "pre_print 0",
        "post_print 0",
        "pre_reasoning 1",
        "pre_print 1",
        "post_print 1",
        "post_reasoning 1",
        "pre_acting 1",
        "post_acting 1",
        "post_reply 1",
    ];
    assert_eq!(log.take(), expected.map(|line| format!("own {line}")));
    session.observe("news").await.unwrap();
    assert_eq!(log.take(), ["own pre_observe 0", "own post_observe 0"]);
    session.hooks().clear();
    session.observe("more").await.unwrap();
    assert!(log.take().is_empty());
}

#[tokio::test]
async fn hooks_of_a_session_run_before_those_of_its_agent_each_in_order() {
    let log = Log::default();
    let add = |hooks: &Hooks, name: &str, says: &str| {
        let (log, says) = (log.clone(), says.to_owned());
        hooks.pre_reply.add(name, move |_, message: Message| {
            log.note(says.clone());
            let text = format!("{}{says}", message.text());
            async move { Ok(Some(Message { content: vec![ContentBlock::text(text)], ..message })) }
        });
    };
    let shared = Hooks::new();
    let model = script(["1", "2", "3", "4"].map(finish));
    let agent = ada(&model).hooks(shared.clone()).build().unwrap();
    let other = ada(&model).hooks(shared.clone()).build().unwrap();
    let (mut one, mut two) = (agent.session(), other.session());
    // Both sessions exist before the hooks.
    add(&shared, "b", "B");
    add(agent.hooks(), "a", "A");
    add(one.hooks(), "y", "y");
    add(one.hooks(), "x", "x");
    one.reply("Q").await.unwrap();
    assert_eq!(log.take().concat(), "yxBA");
    assert_eq!(model.requests()[0].messages[1].text, "QyxBA", "each sees the changes of the previous one");
    assert_eq!(remembered(one.memory())[0], "user:QyxBA");
    two.reply("Q").await.unwrap();
    assert_eq!(log.take().concat(), "BA");
    // A hook of the same name is replaced in place, and a removed one is gone.
    add(&shared, "b", "C");
    assert!(one.hooks().pre_reply.remove("y") && !one.hooks().pre_reply.remove("y"));
    one.reply("Q").await.unwrap();
    assert_eq!(log.take().concat(), "xCA");
    shared.pre_reply.clear();
    two.reply("Q").await.unwrap();
    assert!(log.take().is_empty());
}

#[tokio::test]
async fn hooks_change_the_data_that_passes() {
    let model = script([call("x"), finish("done")]);
    let mut session = session(&model);
    let hooks = session.hooks().clone();
    hooks.pre_reasoning.add("context", |context, mut input| async move {
        input.messages.push(Message::user(format!("step {}", context.iteration)));
        input.tool_choice = ToolChoice::Required;
        Ok(Some(input))
    });
    hooks.pre_acting.add("query", |_, mut call| async move {
        call.id = "mine".to_owned();
        if call.name == "look" {
            call.input.insert("q".to_owned(), json!("y"));
        }
        Ok(Some(call))
    });
    hooks.post_acting.add("mask", |_, mut response| async move {
        if response.call.name == "look" {
            response.output = ToolOutput::text(response.output.to_text().replace('y', "*"));
        }
        Ok(Some(response))
    });
    hooks.pre_print.add("loud", |_, mut printed| async move {
        printed.message.content = vec![ContentBlock::text(printed.message.text().to_uppercase())];
        Ok(Some(printed))
    });
    hooks.post_reply.add("sign", |_, mut reply| async move {
        reply.metadata.insert("signed".to_owned(), json!("Ada"));
        Ok(Some(reply))
    });
    hooks
        .pre_observe
        .add("rename", |_, message| async move { Ok(Some(Message { name: "Bo".into(), ..message })) });
    let (reply, items) = printed(&mut session, "Q").await;
    assert_eq!(reply.unwrap().metadata["signed"], "Ada");
    assert_eq!(session.memory().messages().last().unwrap().metadata["signed"], "Ada");
    let asked = model.requests();
    let lasts: Vec<_> = asked.iter().map(|request| request.messages.last().unwrap().text.clone()).collect();
    assert_eq!(lasts, ["step 0", "step 1"]);
    assert_eq!(asked[1].tool_choice, ToolChoice::Required);
    let kept = remembered(session.memory());
    assert_eq!((kept.len(), kept[2].as_str()), (6, "system:=found *"), "the added message is not stored");
    assert!(shown(&items).contains(&"assistant:DONE!".to_owned()), "{:?}", shown(&items));
    assert!(is_tidy(session.memory()), "a call keeps its id");
    session.observe("news").await.unwrap();
    assert_eq!(session.memory().messages().last().unwrap().name, "Bo");
}

#[tokio::test]
async fn a_call_limit_set_by_a_hook_leaves_the_memory_consistent() {
    let many = call("1").and_call("look", json!({"q": "2"})).and_call("look", json!({"q": "3"}));
    let model = script([many, call("4"), finish("done")]);
    let mut session = session(&model);
    let hooks = session.hooks().clone();
    hooks.post_reasoning.add("limit", |context, mut message: Message| async move {
        let mut calls = 0;
        message.content.retain(|block| {
            let is_call = matches!(block, ContentBlock::ToolUse(call) if call.name == "look");
            calls += usize::from(is_call);
            // In its second message the model may call nothing at all.
            !is_call || (calls <= 2 && context.iteration == 0)
        });
        Ok(Some(message))
    });
    assert_eq!(session.reply("Q").await.unwrap().text(), "done");
    assert_eq!(session.memory().count_tool_uses(Some("look")), 2);
    assert!(is_tidy(session.memory()), "{:?}", remembered(session.memory()));
    assert_eq!(remembered(session.memory()).len(), 1 + 3 + 2 + 1);
    let sent = &model.requests()[1].messages;
    assert_eq!(sent[2].tool_calls.len(), 2, "the model sees its message as changed");
}

#[tokio::test]
async fn calls_added_by_a_hook_get_unique_ids() {
    let mut session = session(&script([call("x"), finish("done")]));
    session.hooks().post_reasoning.add("twice", |context, mut message: Message| async move {
        let again = message.content.clone();
        if context.iteration == 0 {
            message.content.extend(again);
        }
        Ok(Some(message))
    });
    session.reply("Q").await.unwrap();
    assert_eq!(session.memory().count_tool_uses(Some("look")), 2);
    let ids: std::collections::BTreeSet<_> =
        session.memory().tool_uses(None).into_iter().map(|used| used.call.id).collect();
    assert!(ids.len() == 3 && is_tidy(session.memory()), "{ids:?}");
}

#[tokio::test]
async fn a_hook_refuses_a_call_and_fails_a_stage() {
    let model = script([call("x"), finish("well"), call("x")]);
    let mut session = session(&model);
    session.hooks().pre_acting.add("guard", |_, call| async move {
        if call.name == "look" { Err(Error::new(ErrorKind::Denied, "no looking")) } else { Ok(None) }
    });
    session.reply("Q").await.unwrap();
    assert!(remembered(session.memory())[2].contains("no looking"));
    session.hooks().post_acting.add("broken", |_, _| async { Err(Error::internal("the hook broke")) });
    assert_eq!(session.reply("Q").await.unwrap_err().message, "the hook broke");
    assert!(is_tidy(session.memory()));
    session.hooks().clear();
    session.hooks().pre_reply.add("closed", |_, _| async { Err(Error::new(ErrorKind::Denied, "closed")) });
    let before = session.memory().len();
    assert_eq!(session.reply("Q").await.unwrap_err().message, "closed");
    assert_eq!(session.memory().len(), before);
}

#[tokio::test]
async fn tool_metadata_reaches_hooks() {
    let tools = Toolkit::new();
    let schema = json!({"type": "object", "properties": {}});
    let noting = weft_agent::function::tool("note", "Notes.", |_: Empty| async {
        Ok(ToolOutput::text("noted").with_metadata("page", json!({"n": 7})))
    });
    tools.register(noting.unwrap()).unwrap();
    let fails = |_| async { Err::<serde_json::Value, _>(Error::internal("broken")) };
    tools.register(Tool::function("fail", "Fails.", schema, fails)).unwrap();
    let both = Reply::call("note", json!({})).and_call("fail", json!({}));
    let mut session = ada(&script([both, finish("done")])).toolkit(tools).build().unwrap().session();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    session.hooks().post_acting.add("see", move |_, response| {
        kept.lock().unwrap().push(response);
        async { Ok(None) }
    });
    session.reply("Q").await.unwrap();
    let seen = seen.lock().unwrap();
    let page = json!({"page": {"n": 7}});
    assert_eq!(serde_json::Value::Object(seen[0].output.metadata.clone()), page);
    assert_eq!((seen[0].is_last, seen[0].is_interrupted, seen[0].output.failed), (true, false, false));
    assert_eq!((seen[1].call.name.as_str(), seen[1].output.failed), ("fail", true));
    assert_eq!(seen[2].output.metadata["success"], json!(true));
    let result = &session.memory().messages()[2];
    assert_eq!(serde_json::Value::Object(result.metadata.clone()), page, "it is stored");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Empty {}

/// Turns of a question, a call, its result and an answer.
fn long_memory(turns: usize) -> Vec<Message> {
    let turn = |n: usize| {
        let call = weft_agent::message::ToolUse {
            id: n.to_string(),
            name: "look".to_owned(),
            input: serde_json::Map::new(),
            raw_input: None,
        };
        let output = vec![ContentBlock::text("r".repeat(80))];
        let result = ToolResult { id: n.to_string(), name: "look".to_owned(), output };
        [
            Message::user(format!("question {n}")),
            Message::new(Role::Assistant, "Ada", vec![ContentBlock::ToolUse(call)]),
            Message::tool_result(result),
            Message::new(Role::Assistant, "Ada", vec![ContentBlock::text(format!("answer {n}"))]),
        ]
    };
    let mut messages: Vec<_> = (0..turns).flat_map(turn).collect();
    messages.push(Message::user("now?"));
    messages
}

#[test]
fn a_long_memory_is_cut_by_whole_units_and_the_instructions_stay() {
    let formatter = Formatter::new("Ada", "Be kind.");
    let memory = long_memory(20);
    let (all, note) = formatter.format(&memory, None, 100_000).unwrap();
    assert_eq!((all.len(), note), (82, None));
    let mut sizes = std::collections::BTreeSet::new();
    for room in (20..1_200).step_by(7) {
        let (sent, _) = formatter.format(&memory, None, room).unwrap();
        let text = |place: usize| (sent[place].author, sent[place].text.as_str());
        assert_eq!(text(0), (Author::System, "Be kind."));
        assert_eq!(text(sent.len() - 1), (Author::User, "now?"));
        let calls: Vec<_> = sent.iter().flat_map(|m| &m.tool_calls).map(|call| call.id.clone()).collect();
        let results: Vec<_> = sent.iter().filter_map(|m| m.tool_call_id.clone()).collect();
        assert_eq!(calls, results, "room for {room}");
        assert_eq!((sent.len() - 2) % 4, 0, "whole turns");
        sizes.insert(sent.len());
    }
    assert!(sizes.contains(&2) && sizes.len() > 5, "{sizes:?}");
    assert_eq!(formatter.format(&memory, None, 4).unwrap_err().kind, ErrorKind::Invalid);
}

#[test]
fn calls_and_results_that_do_not_match_are_an_error() {
    let formatter = Formatter::new("Ada", "");
    let whole = long_memory(1);
    assert!(formatter.format(&whole, None, 1_000).is_ok());
    for left_out in [1, 2] {
        let mut torn = whole.clone();
        torn.remove(left_out);
        assert_eq!(formatter.format(&torn, None, 1_000).unwrap_err().kind, ErrorKind::Invalid);
    }
}

#[test]
fn other_speakers_are_named() {
    let formatter = Formatter::new("Ada", "");
    let say = |name: &str| Message::new(Role::Assistant, name, vec![ContentBlock::text("hi")]);
    let (sent, _) = formatter.format(&[say("Ada"), say("Bo"), Message::user("you?")], None, 1_000).unwrap();
    let told: Vec<_> = sent.iter().map(|m: &ChatMessage| (m.author, m.text.as_str())).collect();
    assert_eq!(told, [(Author::Assistant, "hi"), (Author::User, "Bo: hi"), (Author::User, "you?")]);
}

#[tokio::test]
async fn a_prompt_has_a_maximum_and_omissions_are_reported() {
    let model = script((0..6).map(|_| finish(&"word ".repeat(40))));
    let settings = Settings { prompt_tokens_max: Some(200), ..Settings::default() };
    let mut session = ada(&model).settings(settings).build().unwrap().session();
    for n in 0..6 {
        session.reply(format!("question {n}")).await.unwrap();
    }
    let last = model.requests().pop().unwrap().messages;
    assert_eq!((last[0].text.as_str(), last.last().unwrap().text.as_str()), ("S", "question 5"));
    assert!(last.len() < 8, "{}", last.len());
    assert_eq!(session.memory().len(), 24, "nothing is lost");
    assert!(session.warnings()[0].contains("older messages"), "{:?}", session.warnings());
}
