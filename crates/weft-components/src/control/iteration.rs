//! The Iteration component: runs its body once for each item of a list.

use weft_core::{
    Component, ComponentSpec, Error, Expected, Finished, Json, NodeContext, NodeOutputs, ParamProblem, Reads,
    Reference, Result, Role, Shape, async_trait,
};

use crate::params::{Field, Kind, Params, described, fields, pointer};

/// Maximum number of concurrent rounds.
// Each round may hold a connection and its own values.
pub(crate) const PARALLELISM_MAX: usize = 64;
/// Maximum number of items in an Iteration.
// Each item is a round, with records of its own in the journal.
pub(crate) const ITEMS_MAX: usize = 100_000;

static ITEMS_REF: Field<Option<Reference>> =
    Field::needed_reference("items_ref", "the list").elsewhere(&["items", "list"]);
static OUTPUTS: Field = Field::raw(
    "outputs",
    Kind::Named(&[Field::raw("ref", Kind::Reference, "what each round adds")]),
    "lists that collect a value of each round, by output name",
);
static PARALLELISM: Field<usize> =
    Field::count("parallelism", 1, &(1..=PARALLELISM_MAX), "the number of concurrent rounds");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Iteration",
    role: Role::Each,
    summary: "Runs its body once for each item of a list and collects the results in order.",
    fields: &[fields(&[&ITEMS_REF, &OUTPUTS, &PARALLELISM])],
    outputs: &[],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let items = params.take(&ITEMS_REF);
        let parallelism = params.take(&PARALLELISM);
        let collects = collects(&mut params);
        params.finish(Iteration { items, parallelism, collects })
    },
};

fn collects(params: &mut Params<'_>) -> Vec<(String, Reference)> {
    let outputs = match params.get(&OUTPUTS) {
        None => return Vec::new(),
        Some(Json::Object(outputs)) => outputs,
        Some(_) => {
            params.problem(ParamProblem::new("/outputs", "must be an object"));
            return Vec::new();
        }
    };
    let mut collects = Vec::new();
    for (name, output) in outputs {
        // An output without a reference is a leftover of an earlier run.
        let Some(text) = output.get("ref").and_then(Json::as_str).filter(|text| !text.is_empty()) else {
            continue;
        };
        if let Some(reference) = params.reference_at(pointer(&["outputs", name, "ref"]), text) {
            collects.push((name.clone(), reference));
        }
    }
    collects
}

struct Iteration {
    items: Option<Reference>,
    parallelism: usize,
    collects: Vec<(String, Reference)>,
}

#[async_trait]
impl Component for Iteration {
    fn shape(&self) -> Shape {
        Shape {
            reads: Reads::always(self.items.clone()),
            collects: self.collects.clone(),
            parallelism: self.parallelism,
            main_output: "result",
            outputs: NodeOutputs::typed(self.collects.iter().map(|(name, _)| (name.as_str(), "array"))),
            expects: self.items.iter().map(|items| (items.clone(), Expected::List)).collect(),
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let Some(reference) = &self.items else {
            return Err(Error::internal("an Iteration was built without its list"));
        };
        let value = ctx.inputs.json(reference);
        let Json::Array(items) = &*value else {
            return Err(Error::invalid(format!("`{reference}` is {}, not a list", described(&value)))
                .help("let `items_ref` name an output that is a list"));
        };
        if items.len() > ITEMS_MAX {
            return Err(Error::invalid(format!(
                "`{reference}` has {} items; at most {ITEMS_MAX} can be run",
                items.len()
            ))
            .help("run it over parts of the list, such as ListOperations returns"));
        }
        Ok(Finished { items: Some(items.clone()), ..Finished::default() })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, failure, run};
    use serde_json::json;

    #[tokio::test]
    async fn the_items_come_from_the_list() {
        let node = Node::new(
            "Iteration",
            json!({"items_ref": "{Agent:A@list}", "parallelism": "4",
                   "outputs": {"all": {"ref": "Agent:B@content", "type": "Array<string>"}, "old": {"value": 1}}}),
        );
        let shape = node.build().shape();
        assert_eq!(shape.parallelism, 4);
        assert_eq!(shape.collects, [("all".to_owned(), node.reference("Agent:B@content"))]);
        let finished = run(&node, Setting::values([("Agent:A@list", json!([1, "b"]))])).await.unwrap();
        assert_eq!(finished.items, Some(vec![json!(1), json!("b")]));
    }

    #[tokio::test]
    async fn a_value_that_is_not_a_list_is_named() {
        let node = Node::new("Iteration", json!({"items_ref": "Agent:A@list"}));
        let error = failure(&node, Setting::values([("Agent:A@list", json!("a, b"))])).await;
        assert_eq!(error.message, "`Agent:A@list` is the text `a, b`, not a list");
        assert!(failure(&node, Setting::default()).await.message.contains("nothing (null)"));
    }

    #[test]
    fn problems_are_all_reported() {
        let node =
            Node::new("Iteration", json!({"parallelism": 0, "outputs": {"a/b": {"ref": "Nobody:X@y"}}}));
        assert_eq!(node.problems(), ["/items_ref", "/parallelism", "/outputs/a~1b/ref"]);
    }
}
