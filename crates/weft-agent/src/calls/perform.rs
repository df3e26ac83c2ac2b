//! Carries out one call and reports it to the run.

use std::sync::Arc;

use futures::stream::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use weft_core::budget::Limit;
use weft_core::component::Suspension;
use weft_core::context::{Signal, ToolStarted};
use weft_core::effect::Delivery;
use weft_core::seam::chat_model::ToolCall;
use weft_core::tool::{Invocation, Origin, Purpose, Tool, ToolData, ToolOutput, ToolStep};
use weft_core::{Error, ErrorKind, Json, NodeContext, Result};

use super::{CallState, Done, INSIDE, Ready};
use crate::driver::Job;
use crate::long_results::{Shelved, shelve};
use crate::trace::{Traced, TracedResult};

fn started(job: &Job<'_>, call: &ToolCall, arguments: &Json) -> ToolStarted {
    ToolStarted {
        agent: job.ctx.node.clone(),
        // The name already contains the path of the outer agents.
        path: format!("{}-->{}", job.ctx.name, call.name).into(),
        call: format!("{}{}", job.ctx.part, call.id).into(),
        tool: call.name.as_str().into(),
        arguments: Arc::new(arguments.clone()),
    }
}

/// Reports a call that was never made, so that every call is in the trace.
pub(super) async fn report_unmade(job: &Job<'_>, call: &ToolCall, done: &Done) -> Result<()> {
    // Reported as started and finished, because readers of the trace pair the two.
    let traced = Traced::start(job.ctx, started(job, call, &done.arguments)).await?;
    traced.finish(TracedResult { result: done.result.clone(), failed: true, ..TracedResult::default() }).await
}

/// Makes one call.
pub(super) async fn perform(job: &Job<'_>, call: ToolCall, ready: Ready) -> Result<CallState> {
    let Ready { tool, arguments, repaired, resumed, .. } = ready;
    let written = Json::Object(arguments.clone());
    let traced = Traced::start(job.ctx, started(job, &call, &written)).await?;
    let agent = Arc::new(inside(job.ctx, &call.id));
    let question = agent.effects.question("tool", &(&call.name, &written));
    let call_name = call.name.clone();
    let invocation = Invocation { id: call.id, arguments, agent: Arc::clone(&agent), resumed };
    let last = last_step(job, &call.name, invocation);
    let end = match again(tool.as_deref()) {
        // The work inside it is recorded with the run, each part separately.
        None => last.await,
        Some(again) => agent.effect_asking("tool", again, question, last).await.map(|(last, _)| last),
    };
    // After the effect, so that the tool's result is recorded; before it is used, because nothing needs it any more.
    if job.ctx.cancel.is_cancelled() {
        return Err(Error::new(ErrorKind::Cancelled, "the run has been cancelled"));
    }
    let state = match end {
        Ok(CallEnd::Done(output)) => {
            let done = Done::gave(written, &output);
            // Otherwise it would be kept for as long as the conversation.
            let data = if job.ctx.keeps_data { output.data } else { ToolData::Same };
            CallState::Done(Done { data, ..done })
        }
        Ok(CallEnd::Suspended(suspension)) if suspension.form.fields.is_empty() => {
            let error = Error::internal("the tool waits for a person, and there is nothing to ask");
            CallState::Done(Done::failed(written, &error))
        }
        Ok(CallEnd::Suspended(suspension)) => CallState::Suspended(suspension),
        Err(error) => CallState::Done(Done::failed(written, &error)),
    };
    match state {
        CallState::Done(mut done) => {
            // A token has at least one byte, so most results need no closer look.
            let short = done.text.len() <= job.options.result_tokens;
            // What answers cite has to be in the conversation for its numbers to mean anything. Tools that find tools
            // or read results have their own limit, and would otherwise lead back to themselves.
            let quoted = tool.as_ref().is_some_and(|tool| {
                tool.traits.sources
                    || matches!(
                        tool.traits.purpose,
                        Purpose::FindsTools | Purpose::LeavesFindingToProvider | Purpose::ReadsResults
                    )
            });
            if !short && !quoted {
                shorten(job, &agent, &call_name, &mut done).await?;
            }
            done.poll = tool.is_some_and(|tool| tool.traits.poll);
            traced
                .finish(TracedResult { result: done.result.clone(), failed: done.failed, repaired })
                .await?;
            Ok(CallState::Done(done))
        }
        state => {
            traced
                .finish(TracedResult { result: Json::from("waits for a person"), failed: false, repaired })
                .await?;
            Ok(state)
        }
    }
}

