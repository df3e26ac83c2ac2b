//! Checks of an agent's input and output.

use std::sync::Arc;

use weft_agent::long_term::{LocalMemory, LongTermMemory as _, Owner};
use weft_agent::react::{GuardPoint, MemoryControl, Verdict};
use weft_core::ErrorKind;
use weft_models::Reply;

use crate::react_kit::{ada, call, finish, remembered, script};

fn no_secrets(text: &str) -> Verdict {
    if text.contains("forbidden") {
        Verdict::Block("it is forbidden".to_owned())
    } else if text.contains("secret") {
        Verdict::Redact(text.replace("secret", "***"))
    } else {
        Verdict::Pass
    }
}

#[tokio::test]
async fn texts_are_redacted_at_every_point() {
    let points = [GuardPoint::Input, GuardPoint::ToolCall, GuardPoint::ToolResult, GuardPoint::Output];
    let model = script([call("my secret"), finish("It is secret.")]);
    let agent = ada(&model).build().unwrap();
    agent.hooks().guard("secrets", &points, no_secrets);
    let mut session = agent.session();
    assert_eq!(session.reply("A secret?").await.unwrap().text(), "It is ***.");
    let memory = remembered(session.memory());
    assert_eq!((memory[0].as_str(), memory[2].as_str()), ("user:A ***?", "system:=found my ***"));
    assert_eq!(memory.last().unwrap(), "assistant:It is ***.");

    // If only the result is checked, the tool still receives what the model wrote.
    let model = script([call("my secret"), finish("Done.")]);
    let agent = ada(&model).build().unwrap();
    agent.hooks().guard("secrets", &[GuardPoint::ToolResult], no_secrets);
    agent.session().reply("Q").await.unwrap();
    assert_eq!(model.requests()[1].messages.last().unwrap().text, "found my ***");
}

#[tokio::test]
async fn blocked_texts_do_not_pass() {
    let guarded = |point, replies: Vec<Reply>| {
        let model = script(replies);
        let agent = ada(&model).build().unwrap();
        agent.hooks().guard("g", &[point], no_secrets);
        (agent.session(), model)
    };
    let (mut session, model) = guarded(GuardPoint::Input, vec![]);
    let error = session.reply("forbidden").await.unwrap_err();
    assert!(error.kind == ErrorKind::Filtered && error.full().contains("`g`"), "{}", error.full());
    assert!(session.memory().is_empty() && model.requests().is_empty());

    for point in [GuardPoint::ToolCall, GuardPoint::ToolResult] {
        let (mut session, model) = guarded(point, vec![call("forbidden"), finish("I may not.")]);
        assert_eq!(session.reply("Q").await.unwrap().text(), "I may not.");
        let told = model.requests()[1].messages.last().unwrap().text.clone();
        assert!(told.contains("it is forbidden") && !told.contains("found"), "{told}");
    }
    let (mut session, _) = guarded(GuardPoint::Output, vec![finish("forbidden")]);
    assert_eq!(session.reply("Q").await.unwrap_err().kind, ErrorKind::Filtered);
}

#[tokio::test]
async fn blocked_texts_are_not_stored_in_long_term_memory() {
    let (memory, eve) = (LocalMemory::new(), Owner::user("eve"));
    let model = script([finish("It is secret."), finish("It is forbidden.")]);
    let agent = ada(&model).long_term_memory(Arc::new(memory.clone()), eve.clone(), MemoryControl::Static);
    let agent = agent.build().unwrap();
    agent.hooks().guard("secrets", &[GuardPoint::Output], no_secrets);
    agent.session().reply("What?").await.unwrap();
    agent.session().reply("What?").await.unwrap_err();
    let stored = memory.search(&eve, "what it is", 10).await.unwrap();
    let stored: Vec<&str> = stored.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(stored, ["user: What?\nAda: It is ***."]);
}

#[tokio::test]
async fn a_guardrail_is_a_hook_with_a_name() {
    let model = script([finish("secret"), finish("secret")]);
    let agent = ada(&model).build().unwrap();
    agent.hooks().guard("g", &[GuardPoint::Output], no_secrets);
    assert_eq!(agent.session().reply("Q").await.unwrap().text(), "***");
    assert!(agent.hooks().post_reply.remove("g") && !agent.hooks().pre_reply.remove("g"));
    assert_eq!(agent.session().reply("Q").await.unwrap().text(), "secret");
}
