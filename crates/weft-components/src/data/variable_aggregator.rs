//! The VariableAggregator component: returns the first of several values that is present.

use std::collections::HashSet;

use serde_json::Map;
use weft_core::{
    Component, ComponentSpec, Finished, Json, NodeContext, NodeOutputs, Outputs, ParamProblem, Reads,
    Reference, Result, Role, Shape, async_trait,
};

use crate::params::{Field, Kind, Params, fields, pointer};

static GROUPS: Field = Field::raw(
    "groups",
    Kind::Objects(&[
        Field::raw("group_name", Kind::Text, "the name of the output"),
        Field::raw("variables", Kind::List, "`{value: reference}` in the order in which they are tried"),
    ]),
    "groups whose first available variable becomes an output",
);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "VariableAggregator",
    role: Role::Step,
    summary: "Returns the first available value of each group, such as that of the branch that ran.",
    fields: &[fields(&[&GROUPS])],
    outputs: &[],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let groups = params.objects(&GROUPS);
        // If there is another problem, it has been reported already.
        if groups.is_empty() && params.problems().is_empty() {
            params
                .problem(ParamProblem::new("/groups", "there is no group").help("add a group of variables"));
        }
        let mut seen = HashSet::new();
        for (place, object) in &groups {
            let name = object.get("group_name").and_then(Json::as_str).filter(|name| !name.is_empty());
            if let Some(name) = name.filter(|name| !seen.insert(*name)) {
                let at = pointer(&["groups", &place.to_string(), "group_name"]);
                let message = format!("an earlier group is also called `{name}`: both are the same output");
                params.warn(ParamProblem::new(at, message).help("rename it, or move its variables there"));
            }
        }
        let groups = groups.into_iter().map(|(place, object)| group(&mut params, place, object)).collect();
        let warnings = params.warnings();
        params.finish(VariableAggregator { groups, warnings })
    },
};

struct VariableGroup {
    name: String,
    references: Vec<Reference>,
}

fn group(params: &mut Params<'_>, place: usize, object: &Map<String, Json>) -> VariableGroup {
    let place = place.to_string();
    let name = object.get("group_name").and_then(Json::as_str).unwrap_or_default().to_owned();
    if name.is_empty() {
        let problem = ParamProblem::new(pointer(&["groups", &place, "group_name"]), "the group has no name");
        params.problem(problem.help("enter a name, which is also that of the output"));
    }
    let variables = object.get("variables").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    if variables.is_empty() {
        let at = pointer(&["groups", &place, "variables"]);
        let message = format!("the group has no variables: `{name}` is always empty");
        params.warn(ParamProblem::new(at, message).help("add variables, or remove the group"));
    }
    let mut references = Vec::new();
    for (number, variable) in variables.iter().enumerate() {
        let text = variable.get("value").unwrap_or(variable).as_str().unwrap_or_default();
        let row = pointer(&["groups", &place, "variables", &number.to_string()]);
        if text.trim().is_empty() {
            params.passed_over(row);
            continue;
        }
        let at = if variable.is_string() { row } else { format!("{row}/value") };
        references.extend(params.reference_at(at, text));
    }
    VariableGroup { name, references }
}

struct VariableAggregator {
    groups: Vec<VariableGroup>,
    warnings: Vec<ParamProblem>,
}

#[async_trait]
impl Component for VariableAggregator {
    fn shape(&self) -> Shape {
        let reads = self.groups.iter().flat_map(|group| group.references.iter().cloned());
        let outputs = NodeOutputs::named(self.groups.iter().map(|group| group.name.as_str()));
        Shape { reads: Reads::always(reads), outputs, warnings: self.warnings.clone(), ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let mut outputs = Outputs::new();
        for group in &self.groups {
            // Zero, false and empty texts and lists are values; only missing ones are skipped.
            let found = group
                .references
                .iter()
                .map(|reference| ctx.inputs.json(reference))
                .find(|value| !value.is_null());
            if let Some(value) = found {
                outputs.set(&group.name, value);
            }
        }
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, outputs};
    use serde_json::{Value as Json, json};

    #[tokio::test]
    async fn the_first_existing_value_is_used() {
        let check = async |a: Json, b: Json, expected: Json| {
            let node = Node::new(
                "VariableAggregator",
                json!({"groups": [{"group_name": "g", "type": "string",
                "variables": [{"value": "Agent:A@x"}, {"value": "{Agent:B@x}"}]}]}),
            );
            assert_eq!(outputs(&node, Setting::values([("Agent:A@x", a), ("Agent:B@x", b)])).await, expected);
        };
        check(json!(null), json!("b"), json!({"g": "b"})).await;
        check(json!("a"), json!("b"), json!({"g": "a"})).await;
        for value in [json!(0), json!(false), json!(""), json!([])] {
            check(value.clone(), json!("b"), json!({"g": value})).await;
        }
        check(json!(null), json!(null), json!({})).await;
    }

    #[test]
    fn problems_are_all_reported() {
        let check = |params: Json, expected: &[&str]| {
            assert_eq!(Node::new("VariableAggregator", params).problems(), expected);
        };
        check(json!({}), &["/groups"]);
        check(json!({"groups": [{}]}), &["/groups/0/group_name"]);
        check(
            json!({"groups": [{"group_name": "g", "variables": [{"value": "x"}]}]}),
            &["/groups/0/variables/0/value"],
        );
        let blank =
            json!({"groups": [{"group_name": "g", "variables": [{"value": ""}]}, {"group_name": "h"}]});
        let warnings = Node::new("VariableAggregator", blank).build().shape().warnings;
        let places: Vec<_> = warnings.iter().map(|warning| warning.pointer.as_str()).collect();
        assert_eq!(places, ["/groups/0/variables/0", "/groups/1/variables"]);
    }
}
