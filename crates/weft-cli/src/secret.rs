//! `weft secret`: values that canvases refer to and that are never shown.

use std::io::{IsTerminal as _, Read as _};
use std::time::Duration;

use serde_json::json;
use weft_app::App;
use weft_core::Secret;
use weft_core::seam::secrets::{SecretInfo, VALUE_BYTES_MAX, is_name};
use weft_engine::session::date;

use crate::args::{SecretArgs, SecretCommand, SecretListArgs};
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Data, Notes, harmless};
use crate::setup::Setup;
use crate::token::{note, tenant};

/// Sets, lists or removes secrets. A server on the same store looks them up when a run starts, so it need not be
/// restarted.
///
/// # Errors
/// When there is no such secret, or the store cannot be used.
pub(crate) async fn run(command: &SecretCommand, setup: &Setup) -> Outcome {
    // Read before the store is opened, so that slow typing blocks no other process.
    let value = match command {
        SecretCommand::Set(args) => Some(typed(&args.name)?),
        SecretCommand::List(_) | SecretCommand::Delete(_) => None,
    };
    let app = setup.open().await?;
    let done = match command {
        SecretCommand::Set(args) => set(args, &value.unwrap_or_default(), &app).await,
        SecretCommand::List(args) => list(args, &app).await,
        SecretCommand::Delete(args) => delete(args, &app).await,
    };
    app.shut_down(Duration::ZERO).await?;
    done
}

/// Reads the value from standard input, without the end of its last line.
fn typed(name: &str) -> Outcome<Secret> {
    if !is_name(name) {
        return Err(Failure::usage("this is not a valid name for a secret")
            .help("use letters, digits, `_` and `-`; the value is read from standard input"));
    }
    let input = std::io::stdin();
    if input.is_terminal() {
        Notes::line(format!("type the value of {name}, then Enter and Ctrl-D"));
    }
    let mut value = String::new();
    // One byte and a line end more than the limit, so that a longer one is noticed.
    let read = input.lock().take(VALUE_BYTES_MAX as u64 + 3).read_to_string(&mut value);
    read.map_err(|error| Failure::usage(format!("cannot read the value: {error}")))?;
    // Only one line end is removed: a value may itself end with others.
    let value = value.strip_suffix('\n').unwrap_or(&value);
    Ok(Secret::new(value.strip_suffix('\r').unwrap_or(value)))
}

async fn set(args: &SecretArgs, value: &Secret, app: &App) -> Outcome {
    let tenant = tenant(&args.tenant)?;
    let put = app.secrets.put(&tenant, &args.name, value).await?;
    note(app, &tenant, "set secret", &args.name).await;
    let mut data = Data::stdout();
    if args.json {
        data.line(&as_json(&put).to_string())?;
    } else {
        Notes::line(format!("stored; canvases use it as `{{secret.{}}}`", put.name));
    }
    data.flush()?;
    Ok(Exit::Done)
}

async fn list(args: &SecretListArgs, app: &App) -> Outcome {
    let tenant = tenant(&args.tenant)?;
    let secrets = app.secrets.list(&tenant).await?;
    let unreadable = app.secrets.unreadable(Some(&tenant)).await?;
    if secrets.is_empty() {
        Notes::line("there are no secrets; `weft secret set NAME` sets one");
    }
    let mut data = Data::stdout();
    for secret in &secrets {
        let readable = !unreadable.contains(&secret.name);
        let line = if args.json {
            let mut line = as_json(secret);
            line["readable"] = json!(readable);
            line.to_string()
        } else {
            let mark = if readable { "" } else { "  cannot be read: its key is missing" };
            as_text(secret) + mark
        };
        data.line(&harmless(&line))?;
    }
    data.flush()?;
    Ok(Exit::Done)
}

async fn delete(args: &SecretArgs, app: &App) -> Outcome {
    let tenant = tenant(&args.tenant)?;
    app.secrets.remove(&tenant, &args.name).await?;
    note(app, &tenant, "remove secret", &args.name).await;
    let mut data = Data::stdout();
    if args.json {
        data.line(&json!({"name": args.name}).to_string())?;
    } else {
        Notes::line(format!("removed {}", args.name));
    }
    data.flush()?;
    Ok(Exit::Done)
}

fn as_json(secret: &SecretInfo) -> serde_json::Value {
    json!({
        "name": secret.name,
        "created": date(secret.created_ms),
        "updated": date(secret.updated_ms),
    })
}

/// Formats a secret: `SMTP_PASSWORD  set 2026-01-31 …`
fn as_text(secret: &SecretInfo) -> String {
    format!("{}  set {}", secret.name, date(secret.updated_ms))
}
