//! Which documents a search covers: as the caller says, or as a model infers from the question.

use jiff::Timestamp;
use weft_core::filter::{Condition, Filter, FilterOperator, Logic};
use weft_core::id::DatasetId;
use weft_core::seam::knowledge::MetadataKey;
use weft_core::value::to_text;
use weft_core::{Json, Result};

use super::RetrievalSearch;
use crate::ask::{Ask, Step, ask_json, unexpected};

const INSTRUCTIONS: &str = include_str!("../prompts/filter.md");
/// Maximum number of keys that a model is shown.
const KEYS_MAX: usize = 50;
/// Maximum number of values per key that a model is shown.
const VALUES_MAX: usize = 20;
/// Maximum number of characters of a value that a model is shown.
const VALUE_SHOWN_MAX: usize = 80;
/// Maximum number of conditions that a model may set.
const CONDITIONS_MAX: usize = 20;

/// Which documents are searched.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum FilterChoice {
    /// All.
    #[default]
    All,
    /// Those that match. If none does, nothing is found.
    Given(Filter),
    /// Those that match conditions set by a model. If none does, all.
    ByModel {
        /// The keys that it may use, some with a fixed operator; if empty, any key.
        keys: Vec<(String, Option<FilterOperator>)>,
    },
}

/// The outcome of the filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Filtered {
    /// There was no filter.
    #[default]
    No,
    /// These conditions were applied.
    By(Filter),
    /// No document matches these conditions, which were set by the caller: nothing is found.
    Empty(Filter),
    /// No document matches these conditions, which were set by a model: they were dropped.
    Relaxed(Filter),
}

impl Filtered {
    /// Returns the outcome when no document matches: the caller's conditions hold, those of a model do not.
    pub(super) fn by_nothing(self, choice: &FilterChoice, notes: &mut Vec<String>) -> Self {
        match (self, choice) {
            (Self::By(filter), FilterChoice::ByModel { .. }) => {
                let note = "filter: relaxed because no document matches the conditions of the model";
                notes.push(note.to_owned());
                Self::Relaxed(filter)
            }
            (Self::By(filter), FilterChoice::Given(_) | FilterChoice::All) => Self::Empty(filter),
            (other, _) => other,
        }
    }

    /// Returns the filter that the search applies.
    pub(super) fn in_force(&self) -> Option<Filter> {
        match self {
            Self::By(filter) => Some(filter.clone()),
            Self::No | Self::Empty(_) | Self::Relaxed(_) => None,
        }
    }

    /// Returns a keyword for outputs and traces; `None` without a filter.
    pub fn word(&self) -> Option<&'static str> {
        match self {
            Self::No => None,
            Self::By(_) => Some("applied"),
            Self::Empty(_) => Some("empty"),
            Self::Relaxed(_) => Some("relaxed"),
        }
    }
}

/// Decides which conditions apply, unless the search finds that no document matches them. Failures are added
/// to `notes`.
///
/// # Errors
/// When the datasets cannot be read, or the whole work has ended.
pub(super) async fn decide(
    search: &RetrievalSearch<'_>,
    datasets: &[DatasetId],
    notes: &mut Vec<String>,
) -> Result<Filtered> {
    let &RetrievalSearch { knowledge, model, tenant, asked: retrieval, question } = search;
    let filter = match &retrieval.filter {
        FilterChoice::All => return Ok(Filtered::No),
        FilterChoice::Given(filter) => filter.clone(),
        FilterChoice::ByModel { keys } => {
            let known = offered(knowledge.metadata(tenant, datasets, VALUES_MAX).await?, keys);
            if known.is_empty() {
                notes.push("the documents have no metadata to filter by".to_owned());
                return Ok(Filtered::No);
            }
            match asked(model, &known, keys, question, notes).await? {
                Ok(filter) => filter,
                Err(error) => {
                    notes.push(format!("searched without a filter: {}", error.full()));
                    return Ok(Filtered::No);
                }
            }
        }
    };
    if filter.conditions.is_empty() {
        return Ok(Filtered::No);
    }
    Ok(Filtered::By(filter))
}

