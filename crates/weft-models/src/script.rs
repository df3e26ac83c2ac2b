//! What a scripted model says: a list of replies, each for the requests that it fits.
//!
//! A script is data: written in code, in JSON or in TOML. For every request the first reply of the
//! list that fits and is not used up is given. A reply with `when` serves any number of requests, one
//! without serves a single request, and `times` overrides either.
//!
//! ```json
//! {"replies": [
//!   {"when": {"user": "weather"}, "say": [{"call": {"name": "get_weather", "arguments": {"city": "Oslo"}}}]},
//!   {"when": {"tool": "sunny"}, "say": [{"thinking": "It is sunny."}, {"text": "Sun"}, {"text": "shine."}], "delay_ms": 20},
//!   {"text": "I do not know.", "times": 0}
//! ]}
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_core::seam::chat_model::{Author, ChatRequest, StopReason, Usage};
use weft_core::{Error, ErrorKind, Json, Result};

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
    /// Which requests it fits; all of them when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// A text said in one piece before `say`: the short form for plain answers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What it says, piece by piece.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub say: Vec<Step>,
    /// Milliseconds before every piece.
    #[serde(skip_serializing_if = "is_zero")]
    pub delay_ms: u64,
    /// How many requests it serves; 0 for any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// The usage it reports; estimated from the texts when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Tokens>,
    /// Why it stops; by default `tool_calls` after calls and `stop` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
}

/// Parts that must occur in a request, all of them.
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
    /// In one of the tool results that the conversation ends with.
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
    /// A tool call.
    Call(Call),
    /// Milliseconds of silence.
    Wait(u64),
    /// Ends the reply with an error; as the first step the request itself fails.
    Error(Failure),
    /// Ends the reply in a way that no provider should.
    Fault(Fault),
}

/// A tool call of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The provider's id; `call_1`, `call_2` … by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Which tool.
    pub name: String,
    /// The arguments: an object, or a text that is sent as it is, right or wrong.
    #[serde(default)]
    pub arguments: Json,
}

impl Call {
    /// The arguments as the model writes them.
    pub fn arguments_text(&self) -> String {
        match &self.arguments {
            Json::Null => "{}".to_owned(),
            other => weft_core::value::to_text(other),
        }
    }
}

/// An error of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Which kind.
    pub kind: ErrorKind,
    /// What it says.
    #[serde(default)]
    pub message: String,
    /// Milliseconds to wait before the next try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// As an error of the seam.
    pub fn to_error(&self) -> Error {
        let mut error = Error::new(self.kind, self.message.clone());
        error.retry_after = self.retry_after_ms.map(Duration::from_millis);
        error
    }
}

/// What a broken provider does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The stream stops without its end.
    Cut,
    /// Something that is no answer comes.
    Garbage,
}

/// The tokens a reply reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// Of the question.
    pub prompt: u64,
    /// Of the answer.
    pub completion: u64,
}

impl Script {
    /// No replies yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says the same text to every request.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().reply(Reply::text(text).always())
    }

    /// Adds a reply.
    #[must_use]
    pub fn reply(mut self, reply: Reply) -> Self {
        self.replies.push(reply);
        self
    }

    /// Reads a script written in JSON (when it begins with a brace) or TOML.
    ///
    /// # Errors
    /// `Invalid` with the place of what cannot be read.
    pub fn parse(source: &str) -> Result<Self> {
        let parsed = if source.trim_start().starts_with('{') {
            serde_json::from_str(source).map_err(|e| e.to_string())
        } else {
            toml::from_str(source).map_err(|e| e.to_string())
        };
        parsed.map_err(|cause| Error::invalid("cannot read the script of a scripted model").because(cause))
    }
}

impl Reply {
    /// A text in one piece.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A text in these pieces.
    pub fn pieces<T: Into<String>>(pieces: impl IntoIterator<Item = T>) -> Self {
        Self { say: pieces.into_iter().map(|piece| Step::Text(piece.into())).collect(), ..Self::default() }
    }

    /// A tool call.
    pub fn call(name: impl Into<String>, arguments: Json) -> Self {
        Self::default().and_call(name, arguments)
    }

