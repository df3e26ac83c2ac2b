//! `weft dataset ingest`: ingests files into chunks that can be searched.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use weft_app::App;
use weft_core::filter::Metadata;
use weft_core::id::DocumentId;
use weft_core::seam::dataset_store::{
    Dataset, Document, DocumentChange, DocumentFilter, DocumentState, Settings,
};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::{Error, ErrorKind};
use weft_knowledge::ingest::{IngestWorker, Naming, PIPELINE, WORDS_ALONE, WorkerPace};

use super::files::{self, FoundFile};
use super::{documents, find, fresh, maybe, metadata, method, pipeline, settings, tell_embedder};
use crate::args::{DatasetIngestArgs, DatasetMethodArgs};
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{LiveLine, Notes};
use crate::setup::Setup;
use crate::signals::stopped;
use crate::words::{plural, quoted};

/// How often the progress bar is updated.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often adding a file is retried when a concurrent command has added a document with its name.
const NAMED_AT_ONCE_MAX: usize = 5;
/// A progress check may take at most this fraction of the time: one part in N.
const LOOKS_APART: u32 = 20;
/// Time for a document under way to finish when the command is stopped; its finished parts are kept.
const GRACE: Duration = Duration::from_millis(100);
/// Progress between two lines if standard error is not a terminal.
const LINE_EVERY: f64 = 0.1;

/// Ingests files into a dataset, or continues with those that are not done.
///
/// # Errors
/// When a path does not exist, a setting is not valid, or the data folder cannot be used.
pub(super) async fn run(args: &DatasetIngestArgs, app: &App, setup: &Setup) -> Outcome {
    must_be_used(args)?;
    let found = files::below(&args.paths)?;
    let found = if args.paths.is_empty() { found } else { found.one_each()? };
    if setup.config.worker.documents_at_once == 0 && !args.queue {
        return Err(Failure::usage("`worker.documents_at_once` is 0, so no document is read here")
            .help("set it to 1 or more, or leave the reading to other processes with --queue"));
    }
    let pipeline = pipeline(&args.method, app, setup).await?;
    let mut wishes = Wishes {
        metadata: metadata(&args.metadata)?,
        method: method(&args.method)?,
        settings: settings(&args.method)?,
        again: args.again,
    };
    wishes.settings.extend(pipeline.clone());
    let dataset = match (maybe(&args.dataset, app).await?, args.paths.is_empty()) {
        (Some(dataset), _) => kept(dataset, args.embedder.as_deref(), app)?,
        (None, true) => find(&args.dataset, app).await?,
        (None, false) => {
            let mut dataset = fresh(&args.dataset, args.embedder.as_deref(), &args.method, app)?;
            dataset.settings.extend(pipeline);
            match app.library.create_dataset(dataset, Naming::Exact).await {
                Ok(made) => {
                    Notes::line(format!("The dataset `{}` is new.", made.name));
                    tell_embedder(&made);
                    made
                }
                // A concurrent command has created it.
                Err(error) if error.kind == ErrorKind::Conflict => find(&args.dataset, app).await?,
                Err(error) => return Err(error.into()),
            }
        }
    };
    let mut told = IngestCounts::default();
    let mut wanted = Vec::new();
    for (path, why) in &found.refused {
        told.failed += 1;
        Notes::line(format!("  {}: {why}", path.display()));
    }
    for file in &found.files {
        match take_in(file, &dataset, &wishes, app).await? {
            AddedDocument::New(id) => wanted.push(id),
            AddedDocument::Replaced(id) => {
                told.replaced += 1;
                wanted.push(id);
            }
            AddedDocument::Unchanged => told.unchanged += 1,
            AddedDocument::Refused(why) => {
                told.failed += 1;
                Notes::line(format!("  {}: {why}", file.path.display()));
            }
        }
    }
    if args.paths.is_empty() {
        let open = [DocumentState::Running, DocumentState::Paused, DocumentState::Unstarted];
        wanted = documents(&dataset.key, &open, app).await?.into_iter().map(|one| one.key.id).collect();
    }
    app.library.queue(&dataset.key, &wanted).await?;
    if args.queue {
        let (place, waiting) = (&setup.same_place, plural(wanted.len() as u64, "document"));
        Notes::line(format!("{waiting} waiting for `weft serve{place}` or `weft worker{place}`."));
        return Ok(if told.failed > 0 { Exit::Failed } else { Exit::Done });
    }
    if !wanted.is_empty() {
        read_all(&dataset, &wanted, app, setup, &mut told).await?;
    }
    make_findable(&dataset, app, setup).await?;
    told.conclude(&find(dataset.key.id.as_str(), app).await?)
}

