//! External calls, recorded with the run: work that is repeated after a crash receives the earlier results, and no
//! call that was carried out is carried out twice. Work can also run entirely from a recording; then no call is made
//! at all.

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

/// How often a call may be carried out when a run is resumed after a crash interrupted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// It is repeated: it changes nothing outside, or repeating it changes nothing further.
    #[serde(rename = "allowed")]
    Idempotent,
    /// It may have been carried out, so it is not repeated; the node fails and says so.
    #[serde(rename = "never")]
    AtMostOnce,
}

/// The result of an external call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectResult {
    /// A value.
    Value(Arc<Json>),
    /// A failure.
    Failure {
        /// Its kind.
        kind: ErrorKind,
        /// Its message, including the causes.
        message: Arc<str>,
    },
}

impl EffectResult {
    pub(crate) fn of<T: Serialize>(result: &Result<T>) -> Result<Self> {
        match result {
            Ok(value) => serde_json::to_value(value)
                .map(|value| Self::Value(value.into()))
                .map_err(|cause| Error::internal("cannot store the result of a call").because(cause)),
            // Includes the chain of causes, because after a restart this text is all that is left of the error.
            Err(error) => Ok(Self::Failure { kind: error.kind, message: error.full().into() }),
        }
    }

    pub(crate) fn into_result<T: DeserializeOwned>(self) -> Result<T> {
        match self {
            Self::Value(value) => T::deserialize(&*value)
                .map_err(|cause| Error::internal("cannot read the stored result of a call").because(cause)),
            Self::Failure { kind, message } => Err(Error::new(kind, &*message)),
        }
    }
}

/// A call that is about to be made.
#[derive(Debug)]
pub struct EffectStarted {
    /// Its place in the activation's work, which is the same when the work is repeated.
    pub key: Arc<str>,
    /// What kind of call it is: `model`, `http`, `tool`.
    pub kind: &'static str,
    /// Notified when the record of the call is safe, with a time by [`crate::seam::Clock::running`]: the store
    /// accepted the record then or later. Absent when the call need not wait for that.
    pub safe: Option<oneshot::Sender<Duration>>,
}

/// A call that has returned.
#[derive(Debug)]
pub struct EffectFinished {
    /// Its place in the activation's work.
    pub key: Arc<str>,
    /// Its result.
    pub gave: EffectResult,
}

/// Maximum age of the record of a call that must not be repeated, when the call is made. If the process was suspended
/// for longer, it asks the store again: a process is considered dead after 7 s of silence, so a younger record is its
/// own.
pub const NOTE_AGE_MAX: Duration = Duration::from_secs(2);

/// Maximum number of times a call is recorded while waiting for a recent enough record. A store that is slower than
/// that every time has still accepted the last record, and whichever process resumes the run finds it.
pub const NOTES_MAX: u32 = 3;

/// What is known about a call from an earlier attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// It was started, and its outcome is unknown.
    Begun,
    /// It returned.
    Ended(EffectResult),
}

/// The external calls of one activation.
#[derive(Clone, Default)]
pub struct Effects {
    state: Arc<Mutex<EffectState>>,
    mode: EffectMode,
}

/// How a call is handled that nothing is known about.
#[derive(Clone, Default)]
enum EffectMode {
    /// It is made, and recorded with the run.
    #[default]
    Kept,
    /// It is made, but not recorded.
    Unkept,
    /// It is not made.
    Recorded(Arc<Recorded>),
}

/// How a call was answered in work that runs from a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Match {
    /// With the answer to the same question at the same place, as far as questions are known.
    Same,
    /// With the answer to the same question at another place.
    Moved,
    /// With the answer at the same place, which belonged to a different question.
    Differs,
    /// It was not answered.
    Lacking,
}

/// A call made by work that runs from a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    /// The activation that makes it.
    pub activation: u32,
    /// Its node.
    pub node: ComponentId,
    /// Its place in the activation's work.
    pub key: Arc<str>,
    /// The fingerprint of its question; see [`Effects::question`].
    pub question: Option<Arc<str>>,
    /// How it was answered.
    pub answered: Match,
}

/// State shared by the activations of a run that runs entirely from a recording: the answers that can be found by
/// their questions, and the calls made so far.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Answers by fingerprint; absent if a call is answered only by what is recorded at its place.
    by_question: Option<HashMap<Arc<str>, EffectResult>>,
    calls: Mutex<Vec<RecordedCall>>,
    waiting: Notify,
}

impl Recorded {
    /// Creates a recording whose answers can also be found by their questions. A question may be asked any number of
    /// times, so the order in which work progresses makes no difference.
    pub fn by_question(answers: HashMap<Arc<str>, EffectResult>) -> Self {
        Self { by_question: Some(answers), ..Self::default() }
    }

