//! Work that an agent calls: it runs within the agent's activation, and what it signals reaches the run
//! through the agent.

use std::sync::Arc;

use tokio::sync::mpsc;
use weft_core::component::Suspension;
use weft_core::context::{SIGNALS_IN_FLIGHT_MAX, Signal};
use weft_core::reference::Inputs;
use weft_core::tool::{Invocation, ToolOutput, ToolStep};
use weft_core::{ComponentId, Error, Finished, Floor, Json, NodeContext, Result};

/// Where a call runs.
pub(super) struct Place {
    /// The id of the work: the agent's, `-->` and its own name.
    pub node: ComponentId,
    /// The name the model calls it by.
    pub function: String,
    /// What it reads.
    pub inputs: Inputs,
}

/// Runs work for a call, and hands on what it signals. What it says is part of its result and is not
/// said to the user.
///
/// # Errors
/// What the work fails with.
pub(super) async fn run<F>(
    invocation: &Invocation,
    place: Place,
    work: impl FnOnce(NodeContext) -> F,
) -> Result<Finished>
where
    F: Future<Output = Result<Finished>>,
{
    let agent = &invocation.agent;
    // A channel of its own, because what the work says must not reach the user as if the agent had said it.
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
        // Nobody is to hear the words of a tool as if the agent had said them.
        heard: false,
        // An agent that is called by a script has a model of its own, which is told texts.
        keeps_data: false,
        // What it says is part of its result, and nobody else's words come in between.
        floor: Floor::default(),
        cancel: agent.cancel.clone(),
        signals: send,
    };
    // Dropped after the work, so that it hears what the work tells when it is stopped.
    let mut relay = Relay { agent, signals };
    let mut work = std::pin::pin!(work(ctx));
    loop {
        tokio::select! {
            // In this order, so that what work has told is handed on before its end.
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

/// What work has told and nobody has heard yet.
struct Relay<'a> {
    agent: &'a NodeContext,
    signals: mpsc::Receiver<(u32, Signal)>,
}

impl Drop for Relay<'_> {
    fn drop(&mut self) {
        while let Ok((_, signal)) = self.signals.try_recv() {
            if reaches_the_run(&signal) {
                // Nobody can wait here.
                let _ = self.agent.signals.try_send((self.agent.activation, signal));
            }
        }
    }
}

async fn hand_on(agent: &NodeContext, signal: Signal) -> Result<()> {
    if reaches_the_run(&signal) { agent.signal(signal).await } else { Ok(()) }
}

/// What work says is part of its result.
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

/// What finished work gives the model: its main output, else all of them.
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

/// A problem of a component as one error.
pub(super) fn refused(kind: &str, problems: &[weft_core::ParamProblem]) -> Error {
    let told = |problem: &weft_core::ParamProblem| {
        let help = problem.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}: {}{help}", problem.pointer.trim_start_matches('/'), problem.message)
    };
    let told: Vec<String> = problems.iter().map(told).collect();
    Error::invalid(format!("the arguments don't suit {kind}: {}", told.join("; ")))
}
