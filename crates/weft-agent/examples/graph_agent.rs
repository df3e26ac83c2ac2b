//! An agent whose every step is kept in a folder: ended in the middle, it goes on where it was.
//!
//! ```sh
//! cargo run -p weft-agent --example graph_agent
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use futures::StreamExt as _;
use weft_agent::graph::{FolderCheckpointer, GraphAgent, StreamItem, TurnOptions};
use weft_agent::{Toolkit, function};
use weft_models::{Reply, Script, ScriptedModel};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct City {
    /// The city to look at.
    city: String,
}

#[tokio::main]
async fn main() -> weft_core::Result<()> {
    let weather = |city: City| async move { Ok(format!("It rains in {}.", city.city)) };
    let tools = Toolkit::new();
    tools.register(function::tool("weather", "Tells the weather.", weather)?)?;
    // Any model; this one says what it is told to.
    let script = Script::new()
        .reply(Reply::call("weather", serde_json::json!({"city": "Bergen"})))
        .reply(Reply::pieces(["Take ", "an umbrella."]));
    let threads = std::env::temp_dir().join("weft-graph-agent");
    let agent = GraphAgent::builder("Ada", Arc::new(ScriptedModel::new(script)))
        .toolkit(tools)
        .checkpointer(Arc::new(FolderCheckpointer::open(threads)?))
        .build()?;
    let thread = format!("example-{}", weft_core::id::generate());
    let mut items = agent.process_message_stream(thread, "What do I need in Bergen?", TurnOptions::default());
    while let Some(item) = items.next().await {
        match item? {
            StreamItem::Event(event) => println!("{:>2} {:?}", event.seq, event.kind),
            StreamItem::Reply(reply) => println!("{}\n{:?}", reply.reply, reply.metadata),
        }
    }
    Ok(())
}
