//! `weft schedule`: canvases that run on a schedule.

use std::path::Path;
use std::time::Duration;

use weft_app::App;
use weft_app::schedule::times::interval;
use weft_app::schedule::{Fire, Terms, timing_text, upcoming};
use weft_core::component::Form;
use weft_core::seam::schedule_store::{Misfire, Schedule, ScheduleFilter, SessionPolicy, Timing};
use weft_core::{CanvasKey, ErrorKind, ScheduleId, ScheduleKey, SessionId, TurnInput};
use weft_engine::session::date;
use weft_server::wire::schedule::{MADE_UP, ScheduleItem, ZONE, fire_status};

use crate::args::{MisfireArg, ScheduleAddArgs, ScheduleCommand, ScheduleListArgs, ScheduleShowArgs};
use crate::chosen_tenant::tenant;
use crate::document::Document;
use crate::documents;
use crate::failure::{Exit, Failure, Outcome};
use crate::form::{keep_typed, of_start};
use crate::local;
use crate::run::inputs;
use crate::screen::{Data, Notes};
use crate::setup::Setup;
use crate::unheard;
use crate::words::{must_be_no_step, quoted};

/// Number of upcoming times that are shown.
const UPCOMING_SHOWN: usize = 5;

/// Number of runs of a schedule that are shown.
const FIRES_SHOWN: u64 = 10;

/// Adds, lists, shows, changes or removes schedules.
///
/// # Errors
/// When there is no such schedule or canvas, or the store cannot be used.
pub(crate) async fn run(command: &ScheduleCommand, setup: &Setup) -> Outcome {
    let app = setup.open().await?;
    let done = match command {
        ScheduleCommand::Add(args) => add(args, &app, setup).await,
        ScheduleCommand::List(args) => list(args, &app).await,
        ScheduleCommand::Show(args) => show(args, &app).await,
        ScheduleCommand::Remove(args) => remove(&args.id, &app).await,
        ScheduleCommand::Enable(args) => switch(&args.id, &app, |terms| terms.enabled = true).await,
        ScheduleCommand::Disable(args) => switch(&args.id, &app, |terms| terms.enabled = false).await,
        ScheduleCommand::Run(args) => fire(&args.id, &app).await,
    };
    // Whatever the outcome, writes have to be on disk before the program ends.
    app.shut_down(Duration::ZERO).await?;
    done
}

async fn add(args: &ScheduleAddArgs, app: &App, setup: &Setup) -> Outcome {
    if args.misfire_max.is_some() && args.misfire != MisfireArg::All {
        return Err(Failure::usage("--misfire-max has no effect without --misfire all")
            .help("add --misfire all, or omit --misfire-max"));
    }
    let timing = timing(args, app.clock.now_ms())?;
    let mut input = TurnInput {
        query: args.query.clone().unwrap_or_default(),
        inputs: inputs("--input", &args.inputs)?,
        ..TurnInput::default()
    };
    let canvas = canvas(&args.canvas, app, setup).await?;
    if !args.inputs.is_empty() {
        // Only the form tells which values are meant as texts.
        keep_typed(&mut input.inputs, &args.inputs, &[form_of_start(&canvas, app).await]);
    }
    let terms = Terms {
        name: args.name.clone().unwrap_or_else(|| args.canvas.clone()),
        timing,
        input,
        session: match &args.session {
            Some(id) => {
                must_be_no_step("a session", id)?;
                SessionPolicy::One(SessionId::from(id.as_str()))
            }
            None => SessionPolicy::New,
        },
        misfire: match args.misfire {
            MisfireArg::Skip => Misfire::Skip,
            MisfireArg::Once => Misfire::Once,
            MisfireArg::All => Misfire::All { max: args.misfire_max.unwrap_or(MADE_UP) },
        },
        enabled: !args.disabled,
    };
    let schedule = app.add_schedule(&canvas, terms).await?;
    unheard::tell(&app.unread_inputs(&schedule).await);
    print(schedule.key.id.as_str())?;
    tell_next(&schedule);
    if schedule.is_enabled() {
        let place = &setup.same_place;
        Notes::line(format!("It fires only while `weft serve{place}` or `weft worker{place}` is running."));
    }
    Ok(Exit::Done)
}

/// Returns the form that a run of a canvas starts with; without fields if the canvas cannot run at present, which does
/// not prevent a schedule.
async fn form_of_start(canvas: &CanvasKey, app: &App) -> Form {
    let Ok(version) = app.canvases.newest(canvas).await else { return Form::default() };
    app.plan(canvas, &version).await.map_or_else(|_| Form::default(), |plan| of_start(&plan))
}

/// Returns a stored canvas by its id, else from a file, which is checked and stored.
async fn canvas(name: &str, app: &App, setup: &Setup) -> Outcome<CanvasKey> {
    let key = CanvasKey::new(&tenant(), name);
    match app.canvases.get(&key).await {
        Ok(_) => return Ok(key),
        Err(error) if error.kind == ErrorKind::NotFound => {}
        // A value that is not an id may be a path.
        Err(error) if error.kind == ErrorKind::Invalid => {}
        Err(error) => return Err(error.into()),
    }
    let file = Path::new(name);
    if !file.exists() {
        return Err(Failure::usage(format!("there is no agent and no file {}", quoted(name)))
            .help("name the id of an agent that is stored here, or the file of a canvas"));
    }
    let document = Document::read(file)?;
    documents::add_beside(app, &key.tenant, file).await?;
    Ok(local::store(app.clone(), setup, &document).await?.canvas)
}

