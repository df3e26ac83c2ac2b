//! Filters for lists of documents.

use serde_json::{Map, Value as Json};
use weft_core::DocumentId;
use weft_core::filter::{Condition, Filter, FilterOperator, Logic};
use weft_core::seam::dataset_store::{DocumentFilter, DocumentOrder, DocumentState};
use weft_core::value::to_text;

use super::super::metadata;
use super::super::named::Named;
use super::{AURAL, VISUAL};
use crate::body::Params;
use crate::error::ApiError;

/// The API's types of files. Datasets contain no virtual files or folders.
const KINDS: [&str; 7] = ["pdf", "doc", "visual", "aural", "other", "virtual", "folder"];

/// Which documents to list.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentQuery {
    /// Filter and page for the store.
    pub filter: DocumentFilter,
    /// The id and the name that must each exist.
    pub named: Vec<Named>,
}

/// Reads the parameters of a list. No page is larger than `size_max`.
///
/// # Errors
/// 101 for an unknown order; 102 for conditions that are not valid and for an unknown state or type of files.
pub fn query(params: &Params, size_max: u64) -> Result<DocumentQuery, ApiError> {
    let (metadata, bare) = of_metadata(params)?;
    let mut wanted: Vec<DocumentState> = Vec::new();
    for word in params.all("run").chain(params.all("run_status")) {
        let message = || ApiError::data(format!("Invalid filter run status conditions: {word}"));
        // Each once: an address has room for more repetitions than a database takes values.
        for state in states(word).ok_or_else(message)? {
            if !wanted.contains(state) {
                wanted.push(*state);
            }
        }
    }
    let time = |key: &str| params.get(key).and_then(|text| text.parse::<i64>().ok()).filter(|ms| *ms > 0);
    let ids: Vec<DocumentId> =
        params.get("id").into_iter().chain(params.all("ids")).map(DocumentId::from).collect();
    let endings = Endings::of(params)?;
    // No extension is allowed, so no document matches.
    let ids = if endings.none { Some(Vec::new()) } else { (!ids.is_empty()).then_some(ids) };
    let order = match params.get("orderby") {
        None | Some("create_time") => DocumentOrder::Created,
        Some("update_time") => DocumentOrder::Updated,
        Some("name") => DocumentOrder::Name,
        Some(other) => return Err(ApiError::argument(format!("invalid orderby field: {other}"))),
    };
    let page = params.page(size_max);
    let name = params.get("name").map(str::to_owned);
    let filter = DocumentFilter {
        ids,
        name: name.clone(),
        keywords: params.get("keywords").map(str::to_owned),
        suffixes: endings.only,
        other_suffixes: endings.not,
        states: wanted,
        metadata,
        bare,
        from_ms: time("create_time_from"),
        to_ms: time("create_time_to"),
        order,
        ascending: params.ascending(),
        offset: page.offset,
        limit: page.limit,
    };
    let id = params.get("id").map(|id| Named::Id(id.to_owned()));
    let named = id.into_iter().chain(name.map(Named::Name)).collect();
    Ok(DocumentQuery { filter, named })
}

/// Extensions to which a list is restricted.
#[derive(Debug, Default)]
struct Endings {
    only: Vec<String>,
    not: Vec<String>,
    none: bool,
}

impl Endings {
    /// Reads `suffix` and `types`.
    fn of(params: &Params) -> Result<Self, ApiError> {
        let mut only: Vec<String> =
            params.all("suffix").map(|suffix| suffix.trim_start_matches('.').to_lowercase()).collect();
        let kinds: Vec<&str> = params.all("types").collect();
        if kinds.is_empty() {
            return Ok(Self { only, ..Self::default() });
        }
        let unknown: Vec<&str> = kinds.iter().copied().filter(|kind| !KINDS.contains(kind)).collect();
        if !unknown.is_empty() {
            let plural = if unknown.len() > 1 { "s" } else { "" };
            let message = format!("Invalid filter conditions: {} type{plural}", unknown.join(", "));
            return Err(ApiError::data(message));
        }
        // The type for documents includes every extension that belongs to no other type.
        let of_kinds = |wanted: bool| {
            let some = KINDS.iter().filter(|kind| kinds.contains(kind) == wanted);
            some.flat_map(|kind| endings(kind)).map(|ending| (*ending).to_owned()).collect::<Vec<_>>()
        };
        if kinds.contains(&"doc") {
            return Ok(Self { only, not: of_kinds(false), none: false });
        }
        let allowed = of_kinds(true);
        if only.is_empty() {
            only = allowed;
        } else {
            only.retain(|ending| allowed.contains(ending));
        }
        Ok(Self { none: only.is_empty(), only, not: Vec::new() })
    }
}

