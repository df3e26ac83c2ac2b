//! Answers in the format of OpenAI's chat completions. The id is that of the session, the same in every frame, so
//! that a client can continue the conversation.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use weft_core::seam::chat_model::Usage;
use weft_core::{CanvasId, Ending, Entry, Json, Record, SessionId};

use super::asks::FormQuestions;
use super::write_json;
use crate::answer::Answer;
use crate::chat_frames::Quoting;

/// State shared by all frames of a completion.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The session id.
    pub session: SessionId,
    /// The canvas, which clients know as the model.
    pub canvas: CanvasId,
    /// Start of the run, in milliseconds since 1970.
    pub started_ms: i64,
    /// The version of the canvas; empty until it is known.
    pub version: Arc<str>,
    /// The style of the frames.
    pub style: CompletionStyle,
}

/// What a completion belongs to: the clients of agents and of assistants expect different frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionStyle {
    /// An agent: the id is that of the session, with which a client continues, and sources come with the end of a
    /// message.
    Agent,
    /// A chat assistant: the id is built from the assistant's, and sources come with the end if they are requested.
    Chat(Quoting),
}

/// Token counts in OpenAI's format. Clients get the same fields from a stream as from a single object, those that are
/// zero included.
#[derive(Clone, Copy, Debug, Serialize)]
struct OpenAiUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: OpenAiPromptTokens,
    completion_tokens_details: OpenAiCompletionTokens,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct OpenAiPromptTokens {
    cached_tokens: u64,
    cache_write_tokens: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct OpenAiCompletionTokens {
    reasoning_tokens: u64,
    accepted_prediction_tokens: u64,
    rejected_prediction_tokens: u64,
}

impl From<Usage> for OpenAiUsage {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            total_tokens: usage.total_tokens(),
            prompt_tokens_details: OpenAiPromptTokens {
                cached_tokens: usage.cache_read_tokens,
                cache_write_tokens: usage.cache_write_tokens,
            },
            completion_tokens_details: OpenAiCompletionTokens {
                reasoning_tokens: usage.reasoning_tokens,
                // No provider is asked to predict.
                accepted_prediction_tokens: 0,
                rejected_prediction_tokens: 0,
            },
        }
    }
}

#[derive(Serialize)]
struct Frame<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    model: &'a str,
    system_fingerprint: &'a str,
    usage: Option<OpenAiUsage>,
    choices: [CompletionChoice<'a>; 1],
    /// Data for which OpenAI's format has no field.
    #[serde(skip_serializing_if = "Option::is_none")]
    weft: Option<Json>,
}

#[derive(Serialize)]
struct CompletionChoice<'a> {
    index: u8,
    finish_reason: Option<&'static str>,
    logprobs: (),
    delta: Delta<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Delta<'a> {
    Said {
        role: &'static str,
        content: &'a str,
        function_call: (),
        tool_calls: (),
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reference: Option<Json>,
    },
    Chat {
        role: &'static str,
        content: Option<&'a str>,
        reasoning_content: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reference: Option<Json>,
        #[serde(skip_serializing_if = "Option::is_none")]
        final_content: Option<String>,
    },
    Nothing {},
}

fn said<'a>(content: &'a str, reasoning_content: Option<&'a str>, reference: Option<Json>) -> Delta<'a> {
    Delta::Said {
        role: "assistant",
        content,
        function_call: (),
        tool_calls: (),
        reasoning_content,
        reference,
    }
}

