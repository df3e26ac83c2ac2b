//! Random models, tools and interruptions: the conversation is always valid.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use weft_agent::graph::{GraphAgent, GraphSettings, TurnOptions};
use weft_agent::message::Message;
use weft_agent::react::{FinishStyle, Output, ReActAgent, Settings, ToolCalls};
use weft_agent::toolkit::Toolkit;
use weft_core::seam::chat_model::ChatRequest;
use weft_core::{Error, ErrorKind, Tool};
use weft_models::{Reply, ScriptedModel};

use crate::react_kit::is_tidy;

/// The next action of a model.
#[derive(Clone, Debug)]
enum Move {
    Say,
    Nothing,
    Call(Vec<usize>),
    Fail,
    Garbage,
}

const TOOLS: [&str; 4] = ["quick", "slow", "failing", "nosuch"];

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        2 => Just(Move::Say),
        1 => Just(Move::Nothing),
        6 => prop::collection::vec(0..TOOLS.len(), 1..4).prop_map(Move::Call),
        1 => Just(Move::Fail),
        1 => Just(Move::Garbage),
    ];
    prop::collection::vec(one, 1..12)
}

fn reply(next: Option<&Move>, nth: usize) -> Reply {
    let waits = |reply: Reply| reply.delay_ms(7);
    match next {
        None | Some(Move::Say) => waits(Reply::pieces(["It is ", "so."])),
        Some(Move::Nothing) => Reply::empty(),
        Some(Move::Fail) => Reply::error(ErrorKind::Unavailable, "away"),
        Some(Move::Garbage) => Reply::text("hm").and_call_text("quick", "{\"q\": "),
        Some(Move::Call(tools)) => {
            let call =
                |reply: Reply, tool: &usize| reply.and_call(TOOLS[*tool], json!({"q": format!("{nth}")}));
            waits(tools.iter().fold(Reply::empty(), call))
        }
    }
}

fn model(moves: Vec<Move>) -> ScriptedModel {
    ScriptedModel::from_fn(move |_: &ChatRequest, nth| reply(moves.get(nth), nth))
}

fn tools() -> Toolkit {
    let tools = Toolkit::new();
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    for (name, ms) in [("quick", 0), ("slow", 50), ("failing", 3)] {
        let tool = Tool::function(name, "Works.", schema.clone(), move |_| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            if name == "failing" { Err(Error::invalid("it fails")) } else { Ok(json!("done")) }
        });
        tools.register(tool).unwrap();
    }
    tools
}

/// Every call has one result, which directly follows it.
fn is_valid(messages: &[Message]) -> bool {
    let calls: Vec<_> = messages.iter().flat_map(Message::tool_uses).map(|call| call.id.as_str()).collect();
    let mut results: Vec<_> =
        messages.iter().flat_map(Message::tool_results).map(|result| result.id.as_str()).collect();
    let mut sorted = calls.clone();
    sorted.sort_unstable();
    let distinct = sorted.windows(2).all(|pair| pair[0] != pair[1]);
    results.sort_unstable();
    distinct && sorted == results
}

/// Whether providers would accept every request.
fn asked_rightly(model: &ScriptedModel) -> bool {
    model.requests().iter().all(|request| {
        let mut due: Vec<&str> = Vec::new();
        request.messages.iter().all(|message| match message.tool_call_id.as_deref() {
            Some(id) => {
                let before = due.len();
                due.retain(|known| *known != id);
                due.len() + 1 == before
            }
            None => {
                let closed = due.is_empty();
                due = message.tool_calls.iter().map(|call| call.id.as_str()).collect();
                closed
            }
        }) && due.is_empty()
    })
}

fn paused<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_session_is_valid_whatever_happens(
        moves in moves(),
        stops in prop::collection::vec(prop::option::of(0_u64..200), 1..4),
        dropped in any::<bool>(),
        parallel in any::<bool>(),
        by_text in any::<bool>(),
    ) {
        paused(async {
            let model = model(moves);
            let settings = Settings {
                max_iters: 4,
                tool_calls: if parallel { ToolCalls::Parallel } else { ToolCalls::Sequential },
                finish: if by_text { FinishStyle::Text } else { FinishStyle::Function },
                output: if parallel { Output::Streamed } else { Output::Whole },
                ..Settings::default()
            };
            let agent = ReActAgent::builder("Ada", Arc::new(model.clone())).toolkit(tools()).settings(settings);
            let mut session = agent.build().unwrap().session();
            for stop in stops {
                let interrupt = session.interrupt();
                let stopper = async {
                    match stop {
                        Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                        None => std::future::pending().await,
                    }
                };
                if dropped {
                    // The program drops the work midway.
                    tokio::select! { _ = session.reply("Q") => {}, () = stopper => {} }
                } else {
                    let stopper = async { stopper.await; interrupt.interrupt(); std::future::pending::<()>().await };
                    tokio::select! { _ = session.reply("Q") => {}, () = stopper => {} }
                    prop_assert!(is_tidy(session.memory()), "{:#?}", session.memory());
                }
            }
            // Another turn works, whatever happened before.
            if let Err(error) = session.reply("And now?").await {
                let models = matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Garbled);
                prop_assert!(models, "only the model fails a reply: {error}");
            }
            prop_assert!(is_valid(session.memory().messages()));
            prop_assert!(asked_rightly(&model));
            Ok(())
        })?;
    }

    #[test]
    fn a_thread_is_valid_whatever_happens(
        moves in moves(),
        stops in prop::collection::vec(prop::option::of(0_u64..200), 1..4),
        dropped in any::<bool>(),
        resumed in any::<bool>(),
        parallel in any::<bool>(),
    ) {
        paused(async {
            let model = model(moves);
            let tool_calls = if parallel { ToolCalls::Parallel } else { ToolCalls::Sequential };
            let settings = GraphSettings { max_steps: 3, tool_calls, ..GraphSettings::default() };
            let agent = GraphAgent::builder("Ada", Arc::new(model.clone())).toolkit(tools()).settings(settings);
            let agent = agent.build().unwrap();
            for stop in stops {
                let cancel = CancellationToken::new();
                let options = TurnOptions { cancel: cancel.clone(), ..TurnOptions::default() };
                let stopper = async {
                    match stop {
                        Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                        None => std::future::pending().await,
                    }
                    if !dropped {
                        cancel.cancel();
                        std::future::pending::<()>().await;
                    }
                };
                tokio::select! { _ = agent.process_message_with("t", "Q", options) => {}, () = stopper => {} }
                if resumed {
                    let _ = agent.resume("t", TurnOptions::default()).await;
                }
            }
            // A failed model leaves its turn open; the next one closes it.
            let last = agent.process_message("t", "And now?").await;
            let state = agent.state("t").await.unwrap().unwrap();
            match last {
                Ok(_) => prop_assert!(is_valid(&state.messages), "{:#?}", state.messages),
                Err(error) => prop_assert_eq!(error.kind, ErrorKind::Unavailable, "only the model fails a turn"),
            }
            prop_assert!(asked_rightly(&model));
            prop_assert_eq!(state.tool_call_history.len(), state.tool_result_history.len());
            Ok(())
        })?;
    }
}
