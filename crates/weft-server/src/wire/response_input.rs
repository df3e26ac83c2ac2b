//! The input of a request to OpenAI's Responses API: a string, or items. Of the items, the last messages of the user
//! are the question, messages before them are history, and outputs of calls that nothing follows are answers.

use serde_json::{Value as Json, json};
use weft_core::value::to_text;

use crate::error::ApiError;

/// Maximum number of items in one request.
const ITEMS_MAX: usize = 1_000;

/// The member of a noted part that tells which file of the turn it refers to.
pub(super) const FILE: &str = "weft_file";

/// Types of items that record past actions and have no effect on the turn.
const DONE: [&str; 13] = [
    "code_interpreter_call",
    "compaction",
    "computer_call",
    "custom_tool_call",
    "file_search_call",
    "image_generation_call",
    "local_shell_call",
    "mcp_call",
    "mcp_list_tools",
    "reasoning",
    "shell_call",
    "tool_search_call",
    "web_search_call",
];

/// An answer to something that a run asks.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseReply {
    /// The output of a function call.
    Output(String),
    /// The decision whether a call may be made.
    Approval {
        /// Whether it is approved.
        approve: bool,
        /// The reason for a rejection.
        reason: Option<String>,
    },
}

/// A parsed input.
#[derive(Debug, Default)]
pub struct ResponseInput {
    /// The question.
    pub query: String,
    /// Its files, as turns take them.
    pub files: Vec<Json>,
    /// The messages before it, as role and text.
    pub before: Vec<(&'static str, String)>,
    /// Answers, by the ids of the items that ask.
    pub answers: Vec<(String, ResponseReply)>,
    /// Messages of the roles system and developer.
    pub instructions: Vec<String>,
    /// The items themselves, without the bytes of files.
    pub items: Vec<Json>,
}

fn wrong(place: usize, what: &str) -> ApiError {
    ApiError::argument(format!("`input[{place}]`: {what}"))
}

impl ResponseInput {
    /// Parses an input.
    ///
    /// # Errors
    /// 101 naming the item that is not valid or not supported.
    pub fn read(input: &Json) -> Result<Self, ApiError> {
        let mut read = Self::default();
        match input {
            Json::String(text) => {
                read.query.clone_from(text);
                read.items.push(json!({"type": "message", "role": "user",
                    "content": [{"type": "input_text", "text": text}]}));
            }
            Json::Array(items) if items.len() > ITEMS_MAX => {
                return Err(ApiError::argument(format!("`input` has more than {ITEMS_MAX} items")));
            }
            Json::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    read.take(place, item)?;
                }
            }
            _ => return Err(ApiError::argument("`input` must be a text or a list of items")),
        }
        Ok(read)
    }

    fn take(&mut self, place: usize, item: &Json) -> Result<(), ApiError> {
        let text = |key: &str| item.get(key).and_then(Json::as_str);
        let named = |key: &str| {
            let id = text(key).filter(|id| !id.is_empty()).map(str::to_owned);
            id.ok_or_else(|| wrong(place, &format!("it needs a `{key}`")))
        };
        match text("type") {
            // Clients may omit the type of a message.
            None | Some("message") if item.is_object() => return self.take_message(place, item),
            Some("function_call_output") => {
                let output = item.get("output").map(output_text).unwrap_or_default();
                self.answers.push((named("call_id")?, ResponseReply::Output(output)));
            }
            Some("mcp_approval_response") => {
                let Some(approve) = item.get("approve").and_then(Json::as_bool) else {
                    return Err(wrong(place, "`approve` must be true or false"));
                };
                let reason = text("reason").filter(|reason| !reason.is_empty()).map(str::to_owned);
                self.answers
                    .push((named("approval_request_id")?, ResponseReply::Approval { approve, reason }));
            }
            // They are the questions to which the answers refer by id.
            Some("function_call" | "mcp_approval_request") => {}
            // The results of the answers before them.
            Some(kind) if DONE.contains(&kind) || kind.ends_with("_call_output") => self.answers.clear(),
            Some(kind) => return Err(wrong(place, &format!("items of the type `{kind}` are not read"))),
            None => return Err(wrong(place, "it must be an object")),
        }
        self.items.push(item.clone());
        Ok(())
    }

    fn take_message(&mut self, place: usize, item: &Json) -> Result<(), ApiError> {
        let role = item.get("role").and_then(Json::as_str).unwrap_or_default();
        let content = item.get("content").unwrap_or(&Json::Null);
        let asks = role == "user";
        // Anything before a message of the assistant belongs to an earlier turn.
        if role == "assistant" {
            self.answers.clear();
            self.files.clear();
            self.forget_places();
        }
        let (text, parts) = self.content(place, (content, asks))?;
        match role {
            "user" if self.query.is_empty() => self.query = text,
            "user" => {
                self.query.push_str("\n\n");
                self.query.push_str(&text);
            }
            "assistant" => {
                if !self.query.is_empty() {
                    self.before.push(("user", std::mem::take(&mut self.query)));
                }
                self.before.push(("assistant", text));
            }
            "system" | "developer" => self.instructions.push(text),
            _ => return Err(wrong(place, "`role` must be user, assistant, system or developer")),
        }
        self.items.push(json!({"type": "message", "role": role, "content": parts}));
        Ok(())
    }

    /// Removes references to files: those of earlier questions are not part of this turn.
    fn forget_places(&mut self) {
        let contents = self.items.iter_mut().filter_map(|item| item.get_mut("content")?.as_array_mut());
        for part in contents.flatten().filter_map(Json::as_object_mut) {
            part.remove(FILE);
        }
    }

    /// Returns the text of a message, and its parts in the form for the note. Files of a question are added to those
    /// of the turn.
    fn content(
        &mut self,
        place: usize,
        (content, asks): (&Json, bool),
    ) -> Result<(String, Vec<Json>), ApiError> {
        let kind = if asks { "input_text" } else { "output_text" };
        let parts = match content {
            Json::String(text) => return Ok((text.clone(), vec![json!({"type": kind, "text": text})])),
            Json::Array(parts) => parts,
            _ => return Err(wrong(place, "`content` must be a text or a list of parts")),
        };
        let (mut texts, mut noted) = (Vec::new(), Vec::new());
        for part in parts {
            let kind = part.get("type").and_then(Json::as_str).unwrap_or_default();
            match kind {
                "input_text" | "output_text" | "text" | "summary_text" | "refusal" => {
                    let text = part.get("text").or_else(|| part.get("refusal")).and_then(Json::as_str);
                    let none = || wrong(place, &format!("a part of the type `{kind}` needs a text"));
                    texts.push(text.ok_or_else(none)?);
                    noted.push(part.clone());
                }
                "input_image" | "input_file" if asks => {
                    let file = file_of(part).map_err(|what| wrong(place, &what))?;
                    let mut note = json!({"type": kind, FILE: self.files.len()});
                    for key in ["file_id", "filename", "detail"] {
                        if let Some(value) = part.get(key).filter(|value| !value.is_null()) {
                            note[key] = value.clone();
                        }
                    }
                    self.files.push(file);
                    noted.push(note);
                }
                kind => return Err(wrong(place, &format!("parts of the type `{kind}` are not read"))),
            }
        }
        Ok((texts.join("\n"), noted))
    }
}

