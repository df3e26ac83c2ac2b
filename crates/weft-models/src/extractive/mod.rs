//! An answerer that needs neither network nor weights: it quotes the sentences of the given material that best match
//! the question, with their citation marks. It is not a language model and says so when it is asked for more.
//!
//! Material consists of blocks in the prompt:
//!
//! ```text
//! ID: 3
//! Title: Leave policy
//! URL: https://example.org/leave
//! Everyone has 25 days a year. …
//! ------
//! ID: 4
//! …
//! ```

mod classify;
mod material;
mod terms;

use futures::{StreamExt as _, stream};
use weft_core::seam::chat_model::{
    Author, ChatDelta, ChatModel, ChatRequest, ChatStream, ModelInfo, ModelKind, StopReason,
};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::estimate;
use material::{Sentence, last_paragraph, read, sentences};
use terms::{DistinctTerms, has_ideographs, weigh};

/// Maximum number of quoted sentences.
const QUOTES_MAX: usize = 4;
/// A sentence is quoted when it reaches this share of the best one's score.
const SCORE_SHARE_MIN: f64 = 0.45;
/// The window that it reports; it has no actual limit.
const WINDOW: usize = 1 << 20;

/// Quotes the material in its prompt.
#[derive(Debug)]
pub struct Extractive {
    info: ModelInfo,
}

impl Extractive {
    /// Creates an answerer with this name.
    pub fn new(name: &str) -> Self {
        let info = ModelInfo {
            name: name.to_owned(),
            provider: "extractive".to_owned(),
            model: "extractive".to_owned(),
            window: WINDOW,
            tools: false,
            deferred_tools_max: 0,
            kind: ModelKind::Chat,
            prices: None,
        };
        Self { info }
    }
}

#[async_trait]
impl ChatModel for Extractive {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatStream> {
        let pieces = match &request.schema {
            None => answer(&request),
            Some(schema) => match classify::category(schema, &request) {
                Some(category) => vec![serde_json::json!({"category": category}).to_string()],
                None => return Err(no_structure()),
            },
        };
        let usage = estimate::usage(&request, &pieces.concat());
        let end = ChatDelta::End { reason: StopReason::Stop, usage };
        Ok(stream::iter(pieces.into_iter().map(ChatDelta::Text).chain([end]).map(Ok)).boxed())
    }
}

fn no_structure() -> Error {
    Error::new(ErrorKind::Unsupported, "the built-in answerer `extractive` cannot fill in a JSON structure")
        .help("configure a language model: set OPENAI_API_KEY, start Ollama, or add an entry to `models`")
}

fn answer(request: &ChatRequest) -> Vec<String> {
    let mut sources = Vec::new();
    let mut question = String::new();
    for message in &request.messages {
        let (blocks, rest) = read(&message.text, message.author);
        if message.author == Author::User {
            question = if blocks.is_empty() { rest } else { last_paragraph(&rest).to_owned() };
        }
        sources.extend(blocks);
    }
    if sources.is_empty() {
        return vec![no_model(&question).to_owned()];
    }
    let candidates: Vec<Sentence> = sources.iter().flat_map(sentences).collect();
    let quotes = best(&question, &candidates);
    if quotes.is_empty() {
        return vec![no_match(&question).to_owned()];
    }
    quotes
        .iter()
        .enumerate()
        .map(|(at, quote)| {
            let gap = if at == 0 || has_ideographs(&quote.text) { "" } else { " " };
            format!("{gap}{} [ID:{}]", quote.text, quote.id)
        })
        .collect()
}

/// The sentences to quote, in the order of the material.
fn best<'a>(question: &str, candidates: &'a [Sentence]) -> Vec<&'a Sentence> {
    let asked = DistinctTerms::of(question);
    let read: Vec<DistinctTerms> =
        candidates.iter().map(|sentence| DistinctTerms::of(&sentence.text)).collect();
    let weights = weigh(&asked, &read);
    let mut scored: Vec<(f64, usize)> = candidates
        .iter()
        .enumerate()
        .map(|(at, sentence)| {
            // A title is the same for all sentences of a passage, so it must not outweigh what they say.
            let title = 0.3 * weights.overlap(&DistinctTerms::of(&sentence.title));
            (weights.overlap(&read[at]) + if read[at].is_empty() { 0.0 } else { title }, at)
        })
        .filter(|(score, _)| *score > 0.0)
        .collect();
    // Equal scores keep their order, so that the same question always has the same answer.
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let least = scored.first().map_or(0.0, |(score, _)| score * SCORE_SHARE_MIN);
    let mut chosen: Vec<usize> = Vec::new();
    for (score, at) in scored {
        let said = chosen.iter().any(|other| candidates[*other].text == candidates[at].text);
        if score >= least && !said && chosen.len() < QUOTES_MAX {
            chosen.push(at);
        }
    }
    // Quoted in the order of the material: sentences refer to earlier ones.
    chosen.sort_unstable();
    chosen.into_iter().map(|at| &candidates[at]).collect()
}

