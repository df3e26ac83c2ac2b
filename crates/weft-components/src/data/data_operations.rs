//! The DataOperations component: selects, renames, filters and changes the members of objects.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use serde_json::Map;
use weft_core::literal::literal;
use weft_core::value::{size, to_text};
use weft_core::{
    Component, ComponentSpec, Expected, Finished, Json, NodeContext, Outputs, ParamProblem, Reads, Reference,
    Result, Role, Shape, Template, async_trait,
};

use crate::params::{Field, Kind, Params, choice, described, fields, pointer};
use weft_core::operators::{Operator, holds_as_text};

static QUERY: Field = Field::raw("query", Kind::List, "references to objects or lists of objects");
static OPERATIONS: Field<&str> = Field::choice(
    "operations",
    "literal_eval",
    &[
        choice("select_keys", "keeps some members"),
        choice("literal_eval", "parses texts that contain values"),
        choice("combine", "merges all objects into one"),
        choice("filter_values", "keeps the objects that match the rules"),
        choice("append_or_update", "sets members"),
        choice("remove_keys", "removes members"),
        choice("rename_keys", "renames members"),
    ],
    "the operation",
);
static SELECT_KEYS: Field =
    Field::raw("select_keys", Kind::List, "the keys to keep").shown_when("operations", &["select_keys"]);
static REMOVE_KEYS: Field =
    Field::raw("remove_keys", Kind::List, "the keys to remove").shown_when("operations", &["remove_keys"]);
static RENAME_KEYS: Field = Field::raw(
    "rename_keys",
    Kind::Objects(&[
        Field::raw("old_key", Kind::Text, "the current key"),
        Field::raw("new_key", Kind::Text, "the new key"),
    ]),
    "the keys to rename",
)
.shown_when("operations", &["rename_keys"]);
static FILTER_VALUES: Field = Field::raw(
    "filter_values",
    Kind::Objects(&[
        Field::raw("key", Kind::Text, "the member to check"),
        Field::raw("operator", Kind::Text, "`=`, `≠`, `contains`, `start with` or `end with`"),
        Field::raw("value", Kind::Template, "the value to compare it with"),
    ]),
    "the rules",
)
.shown_when("operations", &["filter_values"]);
static UPDATES: Field = Field::raw(
    "updates",
    Kind::Objects(&[
        Field::raw("key", Kind::Text, "the member to set"),
        Field::raw("value", Kind::Template, "its value"),
    ]),
    "the members to set",
)
.shown_when("operations", &["append_or_update"]);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "DataOperations",
    role: Role::Step,
    summary: "Selects, renames, filters and changes the members of objects.",
    fields: &[fields(&[
        &QUERY,
        &OPERATIONS,
        &SELECT_KEYS,
        &REMOVE_KEYS,
        &RENAME_KEYS,
        &FILTER_VALUES,
        &UPDATES,
    ])],
    outputs: &[weft_core::OutputSpec::new("result", "any", "the result")],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let query = queries(&mut params);
        let work = work(&mut params);
        let warnings = params.warnings();
        params.finish(DataOperations { query, work, warnings })
    },
};

enum DataOperation {
    // Sets, because a canvas may name as many keys as an object has.
    SelectKeys(HashSet<String>),
    LiteralEval,
    Combine,
    FilterValues(Vec<ValueRule>),
    AppendOrUpdate(Vec<(String, RuleValue)>),
    RemoveKeys(HashSet<String>),
    RenameKeys(HashMap<String, String>),
}

struct ValueRule {
    key: String,
    operator: Option<Operator>,
    value: RuleValue,
}

enum RuleValue {
    Constant(Json),
    Text(Template),
}

impl RuleValue {
    fn get(&self, ctx: &NodeContext) -> Result<Json> {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Text(template) => template.render(&ctx.inputs).map(Json::String),
        }
    }
}

