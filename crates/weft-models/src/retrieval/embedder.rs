//! Gets vectors from a provider: truncation, batches, and validation of the response.

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use weft_core::seam::embedder::{Embedded, Embedder, EmbeddingPurpose};
use weft_core::value::plural_with;
use weft_core::{Result, async_trait};

use super::cut;
use super::wire::{EmbeddingTexts, EmbeddingWire, Vectors};
use crate::config::ModelEntry;
use crate::remote::RemoteModel;
use crate::vectors::normalised;

/// Maximum tokens of one request by our own conservative count; providers accept at least twice as many.
const REQUEST_TOKENS_MAX: usize = 60_000;
/// Maximum number of concurrent requests of one call.
const REQUESTS_AT_ONCE_MAX: usize = 4;

/// An embedding model at an address.
pub(super) struct HttpEmbedder {
    /// The name recorded in datasets.
    name: String,
    /// The name of the model at its provider.
    model: String,
    remote: RemoteModel,
    wire: &'static EmbeddingWire,
    texts_max: usize,
    tokens_max: usize,
    dimensions: Option<usize>,
    query_prefix: String,
    passage_prefix: String,
}

impl HttpEmbedder {
    /// The model of `entry`, with the given wire format.
    ///
    /// # Errors
    /// `Invalid` for an invalid or missing address.
    pub(super) fn new(
        entry: &ModelEntry,
        wire: &'static EmbeddingWire,
        client: &reqwest::Client,
    ) -> Result<Self> {
        Ok(Self {
            name: entry.full_name(),
            model: entry.provider_name().to_owned(),
            remote: RemoteModel::new(entry, &(wire.url)(entry.address()?), client)?,
            wire,
            // Empty batches would never end.
            texts_max: entry.batch.unwrap_or(wire.texts_max).max(1),
            tokens_max: entry.own_window().unwrap_or(wire.tokens_max).max(1),
            dimensions: entry.dimensions,
            query_prefix: entry.query_prefix.clone().unwrap_or_default(),
            passage_prefix: entry.passage_prefix.clone().unwrap_or_default(),
        })
    }

    async fn ask(&self, purpose: EmbeddingPurpose, texts: Vec<String>) -> Result<Embedded> {
        let asked =
            EmbeddingTexts { model: &self.model, purpose, texts: &texts, dimensions: self.dimensions };
        let body = self.remote.ask(&(self.wire.body)(&asked)).await?;
        let answer = (self.wire.read)(&body).map_err(|cause| self.remote.garbled(cause))?;
        // Some servers send zeros for unknown values.
        let tokens = answer.tokens.filter(|tokens| *tokens > 0);
        let vectors =
            in_order(answer, texts.len(), self.dimensions).map_err(|why| self.remote.garbled(why))?;
        let guessed = || texts.iter().map(|text| crate::estimate::tokens(text)).sum();
        Ok(Embedded { vectors, tokens: tokens.unwrap_or_else(guessed) })
    }
}

/// Groups consecutive texts into batches of the size of one request.
fn batches(texts: Vec<String>, texts_max: usize) -> Vec<Vec<String>> {
    let mut batches: Vec<Vec<String>> = Vec::new();
    let mut used = 0;
    for text in texts {
        let tokens = cut::tokens(&text);
        let fits = |batch: &&mut Vec<String>| batch.len() < texts_max && used + tokens <= REQUEST_TOKENS_MAX;
        match batches.last_mut().filter(fits) {
            Some(batch) => batch.push(text),
            None => {
                batches.push(vec![text]);
                used = 0;
            }
        }
        used += tokens;
    }
    batches
}

/// Sorts the vectors by the numbers of their texts. A missing or duplicate vector, or one of a different length or
/// without a direction, invalidates the whole response.
fn in_order(answer: Vectors, count: usize, wanted: Option<usize>) -> Result<Vec<Vec<f32>>, String> {
    if answer.items.len() != count {
        let (sent, returned) = (plural_with(count, "text", ["was", "were"]), answer.items.len());
        let returned = plural_with(returned, "vector", ["was", "were"]);
        return Err(format!("{sent} sent, but {returned} returned"));
    }
    let dimensions = wanted.or(answer.items.first().map(|vector| vector.numbers.len())).unwrap_or_default();
    let mut vectors = vec![Vec::new(); count];
    for (at, vector) in answer.items.into_iter().enumerate() {
        let index = vector.index.unwrap_or(at);
        let numbers = vector.numbers;
        if numbers.len() != dimensions {
            return Err(format!("vector {index} has {} numbers instead of {dimensions}", numbers.len()));
        }
        if !numbers.iter().all(|number| number.is_finite()) || numbers.iter().all(|number| *number == 0.0) {
            return Err(format!("vector {index} has no direction"));
        }
        match vectors.get_mut(index) {
            Some(place) if place.is_empty() => *place = normalised(numbers),
            Some(_) => return Err(format!("there are two vectors for text {index}")),
            None => return Err(format!("there is a vector for text {index}, but only {count} were sent")),
        }
    }
    Ok(vectors)
}

