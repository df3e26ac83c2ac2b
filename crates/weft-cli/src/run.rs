//! `weft run`: executes one turn, with its answer on standard output.

use std::path::PathBuf;

use serde_json::json;
use weft_app::{App, DEFAULT_TENANT};
use weft_core::component::Form;
use weft_core::context::Limited;
use weft_core::exact::kept;
use weft_core::journal::Ending;
use weft_core::seam::session_store::Session;
use weft_core::value::listed;
use weft_core::{Json, SessionId, TenantId, TurnInput};
use weft_server::answer::Answer;

use crate::args::RunArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::follow::{Show, follow_shown};
use crate::local::{self, Opened};
use crate::screen::Notes;
use crate::setup::Setup;
use crate::words::quoted;
use crate::{form, made, pins, unheard};

/// Runs a canvas once.
///
/// # Errors
/// When it cannot start.
pub(crate) async fn run(args: &RunArgs, setup: &Setup) -> Outcome {
    // Invalid arguments are reported before anything is opened.
    let input = TurnInput {
        query: args.query.clone().unwrap_or_default(),
        inputs: inputs("--input", &args.inputs)?,
        parallel_messages: args.parallel_messages,
        ..TurnInput::default()
    };
    let opened = local::open(setup, &args.file).await?;
    // In one block, so that the data folder is closed whatever the outcome.
    let ended = async {
        let pins = pins::read(&args.pins, &opened.app).await?;
        let files = attached(&args.attached, &opened.app).await?;
        turn(args, setup, &opened, TurnInput { pins, files, ..input }).await
    };
    let ended = ended.await;
    opened.close().await?;
    ended
}

/// Stores the files that are attached to a question; returns the references for the question.
async fn attached(paths: &[PathBuf], app: &App) -> Outcome<Vec<Json>> {
    let tenant = TenantId::new(DEFAULT_TENANT);
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let unread = |cause: std::io::Error| {
            Failure::usage(format!("cannot read {}: {cause}", path.display())).help("name an existing file")
        };
        // The size is checked first, so that a file that is too large is never in memory.
        let size = tokio::fs::metadata(path).await.map_err(unread)?.len();
        if size > app.file_bytes_max {
            let most = app.file_bytes_max;
            let message = format!("{} has {size} bytes, more than the maximum of {most}", path.display());
            return Err(
                Failure::usage(message).help("make it smaller, or raise `attachments.file_bytes_max`")
            );
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bytes = tokio::fs::read(path).await.map_err(unread)?;
        let file = app.keep_file(&tenant, None, &name, bytes.into()).await?;
        files.push(json!(file));
    }
    Ok(files)
}

async fn turn(args: &RunArgs, setup: &Setup, opened: &Opened, mut input: TurnInput) -> Outcome {
    let session = opened.session(args.session.as_deref()).await?;
    if args.session.is_some() && args.query.is_none() && !input.inputs.is_empty() {
        must_be_heard(opened, &session, &input.inputs).await?;
    }
    if !args.inputs.is_empty() {
        form::keep_typed(&mut input.inputs, &args.inputs, &asked(opened, &session).await?);
    }
    if !args.pins.is_empty() {
        let plan = opened.plan(&session).await?;
        pins::must_be_outputs(&args.pins, &input.pins, &plan, &opened.app.catalog)?;
    }
    tell_unread(opened, &session, &input.inputs).await?;
    // Before the turn, to tell the files that it makes from earlier ones.
    let before = made::known(&opened.app, &session.key).await?;
    let handle = opened.turn(&session.key, input).await?;
    let show = if args.events { Show::Events } else { Show::Answer };
    let answer = follow_shown(handle, show).await?;
    made::tell(&opened.app, &session.key, &before, args.save_files.as_deref()).await?;
    Ok(conclude(&answer, || command(opened, &session.key.id, setup, &answer)))
}

/// Returns the forms that inputs are for: the open ones, else the form that a run starts with.
async fn asked(opened: &Opened, session: &Session) -> Outcome<Vec<Form>> {
    let waiting = opened.waiting(session).await?;
    if waiting.is_empty() {
        return Ok(vec![form::of_start(&*opened.plan(session).await?)]);
    }
    Ok(waiting.into_iter().map(|waiting| waiting.form).collect())
}

/// Prints which inputs nothing in the canvas reads, unless they answer a form.
async fn tell_unread(
    opened: &Opened,
    session: &Session,
    inputs: &serde_json::Map<String, Json>,
) -> Outcome<()> {
    if inputs.is_empty() || !opened.waiting(session).await?.is_empty() {
        return Ok(());
    }
    let plan = opened.plan(session).await?;
    unheard::tell(inputs.keys().filter(|key| !plan.reads_input(key)));
    Ok(())
}