fn queries(params: &mut Params<'_>) -> Vec<Reference> {
    let entries = match params.get(&QUERY) {
        Some(Json::Array(entries)) => entries.clone(),
        Some(entry @ Json::String(_)) => vec![entry.clone()],
        _ => Vec::new(),
    };
    let (mut references, told_before) = (Vec::new(), params.problems().len());
    for (place, entry) in entries.iter().enumerate() {
        let at = pointer(&["query", &place.to_string()]);
        match entry.get("input").unwrap_or(entry) {
            Json::String(text) if text.trim().is_empty() => {}
            Json::String(text) => references.extend(params.reference_at(at, text)),
            Json::Null => {}
            other => {
                let message = format!("must be a reference, and is {}", described(other));
                params
                    .problem(ParamProblem::new(at, message).help("write it as `Invoke:Fetch@result.items`"));
            }
        }
    }
    let is_told = params.problems().len() > told_before;
    if references.is_empty() && !is_told {
        let problem = ParamProblem::new("/query", "names no data to work on");
        params.problem(problem.help("refer to an output that is an object or a list of objects"));
    }
    references
}

fn work(params: &mut Params<'_>) -> DataOperation {
    match params.take(&OPERATIONS) {
        "select_keys" => DataOperation::SelectKeys(keys(params, &SELECT_KEYS)),
        "remove_keys" => DataOperation::RemoveKeys(keys(params, &REMOVE_KEYS)),
        "combine" => DataOperation::Combine,
        "rename_keys" => {
            let text = |object: &Map<String, Json>, key| object.get(key).map(to_text).unwrap_or_default();
            let mut names = HashMap::new();
            for (place, row) in params.rows(&RENAME_KEYS, &["old_key", "new_key"]) {
                let (old, new) = (text(row, "old_key"), text(row, "new_key"));
                let missing =
                    [("old_key", &old), ("new_key", &new)].into_iter().find(|(_, key)| key.is_empty());
                if let Some((name, _)) = missing {
                    let at = pointer(&["rename_keys", &place.to_string(), name]);
                    let problem = ParamProblem::new(at, "is missing, so no member is renamed");
                    params.warn(problem.help("fill the row in, or remove it"));
                    continue;
                }
                // Of two names for one key the first one counts.
                names.entry(old).or_insert(new);
            }
            DataOperation::RenameKeys(names)
        }
        "append_or_update" => {
            let mut updates = Vec::new();
            for (place, object) in params.rows(&UPDATES, &["key", "value"]) {
                let key = object.get("key").map(to_text).unwrap_or_default();
                if key.trim().is_empty() {
                    let at = pointer(&["updates", &place.to_string(), "key"]);
                    let problem = ParamProblem::new(at, "is missing, so no member is set");
                    params.warn(problem.help("enter the name of the member, or remove the row"));
                    continue;
                }
                updates.push((key, value(params, object)));
            }
            DataOperation::AppendOrUpdate(updates)
        }
        "filter_values" => DataOperation::FilterValues(rules(params)),
        _ => DataOperation::LiteralEval,
    }
}

fn rules(params: &mut Params<'_>) -> Vec<ValueRule> {
    let mut rules = Vec::new();
    for (place, object) in params.objects(&FILTER_VALUES) {
        let spelled = object.get("operator").and_then(Json::as_str).unwrap_or_default();
        let operator = Operator::parse(spelled);
        if operator.is_none() && !spelled.is_empty() {
            let at = pointer(&["filter_values", &place.to_string(), "operator"]);
            let problem = ParamProblem::new(at, format!("`{spelled}` is not an operator"));
            params.problem(problem.help("use `=`, `≠`, `contains`, `start with` or `end with`"));
        }
        let key = object.get("key").map(to_text).unwrap_or_default();
        for (name, is_missing) in [("key", key.is_empty()), ("operator", spelled.is_empty())] {
            if is_missing {
                let at = pointer(&["filter_values", &place.to_string(), name]);
                let problem = ParamProblem::new(at, "is missing, so no object passes");
                params.warn(problem.help("fill the rule in, or remove it"));
            }
        }
        rules.push(ValueRule { key, operator, value: value(params, object) });
    }
    rules
}

