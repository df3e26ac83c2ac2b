//! `weft dataset`: managing and searching datasets from the terminal.

mod embed;
pub(crate) mod files;
mod ingest;
mod look;
mod search;

use std::time::Duration;

use weft_app::App;
use weft_core::filter::Metadata;
use weft_core::id::{DatasetId, DatasetKey, DocumentKey};
use weft_core::seam::canvas_store::PIPELINE_TYPE;
use weft_core::seam::dataset_store::{
    Dataset, DatasetCounts, DatasetFilter, Document, DocumentFilter, DocumentState, Settings,
};
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::seam::ingest_queue::Wanted;
use weft_core::value::Json;
use weft_core::{Error, ErrorKind};
use weft_knowledge::ingest::{Naming, PIPELINE};

use crate::args::{
    DatasetAddArgs, DatasetCommand, DatasetDocumentsArgs, DatasetMethodArgs, DatasetNameArgs,
    DatasetRemoveArgs,
};
use crate::chosen_tenant::tenant;
use crate::failure::{Exit, Failure, Outcome};
use crate::run::inputs;
use crate::screen::{Data, Notes};
use crate::setup::Setup;
use crate::words::{must_be_no_step, plural, quoted};

/// Number of datasets, or documents of one, in one page.
const PAGE: u64 = 500;

/// Returns whether a command may call a model.
pub(crate) fn asks_models(command: &DatasetCommand) -> bool {
    matches!(
        command,
        DatasetCommand::Add(_)
            | DatasetCommand::Ingest(_)
            | DatasetCommand::Search(_)
            | DatasetCommand::Embed(_)
    )
}

/// Executes a command for datasets.
///
/// # Errors
/// When there is no such dataset, a setting is not valid, or the data folder cannot be used.
pub(crate) async fn run(command: &DatasetCommand, setup: &Setup) -> Outcome {
    let app = weft_app::assemble(&setup.config).await.map_err(|error| Failure::before_running(&error))?;
    let done = match command {
        DatasetCommand::Add(args) => add(args, &app, setup).await,
        DatasetCommand::List(args) => look::list(args, &app).await,
        DatasetCommand::Show(args) => look::show(args, &app).await,
        DatasetCommand::Ingest(args) => ingest::run(args, &app, setup).await,
        DatasetCommand::Search(args) => search::run(args, &app).await,
        DatasetCommand::Chunks(args) => look::chunks(args, &app).await,
        DatasetCommand::Pause(args) => stop(args, Wanted::Pause, &app).await,
        DatasetCommand::Cancel(args) => stop(args, Wanted::Cancel, &app).await,
        DatasetCommand::Remove(args) => remove(args, &app).await,
        DatasetCommand::Reindex(args) => reindex(args, &app).await,
        DatasetCommand::Embed(args) => embed::run(args, &app, setup).await,
    };
    // Whatever the outcome, writes have to be on disk before the program ends.
    app.shut_down(Duration::ZERO).await?;
    done
}

async fn reindex(args: &DatasetNameArgs, app: &App) -> Outcome {
    let dataset = find(&args.dataset, app).await?;
    app.library.reindex(&dataset.key).await?;
    // Read again, for the counts of the new index.
    let Dataset { name, counts, .. } = find(dataset.key.id.as_str(), app).await?;
    let (documents, chunks) = (plural(counts.documents, "document"), plural(counts.chunks, "chunk"));
    Notes::line(format!("Rebuilt the index of `{name}`: {documents}, {chunks}."));
    Ok(Exit::Done)
}

async fn add(args: &DatasetAddArgs, app: &App, setup: &Setup) -> Outcome {
    let mut dataset = fresh(&args.name, args.embedder.as_deref(), &args.method, app)?;
    dataset.settings.extend(pipeline(&args.method, app, setup).await?);
    dataset.description = args.description.clone().unwrap_or_default();
    let made =
        app.library.create_dataset(dataset, Naming::Exact).await.map_err(|error| match error.kind {
            // The name is taken, so the caller has to choose another one.
            ErrorKind::Conflict => Failure::before_running(&error),
            _ => error.into(),
        })?;
    tell_embedder(&made);
    print(made.key.id.as_str())
}

/// Checks the options for a new dataset and creates it, without storing it.
fn fresh(name: &str, embedder: Option<&str>, cut: &DatasetMethodArgs, app: &App) -> Outcome<Dataset> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > 128 {
        return Err(Failure::usage("the name of a dataset has 1 to 128 characters"));
    }
    must_be_no_step("a dataset", name)?;
    let embedder = match embedder {
        Some("none") => String::new(),
        Some(named) => named.to_owned(),
        // Without any embedding model a dataset is only searched by words.
        None => app.models.embedder(&tenant(), "").map(|model| model.name().to_owned()).unwrap_or_default(),
    };
    Ok(Dataset {
        key: DatasetKey::new(&tenant(), DatasetId::generate()),
        name: name.to_owned(),
        avatar: String::new(),
        description: String::new(),
        language: "English".to_owned(),
        permission: "me".to_owned(),
        embedder,
        method: method(cut)?.unwrap_or_default(),
        settings: settings(cut)?,
        similarity_threshold: 0.2,
        vector_similarity_weight: 0.3,
        pagerank: 0,
        generation: 0,
        created_ms: 0,
        updated_ms: 0,
        revision: 0,
        counts: DatasetCounts::default(),
    })
}

