//! A reranker with scripted scores.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use weft_core::seam::Reranker;
use weft_core::seam::reranker::Reranked;
use weft_core::{Error, ErrorKind, Result, async_trait};

/// Scores of passages by their text. A passage without a script gets the share of the question's words that it
/// contains.
#[derive(Debug, Default)]
pub struct ScriptedReranker {
    scores: BTreeMap<String, f32>,
    fails: Option<ErrorKind>,
    tokens: u64,
    seen: Mutex<Vec<(String, Vec<String>)>>,
}

impl ScriptedReranker {
    /// Creates a reranker without scripted scores.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives this passage this score, whatever the question.
    #[must_use]
    pub fn with(mut self, passage: impl Into<String>, score: f32) -> Self {
        self.scores.insert(passage.into(), score);
        self
    }

    /// Makes it report this number of tokens for each request.
    #[must_use]
    pub fn reading(mut self, tokens: u64) -> Self {
        self.tokens = tokens;
        self
    }

    /// Makes every request fail.
    #[must_use]
    pub fn failing(mut self, kind: ErrorKind) -> Self {
        self.fails = Some(kind);
        self
    }

    /// The requests so far: questions with their passages.
    pub fn seen(&self) -> Vec<(String, Vec<String>)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The share of the words of a question that a passage contains.
pub(crate) fn shared(question: &str, passage: &str) -> f32 {
    let lower = question.to_lowercase();
    let asked: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let passage = passage.to_lowercase();
    let found = asked.iter().filter(|word| passage.contains(**word)).count();
    found as f32 / asked.len().max(1) as f32
}

#[async_trait]
impl Reranker for ScriptedReranker {
    fn name(&self) -> &str {
        "scripted@test"
    }

    async fn rerank(&self, question: &str, passages: &[String]) -> Result<Reranked> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push((question.to_owned(), passages.to_vec()));
        if let Some(kind) = self.fails {
            return Err(Error::new(kind, "the scripted reranker was told to fail"));
        }
        let score = |passage: &String| match self.scores.get(passage) {
            Some(score) => *score,
            None => shared(question, passage),
        };
        Ok(Reranked { scores: passages.iter().map(score).collect(), tokens: self.tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts::reranker::reranker_keeps_its_contract;

    #[tokio::test]
    async fn it_keeps_the_contract() {
        reranker_keeps_its_contract(&ScriptedReranker::new()).await;
        let told = ScriptedReranker::new().with("a", 0.25);
        assert_eq!(told.rerank("a", &["a".into(), "a b".into()]).await.unwrap().scores, [0.25, 1.0]);
        assert_eq!(told.seen()[0].0, "a");
        let failing = ScriptedReranker::new().failing(ErrorKind::Timeout);
        assert_eq!(failing.rerank("a", &[]).await.unwrap_err().kind, ErrorKind::Timeout);
    }
}