fn value(params: &Params<'_>, object: &Map<String, Json>) -> RuleValue {
    match object.get("value") {
        // A text may contain references; any other value is meant literally.
        Some(Json::String(text)) => RuleValue::Text(Template::parse_value(text, params.source.names())),
        // A missing value is the empty text, as in a form.
        other => RuleValue::Constant(other.cloned().unwrap_or_else(|| "".into())),
    }
}

/// Returns keys given as texts, or as the `{name}` objects of the editor.
fn keys(params: &Params<'_>, field: &Field) -> HashSet<String> {
    let entries = params.get(field).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    entries.iter().map(|entry| to_text(entry.get("name").unwrap_or(entry))).collect()
}

type Object = Map<String, Json>;

/// Collects the objects in a value.
fn objects(value: Json, found: &mut Vec<Object>) {
    match value {
        Json::Object(object) => found.push(object),
        Json::Array(items) => found.extend(items.into_iter().filter_map(|item| match item {
            Json::Object(object) => Some(object),
            _ => None,
        })),
        _ => {}
    }
}

fn evaluated(value: Json) -> Json {
    match value {
        Json::String(text) => literal(&text).unwrap_or(Json::String(text)),
        Json::Array(items) => items.into_iter().map(evaluated).collect(),
        Json::Object(members) => members.into_iter().map(|(key, value)| (key, evaluated(value))).collect(),
        other => other,
    }
}

/// Combines objects into one; if several have a key, its values become a list.
fn combined(objects: Vec<Object>) -> Json {
    let mut members: IndexMap<String, Vec<Json>> = IndexMap::new();
    for (key, value) in objects.into_iter().flatten() {
        members.entry(key).or_default().push(value);
    }
    let joined = |mut values: Vec<Json>| match values.len() {
        1 => values.remove(0),
        _ => values
            .into_iter()
            .flat_map(|value| match value {
                Json::Array(items) => items,
                other => vec![other],
            })
            .collect(),
    };
    members.into_iter().map(|(key, values)| (key, joined(values))).collect()
}

/// Renames members of an object. An existing member with one of the new names is replaced, regardless of their order.
fn renamed(object: Object, names: &HashMap<String, String>) -> Object {
    let taken: HashSet<String> = object.keys().filter_map(|key| names.get(key).cloned()).collect();
    let stays = |key: &String| names.contains_key(key) || !taken.contains(key);
    let members = object.into_iter().filter(|(key, _)| stays(key));
    members.map(|(key, value)| (names.get(&key).cloned().unwrap_or(key), value)).collect()
}

struct DataOperations {
    query: Vec<Reference>,
    work: DataOperation,
    warnings: Vec<ParamProblem>,
}

impl DataOperations {
    /// Returns the problem of an empty parameter without which the operation does nothing, or leaves nothing.
    fn unfilled(&self) -> Option<ParamProblem> {
        let nothing = |keys: &HashSet<String>| keys.iter().all(|key| key.trim().is_empty());
        let (field, so) = match &self.work {
            DataOperation::SelectKeys(keys) if nothing(keys) => {
                (&SELECT_KEYS, "names no member, so the result is always empty")
            }
            DataOperation::RemoveKeys(keys) if nothing(keys) => {
                (&REMOVE_KEYS, "names no member, so nothing is removed")
            }
            DataOperation::RenameKeys(names) if names.is_empty() => {
                (&RENAME_KEYS, "names no member, so nothing is renamed")
            }
            DataOperation::AppendOrUpdate(updates) if updates.is_empty() => {
                (&UPDATES, "sets no member, so nothing changes")
            }
            DataOperation::FilterValues(rules) if rules.is_empty() => {
                (&FILTER_VALUES, "has no rule, so every object is kept")
            }
            _ => return None,
        };
        Some(ParamProblem::new(pointer(&[field.name()]), so).help("fill it in, or choose another operation"))
    }

