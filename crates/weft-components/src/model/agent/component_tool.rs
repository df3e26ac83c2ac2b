//! A component as a tool: built anew for every call, with the model's arguments laid over the parameters of the canvas.

use std::collections::HashSet;
use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use serde_json::{Map, json};
use weft_agent::marks::neutral;
use weft_core::component::{NoOthers, OutputSpec};
use weft_core::reference::Inputs;
use weft_core::tool::{Invocation, ToolBody, ToolData, ToolOutput, ToolStep, ToolStream};
use weft_core::{ComponentId, ComponentSpec, Error, Json, NodeSource, Outputs, Reference, Result};

use super::arguments::{ARGUMENTS, lay};
use super::called::{self, CallContext, refused, step};

/// A tool that calls one component.
#[derive(Clone)]
pub(super) struct ComponentTool {
    /// The component type.
    pub spec: &'static ComponentSpec,
    /// The id of the tool: its agent's id, `-->` and its own name.
    pub node: ComponentId,
    /// The name by which the model calls it.
    pub function: String,
    /// The parameters that the canvas sets.
    pub params: Arc<Map<String, Json>>,
    /// The schema of what the model may fill in.
    pub parameters: Arc<Json>,
    /// The components that its texts may refer to.
    pub components: Arc<HashSet<ComponentId>>,
    /// The component that `{item}` refers to.
    pub item: Option<ComponentId>,
}

/// Returns the schema of what a model may fill in: the arguments the component declares, or else its parameters; in
/// either case those that the canvas does not set.
pub(super) fn parameters(spec: &ComponentSpec, params: &Map<String, Json>) -> Json {
    if let Some(mut arguments) = spec.arguments() {
        let set = |name: &str| params.get(name).is_some_and(|value| is_set(name, value));
        // A language belongs to its program: without one, it says nothing about the programs that a model writes.
        let fixed = |name: &str| set(name) && (name != "lang" || set("script"));
        if let Some(Json::Object(properties)) = arguments.get_mut("properties") {
            properties.retain(|name, _| !fixed(name));
        }
        if let Some(Json::Array(required)) = arguments.get_mut("required") {
            required.retain(|name| !name.as_str().is_some_and(fixed));
        }
        return arguments;
    }
    let all = spec.parameters();
    let open = all.get("properties").and_then(Json::as_object).into_iter().flatten();
    let open: Map<String, Json> = open
        .filter(|(name, _)| !params.contains_key(*name))
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    json!({"type": "object", "properties": open})
}

/// How the default programs begin that editors write into every new CodeExec.
const EDITORS_PROGRAMS: [&str; 2] = ["def main(arg1: str, arg2: str)", "def main(arg1, arg2)"];

/// Returns the parameters of a component that a model calls, without an editor's default program: together with its own
/// program, the model would be given the arguments of the default one.
pub(super) fn of_canvas(spec: &ComponentSpec, params: &Map<String, Json>) -> Map<String, Json> {
    let mut params = params.clone();
    let is_editors = |script: &Json| !is_set("script", script);
    if spec.kind == "CodeExec" && params.get("script").is_some_and(is_editors) {
        params.remove("script");
        params.remove("arguments");
    }
    params
}

/// Whether a canvas has set an argument. Where nothing was chosen, editors write an empty text, the user's question as
/// the query, or a default program.
pub(super) fn is_set(name: &str, value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(_) | Json::Number(_) => true,
        Json::String(text) => {
            let bare = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '{' | '}'));
            let default = match name {
                "query" | "q" | "stock_code" => bare == "sys.query",
                "script" => EDITORS_PROGRAMS.iter().any(|program| bare.starts_with(program)),
                _ => false,
            };
            !(bare.is_empty() || default)
        }
        Json::Array(items) => !items.is_empty(),
        Json::Object(members) => !members.is_empty(),
    }
}

/// Returns the function name of a component: its own, or else its type in lower case with underscores.
pub(super) fn function(spec: &ComponentSpec) -> String {
    if let Some(tool) = &spec.tool {
        return tool.function.to_owned();
    }
    let mut name = String::new();
    let mut lower = false;
    for c in spec.kind.chars() {
        if c.is_uppercase() && lower {
            name.push('_');
        }
        lower = c.is_lowercase();
        name.extend(c.to_lowercase());
    }
    name
}

impl ComponentTool {
    /// Refuses arguments that the model was not asked for: otherwise it could override what the canvas has set.
    fn refuse_fixed(&self, arguments: &Map<String, Json>) -> Result<()> {
        let asked = self.parameters.get("properties").and_then(Json::as_object);
        let Some(name) = arguments.keys().find(|name| asked.is_none_or(|asked| !asked.contains_key(*name)))
        else {
            return Ok(());
        };
        let known: Vec<&str> = asked.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        Err(Error::invalid(format!("`{}` has no argument `{name}`", self.function))
            .help(format!("leave it out; its arguments are: {}", known.join(", "))))
    }

