//! Metadata of documents: conditions, updates of many documents, summaries, and what a model is to extract.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use weft_core::filter::{Condition, Filter, FilterOperator, Logic, Metadata};
use weft_core::seam::dataset_store::Settings;
use weft_core::value::to_text;

use super::python;
use super::rules::{Problems, Rule};
use crate::body::Body;
use crate::error::ApiError;

/// Maximum number of conditions in one request.
const CONDITIONS_MAX: usize = 100;

/// Maximum number of values of one key in a summary; those with the most documents come first.
const VALUES_SHOWN_MAX: usize = 1_000;

/// Maximum length of the metadata of a document as JSON.
const METADATA_MAX: usize = 65_535;

/// Settings that configure what a model is to extract from a document.
const CONFIG: [&str; 2] = ["metadata", "built_in_metadata"];

/// Types of values that older clients may specify.
const KINDS: &[&str] = &["string", "list", "time", "number"];

/// The setting that enables the extraction.
const SWITCH: &str = "enable_metadata";

/// Reads `{"logic": …, "conditions": [{"name", "comparison_operator", "value"}]}`, or with `logical_operator` and
/// lists of names as Dify sends it. Without conditions there is no filter.
///
/// # Errors
/// 102 with the API's message for a value that is not an object, and for an unknown operator.
pub fn condition(json: Option<&Json>) -> Result<Option<Filter>, ApiError> {
    let object = match json {
        None | Some(Json::Null) => return Ok(None),
        Some(Json::Object(object)) => object,
        Some(_) => return Err(ApiError::data("metadata_condition must be an object.")),
    };
    let list = match object.get("conditions") {
        None | Some(Json::Null) => return Ok(None),
        Some(Json::Array(list)) => list,
        Some(_) => return Err(ApiError::data("the conditions of metadata_condition must be a list.")),
    };
    if list.len() > CONDITIONS_MAX {
        return Err(ApiError::data(format!(
            "metadata_condition may have at most {CONDITIONS_MAX} conditions."
        )));
    }
    let logic = object.get("logic").or_else(|| object.get("logical_operator")).and_then(Json::as_str);
    let logic = match logic.unwrap_or("and").to_lowercase().as_str() {
        "and" => Logic::And,
        "or" => Logic::Or,
        other => {
            return Err(ApiError::data(format!(
                "the logic of metadata_condition is `{other}`, but must be `and` or `or`."
            )));
        }
    };
    let conditions: Vec<Condition> = list.iter().map(one_condition).collect::<Result<_, _>>()?;
    Ok((!conditions.is_empty()).then_some(Filter { logic, conditions }))
}

fn one_condition(json: &Json) -> Result<Condition, ApiError> {
    let text = |value: &'_ Json| match value {
        Json::Array(list) => match list.as_slice() {
            [Json::String(only)] => Some(only.clone()),
            _ => None,
        },
        value => value.as_str().map(str::to_owned),
    };
    let named = |names: &[&str]| names.iter().find_map(|name| text(json.get(name)?));
    let Some(key) = named(&["name", "key"]).filter(|key| !key.is_empty()) else {
        return Err(ApiError::data("each condition of metadata_condition needs a name."));
    };
    let word = named(&["comparison_operator", "operator", "op"]).unwrap_or_else(|| "=".to_owned());
    let Some(operator) = FilterOperator::parse(&word) else {
        let known: Vec<_> =
            FilterOperator::ALL.iter().filter_map(|one| serde_json::to_value(one).ok()).collect();
        let known: Vec<_> = known.iter().filter_map(Json::as_str).collect();
        let known = known.join(", ");
        return Err(ApiError::data(format!("comparison_operator is `{word}`; it can be one of: {known}.")));
    };
    let value = json.get("value").cloned().unwrap_or_default();
    if value.is_null() && !matches!(operator, FilterOperator::Empty | FilterOperator::NotEmpty) {
        return Err(ApiError::data(format!("the condition on `{key}` in metadata_condition needs a value.")));
    }
    Ok(Condition { key, operator, value })
}

