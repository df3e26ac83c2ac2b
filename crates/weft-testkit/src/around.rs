//! A run and a node context without any services, to which a test adds what it needs.

use std::sync::Arc;

use tokio::sync::mpsc;
use weft_core::budget::Budget;
use weft_core::context::{NodeContext, RunContext, SIGNALS_IN_FLIGHT_MAX, Signal, TurnInput};
use weft_core::effect::Effects;
use weft_core::reference::Inputs;
use weft_core::seam::Seams;
use weft_core::seam::browser::NoBrowser;
use weft_core::seam::chat_model::NoModels;
use weft_core::seam::clock::FixedClock;
use weft_core::seam::conversations::NoConversations;
use weft_core::seam::databases::NoDatabases;
use weft_core::seam::document_reader::NoReader;
use weft_core::seam::document_writer::NoWriter;
use weft_core::seam::file_store::NoFiles;
use weft_core::seam::knowledge::NoKnowledge;
use weft_core::seam::mailer::NoMailer;
use weft_core::seam::memories::NoMemories;
use weft_core::seam::sandbox::NoSandbox;
use weft_core::seam::secrets::NoSecrets;
use weft_core::seam::tool_source::NoTools;
use weft_core::seam::workspace::NoWorkspace;

use crate::FakeHttp;

/// Receives the signals of a node.
pub type SignalReceiver = mpsc::Receiver<(u32, Signal)>;

/// Seams without models, documents, tools, files, programs or a browser, and with a clock that stands still.
pub fn no_seams() -> Seams {
    Seams {
        models: Arc::new(NoModels),
        http: Arc::new(FakeHttp::new()),
        knowledge: Arc::new(NoKnowledge),
        memories: Arc::new(NoMemories),
        conversations: Arc::new(NoConversations),
        tools: Arc::new(NoTools),
        workspace: Arc::new(NoWorkspace),
        sandbox: Arc::new(NoSandbox),
        files: Arc::new(NoFiles),
        documents: Arc::new(NoWriter),
        databases: Arc::new(NoDatabases),
        browser: Arc::new(NoBrowser),
        reader: Arc::new(NoReader),
        mailer: Arc::new(NoMailer),
        secrets: Arc::new(NoSecrets),
        clock: Arc::new(FixedClock(0)),
    }
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
