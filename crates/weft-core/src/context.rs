//! What a component is given while it runs.

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

/// What the caller gave for one turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnInput {
    /// The question; empty is allowed.
    #[serde(default)]
    pub query: String,
    /// Who asks.
    #[serde(default)]
    pub user_id: String,
    /// Attached pictures as data URIs; replaces those of the turn before. See [`TurnInput::check_files`].
    #[serde(default)]
    pub files: Vec<Json>,
    /// Form values: `{field: value}`, `{field: {"value": …}}`, or the same below a component's id.
    #[serde(default)]
    pub inputs: serde_json::Map<String, Json>,
    /// Nodes that do not run: what they give is given here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pins: BTreeMap<ComponentId, Pin>,
    /// Messages that are written at the same time are told at the same time, piece by piece, by a client
    /// that can show several; else one of them speaks and the others are held back until it has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parallel_messages: bool,
    /// Nobody need listen: it gives way to no question of its session, whichever process works on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// What the route that began the turn wants to find in its journal again, under a name of its own. No component
    /// sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<Box<serde_json::Map<String, Json>>>,
    /// What another program has called a webhook with: `query`, `headers`, `body` and the `request` that they are of.
    /// Begin hands them on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Box<Json>>,
}

impl TurnInput {
    /// Refuses what is attached and cannot be read. Pictures in the request itself go to models as such;
    /// a document would become text of a prompt as it stands, megabytes of base64, and an address would be
    /// fetched by whoever runs the model.
    ///
    /// # Errors
    /// `Unsupported`, before anything has begun.
    pub fn check_files(&self) -> Result<()> {
        let picture = |file: &Json| file.as_str().is_some_and(|text| text.starts_with("data:image/"));
        let refused = |what: &str| {
            Err(Error::new(ErrorKind::Unsupported, format!("{what}: there is nobody here who could read it"))
                .help("put the file's text into the question, or ask over HTTP, where files are read"))
        };
        if let Some(place) = self.files.iter().position(|file| !picture(file)) {
            return refused(&format!(
                "`files` has an entry that is not a picture as a data URI (number {place})"
            ));
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

/// Whether a form's value is the descriptor of an upload, or a list of some.
fn names_upload(value: &Json) -> bool {
    match value {
        Json::Array(items) => items.iter().any(names_upload),
        Json::Object(members) => ["id", "name", "mime_type"].iter().all(|key| members.contains_key(*key)),
        _ => false,
    }
}

/// What a node gives without running.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Its outputs.
    #[serde(default)]
    pub outputs: Outputs,
    /// Where the run goes on, for a node that branches; absent: everywhere.
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
    /// The run that it belongs to; absent for the opening words, and where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
}

impl From<SessionMessage> for HistoryMessage {
    fn from(message: SessionMessage) -> Self {
        let SessionMessage { role, content, run, reference: _, created_ms: _, feedback: _ } = message;
        Self { role, content, run }
    }
}

/// What is the same for all activations of one run.
#[derive(Debug)]
pub struct RunContext {
    /// Whose run it is.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// The canvas that runs; empty where none is stored.
    pub canvas: CanvasId,
    /// The conversation it is part of.
    pub session: SessionId,
    /// What the caller gave.
    pub input: TurnInput,
    /// Earlier messages, oldest first, as models see them: without the opening words of the session and
    /// without what this turn itself has said and asked.
    pub history: Vec<HistoryMessage>,
    /// What earlier turns have called.
    pub past_calls: PastCalls,
    /// What is said to it while it is under way; see [`NodeContext::messages_before`].
    pub inbox: Inbox,
    /// The sources found so far in this turn.
    pub citations: Citations,
    /// What must not be written down or shown.
    pub masks: Masks,
    /// The outside.
    pub seams: Arc<Seams>,
    /// Every component id of the canvas, for references that are only known at run time.
    pub components: Arc<std::collections::HashSet<ComponentId>>,
    /// What the whole run may use.
    pub budget: Arc<Budget>,
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
// What is large and rare is boxed: a channel has room for dozens of these at a time, nearly all of them words.
#[derive(Debug)]
pub enum Signal {
    /// It wants to say something, and somebody else speaks.
    Speak,
    /// A piece of the visible answer.
    Say(Piece),
    /// What was said last, as speech.
    Play(Audio),
    /// An output that is still growing; listeners may begin.
    Publish(Arc<str>, SharedText),
    /// What a call of a model used.
    Used(Box<crate::usage::UsedModel>),
    /// Something worth knowing that is no failure.
    Warn(String),
    /// A tool is being called.
    ToolStarted(Box<ToolStarted>),
    /// A tool's call is over.
    ToolFinished(Box<ToolFinished>),
    /// A budget or another limit of an agent has cut its work short.
    Limited(Limited),
    /// A call to the outside is about to be made.
    EffectStarted(EffectStarted),
    /// A call to the outside came back.
    EffectFinished(EffectFinished),
    /// It wants to know when all that it has told so far is stored, and since when, as in [`EffectStarted::safe`].
    Stored(oneshot::Sender<std::time::Duration>),
}

/// A call of a tool that begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolStarted {
    /// The agent that calls; a sub-agent's id is its agent's, `-->` and its own name.
    pub agent: ComponentId,
    /// The way to the tool in display names: `Agent A-->search`.
    pub path: Arc<str>,
    /// The call's id, unique within the activation: behind the ids of the calls that lead to it, `/`
    /// after each.
    pub call: Arc<str>,
    /// The name the model calls it by.
    pub tool: Arc<str>,
    /// The arguments, presets left out.
    pub arguments: Arc<Json>,
}

/// A call of a tool that is over. Every [`ToolStarted`] has one, also when the call failed, was too
/// slow or was stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolFinished {
    /// What began.
    #[serde(flatten)]
    pub started: ToolStarted,
    /// What the tool gave, or what the model is told about its failure.
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
    /// Its own number of rounds is.
    MaxRounds,
    /// It did the same thing again and again.
    LoopDetected,
}

impl Limited {
    /// The word for it in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget(Limit::Rounds) => "max_rounds",
            Self::Budget(limit) => limit.as_str(),
            Self::MaxRounds => "max_rounds",
            Self::LoopDetected => "loop_detected",
        }
    }
}

