//! `weft dataset embed`: re-embeds a dataset in this process.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weft_app::App;
use weft_core::ErrorKind;
use weft_core::seam::dataset_store::Dataset;
use weft_core::seam::reembedding_store::{Reembedding, ReembeddingState};
use weft_knowledge::ingest::{Reembedder, ReembedderPace};

use super::{find, tell_embedder};
use crate::args::DatasetEmbedArgs;
use crate::chosen_tenant::tenant;
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::Notes;
use crate::setup::Setup;
use crate::signals::stopped;
use crate::words::quoted;

/// How often to check the progress.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Progress between two lines.
const LINE_EVERY: f64 = 0.1;

pub(super) async fn run(args: &DatasetEmbedArgs, app: &App, setup: &Setup) -> Outcome {
    let dataset = find(&args.dataset, app).await?;
    if let Some(named) = &args.embedder {
        let embedder = match named.as_str() {
            "none" => String::new(),
            named => app.models.embedder(&tenant(), named)?.name().to_owned(),
        };
        if embedder.is_empty() && dataset.embedder.is_empty() && !is_running(&dataset, app).await? {
            let name = &dataset.name;
            Notes::line(format!("`{name}` has no vectors to remove: it is searched by words alone."));
            return Ok(Exit::Done);
        }
        app.reembeddings.begin(&dataset.key, &embedder, app.clock.now_ms()).await?;
    } else if !is_running(&dataset, app).await? {
        return Err(Failure::usage(format!("`{}` is not being re-embedded", dataset.name))
            .help("name the new model with --embedder"));
    }
    let stop = CancellationToken::new();
    let (library, tasks) = (Arc::clone(&app.library), Arc::clone(&app.reembeddings));
    let worker = Reembedder::new(library, tasks, ReembedderPace::default());
    let watching = async {
        let ended = tokio::select! {
            ended = until_end(&dataset, app) => ended.map(Some),
            () = stopped() => Ok(None),
        };
        // The worker has to end in either case, because it is joined below.
        stop.cancel();
        ended
    };
    let (ended, ()) = futures::join!(watching, Box::pin(worker.run(&stop)));
    let Some(task) = ended? else {
        let command = format!("weft dataset embed {}{}", quoted(&dataset.name), setup.same_place);
        Notes::line(format!("Stopped. Finished work is kept; `{command}` continues."));
        return Err(Failure::Reported(Exit::Failed));
    };
    match task.state {
        ReembeddingState::Running | ReembeddingState::Done => {
            tell_embedder(&find(dataset.key.id.as_str(), app).await?);
            Ok(Exit::Done)
        }
        ReembeddingState::Failed | ReembeddingState::Cancelled => {
            let why = if task.message.is_empty() { "it was cancelled" } else { &task.message };
            Notes::line(format!("`{}` keeps the vectors that it has: {why}.", dataset.name));
            Err(Failure::Reported(Exit::Failed))
        }
    }
}

async fn last(dataset: &Dataset, app: &App) -> Outcome<Option<Reembedding>> {
    Ok(app.reembeddings.last(&dataset.key).await?)
}

async fn is_running(dataset: &Dataset, app: &App) -> Outcome<bool> {
    Ok(last(dataset, app).await?.is_some_and(|task| task.state == ReembeddingState::Running))
}

/// Waits for the end of the task, in whichever process it is executed, and prints the progress.
async fn until_end(dataset: &Dataset, app: &App) -> Outcome<Reembedding> {
    let (mut share_told, mut said) = (0.0, String::new());
    loop {
        let Some(task) = last(dataset, app).await? else {
            let gone = weft_core::Error::new(ErrorKind::NotFound, "the dataset was removed meanwhile");
            return Err(gone.into());
        };
        if task.state != ReembeddingState::Running {
            return Ok(task);
        }
        // A message without progress is printed once.
        let stands = task.progress >= 0.99 && task.message != said;
        if task.progress - share_told >= LINE_EVERY || stands {
            Notes::line(format!("  {:.0} %: {}", task.progress * 100.0, task.message));
            (share_told, said) = (task.progress, task.message);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