fn offered(known: Vec<MetadataKey>, keys: &[(String, Option<FilterOperator>)]) -> Vec<MetadataKey> {
    let wanted = |known: &MetadataKey| keys.is_empty() || keys.iter().any(|(key, _)| *key == known.key);
    known.into_iter().filter(wanted).take(KEYS_MAX).collect()
}

async fn asked(
    model: &dyn Ask,
    known: &[MetadataKey],
    keys: &[(String, Option<FilterOperator>)],
    question: &str,
    notes: &mut Vec<String>,
) -> Result<Result<Filter>> {
    let today = today(model.now_ms().await?);
    let text = format!("Today: {today}\n\nMetadata:\n{}\nQuestion: {question}", described(known, keys));
    let answer = ask_json(model, Step::Filter, INSTRUCTIONS, &text).await?;
    Ok(answer.and_then(|json| read(&json, known, keys, notes)))
}

fn today(now_ms: i64) -> String {
    Timestamp::from_millisecond(now_ms)
        .map(|moment| moment.strftime("%Y-%m-%d").to_string())
        .unwrap_or_default()
}

/// Describes the keys with some of their values, one line each.
fn described(known: &[MetadataKey], keys: &[(String, Option<FilterOperator>)]) -> String {
    let line = |key: &MetadataKey| {
        let shown = |(value, _): &(String, usize)| value.chars().take(VALUE_SHOWN_MAX).collect::<String>();
        let values: Vec<String> = key.values.iter().take(VALUES_MAX).map(shown).collect();
        let more = match key.distinct.saturating_sub(values.len()) {
            0 => String::new(),
            more => format!(" … and {more} more"),
        };
        let fixed = keys.iter().find(|(name, _)| *name == key.key).and_then(|(_, operator)| *operator);
        let fixed = fixed.map(|operator| format!(" (operator: {})", spelled(operator))).unwrap_or_default();
        format!("- {}{fixed}: {}{more}\n", key.key, values.join(" | "))
    };
    known.iter().map(line).collect()
}

fn spelled(operator: FilterOperator) -> String {
    serde_json::to_value(operator).map(|json| to_text(&json)).unwrap_or_default()
}

/// Parses the conditions in a model's answer. Invalid ones are left out and noted.
fn read(
    answer: &Json,
    known: &[MetadataKey],
    keys: &[(String, Option<FilterOperator>)],
    notes: &mut Vec<String>,
) -> Result<Filter> {
    let wrong = || unexpected("conditions on metadata");
    let (logic, list) = match answer {
        Json::Array(list) => (Logic::And, list),
        Json::Object(map) => {
            let or = map.get("logic").and_then(Json::as_str).is_some_and(|l| l.eq_ignore_ascii_case("or"));
            let list = map.get("conditions").and_then(Json::as_array).ok_or_else(wrong)?;
            (if or { Logic::Or } else { Logic::And }, list)
        }
        _ => return Err(wrong()),
    };
    let mut conditions = Vec::new();
    for item in list.iter().take(CONDITIONS_MAX) {
        match condition(item, known, keys) {
            Some(condition) => conditions.push(condition),
            None => notes.push(format!("ignored an invalid condition of the model: {item}")),
        }
    }
    Ok(Filter { logic, conditions })
}

fn condition(
    item: &Json,
    known: &[MetadataKey],
    keys: &[(String, Option<FilterOperator>)],
) -> Option<Condition> {
    let key = item.get("key").or_else(|| item.get("name"))?.as_str()?.trim();
    // In the key's own spelling, since models may change its case. An exact match takes precedence over an
    // earlier key that differs only in case.
    let alike = || known.iter().find(|known| known.key.eq_ignore_ascii_case(key));
    let key = &known.iter().find(|known| known.key == key).or_else(alike)?.key;
    let fixed = keys.iter().find(|(name, _)| name == key).and_then(|(_, operator)| *operator);
    let said = ["op", "operator", "comparison_operator"].iter().find_map(|name| item.get(*name)?.as_str());
    let operator = fixed.or_else(|| FilterOperator::parse(said?))?;
    let value = item.get("value").cloned().unwrap_or_default();
    let needs_value = !matches!(operator, FilterOperator::Empty | FilterOperator::NotEmpty);
    (!needs_value || !value.is_null()).then(|| Condition { key: key.clone(), operator, value })
}

