//! Agent: asks a language model. Tools of agents are not part of this build: an Agent that has some
//! loads, and says so when it is checked and when it runs.

use std::time::Duration;

use async_trait::async_trait;
use weft_core::{
    Component, ComponentSpec, Error, ErrorKind, Finished, Json, NodeContext, Result, Role, Shape,
};

use crate::model::caller::Caller;
use crate::model::settings::{self, Settings};
use crate::params::Params;

/// The spec.
pub static SPEC: ComponentSpec = ComponentSpec {
    kind: "Agent",
    role: Role::Step,
    summary: "Asks a language model.",
    params_schema: settings::params_schema,
    time_limit: Some(Duration::from_secs(1200)),
    measuring_only: false,
    build: |source| {
        let mut params = Params::of(source);
        let mut tools = names(params.get("tools"), &["name", "component_name"]);
        tools.extend(names(params.get("mcp"), &["name", "mcp_id"]));
        let settings = Settings::read(&mut params);
        params.finish(Agent { caller: Caller { settings }, tools })
    },
};

fn names(tools: Option<&Json>, keys: &[&str]) -> Vec<String> {
    let tools = tools.and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let name = |tool: &Json| {
        let named = keys.iter().find_map(|key| tool.get(key)?.as_str().filter(|name| !name.is_empty()));
        named.or(tool.as_str()).unwrap_or("a tool without a name").to_owned()
    };
    tools.iter().map(name).collect()
}

struct Agent {
    caller: Caller,
    tools: Vec<String>,
}

impl Agent {
    fn unsupported(&self) -> Option<String> {
        let tools = self.tools.join(", ");
        (!self.tools.is_empty())
            .then(|| format!("tools of agents aren't part of this build, and this one has: {tools}"))
    }
}

#[async_trait]
impl Component for Agent {
    fn shape(&self) -> Shape {
        Shape { unsupported: self.unsupported(), ..self.caller.shape() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        match self.unsupported() {
            Some(sentence) => Err(Error::new(ErrorKind::Unsupported, sentence)
                .help("take the tools out, or use nodes in their place")),
            None => self.caller.run(ctx).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, Stage, failure};
    use serde_json::json;
    use weft_core::ErrorKind;

    #[tokio::test]
    async fn without_tools_it_is_an_llm() {
        let node = Node::new("Agent", json!({"llm_id": "m", "tools": [], "mcp": [], "max_rounds": 5}));
        let component = node.build();
        assert!(component.shape().streams && component.shape().unsupported.is_none());
        let stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
        stage.answer_text("hello");
        assert_eq!(json!(component.run(&stage.ctx).await.unwrap().outputs), json!({"content": "hello"}));
    }

    #[tokio::test]
    async fn its_tools_are_named() {
        let tools = json!([{"component_name": "TavilySearch", "name": "Search", "params": {}}, {"component_name": "ArXiv"}]);
        let node = Node::new("Agent", json!({"tools": tools, "mcp": [{"mcp_id": "m1", "tools": {}}]}));
        assert!(node.build().shape().unsupported.unwrap().contains("Search, ArXiv, m1"));
        let error = failure(&node, Setting::default()).await;
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.message.contains("Search, ArXiv, m1"));
    }
}
