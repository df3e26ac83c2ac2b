//! An embedder without a model: turns words into vectors by hashing.

use sha2::{Digest as _, Sha256};
use weft_core::seam::embedder::{Embedded, Embedder, EmbeddingPurpose};
use weft_core::{Result, async_trait};

/// Number of dimensions of each vector.
pub const DIMENSIONS: usize = 64;
/// Maximum number of tokens that are read.
const TOKENS_MAX: usize = 512;

/// Gives texts with common words similar vectors: each word, and each ideograph, adds to two of 64 dimensions, chosen
/// by its hash. The same text always gets the same vector, in any process.
#[derive(Clone, Debug)]
pub struct HashEmbedder {
    name: String,
}

impl Default for HashEmbedder {
    fn default() -> Self {
        Self::named("hash@test")
    }
}

impl HashEmbedder {
    /// Creates an embedder that datasets remember as `name`.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// The vector of one text.
    pub fn vector(text: &str) -> Vec<f32> {
        let mut vector = vec![0.0_f32; DIMENSIONS];
        for word in words(text).iter().take(TOKENS_MAX) {
            let digest = Sha256::digest(word.as_bytes());
            for pair in digest.chunks_exact(2).take(2) {
                vector[usize::from(pair[0]) % DIMENSIONS] += if pair[1] % 2 == 0 { 1.0 } else { -1.0 };
            }
        }
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        if length == 0.0 {
            // If the words cancel each other out, or there are none, the vector gets a fixed direction.
            vector[0] = 1.0;
            return vector;
        }
        vector.iter_mut().for_each(|x| *x /= length);
        vector
    }
}

/// Words in lower case; each ideograph is a word.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in text.to_lowercase().chars() {
        let is_ideograph = u32::from(c) >= 0x2e80;
        if is_ideograph || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.push(c);
        }
        if is_ideograph {
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[async_trait]
impl Embedder for HashEmbedder {
    fn name(&self) -> &str {
        &self.name
    }

    fn tokens_max(&self) -> usize {
        TOKENS_MAX
    }

    async fn embed(&self, _purpose: EmbeddingPurpose, texts: &[String]) -> Result<Embedded> {
        let vectors = texts.iter().map(|text| Self::vector(text)).collect();
        let tokens = texts.iter().map(|text| words(text).len().min(TOKENS_MAX) as u64).sum();
        Ok(Embedded { vectors, tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts::embedder::{embedder_keeps_its_contract, similar_texts_have_similar_vectors};

    #[tokio::test]
    async fn it_keeps_the_contract() {
        embedder_keeps_its_contract(&HashEmbedder::default()).await;
        similar_texts_have_similar_vectors(&HashEmbedder::default()).await;
    }

    #[test]
    fn words_and_ideographs_are_tokenised() {
        assert_eq!(words("Cats, dogs 和猫!"), ["cats", "dogs", "和", "猫"]);
    }
}