    /// Returns the calls so far, in the order in which they were made.
    pub fn calls(&self) -> Vec<RecordedCall> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns once work waits for a call that was started in the recording but never returned: that work was ended
    /// by something else, such as a time limit.
    pub async fn waits(&self) {
        self.waiting.notified().await;
    }

    /// Returns the answer to a call. `then` is the question that the recorded answer at its place belongs to. Never
    /// returns for a call that never returned in the recording.
    async fn answer(
        &self,
        mut call: RecordedCall,
        known: Option<Known>,
        then: Option<Arc<str>>,
    ) -> Result<EffectResult> {
        // Older recordings lack the questions; the answer at the place is then assumed to match.
        let same = then.is_none() || call.question.is_none() || then == call.question;
        let elsewhere = || self.by_question.as_ref()?.get(call.question.as_ref()?).cloned();
        let (gave, answered) = match known {
            Some(Known::Begun) => {
                // Stores a permit, so that a task which starts waiting only later is notified, too.
                self.waiting.notify_one();
                // In the recording the work was ended by something else, such as a time limit; an answer would let it
                // continue.
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

/// Returns the 64-bit FNV-1a hash in hexadecimal digits. It must never change.
// Recordings contain it, and files of recorded runs are read by later versions.
fn fingerprint(kind: &str, question: &[u8]) -> String {
    // Separated by a zero byte, so that the end of the kind cannot be confused with the start of the question.
    let bytes = kind.as_bytes().iter().chain(&[0]).chain(question);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[derive(Default)]
struct EffectState {
    known: HashMap<Arc<str>, Known>,
    /// The questions of the known calls, by place.
    questions: HashMap<Arc<str>, Arc<str>>,
    counts: BTreeMap<String, u32>,
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effects").field("known", &self.state().known.len()).finish_non_exhaustive()
    }
}

impl Effects {
    /// Creates the effects of a repeated activation, with what is known from before.
    pub fn known(known: HashMap<Arc<str>, Known>) -> Self {
        let state = EffectState { known, ..EffectState::default() };
        Self { state: Arc::new(Mutex::new(state)), mode: EffectMode::Kept }
    }

    /// Creates the effects of an activation that runs from a recording: only known answers are returned, and no call
    /// is made. `questions` are the questions that the known answers belong to, as far as they are known.
    pub fn recorded(
        known: HashMap<Arc<str>, Known>,
        questions: HashMap<Arc<str>, Arc<str>>,
        recorded: Arc<Recorded>,
    ) -> Self {
        let state = EffectState { known, questions, ..EffectState::default() };
        Self { state: Arc::new(Mutex::new(state)), mode: EffectMode::Recorded(recorded) }
    }

    /// Creates the effects of a run that is not stored and therefore cannot be resumed.
    pub fn unkept() -> Self {
        Self { mode: EffectMode::Unkept, ..Self::default() }
    }

    /// Returns whether calls are recorded.
    pub(crate) fn are_kept(&self) -> bool {
        !matches!(self.mode, EffectMode::Unkept)
    }

    /// Returns whether no calls are made because everything comes from a recording.
    pub fn are_recorded(&self) -> bool {
        matches!(self.mode, EffectMode::Recorded(_))
    }

    /// Returns the fingerprint of a call's question, for [`crate::NodeContext::effect_asking`]. Computed only where
    /// it is compared; `None` otherwise.
    pub fn question<T: Serialize + ?Sized>(&self, kind: &str, asks: &T) -> Option<Arc<str>> {
        let EffectMode::Recorded(recorded) = &self.mode else { return None };
        // It would not be compared otherwise, and a request may contain a whole conversation.
        recorded.by_question.as_ref()?;
        let text = serde_json::to_vec(asks).ok()?;
        Some(fingerprint(kind, &text).into())
    }

    /// Returns the answer to a call that must not be made; `None` if the call may be made.
    pub(crate) async fn answer(
        &self,
        call: RecordedCall,
        known: &Option<Known>,
    ) -> Option<Result<EffectResult>> {
        let EffectMode::Recorded(recorded) = &self.mode else { return None };
        let then = self.state().questions.get(&call.key).cloned();
        Some(recorded.answer(call, known.clone(), then).await)
    }

    /// Returns the place of the next call of this kind in a part of the work. Parts that run concurrently have their
    /// own names, so the order in which they progress makes no difference.
    pub(crate) fn next(&self, part: &str, kind: &str) -> (Arc<str>, Option<Known>) {
        let mut state = self.state();
        let stem = format!("{part}{kind}");
        let count = state.counts.entry(stem.clone()).or_insert(0);
        let key: Arc<str> = format!("{stem}#{count}").into();
        *count += 1;
        // Removed, because every place is used once and a result may be large.
        let known = state.known.remove(&key);
        (key, known)
    }

    /// Returns what is known about the next call of this kind, without advancing to it.
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
