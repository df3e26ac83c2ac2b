//! Calls that go on while their agent talks to its model.
//!
//! The agent is told at once that such a call has begun, and what it gave before the first request after its end. An answer
//! waits for all of them. What each gives is an effect like that of every other call, and so is the moment at which the
//! model learns of it: work that is done again after a crash repeats neither and says the same at the same place.

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

/// Calls of one agent that go on in the background at the same time, at most.
// Each holds a connection or a process and what it gives; the model is told when there are too many, and
// waits.
pub const BACKGROUND_MAX: usize = 16;
/// The kind of effect by which the model learns what such calls gave.
const KIND: &str = "background";

/// A call in the background that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackgroundCall {
    /// Which one of its agent it was, from 1 on.
    number: u32,
    /// The function's name.
    name: String,
    /// What came of it.
    done: Done,
}

impl BackgroundCall {
    /// What came of it.
    pub fn done(&self) -> &Done {
        &self.done
    }

    /// What the round in which it began has as its result.
    pub fn placeholder(&self) -> Json {
        placeholder(self.number)
    }

    /// As a message to the model.
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

/// What a loop that waits for a person has to remember of its calls in the background, all of which are over by then.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackgroundCalls {
    started: u32,
    /// Those that the model has not been told of.
    over: Vec<BackgroundCall>,
}

impl BackgroundCalls {
    /// Whether there have been none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The calls in the background of one agent's work.
pub struct Background<'a> {
    state: Mutex<State<'a>>,
    /// One of them is over.
    ended: Notify,
}

/// A call under way: its number, its name, and what comes of it.
type Running<'a> = BoxFuture<'a, (u32, String, Result<CallState>)>;

#[derive(Default)]
// Behind a lock although one task does all of it: the work and the calls beside it are two futures that both
// need it, and neither holds the lock over a wait.
struct State<'a> {
    started: u32,
    /// Those that have just been started.
    starting: Vec<Running<'a>>,
    running: usize,
    /// Those that are over and that the model has not been told of.
    over: BTreeMap<u32, BackgroundCall>,
    /// The run no longer listens.
    failure: Option<Error>,
}

impl<'a> Background<'a> {
    /// Without any call under way, after those of an earlier part of the same work.
    pub fn after(BackgroundCalls { started, over }: BackgroundCalls) -> Self {
        let over = over.into_iter().map(|call| (call.number, call)).collect();
        Self { state: Mutex::new(State { started, over, ..State::default() }), ended: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the agent's work, with the calls that it starts going on beside it. Those that it leaves behind are stopped.
    pub async fn beside<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut running = FuturesUnordered::new();
        // By hand and not with `select`: the work itself adds calls while it is polled, and a call that
        // begins must be polled at once or nobody would wake it.
        poll_fn(|cx| {
            loop {
                // The work first: when it ends, what is still under way is dropped and nothing of it is told.
                if let Poll::Ready(end) = work.as_mut().poll(cx) {
                    return Poll::Ready(end);
                }
                running.extend(std::mem::take(&mut self.state().starting));
                // All that are over at this moment are told together.
                let mut news = false;
                while let Poll::Ready(Some((number, name, state))) = running.poll_next_unpin(cx) {
                    self.end(number, name, state);
                    news = true;
                }
                // With news the work is polled again, as it may wait for just that.
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
            // The agent goes on meanwhile, so there is no moment at which its run could wait for a person.
            Ok(CallState::New | CallState::Asked | CallState::Suspended(_)) => {
                let error =
                    Error::invalid("the tool waits for a person, and in the background nobody is asked")
                        .help("call a tool that needs nobody's word, or take `background` off this one");
                let done = Done::failed(Json::Null, &error);
                now.over.insert(number, BackgroundCall { number, name, done });
            }
            Err(error) => {
                // The first one is the cause; those after it are the same end of the run.
                now.failure.get_or_insert(error);
            }
        }
        drop(now);
        // `notify_one` keeps its permit when nobody waits yet, so an end between a look and the wait is not
        // missed.
        self.ended.notify_one();
    }

    /// Starts a call. What the round has as its result.
    pub(super) fn start(&self, job: &'a Job<'_>, written: ToolCall, ready: Ready) -> Done {
        let arguments = Json::Object(ready.arguments.clone());
        let mut state = self.state();
        if state.running >= BACKGROUND_MAX {
            let message = format!("{BACKGROUND_MAX} calls go on in the background, as many as may");
            let error =
                Error::new(ErrorKind::QuotaExceeded, message).help("wait for the end of some of them");
            return Done::failed(arguments, &error);
        }
        state.started += 1;
        state.running += 1;
        // Numbers follow the order of the calls in the conversation, never that of their ends: work that is
        // done again gives each the same.
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
            // Two of them are no loop.
            poll: true,
            file: None,
            data: ToolData::Same,
        }
    }

    /// Waits until the model has something to learn. False when there is nothing under way and all is told.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn something_to_tell(&self) -> Result<bool> {
        self.until(|state| !state.over.is_empty() || state.running == 0).await?;
        Ok(!self.state().over.is_empty())
    }

    /// Waits for the end of all that are under way.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn rest(&self) -> Result<()> {
        self.until(|state| state.running == 0).await
    }

    async fn until(&self, there: impl Fn(&State<'a>) -> bool) -> Result<()> {
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

    /// Those that are over, for the request of this number, counted from 0 on. Each is told once.
    ///
    /// # Errors
    /// `Cancelled` when the run no longer listens.
    pub async fn over_before(&self, job: &Job<'_>, request: u32) -> Result<Vec<BackgroundCall>> {
        // Most agents have no such calls, and a look would be an effect in the journal for each request.
        if self.state().started == 0 {
            return Ok(Vec::new());
        }
        let look = || {
            let calls: Vec<u32> = self.state().over.keys().copied().collect();
            (!calls.is_empty()).then_some(Told { calls })
        };
        let Some(Told { calls }) = job.ctx.news_before(KIND, request, look).await? else {
            return Ok(Vec::new());
        };
        // Who does the work again knows what was told before it has all come again.
        let all_over = |state: &State<'_>| calls.iter().all(|number| state.over.contains_key(number));
        self.until(|state| state.running == 0 || all_over(state)).await?;
        let mut state = self.state();
        let told = calls.iter().map(|number| state.over.remove(number));
        told.collect::<Option<_>>().ok_or_else(|| {
            Error::new(ErrorKind::Conflict, "the journal tells of a call in the background that was not made")
        })
    }

    /// What has to be remembered while the loop waits for a person.
    pub fn kept(&self) -> BackgroundCalls {
        let state = self.state();
        BackgroundCalls { started: state.started, over: state.over.values().cloned().collect() }
    }
}

/// The calls that the model was told of before a request.
#[derive(Serialize, Deserialize)]
struct Told {
    calls: Vec<u32>,
}
