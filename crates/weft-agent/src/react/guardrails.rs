//! Checks of what goes into an agent, out of it, and to and from its tools.

use std::sync::Arc;

use weft_core::tool::ToolOutput;
use weft_core::{Error, ErrorKind, Json};

use super::hooks::Hooks;
use crate::message::{ContentBlock, Message, text_of};

/// What a guardrail says of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Pass,
    /// It does not pass, for this reason.
    Block(String),
    /// This passes in its place.
    Redact(String),
}

/// Where a guardrail stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardPoint {
    /// The message that is replied to. Blocked, the reply fails and nothing of it is remembered.
    Input,
    /// A call of a tool: its arguments as JSON. Blocked, the call is not made and the model is told why.
    ToolCall,
    /// What a tool gave. Blocked, the model is told why instead.
    ToolResult,
    /// The reply. Blocked, it fails. What was printed while it was written has been seen: print whole messages, or
    /// nothing, where that matters.
    Output,
}

type Check = dyn Fn(&str) -> Verdict + Send + Sync;

fn blocked(name: &str, reason: &str) -> Error {
    Error::new(ErrorKind::Filtered, format!("the guardrail `{name}` has blocked this: {reason}"))
}

/// The text as it passes; nothing when it passes as it is.
fn passed(name: &str, check: &Check, text: &str) -> weft_core::Result<Option<String>> {
    match check(text) {
        Verdict::Pass => Ok(None),
        Verdict::Redact(text) => Ok(Some(text)),
        Verdict::Block(reason) => Err(blocked(name, &reason)),
    }
}

/// The same for a message, of which the text is looked at.
fn passed_message(name: &str, check: &Check, mut message: Message) -> weft_core::Result<Option<Message>> {
    let text = passed(name, check, &text_of(&message.content))?;
    Ok(text.map(|text| {
        message.content = redacted(std::mem::take(&mut message.content), text);
        message
    }))
}

/// Content whose text is another one. What is no text stays.
fn redacted(content: Vec<ContentBlock>, text: String) -> Vec<ContentBlock> {
    // One text in place of all: where the blocks were cut is nothing that a check knows.
    let others = content.into_iter().filter(|block| !matches!(block, ContentBlock::Text { .. }));
    std::iter::once(ContentBlock::text(text)).chain(others).collect()
}

impl Hooks {
    /// Adds a guardrail as a hook at each of these points, under its name. It is removed there like any other hook.
    ///
    /// ```
    /// use weft_agent::react::{GuardPoint, Hooks, Verdict};
    ///
    /// let hooks = Hooks::new();
    /// hooks.guard("no cards", &[GuardPoint::Input, GuardPoint::Output], |text| match text.contains("4111") {
    ///     true => Verdict::Redact(text.replace("4111", "****")),
    ///     false => Verdict::Pass,
    /// });
    /// assert!(hooks.pre_reply.remove("no cards"));
    /// ```
    pub fn guard(
        &self,
        name: &str,
        points: &[GuardPoint],
        check: impl Fn(&str) -> Verdict + Send + Sync + 'static,
    ) {
        let check: Arc<Check> = Arc::new(check);
        for point in points {
            let (name, check) = (name.to_owned(), Arc::clone(&check));
            match point {
                GuardPoint::Input => self.pre_reply.add(name.clone(), move |_, message| {
                    let passed = passed_message(&name, &*check, message);
                    async { passed }
                }),
                GuardPoint::ToolCall => self.pre_acting.add(name.clone(), move |_, mut call| {
                    let written = Json::Object(call.input.clone()).to_string();
                    let passed = passed(&name, &*check, &written).and_then(|text| {
                        let Some(text) = text else { return Ok(None) };
                        call.input = serde_json::from_str(&text).map_err(|cause| {
                            blocked(&name, "what it left of the arguments is no JSON object").because(cause)
                        })?;
                        Ok(Some(call))
                    });
                    async { passed }
                }),
                GuardPoint::ToolResult => self.post_acting.add(name.clone(), move |_, mut response| {
                    let told = match check(&response.output.to_text()) {
                        Verdict::Pass => None,
                        Verdict::Redact(text) => {
                            let metadata = std::mem::take(&mut response.output.metadata);
                            let failed = response.output.failed;
                            // Its metadata stays: there the finish function notes that it has ended the
                            // reply.
                            Some(ToolOutput { metadata, failed, ..ToolOutput::text(text) })
                        }
                        Verdict::Block(reason) => {
                            let text = blocked(&name, &reason).full();
                            Some(ToolOutput { failed: true, ..ToolOutput::text(text) })
                        }
                    };
                    let passed = told.map(|output| {
                        response.output = output;
                        response
                    });
                    async { Ok(passed) }
                }),
                GuardPoint::Output => self.post_reply.add(name.clone(), move |_, message| {
                    let passed = passed_message(&name, &*check, message);
                    async { passed }
                }),
            }
        }
    }
}
