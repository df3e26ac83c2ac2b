//! An agent with a tool of its own that brings a value of a Rust type. The model is scripted, so the example
//! runs anywhere; another [`ChatModel`] goes in its place.

#![expect(clippy::print_stdout, reason = "an example shows what comes of it")]

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use weft_agent::function::{AsJson, tool};
use weft_agent::{ReActAgent, Toolkit};
use weft_core::seam::ChatModel;
use weft_core::{Error, Result};
use weft_models::{Reply, Script, ScriptedModel};

/// What the tool is asked.
#[derive(Deserialize, JsonSchema)]
struct Weather {
    /// The name of the city.
    city: String,
    /// The tool's own key: fixed below, so the model never sees it.
    key: String,
}

/// What the reply has to bring.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Advice {
    /// Whether to take an umbrella.
    umbrella: bool,
}

fn model() -> Arc<dyn ChatModel> {
    let script = Script::new()
        .reply(Reply::call("weather", json!({"city": "Rome"})))
        .reply(Reply::call("generate_response", json!({"response": "Take one.", "umbrella": true})));
    Arc::new(ScriptedModel::new(script))
}

#[tokio::main]
async fn main() -> Result<()> {
    let weather = tool("weather", "Tells the weather of a city.", |asked: Weather| async move {
        match (asked.city.as_str(), asked.key.as_str()) {
            ("Rome", "secret") => Ok(AsJson(json!({"rain": true}))),
            _ => Err(Error::not_found(format!("nobody knows the weather of {}", asked.city))),
        }
    })?;
    let tools = Toolkit::new();
    tools.register(weather.with_preset("key", json!("secret")))?;

    let agent = ReActAgent::builder("Ada", model()).instructions("Be brief.").toolkit(tools).build()?;
    let mut session = agent.session();
    let (reply, advice) = session.reply_as::<Advice>("Do I need an umbrella in Rome?").await?;

    println!("{} (umbrella: {:?})", reply.text(), advice.as_ref().map(|advice| advice.umbrella));
    assert_eq!(reply.text(), "Take one.");
    assert_eq!(advice, Some(Advice { umbrella: true }));
    assert_eq!(session.memory().count_tool_uses(Some("weather")), 1);
    Ok(())
}
