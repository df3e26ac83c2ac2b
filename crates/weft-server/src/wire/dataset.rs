//! Datasets: reading requests and building answers.

mod checks;

use serde_json::{Value as Json, json};
use weft_core::seam::dataset_store::{Dataset, DatasetCounts, DatasetFilter, Settings};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{DatasetId, DatasetKey, TenantId};
use weft_knowledge::ingest::PIPELINE;

use self::checks::{check_avatar, check_model, check_pipeline};
pub(crate) use self::checks::{model_problem, pipeline_problem};
use super::metadata::check_config;
use super::method::{self, METHODS, MODEL_ASKED};
use super::named::Named;
use super::once::once;
use super::removal::Removal;
use super::rules::{Problems, Rule, line};
use super::time::http_date;
use crate::body::{Body, Params};
use crate::error::{ApiError, code};

type Object = serde_json::Map<String, Json>;

// The limit of the compatible API.
const TEXT_MAX: usize = 65_535;

/// Fields of a dataset, in the order of the API.
pub const FIELDS: &[(&str, Rule)] = &[
    ("name", Rule::Trimmed(1, 128)),
    ("avatar", Rule::Text(0, TEXT_MAX)),
    ("description", Rule::Text(0, TEXT_MAX)),
    ("embedding_model", Rule::Text(0, 255)),
    ("permission", Rule::OneOf(&["me", "team"])),
    ("chunk_method", Rule::OneOf(METHODS)),
    ("parse_type", Rule::Integer(0, 64)),
    ("pipeline_id", Rule::Any),
    ("parser_config", Rule::Any),
    ("auto_metadata_config", Rule::Object),
    ("ext", Rule::Fields(EXT)),
];

/// Additional fields that only an update accepts.
const OF_A_CHANGE: [(&str, Rule); 3] =
    [("pagerank", Rule::Integer(0, 100)), ("language", Rule::Text(0, 32)), ("connectors", Rule::Texts)];

/// Further settings, which newer clients send in a nested object.
const EXT: &[(&str, Rule)] = &[
    ("language", Rule::Text(0, 32)),
    ("similarity_threshold", Rule::Number(0.0, 1.0)),
    ("vector_similarity_weight", Rule::Number(0.0, 1.0)),
];

/// Values for a dataset from a request. Absent fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatasetFields {
    /// Its name.
    pub name: Option<String>,
    /// A picture as a data URI.
    pub avatar: Option<String>,
    /// Description for people.
    pub description: Option<String>,
    /// Embedding model, such as `bge-m3@Ollama`; empty for none.
    pub embedding_model: Option<String>,
    /// `me` or `team`.
    pub permission: Option<String>,
    /// How its documents are split into chunks.
    pub method: Option<ChunkMethod>,
    /// Settings of the chunk method.
    pub settings: Option<Settings>,
    /// Weight by which search prefers its chunks.
    pub pagerank: Option<u32>,
    /// Pipeline that processes its documents in place of a chunk method.
    pub pipeline: Option<String>,
    /// What a model is to extract about each document.
    pub auto_metadata: Option<Json>,
    /// Language, for people.
    pub language: Option<String>,
    /// Minimum score of a chunk.
    pub similarity_threshold: Option<f64>,
    /// Weight of the vector similarity in a score.
    pub vector_similarity_weight: Option<f64>,
    /// Whether to reset the embedding model to the default for new datasets.
    pub default_model: bool,
    /// Whether to reset the settings to the defaults of the method.
    pub default_settings: bool,
    /// Whether to remove the pipeline, so that documents are processed by the method again.
    pub no_pipeline: bool,
}

impl DatasetFields {
    /// Reads the body of a request that creates a dataset.
    ///
    /// # Errors
    /// 101 with a line for everything that is wrong.
    pub fn of_new(body: &Body) -> Result<Self, ApiError> {
        let mut problems = Problems::default();
        if body.get("name").is_none() {
            match body.0.get("name") {
                None => problems.add("name", "Field required", &Json::Object(body.0.clone())),
                Some(null) => problems.add("name", "Input should be a valid string", null),
            }
        }
        check_model(&mut problems, body);
        Self::read(body, FIELDS, problems)
    }

