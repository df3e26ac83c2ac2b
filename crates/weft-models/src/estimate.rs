//! Estimates the number of tokens in a text, for providers that do not report it.

use weft_core::seam::chat_model::{ChatMessage, ChatRequest, ToolSchema, Usage};

/// The overhead of every message: the author and the delimiters.
const TOKENS_PER_MESSAGE: u64 = 4;
/// The approximate cost of an image, regardless of its size.
const TOKENS_PER_IMAGE: u64 = 800;
/// Average number of letters of an alphabet per token.
const LETTERS_PER_TOKEN: u64 = 4;

/// The approximate number of tokens in `text`: four letters of an alphabet, one ideograph or one symbol make a token.
/// Within a quarter of the common vocabularies for prose in English and Chinese.
pub fn tokens(text: &str) -> u64 {
    let mut tokens = 0;
    let mut letters = 0;
    for c in text.chars() {
        if c.is_alphanumeric() && !is_ideograph(c) {
            letters += 1;
            continue;
        }
        tokens += word(letters);
        letters = 0;
        if !c.is_whitespace() {
            tokens += 1;
        }
    }
    tokens + word(letters)
}

/// The usage of a call whose provider does not report it: everything sent with the question, and the whole answer
/// with its reasoning and the arguments of its calls.
pub fn usage(request: &ChatRequest, answer: &str) -> Usage {
    let messages: u64 = request.messages.iter().map(message).sum();
    // The model does not read deferred tools until it has searched for them.
    let tools: u64 = request.tools.iter().filter(|tool| !tool.deferred).map(tool).sum();
    let schema = request.schema.as_ref().map_or(0, |schema| tokens(&schema.to_string()));
    let (prompt_tokens, completion_tokens) = (messages + tools + schema, tokens(answer));
    Usage { prompt_tokens, completion_tokens, calls: 1, ..Usage::default() }
}

/// Maximum number of tokens of one call: it keeps sums of reported numbers from overflowing.
const TOKENS_MAX: u64 = 1 << 40;

/// Token counts as far as a provider has sent them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentUsage {
    /// Of the request, including cached tokens.
    pub(crate) prompt: Option<u64>,
    /// Of the answer, including reasoning.
    pub(crate) completion: Option<u64>,
    pub(crate) cache_read: Option<u64>,
    pub(crate) cache_write: Option<u64>,
    pub(crate) reasoning: Option<u64>,
}

/// The usage sent by a provider, completed by an estimate where the count of the request or the answer is missing or
/// zero: budgets depend on it.
pub(crate) fn completed(sent: SentUsage, request: &ChatRequest, answer: &str) -> Usage {
    // No request is empty.
    let prompt = sent.prompt.filter(|tokens| *tokens > 0);
    // Some servers send zeros for unknown values; only an empty answer has no tokens.
    let completion = sent.completion.filter(|tokens| *tokens > 0 || answer.is_empty());
    let (prompt, completion) = match (prompt, completion) {
        (Some(prompt), Some(completion)) => (prompt, completion),
        _ => {
            let guessed = usage(request, answer);
            (prompt.unwrap_or(guessed.prompt_tokens), completion.unwrap_or(guessed.completion_tokens))
        }
    };
    let (prompt, completion) = (prompt.min(TOKENS_MAX), completion.min(TOKENS_MAX));
    // A part never exceeds the whole.
    let cache_read = sent.cache_read.unwrap_or(0).min(prompt);
    Usage {
        prompt_tokens: prompt,
        completion_tokens: completion,
        calls: 1,
        cache_read_tokens: cache_read,
        cache_write_tokens: sent.cache_write.unwrap_or(0).min(prompt - cache_read),
        reasoning_tokens: sent.reasoning.unwrap_or(0).min(completion),
    }
}

