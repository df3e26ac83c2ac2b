//! What a component receives while it runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::budget::{Budget, Limit};
use crate::citation::Citations;
use crate::effect::{
    Delivery, EffectFinished, EffectResult, EffectStarted, Effects, Known, Match, NOTE_AGE_MAX, NOTES_MAX,
    RecordedCall,
};
use crate::error::{Error, ErrorKind, Result};
use crate::floor::Floor;
use crate::id::{CanvasId, ComponentId, RunId, SessionId, TenantId};
use crate::inbox::Inbox;
use crate::masking::Masks;
use crate::past_calls::PastCalls;
use crate::reference::{Inputs, Names, Reference};
use crate::seam::Seams;
use crate::seam::session_store::SessionMessage;
use crate::seam::speech::Audio;
use crate::stream::{Piece, SharedText};
use crate::value::{Json, Outputs, Value};

/// The caller's input for one turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnInput {
    /// The question; empty is allowed.
    #[serde(default)]
    pub query: String,
    /// The user who asks.
    #[serde(default)]
    pub user_id: String,
    /// Attached pictures as data URIs. They replace those of the previous turn. See [`TurnInput::check_files`].
    #[serde(default)]
    pub files: Vec<Json>,
    /// Form values: `{field: value}`, `{field: {"value": …}}`, or either of these nested under a component's id.
    #[serde(default)]
    pub inputs: serde_json::Map<String, Json>,
    /// Nodes that do not run because their outputs are given here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pins: BTreeMap<ComponentId, Pin>,
    /// Whether the client can show several messages at once. If so, messages that are written concurrently are sent
    /// concurrently, piece by piece; otherwise one is sent and the others are held back until it has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parallel_messages: bool,
    /// Whether no client waits for this turn. It then never makes way for a question of its session, whichever
    /// process runs it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Whether the answer is stored with every source that was found, not only with those it cites. Clients of chat
    /// assistants read the n of `[ID:n]` as an index in the list, so that no source may be missing from it.
    // Not for every turn: in the answers of agents a source names its own number, so that what nobody cites, which may be
    // hundreds of passages of a search, would be stored and listed for nothing. Assistants that do not quote list none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_sources: bool,
    /// Data that the route which started the turn wants to find in its journal again, under a name of its own.
    /// Components do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<Box<serde_json::Map<String, Json>>>,
    /// The request with which another program called a webhook: `query`, `headers`, `body` and the `request` they
    /// belong to. Begin passes them on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Box<Json>>,
}

impl TurnInput {
    /// Refuses attachments that cannot be read. Pictures in the request itself are passed to models as they are. A
    /// document, however, would end up in a prompt verbatim, as megabytes of base64, and an address would be fetched
    /// by whichever service runs the model.
    ///
    /// # Errors
    /// `Unsupported`, before anything has started.
    pub fn check_files(&self) -> Result<()> {
        let picture = |file: &Json| file.as_str().is_some_and(|text| text.starts_with("data:image/"));
        let refused = |what: &str| {
            Err(Error::new(ErrorKind::Unsupported, format!("{what}: no file reader is available here"))
                .help("put the file's text into the question, or ask over HTTP, where files are read"))
        };
        if let Some(place) = self.files.iter().position(|file| !picture(file)) {
            return refused(&format!("entry {place} of `files` is not a picture as a data URI"));
        }
        match self
            .inputs
            .iter()
            .find(|(_, value)| names_upload(value) || value.get("value").is_some_and(names_upload))
        {
            Some((field, _)) => refused(&format!("the value of `{field}` is an uploaded file")),
            None => Ok(()),
        }
    }
}

/// Whether a form value is the descriptor of an upload, or a list that contains one.
fn names_upload(value: &Json) -> bool {
    match value {
        Json::Array(items) => items.iter().any(names_upload),
        Json::Object(members) => ["id", "name", "mime_type"].iter().all(|key| members.contains_key(*key)),
        _ => false,
    }
}

/// The result of a node that does not run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Its outputs.
    #[serde(default)]
    pub outputs: Outputs,
    /// The successors of a branching node that run next; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<ComponentId>>,
}

/// One message of the conversation so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// What was said and shown.
    pub content: String,
    /// The run that it belongs to; absent for the opening message and where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
}

impl From<SessionMessage> for HistoryMessage {
    fn from(message: SessionMessage) -> Self {
        let SessionMessage { role, content, run, reference: _, created_ms: _, feedback: _ } = message;
        Self { role, content, run }
    }
}

