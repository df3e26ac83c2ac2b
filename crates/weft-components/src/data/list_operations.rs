//! The ListOperations component: takes parts of a list, filters it, sorts it.
//!
//! `head` and `tail` once meant the n-th element and now mean the first and last n. A file does not record which was
//! meant, so they are read as the first and last n, unless the node has `dsl_version` 1, which selects the older
//! reading.

use std::cmp::Ordering;

use serde_json::Number;
use weft_core::value::to_text;
use weft_core::{
    Component, ComponentSpec, Error, Expected, Finished, Json, NodeContext, Outputs, ParamProblem, Reads,
    Reference, Result, Role, Shape, async_trait,
};

use crate::params::{Field, Kind, Params, choice, described, fields, is_empty, pointer, whole};
use weft_core::operators::{Operator, holds_as_text};

static QUERY: Field<Option<Reference>> = Field::needed_reference("query", "the list");
static OPERATIONS: Field<&str> = Field::choice(
    "operations",
    "nth",
    &[
        choice("topN", "the first `n`"),
        choice("head", "the first `n`"),
        choice("tail", "the last `n`"),
        choice("nth", "the item at position `n`"),
        choice("filter", "the items that match `filter`"),
        choice("sort", "all, sorted"),
        choice("drop_duplicates", "no duplicates"),
    ],
    "the operation",
);
static N: Field<Option<i64>> = Field::whole("n", "how many, or which; from 1 on, negative from the end")
    .shown_when("operations", &["topN", "head", "tail", "nth"]);
static SORT_METHOD: Field<String> = Field::text("sort_method", "the sort order")
    .or("asc")
    .one_of(&[choice("asc", "ascending"), choice("desc", "descending")])
    .shown_when("operations", &["sort"]);
static SORT_BY: Field<String> = Field::text("sort_by", "the keys to sort objects by, comma-separated")
    .shown_when("operations", &["sort"]);
static FILTER: Field = Field::raw(
    "filter",
    Kind::Object(&[
        Field::raw("operator", Kind::Text, "the operator, such as `contains`"),
        Field::raw("value", Kind::Any, "the value to compare with"),
    ]),
    "the condition for items",
)
.shown_when("operations", &["filter"]);
static STRICT: Field<bool> = Field::flag("strict", "whether an `n` outside the list is an error");
/// With 1, `head` and `tail` are single items.
static DSL_VERSION: Field<Option<i64>> =
    Field::whole("dsl_version", "the version of the canvas format").not_offered();

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "ListOperations",
    role: Role::Step,
    summary: "Slices, filters, sorts or deduplicates a list.",
    fields: &[fields(&[&QUERY, &OPERATIONS, &N, &SORT_METHOD, &SORT_BY, &FILTER, &STRICT, &DSL_VERSION])],
    outputs: &[
        weft_core::OutputSpec::new("result", "array", "the resulting list"),
        weft_core::OutputSpec::new("first", "any", "its first item; null if it is empty"),
        weft_core::OutputSpec::new("last", "any", "its last item; null if it is empty"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let query = params.take(&QUERY);
        let given = params.take(&N);
        let n = given.unwrap_or(0);
        let work = work(&mut params, n);
        let strict = params.take(&STRICT);
        // A value that is not a whole number is reported as such elsewhere.
        let is_read = given.is_some() || params.get(&N).is_none_or(is_empty);
        if is_read
            && matches!(work, ListOperation::First(..=0) | ListOperation::Last(..=0) | ListOperation::Nth(0))
        {
            let problem =
                ParamProblem::new(pointer(&["n"]), format!("`n` is {n}: the result is always empty"));
            params.warn(problem.help("enter a number or a position, from 1 on"));
        }
        let warnings = params.warnings();
        params.finish(ListOperations { query, work, strict, warnings })
    },
};

enum ListOperation {
    First(i64),
    Last(i64),
    Nth(i64),
    Filter(Operator, String),
    Sort { keys: Vec<String>, descending: bool },
    DropDuplicates,
}

fn work(params: &mut Params<'_>, n: i64) -> ListOperation {
    let older = params.take(&DSL_VERSION) == Some(1);
    match params.take(&OPERATIONS) {
        "topN" => ListOperation::First(n),
        "head" if older => ListOperation::Nth(n),
        "tail" if older => ListOperation::Nth(n.saturating_neg()),
        "head" => ListOperation::First(n),
        "tail" => ListOperation::Last(n),
        "drop_duplicates" => ListOperation::DropDuplicates,
        "sort" => {
            let keys = params.take(&SORT_BY);
            let keys =
                keys.split(',').map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned).collect();
            let method = params.take(&SORT_METHOD);
            let descending = method.trim().eq_ignore_ascii_case("desc");
            if !descending && !method.trim().is_empty() && !method.trim().eq_ignore_ascii_case("asc") {
                let message = format!("`{method}` is not a sort order: sorting is ascending");
                let problem = ParamProblem::new(params.pointer(&SORT_METHOD), message);
                params.warn(problem.help("write `asc` or `desc`"));
            }
            ListOperation::Sort { keys, descending }
        }
        "filter" => {
            let filter = params.get(&FILTER);
            let text = |key: &str| filter.and_then(|filter| filter.get(key)).map(to_text).unwrap_or_default();
            match Operator::parse(&text("operator")) {
                Some(operator) => ListOperation::Filter(operator, text("value")),
                None => {
                    let problem = ParamProblem::new(
                        "/filter/operator",
                        format!("`{}` is not an operator", text("operator")),
                    );
                    params.problem(problem.help(format!("use one of {}", Operator::listed())));
                    // Never executed, because the problem prevents the component from being built.
                    ListOperation::DropDuplicates
                }
            }
        }
        _ => ListOperation::Nth(n),
    }
}

