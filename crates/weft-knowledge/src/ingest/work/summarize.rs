//! Builds summaries of clusters of chunks, level by level: those of a document, or those of all documents of
//! a dataset. Each summary is stored as soon as it is made, with a fingerprint of what it summarizes, so that
//! repeated work asks no model twice.

mod over_documents;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _};
use weft_core::id::DocumentId;
use weft_core::seam::dataset_store::{IngestStage, StoredChunk};
use weft_core::seam::document_reader::PieceKind;
use weft_core::seam::{ChatModel, Embedder};
use weft_core::{Json, Result, blocking};

use super::{DocumentWork, QUESTIONS_AT_ONCE, TEXTS_AT_ONCE, part, vectors};
use crate::ask::{answer, request};
use crate::ingest::ids::Namer;
use crate::ingest::indexing::CHUNKS_AT_ONCE;
use crate::raptor::dataset::{self, summary_text};
use crate::raptor::{self, LEVELS_MAX, Raptor, SummaryScope};
use crate::tokens;

/// Maximum number of characters of a summary; longer ones are truncated.
const SUMMARY_CHARS_MAX: usize = 32_000;

/// The models and settings used for summarizing.
struct Summarizer {
    model: Arc<dyn ChatModel>,
    embedder: Arc<dyn Embedder>,
    settings: Raptor,
    /// The names of the documents that are summarized jointly; empty for a single document.
    names: HashMap<DocumentId, String>,
}

/// All summaries, by the fingerprint of what they summarize.
#[derive(Default)]
struct Summaries {
    known: HashMap<String, Arc<StoredChunk>>,
    /// Summaries from the previous time; those that are still valid are reused.
    earlier: HashMap<String, Arc<StoredChunk>>,
    /// The fingerprints of the current groups.
    used: HashSet<String>,
    next_ordinal: u64,
}

/// A group of chunks to be summarized.
struct SummaryGroup {
    of: String,
    texts: Vec<String>,
    /// The documents that it comes from, as far as they are listed.
    documents: Option<BTreeSet<String>>,
}

/// The text of a summary, with its vector if there is one already.
struct MadeSummary {
    text: String,
    vector: Option<Vec<f32>>,
}