    /// Reads the body of an update.
    ///
    /// The name of the model is not checked: clients may send back the one that the dataset already has, whatever it
    /// is.
    ///
    /// # Errors
    /// 101 with a line for everything that is wrong; 102 when nothing would change.
    pub fn of_change(body: &Body) -> Result<Self, ApiError> {
        let mut rules = FIELDS.to_vec();
        rules.extend(OF_A_CHANGE);
        let mut problems = Problems::default();
        for (key, message) in
            [("name", "Input should be a valid string"), ("pagerank", "Input should be a valid integer")]
        {
            // `get` takes null as absent, which these two fields do not allow.
            if let Some(null) = body.0.get(key).filter(|value| value.is_null()) {
                problems.add(key, message, null);
            }
        }
        if let Some(Json::Array(connectors)) = body.get("connectors").filter(|list| **list != json!([])) {
            problems.add("connectors", "Connectors are not part of this build", &json!(connectors));
        }
        let fields = Self::read(body, &rules, problems)?.with_resets(body);
        // An empty list of connectors changes nothing, but does not make the request empty.
        if fields == Self::default() && !body.0.contains_key("connectors") {
            Err(ApiError::data("no properties were modified"))
        } else {
            Ok(fields)
        }
    }

    fn read(body: &Body, rules: &[(&str, Rule)], mut problems: Problems) -> Result<Self, ApiError> {
        problems.fields("", &body.0, rules);
        check_avatar(&mut problems, body);
        check_pipeline(&mut problems, body);
        if let Some(Json::Object(config)) = body.get("auto_metadata_config") {
            check_config(&mut problems, "auto_metadata_config.", config);
        }
        if let Some(settings) = body.get("parser_config") {
            method::check(&mut problems, "parser_config", settings);
        }
        problems.refuse(code::ARGUMENT)?;
        let ext = body.object("ext")?.unwrap_or_default();
        let number = |key: &str| ext.get(key).and_then(Json::as_f64);
        Ok(Self {
            name: text(body, "name").map(|name| name.trim().to_owned()),
            avatar: text(body, "avatar"),
            description: text(body, "description"),
            embedding_model: text(body, "embedding_model").map(|model| model.trim().to_owned()),
            permission: text(body, "permission"),
            method: text(body, "chunk_method").and_then(|name| method::method(&name)),
            // Ids are stored in lower case.
            pipeline: text(body, "pipeline_id").map(|id| id.to_lowercase()),
            settings: body.object("parser_config")?,
            pagerank: body.get("pagerank").and_then(Json::as_u64).and_then(|rank| u32::try_from(rank).ok()),
            auto_metadata: body.get("auto_metadata_config").cloned(),
            language: text(body, "language").or_else(|| Some(ext.get("language")?.as_str()?.to_owned())),
            similarity_threshold: number("similarity_threshold"),
            vector_similarity_weight: number("vector_similarity_weight"),
            default_model: false,
            default_settings: false,
            no_pipeline: false,
        })
    }

    /// Resets fields that are null in an update to the defaults of a new dataset. Null is not valid for the name, the
    /// permission, the method and the rank.
    fn with_resets(mut self, body: &Body) -> Self {
        let null = |object: &Object, key: &str| object.get(key).is_some_and(Json::is_null);
        let top = |key: &str| null(&body.0, key);
        let ext = |key: &str| matches!(body.0.get("ext"), Some(Json::Object(ext)) if null(ext, key));
        // Only its defaults are read.
        let start = fresh(&TenantId::from(""), String::new(), 0);
        if top("avatar") {
            self.avatar = Some(start.avatar);
        }
        if top("description") {
            self.description = Some(start.description);
        }
        if top("language") || ext("language") {
            self.language = Some(start.language);
        }
        if ext("similarity_threshold") {
            self.similarity_threshold = Some(start.similarity_threshold);
        }
        if ext("vector_similarity_weight") {
            self.vector_similarity_weight = Some(start.vector_similarity_weight);
        }
        self.default_model = top("embedding_model");
        self.no_pipeline = top("pipeline_id");
        self.default_settings =
            top("parser_config") || self.settings.as_ref().is_some_and(Settings::is_empty);
        if top("auto_metadata_config") {
            self.auto_metadata = Some(json!({"metadata": [], "built_in_metadata": [], "enabled": false}));
        }
        self
    }

