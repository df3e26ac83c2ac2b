//! Work that waits for a person midway: tool approvals, plan reviews.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use weft_core::budget::BudgetLimits;
use weft_core::journal::{Ending, NextEdges, Record};
use weft_core::seam::RunStore as _;
use weft_core::{ErrorKind, TurnInput};
use weft_dsl::Plan;
use weft_engine::{Engine, EngineLimits, SessionState};
use weft_testkit::memory_store::MemoryStore;

use crate::kit::{Does, Node, Ran, asking, choose, go_on, node, plan};

fn approve(pieces: &[&'static str], tasks: &[&'static str]) -> Does {
    Does::Approve(pieces.to_vec(), tasks.to_vec())
}

fn given(inputs: Json) -> TurnInput {
    let Json::Object(inputs) = inputs else { panic!("{inputs}") };
    TurnInput { inputs, ..TurnInput::default() }
}

/// Plays turns in sequence; between two of them the state is text, as another process reads it.
async fn hold(plan: &Arc<Plan>, turns: impl IntoIterator<Item = TurnInput>) -> Vec<Ran> {
    let (mut state, mut ran) = (SessionState::new(plan), Vec::new());
    state.globals.insert("env.list".to_owned(), json!(["a", "b"]));
    for input in turns {
        let turn = go_on(plan, state, input, EngineLimits::default()).await;
        let text = turn.state.to_json().unwrap().to_string();
        state = SessionState::from_json(&serde_json::from_str(&text).unwrap()).unwrap();
        ran.push(turn);
    }
    ran
}

/// The addresses of the open questions, each with its open fields.
fn asked(ran: &Ran) -> Vec<(String, Vec<&str>)> {
    let forms = ran.report.forms.iter();
    forms.map(|w| (w.address(), w.form.fields.keys().map(String::as_str).collect())).collect()
}

fn said(ran: &[Ran]) -> Vec<&str> {
    ran.iter().map(|ran| ran.report.said.as_str()).collect()
}

fn one(does: Does) -> Vec<Node> {
    vec![
        node("begin", Does::Echo, &["a"]),
        node("a", does, &["m"]),
        node("m", Does::Say(false), &[]).text("<{a@out}>"),
    ]
}

#[tokio::test]
async fn a_node_suspends_midway_and_resumes_in_another_process() {
    let plan = plan(&one(approve(&["x"], &["call"])));
    let ran = hold(&plan, [asking("q"), given(json!({"a": {"call": "approve"}}))]).await;
    assert_eq!(ran[0].log(), ["start begin", "end begin", "start a", "asleep a", "wait 1", "waiting"]);
    assert_eq!(asked(&ran[0]), [("a".to_owned(), vec!["call"])]);
    assert_eq!(ran[1].ended(), ["a", "m"]);
    assert_eq!(said(&ran), ["", "<xcall=approve;>"]);
    let Record::RunStarted { resumes, .. } = &ran[1].records[0] else { panic!() };
    assert!(resumes.is_some() && ran[1].state.paused.is_none());
    // Suspending is not a failure, has no outputs, and is recorded as its own kind of end.
    let end = ran[0].records.iter().find_map(|record| match record {
        Record::NodeFinished { who, outputs, error, route, .. } if who.node.as_str() == "a" => {
            Some((outputs.0.is_empty(), error.is_none(), route.clone()))
        }
        _ => None,
    });
    assert_eq!(end, Some((true, true, NextEdges::Suspended)));
}

#[tokio::test]
async fn answers_are_accepted_in_every_form_syntax() {
    let plan = plan(&one(approve(&[], &["call"])));
    let check = async |input: TurnInput, expected: &str| {
        let ran = hold(&plan, [asking("q"), input]).await;
        assert_eq!(ran[1].report.said, expected);
    };
    check(given(json!({"call": "approve"})), "<call=approve;>").await;
    check(given(json!({"call": {"value": false}})), "<call=false;>").await;
    let edit = json!({"decision": "edit", "arguments": {"path": "b"}});
    check(given(json!({"a": {"call": edit}})), &format!("<call={edit};>")).await;
    check(asking("approve"), "<call=approve;>").await;
}

