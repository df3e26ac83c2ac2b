//! Chat assistants. There is one data model for them; requests may use the field names of either generation of the
//! API, and answers contain both.

use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};
use weft_core::seam::chat_store::{Chat, ChatSettings, NAME_CHARS_MAX};
use weft_core::seam::dataset_store::Dataset;
use weft_knowledge::retrieve::filter_choice;
use weft_knowledge::retrieve::weights::Interface;

use super::chat_kinds::check_prompt;
use super::time::http_date;
use crate::body::{ABOUT_CHARS_MAX, Body};
use crate::error::ApiError;
use weft_app::chats::{self, SAMPLING};

/// Default description of an assistant.
const DESCRIPTION: &str = "A helpful Assistant";
/// Default instructions of an assistant with datasets.
const SYSTEM: &str = "You are an assistant that answers questions about the material below. Answer in the language of \
the question, and only what the material says; if it does not answer the question, say so.\n\n## Material\n\n{knowledge}";
/// Default first message of a conversation.
const PROLOGUE: &str = "Hi! I'm your assistant. What can I do for you?";
/// Default answer when nothing is found.
const EMPTY_RESPONSE: &str = "I found nothing about this in the documents.";

/// Sampling defaults for incomplete settings in the older form. The newer form leaves them to the model.
const SAMPLING_DEFAULTS: [f64; 4] = [0.1, 0.3, 0.4, 0.7];
const TOKENS_DEFAULT: u64 = 512;

/// Older names of the prompt settings.
const OLDER: [(&str, &str); 4] =
    [("prompt", "system"), ("opener", "prologue"), ("show_quote", "quote"), ("variables", "parameters")];
/// Settings that the older form has among the prompt settings, but that do not belong to the prompt.
const SEARCH: [&str; 5] =
    ["similarity_threshold", "keywords_similarity_weight", "top_n", "top_k", "rerank_model"];

/// Maximum size of all settings of an assistant as JSON, in bytes. Lists contain them for every entry.
const SETTINGS_BYTES_MAX: usize = 1 << 20;

/// Maximum number of passages.
const COUNT_MAX: u64 = 1_024;

/// Maximum number of candidates that a client may name: as many as RAGFlow's own pages offer. A search uses 1,024.
const CANDIDATES_MAX: u64 = 2_048;

/// The request that a name is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Creates an assistant, which needs a name.
    New,
    /// Changes an assistant, and may omit the name.
    Change,
}

/// Reads the name from a request; `None` if it is omitted.
///
/// # Errors
/// 102 for a name that is missing, empty, too long, or not a string.
pub fn name(body: &Body, wanted: Wanted) -> Result<Option<String>, ApiError> {
    let required = || ApiError::data("`name` is required");
    let name = match (body.0.get("name"), wanted) {
        (None | Some(Json::Null), Wanted::New) => return Err(required()),
        (None | Some(Json::Null), Wanted::Change) => return Ok(None),
        (Some(Json::String(name)), _) => name.trim(),
        (Some(_), _) => return Err(ApiError::data("chat name must be a string")),
    };
    let length = name.chars().count();
    if length > NAME_CHARS_MAX {
        let message = format!("chat name length is {length} which is larger than {NAME_CHARS_MAX}");
        return Err(ApiError::data(message));
    }
    match (name.is_empty(), wanted) {
        (true, Wanted::New) => Err(required()),
        (true, Wanted::Change) => Err(ApiError::data("`name` cannot be empty")),
        (false, _) => Ok(Some(name.to_owned())),
    }
}

pub(super) fn object<'a>(body: &'a Body, key: &str) -> Result<Option<&'a Map<String, Json>>, ApiError> {
    match body.get(key) {
        None => Ok(None),
        Some(Json::Object(map)) => Ok(Some(map)),
        Some(_) => Err(ApiError::data(format!("`{key}` should be an object."))),
    }
}

fn words(body: &Body, keys: [&str; 2]) -> Result<Option<String>, ApiError> {
    for key in keys {
        match body.get(key) {
            None => {}
            Some(Json::String(text)) => {
                within(key, text)?;
                return Ok(Some(text.clone()));
            }
            Some(_) => return Err(ApiError::data(format!("`{key}` should be a string."))),
        }
    }
    Ok(None)
}

/// Checks the length of a description, a picture or a name.
pub(super) fn within(key: &str, text: &str) -> Result<(), ApiError> {
    if text.chars().count() > ABOUT_CHARS_MAX {
        return Err(ApiError::data(format!("`{key}` has more than {ABOUT_CHARS_MAX} characters")));
    }
    Ok(())
}

