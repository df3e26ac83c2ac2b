//! The definition of a tool that a provider receives.

use futures::StreamExt as _;
use serde_json::json;
use weft_agent::toolkit::{Toolkit, schemas};
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest};
use weft_core::tool::{Tool, ToolSession as _};
use weft_core::{Json, Result};
use weft_models::{Directory, ModelEntry, ModelsConfig, Provider, Secret};
use weft_testkit::{Reply, Script, ScriptedServer, Wire};

/// An argument of every kind.
fn arguments() -> Json {
    json!({"type": "object", "required": ["to", "days"], "properties": {
        "to": {"type": "string", "description": "the city"},
        "days": {"type": "integer", "minimum": 1, "description": "how long"},
        "class": {"type": "string", "enum": ["economy", "business"], "default": "economy", "description": "the class"},
        "stops": {"type": "array", "items": {"type": "string"}, "description": "cities on the way"},
        "bags": {"type": "array", "items": {"type": "object", "required": ["kg"],
            "properties": {"kg": {"type": "number"}}}, "description": "what comes along"}}})
}

/// The tool as a server sees it that speaks the OpenAI protocol.
async fn seen(tool: Tool) -> Json {
    let server = ScriptedServer::speaking(Wire::OpenAi, Script::new().reply(Reply::text("Hi."))).await;
    let mut entry = ModelEntry::new("m", Provider::OpenAi);
    entry.base_url = Some(server.base_url.clone());
    entry.api_key = Secret::new("key");
    let config = ModelsConfig { entries: vec![entry], ..ModelsConfig::default() };
    let directory = Directory::open(&config, &weft_net::operator_client().unwrap()).unwrap();
    let model = directory.resolve_with_notice("m").unwrap().0;
    let toolkit = Toolkit::new();
    toolkit.register(tool).unwrap();
    let request = ChatRequest {
        messages: vec![ChatMessage::new(Author::User, "Q")],
        tools: schemas(&toolkit.tools()).into(),
        ..ChatRequest::default()
    };
    let deltas: Vec<_> = model.chat(request).await.unwrap().collect().await;
    deltas.into_iter().collect::<Result<Vec<_>>>().unwrap();
    server.requests()[0].body["tools"].clone()
}

#[tokio::test]
async fn every_argument_type_appears_in_the_function_definition() {
    let golden = json!([{"type": "function", "function": {
        "name": "find_flights",
        "description": "Finds flights.",
        "parameters": {"type": "object", "required": ["to", "days"], "properties": {
            "to": {"type": "string", "description": "the city"},
            "days": {"type": "integer", "minimum": 1, "description": "how long"},
            "class": {"type": "string", "enum": ["economy", "business"], "default": "economy", "description": "the class"},
            "stops": {"type": "array", "items": {"type": "string"}, "description": "cities on the way"},
            "bags": {"type": "array", "items": {"type": "object", "required": ["kg"],
                "properties": {"kg": {"type": "number"}}}, "description": "what comes along"}}}}}]);
    let tool = Tool::function("find_flights", "Finds flights.", arguments(), |_| async { Ok(Json::Null) });
    assert_eq!(seen(tool).await, golden);
}
