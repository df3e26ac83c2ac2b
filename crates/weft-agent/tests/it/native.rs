//! The driver for models that call tools natively.

use serde_json::json;
use std::time::Duration;
use weft_agent::driver::{End, Start};
use weft_agent::native::Native;
use weft_agent::structured::Schema;
use weft_agent::window::{Line, tokens};
use weft_core::context::Limited;
use weft_core::seam::chat_model::{Author, ChatMessage, StopReason, ToolChoice};
use weft_core::{Error, ErrorKind, Tool};
use weft_testkit::{Reply, ScriptedModel, Step};

use crate::kit::{AtOnce, World, after_turns, line, look, question};

#[tokio::test]
async fn an_answer_without_calls_ends_the_loop() {
    let world = World::new([look("x"), Reply::text("done")]);
    let answer = world.ask().await.unwrap();
    assert_eq!((answer.text.as_str(), answer.limited), ("done", None));
    assert_eq!(world.asked().len(), 2);
}

#[tokio::test]
async fn every_round_sends_the_tools_and_the_whole_transcript() {
    let world = World::new([look("x"), look("y").thinking("hm"), Reply::text("done")]);
    world.ask().await.unwrap();
    let asked = world.asked();
    for request in &asked {
        assert_eq!(request.tools[0].name, "look");
        assert_eq!(request.tool_choice, ToolChoice::Auto);
    }
    for pair in asked.windows(2) {
        let before = serde_json::to_string(&pair[0].messages).unwrap();
        let after = serde_json::to_string(&pair[1].messages).unwrap();
        assert!(after.starts_with(before.trim_end_matches(']')), "{before}\n{after}");
    }
    assert_eq!(
        line(&asked[2]),
        r#"System:S | User:Q | Assistant:ask(look{"q":"x"}) | =found x | Assistant:ask(look{"q":"y"}) | =found y"#
    );
    assert_eq!(asked[2].messages[4].thinking.as_deref(), Some("hm"), "reasoning goes back to the model");
}

#[tokio::test]
async fn without_tools_no_tools_are_sent() {
    let world = World::new([Reply::text("done")]);
    assert_eq!(world.toolkit.remove(|_| true), 1);
    world.ask().await.unwrap();
    assert!(world.asked()[0].tools.is_empty());
}

#[tokio::test]
async fn several_calls_of_one_message_are_answered_in_order() {
    let both = look("1").and_call("look", json!({"q": "2"})).and_call("look", json!({"q": "3"}));
    let world = World::new([both, Reply::text("done")]);
    let answer = world.ask().await.unwrap();
    let messages = world.asked().remove(1).messages;
    let ids: Vec<_> = messages[2].tool_calls.iter().map(|call| call.id.clone()).collect();
    let answered: Vec<_> =
        messages[3..].iter().map(|m| (m.tool_call_id.clone().unwrap(), m.text.clone())).collect();
    assert_eq!(answered, (1..4).map(|n| (ids[n - 1].clone(), format!("found {n}"))).collect::<Vec<_>>());
    let used: Vec<_> = answer.used.iter().map(|used| json!(used)).collect();
    assert_eq!(used[1], json!({"name": "look", "arguments": {"q": "2"}, "results": "found 2"}));
}

/// A file that a model writes may be longer than its own window.
#[tokio::test]
async fn an_oversized_call_is_executed_whole_and_shortened_in_the_transcript() {
    let text = "x".repeat(400 << 10);
    let written = text.clone();
    let model = ScriptedModel::from_fn(move |_, nth| match nth {
        0 => look(&written),
        _ => Reply::text("done"),
    });
    let world = World::with(model.with_info(|info| info.window = 32_768));
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.text, "done");
    assert_eq!(answer.used[0].arguments, json!({"q": text}));
    let call = world.asked().remove(1).messages[2].tool_calls[0].arguments.clone();
    let sent: serde_json::Value = serde_json::from_str(&call).unwrap();
    // About four letters are a token.
    assert!(sent["q"].as_str().unwrap().starts_with("xxx") && call.len() < 4 * 32_768, "{}", call.len());
}

#[tokio::test]
async fn after_the_last_round_an_answer_without_tools_is_requested() {
    let world = World::with(ScriptedModel::from_fn(|request, nth| match request.tool_choice {
        ToolChoice::None => Reply::text("what I know"),
        _ => look(&format!("try {nth}")),
    }));
    let answer = world.ask().await.unwrap();
    assert_eq!((answer.text.as_str(), answer.limited), ("what I know", Some(Limited::MaxRounds)));
    assert_eq!((world.called().len(), world.asked().len()), (6, 7));
    let with_tools = world.asked().iter().filter(|request| request.tool_choice == ToolChoice::Auto).count();
    assert_eq!(with_tools, 6, "one more than `rounds_max`");
    assert!(world.signals().contains(&"limited max_rounds".to_owned()));
}

