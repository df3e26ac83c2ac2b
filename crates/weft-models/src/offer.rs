//! Determines the tools of a request for a wire format, and how the model may use them. In one place, because each
//! provider has different restrictions.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::json;
use weft_core::seam::chat_model::{ChatRequest, ModelInfo, ToolChoice, ToolSchema};

use crate::factories::Provider;

/// What is sent.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ToolOffer<'a> {
    /// The tools; if there are none, neither they nor the choice are sent.
    pub tools: Cow<'a, [ToolSchema]>,
    pub choice: ToolChoice,
    /// What the provider does not support.
    pub warnings: Vec<String>,
}

/// Determines the tools of `request` for a model with a wire format.
pub(crate) fn offer<'a>(wire: Provider, info: &ModelInfo, request: &'a ChatRequest) -> ToolOffer<'a> {
    let called = request.messages.iter().any(|message| !message.tool_calls.is_empty());
    if !info.tools {
        let refused = || format!("`{}` is configured without tools; they were not sent", info.name);
        let warnings = if request.tools.is_empty() { Vec::new() } else { vec![refused()] };
        return ToolOffer { warnings, ..ToolOffer::default() };
    }
    if request.tools.is_empty() || request.tool_choice == ToolChoice::None {
        // Anthropic rejects a conversation with calls that does not define tools.
        let tools = match (wire, called) {
            (Provider::Anthropic, true) if request.tools.is_empty() => Cow::Owned(stand_ins(request)),
            (Provider::Anthropic, true) => sent(info, request),
            _ => Cow::default(),
        };
        return ToolOffer { tools, choice: ToolChoice::None, warnings: Vec::new() };
    }
    let whole =
        ToolOffer { tools: sent(info, request), choice: request.tool_choice.clone(), warnings: Vec::new() };
    if request.tool_choice == ToolChoice::Auto {
        return whole;
    }
    let free = |why: &str| {
        vec![format!("`{}` cannot be forced to call a tool {why}; the choice was left to it", info.name)]
    };
    match wire {
        Provider::Ollama => {
            // It cannot force a call: the closest option is to offer only that tool.
            let named = |tool: &&ToolSchema| match &request.tool_choice {
                ToolChoice::Named(name) => tool.name == *name,
                _ => true,
            };
            let tools = whole.tools.iter().filter(named).cloned().collect();
            ToolOffer {
                tools: Cow::Owned(tools),
                choice: ToolChoice::Auto,
                warnings: free("by its provider"),
            }
        }
        // Both Anthropic and the compatible providers with a switch for reasoning reject this combination.
        Provider::Anthropic | Provider::OpenAi if request.sampling.thinking == Some(true) => {
            ToolOffer { choice: ToolChoice::Auto, warnings: free("while it reasons"), ..whole }
        }
        _ => whole,
    }
}

/// The tools of a request as they are sent: deferred only where that is possible, and with complete schemas.
fn sent<'a>(info: &ModelInfo, request: &'a ChatRequest) -> Cow<'a, [ToolSchema]> {
    let searches = request.tools.iter().filter(|tool| tool.deferred).count() <= info.deferred_tools_max;
    // A model cannot be forced to call a tool that is withheld from it.
    let named = |tool: &ToolSchema| request.tool_choice == ToolChoice::Named(tool.name.clone());
    let must_show = |tool: &ToolSchema| tool.deferred && (!searches || named(tool));
    let mut tools = with_whole_schemas(&request.tools);
    if tools.iter().any(must_show) {
        for tool in tools.to_mut() {
            tool.deferred &= !must_show(tool);
        }
    }
    tools
}

/// Completes schemas: providers reject a tool whose schema does not state that it is an object, and its members, even
/// if there are none.
fn with_whole_schemas(tools: &[ToolSchema]) -> Cow<'_, [ToolSchema]> {
    const PARTS: [&str; 2] = ["type", "properties"];
    let is_whole = |tool: &ToolSchema| PARTS.iter().all(|part| tool.parameters.get(part).is_some());
    if tools.iter().all(is_whole) {
        return Cow::Borrowed(tools);
    }
    let mut tools = tools.to_vec();
    for tool in &mut tools {
        if !tool.parameters.is_object() {
            tool.parameters = json!({});
        }
        for (part, value) in PARTS.into_iter().zip([json!("object"), json!({})]) {
            if tool.parameters.get(part).is_none() {
                tool.parameters[part] = value;
            }
        }
    }
    Cow::Owned(tools)
}

