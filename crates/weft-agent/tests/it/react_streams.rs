//! What an agent prints, the queue in which it can be read, and interruptions.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use weft_agent::function::streaming_tool;
use weft_agent::message::{ContentBlock, Message};
use weft_agent::react::{
    Interrupt, MESSAGES_QUEUED_MAX, Output, PrintedMessage, Session, Settings, ToolCalls, message_queue,
};
use weft_agent::toolkit::Toolkit;
use weft_core::{ErrorKind, Result, Tool};
use weft_models::{Reply, ScriptedModel, Step};

use crate::react_kit::{
    ada, call, finish, is_tidy, look, printed, remembered, script, session, shown, slow, told,
};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A tool that returns `one two three ` in three chunks, one every 100 ms.
fn counting() -> Tool {
    let words = |_: Nothing| {
        stream::iter(["one ", "two ", "three "]).then(|word| async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(word)
        })
    };
    streaming_tool("count", "Counts.", words).unwrap()
}

fn streamed() -> Settings {
    Settings { output: Output::Streamed, ..Settings::default() }
}

fn with_counting(model: &ScriptedModel, settings: Settings) -> Session {
    let tools = Toolkit::new();
    for tool in [counting(), look(), slow("slow", 10_000)] {
        tools.register(tool).unwrap();
    }
    ada(model).toolkit(tools).settings(settings).build().unwrap().session()
}

#[tokio::test(start_paused = true)]
async fn a_message_is_printed_once_or_at_every_chunk() {
    let replies = || [Reply::call("count", json!({})), Reply::pieces(["All ", "is ", "counted."])];
    let mut whole = with_counting(&script(replies()), Settings::default());
    let (_, items) = printed(&mut whole, "Q").await;
    let tool = ["system:=one ", "system:=one two ", "system:=one two three ", "system:=one two three !"];
    let expected = [&["assistant:ask count{}!"], &tool[..], &["assistant:All is counted.!"]].concat();
    assert_eq!(shown(&items), expected);
    let mut pieces = with_counting(&script(replies()), streamed());
    let (_, items) = printed(&mut pieces, "Q").await;
    let text =
        ["assistant:All ", "assistant:All is ", "assistant:All is counted.", "assistant:All is counted.!"];
    let expected = [&["assistant:ask count{}", "assistant:ask count{}!"], &tool[..], &text[..]].concat();
    assert_eq!(shown(&items), expected);
    assert_eq!(items.iter().filter(|item| item.last).count(), 3, "several messages of one reply end");
    let ids: Vec<_> = items.iter().map(|item| item.message.id.clone()).collect();
    assert!(ids[0] == ids[1] && ids[2] == ids[5] && ids[6] == ids[9], "chunks of a message share its id");
    assert!(ids[1] != ids[2] && ids[5] != ids[6]);
}

#[tokio::test(start_paused = true)]
async fn every_chunk_contains_the_one_before_it() {
    let answer = "Rome has \"seven\" hills,\nand a river: the Tiber.";
    let finishing = [("generate_response", json!({"response": answer}))];
    let model = script([
        Reply::call("count", json!({})).thinking("first "),
        Reply::default().and_calls_in_turns(finishing, 3),
    ]);
    let mut session = with_counting(&model, streamed());
    let (reply, items) = printed(&mut session, "Q").await;
    assert_eq!(reply.unwrap().text(), answer);
    assert!(items.len() > 20, "{}", items.len());
    let text = |item: &PrintedMessage| match item.message.content.last() {
        Some(ContentBlock::ToolResult(_)) => told(&item.message),
        _ => item.message.text(),
    };
    for pair in items.windows(2).filter(|pair| pair[0].message.id == pair[1].message.id) {
        assert!(text(&pair[1]).starts_with(&text(&pair[0])), "{:?}", shown(pair));
        assert!(!pair[0].last);
    }
    let finals: Vec<_> = items.iter().filter(|item| item.last).map(text).collect();
    assert_eq!(finals, ["", "system:=one two three ", answer]);
}

#[tokio::test]
async fn arguments_are_an_object_at_every_step() {
    let model = script([
        Reply::default().and_calls_in_turns([("look", json!({"q": "cats", "n": [1, 2]}))], 4),
        finish("done"),
    ]);
    let mut session = with_counting(&model, streamed());
    let (_, items) = printed(&mut session, "Q").await;
    let inputs: Vec<_> = items.iter().flat_map(|item| item.message.tool_uses().cloned()).collect();
    assert!(inputs.len() > 5);
    assert!(inputs.iter().any(|call| call.input.get("q").is_some_and(|q| q != "cats")), "{inputs:?}");
    let last = inputs.last().unwrap();
    assert_eq!((last.input["q"].clone(), last.raw_input.clone()), (json!("cats"), None));
}

