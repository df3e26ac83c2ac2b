//! Retrieves knowledge at the start of a reply.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use weft_core::seam::chat_model::{Audience, Author, ChatMessage, ChatModel, ChatRequest};
use weft_core::{Error, NodeContext, Result, async_trait};

use crate::arguments;
use crate::ask::ask_text;

/// Documents retrieved from each knowledge base for a reply.
pub(super) const DOCUMENTS: usize = 5;
const REWRITE: &str = include_str!("../prompts/rewrite_query.md");

/// A retrieved piece of knowledge.
#[derive(Clone, Debug, PartialEq)]
pub struct KnowledgeDocument {
    /// Its text.
    pub text: String,
    /// How well it matches; larger is better. Scores of several bases are compared with each other.
    pub score: f64,
    /// Its source, for the model: a title or an address.
    pub source: Option<String>,
}

/// A searchable collection of knowledge.
#[async_trait]
pub trait KnowledgeBase: Send + Sync {
    /// Returns the best matches for a question, up to `limit`.
    ///
    /// # Errors
    /// The errors of the collection.
    async fn retrieve(&self, query: &str, limit: usize) -> Result<Vec<KnowledgeDocument>>;
}

/// Whether the model rewrites a question before the search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueryRewrite {
    /// It does: what the question leaves implicit is added from the conversation.
    #[default]
    On,
    /// The user's own words are used.
    Off,
}

#[derive(Deserialize)]
struct RewrittenQuery {
    rewritten_query: String,
}

/// The question as rewritten by the model.
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
    let RewrittenQuery { rewritten_query } = serde_json::from_value(object.into())
        .map_err(|cause| Error::invalid("the model returned no question").because(cause))?;
    match rewritten_query.trim() {
        "" => Err(Error::invalid("the model returned an empty question")),
        query => Ok(query.to_owned()),
    }
}

/// The results of all bases for a question, best first, as text for the model; and the errors of those that failed.
pub(super) async fn retrieved(bases: &[Arc<dyn KnowledgeBase>], query: &str) -> (Option<String>, Vec<Error>) {
    // A base that fails or finds nothing does not affect the others.
    let answers = futures::future::join_all(bases.iter().map(|base| base.retrieve(query, DOCUMENTS))).await;
    let (mut documents, mut problems) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(found) => documents.extend(found),
            Err(error) => problems.push(error),
        }
    }
    // Stable, so that equal scores keep the order in which the bases were added.
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
