//! `weft eval record`: writes an eval from questions that are asked now, or from past runs.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use weft_app::App;
use weft_core::effect::Match;
use weft_core::seam::run_store::{RunFilter, StoredRun};
use weft_core::{CanvasKey, Ending, Record, RunId, RunKey};
use weft_engine::recording::Recording;
use weft_eval::case::Taken;
use weft_eval::file::{Case, RecordedCase, Turn};
use weft_eval::{Mode, Observed, Subject, record};

use super::loaded::{refused, subject};
use super::output::{must_have_folder, write};
use crate::args::EvalRecordArgs;
use crate::chosen_tenant::tenant;
use crate::documents;
use crate::failure::{Exit, Failure, Outcome};
use crate::form::{keep_typed, of_start};
use crate::run::inputs;
use crate::runs::stored::found;
use crate::screen::Notes;
use crate::setup::Setup;
use crate::words::plural;

/// The name of the only case of a new file.
const CASE: &str = "run";
/// Maximum number of turns before the recorded one.
const TURNS_MAX: u64 = 1_000;

/// Records questions that are asked now.
///
/// # Errors
/// When the canvas cannot run, or the file cannot be written.
pub(super) async fn now(args: &EvalRecordArgs, setup: &Setup) -> Outcome {
    // Checked before models are called and paid for.
    must_be_free(args)?;
    let canvas = args.canvas.clone().unwrap_or_default();
    let mut turns: Vec<Turn> =
        args.queries.iter().map(|query| Turn { query: query.clone(), ..Turn::default() }).collect();
    if turns.is_empty() {
        turns.push(Turn::default());
    }
    turns[0].inputs = inputs("--input", &args.inputs)?;
    // With the datasets and memories of the data folder. Runs of evals are never stored.
    let app = weft_app::assemble(&setup.config).await.map_err(|error| Failure::before_running(&error))?;
    Notes::line(&setup.model);
    let recorded = ask(args, &app, setup, turns).await;
    app.shut_down(Duration::ZERO).await?;
    let (turns, case) = recorded?;
    finish(args, &canvas, turns, case)
}

async fn ask(
    args: &EvalRecordArgs,
    app: &App,
    setup: &Setup,
    mut turns: Vec<Turn>,
) -> Outcome<(Vec<(Turn, Observed)>, RecordedCase)> {
    let canvas = args.canvas.clone().unwrap_or_default();
    let subject = subject(&canvas, app, setup, Mode::Live).await?;
    if let Some(first) = turns.first_mut() {
        keep_typed(&mut first.inputs, &args.inputs, &[of_start(&subject.plan)]);
    }
    let case = Case { name: CASE.to_owned(), turns, recorded: None };
    let report = Box::pin(subject.run(&case, Mode::Live)).await;
    if let Some(error) = report.error {
        return Err(Failure::failed(format!("it cannot be recorded: {error}")));
    }
    let Some(recorded) = report.recorded else {
        return Err(Failure::failed("nothing was recorded"));
    };
    let seen = report.turns.into_iter().map(|turn| turn.seen);
    Ok((case.turns.into_iter().zip(seen).collect(), recorded))
}

/// Records a past run.
///
/// # Errors
/// When there is no such run, or it cannot be replayed from its journal.
pub(super) async fn past(args: &EvalRecordArgs, setup: &Setup) -> Outcome {
    must_be_free(args)?;
    let id = args.run.clone().unwrap_or_default();
    let app = weft_app::assemble(&setup.config).await.map_err(|error| Failure::before_running(&error))?;
    let taken = take(&RunKey::new(&tenant(), RunId::from(id.as_str())), args, &app, setup).await;
    app.shut_down(Duration::ZERO).await?;
    let (canvas, turns, case) = taken?;
    finish(args, &canvas, turns, case)
}

async fn take(
    key: &RunKey,
    args: &EvalRecordArgs,
    app: &App,
    setup: &Setup,
) -> Outcome<(PathBuf, Vec<(Turn, Observed)>, RecordedCase)> {
    let run = found(key, app).await?;
    let canvas = match &args.canvas {
        Some(canvas) => canvas.clone(),
        None => canvas_of(app, &run).await?,
    };
    // It is replayed from its journal, so nothing external has to exist.
    let mut subject: Subject = subject(&canvas, app, setup, Mode::Recorded).await?;
    subject.session.id = run.session.clone();
    let mut taken = Vec::new();
    for run in turns_up_to(app, &run).await? {
        taken.push(taken_from(app, &run).await?);
    }
    let again = Box::pin(subject.again(&taken)).await?;
    let mut turns = Vec::new();
    let mut recorded = Vec::new();
    for (Taken { input, .. }, (turn, calls, seen)) in taken.into_iter().zip(again) {
        if let Some(call) = calls.iter().find(|call| call.answered == Match::Lacking) {
            let message = format!(
                "run {} cannot be rerun: its journal has no answer to the call {} of {}",
                key.id, call.key, call.node
            );
            return Err(Failure::failed(message).help(
                "the canvas or its models have changed since: name the version that it ran, or record it again",
            ));
        }
        turns.push((Turn::of(input), seen));
        recorded.push(turn);
    }
    Ok((canvas, turns, RecordedCase { case: CASE.to_owned(), turns: recorded }))
}