/// How many signals of one activation may wait for the engine.
pub const SIGNALS_IN_FLIGHT_MAX: usize = 64;

/// What one activation is given. A clone belongs to the same activation.
#[derive(Clone, Debug)]
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
    /// For a Pause node: nobody filled in anything in time.
    pub timed_out: bool,
    /// What it had to remember when it stopped to wait for a person; see
    /// [`crate::component::Suspension`].
    pub resumed: Option<Json>,
    /// What it may use.
    pub budget: Arc<Budget>,
    /// Its calls to the outside; see [`NodeContext::effect`].
    pub effects: Effects,
    /// The part of the activation's work that this is: empty for the work itself, the ids of the
    /// calls that lead there for what an agent calls.
    pub part: Arc<str>,
    /// Whether a listener follows, so that publishing a growing text is worth while.
    pub heard: bool,
    /// Whether the data of the calls that are made here is kept besides what the model is told, as scripts do; see
    /// [`crate::tool::ToolOutput::data`].
    pub keeps_data: bool,
    /// The right to speak; see [`NodeContext::say`].
    pub floor: Floor,
    /// Fires when the run is cancelled or the activation's frame is left.
    pub cancel: CancellationToken,
    /// To the engine, with the number of the activation; use [`NodeContext::signal`].
    pub signals: mpsc::Sender<(u32, Signal)>,
}

/// The error of work whose run hears of nothing any more.
pub(crate) fn no_longer_listens() -> Error {
    Error::new(ErrorKind::Cancelled, "the run has been cancelled")
}

