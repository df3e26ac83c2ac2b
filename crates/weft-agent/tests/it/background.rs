//! Background calls of an agent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weft_agent::calls::BACKGROUND_MAX;
use weft_agent::driver::End;
use weft_agent::native::Native;
use weft_agent::planner::Planner;
use weft_core::component::{Form, Suspension};
use weft_core::context::Limited;
use weft_core::effect::{Effects, Known};
use weft_core::seam::chat_model::{Author, ToolChoice};
use weft_core::tool::{Invocation, Origin, ToolBody, ToolStep, ToolStream};
use weft_core::{Error, Tool};
use weft_testkit::{Reply, ScriptedModel};

use crate::kit::{World, line, look, question, resumed};

/// A call of the slow tool.
fn dig(q: &str) -> Reply {
    Reply::call("dig", json!({"q": q}))
}

/// A world with a background tool that takes this many seconds.
fn world(replies: impl IntoIterator<Item = Reply>, seconds: u64) -> World {
    let world = World::new(replies);
    add_dig(&world, seconds);
    world
}

fn add_dig(world: &World, seconds: u64) {
    let background = |tool: &mut Tool| tool.traits.background = true;
    world.tool("dig", background, move |arguments| async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        match arguments["q"].as_str() {
            Some("rock") => Err(Error::invalid("too hard")),
            q => Ok(json!(format!("dug {}", q.unwrap_or("nothing")))),
        }
    });
}

const OVER: &str =
    "The call `background_1` of `dig` is over. The tool gave:\n\n<tool_result>\ndug x\n</tool_result>";

#[tokio::test(start_paused = true)]
async fn the_agent_continues_and_receives_the_background_result() {
    let replies = [dig("x"), look("y"), Reply::text("I wait."), Reply::text("done")];
    let world = world(replies, 50);
    let began = tokio::time::Instant::now();
    let answer = world.ask().await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 50);
    assert_eq!(answer.text, "I wait.\n\ndone");
    assert_eq!(world.called().len(), 2);
    let asked = world.asked();
    assert!(world.last(1).contains("`background_1`") && world.last(1).contains("in the background"));
    assert!(asked[0].tools.iter().any(|tool| tool.description.ends_with("you go on meanwhile.")));
    assert_eq!(asked[3].messages.last().map(|m| (m.author, m.text.as_str())), Some((Author::User, OVER)));
    let used: Vec<_> = answer.used.iter().map(|used| json!(used)).collect();
    assert_eq!(used[0], json!({"name": "dig", "arguments": {"q": "x"}, "results": "dug x"}));
    let trace = world.trace();
    let ends: Vec<_> = trace.iter().map(|end| (&*end.started.tool, &*end.result, end.failed)).collect();
    assert_eq!(ends, [("look", &json!("found y"), false), ("dig", &json!("dug x"), false)]);
}

#[tokio::test(start_paused = true)]
async fn a_finished_background_call_is_reported_once_before_the_next_request() {
    let world = world([dig("x"), look("y").delay_ms(9_000), look("z"), Reply::text("done")], 5);
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.text, "done");
    let asked = world.asked();
    let told = |request: usize| line(&asked[request]).matches("is over. The tool gave").count();
    assert_eq!([0, 1, 2, 3].map(told), [0, 0, 1, 1]);
    assert_eq!(asked.len(), 4, "an answered question is not repeated");
}

#[tokio::test(start_paused = true)]
async fn background_failures_are_reported_and_calls_run_concurrently() {
    let both = dig("rock").and_call("dig", json!({"q": "x"})).and_call("look", json!({"q": "y"}));
    let world = world([both, Reply::text("hm"), Reply::text("done")], 5);
    let began = tokio::time::Instant::now();
    let answer = world.ask().await.unwrap();
    assert_eq!((began.elapsed().as_secs(), answer.text.as_str()), (5, "hm\n\ndone"));
    let last = line(&world.asked()[2]);
    assert!(last.contains("`background_1` of `dig` has failed") && last.contains("too hard"), "{last}");
    assert!(last.contains("`background_2` of `dig` is over"), "{last}");
    let results: Vec<_> = answer.used.iter().map(|used| used.results.to_string()).collect();
    assert!(results[0].contains("too hard") && results[1] == "\"dug x\"" && results[2] == "\"found y\"");
}

#[tokio::test(start_paused = true)]
async fn the_final_answer_waits_for_all_background_calls() {
    let mut world = World::with(ScriptedModel::from_fn(|request, nth| match request.tool_choice {
        ToolChoice::None => Reply::text("what I know"),
        _ if nth == 0 => dig("x"),
        _ => look(&nth.to_string()),
    }));
    add_dig(&world, 50);
    world.options.rounds_max = 2;
    let answer = world.ask().await.unwrap();
    assert_eq!((answer.text.as_str(), answer.limited), ("what I know", Some(Limited::MaxRounds)));
    assert!(line(world.asked().last().unwrap()).contains("dug x"));
}

#[tokio::test(start_paused = true)]
async fn background_calls_have_a_maximum() {
    let many =
        (1..=BACKGROUND_MAX).fold(dig("0"), |reply, q| reply.and_call("dig", json!({"q": q.to_string()})));
    let world = world([many, Reply::text("hm"), Reply::text("done")], 5);
    let answer = world.ask().await.unwrap();
    assert_eq!(world.called().len(), BACKGROUND_MAX);
    let refused =
        answer.used.iter().filter(|used| used.results.to_string().contains("QUOTA_EXCEEDED")).count();
    assert_eq!((answer.used.len(), refused), (BACKGROUND_MAX + 1, 1));
}

