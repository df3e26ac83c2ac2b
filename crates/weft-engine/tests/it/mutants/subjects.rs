//! The canvases that are changed, and how each is run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_core::seam::FileStore as _;
use weft_core::seam::file_store::StoredFile;
use weft_core::{Json, TurnInput};
use weft_dsl::Plan;
use weft_models::script::Reply;
use weft_models::scripted::ScriptedModel;

use crate::golden::{Conversation, conversations, read, samples as folder_of_samples, told, world_in};
use crate::real::World;
use crate::survival::runtime;

/// A canvas and how it is run.
pub(super) struct Subject {
    pub name: String,
    pub canvas: Json,
    how: How,
    shared: bool,
}

enum How {
    /// With the script and the conversations beside it.
    Sample(PathBuf),
    /// On a document.
    Pipeline,
    /// With a question, and models that answer anything.
    Asked,
}

/// The document for pipelines.
const DOCUMENT: &str = "# Goods\n\nYou may return goods within 30 days.\n\n## By mail\n\n1. Pack them.\n2. Send them.\n\n# Payment\n\nBy card, or on account.\n";

impl Subject {
    /// Whether it was drawn by others, so that it may have errors of its own.
    pub(super) fn is_drawn_by_others(&self) -> bool {
        self.shared
    }

    /// Everything that it shows and requests.
    pub(super) fn run(&self, plan: &Arc<Plan>) -> String {
        runtime().block_on(async {
            let (world, conversations) = match &self.how {
                How::Sample(folder) => (world_in(folder).await, conversations(folder)),
                How::Asked => (answering(), vec![asked("a question", Vec::new())]),
                How::Pipeline => {
                    let world = answering();
                    let file = StoredFile {
                        id: "f1".into(),
                        name: "a.md".to_owned(),
                        mime_type: "text/markdown".to_owned(),
                        size: DOCUMENT.len() as u64,
                        session: None,
                        user: None,
                        created_ms: 0,
                    };
                    world.files.put(&"t".into(), &file, DOCUMENT.into()).await.unwrap();
                    (world, vec![asked("", vec!["File: a.md (f1)\n\n".into()])])
                }
            };
            let shown = told(&world, plan, conversations).await;
            format!("{shown}\n{:#?}\n{:#?}", world.model.requests(), world.http.requests())
        })
    }
}

/// A world whose models answer anything, and differently to each request.
fn answering() -> World {
    World::of(ScriptedModel::from_fn(|request, _| {
        let asked = serde_json::to_string(&request.messages).unwrap_or_default();
        Reply::text(format!("an answer to {} letters", asked.len()))
    }))
}

fn asked(query: &str, files: Vec<Json>) -> Conversation {
    let turn = TurnInput { query: query.to_owned(), files, ..TurnInput::default() };
    Conversation { shows: "a question".to_owned(), turns: vec![turn] }
}

fn in_order(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn subject(path: &Path, name: &str, how: How) -> Option<Subject> {
    let canvas = serde_json::from_str(&read(path)?).unwrap();
    Some(Subject { name: name.to_owned(), canvas, how, shared: false })
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// The sample canvases and the sample pipelines.
pub(super) fn samples() -> Vec<Subject> {
    let folders = in_order(&folder_of_samples()).into_iter().filter(|path| path.is_dir());
    let canvases = folders.filter_map(|folder| {
        subject(&folder.join("canvas.json"), &stem(&folder), How::Sample(folder.clone()))
    });
    let files = in_order(&folder_of_samples().join("../pipelines"));
    let pipelines = files.iter().filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let pipelines = pipelines.filter_map(|path| subject(path, &stem(path), How::Pipeline));
    canvases.chain(pipelines).collect()
}

/// The canvases drawn by others, from their folder if it exists, as far as they run.
pub(super) fn shared() -> Vec<Subject> {
    let Some(folder) = crate::shared::folder() else {
        weft_testkit::skipped("there is no folder of existing canvases (WEFT_SHARED)");
        return Vec::new();
    };
    let how = |canvas: &Json| match canvas.get("canvas_category").and_then(Json::as_str) {
        Some(weft_dsl::PIPELINE) => How::Pipeline,
        _ => How::Asked,
    };
    let drawn = in_order(&folder).into_iter().filter_map(|path| {
        let subject = subject(&path, &stem(&path), How::Asked)?;
        Some(Subject { how: how(&subject.canvas), shared: true, ..subject })
    });
    // One names nodes that it does not have.
    drawn.filter(|subject| crate::real::compiled(&subject.canvas.to_string()).is_ok()).collect()
}