impl Completion {
    fn id(&self) -> Cow<'_, str> {
        match self.style {
            CompletionStyle::Agent => Cow::Borrowed(self.session.as_str()),
            CompletionStyle::Chat(_) => Cow::Owned(format!("chatcmpl-{}", self.canvas)),
        }
    }

    /// A piece of the answer, or of the reasoning before it.
    fn piece<'a>(&self, content: Option<&'a str>, reasoning: Option<&'a str>) -> Delta<'a> {
        match self.style {
            CompletionStyle::Agent => said(content.unwrap_or_default(), reasoning, None),
            CompletionStyle::Chat(_) => Delta::Chat {
                role: "assistant",
                content,
                reasoning_content: reasoning,
                reference: None,
                final_content: None,
            },
        }
    }

    /// Returns the sources for the end of a chat assistant's answer.
    pub fn told_sources(&self, answer: &Answer) -> Option<Json> {
        let asked = self.style == CompletionStyle::Chat(Quoting::Sources);
        asked.then(|| answer.sources.iter().map(|source| serde_json::json!(source.chunk)).collect())
    }

    /// The fingerprint that changes when a different version of an agent answers.
    fn fingerprint(&self) -> &str {
        match self.style {
            CompletionStyle::Agent => &self.version,
            CompletionStyle::Chat(_) => "",
        }
    }

    fn created(&self) -> i64 {
        self.started_ms.div_euclid(1000)
    }

    fn write(
        &self,
        choice: CompletionChoice<'_>,
        usage: Option<OpenAiUsage>,
        weft: Option<Json>,
        out: &mut Vec<u8>,
    ) {
        let frame = Frame {
            id: &self.id(),
            object: "chat.completion.chunk",
            created: self.created(),
            model: self.canvas.as_str(),
            system_fingerprint: self.fingerprint(),
            usage,
            choices: [choice],
            weft,
        };
        write_json(&frame, out);
    }

    /// Appends the frame of an entry, given the answer before it. Returns whether there is one.
    pub fn write_frame(&self, entry: &Entry, so_far: &Answer, out: &mut Vec<u8>) -> bool {
        let delta = match &entry.record {
            Record::Said { activation, text, .. } if so_far.is_thinking(*activation) => {
                self.piece(None, Some(text))
            }
            Record::Said { text, .. } => self.piece(Some(text), None),
            Record::MessageEnded { end, .. } if self.style == CompletionStyle::Agent => {
                let cited = (!end.cited.is_empty()).then(|| weft_core::citation::reference(&end.cited));
                said("", None, cited)
            }
            _ => return false,
        };
        self.write(CompletionChoice { index: 0, finish_reason: None, logprobs: (), delta }, None, None, out);
        true
    }

    /// Returns a frame with a text that is in no entry.
    pub fn write_text(&self, content: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let delta = self.piece(Some(content), None);
        self.write(
            CompletionChoice { index: 0, finish_reason: None, logprobs: (), delta },
            None,
            None,
            &mut out,
        );
        out
    }

    /// Returns the frames that end a stream: the reason of a failure or the open questions as content, and one with
    /// the usage.
    pub fn write_end(&self, answer: &Answer) -> Vec<Vec<u8>> {
        self.write_end_with(answer, self.told_sources(answer))
    }

    /// The same with these sources, if any.
    pub fn write_end_with(&self, answer: &Answer, sources: Option<Json>) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        // The stream has started with a success status, so a failure can only be reported as text.
        if let Some(reason) = answer.failure() {
            frames.push(self.write_text(&format!("**ERROR**: {reason}")));
        }
        let asks = self.asks(answer);
        if let Some(asks) = &asks {
            frames.push(self.write_text(&asks.after(&answer.text())));
        }
        let mut out = Vec::new();
        let delta = match sources {
            None => Delta::Nothing {},
            sources => Delta::Chat {
                role: "assistant",
                content: None,
                reasoning_content: None,
                reference: sources,
                final_content: Some(answer.text()),
            },
        };
        // Frameworks expect a frame with the finish reason and the usage, and the openai client accepts it, too.
        let last =
            CompletionChoice { index: 0, finish_reason: Some(finish_reason(answer)), logprobs: (), delta };
        self.write(last, Some(usage(answer)), asks.map(|asks| asks.data), &mut out);
        frames.push(out);
        frames
    }

    /// The answer as a single object.
    pub fn whole(&self, answer: &Answer) -> Json {
        let content = match answer.failure() {
            // The compatible API reports failures in this form.
            Some(reason) => format!("**ERROR**: {reason}"),
            None => answer.text(),
        };
        let asks = self.asks(answer);
        let content = match &asks {
            Some(asks) => content.clone() + &asks.after(&content),
            None => content,
        };
        let mut message = serde_json::json!({"role": "assistant", "content": content});
        match (self.style, self.told_sources(answer)) {
            (CompletionStyle::Agent, _) if !answer.cited.is_empty() => {
                message["reference"] = answer.reference();
            }
            (_, Some(sources)) => message["reference"] = sources,
            (_, None) => {}
        }
        let mut whole = serde_json::json!({
            "id": self.id(),
            "object": "chat.completion",
            "created": self.created(),
            "model": self.canvas,
            "system_fingerprint": self.fingerprint(),
            "param": null,
            "usage": usage(answer),
            "choices": [{"index": 0, "logprobs": null, "finish_reason": finish_reason(answer), "message": message}],
        });
        if let Some(asks) = asks {
            whole["weft"] = asks.data;
        }
        whole
    }

    fn asks(&self, answer: &Answer) -> Option<FormQuestions> {
        let waits = answer.end.as_ref().is_some_and(|end| end.ending == Ending::Waiting);
        waits.then(|| FormQuestions::of(&self.session, &answer.forms))
    }
}

