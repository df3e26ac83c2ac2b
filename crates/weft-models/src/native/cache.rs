//! Which part of a question Anthropic is asked to keep, so that the next question that begins in the same way costs
//! less. Others keep what they like without being asked.

use genai::chat::{CacheControl, ChatMessage as Said, ChatRole};
use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::{Author, ChatRequest, ToolSchema};

use crate::estimate;

/// Fewer tokens are kept by no model of Anthropic.
const TOKENS_MIN: u64 = 1_024;

/// What is marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// The end of the tools and instructions, which all questions of a node have in common.
    prefix: bool,
    /// The end of the conversation. To write it costs more than to read it, so it is marked only for who has tools, and asks
    /// again after they are called.
    conversation: bool,
}

impl Marks {
    /// The marks of a question to Anthropic.
    pub(super) fn of(request: &ChatRequest, tools: &[ToolSchema]) -> Self {
        let prefix = ChatRequest {
            messages: request.messages.iter().filter(|m| m.author == Author::System).cloned().collect(),
            tools: tools.iter().cloned().collect(),
            ..ChatRequest::default()
        };
        // A mark on less costs as much as it saves, and a request may hold four of them at most.
        let long = |request: &ChatRequest| estimate::usage(request, "").prompt_tokens >= TOKENS_MIN;
        let conversation = !tools.is_empty() && request.messages.len() > 1 && long(request);
        Self { prefix: long(&prefix), conversation }
    }

    /// Puts the marks of messages.
    pub(super) fn mark_messages(self, messages: &mut [Said]) {
        let mark = |message: &mut Said| {
            message.options.get_or_insert_default().cache_control = Some(CacheControl::Ephemeral);
        };
        if self.prefix
            && let Some(system) = messages.iter_mut().rev().find(|m| matches!(m.role, ChatRole::System))
        {
            mark(system);
        }
        if self.conversation
            && let Some(last) = messages.last_mut().filter(|m| !matches!(m.role, ChatRole::System))
        {
            mark(last);
        }
    }

    /// Puts the mark of tools, where no instructions come after them.
    pub(super) fn mark_tools(self, request: &ChatRequest, tools: &mut Json) {
        let instructed = request.messages.iter().any(|message| message.author == Author::System);
        if self.prefix
            && !instructed
            && let Some(last) =
                tools.as_array_mut().and_then(|tools| tools.iter_mut().rfind(|tool| in_prompt(tool)))
        {
            last["cache_control"] = json!({"type": "ephemeral"});
        }
    }
}

/// What is kept back until it is searched for is no part of the prompt, and may carry no mark.
fn in_prompt(tool: &Json) -> bool {
    tool.get("defer_loading").is_none()
}