impl DocumentWork<'_> {
    /// Builds summaries, unless the document does not ask for them or they cannot be built here.
    pub(super) async fn summarize(&self) -> Result<()> {
        let Some(settings) = Raptor::of(&self.taken.document) else { return Ok(()) };
        let models = self.models.directory();
        let model = models.resolve(&self.dataset.key.tenant, &self.plan.model)?;
        if !model.info().writes() {
            self.warn("Summaries (raptor) need a language model, and none is configured".to_owned());
            return Ok(());
        }
        let embedder = models.embedder(&self.dataset.key.tenant, &self.dataset.embedder)?;
        let by = Summarizer { model, embedder, settings, names: HashMap::new() };
        if by.settings.scope == SummaryScope::Dataset {
            return self.summarize_dataset(by).await;
        }
        let (nodes, mut summaries) = self.begun().await?;
        self.levels(&by, 1, nodes, &mut summaries).await
    }

    /// Summarizes some chunks, and then the summaries themselves, starting at a given level.
    async fn levels(
        &self,
        by: &Summarizer,
        first: u64,
        mut nodes: Vec<Arc<StoredChunk>>,
        summaries: &mut Summaries,
    ) -> Result<()> {
        for level in first..=LEVELS_MAX {
            if nodes.len() < 2 {
                break;
            }
            let next = self.level(by, level, &nodes, summaries).await?;
            // If no chunks belonged together, another level would be the same.
            if next.len() >= nodes.len() {
                break;
            }
            nodes = next;
        }
        Ok(())
    }

    /// Summarizes some chunks once. Returns what takes part in the next level.
    async fn level(
        &self,
        by: &Summarizer,
        level: u64,
        nodes: &[Arc<StoredChunk>],
        summaries: &mut Summaries,
    ) -> Result<Vec<Arc<StoredChunk>>> {
        let groups = grouped(nodes, &by.settings).await?;
        let of: Vec<String> =
            groups.iter().map(|group| by.settings.fingerprint(&members(nodes, group))).collect();
        let several = groups.iter().zip(&of).filter(|(group, _)| group.len() > 1);
        let missing: Vec<SummaryGroup> = several
            // A chunk may be in several clusters, so two groups can consist of the same chunks.
            .filter(|(_, of)| summaries.used.insert((*of).clone()) && !summaries.known.contains_key(*of))
            .map(|(group, of)| SummaryGroup::new(of, &members(nodes, group)))
            .collect();
        self.make(by, level, missing, summaries).await?;
        let next = groups.iter().zip(&of).filter_map(|(group, of)| match group[..] {
            [] => None,
            // A single chunk needs no summary, but takes part in the next level.
            [at] => nodes.get(at).cloned(),
            _ => summaries.known.get(of).cloned(),
        });
        Ok(next.collect())
    }

    /// Returns the chunks of the document that have a vector, and the summaries of an earlier attempt.
    async fn begun(&self) -> Result<(Vec<Arc<StoredChunk>>, Summaries)> {
        let mut nodes = Vec::new();
        let mut summaries = Summaries::default();
        let mut pages = self.pages(CHUNKS_AT_ONCE);
        while let Some(page) = pages.next_page().await? {
            summaries.next_ordinal = page.last().map_or(summaries.next_ordinal, |last| last.ordinal + 1);
            for chunk in page.into_iter().filter(|chunk| chunk.available && chunk.vector.is_some()) {
                match of(&chunk) {
                    Some(of) => drop(summaries.known.insert(of, Arc::new(chunk))),
                    None => nodes.push(Arc::new(chunk)),
                }
            }
        }
        Ok((nodes, summaries))
    }

    /// Makes the missing summaries of a level.
    async fn make(
        &self,
        by: &Summarizer,
        level: u64,
        mut missing: Vec<SummaryGroup>,
        summaries: &mut Summaries,
    ) -> Result<()> {
        self.take_over(by, level, &mut missing, summaries).await?;
        let count = missing.len() as u64;
        let batch = usize::try_from(TEXTS_AT_ONCE).unwrap_or(1);
        for (number, groups) in missing.chunks(batch).enumerate() {
            let ask = |group: &SummaryGroup| {
                let texts: Vec<&str> = group.texts.iter().map(String::as_str).collect();
                let (instructions, question) = by.settings.question(&texts);
                async move { answer(&*by.model, request(&instructions, &question)).await }.boxed()
            };
            let asked: Vec<_> = groups.iter().map(ask).collect();
            let answers: Vec<Result<String>> =
                futures::stream::iter(asked).buffered(QUESTIONS_AT_ONCE).collect().await;
            let (mut made, mut broken) = (Vec::new(), None);
            for (group, answer) in groups.iter().zip(answers) {
                // One group that a model refuses to summarize does not make the others useless.
                match self.bearable(answer) {
                    Ok(Some(text)) if !text.trim().is_empty() => {
                        let text = text.trim().chars().take(SUMMARY_CHARS_MAX).collect();
                        made.push((group, MadeSummary { text, vector: None }));
                    }
                    Ok(_) => {}
                    Err(error) => broken = Some(error),
                }
            }
            // Answers are stored even if others failed.
            self.keep_summaries(by, level, made, summaries).await?;
            if let Some(error) = broken {
                return Err(error);
            }
            let done = ((number + 1) * batch) as u64;
            let all = weft_core::value::plural(count, "group");
            let detail = format!(": level {level}, {} of {all}", done.min(count));
            self.say(IngestStage::Summarizing, part(level - 1, LEVELS_MAX), &detail);
        }
        Ok(())
    }

    /// Reuses the earlier summaries of the same chunks, and leaves the remaining groups in `missing`.
    async fn take_over(
        &self,
        by: &Summarizer,
        level: u64,
        missing: &mut Vec<SummaryGroup>,
        summaries: &mut Summaries,
    ) -> Result<()> {
        let groups = std::mem::take(missing);
        let mut earlier = Vec::new();
        for group in &groups {
            if let Some(known) = summaries.earlier.remove(&group.of) {
                let text = summary_text(&known).to_owned();
                earlier.push((group, MadeSummary { text, vector: known.vector.clone() }));
            }
        }
        self.keep_summaries(by, level, earlier, summaries).await?;
        missing.extend(groups.into_iter().filter(|group| !summaries.known.contains_key(&group.of)));
        Ok(())
    }

    async fn keep_summaries(
        &self,
        by: &Summarizer,
        level: u64,
        made: Vec<(&SummaryGroup, MadeSummary)>,
        summaries: &mut Summaries,
    ) -> Result<()> {
        if made.is_empty() {
            return Ok(());
        }
        let lacking = made.iter().filter(|(_, made)| made.vector.is_none());
        let texts: Vec<String> = lacking.map(|(_, made)| made.text.clone()).collect();
        let mut new =
            if texts.is_empty() { Vec::new() } else { vectors(&*by.embedder, &texts).await? }.into_iter();
        let mut chunks = Vec::with_capacity(made.len());
        for (group, made) in made {
            let vector = made.vector.or_else(|| new.next());
            let ordinal = summaries.next_ordinal;
            chunks.push(StoredChunk { vector, ordinal, ..self.summary(by, level, group, made.text) });
            summaries.next_ordinal += 1;
        }
        self.library.parts.queue.add_new(&self.taken.lease, &chunks).await?;
        self.said(|said| said.kept = true);
        for chunk in chunks {
            summaries.known.insert(of(&chunk).unwrap_or_default(), Arc::new(chunk));
        }
        Ok(())
    }

    /// Returns a summary as it is stored, without its ordinal and its vector.
    fn summary(&self, by: &Summarizer, level: u64, group: &SummaryGroup, text: String) -> StoredChunk {
        let document = &self.taken.document.key;
        // The fingerprint is part of what the id derives from: two groups may have the same summary.
        let id = Namer::new(&document.id).chunk(&format!("{}\n{text}", group.of));
        let mut fields = raptor::fields(level, &group.of);
        let content = match by.settings.scope {
            SummaryScope::Document => text,
            SummaryScope::Dataset => {
                dataset::note_documents(&mut fields, group.documents.as_ref());
                dataset::shown(&text, group.documents.as_ref(), &by.names)
            }
        };
        StoredChunk {
            id,
            document: document.clone(),
            ordinal: 0,
            kind: PieceKind::Text,
            tokens: u32::try_from(tokens::at_most(&content)).unwrap_or(u32::MAX),
            content,
            searched: None,
            headings: Vec::new(),
            positions: Vec::new(),
            keywords: Vec::new(),
            questions: Vec::new(),
            fields,
            parent: None,
            picture: None,
            available: true,
            vector: None,
            created_ms: self.library.now_ms(),
        }
    }
}