fn tell_embedder(dataset: &Dataset) {
    Notes::line(match dataset.embedder.as_str() {
        "" => format!("`{}` has no embedding model: it is searched by words alone.", dataset.name),
        model => format!("`{}` uses the embedding model {model}.", dataset.name),
    });
}

fn method(args: &DatasetMethodArgs) -> Outcome<Option<ChunkMethod>> {
    let Some(named) = &args.method else { return Ok(None) };
    let parsed = serde_json::from_value(Json::from(named.trim().to_lowercase())).ok();
    parsed.filter(|method| ChunkMethod::ALL.contains(method)).map(Some).ok_or_else(|| {
        Failure::usage(format!("there is no chunk method {}", quoted(named))).help(
            "the methods are naive, book, laws, paper, manual, presentation, qa, table, one, email, tag, picture and resume",
        )
    })
}

fn settings(args: &DatasetMethodArgs) -> Outcome<Settings> {
    let settings = inputs("--set", &args.settings)?;
    weft_server::check_settings(&settings).map_err(|error| {
        let (what, help) = error.for_operator();
        Failure::usage(format!("cannot use --set: {what}")).help(help.unwrap_or_else(|| {
            "write --set KEY=VALUE; docs/documents.md and docs/datasets.md list the settings and their values"
                .to_owned()
        }))
    })?;
    Ok(settings)
}

/// Returns the setting that names the pipeline, whose canvas is stored. Empty without one.
async fn pipeline(args: &DatasetMethodArgs, app: &App, setup: &Setup) -> Outcome<Settings> {
    let Some(file) = &args.pipeline else { return Ok(Settings::new()) };
    let document = crate::document::Document::read(file)?;
    let opened = crate::local::store(app.clone(), setup, &document).await?;
    let stored = app.canvases.get(&opened.canvas).await?;
    if stored.head.canvas_type != PIPELINE_TYPE {
        let file = quoted(&file.to_string_lossy());
        return Err(Failure::usage(format!("{file} is an agent, not an ingestion pipeline"))
            .help("a pipeline starts with the component File; docs/documents.md describes its parts"));
    }
    Ok(Settings::from_iter([(PIPELINE.to_owned(), Json::from(opened.canvas.id.as_str()))]))
}

/// Finds a dataset by its name, else by its id.
async fn find(named: &str, app: &App) -> Outcome<Dataset> {
    maybe(named, app).await?.ok_or_else(|| {
        Failure::usage(format!("there is no dataset {}", quoted(named)))
            .help("`weft dataset list` shows the datasets of this data folder")
    })
}