#[tokio::test]
async fn decisions_are_collected_until_complete_and_stay() {
    let plan = plan(&one(approve(&["x"], &["one", "two", "three"])));
    let turns = [
        asking("q"),
        given(json!({"a": {"two": "no"}})),
        // An answer nobody asked for, no answer, and a second answer to a decided question.
        given(json!({"elsewhere": 1})),
        TurnInput::default(),
        given(json!({"two": "yes", "one": null, "three": 3})),
        given(json!({"one": 1})),
    ];
    let ran = hold(&plan, turns).await;
    let open: Vec<_> = ran.iter().map(|ran| asked(ran).pop().map(|(_, fields)| fields.len())).collect();
    assert_eq!(open, [Some(3), Some(2), Some(2), Some(2), Some(1), None]);
    assert!(ran[1..5].iter().all(|ran| ran.started().is_empty() && ran.report.ending == Ending::Waiting));
    assert_eq!(ran[5].report.said, "<xone=1;two=no;three=3;>");
}

/// Parallel branches continue; several nodes wait at once; each resumes by itself.
#[tokio::test(start_paused = true)]
async fn several_nodes_wait_in_parallel() {
    let plan = plan(&[
        node("begin", Does::Echo, &["a", "b", "slow"]),
        node("a", approve(&[], &["call"]), &["j"]),
        node("b", approve(&[], &["call"]), &["j"]),
        node("slow", Does::Slow(50), &["n"]),
        node("n", Does::Say(false), &["j"]).text("meanwhile "),
        node("j", Does::Say(false), &[]).text("{a@out}{b@out}"),
    ]);
    let turns = [
        asking("q"),
        // It could be meant for both, so it is for neither.
        given(json!({"call": "approve"})),
        given(json!({"b": {"call": 2}})),
        given(json!({"call": 1})),
    ];
    let ran = hold(&plan, turns).await;
    assert_eq!(said(&ran), ["meanwhile ", "", "", "call=1;call=2;"]);
    assert_eq!(ran[1].started(), Vec::<&str>::new());
    assert_eq!((ran[2].started(), ran[3].started()), (vec!["b"], vec!["a", "j"]));
}

fn rounds(parallelism: usize) -> Arc<Plan> {
    plan(&[
        node("begin", Does::Echo, &["each"]),
        node("each", Does::Each(parallelism, "last@out"), &["m"]).text("{env.list}"),
        node("item", Does::Item, &["a"]).within("each"),
        node("a", approve(&[], &["call"]), &["last"]).within("each"),
        node("last", Does::Echo, &[]).within("each").text("{item@item}:{a@out}"),
        node("m", Does::Say(false), &[]).text("{each@all}"),
    ])
}