    async fn carry_out(self, invocation: Invocation) -> Result<ToolStep> {
        self.refuse_fixed(&invocation.arguments)?;
        let laid = lay(&self.params, invocation.arguments.clone());
        let source = NodeSource {
            id: &self.node,
            kind: self.spec.kind,
            params: &laid.params,
            parent: None,
            components: &self.components,
            item: self.item.as_ref(),
            downstream: &[],
            upstream: &[],
            // As a tool it has no place on the canvas.
            others: &NoOthers,
            // This was checked when the agent was read; what was refused then is not built here.
            measuring: true,
        };
        let component = (self.spec.build)(&source).map_err(|problems| refused(self.spec.kind, &problems))?;
        let shape = component.shape();
        let arguments = Inputs::from_iter(laid.values);
        let value = |reference: &Reference| match reference.component() {
            Some(id) if id.as_str() == ARGUMENTS => arguments.value(reference),
            _ => invocation.agent.value(reference),
        };
        let reads = shape.reads.all().map(|reference| (reference.clone(), value(reference)));
        let inputs = invocation.agent.inputs.afresh(reads);
        let place = CallContext { node: self.node.clone(), function: self.function.clone(), inputs };
        let work = async |ctx| component.run(&ctx).await;
        let finished = called::run(&invocation, place, work).await?;
        // The data is copied and processed only for agents that keep it.
        let data = if invocation.agent.keeps_data {
            self.data(&finished.outputs, shape.main_output)
        } else {
            ToolData::Same
        };
        Ok(match step(finished, shape.main_output) {
            ToolStep::Done(output) => ToolStep::Done(ToolOutput { data, ..output }),
            step => step,
        })
    }

    /// Returns what a script receives: the data from which the text for the model was generated.
    fn data(&self, outputs: &Outputs, main_output: &str) -> ToolData {
        let value = |name: &str| outputs.get(name).map(|value| (*value.snapshot()).clone());
        let named = data_output(self.spec).filter(|output| output.name != main_output);
        let Some(mut data) = named.and_then(|output| value(output.name)).filter(|data| !data.is_null())
        else {
            return ToolData::Same;
        };
        if self.spec.tool.as_ref().is_some_and(|tool| tool.sources) {
            // Otherwise a document could bring its own citation marks into what the script passes to the model.
            neutralise(&mut data);
            number(&mut data, value("chunks").as_ref());
        }
        ToolData::Value(data)
    }
}

/// Returns the output that holds a component's result as data, next to one that is for prompts.
fn data_output(spec: &ComponentSpec) -> Option<&OutputSpec> {
    spec.outputs.iter().find(|output| output.name == "json")
}

/// Describes to the author of a script what a component returns.
pub(super) fn returns(spec: &ComponentSpec) -> Option<String> {
    let output = data_output(spec)?;
    Some(format!("{} ({})", output.kind, output.summary))
}

fn neutralise(value: &mut Json) {
    match value {
        Json::String(text) => *text = neutral(text),
        Json::Array(items) => items.iter_mut().for_each(neutralise),
        Json::Object(members) => members.values_mut().for_each(neutralise),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Writes into sources the numbers that they are cited by.
fn number(data: &mut Json, chunks: Option<&Json>) {
    let (Json::Array(data), Some(Json::Array(chunks))) = (data, chunks) else { return };
    // Some hits are not sources, and then the two lists cannot be matched.
    if data.len() != chunks.len() {
        return;
    }
    for (item, chunk) in data.iter_mut().zip(chunks) {
        if let (Json::Object(item), Some(number)) = (item, chunk.get("number")) {
            item.entry("number").or_insert_with(|| number.clone());
        }
    }
}

impl ToolBody for ComponentTool {
    fn call(&self, invocation: Invocation) -> ToolStream {
        stream::once(self.clone().carry_out(invocation)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    fn tool(kind: &str) -> ComponentTool {
        ComponentTool {
            spec: catalog::find(kind).unwrap(),
            node: "Agent:A-->t".into(),
            function: "t".to_owned(),
            params: Arc::default(),
            parameters: Arc::default(),
            components: Arc::default(),
            item: None,
        }
    }

    #[test]
    fn scripts_receive_the_data_of_a_component() {
        let rows = json!([[{"id": 1}, {"id": 2}]]);
        let outputs =
            Outputs::from_iter([("formalized_content", json!("| id |\n| 1 |")), ("json", rows.clone())]);
        let sql = tool("ExeSQL");
        assert_eq!(sql.data(&outputs, "formalized_content"), ToolData::Value(rows));
        assert_eq!(
            returns(sql.spec).as_deref(),
            Some("array (for each statement a list of its rows as objects)")
        );
        // It has no data besides its text.
        let outputs = Outputs::from_iter([("result", json!("5"))]);
        assert_eq!(tool("Calculator").data(&outputs, "result"), ToolData::Same);
        assert_eq!(returns(tool("Calculator").spec), None);
    }

    #[test]
    fn sources_keep_their_numbers_and_contain_no_marks() {
        let outputs = Outputs::from_iter([
            ("formalized_content", json!("ID: 3\n…")),
            ("json", json!([{"title": "see [ID:0]"}])),
            ("chunks", json!([{"number": 3, "content": "see"}])),
        ]);
        let ToolData::Value(data) = tool("TavilySearch").data(&outputs, "formalized_content") else {
            panic!("there is data")
        };
        assert_eq!(data[0]["number"], 3);
        assert!(!data.to_string().contains("[ID:0]"), "{data}");
    }
}