impl SummaryGroup {
    fn new(of: &str, members: &[&StoredChunk]) -> Self {
        Self {
            of: of.to_owned(),
            texts: members.iter().map(|chunk| summary_text(chunk).to_owned()).collect(),
            documents: dataset::documents_of(members.iter().copied()),
        }
    }
}

/// Returns the fingerprint of what a chunk summarizes; `None` if it is not a summary.
fn of(chunk: &StoredChunk) -> Option<String> {
    let of = chunk.fields.get(raptor::OF).and_then(Json::as_str).filter(|_| raptor::is_summary(chunk));
    of.map(str::to_owned)
}

fn members<'a>(nodes: &'a [Arc<StoredChunk>], group: &[usize]) -> Vec<&'a StoredChunk> {
    group.iter().filter_map(|at| nodes.get(*at).map(|node| &**node)).collect()
}

async fn grouped(nodes: &[Arc<StoredChunk>], settings: &Raptor) -> Result<Vec<Vec<usize>>> {
    let (nodes, settings) = (nodes.to_vec(), settings.clone());
    let work = move || {
        let vectors: Vec<&[f32]> =
            nodes.iter().map(|node| node.vector.as_deref().unwrap_or_default()).collect();
        Ok(raptor::clusters(&vectors, &settings))
    };
    blocking("the grouping of chunks", work).await
}
