//! Tools from plain functions by an attribute. The model is scripted, so the example runs anywhere.

#![expect(clippy::print_stdout, reason = "an example shows what comes of it")]

use std::sync::Arc;

use serde_json::json;
use weft_agent::{ReActAgent, Toolkit, tool};
use weft_core::{Error, Result};
use weft_models::{Reply, Script, ScriptedModel};

/// Tells the weather of a city.
#[tool]
async fn weather(
    /// The name of the city.
    city: String,
    #[tool(arg = "How many days from today.")] days: Option<u8>,
) -> Result<String> {
    match city.as_str() {
        "Rome" => Ok(format!("Rain in {} days.", days.unwrap_or(0))),
        city => Err(Error::not_found(format!("nobody knows the weather of {city}"))),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let tools = Toolkit::new();
    tools.register(weather_tool()?)?;
    let script = Script::new()
        .reply(Reply::call("weather", json!({"city": "Rome", "days": 2})))
        .reply(Reply::text("It will rain."));
    let model = Arc::new(ScriptedModel::new(script));
    let agent = ReActAgent::builder("Ada", model).toolkit(tools).build()?;
    let reply = agent.session().reply("What will the weather in Rome be?").await?;
    println!("{}", reply.text());
    assert_eq!(reply.text(), "It will rain.");
    Ok(())
}