#[async_trait]
impl Embedder for HttpEmbedder {
    fn name(&self) -> &str {
        &self.name
    }

    fn tokens_max(&self) -> usize {
        self.tokens_max
    }

    async fn embed(&self, purpose: EmbeddingPurpose, texts: &[String]) -> Result<Embedded> {
        let prefix = match purpose {
            EmbeddingPurpose::Query => &self.query_prefix,
            EmbeddingPurpose::Passage => &self.passage_prefix,
        };
        let fitting = |text: &String| cut::fitting(prefix, text, self.tokens_max).into_owned();
        let batches = batches(texts.iter().map(fitting).collect(), self.texts_max);
        let asking = stream::iter(batches).map(|batch| self.ask(purpose, batch).boxed());
        let mut all = Embedded::default();
        // In the order of the texts, regardless of which request finishes first: a vector is identified by its
        // position.
        let mut answers = asking.buffered(REQUESTS_AT_ONCE_MAX);
        while let Some(answer) = answers.try_next().await? {
            all.vectors.extend(answer.vectors);
            // A provider may send any number.
            all.tokens = all.tokens.saturating_add(answer.tokens);
        }
        if one_length(&all.vectors) {
            Ok(all)
        } else {
            Err(self.remote.garbled("its vectors have different lengths"))
        }
    }
}

/// Batches are answered separately, possibly by different machines.
fn one_length(vectors: &[Vec<f32>]) -> bool {
    vectors.windows(2).all(|pair| pair[0].len() == pair[1].len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieval::wire::Vector;

    #[test]
    fn requests_are_limited_in_texts_and_tokens() {
        let check = |texts: Vec<String>, texts_max: usize, expected: &[usize]| {
            let whole = texts.concat();
            let batches = batches(texts, texts_max);
            assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), expected);
            assert_eq!(batches.concat().concat(), whole, "every text, in order");
        };
        check(Vec::new(), 3, &[]);
        check(vec!["a".into(); 7], 3, &[3, 3, 1]);
        check(vec!["字".repeat(20_000); 5], 32, &[2, 2, 1]);
        check(vec!["字".repeat(90_000); 2], 32, &[1, 1]);
    }

    #[test]
    fn a_mismatched_answer_is_refused() {
        let check =
            |items: &[(Option<usize>, &[f32])], wanted: Option<usize>, expected: Result<&[f32], &str>| {
                let items: Vec<Vector> = items
                    .iter()
                    .map(|(index, numbers)| Vector { index: *index, numbers: numbers.to_vec() })
                    .collect();
                let found = in_order(Vectors { items, tokens: None }, 2, wanted);
                match (found, expected) {
                    (Ok(vectors), Ok(first)) => assert_eq!(vectors[0], first),
                    (Err(why), Err(words)) => assert!(why.contains(words), "{why}"),
                    (found, expected) => panic!("{found:?}, expected {expected:?}"),
                }
            };
        let (east, north): (&[f32], &[f32]) = (&[2.0, 0.0], &[0.0, 3.0]);
        check(&[(Some(1), east), (Some(0), north)], None, Ok(&[0.0, 1.0]));
        check(&[(None, east), (None, north)], Some(2), Ok(&[1.0, 0.0]));
        check(&[(None, east)], None, Err("2 texts were sent, but 1 vector was"));
        check(&[(Some(0), east), (Some(0), north)], None, Err("two vectors for text 0"));
        check(&[(Some(0), east), (Some(2), north)], None, Err("text 2, but only 2 were sent"));
        check(&[(None, east), (None, &[1.0])], None, Err("vector 1 has 1 numbers"));
        check(&[(None, east), (None, north)], Some(3), Err("instead of 3"));
        check(&[(None, east), (None, &[0.0, 0.0])], None, Err("no direction"));
        check(&[(None, east), (None, &[f32::NAN, 0.0])], None, Err("no direction"));
    }
}
