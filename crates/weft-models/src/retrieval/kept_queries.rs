//! A cache of the vectors of questions.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;
use sha2::{Digest as _, Sha256};
use weft_core::seam::embedder::{Embedded, Embedder, EmbeddingPurpose};
use weft_core::{Result, async_trait};

/// Maximum number of cached questions. The least recently used ones are evicted first.
// A few megabytes: a vector has at most a few thousand numbers.
const QUERIES_MAX: usize = 1000;

type Key = [u8; 32];

/// A model that is not asked again for the vector of a question: people and agents repeat questions. Passages occur
/// once and are not cached. A cached vector costs no tokens.
pub(super) struct KeptQueries<E> {
    embedder: E,
    kept: Mutex<LruCache<Key, Vec<f32>>>,
}

impl<E: Embedder> KeptQueries<E> {
    /// Asks `embedder` for vectors that are not cached.
    pub(super) fn new(embedder: E) -> Self {
        Self { embedder, kept: Mutex::new(LruCache::new(QUERIES_MAX)) }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<Key, Vec<f32>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl<E: Embedder> Embedder for KeptQueries<E> {
    fn name(&self) -> &str {
        self.embedder.name()
    }

    fn tokens_max(&self) -> usize {
        self.embedder.tokens_max()
    }

    async fn embed(&self, purpose: EmbeddingPurpose, texts: &[String]) -> Result<Embedded> {
        if purpose == EmbeddingPurpose::Passage {
            return self.embedder.embed(purpose, texts).await;
        }
        // Digests, because a question may be as long as a prompt.
        let keys: Vec<Key> = texts.iter().map(|text| Sha256::digest(text.as_bytes()).into()).collect();
        // The lock is released while the model is asked: two callers with the same question may both ask, but none
        // waits for another's question.
        let mut vectors: Vec<Option<Vec<f32>>> = {
            let mut kept = self.lock();
            keys.iter().map(|key| kept.get(key).cloned()).collect()
        };
        let missing: Vec<usize> = (0..texts.len()).filter(|at| vectors[*at].is_none()).collect();
        let mut tokens = 0;
        if !missing.is_empty() {
            let asked: Vec<String> = missing.iter().map(|at| texts[*at].clone()).collect();
            let answer = self.embedder.embed(purpose, &asked).await?;
            tokens = answer.tokens;
            let mut kept = self.lock();
            for (at, vector) in missing.into_iter().zip(answer.vectors) {
                kept.insert(keys[at], vector.clone());
                vectors[at] = Some(vector);
            }
        }
        Ok(Embedded { vectors: vectors.into_iter().flatten().collect(), tokens })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// The length of a text as its vector.
    #[derive(Default)]
    struct Lengths {
        asked: AtomicUsize,
    }

    #[async_trait]
    impl Embedder for Lengths {
        fn name(&self) -> &str {
            "lengths"
        }

        fn tokens_max(&self) -> usize {
            9
        }

        async fn embed(&self, _: EmbeddingPurpose, texts: &[String]) -> Result<Embedded> {
            self.asked.fetch_add(texts.len(), Ordering::Relaxed);
            let vectors = texts.iter().map(|text| vec![text.len() as f32]).collect();
            Ok(Embedded { vectors, tokens: texts.len() as u64 })
        }
    }

    #[tokio::test]
    async fn queries_are_cached_and_passages_are_not() {
        let kept = KeptQueries::new(Lengths::default());
        let check = async |purpose: EmbeddingPurpose, texts: &[&str], tokens: u64, asked: usize| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            let found = kept.embed(purpose, &texts).await.unwrap();
            let lengths: Vec<Vec<f32>> = texts.iter().map(|text| vec![text.len() as f32]).collect();
            assert_eq!((found.vectors, found.tokens), (lengths, tokens));
            assert_eq!(kept.embedder.asked.load(Ordering::Relaxed), asked);
        };
        check(EmbeddingPurpose::Query, &["a", "bb"], 2, 2).await;
        check(EmbeddingPurpose::Query, &["ccc", "bb", "a"], 1, 3).await;
        check(EmbeddingPurpose::Query, &["ccc"], 0, 3).await;
        check(EmbeddingPurpose::Passage, &["a"], 1, 4).await;
        check(EmbeddingPurpose::Passage, &["a"], 1, 5).await;
        let many: Vec<String> = (0..QUERIES_MAX).map(|at| "x".repeat(at + 4)).collect();
        kept.embed(EmbeddingPurpose::Query, &many).await.unwrap();
        let before = kept.embedder.asked.load(Ordering::Relaxed);
        check(EmbeddingPurpose::Query, &["a"], 1, before + 1).await;
    }
}
