//! Human tasks: row 10 of the scheduling table.

use serde_json::json;
use weft_core::journal::{Ending, Record};
use weft_core::{AssignOperator, TurnInput};
use weft_engine::SessionState;

use crate::kit::{Does, Node, asking, go_on, node, plan};

fn filled(inputs: &serde_json::Value) -> TurnInput {
    TurnInput { inputs: inputs.as_object().unwrap().clone(), ..TurnInput::default() }
}

/// The state as another process reads it: through text.
fn elsewhere(state: &SessionState) -> SessionState {
    let text = serde_json::to_string(&state.to_json().unwrap()).unwrap();
    SessionState::from_json(&serde_json::from_str(&text).unwrap()).unwrap()
}

fn ask() -> Vec<Node> {
    vec![
        node("begin", Does::Echo, &["x"]),
        node("x", Does::Echo, &["ask"]).text("draft of {sys.query}"),
        node("ask", Does::Ask(vec!["ok"]), &["m"]).text("Is {x@out} good?"),
        node("m", Does::Say(false), &[]).text("{x@out}: {ask@ok}"),
    ]
}

#[tokio::test]
async fn a_suspended_run_resumes_with_its_state() {
    let plan = plan(&ask());
    let first = go_on(&plan, SessionState::new(&plan), asking("poem"), Default::default()).await;
    assert_eq!(first.report.ending, Ending::Waiting);
    let Some(Record::Waiting { forms }) = first.records.iter().rev().nth(1) else {
        panic!("{:?}", first.log())
    };
    assert_eq!(forms[0].form.tips.as_deref(), Some("Is draft of poem good?"));
    let second =
        go_on(&plan, elsewhere(&first.state), filled(&json!({"ok": {"value": true}})), Default::default())
            .await;
    assert_eq!(second.report.ending, Ending::Succeeded);
    assert_eq!(second.report.said, "draft of poem: true");
    assert_eq!(second.started(), ["ask", "m"]);
    assert!(second.state.paused.is_none(), "consumed on resume");
    let Record::RunStarted { resumes, .. } = &second.records[0] else { panic!() };
    assert!(resumes.is_some());
}

#[tokio::test]
async fn the_turn_after_a_pause_is_an_ordinary_one() {
    let plan = plan(&ask());
    let first = go_on(&plan, SessionState::new(&plan), asking("one"), Default::default()).await;
    let second = go_on(&plan, first.state, filled(&json!({"ok": 1})), Default::default()).await;
    let third = go_on(&plan, second.state, asking("two"), Default::default()).await;
    assert_eq!(third.report.ending, Ending::Waiting);
    assert_eq!(third.started(), ["begin", "x"]);
}

#[tokio::test]
async fn missing_answers_are_requested_again() {
    let plan = plan(&[
        node("begin", Does::Echo, &["ask"]),
        node("ask", Does::Ask(vec!["a", "b"]), &["m"]),
        node("m", Does::Say(false), &[]).text("{ask@a}{ask@b}"),
    ]);
    let first = go_on(&plan, SessionState::new(&plan), asking(""), Default::default()).await;
    let second = go_on(&plan, first.state, filled(&json!({"a": 1})), Default::default()).await;
    assert_eq!(second.report.ending, Ending::Waiting);
    let tips = second.report.forms[0].form.tips.as_deref().unwrap_or_default();
    assert!(tips.contains("nothing was filled in for `b`: the form is asked again"), "{tips}");
    let third = go_on(&plan, second.state, filled(&json!({"a": 1, "b": 2})), Default::default()).await;
    assert_eq!(third.report.said, "12");
}

/// Two forms at once; each gets its own answers, and one may continue while the other waits.
#[tokio::test]
async fn several_waiting_forms_are_answered_one_by_one() {
    let plan = plan(&[
        node("begin", Does::Echo, &["p", "q"]),
        node("p", Does::Ask(vec!["ok"]), &["j"]),
        node("q", Does::Ask(vec!["ok"]), &["j"]),
        node("j", Does::Say(false), &[]).text("{p@ok}{q@ok}"),
    ]);
    let first = go_on(&plan, SessionState::new(&plan), asking(""), Default::default()).await;
    assert_eq!(first.report.forms.len(), 2);
    let second = go_on(&plan, first.state, filled(&json!({"q": {"ok": "Q"}})), Default::default()).await;
    assert_eq!((second.report.ending, second.report.forms.len()), (Ending::Waiting, 1));
    assert_eq!(second.started(), ["q"]);
    let third =
        go_on(&plan, elsewhere(&second.state), filled(&json!({"p": {"ok": "P"}})), Default::default()).await;
    assert_eq!(third.report.said, "PQ");
}

