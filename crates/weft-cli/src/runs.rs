//! `weft runs`: past and interrupted runs.

mod cancel;
mod fact;
mod past_runs;
pub(crate) mod stored;

use std::time::Duration;

use serde_json::json;
use weft_app::{App, DEFAULT_TENANT};
use weft_core::seam::run_store::{Retention, RunFilter, StoredRun};
use weft_core::{Ending, RunId, RunKey, SessionId};
use weft_engine::session::date;

use self::fact::entry_line;
use self::stored::{found, gone_on, short};
use crate::args::{
    RunsCancelArgs, RunsCommand, RunsDiffArgs, RunsForkArgs, RunsListArgs, RunsPruneArgs, RunsReplayArgs,
    RunsResumeArgs, RunsShowArgs,
};
use crate::chosen_tenant::{choose, tenant};
use crate::documents;
use crate::failure::{Exit, Failure, Outcome};
use crate::listed::first;
use crate::local::each_entry;
use crate::screen::{Data, Notes};
use crate::setup::Setup;
use crate::words::{plural, quoted};

/// Maximum number of runs that are listed when nothing is removed.
const SHOWN_MAX: u64 = 10_000;

/// What a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// The models, which are looked for.
    Models,
    /// Whatever the settings name.
    Settings,
    /// Only the store.
    Store,
}

/// Returns what a command needs: only a resumed or forked run calls models.
pub(crate) fn needs(command: &RunsCommand) -> Needs {
    match command {
        RunsCommand::Resume(_) | RunsCommand::Fork(_) => Needs::Models,
        RunsCommand::Cancel(_) | RunsCommand::Replay(_) => Needs::Settings,
        RunsCommand::List(_) | RunsCommand::Show(_) | RunsCommand::Prune(_) | RunsCommand::Diff(_) => {
            Needs::Store
        }
    }
}

/// Lists runs or shows one.
///
/// # Errors
/// When there is no such run, or the store cannot be read.
pub(crate) async fn run(command: &RunsCommand, setup: &Setup) -> Outcome {
    match command {
        RunsCommand::List(RunsListArgs { tenant, .. })
        | RunsCommand::Show(RunsShowArgs { tenant, .. })
        | RunsCommand::Cancel(RunsCancelArgs { tenant, .. })
        | RunsCommand::Resume(RunsResumeArgs { tenant, .. })
        | RunsCommand::Replay(RunsReplayArgs { tenant, .. })
        | RunsCommand::Fork(RunsForkArgs { tenant, .. })
        | RunsCommand::Diff(RunsDiffArgs { tenant, .. }) => choose(tenant)?,
        // The retention rules apply to all tenants.
        RunsCommand::Prune(_) => {}
    }
    let app = setup.open().await?;
    let shown = match command {
        RunsCommand::List(args) => list(args, &app).await,
        RunsCommand::Show(args) => show(args, &app).await,
        // Boxed: it may have to resume the run.
        RunsCommand::Cancel(args) => Box::pin(cancel::cancel(args, &app)).await,
        RunsCommand::Resume(args) => resume(args, &app, setup).await,
        RunsCommand::Prune(args) => prune(args, &app, setup).await,
        RunsCommand::Replay(args) => past_runs::replay(args, &app).await,
        RunsCommand::Fork(args) => past_runs::fork(args, &app, setup).await,
        RunsCommand::Diff(args) => past_runs::diff(args, &app).await,
    };
    app.shut_down(Duration::ZERO).await?;
    shown
}

async fn list(args: &RunsListArgs, app: &App) -> Outcome {
    let session = args.session.as_deref().map(SessionId::from);
    // One more than is shown, to detect whether there are others.
    let filter = RunFilter { session, limit: args.limit + 1, ..RunFilter::default() };
    let runs = first(app.runs.list(&tenant(), &filter).await?, args.limit, "--limit shows more");
    let mut data = Data::stdout();
    if runs.is_empty() {
        let nothing = args.session.as_ref().map(|id| format!("there are no runs in session {}", quoted(id)));
        Notes::line(nothing.unwrap_or_else(|| "there are no runs yet".to_owned()));
    }
    for run in &runs {
        data.line(&if args.json { json_line(run) } else { list_line(run) })?;
    }
    data.flush()?;
    Ok(Exit::Done)
}