    /// Applies the changes to a dataset. A new method starts with its own defaults.
    pub fn changed(self, before: Dataset) -> Dataset {
        let method = self.method.unwrap_or(before.method);
        let anew = method != before.method;
        // An empty settings object requests the method's defaults.
        let anew = anew || self.default_settings;
        // The pipeline is stored among the settings, but is not a setting of the method.
        let kept = before.settings.get(PIPELINE).cloned();
        let kept = kept.filter(|_| !self.no_pipeline && self.method.is_none());
        // Taken out before the settings may be reset: it is not a setting of the method.
        let asked = before.settings.get(MODEL_ASKED).cloned();
        let base = if anew { method::defaults(method) } else { before.settings };
        let mut settings = method::merged(base, &self.settings.unwrap_or_default());
        match self.pipeline.map(Json::from).or(kept) {
            Some(pipeline) => drop(settings.insert(PIPELINE.to_owned(), pipeline)),
            None => drop(settings.remove(PIPELINE)),
        }
        if let Some(config) = self.auto_metadata {
            super::metadata::put_config(&mut settings, &config);
        }
        if let Some(asked) = asked {
            settings.insert(MODEL_ASKED.to_owned(), asked);
        }
        Dataset {
            name: self.name.unwrap_or(before.name),
            avatar: self.avatar.unwrap_or(before.avatar),
            description: self.description.unwrap_or(before.description),
            language: self.language.unwrap_or(before.language),
            permission: self.permission.unwrap_or(before.permission),
            pagerank: self.pagerank.unwrap_or(before.pagerank),
            similarity_threshold: self.similarity_threshold.unwrap_or(before.similarity_threshold),
            vector_similarity_weight: self
                .vector_similarity_weight
                .unwrap_or(before.vector_similarity_weight),
            method,
            settings,
            ..before
        }
    }
}

/// Records the name under which the embedding model was requested. The model `name@instance@provider` is stored as
/// `name@provider`; clients look for the name they sent.
pub fn asked_for(mut dataset: Dataset, model: Option<&str>) -> Dataset {
    let model =
        model.map(str::trim).filter(|model| without_instance(model).as_ref() == Some(&dataset.embedder));
    match model {
        Some(model) => drop(dataset.settings.insert(MODEL_ASKED.to_owned(), model.into())),
        None => drop(dataset.settings.remove(MODEL_ASKED)),
    }
    dataset
}

fn without_instance(model: &str) -> Option<String> {
    let (rest, provider) = model.rsplit_once('@')?;
    let (name, _) = rest.rsplit_once('@')?;
    Some(format!("{name}@{provider}"))
}

/// Returns the name of the embedding model for answers; empty for none.
pub fn model(dataset: &Dataset) -> &str {
    let asked = dataset.settings.get(MODEL_ASKED).and_then(Json::as_str);
    // Another model may have re-embedded the dataset since.
    asked
        .filter(|asked| without_instance(asked).as_ref() == Some(&dataset.embedder))
        .unwrap_or(&dataset.embedder)
}

