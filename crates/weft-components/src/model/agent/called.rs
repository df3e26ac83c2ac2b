//! Work that an agent calls: it runs within the agent's activation, and its signals reach the run through the agent.

use std::sync::Arc;

use tokio::sync::mpsc;
use weft_core::component::Suspension;
use weft_core::context::{SIGNALS_IN_FLIGHT_MAX, Signal};
use weft_core::reference::Inputs;
use weft_core::tool::{Invocation, ToolOutput, ToolStep};
use weft_core::{ComponentId, Error, Finished, Floor, Json, NodeContext, Result};

/// The context of a call.
pub(super) struct CallContext {
    /// The id of the work: the agent's id, `-->` and the name of the work.
    pub node: ComponentId,
    /// The name by which the model calls it.
    pub function: String,
    /// Its inputs.
    pub inputs: Inputs,
}

/// Runs work for a call and forwards its signals. Text that the work emits is part of its result and is not shown to
/// the user.
///
/// # Errors
/// Errors of the work.
pub(super) async fn run<F>(
    invocation: &Invocation,
    place: CallContext,
    work: impl FnOnce(NodeContext) -> F,
) -> Result<Finished>
where
    F: Future<Output = Result<Finished>>,
{
    let agent = &invocation.agent;
    // A separate channel, because text of the work must not reach the user as if the agent had said it.
    let (send, signals) = mpsc::channel(SIGNALS_IN_FLIGHT_MAX);
    let (resumed, filled) = match &invocation.resumed {
        Some(resumed) => (resumed.get("state").cloned(), resumed.get("answers").and_then(Json::as_object)),
        None => (None, None),
    };
    let ctx = NodeContext {
        run: Arc::clone(&agent.run),
        node: place.node,
        name: format!("{}-->{}", agent.name, place.function).into(),
        activation: agent.activation,
        inputs: place.inputs,
        alternative: 0,
        round: agent.round.clone(),
        filled: filled.cloned().unwrap_or_default(),
        timed_out: false,
        resumed,
        budget: Arc::clone(&agent.budget),
        effects: agent.effects.clone(),
        // The call's own: see `Invocation::agent`.
        part: Arc::clone(&agent.part),
        // The text of a tool must not reach the user as if the agent had said it.
        heard: false,
        // An agent called by a script has its own model, which receives texts.
        keeps_data: false,
        // Its text is part of its result, so no other text can interleave with it.
        floor: Floor::default(),
        cancel: agent.cancel.clone(),
        signals: send,
    };
    // Dropped after the work, so that it also receives the signals that the work sends when it is cancelled.
    let mut relay = Relay { agent, signals };
    let mut work = std::pin::pin!(work(ctx));
    loop {
        tokio::select! {
            // In this order, so that the work's signals are forwarded before its end.
            biased;
            Some((_, signal)) = relay.signals.recv() => hand_on(agent, signal).await?,
            finished = &mut work => {
                while let Ok((_, signal)) = relay.signals.try_recv() {
                    hand_on(agent, signal).await?;
                }
                return finished;
            }
        }
    }
}

/// Signals that the work has sent and that have not been forwarded yet.
struct Relay<'a> {
    agent: &'a NodeContext,
    signals: mpsc::Receiver<(u32, Signal)>,
}

impl Drop for Relay<'_> {
    fn drop(&mut self) {
        while let Ok((_, signal)) = self.signals.try_recv() {
            if reaches_the_run(&signal) {
                // `drop` cannot wait.
                let _ = self.agent.signals.try_send((self.agent.activation, signal));
            }
        }
    }
}

async fn hand_on(agent: &NodeContext, signal: Signal) -> Result<()> {
    if reaches_the_run(&signal) { agent.signal(signal).await } else { Ok(()) }
}

/// Whether a signal is forwarded to the run; text that the work emits is part of its result instead.
fn reaches_the_run(signal: &Signal) -> bool {
    match signal {
        Signal::Speak | Signal::Say(_) | Signal::Play(_) | Signal::Publish(..) => false,
        Signal::Used(_)
        | Signal::Warn(_)
        | Signal::ToolStarted(_)
        | Signal::ToolFinished(_)
        | Signal::Limited(_)
        | Signal::EffectStarted(_)
        | Signal::EffectFinished(_)
        | Signal::Stored(_) => true,
    }
}

/// Returns what finished work hands the model: its main output, or all outputs if that is empty.
pub(super) fn step(finished: Finished, main_output: &str) -> ToolStep {
    if let Some(Suspension { form, state }) = finished.suspended.map(|suspended| *suspended) {
        return ToolStep::Suspended(Suspension { form, state });
    }
    let outputs = finished.outputs;
    let main = outputs.get(main_output).map(|value| (*value.snapshot()).clone());
    let value = main.filter(|value| !value.is_null()).unwrap_or_else(|| {
        let all = outputs.0.iter().map(|(name, value)| (name.to_string(), (*value.snapshot()).clone()));
        Json::Object(all.collect())
    });
    ToolStep::Done(ToolOutput::value(value))
}

/// Combines the problems of a component into one error.
pub(super) fn refused(kind: &str, problems: &[weft_core::ParamProblem]) -> Error {
    let told = |problem: &weft_core::ParamProblem| {
        let help = problem.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}: {}{help}", problem.pointer.trim_start_matches('/'), problem.message)
    };
    let told: Vec<String> = problems.iter().map(told).collect();
    Error::invalid(format!("the arguments don't suit {kind}: {}", told.join("; ")))
}
