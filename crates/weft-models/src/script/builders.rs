//! Builders of replies.

use weft_core::seam::chat_model::StopReason;
use weft_core::{ErrorKind, Json};

use super::{CallPart, Failure, Reply, ScriptCall, ScriptSearch, ScriptTokens, Step};

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
        self.then(Step::Call(ScriptCall { id: None, name: name.into(), arguments }))
    }

    /// Adds a search for tools by the provider, and what it finds.
    #[must_use]
    pub fn tool_search<T: Into<String>>(
        self,
        query: impl Into<String>,
        found: impl IntoIterator<Item = T>,
    ) -> Self {
        let found = Some(found.into_iter().map(Into::into).collect());
        self.then(Step::ToolSearch(ScriptSearch {
            query: Some(query.into()),
            found,
            ..ScriptSearch::default()
        }))
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

    /// Restricts it to requests whose last user message contains `part`.
    #[must_use]
    pub fn when_user(mut self, part: impl Into<String>) -> Self {
        self.when.get_or_insert_default().user = Some(part.into());
        self
    }

    /// Restricts it to requests with a system message that contains `part`.
    #[must_use]
    pub fn when_system(mut self, part: impl Into<String>) -> Self {
        self.when.get_or_insert_default().system = Some(part.into());
        self
    }

    /// Restricts it to models whose name contains `part`.
    #[must_use]
    pub fn when_model(mut self, part: impl Into<String>) -> Self {
        self.when.get_or_insert_default().model = Some(part.into());
        self
    }

    /// Restricts it to requests that end with a tool result that contains `part`.
    #[must_use]
    pub fn when_tool(mut self, part: impl Into<String>) -> Self {
        self.when.get_or_insert_default().tool = Some(part.into());
        self
    }

    /// Applies to any number of requests.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(0)
    }

    /// Applies to this many requests; 0 for any number.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Sets the delay before every piece, in milliseconds.
    #[must_use]
    pub fn delay_ms(mut self, delay_ms: u64) -> Self {
        self.delay_ms = delay_ms;
        self
    }

    /// The usage that it reports.
    #[must_use]
    pub fn usage(mut self, prompt: u64, completion: u64) -> Self {
        self.usage = Some(ScriptTokens { prompt, completion, ..ScriptTokens::default() });
        self
    }

    /// The usage that it reports, with its parts.
    #[must_use]
    pub fn tokens(mut self, tokens: ScriptTokens) -> Self {
        self.usage = Some(tokens);
        self
    }

    /// A completely empty reply.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Adds a piece of the signature of the reasoning.
    #[must_use]
    pub fn signature(self, seal: impl Into<String>) -> Self {
        self.then(Step::Signature(seal.into()))
    }

    /// Adds a call with this text as its arguments, valid or not.
    #[must_use]
    pub fn and_call_text(self, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.and_call(name, Json::String(arguments.into()))
    }

    /// Adds interleaved calls: the beginning of each, then `characters` of the arguments of each at a time, until all
    /// are complete. Only the OpenAI wire format supports this; in others the calls follow one another.
    #[must_use]
    pub fn and_calls_in_turns<N: Into<String>>(
        mut self,
        calls: impl IntoIterator<Item = (N, Json)>,
        characters: usize,
    ) -> Self {
        let mut rests = Vec::new();
        for (index, (name, arguments)) in calls.into_iter().enumerate() {
            let call = ScriptCall { id: None, name: name.into(), arguments };
            rests.push(call.arguments_text().chars().collect::<Vec<_>>());
            let begun = CallPart { index, id: None, name: Some(call.name), arguments: String::new() };
            self.say.push(Step::CallPart(begun));
        }
        let mut at = 0;
        while rests.iter().any(|rest| at < rest.len()) {
            for (index, rest) in rests.iter().enumerate() {
                let piece: String = rest.iter().skip(at).take(characters.max(1)).collect();
                if !piece.is_empty() {
                    self.say.push(Step::CallPart(CallPart { index, id: None, name: None, arguments: piece }));
                }
            }
            // With 0 there would be no progress.
            at += characters.max(1);
        }
        self
    }

    /// Sets the stop reason.
    #[must_use]
    pub fn stop(mut self, reason: StopReason) -> Self {
        self.stop = Some(reason);
        self
    }

    /// Sends no usage, as some providers do; it is then estimated.
    #[must_use]
    pub fn unmetered(mut self) -> Self {
        self.unmetered = true;
        self
    }
}