/// Checks the size of all settings together.
pub(super) fn fits(settings: &ChatSettings) -> Result<(), ApiError> {
    // Serializing cannot fail, because all keys are strings.
    let bytes = serde_json::to_vec(settings).map_or(0, |json| json.len());
    if bytes > SETTINGS_BYTES_MAX {
        let message = format!(
            "the settings have {bytes} bytes as JSON, more than the maximum of {SETTINGS_BYTES_MAX}: shorten them"
        );
        return Err(ApiError::data(message));
    }
    Ok(())
}

/// Reads the settings of an assistant; fields that the request omits stay as they are.
///
/// # Errors
/// 102 with the API's message for a value that is not valid.
pub fn settings(body: &Body, before: ChatSettings) -> Result<ChatSettings, ApiError> {
    if body.get("tenant_id").is_some() {
        return Err(ApiError::data("`tenant_id` must not be provided"));
    }
    let (llm, prompt) = (object(body, "llm")?, object(body, "prompt")?);
    let mut settings = before;
    if let Some(description) = words(body, ["description", "description"])? {
        settings.description = description;
    }
    if let Some(icon) = words(body, ["icon", "avatar"])? {
        settings.icon = icon;
    }
    if let Some(datasets) = datasets(body, "dataset_ids")? {
        settings.datasets = datasets;
    }
    let model_name = match llm.and_then(|llm| llm.get("model_name")) {
        None | Some(Json::Null) => None,
        Some(Json::String(name)) => Some(name.clone()),
        Some(_) => return Err(ApiError::data("`model_name` should be a string.")),
    };
    if let Some(llm_id) = words(body, ["llm_id", "llm_id"])?.or(model_name) {
        llm_id.trim().clone_into(&mut settings.llm_id);
    }
    let older = llm.into_iter().flatten().filter(|(key, _)| *key != "model_name");
    // Newer names take precedence over older ones.
    for (key, value) in older.chain(object(body, "llm_setting")?.into_iter().flatten()) {
        // Stored whatever the value: existing clients create assistants with values that no model accepts, and the
        // error is only reported for a question.
        settings.llm_setting.insert(key.clone(), value.clone());
    }
    if llm.is_some() {
        let defaults = SAMPLING.iter().zip(SAMPLING_DEFAULTS).map(|((key, _), value)| (*key, json!(value)));
        for (key, value) in defaults.chain([("max_tokens", json!(TOKENS_DEFAULT))]) {
            settings.llm_setting.entry(key).or_insert(value);
        }
    }
    let config = object(body, "prompt_config")?;
    for given in prompt.into_iter().chain(config) {
        check_prompt(given)?;
    }
    for (key, value) in prompt.into_iter().flatten().filter(|(key, _)| !SEARCH.contains(&key.as_str())) {
        let newer = OLDER.iter().find(|(older, _)| older == key).map_or(key.as_str(), |(_, newer)| newer);
        settings.prompt_config.insert(newer.to_owned(), value.clone());
    }
    for (key, value) in config.into_iter().flatten() {
        settings.prompt_config.insert(key.clone(), value.clone());
    }
    if let Some(filter) = object(body, "meta_data_filter")? {
        let wrong = |(place, what)| ApiError::data(format!("`meta_data_filter{place}` {what}"));
        filter_choice(&Json::Object(filter.clone()), Json::clone).map_err(wrong)?;
        settings.meta_data_filter = filter.clone();
    }
    search(body, prompt, &mut settings)?;
    completed(&mut settings)?;
    fits(&settings)?;
    Ok(settings)
}

/// Reads a list of dataset ids, without repetitions.
///
/// # Errors
/// 102 when it is not a list of ids.
pub fn datasets(body: &Body, key: &str) -> Result<Option<Vec<String>>, ApiError> {
    let wrong = || ApiError::data(format!("`{key}` should be a list."));
    let Some(given) = body.get(key) else { return Ok(None) };
    let given = given.as_array().ok_or_else(wrong)?;
    let (mut seen, mut ids) = (HashSet::new(), Vec::new());
    for id in given {
        let id = id.as_str().ok_or_else(wrong)?;
        if !id.is_empty() && seen.insert(id) {
            ids.push(id.to_owned());
        }
    }
    Ok(Some(ids))
}