struct ListOperations {
    query: Option<Reference>,
    work: ListOperation,
    strict: bool,
    warnings: Vec<ParamProblem>,
}

impl ListOperations {
    fn result(&self, items: &[Json]) -> Result<Vec<Json>> {
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let part = |n: i64| usize::try_from(n.clamp(0, count)).unwrap_or(0);
        let outside = |n: i64| self.strict && (n == 0 || n.saturating_abs() > count);
        match &self.work {
            ListOperation::First(n) | ListOperation::Last(n) | ListOperation::Nth(n) if outside(*n) => {
                Err(Error::invalid(format!("n is {n}, but the list has {count} elements"))
                    .help("choose another `n`, or switch `strict` off"))
            }
            ListOperation::First(n) => Ok(items[..part(*n)].to_vec()),
            ListOperation::Last(n) => Ok(items[items.len() - part(*n)..].to_vec()),
            ListOperation::Nth(n) => {
                let index = if *n > 0 { n - 1 } else { count.saturating_add(*n) };
                let found =
                    usize::try_from(index).ok().filter(|_| *n != 0).and_then(|index| items.get(index));
                Ok(found.cloned().into_iter().collect())
            }
            ListOperation::Filter(operator, value) => {
                Ok(items.iter().filter(|item| holds_as_text(item, *operator, value)).cloned().collect())
            }
            ListOperation::Sort { keys, descending } => {
                let mut sorted = items.to_vec();
                // The sort is stable and the comparison is reversed, so that equal items keep their order either way.
                sorted.sort_by(|a, b| {
                    let order = by_keys(a, b, keys);
                    if *descending { order.reverse() } else { order }
                });
                Ok(sorted)
            }
            ListOperation::DropDuplicates => {
                // The text form of a value identifies it, except for the order of members.
                let mut seen = std::collections::HashSet::new();
                Ok(items.iter().filter(|item| seen.insert(canonical(item))).cloned().collect())
            }
        }
    }
}

// Two objects with the same members are equal, whatever their order, and so are 1 and 1.0.
fn canonical(value: &Json) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    without_fractions(&mut value);
    value.to_string()
}

