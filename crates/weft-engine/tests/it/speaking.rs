//! Messages that are written at the same time: one is streamed, the others are held back and then shown whole.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use weft_core::Entry;
use weft_core::journal::{Ending, Record};
use weft_core::seam::RunStore as _;
use weft_core::{ErrorKind, TurnInput};
use weft_engine::engine::PickedUp;
use weft_engine::{EngineLimits, SessionState};
use weft_models::script::{Fault, Reply, Script, Step};
use weft_testkit::fake_http::FakeHttp;

use crate::golden::{read, samples};
use crate::kit::{Does, Node, Ran, asking, choose, go_on, node, plan, run, run_with};
use crate::real::{World, compiled};
use crate::survival;

fn side_by_side() -> Vec<Node> {
    vec![
        node("begin", Does::Echo, &["a", "b"]),
        node("a", Does::Stream(vec!["1", "2", "3"], 20), &["ma"]),
        node("b", Does::Stream(vec!["4", "5", "6"], 30), &["mb"]),
        node("ma", Does::Say(true), &[]).text("<A {a@out}>"),
        node("mb", Does::Say(true), &[]).text("<B {b@out}>"),
    ]
}

/// What is shown and which nodes end, in order.
fn told(ran: &Ran) -> Vec<String> {
    let log = ran.log().into_iter();
    log.filter(|line| ["say", "said", "end", "error"].iter().any(|word| line.starts_with(word))).collect()
}

#[tokio::test(start_paused = true)]
async fn the_first_stream_is_shown_live_and_the_second_whole_afterwards() {
    let ran = run(&side_by_side()).await;
    assert_eq!(ran.report.said, "<A 123><B 456>");
    assert_eq!(
        (ran.output("ma", "content"), ran.output("mb", "content")),
        (json!("<A 123>"), json!("<B 456>"))
    );
    let log = told(&ran);
    let place = |line: &str| log.iter().position(|l| l == line).unwrap();
    // A held back stream continues chunk by chunk as soon as it may.
    assert!(place("said ma") < place("say mb \"<B \"") && place("say mb \"5\"") < place("say mb \"6\""));
    assert!(place("said mb") < place("end b"), "it is shown while it is written: {log:?}");
}

#[tokio::test(start_paused = true)]
async fn the_message_that_writes_first_is_shown_first() {
    let ran = run(&[
        node("begin", Does::Echo, &["slow", "fast"]),
        node("slow", Does::Stream(vec!["1", "2"], 50), &["ms"]),
        node("fast", Does::Stream(vec!["~hm", "3", "4"], 30), &["mf"]),
        node("ms", Does::Say(true), &[]).text("{slow@out}"),
        node("mf", Does::Say(true), &[]).text("{fast@out}"),
    ])
    .await;
    assert_eq!(ran.report.said, "3412");
}