/// Reads metadata from a request: keys with a string, a number or a flat list.
///
/// # Errors
/// A message that names the value that is not allowed.
pub(crate) fn given(json: &Json) -> Result<Metadata, String> {
    let Json::Object(object) = json else { return Err("Input should be a valid dictionary".to_owned()) };
    if object.contains_key("") {
        return Err("a key is empty; every key needs a name".to_owned());
    }
    let plain = |value: &Json| value.is_string() || value.is_number() || value.is_boolean();
    for value in object.values() {
        match value {
            Json::Array(list) if list.iter().all(plain) => {}
            Json::Array(_) => {
                return Err(format!("The type is not supported in list: {}", python::quoted(value)));
            }
            value if plain(value) => {}
            other => return Err(format!("The type is not supported: {}", python::shown(other))),
        }
    }
    if json.to_string().chars().count() > METADATA_MAX {
        return Err(too_long().message().to_owned());
    }
    Ok(object.clone())
}

/// An update of the metadata of many documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataUpdate {
    /// Only these documents; absent: all.
    pub documents: Option<Vec<String>>,
    /// Only the documents that match.
    pub filter: Option<Filter>,
    updates: Vec<Update>,
    deletes: Vec<Delete>,
}

#[derive(Clone, Debug, PartialEq)]
struct Update {
    key: String,
    value: Json,
    /// Only values with this text.
    matching: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Delete {
    key: String,
    /// Only values with this text.
    value: Option<String>,
}

impl MetadataUpdate {
    /// Reads `{"selector": …, "updates": […], "deletes": […]}`.
    ///
    /// # Errors
    /// 102 with the API's message.
    pub fn read(body: &Body) -> Result<Self, ApiError> {
        let nothing = Json::Object(serde_json::Map::new());
        let selector = body.get("selector").unwrap_or(&nothing);
        if !selector.is_object() {
            return Err(ApiError::data("selector must be an object."));
        }
        let lists = [body.get("updates"), body.get("deletes")];
        let [Some(updates), Some(deletes)] = lists.map(|list| match list {
            None => Some(&[][..]),
            Some(list) => list.as_array().map(Vec::as_slice),
        }) else {
            return Err(ApiError::data("updates and deletes must be lists."));
        };
        let filter = condition(selector.get("metadata_condition"))?;
        let documents = match selector.get("document_ids") {
            None | Some(Json::Null) => None,
            Some(Json::Array(list)) => Some(list.iter().map(to_text).collect()),
            Some(_) => return Err(ApiError::data("document_ids must be a list.")),
        };
        Ok(Self {
            documents,
            filter,
            updates: updates.iter().map(Update::read).collect::<Result<_, _>>()?,
            deletes: deletes.iter().map(Delete::read).collect::<Result<_, _>>()?,
        })
    }

    /// Applies the update to the metadata of a document.
    ///
    /// # Errors
    /// 102 when the metadata grows beyond the limit.
    pub fn applied(&self, before: &Metadata) -> Result<Metadata, ApiError> {
        let mut metadata = before.clone();
        for update in &self.updates {
            update.apply(&mut metadata)?;
        }
        for delete in &self.deletes {
            delete.apply(&mut metadata);
        }
        // Extracted metadata may exceed the limit, and may then only be shortened.
        if metadata != *before {
            let length = length_of(&metadata);
            if length > METADATA_MAX && length > length_of(before) {
                return Err(too_long());
            }
        }
        Ok(metadata)
    }
}

fn length_of(metadata: &Metadata) -> usize {
    Json::Object(metadata.clone()).to_string().chars().count()
}

fn too_long() -> ApiError {
    ApiError::data(format!("The metadata should have at most {METADATA_MAX} characters"))
}

fn key(json: &Json) -> Option<String> {
    json.get("key").and_then(Json::as_str).filter(|key| !key.is_empty()).map(str::to_owned)
}

/// The text that a value must have; null and an empty string mean any.
fn matching(json: Option<&Json>) -> Option<String> {
    json.filter(|value| !value.is_null()).map(to_text)
}

impl Update {
    fn read(json: &Json) -> Result<Self, ApiError> {
        match (key(json), json.get("value").filter(|value| !value.is_null())) {
            (Some(key), Some(value)) => {
                let object = Json::Object([(key.clone(), value.clone())].into_iter().collect());
                given(&object).map_err(ApiError::data)?;
                let matching = matching(json.get("match")).filter(|text| !text.is_empty());
                Ok(Self { key, value: value.clone(), matching })
            }
            _ => Err(ApiError::data("Each update requires key and value.")),
        }
    }

