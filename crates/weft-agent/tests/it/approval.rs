//! Calls that need approval.

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

/// The stored state goes through text, as on its way to another process.
fn stored(suspension: &Suspension) -> Json {
    serde_json::from_str(&suspension.state.to_string()).unwrap()
}

#[tokio::test]
async fn a_call_waits_for_approval_while_the_rest_of_its_round_runs() {
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
        panic!("it continues")
    };
    assert_eq!(answer.text, "done");
    assert_eq!(world.called(), [r#"look({"q":"x"})"#, r#"pay({"q":"10"})"#]);
    let results: Vec<_> = world.asked()[1].messages[3..].iter().map(|m| m.text.clone()).collect();
    assert_eq!(results, ["found 10", "found x"], "results keep the order of the calls");
    assert_eq!(world.asked().len(), 2, "no request is repeated");
}

#[tokio::test]
async fn a_refused_call_is_reported_with_its_reason_and_never_executed() {
    let world = guarded([pay("10"), Reply::text("all right")]);
    let waits = world.wait_with(&Native, question("Q")).await;
    let answer = json!({"call_1": {"decision": "deny", "reason": "too dear"}});
    world.drive(&Native, resumed(stored(&waits), answer)).await.unwrap();
    assert!(world.called().is_empty());
    let told = &world.text(1, 3);
    assert!(told.contains("refused") && told.contains("too dear"), "{told}");
}

#[tokio::test]
async fn arguments_edited_by_a_person_are_validated() {
    let world = guarded([pay("10"), Reply::text("done")]);
    let waits = world.wait_with(&Native, question("Q")).await;
    let edit = |arguments: Json| json!({"call_1": {"decision": "edit", "arguments": arguments}});
    world.drive(&Native, resumed(stored(&waits), edit(json!({"q": "5"})))).await.unwrap();
    assert_eq!(world.called(), [r#"pay({"q":"5"})"#]);
    let world = guarded([pay("10"), Reply::text("done")]);
    let waits = world.wait_with(&Native, question("Q")).await;
    // A person's mistake is not reported to the model: the person is asked again with the reason.
    for (wrong, why) in
        [(json!({"q": "5", "n": "none"}), "/n"), (json!({"quantity": 5}), "no argument `quantity`")]
    {
        let End::Suspended(again) = world.drive(&Native, resumed(stored(&waits), edit(wrong))).await.unwrap()
        else {
            panic!("it asks once more")
        };
        assert_eq!(again.form.fields, waits.form.fields);
        assert!(again.form.tips.as_ref().unwrap().contains(why), "{:?}", again.form.tips);
    }
    assert_eq!((world.called().len(), world.asked().len()), (0, 1));
}

/// A typo, or another question, is not a refusal: nothing is lost, and the person is asked again.
#[tokio::test]
async fn an_unclear_approval_answer_is_asked_again() {
    let world = guarded([pay("10"), Reply::text("done")]);
    let mut waits = world.wait_with(&Native, question("Q")).await;
    for answer in
        [json!("aprove"), json!("And the weather?"), json!({"approve": true}), json!({"decision": "edit"})]
    {
        let End::Suspended(again) =
            world.drive(&Native, resumed(stored(&waits), json!({"call_1": answer}))).await.unwrap()
        else {
            panic!("it asks once more")
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
async fn several_waiting_calls_have_distinct_ids() {
    let world = guarded([pay("1").and_call("pay", json!({"q": "2"})), Reply::text("done")]);
    let waits = world.wait_with(&Native, question("Q")).await;
    assert_eq!(waits.form.fields.keys().collect::<Vec<_>>(), ["call_1", "call_2"]);
    // Only one is decided: it is executed, and the other one keeps waiting.
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
async fn the_planner_waits_for_approval() {
    let step = r#"[{"name": "pay", "arguments": {"q": "10"}}]"#;
    let close = r#"[{"name": "complete_task", "arguments": {"answer": "paid"}}]"#;
    let world = guarded([Reply::text(step), Reply::text(close), Reply::text("Paid.")]);
    let waits = world.wait_with(&Planner, question("Q")).await;
    let id = waits.form.fields.keys().next().unwrap().clone();
    let End::Answered(answer) =
        world.drive(&Planner, resumed(stored(&waits), json!({id: "approve"}))).await.unwrap()
    else {
        panic!("it continues")
    };
    assert_eq!((answer.text.as_str(), world.called().len()), ("Paid.", 1));
}

#[tokio::test]
async fn a_state_of_another_driver_is_refused() {
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
async fn an_approval_timeout_may_be_set_per_agent_and_per_tool() {
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