#[tokio::test]
async fn messages_are_read_as_copies() {
    let mut session = session(&script([call("x"), finish("done")]));
    let (queue, messages) = message_queue();
    session.print_to(Some(queue));
    let mut stream = messages.during(session.reply("Q"));
    let mut count = 0;
    while let Some(item) = stream.next().await {
        let mut item = item.unwrap();
        item.message.content.clear();
        item.message.metadata.insert("mine".to_owned(), json!(1));
        count += 1;
    }
    drop(stream);
    assert_eq!(count, 3);
    assert_eq!(remembered(session.memory())[2], "system:=found x");
    assert!(session.memory().messages().iter().all(|message| message.metadata.get("mine").is_none()));
}

#[tokio::test]
async fn several_agents_share_a_queue_that_ends() {
    let (mut one, mut two) =
        (session(&script([finish("one")])), session(&script([call("x"), finish("two")])));
    let (queue, messages) = message_queue();
    one.print_to(Some(queue.clone()));
    two.print_to(Some(queue));
    let items: Vec<_> = messages
        .during(async {
            let said = one.reply("Q").await?;
            two.reply(said.text()).await
        })
        .map(Result::unwrap)
        .collect()
        .await;
    assert_eq!(
        shown(&items),
        ["assistant:one!", "assistant:ask look{\"q\":\"x\"}!", "system:=found x!", "assistant:two!"]
    );
    // Without work to follow, the queue ends when no session holds it any more.
    let (queue, mut messages) = message_queue();
    let mut three = session(&script([finish("three")]));
    three.print_to(Some(queue));
    three.reply("Q").await.unwrap();
    three.print_to(None);
    assert_eq!(messages.next().await.map(|item| item.message.text()), Some("three".to_owned()));
    assert_eq!(messages.next().await, None);
}

#[tokio::test]
async fn a_failure_is_the_last_item_and_a_dropped_reader_stops_nothing() {
    let mut failing = session(&script([call("x"), Reply::error(ErrorKind::Invalid, "no")]));
    let (queue, messages) = message_queue();
    failing.print_to(Some(queue));
    let items: Vec<_> = messages.during(failing.reply("Q")).collect().await;
    assert_eq!(items.len(), 3);
    assert_eq!(items[2].as_ref().unwrap_err().kind, ErrorKind::Invalid);
    let mut alone = session(&script([call("x"), finish("done")]));
    let (queue, messages) = message_queue();
    alone.print_to(Some(queue));
    drop(messages);
    assert_eq!(alone.reply("Q").await.unwrap().text(), "done");
}

