//! Messages that arrive while an agent works.

use std::sync::{Arc, Mutex};

use serde_json::json;
use weft_agent::message::Message;
use weft_agent::react::{INBOX_MAX, Inbox};
use weft_agent::{Memory, Toolkit};
use weft_core::{ErrorKind, Tool};
use weft_models::{Reply, ScriptedModel};

use crate::react_kit::{ada, finish, is_tidy, remembered, script};

/// A tool during which a message arrives.
fn interjected(inbox: &Arc<Mutex<Option<Inbox>>>, text: &'static str) -> Tool {
    let inbox = Arc::clone(inbox);
    Tool::function("work", "Works.", json!({"type": "object", "properties": {}}), move |_| {
        let inbox = Arc::clone(&inbox);
        async move {
            inbox.lock().unwrap().as_ref().unwrap().send(text)?;
            Ok(json!("worked"))
        }
    })
}

fn session(model: &ScriptedModel, text: &'static str) -> weft_agent::Session {
    let (tools, inbox) = (Toolkit::new(), Arc::default());
    tools.register(interjected(&inbox, text)).unwrap();
    let session = ada(model).toolkit(tools).build().unwrap().session();
    *inbox.lock().unwrap() = Some(session.inbox());
    session
}

fn last_texts(memory: &Memory, count: usize) -> Vec<String> {
    let all = remembered(memory);
    all[all.len() - count..].to_vec()
}

#[tokio::test]
async fn a_message_received_during_a_call_is_read_before_the_next_request() {
    let model = script([Reply::call("work", json!({})), finish("In red, then.")]);
    let mut session = session(&model, "make it red");
    let reply = session.reply("Paint it.").await.unwrap();
    assert_eq!(reply.text(), "In red, then.");
    let texts: Vec<String> =
        model.requests()[1].messages.iter().map(|message| message.text.clone()).collect();
    assert_eq!(texts, ["S", "Paint it.", "", "worked", "make it red"], "after the result of the call");
    assert!(session.inbox().is_empty() && is_tidy(session.memory()));
}

#[tokio::test]
async fn a_late_message_waits_for_the_next_reply() {
    let both = Reply::call("work", json!({})).and_call("generate_response", json!({"response": "Done."}));
    let model = script([both, finish("Red.")]);
    let mut session = session(&model, "make it red");
    assert_eq!(session.reply("Paint it.").await.unwrap().text(), "Done.");
    assert_eq!(session.inbox().len(), 1);
    session.reply("How is it?").await.unwrap();
    let asked = &model.requests()[1].messages;
    let texts: Vec<&str> = asked.iter().rev().take(2).map(|message| message.text.as_str()).collect();
    assert_eq!(texts, ["How is it?", "make it red"]);
}

#[tokio::test]
async fn hooks_may_change_incoming_messages() {
    let model = script([Reply::call("work", json!({})), finish("ok")]);
    let mut session = session(&model, "the key is 1234");
    session.hooks().pre_observe.add("mask", |_, message: Message| async move {
        Ok(Some(Message::user(message.text().replace("1234", "****"))))
    });
    session.reply("Work.").await.unwrap();
    assert_eq!(model.requests()[1].messages.last().unwrap().text, "the key is ****");
    assert!(!last_texts(session.memory(), 5).iter().any(|line| line.contains("1234")));
}

#[tokio::test]
async fn an_inbox_has_a_capacity() {
    let inbox = ada(&script([])).build().unwrap().session().inbox();
    for _ in 0..INBOX_MAX {
        inbox.send("x").unwrap();
    }
    assert_eq!(inbox.send("x").unwrap_err().kind, ErrorKind::QuotaExceeded);
    assert_eq!(inbox.len(), INBOX_MAX);
}