/// Returns a new dataset with the default values.
pub fn fresh(tenant: &TenantId, embedder: String, now_ms: i64) -> Dataset {
    let method = ChunkMethod::default();
    Dataset {
        key: DatasetKey::new(tenant, DatasetId::generate()),
        name: String::new(),
        avatar: String::new(),
        description: String::new(),
        language: "English".to_owned(),
        permission: "me".to_owned(),
        embedder,
        method,
        settings: method::defaults(method),
        similarity_threshold: 0.2,
        vector_similarity_weight: 0.3,
        pagerank: 0,
        generation: 0,
        created_ms: now_ms,
        updated_ms: now_ms,
        revision: 0,
        counts: DatasetCounts::default(),
    }
}

fn text(body: &Body, key: &str) -> Option<String> {
    body.get(key).and_then(Json::as_str).map(str::to_owned)
}

/// Message for an id that is not valid.
const NO_ID: &str = "Invalid UUID format";

/// Normalizes an id to the form that is stored: 32 lower-case hex characters.
pub(crate) fn uuid(text: &str) -> Option<String> {
    let hex: String = text.trim().chars().filter(|letter| *letter != '-').collect();
    let right = hex.len() == 32 && hex.chars().all(|letter| letter.is_ascii_hexdigit());
    right.then(|| hex.to_lowercase())
}

/// Parses the id of a dataset that is to be changed or read.
///
/// # Errors
/// 101 when it is not a valid id.
pub(crate) fn dataset_id(id: &str) -> Result<DatasetId, ApiError> {
    let known = uuid(id).map(DatasetId::from);
    known.ok_or_else(|| ApiError::argument(line("dataset_id", NO_ID, &Json::String(id.to_owned()))))
}

/// Reads the body of a request that removes datasets, which must have ids or `delete_all`.
///
/// # Errors
/// 101 with a line for everything that is wrong.
pub fn removal(body: &Body) -> Result<Removal, ApiError> {
    let mut problems = Problems::default();
    problems.fields("", &body.0, &[("ids", Rule::Texts), ("delete_all", Rule::Flag)]);
    if problems.is_empty()
        && let Some(Json::Array(list)) = body.get("ids")
    {
        check_ids(&mut problems, list);
    }
    problems.refuse(code::ARGUMENT)?;
    let ids = body.texts("ids")?.unwrap_or_default();
    Ok(match (ids.is_empty(), body.flag("delete_all")?) {
        (true, Some(true)) => Removal::Everything,
        (true, _) => Removal::Nothing,
        (false, _) => Removal::These(ids.iter().filter_map(|id| uuid(id)).collect()),
    })
}

fn check_ids(problems: &mut Problems, list: &[Json]) {
    let mut ids = Vec::with_capacity(list.len());
    for id in list {
        match id.as_str().and_then(uuid) {
            None => return problems.add("ids", NO_ID, id),
            Some(id) => ids.push(id),
        }
    }
    let (_, twice) = once(ids);
    if !twice.is_empty() {
        let message = format!("Duplicate ids: '{}'", twice.join(", "));
        problems.add("ids", &message, &Json::Array(list.to_vec()));
    }
}

/// Which datasets to list.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetQuery {
    /// Filter and page for the store.
    pub filter: DatasetFilter,
    /// Ids and names that must each exist.
    pub named: Vec<Named>,
}

const PARAMS: [&str; 10] =
    ["id", "ids", "name", "page", "page_size", "orderby", "desc", "include_parsing_status", "ext", "type"];

