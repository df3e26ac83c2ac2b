//! Calls to the outside, kept with the run: work that is done again after a crash gets what it got
//! before, and nothing that was carried out is carried out twice. Work can also be done from a recording
//! alone; then no call is made at all.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, oneshot};

use crate::error::{Error, ErrorKind, Result};
use crate::id::ComponentId;
use crate::value::Json;

/// How often a call may be carried out when a run is resumed after a crash cut it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// It is made again: it changes nothing outside, or the same call twice changes nothing more.
    #[serde(rename = "allowed")]
    Idempotent,
    /// It may have been carried out, so it is not made again; the node fails and says so.
    #[serde(rename = "never")]
    AtMostOnce,
}

/// How a call to the outside ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectResult {
    /// A value.
    Value(Arc<Json>),
    /// A failure.
    Failure {
        /// Its kind.
        kind: ErrorKind,
        /// What it says, the causes included.
        message: Arc<str>,
    },
}

impl EffectResult {
    pub(crate) fn of<T: Serialize>(result: &Result<T>) -> Result<Self> {
        match result {
            Ok(value) => serde_json::to_value(value)
                .map(|value| Self::Value(value.into()))
                .map_err(|cause| Error::internal("cannot keep what a call gave").because(cause)),
            // With the chain of causes: after a restart this text is all that is left of the error.
            Err(error) => Ok(Self::Failure { kind: error.kind, message: error.full().into() }),
        }
    }

    pub(crate) fn into_result<T: DeserializeOwned>(self) -> Result<T> {
        match self {
            Self::Value(value) => T::deserialize(&*value)
                .map_err(|cause| Error::internal("cannot read what a call gave before").because(cause)),
            Self::Failure { kind, message } => Err(Error::new(kind, &*message)),
        }
    }
}

/// A call that is about to be made.
#[derive(Debug)]
pub struct EffectStarted {
    /// Its place in the activation's work: the same when the work is done again.
    pub key: Arc<str>,
    /// What kind of call it is: `model`, `http`, `tool`.
    pub kind: &'static str,
    /// Told when the note of it is safe, and since when, by [`crate::seam::Clock::running`]: the store let
    /// it through at that time or later. Absent when the call need not wait for that.
    pub safe: Option<oneshot::Sender<Duration>>,
}

/// A call that came back.
#[derive(Debug)]
pub struct EffectFinished {
    /// Its place in the activation's work.
    pub key: Arc<str>,
    /// What it gave.
    pub gave: EffectResult,
}

/// How old the note of a call may be that must not be made twice, when it is made. Whoever has slept for longer
/// asks the store once more: a process is taken for dead after 7 s of silence, so a younger note is its own.
pub const NOTE_AGE_MAX: Duration = Duration::from_secs(2);

/// How often a call is noted until the note is young enough. A store that takes longer than that every time
/// has let the last note through all the same, and whoever goes on with the run finds it.
pub const NOTES_MAX: u32 = 3;

/// What is known of a call from before.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// It was begun, and nobody knows what became of it.
    Begun,
    /// It came back.
    Ended(EffectResult),
}

/// The calls of one activation.
#[derive(Clone, Default)]
pub struct Effects {
    state: Arc<Mutex<EffectState>>,
    mode: EffectMode,
}

/// What becomes of a call that nothing is known of.
#[derive(Clone, Default)]
enum EffectMode {
    /// It is made, and noted with the run.
    #[default]
    Kept,
    /// It is made, and forgotten.
    Unkept,
    /// It is not made.
    Recorded(Arc<Recorded>),
}

/// How a call of work that is done from a recording was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Match {
    /// By the answer to the same question at the same place, as far as questions are known.
    Same,
    /// By the answer to the same question at another place.
    Moved,
    /// By the answer at the same place, which another question was given.
    Differs,
    /// Not at all.
    Lacking,
}

/// A call that work done from a recording came to.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    /// Whose.
    pub activation: u32,
    /// Its node.
    pub node: ComponentId,
    /// Its place in the activation's work.
    pub key: Arc<str>,
    /// The fingerprint of what it asked; see [`Effects::question`].
    pub question: Option<Arc<str>>,
    /// How it was answered.
    pub answered: Match,
}

/// What the activations of a run that is done from a recording alone share: the answers that are found
/// by their questions, and what was asked.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Answers by fingerprints; absent when work is given nothing but what stands at its place.
    by_question: Option<HashMap<Arc<str>, EffectResult>>,
    calls: Mutex<Vec<RecordedCall>>,
    waiting: Notify,
}

impl Recorded {
    /// Answers that are found by their questions as well. The same question may be asked any number of
    /// times, so the order in which work gets on makes no difference.
    pub fn by_question(answers: HashMap<Arc<str>, EffectResult>) -> Self {
        Self { by_question: Some(answers), ..Self::default() }
    }

    /// The calls so far, in the order in which they came up.
    pub fn calls(&self) -> Vec<RecordedCall> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns when work waits for a call that was begun in the recording and never came back: whatever
    /// came of that work came from elsewhere, such as a limit of time.
    pub async fn waits(&self) {
        self.waiting.notified().await;
    }

