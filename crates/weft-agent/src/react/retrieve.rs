//! Knowledge that a reply begins with.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use weft_core::seam::chat_model::{Audience, Author, ChatMessage, ChatModel, ChatRequest};
use weft_core::{Error, NodeContext, Result};

use crate::arguments;
use crate::ask::ask_text;

/// Documents of one knowledge base for a reply.
pub(super) const DOCUMENTS: usize = 5;
const REWRITE: &str = include_str!("../prompts/rewrite_query.md");

/// A piece of knowledge.
#[derive(Clone, Debug, PartialEq)]
pub struct KnowledgeDocument {
    /// What it says.
    pub text: String,
    /// How well it fits; larger is better. Scores of several bases are compared with each other.
    pub score: f64,
    /// Where it is from, for the model: a title, an address.
    pub source: Option<String>,
}

/// A collection of knowledge.
#[async_trait]
pub trait KnowledgeBase: Send + Sync {
    /// What fits a question best, at most `limit`.
    ///
    /// # Errors
    /// What it fails with.
    async fn retrieve(&self, query: &str, limit: usize) -> Result<Vec<KnowledgeDocument>>;
}

/// Whether the model words a question anew before it is looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueryRewrite {
    /// It does: the question gets what it leaves unsaid from the conversation.
    #[default]
    On,
    /// The user's words are looked up.
    Off,
}

#[derive(Deserialize)]
struct Rewritten {
    rewritten_query: String,
}

/// The question in the model's words.
pub(super) async fn rewritten(
    ctx: &NodeContext,
    model: &dyn ChatModel,
    mut conversation: Vec<ChatMessage>,
) -> Result<String> {
    conversation.push(ChatMessage::new(Author::User, REWRITE.trim_end()));
    let schema = json!({
        "type": "object", "properties": {"rewritten_query": {"type": "string"}}, "required": ["rewritten_query"]
    });
    let request = ChatRequest {
        messages: conversation,
        schema: Some(schema),
        audience: Audience::Nobody,
        ..ChatRequest::default()
    };
    let text = ask_text(ctx, model, request, &mut |_| {}).await?;
    let (object, _) = arguments::object(&text)?;
    let Rewritten { rewritten_query } = serde_json::from_value(object.into())
        .map_err(|cause| Error::invalid("the model gave no question").because(cause))?;
    match rewritten_query.trim() {
        "" => Err(Error::invalid("the model gave an empty question")),
        query => Ok(query.to_owned()),
    }
}

/// What all bases know about a question, best first, as the model is told it; and what some of them failed with.
pub(super) async fn retrieved(bases: &[Arc<dyn KnowledgeBase>], query: &str) -> (Option<String>, Vec<Error>) {
    // One base that fails or knows nothing takes nothing from the others.
    let answers = futures::future::join_all(bases.iter().map(|base| base.retrieve(query, DOCUMENTS))).await;
    let (mut documents, mut problems) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(found) => documents.extend(found),
            Err(error) => problems.push(error),
        }
    }
    // Stable, so that of equal scores the base that was added first comes first.
    documents.sort_by(|a, b| b.score.total_cmp(&a.score));
    let one = |document: &KnowledgeDocument| match &document.source {
        Some(source) => format!("[{source}]\n{}", document.text),
        None => document.text.clone(),
    };
    let text = documents.iter().map(one).collect::<Vec<_>>().join("\n\n");
    let told = format!(
        "<retrieved_knowledge>\nUse this where it helps to answer:\n\n{text}\n</retrieved_knowledge>"
    );
    ((!documents.is_empty()).then_some(told), problems)
}