    fn result(&self, ctx: &NodeContext, objects: Vec<Object>) -> Result<Json> {
        let each = |change: &dyn Fn(Object) -> Object| {
            objects.clone().into_iter().map(|o| Json::Object(change(o))).collect()
        };
        Ok(match &self.work {
            DataOperation::LiteralEval => {
                each(&|o| o.into_iter().map(|(key, value)| (key, evaluated(value))).collect())
            }
            DataOperation::SelectKeys(keys) => {
                each(&|o| o.into_iter().filter(|(key, _)| keys.contains(key)).collect())
            }
            DataOperation::RemoveKeys(keys) => {
                each(&|o| o.into_iter().filter(|(key, _)| !keys.contains(key)).collect())
            }
            DataOperation::RenameKeys(names) => each(&|o| renamed(o, names)),
            DataOperation::AppendOrUpdate(updates) => {
                // Evaluated once: references are the same for each object.
                let news = updates.iter().map(|(key, value)| Ok((key, value.get(ctx)?)));
                let news = news.collect::<Result<Vec<_>>>()?;
                // Each object gets its own copy.
                let bytes: usize = news.iter().map(|(key, value)| key.len() + size(value)).sum();
                ctx.inputs.room().take(bytes.saturating_mul(objects.len()))?;
                each(&|mut o| {
                    o.extend(news.iter().map(|(key, value)| ((*key).clone(), value.clone())));
                    o
                })
            }
            DataOperation::FilterValues(rules) => {
                let wanted = rules.iter().map(|rule| Ok(to_text(&rule.value.get(ctx)?)));
                let wanted = wanted.collect::<Result<Vec<_>>>()?;
                let passes = |object: &Object| {
                    rules.iter().zip(&wanted).all(|(rule, wanted)| {
                        match (object.get(&rule.key), rule.operator) {
                            (Some(found), Some(operator)) => holds_as_text(found, operator, wanted),
                            _ => false,
                        }
                    })
                };
                objects.into_iter().filter(passes).map(Json::Object).collect()
            }
            DataOperation::Combine => combined(objects),
        })
    }
}