/// Canvases from other editors set 1 and rely on a second attempt: an answer in it was not cut short.
#[tokio::test]
async fn an_answer_after_the_last_round_is_complete() {
    for (rounds_max, rounds) in [(0, 0), (1, 0), (1, 1), (2, 2)] {
        let replies = (0..rounds).map(|nth| look(&nth.to_string())).chain([Reply::text("done")]);
        let mut world = World::new(replies.collect::<Vec<_>>());
        world.options.rounds_max = rounds_max;
        let answer = world.ask().await.unwrap();
        assert_eq!((answer.text.as_str(), answer.limited), ("done", None), "{rounds} of {rounds_max}");
        assert!(world.asked().iter().all(|request| request.tool_choice == ToolChoice::Auto));
        assert!(world.signals().iter().all(|signal| !signal.starts_with("limited")));
    }
}

#[tokio::test]
async fn the_closing_request_states_the_limit_and_the_answer_does_not() {
    let mut world = World::with(ScriptedModel::from_fn(|request, _| match request.tool_choice {
        ToolChoice::None => Reply::text("so"),
        _ => look("x").then(Step::Text("I look.".to_owned())),
    }));
    world.options.rounds_max = 0;
    let answer = world.ask().await.unwrap();
    let asked = world.asked();
    let last = asked[1].messages.last().unwrap();
    assert!(last.author == Author::User && last.text.contains("limit"), "{}", last.text);
    assert_eq!(answer.text, "I look.\n\nso");
}

