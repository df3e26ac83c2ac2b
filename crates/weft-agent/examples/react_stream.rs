//! Reading what an agent prints while it works, a hook that counts its calls, and a conversation that is saved
//! and goes on. The model is scripted.

#![expect(clippy::print_stdout, reason = "an example shows what comes of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt as _;
use serde_json::json;
use weft_agent::react::{Preset, SessionState, message_queue};
use weft_agent::{ReActAgent, Toolkit};
use weft_core::{Error, Result, Tool};
use weft_models::{Reply, Script, ScriptedModel};

fn agent() -> Result<ReActAgent> {
    let script =
        Script::new().reply(Reply::call("time", json!({}))).reply(Reply::pieces(["It is ", "noon."]));
    let tools = Toolkit::new();
    let schema = json!({"type": "object", "properties": {}});
    tools.register(Tool::function("time", "Tells the time.", schema, |_| async { Ok(json!("12:00")) }))?;
    let model = Arc::new(ScriptedModel::new(script));
    ReActAgent::builder("Ada", model).toolkit(tools).preset(Preset::Fast).build()
}

#[tokio::main]
async fn main() -> Result<()> {
    let agent = agent()?;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    agent.hooks().pre_acting.add("count", move |_, call| {
        counted.fetch_add(usize::from(call.name == "time"), Ordering::SeqCst);
        async { Ok(None) }
    });

    let mut session = agent.session();
    let (queue, messages) = message_queue();
    session.print_to(Some(queue));
    let mut printed = messages.during(session.reply("What time is it?"));
    let mut texts = Vec::new();
    while let Some(item) = printed.next().await {
        let printed = item?;
        println!("{}{}", printed.message.text(), if printed.last { "" } else { " …" });
        texts.push(printed.message.text());
    }
    drop(printed);
    assert_eq!(texts[texts.len() - 3..], ["It is ", "It is noon.", "It is noon."]);
    assert_eq!(calls.load(Ordering::SeqCst), 1);

    let written = |cause| Error::internal("cannot save the session").because(cause);
    let saved = serde_json::to_string(&session.state()).map_err(written)?;
    let state: SessionState = serde_json::from_str(&saved).map_err(written)?;
    let resumed = agent.resume(state)?;
    assert_eq!(resumed.memory(), session.memory());
    Ok(())
}
