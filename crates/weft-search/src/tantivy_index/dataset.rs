//! One dataset that is open: its latest state, and the one writer that makes the next.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tantivy::directory::{MmapDirectory, RamDirectory};
use tantivy::store::Compressor;
use tantivy::{Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, Term};
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use weft_core::id::DatasetKey;
use weft_core::seam::index::IndexChange;
use weft_core::{Error, Result};

use super::pending::Pending;
use super::schema::{self, Fields};
use super::snapshot::{Documents, Snapshot, hash};
use crate::vectors::row;

/// What a writer may gather in memory before it writes a part of its own.
const WRITER_MEMORY: usize = 48 * 1024 * 1024;
/// A writer that was not needed for so long is closed.
const WRITER_IDLE_MAX: Duration = Duration::from_secs(20);

/// A write that waits for its turn.
struct Waiting {
    changes: Vec<IndexChange>,
    done: oneshot::Sender<Result<()>>,
}

/// What a commit will be about.
struct Gathered {
    before: Arc<Snapshot>,
    documents: Documents,
    /// Hashes of the ids of chunks that were added.
    added: HashSet<u64>,
}

/// The writer, while there is one.
#[derive(Default)]
struct Writer {
    open: Option<IndexWriter>,
    used: Option<Instant>,
}

/// One dataset that is open.
pub struct Dataset {
    key: DatasetKey,
    index: Index,
    reader: IndexReader,
    fields: Fields,
    snapshot: RwLock<Arc<Snapshot>>,
    waiting: Mutex<Vec<Waiting>>,
    writer: Arc<AsyncMutex<Writer>>,
}