/// Returns the extensions that define a type of files.
fn endings(kind: &str) -> &'static [&'static str] {
    match kind {
        "pdf" => &["pdf"],
        "visual" => &VISUAL,
        "aural" => &AURAL,
        "other" => &[""],
        _ => &[],
    }
}

/// Reads `metadata_condition`, and `metadata` with the allowed values of each key, or a request for only the
/// documents without metadata.
fn of_metadata(params: &Params) -> Result<(Option<Filter>, bool), ApiError> {
    let json = |key: &str| {
        let parsed = params.get(key).map(serde_json::from_str::<Json>).transpose();
        parsed.map_err(|_| ApiError::data(format!("{key} must be valid JSON.")))
    };
    let (condition, mut values) = match (json("metadata_condition")?, json("metadata")?) {
        (condition, None | Some(Json::Null)) => (condition, Map::new()),
        (condition, Some(Json::Object(values))) => (condition, values),
        _ => return Err(ApiError::data("metadata must be an object.")),
    };
    let is_meant = |value: &Json| match value {
        Json::Null | Json::Bool(false) => false,
        Json::String(text) => !text.is_empty(),
        Json::Array(list) => !list.is_empty(),
        _ => true,
    };
    let bare = values.remove("empty_metadata").as_ref().is_some_and(is_meant);
    if bare || params.flag("return_empty_metadata") == Some(true) {
        return Ok((None, true));
    }
    let one_of = |(key, value): (String, Json)| {
        let list = match value {
            Json::Array(list) => list,
            other => vec![other],
        };
        let list: Vec<Json> = list.into_iter().filter(|one| !to_text(one).trim().is_empty()).collect();
        (!list.is_empty()).then(|| Condition { key, operator: FilterOperator::In, value: list.into() })
    };
    let wanted: Vec<Condition> = values.into_iter().filter_map(one_of).collect();
    Ok((both(metadata::condition(condition.as_ref())?, wanted)?, false))
}

/// Combines a filter with further conditions, which must all hold.
fn both(filter: Option<Filter>, wanted: Vec<Condition>) -> Result<Option<Filter>, ApiError> {
    let Some(filter) = filter.filter(|filter| !filter.conditions.is_empty()) else {
        return Ok((!wanted.is_empty()).then_some(Filter { logic: Logic::And, conditions: wanted }));
    };
    if wanted.is_empty() {
        return Ok(Some(filter));
    }
    // A filter has one logic for all of its conditions.
    if filter.logic == Logic::Or && filter.conditions.len() > 1 {
        let message = "metadata cannot go together with a metadata_condition of the logic `or`.";
        return Err(ApiError::data(message));
    }
    let conditions = filter.conditions.into_iter().chain(wanted).collect();
    Ok(Some(Filter { logic: Logic::And, conditions }))
}

/// The API's digits for states.
pub(crate) const RUNS: [&str; 5] = ["0", "1", "2", "3", "4"];

/// Returns the states for one of the API's words or digits.
pub(crate) fn states(text: &str) -> Option<&'static [DocumentState]> {
    Some(match text.to_uppercase().as_str() {
        "UNSTART" | "0" => &[DocumentState::Unstarted],
        "RUNNING" | "1" => &[DocumentState::Running],
        "CANCEL" | "2" => &[DocumentState::Cancelled, DocumentState::Paused],
        "DONE" | "3" => &[DocumentState::Done],
        "FAIL" | "4" => &[DocumentState::Failed],
        _ => return None,
    })
}
