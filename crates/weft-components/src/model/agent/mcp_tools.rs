//! Tools of MCP servers: those that the agent lists, as the server offers them now.

use std::sync::Arc;

use futures::future::join_all;
use futures::stream::{self, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use weft_agent::Toolkit;
use weft_agent::toolkit::numbered;
use weft_core::context::Signal;
use weft_core::effect::Delivery;
use weft_core::seam::tool_source::Offered;
use weft_core::tool::{Invocation, Origin, Tool, ToolBody, ToolStream, ToolTraits, declared_parameters};
use weft_core::{Error, ErrorKind, Json, NodeContext, Result};

use super::entries::{Flags, Server};

/// Availability of a tool when the agent started.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Was {
    /// Offered by its server, or the server could not be reached.
    There,
    /// Not available, for this reason.
    Missing(String),
}

/// Adds the listed tools of the servers to a toolkit whose first `place` places are taken. A server that cannot be
/// reached is not an error: its tools are used as they were last accepted, or else as the canvas describes them, and a
/// call tries the server again. Tools without a description are left out, and so are those of a server that is not
/// configured. The user is warned.
///
/// Only which tools are available is stored with the run: when work is repeated after a crash it has the same tools,
/// even if a server offers different ones by then or cannot be reached.
///
/// # Errors
/// `Cancelled`.
pub(super) async fn add(
    toolkit: &Toolkit,
    servers: &[Server],
    ctx: &NodeContext,
    place: usize,
) -> Result<()> {
    let run = &ctx.run;
    let asked = servers.iter().map(|server| run.seams.tools.tools(&run.tenant, &server.id));
    // All servers are asked concurrently, so that one that does not answer does not delay the others.
    let asked: Vec<(Offered, Option<Away>)> = join_all(asked).await.into_iter().map(heard).collect();
    let now = servers.iter().zip(&asked).flat_map(|(server, (offered, away))| {
        server.tools.iter().map(move |(name, meta, _)| match listed(offered, &server.id, name) {
            Err(_) if away.as_ref().is_some_and(|away| away.may_return && is_described(meta)) => Was::There,
            Err(error) => Was::Missing(away.as_ref().map_or_else(|| error.full(), |away| away.why.clone())),
            Ok(_) => Was::There,
        })
    });
    let now = std::future::ready(Ok(now.collect::<Vec<_>>()));
    let (were, made_now) = ctx.effect("list", Delivery::Idempotent, now).await?;
    let mut were = were.into_iter().zip(place..);
    for (server, (offered, away)) in servers.iter().zip(&asked) {
        if let (Some(away), true) = (away, made_now) {
            ctx.signal(Signal::Warn(told(server, offered, away))).await?;
        }
        // A missing tool leaves its place empty: the name of each tool depends on the canvas alone, even if a person
        // approves a call when the server offers fewer tools than before.
        for ((name, meta, flags), (was, place)) in server.tools.iter().zip(&mut were) {
            let tool = match was {
                Was::Missing(why) => Err(why),
                Was::There => Ok(listed(offered, &server.id, name)
                    .map_or_else(|_| described(server, name, meta, flags), |tool| (*tool).clone())),
            };
            let tool = tool.map(|tool| named(tool, name, place, flags));
            let added = tool.and_then(|tool| toolkit.register(tool).map_err(|error| error.full()));
            match added {
                // One warning already covers all tools of an unreachable server.
                Err(why) if made_now && away.as_ref().is_none_or(|away| away.why != why) => {
                    ctx.signal(Signal::Warn(why)).await?;
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    Ok(())
}

/// Why a server could not be reached.
struct Away {
    why: String,
    /// Whether it is configured, so that a later call may reach it.
    may_return: bool,
}

/// Returns the warning about an unreachable server: which tools the agent continues without.
fn told(server: &Server, offered: &Offered, away: &Away) -> String {
    let lacking = |(name, meta, _): &&(String, Map<String, Json>, Flags)| {
        listed(offered, &server.id, name).is_err() && !(away.may_return && is_described(meta))
    };
    let lacking: Vec<&str> = server.tools.iter().filter(lacking).map(|(name, ..)| name.as_str()).collect();
    let goes_on = match lacking.as_slice() {
        [] => "calls to its tools try again".to_owned(),
        lacking => format!("the agent continues without {}", lacking.join(", ")),
    };
    format!("the tools of the MCP server `{}` are unavailable: {}; {goes_on}", server.id, away.why)
}

/// Splits an answer into what a server offers, and why it could not be reached, if so.
fn heard(answer: Result<Offered>) -> (Offered, Option<Away>) {
    match answer {
        Ok(offered) => {
            let away = offered.down.clone().map(|why| Away { why, may_return: true });
            (offered, away)
        }
        Err(error) => {
            let may_return = error.kind != ErrorKind::NotFound;
            (Offered::default(), Some(Away { why: error.full(), may_return }))
        }
    }
}

/// Whether the canvas describes a tool's arguments.
fn is_described(meta: &Map<String, Json>) -> bool {
    ["inputSchema", "parameters"].into_iter().any(|key| meta.get(key).is_some_and(Json::is_object))
}

fn named(tool: Tool, name: &str, place: usize, flags: &Flags) -> Tool {
    let traits = flags.within(&tool.traits);
    Tool { name: numbered(flags.function.as_deref().unwrap_or(name), place), traits, ..tool }
}

/// Returns a tool that the agent lists, if the server offers it.
fn listed(offered: &Offered, server: &str, name: &str) -> Result<Arc<Tool>> {
    if let Some(tool) = offered.tools.iter().find(|tool| tool.name == name) {
        return Ok(Arc::clone(tool));
    }
    Err(match offered.refused.iter().find(|refused| refused.name == name) {
        Some(refused) => {
            let message =
                format!("the tool `{name}` of the MCP server `{server}` may not be used: {}", refused.reason);
            Error::new(ErrorKind::Denied, message)
        }
        None => match &offered.down {
            Some(why) => Error::new(ErrorKind::Unavailable, why.clone()),
            None => Error::not_found(format!("the MCP server `{server}` has no tool `{name}`")),
        },
    })
}

/// Returns a tool as the canvas describes it, for a server that cannot be reached.
fn described(server: &Server, name: &str, meta: &Map<String, Json>, flags: &Flags) -> Tool {
    let description = meta.get("description").and_then(Json::as_str).unwrap_or_default();
    let agreed = flags.within(&ToolTraits::default()).approval;
    let body = Arc::new(Later { server: server.id.clone(), tool: name.to_owned(), agreed });
    let parameters = declared_parameters(meta).unwrap_or_else(|| json!({"type": "object"}));
    Tool::new(name, description, parameters, Origin::Mcp(server.id.clone()), body)
}

fn unasked(later: &Later) -> Error {
    let Later { server, tool, .. } = later;
    let message = format!("a person has to agree to calls of `{tool}` of the MCP server `{server}`");
    Error::new(ErrorKind::Denied, message).help(
        "the server could not be asked when this work began; say so, and that another question may help",
    )
}

/// A tool that asks its server again when it is called.
#[derive(Clone)]
struct Later {
    server: String,
    tool: String,
    /// Whether a person approves its calls first.
    agreed: bool,
}

impl ToolBody for Later {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let later = self.clone();
        let steps = async move {
            let run = &invocation.agent.run;
            match run.seams.tools.tools(&run.tenant, &later.server).await {
                Ok(offered) => match listed(&offered, &later.server, &later.tool) {
                    // The operator's requirement was unknown while the server could not be reached.
                    Ok(tool) if tool.traits.approval && !later.agreed => {
                        stream::once(async move { Err(unasked(&later)) }).boxed()
                    }
                    Ok(tool) => tool.body.call(invocation),
                    Err(error) => stream::once(async { Err(error) }).boxed(),
                },
                Err(error) => stream::once(async { Err(error) }).boxed(),
            }
        };
        stream::once(steps).flatten().boxed()
    }
}
