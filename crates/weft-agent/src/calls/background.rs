//! Calls that run in the background while their agent talks to its model.
//!
//! The model is told immediately that such a call has started, and gets its result in the first request after its
//! end. An answer waits for all of them. The result of each is an effect like that of every other call, and so is the
//! point at which the model learns of it: work replayed after a crash repeats neither and continues identically.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Notify;
use weft_core::seam::chat_model::{Author, ChatMessage, ToolCall};
use weft_core::tool::ToolData;
use weft_core::{Error, ErrorKind, Json, Result};

use super::perform::perform;
use super::{CallState, Done, Ready};
use crate::driver::Job;

/// Maximum number of concurrent background calls of one agent.
// Each holds a connection or a process and its output; when there are too many, the model is told and waits.
pub const BACKGROUND_MAX: usize = 16;
/// The kind of effect by which the model learns the results of background calls.
const KIND: &str = "background";

/// A background call that has finished.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackgroundCall {
    /// Its number among the agent's background calls, counted from 1.
    number: u32,
    /// The function's name.
    name: String,
    /// Its outcome.
    done: Done,
}

impl BackgroundCall {
    /// Returns its outcome.
    pub fn done(&self) -> &Done {
        &self.done
    }

    /// The result shown in the round in which it started.
    pub fn placeholder(&self) -> Json {
        placeholder(self.number)
    }

    /// Converts it to a message to the model.
    pub fn message(self) -> ChatMessage {
        let Self { number, name, done } = self;
        let how = if done.failed { "has failed" } else { "is over" };
        let text = format!(
            "The call `{}` of `{name}` {how}. The tool gave:\n\n<tool_result>\n{}\n</tool_result>",
            id(number),
            done.text
        );
        ChatMessage { images: done.images, ..ChatMessage::new(Author::User, text) }
    }
}

fn id(number: u32) -> String {
    format!("background_{number}")
}

fn placeholder(number: u32) -> Json {
    json!({"background": id(number), "status": "running"})
}

/// The background calls of a suspended loop, all of which have finished by then.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackgroundCalls {
    started: u32,
    /// Those that the model has not been told of yet.
    over: Vec<BackgroundCall>,
}

impl BackgroundCalls {
    /// Whether there have never been any.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The background calls of one agent's work.
pub struct Background<'a> {
    state: Mutex<BackgroundState<'a>>,
    /// Notified when one of them finishes.
    ended: Notify,
}

/// A running call: resolves to its number, its name and its outcome.
type Running<'a> = BoxFuture<'a, (u32, String, Result<CallState>)>;

#[derive(Default)]
// Behind a lock although a single task does all the work: the agent's work and the background calls are two futures
// that both access it, and neither holds the lock across an await.
struct BackgroundState<'a> {
    started: u32,
    /// Calls that have just been started.
    starting: Vec<Running<'a>>,
    running: usize,
    /// Finished calls that the model has not been told of yet.
    over: BTreeMap<u32, BackgroundCall>,
    /// The error when the run is no longer listening.
    failure: Option<Error>,
}

