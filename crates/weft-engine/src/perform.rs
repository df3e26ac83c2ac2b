//! Performs one activation, whatever happens in it, and applies the node's exception settings to the outcome.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::mpsc;
use tokio::task::coop::unconstrained;
use tokio_util::sync::CancellationToken;
use weft_core::budget::Budget;
use weft_core::component::{Finished, Role, Route};
use weft_core::context::{RunContext, Signal};
use weft_core::effect::Effects;
use weft_core::journal::{ActivationRef, NextEdges};
use weft_core::reference::Inputs;
use weft_core::value::{DEPTH_MAX, weight};
use weft_core::{Error, ErrorKind, Floor, Json, NodeContext, Outputs, Result, Value};
use weft_dsl::plan::{NodeIx, Plan, PlanNode};

use crate::keys::ResumedInput;
use crate::machine::{ActivationStart, BrokenFrame, Machine};
use crate::{form, pins, secrets};

/// The output that holds the reason for a node's failure.
pub(crate) const ERROR: &str = "_ERROR";

/// The outcome of an activation.
pub(crate) struct ActivationOutcome {
    /// Its number in the run.
    pub activation: u32,
    /// What the component returned.
    pub result: Result<Finished>,
}

/// An outcome with the exception settings applied.
pub(crate) struct NodeResult {
    /// Its number in the run.
    pub activation: u32,
    /// Its outputs and decisions.
    pub finished: Finished,
    /// Which of its edges fire.
    pub onward: NextEdges,
    /// The failure that was caught, or that ends the run.
    pub error: Option<Error>,
}

/// What belongs to one activation alone.
pub(crate) struct Own {
    /// Its outside calls.
    pub effects: Effects,
    /// The budget it draws on.
    pub budget: Arc<Budget>,
    /// The right to speak.
    pub floor: Floor,
    /// Cancels it.
    pub cancel: CancellationToken,
    /// Where it sends its signals.
    pub signals: mpsc::Sender<(u32, Signal)>,
    /// Maximum size in bytes of the texts that it may build; the same as for its output.
    pub text_max: usize,
}

/// Builds the context of an activation, taking the values out of its start.
pub(crate) fn context_of(
    run: &Arc<RunContext>,
    node: &PlanNode,
    start: &mut ActivationStart,
    own: Own,
) -> NodeContext {
    let filled = std::mem::take(&mut start.filled);
    let filled = match node.role {
        // The entry's form is answered by the turn itself.
        Role::Entry if start.resumed.is_none() => form::unwrap(&run.input.inputs),
        _ => filled,
    };
    NodeContext {
        run: Arc::clone(run),
        node: node.id.clone(),
        name: Arc::clone(&node.name),
        activation: start.who.activation,
        inputs: Inputs::bounded(std::mem::take(&mut start.inputs), own.text_max),
        alternative: start.alternative,
        round: start.round.take(),
        filled,
        timed_out: start.timed_out,
        resumed: start.resumed.take(),
        budget: own.budget,
        effects: own.effects,
        part: Arc::default(),
        heard: start.heard,
        keeps_data: false,
        floor: own.floor,
        cancel: own.cancel,
        signals: own.signals,
    }
}

/// Returns the work of an activation: that of its node, or none for a pinned node.
pub(crate) fn work(
    plan: &Arc<Plan>,
    ix: NodeIx,
    mut context: NodeContext,
    limit: Duration,
) -> BoxFuture<'static, ActivationOutcome> {
    let plan = Arc::clone(plan);
    async move {
        let (node, activation) = (&plan.nodes[ix], context.activation);
        let result = match context.run.input.pins.get(&node.id) {
            Some(pin) => pins::given(node, pin, &context).await,
            None if node.exception.asks_for_keys => with_keys(node, &mut context, limit).await,
            None => perform(node, &context, limit).await,
        };
        ActivationOutcome { activation, result }
    }
    .boxed()
}

/// Performs an activation that waits for a person when a key is missing.
async fn with_keys(node: &PlanNode, context: &mut NodeContext, limit: Duration) -> Result<Finished> {
    let before = ResumedInput::of(context)?;
    let result = perform(node, context, limit).await;
    before.ask(&node.name, context.budget.own().tool_calls, result)
}