impl NodeContext {
    /// Shows a piece of the answer to the user. Waits while another activation speaks, and when the engine
    /// is behind.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn say(&self, piece: Piece) -> Result<()> {
        self.may_speak().await?;
        self.signal(Signal::Say(piece)).await
    }

    /// Waits while another activation speaks. Then this one has the floor until it ends.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn may_speak(&self) -> Result<()> {
        if !self.floor.take(self.activation) {
            self.signal(Signal::Speak).await?;
            self.floor.wait(self.activation).await;
        }
        Ok(())
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
        self.signals.send((self.activation, signal)).await.map_err(|_| no_longer_listens())
    }

    /// What names the work at hand: its run, its activation, and within an agent's work the calls that lead to it.
    /// All of them are the same when the work is done again after a crash.
    pub fn call_key(&self) -> String {
        let (run, activation) = (&self.run.run, self.activation);
        match self.part.trim_end_matches('/') {
            "" => format!("{run}-{activation}"),
            part => format!("{run}-{activation}-{}", part.replace('/', "-")),
        }
    }

    /// Makes a call to the outside, or gives what it gave before. The second value says whether it was
    /// made now.
    ///
    /// # Errors
    /// What the call fails with, now or before; `Interrupted` when it was cut off before and may not be
    /// made again, or when the work is done from a recording that does not have it; `Cancelled` when the
    /// run no longer listens.
    pub fn effect<T: Serialize + DeserializeOwned>(
        &self,
        kind: &'static str,
        again: Delivery,
        call: impl Future<Output = Result<T>>,
    ) -> impl Future<Output = Result<(T, bool)>> {
        self.effect_asking(kind, again, None, call)
    }

    /// The same for a call whose question is known ([`Effects::question`]): in a recording its answer is
    /// found by that, too.
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
            // Where a call asks nothing that could be told apart, its place in the work is the question.
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
                    "the call had begun and nobody knows what came of it: it may have been carried out",
                );
                let error = error.help("look whether it was, and do it again if it was not");
                let gave = EffectResult::Failure { kind: error.kind, message: error.full().into() };
                self.signal(Signal::EffectFinished(EffectFinished { key, gave })).await?;
                return Err(error);
            }
            (Some(Known::Begun) | None, _) => {}
        }
        match again {
            Delivery::Idempotent => {
                // Without waiting for the store: a call that may be repeated
                // is made again when the note of it is lost.
                let started = EffectStarted { key: Arc::clone(&key), kind, safe: None };
                self.signal(Signal::EffectStarted(started)).await?;
            }
            Delivery::AtMostOnce => self.note_safely(&key, kind).await?,
        }
        let result = call.await;
        // A call that was broken off has given nothing. Kept as a
        // failure it would be given again to work that goes on.
        let given_up = result.as_ref().is_err_and(|error| error.kind == ErrorKind::Cancelled);
        if !given_up {
            let gave = EffectResult::of(&result)?;
            self.signal(Signal::EffectFinished(EffectFinished { key, gave })).await?;
        }
        result.map(|value| (value, true))
    }

    /// Waits until it is stored that a call begins, and until the store has said so just now: a process that
    /// slept in between may have lost the run, and the next note tells it so.
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

    /// The value of something it reads.
    pub fn value(&self, reference: &Reference) -> Value {
        self.inputs.value(reference)
    }

    /// The last `turns` turns of the conversation, oldest first: two messages each. It begins with a question,
    /// because some models refuse one that begins with an answer.
    pub fn history(&self, turns: usize) -> &[crate::context::HistoryMessage] {
        last_turns(&self.run.history, turns)
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

fn last_turns(messages: &[HistoryMessage], turns: usize) -> &[HistoryMessage] {
    let last = &messages[messages.len().saturating_sub(turns.saturating_mul(2))..];
    // Cut after two messages a turn, the first may be an answer whose question was cut off.
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
    fn a_history_begins_with_a_question() {
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
        // After a turn that failed, and after turns without a question.
        check(&["q1", "a1", "q2"], 1, &["q2"]);
        check(&["a1", "a2"], 3, &[]);
        check(&["q1", "a1"], 0, &[]);
    }
}
