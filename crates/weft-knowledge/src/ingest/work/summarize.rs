//! Summaries of clusters of a document's chunks, level by level. Each is kept as soon as it is made, with what it is of, so
//! that work which is done again asks no model twice.

use std::collections::HashMap;
use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _};
use weft_core::seam::dataset_store::{IngestStage, StoredChunk};
use weft_core::seam::document_reader::PieceKind;
use weft_core::seam::{ChatModel, Embedder};
use weft_core::{Error, Json, Result};

use super::{DocumentWork, QUESTIONS_AT_ONCE, TEXTS_AT_ONCE, part, vectors};
use crate::ask::{answer, request};
use crate::ingest::ids::Namer;
use crate::ingest::indexing::CHUNKS_AT_ONCE;
use crate::raptor::{self, LEVELS_MAX, Raptor};
use crate::tokens;

/// Characters of a summary; what a model writes beyond is cut off.
const SUMMARY_CHARS_MAX: usize = 32_000;

/// All summaries that there are, by what they are of.
struct Summaries {
    known: HashMap<String, Arc<StoredChunk>>,
    next_ordinal: u64,
}

/// A group of chunks that is to be summed up.
struct SummaryGroup {
    of: String,
    texts: Vec<String>,
}

impl DocumentWork<'_> {
    /// Sums up, unless the document does not ask for it or nothing here can do it.
    pub(super) async fn summarize(&self) -> Result<()> {
        let Some(settings) = Raptor::of(&self.taken.document) else { return Ok(()) };
        let models = &self.library.parts.models;
        let model = models.resolve(&self.dataset.key.tenant, &self.plan.model)?;
        if !model.info().writes() {
            self.warn("Summaries (raptor) need a language model, and none is configured".to_owned());
            return Ok(());
        }
        let embedder = models.embedder(&self.dataset.key.tenant, &self.dataset.embedder)?;
        let (mut nodes, mut summaries) = self.begun().await?;
        for level in 1..=LEVELS_MAX {
            if nodes.len() < 2 {
                break;
            }
            let groups = grouped(&nodes, &settings).await?;
            let missing = missing(&nodes, &groups, &summaries);
            self.make((&*model, &*embedder), (&settings, level), missing, &mut summaries).await?;
            let next = groups.iter().filter_map(|group| match group[..] {
                [] => None,
                // What stands alone needs no summary, and takes part in the next level.
                [at] => nodes.get(at).cloned(),
                _ => summaries.known.get(&fingerprint(&nodes, group)).cloned(),
            });
            let next: Vec<Arc<StoredChunk>> = next.collect();
            if next.len() >= nodes.len() {
                break;
            }
            nodes = next;
        }
        Ok(())
    }

    /// The chunks of the document that have a vector, and the summaries of an earlier attempt.
    async fn begun(&self) -> Result<(Vec<Arc<StoredChunk>>, Summaries)> {
        let mut nodes = Vec::new();
        let mut summaries = Summaries { known: HashMap::new(), next_ordinal: 0 };
        let mut after = None;
        loop {
            let (page, last) = self.page(after, CHUNKS_AT_ONCE).await?;
            let Some(last) = last else { return Ok((nodes, summaries)) };
            (after, summaries.next_ordinal) = (Some(last), last + 1);
            for chunk in page.into_iter().filter(|chunk| chunk.available && chunk.vector.is_some()) {
                let of = chunk.fields.get(raptor::OF).and_then(Json::as_str).map(str::to_owned);
                match of {
                    Some(of) if raptor::is_summary(&chunk) => {
                        drop(summaries.known.insert(of, Arc::new(chunk)));
                    }
                    _ => nodes.push(Arc::new(chunk)),
                }
            }
        }
    }

    /// Makes the summaries of a level that are missing.
    async fn make(
        &self,
        (model, embedder): (&dyn ChatModel, &dyn Embedder),
        (settings, level): (&Raptor, u64),
        missing: Vec<SummaryGroup>,
        summaries: &mut Summaries,
    ) -> Result<()> {
        let count = missing.len() as u64;
        let batch = usize::try_from(TEXTS_AT_ONCE).unwrap_or(1);
        for (number, groups) in missing.chunks(batch).enumerate() {
            let ask = |group: &SummaryGroup| {
                let texts: Vec<&str> = group.texts.iter().map(String::as_str).collect();
                let (instructions, question) = settings.question(&texts);
                async move { answer(model, request(&instructions, &question)).await }.boxed()
            };
            let asked: Vec<_> = groups.iter().map(ask).collect();
            let answers: Vec<Result<String>> =
                futures::stream::iter(asked).buffered(QUESTIONS_AT_ONCE).collect().await;
            let (mut made, mut broken) = (Vec::new(), None);
            for (group, answer) in groups.iter().zip(answers) {
                match self.bearable(answer) {
                    Ok(Some(text)) if !text.trim().is_empty() => {
                        made.push((group, text.trim().chars().take(SUMMARY_CHARS_MAX).collect::<String>()));
                    }
                    Ok(_) => {}
                    Err(error) => broken = Some(error),
                }
            }
            // What was answered is kept, also when something was not.
            self.keep_summaries(embedder, level, made, summaries).await?;
            if let Some(error) = broken {
                return Err(error);
            }
            let done = ((number + 1) * batch) as u64;
            let detail = format!(": level {level}, {} of {count} groups", done.min(count));
            self.say(IngestStage::Summarizing, part(level - 1, LEVELS_MAX), &detail);
        }
        Ok(())
    }

    async fn keep_summaries(
        &self,
        embedder: &dyn Embedder,
        level: u64,
        made: Vec<(&SummaryGroup, String)>,
        summaries: &mut Summaries,
    ) -> Result<()> {
        if made.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = made.iter().map(|(_, text)| text.clone()).collect();
        let made_vectors = vectors(embedder, &texts).await?;
        let document = &self.taken.document.key;
        let mut chunks = Vec::with_capacity(made.len());
        for ((group, content), vector) in made.into_iter().zip(made_vectors) {
            // What it is of is part of what its name follows from: two groups may have one summary.
            let id = Namer::new(&document.id).chunk(&format!("{}\n{content}", group.of));
            chunks.push(StoredChunk {
                id,
                document: document.clone(),
                ordinal: summaries.next_ordinal,
                kind: PieceKind::Text,
                tokens: u32::try_from(tokens::at_most(&content)).unwrap_or(u32::MAX),
                content,
                searched: None,
                headings: Vec::new(),
                positions: Vec::new(),
                keywords: Vec::new(),
                questions: Vec::new(),
                fields: raptor::fields(level, &group.of),
                parent: None,
                available: true,
                vector: Some(vector),
                created_ms: self.library.now_ms(),
            });
            summaries.next_ordinal += 1;
        }
        self.library.parts.queue.add_new(&self.taken.lease, &chunks).await?;
        self.said(|said| said.kept = true);
        for chunk in chunks {
            let of = chunk.fields.get(raptor::OF).and_then(Json::as_str).unwrap_or_default().to_owned();
            summaries.known.insert(of, Arc::new(chunk));
        }
        Ok(())
    }
}

