//! Calls to the outside, kept with the run: work that is done again after a crash gets what it got
//! before, and nothing that was carried out is carried out twice. Work can also be done from a recording
//! alone; then no call is made at all.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, oneshot};

use crate::error::{Error, ErrorKind, Result};
use crate::value::Json;

/// Whether a call that was cut off may be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// It changes nothing outside, or the same call twice changes nothing more.
    Allowed,
    /// It may have been carried out, so it is not.
    Never,
}

/// What a call gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gave {
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

impl Gave {
    pub(crate) fn of<T: Serialize>(result: &Result<T>) -> Result<Self> {
        match result {
            Ok(value) => serde_json::to_value(value)
                .map(|value| Self::Value(value.into()))
                .map_err(|cause| Error::internal("cannot keep what a call gave").because(cause)),
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
    /// Fires when the note of it is safe; absent when the call need not wait for that.
    pub safe: Option<oneshot::Sender<()>>,
}

/// A call that came back.
#[derive(Debug)]
pub struct EffectGave {
    /// Its place in the activation's work.
    pub key: Arc<str>,
    /// What it gave.
    pub gave: Gave,
}

/// What is known of a call from before.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// It was begun, and nobody knows what became of it.
    Begun,
    /// It came back.
    Gave(Gave),
}

/// The calls of one activation.
#[derive(Clone, Default)]
pub struct Effects {
    state: Arc<Mutex<State>>,
    mode: Mode,
}

/// What becomes of a call that nothing is known of.
#[derive(Clone, Default)]
enum Mode {
    /// It is made, and noted with the run.
    #[default]
    Kept,
    /// It is made, and forgotten.
    Unkept,
    /// It is not made.
    Recorded(Arc<Recorded>),
}

/// What work that is done from a recording alone could not be given.
#[derive(Debug, Default)]
pub struct Recorded {
    lacking: Mutex<Vec<String>>,
    waiting: Notify,
}

impl Recorded {
    /// The calls that the recording knows nothing of, in the order in which they came up.
    pub fn lacking(&self) -> Vec<String> {
        self.lacking.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns when work waits for a call that was begun in the recording and never came back: whatever
    /// came of that work came from elsewhere, such as a limit of time.
    pub async fn waits(&self) {
        self.waiting.notified().await;
    }

    fn lacks(&self, call: String) -> Error {
        let message = format!("the recording has no answer to the call {call}");
        self.lacking.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        Error::new(ErrorKind::Interrupted, message).help("record the run again")
    }

    async fn never(&self) -> Error {
        self.waiting.notify_one();
        std::future::pending().await
    }
}

#[derive(Default)]
struct State {
    known: HashMap<Arc<str>, Known>,
    counts: HashMap<String, u32>,
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effects").field("known", &self.state().known.len()).finish_non_exhaustive()
    }
}

impl Effects {
    /// Of an activation that is done again, with what is known from before.
    pub fn known(known: HashMap<Arc<str>, Known>) -> Self {
        let state = State { known, counts: HashMap::new() };
        Self { state: Arc::new(Mutex::new(state)), mode: Mode::Kept }
    }

    /// Of an activation that is done from a recording: nothing but what is known is given, and nothing
    /// is called.
    pub fn recorded(known: HashMap<Arc<str>, Known>, recorded: Arc<Recorded>) -> Self {
        let state = State { known, counts: HashMap::new() };
        Self { state: Arc::new(Mutex::new(state)), mode: Mode::Recorded(recorded) }
    }

    /// Of a run that is kept nowhere, so that nobody could go on with it.
    pub fn unkept() -> Self {
        Self { mode: Mode::Unkept, ..Self::default() }
    }

    /// Whether calls are noted at all.
    pub(crate) fn are_kept(&self) -> bool {
        !matches!(self.mode, Mode::Unkept)
    }

    /// The error of a call that must not be made, because only what was recorded counts. `known` is what
    /// is known of it. Never returns for a call that never came back in the recording.
    pub(crate) async fn refused(&self, key: &str, known: Option<&Known>) -> Option<Error> {
        let Mode::Recorded(recorded) = &self.mode else { return None };
        match known {
            Some(Known::Gave(_)) => None,
            Some(Known::Begun) => Some(recorded.never().await),
            None => Some(recorded.lacks(key.to_owned())),
        }
    }

    /// The place of the next call of this kind in a part of the work. Parts that run side by side have
    /// names of their own, so that the order in which they get on makes no difference.
    pub(crate) fn next(&self, part: &str, kind: &str) -> (Arc<str>, Option<Known>) {
        let mut state = self.state();
        let stem = format!("{part}{kind}");
        let count = state.counts.entry(stem.clone()).or_insert(0);
        let key: Arc<str> = format!("{stem}#{count}").into();
        *count += 1;
        let known = state.known.remove(&key);
        (key, known)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