/// Reads the search settings. The older form has them among the prompt settings, and gives the weight of the keywords
/// instead of the vectors.
fn search(
    body: &Body,
    prompt: Option<&Map<String, Json>>,
    settings: &mut ChatSettings,
) -> Result<(), ApiError> {
    let given = |key: &str, older: &str| {
        let older_value = prompt.and_then(|prompt| prompt.get(older)).filter(|value| !value.is_null());
        body.get(key)
            .map(|value| (key.to_owned(), value))
            .or(older_value.map(|value| (older.to_owned(), value)))
    };
    let share = |(key, value): (String, &Json)| {
        let share = value.as_f64().filter(|share| (0.0..=1.0).contains(share));
        share.ok_or_else(|| ApiError::data(format!("`{key}` should be a number from 0 to 1.")))
    };
    let count = |(key, value): (String, &Json), (least, most): (u64, u64)| {
        let count = value.as_u64().filter(|count| (least..=most).contains(count));
        count.ok_or_else(|| ApiError::data(format!("`{key}` should be a number from {least} to {most}.")))
    };
    if let Some(threshold) = given("similarity_threshold", "similarity_threshold") {
        settings.similarity_threshold = share(threshold)?;
    }
    // The older field is the weight of the keywords, the newer one that of the vectors; the newer one takes
    // precedence.
    if let Some(weight) = given("vector_similarity_weight", "") {
        settings.vector_similarity_weight = share(weight)?;
    } else if let Some(weight) = given("keywords_similarity_weight", "keywords_similarity_weight") {
        settings.vector_similarity_weight = Interface::Chat.vector_weight(Some(share(weight)?));
    }
    if let Some(top_n) = given("top_n", "top_n") {
        settings.top_n = count(top_n, (0, COUNT_MAX))?;
    }
    if let Some(top_k) = given("top_k", "top_k") {
        settings.top_k = count(top_k, (1, CANDIDATES_MAX))?;
    }
    match given("rerank_id", "rerank_model") {
        None => {}
        Some((_, Json::String(id))) => id.trim().clone_into(&mut settings.rerank_id),
        Some((key, _)) => return Err(ApiError::data(format!("`{key}` should be a string."))),
    }
    Ok(())
}

/// Adds the settings that every assistant has, and checks the variables of its prompt.
fn completed(settings: &mut ChatSettings) -> Result<(), ApiError> {
    if settings.description.is_empty() {
        DESCRIPTION.clone_into(&mut settings.description);
    }
    let knows = !settings.datasets.is_empty();
    let prompt = &mut settings.prompt_config;
    for (key, value) in [("prologue", PROLOGUE), ("empty_response", EMPTY_RESPONSE)] {
        prompt.entry(key).or_insert_with(|| value.into());
    }
    for (key, value) in [("quote", true), ("tts", false), ("refine_multiturn", true)] {
        prompt.entry(key).or_insert_with(|| value.into());
    }
    if chats::text(prompt, "system").is_empty() && knows {
        prompt.insert("system".to_owned(), SYSTEM.into());
    }
    prompt.entry("system").or_insert_with(|| "".into());
    for key in ["system", "prologue", "empty_response"] {
        match prompt.get(key) {
            Some(Json::String(_)) => {}
            Some(Json::Null) => drop(prompt.insert(key.to_owned(), "".into())),
            _ => return Err(ApiError::data(format!("`{key}` should be a string."))),
        }
    }
    variables(prompt)
}

/// Keeps the variables that are given; without any, a prompt that uses the retrieved knowledge gets that variable.
fn variables(prompt: &mut Map<String, Json>) -> Result<(), ApiError> {
    let mut seen = HashSet::new();
    match prompt.get("parameters") {
        None | Some(Json::Null) => {}
        Some(Json::Array(_)) => {
            let given = chats::listed(prompt);
            return match given.iter().find(|parameter| !seen.insert(&parameter.name)) {
                Some(twice) => {
                    Err(ApiError::data(format!("`parameters` contains duplicate key: {}", twice.name)))
                }
                None => Ok(()),
            };
        }
        Some(_) => return Err(ApiError::data("`parameters` should be a list.")),
    }
    let found = json!({"key": "knowledge", "optional": false});
    let wanted = chats::text(prompt, "system").contains("{knowledge}").then_some(found);
    prompt.insert("parameters".to_owned(), wanted.into_iter().collect());
    Ok(())
}