/// Performs one activation, whatever happens: a timeout, cancellation, or a panic.
async fn perform(node: &PlanNode, context: &NodeContext, limit: Duration) -> Result<Finished> {
    // A node set to ask for missing keys also asks for those of its tools.
    let dispensable: &[_] =
        if node.exception.asks_for_keys { &[] } else { node.shape.dispensable.as_slice() };
    secrets::must_be_there(&context.inputs, dispensable)?;
    // A component that panics fails like any other, subject to the exception settings of its node.
    let work = AssertUnwindSafe(node.component.run(context)).catch_unwind();
    tokio::pin!(work);
    // Most work completes on the first poll; a timer is set up only for the rest.
    let first = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
    let done = match first {
        Poll::Ready(done) => done,
        Poll::Pending => {
            // Polled only when one of the two wakes this task, not with every piece of text; and
            // unconstrained, so that it is polled even when the work has used up the task's cooperative
            // budget.
            let mut ends: FuturesUnordered<BoxFuture<'_, Error>> = FuturesUnordered::new();
            ends.push(unconstrained(tokio::time::sleep(limit)).map(|()| too_slow(limit)).boxed());
            ends.push(unconstrained(context.cancel.cancelled()).map(|()| cancelled()).boxed());
            tokio::select! {
                // A result that is there counts, even if the time is up by now.
                biased;
                done = work => done,
                Some(end) = ends.next() => return Err(end),
            }
        }
    };
    done.unwrap_or_else(|panic| {
        Err(Error::internal(format!("the component panicked: {}", panic_text(&*panic)))
            .help("this is a defect of Weft; please report it with the canvas"))
    })
}

fn too_slow(limit: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("it took longer than its {} s", limit.as_secs_f64()))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Applies a node's exception settings: a branch, a default value, or failure.
pub(crate) fn settle(node: &PlanNode, outcome: ActivationOutcome) -> NodeResult {
    let activation = outcome.activation;
    match outcome.result.and_then(|finished| within_reach(node, finished)) {
        Ok(finished) => {
            let onward = NextEdges::Routed(finished.route.clone());
            NodeResult { activation, finished, onward, error: None }
        }
        Err(error) => {
            let (onward, outputs) = handled(node, &error);
            NodeResult { activation, finished: Finished::with(outputs), onward, error: Some(error) }
        }
    }
}

fn handled(node: &PlanNode, error: &Error) -> (NextEdges, Outputs) {
    let mut outputs = Outputs::of(ERROR, Json::String(error.full()));
    let exception = &node.exception;
    // A cancelled run must not continue through a branch or a default value.
    let onward = if error.kind == ErrorKind::Cancelled || !exception.armed {
        NextEdges::None
    } else if !exception.goto.is_empty() {
        NextEdges::Exception
    } else if let Some(default) = &exception.default {
        let main = if node.shape.main_output.is_empty() { "result" } else { node.shape.main_output };
        let filled = node.component.default_outputs(default);
        outputs.0.extend(filled.unwrap_or_else(|| Outputs::of(main, default.clone())).0);
        NextEdges::Routed(Route::Onward)
    } else {
        NextEdges::None
    };
    (onward, outputs)
}

impl NodeResult {
    /// Returns what nodes that started early with a part of its output get, or why they get nothing.
    ///
    /// # Errors
    /// The error of a failure that nothing has caught.
    pub(crate) fn produced(&self) -> Result<&Outputs, &Error> {
        match &self.error {
            Some(error) if self.onward == NextEdges::None => Err(error),
            Some(_) | None => Ok(&self.finished.outputs),
        }
    }
}

/// Rejects a branch that leads into or out of a frame: it would lead nowhere, which is not a success.
fn within_reach(node: &PlanNode, finished: Finished) -> Result<Finished> {
    let Route::To(targets) = &finished.route else { return Ok(finished) };
    let Some(target) = targets.iter().find(|id| node.out_of_reach.contains(id)) else { return Ok(finished) };
    let message = format!("the branch to `{target}` leads into or out of the body of a frame");
    Err(Error::invalid(message).help("connect it to a component of the same body"))
}

