//! The script of a scripted model: a list of replies, each for the requests that match it.
//!
//! A script is data: written in code, in JSON or in TOML. Each request gets the first reply of the list that matches
//! and is not used up. A reply with `when` serves any number of requests, one without serves a single request, and
//! `times` overrides either.
//!
//! ```json
//! {"replies": [
//!   {"when": {"user": "weather"}, "say": [{"call": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]},
//!   {"when": {"tool": "sunny"}, "say": [{"thinking": "It is sunny."}, {"text": "Sun"}, {"text": "shine."}], "delay_ms": 20},
//!   {"text": "I do not know.", "times": 0}
//! ]}
//! ```
//!
//! The steps of `say`:
//!
//! | step | meaning |
//! |---|---|
//! | `{"text": "…"}` | a piece of the answer |
//! | `{"thinking": "…"}` | a piece of the reasoning |
//! | `{"signature": "…"}` | a piece of the signature of the reasoning, in wire formats that have one |
//! | `{"call": {"id"?, "name", "arguments"}}` | a whole call; a string as arguments is sent unchanged, valid or not |
//! | `{"call_part": {"index", "id"?, "name"?, "arguments"}}` | a piece of call number `index`, for interleaved calls |
//! | `{"tool_search": {"id"?, "query"?, "found"?, "error"?}}` | a search for tools by the provider, in wire formats that have one; without `found` and `error` its result is missing, without `query` the search |
//! | `{"wait": 500}` | a pause in milliseconds |
//! | `{"error": {"kind", "message", "retry_after_ms"?}}` | an error: of the request as the first step, else in the middle |
//! | `{"fault": "cut"}`, `{"fault": "garbage"}` | a stream that stops, or something that is not an answer |
//!
//! Besides `say`, a reply has `text` (sent in one piece before it), `delay_ms` (before each piece), `times`, `stop`
//! (`stop`, `length`, `tool_calls`, `filtered`, `other`), `usage` (`{"prompt", "completion"}`, and as parts of these
//! `cache_read`, `cache_write`, `reasoning`) and `unmetered` (no usage is sent). A reply with none of them is an
//! empty answer.

mod builders;
mod playback;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_core::seam::chat_model::{ChatRequest, StopReason, Usage};
use weft_core::{Error, ErrorKind, Json, Result};

pub use playback::Playback;

/// A scripted model's replies, in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The replies.
    pub replies: Vec<Reply>,
}

/// One reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reply {
    /// The requests it matches; all of them when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// A text sent in one piece before `say`: the short form for plain answers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The content, piece by piece.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub say: Vec<Step>,
    /// Milliseconds before every piece.
    #[serde(skip_serializing_if = "is_zero")]
    pub delay_ms: u64,
    /// The number of requests it serves; 0 for any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// The usage it reports; estimated from the texts when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<ScriptTokens>,
    /// The stop reason; by default `tool_calls` after calls and `stop` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// Sends no usage, as some providers do; the model layer then estimates it.
    #[serde(skip_serializing_if = "is_false")]
    pub unmetered: bool,
}

/// Texts that must all occur in a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// In the model's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// In a system message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// In the last user message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// In one of the tool results at the end of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// A piece of a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A piece of the answer.
    Text(String),
    /// A piece of the reasoning.
    Thinking(String),
    /// A piece of the provider's signature of the reasoning; wire formats without signatures omit it.
    Signature(String),
    /// A tool call.
    Call(ScriptCall),
    /// A piece of a tool call, for answers with interleaved calls.
    CallPart(CallPart),
    /// A search for tools by the provider; wire formats without such a search omit it.
    ToolSearch(ScriptSearch),
    /// A pause in milliseconds.
    Wait(u64),
    /// Ends the reply with an error; as the first step the request itself fails.
    Error(Failure),
    /// Ends the reply in a way that a provider should not.
    Fault(Fault),
}

/// A tool call of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptCall {
    /// The provider's id; `call_1`, `call_2` … by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of the tool.
    pub name: String,
    /// The arguments: an object, or a string that is sent unchanged, valid or not.
    #[serde(default)]
    pub arguments: Json,
}

impl ScriptCall {
    /// The arguments as the model writes them.
    pub fn arguments_text(&self) -> String {
        match &self.arguments {
            Json::Null => "{}".to_owned(),
            other => weft_core::value::to_text(other),
        }
    }
}

/// A piece of a tool call. The pieces with the same index belong together, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallPart {
    /// The position of the call in the answer, from 0.
    pub index: usize,
    /// The provider's id, in the first piece; `call_1`, `call_2` … by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of the tool, in the first piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The next part of the arguments' text.
    #[serde(default)]
    pub arguments: String,
}

/// A search for tools by the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptSearch {
    /// The provider's id; `srvtoolu_1`, `srvtoolu_2` … by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The query; absent: the result belongs to a search in the previous answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The names of the tools that it finds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Vec<String>>,
    /// The error code with which it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An error of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// Milliseconds to wait before the next try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// Converts it to an error of the seam.
    pub fn to_error(&self) -> Error {
        let mut error = Error::new(self.kind, self.message.clone());
        error.retry_after = self.retry_after_ms.map(Duration::from_millis);
        error
    }
}