/// The representation of an assistant in answers, with those of its datasets that exist.
pub fn view(chat: &Chat, datasets: &[&Dataset]) -> Json {
    let Chat { key, kind: _, name, settings, revision: _, created_ms, updated_ms } = chat;
    let ChatSettings {
        description,
        icon,
        datasets: _,
        llm_id,
        llm_setting,
        prompt_config,
        meta_data_filter,
        similarity_threshold,
        vector_similarity_weight,
        top_n,
        top_k,
        rerank_id,
        search_config: _,
    } = settings;
    let mut llm = llm_setting.clone();
    llm.insert("model_name".to_owned(), llm_id.as_str().into());
    let mut prompt = prompt_config.clone();
    for (older, newer) in OLDER {
        let value = prompt.remove(newer).unwrap_or_default();
        prompt.insert(older.to_owned(), value);
    }
    let words_weight = Interface::Chat.parameter_for(*vector_similarity_weight);
    let search = [
        ("similarity_threshold", json!(similarity_threshold)),
        ("keywords_similarity_weight", json!(words_weight)),
        ("top_n", json!(top_n)),
        ("top_k", json!(top_k)),
        ("rerank_model", json!(rerank_id)),
    ];
    prompt.extend(search.map(|(key, value)| (key.to_owned(), value)));
    let heads = datasets.iter().map(|dataset| {
        json!({"id": dataset.key.id, "name": dataset.name, "avatar": dataset.avatar, "chunk_num": dataset.counts.chunks})
    });
    let heads: Vec<Json> = heads.collect();
    let ids: Vec<_> = datasets.iter().map(|dataset| &dataset.key.id).collect();
    let names: Vec<_> = datasets.iter().map(|dataset| &dataset.name).collect();
    json!({
        "id": key.id,
        "tenant_id": key.tenant,
        "name": name,
        "description": description,
        "icon": icon,
        "avatar": icon,
        "status": "1",
        "language": "English",
        "prompt_type": "simple",
        "do_refer": "1",
        "dataset_ids": ids,
        "kb_names": names,
        "datasets": heads,
        "llm_id": llm_id,
        "llm_setting": llm_setting,
        "llm": llm,
        "prompt_config": prompt_config,
        "prompt": prompt,
        "meta_data_filter": meta_data_filter,
        "similarity_threshold": similarity_threshold,
        "vector_similarity_weight": vector_similarity_weight,
        "top_n": top_n,
        "top_k": top_k,
        "rerank_id": rerank_id,
        "create_time": created_ms,
        "create_date": http_date(*created_ms),
        "update_time": updated_ms,
        "update_date": http_date(*updated_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(body: Json) -> Body {
        match body {
            Json::Object(map) => Body(map),
            _ => Body::default(),
        }
    }

    #[test]
    fn many_datasets_are_read_quickly_and_each_once() {
        let ids: Vec<String> = (0..100_000).map(|n| format!("{:032}", n / 2 * 2)).collect();
        let began = std::time::Instant::now();
        let read = datasets(&object(serde_json::json!({"dataset_ids": ids})), "dataset_ids");
        assert_eq!(read.unwrap().unwrap().len(), 50_000);
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    }

    fn read(body: Json, before: ChatSettings) -> Result<ChatSettings, ApiError> {
        settings(&object(body), before)
    }

    #[test]
    fn both_api_generations_create_the_same_assistant() {
        let newer = json!({"icon": "i", "dataset_ids": ["d", "d"], "llm_id": "m",
            "llm_setting": {"temperature": 0.5, "top_p": 0.3, "presence_penalty": 0.4, "frequency_penalty": 0.7,
                "max_tokens": 512},
            "prompt_config": {"system": "S {knowledge}", "prologue": "P", "quote": false, "empty_response": "E",
                "parameters": [{"key": "knowledge", "optional": false}]},
            "similarity_threshold": 0.25, "vector_similarity_weight": 0.25, "top_n": 3, "top_k": 9, "rerank_id": "r"});
        let older = json!({"avatar": "i", "dataset_ids": ["d"], "llm": {"model_name": "m", "temperature": 0.5},
            "prompt": {"prompt": "S {knowledge}", "opener": "P", "show_quote": false, "empty_response": "E",
                "variables": [{"key": "knowledge", "optional": false}], "similarity_threshold": 0.25,
                "keywords_similarity_weight": 0.75, "top_n": 3, "top_k": 9, "rerank_model": "r"}});
        let (newer, older) =
            (read(newer, ChatSettings::default()).unwrap(), read(older, ChatSettings::default()).unwrap());
        assert_eq!(newer, older);
        assert_eq!(newer.prompt_config["parameters"], json!([{"key": "knowledge", "optional": false}]));
        assert_eq!((newer.vector_similarity_weight, newer.datasets.len()), (0.25, 1));
        // A request without the older form gets none of its fields.
        let plain = read(json!({"llm_setting": {"odd": "x"}}), ChatSettings::default()).unwrap();
        assert_eq!(json!(plain.llm_setting), json!({"odd": "x"}));
        assert_eq!((&plain.prompt_config["parameters"], plain.top_n), (&json!([]), 6));
        // A change keeps the fields that it does not name.
        let changed = read(json!({"prompt_config": {"quote": true}, "top_n": null}), newer.clone()).unwrap();
        let mut expected = newer;
        expected.prompt_config.insert("quote".to_owned(), true.into());
        assert_eq!(changed, expected);
    }

    #[test]
    fn settings_are_shown_as_they_were_written() {
        let settings = read(
            json!({"dataset_ids": ["d"], "prompt": {"keywords_similarity_weight": 0.7}}),
            ChatSettings::default(),
        );
        let chat = chats::new(&weft_core::TenantId::from("t"), "n".to_owned(), settings.unwrap(), 0);
        let shown = view(&chat, &[]);
        assert_eq!(shown["prompt"]["keywords_similarity_weight"], 0.7);
        assert_eq!(shown["prompt"]["prompt"], shown["prompt_config"]["system"]);
        assert_eq!(shown["prompt"]["opener"], PROLOGUE);
        assert_eq!((&shown["dataset_ids"], &shown["avatar"]), (&json!([]), &json!("")));
    }

    #[test]
    fn invalid_chat_settings_give_the_error_messages_of_the_api() {
        let check = |body: Json, words: &str| {
            let error = read(body, ChatSettings::default()).unwrap_err();
            assert!(format!("{error:?}").contains(words), "{error:?}");
        };
        check(json!({"dataset_ids": "d"}), "`dataset_ids` should be a list.");
        check(json!({"dataset_ids": [1]}), "`dataset_ids` should be a list.");
        check(json!({"prompt_config": []}), "`prompt_config` should be an object.");
        check(json!({"llm_setting": "x"}), "`llm_setting` should be an object.");
        check(json!({"tenant_id": "t"}), "`tenant_id` must not be provided");
        let method = json!({"meta_data_filter": {"method": "zz"}});
        check(method, "`meta_data_filter/method` must be manual, auto or semi_auto, and is `zz`");
        let condition = json!({"method": "manual", "manual": [{"key": "a", "op": "like it"}]});
        check(
            json!({"meta_data_filter": condition}),
            "`meta_data_filter/manual/0` `like it` is not an operator",
        );
        check(json!({"top_n": -1}), "`top_n` should be a number from 0 to 1024.");
        check(json!({"top_k": 0}), "`top_k` should be a number from 1 to 2048.");
        check(json!({"top_k": 2_049}), "`top_k` should be a number from 1 to 2048.");
        check(json!({"similarity_threshold": 1.5}), "`similarity_threshold` should be a number from 0 to 1.");
        let twice = json!({"system": "{a}", "parameters": [{"key": "a"}, {"key": "a"}]});
        check(json!({"prompt_config": twice}), "`parameters` contains duplicate key: a");
        check(json!({"prompt_config": {"parameters": {}}}), "`parameters` should be a list.");
        check(json!({"prompt_config": {"system": 7}}), "`system` should be a string.");
        check(json!({"prompt_config": {"reasoning": 9}}), "`reasoning` should be a boolean, a depth");
        check(json!({"prompt": {"show_quote": "maybe"}}), "`show_quote` should be a boolean.");
        check(json!({"llm": {"model_name": 5}}), "`model_name` should be a string.");
        check(json!({"icon": "x".repeat(65_536)}), "`icon` has more than 65535 characters");
        check(json!({"llm_setting": {"odd": "x".repeat(1 << 20)}}), "more than the maximum of 1048576");
        let name = |body: Json, wanted| name(&object(body), wanted);
        let told = |outcome: Result<Option<String>, ApiError>| format!("{:?}", outcome.unwrap_err());
        assert!(told(name(json!({}), Wanted::New)).contains("`name` is required"));
        assert!(told(name(json!({"name": " "}), Wanted::Change)).contains("`name` cannot be empty"));
        assert!(told(name(json!({"name": 1}), Wanted::New)).contains("chat name must be a string"));
        let long = json!({"name": "x".repeat(256)});
        assert!(told(name(long, Wanted::New)).contains("chat name length is 256 which is larger than 255"));
        assert_eq!(name(json!({"name": null}), Wanted::Change).unwrap(), None);
    }
}