impl<'a> Background<'a> {
    /// Starts with no running calls, after those of an earlier part of the same work.
    pub fn after(BackgroundCalls { started, over }: BackgroundCalls) -> Self {
        let over = over.into_iter().map(|call| (call.number, call)).collect();
        Self {
            state: Mutex::new(BackgroundState { started, over, ..BackgroundState::default() }),
            ended: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, BackgroundState<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the agent's work while the calls that it starts run in the background. Calls that are still running at
    /// its end are stopped.
    pub async fn beside<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut running = FuturesUnordered::new();
        // By hand and not with `select`: the work itself adds calls while it is polled, and a new call must be polled
        // immediately or nothing would wake it.
        poll_fn(|cx| {
            loop {
                // The work first: when it ends, running calls are dropped and not reported.
                if let Poll::Ready(end) = work.as_mut().poll(cx) {
                    return Poll::Ready(end);
                }
                running.extend(std::mem::take(&mut self.state().starting));
                // All calls that have finished by now are reported together.
                let mut news = false;
                while let Poll::Ready(Some((number, name, state))) = running.poll_next_unpin(cx) {
                    self.end(number, name, state);
                    news = true;
                }
                // With news, the work is polled again, because it may be waiting for exactly that.
                if !news {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    fn end(&self, number: u32, name: String, state: Result<CallState>) {
        let mut now = self.state();
        now.running -= 1;
        match state {
            Ok(CallState::Done(done)) => {
                now.over.insert(number, BackgroundCall { number, name, done });
            }
            // The agent works on meanwhile, so there is no moment at which its run could be suspended for a person.
            Ok(CallState::New | CallState::Asked | CallState::Suspended(_)) => {
                let error =
                    Error::invalid("the tool waits for a person, and in the background nobody is asked")
                        .help("call a tool that does not wait for a person, or omit `background`");
                let done = Done::failed(Json::Null, &error);
                now.over.insert(number, BackgroundCall { number, name, done });
            }
            Err(error) => {
                // The first error is the cause; later ones report the same end of the run.
                now.failure.get_or_insert(error);
            }
        }
        drop(now);
        // `notify_one` stores its permit when there is no waiter yet, so an end between the check and the wait is not
        // missed.
        self.ended.notify_one();
    }

    /// Starts a call. Returns the result for its round.
    pub(super) fn start(&self, job: &'a Job<'_>, written: ToolCall, ready: Ready) -> Done {
        let arguments = Json::Object(ready.arguments.clone());
        let mut state = self.state();
        if state.running >= BACKGROUND_MAX {
            let message = format!("{BACKGROUND_MAX} calls run in the background, which is the maximum");
            let error =
                Error::new(ErrorKind::QuotaExceeded, message).help("wait for the end of some of them");
            return Done::failed(arguments, &error);
        }
        state.started += 1;
        state.running += 1;
        // Numbers follow the order of the calls in the conversation, never the order of their ends: replayed work
        // assigns the same numbers.
        let (number, name) = (state.started, written.name.clone());
        state.starting.push(Box::pin(async move { (number, name, perform(job, written, ready).await) }));
        let text = format!(
            "The call goes on in the background as `{}`. What it gives is told to you when it is there. If there is nothing \
             else to do until then, say so in a few words.",
            id(number)
        );
        Done {
            arguments,
            result: placeholder(number),
            text,
            images: Vec::new(),
            failed: false,
            // Two of them in a row are not a loop.
            poll: true,
            file: None,
            data: ToolData::Same,
        }
    }

    /// Waits until there is something to tell the model. Returns false when nothing is running and everything has
    /// been told.
    ///
    /// # Errors
    /// `Cancelled` when the run is no longer listening.
    pub async fn something_to_tell(&self) -> Result<bool> {
        self.until(|state| !state.over.is_empty() || state.running == 0).await?;
        Ok(!self.state().over.is_empty())
    }

    /// Waits until all running calls have finished.
    ///
    /// # Errors
    /// `Cancelled` when the run is no longer listening.
    pub async fn rest(&self) -> Result<()> {
        self.until(|state| state.running == 0).await
    }

    async fn until(&self, there: impl Fn(&BackgroundState<'a>) -> bool) -> Result<()> {
        loop {
            {
                let mut state = self.state();
                if let Some(error) = state.failure.take() {
                    return Err(error);
                }
                if there(&state) {
                    return Ok(());
                }
            }
            self.ended.notified().await;
        }
    }

    /// The finished calls to be told in the request with this number, counted from 0. Each is told once.
    ///
    /// # Errors
    /// `Cancelled` when the run is no longer listening.
    pub async fn over_before(&self, job: &Job<'_>, request: u32) -> Result<Vec<BackgroundCall>> {
        // Most agents have no such calls, and a check would be an effect in the journal for each request.
        if self.state().started == 0 {
            return Ok(Vec::new());
        }
        let look = || {
            let calls: Vec<u32> = self.state().over.keys().copied().collect();
            (!calls.is_empty()).then_some(ToldCalls { calls })
        };
        let Some(ToldCalls { calls }) = job.ctx.news_before(KIND, request, look).await? else {
            return Ok(Vec::new());
        };
        // Replayed work knows which calls were told then, but their results may not have arrived again yet.
        let all_over =
            |state: &BackgroundState<'_>| calls.iter().all(|number| state.over.contains_key(number));
        self.until(|state| state.running == 0 || all_over(state)).await?;
        let mut state = self.state();
        let told = calls.iter().map(|number| state.over.remove(number));
        told.collect::<Option<_>>().ok_or_else(|| {
            Error::new(ErrorKind::Conflict, "the journal contains a background call that was not made")
        })
    }

    /// The state to save while the loop is suspended for a person.
    pub fn kept(&self) -> BackgroundCalls {
        let state = self.state();
        BackgroundCalls { started: state.started, over: state.over.values().cloned().collect() }
    }
}

/// The calls that the model was told of before a request.
#[derive(Serialize, Deserialize)]
struct ToldCalls {
    calls: Vec<u32>,
}