/// An error in a setting: its place within the setting, and what is wrong.
pub type Misfit = (String, String);

/// Reads `meta_data_filter` as canvases and assistants store it. Values of manually set conditions are passed
/// through `value`, which may fill in references.
///
/// # Errors
/// What is wrong, with its place.
pub fn choice(setting: &Json, value: impl Fn(&Json) -> Json) -> Result<FilterChoice, Misfit> {
    let method = setting.get("method").and_then(Json::as_str).unwrap_or_default().trim().to_lowercase();
    match method.as_str() {
        "" | "disabled" | "none" => Ok(FilterChoice::All),
        "auto" => Ok(FilterChoice::ByModel { keys: Vec::new() }),
        "semi_auto" => {
            let items = setting.get("semi_auto").and_then(Json::as_array).into_iter().flatten();
            let key = |(place, item)| {
                semi_auto(item).ok_or_else(|| (format!("/semi_auto/{place}"), "names no key".to_owned()))
            };
            let keys = items.enumerate().map(key).collect::<Result<Vec<_>, Misfit>>()?;
            if keys.is_empty() {
                Err(("/semi_auto".to_owned(), "names no key".to_owned()))
            } else {
                Ok(FilterChoice::ByModel { keys })
            }
        }
        "manual" => conditions(setting, "manual", value).map(FilterChoice::Given),
        other => {
            let what = format!("must be manual, auto or semi_auto, and is `{other}`");
            Err(("/method".to_owned(), what))
        }
    }
}

/// Reads conditions under a key, with `logic` beside them:
/// `{logic, conditions: [{name, comparison_operator, value}]}` as in the HTTP API, or with the names that
/// canvases use.
///
/// # Errors
/// What is wrong, with its place.
pub fn conditions(setting: &Json, list: &str, value: impl Fn(&Json) -> Json) -> Result<Filter, Misfit> {
    let or =
        setting.get("logic").and_then(Json::as_str).is_some_and(|logic| logic.eq_ignore_ascii_case("or"));
    let items = setting.get(list).and_then(Json::as_array).into_iter().flatten();
    let one = |(place, item)| by_hand(item, &value).map_err(|what| (format!("/{list}/{place}"), what));
    let conditions = items.enumerate().map(one).collect::<Result<Vec<_>, Misfit>>()?;
    Ok(Filter { logic: if or { Logic::Or } else { Logic::And }, conditions })
}

fn semi_auto(item: &Json) -> Option<(String, Option<FilterOperator>)> {
    let key = item.as_str().or_else(|| item.get("key")?.as_str())?.trim();
    let operator = item.get("op").and_then(Json::as_str).and_then(FilterOperator::parse);
    (!key.is_empty()).then(|| (key.to_owned(), operator))
}