fn no_model(question: &str) -> &'static str {
    if has_ideographs(question) {
        "这里没有配置语言模型：内置的 extractive 只能引用给定的资料，而这次没有给出资料。请设置 OPENAI_API_KEY、\
         ANTHROPIC_API_KEY、GEMINI_API_KEY 或 DEEPSEEK_API_KEY，或启动本地的 Ollama，或在 weft.toml 的 models 中添加模型。"
    } else {
        "No language model is configured: the built-in answerer `extractive` can only quote material, and none was \
         given. Set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or DEEPSEEK_API_KEY, start a local Ollama, or \
         add a model to `models` in weft.toml."
    }
}

fn no_match(question: &str) -> &'static str {
    if has_ideographs(question) {
        "给定的资料中没有与这个问题相关的内容。"
    } else {
        "The given material says nothing about this."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::seam::chat_model::ChatMessage;

    const HANDBOOK: &str = "Use the knowledge below.\n\nID: 0\nTitle: Leave policy\nEvery employee has 25 days of paid \
        leave a year. Unused days expire in March.\n------\nID: 1\nTitle: Travel\nURL: https://example.org/t\nTrain \
        tickets are booked by the office.\n\nHotels may cost up to 120 euros a night.\n------\nID: 2\n员工每年有二十五天带薪假期。\
        未使用的假期三月到期。出差住宿每晚不超过一百二十欧元。\n\nAnswer with citations.";

    async fn said(system: &str, user: &str) -> Vec<String> {
        let messages = vec![ChatMessage::new(Author::System, system), ChatMessage::new(Author::User, user)];
        let request = ChatRequest { messages, ..ChatRequest::default() };
        let deltas: Vec<_> = Extractive::new("x").chat(request).await.unwrap().collect().await;
        let mut texts = Vec::new();
        for delta in deltas {
            match delta.unwrap() {
                ChatDelta::Text(text) => texts.push(text),
                ChatDelta::End { reason, .. } => assert_eq!(reason, StopReason::Stop),
                other => panic!("{other:?}"),
            }
        }
        texts
    }

    #[tokio::test]
    async fn the_best_sentences_are_quoted_with_their_marks() {
        let check = async |question: &str, expected: &[&str]| {
            assert_eq!(said(HANDBOOK, question).await, expected, "{question}");
        };
        check("How much may a hotel cost?", &["Hotels may cost up to 120 euros a night. [ID:1]"]).await;
        check("When do unused days expire?", &["Unused days expire in March. [ID:0]"]).await;
        check("每年有多少天带薪假期？", &["员工每年有二十五天带薪假期。 [ID:2]"]).await;
        check("Who is the president of the moon?", &["The given material says nothing about this."]).await;
    }

    #[tokio::test]
    async fn material_may_be_in_the_user_message() {
        let answer =
            said("Be brief.", "ID: 7\nThe bridge opened in 1932.\n\nWhen did the bridge open?").await;
        assert_eq!(answer, ["The bridge opened in 1932. [ID:7]"]);
    }

    #[tokio::test]
    async fn without_material_it_explains_itself() {
        assert!(said("Be brief.", "Hello").await[0].contains("No language model is configured"));
        assert!(said("", "你好").await[0].contains("没有配置语言模型"));
    }

    #[tokio::test]
    async fn structured_answers_are_refused() {
        let request =
            ChatRequest { schema: Some(serde_json::json!({"type": "object"})), ..ChatRequest::default() };
        assert_eq!(Extractive::new("x").chat(request).await.err().unwrap().kind, ErrorKind::Unsupported);
    }
}