fn fingerprint(nodes: &[Arc<StoredChunk>], group: &[usize]) -> String {
    let members: Vec<&StoredChunk> =
        group.iter().filter_map(|at| nodes.get(*at).map(|node| &**node)).collect();
    raptor::fingerprint(&members)
}

/// What is to be summed up and has not been.
fn missing(nodes: &[Arc<StoredChunk>], groups: &[Vec<usize>], summaries: &Summaries) -> Vec<SummaryGroup> {
    let group = |group: &Vec<usize>| {
        let of = fingerprint(nodes, group);
        let texts = group.iter().filter_map(|at| nodes.get(*at).map(|node| node.content.clone())).collect();
        (!summaries.known.contains_key(&of)).then_some(SummaryGroup { of, texts })
    };
    groups.iter().filter(|group| group.len() > 1).filter_map(group).collect()
}

async fn grouped(nodes: &[Arc<StoredChunk>], settings: &Raptor) -> Result<Vec<Vec<usize>>> {
    let (nodes, settings) = (nodes.to_vec(), settings.clone());
    let work = move || {
        let vectors: Vec<&[f32]> =
            nodes.iter().map(|node| node.vector.as_deref().unwrap_or_default()).collect();
        raptor::clusters(&vectors, &settings)
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|cause| Error::internal("the grouping of chunks stopped unexpectedly").because(cause))
}