fn by_hand(item: &Json, value: &impl Fn(&Json) -> Json) -> Result<Condition, String> {
    let text = |names: &[&str]| names.iter().find_map(|name| item.get(*name)?.as_str()).map(str::trim);
    let key = text(&["key", "name"]).filter(|key| !key.is_empty()).ok_or("has no key")?;
    let said = text(&["op", "comparison_operator", "operator"]).unwrap_or("=");
    let operator = FilterOperator::parse(said).ok_or_else(|| format!("`{said}` is not an operator"))?;
    let value = item.get("value").map(value).unwrap_or_default();
    Ok(Condition { key: key.to_owned(), operator, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(name: &str, distinct: usize, values: &[&str]) -> MetadataKey {
        let values = values.iter().map(|value| ((*value).to_owned(), 1)).collect();
        MetadataKey { key: name.to_owned(), distinct, values }
    }

    #[test]
    fn model_answers_are_validated() {
        let known = [key("year", 2, &["1999", "2020"]), key("author", 1, &["Ada"])];
        let check = |answer: Json,
                     keys: &[(String, Option<FilterOperator>)],
                     expected: Option<Json>,
                     noted: usize| {
            let mut notes = Vec::new();
            let filter = read(&answer, &known, keys, &mut notes).ok();
            assert_eq!(filter.map(|filter| json!(filter)), expected, "{answer}");
            assert_eq!(notes.len(), noted, "{answer}: {notes:?}");
        };
        let one = |operator: &str| {
            Some(
                json!({"logic": "and", "conditions": [{"key": "year", "operator": operator, "value": "2020"}]}),
            )
        };
        let answer = |op: &str| json!({"conditions": [{"key": "Year", "op": op, "value": "2020"}]});
        check(answer("="), &[], one("="), 0);
        check(answer("=")["conditions"].clone(), &[], one("="), 0);
        // A fixed operator takes precedence over the model's.
        check(answer("="), &[("year".to_owned(), Some(FilterOperator::AtLeast))], one("≥"), 0);
        check(
            json!({"logic": "OR", "conditions": [{"key": "colour", "op": "=", "value": 1}, {"key": "year", "op": "like", "value": 1}, 7]}),
            &[],
            Some(json!({"logic": "or", "conditions": []})),
            3,
        );
        check(json!("none"), &[], None, 0);
        check(json!({"filter": []}), &[], None, 0);
        let twice = [key("Year", 1, &["MCMXCIX"]), key("year", 1, &["1999"])];
        let meant = |name: &str| {
            let item = json!({"key": name, "op": "=", "value": "1999"});
            condition(&item, &twice, &[]).map(|condition| condition.key)
        };
        assert_eq!(
            [meant("year"), meant("Year"), meant("YEAR")].map(Option::unwrap),
            ["year", "Year", "Year"]
        );
    }

    #[test]
    fn the_prompt_lists_a_limited_number_of_values() {
        let many: Vec<String> = (0..500).map(|n| format!("value {n} {}", "x".repeat(500))).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let text = described(&[key("k", 500, &many)], &[("k".to_owned(), Some(FilterOperator::In))]);
        assert!(text.starts_with("- k (operator: in): value 0 "), "{text}");
        assert!(text.ends_with("… and 480 more\n") && text.len() < 2_000, "{}", text.len());
    }

    #[test]
    fn settings_select_the_filter_method() {
        let filled = |value: &Json| if *value == json!("{v}") { json!("Ada") } else { value.clone() };
        let check = |setting: Json| choice(&setting, filled);
        assert_eq!(check(json!({})).unwrap(), FilterChoice::All);
        assert_eq!(check(json!({"method": "auto"})).unwrap(), FilterChoice::ByModel { keys: Vec::new() });
        let semi =
            check(json!({"method": "semi_auto", "semi_auto": ["a", {"key": "b", "op": "≥"}]})).unwrap();
        let keys = vec![("a".to_owned(), None), ("b".to_owned(), Some(FilterOperator::AtLeast))];
        assert_eq!(semi, FilterChoice::ByModel { keys });
        let manual = json!({"method": "manual", "logic": "or", "manual": [{"key": "author", "op": "is", "value": "{v}"}]});
        let FilterChoice::Given(filter) = check(manual).unwrap() else { panic!() };
        assert_eq!(
            json!(filter),
            json!({"logic": "or", "conditions": [{"key": "author", "operator": "=", "value": "Ada"}]})
        );
        for wrong in [
            json!({"method": "magic"}),
            json!({"method": "semi_auto"}),
            json!({"method": "manual", "manual": [{"op": "="}]}),
            json!({"method": "manual", "manual": [{"key": "a", "op": "like"}]}),
        ] {
            assert!(check(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_date_is_written_as_people_write_it() {
        assert_eq!(today(1_700_000_000_000), "2023-11-14");
    }
}
