//! An agent of a program with a scripted model, and its visible output.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value as Json, json};
use weft_agent::message::{ContentBlock, Message, Role};
use weft_agent::react::{
    MessageQueue, PrintedMessage, PrintedMessages, ReActAgent, ReActAgentBuilder, message_queue,
};
use weft_agent::{Memory, Session, Toolkit};
use weft_core::{Result, Tool};
use weft_models::{Reply, Script, ScriptedModel};

/// A model that gives these answers.
pub(crate) fn script(replies: impl IntoIterator<Item = Reply>) -> ScriptedModel {
    ScriptedModel::new(replies.into_iter().fold(Script::new(), Script::reply))
}

/// An agent `Ada` with the tool `look`, which answers `found <q>`.
pub(crate) fn ada(model: &ScriptedModel) -> ReActAgentBuilder {
    let tools = Toolkit::new();
    tools.register(look()).unwrap();
    ReActAgent::builder("Ada", Arc::new(model.clone())).instructions("S").toolkit(tools)
}

pub(crate) fn session(model: &ScriptedModel) -> Session {
    ada(model).build().unwrap().session()
}

pub(crate) fn look() -> Tool {
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    Tool::function("look", "Looks.", schema, |arguments| async move {
        Ok(json!(format!("found {}", arguments["q"].as_str().unwrap_or("nothing"))))
    })
}

/// A slow tool.
pub(crate) fn slow(name: &str, ms: u64) -> Tool {
    let (own, schema) = (name.to_owned(), json!({"type": "object", "properties": {}}));
    Tool::function(name, "Takes its time.", schema, move |_| {
        let own = own.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(json!(format!("{own} done")))
        }
    })
}

pub(crate) fn call(q: &str) -> Reply {
    Reply::call("look", json!({"q": q}))
}

/// The model ends the reply.
pub(crate) fn finish(response: &str) -> Reply {
    Reply::call("generate_response", json!({"response": response}))
}

/// A message in one line: `Author:text`, `ask(..)` for calls, `=..` for results.
pub(crate) fn told(message: &Message) -> String {
    let author = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
    };
    let block = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => text.clone(),
        ContentBlock::Thinking { thinking, .. } => format!("({thinking})"),
        ContentBlock::ToolUse(call) => format!("ask {}{}", call.name, Json::Object(call.input.clone())),
        ContentBlock::ToolResult(result) => {
            let output = Message::new(Role::System, "", result.output.clone());
            format!("={}", output.text())
        }
        ContentBlock::Image { .. } | ContentBlock::Audio { .. } | ContentBlock::Video { .. } => {
            "media".to_owned()
        }
    };
    format!("{author}:{}", message.content.iter().map(block).collect::<Vec<_>>().join("+"))
}

pub(crate) fn remembered(memory: &Memory) -> Vec<String> {
    memory.messages().iter().map(told).collect()
}

/// Whether every call has exactly one result.
pub(crate) fn is_tidy(memory: &Memory) -> bool {
    let messages = memory.messages();
    let calls: Vec<_> = messages.iter().flat_map(Message::tool_uses).map(|call| &call.id).collect();
    let results: Vec<_> = messages.iter().flat_map(Message::tool_results).map(|result| &result.id).collect();
    calls == results
}

/// Replies, and what was printed meanwhile.
pub(crate) async fn printed(session: &mut Session, question: &str) -> (Result<Message>, Vec<PrintedMessage>) {
    let (queue, messages): (MessageQueue, PrintedMessages) = message_queue();
    session.print_to(Some(queue));
    let reply = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&reply);
    let stream = messages.during(async move {
        let done = session.reply(question).await;
        *kept.lock().unwrap() = Some(done);
        Ok(())
    });
    let printed: Vec<_> = futures::StreamExt::collect(stream).await;
    let reply = reply.lock().unwrap().take().unwrap();
    (reply, printed.into_iter().map(Result::unwrap).collect())
}

/// Printed messages in a line each, `!` after the last chunk of one.
pub(crate) fn shown(printed: &[PrintedMessage]) -> Vec<String> {
    let one = |printed: &PrintedMessage| {
        format!("{}{}", told(&printed.message), if printed.last { "!" } else { "" })
    };
    printed.iter().map(one).collect()
}