#[async_trait]
impl Component for DataOperations {
    fn shape(&self) -> Shape {
        let values: Vec<&RuleValue> = match &self.work {
            DataOperation::FilterValues(rules) => rules.iter().map(|rule| &rule.value).collect(),
            DataOperation::AppendOrUpdate(updates) => updates.iter().map(|(_, value)| value).collect(),
            _ => Vec::new(),
        };
        let texts = values.into_iter().filter_map(|value| match value {
            RuleValue::Text(template) => Some(template.references().cloned()),
            RuleValue::Constant(_) => None,
        });
        let reads = Reads::always(self.query.iter().cloned().chain(texts.flatten()));
        let warnings = self.warnings.clone();
        let unfilled = self.unfilled().into_iter().collect();
        let expects = self.query.iter().map(|query| (query.clone(), Expected::Objects)).collect();
        Shape { reads, expects, main_output: "result", warnings, unfilled, ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let mut found = Vec::new();
        for reference in &self.query {
            // A copy: what another node produced is never modified.
            objects(ctx.inputs.copied(reference)?, &mut found);
        }
        Ok(Outputs::of("result", self.result(ctx, found)?).into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, outputs};
    use serde_json::{Value as Json, json};

    async fn result(mut params: Json) -> Json {
        params["query"] = json!(["{Agent:A@o}", "Agent:B@l"]);
        let values = [
            ("Agent:A@o", json!({"a": "1", "b": ["x"]})),
            ("Agent:B@l", json!([{"a": "True", "c": "汉"}, "ignored"])),
            ("sys.query", json!("")),
        ];
        outputs(&Node::new("DataOperations", params), Setting::values(values)).await["result"].clone()
    }

    #[tokio::test]
    async fn operations() {
        let check = async |params: Json, expected: Json| {
            assert_eq!(result(params.clone()).await, expected, "{params}");
        };
        check(json!({}), json!([{"a": 1, "b": ["x"]}, {"a": true, "c": "汉"}])).await;
        check(
            json!({"operations": "select_keys", "select_keys": [{"name": "a"}]}),
            json!([{"a": "1"}, {"a": "True"}]),
        )
        .await;
        check(json!({"operations": "remove_keys", "remove_keys": ["a"]}), json!([{"b": ["x"]}, {"c": "汉"}]))
            .await;
        check(json!({"operations": "combine"}), json!({"a": ["1", "True"], "b": ["x"], "c": "汉"})).await;
        let renames = json!({"operations": "rename_keys", "rename_keys": [{"old_key": "a", "new_key": "z"}]});
        check(renames, json!([{"z": "1", "b": ["x"]}, {"z": "True", "c": "汉"}])).await;
        let renames = json!({"operations": "rename_keys", "rename_keys": [{"old_key": "a", "new_key": "b"}, {"old_key": "c", "new_key": "a"}]});
        check(renames, json!([{"b": "1"}, {"b": "True", "a": "汉"}])).await;
        let filter = |key: &str, operator: &str, value: &str| json!({"operations": "filter_values", "filter_values": [{"key": key, "operator": operator, "value": value}]});
        check(filter("a", "start with", "T"), json!([{"a": "True", "c": "汉"}])).await;
        check(filter("c", "≠", "x"), json!([{"a": "True", "c": "汉"}])).await;
        check(filter("a", "=", "{sys.query}"), json!([])).await;
        check(filter("a", "", "1"), json!([])).await;
        let update = json!({"operations": "append_or_update", "updates": [{"key": "a", "value": "{sys.query}"}, {"key": "n", "value": 3}]});
        check(update, json!([{"a": "", "b": ["x"], "n": 3}, {"a": "", "c": "汉", "n": 3}])).await;
        // Rows that an editor has left behind.
        let unnamed = json!({"operations": "append_or_update", "updates": [{"key": "", "value": ""}, {"key": " ", "value": 1}, {"key": "a", "value": 2}]});
        check(unnamed, json!([{"a": 2, "b": ["x"]}, {"a": 2, "c": "汉"}])).await;
    }

    #[test]
    fn missing_parameters_are_named() {
        let check = |operation: &str, more: Json, expected: &[&str]| {
            let mut params = json!({"query": ["Agent:A@o"], "operations": operation});
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let shape = Node::new("DataOperations", params).build().shape();
            let told = shape.warnings.iter().chain(&shape.unfilled);
            assert_eq!(
                told.map(|problem| problem.pointer.as_str()).collect::<Vec<_>>(),
                expected,
                "{operation} {more}"
            );
        };
        for (operation, field) in [
            ("select_keys", "/select_keys"),
            ("remove_keys", "/remove_keys"),
            ("rename_keys", "/rename_keys"),
            ("append_or_update", "/updates"),
            ("filter_values", "/filter_values"),
        ] {
            check(operation, json!({}), &[field]);
        }
        check("combine", json!({}), &[]);
        check("select_keys", json!({"select_keys": [{"name": ""}]}), &["/select_keys"]);
        check("select_keys", json!({"select_keys": ["a"]}), &[]);
        check(
            "append_or_update",
            json!({"updates": [{"key": "", "value": ""}, {"value": 1}, {"key": "a", "value": ""}]}),
            &["/updates/0", "/updates/1/key"],
        );
        check("filter_values", json!({"filter_values": [{"key": "a", "operator": "=", "value": ""}]}), &[]);
        let places = ["/filter_values/0/key", "/filter_values/0/operator"];
        check("filter_values", json!({"filter_values": [{"value": "x"}]}), &places);
    }

    #[test]
    fn problems_are_all_reported() {
        let check = |params: Json, expected: &[&str]| {
            assert_eq!(Node::new("DataOperations", params).problems(), expected);
        };
        check(json!({"operations": "exec"}), &["/query", "/operations"]);
        check(json!({"query": ["?"]}), &["/query/0"]);
        check(
            json!({"query": "sys.query", "operations": "filter_values", "filter_values": [{"operator": "like"}]}),
            &["/filter_values/0/operator"],
        );
    }
}
