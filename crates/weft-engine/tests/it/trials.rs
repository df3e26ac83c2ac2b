//! Turns tried out and replayed from recordings, on the same canvas and on others.

use std::sync::Arc;

use serde_json::json;
use weft_core::effect::Match;
use weft_core::{ErrorKind, Json, Record, TurnInput};
use weft_dsl::Plan;
use weft_engine::engine::{AnswerSource, Trial, Tried};
use weft_engine::{Engine, EngineLimits, SessionState};
use weft_models::script::{Reply, Script};

use crate::agents::{FakeServer, canvas, with_server};
use crate::golden::{Input, read, samples};
use crate::kit::{asking, turn};
use crate::real::{World as RealWorld, compiled};
use crate::replays::{conversations, nowhere};
use crate::survival::{World, runtime};

/// Every turn of a conversation, each from its own source.
async fn hold<'a>(
    engine: &Engine,
    plan: &Arc<Plan>,
    turns: &[TurnInput],
    source: impl Fn(usize) -> AnswerSource<'a>,
) -> Vec<Tried> {
    let (mut state, mut history) = (SessionState::new(plan), Vec::new());
    let mut all = Vec::new();
    for (nth, input) in turns.iter().enumerate() {
        let request = weft_engine::StartRun { seed: Some(7), ..turn(plan, input.clone()) };
        let now_ms = Some(1_700_000_000_000);
        let trial = Trial { request, state, history, now_ms, source: source(nth) };
        let tried = engine.try_turn(trial).await.unwrap();
        (state, history) = (tried.state.clone(), tried.history.clone());
        all.push(tried);
    }
    all
}

fn nowhere_engine() -> Engine {
    Engine::new(nowhere(), None, EngineLimits::default())
}

fn recorded<'a>(tried: &'a [Tried]) -> impl Fn(usize) -> AnswerSource<'a> + use<'a> {
    |nth| AnswerSource::Recorded { answers: &tried[nth].answers, models: Some(&tried[nth].models) }
}

/// The outputs of every activation and the course of the run, without parts that differ between runs.
fn facts(tried: &Tried) -> Json {
    let mut nodes: Vec<String> = tried
        .entries
        .iter()
        .filter_map(|entry| match &entry.record {
            Record::NodeFinished { who, outputs, error, route, .. } => {
                let rounds: Vec<_> = who.frame.iter().map(|step| step.round).collect();
                Some(json!([who.node, rounds, outputs, error, route]).to_string())
            }
            Record::ToolFinished { call, .. } => {
                Some(json!([call.started.path, call.started.arguments, call.result]).to_string())
            }
            _ => None,
        })
        .collect();
    nodes.sort();
    let report = &tried.report;
    let spent = (report.spent.model_calls, report.spent.tool_calls, report.spent.tokens);
    json!([nodes, report.ending, report.said, report.outputs, report.usage, report.cited.len(), spent])
}

#[test]
fn every_sample_turn_replays_from_its_recording() {
    let mut calls = 0;
    for (folder, turns) in conversations() {
        runtime().block_on(async {
            let world = World::new(&folder).await;
            let engine = Engine::new(Arc::clone(&world.seams), None, EngineLimits::default());
            let live = hold(&engine, &world.plan, &turns, |_| AnswerSource::Outside).await;
            let again = hold(&nowhere_engine(), &world.plan, &turns, recorded(&live)).await;
            for (then, now) in live.iter().zip(&again) {
                assert_eq!(facts(now), facts(then), "{}", folder.display());
                assert!(now.calls.iter().all(|call| call.answered == Match::Same), "{:?}", now.calls);
                calls += now.calls.len();
            }
            // The same holds with the questions known.
            let third = hold(&nowhere_engine(), &world.plan, &turns, recorded(&again)).await;
            for (then, now) in again.iter().zip(&third) {
                assert_eq!((facts(now), &now.calls), (facts(then), &then.calls), "{}", folder.display());
                assert_eq!(now.answers, then.answers);
            }
        });
    }
    assert!(calls > 50, "{calls}");
}

/// The result of a sample turn on another canvas than the recorded one.
fn changed(sample: &str, change: impl Fn(&str) -> String) -> (Tried, Tried) {
    let folder = samples().join(sample);
    let input: Input = serde_json::from_str(&read(&folder.join("input.json")).unwrap()).unwrap();
    let turns = &input.conversations[0].turns[..1];
    runtime().block_on(async {
        let world = World::new(&folder).await;
        let engine = Engine::new(Arc::clone(&world.seams), None, EngineLimits::default());
        let live = hold(&engine, &world.plan, turns, |_| AnswerSource::Outside).await;
        let mut first = hold(&nowhere_engine(), &world.plan, turns, recorded(&live)).await;
        let text = change(&read(&folder.join("canvas.json")).unwrap());
        let plan = compiled(&text).unwrap_or_else(|problems| panic!("{problems:#?}"));
        let mut second = hold(&nowhere_engine(), &plan, turns, recorded(&first)).await;
        (first.remove(0), second.remove(0))
    })
}

#[test]
fn a_renamed_node_is_answered_by_its_request() {
    let (then, now) = changed("agent_tools", |text| text.replace("Agent:Worker", "Agent:Other"));
    assert_eq!(now.report.said, then.report.said);
    let matches: Vec<_> = now.calls.iter().map(|call| (&*call.key, call.answered)).collect();
    assert!(matches.len() > 1 && matches.iter().all(|(_, how)| *how == Match::Moved), "{matches:?}");
}

#[test]
fn a_changed_request_is_answered_by_position_and_reported() {
    let (then, now) = changed("agent_tools", |text| text.replace("never guess", "do not guess"));
    assert_eq!(now.report.said, then.report.said);
    let first = now.calls.iter().find(|call| &*call.key == "model#0").unwrap();
    assert_eq!(first.answered, Match::Differs);
    assert!(now.calls.iter().any(|call| call.answered == Match::Same), "{:?}", now.calls);
}

#[test]
fn a_call_that_was_not_recorded_fails_by_name() {
    let (_, now) = changed("agent_tools", |text| {
        text.replace("Agent:Worker", "Agent:New").replace("never guess", "do not guess")
    });
    let error = now.report.error.unwrap();
    assert_eq!(error.kind, ErrorKind::Interrupted);
    assert!(error.full().contains("model#0 of Agent:New"), "{}", error.full());
    let lacking: Vec<_> = now.calls.iter().filter(|call| call.answered == Match::Lacking).collect();
    assert_eq!(lacking.first().map(|call| call.node.as_str()), Some("Agent:New"));
}

/// Tool servers are listed outside of any call; with a recording not even that happens.
#[tokio::test(start_paused = true)]
async fn tools_of_servers_are_answered_from_the_recording() {
    let script =
        Script::new().reply(Reply::call("two_0", json!({"x": "X"})).times(1)).reply(Reply::text("done"));
    let world = RealWorld::with_tools(script, FakeServer::up());
    let plan = canvas(with_server(json!([]), json!({"two": {}})));
    let turns = [asking("Q")];
    let live = hold(&world.engine, &plan, &turns, |_| AnswerSource::Outside).await;
    let again = hold(&nowhere_engine(), &plan, &turns, recorded(&live)).await;
    assert_eq!(facts(&again[0]), facts(&live[0]));
    assert!(facts(&again[0]).to_string().contains("two of X"), "{}", facts(&again[0]));
    assert!(again[0].calls.iter().all(|call| call.answered == Match::Same), "{:?}", again[0].calls);
}