#[tokio::test]
async fn parallel_rounds_are_answered_by_their_index() {
    let plan = rounds(2);
    let both = given(json!({"a[1]": {"call": "B"}, "a[0]": {"call": "A"}}));
    let ran = hold(&plan, [asking("q"), both]).await;
    assert_eq!(asked(&ran[0]), [("a[0]".to_owned(), vec!["call"]), ("a[1]".to_owned(), vec!["call"])]);
    assert_eq!(ran[1].report.said, r#"["a:call=A;","b:call=B;"]"#);
    // The later one first; then by the node's id, which is enough if only one is left.
    let turns = [asking("q"), given(json!({"a[1]": {"call": "B"}})), given(json!({"a": {"call": "A"}}))];
    let ran = hold(&plan, turns).await;
    assert_eq!(asked(&ran[1]), [("a[0]".to_owned(), vec!["call"])]);
    assert_eq!(ran[2].report.said, r#"["a:call=A;","b:call=B;"]"#);
    // The node's id alone answers one round, the first that asks; a bare field answers none of several.
    let turns =
        [asking("q"), given(json!({"call": 0})), given(json!({"a": {"call": 1}})), given(json!({"call": 2}))];
    let ran = hold(&plan, turns).await;
    assert_eq!(ran.iter().map(|ran| asked(ran).len()).collect::<Vec<_>>(), [2, 2, 1, 0]);
    assert_eq!(ran[3].report.said, r#"["a:call=1;","b:call=2;"]"#);
}

/// Sequential rounds ask with the same key: an answer is for the question asked, not for a later one.
#[tokio::test]
async fn an_answer_never_applies_to_a_later_question() {
    let ran =
        hold(&rounds(1), [asking("q"), given(json!({"a": {"call": 1}})), given(json!({"a": {"call": 2}}))])
            .await;
    assert_eq!(ran.iter().map(asked).collect::<Vec<_>>()[1], [("a[1]".to_owned(), vec!["call"])]);
    assert_eq!(ran[2].report.said, r#"["a:call=1;","b:call=2;"]"#);
    // Nor an answer that came with the question itself.
    let mut ahead = given(json!({"a": {"call": "approve"}}));
    ahead.query = "q".to_owned();
    let ran = hold(&plan(&one(approve(&[], &["call"]))), [ahead]).await;
    assert_eq!(ran[0].report.ending, Ending::Waiting);
}

#[tokio::test]
async fn forms_in_parallel_rounds_are_addressable() {
    let plan = plan(&[
        node("begin", Does::Echo, &["each"]),
        node("each", Does::Each(2, "ask@ok"), &["m"]).text("{env.list}"),
        node("item", Does::Item, &["ask"]).within("each"),
        node("ask", Does::Ask(vec!["ok"]), &[]).within("each"),
        node("m", Does::Say(false), &[]).text("{each@all}"),
    ]);
    let both = given(json!({"ask[0]": {"ok": 1}, "ask[1]": {"ok": 2}}));
    let ran = hold(&plan, [asking("q"), both]).await;
    assert_eq!(ran[1].report.said, "[1,2]");
}

#[tokio::test]
async fn in_a_loop_each_round_asks_and_leaving_drops_the_question() {
    let plan = plan(&[
        node("begin", Does::Echo, &["loop"]),
        node("loop", Does::Repeat, &["m"]),
        node("start", Does::Until(2), &["a"]).within("loop"),
        node("a", approve(&[], &["call"]), &["t"]).within("loop"),
        node("t", Does::Say(false), &[]).within("loop").text("{a@out} "),
        node("m", Does::Say(false), &[]).text("done"),
    ]);
    let turns = [asking("q"), given(json!({"a[0]": {"call": 1}})), given(json!({"a": {"call": 2}}))];
    let ran = hold(&plan, turns).await;
    assert_eq!(said(&ran), ["", "call=1; ", "call=2; done"]);
    let left = crate::kit::plan(&[
        node("begin", Does::Echo, &["loop"]),
        node("loop", Does::Repeat, &["m"]),
        node("start", Does::Until(9), &["a", "wait"]).within("loop"),
        node("a", approve(&[], &["call"]), &[]).within("loop"),
        node("wait", Does::Ask(vec!["ok"]), &["out"]).within("loop"),
        node("out", Does::Leave, &[]).within("loop"),
        node("m", Does::Say(false), &[]).text("left"),
    ]);
    let ran = hold(&left, [asking("q"), given(json!({"wait": {"ok": 1}}))]).await;
    assert_eq!((ran[0].report.forms.len(), ran[1].report.said.as_str()), (2, "left"));
}

/// In a cycle it may be activated again while it still waits: then it runs once more afterwards.
#[tokio::test]
async fn an_activation_that_arrives_while_a_node_waits_is_not_lost() {
    let plan = plan(&[
        node("begin", Does::Echo, &["head"]),
        node("head", Does::Echo, &["a", "s"]),
        node("s", choose(&["head", "m"], |n, _| if n == 0 { vec!["head"] } else { vec!["m"] }), &[]),
        node("a", approve(&[], &["call"]), &["t"]),
        node("t", Does::Say(false), &[]).text("{a@out}"),
        node("m", Does::Say(false), &[]).text("m "),
    ]);
    let ran = hold(&plan, [asking("q"), given(json!({"call": 1})), given(json!({"call": 2}))]).await;
    // The successor waits for the newer result, as behind every node that runs again.
    assert_eq!(said(&ran), ["m ", "", "call=2;"]);
    assert_eq!((ran[1].ended(), ran[1].report.ending), (vec!["a"], Ending::Waiting));
    assert_eq!((ran[2].ended(), ran[2].report.ending), (vec!["a", "t"], Ending::Succeeded));
}

/// A message shows the text so far, waits with the node that it reads, and continues where it was.
#[tokio::test(start_paused = true)]
async fn a_message_behind_a_suspended_stream_shows_everything_once() {
    let plan = plan(&[
        node("begin", Does::Echo, &["a"]),
        node("a", approve(&["Let me ", "see. "], &["call"]), &["m"]),
        node("m", Does::Say(true), &["n"]).text("So: {a@out}!"),
        node("n", Does::Echo, &[]).text("{m@content}"),
    ]);
    let ran = hold(&plan, [asking("q"), given(json!({"call": "ok"}))]).await;
    assert_eq!(said(&ran), ["So: Let me see. ", "call=ok;!"]);
    assert_eq!(
        ran[0].log()[2..],
        [
            "start a",
            "start m",
            "say m \"So: \"",
            "say m \"Let me \"",
            "say m \"see. \"",
            "said m",
            "asleep a",
            "asleep m",
            "wait 1",
            "waiting"
        ]
    );
    assert_eq!(
        ran[1].log(),
        [
            "start a",
            "start m",
            "say m \"call=ok;\"",
            "say m \"!\"",
            "said m",
            "end a",
            "end m",
            "start n",
            "end n",
            "succeeded"
        ]
    );
    // Every reader of the message reads all of it.
    assert_eq!(ran[1].output("n", "out"), "So: Let me see. call=ok;!");
}

/// Two nodes feed one message; they wait and resume in either order.
#[tokio::test(start_paused = true)]
async fn a_message_of_two_suspended_streams_keeps_its_text_order() {
    let plan = plan(&[
        node("begin", Does::Echo, &["a", "b", "s"]),
        node("a", approve(&["a1 "], &["one"]), &["m"]),
        node("b", approve(&["b1 "], &["two"]), &["m"]),
        node("s", Does::Stream(vec!["s1 ", "s2 "], 10), &["m"]),
        node("m", Does::Say(true), &[]).text("{s@out}{a@out}{b@out}"),
    ]);
    let check = async |first: &str, second: &str, expected: [&str; 3]| {
        let turns = [asking("q"), given(json!({first: 1})), given(json!({second: 1}))];
        let ran = hold(&plan, turns).await;
        assert_eq!(said(&ran), expected, "{first}");
        assert_eq!(ran[2].output("m", "content"), "s1 s2 a1 one=1;b1 two=1;");
    };
    // It restarts when both are running.
    check("one", "two", ["s1 s2 a1 ", "", "one=1;b1 two=1;"]).await;
    check("two", "one", ["s1 s2 a1 ", "", "one=1;b1 two=1;"]).await;
}

/// A message whose chosen text does not refer to the node does not wait for it.
#[tokio::test(start_paused = true)]
async fn a_message_that_reads_other_outputs_finishes() {
    let plan = plan(&[
        node("begin", Does::Echo, &["a", "x"]),
        node("x", Does::Slow(1), &["m"]).text("X"),
        node("a", approve(&["Let me "], &["call"]), &["m"]),
        node("m", Does::Say(true), &[]).text("{x@out}").text("{a@out}"),
    ]);
    let (mut other, mut own) = (0, 0);
    for seed in 0..8 {
        let engine = Engine::new(crate::kit::seams(), None, EngineLimits::default());
        let mut start = crate::kit::turn(&plan, asking("q"));
        start.seed = Some(seed);
        let (_, first, state) =
            engine.run_unstored(start, SessionState::new(&plan), Vec::new()).await.unwrap();
        let second = go_on(&plan, state, given(json!({"call": 1})), EngineLimits::default()).await;
        assert_eq!(second.report.ending, Ending::Succeeded);
        match (first.said.as_str(), second.report.said.as_str()) {
            ("X", "") => other += 1,
            ("Let me ", "call=1;") => own += 1,
            said => panic!("{said:?}"),
        }
    }
    assert!(other > 0 && own > 0, "{other} {own}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_or_is_cancelled_drops_its_open_questions() {
    let plan = plan(&[
        node("begin", Does::Echo, &["a", "slow"]),
        node("a", approve(&["x"], &["call"]), &["m"]),
        node("m", Does::Say(true), &[]).text("{a@out}"),
        node("slow", Does::Slow(50), &["bad"]),
        node("bad", Does::Fail(ErrorKind::Invalid), &[]),
    ]);
    let ran = hold(&plan, [asking("q")]).await;
    assert_eq!((ran[0].report.ending, ran[0].report.forms.len()), (Ending::Failed, 0));
    assert!(ran[0].state.paused.is_none());
}

/// Cancelled at any moment, also between the question and its readers, a run closes what it started; once it
/// waits there is nothing to cancel, and it resumes from the store.
#[tokio::test(start_paused = true)]
async fn a_run_cancelled_while_suspending_drops_its_question() {
    let plan = plan(&[
        node("begin", Does::Echo, &["a", "s"]),
        node("a", approve(&["x ", "y "], &["call"]), &["m"]),
        node("s", Does::Stream(vec!["1 ", "2 "], 2), &["m"]),
        node("m", Does::Say(true), &[]).text("{a@out}{s@out}"),
    ]);
    for moment in 1..100 {
        let store = Arc::new(MemoryStore::default());
        let stores = crate::branches::stored(&store, &plan).await;
        let engine = Engine::new(crate::kit::seams(), Some(stores), EngineLimits::default());
        let mut handle = engine.start(crate::kit::turn(&plan, asking("q"))).await.unwrap();
        let (mut seen, mut open) = (0, 0);
        while let Some(entry) = handle.entries.next().await.unwrap() {
            seen += 1;
            if seen == moment {
                handle.cancel.cancel();
            }
            open += i32::from(matches!(entry.record, Record::NodeStarted { .. }));
            open -= i32::from(matches!(entry.record, Record::NodeFinished { .. }));
        }
        assert_eq!(open, 0, "stopped at {moment}");
        let ending = store.get(&handle.key).await.unwrap().ending;
        let mut next = engine.start(crate::kit::turn(&plan, given(json!({"call": "ok"})))).await.unwrap();
        let mut said = String::new();
        while let Some(entry) = next.entries.next().await.unwrap() {
            if let Record::Said { text, .. } = &entry.record {
                said.push_str(text);
            }
        }
        if ending == Some(Ending::Waiting) {
            assert!(moment > 5 && said == "call=ok;1 2 ", "{moment}: {said}");
            return;
        }
        assert_eq!((ending, said.as_str()), (Some(Ending::Cancelled), "x y "), "a separate turn");
    }
    panic!("it never reached its question");
}

#[tokio::test]
async fn the_state_of_a_suspended_node_is_limited() {
    let plan = plan(&one(approve(&["x"], &["a task whose name is far too long for this"])));
    let limits = EngineLimits { output_bytes: 40, ..EngineLimits::default() };
    let ran = go_on(&plan, SessionState::new(&plan), asking("q"), limits).await;
    assert_eq!(ran.report.ending, Ending::Failed);
    assert!(ran.report.error.unwrap().message.contains("larger than 40 bytes"));
}

/// Usage stays counted, however many times a run waits.
#[tokio::test]
async fn the_budget_continues_after_a_suspension() {
    let plan = plan(&[
        node("begin", Does::Echo, &["one"]),
        node("one", Does::Spend(2), &["a"]),
        node("a", approve(&[], &["call"]), &["two"]),
        node("two", Does::Spend(2), &[]),
    ]);
    let check = async |max: u64, expected: Ending| {
        let budget = BudgetLimits { tool_calls: Some(max), ..BudgetLimits::default() };
        let limits = EngineLimits { budget, ..EngineLimits::default() };
        let first = go_on(&plan, SessionState::new(&plan), asking("q"), limits).await;
        assert_eq!(first.report.ending, Ending::Waiting);
        let second = go_on(&plan, first.state, given(json!({"call": 1})), limits).await;
        assert_eq!(second.report.ending, expected, "{max}");
    };
    check(4, Ending::Succeeded).await;
    check(3, Ending::Failed).await;
}

/// A state written before suspensions existed.
#[tokio::test]
async fn a_suspension_of_an_older_version_resumes() {
    let plan = plan(&[
        node("begin", Does::Echo, &["ask"]),
        node("ask", Does::Ask(vec!["ok"]), &["m"]),
        node("m", Does::Say(false), &[]).text("{ask@ok}"),
    ]);
    let first = go_on(&plan, SessionState::new(&plan), asking("q"), EngineLimits::default()).await;
    let mut json = first.state.to_json().unwrap();
    assert!(!json.to_string().contains("asleep"), "nothing unneeded is stored");
    json["paused"]["format"] = json!(1);
    let ran =
        go_on(&plan, SessionState::from_json(&json).unwrap(), asking("yes"), EngineLimits::default()).await;
    assert_eq!(ran.report.said, "yes");
}
