//! Questions to people as tasks: the agent continues while they are unanswered.

use std::time::Duration;

use serde_json::json;
use weft_agent::react::{ASK_FUNCTION, TaskStatus, UserQuestions};
use weft_core::ErrorKind;
use weft_models::{Reply, ScriptedModel};

use crate::react_kit::{ada, call, finish};

fn asks() -> Reply {
    Reply::call(ASK_FUNCTION, json!({"question": "Which colour?", "choices": ["red", "blue"]}))
}

#[tokio::test]
async fn the_agent_keeps_working_until_the_user_answers() {
    let questions = UserQuestions::default();
    let model = ScriptedModel::from_fn(|request, number| match number {
        0 => asks(),
        1 => call("meanwhile"),
        2 => Reply::call("wait_task", json!({"task_id": "task_1"})),
        _ => finish(&request.messages.last().unwrap().text),
    });
    let agent = ada(&model).background_tool(questions.tool().unwrap()).build().unwrap();
    let mut session = agent.session();
    let id = session.id().to_owned();
    let person = async {
        let asked = questions.next(&id).await;
        assert_eq!(
            (&*asked.question, &*asked.choices),
            ("Which colour?", &["red".to_owned(), "blue".to_owned()][..])
        );
        // The model has continued meanwhile.
        while model.requests().len() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(questions.answer(&id, &asked.id, " ").unwrap_err().kind, ErrorKind::Invalid);
        assert_eq!(questions.answer("another", &asked.id, "mine").unwrap_err().kind, ErrorKind::NotFound);
        questions.answer(&id, &asked.id, "green").unwrap();
        assert_eq!(questions.answer(&id, &asked.id, "red").unwrap_err().kind, ErrorKind::NotFound);
    };
    let (reply, ()) = tokio::join!(session.reply("Paint it."), person);
    assert_eq!(reply.unwrap().text(), "The task `task_1` of `ask_user` is finished.\ngreen");
    assert!(questions.open(&id).is_empty());
}

#[tokio::test]
async fn a_late_answer_is_delivered_in_the_next_reply_and_a_stopped_question_is_closed() {
    let questions = UserQuestions::default();
    let model = ScriptedModel::from_fn(|request, number| match number {
        0 => asks().and_call(ASK_FUNCTION, json!({"question": "When?"})),
        1 => finish("I have asked."),
        _ => finish(&request.messages.last().unwrap().text),
    });
    let agent = ada(&model).background_tool(questions.tool().unwrap()).build().unwrap();
    let (mut session, other) = (agent.session(), agent.session());
    let id = session.id().to_owned();
    session.reply("Paint it.").await.unwrap();
    questions.next(&id).await;
    while questions.open(&id).len() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(questions.open(other.id()).is_empty(), "the question belongs to nobody else");
    let first = questions.open(&id).remove(0);
    questions.answer(&id, &first.id, "red").unwrap();
    while session.background_tasks().iter().all(|task| task.status == TaskStatus::Running) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let told = session.reply("And?").await.unwrap().text();
    assert!(told.contains("of `ask_user` is finished"), "{told}");
    session.cancel_background_tasks();
    while !questions.open(&id).is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
