//! The driver for models that don't call tools natively.

use serde_json::{Value as Json, json};
use std::time::Duration;
use weft_agent::driver::{End, Overrides};
use weft_agent::planner::Planner;
use weft_agent::structured::Schema;
use weft_agent::window::tokens;
use weft_core::context::Limited;
use weft_core::seam::chat_model::Author;
use weft_core::{Error, ErrorKind};
use weft_testkit::{Reply, Script, ScriptedModel};

use crate::kit::{AtOnce, World, after_turns, line};

const STEP: &str = r#"[{"name": "look", "arguments": {"q": "x"}}]"#;
const CLOSE: &str = r#"[{"name": "complete_task", "arguments": {"answer": "a draft"}}]"#;

fn stages(world: &World) -> Vec<String> {
    world.trace().iter().map(|call| call.started.tool.to_string()).collect()
}

#[tokio::test]
async fn a_task_is_analysed_planned_and_answered() {
    let world = World::new([Reply::text(STEP), Reply::text(CLOSE), Reply::text("the answer")]);
    let answer = world.ask_with(&Planner).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.limited), ("the answer", None));
    let asked = world.asked();
    assert!(asked.iter().all(|request| request.tools.is_empty()), "no tools are bound");
    let first = &asked[0].messages[0].text;
    assert!(first.contains('Q') && first.contains("## look") && first.contains("What look does."), "{first}");
    assert_eq!(stages(&world), ["analyze_task", "look", "reflection"]);
    assert_eq!(json!(answer.used), json!([{"name": "look", "arguments": {"q": "x"}, "results": "found x"}]));
}

#[tokio::test(start_paused = true)]
async fn the_model_analyses_and_reflects_when_enabled() {
    let replies = [
        Reply::text("first look, then answer").when_system("You prepare a task").times(1),
        Reply::text("that was useful").when_system("You look back").times(1).delay_ms(2_000),
        Reply::text(STEP),
        Reply::text(CLOSE),
        Reply::text("the answer"),
    ];
    let mut world = World::new(replies);
    world.options.planner.analyse = true;
    world.options.planner.reflect = true;
    world.ask_with(&Planner).await.unwrap();
    let asked = world.asked();
    assert!(asked[0].messages[0].text.contains("## look") && asked[0].messages[1].text.contains('Q'));
    assert!(asked[1].messages[0].text.contains("first look, then answer"));
    let seen = &asked[3].messages.last().unwrap().text;
    assert!(seen.contains("found x") && seen.contains("that was useful"), "{seen}");
    let reflection = world.trace().into_iter().find(|call| &*call.started.tool == "reflection").unwrap();
    assert_eq!(*reflection.result, json!("that was useful"));
    assert!((2.0..3.0).contains(&reflection.elapsed), "{reflection:?}");
}

/// Without reflection, the next request and the trace have the tool results.
#[tokio::test]
async fn observations_reach_the_next_request_without_a_reflection() {
    let world = World::new([Reply::text(STEP), Reply::text(CLOSE), Reply::text("the answer")]);
    world.ask_with(&Planner).await.unwrap();
    assert_eq!(world.asked().len(), 3, "no reflection is requested");
    let seen = &world.last(1);
    assert!(seen.contains("found x") && !seen.contains("# Reflection"), "{seen}");
    let reflection = world.trace().into_iter().find(|call| &*call.started.tool == "reflection").unwrap();
    assert!(reflection.result.as_str().unwrap().contains("found x"), "{reflection:?}");
}

