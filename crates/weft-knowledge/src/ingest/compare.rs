//! Compares the vectors of another model with those of a dataset.

use weft_core::Result;
use weft_core::id::{ChunkId, DatasetKey, DocumentId};
use weft_core::seam::dataset_store::{ChunkFilter, DocumentFilter, DocumentState};

use super::library::Library;

/// The comparison of a chunk's vector with that of another model.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedChunk {
    /// The chunk's id.
    pub id: ChunkId,
    /// The document that it belongs to.
    pub document: DocumentId,
    /// The name of that document.
    pub name: String,
    /// The cosine of the angle between both vectors; 0 if their dimensions differ.
    pub similarity: f64,
}

impl Library {
    /// Compares the vectors of some chunks, spread over as many documents as possible, with those of another model.
    ///
    /// # Errors
    /// `NotFound` if the model does not exist; any error of the model.
    pub async fn compared(
        &self,
        dataset: &DatasetKey,
        model: &str,
        most: usize,
    ) -> Result<Vec<ComparedChunk>> {
        let models = self.models_for(dataset);
        let embedder = models.directory().embedder(&dataset.tenant, model)?;
        let states = vec![DocumentState::Done, DocumentState::Unstarted];
        let filter = DocumentFilter { states, limit: most as u64, ..DocumentFilter::default() };
        let (documents, _) = self.parts.store.documents(dataset, &filter).await?;
        let each = most.div_ceil(documents.len().max(1)) as u64;
        let mut compared = Vec::new();
        for document in documents {
            let filter = ChunkFilter { vectors: true, limit: each, ..ChunkFilter::default() };
            for chunk in self.parts.store.chunks(&document.key, &filter).await?.0 {
                let Some(before) = &chunk.vector else { continue };
                let after = Self::vector_by(&*embedder, &document, &chunk).await?.unwrap_or_default();
                compared.push(ComparedChunk {
                    similarity: cosine(before, &after),
                    id: chunk.id,
                    document: document.key.id.clone(),
                    name: document.name.clone(),
                });
            }
        }
        models.note(self.now_ms()).await;
        compared.truncate(most);
        Ok(compared)
    }
}

fn cosine(one: &[f32], other: &[f32]) -> f64 {
    if one.len() != other.len() {
        return 0.0;
    }
    let product = |left: &[f32], right: &[f32]| {
        left.iter().zip(right).map(|(left, right)| f64::from(*left) * f64::from(*right)).sum::<f64>()
    };
    let lengths = (product(one, one) * product(other, other)).sqrt();
    if lengths > 0.0 { product(one, other) / lengths } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_different_lengths_have_similarity_zero() {
        assert!((cosine(&[3.0, 4.0], &[6.0, 8.0]) - 1.0).abs() < 1e-9);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 1.0]), 0.0);
        assert_eq!((cosine(&[1.0], &[1.0, 0.0]), cosine(&[0.0], &[0.0])), (0.0, 0.0));
    }
}