/// What all activations of one run share.
#[derive(Debug)]
pub struct RunContext {
    /// The tenant that owns the run.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// The canvas that runs; empty if it is not stored.
    pub canvas: CanvasId,
    /// The conversation that it is part of.
    pub session: SessionId,
    /// The caller's input.
    pub input: TurnInput,
    /// Earlier messages, oldest first, as models see them: without the session's opening message, and without what
    /// this turn itself has said and asked.
    pub history: Vec<HistoryMessage>,
    /// The calls made in earlier turns.
    pub past_calls: PastCalls,
    /// Messages sent to the run while it is in progress; see [`NodeContext::messages_before`].
    pub inbox: Inbox,
    /// The sources found so far in this turn.
    pub citations: Citations,
    /// The secrets that must not be written or shown.
    pub masks: Masks,
    /// The services outside the engine.
    pub seams: Arc<Seams>,
    /// Every component id of the canvas, for references that are only known at run time.
    pub components: Arc<std::collections::HashSet<ComponentId>>,
    /// The budget of the whole run.
    pub budget: Arc<Budget>,
    /// The seed of all random choices; the same seed leads to the same choices.
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

/// A notification from a running activation to the engine.
// Large, rare payloads are boxed: a channel holds dozens of signals at a time, and nearly all of them are text
// pieces.
#[derive(Debug)]
pub enum Signal {
    /// It wants to speak while another activation has the floor.
    Speak,
    /// A piece of the visible answer.
    Say(Piece),
    /// The most recent text, as speech.
    Play(Audio),
    /// An output that is still growing; listeners may start reading it.
    Publish(Arc<str>, SharedText),
    /// What a model call used.
    Used(Box<crate::usage::UsedModel>),
    /// A problem worth reporting that is not a failure.
    Warn(String),
    /// A tool is being called.
    ToolStarted(Box<ToolStarted>),
    /// A tool call has ended.
    ToolFinished(Box<ToolFinished>),
    /// A budget or another limit of an agent has cut its work short.
    Limited(Limited),
    /// An external call is about to be made.
    EffectStarted(EffectStarted),
    /// An external call has returned.
    EffectFinished(EffectFinished),
    /// Requests a reply once everything it has sent so far is stored. The reply says since when, as in
    /// [`EffectStarted::safe`].
    Stored(oneshot::Sender<std::time::Duration>),
}

/// A tool call that is starting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolStarted {
    /// The calling agent. The id of a sub-agent is its parent agent's id, `-->` and its own name.
    pub agent: ComponentId,
    /// The path to the tool in display names: `Agent A-->search`.
    pub path: Arc<str>,
    /// The call's id, unique within the activation: the ids of the enclosing calls, each followed by `/`, then its
    /// own.
    pub call: Arc<str>,
    /// The name the model calls it by.
    pub tool: Arc<str>,
    /// The arguments, without presets.
    pub arguments: Arc<Json>,
}

/// A tool call that has ended. Every [`ToolStarted`] has one, even if the call failed, timed out or was stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolFinished {
    /// The call that was started.
    #[serde(flatten)]
    pub started: ToolStarted,
    /// The tool's output, or what the model is told about its failure.
    pub result: Arc<Json>,
    /// Whether it failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Whether the arguments had to be repaired before they could be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repaired: bool,
    /// How long it took, in seconds.
    pub elapsed: f64,
}

/// Why an agent's work was cut short although it gave an answer or could have given one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limited {
    /// A budget is used up.
    Budget(Limit),
    /// Its own limit on rounds is reached.
    MaxRounds,
    /// It repeated the same action over and over.
    LoopDetected,
}

impl Limited {
    /// The name used for it in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget(Limit::Rounds) => "max_rounds",
            Self::Budget(limit) => limit.as_str(),
            Self::MaxRounds => "max_rounds",
            Self::LoopDetected => "loop_detected",
        }
    }
}

/// Maximum number of signals of one activation that may be queued for the engine.
// Beyond it an activation waits: it must not fill the memory while the engine stores what came before.
pub const SIGNALS_IN_FLIGHT_MAX: usize = 64;

