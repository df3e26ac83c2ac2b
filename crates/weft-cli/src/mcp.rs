//! `weft mcp`: agents as tools of an MCP client, and the MCP servers of others.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use weft_app::{Surveyed, ToolServers, Verdict};
use weft_core::value::shortened;

use crate::args::{McpAcceptArgs, McpArgs, McpCommand, McpListArgs, McpServeArgs};
use crate::chosen_tenant;
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Data, Notes, pipes, steers};
use crate::serve::{agents, store_all};
use crate::settings::{Environment, Flags};
use crate::setup::Setup;
use crate::sign_in;
use crate::signals::stopped;
use crate::words::quoted;

/// How long runs may continue after the client has disconnected; then they are handed over.
const GRACE: Duration = Duration::from_secs(1);

/// Maximum number of characters of a description in a line.
const TEXT_CHARS: usize = 100;

/// Serves a client over standard input and output, until it closes them.
///
/// # Errors
/// When the data folder cannot be used, a canvas has errors, or the communication with the client fails.
async fn serve(args: &McpServeArgs, setup: &Setup) -> Outcome {
    let files = agents(&args.agents)?;
    let app = weft_app::assemble(&setup.config).await.map_err(|error| Failure::before_running(&error))?;
    let stopping = CancellationToken::new();
    let served = async {
        store_all(&app, &files, setup).await?;
        Notes::line(&setup.model);
        let (input, output) = pipes()?;
        let talking =
            weft_server::mcp::converse(app.clone(), chosen_tenant::tenant(), input, output, stopping.clone());
        tokio::select! {
            ended = Box::pin(talking) => Outcome::Ok(ended?),
            () = stopped() => Ok(()),
        }
    };
    let served = served.await;
    // After a signal, calls of the client may still be under way.
    stopping.cancel();
    app.shut_down(GRACE).await?;
    served.map(|()| Exit::Done)
}

/// Offers agents, lists tools or accepts them.
///
/// # Errors
/// When the settings cannot be read; as [`serve`]; when there is no such server or tool, or a server is unavailable.
pub(crate) async fn run(args: &McpArgs, environment: &Environment, flags: &Flags) -> Outcome {
    match &args.command {
        Some(command) => look(command, &Setup::without_models(environment, flags)?).await,
        None => serve(&args.serving, &Setup::read(environment, flags).await?).await,
    }
}

async fn look(command: &McpCommand, setup: &Setup) -> Outcome {
    let opened = ToolServers::open(&setup.config).await.map_err(|error| Failure::before_running(&error))?;
    let done = match command {
        McpCommand::List(args) => list(args, &opened).await,
        McpCommand::Accept(args) => accept(args, &opened).await,
        McpCommand::Login(args) => sign_in::login(args, &opened).await,
        McpCommand::Logout(args) => sign_in::logout(args, &opened).await,
    };
    opened.close().await?;
    done
}

async fn list(args: &McpListArgs, opened: &ToolServers) -> Outcome {
    let names = match &args.server {
        Some(name) => vec![name.clone()],
        None => opened.servers.names(),
    };
    if names.is_empty() {
        Notes::line(
            "no MCP server is configured; add one below `mcp.servers` in weft.toml, or as NAME.mcp.toml to the plugins",
        );
    }
    let (mut data, mut exit) = (Data::stdout(), Exit::Done);
    // All are queried concurrently, so that an unresponsive one delays no other.
    let surveys = join_all(names.iter().map(|name| opened.servers.survey(name))).await;
    for (name, surveyed) in names.iter().zip(surveys) {
        match surveyed {
            Ok(tools) => show(name, &tools, args, &mut data)?,
            // A server that is unavailable must not prevent showing the others.
            Err(error) => {
                let failure = Failure::from(error);
                crate::tell::tell(&failure);
                exit = failure.exit();
            }
        }
    }
    data.flush()?;
    Ok(exit)
}

fn show(server: &str, tools: &[Surveyed], args: &McpListArgs, data: &mut Data) -> Outcome<()> {
    if args.json {
        for tool in tools {
            let (state, reason) = said(&tool.verdict);
            let line = json!({
                "server": server, "tool": tool.name, "description": tool.description,
                "state": state, "reason": reason, "offered": tool.offered,
            });
            data.line(&line.to_string())?;
        }
        return Ok(());
    }
    let count = tools.len();
    data.line(&format!("{}: {count} {}", quoted(server), if count == 1 { "tool" } else { "tools" }))?;
    let width = tools.iter().map(|tool| tool.name.chars().count()).max().unwrap_or(0);
    for tool in tools {
        let (state, reason) = said(&tool.verdict);
        // Operators decide by the reason, so it is never cut.
        let text = reason.map_or_else(|| short(&tool.description), one_line);
        let name = one_line(&tool.name);
        data.line(&format!("  {name:<width$}  {state:<8}  {text}"))?;
    }
    let are = |wanted: fn(&Verdict) -> bool| tools.iter().any(|tool| wanted(&tool.verdict) && !tool.offered);
    let accept = format!("weft mcp accept {}", quoted(server));
    if are(|verdict| *verdict == Verdict::New) {
        Notes::line(format!("What is new is not offered before `{accept}` accepts it."));
    }
    if are(|verdict| matches!(verdict, Verdict::Changed(_))) {
        Notes::line(format!("What has changed is not offered before `{accept}` accepts it."));
    }
    Ok(())
}

/// Returns the word for a verdict, and its reason if needed.
fn said(verdict: &Verdict) -> (&'static str, Option<&str>) {
    match verdict {
        Verdict::Accepted => ("accepted", None),
        Verdict::New => ("new", None),
        Verdict::Changed(change) => ("changed", Some(change)),
        Verdict::Flawed(flaw) => ("refused", Some(flaw)),
        Verdict::Disabled => ("disabled", None),
    }
}

/// Returns a server's text for a line of the table. The table is for people wherever it goes, such as through `less`,
/// so control characters are always removed.
fn one_line(text: &str) -> String {
    let spaced = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
    let shown: String = spaced.filter(|c| !steers(*c)).collect();
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the beginning of a text on one line.
fn short(text: &str) -> String {
    shortened(&one_line(text), TEXT_CHARS)
}

async fn accept(args: &McpAcceptArgs, opened: &ToolServers) -> Outcome {
    let accepted = opened.servers.accept(&args.server, &args.tools).await?;
    if accepted.is_empty() {
        Notes::line(format!("the tools of {} have already been accepted", quoted(&args.server)));
    }
    let mut data = Data::stdout();
    for tool in accepted {
        data.line(&tool)?;
    }
    data.flush()?;
    Ok(Exit::Done)
}