fn message(message: &ChatMessage) -> u64 {
    let calls: u64 = message.tool_calls.iter().map(|call| tokens(&call.name) + tokens(&call.arguments)).sum();
    // Providers require it only together with calls, so it is sent only then.
    let thinking = message.thinking.as_deref().filter(|_| !message.tool_calls.is_empty()).map_or(0, tokens);
    let images = TOKENS_PER_IMAGE.saturating_mul(u64::try_from(message.images.len()).unwrap_or(u64::MAX));
    TOKENS_PER_MESSAGE + tokens(&message.text) + calls + thinking + images
}

fn tool(tool: &ToolSchema) -> u64 {
    TOKENS_PER_MESSAGE + tokens(&tool.name) + tokens(&tool.description) + tokens(&tool.parameters.to_string())
}

fn word(letters: u64) -> u64 {
    letters.div_ceil(LETTERS_PER_TOKEN)
}

/// Whether a character is a word by itself, or nearly: Han, kana, hangul.
pub(crate) fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c), 0x2e80..=0x2fdf | 0x3005..=0x3007 | 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff
        | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weft_core::seam::chat_model::{Author, ToolCall};

    #[test]
    fn words_ideographs_and_symbols_count() {
        let check = |text: &str, expected: u64| assert_eq!(tokens(text), expected, "{text}");
        check("", 0);
        check("the cat sat.", 4);
        check("internationalisation", 5);
        check("今天天气不错。", 7);
        check("北京 is a city", 5);
    }

    #[test]
    fn everything_that_is_sent_counts() {
        let plain = || ChatRequest {
            messages: vec![ChatMessage::new(Author::Assistant, "one two")],
            ..ChatRequest::default()
        };
        let check = |change: fn(&mut ChatRequest), more: u64| {
            let mut request = plain();
            change(&mut request);
            assert_eq!(usage(&request, "").prompt_tokens, 6 + more, "{request:?}");
        };
        check(|_| {}, 0);
        check(|r| r.messages[0].images = vec!["data:x".into()], TOKENS_PER_IMAGE);
        check(|r| r.messages[0].thinking = Some("never sent back".into()), 0);
        check(|r| r.schema = Some(json!({"a": 1})), 7);
        check(
            |r| {
                r.messages[0].thinking = Some("hm".into());
                r.messages[0].tool_calls =
                    vec![ToolCall { id: "c".into(), name: "look".into(), arguments: "{}".into() }];
            },
            4,
        );
        check(
            |r| {
                let (name, description) = ("look".into(), "all around".into());
                r.tools = [ToolSchema { name, description, parameters: json!({}), deferred: false }].into();
            },
            10,
        );
        check(
            |r| {
                let (name, description) = ("look".into(), "all around".into());
                r.tools = [ToolSchema { name, description, parameters: json!({}), deferred: true }].into();
            },
            0,
        );
    }

    #[test]
    fn missing_usage_is_estimated() {
        let request = ChatRequest {
            messages: vec![ChatMessage::new(Author::User, "one two")],
            ..ChatRequest::default()
        };
        let check = |sent: (Option<u64>, Option<u64>), expected: (u64, u64)| {
            let sent = SentUsage { prompt: sent.0, completion: sent.1, ..SentUsage::default() };
            let usage = completed(sent, &request, "three");
            assert_eq!(
                (usage.prompt_tokens, usage.completion_tokens, usage.calls),
                (expected.0, expected.1, 1)
            );
        };
        check((Some(9), Some(8)), (9, 8));
        check((Some(9), None), (9, 2));
        check((None, Some(8)), (6, 8));
        check((Some(0), Some(0)), (6, 2));
        let nothing = SentUsage { prompt: Some(9), completion: Some(0), ..SentUsage::default() };
        assert_eq!(completed(nothing, &request, "").completion_tokens, 0);
        let most = Some(u64::MAX);
        let absurd = SentUsage {
            prompt: most,
            completion: Some(5),
            cache_read: most,
            cache_write: most,
            reasoning: most,
        };
        let usage = completed(absurd, &request, "");
        assert_eq!((usage.prompt_tokens, usage.cache_read_tokens), (TOKENS_MAX, TOKENS_MAX));
        assert_eq!((usage.cache_write_tokens, usage.reasoning_tokens), (0, 5));
    }
}