/// Applies the exception settings of an Iteration or Loop to a failure in its body. Its variables keep their
/// values, and a default value replaces whatever its rounds would have collected.
pub(crate) fn settle_frame(node: &PlanNode, activation: u32, broken: BrokenFrame) -> NodeResult {
    let error = Error::new(ErrorKind::Unavailable, broken.reason);
    let mut settled = settle(node, ActivationOutcome { activation, result: Err(error) });
    let mut outputs = (*broken.outputs).clone();
    outputs.0.extend(std::mem::take(&mut settled.finished.outputs.0));
    if let (Some(default), NextEdges::Routed(_)) = (&node.exception.default, &settled.onward) {
        for (name, _) in &node.shape.collects {
            outputs.set(name, default.clone());
        }
    }
    settled.finished.outputs = outputs;
    settled
}

/// Returns the inputs with complete texts: a text that was still being written when the node started is
/// complete by the time it finishes.
pub(crate) fn settled_inputs(named: &Arc<Outputs>) -> Arc<Outputs> {
    if named.0.values().all(|value| value.as_json().is_some()) {
        return Arc::clone(named);
    }
    let settled = named.0.iter().map(|(name, value)| (Arc::clone(name), Value::Json(value.snapshot())));
    Arc::new(Outputs(settled.collect()))
}

/// How much an activation may produce.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActivationRoom {
    /// Limit for its own output.
    output_bytes: usize,
    /// Limit for all values of the run together.
    values_bytes: usize,
    /// What the run holds already, without what the new outputs replace.
    held_bytes: usize,
}

impl ActivationRoom {
    /// Returns the room of a running activation under these limits for one output and for all values.
    pub(crate) fn of(machine: &Machine, activation: u32, output_bytes: usize, values_bytes: usize) -> Self {
        let held_bytes = machine.held_bytes().saturating_sub(machine.replaced_bytes(activation));
        Self { output_bytes, values_bytes, held_bytes }
    }

    /// Checks that an output of this size fits.
    ///
    /// # Errors
    /// `Invalid`, naming the setting that limits it.
    fn check(self, size: Option<usize>) -> Result<()> {
        let Some(size) = size else {
            return Err(Error::invalid(format!("its output is nested more than {DEPTH_MAX} levels deep")));
        };
        if size > self.output_bytes {
            let message = format!("its output is larger than {} bytes", self.output_bytes);
            return Err(Error::invalid(message).help("shorten it, or raise limits.output_bytes"));
        }
        if self.held_bytes.saturating_add(size) > self.values_bytes {
            return Err(too_much(self.values_bytes));
        }
        Ok(())
    }
}

/// Returns the error of a run that holds too much.
pub(crate) fn too_much(values_bytes: usize) -> Error {
    let message = format!("the values of the run take more than {values_bytes} bytes together");
    Error::new(ErrorKind::QuotaExceeded, message)
        .help("keep less in outputs, results of rounds and variables, or raise limits.values_bytes")
}

/// Returns the message of a run that fails because of an activation.
pub(crate) fn failed_with(who: &ActivationRef, error: &str) -> String {
    let id = if *who.name == *who.node.as_str() { String::new() } else { format!(" ({})", who.node) };
    format!("{}{id} failed: {error}", who.name)
}

/// Returns the outcome of an activation; an output that is too large becomes a failure.
pub(crate) fn bounded(mut outcome: ActivationOutcome, room: ActivationRoom) -> ActivationOutcome {
    let too_large = outcome.result.as_ref().ok().and_then(|finished| room.check(size(finished)).err());
    if let Some(error) = too_large {
        outcome.result = Err(error);
    }
    outcome
}

/// Approximate size in bytes of what an activation produces, as text; `None` when it nests too deep.
fn size(finished: &Finished) -> Option<usize> {
    let outputs = finished.outputs.0.values().filter_map(Value::as_json);
    // The items of an Iteration are not an output, but they are held all the same.
    let items = finished.items.iter().flatten();
    let suspended = finished.suspended.iter();
    let suspended = suspended.flat_map(|suspended| suspended.form.fields.values().chain([&suspended.state]));
    outputs.chain(items).chain(suspended).try_fold(0, |sum: usize, value| Some(sum + weight(value)?))
}

pub(crate) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the run was cancelled")
}
