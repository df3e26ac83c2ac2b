//! Tools defined by the attribute `tool`.

use serde_json::json;
use weft_agent::{Toolkit, tool};
use weft_core::tool::ToolSession as _;
use weft_core::{Error, Result};
use weft_models::Reply;

use crate::react_kit::{finish, script};

/// Adds numbers.
///
/// Without any rounding.
#[tool]
async fn add(
    /// The numbers to add.
    numbers: Vec<i64>,
    #[tool(arg = "What to multiply the sum by.")] factor: Option<i64>,
) -> Result<String> {
    let factor = factor.unwrap_or(1);
    Ok((numbers.iter().sum::<i64>() * factor).to_string())
}

/// The way to go.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Way {
    /// In kilometres.
    length: f64,
}

#[tool(name = "go", description = "Goes somewhere.")]
async fn walk(#[tool(args)] way: Way) -> Result<String> {
    match way.length {
        length if length > 100.0 => Err(Error::invalid("that is too far")),
        length => Ok(format!("went {length} km")),
    }
}

mod elsewhere {
    /// Gives the answer.
    #[weft_agent::tool]
    pub(super) async fn r#yield(
        #[serde(default = "six")] mut by: u8,
    ) -> weft_core::Result<serde_json::Value> {
        by *= 7;
        Ok(serde_json::json!({"answer": by}))
    }

    fn six() -> u8 {
        6
    }
}

/// Says so.
#[tool]
async fn ping() -> Result<&'static str> {
    Ok("pong")
}

#[test]
fn the_attribute_derives_the_schema_from_the_arguments() {
    let add = add_tool().unwrap();
    assert_eq!((&*add.name, &*add.description), ("add", "Adds numbers.\n\nWithout any rounding."));
    let expected = json!({
        "type": "object",
        "properties": {
            "numbers": {"description": "The numbers to add.", "type": "array", "items": {"type": "integer", "format": "int64"}},
            "factor": {"description": "What to multiply the sum by.", "type": ["integer", "null"], "format": "int64"},
        },
        "required": ["numbers"],
    });
    assert_eq!(add.parameters, expected);
    let walk = walk_tool().unwrap();
    assert_eq!((&*walk.name, &*walk.description), ("go", "Goes somewhere."));
    assert_eq!(walk.parameters["properties"]["length"]["description"], "In kilometres.");
    assert_eq!(elsewhere::yield_tool().unwrap().name, "yield");
    assert_eq!(ping_tool().unwrap().parameters["properties"], json!({}));
}

#[tokio::test]
async fn an_agent_calls_a_tool_made_by_the_attribute() {
    let tools = Toolkit::new();
    for tool in [add_tool(), walk_tool(), elsewhere::yield_tool(), ping_tool()] {
        tools.register(tool.unwrap()).unwrap();
    }
    assert_eq!(tools.tools().len(), 4);
    let calls = Reply::call("add", json!({"numbers": [1, 2], "factor": 5}))
        .and_call("go", json!({"length": 2.5}))
        .and_call("go", json!({"length": 200}))
        .and_call("yield", json!({}))
        .and_call("ping", json!({}))
        .and_call("add", json!({"numbers": "many"}));
    let model = script([calls, finish("Done.")]);
    let agent = weft_agent::ReActAgent::builder("Ada", std::sync::Arc::new(model.clone())).toolkit(tools);
    let mut session = agent.build().unwrap().session();
    assert_eq!(session.reply("Q").await.unwrap().text(), "Done.");
    let asked = model.requests().remove(1);
    let results: Vec<_> =
        asked.messages.iter().filter(|m| m.tool_call_id.is_some()).map(|m| m.text.clone()).collect();
    assert_eq!((&*results[0], &*results[1], &*results[4]), ("15", "went 2.5 km", "pong"), "{results:?}");
    assert!(results[2].contains("that is too far") && results[3].contains("42"), "{results:?}");
    assert!(results[5].contains("numbers"), "invalid arguments never reach the function: {results:?}");
    // The function itself still exists.
    assert_eq!(add(vec![2, 2], None).await.unwrap(), "4");
}