    fn apply(&self, metadata: &mut Metadata) -> Result<(), ApiError> {
        let Some(wanted) = &self.matching else {
            let value = match (metadata.get(&self.key), &self.value) {
                // A list remains a list.
                (Some(Json::Array(_)), value) if !value.is_array() => Json::Array(vec![value.clone()]),
                (_, value) => value.clone(),
            };
            metadata.insert(self.key.clone(), value);
            return Ok(());
        };
        match metadata.get_mut(&self.key) {
            Some(Json::Array(list)) => {
                let alike = list.iter().filter(|value| to_text(value) == *wanted).count();
                // Checked beforehand: replacing very many values by a long one could exhaust memory.
                if alike.saturating_mul(self.value.to_string().chars().count()) > METADATA_MAX {
                    return Err(too_long());
                }
                for value in list.iter_mut().filter(|value| to_text(value) == *wanted) {
                    *value = self.value.clone();
                }
            }
            Some(value) if to_text(value) == *wanted => *value = self.value.clone(),
            _ => {}
        }
        Ok(())
    }
}

impl Delete {
    fn read(json: &Json) -> Result<Self, ApiError> {
        let key = key(json).ok_or_else(|| ApiError::data("Each delete requires key."))?;
        Ok(Self { key, value: matching(json.get("value")) })
    }

    fn apply(&self, metadata: &mut Metadata) {
        let emptied = match (metadata.get_mut(&self.key), &self.value) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(Json::Array(list)), Some(wanted)) => {
                let before = list.len();
                list.retain(|value| to_text(value) != *wanted);
                list.len() < before && list.is_empty()
            }
            (Some(value), Some(wanted)) => to_text(value) == *wanted,
        };
        if emptied {
            // Keeps the order of the other keys, which clients see.
            metadata.shift_remove(&self.key);
        }
    }
}

/// Counts which keys and values documents have.
#[derive(Debug, Default)]
pub struct Summary(HashMap<String, KeySummary>);

#[derive(Debug, Default)]
struct KeySummary {
    kind: Option<&'static str>,
    values: HashMap<String, u64>,
}

impl Summary {
    /// Adds a document.
    pub fn add(&mut self, metadata: &Metadata) {
        for (key, value) in metadata {
            let (kind, values) = match value {
                Json::Array(list) => ("list", list.as_slice()),
                Json::Number(_) => ("number", std::slice::from_ref(value)),
                value => ("string", std::slice::from_ref(value)),
            };
            let entry = self.0.entry(key.clone()).or_default();
            // If documents disagree the type is string, which any value can be read as.
            entry.kind = Some(if entry.kind.is_none_or(|known| known == kind) { kind } else { "string" });
            for value in values.iter().map(to_text).filter(|value| !value.is_empty()) {
                *entry.values.entry(value).or_default() += 1;
            }
        }
    }

    /// Returns the number of documents with each value, by key.
    pub fn into_counts(self) -> Json {
        let counts = |KeySummary { values, .. }: KeySummary| {
            let mut values: Vec<_> = values.into_iter().collect();
            // Equal counts are ordered by value, so that the answer is deterministic.
            values.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
            values.into_iter().take(VALUES_SHOWN_MAX).map(|(value, count)| (value, json!(count))).collect()
        };
        self.0.into_iter().map(|(key, of)| (key, Json::Object(counts(of)))).collect()
    }

    /// Returns the keys by name, and their values by number of documents.
    pub fn into_json(self) -> Json {
        let mut keys: Vec<_> = self.0.into_iter().collect();
        // The map has no fixed order.
        keys.sort_by(|one, other| one.0.cmp(&other.0));
        let shown = keys.into_iter().map(|(key, KeySummary { kind, values })| {
            let mut values: Vec<_> = values.into_iter().collect();
            values.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
            values.truncate(VALUES_SHOWN_MAX);
            (key, json!({"type": kind, "values": values}))
        });
        json!({"summary": Json::Object(shown.collect())})
    }
}

/// What a model is to extract from each document of a dataset.
pub fn config(settings: &Settings) -> Json {
    let [fields, built_in] = CONFIG.map(|key| settings.get(key).cloned().unwrap_or_else(|| json!([])));
    json!({"metadata": with_choices(fields), "built_in_metadata": with_choices(built_in)})
}

/// The same, with the form for older clients and whether it is enabled.
pub fn older_config(settings: &Settings) -> Json {
    let mut shown = config(settings);
    let fields: Json = shown["metadata"].as_array().into_iter().flatten().map(in_older_form).collect();
    shown["fields"] = fields;
    shown["enabled"] = settings.get(SWITCH).and_then(Json::as_bool).unwrap_or(false).into();
    shown
}

