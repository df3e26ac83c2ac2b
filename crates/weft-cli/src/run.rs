//! `weft run`: one turn, its answer on standard output.

use weft_core::journal::Ending;
use weft_core::{Json, SessionId, TurnInput};
use weft_server::answer::Answer;

use crate::args::RunArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::follow::{Show, follow};
use crate::local::{self, Opened};
use crate::progress::Progress;
use crate::screen::{Data, Notes};
use crate::setup::Setup;
use crate::{form, sources};

/// Runs a canvas once.
///
/// # Errors
/// When it cannot start.
pub async fn run(args: &RunArgs, setup: &Setup) -> Outcome {
    let input = TurnInput {
        query: args.query.clone().unwrap_or_default(),
        inputs: inputs(&args.inputs)?,
        ..TurnInput::default()
    };
    let opened = local::open(setup, &args.file).await?;
    let ended = turn(args, setup, &opened, input).await;
    opened.close().await?;
    ended
}

async fn turn(args: &RunArgs, setup: &Setup, opened: &Opened, input: TurnInput) -> Outcome {
    let session = opened.session(args.session.as_deref()).await?;
    let handle = opened.turn(&session.key, input).await?;
    let show = if args.events { Show::Events } else { Show::Answer };
    let mut data = Data::stdout();
    let answer = follow(handle, show, &mut data, &mut Progress::Silent).await?;
    if show == Show::Answer {
        Notes::raw(&sources::lines(&answer.cited));
    }
    Ok(conclude(&answer, || command(opened, &session.key.id, setup, &answer)))
}

/// The command that goes on with a waiting run.
fn command(opened: &Opened, session: &SessionId, setup: &Setup, answer: &Answer) -> String {
    format!("{}{}", opened.command("run", session, setup), form::flags(&answer.forms))
}

/// Says what people must know about the end of a run, and gives its exit code.
pub fn conclude(answer: &Answer, command: impl FnOnce() -> String) -> Exit {
    match answer.end.as_ref().map(|end| end.ending) {
        Some(Ending::Succeeded) => Exit::Done,
        Some(Ending::Waiting) => {
            Notes::line(form::describe(&answer.forms).trim_end());
            Notes::line(format!("Go on with:\n  {}", command()));
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
            Notes::line("error: the run ended without saying how");
            Exit::Failed
        }
    }
}

/// `KEY=VALUE` pairs as form values.
fn inputs(pairs: &[String]) -> Outcome<serde_json::Map<String, Json>> {
    let mut inputs = serde_json::Map::new();
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(Failure::usage(format!("--input {} names no field", form::quoted(pair)))
                .help("write --input KEY=VALUE, such as --input name=Ada"));
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| Json::from(value));
        inputs.insert(key.to_owned(), value);
    }
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_json_where_they_are_json() {
        let pairs =
            ["name=Ada", "n=5", "zip=01234", "ok=true", "o={\"a\": [1]}", "text=\"5\"", "eq=a=b", "none="];
        let read = inputs(&pairs.map(str::to_owned)).unwrap();
        let expected = json!({"name": "Ada", "n": 5, "zip": "01234", "ok": true, "o": {"a": [1]}, "text": "5",
            "eq": "a=b", "none": ""});
        assert_eq!(Json::Object(read), expected);
        assert!(inputs(&["novalue".to_owned()]).is_err());
        assert!(inputs(&["=x".to_owned()]).is_err());
    }
}