#[tokio::test]
async fn a_plain_question_answers_a_form_with_one_field() {
    let plan = plan(&ask());
    let first = go_on(&plan, SessionState::new(&plan), asking("poem"), Default::default()).await;
    let second = go_on(&plan, first.state, asking("yes"), Default::default()).await;
    assert_eq!(second.report.said, "draft of poem: yes");
}

#[tokio::test]
async fn an_assigned_question_survives_a_pause() {
    let plan = plan(&[
        node("begin", Does::Echo, &["set"]),
        node("set", Does::Assign(vec![("sys.query", AssignOperator::Set, "about {sys.query}")]), &["ask"]),
        node("ask", Does::Ask(vec!["ok"]), &["m"]),
        node("m", Does::Say(false), &[]).text("{sys.query}: {ask@ok}"),
    ]);
    let first = go_on(&plan, SessionState::new(&plan), asking("tea"), Default::default()).await;
    let second =
        go_on(&plan, elsewhere(&first.state), filled(&json!({"ok": "yes"})), Default::default()).await;
    assert_eq!(second.report.said, "about tea: yes");
    let third = go_on(&plan, second.state, asking("milk"), Default::default()).await;
    assert_eq!(third.state.globals["sys.query"], "about milk");
}

#[tokio::test]
async fn assigned_files_survive_a_pause_unless_the_answer_has_files() {
    let plan = plan(&[
        node("begin", Does::Echo, &["set"]),
        node("set", Does::Assign(vec![("sys.files", AssignOperator::RemoveFirst, "null")]), &["ask"]),
        node("ask", Does::Ask(vec!["ok"]), &["more"]),
        node("more", Does::Ask(vec!["ok"]), &["m"]),
        node("m", Does::Say(false), &[]).text("{sys.files}"),
    ]);
    let asked = TurnInput { files: vec!["one".into(), "two".into()], ..asking("tea") };
    let first = go_on(&plan, SessionState::new(&plan), asked, Default::default()).await;
    let answer = || filled(&json!({"ok": "yes"}));
    let second = go_on(&plan, elsewhere(&first.state), answer(), Default::default()).await;
    assert_eq!(second.state.globals["sys.files"], json!(["two"]));
    let third = go_on(&plan, elsewhere(&second.state), answer(), Default::default()).await;
    assert_eq!(third.state.globals["sys.files"], json!(["two"]));
    let with_another = TurnInput { files: vec!["three".into()], ..answer() };
    let third = go_on(&plan, elsewhere(&second.state), with_another, Default::default()).await;
    assert_eq!(third.state.globals["sys.files"], json!(["three"]));
}

/// As in canvases that wait for the user's next message.
#[tokio::test]
async fn the_reply_to_a_form_without_fields_becomes_the_question() {
    let plan = plan(&[
        node("begin", Does::Echo, &["ask"]),
        node("ask", Does::Ask(vec![]), &["m"]).text("And?"),
        node("m", Does::Say(false), &["more"]).text("{sys.query}"),
        node("more", Does::Ask(vec!["ok"]), &["n"]),
        node("n", Does::Say(false), &[]).text("{sys.query}, {more@ok}"),
    ]);
    let first = go_on(&plan, SessionState::new(&plan), asking("tea"), Default::default()).await;
    let second = go_on(&plan, elsewhere(&first.state), asking("with milk"), Default::default()).await;
    assert_eq!((second.report.said.as_str(), second.report.ending), ("with milk", Ending::Waiting));
    let third =
        go_on(&plan, elsewhere(&second.state), filled(&json!({"ok": "hot"})), Default::default()).await;
    assert_eq!(third.report.said, "with milk, hot");
}