/// A malfunction of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The stream stops before its end.
    Cut,
    /// The response is not an answer.
    Garbage,
}

/// The token counts that a reply reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptTokens {
    /// Tokens of the request.
    pub prompt: u64,
    /// Tokens of the answer.
    pub completion: u64,
    /// Tokens of the request that were read from the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Tokens of the request that were written to the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Tokens of the answer that belong to the reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Script {
    /// A script without replies.
    pub fn new() -> Self {
        Self::default()
    }

    /// A script that gives the same text to every request.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().reply(Reply::text(text).always())
    }

    /// Adds a reply.
    #[must_use]
    pub fn reply(mut self, reply: Reply) -> Self {
        self.replies.push(reply);
        self
    }

    /// Parses a script in JSON (if it starts with a brace) or TOML.
    ///
    /// # Errors
    /// `Invalid` with the location of the error.
    pub fn parse(source: &str) -> Result<Self> {
        // No TOML document starts like this.
        let parsed = if source.trim_start().starts_with('{') {
            serde_json::from_str(source).map_err(|e| e.to_string())
        } else {
            toml::from_str(source).map_err(|e| e.to_string())
        };
        parsed.map_err(|cause| Error::invalid("cannot read the script of a scripted model").because(cause))
    }
}

impl Reply {
    /// All steps, with the short form first.
    pub fn steps(&self) -> Vec<Step> {
        let short = (!self.text.is_empty()).then(|| Step::Text(self.text.clone()));
        short.into_iter().chain(self.say.iter().cloned()).collect()
    }

    /// The stop reason.
    pub fn stop_reason(&self) -> StopReason {
        let calls = self.say.iter().any(|step| matches!(step, Step::Call(_) | Step::CallPart(_)));
        self.stop.unwrap_or(if calls { StopReason::ToolCalls } else { StopReason::Stop })
    }

    /// The usage it reports for `request`.
    pub fn usage_for(&self, request: &ChatRequest) -> Usage {
        if let Some(tokens) = self.usage {
            return Usage {
                prompt_tokens: tokens.prompt,
                completion_tokens: tokens.completion,
                calls: 1,
                cache_read_tokens: tokens.cache_read.unwrap_or(0),
                cache_write_tokens: tokens.cache_write.unwrap_or(0),
                reasoning_tokens: tokens.reasoning.unwrap_or(0),
            };
        }
        let said: String = self
            .steps()
            .into_iter()
            .filter_map(|step| match step {
                Step::Text(text) | Step::Thinking(text) => Some(text),
                Step::Call(call) => Some(call.arguments_text()),
                Step::CallPart(part) => Some(part.arguments),
                Step::Signature(_)
                | Step::ToolSearch(_)
                | Step::Wait(_)
                | Step::Error(_)
                | Step::Fault(_) => None,
            })
            .collect();
        crate::estimate::usage(request, &said)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    #[test]
    fn json_and_toml_scripts_are_equivalent() {
        let from_json = Script::parse(
            r#"{"replies": [{"when": {"user": "hi"}, "say": [{"thinking": "hm"}, {"text": "a"},
                {"call": {"name": "t", "arguments": {"x": 1}}}, {"signature": "s"},
                {"tool_search": {"query": "q", "found": ["t"]}},
                {"call_part": {"index": 1, "name": "u", "arguments": "{\"y"}}, {"error": {"kind": "rate_limited", "retry_after_ms": 5}}],
                "delay_ms": 3, "usage": {"prompt": 1, "completion": 2}}, {"text": "b", "times": 0}]}"#,
        )
        .unwrap();
        let from_toml = Script::parse(
            r#"
            [[replies]]
            when = { user = "hi" }
            say = [{ thinking = "hm" }, { text = "a" }, { call = { name = "t", arguments = { x = 1 } } },
                   { signature = "s" }, { tool_search = { query = "q", found = ["t"] } }, { call_part = { index = 1, name = "u", arguments = '{"y' } },
                   { error = { kind = "rate_limited", retry_after_ms = 5 } }]
            delay_ms = 3
            usage = { prompt = 1, completion = 2 }
            [[replies]]
            text = "b"
            times = 0
            "#,
        )
        .unwrap();
        assert_eq!(from_json, from_toml);
        assert_eq!(
            from_json.replies[0].say[2],
            Step::Call(ScriptCall { id: None, name: "t".into(), arguments: json!({"x": 1}) })
        );
        let again = Script::parse(&serde_json::to_string(&from_json).unwrap()).unwrap();
        assert_eq!(again, from_json);
    }

    #[test]
    fn a_misspelt_script_key_is_named() {
        let error = Script::parse(r#"{"replies": [{"txt": "a"}]}"#).unwrap_err();
        assert!(error.full().contains("txt"), "{}", error.full());
    }
}