fn timing(args: &ScheduleAddArgs, now_ms: i64) -> Outcome<Timing> {
    match (&args.cron, &args.every) {
        (Some(expression), _) => Ok(Timing::Cron {
            expression: expression.clone(),
            zone: args.zone.clone().unwrap_or_else(|| ZONE.to_owned()),
        }),
        (None, Some(every)) => {
            let every_ms = i64::try_from(interval(every)?.as_millis()).unwrap_or(i64::MAX);
            Ok(Timing::Every { every_ms, from_ms: now_ms })
        }
        (None, None) => Err(Failure::usage("the schedule has no timing").help("give --cron or --every")),
    }
}

fn print(line: &str) -> Outcome<()> {
    let mut data = Data::stdout();
    data.line(line)?;
    data.flush()
}

fn tell_next(schedule: &Schedule) {
    match upcoming(schedule, 1).first() {
        Some(next) => Notes::line(format!("It fires next at {next}.")),
        None => Notes::line("It is disabled and does not fire."),
    }
}

async fn find(id: &str, app: &App) -> Outcome<Schedule> {
    let key = ScheduleKey::new(&tenant(), ScheduleId::from(id));
    let help = "`weft schedule list` shows the schedules of this data folder";
    app.schedules.get(&key).await.map_err(|error| Failure::finding(error, help))
}

async fn list(args: &ScheduleListArgs, app: &App) -> Outcome {
    let canvas = args.agent.as_deref().map(Into::into);
    let filter = ScheduleFilter { canvas, limit: args.limit, ..ScheduleFilter::default() };
    let (schedules, total) = app.schedules.list(&tenant(), &filter).await?;
    let mut data = Data::stdout();
    if schedules.is_empty() {
        Notes::line("there are no schedules; `weft schedule add` creates one");
    }
    let shown = schedules.len() as u64;
    for schedule in schedules {
        let line = if args.json { json(schedule, app).await? } else { list_line(&schedule) };
        data.line(&line)?;
    }
    data.flush()?;
    if total > shown {
        Notes::line(format!("{total} schedules in total; --limit shows more"));
    }
    Ok(Exit::Done)
}

async fn json(schedule: Schedule, app: &App) -> Outcome<String> {
    let item = ScheduleItem::of(app, schedule).await;
    serde_json::to_string(&item).map_err(|error| Failure::failed(error.to_string()))
}

fn list_line(schedule: &Schedule) -> String {
    let next = upcoming(schedule, 1).pop().unwrap_or_else(|| "disabled".to_owned());
    let timing = timing_text(&schedule.timing);
    format!("{}  {next:<25}  {timing}  {}  {}", schedule.key.id, schedule.canvas, schedule.name)
}

async fn show(args: &ScheduleShowArgs, app: &App) -> Outcome {
    let schedule = find(&args.id, app).await?;
    let (fires, total) = app.fires(&schedule.key, 0, FIRES_SHOWN).await?;
    let mut data = Data::stdout();
    if args.json {
        data.line(&json(schedule, app).await?)?;
        data.flush()?;
        return Ok(Exit::Done);
    }
    for line in facts(&schedule) {
        data.line(&line)?;
    }
    data.line(&format!("runs: {total}"))?;
    for fire in &fires {
        data.line(&fire_line(fire))?;
    }
    data.flush()?;
    Ok(Exit::Done)
}

fn facts(schedule: &Schedule) -> Vec<String> {
    let session = match &schedule.session {
        SessionPolicy::New => "a new one for each run".to_owned(),
        SessionPolicy::One(id) => id.to_string(),
    };
    let misfire = match schedule.misfire {
        Misfire::Skip => "skipped".to_owned(),
        Misfire::Once => "one run makes up for all".to_owned(),
        Misfire::All { max } => format!("up to {max} are made up for"),
    };
    let next = match upcoming(schedule, UPCOMING_SHOWN) {
        next if next.is_empty() => "never: it is disabled".to_owned(),
        next => next.join("  "),
    };
    vec![
        format!("schedule: {}", schedule.key.id),
        format!("name: {}", schedule.name),
        format!("agent: {}", schedule.canvas),
        format!("fires: {}", timing_text(&schedule.timing)),
        format!("next: {next}"),
        format!("query: {}", schedule.input.query),
        format!("inputs: {}", serde_json::Value::from(schedule.input.inputs.clone())),
        format!("session: {session}"),
        format!("missed times: {misfire}"),
    ]
}

fn fire_line(fire: &Fire) -> String {
    let work = &fire.stored.work;
    let (due, status, reason) = (date(work.due_ms), fire_status(fire), &fire.stored.reason);
    format!("  {}  {due}  {status:<10}  {reason}", work.run.id).trim_end().to_owned()
}

async fn remove(id: &str, app: &App) -> Outcome {
    let schedule = find(id, app).await?;
    app.remove_schedule(&schedule.key).await?;
    Notes::line(format!("removed schedule {id} and its queued runs; past runs are kept"));
    Ok(Exit::Done)
}

async fn switch(id: &str, app: &App, change: impl FnOnce(&mut Terms)) -> Outcome {
    let before = find(id, app).await?;
    let mut terms = Terms::from(before.clone());
    change(&mut terms);
    tell_next(&app.change_schedule(&before, terms).await?);
    Ok(Exit::Done)
}

async fn fire(id: &str, app: &App) -> Outcome {
    let run = app.fire_schedule(&find(id, app).await?).await?;
    print(run.id.as_str())?;
    Notes::line("The run is queued: `weft serve` or `weft worker` starts it.");
    Ok(Exit::Done)
}
