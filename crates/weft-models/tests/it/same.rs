//! Every wire gives the same result as an in-process model.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::{ChatRequest, StopReason, ToolCall};
use weft_models::script::CallPart;
use weft_testkit::{Reply, Script, ScriptedModel, ScriptedServer, Step, Wire};

use crate::{Transcript, asked, model, read, tool};

/// Words without characters that could be tags or fences, which in-process models do not parse.
const WORDS: &str = "[a-zé汉😀 .,{}\"\\\\\n]{1,12}";

fn arguments() -> impl Strategy<Value = Json> {
    let value = prop_oneof![
        WORDS.prop_map(Json::from),
        any::<i32>().prop_map(Json::from),
        proptest::collection::vec(any::<bool>(), 0..3).prop_map(Json::from),
    ];
    proptest::collection::vec(("[a-z]{1,4}", value), 0..3)
        .prop_map(|members| members.into_iter().collect::<serde_json::Map<_, _>>().into())
}

fn step() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![
        3 => WORDS.prop_map(|text| vec![Step::Text(text)]),
        2 => WORDS.prop_map(|text| vec![Step::Thinking(text)]),
        1 => Just(vec![Step::Signature("seal".into())]),
        2 => ("[a-z_]{1,8}", arguments()).prop_map(|(name, arguments)| Reply::call(name, arguments).say),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let end = prop_oneof![4 => Just(None), 1 => Just(Some(StopReason::Length))];
    let turns = proptest::collection::vec(("[a-z]{1,4}", arguments()), 0..4);
    (proptest::collection::vec(step(), 0..8), turns, 1..6_usize, end).prop_map(
        |(steps, turns, size, stop)| {
            let reply = Reply { say: steps.concat(), stop, ..Reply::default() }.usage(3, 4);
            let before = reply.say.iter().filter(|step| matches!(step, Step::Call(_))).count();
            let turns = Reply::default().and_calls_in_turns(turns, size).say;
            turns.into_iter().fold(reply, |reply, step| match step {
                Step::CallPart(part) => {
                    reply.then(Step::CallPart(CallPart { index: before + part.index, ..part }))
                }
                step => reply.then(step),
            })
        },
    )
}

/// The answer, without parts that only some wires have.
fn essence(seen: Transcript) -> (String, String, Vec<ToolCall>, Option<StopReason>) {
    (seen.text, seen.thinking, seen.calls, seen.end.map(|(reason, _)| reason))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_wire_transports_the_answer_unchanged(reply in reply()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let request = || ChatRequest { tools: [tool("t")].into(), ..asked("hi") };
            let here = ScriptedModel::new(Script::new().reply(reply.clone()));
            let expected = essence(read(&here, request()).await.0);
            for wire in Wire::ALL {
                let server = ScriptedServer::speaking(wire, Script::new().reply(reply.clone())).await;
                let (seen, error) = read(&*model(wire, &server), request()).await;
                assert!(error.is_none(), "{wire:?}: {error:?} of {}", json!(reply));
                assert_eq!(essence(seen), expected, "{wire:?} of {}", json!(reply));
            }
        });
    }
}