/// What one activation receives. A clone belongs to the same activation.
#[derive(Clone, Debug)]
pub struct NodeContext {
    /// What it shares with the whole run.
    pub run: Arc<RunContext>,
    /// Its node.
    pub node: ComponentId,
    /// The node's display name.
    pub name: Arc<str>,
    /// The number of this activation within the run, counted from 1.
    pub activation: u32,
    /// The values of what it reads. Streams appear only for components that listen.
    pub inputs: Inputs,
    /// Which of [`crate::component::Reads::alternatives`] was chosen.
    pub alternative: usize,
    /// The innermost round around it.
    pub round: Option<Round>,
    /// The values a person filled in, for Entry and Pause nodes: field → value.
    pub filled: serde_json::Map<String, Json>,
    /// For a Pause node: whether the time limit passed without an answer.
    pub timed_out: bool,
    /// The state it saved when it suspended to wait for a person; see [`crate::component::Suspension`].
    pub resumed: Option<Json>,
    /// What it may use up.
    pub budget: Arc<Budget>,
    /// Its external calls; see [`NodeContext::effect`].
    pub effects: Effects,
    /// Which part of the activation's work this is: empty for the node's own work, or the ids of the enclosing calls
    /// for work that an agent calls.
    pub part: Arc<str>,
    /// Whether a listener follows, so that publishing a growing text is worthwhile.
    pub heard: bool,
    /// Whether the data of the calls made here is retained in addition to what the model is shown, as scripts need
    /// it; see [`crate::tool::ToolOutput::data`].
    pub keeps_data: bool,
    /// The right to speak; see [`NodeContext::say`].
    pub floor: Floor,
    /// Fires when the run is cancelled or the activation's frame is left.
    pub cancel: CancellationToken,
    /// Channel to the engine, with the number of the activation; use [`NodeContext::signal`].
    pub signals: mpsc::Sender<(u32, Signal)>,
}

/// Returns the error of work whose run no longer receives signals.
pub(crate) fn no_longer_listens() -> Error {
    Error::new(ErrorKind::Cancelled, "the run has been cancelled")
}

