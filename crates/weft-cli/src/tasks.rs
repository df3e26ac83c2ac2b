//! `weft tasks`: the questions of runs to people, and the answers.

use std::time::Duration;

use weft_app::App;
use weft_app::tasks::TaskAnswer;
use weft_app::turns::Waiting;
use weft_core::exact::kept;
use weft_core::journal::WaitingForm;
use weft_core::seam::task_store::{Task, TaskFilter, TaskKind, TaskStatus};
use weft_core::{CanvasKey, Json, TaskKey};
use weft_engine::session::date;
use weft_server::wire::task::{TaskView, edited};

use crate::args::{TasksAnswerArgs, TasksArgs, TasksCommand, TasksListArgs, TasksShowArgs};
use crate::chosen_tenant::{choose, same_tenant, tenant};
use crate::documents;
use crate::failure::{Exit, Failure, Outcome};
use crate::follow::{Show, follow_shown};
use crate::form::{describe, keep_typed};
use crate::run::{conclude, inputs};
use crate::screen::{Data, Notes};
use crate::setup::Setup;
use crate::words::quoted;

/// Lists tasks, shows one or answers one.
///
/// # Errors
/// When there is no such task, the answer does not fit, or the store cannot be read.
pub(crate) async fn run(args: &TasksArgs, setup: &Setup) -> Outcome {
    choose(&args.tenant)?;
    let app = weft_app::assemble(&setup.config).await.map_err(|error| Failure::before_running(&error))?;
    let done = match &args.command {
        None => list(&args.list, &app).await,
        Some(TasksCommand::List(args)) => list(args, &app).await,
        Some(TasksCommand::Show(args)) => show(args, &app, setup).await,
        Some(TasksCommand::Answer(args)) => answer(args, &app, setup).await,
    };
    app.shut_down(Duration::ZERO).await?;
    done
}

async fn list(args: &TasksListArgs, app: &App) -> Outcome {
    let known = |words: &[&str]| format!("it is one of: {}", words.join(", "));
    let kind = args.kind.as_deref().map(|word| {
        let error = || Failure::usage(format!("there is no kind {}", quoted(word)));
        TaskKind::parse(word).ok_or_else(|| error().help(known(&TaskKind::ALL.map(TaskKind::as_str))))
    });
    let status = match args.status.as_deref() {
        None => Some(TaskStatus::Open),
        Some("all") => None,
        Some(word) => Some(TaskStatus::parse(word).ok_or_else(|| {
            Failure::usage(format!("there is no status {}", quoted(word)))
                .help(format!("{}, all", known(&TaskStatus::ALL.map(TaskStatus::as_str))))
        })?),
    };
    let filter = TaskFilter {
        canvas: args.canvas.as_deref().map(Into::into),
        session: args.session.as_deref().map(Into::into),
        kind: kind.transpose()?,
        status,
        limit: args.limit,
        ..TaskFilter::default()
    };
    let (tasks, total) = app.tasks.list(&tenant(), &filter).await?;
    let mut data = Data::stdout();
    if tasks.is_empty() {
        // By default only open ones are listed.
        let others = if args.status.is_none() { "; --status all lists those that are over" } else { "" };
        Notes::line(format!("there are no tasks{others}"));
    }
    let shown = tasks.len() as u64;
    for task in tasks {
        data.line(&if args.json { json_line(task)? } else { list_line(&task) })?;
    }
    data.flush()?;
    if shown < total {
        Notes::line(format!("note: {shown} of {total}; --limit shows more"));
    }
    Ok(Exit::Done)
}

fn json_line(task: Task) -> Outcome<String> {
    serde_json::to_string(&TaskView::from(task)).map_err(|error| Failure::failed(error.to_string()))
}