/// Refuses options about files if no files are named: what was begun continues with the options that it began with.
fn must_be_used(args: &DatasetIngestArgs) -> Outcome<()> {
    let DatasetMethodArgs { method, pipeline, settings } = &args.method;
    let given = [
        (!args.metadata.is_empty(), "--meta"),
        (args.again, "--again"),
        (method.is_some(), "--method"),
        (pipeline.is_some(), "--pipeline"),
        (!settings.is_empty(), "--set"),
    ];
    match given.into_iter().find(|(is_given, _)| *is_given && args.paths.is_empty()) {
        None => Ok(()),
        Some((_, flag)) => Err(Failure::usage(format!("{flag} has no effect without files"))
            .help("name files or folders; without any, the command continues with unfinished documents")),
    }
}

/// Returns an existing dataset, unless the command requests a different embedding model.
fn kept(dataset: Dataset, embedder: Option<&str>, app: &App) -> Outcome<Dataset> {
    let wanted = match embedder {
        None => return Ok(dataset),
        Some("none") => String::new(),
        Some(named) => app.models.embedder(&dataset.key.tenant, named)?.name().to_owned(),
    };
    if wanted == dataset.embedder {
        return Ok(dataset);
    }
    let has = if dataset.embedder.is_empty() { "no embedding model" } else { &dataset.embedder };
    Err(Failure::usage(format!("`{}` has {has}, which --embedder cannot change", dataset.name))
        .help("omit --embedder, or create another dataset"))
}

/// Settings of the command for the documents.
struct Wishes {
    metadata: Metadata,
    method: Option<ChunkMethod>,
    settings: Settings,
    again: bool,
}

impl Wishes {
    /// Returns the changes that a document still needs.
    fn change(&self, document: &Document) -> Option<DocumentChange> {
        let mut change = DocumentChange::default();
        let mut metadata = document.metadata.clone();
        metadata.extend(self.metadata.clone());
        change.metadata = (metadata != document.metadata).then_some(metadata);
        change.method = self.method.filter(|method| *method != document.method);
        let mut settings = document.settings.clone();
        if self.method.is_some() {
            settings.remove(PIPELINE);
        }
        settings.extend(self.settings.clone());
        change.settings = (settings != document.settings).then_some(settings);
        (change != DocumentChange::default()).then_some(change)
    }
}

enum AddedDocument {
    New(DocumentId),
    Replaced(DocumentId),
    Unchanged,
    Refused(String),
}

