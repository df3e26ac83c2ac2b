//! Gets scores from a provider: truncation, batches, and conversion to a common scale.

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use weft_core::seam::Reranker;
use weft_core::seam::reranker::Reranked;
use weft_core::value::plural_with;
use weft_core::{Error, Result, async_trait};

use super::cut;
use super::wire::{Passages, RerankWire, Score, Scores};
use crate::config::ModelEntry;
use crate::remote::RemoteModel;

/// Maximum number of concurrent requests of one call.
const REQUESTS_AT_ONCE_MAX: usize = 4;
/// Tolerance for rounding errors in a score from 0 to 1.
const SLACK: f32 = 0.001;

/// A reranker at an address.
pub(super) struct HttpReranker {
    name: String,
    model: String,
    remote: RemoteModel,
    wire: &'static RerankWire,
    passages_max: usize,
    tokens_max: usize,
    scores: Scores,
}

impl HttpReranker {
    /// The model of `entry`, with the given wire format.
    ///
    /// # Errors
    /// `Invalid` for an invalid or missing address.
    pub(super) fn new(
        entry: &ModelEntry,
        wire: &'static RerankWire,
        client: &reqwest::Client,
    ) -> Result<Self> {
        let scores = match entry.raw_scores {
            None => wire.scores,
            Some(true) => Scores::Logits,
            Some(false) => Scores::Shares,
        };
        Ok(Self {
            name: entry.full_name(),
            model: entry.provider_name().to_owned(),
            remote: RemoteModel::new(entry, &(wire.url)(entry.address()?), client)?,
            wire,
            // With 0, the passages could not be split.
            passages_max: entry.batch.unwrap_or(wire.passages_max).max(1),
            tokens_max: entry.own_window().unwrap_or(wire.tokens_max).max(1),
            scores,
        })
    }

    async fn ask(&self, question: &str, passages: Vec<String>) -> Result<Reranked> {
        let asked = Passages { model: &self.model, question, passages: &passages, scores: self.scores };
        let body = self.remote.ask(&(self.wire.body)(&asked)).await?;
        let ranking = (self.wire.read)(&body).map_err(|cause| self.remote.garbled(cause))?;
        let scores = in_order(&ranking.scores, passages.len()).map_err(|why| self.remote.garbled(why))?;
        let scores = scores.into_iter().map(|score| self.share(score)).collect::<Result<_>>()?;
        Ok(Reranked { scores, tokens: ranking.tokens.unwrap_or_default() })
    }

    /// Converts a score to the range from 0 to 1.
    fn share(&self, score: f32) -> Result<f32> {
        match self.scores {
            Scores::Logits => Ok(1.0 / (1.0 + (-score).exp())),
            Scores::Unsure if !(-SLACK..=1.0 + SLACK).contains(&score) => {
                let message =
                    format!("the model `{}` returns scores that are not from 0 to 1", self.remote.name);
                Err(Error::invalid(message).because(format!("one is {score}")).help(
                    "set `raw_scores = true` if they are logits, or `raw_scores = false` to clamp them",
                ))
            }
            // The thresholds in canvases are from 0 to 1.
            Scores::Unsure | Scores::Shares => Ok(score.clamp(0.0, 1.0)),
        }
    }
}

/// Sorts the scores by passage: providers return the best one first.
fn in_order(scores: &[Score], count: usize) -> Result<Vec<f32>, String> {
    let mut ordered = vec![None; count];
    for Score { index, relevance_score } in scores {
        match ordered.get_mut(*index) {
            Some(place @ None) if relevance_score.is_finite() => *place = Some(*relevance_score),
            Some(None) => return Err(format!("the score of passage {index} is not a number")),
            Some(Some(_)) => return Err(format!("there are two scores for passage {index}")),
            None => return Err(format!("there is a score for passage {index}, but only {count} were sent")),
        }
    }
    let missing = || {
        let sent = plural_with(count, "passage", ["was", "were"]);
        let returned = plural_with(scores.len(), "score", ["was", "were"]);
        format!("{sent} sent, but {returned} returned")
    };
    ordered.into_iter().collect::<Option<Vec<f32>>>().ok_or_else(missing)
}

#[async_trait]
impl Reranker for HttpReranker {
    fn name(&self) -> &str {
        &self.name
    }

    async fn rerank(&self, question: &str, passages: &[String]) -> Result<Reranked> {
        // A question that fills the window would leave no room for the passages.
        let question = cut::fitting("", question, self.tokens_max.div_ceil(2));
        let room = self.tokens_max.saturating_sub(cut::tokens(&question)).max(1);
        let fitting = |passage: &String| cut::fitting("", passage, room).into_owned();
        let batches: Vec<Vec<String>> =
            passages.chunks(self.passages_max).map(|chunk| chunk.iter().map(fitting).collect()).collect();
        let asking = stream::iter(batches).map(|batch| self.ask(&question, batch).boxed());
        // In the order of the passages, regardless of which request finishes first: a score is identified by its
        // position.
        let answers: Vec<Reranked> = asking.buffered(REQUESTS_AT_ONCE_MAX).try_collect().await?;
        let tokens = answers.iter().map(|answer| answer.tokens).fold(0, u64::saturating_add);
        Ok(Reranked { scores: answers.into_iter().flat_map(|answer| answer.scores).collect(), tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_restored_to_input_order() {
        let check = |scores: &[(usize, f32)], expected: Result<&[f32], &str>| {
            let scores: Vec<Score> = scores
                .iter()
                .map(|(index, score)| Score { index: *index, relevance_score: *score })
                .collect();
            match (in_order(&scores, 2), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(why), Err(words)) => assert!(why.contains(words), "{why}"),
                (found, expected) => panic!("{found:?}, expected {expected:?}"),
            }
        };
        check(&[(1, 0.9), (0, 0.1)], Ok(&[0.1, 0.9]));
        check(&[(1, 0.9)], Err("2 passages were sent, but 1 score was"));
        check(&[(1, 0.9), (1, 0.8)], Err("two scores for passage 1"));
        check(&[(0, 0.9), (2, 0.8)], Err("passage 2, but only 2 were sent"));
        check(&[(0, f32::NAN), (1, 0.8)], Err("not a number"));
    }
}
