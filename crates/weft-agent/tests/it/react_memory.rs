//! Long-term memory around replies, and controlled by the model.

use std::sync::Arc;

use serde_json::json;
use weft_agent::long_term::{LocalMemory, LongTermMemory, Mem0, Owner, Storing};
use weft_agent::react::{FinishStyle, Hints, MemoryControl, Settings};
use weft_core::{ErrorKind, TenantId};
use weft_models::{Reply, ScriptedModel};
use weft_testkit::FakeHttp;

use crate::react_kit::{ada, finish, printed, remembered, script, shown};

fn eve() -> Owner {
    Owner::user("eve")
}

async fn stored(memory: &LocalMemory, query: &str) -> Vec<String> {
    memory.search(&eve(), query, 10).await.unwrap().into_iter().map(|one| one.text).collect()
}

fn has_tools(model: &ScriptedModel) -> bool {
    let names = ["record_to_memory", "retrieve_from_memory"];
    let offered = &model.requests()[0].tools;
    names.iter().all(|name| offered.iter().any(|tool| tool.name == *name))
}

#[tokio::test]
async fn static_control_recalls_before_and_remembers_after() {
    let memory = LocalMemory::new();
    memory.add(&eve(), "Eve likes green tea.", Storing::Verbatim).await.unwrap();
    let model = script([finish("Green tea.")]);
    let agent = ada(&model).long_term_memory(Arc::new(memory.clone()), eve(), MemoryControl::Static);
    let mut session = agent.build().unwrap().session();
    session.reply("Which tea do I like?").await.unwrap();
    let first = &model.requests()[0];
    assert!(
        first
            .messages
            .iter()
            .any(|m| m.text.starts_with("<long_term_memory>") && m.text.contains("- Eve likes green tea."))
    );
    assert!(!has_tools(&model), "the model is not involved");
    assert_eq!(stored(&memory, "Which").await, ["user: Which tea do I like?\nAda: Green tea."], "once");
}

#[tokio::test]
async fn an_agent_in_control_has_tools_and_the_next_session_finds_what_it_stored() {
    let memory = LocalMemory::new();
    let record = json!({"thinking": "It may matter.", "content": ["Eve is allergic to nuts."]});
    let model = script([
        Reply::call("record_to_memory", record),
        finish("Noted."),
        Reply::call("retrieve_from_memory", json!({"keywords": ["nuts", "allergic", "cats"]})),
        finish("No nuts."),
    ]);
    let agent =
        ada(&model).long_term_memory(Arc::new(memory.clone()), eve(), MemoryControl::Agent).build().unwrap();
    agent.session().reply("I am allergic to nuts.").await.unwrap();
    assert!(has_tools(&model));
    agent.session().reply("What may I not eat?").await.unwrap();
    let last = model.requests().pop().unwrap().messages.pop().unwrap();
    assert_eq!(last.text, "- It may matter.\nEve is allergic to nuts.", "each memory once");
    assert_eq!(stored(&memory, "eat").await, Vec::<String>::new(), "replies are not stored automatically");
    let first = &model.requests()[2];
    assert!(!first.messages.iter().any(|m| m.text.contains("<long_term_memory>")));
}

#[tokio::test]
async fn control_both_recalls_and_offers_tools() {
    let memory = LocalMemory::new();
    let model = script([finish("Hello.")]);
    let agent =
        ada(&model).long_term_memory(Arc::new(memory.clone()), eve(), MemoryControl::Both).build().unwrap();
    agent.session().reply("Hi there").await.unwrap();
    assert!(has_tools(&model));
    assert_eq!(stored(&memory, "Hi").await.len(), 1);
}

#[tokio::test]
async fn recalled_memories_are_shown_when_enabled() {
    for (hints, count) in [(Hints::Hidden, 0), (Hints::Printed, 1)] {
        let memory = LocalMemory::new();
        memory.add(&eve(), "Eve likes tea.", Storing::Verbatim).await.unwrap();
        let model = script([Reply::text("Tea.")]);
        let settings = Settings { hints, finish: FinishStyle::Text, ..Settings::default() };
        let agent = ada(&model).settings(settings);
        let agent = agent.long_term_memory(Arc::new(memory), eve(), MemoryControl::Static).build().unwrap();
        let mut session = agent.session();
        let (_, messages) = printed(&mut session, "tea?").await;
        let recalled = shown(&messages).iter().filter(|line| line.contains("<long_term_memory>")).count();
        assert_eq!(recalled, count);
        assert_eq!(remembered(session.memory()).len(), 3, "the conversation has it either way");
    }
}

#[tokio::test]
async fn a_memory_failure_fails_no_reply() {
    let http = FakeHttp::new().on("", 503, "down");
    let memory = Mem0::new(Arc::new(http), TenantId::from("t"), "http://mem0.test");
    let model = script([Reply::call("retrieve_from_memory", json!({"keywords": ["x"]})), finish("Hi.")]);
    let agent = ada(&model).long_term_memory(Arc::new(memory), eve(), MemoryControl::Both).build().unwrap();
    let mut session = agent.session();
    assert_eq!(session.reply("Q").await.unwrap().text(), "Hi.");
    let warnings = session.warnings().join("\n");
    assert!(warnings.contains("left out") && warnings.contains("not stored in the memory"), "{warnings}");
    let result = model.requests().pop().unwrap().messages.pop().unwrap().text;
    assert!(result.contains("503"), "it is reported to the model: {result}");
}

#[tokio::test]
async fn text_without_extracted_facts_is_stored_verbatim() {
    let http = FakeHttp::new().once("/memories", 200, r#"{"results": []}"#).once(
        "/memories",
        200,
        r#"{"results": [{"id": "1"}]}"#,
    );
    let memory = Mem0::new(Arc::new(http.clone()), TenantId::from("t"), "http://mem0.test");
    let record = json!({"thinking": "T", "content": ["C"]});
    let model = script([Reply::call("record_to_memory", record), finish("Hi.")]);
    let agent = ada(&model).long_term_memory(Arc::new(memory), eve(), MemoryControl::Agent).build().unwrap();
    agent.session().reply("Q").await.unwrap();
    let bodies: Vec<_> =
        http.requests().into_iter().map(|request| serde_json::to_value(request.body).unwrap()).collect();
    assert_eq!((&bodies[0]["Json"]["infer"], &bodies[1]["Json"]["infer"]), (&json!(true), &json!(false)));
    assert_eq!(bodies[1]["Json"]["messages"][0]["content"], "C");
}

#[tokio::test]
async fn a_memory_belongs_to_one_user() {
    let built = ada(&script([])).long_term_memory(
        Arc::new(LocalMemory::new()),
        Owner::default(),
        MemoryControl::Both,
    );
    assert_eq!(built.build().unwrap_err().kind, ErrorKind::Invalid);
}