    /// An error of this kind in place of an answer.
    pub fn error(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::default().then(Step::Error(Failure { kind, message: message.into(), retry_after_ms: None }))
    }

    /// Adds a tool call.
    #[must_use]
    pub fn and_call(self, name: impl Into<String>, arguments: Json) -> Self {
        self.then(Step::Call(Call { id: None, name: name.into(), arguments }))
    }

    /// Adds a piece of reasoning.
    #[must_use]
    pub fn thinking(self, text: impl Into<String>) -> Self {
        self.then(Step::Thinking(text.into()))
    }

    /// Adds a step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.say.push(step);
        self
    }

    /// Only for requests whose last user message holds `part`.
    #[must_use]
    pub fn when_user(mut self, part: impl Into<String>) -> Self {
        self.when.get_or_insert_default().user = Some(part.into());
        self
    }

    /// Only for requests with a system message that holds `part`.
    #[must_use]
    pub fn when_system(mut self, part: impl Into<String>) -> Self {
        self.when.get_or_insert_default().system = Some(part.into());
        self
    }

    /// Only for models whose name holds `part`.
    #[must_use]
    pub fn when_model(mut self, part: impl Into<String>) -> Self {
        self.when.get_or_insert_default().model = Some(part.into());
        self
    }

    /// Only for requests that end with a tool result that holds `part`.
    #[must_use]
    pub fn when_tool(mut self, part: impl Into<String>) -> Self {
        self.when.get_or_insert_default().tool = Some(part.into());
        self
    }

    /// For any number of requests.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(0)
    }

    /// For this many requests; 0 for any number.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Milliseconds before every piece.
    #[must_use]
    pub fn delay_ms(mut self, delay_ms: u64) -> Self {
        self.delay_ms = delay_ms;
        self
    }

    /// The usage that it reports.
    #[must_use]
    pub fn usage(mut self, prompt: u64, completion: u64) -> Self {
        self.usage = Some(Tokens { prompt, completion });
        self
    }

    /// Every step, the short form first.
    pub fn steps(&self) -> Vec<Step> {
        let short = (!self.text.is_empty()).then(|| Step::Text(self.text.clone()));
        short.into_iter().chain(self.say.iter().cloned()).collect()
    }

    /// Why it stops.
    pub fn stop_reason(&self) -> StopReason {
        let calls = self.say.iter().any(|step| matches!(step, Step::Call(_)));
        self.stop.unwrap_or(if calls { StopReason::ToolCalls } else { StopReason::Stop })
    }

    /// The usage it reports for `request`.
    pub fn usage_for(&self, request: &ChatRequest) -> Usage {
        if let Some(Tokens { prompt, completion }) = self.usage {
            return Usage { prompt_tokens: prompt, completion_tokens: completion, calls: 1 };
        }
        let said: String = self
            .steps()
            .into_iter()
            .filter_map(|step| match step {
                Step::Text(text) | Step::Thinking(text) => Some(text),
                Step::Call(call) => Some(call.arguments_text()),
                Step::Wait(_) | Step::Error(_) | Step::Fault(_) => None,
            })
            .collect();
        crate::estimate::usage(&request.messages, &said)
    }

    fn fits(&self, model: &str, request: &ChatRequest) -> bool {
        self.when.as_ref().is_none_or(|when| when.fits(model, request))
    }

    fn times_max(&self) -> u32 {
        self.times.unwrap_or(u32::from(self.when.is_none()))
    }
}

impl When {
    fn fits(&self, model: &str, request: &ChatRequest) -> bool {
        let asks = |part: &Option<String>, found: &dyn Fn(&str) -> bool| part.as_deref().is_none_or(found);
        let said_by = |author: Author| request.messages.iter().filter(move |m| m.author == author);
        asks(&self.model, &|part| model.contains(part))
            && asks(&self.system, &|part| said_by(Author::System).any(|m| m.text.contains(part)))
            && asks(&self.user, &|part| {
                said_by(Author::User).next_back().is_some_and(|m| m.text.contains(part))
            })
            && asks(&self.tool, &|part| {
                request
                    .messages
                    .iter()
                    .rev()
                    .take_while(|m| m.author == Author::Tool)
                    .any(|m| m.text.contains(part))
            })
    }
}

