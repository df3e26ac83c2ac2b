//! Search apps: their settings in the API, and how they are executed.

use serde_json::{Map, Value as Json, json};
use weft_core::seam::chat_store::{Chat, ChatSettings};

use super::chat::{fits, object, settings, within};
use super::time::http_date;
use crate::body::Body;
use crate::error::ApiError;
use weft_app::chats;

/// Maximum length of a name, in bytes.
const APP_NAME_BYTES_MAX: usize = 255;

/// Settings of a search app that belong to the prompt, under the names that assistants use.
const OF_THE_PROMPT: [&str; 5] = ["keyword", "use_kg", "cross_languages", "toc_enhance", "reasoning"];

/// Settings that have the same names in assistants.
const AS_THEY_ARE: [&str; 7] = [
    "similarity_threshold",
    "vector_similarity_weight",
    "top_n",
    "top_k",
    "rerank_id",
    "llm_setting",
    "meta_data_filter",
];

/// Reads the name from a request.
///
/// # Errors
/// 102 for a name that is not a string, is empty, or is too long.
pub fn name(body: &Body) -> Result<String, ApiError> {
    let Some(Json::String(name)) = body.0.get("name") else {
        return Err(ApiError::data("Search name must be string."));
    };
    let trimmed = name.trim();
    if trimmed.is_empty() {
        return Err(ApiError::data("Search name can't be empty."));
    }
    let length = name.len();
    if length > APP_NAME_BYTES_MAX {
        let message = format!("Search name length is {length} which is large than {APP_NAME_BYTES_MAX}.");
        return Err(ApiError::data(message));
    }
    Ok(trimmed.to_owned())
}

/// Reads the settings of a search app; fields that the request omits stay as they are.
///
/// # Errors
/// 102 for a setting that is not valid.
pub fn search_settings(body: &Body, before: &ChatSettings) -> Result<ChatSettings, ApiError> {
    let text = |key: &str, before: &str| match body.0.get(key) {
        None => Ok(before.to_owned()),
        Some(Json::Null) => Ok(String::new()),
        Some(Json::String(text)) => within(key, text).map(|()| text.clone()),
        Some(_) => Err(ApiError::data(format!("`{key}` should be a string."))),
    };
    let (description, icon) = (text("description", &before.description)?, text("avatar", &before.icon)?);
    let mut config = before.search_config.clone();
    if body.get("search_config").is_some_and(|config| !config.is_object()) {
        return Err(ApiError::data("search_config must be a JSON object"));
    }
    config.extend(object(body, "search_config")?.cloned().unwrap_or_default());
    let mut run = run_settings(&config)?;
    (run.description, run.icon, run.search_config) = (description, icon, config);
    fits(&run)?;
    Ok(run)
}

/// Returns the settings with which a search app is executed.
///
/// # Errors
/// 102 for a setting that is not valid.
fn run_settings(config: &Map<String, Json>) -> Result<ChatSettings, ApiError> {
    let mut prompt = Map::new();
    let given = OF_THE_PROMPT.iter().filter_map(|key| Some(((*key).to_owned(), config.get(*key)?.clone())));
    prompt.extend(given);
    let mut assistant = Map::new();
    assistant.insert("prompt_config".to_owned(), prompt.into());
    for (key, own) in [("kb_ids", "dataset_ids"), ("chat_id", "llm_id")] {
        if let Some(value) = config.get(key) {
            assistant.insert(own.to_owned(), value.clone());
        }
    }
    for key in AS_THEY_ARE {
        if let Some(value) = config.get(key) {
            assistant.insert(key.to_owned(), value.clone());
        }
    }
    // The error uses the field name that the client has sent.
    let named = |error: ApiError| match error.message().strip_prefix("`dataset_ids`") {
        Some(rest) => ApiError::data(format!("`kb_ids`{rest}")),
        None => error,
    };
    settings(&Body(assistant), chats::single_questions()).map_err(named)
}