/// Returns the file of the canvas; it is known for canvases that were run from one.
async fn canvas_of(app: &App, run: &StoredRun) -> Outcome<PathBuf> {
    let canvas = app.canvases.get(&CanvasKey::new(&run.key.tenant, run.canvas.clone())).await?;
    if let Some(path) = documents::file_of(&canvas.head) {
        return Ok(path.to_owned());
    }
    let message = format!("the file of the canvas `{}` of run {} is not known", run.canvas, run.key.id);
    Err(Failure::usage(message).help("name its file: weft eval record CANVAS --run ID -o FILE"))
}

/// Returns the runs of a session up to one of them, in order.
async fn turns_up_to(app: &App, run: &StoredRun) -> Outcome<Vec<StoredRun>> {
    let filter =
        // One more than allowed shows that there are too many.
        RunFilter { session: Some(run.session.clone()), limit: TURNS_MAX + 1, ..RunFilter::default() };
    let mut runs = app.runs.list(&run.key.tenant, &filter).await?;
    if runs.len() as u64 > TURNS_MAX {
        return Err(Failure::usage(format!("session {} has more than {TURNS_MAX} turns", run.session)));
    }
    // The list begins with the newest.
    runs.reverse();
    let at = runs.iter().position(|known| known.key == run.key).map_or(0, |at| at + 1);
    runs.truncate(at);
    Ok(runs)
}

async fn taken_from(app: &App, run: &StoredRun) -> Outcome<Taken> {
    let entries = app.engine.journal(&run.key).await?;
    let begun = entries.first().map(|entry| &entry.record);
    let Some(Record::RunStarted { input, seed, resumes, reply, now_ms, forks, .. }) = begun else {
        return Err(Failure::failed(format!("the journal of run {} has no beginning", run.key.id)));
    };
    if forks.is_some() {
        return Err(Failure::usage(format!(
            "run {} is a fork: its first steps belong to another run",
            run.key.id
        ))
        .help("record the run that it was forked from"));
    }
    let mut input = (**input).clone();
    if resumes.is_some() {
        // A reply of a person is the question of a resumed turn.
        input.query.clone_from(reply);
    }
    let answers = Recording::of(&entries).answers();
    Ok(Taken { input, seed: *seed, now_ms: *now_ms, answers })
}

fn must_be_free(args: &EvalRecordArgs) -> Outcome<()> {
    if args.output.exists() && !args.force {
        return Err(Failure::usage(format!("the file {} already exists", args.output.display()))
            .help("name another one, or replace it with --force"));
    }
    must_have_folder(&args.output)
}

fn finish(
    args: &EvalRecordArgs,
    canvas: &Path,
    turns: Vec<(Turn, Observed)>,
    recorded: RecordedCase,
) -> Outcome {
    for (nth, (_, seen)) in (1..).zip(&turns).filter(|(_, (_, seen))| seen.ending == Ending::Failed) {
        let why = seen.error.as_deref().unwrap_or("no reason is known");
        Notes::line(format!("warning: turn {nth} failed, and the eval expects it to: {why}"));
    }
    let folder = args.output.parent().unwrap_or(Path::new(""));
    let count = recorded.turns.iter().flat_map(|turn| &turn.answers).map(|of| of.gave.len()).sum::<usize>();
    let file = record::file(relative(canvas, folder), turns, recorded);
    let text = record::text(&file).map_err(|invalid| refused("the eval cannot be written", invalid))?;
    write(&args.output, &text)?;
    let expected: usize = file.turns.iter().map(|turn| turn.expect.len()).sum();
    let shown = args.output.display();
    let told = [(file.turns.len(), "turn"), (count, "recorded answer"), (expected, "expectation")];
    let told = told.map(|(count, what)| plural(count as u64, what));
    Notes::line(format!("{shown}: {}", told.join(", ")));
    Notes::line(format!("review its expectations, then run: weft eval {shown}"));
    Ok(Exit::Done)
}

/// Returns the path from a folder to a file.
fn relative(file: &Path, folder: &Path) -> PathBuf {
    let whole = |path: &Path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        // Links are resolved, because `..` after one of them would lead elsewhere.
        whole.canonicalize().unwrap_or(whole)
    };
    let (file, folder) = (whole(file), whole(folder));
    let (to, from): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (file.components().collect(), folder.components().collect());
    let common = to.iter().zip(&from).take_while(|(a, b)| a == b).count();
    let up = from.iter().skip(common).map(|_| Component::ParentDir);
    up.chain(to.iter().skip(common).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_between_files() {
        let check = |file: &str, folder: &str, way: &str| {
            assert_eq!(relative(Path::new(file), Path::new(folder)), Path::new(way));
        };
        check("/none/a/canvas.json", "/none/a", "canvas.json");
        check("/none/a/canvas.json", "/none/b/c", "../../a/canvas.json");
        check("/none/a/canvas.json", "/none", "a/canvas.json");
    }
}