/// A script being played: knows which replies are used up.
#[derive(Debug)]
pub struct Playback {
    script: Script,
    used: Vec<u32>,
}

impl Playback {
    /// From the start.
    pub fn new(script: Script) -> Self {
        let used = vec![0; script.replies.len()];
        Self { script, used }
    }

    /// The reply for a request.
    ///
    /// # Errors
    /// `Invalid` when no reply fits or all that fit are used up.
    pub fn next(&mut self, model: &str, request: &ChatRequest) -> Result<Reply> {
        for (reply, used) in self.script.replies.iter().zip(&mut self.used) {
            let left = reply.times_max() == 0 || *used < reply.times_max();
            if left && reply.fits(model, request) {
                *used = used.saturating_add(1);
                return Ok(reply.clone());
            }
        }
        let last = request.messages.last().map_or("", |m| m.text.as_str());
        let shown: String = last.chars().take(80).collect();
        Err(Error::invalid(format!("the script has no reply left for `{shown}`"))
            .help("add a reply, or give one of them `times: 0`"))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weft_core::seam::chat_model::ChatMessage;

    fn asked(user: &str) -> ChatRequest {
        ChatRequest { messages: vec![ChatMessage::new(Author::User, user)], ..ChatRequest::default() }
    }

    #[test]
    fn replies_are_taken_in_order_and_used_up() {
        let script = Script::new()
            .reply(Reply::text("weather").when_user("sun"))
            .reply(Reply::text("first"))
            .reply(Reply::text("second").times(2));
        let mut playback = Playback::new(script);
        let mut said = |user: &str| playback.next("m", &asked(user)).map(|reply| reply.text).ok();
        assert_eq!(said("a"), Some("first".to_owned()));
        assert_eq!(said("sun?"), Some("weather".to_owned()));
        assert_eq!(said("sun!"), Some("weather".to_owned()));
        assert_eq!(said("b"), Some("second".to_owned()));
        assert_eq!(said("c"), Some("second".to_owned()));
        assert_eq!(said("d"), None);
    }

    #[test]
    fn a_reply_can_ask_for_model_system_and_tool_result() {
        let mut request = asked("go");
        request.messages.insert(0, ChatMessage::new(Author::System, "You are terse."));
        request.messages.push(ChatMessage::new(Author::Tool, "sunny"));
        let check = |reply: Reply, fits: bool| assert_eq!(reply.fits("gpt-x", &request), fits, "{reply:?}");
        check(Reply::default().when_model("gpt").when_system("terse").when_tool("sun"), true);
        check(Reply::default().when_model("claude"), false);
        check(Reply::default().when_system("chatty"), false);
        check(Reply::default().when_tool("rain"), false);
    }

    #[test]
    fn json_and_toml_read_the_same() {
        let from_json = Script::parse(
            r#"{"replies": [{"when": {"user": "hi"}, "say": [{"thinking": "hm"}, {"text": "a"},
                {"call": {"name": "t", "arguments": {"x": 1}}}, {"error": {"kind": "rate_limited", "retry_after_ms": 5}}],
                "delay_ms": 3, "usage": {"prompt": 1, "completion": 2}}, {"text": "b", "times": 0}]}"#,
        )
        .unwrap();
        let from_toml = Script::parse(
            r#"
            [[replies]]
            when = { user = "hi" }
            say = [{ thinking = "hm" }, { text = "a" }, { call = { name = "t", arguments = { x = 1 } } },
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
            Step::Call(Call { id: None, name: "t".into(), arguments: json!({"x": 1}) })
        );
        let again = Script::parse(&serde_json::to_string(&from_json).unwrap()).unwrap();
        assert_eq!(again, from_json);
    }

    #[test]
    fn a_misspelt_script_is_refused_with_the_word() {
        let error = Script::parse(r#"{"replies": [{"txt": "a"}]}"#).unwrap_err();
        assert!(error.full().contains("txt"), "{}", error.full());
    }
}
