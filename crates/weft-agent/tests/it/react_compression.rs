//! Long conversations that are shortened for the model.

use std::sync::Arc;

use serde_json::json;
use weft_agent::Session;
use weft_agent::memory::Memory;
use weft_agent::react::{Compression, Hints, SessionState, Settings};
use weft_models::{Reply, ScriptedModel};

use crate::react_kit::{ada, call, finish, is_tidy, printed, remembered, script, shown};

fn settings(compression: Compression) -> Settings {
    Settings { compression, ..Settings::default() }
}

fn session(model: &ScriptedModel, compression: Compression) -> Session {
    ada(model).settings(settings(compression)).build().unwrap().session()
}

/// The texts of a request, without the instructions.
fn asked(model: &ScriptedModel, place: usize) -> Vec<String> {
    model.requests()[place].messages.iter().skip(1).map(|message| message.text.clone()).collect()
}

fn summary(task: &str) -> Reply {
    let value = json!({
        "task_overview": task, "current_state": "half done", "important_discoveries": "",
        "next_steps": "the rest", "context_to_preserve": "the key is under the mat"
    });
    Reply::text(value.to_string())
}

const SUMMARY: Compression = Compression::Summary { trigger_tokens: 120, keep_recent: 2 };

#[tokio::test]
async fn old_call_results_are_omitted_from_requests_but_kept_in_memory() {
    let long = "word ".repeat(60);
    let model = script([call(&long), finish("one"), call("b"), finish("two")]);
    let compression = Compression::ToolResults { trigger_tokens: 100, keep_recent: 2 };
    let mut session = session(&model, compression);
    session.reply("first").await.unwrap();
    session.reply("second").await.unwrap();
    let texts = asked(&model, 3);
    assert!(texts[2].starts_with("[The call was made. What it gave ("), "{texts:?}");
    assert!(texts.contains(&"found b".to_owned()), "recent turns stay: {texts:?}");
    assert!(remembered(session.memory()).iter().any(|line| line.contains(&format!("=found {long}"))));
    assert!(session.warnings().iter().any(|told| told.contains("1 earlier tool result is left out")));
}

#[tokio::test]
async fn the_window_slides_over_turns() {
    let model = script([finish("one"), finish("two"), finish("three")]);
    let mut session = session(&model, Compression::SlidingWindow { turns: 2 });
    for question in ["first", "second", "third"] {
        session.reply(question).await.unwrap();
    }
    assert!(asked(&model, 1).contains(&"first".to_owned()));
    let texts = asked(&model, 2);
    assert_eq!(texts[0], "[4 older messages of this conversation are left out.]");
    assert_eq!(texts[1], "second");
    assert!(!texts.contains(&"first".to_owned()) && texts.contains(&"third".to_owned()));
    assert_eq!(session.warnings(), ["to keep the conversation short, 4 older messages are left out"]);
}

#[tokio::test]
async fn the_older_part_is_summarised_once_and_replaced_by_its_summary() {
    let long = "word ".repeat(60);
    let model =
        script([call(&long), finish("one"), summary("paint the door"), finish("two"), finish("three")]);
    let mut session = session(&model, SUMMARY);
    session.reply("first").await.unwrap();
    session.reply("second").await.unwrap();
    let request = &model.requests()[2];
    assert!(request.schema.is_some() && request.tools.is_empty());
    assert!(request.messages[1].text.contains(&format!("[look gave] found {long}")), "all of the older part");
    assert!(!request.messages[1].text.contains("second"));
    let texts = asked(&model, 3);
    assert!(texts[0].starts_with("<summary>") && texts[0].contains("## Task\n\npaint the door"), "{texts:?}");
    assert!(
        texts[0].contains("under the mat") && !texts[0].contains("Discoveries"),
        "empty texts are left out"
    );
    assert_eq!(texts.last().unwrap(), "second");
    assert!(!texts.iter().any(|text| text.contains(&long)));
    assert!(is_tidy(session.memory()) && remembered(session.memory())[0] == "user:first", "nothing is lost");
    assert!(session.warnings().iter().any(|told| told.contains("is summarized")));
    // It is not requested again while there is room.
    session.reply("third").await.unwrap();
    assert_eq!(model.requests().len(), 5);
}

#[tokio::test]
async fn a_summary_is_saved_with_the_session_and_older_states_load() {
    let model =
        script([call(&"word ".repeat(60)), finish("one"), summary("paint"), finish("two"), finish("three")]);
    let agent = ada(&model).settings(settings(SUMMARY)).build().unwrap();
    let mut session = agent.session();
    session.reply("first").await.unwrap();
    let before: serde_json::Value = serde_json::to_value(session.state()).unwrap();
    assert!(before["memory"].is_array(), "a list if there is nothing else");
    session.reply("second").await.unwrap();
    let saved = serde_json::to_string(&session.state()).unwrap();
    let mut resumed = agent.resume(serde_json::from_str::<SessionState>(&saved).unwrap()).unwrap();
    assert_eq!(resumed.memory(), session.memory());
    resumed.reply("third").await.unwrap();
    assert!(asked(&model, 4)[0].starts_with("<summary>"));
    let old: Memory = serde_json::from_value(before["memory"].clone()).unwrap();
    assert!(old.summary().is_none() && old.len() == session.memory().len() - 4);
}

#[tokio::test]
async fn a_failed_summary_leaves_the_conversation_unchanged() {
    let model = script([
        call(&"word ".repeat(60)),
        finish("one"),
        Reply::text("no JSON"),
        Reply::text("{\"task_overview\": 7}"),
        Reply::text("[]"),
        finish("two"),
    ]);
    let mut session = session(&model, SUMMARY);
    session.reply("first").await.unwrap();
    assert_eq!(session.reply("second").await.unwrap().text(), "two");
    assert!(
        session.warnings().iter().any(|told| told.contains("is not summarized")),
        "{:?}",
        session.warnings()
    );
    assert!(asked(&model, 5).contains(&"first".to_owned()));
}

#[tokio::test]
async fn a_separate_model_may_summarise_and_the_summary_is_shown_on_request() {
    let model = script([call(&"word ".repeat(60)), finish("one"), finish("two")]);
    let small = script([summary("paint")]);
    let settings = Settings { hints: Hints::Printed, ..settings(SUMMARY) };
    let agent = ada(&model).settings(settings).summary_model(Arc::new(small.clone())).build().unwrap();
    let mut session = agent.session();
    session.reply("first").await.unwrap();
    let (reply, seen) = printed(&mut session, "second").await;
    assert_eq!(reply.unwrap().text(), "two");
    assert_eq!((small.requests().len(), model.requests().len()), (1, 3));
    assert!(shown(&seen)[0].starts_with("user:<summary>"), "{:?}", shown(&seen));
}