#[tokio::test]
async fn a_slow_reader_loses_nothing_and_applies_backpressure() {
    let pieces = vec!["x"; 3 * MESSAGES_QUEUED_MAX];
    let model = script([Reply::pieces(pieces)]);
    let mut session = with_counting(&model, streamed());
    let (queue, mut messages) = message_queue();
    session.print_to(Some(queue));
    let mut reply = Box::pin(session.reply("Q"));
    // Nobody reads, so the work cannot finish.
    assert!(futures::poll!(&mut reply).is_pending());
    assert!(futures::poll!(&mut reply).is_pending());
    let (reply, last) = tokio::join!(reply, async {
        let mut last = None;
        for _ in 0..=3 * MESSAGES_QUEUED_MAX {
            last = messages.next().await;
        }
        last
    });
    assert_eq!(reply.unwrap().text().len(), 3 * MESSAGES_QUEUED_MAX);
    assert!(last.unwrap().last);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_stops_the_work_and_the_conversation_can_continue() {
    let model = script([Reply::call("slow", json!({})), finish("well")]);
    let mut session = with_counting(&model, Settings::default());
    let (queue, messages) = message_queue();
    session.print_to(Some(queue));
    let mut stream = messages.during(session.reply("Q"));
    stream.next().await.unwrap().unwrap();
    drop(stream);
    session.print_to(None);
    assert_eq!(session.memory().open_tool_uses().len(), 1);
    assert_eq!(session.reply("and now?").await.unwrap().text(), "well");
    assert!(is_tidy(session.memory()));
}

/// Replies, and interrupts after this many milliseconds.
async fn interrupted_after(ms: u64, session: &mut Session) -> (Message, Vec<PrintedMessage>) {
    let interrupt: Interrupt = session.interrupt();
    let (_, (reply, items)) = tokio::join!(
        async {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            interrupt.interrupt();
        },
        printed(session, "Q"),
    );
    (reply.unwrap(), items)
}

fn check_interrupted(reply: &Message, session: &Session) {
    assert_eq!(reply.metadata["is_interrupted"], json!(true));
    assert!(!reply.text().is_empty());
    assert_eq!(session.memory().messages().last(), Some(reply));
    assert!(is_tidy(session.memory()), "{:?}", remembered(session.memory()));
}

#[tokio::test(start_paused = true)]
async fn an_interruption_while_the_model_writes_leaves_no_call_without_a_result() {
    let model = script([
        Reply::text("I look")
            .and_call("look", json!({"q": "x"}))
            .and_call("look", json!({"q": "y"}))
            .delay_ms(100),
        finish("well"),
    ]);
    let mut session = with_counting(&model, streamed());
    let begun = tokio::time::Instant::now();
    let (reply, items) = interrupted_after(250, &mut session).await;
    assert_eq!(begun.elapsed(), Duration::from_millis(250));
    check_interrupted(&reply, &session);
    let kept = remembered(session.memory());
    assert_eq!(kept[1], "assistant:I look+ask look{\"q\":\"x\"}");
    assert!(kept.len() == 4 && kept[2].contains("interrupted"), "{kept:?}");
    let ends: Vec<_> = shown(&items).into_iter().filter(|line| line.ends_with('!')).collect();
    assert_eq!(ends.len(), 3, "the partial text, the result and the reply are printed: {ends:?}");
    assert_eq!(session.reply("go on").await.unwrap().text(), "well");
    assert!(is_tidy(session.memory()));
}

#[tokio::test(start_paused = true)]
async fn an_interruption_of_tools_keeps_finished_results_and_closes_the_rest() {
    for tool_calls in [ToolCalls::Sequential, ToolCalls::Parallel] {
        let calls = Reply::call("look", json!({"q": "x"}))
            .and_call("count", json!({}))
            .and_call("slow", json!({}))
            .and_call("look", json!({"q": "y"}));
        let model = script([calls, finish("well")]);
        let mut session = with_counting(&model, Settings { tool_calls, ..Settings::default() });
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        session.hooks().post_acting.add("note", move |_, response| {
            let told = (response.call.name.clone(), response.is_interrupted, response.is_last);
            noted.lock().unwrap().push(told);
            async { Ok(None) }
        });
        let (reply, items) = interrupted_after(250, &mut session).await;
        check_interrupted(&reply, &session);
        let kept = remembered(session.memory());
        assert_eq!(kept[2], "system:=found x");
        assert!(kept[3].starts_with("system:=one two \n") && kept[3].contains("interrupted"), "{kept:?}");
        assert!(kept[4].contains("interrupted") && kept.len() == 7, "{kept:?}");
        assert_eq!(kept[5].contains("interrupted"), tool_calls == ToolCalls::Sequential);
        let flags: Vec<_> = seen.lock().unwrap().iter().filter(|seen| seen.1).cloned().collect();
        assert!(flags.contains(&("count".to_owned(), true, true)), "{flags:?}");
        assert_eq!(flags.len(), if tool_calls == ToolCalls::Sequential { 3 } else { 2 });
        let ends = items.iter().filter(|item| item.last).count();
        assert_eq!(ends, 1 + 4 + 1, "{:?}", shown(&items));
        assert_eq!(session.reply("go on").await.unwrap().text(), "well");
        assert_eq!(model.requests().len(), 2);
        assert!(is_tidy(session.memory()));
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_interrupted_messages_stay_distinct() {
    // The scripted model numbers the calls of every message from one.
    let slowly = || Reply::default().and_call("look", json!({"q": "x"})).then(Step::Wait(1_000));
    let mut session = with_counting(&script([slowly(), slowly(), finish("well")]), Settings::default());
    for _ in 0..2 {
        let (reply, _) = interrupted_after(50, &mut session).await;
        check_interrupted(&reply, &session);
    }
    assert_eq!(session.memory().count_tool_uses(Some("look")), 2);
    assert_eq!(session.reply("Q").await.unwrap().text(), "well");
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_reply_returns_no_value() {
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Anything {
        is_interrupted: Option<bool>,
    }
    let mut session = with_counting(&script([Reply::call("slow", json!({}))]), Settings::default());
    let interrupt = session.interrupt();
    let (_, reply) = tokio::join!(
        async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            interrupt.interrupt();
        },
        session.reply_as::<Anything>("Q"),
    );
    let (reply, value) = reply.unwrap();
    assert_eq!((reply.metadata["is_interrupted"].clone(), value), (json!(true), None));
}

#[tokio::test]
async fn an_interruption_between_replies_does_not_count() {
    let mut session = session(&script([finish("well")]));
    session.interrupt().interrupt();
    assert_eq!(session.reply("Q").await.unwrap().text(), "well");
}

#[test]
fn a_reply_can_be_driven_from_any_thread() {
    fn is_send(_: &impl Send) {}
    let mut session = session(&script([]));
    is_send(&session);
    is_send(&session.reply("Q"));
}