#[tokio::test]
async fn a_step_is_parsed_despite_surrounding_text() {
    let two = r#"[{"name": "look", "arguments": {"q": "1"}}, {"name": "look", "arguments": {"q": "2"}}]"#;
    for reply in [
        format!("```json\n{two}\n```"),
        format!("<think>[{{\"name\": \"never\"}}]</think>\n```\n{two}\n```"),
        two.replace('"', "'"),
        format!("{two}<|stop|>"),
        format!("{two}\n<|stop|>\nI wait."),
    ] {
        let world = World::new([Reply::text(&*reply), Reply::text(CLOSE), Reply::text("so")]);
        world.ask_with(&Planner).await.unwrap();
        assert_eq!(world.called(), [r#"look({"q":"1"})"#, r#"look({"q":"2"})"#], "{reply}");
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_five_tools_work_at_once_and_results_keep_their_order() {
    let steps: Vec<_> = (0..8).map(|n| json!({"name": "slow", "arguments": {"q": n.to_string()}})).collect();
    let world = World::new([Reply::text(json!(steps).to_string()), Reply::text(CLOSE), Reply::text("so")]);
    let at_once = AtOnce::default();
    let counted = at_once.clone();
    world.tool(
        "slow",
        |_| {},
        move |arguments| {
            let counted = counted.clone();
            async move {
                counted.work(Duration::from_millis(200)).await;
                Ok(json!(format!("gave {}", arguments["q"].as_str().unwrap())))
            }
        },
    );
    world.ask_with(&Planner).await.unwrap();
    assert_eq!(at_once.most(), 5);
    let seen = &world.last(1);
    let places: Vec<_> = (0..8).map(|n| seen.find(&format!("gave {n}")).unwrap()).collect();
    assert!(places.is_sorted());
}

#[tokio::test]
async fn a_failed_call_does_not_affect_other_results() {
    let both = r#"[{"name": "frail", "arguments": {}}, {"name": "look", "arguments": {"q": "x"}}]"#;
    let world = World::new([Reply::text(both), Reply::text(CLOSE), Reply::text("so")]);
    world.tool("frail", |_| {}, |_| async { Err(Error::new(ErrorKind::Unavailable, "out of order")) });
    world.ask_with(&Planner).await.unwrap();
    let seen = &world.last(1);
    assert!(seen.contains("out of order") && seen.contains("found x"), "{seen}");
}

#[tokio::test]
async fn the_closing_call_ends_after_the_others_and_gives_a_draft() {
    let mixed = r#"[{"name": "complete_task", "arguments": {"answer": "it is 4"}}, {"name": "look", "arguments": {"q": "x"}}]"#;
    let world = World::new([Reply::text(mixed), Reply::text("It is four.")]);
    let answer = world.ask_with(&Planner).await.unwrap();
    assert_eq!(world.called(), [r#"look({"q":"x"})"#]);
    assert_eq!(answer.text, "It is four.");
    let last = &world.last(1);
    assert!(
        last.contains("found x") && last.contains("it is 4") && !last.contains("complete_task"),
        "{last}"
    );
}

#[tokio::test]
async fn prose_is_answered_with_a_request_to_correct_it() {
    let world = World::new([
        Reply::text("I would look it up."),
        Reply::text(STEP),
        Reply::text(CLOSE),
        Reply::text("so"),
    ]);
    assert_eq!(world.ask_with(&Planner).await.unwrap().text, "so");
    let corrected = &world.asked()[1];
    let said = line(corrected);
    assert!(said.contains("Assistant:I would look it up.") && said.contains("can't be used"), "{said}");
    assert_eq!(world.called().len(), 1);
}

#[tokio::test]
async fn an_empty_reply_adds_no_message_to_the_conversation() {
    let world = World::new([Reply::text(" "), Reply::text(STEP), Reply::text(CLOSE), Reply::text("so")]);
    assert_eq!(world.ask_with(&Planner).await.unwrap().text, "so");
    let corrected = &world.asked()[1];
    assert!(corrected.messages.iter().all(|message| !message.text.trim().is_empty()), "{}", line(corrected));
    assert!(line(corrected).contains("can't be used"), "{}", line(corrected));
}

#[tokio::test]
async fn repeated_replies_without_a_step_end_the_planning() {
    let script = Script::new()
        .reply(Reply::text("the answer").when_user("Now write the answer"))
        .reply(Reply::text("Let me think.").always());
    let world = World::with(ScriptedModel::new(script));
    let answer = world.ask_with(&Planner).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.limited), ("the answer", Some(Limited::LoopDetected)));
    assert_eq!(world.asked().len(), 3);
}

#[tokio::test]
async fn exhausted_rounds_still_give_a_full_answer() {
    let world = World::with(ScriptedModel::from_fn(|request, nth| {
        if request.messages[0].text.contains("step by step by calling tools") {
            Reply::text(format!(r#"[{{"name": "look", "arguments": {{"q": "page {nth}"}}}}]"#))
        } else {
            Reply::text("all I know")
        }
    }));
    let answer = world.ask_with(&Planner).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.limited), ("all I know", Some(Limited::MaxRounds)));
    assert_eq!((world.called().len(), world.asked().len()), (6, 7));
    let last = &world.last(6);
    assert!(last.contains('Q') && last.contains("don't mention any limit"), "{last}");
    // The sources of the answer are sent, and tools are not.
    let asked = world.asked();
    assert!(asked.iter().all(|request| request.tools.is_empty()));
    let closing = line(&asked[6]);
    assert!((0..6).all(|nth| closing.contains(&format!("found page {nth}"))), "{closing}");
    assert!(world.signals().contains(&"limited max_rounds".to_owned()));
}

/// As in the other driver: the step after the last round may still finish the work.
#[tokio::test]
async fn a_planner_that_finishes_in_its_last_step_is_not_truncated() {
    let step = |nth: u32| Reply::text(format!(r#"[{{"name": "look", "arguments": {{"q": "{nth}"}}}}]"#));
    let run = async |rounds: u32| {
        let replies = (0..rounds).map(step).chain([Reply::text(CLOSE), Reply::text("so")]);
        let mut world = World::new(replies.collect::<Vec<_>>());
        world.options.rounds_max = 1;
        let answer = world.ask_with(&Planner).await.unwrap();
        (answer.limited, world.called().len())
    };
    assert_eq!(run(0).await, (None, 0));
    assert_eq!(run(1).await, (None, 1));
    assert_eq!(run(2).await, (Some(Limited::MaxRounds), 2));
}

#[tokio::test]
async fn a_follow_up_is_rewritten_for_planning_and_kept_in_the_history() {
    let rewriting = "You turn the last thing a user says";
    let run = async |rewrite: Reply| {
        let world =
            World::new([rewrite.when_system(rewriting).times(1), Reply::text(CLOSE), Reply::text("so")]);
        let end = world.drive(&Planner, after_turns(2)).await.unwrap();
        assert!(matches!(end, End::Answered(_)));
        world
    };
    let world = run(Reply::text("What about Q in 2023?")).await;
    let asked = world.asked();
    let conversation = &asked[0].messages[1].text;
    assert!(
        conversation.starts_with("USER: question 0\nASSISTANT: answer 0")
            && conversation.ends_with("USER: Q")
    );
    assert!(asked[1].messages[0].text.contains("What about Q in 2023?"));
    assert!(line(&asked[1]).contains("User:Q\n\n"), "the user's question stays: {}", line(&asked[1]));
    assert_eq!(world.trace()[0].started.tool.as_ref(), "Multi-turn conversation optimization");
    let world = run(Reply::error(ErrorKind::Unavailable, "down")).await;
    assert!(world.asked()[1].messages[0].text.contains('Q'));
}

#[tokio::test]
async fn a_long_history_keeps_instructions_question_and_last_rounds() {
    let world = World::with(ScriptedModel::from_fn(|request, _| {
        if request.messages[0].text.contains("step by step by calling tools") {
            Reply::text(CLOSE)
        } else {
            Reply::text("so")
        }
    }));
    world.drive(&Planner, after_turns(40)).await.unwrap();
    let last = world.asked().last().cloned().unwrap();
    let said: Vec<_> = last.messages.iter().map(|message| message.text.as_str()).collect();
    let rounds: Vec<_> =
        [0, 36, 37, 38, 39].iter().flat_map(|n| [format!("question {n}"), format!("answer {n}")]).collect();
    assert_eq!(said[0], "S");
    assert_eq!(said[1..11], rounds);
    assert_eq!(said[11], "Q");
    // Results are not history, whatever their size; nor is a conversation that is short.
    let world = World::with(ScriptedModel::from_fn(|request, nth| {
        if nth < 9 && request.messages[0].text.contains("step by step by calling tools") {
            Reply::text(format!(r#"[{{"name": "look", "arguments": {{"q": "page {nth}"}}}}]"#))
        } else if nth < 10 {
            Reply::text(CLOSE)
        } else {
            Reply::text("so")
        }
    }));
    let mut world = world;
    world.options.rounds_max = 20;
    world.drive(&Planner, after_turns(4)).await.unwrap();
    let said = line(world.asked().last().unwrap());
    assert!((1..9).all(|n| said.contains(&format!("found page {n}"))), "{said}");
    assert!((0..4).all(|n| said.contains(&format!("question {n}"))), "{said}");
}

#[tokio::test]
async fn requests_of_the_planner_stay_below_the_window() {
    let mut world = World::with(ScriptedModel::from_fn(|request, nth| {
        let system = &request.messages[0].text;
        if system.contains("step by step by calling tools") {
            Reply::text(format!(
                r#"[{{"name": "read", "arguments": {{"q": "{nth} {}"}}}}]"#,
                "word ".repeat(100)
            ))
        } else {
            Reply::text("all I know")
        }
    }));
    world.options.planner.reflect = true;
    world.options.planner.analyse = true;
    world.model_info(4_000, None);
    let long = "result ".repeat(5_000);
    world.tool(
        "read",
        |_| {},
        move |_| {
            let long = long.clone();
            async move { Ok(json!(long)) }
        },
    );
    world.drive(&Planner, after_turns(200)).await.unwrap();
    let asked = world.asked();
    assert!(asked.len() > 10);
    for request in &asked {
        let counted: usize = request.messages.iter().map(|message| 4 + tokens(&message.text)).sum();
        assert!(counted <= 3_880, "{counted}");
    }
    let last = asked.last().unwrap();
    let said = line(last);
    assert!(said.starts_with("System:S | ") && said.contains("User:Q"), "{said}");
    assert!(said.ends_with("or how you worked."), "the current task is complete: {said}");
}

#[tokio::test]
async fn a_follow_up_is_rewritten_from_the_end_of_a_long_history() {
    let script = Script::new()
        .reply(Reply::text("What about Q?").when_system("You turn the last thing"))
        .reply(Reply::text(CLOSE).when_system("step by step by calling tools"))
        .reply(Reply::text("so").always());
    let mut world = World::with(ScriptedModel::new(script));
    world.model_info(1_500, None);
    world.drive(&Planner, after_turns(300)).await.unwrap();
    let conversation = world.last(0);
    assert!(conversation.ends_with("ASSISTANT: answer 299\nUSER: Q"), "{conversation}");
    assert!(!conversation.contains("question 0\n"));
}

#[tokio::test]
async fn planning_requests_carry_no_answer_format() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let replies = [Reply::text(STEP), Reply::text(CLOSE), Reply::text("no"), Reply::text("{\"n\": 4}")];
    let mut world = World::new(replies);
    world.options.schema = Some(Schema::new(schema.clone()).unwrap().into());
    let answer = world.ask_with(&Planner).await.unwrap();
    assert_eq!(answer.structured, Some(json!({"n": 4})));
    let asked = world.asked();
    let told: Vec<_> =
        asked.iter().map(|request| request.messages[0].text.contains("Form of the answer")).collect();
    assert_eq!(told, [false, false, true, true]);
    assert_eq!(asked[2].schema, Some(schema));
}

#[tokio::test]
async fn a_text_too_long_for_the_citation_pass_is_shown_unchanged() {
    let long = "word ".repeat(2_000);
    let script = Script::new()
        .reply(Reply::text("cut [ID:0]").when_system("You are given a finished text"))
        .reply(Reply::text("Q").when_system("You turn the last thing"))
        .reply(Reply::text(CLOSE).when_system("step by step by calling tools"))
        .reply(Reply::text(&*long).always());
    let mut world = World::with(ScriptedModel::new(script));
    world.options.citing = Some("RULES".to_owned());
    world.model_info(2_500, None);
    world.sources(&["a source"]);
    let End::Answered(answer) = world.drive(&Planner, after_turns(4)).await.unwrap() else { panic!() };
    assert_eq!(answer.text, long);
    assert!(world.trace().last().unwrap().failed);
}

#[tokio::test]
async fn short_conversations_are_cited_at_once_and_long_ones_in_a_second_pass() {
    let check = async |turns: usize, inline: bool| {
        let script = Script::new()
            .reply(Reply::text("It is so [ID:0].").when_system("You are given a finished text"))
            .reply(Reply::text("Q").when_system("You turn the last thing"))
            .reply(Reply::text(CLOSE).when_system("step by step by calling tools"))
            .reply(Reply::text(if inline { "It is so [ID:0]." } else { "It is so." }).always());
        let mut world = World::with(ScriptedModel::new(script));
        world.options.citing = Some("RULES".to_owned());
        world.sources(&["a source"]);
        let End::Answered(answer) = world.drive(&Planner, after_turns(turns)).await.unwrap() else {
            panic!()
        };
        assert_eq!(answer.text, "It is so [ID:0].", "only the marked text is shown");
        let passes = stages(&world).iter().filter(|stage| *stage == "gen_citations").count();
        assert_eq!(passes, usize::from(!inline));
        let asked = world.asked();
        let writing = asked.iter().find(|request| line(request).contains("Now write the answer")).unwrap();
        assert_eq!(writing.messages[0].text.contains("RULES"), inline);
    };
    check(0, true).await;
    // With the instructions, the question and the last step there are five messages, then seven.
    check(1, true).await;
    check(2, false).await;
    check(4, false).await;
}

/// A listener gets the text with its marks as it is written, and never the one without.
#[tokio::test]
async fn only_the_second_of_two_passes_is_streamed() {
    let heard = async |turns: usize| {
        let script = Script::new()
            .reply(Reply::pieces(["It is ", "so ", "[ID:0]."]).when_system("You are given a finished text"))
            .reply(Reply::text("Q").when_system("You turn the last thing"))
            .reply(Reply::text(CLOSE).when_system("step by step by calling tools"))
            .reply(Reply::pieces(["First ", "pass."]).always());
        let mut world = World::with(ScriptedModel::new(script));
        world.options.citing = Some("RULES".to_owned());
        world.sources(&["a source"]);
        let (end, pieces) = world.listened_to(&Planner, after_turns(turns)).await;
        end.unwrap();
        let writing =
            world.asked().iter().filter(|request| line(request).contains("write the answer")).count();
        let passes = stages(&world).iter().filter(|stage| *stage == "gen_citations").count();
        (pieces, writing, passes)
    };
    let (pieces, writing, passes) = heard(0).await;
    assert_eq!((pieces.concat().as_str(), pieces.len(), writing, passes), ("First pass.", 2, 1, 0));
    let (pieces, writing, passes) = heard(4).await;
    assert_eq!((pieces.concat().as_str(), writing, passes), ("It is so [ID:0].", 1, 1));
    assert!(pieces.len() >= 2, "{pieces:?}");
}

#[tokio::test]
async fn canvas_sections_replace_built_in_prompts() {
    let mut world = World::new([
        Reply::text("thought"),
        Reply::text(STEP),
        Reply::text("mirrored"),
        Reply::text(CLOSE),
        Reply::text("so"),
    ]);
    world.options.planner.analyse = true;
    world.options.planner.reflect = true;
    world.options.planner.prompts = Overrides {
        task_analysis: Some("ANALYSE".to_owned()),
        plan_generation: Some("PLAN".to_owned()),
        reflection: Some("REFLECT".to_owned()),
        ..Overrides::default()
    };
    world.ask_with(&Planner).await.unwrap();
    let begins: Vec<String> =
        world.asked().iter().map(|r| r.messages[0].text.chars().take(7).collect()).collect();
    assert!(
        begins[0].starts_with("ANALYSE") && begins[1].starts_with("PLAN") && begins[2].starts_with("REFLECT"),
        "{begins:?}"
    );
}

#[tokio::test]
async fn without_tools_there_is_nothing_to_plan() {
    let world = World::new([Reply::text("so")]);
    world.toolkit.remove(|_| true);
    let answer = world.ask_with(&Planner).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.limited), ("so", None));
    assert_eq!(line(&world.asked()[0]), "System:S | User:Q");
}

#[tokio::test]
async fn authors_alternate() {
    let world = World::new([Reply::text("prose"), Reply::text(STEP), Reply::text(CLOSE), Reply::text("so")]);
    world.ask_with(&Planner).await.unwrap();
    for request in world.asked() {
        let authors: Vec<Author> = request.messages.iter().map(|message| message.author).collect();
        assert!(authors.windows(2).all(|pair| pair[0] != pair[1]), "{authors:?}");
    }
}

fn reviewing(replies: impl IntoIterator<Item = Reply>) -> World {
    let mut world = World::new(replies);
    world.options.planner.review = true;
    world
}

/// The stored state goes through text, as on its way to another process.
fn answered(suspension: &weft_core::component::Suspension, answer: &Json) -> weft_agent::driver::Start {
    let state = serde_json::from_str(&suspension.state.to_string()).unwrap();
    crate::kit::resumed(state, json!({"plan": answer}))
}

#[tokio::test]
async fn a_plan_waits_for_a_person_before_any_tool_is_called() {
    let world =
        reviewing([Reply::text("First look."), Reply::text(STEP), Reply::text(CLOSE), Reply::text("so")]);
    let waits = world.wait_with(&Planner, crate::kit::question("Q")).await;
    assert!(world.called().is_empty() && world.asked().len() == 1);
    let field = &waits.form.fields["plan"];
    assert_eq!((&field["type"], &field["plan"]), (&json!("plan_review"), &json!("First look.")));
    assert!(waits.form.tips.as_ref().unwrap().contains("First look."));
    let End::Answered(answer) = world.drive(&Planner, answered(&waits, &json!("approve"))).await.unwrap()
    else {
        panic!("it continues")
    };
    assert_eq!((answer.text.as_str(), world.called().len()), ("so", 1));
    assert!(world.text(1, 0).contains("First look."), "it is executed");
}

#[tokio::test]
async fn a_plan_edited_by_a_person_is_executed_as_edited() {
    let world = reviewing([Reply::text("First look."), Reply::text(CLOSE), Reply::text("so")]);
    let waits = world.wait_with(&Planner, crate::kit::question("Q")).await;
    let End::Suspended(again) = world.drive(&Planner, answered(&waits, &json!("perhaps"))).await.unwrap()
    else {
        panic!("it asks once more")
    };
    assert!(again.form.tips.as_ref().unwrap().contains("neither a yes nor a no"));
    let edit = json!({"decision": "edit", "plan": "Only think."});
    world.drive(&Planner, answered(&again, &edit)).await.unwrap();
    let told = world.text(1, 0);
    assert!(told.contains("Only think.") && !told.contains("First look."), "{told}");
}

#[tokio::test]
async fn a_rejected_plan_is_revised_with_the_reason_or_nothing_is_called() {
    let world =
        reviewing([Reply::text("First look."), Reply::text("Then look twice."), Reply::text("Sorry.")]);
    let waits = world.wait_with(&Planner, crate::kit::question("Q")).await;
    let reject = json!({"decision": "reject", "reason": "once is not enough"});
    let End::Suspended(again) = world.drive(&Planner, answered(&waits, &reject)).await.unwrap() else {
        panic!("it asks once more")
    };
    assert_eq!(again.form.fields["plan"]["plan"], "Then look twice.");
    assert!(world.last(1).contains("once is not enough"));
    let End::Answered(answer) = world.drive(&Planner, answered(&again, &json!("reject"))).await.unwrap()
    else {
        panic!("it answers without tools")
    };
    assert!(answer.text == "Sorry." && world.called().is_empty());
    let said = world.asked().last().unwrap().messages.iter().map(|m| m.text.clone()).collect::<String>();
    assert!(said.contains("rejected the plan"), "{said}");
}
