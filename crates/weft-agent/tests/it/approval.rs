//! Calls that a person has to agree to.

use serde_json::{Value as Json, json};
use std::sync::Arc;
use weft_agent::driver::{Driver, End};
use weft_agent::native::Native;
use weft_agent::planner::Planner;
use weft_core::component::Suspension;
use weft_testkit::Reply;

use crate::kit::{World, question, resumed};

fn guarded(replies: impl IntoIterator<Item = Reply>) -> World {
    let world = World::new(replies);
    world.echo("pay", |tool| tool.traits.approval = true);
    world
}

fn pay(q: &str) -> Reply {
    Reply::call("pay", json!({"q": q}))
}

/// What was kept goes through text, as it does on its way to another process.
fn stored(suspension: &Suspension) -> Json {
    serde_json::from_str(&suspension.state.to_string()).unwrap()
}

#[tokio::test]
async fn a_call_waits_with_its_arguments_and_the_rest_of_its_round_does_not() {
    let world = guarded([pay("10").and_call("look", json!({"q": "x"})), Reply::text("done")]);
    let waits = world.wait_with(&Native, question("Q")).await;
    assert_eq!(world.called(), [r#"look({"q":"x"})"#]);
    let fields = &waits.form.fields;
    assert_eq!(fields.len(), 1);
    let field = &fields["call_1"];
    assert_eq!(
        (&field["type"], &field["tool"], &field["arguments"]),
        (&json!("approval"), &json!("pay"), &json!({"q": "10"}))
    );
    let End::Answered(answer) =
        world.drive(&Native, resumed(stored(&waits), json!({"call_1": "approve"}))).await.unwrap()
    else {
        panic!("it goes on")
    };
    assert_eq!(answer.text, "done");
    assert_eq!(world.called(), [r#"look({"q":"x"})"#, r#"pay({"q":"10"})"#]);
    let results: Vec<_> = world.asked()[1].messages[3..].iter().map(|m| m.text.clone()).collect();
    assert_eq!(results, ["found 10", "found x"], "results keep the order of the calls");
    assert_eq!(world.asked().len(), 2, "nothing is asked twice");
}

#[tokio::test]
async fn a_refused_call_is_told_with_its_reason_and_never_made() {
    let world = guarded([pay("10"), Reply::text("all right")]);
    let waits = world.wait_with(&Native, question("Q")).await;
    let answer = json!({"call_1": {"decision": "deny", "reason": "too dear"}});
    world.drive(&Native, resumed(stored(&waits), answer)).await.unwrap();
    assert!(world.called().is_empty());
    let told = &world.text(1, 3);
    assert!(told.contains("refused") && told.contains("too dear"), "{told}");
}

#[tokio::test]
async fn a_person_may_change_the_arguments_and_they_are_checked() {
    let world = guarded([pay("10"), Reply::text("done")]);
    let waits = world.wait_with(&Native, question("Q")).await;
    let edit = |arguments: Json| json!({"call_1": {"decision": "edit", "arguments": arguments}});
    world.drive(&Native, resumed(stored(&waits), edit(json!({"q": "5"})))).await.unwrap();
    assert_eq!(world.called(), [r#"pay({"q":"5"})"#]);
    let world = guarded([pay("10"), Reply::text("done")]);
    let waits = world.wait_with(&Native, question("Q")).await;
    // What a person got wrong is no mistake of the model's: the person is asked again and told why.
    for (wrong, why) in
        [(json!({"q": "5", "n": "none"}), "/n"), (json!({"quantity": 5}), "no argument `quantity`")]
    {
        let End::Suspended(again) = world.drive(&Native, resumed(stored(&waits), edit(wrong))).await.unwrap()
        else {
            panic!("it asks again")
        };
        assert_eq!(again.form.fields, waits.form.fields);
        assert!(again.form.tips.as_ref().unwrap().contains(why), "{:?}", again.form.tips);
    }
    assert_eq!((world.called().len(), world.asked().len()), (0, 1));
}

/// A slip of the pen, or another question, is no refusal: nothing is lost, and the person is asked again.
#[tokio::test]
async fn an_answer_that_is_neither_yes_nor_no_is_asked_for_again() {
    let world = guarded([pay("10"), Reply::text("done")]);
    let mut waits = world.wait_with(&Native, question("Q")).await;
    for answer in
        [json!("aprove"), json!("And the weather?"), json!({"approve": true}), json!({"decision": "edit"})]
    {
        let End::Suspended(again) =
            world.drive(&Native, resumed(stored(&waits), json!({"call_1": answer}))).await.unwrap()
        else {
            panic!("it asks again")
        };
        let tips = again.form.tips.as_ref().unwrap();
        assert!(tips.contains("`call_1`: ") && tips.contains("Say `approve`, `deny`"), "{tips}");
        assert_eq!(again.form.fields, waits.form.fields);
        waits = again;
    }
    assert!(world.called().is_empty() && world.asked().len() == 1);
    world.drive(&Native, resumed(stored(&waits), json!({"call_1": "approve"}))).await.unwrap();
    assert_eq!(world.called(), [r#"pay({"q":"10"})"#]);
}

#[tokio::test]
async fn several_calls_wait_each_under_its_own_id() {
    let world = guarded([pay("1").and_call("pay", json!({"q": "2"})), Reply::text("done")]);
    let waits = world.wait_with(&Native, question("Q")).await;
    assert_eq!(waits.form.fields.keys().collect::<Vec<_>>(), ["call_1", "call_2"]);
    // Only one is decided: it is carried out, and the other one waits on.
    let End::Suspended(still) =
        world.drive(&Native, resumed(stored(&waits), json!({"call_2": true}))).await.unwrap()
    else {
        panic!("one call still waits")
    };
    assert_eq!(world.called(), [r#"pay({"q":"2"})"#]);
    assert_eq!(still.form.fields.keys().collect::<Vec<_>>(), ["call_1"]);
    world.drive(&Native, resumed(stored(&still), json!({"call_1": false}))).await.unwrap();
    let results: Vec<_> = world.asked()[1].messages[3..].iter().map(|m| m.text.clone()).collect();
    assert!(results[0].contains("refused") && results[1] == "found 2", "{results:?}");
}

#[tokio::test]
async fn the_planner_waits_too() {
    let step = r#"[{"name": "pay", "arguments": {"q": "10"}}]"#;
    let close = r#"[{"name": "complete_task", "arguments": {"answer": "paid"}}]"#;
    let world = guarded([Reply::text(step), Reply::text(close), Reply::text("Paid.")]);
    let waits = world.wait_with(&Planner, question("Q")).await;
    let id = waits.form.fields.keys().next().unwrap().clone();
    let End::Answered(answer) =
        world.drive(&Planner, resumed(stored(&waits), json!({id: "approve"}))).await.unwrap()
    else {
        panic!("it goes on")
    };
    assert_eq!((answer.text.as_str(), world.called().len()), ("Paid.", 1));
}

#[tokio::test]
async fn what_another_driver_wrote_is_refused() {
    let world = guarded([pay("10")]);
    let waits = world.wait_with(&Native, question("Q")).await;
    let drivers: [&dyn Driver; 1] = [&Planner];
    for driver in drivers {
        let error = world.drive(driver, resumed(stored(&waits), json!({}))).await.unwrap_err();
        assert_eq!(error.kind, weft_core::ErrorKind::Conflict);
    }
    let broken = Arc::new(json!({"format": 9}));
    let error = world.drive(&Native, resumed((*broken).clone(), json!({}))).await.unwrap_err();
    assert_eq!(error.kind, weft_core::ErrorKind::Conflict);
}

#[tokio::test]
async fn a_wait_for_a_yes_may_have_an_end_and_a_tool_may_have_another_one() {
    let mut world = guarded([pay("1").and_call("slow", json!({"q": "2"})), Reply::text("done")]);
    world.options.approval_timeout = Some(60);
    world.echo("slow", |tool| {
        tool.traits.approval = true;
        tool.traits.approval_timeout = Some(5);
    });
    let waits = world.wait_with(&Native, question("Q")).await;
    let fields = &waits.form.fields;
    assert_eq!(
        (&fields["call_1"]["timeout_seconds"], &fields["call_2"]["timeout_seconds"]),
        (&json!(60), &json!(5))
    );
    let otherwise = |call: &str| fields[call]["otherwise"].clone();
    let answers = json!({"call_1": otherwise("call_1"), "call_2": otherwise("call_2")});
    world.drive(&Native, resumed(stored(&waits), answers)).await.unwrap();
    assert!(world.called().is_empty());
    assert!(world.text(1, 3).contains("nobody answered within 60 s"), "{}", world.text(1, 3));
}