/// Adds a file as a document. A document with the same name and bytes is reused; with other bytes it is replaced.
async fn take_in(file: &FoundFile, dataset: &Dataset, wishes: &Wishes, app: &App) -> Outcome<AddedDocument> {
    let FoundFile { path: file, name } = file;
    let most = app.library.file_bytes_max();
    let bytes = match tokio::fs::metadata(file).await {
        Ok(about) if about.len() > most => {
            return Ok(AddedDocument::Refused(format!("it is larger than {most} bytes")));
        }
        Ok(_) => tokio::fs::read(file).await,
        Err(error) => Err(error),
    };
    let bytes = match bytes {
        Ok(bytes) if bytes.is_empty() => return Ok(AddedDocument::Refused("it is empty".to_owned())),
        Ok(bytes) => Bytes::from(bytes),
        Err(error) => return Ok(AddedDocument::Refused(format!("it cannot be read: {error}"))),
    };
    // A concurrent command may add the same files.
    for _ in 0..NAMED_AT_ONCE_MAX {
        match put(name, &bytes, dataset, wishes, app).await {
            Ok(taken) => return Ok(taken),
            Err(error) if error.kind == ErrorKind::Conflict => {}
            Err(error) if error.kind == ErrorKind::Invalid => {
                return Ok(AddedDocument::Refused(error.full()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(AddedDocument::Refused("other processes keep adding a document of this name".to_owned()))
}

/// The same in a single attempt: `Conflict` when a concurrent command was faster.
async fn put(
    name: &str,
    bytes: &Bytes,
    dataset: &Dataset,
    wishes: &Wishes,
    app: &App,
) -> weft_core::Result<AddedDocument> {
    let filter = DocumentFilter { name: Some(name.to_owned()), limit: 1, ..DocumentFilter::default() };
    let (before, _) = app.datasets.documents(&dataset.key, &filter).await?;
    let Some(before) = before.into_iter().next() else {
        let document = app.library.upload(&dataset.key, name, bytes.clone(), Naming::Exact).await?;
        if let Some(change) = wishes.change(&document) {
            app.library.update_document(&document.key, &change).await?;
        }
        return Ok(AddedDocument::New(document.key.id));
    };
    // The sizes come first, because comparing the bytes means reading the stored file.
    if before.size == bytes.len() as u64 && app.library.file(&before.key).await? == *bytes {
        return unchanged(before, wishes, app).await;
    }
    let change = |document: &Document| wishes.change(document).unwrap_or_default();
    match app.library.replace_document(&before.key, (name, bytes.clone()), change).await {
        Ok(document) => Ok(AddedDocument::Replaced(document.key.id)),
        Err(error) if error.kind == ErrorKind::NotFound => {
            Err(Error::new(ErrorKind::Conflict, "the document was removed meanwhile").because(error))
        }
        Err(error) => Err(error),
    }
}

async fn unchanged(document: Document, wishes: &Wishes, app: &App) -> weft_core::Result<AddedDocument> {
    let change = wishes.change(&document);
    let recut = change.as_ref().is_some_and(|change| change.method.is_some() || change.settings.is_some());
    let document = match change {
        Some(_) => {
            let change = |document: &Document| Ok::<_, weft_core::Error>(wishes.change(document));
            app.library.rework_document(&document.key, change).await?
        }
        None => document,
    };
    let done = document.state == DocumentState::Done && !recut && !wishes.again;
    Ok(if done { AddedDocument::Unchanged } else { AddedDocument::New(document.key.id) })
}

/// Counts of the outcomes.
#[derive(Default)]
struct IngestCounts {
    done: u64,
    replaced: u64,
    unchanged: u64,
    failed: u64,
    stopped: u64,
}

impl IngestCounts {
    fn conclude(&self, dataset: &Dataset) -> Outcome {
        let mut parts = vec![format!("{} read", plural(self.done, "document"))];
        let more = [
            (self.replaced, "replaced"),
            (self.unchanged, "unchanged"),
            (self.failed, "failed"),
            (self.stopped, "stopped"),
        ];
        parts.extend(
            more.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")),
        );
        let chunks = plural(dataset.counts.chunks, "chunk");
        Notes::line(format!("{}; `{}` now has {chunks}.", parts.join(", "), dataset.name));
        Ok(if self.failed > 0 { Exit::Failed } else { Exit::Done })
    }
}

/// Ingests documents in this process until all of them have ended, or the command is stopped.
async fn read_all(
    dataset: &Dataset,
    wanted: &[DocumentId],
    app: &App,
    setup: &Setup,
    told: &mut IngestCounts,
) -> Outcome<()> {
    let stop = CancellationToken::new();
    let pace = WorkerPace { concurrency: setup.config.worker.documents_at_once, ..WorkerPace::default() };
    let pipelines = Arc::new(weft_app::pipelines::Pipelines::of(app));
    let worker = IngestWorker::new(Arc::clone(&app.library), pace).with_pipelines(pipelines);
    let mut watch = Watch::new(wanted.len());
    let watching = async {
        let interrupted = tokio::select! {
            seen = watch.until_all_end(dataset, wanted, app, told) => seen.map(|()| false),
            () = stopped() => Ok(true),
        };
        stop.cancel();
        interrupted
    };
    // The worker's future is large; boxing keeps it off the stack.
    let (interrupted, ()) = futures::join!(watching, Box::pin(worker.run(&stop, GRACE)));
    watch.close();
    if interrupted? {
        return Err(told_how_to_go_on(dataset, setup));
    }
    Ok(())
}

/// Completes the index after a process was killed between parsing and indexing. Also run if nothing is left to
/// ingest.
async fn make_findable(dataset: &Dataset, app: &App, setup: &Setup) -> Outcome<()> {
    tokio::select! {
        repaired = app.library.repair_dataset(&dataset.key) => Ok(repaired.map(drop)?),
        () = stopped() => Err(told_how_to_go_on(dataset, setup)),
    }
}

/// Prints how to continue after the command was stopped.
fn told_how_to_go_on(dataset: &Dataset, setup: &Setup) -> Failure {
    let command = format!("weft dataset ingest {}{}", quoted(&dataset.name), setup.same_place);
    Notes::line(format!("Stopped. Finished documents are kept; `{command}` continues."));
    Failure::Reported(Exit::Failed)
}

/// Progress: a bar on a terminal, and otherwise occasional lines.
struct Watch {
    bar: Option<LiveLine>,
    ended: HashMap<DocumentId, DocumentState>,
    share_told: f64,
}

impl Watch {
    fn new(count: usize) -> Self {
        let bar = Notes::is_terminal().then(|| {
            let bar = LiveLine::filling(1_000);
            bar.count(&format!("0 of {count}"));
            bar
        });
        Self { bar, ended: HashMap::new(), share_told: 0.0 }
    }

    async fn until_all_end(
        &mut self,
        dataset: &Dataset,
        wanted: &[DocumentId],
        app: &App,
        told: &mut IngestCounts,
    ) -> Outcome<()> {
        loop {
            let looked = Instant::now();
            // One query for all of them instead of one each.
            let seen = documents(&dataset.key, &[], app).await?;
            let seen: BTreeMap<&DocumentId, &Document> = seen.iter().map(|one| (&one.key.id, one)).collect();
            let mut share = 0.0;
            let mut message = String::new();
            for id in wanted {
                // A document that was removed counts as done, too.
                let Some(document) = seen.get(id) else {
                    self.ended.entry(id.clone()).or_insert(DocumentState::Cancelled);
                    share += 1.0;
                    continue;
                };
                match document.state {
                    DocumentState::Running | DocumentState::Unstarted => {
                        share += document.progress.clamp(0.0, 1.0);
                        if document.progress > 0.0 && message.is_empty() {
                            message = format!("{}: {}", document.name, document.message);
                        }
                    }
                    state => {
                        share += 1.0;
                        if self.ended.insert(id.clone(), state).is_none() {
                            self.end(document, told);
                        }
                    }
                }
            }
            self.show(share / wanted.len().max(1) as f64, wanted.len(), &message);
            if self.ended.len() >= wanted.len() {
                return Ok(());
            }
            // Checking many documents takes a while itself.
            tokio::time::sleep(LOOK_EVERY.max(looked.elapsed() * LOOKS_APART)).await;
        }
    }

    fn end(&mut self, document: &Document, told: &mut IngestCounts) {
        let line = match document.state {
            DocumentState::Done => {
                told.done += 1;
                let noticed = noticed(&document.message);
                (!noticed.is_empty()).then(|| format!("  {}: {noticed}", document.name))
            }
            DocumentState::Failed => {
                told.failed += 1;
                Some(format!("  {}: {}", document.name, document.message))
            }
            _ => {
                told.stopped += 1;
                Some(format!("  {}: stopped", document.name))
            }
        };
        let Some(line) = line else { return };
        match &self.bar {
            Some(bar) => bar.tell(&line),
            None => Notes::line(line),
        }
    }

    fn show(&mut self, share: f64, count: usize, message: &str) {
        let done = format!("{} of {count}", self.ended.len());
        match &self.bar {
            Some(bar) => {
                // For a share between 0 and 1 this is at most the length of the bar.
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
                bar.fill((share.clamp(0.0, 1.0) * 1_000.0) as u64);
                bar.count(&done);
                bar.say(message);
            }
            None if share - self.share_told >= LINE_EVERY => {
                self.share_told = share;
                let (ended, all) = (self.ended.len(), plural(count, "document"));
                Notes::line(format!("  {:.0} %, {ended} of {all}", share * 100.0));
            }
            None => {}
        }
    }

    fn close(&self) {
        if let Some(bar) = &self.bar {
            bar.end();
        }
    }
}

/// Returns the notes of a finished document. That the dataset is only searched by words is reported once, separately.
fn noticed(message: &str) -> &str {
    let between = ['.', ' '];
    let rest = message.strip_prefix("Task done").unwrap_or(message).trim_start_matches(between);
    rest.strip_prefix(WORDS_ALONE).unwrap_or(rest).trim_start_matches(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_warnings_are_shown_from_a_progress_message() {
        assert_eq!(noticed("Task done"), "");
        assert_eq!(noticed(&format!("Task done. {WORDS_ALONE}")), "");
        assert_eq!(noticed(&format!("Task done. {WORDS_ALONE}. a page is empty")), "a page is empty");
        assert_eq!(noticed("Task done. a page is empty"), "a page is empty");
    }
}