/// Checks that the session waits for answers: otherwise they would start a run without a question.
async fn must_be_heard(
    opened: &Opened,
    session: &Session,
    inputs: &serde_json::Map<String, Json>,
) -> Outcome<()> {
    if !opened.waiting(session).await?.is_empty() || unheard::can_use(&*opened.plan(session).await?, inputs) {
        return Ok(());
    }
    let id = quoted(session.key.id.as_str());
    let message = format!(
        "session {id} is not waiting for an answer, and the canvas reads no input {}",
        listed(inputs.keys())
    );
    let help = format!("`weft runs list --session {id}` shows its runs; --query starts a new one");
    Err(Failure::usage(message).help(help))
}

/// Returns the command that resumes a waiting run.
fn command(opened: &Opened, session: &SessionId, setup: &Setup, answer: &Answer) -> String {
    format!("{}{}", opened.command("run", session, setup), form::flags(&answer.forms))
}

/// Prints what people must know about the end of a run, and returns its exit code.
pub(crate) fn conclude(answer: &Answer, command: impl FnOnce() -> String) -> Exit {
    tell_limits(answer);
    match answer.end.as_ref().map(|end| end.ending) {
        Some(Ending::Succeeded) => Exit::Done,
        Some(Ending::Waiting) => {
            Notes::line(form::describe(&answer.forms).trim_end());
            Notes::line(format!("Continue with:\n  {}", command()));
            Exit::Waiting
        }
        Some(Ending::Cancelled) => {
            Notes::line("the run was stopped");
            Exit::Failed
        }
        Some(Ending::Failed) => {
            Notes::line(format!("error: the run failed: {}", answer.failure().unwrap_or_default()));
            Exit::Failed
        }
        None => {
            Notes::line("error: the run ended without a result");
            Exit::Failed
        }
    }
}

/// Prints what cut the work short: an answer that was cut short is not a failure, but the reader should know.
pub(crate) fn tell_limits(answer: &Answer) {
    if let Some(end) = &answer.end {
        for note in limit_notes(&end.limited) {
            Notes::line(note);
        }
    }
}

fn limit_notes(limited: &[Limited]) -> Vec<String> {
    // A loop is stopped without any limit that could be raised.
    let (loops, limits): (Vec<Limited>, Vec<Limited>) =
        limited.iter().copied().partition(|limit| *limit == Limited::LoopDetected);
    let mut notes = Vec::new();
    if !loops.is_empty() {
        notes.push("note: the same action was repeated over and over, so it was stopped".to_owned());
    }
    let limits: Vec<&str> = limits.into_iter().map(Limited::as_str).collect();
    if !limits.is_empty() {
        notes.push(format!("note: a limit cut the work short: {}", limits.join(", ")));
    }
    notes
}

/// Parses the `KEY=VALUE` pairs of a flag. A value is parsed as JSON if possible, and is a string otherwise; integers
/// that a number cannot hold are strings too, so that they keep their digits.
///
/// # Errors
/// When one has no key, or two have the same.
pub(crate) fn inputs(flag: &str, pairs: &[String]) -> Outcome<serde_json::Map<String, Json>> {
    let mut inputs = serde_json::Map::new();
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(Failure::usage(format!("{flag} {} does not name a field", quoted(pair)))
                .help(format!("write {flag} KEY=VALUE")));
        };
        let value = serde_json::from_str(&kept(value)).unwrap_or_else(|_| Json::from(value));
        if inputs.insert(key.to_owned(), value).is_some() {
            return Err(Failure::usage(format!("{flag} gives {} twice", quoted(key)))
                .help("give each field once; several values of one are a JSON list"));
        }
    }
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_loop_is_not_called_a_limit() {
        let notes = limit_notes(&[Limited::LoopDetected]);
        assert!(
            notes.len() == 1 && notes[0].contains("repeated") && !notes[0].contains("limit"),
            "{notes:?}"
        );
        let notes = limit_notes(&[Limited::MaxRounds, Limited::LoopDetected]);
        assert_eq!(notes[1], "note: a limit cut the work short: max_rounds");
        assert!(limit_notes(&[]).is_empty());
    }

    #[test]
    fn input_values_are_parsed_as_json_if_possible() {
        let pairs =
            ["name=Ada", "n=5", "zip=01234", "ok=true", "o={\"a\": [1]}", "text=\"5\"", "eq=a=b", "none="];
        let read = inputs("--input", &pairs.map(str::to_owned)).unwrap();
        let expected = json!({"name": "Ada", "n": 5, "zip": "01234", "ok": true, "o": {"a": [1]}, "text": "5",
            "eq": "a=b", "none": ""});
        assert_eq!(Json::Object(read), expected);
        let ids =
            ["id=12345678901234567890123", "ids=[-98765432109876543210, 7]", "max=18446744073709551615"];
        let read = inputs("--input", &ids.map(str::to_owned)).unwrap();
        let expected =
            json!({"id": "12345678901234567890123", "ids": ["-98765432109876543210", 7], "max": u64::MAX});
        assert_eq!(Json::Object(read), expected);
        assert!(inputs("--input", &["novalue".to_owned()]).is_err());
        assert!(inputs("--input", &["=x".to_owned()]).is_err());
        assert!(inputs("--input", &["a=1".to_owned(), "a=2".to_owned()]).is_err());
    }
}