/// Placeholder tools with the names that were called, for a request without tools.
fn stand_ins(request: &ChatRequest) -> Vec<ToolSchema> {
    let calls = request.messages.iter().flat_map(|message| &message.tool_calls);
    let names: BTreeSet<&str> = calls.map(|call| call.name.as_str()).collect();
    let stand_in = |name: &str| ToolSchema {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": {}}),
        deferred: false,
    };
    names.into_iter().map(stand_in).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::seam::chat_model::{Author, ChatMessage, ModelKind, ToolCall};

    const EVERY: [Provider; 4] = [Provider::OpenAi, Provider::Anthropic, Provider::Gemini, Provider::Ollama];

    fn info() -> ModelInfo {
        ModelInfo {
            name: "m".into(),
            provider: "p".into(),
            model: "m".into(),
            window: 1000,
            tools: true,
            deferred_tools_max: 0,
            kind: ModelKind::Chat,
            prices: None,
        }
    }

    fn request(tools: &[&str], choice: ToolChoice) -> ChatRequest {
        let tool = |name: &&str| ToolSchema {
            name: (*name).into(),
            description: "d".into(),
            parameters: json!({"type": "object"}),
            deferred: false,
        };
        ChatRequest {
            messages: vec![ChatMessage::new(Author::Assistant, "")],
            tools: tools.iter().map(tool).collect(),
            tool_choice: choice,
            ..ChatRequest::default()
        }
    }

    fn after_a_call(mut request: ChatRequest) -> ChatRequest {
        let call = ToolCall { id: "c".into(), name: "old".into(), arguments: "{}".into() };
        request.messages[0].tool_calls.push(call);
        request
    }

    #[test]
    fn tools_are_sent_only_to_models_that_take_them() {
        let check =
            |wire: Provider, request: &ChatRequest, names: &[&str], choice: ToolChoice, warned: bool| {
                let offer = offer(wire, &info(), request);
                let offered: Vec<&str> = offer.tools.iter().map(|tool| tool.name.as_str()).collect();
                assert_eq!((offered.as_slice(), &offer.choice), (names, &choice), "{wire:?}");
                assert_eq!(offer.warnings.len(), usize::from(warned), "{wire:?}: {:?}", offer.warnings);
            };
        let named = || ToolChoice::Named("b".into());
        for wire in EVERY {
            let ollama = wire == Provider::Ollama;
            let anthropic = wire == Provider::Anthropic;
            check(wire, &request(&["a", "b"], ToolChoice::Auto), &["a", "b"], ToolChoice::Auto, false);
            check(wire, &request(&[], ToolChoice::Auto), &[], ToolChoice::None, false);
            check(wire, &request(&["a"], ToolChoice::None), &[], ToolChoice::None, false);
            let closing: &[&str] = if anthropic { &["a"] } else { &[] };
            check(wire, &after_a_call(request(&["a"], ToolChoice::None)), closing, ToolChoice::None, false);
            let stand_in: &[&str] = if anthropic { &["old"] } else { &[] };
            check(wire, &after_a_call(request(&[], ToolChoice::Auto)), stand_in, ToolChoice::None, false);
            let (only, choice): (&[&str], _) =
                if ollama { (&["b"], ToolChoice::Auto) } else { (&["a", "b"], named()) };
            check(wire, &request(&["a", "b"], named()), only, choice, ollama);
            let mut reasoning = request(&["a"], ToolChoice::Required);
            reasoning.sampling.thinking = Some(true);
            let choice = if wire == Provider::Gemini { ToolChoice::Required } else { ToolChoice::Auto };
            check(wire, &reasoning, &["a"], choice, wire != Provider::Gemini);
        }
    }

    #[test]
    fn a_schema_is_at_least_an_object_type() {
        let check = |parameters: serde_json::Value, expected: serde_json::Value| {
            let mut request = request(&["a"], ToolChoice::Auto);
            let tool =
                ToolSchema { name: "a".into(), description: String::new(), parameters, deferred: false };
            request.tools = [tool].into();
            assert_eq!(offer(Provider::OpenAi, &info(), &request).tools[0].parameters, expected);
        };
        check(json!({}), json!({"type": "object", "properties": {}}));
        check(json!(null), json!({"type": "object", "properties": {}}));
        check(json!({"type": "object"}), json!({"type": "object", "properties": {}}));
        let whole = json!({"properties": {"x": {"type": "integer"}}, "type": "object", "required": ["x"]});
        check(whole.clone(), whole);
    }

    #[test]
    fn a_model_without_tools_gets_none_with_a_notice() {
        for wire in EVERY {
            let request = after_a_call(request(&["a"], ToolChoice::Required));
            let offer = offer(wire, &ModelInfo { tools: false, ..info() }, &request);
            assert!(offer.tools.is_empty(), "{wire:?}");
            assert_eq!(offer.warnings, ["`m` is configured without tools; they were not sent"]);
        }
    }
}