/// The representation of a search app in answers.
pub fn view(app: &Chat) -> Json {
    let Chat { key, kind: _, name, settings, revision: _, created_ms, updated_ms } = app;
    json!({
        "id": key.id,
        "tenant_id": key.tenant,
        "created_by": key.tenant,
        "name": name,
        "description": settings.description,
        "avatar": settings.icon,
        "search_config": settings.search_config,
        "status": "1",
        "create_time": created_ms,
        "create_date": http_date(*created_ms),
        "update_time": updated_ms,
        "update_date": http_date(*updated_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(json: &Json) -> Body {
        Body(json.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn the_settings_of_a_search_app_map_to_those_of_an_assistant() {
        let config = json!({"kb_ids": ["d"], "chat_id": "m", "similarity_threshold": 0.25, "vector_similarity_weight": 0.75,
            "top_k": 9, "rerank_id": "r", "use_kg": true, "keyword": true, "summary": true,
            "llm_setting": {"temperature": 0.5}, "meta_data_filter": {"method": "auto"}});
        let asked = body(&json!({"description": "D", "avatar": "i", "search_config": config}));
        let made = search_settings(&asked, &ChatSettings::default()).unwrap();
        assert_eq!((&made.datasets[..], made.llm_id.as_str(), made.top_k), (&["d".to_owned()][..], "m", 9));
        assert_eq!((made.similarity_threshold, made.vector_similarity_weight), (0.25, 0.75));
        assert_eq!((made.rerank_id.as_str(), &made.prompt_config["use_kg"]), ("r", &json!(true)));
        assert_eq!((made.description.as_str(), made.icon.as_str()), ("D", "i"));
        assert_eq!(
            (&made.llm_setting["temperature"], &made.meta_data_filter["method"]),
            (&json!(0.5), &json!("auto"))
        );
        assert_eq!(made.prompt_config["parameters"], json!([{"key": "knowledge", "optional": false}]));
        // A change keeps the fields that it does not name, and unknown fields.
        let changed = search_settings(&body(&json!({"search_config": {"top_k": 3}})), &made).unwrap();
        assert_eq!((changed.top_k, changed.llm_id.as_str(), changed.description.as_str()), (3, "m", "D"));
        assert_eq!(changed.search_config["summary"], json!(true));
        let cleared = search_settings(&body(&json!({"description": null})), &made).unwrap();
        assert_eq!((cleared.description.as_str(), cleared.top_k), ("", 9));
    }

    #[test]
    fn errors_of_a_search_app_name_the_setting() {
        let check = |asked: Json, words: &str| {
            let error = search_settings(&body(&asked), &ChatSettings::default()).unwrap_err();
            assert!(error.message().contains(words), "{}", error.message());
        };
        check(json!({"search_config": []}), "search_config must be a JSON object");
        check(json!({"search_config": {"kb_ids": "d"}}), "`kb_ids` should be a list.");
        check(json!({"search_config": {"top_k": 0}}), "`top_k` should be a number from 1 to 2048.");
        check(json!({"search_config": {"similarity_threshold": 2}}), "`similarity_threshold`");
        check(json!({"search_config": {"reasoning": 9}}), "`reasoning` should be a boolean, a depth");
        check(json!({"search_config": {"keyword": "maybe"}}), "`keyword` should be a boolean.");
        check(json!({"search_config": {"odd": "x".repeat(1 << 20)}}), "more than the maximum of 1048576");
        check(json!({"avatar": "x".repeat(65_536)}), "`avatar` has more than 65535 characters");
        check(json!({"description": 1}), "`description` should be a string.");
        let told = |asked: Json| name(&body(&asked)).unwrap_err().message().to_owned();
        assert_eq!(told(json!({"name": 1})), "Search name must be string.");
        assert_eq!(told(json!({"name": " "})), "Search name can't be empty.");
        assert_eq!(
            told(json!({"name": "x".repeat(256)})),
            "Search name length is 256 which is large than 255."
        );
        // The length is given in the unit of the limit, which is bytes.
        assert!(told(json!({"name": "é".repeat(128)})).contains("length is 256"));
    }
}
