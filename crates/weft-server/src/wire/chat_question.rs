//! Questions to chat assistants, and their answers as single objects.

use axum::http::StatusCode;
use serde_json::{Map, Value as Json, json};
use weft_core::citation::Cited;
use weft_core::filter::Filter;

use super::chat;
use super::chat_kinds::check_depth;
use super::completion::content_text;
use super::metadata;
use crate::body::{Body, excerpt};
use crate::error::{ApiError, code};
use weft_app::chats::SAMPLING;

/// Maximum number of datasets that a question may name. They are looked up together.
const DATASETS_MAX: usize = 1_000;

/// A message, as role and text.
pub use weft_app::new_session::Said;

/// The errors of a route for invalid messages.
#[derive(Debug)]
pub struct MessageWords {
    code: u16,
    status: StatusCode,
    missing: &'static str,
    no_list: &'static str,
    no_object: &'static str,
    no_content: &'static str,
    no_user: &'static str,
    last: &'static str,
}

/// The errors of the native routes.
pub static NATIVE: MessageWords = MessageWords {
    code: code::ARGUMENT,
    status: StatusCode::OK,
    missing: "`messages` must be a non-empty list.",
    no_list: "`messages` must be a non-empty list.",
    no_object: "Every item in `messages` must be an object.",
    no_content: "Every item in `messages` must include `role` and `content`.",
    no_user: "`messages` must contain a user message.",
    last: "The last message must be from user.",
};

/// The errors of the OpenAI-compatible routes.
pub static OPENAI: MessageWords = MessageWords {
    code: code::DATA,
    // The same code as for missing data.
    status: StatusCode::BAD_REQUEST,
    missing: "You have to provide messages.",
    no_list: "messages must be an array.",
    no_object: "Each message must be an object.",
    no_content: "Each message must have a role and content.",
    no_user: "The last content of this conversation is not from user.",
    last: "The last content of this conversation is not from user.",
};

/// Returns the question and the messages before it. System messages are dropped, because the assistant has its own
/// instructions; a conversation begins with a question.
///
/// # Errors
/// The error of the route.
pub fn conversation(messages: &Json, words: &MessageWords) -> Result<(Vec<Said>, String), ApiError> {
    let refuse = |message: &str| ApiError::new(words.code, message).with_status(words.status);
    let list = messages.as_array().ok_or_else(|| refuse(words.no_list))?;
    if list.is_empty() {
        return Err(refuse(words.missing));
    }
    let text = |content: &Json| content_text(content).map_err(|error| error.with_status(words.status));
    let mut said: Vec<Said> = Vec::new();
    let mut last = "";
    for message in list {
        let message = message.as_object().ok_or_else(|| refuse(words.no_object))?;
        let role = message.get("role").and_then(Json::as_str);
        let (Some(role), Some(content)) = (role, message.get("content")) else {
            return Err(refuse(words.no_content));
        };
        last = role;
        match role {
            "user" => said.push(("user", text(content)?)),
            "assistant" if !said.is_empty() => said.push(("assistant", text(content)?)),
            _ => {}
        }
    }
    if !said.iter().any(|(role, _)| *role == "user") {
        return Err(refuse(words.no_user));
    }
    match said.pop() {
        Some(("user", question)) if last == "user" => Ok((said, question)),
        _ => Err(refuse(words.last)),
    }
}

/// Options of a question.
#[derive(Debug, Default)]
pub struct ChatOptions {
    /// Whether to cite sources.
    pub quote: Option<bool>,
    /// Only these documents.
    pub documents: Option<Vec<String>>,
    /// Only documents with matching metadata.
    pub filter: Option<Filter>,
    /// These datasets instead of the assistant's.
    pub datasets: Option<Vec<String>>,
    /// The setting for deep research.
    pub reasoning: Option<Json>,
    /// A different model.
    pub llm_id: Option<String>,
    /// Sampling parameters.
    pub llm_setting: Map<String, Json>,
}

impl ChatOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// 101 or 102 with the API's message for a value that is not valid.
    pub fn read(body: &Body) -> Result<Self, ApiError> {
        let reasoning = body.get("reasoning").cloned();
        reasoning.as_ref().map_or(Ok(()), check_depth)?;
        // An empty list keeps the assistant's own.
        let datasets = chat::datasets(body, "kb_ids")?.filter(|ids| !ids.is_empty());
        if datasets.as_ref().is_some_and(|ids| ids.len() > DATASETS_MAX) {
            return Err(ApiError::data(format!("`kb_ids` can name at most {DATASETS_MAX} datasets")));
        }
        Ok(Self {
            quote: body.flag("quote")?,
            documents: documents(body)?,
            filter: metadata::condition(body.get("metadata_condition"))?,
            datasets,
            reasoning,
            llm_id: body.text("llm_id")?.filter(|id| !id.trim().is_empty()),
            llm_setting: sampling(body)?,
        })
    }
}