async fn maybe(named: &str, app: &App) -> Outcome<Option<Dataset>> {
    let filter = DatasetFilter { name: Some(named.to_owned()), limit: 1, ..DatasetFilter::default() };
    let (found, _) = app.datasets.datasets(&tenant(), &filter).await?;
    if let Some(dataset) = found.into_iter().next() {
        return Ok(Some(dataset));
    }
    match app.datasets.dataset(&DatasetKey::new(&tenant(), named)).await {
        Ok(dataset) => Ok(Some(dataset)),
        // A name that is not a valid id is not a dataset either.
        Err(Error { kind: ErrorKind::NotFound | ErrorKind::Invalid, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns all documents of a dataset in one of these states, the oldest first.
async fn documents(key: &DatasetKey, states: &[DocumentState], app: &App) -> Outcome<Vec<Document>> {
    let mut all = Vec::new();
    loop {
        let filter = DocumentFilter {
            states: states.to_vec(),
            ascending: true,
            offset: all.len() as u64,
            limit: PAGE,
            ..DocumentFilter::default()
        };
        let (page, total) = app.datasets.documents(key, &filter).await?;
        let none = page.is_empty();
        all.extend(page);
        // Documents may be removed meanwhile, so that the total is never reached.
        if none || all.len() as u64 >= total {
            return Ok(all);
        }
    }
}

/// Finds a document of a dataset by its name, else by its id.
async fn document(dataset: &Dataset, named: &str, app: &App) -> Outcome<Document> {
    let filter = DocumentFilter { name: Some(named.to_owned()), limit: 1, ..DocumentFilter::default() };
    let (found, _) = app.datasets.documents(&dataset.key, &filter).await?;
    if let Some(document) = found.into_iter().next() {
        return Ok(document);
    }
    app.datasets.document(&DocumentKey::new(&dataset.key, named)).await.map_err(|error| match error.kind {
        ErrorKind::NotFound | ErrorKind::Invalid => {
            Failure::usage(format!("there is no document {} in `{}`", quoted(named), dataset.name))
                .help(format!("`weft dataset show {}` lists its documents", quoted(&dataset.name)))
        }
        _ => error.into(),
    })
}

async fn stop(args: &DatasetDocumentsArgs, wanted: Wanted, app: &App) -> Outcome {
    let dataset = find(&args.dataset, app).await?;
    let mut chosen = Vec::new();
    for named in &args.documents {
        chosen.push(document(&dataset, named, app).await?);
    }
    let open = match wanted {
        // A paused document would otherwise be continued later.
        Wanted::Cancel => &[DocumentState::Running, DocumentState::Paused][..],
        Wanted::Pause | Wanted::GoOn => &[DocumentState::Running],
    };
    if chosen.is_empty() {
        chosen = documents(&dataset.key, open, app).await?;
    }
    let mut stopped = 0;
    for (at, document) in chosen.iter().enumerate() {
        match app.library.stop(&document.key, wanted).await {
            Ok(()) => stopped += 1,
            Err(error) if error.kind == ErrorKind::Conflict => {
                // Without names all that were being read are chosen, and this one has ended in the meantime.
                if let Some(named) = args.documents.get(at) {
                    let show = format!("weft dataset show {}", quoted(&dataset.name));
                    return Err(Failure::usage(format!("{} is not being read", quoted(named)))
                        .help(format!("`{show}` lists the documents and their states")));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    let word = if wanted == Wanted::Pause { "paused" } else { "cancelled" };
    Notes::line(format!("{} {word}.", plural(stopped, "document")));
    if wanted == Wanted::Pause && stopped > 0 {
        Notes::line(format!("`weft dataset ingest {}` continues them.", quoted(&dataset.name)));
    }
    Ok(Exit::Done)
}

async fn remove(args: &DatasetRemoveArgs, app: &App) -> Outcome {
    let dataset = find(&args.dataset, app).await?;
    if args.all {
        app.library.remove_dataset(&dataset.key).await?;
        Notes::line(format!("The dataset `{}` is removed.", dataset.name));
        return Ok(Exit::Done);
    }
    // All are looked up before the first is removed, so that a wrong name removes nothing.
    let mut ids = Vec::new();
    for named in &args.documents {
        ids.push(document(&dataset, named, app).await?.key.id);
    }
    let removed = app.library.remove_documents(&dataset.key, &ids).await?;
    Notes::line(format!("Removed {} from `{}`.", plural(removed, "document"), dataset.name));
    Ok(Exit::Done)
}

fn print(line: &str) -> Outcome {
    let mut data = Data::stdout();
    data.line(line)?;
    data.flush()?;
    Ok(Exit::Done)
}

/// Parses metadata from the command line: strings, numbers and lists of them.
fn metadata(pairs: &[String]) -> Outcome<Metadata> {
    let metadata = inputs("--meta", pairs)?;
    let plain = |value: &Json| value.is_string() || value.is_number();
    for (key, value) in &metadata {
        let fits = value.as_array().map_or_else(|| plain(value), |list| list.iter().all(plain));
        if !fits {
            return Err(Failure::usage(format!(
                "the metadata {} is not a string, a number or a list of these",
                quoted(key)
            ))
            .help("write --meta year=2024 or --meta 'tags=[\"a\",\"b\"]'"));
        }
    }
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_metadata_are_read_or_refused() {
        let cut =
            |name: &str| DatasetMethodArgs { method: Some(name.to_owned()), ..DatasetMethodArgs::default() };
        assert_eq!(method(&cut("QA")).unwrap(), Some(ChunkMethod::Qa));
        assert_eq!(method(&DatasetMethodArgs::default()).unwrap(), None);
        assert_eq!(method(&cut("chapters")).unwrap_err().exit(), Exit::Usage);
        let pairs = |pairs: &[&str]| pairs.iter().map(|&pair| pair.to_owned()).collect::<Vec<_>>();
        let read = metadata(&pairs(&["year=2024", "tags=[\"a\",2]", "who=Ada"])).unwrap();
        assert_eq!(Json::Object(read), serde_json::json!({"year": 2024, "tags": ["a", 2], "who": "Ada"}));
        assert_eq!(metadata(&pairs(&["a={}"])).unwrap_err().exit(), Exit::Usage);
        assert_eq!(metadata(&pairs(&["a=true"])).unwrap_err().exit(), Exit::Usage);
        let set = |pair: &str| {
            settings(&DatasetMethodArgs { settings: pairs(&[pair]), ..DatasetMethodArgs::default() })
        };
        assert_eq!(set("chunk_token_num=64").unwrap()["chunk_token_num"], 64);
        for wrong in ["chunk_token_num=0", "overlapped_percent=0.1", "pages=[[2,1]]", "nonsense=1"] {
            assert_eq!(set(wrong).unwrap_err().exit(), Exit::Usage, "{wrong}");
        }
    }
}