/// Resumes interrupted runs, one after the other, and waits for their ends.
async fn resume(args: &RunsResumeArgs, app: &App, setup: &Setup) -> Outcome {
    let named = match &args.id {
        Some(id) => Some(unfinished(id, app, &setup.same_place).await?),
        None => None,
    };
    if app.cut_off().await?.is_empty() {
        // The end of processes on this machine is known immediately; others are observed for a few seconds.
        Notes::line("checking whether the processes of unfinished runs are still running …".to_owned());
    }
    let mut runs = app.all_cut_off().await?;
    if let Some(key) = named {
        runs.retain(|cut_off| cut_off.key == key);
        if runs.is_empty() {
            // It may have ended meanwhile.
            unfinished(key.id.as_str(), app, &setup.same_place).await?;
            let message = format!("run {} was not interrupted: its process is still running", key.id);
            return Err(Failure::usage(message).help("wait for it to end, or cancel it"));
        }
    }
    if runs.is_empty() {
        Notes::line("no interrupted runs".to_owned());
    }
    // Before the runs continue, because they may search these documents.
    documents::add_beside_runs(app, &runs).await?;
    let (mut data, mut exit, place) = (Data::stdout(), Exit::Done, &setup.same_place);
    for run in runs {
        let ending = match gone_on(&run, app).await {
            Ok(ending) => ending,
            // If one cannot be resumed, or a server has taken it meanwhile, the others are still resumed.
            Err(error) if args.all => {
                crate::tell::tell(&Failure::from(error));
                exit = Exit::Failed;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        // Runs of all tenants are resumed.
        let (whose, flag) = match run.key.tenant.as_str() {
            DEFAULT_TENANT => (String::new(), String::new()),
            other => (format!("  tenant {other}"), format!(" --tenant {}", quoted(other))),
        };
        data.line(&format!("{}  {}{whose}", run.key.id, ending.as_str()))?;
        if ending == Ending::Failed && args.model.is_none() {
            let show = format!("weft runs show {}{place}{flag}", run.key.id);
            Notes::line(format!(
                "note: `{show}` shows why; a run started with --model needs it here as well"
            ));
        }
        if ending == Ending::Waiting {
            let session = quoted(run.session.as_str());
            Notes::line(format!("`weft tasks --session {session}{place}{flag}` shows what it waits for"));
        }
        exit = match ending {
            Ending::Succeeded => exit,
            // A failure is not hidden by another run that waits.
            Ending::Waiting if exit == Exit::Failed => exit,
            Ending::Waiting => Exit::Waiting,
            Ending::Failed | Ending::Cancelled => Exit::Failed,
        };
    }
    data.flush()?;
    Ok(exit)
}

/// Looks up a run that has not ended, before anybody waits for processes to be observed.
async fn unfinished(id: &str, app: &App, place: &str) -> Outcome<RunKey> {
    let run = found(&RunKey::new(&tenant(), RunId::new(id)), app).await?;
    match run.ending {
        Some(Ending::Waiting) => {
            let flag = match run.key.tenant.as_str() {
                DEFAULT_TENANT => String::new(),
                other => format!(" --tenant {}", quoted(other)),
            };
            let tasks = format!("weft tasks --session {}{place}{flag}", quoted(run.session.as_str()));
            Err(Failure::usage(format!("run {id} was not interrupted: it stopped to wait for a person"))
                .help(format!(
                    "`{tasks}` shows what is open; an answer, or the next turn of its session, continues it"
                )))
        }
        Some(ending) => Err(Failure::usage(format!("run {id} has ended: {}", ending.as_str()))
            .help("only a run whose process has stopped can be resumed")),
        None => Ok(run.key),
    }
}

/// Removes runs by the retention rules, and prints them.
async fn prune(args: &RunsPruneArgs, app: &App, setup: &Setup) -> Outcome {
    let now_ms = app.clock.now_ms();
    let older_than = args.older_than.map(|age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
    let asked = Retention {
        ended_before_ms: older_than.map(|age| now_ms.saturating_sub(age)),
        per_session_max: args.keep,
    };
    let asked = Some(asked).filter(|rules| *rules != Retention::default());
    let Some(rules) = asked.or_else(|| setup.config.retention.rules(now_ms)) else {
        return Err(Failure::usage("no limit on the age or number of runs is set")
            .help("give --older-than 30d or --keep 100, or set retention.runs_days in weft.toml"));
    };
    let mut data = Data::stdout();
    let mut told = |runs: &[StoredRun]| runs.iter().try_for_each(|run| data.line(&list_line(run)));
    if args.dry_run {
        let (mut count, mut more) = (0, "");
        for tenant in app.all_tenants().await? {
            let runs = app.runs.expired(&tenant, &rules, SHOWN_MAX).await?;
            told(&runs)?;
            count += runs.len() as u64;
            if runs.len() as u64 == SHOWN_MAX {
                more = " at least";
            }
        }
        Notes::line(format!("{}{more} would be removed", plural(count, "run")));
    } else {
        let removed = app.prune(&rules, told).await?;
        Notes::line(format!("{} removed", plural(removed, "run")));
    }
    data.flush()?;
    Ok(Exit::Done)
}

fn ending(run: &StoredRun) -> &'static str {
    run.ending.map_or("unfinished", weft_core::Ending::as_str)
}

fn list_line(run: &StoredRun) -> String {
    let (id, started, canvas) = (&run.key.id, date(run.started_ms), &run.canvas);
    format!("{id}  {started}  {:<10}  {canvas}  {}  {}", ending(run), run.session, short(&run.query))
}

fn json_line(run: &StoredRun) -> String {
    json!({
        "id": run.key.id, "session": run.session, "canvas": run.canvas, "query": run.query,
        "status": ending(run), "started_ms": run.started_ms, "finished_ms": run.finished_ms,
    })
    .to_string()
}

async fn show(args: &RunsShowArgs, app: &App) -> Outcome {
    let key = RunKey::new(&tenant(), RunId::from(args.id.as_str()));
    found(&key, app).await?;
    let mut data = Data::stdout();
    let mut began_ms = None;
    each_entry(app, &key, |entry| {
        let began_ms = *began_ms.get_or_insert(entry.at_ms);
        let line = if args.json {
            serde_json::to_string(&entry).map_err(|error| Failure::failed(error.to_string()))?
        } else {
            entry_line(&entry, began_ms)
        };
        data.line(&line)
    })
    .await?;
    data.flush()?;
    Ok(Exit::Done)
}