#[tokio::test]
async fn text_beside_a_call_is_shown_and_the_call_executed() {
    let reply = || {
        vec![
            Reply::pieces(["I ", "look."]).and_call("look", json!({"q": "x"})),
            Reply::pieces(["It ", "is."]),
        ]
    };
    let world = World::new(reply());
    assert_eq!(world.heard().await, ["I ", "look.", "\n\n", "It ", "is."]);
    assert_eq!(world.called(), [r#"look({"q":"x"})"#]);
    assert_eq!(world.asked()[1].messages[2].text, "I look.", "the model sees what it said");
    assert_eq!(World::new(reply()).ask().await.unwrap().text, "I look.\n\nIt is.");
}

#[tokio::test]
async fn usage_is_reported_for_every_request() {
    let world = World::new([look("x").usage(10, 2), Reply::text("done").usage(20, 3)]);
    world.ask().await.unwrap();
    assert_eq!(world.signals().iter().filter(|signal| *signal == "used").count(), 2);
    assert_eq!(world.ctx.budget.spent().tokens, 35);
}

#[tokio::test]
async fn interleaved_call_deltas_are_assembled() {
    let calls = [("look", json!({"q": "汉字 \u{1F600}"})), ("look", json!({"q": "b"}))];
    let world = World::new([Reply::default().and_calls_in_turns(calls, 3), Reply::text("done")]);
    world.ask().await.unwrap();
    assert_eq!(world.called(), [r#"look({"q":"汉字 😀"})"#, r#"look({"q":"b"})"#]);
}

#[tokio::test]
async fn damaged_arguments_are_repaired_or_returned_to_the_model() {
    for broken in ["{'q': 'x'}", "{\"q\": \"x\",}", "{\"q\": \"x\"", "```json\n{\"q\": \"x\"}\n```"] {
        let world = World::new([Reply::default().and_call_text("look", broken), Reply::text("done")]);
        world.ask().await.unwrap();
        assert_eq!(world.called(), [r#"look({"q":"x"})"#], "{broken}");
        assert!(world.trace()[0].repaired, "{broken}");
    }
    let replies = [Reply::default().and_call_text("look", "certainly!"), look("x"), Reply::text("done")];
    let world = World::new(replies);
    world.ask().await.unwrap();
    let told = world.asked().remove(1).messages.remove(3);
    assert!(told.author == Author::Tool && told.text.contains("MODEL_ERROR"), "{}", told.text);
    assert_eq!(world.called(), [r#"look({"q":"x"})"#]);
    assert!(!world.trace()[1].repaired && world.trace()[0].failed);
}

#[tokio::test]
async fn a_call_truncated_by_the_token_limit_is_not_executed() {
    let cut = Reply::default().and_call_text("look", "{\"q\": \"delete all bu").stop(StopReason::Length);
    let world = World::new([cut, look("x"), Reply::text("done")]);
    world.ask().await.unwrap();
    assert_eq!(world.called(), [r#"look({"q":"x"})"#]);
    assert!(world.asked()[1].messages[3].text.contains("cut off"));
}

#[tokio::test]
async fn arguments_that_violate_the_schema_are_refused_with_their_path() {
    let world = World::new([Reply::call("look", json!({"n": "many"})), Reply::text("done")]);
    world.ask().await.unwrap();
    assert!(world.called().is_empty());
    assert!(world.asked()[1].messages[3].text.contains("/n"), "{}", world.asked()[1].messages[3].text);
    let lossless = World::new([Reply::call("look", json!({"n": "3"})), Reply::text("done")]);
    lossless.ask().await.unwrap();
    assert_eq!(lossless.called(), [r#"look({"n":3})"#]);
}

#[tokio::test]
async fn a_tool_failure_is_reported_to_the_model_which_retries() {
    let world = World::new([Reply::call("frail", json!({"q": "a"})), look("b"), Reply::text("done")]);
    world.tool(
        "frail",
        |_| {},
        |_| async { Err(Error::new(ErrorKind::Unavailable, "out of order").help("try later")) },
    );
    assert_eq!(world.ask().await.unwrap().text, "done");
    let told: serde_json::Value = serde_json::from_str(&world.asked()[1].messages[3].text).unwrap();
    assert_eq!(
        told,
        json!({"error": {"kind": "SERVER_ERROR", "message": "out of order (try later)", "retryable": true}})
    );
    assert!(world.trace()[0].failed && !world.trace()[1].failed);
}

#[tokio::test]
async fn an_unknown_tool_is_reported_with_the_available_tools() {
    let world = World::new([Reply::call("nosuch", json!({})), Reply::text("done")]);
    world.ask().await.unwrap();
    let told = &world.text(1, 3);
    assert!(told.contains("nosuch") && told.contains("look"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn calls_run_in_parallel_up_to_the_limit_and_keep_their_order() {
    let calls = |count: usize| {
        (1..count).fold(Reply::call("slow", json!({"q": "0"})), |reply, n| {
            reply.and_call("slow", json!({"q": n.to_string()}))
        })
    };
    let check = async |parallel: usize, expected: usize, seconds: u64| {
        let mut world = World::new([calls(8), Reply::text("done")]);
        world.options.parallel = parallel;
        let at_once = AtOnce::default();
        let counted = at_once.clone();
        world.tool(
            "slow",
            |_| {},
            move |arguments| {
                let counted = counted.clone();
                async move {
                    counted.work(Duration::from_secs(1)).await;
                    Ok(arguments["q"].clone())
                }
            },
        );
        let began = tokio::time::Instant::now();
        world.ask().await.unwrap();
        assert_eq!(at_once.most(), expected);
        assert_eq!(began.elapsed().as_secs(), seconds);
        let gave: Vec<_> = world.asked()[1].messages[3..].iter().map(|m| m.text.clone()).collect();
        assert_eq!(gave, (0..8).map(|n| n.to_string()).collect::<Vec<_>>());
    };
    check(5, 5, 2).await;
    check(1, 1, 8).await;
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_tool_runs_alone() {
    let world = World::new([
        Reply::call("slow", json!({})).and_call("alone", json!({})).and_call("slow", json!({})),
        Reply::text("done"),
    ]);
    let at_once = AtOnce::default();
    for name in ["slow", "alone"] {
        let counted = at_once.clone();
        world.tool(
            name,
            |tool| tool.traits.alone = name == "alone",
            move |_| {
                let counted = counted.clone();
                async move {
                    counted.work(Duration::from_secs(1)).await;
                    Ok(json!("ok"))
                }
            },
        );
    }
    world.ask().await.unwrap();
    assert_eq!(at_once.most(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_or_failed_call_does_not_affect_other_results() {
    let world = World::new([
        Reply::call("slow", json!({})).and_call("broken", json!({})).and_call("look", json!({"q": "x"})),
        Reply::text("done"),
    ]);
    world.tool(
        "slow",
        |tool| tool.traits.time_limit = Duration::from_secs(3),
        |_| async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            Ok(json!("late"))
        },
    );
    world.tool("broken", |_| {}, |_| async { panic!("a defect") });
    world.ask().await.unwrap();
    let gave: Vec<_> = world.asked()[1].messages[3..].iter().map(|m| m.text.clone()).collect();
    assert!(gave[0].contains("TIMEOUT") && gave[1].contains("INTERNAL_ERROR"), "{gave:?}");
    assert_eq!(gave[2], "found x");
    assert_eq!(world.trace().len(), 3);
}

#[tokio::test]
async fn calls_are_shown_in_the_text_on_request() {
    let replies = || [look("x"), Reply::text("done")];
    let mut world = World::new(replies());
    world.options.verbose = true;
    let text = world.ask().await.unwrap().text;
    let block = text.strip_prefix("<tool_call>").unwrap().split_once("</tool_call>").unwrap().0;
    let block: serde_json::Value = serde_json::from_str(block).unwrap();
    assert_eq!(block, json!({"name": "look", "args": {"q": "x"}, "result": "found x"}));
    assert!(text.ends_with("done"));
    let quiet = World::new(replies());
    assert_eq!(quiet.ask().await.unwrap().text, "done");
    assert!(quiet.signals().contains(&"end A-->look".to_owned()));
}

#[tokio::test]
async fn an_empty_answer_is_retried_once() {
    let world = World::new([Reply::empty(), Reply::text("done")]);
    assert_eq!(world.ask().await.unwrap().text, "done");
    let world = World::new([Reply::empty(), Reply::empty(), Reply::text("never")]);
    assert_eq!(world.ask().await.unwrap_err().kind, ErrorKind::Garbled);
    assert_eq!(world.asked().len(), 2);
}

#[tokio::test]
async fn truncated_or_filtered_answers_say_so() {
    let world = World::new([Reply::text("half").stop(StopReason::Length)]);
    assert_eq!(world.ask().await.unwrap().text, "half");
    assert!(world.signals().iter().any(|signal| signal.contains("incomplete")));
    let world = World::new([Reply::text("bad").stop(StopReason::Filtered)]);
    assert_eq!(world.ask().await.unwrap_err().kind, ErrorKind::Filtered);
}

#[tokio::test]
async fn repeated_identical_calls_are_stopped_with_an_answer() {
    let world = World::with(ScriptedModel::from_fn(|request, _| match request.tool_choice {
        ToolChoice::None => Reply::text("as far as I know"),
        _ => look("x"),
    }));
    let answer = world.ask().await.unwrap();
    assert_eq!((answer.text.as_str(), answer.limited), ("as far as I know", Some(Limited::LoopDetected)));
    assert_eq!(world.called().len(), 2);
    // Another page of the same list is another call.
    let world = World::with(ScriptedModel::from_fn(|request, nth| match request.tool_choice {
        ToolChoice::None => Reply::text("so"),
        _ => look(&format!("page {nth}")),
    }));
    assert_eq!(world.ask().await.unwrap().limited, Some(Limited::MaxRounds));
    // A tool marked as repeatable may be called again.
    let world = World::with(ScriptedModel::from_fn(|request, _| match request.tool_choice {
        ToolChoice::None => Reply::text("so"),
        _ => Reply::call("status", json!({})),
    }));
    world.echo("status", |tool| tool.traits.poll = true);
    assert_eq!(world.ask().await.unwrap().limited, Some(Limited::MaxRounds));
}

#[tokio::test]
async fn a_value_is_checked_and_repaired_without_tools() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let setting = |replies: Vec<Reply>| {
        let mut world = World::new(replies);
        world.options.schema = Some(Schema::new(schema.clone()).unwrap().into());
        world.options.retries = Some(1);
        world
    };
    let world = setting(vec![look("x"), Reply::text("{\"n\": \"a\"}"), Reply::text("{\"n\": 4}")]);
    assert_eq!(world.ask().await.unwrap().structured, Some(json!({"n": 4})));
    let asked = world.asked();
    assert!(asked[2].messages.last().unwrap().text.contains("/n"));
    assert_eq!((&asked[1].tool_choice, &asked[2].tool_choice), (&ToolChoice::Auto, &ToolChoice::None));
    assert_eq!((asked[1].schema.as_ref(), asked[2].schema.as_ref()), (None, Some(&schema)));
    assert!(asked.iter().all(|request| request.messages[0].text.contains("Form of the answer")));
    let world = setting(vec![Reply::text("no").times(0)]);
    assert_eq!(world.ask().await.unwrap_err().kind, ErrorKind::Garbled);
    assert_eq!(world.asked().len(), 3);
}

#[tokio::test]
async fn citation_marks_are_normalized_and_rules_sent_from_the_first_request() {
    let mut world = World::new([look("x"), Reply::text("It is so (ID: 0) and so [ID:9].")]);
    world.options.citing = Some("RULES".to_owned());
    world.sources(&["a source"]);
    assert_eq!(world.ask().await.unwrap().text, "It is so [ID:0] and so.");
    for request in world.asked() {
        assert_eq!(request.messages[0].text, "S\n\nRULES");
    }
    // After a search without hits no mark has a source.
    let mut world =
        World::new([Reply::call("search", json!({})), Reply::text("So [ID:0], as ref3 and [ID:1] say.")]);
    world.echo("search", |tool| tool.traits.sources = true);
    world.options.citing = Some("RULES".to_owned());
    assert_eq!(world.ask().await.unwrap().text, "So, as ref3 and say.");
    // Neither without rules (a sub-agent, a value) nor without anything to cite.
    let world = World::new([Reply::text("so [ID:0]")]);
    world.sources(&["a source"]);
    world.ask().await.unwrap();
    assert_eq!(world.asked()[0].messages[0].text, "S");
    let mut world = World::new([Reply::text("so")]);
    world.options.citing = Some("RULES".to_owned());
    world.ask().await.unwrap();
    assert_eq!(world.asked()[0].messages[0].text, "S");
}

#[tokio::test]
async fn requests_fit_the_window_and_keep_instructions_and_question() {
    let long = "word ".repeat(2_000);
    let mut world = World::with(ScriptedModel::from_fn(|request, nth| match request.tool_choice {
        ToolChoice::None => Reply::text("done"),
        _ => Reply::call("long", json!({"q": format!("{nth}")})),
    }));
    world.tool(
        "long",
        |_| {},
        move |_| {
            let long = long.clone();
            async move { Ok(json!(long)) }
        },
    );
    world.model_info(1_000, None);
    world.drive(&Native, after_turns(10)).await.unwrap();
    assert!(world.asked().len() > 2);
    for request in world.asked() {
        let counted: usize = request
            .messages
            .iter()
            .map(|m| tokens(&m.text) + m.tool_calls.iter().map(|call| tokens(&call.arguments)).sum::<usize>())
            .sum();
        assert!(counted <= 970, "{counted}");
        assert_eq!(request.messages[0].text, "S");
        assert!(request.messages.iter().any(|message| message.text == "Q"));
        let calls: Vec<_> =
            request.messages.iter().flat_map(|m| &m.tool_calls).map(|call| &call.id).collect();
        let results: Vec<_> = request.messages.iter().filter_map(|m| m.tool_call_id.as_ref()).collect();
        assert_eq!(calls, results);
    }
}

#[tokio::test]
async fn an_inconsistent_history_is_repaired_before_it_is_sent() {
    let world = World::new([Reply::text("done")]);
    let orphan = Line::history(ChatMessage::tool("gone", "result of nothing"));
    let start = Start::Conversation(vec![orphan, Line::pinned(ChatMessage::new(Author::User, "Q"))]);
    assert!(matches!(world.drive(&Native, start).await, Ok(End::Answered(_))));
    assert_eq!(line(&world.asked()[0]), "User:Q");
}

#[tokio::test]
async fn a_model_failure_before_output_fails_the_agent_and_no_tool_runs_twice() {
    let world = World::new([look("x"), Reply::error(ErrorKind::Unavailable, "down")]);
    assert_eq!(world.ask().await.unwrap_err().kind, ErrorKind::Unavailable);
    assert_eq!(world.called().len(), 1);
}

#[tokio::test]
async fn cancelling_stops_running_calls() {
    let world = World::new([Reply::call("endless", json!({})), Reply::text("never")]);
    let cancel = world.ctx.cancel.clone();
    world.tool(
        "endless",
        |_| {},
        move |_| {
            cancel.cancel();
            async {
                std::future::pending::<()>().await;
                Ok(json!("never"))
            }
        },
    );
    let error = world.drive(&Native, question("Q")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert_eq!(world.asked().len(), 1);
}

/// The tool blocks its thread until another run has ended, so this test ends only if that run could continue
/// beside it on the single thread.
#[tokio::test]
async fn a_blocking_tool_delays_no_other_run() {
    let (other_is_done, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let blocked = World::new([Reply::call("block", json!({})), Reply::text("done")]);
    let tool = Tool::blocking("block", "Blocks.", json!({"type": "object"}), move |_| {
        let freed = wait.lock().unwrap().recv_timeout(Duration::from_secs(60));
        freed.map(|()| json!("freed")).map_err(|_| Error::internal("nobody else could go on"))
    });
    blocked.toolkit.register(tool).unwrap();
    let other = World::new([look("x"), Reply::pieces(["o", "k"])]);
    let (text, other_text) = tokio::join!(blocked.ask(), async {
        let text = other.ask().await.unwrap().text;
        other_is_done.send(()).unwrap();
        text
    });
    assert_eq!((text.unwrap().text.as_str(), other_text.as_str()), ("done", "ok"));
    assert_eq!(blocked.text(1, 3), "freed");
}