/// Puts a result that is too long for the conversation into a file. If that fails, it stays whole.
async fn shorten(job: &Job<'_>, call: &NodeContext, tool: &str, done: &mut Done) -> Result<()> {
    let tools = job.tools.tools();
    let Some(reader) = tools.iter().find(|tool| tool.traits.purpose == Purpose::ReadsResults) else {
        return Ok(());
    };
    match shelve(call, tool, &done.text, &reader.name, job.options.result_tokens).await {
        Ok(None) => Ok(()),
        Ok(Some(Shelved { file, text })) => {
            (done.file, done.text) = (Some(file), text);
            Ok(())
        }
        // A failing file store costs room in the conversation, but not the result.
        Err(error) if error.kind == ErrorKind::Cancelled => Err(error),
        Err(error) => {
            let message = format!("the long result of `{tool}` stays in the conversation: {}", error.full());
            job.ctx.signal(Signal::Warn(message)).await
        }
    }
}

/// How a call ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CallEnd {
    /// With its complete output.
    Done(ToolOutput),
    /// Suspended, waiting for this.
    Suspended(Suspension),
}

/// The context of the work inside a call. That work has its own part in the activation, named after the call, so that
/// parallel calls find their own results again regardless of the order in which they run.
fn inside(agent: &NodeContext, call: &str) -> NodeContext {
    NodeContext {
        run: Arc::clone(&agent.run),
        node: agent.node.clone(),
        name: Arc::clone(&agent.name),
        activation: agent.activation,
        inputs: agent.inputs.clone(),
        alternative: agent.alternative,
        round: agent.round.clone(),
        // What people said to the agent is for the agent only, and may be long.
        filled: Map::new(),
        timed_out: false,
        resumed: None,
        budget: Arc::clone(&agent.budget),
        effects: agent.effects.clone(),
        part: format!("{}{call}{INSIDE}", agent.part).into(),
        heard: agent.heard,
        keeps_data: agent.keeps_data,
        floor: agent.floor.clone(),
        cancel: agent.cancel.clone(),
        signals: agent.signals.clone(),
    }
}

/// How often a call of this tool may be delivered when it was interrupted. `None` for components, agents and scripts,
/// whose work is not a single call. A name without a tool is treated like any other call: the tool may have existed
/// when the call was made.
fn again(tool: Option<&Tool>) -> Option<Delivery> {
    // The calls inside a script are effects of their own: recorded as a single effect, the finished ones would be
    // repeated.
    if tool.is_some_and(|tool| tool.traits.purpose == Purpose::RunsScripts) {
        return None;
    }
    match tool.map(|tool| (&tool.origin, tool.traits.idempotent)) {
        // Their models and tools record their own effects, below the part that is named after this call.
        Some((Origin::Component(_) | Origin::Agent(_), _)) => None,
        Some((Origin::Mcp(_) | Origin::Function, false)) => Some(Delivery::AtMostOnce),
        Some((Origin::Mcp(_) | Origin::Function, true)) | None => Some(Delivery::Idempotent),
    }
}

/// Waits for the end of a call.
async fn last_step(job: &Job<'_>, name: &str, invocation: Invocation) -> Result<CallEnd> {
    let mut steps = job.tools.call(name, invocation);
    let all = async {
        // Each chunk is the whole output so far, so only the last one matters.
        loop {
            match steps.next().await.transpose()? {
                Some(ToolStep::Progress(_)) => {}
                Some(ToolStep::Done(output)) => return Ok(CallEnd::Done(output)),
                Some(ToolStep::Suspended(suspension)) => return Ok(CallEnd::Suspended(suspension)),
                None => return Err(Error::new(ErrorKind::Garbled, "the tool ended without a result")),
            }
        }
    };
    match job.ctx.budget.time_left() {
        None => all.await,
        Some(left) => tokio::time::timeout(left, all)
            .await
            .unwrap_or_else(|_| Err(job.ctx.budget.error(Limit::Seconds))),
    }
}