/// Returns the range of a value of [`SAMPLING`] if the value is outside of it; a number may be written as a string.
fn sampling_refused(key: &str, value: &Json) -> Option<(f64, f64)> {
    let (least, most) = match key {
        "temperature" => (0.0, 2.0),
        "top_p" => (0.0, 1.0),
        "max_tokens" => (0.0, 10_000_000.0),
        _ => (-2.0, 2.0),
    };
    let number = match value {
        Json::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.is_none_or(|number: f64| !(least..=most).contains(&number)).then_some((least, most))
}

/// Parses a number, as an integer if it is written as one.
fn number_in(text: &str) -> Json {
    let text = text.trim();
    text.parse::<i64>().map(Json::from).or_else(|_| text.parse::<f64>().map(Json::from)).unwrap_or_default()
}

/// Reads the sampling parameters of a request.
fn sampling(body: &Body) -> Result<Map<String, Json>, ApiError> {
    let mut given = Map::new();
    for (key, _) in &SAMPLING {
        let Some(value) = body.get(key) else { continue };
        if let Some((least, most)) = sampling_refused(key, value) {
            let message = format!(
                "`{key}` must be a number from {least} to {most}, and is {}",
                excerpt(&value.to_string())
            );
            return Err(ApiError::argument(message));
        }
        let value = value.as_str().map_or_else(|| value.clone(), number_in);
        given.insert((*key).to_owned(), value);
    }
    Ok(given)
}

/// Reads a list of ids, or a string with commas between them. An empty list means no selection.
fn documents(body: &Body) -> Result<Option<Vec<String>>, ApiError> {
    let ids = match body.get("doc_ids") {
        Some(Json::String(text)) => text.split(',').map(|id| id.trim().to_owned()).collect(),
        _ => body.texts("doc_ids")?.unwrap_or_default(),
    };
    let ids: Vec<String> = ids.into_iter().filter(|id| !id.is_empty()).collect();
    Ok((!ids.is_empty()).then_some(ids))
}

/// The sources of an answer. The n of a citation `[ID:n]` is an index in the list of chunks.
pub fn reference(sources: &[Cited]) -> Json {
    if sources.is_empty() {
        return json!({});
    }
    let mut documents: Vec<(&str, &str, u64)> = Vec::new();
    for Cited { chunk, .. } in sources {
        match documents.iter_mut().find(|(id, ..)| *id == chunk.document_id) {
            Some((.., count)) => *count += 1,
            None => documents.push((&chunk.document_id, &chunk.document_name, 1)),
        }
    }
    let documents: Vec<Json> = documents
        .into_iter()
        .map(|(id, name, count)| json!({"doc_id": id, "doc_name": name, "count": count}))
        .collect();
    let chunks: Vec<Json> = sources.iter().map(|source| json!(source.chunk)).collect();
    json!({"chunks": chunks, "doc_aggs": documents, "total": sources.len()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_user_and_assistant_messages_form_the_history() {
        let messages = json!([
            {"role": "system", "content": "s"}, {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
            {"role": "user", "content": [{"type": "text", "text": "c"}]},
        ]);
        let (before, question) = conversation(&messages, &NATIVE).unwrap();
        assert_eq!(before, [("user", "a".to_owned()), ("assistant", "b".to_owned())]);
        assert_eq!(question, "c");
        let check = |messages: Json, words: [&str; 2]| {
            for (known, words) in [(&NATIVE, words[0]), (&OPENAI, words[1])] {
                let error = format!("{:?}", conversation(&messages, known).unwrap_err());
                assert!(error.contains(words), "{messages}: {error}");
            }
        };
        check(json!([]), ["`messages` must be a non-empty list.", "You have to provide messages."]);
        check(json!("x"), ["`messages` must be a non-empty list.", "messages must be an array."]);
        check(json!([1]), ["Every item in `messages` must be an object.", "Each message must be an object."]);
        check(json!([{"role": "user"}]), ["must include `role` and `content`", "must have a role"]);
        let none = json!([{"role": "assistant", "content": "x"}]);
        check(none, ["must contain a user message", "not from user"]);
        let answered = json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]);
        check(answered, ["The last message must be from user.", "not from user"]);
        let told = json!([{"role": "user", "content": "x"}, {"role": "system", "content": "y"}]);
        check(told, ["The last message must be from user.", "not from user"]);
    }

    #[test]
    fn model_settings_must_be_numbers_within_their_ranges() {
        let read = |json: Json| sampling(&Body(json.as_object().unwrap().clone()));
        let fine = json!({"temperature": 2, "top_p": 0.5, "presence_penalty": -2, "max_tokens": 0});
        assert_eq!(json!(read(fine.clone()).unwrap()), fine);
        let texts = json!({"temperature": "2", "top_p": " .5", "presence_penalty": "-2", "max_tokens": "0"});
        assert_eq!(json!(read(texts).unwrap()), fine, "a number written as a string is accepted");
        assert!(read(json!({"temperature": null, "stop": "x"})).unwrap().is_empty());
        for (json, words) in [
            (json!({"temperature": 99}), "`temperature` must be a number from 0 to 2, and is 99"),
            (json!({"temperature": "hot"}), "and is \"hot\""),
            (json!({"top_p": -0.1}), "`top_p`"),
            (json!({"frequency_penalty": 3}), "from -2 to 2"),
            (json!({"max_tokens": [1]}), "`max_tokens`"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.message().contains(words), "{}", error.message());
        }
    }

    #[test]
    fn a_question_names_few_datasets() {
        let read = |count: usize| {
            let ids: Vec<String> = (0..count).map(|n| n.to_string()).collect();
            ChatOptions::read(&Body(json!({"kb_ids": ids}).as_object().unwrap().clone()))
        };
        assert_eq!(read(1_000).unwrap().datasets.unwrap().len(), 1_000);
        assert_eq!(read(0).unwrap().datasets, None);
        let error = read(1_001).unwrap_err();
        assert_eq!(error.message(), "`kb_ids` can name at most 1000 datasets");
    }

    #[test]
    fn document_ids_may_be_a_list_or_a_string() {
        let read =
            |value: Json| documents(&Body(json!({"doc_ids": value}).as_object().unwrap().clone())).unwrap();
        assert_eq!(read(json!("a, b,")), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(read(json!(["a"])), Some(vec!["a".to_owned()]));
        assert_eq!((read(json!("")), read(json!([])), read(json!(null))), (None, None, None));
    }
}
