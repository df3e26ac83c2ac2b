//! Checks of an agent's input and output, and of its tool calls and their results.

use std::sync::Arc;

use weft_core::tool::ToolOutput;
use weft_core::{Error, ErrorKind, Json};

use super::hooks::Hooks;
use crate::message::{ContentBlock, Message, text_of};

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The text is accepted.
    Pass,
    /// The text is rejected, for this reason.
    Block(String),
    /// This text is used instead.
    Redact(String),
}

/// Where a guardrail is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardPoint {
    /// The message that is replied to. If it is blocked, the reply fails and nothing of it is remembered.
    Input,
    /// A tool call: its arguments as JSON. If they are blocked, the call is not made and the model is told why.
    ToolCall,
    /// The result of a tool. If it is blocked, the model is told why instead.
    ToolResult,
    /// The reply. If it is blocked, it fails. Anything printed while it was written has been seen: where that
    /// matters, print whole messages or nothing.
    Output,
}

type Check = dyn Fn(&str) -> Verdict + Send + Sync;

fn blocked(name: &str, reason: &str) -> Error {
    Error::new(ErrorKind::Filtered, format!("the guardrail `{name}` has blocked this: {reason}"))
}

/// Checks a text. Returns the replacement; `None` when the text is accepted unchanged.
fn passed(name: &str, check: &Check, text: &str) -> weft_core::Result<Option<String>> {
    match check(text) {
        Verdict::Pass => Ok(None),
        Verdict::Redact(text) => Ok(Some(text)),
        Verdict::Block(reason) => Err(blocked(name, &reason)),
    }
}

/// Same as [`passed`], for the text of a message.
fn passed_message(name: &str, check: &Check, mut message: Message) -> weft_core::Result<Option<Message>> {
    let text = passed(name, check, &text_of(&message.content))?;
    Ok(text.map(|text| {
        message.content = redacted(std::mem::take(&mut message.content), text);
        message
    }))
}

/// Content with its text replaced. Blocks other than text stay.
fn redacted(content: Vec<ContentBlock>, text: String) -> Vec<ContentBlock> {
    // One text replaces all text blocks: a check does not know where they were split.
    let others = content.into_iter().filter(|block| !matches!(block, ContentBlock::Text { .. }));
    std::iter::once(ContentBlock::text(text)).chain(others).collect()
}

impl Hooks {
    /// Adds a guardrail as a hook at each of these points, under its name. It can be removed there like any other
    /// hook.
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
                            blocked(&name, "the arguments are not a JSON object after its changes")
                                .because(cause)
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
                            // Its metadata stays: it records that the finish function has ended the reply.
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