fn list_line(task: &Task) -> String {
    let (id, kind, created) = (&task.key.id, task.kind.as_str(), date(task.created_ms));
    let due = task.due_ms.map(|due| format!("  due {}", date(due))).unwrap_or_default();
    let status = match task.status {
        TaskStatus::Open => String::new(),
        status => format!("  {}", status.as_str()),
    };
    format!("{id}  {created}  {kind:<13}  {}  {}{due}{status}", task.canvas, task.title)
}

async fn task(id: &str, app: &App) -> Outcome<Task> {
    let help = "`weft tasks` shows those of this data folder; --data names another one";
    app.tasks.get(&TaskKey::new(&tenant(), id)).await.map_err(|error| Failure::finding(error, help))
}

async fn show(args: &TasksShowArgs, app: &App, setup: &Setup) -> Outcome {
    let task = task(&args.id, app).await?;
    let mut data = Data::stdout();
    if args.json {
        data.line(&json_line(task)?)?;
        data.flush()?;
        return Ok(Exit::Done);
    }
    data.line(&list_line(&task))?;
    let waiting = WaitingForm::new(task.node.clone(), std::sync::Arc::from([]), task.form.clone());
    data.line(describe(&[waiting]).trim_end())?;
    data.flush()?;
    if task.status == TaskStatus::Open {
        let id = quoted(task.key.id.as_str());
        let place = format!("{}{}", setup.same_place, same_tenant());
        Notes::line(format!("Answer with:\n  weft tasks answer {id}{place}{}", flags(&task)));
    }
    Ok(Exit::Done)
}

/// Returns the flags that answer a task.
fn flags(task: &Task) -> String {
    match task.kind {
        TaskKind::Form => {
            let flag = |(key, description): (&String, &Json)| {
                let flag = format!("--input {}", quoted(&format!("{key}=VALUE")));
                let optional = description.get("optional").and_then(weft_core::value::truth).unwrap_or(false);
                if optional { format!(" [{flag}]") } else { format!(" {flag}") }
            };
            task.form.fields.iter().map(flag).collect()
        }
        TaskKind::ToolApproval => " --approve | --deny [--because WHY] | --edit JSON".to_owned(),
        TaskKind::PlanReview => " --approve | --deny [--because WHY] | --edit TEXT".to_owned(),
        TaskKind::Credential => " --retry | --give-up".to_owned(),
    }
}

/// Returns the answer from the flags.
fn said(args: &TasksAnswerArgs) -> Outcome<TaskAnswer> {
    if !args.inputs.is_empty() {
        return Ok(TaskAnswer::Inputs(inputs("--input", &args.inputs)?));
    }
    Ok(TaskAnswer::Decision(match (&args.edit, &args.because) {
        // Calls are edited as JSON and plans as text: a value that is not JSON is taken as it is.
        (Some(edit), _) => {
            edited(&serde_json::from_str(&kept(edit)).unwrap_or_else(|_| Json::from(edit.as_str())))
        }
        (None, Some(because)) => serde_json::json!({"decision": "deny", "reason": because}),
        (None, None) if args.approve => Json::from("approve"),
        (None, None) if args.retry => Json::from("retry"),
        (None, None) if args.give_up => Json::from("give_up"),
        (None, None) => Json::from("deny"),
    }))
}

async fn answer(args: &TasksAnswerArgs, app: &App, setup: &Setup) -> Outcome {
    let mut said = said(args)?;
    let task = task(&args.id, app).await?;
    if let TaskAnswer::Inputs(values) = &mut said {
        keep_typed(values, &args.inputs, std::slice::from_ref(&task.form));
    }
    // A canvas that was run from its file may search the documents next to it.
    documents::add_beside_stored(app, &CanvasKey::new(&tenant(), task.canvas.clone())).await?;
    let (session, handle) = app.answer_task(&task.key, said, &Waiting::default()).await?;
    let show = if args.events { Show::Events } else { Show::Answer };
    let answer = follow_shown(handle, show).await?;
    let id = quoted(session.key.id.as_str());
    Ok(conclude(&answer, || format!("weft tasks --session {id}{}{}", setup.same_place, same_tenant())))
}
