//! Performs one activation, whatever happens in it, and applies the node's exception settings to what
//! came of it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weft_core::budget::Budget;
use weft_core::component::{Finished, Role, Route};
use weft_core::context::{RunContext, Signal};
use weft_core::effect::Effects;
use weft_core::journal::{Assigned, Onward};
use weft_core::{Error, ErrorKind, Json, NodeContext, Outputs, Result, Value};
use weft_dsl::plan::{NodeIx, Plan, PlanNode};

use crate::keys::Before;
use crate::machine::Start;
use crate::{form, pins};

/// What became of an activation.
pub struct Outcome {
    /// See the type.
    pub activation: u32,
    /// See the type.
    pub result: Result<Finished>,
}

/// A settled outcome: exception settings applied.
pub struct Settled {
    /// See the type.
    pub activation: u32,
    /// See the type.
    pub finished: Finished,
    /// See the type.
    pub onward: Onward,
    /// See the type.
    pub error: Option<Error>,
}

/// What an activation has of its own.
pub struct Own {
    /// Its calls to the outside.
    pub effects: Effects,
    /// What it may use.
    pub budget: Arc<Budget>,
    /// Stops it.
    pub cancel: CancellationToken,
    /// Where it tells what it does.
    pub signals: mpsc::Sender<(u32, Signal)>,
}

/// What an activation is given; taken out of its start.
pub fn context_of(run: &Arc<RunContext>, node: &PlanNode, start: &mut Start, own: Own) -> NodeContext {
    let filled = std::mem::take(&mut start.filled);
    let filled = match node.role {
        Role::Entry if start.resumed.is_none() => form::unwrap(&run.input.inputs),
        _ => filled,
    };
    NodeContext {
        run: Arc::clone(run),
        node: node.id.clone(),
        name: Arc::clone(&node.name),
        activation: start.who.activation,
        inputs: std::mem::take(&mut start.inputs),
        alternative: start.alternative,
        round: start.round.take(),
        filled,
        timed_out: start.timed_out,
        resumed: start.resumed.take(),
        budget: own.budget,
        effects: own.effects,
        part: "".into(),
        heard: start.heard,
        cancel: own.cancel,
        signals: own.signals,
    }
}

/// The work of an activation: its node's, or nothing for a node that is pinned.
pub fn work(
    plan: &Arc<Plan>,
    ix: NodeIx,
    context: NodeContext,
    limit: Duration,
) -> BoxFuture<'static, Outcome> {
    let (plan, cancel) = (Arc::clone(plan), context.cancel.clone());
    async move {
        let node = &plan.nodes[ix];
        match context.run.input.pins.get(&node.id) {
            Some(pin) => {
                Outcome { activation: context.activation, result: pins::given(node, pin, &context).await }
            }
            None if node.exception.asks_for_keys => with_keys(node, context, cancel, limit).await,
            None => perform(node, context, cancel, limit).await,
        }
    }
    .boxed()
}

/// Performs an activation that waits for a person when it lacks a key.
async fn with_keys(
    node: &PlanNode,
    mut context: NodeContext,
    cancel: CancellationToken,
    limit: Duration,
) -> Outcome {
    let (activation, budget) = (context.activation, Arc::clone(&context.budget));
    let before = match Before::of(&mut context) {
        Ok(before) => before,
        Err(given_up) => return Outcome { activation, result: Err(given_up) },
    };
    let outcome = perform(node, context, cancel, limit).await;
    let result = before.ask((&node.name, budget.own().tool_calls), outcome.result);
    Outcome { activation, result }
}

/// Performs one activation, whatever happens: too slow, stopped, or panicking.
async fn perform(
    node: &PlanNode,
    context: NodeContext,
    cancel: CancellationToken,
    limit: Duration,
) -> Outcome {
    let activation = context.activation;
    let work = AssertUnwindSafe(node.component.run(&context)).catch_unwind();
    let result = tokio::select! {
        // The work first: most of it is done at the first look, and then nobody asks for the rest.
        biased;
        done = tokio::time::timeout(limit, work) => match done {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(Error::internal(format!("the component broke: {}", panic_text(&*panic)))
                .help("this is a defect of Weft; please report it with the canvas")),
            Err(_) => Err(Error::new(ErrorKind::Timeout, format!("it took longer than its {} s", limit.as_secs_f64()))),
        },
        () = cancel.cancelled() => Err(cancelled()),
    };
    Outcome { activation, result }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Applies a node's exception settings: a branch, a default value, or failure.
pub fn settle(node: &PlanNode, outcome: Outcome) -> Settled {
    let activation = outcome.activation;
    let error = match outcome.result {
        Ok(finished) => {
            let onward = Onward::By(finished.route.clone());
            return Settled { activation, finished, onward, error: None };
        }
        Err(error) => error,
    };
    let mut outputs = Outputs::of("_ERROR", Json::String(error.full()));
    let exception = &node.exception;
    let onward = if error.kind == ErrorKind::Cancelled || !exception.armed {
        Onward::Nowhere
    } else if !exception.goto.is_empty() {
        Onward::Exception
    } else if let Some(default) = &exception.default {
        let main = if node.shape.main_output.is_empty() { "result" } else { node.shape.main_output };
        outputs.set(main, default.clone());
        Onward::By(Route::Onward)
    } else {
        Onward::Nowhere
    };
    Settled { activation, finished: Finished::with(outputs), onward, error: Some(error) }
}

pub fn assigned(pairs: &[(weft_core::Reference, Json)]) -> Vec<Assigned> {
    pairs.iter().map(|(target, value)| Assigned::new(target, value.clone())).collect()
}

/// A text that was still being written when the node began is whole by the time it finishes.
pub fn settled_inputs(named: &Arc<Outputs>) -> Arc<Outputs> {
    if named.0.values().all(|value| value.as_json().is_some()) {
        return Arc::clone(named);
    }
    let settled = named.0.iter().map(|(name, value)| (Arc::clone(name), Value::Json(value.snapshot())));
    Arc::new(Outputs(settled.collect()))
}

/// What came of an activation; what is too large is a failure.
pub fn bounded(mut outcome: Outcome, bytes_max: usize) -> Outcome {
    if outcome.result.as_ref().is_ok_and(|finished| size(finished) > bytes_max) {
        let message = format!("its output is larger than {bytes_max} bytes");
        outcome.result = Err(Error::invalid(message).help("shorten it, or raise limits.output_bytes"));
    }
    outcome
}

/// About how many bytes what an activation gives takes as text.
fn size(finished: &Finished) -> usize {
    fn of(json: &Json) -> usize {
        match json {
            Json::String(text) => text.len(),
            Json::Array(items) => items.iter().map(|item| of(item) + 1).sum(),
            Json::Object(map) => map.iter().map(|(key, value)| key.len() + of(value) + 4).sum(),
            Json::Null | Json::Bool(_) | Json::Number(_) => 8,
        }
    }
    let outputs = finished.outputs.0.values().filter_map(Value::as_json);
    let asleep = finished.suspended.iter();
    let asleep = asleep.flat_map(|asleep| asleep.form.fields.values().chain([&asleep.state]));
    outputs.chain(asleep).map(of).sum()
}

pub fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the run was cancelled")
}
