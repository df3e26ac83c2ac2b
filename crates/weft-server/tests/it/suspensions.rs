//! Runs that wait for a person in the middle of an agent's work, as clients see them.

use serde_json::{Value as Json, json};
use weft_testkit::Script;

use crate::rehearsal::canvas;
use crate::support::{bench, events, said};

fn approvals(tasks: &[&str]) -> Json {
    let field = |task: &&str| {
        let field = json!({"name": "delete_file", "type": "approval", "tool": "delete_file",
            "arguments": {"path": "a"}, "options": ["approve", "deny", "edit"], "optional": false});
        ((*task).to_owned(), field)
    };
    json!({"approve": tasks.iter().map(field).collect::<serde_json::Map<_, _>>()})
}

/// The form is an event, the session keeps the state, and another process resumes it.
#[tokio::test]
async fn an_approval_is_a_form_that_can_be_answered_in_another_process() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Approvals", canvas(&approvals(&["call_1", "call_2"]))).await;
    let ask = async |bench: &crate::support::Bench, session: &Json, more: Json| {
        let mut body = json!({"id": id, "stream": true, "session_id": session});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        bench.post("/v1/canvas/completion", body).await.frames()
    };
    let first = ask(&bench, &Json::Null, json!({"query": "q"})).await;
    assert_eq!(said(&first), "Let me see. ");
    let of = |frames: &[crate::support::Frame], kind: &str| {
        let frames: Vec<_> = frames.iter().map(crate::support::Frame::json).collect();
        frames.into_iter().filter(|frame| frame["event"] == kind).collect::<Vec<_>>()
    };
    let form = &of(&first, "user_inputs")[0]["data"];
    assert_eq!((&form["tips"], &form["forms"][0]["component_id"]), (&json!("May I?"), &json!("Agent:A")));
    assert_eq!(form["inputs"]["call_1"]["arguments"], json!({"path": "a"}));
    assert_eq!(of(&first, "workflow_finished")[0]["data"]["status"], "waiting");
    // Every start has its finish, and the ones that are not final are marked.
    let finished = of(&first, "node_finished");
    let suspended: Vec<_> = finished
        .iter()
        .map(|f| (f["data"]["component_id"].as_str().unwrap(), f["data"]["suspended"] == true))
        .collect();
    assert_eq!(suspended, [("begin", false), ("Agent:A", true), ("Message:M", true)]);
    assert_eq!(of(&first, "node_started").len(), 3);

    // One answer after the other, each in its own process.
    let session = first[0].json()["session_id"].clone();
    let bench = bench.restarted();
    let second = ask(&bench, &session, json!({"inputs": {"Agent:A": {"call_2": "deny"}}})).await;
    assert_eq!((said(&second).as_str(), of(&second, "node_started").len()), ("", 0));
    let open = of(&second, "user_inputs")[0]["data"]["inputs"].clone();
    assert_eq!(open.as_object().unwrap().keys().collect::<Vec<_>>(), ["call_1"]);
    let bench = bench.restarted();
    let edit = json!({"decision": "edit", "arguments": {"path": "b"}});
    let third = ask(&bench, &session, json!({"inputs": {"call_1": edit}})).await;
    assert_eq!(said(&third), format!("call_2: deny. call_1: {edit}. Done."));
    assert!(!events(&third).contains(&"user_inputs".to_owned()));
    let [message] = &of(&third, "node_finished")
        .into_iter()
        .filter(|f| f["data"]["component_id"] == "Message:M")
        .collect::<Vec<_>>()[..]
    else {
        panic!()
    };
    assert_eq!(
        message["data"]["outputs"]["content"],
        format!("Let me see. call_2: deny. call_1: {edit}. Done.")
    );

    // The history contains every text once.
    let stored =
        bench.get(&format!("/api/v1/agents/{id}/sessions/{}", session.as_str().unwrap())).await.data();
    let messages: Vec<_> =
        stored["messages"].as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap()).collect();
    let end = format!("call_2: deny. call_1: {edit}. Done.");
    assert!(messages.ends_with(&["q", "Let me see. ", &end]), "{messages:?}");
}

/// Clients that can only send text answer with a word.
#[tokio::test]
async fn plain_text_answers_the_only_question() {
    let bench = bench(Script::new()).await;
    let id = bench.store("Approvals", canvas(&approvals(&["call_1"]))).await;
    let path = format!("/api/v1/agents_openai/{id}/chat/completions");
    let say = |text: &str| json!({"model": "m", "messages": [{"role": "user", "content": text}]});
    let first = bench.post(&path, say("q")).await.json();
    let content = first["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(content.starts_with("Let me see. \n\nMay I?\n- call_1 (approve"), "{content}");
    let mut answer = say("approve");
    answer["session_id"] = first["id"].clone();
    let second = bench.post(&path, answer).await.json();
    assert_eq!(second["choices"][0]["message"]["content"], "call_1: approve. Done.");
}
