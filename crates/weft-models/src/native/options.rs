//! How an answer is to be generated, in genai's words.

use genai::chat::{ChatOptions, ChatResponseFormat, JsonSpec, ReasoningEffort, ToolChoice as Choice};
use serde_json::{Value as Json, json};
use weft_core::seam::chat_model::{ChatRequest, ToolChoice, ToolSchema};

use super::cache::Marks;
use super::frames::{Noticed, notice};
use super::searches;
use crate::factories::Provider;
use crate::offer::ToolOffer;
use crate::sampling::{SchemaMode, Settled};

/// Tokens that genai sets aside for reasoning on models of Anthropic with a budget; the answer's limit
/// must be above.
const REASONING_TOKENS: u32 = 8000;

pub(super) fn options(
    provider: Provider,
    request: &ChatRequest,
    settled: &Settled,
    offer: &ToolOffer<'_>,
    noticed: Noticed,
) -> ChatOptions {
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_raw_frame_fn(move |_, frame| notice(provider, &noticed, frame));
    options.temperature = settled.params.get("temperature").and_then(Json::as_f64);
    options.top_p = settled.params.get("top_p").and_then(Json::as_f64);
    // Canvases write 0 for no limit.
    options.max_tokens = request.sampling.max_tokens.filter(|max| *max > 0);
    options.reasoning_effort = match request.sampling.thinking {
        Some(true) => Some(effort(provider, options.max_tokens)),
        Some(false) => Some(ReasoningEffort::Zero),
        None => None,
    };
    // Anthropic shows no reasoning and keeps no seals without it; Gemini is asked for its thoughts with it.
    options.capture_reasoning_content = match provider {
        Provider::Anthropic => Some(true),
        Provider::Gemini => request.sampling.thinking.filter(|on| *on),
        _ => None,
    };
    options.response_format = request.schema.as_ref().and_then(|schema| match (settled.schema, provider) {
        (SchemaMode::Nothing, _) => None,
        // genai sends Ollama no schema, only that the answer is JSON.
        (SchemaMode::JsonOnly, _) | (SchemaMode::Schema, Provider::Ollama) => {
            Some(ChatResponseFormat::JsonMode)
        }
        (SchemaMode::Schema, _) => {
            Some(ChatResponseFormat::JsonSpec(JsonSpec::new("answer", schema.clone())))
        }
    });
    if !offer.tools.is_empty() {
        options.tool_choice = Some(choice(&offer.choice));
        options.extra_body = tools(provider, &offer.tools).map(|mut tools| {
            if provider == Provider::Anthropic {
                Marks::of(request, &offer.tools).mark_tools(request, &mut tools);
            }
            json!({"tools": tools})
        });
    }
    options
}

fn effort(provider: Provider, max_tokens: Option<u32>) -> ReasoningEffort {
    match provider {
        // Most models of Ollama take only yes or no; a budget is what genai makes a yes of.
        Provider::Ollama => ReasoningEffort::Budget(0),
        // With a limit below what is set aside for reasoning the request would be refused.
        _ if max_tokens.is_some_and(|max| max <= REASONING_TOKENS) => ReasoningEffort::Low,
        _ => ReasoningEffort::Medium,
    }
}

fn choice(choice: &ToolChoice) -> Choice {
    match choice {
        ToolChoice::Auto => Choice::Auto,
        ToolChoice::None => Choice::None,
        ToolChoice::Required => Choice::Required,
        ToolChoice::Named(name) => Choice::tool(name.clone()),
    }
}

/// The tools as the wire has them. They are not left to genai where it takes some names, `web_search`
/// among them, for tools of the provider.
fn tools(provider: Provider, tools: &[ToolSchema]) -> Option<Json> {
    let all = |one: fn(&ToolSchema) -> Json| tools.iter().map(one).collect::<Vec<Json>>();
    match provider {
        Provider::Anthropic => Some(searches::tools(tools)),
        Provider::Gemini => {
            let declarations = all(
                |tool| json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}),
            );
            Some(json!([{"functionDeclarations": declarations}]))
        }
        _ => None,
    }
}