/// Converts every number without a fraction to an integer.
fn without_fractions(value: &mut Json) {
    match value {
        Json::Number(number) if number.is_f64() => {
            if let Some(same) = number.as_f64().and_then(whole) {
                *value = same.into();
            }
        }
        Json::Array(items) => items.iter_mut().for_each(without_fractions),
        Json::Object(members) => members.values_mut().for_each(without_fractions),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

fn by_keys(a: &Json, b: &Json, keys: &[String]) -> Ordering {
    if keys.is_empty() {
        return order(a, b);
    }
    // Not copied: each comparison reads two items, and a member may be a whole document.
    keys.iter()
        .map(|key| order(a.get(key).unwrap_or(&Json::Null), b.get(key).unwrap_or(&Json::Null)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Natural order; values of different types are sorted by type, so that every list can be sorted.
fn order(a: &Json, b: &Json) -> Ordering {
    let rank = |value: &Json| match value {
        Json::Null => 0,
        Json::Bool(_) => 1,
        Json::Number(_) => 2,
        Json::String(_) => 3,
        Json::Array(_) => 4,
        Json::Object(_) => 5,
    };
    match (a, b) {
        (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
        (Json::Number(a), Json::Number(b)) => by_digits(a, b),
        (Json::String(a), Json::String(b)) => a.cmp(b),
        (Json::Array(a), Json::Array(b)) => {
            let differing = a.iter().zip(b).map(|(a, b)| order(a, b)).find(|order| order.is_ne());
            differing.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Json::Object(_), Json::Object(_)) => canonical(a).cmp(&canonical(b)),
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Compares two numbers by all of their digits: as floating-point numbers, two long ids could be equal.
fn by_digits(a: &Number, b: &Number) -> Ordering {
    let real = |number: &Number| number.as_f64().unwrap_or_default();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only what is as large as a whole number is looked at"
    )]
    let whole = |number: &Number| {
        let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
        whole.unwrap_or_else(|| real(number) as i128)
    };
    real(a).total_cmp(&real(b)).then_with(|| whole(a).cmp(&whole(b)))
}

#[async_trait]
impl Component for ListOperations {
    fn shape(&self) -> Shape {
        let expects = self.query.iter().map(|query| (query.clone(), Expected::List)).collect();
        let (reads, warnings) = (Reads::always(self.query.clone()), self.warnings.clone());
        Shape { reads, expects, warnings, main_output: "result", ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let Some(query) = &self.query else {
            return Err(Error::internal("a ListOperations was built without its list"));
        };
        let value = ctx.inputs.json(query);
        let Json::Array(items) = &*value else {
            return Err(Error::invalid(format!("`{query}` is {}, not a list", described(&value)))
                .help("let `query` name an output that is a list"));
        };
        let result = self.result(items)?;
        let end = |item: Option<&Json>| item.cloned().unwrap_or_default();
        let (first, last) = (end(result.first()), end(result.last()));
        let outputs: Outputs =
            [("result", Json::Array(result)), ("first", first), ("last", last)].into_iter().collect();
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, failure, outputs};
    use serde_json::{Value as Json, json};

    #[tokio::test]
    async fn operations() {
        let check = async |params: Json, list: Json, expected: Json| {
            let mut all = params.clone();
            all["query"] = json!("Agent:A@l");
            let found =
                outputs(&Node::new("ListOperations", all), Setting::values([("Agent:A@l", list)])).await;
            let end = |item: Option<&Json>| item.cloned().unwrap_or_default();
            let items = expected.as_array().unwrap();
            let (first, last) = (end(items.first()), end(items.last()));
            assert_eq!(found, json!({"result": expected, "first": first, "last": last}), "{params}");
        };
        let list = || json!([3, 1, 2, 1]);
        check(json!({"operations": "topN", "n": 2}), list(), json!([3, 1])).await;
        check(json!({"operations": "head", "n": "3"}), list(), json!([3, 1, 2])).await;
        check(json!({"operations": "tail", "n": 2}), list(), json!([2, 1])).await;
        check(json!({"operations": "head", "n": 2, "dsl_version": 1}), list(), json!([1])).await;
        check(json!({"operations": "tail", "n": 2, "dsl_version": 1}), list(), json!([2])).await;
        check(json!({"operations": "topN", "n": 9}), list(), json!([3, 1, 2, 1])).await;
        check(json!({"operations": "nth", "n": -1}), list(), json!([1])).await;
        check(json!({"n": 1}), list(), json!([3])).await;
        check(json!({"n": 0}), list(), json!([])).await;
        check(json!({"n": 9}), list(), json!([])).await;
        check(
            json!({"operations": "drop_duplicates"}),
            json!([{"a": 1, "b": 2}, {"b": 2, "a": 1}, 1, 1]),
            json!([{"a": 1, "b": 2}, 1]),
        )
        .await;
        check(
            json!({"operations": "drop_duplicates"}),
            json!([1, 1.0, 1.5, "1", {"a": [2.0]}, {"a": [2]}, -0.0, 0]),
            json!([1, 1.5, "1", {"a": [2.0]}, -0.0]),
        )
        .await;
        check(json!({"operations": "sort"}), list(), json!([1, 1, 2, 3])).await;
        let (one, next) = (9_007_199_254_740_992_u64, 9_007_199_254_740_993_u64);
        check(json!({"operations": "sort"}), json!([next, one, 1.5]), json!([1.5, one, next])).await;
        check(
            json!({"operations": "sort", "sort_method": "desc"}),
            json!(["a", 2, null]),
            json!(["a", 2, null]),
        )
        .await;
        let rows = json!([{"n": 2, "t": "a"}, {"n": 1, "t": "b"}, {"n": 1, "t": "a"}]);
        check(
            json!({"operations": "sort", "sort_by": "n, t"}),
            rows,
            json!([{"n": 1, "t": "a"}, {"n": 1, "t": "b"}, {"n": 2, "t": "a"}]),
        )
        .await;
        check(
            json!({"operations": "filter", "filter": {"operator": "contains", "value": "b"}}),
            json!(["ab", "c"]),
            json!(["ab"]),
        )
        .await;
        let above =
            |value: Json| json!({"operations": "filter", "filter": {"operator": ">", "value": value}});
        check(above(json!("9")), json!([10, 9, "11", "x", null]), json!([10, "11", "x"])).await;
        check(above(json!(-2.5)), json!([-3, -2, 0]), json!([-2, 0])).await;
    }

    #[tokio::test]
    async fn failures_and_problems() {
        let node = Node::new("ListOperations", json!({"query": "Agent:A@l", "n": 9, "strict": true}));
        assert!(
            failure(&node, Setting::values([("Agent:A@l", json!([1]))])).await.message.contains("n is 9")
        );
        assert!(
            failure(&node, Setting::values([("Agent:A@l", json!("x"))])).await.message.contains("not a list")
        );
        let node = Node::new("ListOperations", json!({"operations": "shuffle"}));
        assert_eq!(node.problems(), ["/query", "/operations"]);
    }
}
