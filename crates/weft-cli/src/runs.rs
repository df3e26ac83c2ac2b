//! `weft runs`: what has run.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;
use weft_core::journal::{FramePath, Onward};
use weft_core::seam::run_store::{RunFilter, StoredRun};
use weft_core::{Entry, Outputs, Record, Route, RunId, RunKey, SessionId};
use weft_engine::session::date;
use weft_server::App;

use crate::args::{RunsCommand, RunsListArgs, RunsShowArgs};
use crate::failure::{Exit, Failure, Outcome};
use crate::form::quoted;
use crate::local::{each_entry, tenant};
use crate::progress::duration;
use crate::screen::{Data, Notes};
use crate::setup::Setup;

/// How much of a text is shown on a line, in characters.
const TEXT_CHARS: usize = 200;

/// Lists runs or shows one.
///
/// # Errors
/// When there is no such run, or the store cannot be read.
pub async fn run(command: &RunsCommand, setup: &Setup) -> Outcome {
    let app = weft_server::assemble(&setup.config).await.map_err(|error| Failure::before_running(&error))?;
    let shown = match command {
        RunsCommand::List(args) => list(args, &app).await,
        RunsCommand::Show(args) => show(args, &app).await,
    };
    app.shut_down(Duration::ZERO).await?;
    shown
}

async fn list(args: &RunsListArgs, app: &App) -> Outcome {
    let session = args.session.as_deref().map(SessionId::from);
    let filter = RunFilter { session, limit: args.limit, ..RunFilter::default() };
    let runs = app.runs.list(&tenant(), &filter).await?;
    let mut data = Data::stdout();
    if runs.is_empty() {
        let nothing = args.session.as_ref().map(|id| format!("nothing has run in a session {}", quoted(id)));
        Notes::line(nothing.unwrap_or_else(|| "nothing has run yet".to_owned()));
    }
    for run in &runs {
        data.line(&if args.json { json_line(run) } else { list_line(run) })?;
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
    app.runs.get(&key).await.map_err(|error| {
        Failure::from(error)
            .help("`weft runs list` shows the runs of this data folder; --data names another one")
    })?;
    let mut data = Data::stdout();
    let mut began_ms = None;
    each_entry(app, &key, |entry| {
        let began_ms = *began_ms.get_or_insert(entry.at_ms);
        let line = match args.json {
            true => serde_json::to_string(&entry).map_err(|error| Failure::failed(error.to_string()))?,
            false => entry_line(&entry, began_ms),
        };
        data.line(&crate::screen::harmless(&line))
    })
    .await?;
    data.flush()?;
    Ok(Exit::Done)
}

/// `   4  +0.013 s  finished Reply (Message), 12 ms: {"content":"hello"}`
fn entry_line(entry: &Entry, began_ms: i64) -> String {
    let since = Duration::from_millis(u64::try_from(entry.at_ms - began_ms).unwrap_or(0));
    format!("{:>5}  +{:.3} s  {}", entry.seq, since.as_secs_f64(), fact(&entry.record))
}

fn fact(record: &Record) -> String {
    match record {
        Record::RunStarted { canvas, canvas_version, session, input, resumes, .. } => {
            let resumes =
                resumes.as_ref().map(|run| format!(", going on with run {run}")).unwrap_or_default();
            let version = canvas_version.get(..12).unwrap_or(canvas_version);
            let inputs =
                if input.inputs.is_empty() { String::new() } else { format!(" {}", json!(input.inputs)) };
            let asked = short(&format!("{}{inputs}", input.query));
            format!("run of {canvas} ({version}) in session {session}{resumes}: {asked}")
        }
        Record::NodeStarted { who } => format!("started {} ({}){}", who.name, who.kind, place(&who.frame)),
        Record::NodeSkipped { node, frame } => format!("skipped {node}{}", place(frame)),
        Record::FrameOpened { activation, items } => match items {
            Some(items) => format!("opened a frame of {} items for activation {activation}", items.len()),
            None => format!("opened a frame for activation {activation}"),
        },
        Record::Said { node, text, .. } => format!("{node} said {}", short(&json!(text).to_string())),
        Record::ThinkingStarted { node, .. } => format!("{node} began to reason"),
        Record::ThinkingEnded { node, .. } => format!("{node} ended its reasoning"),
        Record::MessageEnded { node, end, .. } => match end.cited.len() {
            0 => format!("{node} ended its message"),
            count => format!("{node} ended its message, which cites {count} sources"),
        },
        Record::MessageReset { node } => format!("{node} took back what it has said"),
        Record::EffectFinished { activation, effect, usage } => format!(
            "activation {activation} called a {effect}: {} and {} tokens",
            usage.prompt_tokens, usage.completion_tokens
        ),
        Record::Warned { node, message } => format!("{node} warns: {}", short(message)),
        Record::NodeFinished { .. } => finished(record),
        Record::Waiting { forms } => {
            let forms: Vec<String> =
                forms.iter().map(|waiting| format!("{}{}", waiting.node, place(&waiting.frame))).collect();
            format!("waits for a person at {}", forms.join(", "))
        }
        Record::RunFinished { ending, outputs, error, elapsed, .. } => {
            let why = error.as_ref().map(|error| format!(": {}", short(error))).unwrap_or_default();
            format!(
                "the run ended: {}, {}{why} {}",
                ending.as_str(),
                duration(*elapsed),
                short(&values(outputs))
            )
        }
    }
}

fn finished(record: &Record) -> String {
    let Record::NodeFinished { who, outputs, error, elapsed, route, .. } = record else {
        return String::new();
    };
    let onward = match route {
        Onward::By(Route::Onward) => String::new(),
        Onward::By(Route::To(ids)) => {
            let ids: Vec<&str> = ids.iter().map(weft_core::ComponentId::as_str).collect();
            format!(" → {}", ids.join(", "))
        }
        Onward::By(Route::EndFrame) => " → the end of its frame".to_owned(),
        Onward::Exception => " → its exception branch".to_owned(),
        Onward::Nowhere => " → nowhere".to_owned(),
    };
    let mut text =
        format!("finished {} ({}){}, {}{onward}", who.name, who.kind, place(&who.frame), duration(*elapsed));
    // Writing to a String cannot fail.
    let _ = match error {
        Some(error) => write!(text, ": failed, {}", short(error)),
        None => write!(text, ": {}", short(&values(outputs))),
    };
    text
}

fn place(frame: &FramePath) -> String {
    let steps: Vec<String> =
        frame.iter().map(|step| format!("{} round {}", step.node, step.round + 1)).collect();
    if steps.is_empty() { String::new() } else { format!(" in {}", steps.join(", ")) }
}

fn values(outputs: &Outputs) -> String {
    json!(outputs).to_string()
}

/// A text on one line, cut to a readable length.
fn short(text: &str) -> String {
    let mut line: String =
        text.chars().take(TEXT_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() < text.len() {
        line.push('…');
    }
    line
}
