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

/// What there was to a tool when the agent began to work.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Was {
    /// On offer, or its server could not say.
    There,
    /// Not to be used, for this reason.
    Missing(String),
}

/// Adds the listed tools of the servers to a toolkit whose first `place` places are taken. A server that
/// cannot be asked is no reason to fail: its tools are there as they were accepted, or else as the canvas
/// describes them, and a call tries once more. What nobody has described is left out, and so are the tools
/// of a server that is not configured. The user is told.
///
/// Which tools there are is kept with the run, and nothing else of them: work that is done again after a
/// crash has the same ones, also when a server offers others by then or cannot be asked.
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
    // All at once, so that a server which does not answer holds up no other.
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
        // A tool that is missing leaves its place empty: the name of each depends on the canvas alone, also
        // when a person agrees to a call and the server offers less by then.
        for ((name, meta, flags), (was, place)) in server.tools.iter().zip(&mut were) {
            let tool = match was {
                Was::Missing(why) => Err(why),
                Was::There => Ok(listed(offered, &server.id, name)
                    .map_or_else(|_| described(server, name, meta, flags), |tool| (*tool).clone())),
            };
            let tool = tool.map(|tool| named(tool, name, place, flags));
            let added = tool.and_then(|tool| toolkit.register(tool).map_err(|error| error.full()));
            match added {
                // Of all tools of a server that is away one sentence has told.
                Err(why) if made_now && away.as_ref().is_none_or(|away| away.why != why) => {
                    ctx.signal(Signal::Warn(why)).await?;
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    Ok(())
}

/// Why a server could not be asked.
struct Away {
    why: String,
    /// It is configured, so a call may find it again.
    may_return: bool,
}

/// What is said about a server that cannot be asked: which tools the agent goes on without.
fn told(server: &Server, offered: &Offered, away: &Away) -> String {
    let lacking = |(name, meta, _): &&(String, Map<String, Json>, Flags)| {
        listed(offered, &server.id, name).is_err() && !(away.may_return && is_described(meta))
    };
    let lacking: Vec<&str> = server.tools.iter().filter(lacking).map(|(name, ..)| name.as_str()).collect();
    let goes_on = match lacking.as_slice() {
        [] => "a call of one of its tools tries again".to_owned(),
        lacking => format!("the agent goes on without {}", lacking.join(", ")),
    };
    format!("the tools of the MCP server `{}` can't be used now: {}; {goes_on}", server.id, away.why)
}

/// What a server offers, and why it could not be asked, if so.
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

/// Whether the canvas knows what a tool's arguments are.
fn is_described(meta: &Map<String, Json>) -> bool {
    ["inputSchema", "parameters"].into_iter().any(|key| meta.get(key).is_some_and(Json::is_object))
}

fn named(tool: Tool, name: &str, place: usize, flags: &Flags) -> Tool {
    let traits = flags.within(&tool.traits);
    Tool { name: numbered(flags.function.as_deref().unwrap_or(name), place), traits, ..tool }
}

/// A tool that the agent lists, if the server offers it.
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

/// A tool as the canvas knows it, for a server that cannot be asked.
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

/// Asks the server again when the tool is called.
#[derive(Clone)]
struct Later {
    server: String,
    tool: String,
    /// Whether a person agrees to its calls before.
    agreed: bool,
}

impl ToolBody for Later {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let later = self.clone();
        let steps = async move {
            let run = &invocation.agent.run;
            match run.seams.tools.tools(&run.tenant, &later.server).await {
                Ok(offered) => match listed(&offered, &later.server, &later.tool) {
                    // Nobody knew of the operator's word when the server could not be asked.
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
