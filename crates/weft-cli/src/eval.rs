//! `weft eval`: recorded runs as tests.

mod find;
mod loaded;
mod output;
mod record;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weft_app::App;
use weft_eval::file::Case;
use weft_eval::report::{self, Strictness};
use weft_eval::{CaseReport, FileReport, Mode, Subject};

use self::loaded::Loaded;
use self::output::{must_have_folder, write};
use crate::args::{EvalArgs, EvalCommand};
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Data, LiveLine};
use crate::settings::{Environment, Flags};
use crate::setup::Setup;

/// Maximum number of concurrent cases that call models.
// Providers of models limit how many calls they accept at a time.
const LIVE_AT_ONCE: usize = 4;

/// Runs evals, or writes a new one.
///
/// # Errors
/// When a file is not valid, or a report cannot be written.
pub(crate) async fn run(args: &EvalArgs, environment: &Environment, mut flags: Flags) -> Outcome {
    match &args.command {
        Some(EvalCommand::Record(record)) => {
            flags.model.clone_from(&record.model);
            match record.run {
                Some(_) => record::past(record, &Setup::read(environment, &flags).await?).await,
                None => record::now(record, &Setup::read(environment, &flags).await?).await,
            }
        }
        None => {
            flags.model.clone_from(&args.model);
            let setup = if args.live {
                Setup::read(environment, &flags).await?
            } else {
                // No model is called, so none is looked for.
                Setup::without_models(environment, &flags)?
            };
            evaluate(args, &setup).await
        }
    }
}

async fn evaluate(args: &EvalArgs, setup: &Setup) -> Outcome {
    for report in [&args.junit, &args.html].into_iter().flatten() {
        must_have_folder(report)?;
    }
    let files = find::files(&args.files)?;
    let mode = if args.live { Mode::Live } else { Mode::Recorded };
    let app = match mode {
        // With the datasets and memories of the data folder. Runs of evals are never stored.
        Mode::Live => weft_app::assemble(&setup.config).await,
        Mode::Recorded => weft_app::assemble_in_memory(&setup.config).await,
    };
    let app = app.map_err(|error| Failure::before_running(&error))?;
    let evaluated = evaluated(args, setup, &app, mode, &files).await;
    app.shut_down(Duration::ZERO).await?;
    evaluated
}

async fn evaluated(
    args: &EvalArgs,
    setup: &Setup,
    app: &App,
    mode: Mode,
    files: &[std::path::PathBuf],
) -> Outcome {
    let mut all = Vec::new();
    let mut wrong = None;
    for file in files {
        match Loaded::read(file, app, setup, mode).await {
            Ok(loaded) => all.push(loaded),
            // All errors are reported together.
            Err(failure) => {
                crate::tell::tell(&failure);
                wrong = Some(failure.exit());
            }
        }
    }
    if let Some(exit) = wrong {
        return Err(Failure::Reported(exit));
    }
    if let Some(text) = &args.filter {
        all.iter_mut().for_each(|loaded| loaded.keep(text));
        all.retain(|loaded| !loaded.cases.is_empty());
        if all.is_empty() {
            return Err(Failure::usage(format!("no case has `{text}` in its file or name")));
        }
    }
    let at_once = usize::from(args.jobs.unwrap_or(0));
    let at_once = match (at_once, mode) {
        (0, Mode::Live) => LIVE_AT_ONCE,
        // Recorded cases wait for no server, so more of them than processors would not be faster.
        (0, Mode::Recorded) => std::thread::available_parallelism().map_or(1, usize::from),
        (jobs, _) => jobs,
    };
    let mut reports = run_all(&all, mode, at_once).await?;
    if args.update {
        for (loaded, report) in all.iter().zip(&reports) {
            loaded.update(report, args.filter.as_deref())?;
        }
    }
    let strictness = if args.strict { Strictness::Strict } else { Strictness::Lenient };
    reports = reports.into_iter().map(|report| report.judged(strictness)).collect();
    show(args, &reports)
}

/// Runs every case, several concurrently; returns the reports in the order of the files.
async fn run_all(all: &[Loaded], mode: Mode, at_once: usize) -> Outcome<Vec<FileReport>> {
    let work: Vec<(usize, Subject, Case)> = all
        .iter()
        .enumerate()
        .flat_map(|(at, loaded)| {
            loaded.cases.iter().map(move |case| (at, loaded.subject.clone(), case.clone()))
        })
        .collect();
    let bar = LiveLine::counting(work.len());
    let (work, next) = (Arc::new(work), Arc::new(AtomicUsize::new(0)));
    let (to_us, mut done) = mpsc::channel::<(usize, CaseReport)>(at_once);
    let mut workers = JoinSet::new();
    for _ in 0..at_once.min(work.len()) {
        let (work, next, to_us) = (Arc::clone(&work), Arc::clone(&next), to_us.clone());
        workers.spawn(async move {
            loop {
                // A counter for the cases, on which nothing else depends.
                let nth = next.fetch_add(1, Ordering::Relaxed);
                let Some((_, subject, case)) = work.get(nth) else { return };
                let report = Box::pin(subject.run(case, mode)).await;
                // Without a receiver, further reports are of no use.
                if to_us.send((nth, report)).await.is_err() {
                    return;
                }
            }
        });
    }
    // Dropped, so that the channel ends with the last worker.
    drop(to_us);
    // Reports arrive in the order of completion, but a file needs the order of its cases.
    let mut reports: Vec<Option<CaseReport>> = vec![None; work.len()];
    while let Some((nth, report)) = done.recv().await {
        bar.step();
        if !report.passed() {
            bar.say("some failed");
        }
        reports[nth] = Some(report);
    }
    bar.end();
    // A case that has panicked has sent no report.
    while let Some(ended) = workers.join_next().await {
        ended.map_err(|error| Failure::failed(format!("a case stopped unexpectedly: {error}")))?;
    }
    let mut files: Vec<FileReport> = all.iter().map(Loaded::report).collect();
    for ((at, ..), report) in work.iter().zip(reports) {
        files[*at].cases.extend(report);
    }
    Ok(files)
}

fn show(args: &EvalArgs, reports: &[FileReport]) -> Outcome {
    if let Some(path) = &args.junit {
        write(path, &report::junit(reports))?;
    }
    if let Some(path) = &args.html {
        write(path, &report::page(reports))?;
    }
    let mut data = Data::stdout();
    if args.json {
        data.line(&report::json(reports).to_string())?;
    } else {
        for file in reports {
            data.text(&file.lines())?;
        }
        data.line(&report::summary(reports))?;
    }
    data.flush()?;
    Ok(if reports.iter().all(FileReport::passed) { Exit::Done } else { Exit::Failed })
}