impl NodeContext {
    /// Shows a piece of the answer to the user. Waits while another activation speaks, and while the engine is
    /// behind.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn say(&self, piece: Piece) -> Result<()> {
        self.may_speak().await?;
        self.signal(Signal::Say(piece)).await
    }

    /// Waits while another activation speaks. Afterwards this activation has the floor until it ends.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn may_speak(&self) -> Result<()> {
        // The engine is told before waiting: it passes the floor on in the order in which it hears of speakers.
        if !self.floor.take(self.activation) {
            self.signal(Signal::Speak).await?;
            self.floor.wait(self.activation).await;
        }
        Ok(())
    }

    /// Publishes an output that is still growing.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn publish(&self, output: &str, text: SharedText) -> Result<()> {
        self.signal(Signal::Publish(output.into(), text)).await
    }

    /// Sends a signal to the engine.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn signal(&self, signal: Signal) -> Result<()> {
        self.signals.send((self.activation, signal)).await.map_err(|_| no_longer_listens())
    }

    /// Returns a key for the work at hand: its run, its activation, and within an agent's work the calls that lead to
    /// it. The key is the same when the work is repeated after a crash.
    pub fn call_key(&self) -> String {
        let (run, activation) = (&self.run.run, self.activation);
        match self.part.trim_end_matches('/') {
            "" => format!("{run}-{activation}"),
            part => format!("{run}-{activation}-{}", part.replace('/', "-")),
        }
    }

    /// Makes an external call, or returns the stored result of the same call. The second value says whether the call
    /// was made now.
    ///
    /// # Errors
    /// The failure of the call, now or in the earlier attempt; `Interrupted` when it was cut off before and must not
    /// be repeated, or when the work runs from a recording that does not contain it; `Cancelled` when the run no
    /// longer listens.
    pub fn effect<T: Serialize + DeserializeOwned>(
        &self,
        kind: &'static str,
        again: Delivery,
        call: impl Future<Output = Result<T>>,
    ) -> impl Future<Output = Result<(T, bool)>> {
        self.effect_asking(kind, again, None, call)
    }

    /// Like [`NodeContext::effect`], for a call whose question is known ([`Effects::question`]). A recording can then
    /// also find its answer by the question.
    ///
    /// # Errors
    /// As [`NodeContext::effect`].
    pub async fn effect_asking<T: Serialize + DeserializeOwned>(
        &self,
        kind: &'static str,
        again: Delivery,
        question: Option<Arc<str>>,
        call: impl Future<Output = Result<T>>,
    ) -> Result<(T, bool)> {
        if !self.effects.are_kept() {
            return call.await.map(|value| (value, true));
        }
        let (key, known) = self.effects.next(&self.part, kind);
        if self.effects.are_recorded() {
            let (activation, node) = (self.activation, self.node.clone());
            // If the call has no question that identifies it, its place in the work serves as the question.
            let question = question.or_else(|| self.effects.question(kind, &key));
            let key = Arc::clone(&key);
            let asked = RecordedCall { activation, node, key, question, answered: Match::Same };
            if let Some(gave) = self.effects.answer(asked, &known).await {
                return gave?.into_result().map(|value| (value, false));
            }
        }
        match (known, again) {
            (Some(Known::Ended(gave)), _) => return gave.into_result().map(|value| (value, false)),
            (Some(Known::Begun), Delivery::AtMostOnce) => {
                let error = Error::new(
                    ErrorKind::Interrupted,
                    "the call was interrupted and its outcome is unknown: it may have been carried out",
                );
                let error = error.help("check whether it was, and repeat it if it was not");
                let gave = EffectResult::Failure { kind: error.kind, message: error.full().into() };
                self.signal(Signal::EffectFinished(EffectFinished { key, gave })).await?;
                return Err(error);
            }
            (Some(Known::Begun) | None, _) => {}
        }
        match again {
            Delivery::Idempotent => {
                // No need to wait for the store: if the record is lost, a repeatable call is simply made again.
                let started = EffectStarted { key: Arc::clone(&key), kind, safe: None };
                self.signal(Signal::EffectStarted(started)).await?;
            }
            Delivery::AtMostOnce => self.note_safely(&key, kind).await?,
        }
        let result = call.await;
        // An aborted call has produced nothing. Recorded as a failure, it would be returned again to the resumed
        // work.
        let given_up = result.as_ref().is_err_and(|error| error.kind == ErrorKind::Cancelled);
        if !given_up {
            let gave = EffectResult::of(&result)?;
            self.signal(Signal::EffectFinished(EffectFinished { key, gave })).await?;
        }
        result.map(|value| (value, true))
    }

    /// Waits until the start of the call is stored and the store's confirmation is recent. A process that was
    /// suspended in between may have lost the run; it learns so from the next attempt.
    async fn note_safely(&self, key: &Arc<str>, kind: &'static str) -> Result<()> {
        for _ in 0..NOTES_MAX {
            let (safe, noted) = oneshot::channel();
            let started = EffectStarted { key: Arc::clone(key), kind, safe: Some(safe) };
            self.signal(Signal::EffectStarted(started)).await?;
            let since = noted.await.map_err(|_| no_longer_listens())?;
            if self.run.seams.clock.running().saturating_sub(since) <= NOTE_AGE_MAX {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the value of a reference that the node reads.
    pub fn value(&self, reference: &Reference) -> Value {
        self.inputs.value(reference)
    }

    /// Returns the last `turns` turns of the conversation, oldest first, with two messages each. It starts with a
    /// question, because some models refuse a history that starts with an answer.
    pub fn history(&self, turns: usize) -> &[crate::context::HistoryMessage] {
        last_turns(&self.run.history, turns)
    }

    /// Returns what texts that are only known at run time may refer to.
    pub fn names(&self) -> Names<'_> {
        Names { components: &self.run.components, item: None }
    }

    /// Returns a number that is the same whenever this activation of this run is repeated.
    pub fn random(&self) -> u64 {
        mix(self.run.seed ^ u64::from(self.activation).rotate_left(32))
    }
}

fn last_turns(messages: &[HistoryMessage], turns: usize) -> &[HistoryMessage] {
    let last = &messages[messages.len().saturating_sub(turns.saturating_mul(2))..];
    // Cutting at two messages per turn may leave an answer at the front whose question was cut off.
    let first = last.iter().position(|message| message.role == "user").unwrap_or(last.len());
    &last[first..]
}

/// SplitMix64's finaliser (Steele, Lea, Flood 2014): spreads a counter over all 64 bits.
pub fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_starts_with_a_question() {
        let message = |word: &&str| {
            let role = if word.starts_with('q') { "user" } else { "assistant" };
            HistoryMessage { role: role.to_owned(), content: (*word).to_owned(), run: None }
        };
        let check = |said: &[&str], turns, expected: &[&str]| {
            let messages: Vec<_> = said.iter().map(message).collect();
            let kept: Vec<_> = last_turns(&messages, turns).iter().map(|m| m.content.as_str()).collect();
            assert_eq!(kept, expected);
        };
        check(&["q1", "a1", "q2", "a2"], 1, &["q2", "a2"]);
        check(&["q1", "a1", "q2", "a2"], usize::MAX, &["q1", "a1", "q2", "a2"]);
        // After a failed turn, and after turns without a question.
        check(&["q1", "a1", "q2"], 1, &["q2"]);
        check(&["a1", "a2"], 3, &[]);
        check(&["q1", "a1"], 0, &[]);
    }
}