impl Dataset {
    /// Opens what is in a folder, or begins there; without a folder everything is in memory.
    pub fn open(key: &DatasetKey, folder: Option<&Path>) -> Result<Self> {
        let failed = |cause: Box<dyn std::error::Error + Send + Sync>| {
            Error::internal(format!("cannot open the index of the dataset `{}`", key.id))
                .because(cause)
                .help("if this stays, remove the dataset from the index and make its index again")
        };
        let (schema, fields) = schema::schema();
        let settings = IndexSettings {
            docstore_compression: Compressor::None,
            docstore_compress_dedicated_thread: false,
            ..IndexSettings::default()
        };
        let builder = Index::builder().schema(schema).settings(settings);
        let opened = match folder {
            None => builder.open_or_create(RamDirectory::create()),
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(|cause| failed(cause.into()))?;
                let directory = MmapDirectory::open(folder).map_err(|cause| failed(cause.into()))?;
                builder.open_or_create(directory)
            }
        };
        let index = opened.map_err(|cause| failed(cause.into()))?;
        index.tokenizers().register(schema::WORDS, schema::Words::default());
        let reader = index
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .try_into()
            .map_err(|cause: tantivy::TantivyError| failed(cause.into()))?;
        let snapshot = RwLock::new(Arc::new(Snapshot::open(&reader.searcher(), fields)?));
        let (waiting, writer) = (Mutex::default(), Arc::default());
        Ok(Self { key: key.clone(), index, reader, fields, snapshot, waiting, writer })
    }

    /// The latest state.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The fields of its entries.
    pub fn fields(&self) -> Fields {
        self.fields
    }

    /// Closes the writer when it has had nothing to do for a while.
    pub fn rest(&self) {
        if let Ok(mut writer) = self.writer.try_lock()
            && writer.used.is_none_or(|used| used.elapsed() > WRITER_IDLE_MAX)
        {
            writer.open = None;
        }
    }

    /// Makes changes together with those that others ask for at the same time: what arrives while one
    /// commit is under way is written by the next, all of it at once.
    pub async fn write(self: &Arc<Self>, changes: Vec<IndexChange>) -> Result<()> {
        let (done, told) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(Waiting { changes, done });
        let mut writer = Arc::clone(&self.writer).lock_owned().await;
        let all = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        if !all.is_empty() {
            let dataset = Arc::clone(self);
            // The work goes on when nobody waits for it any more, so that nothing is left half done.
            let work = tokio::task::spawn_blocking(move || dataset.write_all(&mut writer, all));
            work.await.map_err(|cause| Error::internal("writing to the index broke off").because(cause))?;
        }
        told.await.map_err(|cause| Error::internal("writing to the index broke off").because(cause))?
    }

    fn write_all(&self, writer: &mut Writer, all: Vec<Waiting>) {
        let before = self.snapshot();
        let documents = Documents::clone(&before.documents);
        let mut gathered = Gathered { before: Arc::clone(&before), documents, added: HashSet::new() };
        let mut pending = Pending::new(&self.key.id, &before);
        let mut accepted = Vec::new();
        let mut failure = None;
        for Waiting { changes, done } in all {
            // Who has gone away before anything was done gets nothing done.
            if done.is_closed() {
                continue;
            }
            match pending.checked(&changes) {
                Err(refused) => drop(done.send(Err(refused))),
                Ok(next) => {
                    pending = next;
                    accepted.push(done);
                    let mut changes = changes.into_iter();
                    failure = changes.try_for_each(|change| self.change(writer, &mut gathered, change)).err();
                }
            }
            if failure.is_some() {
                break;
            }
        }
        let outcome = match failure {
            None if accepted.is_empty() => return,
            None => self.commit(writer, gathered),
            Some(failure) => Err(failure),
        };
        if outcome.is_err() {
            // What the writer has gathered must not come along with the next commit.
            writer.open = None;
        }
        let failure = outcome.err();
        for done in accepted {
            let outcome = match &failure {
                None => Ok(()),
                Some(error) => Err(Error::new(error.kind, error.full())),
            };
            drop(done.send(outcome));
        }
    }

    fn change(&self, writer: &mut Writer, gathered: &mut Gathered, change: IndexChange) -> Result<()> {
        let Gathered { before, documents, added } = gathered;
        let fields = self.fields;
        let writer = self.writer(writer)?;
        let remove = |field, id: &str| {
            writer.delete_term(Term::from_field_text(field, id));
        };
        match change {
            IndexChange::Document(document) => {
                if documents.number(document.id.as_str()).is_some() {
                    remove(fields.entry, document.id.as_str());
                }
                writer.add_document(schema::document_entry(fields, &document)?).map_err(unwritable)?;
                documents.put(document);
            }
            IndexChange::Chunks(document, chunks) => {
                for (id, chunk) in chunks {
                    let hash = hash(id.as_str());
                    if !added.insert(hash) || before.may_hold(hash) {
                        remove(fields.chunk, id.as_str());
                    }
                    let vector = chunk.vector.as_deref().and_then(row);
                    let entry = schema::chunk_entry(fields, &document, &id, &chunk, vector.as_ref());
                    writer.add_document(entry).map_err(unwritable)?;
                }
            }
            IndexChange::RemoveChunks(ids) => ids.iter().for_each(|id| remove(fields.chunk, id.as_str())),
            IndexChange::Clear(document) => remove(fields.document, document.as_str()),
            IndexChange::RemoveDocument(document) => {
                remove(fields.document, document.as_str());
                remove(fields.entry, document.as_str());
                documents.remove(&document);
            }
        }
        Ok(())
    }

    fn writer<'a>(&self, writer: &'a mut Writer) -> Result<&'a mut IndexWriter> {
        writer.used = Some(Instant::now());
        if writer.open.is_none() {
            writer.open = Some(self.index.writer_with_num_threads(1, WRITER_MEMORY).map_err(unwritable)?);
        }
        writer.open.as_mut().ok_or_else(|| Error::internal("the writer of an index is gone"))
    }

    fn commit(&self, writer: &mut Writer, gathered: Gathered) -> Result<()> {
        let Gathered { before, documents, .. } = gathered;
        self.writer(writer)?.commit().map_err(unwritable)?;
        self.reader.reload().map_err(unwritable)?;
        let next = before.next(&self.reader.searcher(), self.fields, documents)?;
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        Ok(())
    }
}

fn unwritable(cause: tantivy::TantivyError) -> Error {
    let help = match &cause {
        tantivy::TantivyError::LockFailure(..) => {
            "another process writes to the same data folder: stop it first"
        }
        _ => "see whether the disk is full or the folder can no longer be written",
    };
    Error::internal("cannot write to the index of a dataset").because(cause).help(help)
}