#[tokio::test(start_paused = true)]
async fn no_background_result_is_lost_while_a_person_is_asked() {
    let both = dig("x").and_call("pay", json!({"q": "10"}));
    let world = world([both, dig("z"), Reply::text("hm"), Reply::text("done")], 5);
    world.echo("pay", |tool| tool.traits.approval = true);
    let waiting = world.wait_with(&Native, question("Q")).await;
    let call = waiting.form.fields.keys().next().unwrap().clone();
    let state = serde_json::from_str(&waiting.state.to_string()).unwrap();
    let answers = json!({call: "approve"});
    let End::Answered(answer) = world.drive(&Native, resumed(state, answers)).await.unwrap() else {
        panic!("it waits again");
    };
    assert_eq!(answer.text, "hm\n\ndone");
    let asked = world.asked();
    assert!(line(&asked[1]).contains("dug x"), "it is reported with the first request");
    assert!(line(&asked[3]).contains("The call `background_2` of `dig` is over"), "no number is used twice");
    assert_eq!(world.called().iter().filter(|call| call.starts_with("dig")).count(), 2);
}

/// A tool that asks a person.
struct Asking;

impl ToolBody for Asking {
    fn call(&self, _: Invocation) -> ToolStream {
        let fields = [("may".to_owned(), json!({"type": "line"}))].into_iter().collect();
        let form = Form { fields, tips: None, timeout_seconds: None };
        let step = ToolStep::Suspended(Suspension { form, state: json!({}) });
        Box::pin(futures::stream::once(async { Ok(step) }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_background_call_cannot_ask_a_person() {
    let world = World::new([Reply::call("ask", json!({})), Reply::text("hm"), Reply::text("done")]);
    let mut tool = Tool::new("ask", "Asks.", json!({"type": "object"}), Origin::Function, Arc::new(Asking));
    tool.traits.background = true;
    world.toolkit.register(tool).unwrap();
    let answer = world.ask().await.unwrap();
    assert!(answer.used[0].results.to_string().contains("nobody is asked"), "{:?}", answer.used);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_agent_stops_and_traces_its_background_calls() {
    let world = world([dig("x"), Reply::text("hm")], 500);
    let dropped = tokio::time::timeout(Duration::from_secs(5), world.ask()).await;
    assert!(dropped.is_err());
    tokio::task::yield_now().await;
    let trace = world.trace();
    assert_eq!(trace.len(), 1);
    assert_eq!((&*trace[0].result, trace[0].failed), (&json!("the call was stopped"), true));
}

#[tokio::test(start_paused = true)]
async fn the_planner_runs_a_background_tool_as_an_ordinary_call() {
    let step = r#"[{"name": "dig", "arguments": {"q": "x"}}]"#;
    let close = r#"[{"name": "complete_task", "arguments": {"answer": "a draft"}}]"#;
    let world = world([step, close, "the answer"].map(Reply::text), 5);
    let answer = world.ask_with(&Planner).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.used[0].results.clone()), ("the answer", json!("dug x")));
}

/// Every request as one line each.
fn lines(world: &World) -> Vec<String> {
    world.asked().iter().map(line).collect()
}

/// Interrupted after every journal record and replayed: nothing is executed twice, and the model gets the same
/// reports before the same requests.
#[tokio::test(start_paused = true)]
async fn background_results_are_replayed_at_the_same_place_after_any_crash() {
    let replies = [
        dig("x").and_call("look", json!({"q": "1"})),
        look("2").delay_ms(9_000),
        dig("z"),
        Reply::text("I wait."),
        // Once more if the last two of them finish at different times.
        Reply::text("done").always(),
    ];
    let whole = world(replies.clone(), 5);
    let expected = whole.ask().await.unwrap();
    let (notes, requests) = (whole.notes(), lines(&whole));
    assert_eq!(requests.len(), replies.len());
    assert_eq!(notes.iter().filter(|note| note.starts_with("gave background#")).count(), 2, "{notes:?}");
    for stop in 0..=notes.len() {
        let known: HashMap<Arc<str>, Known> = whole.known(stop);
        let ended = |kind: &str| {
            let is =
                |(key, known): &(&Arc<str>, &Known)| key.contains(kind) && matches!(known, Known::Ended(_));
            known.iter().filter(is).count()
        };
        let begun =
            known.iter().filter(|(key, known)| key.contains("tool#") && **known == Known::Begun).count();
        let (answered, made) = (ended("model#"), ended("tool#"));
        let mut again = world(replies[answered..].to_vec(), 5);
        again.change(|ctx| ctx.effects = Effects::known(known.clone()));
        let answer = again.ask().await.unwrap();
        assert_eq!(again.called().len(), 4 - made - begun, "{stop}: {:?}", again.called());
        let interrupted =
            answer.used.iter().filter(|u| u.results.to_string().contains("INTERRUPTED")).count();
        assert_eq!(interrupted, begun, "{stop}");
        if begun == 0 {
            assert_eq!(answer.used, expected.used, "{stop}");
        }
        if begun == 0 && ended("background#") == 2 {
            assert_eq!(answer, expected, "{stop}");
            assert_eq!(lines(&again), requests[answered..], "{stop}");
        }
        if let Some(last) = lines(&again).last() {
            assert_eq!(last.matches("The tool gave").count(), 2, "{stop}: each is reported once: {last}");
        }
    }
}
