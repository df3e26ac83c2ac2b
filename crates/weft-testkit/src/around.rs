//! A run and a node context without any services, to which a test adds what it needs.

use std::sync::Arc;

use tokio::sync::mpsc;
use weft_core::budget::Budget;
use weft_core::context::{NodeContext, RunContext, SIGNALS_IN_FLIGHT_MAX, Signal, TurnInput};
use weft_core::effect::Effects;
use weft_core::reference::Inputs;
use weft_core::seam::Seams;
use weft_core::seam::clock::FixedClock;

use crate::FakeHttp;

/// Receives the signals of a node.
pub type SignalReceiver = mpsc::Receiver<(u32, Signal)>;

/// Seams without models, documents, tools, files, programs or a browser, and with a clock that stands still.
pub fn no_seams() -> Seams {
    Seams::without_services(Arc::new(FakeHttp::new()), Arc::new(FixedClock(0)))
}

/// The run `r` of the tenant `t` in the session `s`, without limits.
pub fn run_context() -> RunContext {
    RunContext {
        tenant: "t".into(),
        run: "r".into(),
        canvas: "c".into(),
        session: "s".into(),
        input: TurnInput::default(),
        history: Vec::new(),
        past_calls: Default::default(),
        inbox: Default::default(),
        citations: Default::default(),
        masks: Default::default(),
        seams: Arc::new(no_seams()),
        components: Arc::default(),
        budget: Budget::unlimited(),
        seed: 1,
    }
}

/// The first activation of the node `Agent:A`, and the receiver of its signals.
pub fn node_context(run: RunContext) -> (NodeContext, SignalReceiver) {
    let (signals, coming) = mpsc::channel(SIGNALS_IN_FLIGHT_MAX);
    let ctx = NodeContext {
        run: Arc::new(run),
        node: "Agent:A".into(),
        name: "A".into(),
        activation: 1,
        inputs: Inputs::default(),
        alternative: 0,
        round: None,
        filled: serde_json::Map::new(),
        timed_out: false,
        resumed: None,
        budget: Budget::unlimited(),
        effects: Effects::default(),
        part: "".into(),
        heard: false,
        keeps_data: false,
        floor: Default::default(),
        cancel: Default::default(),
        signals,
    };
    (ctx, coming)
}