    /// What a call is given. `then` is the question that the answer at its place was given to. Never
    /// returns for a call that never came back in the recording.
    async fn answer(
        &self,
        mut call: RecordedCall,
        known: Option<Known>,
        then: Option<Arc<str>>,
    ) -> Result<EffectResult> {
        // Older recordings do not have the questions: what stands at the place is taken for the answer there.
        let same = then.is_none() || call.question.is_none() || then == call.question;
        let elsewhere = || self.by_question.as_ref()?.get(call.question.as_ref()?).cloned();
        let (gave, answered) = match known {
            Some(Known::Begun) => {
                // It leaves a permit: whoever begins to wait for this only now hears of it, too.
                self.waiting.notify_one();
                // In the recording the work ended by something else, such as a limit of time: an answer would
                // let it go on.
                return std::future::pending().await;
            }
            Some(Known::Ended(gave)) if same => (Some(gave), Match::Same),
            Some(Known::Ended(gave)) => match elsewhere() {
                Some(other) => (Some(other), Match::Moved),
                None => (Some(gave), Match::Differs),
            },
            None => match elsewhere() {
                Some(other) => (Some(other), Match::Moved),
                None => (None, Match::Lacking),
            },
        };
        call.answered = answered;
        let message = format!("the recording has no answer to the call {} of {}", call.key, call.node);
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        gave.ok_or_else(|| Error::new(ErrorKind::Interrupted, message).help("record the run again"))
    }
}

/// FNV-1a, 64 bits, as hexadecimal digits: the same for ever.
fn fingerprint(kind: &str, question: &[u8]) -> String {
    // A zero between them, so that the end of the kind and the beginning of the question cannot be exchanged.
    let bytes = kind.as_bytes().iter().chain(&[0]).chain(question);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[derive(Default)]
struct EffectState {
    known: HashMap<Arc<str>, Known>,
    /// The questions of what is known, by the same places.
    questions: HashMap<Arc<str>, Arc<str>>,
    counts: BTreeMap<String, u32>,
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effects").field("known", &self.state().known.len()).finish_non_exhaustive()
    }
}

impl Effects {
    /// Of an activation that is done again, with what is known from before.
    pub fn known(known: HashMap<Arc<str>, Known>) -> Self {
        let state = EffectState { known, ..EffectState::default() };
        Self { state: Arc::new(Mutex::new(state)), mode: EffectMode::Kept }
    }

    /// Of an activation that is done from a recording: nothing but what is known is given, and nothing
    /// is called. `questions` are what the known answers were given to, as far as that is known.
    pub fn recorded(
        known: HashMap<Arc<str>, Known>,
        questions: HashMap<Arc<str>, Arc<str>>,
        recorded: Arc<Recorded>,
    ) -> Self {
        let state = EffectState { known, questions, ..EffectState::default() };
        Self { state: Arc::new(Mutex::new(state)), mode: EffectMode::Recorded(recorded) }
    }

    /// Of a run that is kept nowhere, so that nobody could go on with it.
    pub fn unkept() -> Self {
        Self { mode: EffectMode::Unkept, ..Self::default() }
    }

    /// Whether calls are noted at all.
    pub(crate) fn are_kept(&self) -> bool {
        !matches!(self.mode, EffectMode::Unkept)
    }

    /// Whether nothing is called, because only what was recorded counts.
    pub fn are_recorded(&self) -> bool {
        matches!(self.mode, EffectMode::Recorded(_))
    }

    /// The fingerprint of what a call is about to ask, for [`crate::NodeContext::effect_asking`]. Worked
    /// out only where it is compared: `None` elsewhere.
    pub fn question<T: Serialize + ?Sized>(&self, kind: &str, asks: &T) -> Option<Arc<str>> {
        let EffectMode::Recorded(recorded) = &self.mode else { return None };
        // Nobody compares it otherwise, and a request may hold a whole conversation.
        recorded.by_question.as_ref()?;
        let text = serde_json::to_vec(asks).ok()?;
        Some(fingerprint(kind, &text).into())
    }

    /// What a call is given that must not be made; `None` when it may be.
    pub(crate) async fn answer(
        &self,
        call: RecordedCall,
        known: &Option<Known>,
    ) -> Option<Result<EffectResult>> {
        let EffectMode::Recorded(recorded) = &self.mode else { return None };
        let then = self.state().questions.get(&call.key).cloned();
        Some(recorded.answer(call, known.clone(), then).await)
    }

    /// The place of the next call of this kind in a part of the work. Parts that run side by side have
    /// names of their own, so that the order in which they get on makes no difference.
    pub(crate) fn next(&self, part: &str, kind: &str) -> (Arc<str>, Option<Known>) {
        let mut state = self.state();
        let stem = format!("{part}{kind}");
        let count = state.counts.entry(stem.clone()).or_insert(0);
        let key: Arc<str> = format!("{stem}#{count}").into();
        *count += 1;
        // Taken out, since each place comes up once and what a call gave may be large.
        let known = state.known.remove(&key);
        (key, known)
    }

    /// What is known of the next call of this kind, which does not come up by that.
    pub(crate) fn ahead(&self, part: &str, kind: &str) -> Option<Known> {
        let state = self.state();
        let stem = format!("{part}{kind}");
        let count = state.counts.get(&stem).copied().unwrap_or(0);
        state.known.get(format!("{stem}#{count}").as_str()).cloned()
    }

    fn state(&self) -> MutexGuard<'_, EffectState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