/// Gives every field an `enum`; null if any value is allowed.
fn with_choices(mut fields: Json) -> Json {
    let list = fields.as_array_mut().into_iter().flatten();
    for field in list.filter_map(Json::as_object_mut).filter(|field| field.contains_key("key")) {
        field.entry("enum").or_insert(Json::Null);
    }
    fields
}

/// A configuration that replaces another one.
pub fn whole_config(mut given: Settings) -> Json {
    if !given.contains_key("fields") {
        given.entry(CONFIG[0]).or_insert_with(|| json!([]));
    }
    given.entry(CONFIG[1]).or_insert_with(|| json!([]));
    Json::Object(given)
}

/// Adds a configuration to settings; older clients use `fields` and `enabled`.
pub fn put_config(settings: &mut Settings, given: &Json) {
    for key in CONFIG {
        if let Some(value) = given.get(key).filter(|value| !value.is_null()) {
            settings.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(Json::Array(fields)) = given.get("fields") {
        settings.insert("metadata".to_owned(), fields.iter().map(older_field).collect());
    }
    let said = ["enabled", SWITCH].iter().find_map(|key| given.get(*key)?.as_bool());
    let fields = |settings: &Settings| match settings.get("metadata") {
        Some(Json::Array(list)) => !list.is_empty(),
        Some(Json::Object(map)) => !map.is_empty(),
        _ => false,
    };
    // Naming fields without the switch enables the extraction.
    let on = said.unwrap_or_else(|| fields(settings));
    settings.insert(SWITCH.to_owned(), on.into());
}

fn older_field(field: &Json) -> Json {
    let text = |key: &str| field.get(key).cloned().unwrap_or_else(|| json!(""));
    let mut shown = json!({"key": text("name"), "description": text("description")});
    if let Some(kind) = field.get("type").filter(|kind| kind.is_string()) {
        shown["type"] = kind.clone();
    }
    let examples = field.get("examples").filter(|list| list.as_array().is_some_and(|list| !list.is_empty()));
    if let Some(examples) = examples {
        let restricted = field.get("restrict_values").and_then(Json::as_bool) == Some(true);
        shown[if restricted { "enum" } else { "examples" }] = examples.clone();
    }
    shown
}

/// The reverse of [`older_field`].
fn in_older_form(field: &Json) -> Json {
    let member = |key: &str| field.get(key).cloned().unwrap_or_default();
    let choices = member("enum");
    let restricted = !choices.is_null();
    json!({
        "name": field.get("key").unwrap_or(field),
        "type": field.get("type").and_then(Json::as_str).unwrap_or(KINDS[0]),
        "description": member("description"),
        "examples": if restricted { choices } else { member("examples") },
        "restrict_values": restricted,
    })
}

/// Checks a configuration: a value of another kind would be stored and ignored.
pub(crate) fn check_config(problems: &mut Problems, path: &str, config: &Settings) {
    let given = |key: &str| config.get(key).filter(|value| !value.is_null());
    for key in CONFIG {
        if let Some(other) = given(key).filter(|given| !given.is_array() && !given.is_object()) {
            problems.add(&format!("{path}{key}"), "Input should be a valid list or dictionary", other);
        }
    }
    for key in ["enabled", SWITCH] {
        if let Some(switch) = given(key) {
            problems.value(&format!("{path}{key}"), switch, Rule::Flag);
        }
    }
    match given("fields") {
        None => {}
        Some(Json::Array(fields)) => {
            for (place, field) in fields.iter().enumerate() {
                check_older_field(problems, &format!("{path}fields.{place}"), field);
            }
        }
        Some(other) => problems.add(&format!("{path}fields"), "Input should be a valid list", other),
    }
}

/// Checks a field in the form of older clients.
fn check_older_field(problems: &mut Problems, place: &str, field: &Json) {
    if !field.is_object() {
        problems.add(place, "Input should be a valid dictionary", field);
    }
    if let Some(kind) = field.get("type") {
        problems.value(&format!("{place}.type"), kind, Rule::OneOf(KINDS));
    }
    let given = |key: &str| field.get(key).filter(|value| !value.is_null());
    if let Some(switch) = given("restrict_values") {
        problems.value(&format!("{place}.restrict_values"), switch, Rule::Flag);
    }
    if let Some(other) = given("examples").filter(|examples| !examples.is_array()) {
        problems.add(&format!("{place}.examples"), "Input should be a valid list", other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: Json) -> Metadata {
        let Json::Object(map) = json else { panic!("{json}") };
        map
    }

    #[test]
    fn conditions_are_read() {
        let json = json!({"logic": "or", "conditions": [
            {"name": "author", "comparison_operator": "is", "value": "Ada"},
            {"key": "year", "operator": "≥", "value": 1900},
            {"name": "note", "comparison_operator": "empty"},
        ]});
        let filter = condition(Some(&json)).unwrap().unwrap();
        assert_eq!(filter.logic, Logic::Or);
        let operators: Vec<_> = filter.conditions.iter().map(|one| one.operator).collect();
        assert_eq!(operators, [FilterOperator::Equal, FilterOperator::AtLeast, FilterOperator::Empty]);
        assert!(filter.matches(&object(json!({"author": "ada", "note": "x"}))));
        let of_dify = json!({"logical_operator": "or", "conditions": [
            {"name": ["author"], "comparison_operator": "is", "value": "Ada"},
            {"name": ["note"], "comparison_operator": "empty"},
        ]});
        let filter = condition(Some(&of_dify)).unwrap().unwrap();
        assert_eq!((filter.logic, filter.conditions[0].key.as_str()), (Logic::Or, "author"));
        for nothing in [None, Some(json!(null)), Some(json!({})), Some(json!({"conditions": []}))] {
            assert_eq!(condition(nothing.as_ref()).unwrap(), None);
        }
        let check = |json: Json, words: &str| {
            let error = format!("{:?}", condition(Some(&json)).unwrap_err());
            assert!(error.contains("code: 102") && error.contains(words), "{json}: {error}");
        };
        check(json!([]), "metadata_condition must be an object.");
        check(json!({"conditions": 1}), "must be a list");
        check(json!({"conditions": [{}]}), "needs a name");
        check(json!({"conditions": [{"name": ["a", "b"], "value": 1}]}), "needs a name");
        check(
            json!({"conditions": [{"name": "a", "comparison_operator": ">"}]}),
            "`a` in metadata_condition needs a value",
        );
        check(json!({"logic": "xor", "conditions": []}), "`xor`");
        check(
            json!({"conditions": [{"name": "a", "comparison_operator": "like"}]}),
            "`like`; it can be one of: =, ≠",
        );
        check(json!({"conditions": vec![json!({"name": "a"}); 101]}), "may have at most 100");
    }

    #[test]
    fn metadata_must_be_flat() {
        given(&json!({"a": "x", "b": 1, "c": [1, "y"], "d": true})).unwrap();
        let check = |json: Json, words: &str| assert!(given(&json).unwrap_err().contains(words), "{json}");
        check(json!([]), "Input should be a valid dictionary");
        check(json!({"a": {"b": 1}}), "The type is not supported: {'b': 1}");
        check(json!({"a": null}), "The type is not supported: None");
        check(json!({"a": [1, [2]]}), "The type is not supported in list: [1, [2]]");
        check(json!({"a": "x".repeat(70_000)}), "at most 65535");
    }

    #[test]
    fn updates_and_deletes_apply_to_the_metadata_of_a_document() {
        let read = |json: Json| MetadataUpdate::read(&Body(object(json)));
        let check = |before: Json, updates: Json, deletes: Json, after: Json| {
            let update = read(json!({"updates": updates, "deletes": deletes})).unwrap();
            let applied = Json::Object(update.applied(&object(before.clone())).unwrap());
            assert_eq!(applied, after, "{before} {updates} {deletes}");
        };
        let set = |key: &str, value: Json| json!([{"key": key, "value": value}]);
        check(json!({}), set("a", json!("x")), json!([]), json!({"a": "x"}));
        check(json!({"a": ["y"]}), set("a", json!("x")), json!([]), json!({"a": ["x"]}));
        check(json!({"a": "y"}), set("a", json!(["x", "z"])), json!([]), json!({"a": ["x", "z"]}));
        let matching = json!([{"key": "a", "value": "x", "match": "y"}]);
        check(json!({"a": ["y", "z"]}), matching.clone(), json!([]), json!({"a": ["x", "z"]}));
        check(json!({"a": "z"}), matching.clone(), json!([]), json!({"a": "z"}));
        check(json!({}), matching, json!([]), json!({}));
        check(json!({"a": 1, "b": 2}), json!([]), json!([{"key": "a"}]), json!({"b": 2}));
        check(json!({"a": ["x", "y"]}), json!([]), json!([{"key": "a", "value": "x"}]), json!({"a": ["y"]}));
        check(json!({"a": ["x"]}), json!([]), json!([{"key": "a", "value": "x"}]), json!({}));
        check(json!({"a": 1}), json!([]), json!([{"key": "a", "value": "1"}]), json!({}));
        check(json!({"a": 1}), json!([]), json!([{"key": "a", "value": 2}, {"key": "b"}]), json!({"a": 1}));

        let long = |before: Json, updates: Json| {
            let update = read(json!({"updates": updates})).unwrap();
            update
                .applied(&object(before))
                .map(|metadata| metadata.len())
                .map_err(|error| error.message().to_owned())
        };
        let words = Err("The metadata should have at most 65535 characters".to_owned());
        let most = json!({"a": "x".repeat(60_000)});
        assert_eq!(long(most.clone(), set("b", json!("y".repeat(6_000)))), words);
        assert_eq!(long(most, set("b", json!("y"))), Ok(2));
        let alike = json!({"a": vec!["x"; 20_000]});
        let each = json!([{"key": "a", "value": "y".repeat(60_000), "match": "x"}]);
        assert_eq!(long(alike, each), words, "the too large result is not built");
        let longer = json!({"a": "x".repeat(70_000), "b": 1});
        assert_eq!(long(longer, set("b", json!(2))), Ok(2), "an existing longer value is kept");

        let whole = read(json!({"selector": {"document_ids": ["d"], "metadata_condition": {}}})).unwrap();
        assert_eq!((whole.documents, whole.filter), (Some(vec!["d".to_owned()]), None));
        let refused = |json: Json, words: &str| {
            let error = format!("{:?}", read(json.clone()).unwrap_err());
            assert!(error.contains("code: 102") && error.contains(&format!("{words:?}")), "{json}: {error}");
        };
        refused(json!({"selector": []}), "selector must be an object.");
        refused(json!({"updates": {}}), "updates and deletes must be lists.");
        refused(json!({"deletes": "x"}), "updates and deletes must be lists.");
        refused(json!({"selector": {"metadata_condition": 1}}), "metadata_condition must be an object.");
        refused(json!({"selector": {"document_ids": "x"}}), "document_ids must be a list.");
        refused(json!({"updates": [{"key": "a"}]}), "Each update requires key and value.");
        refused(json!({"updates": ["x"]}), "Each update requires key and value.");
        refused(json!({"deletes": [{}]}), "Each delete requires key.");
        refused(json!({"updates": [{"key": "a", "value": {}}]}), "The type is not supported: {}");
    }

    #[test]
    fn metadata_values_are_counted() {
        let mut summary = Summary::default();
        for metadata in [json!({"a": ["x", "y"], "n": 1}), json!({"a": ["x"], "n": "one"}), json!({"s": " "})]
        {
            summary.add(&object(metadata));
        }
        let expected = json!({"summary": {
            "a": {"type": "list", "values": [["x", 2], ["y", 1]]},
            "n": {"type": "string", "values": [["1", 1], ["one", 1]]},
            "s": {"type": "string", "values": [[" ", 1]]},
        }});
        assert_eq!(summary.into_json(), expected);
    }

    #[test]
    fn both_forms_of_the_automatic_metadata_settings() {
        let mut settings = Settings::new();
        assert_eq!(config(&settings), json!({"metadata": [], "built_in_metadata": []}));
        assert_eq!(older_config(&settings)["enabled"], false);
        put_config(&mut settings, &json!({"metadata": [{"key": "author"}], "built_in_metadata": null}));
        assert_eq!(config(&settings)["metadata"], json!([{"key": "author", "enum": null}]));
        assert_eq!(settings["enable_metadata"], true);
        let older = json!({"enabled": false, "fields": [
            {"name": "kind", "description": "d", "examples": ["a", "b"], "restrict_values": true},
        ]});
        put_config(&mut settings, &older);
        let fields = json!([{"key": "kind", "description": "d", "enum": ["a", "b"]}]);
        let mut told =
            json!({"metadata": fields, "built_in_metadata": [], "enabled": false, "fields": older["fields"]});
        told["fields"][0]["type"] = "string".into();
        assert_eq!(older_config(&settings), told);
        let whole = whole_config(object(json!({"built_in_metadata": [{"key": "a"}]})));
        assert_eq!(whole["metadata"], json!([]), "omitted settings are removed");
    }
}