#[tokio::test(start_paused = true)]
async fn parallel_rounds_show_their_messages_one_after_the_other() {
    let plan = plan(&[
        node("begin", Does::Echo, &["each"]),
        node("each", Does::Each(3, "last@out"), &["m"]).text("{env.list}"),
        node("item", Does::Item, &["llm"]).within("each"),
        node("llm", Does::Stream(vec!["x", "y"], 10), &["t"]).within("each"),
        node("t", Does::Say(true), &["last"]).within("each").text("[{item@item}:{llm@out}]"),
        node("last", Does::Echo, &[]).within("each").text("{t@content}"),
        node("m", Does::Say(true), &[]).text("{each@all}"),
    ]);
    let mut state = SessionState::new(&plan);
    state.globals.insert("env.list".to_owned(), json!(["a", "b", "c"]));
    let ran = go_on(&plan, state, asking("q"), EngineLimits::default()).await;
    assert_eq!(ran.report.said, r#"[a:xy][b:xy][c:xy]["[a:xy]","[b:xy]","[c:xy]"]"#);
}

/// A client that can show several messages may receive all of them at once; the stored text still has one after
/// the other.
#[tokio::test(start_paused = true)]
async fn messages_are_interleaved_on_request() {
    let input = TurnInput { parallel_messages: true, ..asking("q") };
    let ran = run_with(&side_by_side(), input, EngineLimits::default()).await;
    let log = told(&ran);
    let place = |line: &str| log.iter().position(|l| l == line).unwrap();
    assert!(place("say mb \"4\"") < place("say ma \"2\"") && place("say ma \"2\"") < place("say mb \"5\""));
    assert_eq!(ran.report.said, "<A 123><B 456>");
}

/// Nodes after the producer of a held back message do not wait for the message.
#[tokio::test(start_paused = true)]
async fn a_held_back_message_delays_no_work() {
    let mut nodes = side_by_side();
    nodes[2] = node("b", Does::Stream(vec!["4", "5", "6"], 1), &["mb", "next"]);
    nodes.push(node("next", Does::Echo, &[]).text("{b@out}"));
    let ran = run(&nodes).await;
    let log = ran.log();
    let place = |line: &str| log.iter().position(|l| l == line).unwrap();
    assert!(place("end next") < place("said ma") && place("end b") < place("said ma"), "{log:?}");
    assert_eq!((ran.report.said.as_str(), ran.output("next", "out")), ("<A 123><B 456>", json!("456")));
}

/// Two messages that read the same two models in opposite order wait neither for each other nor for the end of
/// the models.
#[tokio::test(start_paused = true)]
async fn two_readers_of_the_same_models_in_opposite_order() {
    let ran = run(&[
        node("begin", Does::Echo, &["a", "b"]),
        node("a", Does::Stream(vec!["1", "2"], 10), &["ma", "mb"]),
        node("b", Does::Stream(vec!["3", "4"], 25), &["ma", "mb"]),
        node("ma", Does::Say(true), &["join"]).text("{a@out}{b@out}{a@count}{b@count};"),
        node("mb", Does::Say(true), &["join"]).text("{b@count}{b@out}{a@out};"),
        node("join", Does::Say(false), &[]).text("{ma@content} {mb@content}"),
    ])
    .await;
    assert_eq!(ran.report.said, "123422;23412;123422; 23412;");
}

#[tokio::test(start_paused = true)]
async fn a_model_finishes_after_the_first_of_its_readers() {
    let ran = run(&[
        node("begin", Does::Echo, &["llm"]),
        node("llm", Does::Stream(vec!["a", "b"], 10), &["m", "n", "o"]),
        node("m", Does::Say(true), &[]).text("{llm@out}"),
        node("n", Does::Say(true), &[]).text("{llm@out}"),
        node("o", Does::Say(true), &[]).text("{llm@out}"),
    ])
    .await;
    let log = told(&ran);
    let place = |line: &str| log.iter().position(|l| l == line).unwrap();
    assert_eq!(ran.report.said, "ababab");
    assert!(place("said m") < place("end llm") && place("end llm") < place("say n \"a\""), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn unstreamed_texts_wait_for_their_turn_too() {
    let mut nodes = side_by_side();
    nodes[0] = node("begin", Does::Echo, &["a", "b", "whole", "empty", "bad"]);
    nodes.push(node("whole", Does::Slow(30), &["mw"]));
    nodes.push(node("mw", Does::Say(false), &[]).text("<W>"));
    // The end of an empty message is not part of another message.
    nodes.push(node("empty", Does::Slow(35), &["me"]));
    nodes.push(node("me", Does::Say(false), &[]).text(""));
    nodes.push(node("bad", Does::FailAfter(40), &["after"]).on_error(&[], Some(json!("sorry"))));
    nodes.push(node("after", Does::Echo, &[]));
    let ran = run(&nodes).await;
    assert_eq!(ran.report.said, "<A 123><B 456><W>sorry");
    let log = told(&ran);
    let place = |line: &str| log.iter().position(|l| l == line).unwrap();
    assert!(place("said mb") < place("said me") && place("said me") < place("say bad \"sorry\""), "{log:?}");
    assert_eq!(ran.report.ending, Ending::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_makes_room_and_a_held_back_one_fails_at_once() {
    let mut nodes = side_by_side();
    nodes[3] =
        node("ma", Does::Say(true), &[]).text("<A {a@out}>").limit(std::time::Duration::from_millis(30));
    nodes[3] = nodes[3].clone().on_error(&[], Some(json!("!")));
    let ran = run(&nodes).await;
    assert_eq!((ran.report.ending, ran.report.said.as_str()), (Ending::Succeeded, "<A 1!<B 456>"));

    // A failure behind a held back message ends the run, whichever message is being shown.
    let mut nodes = side_by_side();
    nodes[2] = node("b", Does::StreamThenFail(vec!["4"]), &["mb"]);
    let ran = run(&nodes).await;
    assert_eq!((ran.report.ending, ran.report.said.as_str()), (Ending::Failed, "<A "));
    assert!(ran.report.error.unwrap().message.starts_with("b failed"));
}

#[tokio::test(start_paused = true)]
async fn leaving_a_frame_drops_its_current_and_held_back_messages() {
    let nodes = |leave_after: u64| {
        vec![
            node("begin", Does::Echo, &["loop", "b"]),
            node("loop", Does::Repeat, &["done"]),
            node("start", Does::Until(9), &["a", "wait"]).within("loop"),
            node("a", Does::Stream(vec!["1", "2", "3"], 20), &["ma"]).within("loop"),
            node("ma", Does::Say(true), &[]).within("loop").text("<A {a@out}>"),
            node("wait", Does::Slow(leave_after), &["leave"]).within("loop"),
            node("leave", Does::Leave, &[]).within("loop"),
            node("b", Does::Stream(vec!["4", "5", "6"], 30), &["mb"]),
            node("mb", Does::Say(true), &[]).text("{b@out}"),
            node("done", Does::Say(true), &[]).text("."),
        ]
    };
    assert_eq!(run(&nodes(35)).await.report.said, "<A 1456.");
    // The frame is left while it is held back.
    let mut held_back = nodes(70);
    held_back[3] = node("a", Does::Stream(vec!["1", "2", "3"], 40), &["ma"]).within("loop");
    held_back[4] = node("ma", Does::Say(true), &[]).within("loop").text("{a@out}>");
    assert_eq!(run(&held_back).await.report.said, "456.");
}

/// A streaming message that suspends makes room; after it resumes, the rest of its message is shown.
#[tokio::test(start_paused = true)]
async fn a_suspended_message_makes_room() {
    let nodes = [
        node("begin", Does::Echo, &["a", "b"]),
        node("a", Does::Approve(vec!["1", "2"], vec!["call"]), &["ma"]),
        node("ma", Does::Say(true), &[]).text("<A {a@out}>"),
        node("b", Does::Stream(vec!["4", "5"], 10), &["mb"]),
        node("mb", Does::Say(true), &[]).text("<B {b@out}>"),
    ];
    let plan = plan(&nodes);
    let state = SessionState::new(&plan);
    let first = go_on(&plan, state, asking("q"), EngineLimits::default()).await;
    assert_eq!((first.report.ending, first.report.said.as_str()), (Ending::Waiting, "<A 12<B 45>"));
    let Json::Object(inputs) = json!({"call": "yes"}) else { panic!() };
    let given = TurnInput { inputs, ..TurnInput::default() };
    let second = go_on(&plan, first.state, given, EngineLimits::default()).await;
    assert_eq!(second.report.said, "call=yes;>");
    assert_eq!(second.output("ma", "content"), "<A 12call=yes;>");
}

/// A message that is held back behind a stream that suspends.
#[tokio::test(start_paused = true)]
async fn a_held_back_message_may_wait_for_a_person_too() {
    let nodes = [
        node("begin", Does::Echo, &["b", "a"]),
        node("b", Does::Stream(vec!["4", "5"], 10), &["mb"]),
        node("mb", Does::Say(true), &[]).text("<B {b@out}>"),
        node("a", Does::Approve(vec!["1"], vec!["call"]), &["ma"]),
        node("ma", Does::Say(true), &[]).text("<A {a@out}>"),
    ];
    let plan = plan(&nodes);
    let first = go_on(&plan, SessionState::new(&plan), asking("q"), EngineLimits::default()).await;
    assert_eq!((first.report.ending, first.report.said.as_str()), (Ending::Waiting, "<B 45><A 1"));
    let Json::Object(inputs) = json!({"call": "yes"}) else { panic!() };
    let given = TurnInput { inputs, ..TurnInput::default() };
    let second = go_on(&plan, first.state, given, EngineLimits::default()).await;
    assert_eq!((second.report.ending, second.report.said.as_str()), (Ending::Succeeded, "call=yes;>"));
}

#[tokio::test(start_paused = true)]
async fn a_message_waits_at_a_reference_that_is_not_ready() {
    let ran = run(&[
        node("begin", Does::Echo, &["llm"]),
        node("llm", Does::Stream(vec!["a", "b"], 10), &["m", "n"]),
        node("m", Does::Say(true), &[]).text("<{llm@count}> <{llm@out}> <{llm@count}>{llm@none}{llm@out.x}"),
        node("n", Does::Say(true), &[]).text("|{llm@out} {llm@count}"),
    ])
    .await;
    assert_eq!(ran.report.said, "<2> <ab> <2>|ab 2");
    // Events contain what it read, in its own type.
    let inputs = ran.records.iter().find_map(|record| match record {
        Record::NodeFinished { who, inputs, .. } if who.node.as_str() == "m" => Some(inputs),
        _ => None,
    });
    let inputs = inputs.unwrap();
    assert_eq!(inputs.get("llm@count").and_then(|value| value.as_json().cloned()), Some(json!(2)));
    let log = told(&ran);
    let place = |line: &str| log.iter().position(|l| l == line).unwrap();
    assert!(place("say m \"<\"") < place("say m \"2\"") && place("said m") < place("end llm"), "{log:?}");
}

/// In a loop, an output that is not ready yet is not taken from the previous pass.
#[tokio::test(start_paused = true)]
async fn in_a_loop_other_outputs_come_from_the_same_pass() {
    let ran = run(&[
        node("begin", Does::Echo, &["llm"]),
        node("llm", Does::Numbered, &["m"]),
        node("m", Does::Say(true), &["again"]).text("{llm@out}{llm@count} "),
        node("again", choose(&["llm", "done"], |count, _| vec![if count < 2 { "llm" } else { "done" }]), &[]),
        node("done", Does::Echo, &[]),
    ])
    .await;
    assert_eq!(ran.report.said, "x1 x2 x3 ");
}

#[tokio::test(start_paused = true)]
async fn a_message_fails_at_a_reference_that_never_becomes_ready() {
    let nodes = |llm: Node| {
        vec![
            node("begin", Does::Echo, &["llm"]),
            llm,
            node("m", Does::Say(true), &[]).text("a{llm@count}b{llm@out}"),
        ]
    };
    let ran = run(&nodes(node("llm", Does::StreamThenFail(vec!["par"]), &["m"]))).await;
    assert_eq!((ran.report.ending, ran.report.said.as_str()), (Ending::Failed, "a"));
    assert!(ran.report.error.unwrap().message.starts_with("llm failed: the model went away"));
    // A default value replaces the main output; the others are empty.
    let caught = node("llm", Does::StreamThenFail(vec!["par"]), &["m"]).on_error(&[], Some(json!("!")));
    let ran = run(&nodes(caught)).await;
    assert_eq!((ran.report.ending, ran.report.said.as_str()), (Ending::Succeeded, "abpar!"));
}

/// The default value of a node is shown once, however far behind it the Message is.
#[tokio::test]
async fn a_default_value_is_shown_once() {
    let check = async |between: Vec<Node>, expected: &str| {
        let mut nodes = vec![
            node("begin", Does::Echo, &["bad"]),
            node("bad", Does::Fail(ErrorKind::Invalid), &["x"]).on_error(&[], Some(json!("sorry"))),
        ];
        nodes.extend(between);
        assert_eq!(run(&nodes).await.report.said, expected);
    };
    let message = || node("m", Does::Say(true), &[]).text("{x@out}!");
    check(vec![node("x", Does::Echo, &["m"]).text("{bad@out}"), message()], "sorry!").await;
    let far = vec![
        node("x", Does::Echo, &["y"]).text("{bad@out}"),
        node("y", choose(&["z", "m"], |_, _| vec!["m"]), &[]),
        node("z", Does::Echo, &[]),
        message(),
    ];
    check(far, "sorry!").await;
    check(vec![node("x", Does::Echo, &["z"]), node("z", Does::Echo, &[])], "sorry").await;
    // The Message follows the frame, or is inside a following one.
    let nodes = [
        node("begin", Does::Echo, &["loop"]),
        node("loop", Does::Repeat, &["m"]),
        node("start", Does::Until(1), &["bad"]).within("loop"),
        node("bad", Does::Fail(ErrorKind::Invalid), &[]).within("loop").on_error(&[], Some(json!("sorry"))),
        node("m", Does::Say(true), &[]).text("{bad@out}!"),
    ];
    assert_eq!(run(&nodes).await.report.said, "sorry!");
    let nodes = [
        node("begin", Does::Echo, &["bad"]),
        node("bad", Does::Fail(ErrorKind::Invalid), &["loop"]).on_error(&[], Some(json!("sorry"))),
        node("loop", Does::Repeat, &[]),
        node("start", Does::Until(1), &["m"]).within("loop"),
        node("m", Does::Say(true), &[]).within("loop").text("{bad@out}!"),
    ];
    assert_eq!(run(&nodes).await.report.said, "sorry!");
    // A Message that fails shows its own default value.
    let nodes = [
        node("begin", Does::Echo, &["m"]),
        node("m", Does::FailingMessage, &["n"]).on_error(&[], Some(json!("sorry "))),
        node("n", Does::Say(true), &[]).text("bye"),
    ];
    assert_eq!(run(&nodes).await.report.said, "sorry bye");
}

/// A broken model is retried if the Message that shows it is held back, but not if some of its text has been
/// read.
#[tokio::test(start_paused = true)]
async fn a_failed_model_without_readers_so_far_is_retried() {
    let asks = |prompt: &str| json!({"prompts": [{"role": "user", "content": prompt}]});
    let says = |text: &str| json!({"content": [text]});
    let components: [(&str, &str, Json, &[&str]); 5] = [
        ("begin", "Begin", json!({}), &["LLM:A", "LLM:B"]),
        ("LLM:A", "LLM", asks("first"), &["Message:A"]),
        ("LLM:B", "LLM", asks("second"), &["Message:B"]),
        ("Message:A", "Message", says("{LLM:A@content}"), &[]),
        ("Message:B", "Message", says("{LLM:B@content}"), &[]),
    ];
    let broken = |text: &str| Reply::text(text).then(Step::Wait(100)).then(Step::Fault(Fault::Cut));
    let slow = Reply::pieces(["Long "]).then(Step::Wait(60_000)).then(Step::Text("story. ".into()));
    let script = Script::new()
        .reply(slow.when_user("first"))
        .reply(broken("Half a").delay_ms(10).when_user("second").times(1))
        .reply(Reply::text("A whole answer.").when_user("second"));
    let ran = turn_of(&World::asked_again(script), &components).await;
    assert_eq!((ran.report.ending, &*ran.report.said), (Ending::Succeeded, "Long story. A whole answer."));
    let script = Script::new()
        .reply(Reply::text("Short. ").when_user("second"))
        .reply(broken("Half a").delay_ms(10).when_user("first").times(1))
        .reply(Reply::text("A whole answer.").when_user("first"));
    let ran = turn_of(&World::asked_again(script), &components).await;
    assert_eq!((ran.report.ending, &*ran.report.said), (Ending::Failed, "Short. Half a"));
}

/// A turn of a canvas of real components, given as `(id, type, parameters, successors)`.
async fn real(script: Script, components: &[(&str, &str, Json, &[&str])]) -> Ran {
    turn_of(&World::new(script, FakeHttp::new()), components).await
}

async fn turn_of(world: &World, components: &[(&str, &str, Json, &[&str])]) -> Ran {
    let component = |(id, kind, params, to): &(&str, &str, Json, &[&str])| {
        let id = (*id).to_owned();
        (id, json!({"obj": {"component_name": kind, "params": params}, "downstream": to}))
    };
    let components: serde_json::Map<_, _> = components.iter().map(component).collect();
    let plan = compiled(&json!({"components": components}).to_string()).unwrap();
    world.hold(&plan, [asking("q")]).await.remove(0)
}

#[tokio::test]
async fn a_message_after_an_agent_reads_its_other_outputs() {
    let ran = real(
        Script::new().reply(Reply::pieces(["It ", "rains."])),
        &[
            ("begin", "Begin", json!({}), &["Agent:W"]),
            ("Agent:W", "Agent", json!({"tools": ["Calculator"]}), &["Message:M"]),
            (
                "Message:M",
                "Message",
                json!({"content": ["({Agent:W@stop_reason}) {Agent:W@content} {Agent:W@stop_reason}"]}),
                &[],
            ),
        ],
    )
    .await;
    assert_eq!(ran.report.said, "(completed) It rains. completed");
}

fn failing() -> Script {
    Script::new().reply(Reply::error(ErrorKind::Invalid, "no").always())
}

#[tokio::test]
async fn a_default_value_is_shown_once_after_an_aggregator() {
    let asks = json!({"exception_method": "comment", "exception_default_value": "Closed today."});
    let group = json!([{"group_name": "g", "variables": [{"value": "LLM:W@content"}]}]);
    let ran = real(
        failing(),
        &[
            ("begin", "Begin", json!({}), &["LLM:W"]),
            ("LLM:W", "LLM", asks, &["VariableAggregator:V"]),
            ("VariableAggregator:V", "VariableAggregator", json!({"groups": group}), &["Message:M"]),
            ("Message:M", "Message", json!({"content": ["{VariableAggregator:V@g}"]}), &[]),
        ],
    )
    .await;
    assert_eq!((ran.report.ending, ran.report.said.as_str()), (Ending::Succeeded, "Closed today."));
}

/// Any value may be a default: none triggers a special meaning.
#[tokio::test]
async fn zero_false_and_an_empty_list_are_default_values() {
    for (default, text) in [(json!(0), "0"), (json!(false), "false"), (json!([]), "[]"), (json!({}), "{}")] {
        let asks = json!({"exception_method": "comment", "exception_default_value": default,
            "exception_goto": ["Message:Elsewhere"]});
        let ran = real(
            failing(),
            &[
                ("begin", "Begin", json!({}), &["LLM:W"]),
                ("LLM:W", "LLM", asks, &["Message:M"]),
                ("Message:M", "Message", json!({"content": ["<{LLM:W@content}>"]}), &[]),
                ("Message:Elsewhere", "Message", json!({"content": ["never"]}), &[]),
            ],
        )
        .await;
        assert_eq!((ran.report.ending, ran.report.said.clone()), (Ending::Succeeded, format!("<{text}>")));
        assert_eq!(ran.output("LLM:W", "content"), default);
    }
}

/// Leftovers of an earlier choice in the editor have no effect.
#[tokio::test]
async fn a_branch_that_is_not_chosen_does_not_stop_streaming() {
    let asks = json!({"exception_method": "comment", "exception_default_value": "x", "exception_goto": ["Message:M"]});
    let ran = real(
        Script::new().reply(Reply::pieces(["a", "b"])),
        &[
            ("begin", "Begin", json!({}), &["LLM:W"]),
            ("LLM:W", "LLM", asks, &["Message:M"]),
            ("Message:M", "Message", json!({"content": ["{LLM:W@content}"]}), &[]),
        ],
    )
    .await;
    let log = ran.log();
    let place = |line: &str| log.iter().position(|l| l == line).unwrap();
    assert!(
        place("say Message:M \"a\"") < place("end LLM:W")
            && place("say Message:M \"b\"") < place("end LLM:W")
    );
}

#[tokio::test]
async fn the_default_value_of_a_program_fills_its_declared_outputs() {
    let program = json!({"lang": "javascript", "script": "function main() { throw new Error('no') }",
        "outputs": {"sum": {"type": "Number"}}, "exception_method": "comment", "exception_default_value": 12});
    let ran = real(
        Script::new(),
        &[
            ("begin", "Begin", json!({}), &["CodeExec:P"]),
            ("CodeExec:P", "CodeExec", program, &["Message:M"]),
            ("Message:M", "Message", json!({"content": ["sum {CodeExec:P@sum}"]}), &[]),
        ],
    )
    .await;
    assert_eq!(ran.report.said, "sum 12");
}

/// Two messages that start with the text of their models. The critic is ready while the poet is streaming.
async fn poet_and_critic() -> survival::World {
    let folder = samples().join("two_messages");
    let canvas =
        read(&folder.join("canvas.json")).unwrap().replace("\"Poet: ", "\"").replace("\"Critic: ", "\"");
    let says =
        |who: &str, pieces: &[&str], ms| Reply::pieces(pieces.iter().copied()).when_system(who).delay_ms(ms);
    let poet = says("poet", &["Rain ", "on the ", "roof."], 5);
    let script = Script::new().reply(poet).reply(says("critic", &["Too ", "short."], 6));
    survival::World::of(&folder, &canvas, script).await
}

/// The message that was shown last in a journal and has not ended.
fn speaker(entries: &[Entry]) -> Option<&str> {
    entries.iter().fold(None, |speaker, entry| match &entry.record {
        Record::Said { node, .. } => Some(node.as_str()),
        Record::NodeFinished { who, .. } if speaker == Some(who.node.as_str()) => None,
        _ => speaker,
    })
}

/// The message that was shown when a run was interrupted is shown first after recovery, although the other one
/// is ready sooner.
#[test]
fn after_recovery_the_interrupted_message_is_shown_first() {
    let whole = survival::runtime().block_on(async { poet_and_critic().await.hold(&asking("rain")).await });
    let mut spoke = Vec::new();
    for cut in 5..whole.len() as u64 - 1 {
        let (world, key) = survival::runtime().block_on(async {
            let world = poet_and_critic().await;
            world.cut_at(Some(cut));
            let handle = world.engine().start(crate::kit::turn(&world.plan, asking("rain"))).await.unwrap();
            world.store.stalled.notified().await;
            (world, handle.key)
        });
        survival::runtime().block_on(async {
            world.cut_at(None);
            let before = world.journal(&key).await;
            let run = world.store.get(&key).await.unwrap();
            if let PickedUp::Running(mut handle) =
                world.engine().pick_up(&run, Arc::clone(&world.plan)).await.unwrap()
            {
                while handle.entries.next().await.unwrap().is_some() {}
            }
            let entries = world.journal(&key).await;
            let after = &entries[before.len()..];
            let first = after.iter().find_map(|entry| match &entry.record {
                Record::Said { node, .. } => Some(node.as_str()),
                _ => None,
            });
            if let Some(speaker) = speaker(&before) {
                assert_eq!(first, Some(speaker), "cut after {cut}");
                spoke.push(speaker.to_owned());
            }
        });
    }
    assert!(["Message:Poet", "Message:Critic"].iter().all(|who| spoke.iter().any(|spoke| spoke == who)));
}