/// Returns the finish reason: `length` for an answer that a limit has cut short, as clients expect.
fn finish_reason(answer: &Answer) -> &'static str {
    if answer.limited().is_some() { "length" } else { "stop" }
}

fn usage(answer: &Answer) -> OpenAiUsage {
    answer.end.as_ref().map(|end| end.usage).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use weft_core::component::MessageEnd;

    use super::*;

    fn completion() -> Completion {
        Completion {
            version: Arc::from(""),
            session: "s1".into(),
            canvas: "c1".into(),
            started_ms: 1_767_000_000_999,
            style: CompletionStyle::Agent,
        }
    }

    fn entry(record: Record) -> Arc<Entry> {
        Arc::new(Entry { seq: 1, event: Some(1), at_ms: 0, record })
    }

    fn frame(delta: &str, finish_reason: &str, usage: &str) -> String {
        format!(
            r#"{{"id":"s1","object":"chat.completion.chunk","created":1767000000,"model":"c1","system_fingerprint":"","usage":{usage},"choices":[{{"index":0,"finish_reason":{finish_reason},"logprobs":null,"delta":{delta}}}]}}"#
        )
    }

    fn end(ending: Ending) -> Record {
        let usage = Usage {
            prompt_tokens: 3,
            completion_tokens: 5,
            calls: 1,
            reasoning_tokens: 2,
            ..Usage::default()
        };
        let error = (ending == Ending::Failed).then(|| "it broke".into());
        Record::RunFinished {
            ending,
            outputs: Arc::default(),
            error,
            usage,
            limited: Vec::new(),
            uses: Vec::new(),
            spent: Default::default(),
            elapsed: 0.0,
        }
    }

    fn texts(frames: Vec<Vec<u8>>) -> Vec<String> {
        frames.into_iter().map(|frame| String::from_utf8(frame).unwrap()).collect()
    }

    const USAGE: &str = r#"{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"completion_tokens_details":{"reasoning_tokens":2,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}"#;

    #[test]
    fn text_reasoning_and_the_end_become_chunks() {
        let mut answer = Answer::default();
        let mut check = |record: Record, delta: Option<&str>| {
            let entry = entry(record);
            let mut out = Vec::new();
            let written = completion().write_frame(&entry, &answer, &mut out);
            assert_eq!(written, delta.is_some());
            let expected = delta.map(|delta| frame(delta, "null", "null")).unwrap_or_default();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
            answer.learn(&entry);
        };
        let said = |text: &str| Record::Said { activation: 1, node: "M".into(), text: text.into() };
        check(
            said("Hel"),
            Some(r#"{"role":"assistant","content":"Hel","function_call":null,"tool_calls":null}"#),
        );
        check(Record::ThinkingStarted { activation: 1, node: "M".into() }, None);
        check(
            said("hm"),
            Some(
                r#"{"role":"assistant","content":"","function_call":null,"tool_calls":null,"reasoning_content":"hm"}"#,
            ),
        );
        check(
            Record::MessageEnded { activation: 1, node: "M".into(), end: MessageEnd::default() },
            Some(r#"{"role":"assistant","content":"","function_call":null,"tool_calls":null}"#),
        );
        check(end(Ending::Succeeded), None);
        assert_eq!(texts(completion().write_end(&answer)), [frame("{}", "\"stop\"", USAGE)]);
    }

    #[test]
    fn a_failure_is_sent_as_content() {
        let mut answer = Answer::default();
        answer.learn(&entry(end(Ending::Failed)));
        let told =
            r#"{"role":"assistant","content":"**ERROR**: it broke","function_call":null,"tool_calls":null}"#;
        let expected = [frame(told, "null", "null"), frame("{}", "\"stop\"", USAGE)];
        assert_eq!(texts(completion().write_end(&answer)), expected);
        let whole = completion().whole(&answer);
        assert_eq!(whole["choices"][0]["message"]["content"], "**ERROR**: it broke");
        assert_eq!(whole["usage"], serde_json::from_str::<Json>(USAGE).unwrap(), "as in a stream");
        assert!(whole["choices"][0]["message"].get("reference").is_none());
    }
}