/// Rows 10 and 11: counters and results survive a suspension inside an iteration, in another process.
#[tokio::test]
async fn a_pause_inside_an_iteration_resumes_at_its_item() {
    let plan = plan(&[
        node("begin", Does::Echo, &["each"]),
        node("each", Does::Each(1, "last@out"), &["m"]).text("{env.list}"),
        node("item", Does::Item, &["ask"]).within("each"),
        node("ask", Does::Ask(vec!["ok"]), &["last"]).within("each").text("{item@item}?"),
        node("last", Does::Echo, &[]).within("each").text("{item@item}={ask@ok}"),
        node("m", Does::Say(false), &[]).text("{each@all}"),
    ]);
    let mut state = SessionState::new(&plan);
    state.globals.insert("env.list".to_owned(), json!(["a", "b"]));
    let first = go_on(&plan, state, asking("q"), Default::default()).await;
    assert_eq!(first.report.forms[0].form.tips.as_deref(), Some("a?"));
    let second = go_on(&plan, elsewhere(&first.state), filled(&json!({"ok": 1})), Default::default()).await;
    assert_eq!(second.report.forms[0].form.tips.as_deref(), Some("b?"));
    let third = go_on(&plan, elsewhere(&second.state), filled(&json!({"ok": 2})), Default::default()).await;
    assert_eq!(third.report.said, r#"["a=1","b=2"]"#);
    assert_eq!(third.report.ending, Ending::Succeeded);
}

/// Branches parallel to a form run to their end before the run waits.
#[tokio::test(start_paused = true)]
async fn other_branches_finish_before_the_run_waits() {
    let plan = plan(&[
        node("begin", Does::Echo, &["ask", "slow"]),
        node("ask", Does::Ask(vec!["ok"]), &["j"]),
        node("slow", Does::Slow(50), &["n"]),
        node("n", Does::Say(false), &["j"]).text("meanwhile"),
        node("j", Does::Say(false), &[]).text(" {ask@ok}"),
    ]);
    let first = go_on(&plan, SessionState::new(&plan), asking("q"), Default::default()).await;
    assert_eq!((first.report.said.as_str(), first.report.ending), ("meanwhile", Ending::Waiting));
    let second = go_on(&plan, first.state, filled(&json!({"ok": "done"})), Default::default()).await;
    assert_eq!((second.started(), second.report.said.as_str()), (vec!["ask", "j"], " done"));
}

#[tokio::test]
async fn answers_sent_with_the_question_need_no_wait() {
    let plan = plan(&ask());
    let mut input = filled(&json!({"ask": {"ok": "yes"}}));
    input.query = "poem".to_owned();
    let ran = go_on(&plan, SessionState::new(&plan), input, Default::default()).await;
    assert_eq!(ran.report.said, "draft of poem: yes");
}

#[tokio::test]
async fn a_pause_of_another_version_is_refused_with_a_remedy() {
    let plan = plan(&ask());
    let first = go_on(&plan, SessionState::new(&plan), asking("poem"), Default::default()).await;
    let other = crate::kit::plan(&ask()[..2]);
    let engine = weft_engine::Engine::new(crate::kit::seams(), None, Default::default());
    let start = crate::kit::turn(&other, filled(&json!({"ok": 1})));
    let Err(error) = engine.run_unstored(start, first.state, Vec::new()).await else { panic!() };
    assert_eq!(error.kind, weft_core::ErrorKind::Conflict);
    assert!(error.help.is_some());
}

/// Inputs that are not fields of a form are refused, even if it requires none.
#[tokio::test]
async fn inputs_that_no_form_asks_for_are_refused() {
    let plan = plan(&[
        node("begin", Does::Echo, &["ask"]),
        node("ask", Does::AskIfYouLike("ok"), &["m"]),
        node("m", Does::Say(false), &[]).text("<{ask@ok}>"),
    ]);
    let first = go_on(&plan, SessionState::new(&plan), asking("q"), Default::default()).await;
    let engine = weft_engine::Engine::new(crate::kit::seams(), None, Default::default());
    let new = SessionState::new(&plan);
    for (state, inputs, expected) in [
        (&first.state, json!({"nosuch": 1}), "no open form has a field `nosuch`: the fields are `ok`"),
        (&first.state, json!({"ok": 1, "m": {"ok": 1}}), "no open form has a field `m`"),
        (&first.state, json!({"ask": {"ok": 1, "ko": 2}}), "ask has no field `ko`: its fields are `ok`"),
        (&new, json!({"ask": {"ko": 2}}), "ask has no field `ko`: its fields are `ok`"),
    ] {
        let request = crate::kit::turn(&plan, filled(&inputs));
        let Err(error) = engine.run_unstored(request, state.clone(), Vec::new()).await else { panic!() };
        assert_eq!(error.kind, weft_core::ErrorKind::Invalid);
        assert!(error.full().contains(expected), "{}", error.full());
    }
    let third = go_on(&plan, first.state, TurnInput::default(), Default::default()).await;
    assert_eq!(third.report.said, "<>", "an empty answer is one");
}

/// Values for the form that a run starts with may come with every turn.
#[tokio::test]
async fn inputs_that_a_run_starts_with_may_be_repeated_with_an_answer() {
    let plan = plan(&[
        node("begin", Does::Echo, &["ask"]),
        node("ask", Does::Ask(vec!["ok"]), &["m"]),
        node("m", Does::Say(false), &[]).text("{begin@out} {ask@ok}"),
    ]);
    let first = go_on(&plan, SessionState::new(&plan), asking("q"), Default::default()).await;
    let again = filled(&json!({"out": "tea", "ok": "yes"}));
    let second = go_on(&plan, first.state, again, Default::default()).await;
    assert_eq!(second.report.ending, Ending::Succeeded);
}

/// Otherwise a session could not go on until somebody answers.
#[tokio::test]
async fn a_question_that_the_only_field_cannot_take_begins_a_new_turn() {
    let plan = plan(&[
        node("begin", Does::Echo, &["ask"]),
        node("ask", Does::AskTyped(json!({"go": {"type": "boolean"}})), &["m"]),
        node("m", Does::Say(false), &[]).text("{sys.query}: {ask@go}"),
    ]);
    let first = go_on(&plan, SessionState::new(&plan), asking("one"), Default::default()).await;
    let second = go_on(&plan, elsewhere(&first.state), asking("what else?"), Default::default()).await;
    assert_eq!((second.report.ending, second.started()), (Ending::Waiting, vec!["begin"]));
    let third = go_on(&plan, elsewhere(&second.state), asking("true"), Default::default()).await;
    assert_eq!(third.report.said, "what else?: true");
}

/// Whoever answers one form has said nothing about another one, even if that needs no value.
#[tokio::test]
async fn an_answer_to_one_form_is_none_to_another_one() {
    let plan = plan(&[
        node("begin", Does::Echo, &["ask", "gate"]),
        node("ask", Does::Ask(vec!["ok"]), &["m"]),
        node("gate", Does::Ask(vec![]), &["n"]),
        node("m", Does::Say(false), &[]).text("answered {ask@ok}"),
        node("n", Does::Say(false), &[]).text("passed"),
    ]);
    for answer in [filled(&json!({"ok": 1})), filled(&json!({"ask": {"ok": 1}})), asking("1")] {
        let first = go_on(&plan, SessionState::new(&plan), asking("q"), Default::default()).await;
        assert_eq!(first.report.forms.len(), 2);
        let second = go_on(&plan, elsewhere(&first.state), answer, Default::default()).await;
        assert_eq!((second.report.said.as_str(), second.report.ending), ("answered 1", Ending::Waiting));
        let own = filled(&json!({"gate": {}}));
        let third = go_on(&plan, elsewhere(&second.state), own, Default::default()).await;
        assert_eq!((third.report.said.as_str(), third.report.ending), ("passed", Ending::Succeeded));
    }
}

/// A value that does not suit its field begins nothing, so the form stays open.
#[tokio::test]
async fn values_that_do_not_match_their_fields_start_no_run() {
    let form = |id| {
        node(
            id,
            Does::AskTyped(
                json!({"n": {"type": "integer"}, "c": {"type": "options", "options": ["a", "b"], "optional": true}}),
            ),
            &["m"],
        )
    };
    let plan = plan(&[
        node("begin", Does::Echo, &["ask"]),
        form("ask"),
        node("m", Does::Say(false), &[]).text("{ask@n} {ask@c}"),
    ]);
    let first = go_on(&plan, SessionState::new(&plan), asking("q"), Default::default()).await;
    let engine = weft_engine::Engine::new(crate::kit::seams(), None, Default::default());
    let refused = async |state: &SessionState, input: TurnInput, expected: &str| {
        let request = crate::kit::turn(&plan, input);
        let Err(error) = engine.run_unstored(request, state.clone(), Vec::new()).await else { panic!() };
        assert_eq!(error.kind, weft_core::ErrorKind::Invalid);
        assert!(error.full().contains(expected), "{}", error.full());
    };
    let (waits, new) = (&first.state, &SessionState::new(&plan));
    refused(
        waits,
        filled(&json!({"n": "many"})),
        "field `n` of ask must be a whole number, and is the text `many`",
    )
    .await;
    refused(
        waits,
        filled(&json!({"ask": {"n": 1, "c": {"value": "z"}}})),
        "field `c` of ask must be one of `a`, `b`",
    )
    .await;
    let both = filled(&json!({"n": 1.5, "c": "A"}));
    refused(waits, both.clone(), "field `n` of ask").await;
    refused(waits, both, "field `c` of ask").await;
    // Answers that arrive before the form are considered too.
    refused(new, filled(&json!({"ask": {"n": "x"}})), "field `n` of ask").await;
    let second = go_on(&plan, first.state, filled(&json!({"n": "3", "c": "b"})), Default::default()).await;
    assert_eq!(second.report.said, "3 b");
}

/// Without a field, a text is for none of several forms: all of them are asked again, whatever their fields take.
#[tokio::test]
async fn a_plain_question_is_wrong_for_none_of_several_forms() {
    let number = || Does::AskTyped(json!({"n": {"type": "integer"}}));
    let plan = plan(&[
        node("begin", Does::Echo, &["ask", "other"]),
        node("ask", number(), &["m"]),
        node("other", Does::Ask(vec!["ok"]), &["m"]),
        node("m", Does::Say(false), &[]).text("{ask@n} {other@ok}"),
    ]);
    let first = go_on(&plan, SessionState::new(&plan), asking("q"), Default::default()).await;
    assert_eq!(first.report.forms.len(), 2);
    let second = go_on(&plan, elsewhere(&first.state), asking("many"), Default::default()).await;
    assert_eq!((second.report.ending, second.report.forms.len()), (Ending::Waiting, 2));
}