/// Reads the parameters of a list. No page is larger than `size_max`.
///
/// # Errors
/// 101 with a line for everything that is wrong.
pub fn query(params: &Params, size_max: u64) -> Result<DatasetQuery, ApiError> {
    let mut problems = Problems::default();
    let mut ids: Vec<String> = Vec::new();
    for key in ["id", "ids"] {
        for text in params.all(key) {
            match uuid(text) {
                Some(id) => ids.push(id),
                None => problems.add(key, NO_ID, &Json::String(text.to_owned())),
            }
        }
    }
    // `all` skips empty values, but an empty id must be reported.
    if params.given("id") == Some("") {
        problems.add("id", NO_ID, &json!(""));
    }
    for key in ["page", "page_size"] {
        if let Some(text) = params.get(key) {
            let message = match text.trim().parse::<i64>() {
                Err(_) => "Input should be a valid integer, unable to parse string as an integer",
                Ok(number) if number < 1 => "Input should be greater than or equal to 1",
                Ok(_) => continue,
            };
            problems.add(key, message, &Json::String(text.to_owned()));
        }
    }
    if let Some(other) = params.given("orderby").filter(|by| !matches!(*by, "create_time" | "update_time")) {
        problems.add("orderby", "Input should be 'create_time' or 'update_time'", &json!(other));
    }
    let desc = params.get("desc").map(|text| (text, switch(text)));
    if let Some((text, None)) = desc {
        problems.add("desc", "Input should be a valid boolean, unable to interpret input", &json!(text));
    }
    for (key, value) in params.others(&PARAMS) {
        problems.add(key, "Extra inputs are not permitted", &json!(value));
    }
    problems.refuse(code::ARGUMENT)?;
    let name = params.get("name").map(|name| name.trim().to_owned());
    let page = params.page(size_max);
    let filter = DatasetFilter {
        ids: (!ids.is_empty()).then(|| ids.iter().map(|id| DatasetId::from(id.as_str())).collect()),
        name: name.clone(),
        by_update: params.get("orderby") == Some("update_time"),
        ascending: matches!(desc, Some((_, Some(false)))),
        offset: page.offset,
        limit: page.limit,
        ..DatasetFilter::default()
    };
    let named = ids.into_iter().map(Named::Id).chain(name.map(Named::Name)).collect();
    Ok(DatasetQuery { filter, named })
}

/// Parses a boolean in the spellings accepted in a list of datasets.
fn switch(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "1" | "yes" | "y" | "on" | "t" => Some(true),
        "false" | "0" | "no" | "n" | "off" | "f" => Some(false),
        _ => None,
    }
}

/// The error for a dataset that the tenant does not own.
pub(crate) fn not_owned(tenant: &TenantId, dataset: &str) -> ApiError {
    ApiError::data(format!("User '{tenant}' lacks permission for dataset '{dataset}'"))
}

/// The error for several such datasets.
pub(crate) fn none_owned(tenant: &TenantId, datasets: &[String]) -> ApiError {
    ApiError::data(format!("User '{tenant}' lacks permission for datasets: '{}'", datasets.join(", ")))
}

/// The representation of a dataset in answers.
pub fn view(dataset: &Dataset) -> Json {
    let Dataset { key, counts, .. } = dataset;
    json!({
        "id": key.id,
        "name": dataset.name,
        "avatar": Some(&dataset.avatar).filter(|text| !text.is_empty()),
        "description": Some(&dataset.description).filter(|text| !text.is_empty()),
        "language": dataset.language,
        "connectors": [],
        "permission": dataset.permission,
        "tenant_id": key.tenant,
        "created_by": key.tenant,
        "nickname": key.tenant,
        "status": "1",
        "embedding_model": model(dataset),
        "chunk_method": method::method_name(dataset.method),
        "parser_config": method::shown(&dataset.settings),
        "document_count": counts.documents,
        "chunk_count": counts.chunks,
        "token_num": counts.tokens,
        "similarity_threshold": dataset.similarity_threshold,
        "vector_similarity_weight": dataset.vector_similarity_weight,
        "pagerank": dataset.pagerank,
        "pipeline_id": dataset.settings.get(PIPELINE),
        "graphrag_task_id": null,
        "graphrag_task_finish_at": null,
        "raptor_task_id": null,
        "raptor_task_finish_at": null,
        "mindmap_task_id": null,
        "mindmap_task_finish_at": null,
        "create_time": dataset.created_ms,
        "create_date": http_date(dataset.created_ms),
        "update_time": dataset.updated_ms,
        "update_date": http_date(dataset.updated_ms),
    })
}

#[cfg(test)]
mod tests;
