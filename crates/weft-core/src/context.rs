//! What a component is given while it runs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::citation::Citations;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{ComponentId, RunId, SessionId, TenantId};
use crate::reference::{Inputs, Names, Reference};
use crate::seam::Seams;
use crate::stream::{Piece, SharedText};
use crate::value::{Json, Value};

/// What the caller gave for one turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnInput {
    /// The question; empty is allowed.
    #[serde(default)]
    pub query: String,
    /// Who asks.
    #[serde(default)]
    pub user_id: String,
    /// Attached files as texts or data URIs; replaces those of the turn before.
    #[serde(default)]
    pub files: Vec<Json>,
    /// Form values: `{field: value}`, `{field: {"value": …}}`, or the same below a component's id.
    #[serde(default)]
    pub inputs: serde_json::Map<String, Json>,
}

/// One message of the conversation so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// What was said and shown.
    pub content: String,
}

/// What is the same for all activations of one run.
#[derive(Debug)]
pub struct RunContext {
    /// Whose run it is.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// The conversation it is part of.
    pub session: SessionId,
    /// What the caller gave.
    pub input: TurnInput,
    /// Earlier messages, oldest first, without this turn's question.
    pub history: Vec<HistoryMessage>,
    /// The sources found so far in this turn.
    pub citations: Citations,
    /// The outside.
    pub seams: Arc<Seams>,
    /// Every component id of the canvas, for references that are only known at run time.
    pub components: Arc<std::collections::HashSet<ComponentId>>,
    /// What random choices derive from; the same seed chooses the same.
    pub seed: u64,
}

/// The round of a frame that an activation belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// 0-based.
    pub index: usize,
    /// The item, in an Iteration.
    pub item: Option<Arc<Json>>,
}

/// What an activation tells the engine while it runs.
#[derive(Debug)]
pub enum Signal {
    /// A piece of the visible answer.
    Say(Piece),
    /// An output that is still growing; listeners may begin.
    Publish(Arc<str>, SharedText),
    /// Tokens that a model call used.
    Used(crate::seam::chat_model::Usage),
    /// Something worth knowing that is no failure.
    Warn(String),
}

/// How many signals of one activation may wait for the engine.
pub const SIGNALS_IN_FLIGHT_MAX: usize = 64;

/// What one activation is given.
#[derive(Debug)]
pub struct NodeContext {
    /// What it shares with the whole run.
    pub run: Arc<RunContext>,
    /// Its node.
    pub node: ComponentId,
    /// The node's display name.
    pub name: Arc<str>,
    /// Which activation of the run this is, from 1 on.
    pub activation: u32,
    /// The values of what it reads. Streams appear only for components that listen.
    pub inputs: Inputs,
    /// Which of [`crate::component::Reads::alternatives`] was chosen.
    pub alternative: usize,
    /// The innermost round around it.
    pub round: Option<Round>,
    /// Values a person filled in, for Entry and Pause nodes: field → value.
    pub filled: serde_json::Map<String, Json>,
    /// Whether a listener follows, so that publishing a growing text is worth while.
    pub heard: bool,
    /// Fires when the run is cancelled or the activation's frame is left.
    pub cancel: CancellationToken,
    /// To the engine, with the number of the activation; use [`NodeContext::signal`].
    pub signals: mpsc::Sender<(u32, Signal)>,
}

impl NodeContext {
    /// Shows a piece of the answer to the user. Waits when the engine is behind.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn say(&self, piece: Piece) -> Result<()> {
        self.signal(Signal::Say(piece)).await
    }

    /// Hands over an output that is still growing.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn publish(&self, output: &str, text: SharedText) -> Result<()> {
        self.signal(Signal::Publish(output.into(), text)).await
    }

    /// Sends any signal.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn signal(&self, signal: Signal) -> Result<()> {
        self.signals
            .send((self.activation, signal))
            .await
            .map_err(|_| Error::new(ErrorKind::Cancelled, "the run has been cancelled"))
    }

    /// The value of something it reads.
    pub fn value(&self, reference: &Reference) -> Value {
        self.inputs.value(reference)
    }

    /// The last `turns` turns of the conversation, oldest first: two messages each.
    pub fn history(&self, turns: usize) -> &[crate::context::HistoryMessage] {
        let messages = &self.run.history;
        &messages[messages.len().saturating_sub(turns.saturating_mul(2))..]
    }

    /// What texts that are only known at run time may refer to.
    pub fn names(&self) -> Names<'_> {
        Names { components: &self.run.components, item: None }
    }

    /// A number that is the same whenever this activation of this run is repeated.
    pub fn random(&self) -> u64 {
        mix(self.run.seed ^ u64::from(self.activation).rotate_left(32))
    }
}

/// SplitMix64's finaliser (Steele, Lea, Flood 2014): spreads a counter over all 64 bits.
pub fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