/// Returns the output of a function: a string, or parts with text.
fn output_text(output: &Json) -> String {
    match output {
        Json::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
            texts.join("\n")
        }
        output => to_text(output),
    }
}

/// Converts a picture or file into the form that turns take: a data URI, or the id of an upload.
fn file_of(part: &Json) -> Result<Json, String> {
    let text = |key: &str| part.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
    if let Some(id) = text("file_id") {
        return Ok(json!({"id": id, "name": text("filename").unwrap_or_default()}));
    }
    let image = part.get("image_url").and_then(|url| url.as_str().or_else(|| url.get("url")?.as_str()));
    match (image, text("file_data"), text("file_url")) {
        (Some(uri), _, _) if uri.starts_with("data:image/") => Ok(json!(uri)),
        (Some(_), _, _) | (None, None, Some(_)) => {
            Err("files are not fetched from addresses: send a data URI, or upload the file and give its `file_id`"
                .to_owned())
        }
        (None, Some(data), _) => Ok(json!(named_uri(data, text("filename")))),
        (None, None, None) => Err("a file needs `image_url`, `file_data` or `file_id`".to_owned()),
    }
}

/// Returns a data URI that contains the name of its file, if the name can be written there.
fn named_uri(data: &str, name: Option<&str>) -> String {
    // Some clients send only the encoded bytes.
    let data = if data.starts_with("data:") { data.to_owned() } else { format!("data:;base64,{data}") };
    // A name with one of these would be parsed as the next part of the URI.
    let plain = |name: &&str| !name.contains([';', ',', '=']) && !name.chars().any(char::is_control);
    match (name.filter(plain), data.split_once(';')) {
        (Some(name), Some((kind, rest))) => format!("{kind};name={name};{rest}"),
        _ => data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &Json) -> ResponseInput {
        ResponseInput::read(input).unwrap()
    }

    #[test]
    fn the_last_user_messages_are_the_question() {
        let input = read(&json!([
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:image/png;base64,AA"}]},
            {"type": "reasoning", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
            {"type": "message", "role": "user", "content": "c"},
            {"role": "user", "content": [{"type": "input_text", "text": "d"}]},
        ]));
        assert_eq!(input.query, "c\n\nd");
        assert_eq!(input.before, [("user", "a".to_owned()), ("assistant", "b".to_owned())]);
        assert_eq!((input.instructions, input.files.len()), (vec!["be brief".to_owned()], 0));
        assert_eq!(input.items.len(), 6);
    }

    #[test]
    fn answers_count_only_at_the_end_of_the_input() {
        let output = json!({"type": "function_call_output", "call_id": "t", "output": "{\"a\":1}"});
        let approval = json!({"type": "mcp_approval_response", "approval_request_id": "u", "approve": false, "reason": "no"});
        let call = json!({"type": "function_call", "call_id": "t", "name": "f", "arguments": "{}"});
        let input = read(&json!([call, output, approval]));
        let denied = ResponseReply::Approval { approve: false, reason: Some("no".to_owned()) };
        assert_eq!(
            input.answers,
            [("t".to_owned(), ResponseReply::Output("{\"a\":1}".to_owned())), ("u".to_owned(), denied)]
        );
        let later = read(
            &json!([call, output, {"role": "assistant", "content": "done"}, {"role": "user", "content": "q"}]),
        );
        assert!(later.answers.is_empty() && later.query == "q");
    }

    #[test]
    fn files_are_inline_or_uploaded_and_no_url_is_fetched() {
        let part = |part: Json| ResponseInput::read(&json!([{"role": "user", "content": [part]}]));
        let file = |json: Json| part(json).unwrap().files.remove(0);
        let pdf =
            json!({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"});
        assert_eq!(file(pdf), json!("data:application/pdf;name=a.pdf;base64,AA"));
        let odd = json!({"type": "input_file", "filename": "a;x,=.pdf", "file_data": "data:application/pdf;base64,AA"});
        assert_eq!(file(odd), json!("data:application/pdf;base64,AA"));
        assert_eq!(file(json!({"type": "input_image", "file_id": "f"})), json!({"id": "f", "name": ""}));
        for refused in [
            json!({"type": "input_image", "image_url": "http://127.0.0.1/x.png"}),
            json!({"type": "input_file", "file_url": "http://127.0.0.1/x"}),
            json!({"type": "input_audio"}),
        ] {
            assert!(part(refused.clone()).is_err(), "{refused}");
        }
        for wrong in [
            json!(7),
            json!([7]),
            json!([{"role": "king", "content": ""}]),
            json!([{"type": "item_reference"}]),
            json!([{"role": "user", "content": [{"type": "input_text", "text": 5}]}]),
            json!([{"role": "user", "content": [{"type": "input_text"}]}]),
        ] {
            assert!(ResponseInput::read(&wrong).is_err(), "{wrong}");
        }
    }
}
