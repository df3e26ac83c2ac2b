//! `weft models`: adds models that run within Weft's own process, and lists all known models.

use serde_json::json;
use weft_app::assemble::installed::{self, InstalledNote};
use weft_app::{ModelEntry, ModelsConfig};
use weft_core::seam::chat_model::ModelKind;

use crate::args::{ModelsAddArgs, ModelsCommand, ModelsListArgs};
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Data, Notes, harmless};
use crate::setup::Setup;

/// Adds or lists models.
///
/// # Errors
/// When a folder contains no usable model, or its files cannot be copied.
pub(crate) fn run(command: &ModelsCommand, setup: &Setup) -> Outcome {
    match command {
        ModelsCommand::Add(args) => add(args, setup),
        ModelsCommand::List(args) => list(args, setup),
    }
}

fn add(args: &ModelsAddArgs, setup: &Setup) -> Outcome {
    if !cfg!(feature = "local-embedder") {
        return Err(Failure::usage("this build runs no models in its own process")
            .help("build with `--features local-embedder`, or name a server in `models.entries`"));
    }
    // From the absolute path, because `.` has no name.
    let own = std::path::absolute(&args.folder).ok();
    let own = own.as_deref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
    let Some(name) = args.name.as_deref().or(own) else {
        return Err(
            Failure::usage("the folder has no name to name the model after").help("give one with --name")
        );
    };
    // Checked before anything is copied.
    let kind = installed::inspect(&args.folder).map_err(|error| Failure::before_running(&error))?;
    let note = InstalledNote {
        kind,
        default: args.default,
        query_prefix: args.query_prefix.clone(),
        passage_prefix: args.passage_prefix.clone(),
    };
    if kind == ModelKind::Rerank && (note.query_prefix.is_some() || note.passage_prefix.is_some()) {
        return Err(Failure::usage("a reranker takes no prefixes"));
    }
    let models = setup.config.models_folder();
    let added = installed::install(&models, &args.folder, name, &note);
    let added = added.map_err(|error| Failure::before_running(&error))?;
    let what = match kind {
        ModelKind::Rerank => "the reranker",
        _ => "the embedder",
    };
    Notes::line(harmless(&format!(
        "added {what} `{name}@local` in {}; a running server uses it from its next start",
        added.folder.display()
    )));
    let others = of_kind(&all(setup), kind).count();
    if !args.default && others > 1 {
        Notes::line(format!(
            "there are {others} of its kind: name it where needed, or add one with --default"
        ));
    }
    Ok(Exit::Done)
}

/// Returns all models that a server would have.
fn all(setup: &Setup) -> ModelsConfig {
    setup.config.models.clone().with_installed(&setup.config.models_folder())
}

fn of_kind(models: &ModelsConfig, kind: ModelKind) -> impl Iterator<Item = &ModelEntry> {
    models.entries.iter().filter(move |entry| entry.kind == kind)
}

fn list(args: &ModelsListArgs, setup: &Setup) -> Outcome {
    let models = all(setup);
    if models.entries.is_empty() {
        Notes::line(
            "no models are configured; `weft models add FOLDER` adds one, docs/models.md describes other ways",
        );
    }
    let mut data = Data::stdout();
    for entry in &models.entries {
        let kind = serde_json::to_value(entry.kind).unwrap_or_default();
        let is_default = is_default(&models, entry);
        let line = if args.json {
            json!({"name": entry.full_name(), "kind": kind, "default": is_default, "folder": entry.path})
                .to_string()
        } else {
            let mark = if is_default { " (default)" } else { "" };
            let place = entry.path.as_ref().map(|path| format!("  {}", path.display())).unwrap_or_default();
            format!("{:<12}{}{mark}{place}", kind.as_str().unwrap_or_default(), entry.full_name())
        };
        data.line(&harmless(&line))?;
    }
    data.flush()?;
    Ok(Exit::Done)
}

/// Returns whether an entry is the default: it is configured so, or is the only one of its kind.
fn is_default(models: &ModelsConfig, entry: &ModelEntry) -> bool {
    let set = match entry.kind {
        ModelKind::Chat | ModelKind::Vision => &models.default,
        ModelKind::Embedding => &models.default_embedding,
        ModelKind::Rerank => &models.default_rerank,
        ModelKind::Speech => &models.default_speech,
        ModelKind::Tts => &models.default_tts,
        ModelKind::Ocr => &None,
    };
    match set {
        Some(name) => *name == entry.name,
        None => entry.kind != ModelKind::Ocr && of_kind(models, entry.kind).count() == 1,
    }
}
