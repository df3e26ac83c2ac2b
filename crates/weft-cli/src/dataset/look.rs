//! `weft dataset list`, `show` and `chunks`.

use serde_json::json;
use weft_app::App;
use weft_core::seam::dataset_store::{
    ChunkFilter, Dataset, DatasetFilter, Document, DocumentState, StoredChunk,
};
use weft_core::value::Json;

use super::{PAGE, document, documents, find};
use crate::args::{DatasetChunksArgs, DatasetListArgs, DatasetShowArgs};
use crate::chosen_tenant::tenant;
use crate::failure::{Exit, Outcome};
use crate::screen::{Data, Notes};
use crate::sources;
use crate::words::plural;

/// Prints a line per dataset.
///
/// # Errors
/// When the store cannot be read.
pub(super) async fn list(args: &DatasetListArgs, app: &App) -> Outcome {
    let mut data = Data::stdout();
    let mut offset = 0;
    loop {
        let filter = DatasetFilter { ascending: true, offset, limit: PAGE, ..DatasetFilter::default() };
        let (page, total) = app.datasets.datasets(&tenant(), &filter).await?;
        if page.is_empty() && offset == 0 {
            Notes::line("there are no datasets; `weft dataset ingest NAME FOLDER` creates one");
        }
        for dataset in &page {
            data.line(&if args.json { dataset_json(dataset).to_string() } else { dataset_line(dataset) })?;
        }
        offset += page.len() as u64;
        // Datasets may be removed meanwhile, so that the total is never reached.
        if page.is_empty() || offset >= total {
            data.flush()?;
            return Ok(Exit::Done);
        }
    }
}

fn dataset_json(dataset: &Dataset) -> Json {
    json!({
        "id": dataset.key.id, "name": dataset.name, "embedding_model": dataset.embedder, "chunk_method": dataset.method,
        "document_count": dataset.counts.documents, "chunk_count": dataset.counts.chunks, "token_num": dataset.counts.tokens,
    })
}

fn dataset_line(dataset: &Dataset) -> String {
    let embedder = if dataset.embedder.is_empty() { "words alone" } else { &dataset.embedder };
    let counts = dataset.counts;
    format!(
        "{}  {}  {}, {}  {embedder}",
        dataset.key.id,
        dataset.name,
        plural(counts.documents, "document"),
        plural(counts.chunks, "chunk")
    )
}

/// Prints a dataset and a line per document.
///
/// # Errors
/// When there is no such dataset, or the store cannot be read.
pub(super) async fn show(args: &DatasetShowArgs, app: &App) -> Outcome {
    let dataset = find(&args.dataset, app).await?;
    let mut data = Data::stdout();
    if !args.json {
        data.line(&dataset_line(&dataset))?;
    }
    for document in documents(&dataset.key, &[], app).await? {
        data.line(&if args.json { document_json(&document).to_string() } else { document_line(&document) })?;
    }
    data.flush()?;
    Ok(Exit::Done)
}

fn document_json(document: &Document) -> Json {
    json!({
        "id": document.key.id, "name": document.name, "size": document.size, "chunk_method": document.method,
        "state": document.state, "progress": document.progress, "message": document.message, "metadata": document.metadata,
        "enabled": document.enabled, "chunk_count": document.chunk_count, "token_count": document.token_count,
    })
}

fn document_line(document: &Document) -> String {
    let state = match document.state {
        DocumentState::Unstarted => "not read".to_owned(),
        DocumentState::Running => format!("{:.0} %", document.progress * 100.0),
        DocumentState::Paused => format!("paused at {:.0} %", document.progress * 100.0),
        DocumentState::Cancelled => "cancelled".to_owned(),
        DocumentState::Done => plural(document.chunk_count, "chunk"),
        DocumentState::Failed => format!("failed: {}", document.message),
    };
    format!("  {}  {}  {state}", document.key.id, document.name)
}

/// Prints the chunks of a document.
///
/// # Errors
/// When there is no such document, or the store cannot be read.
pub(super) async fn chunks(args: &DatasetChunksArgs, app: &App) -> Outcome {
    let dataset = find(&args.dataset, app).await?;
    let document = document(&dataset, &args.document, app).await?;
    let mut data = Data::stdout();
    let mut offset = 0;
    loop {
        let filter = ChunkFilter { offset, limit: PAGE, ..ChunkFilter::default() };
        let (page, total) = app.datasets.chunks(&document.key, &filter).await?;
        for chunk in &page {
            if args.json {
                data.line(&chunk_json(chunk).to_string())?;
            } else {
                data.text(&chunk_text(chunk))?;
            }
        }
        offset += page.len() as u64;
        if page.is_empty() || offset >= total {
            data.flush()?;
            return Ok(Exit::Done);
        }
    }
}

fn chunk_json(chunk: &StoredChunk) -> Json {
    let positions: Vec<Json> = chunk.positions.iter().map(|position| position.as_json()).collect();
    json!({
        "id": chunk.id, "content": chunk.content, "headings": chunk.headings, "positions": positions,
        "important_keywords": chunk.keywords, "questions": chunk.questions, "available": chunk.available, "tokens": chunk.tokens,
    })
}

fn chunk_text(chunk: &StoredChunk) -> String {
    let pages = sources::pages(chunk.positions.iter().map(|position| position.page.into()));
    let pages = pages.map(|pages| format!(", {pages}")).unwrap_or_default();
    let hidden = if chunk.available { "" } else { ", hidden" };
    let tokens = plural(chunk.tokens, "token");
    format!("── {}: {tokens}{pages}{hidden}\n{}\n\n", chunk.id, chunk.content)
}
