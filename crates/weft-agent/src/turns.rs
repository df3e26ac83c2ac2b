//! Decides: ask the model, make its calls, or stop. Never waits and never calls out.

use serde::{Deserialize, Serialize};
use weft_core::Result;
use weft_core::context::Limited;
use weft_core::seam::chat_model::{Author, ChatMessage};

use crate::ask::{CALLS_MAX, Ending, Reply, empty_answer};
use crate::calls::{BackgroundCall, BackgroundCalls, CallState, OpenCall, Used};
use crate::loop_guard::{LoopGuard, Observed, Verdict};
use crate::transcript::Transcript;
use crate::window::Line;

/// How the model is told that there are no more rounds.
pub(crate) const LIMIT: &str = include_str!("prompts/limit.md");
/// How the model is told that it repeats itself.
pub(crate) const LOOP: &str = include_str!("prompts/loop.md");
/// How the model is told that it has said nothing.
const EMPTY: &str = include_str!("prompts/empty.md");
/// The same, when it can only answer.
pub(crate) const UNANSWERED: &str = include_str!("prompts/unanswered.md");

/// The state of one agent's loop: plain data, so that it can wait for a person in another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Turns {
    /// What was said and what was called so far.
    pub transcript: Transcript,
    /// The calls made, in order.
    pub used: Vec<Used>,
    /// What was shown so far.
    pub said: String,
    /// What has cut the work short.
    pub limited: Option<Limited>,
    /// How the last answer ended.
    pub ending: Ending,
    /// What is left of its calls in the background while it waits for a person.
    #[serde(default, skip_serializing_if = "BackgroundCalls::is_empty")]
    pub background: BackgroundCalls,
    rounds: u32,
    rounds_max: u32,
    empties: u32,
    guard: LoopGuard,
    open: Option<Round>,
    over: bool,
    /// An answer was rejected: from here on there is only the answer to put right.
    rejected: bool,
}

/// A round of calls under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Round {
    asked: ChatMessage,
    calls: Vec<OpenCall>,
}

/// What a request offers the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// All tools, to call as it likes.
    Tools,
    /// None: it has to answer.
    Nothing,
}

/// What is to be done next.
#[derive(Debug, PartialEq)]
pub(crate) enum Step<'a> {
    /// Ask the model, with the tools on offer or without.
    Ask {
        /// Whether it may call tools.
        offer: Offer,
    },
    /// Make these calls.
    Call(&'a mut [OpenCall]),
    /// The last thing the model said is the answer.
    Done,
}

impl Turns {
    /// A loop that has not begun, of at most `rounds_max` rounds of calls.
    pub(crate) fn new(conversation: Vec<Line>, rounds_max: u32) -> Self {
        Self {
            transcript: Transcript::new(conversation),
            used: Vec::new(),
            said: String::new(),
            limited: None,
            ending: Ending::Whole,
            background: BackgroundCalls::default(),
            rounds: 0,
            rounds_max,
            empties: 0,
            guard: LoopGuard::default(),
            open: None,
            over: false,
            rejected: false,
        }
    }

    /// What the model is offered at this point.
    fn offer(&self) -> Offer {
        if self.limited.is_none() && self.rounds_max > 0 && !self.rejected {
            Offer::Tools
        } else {
            Offer::Nothing
        }
    }

    /// What is to be done next.
    pub(crate) fn step(&mut self) -> Step<'_> {
        // A round under way is ended first: its calls have begun, and their results are paid for.
        if self.open.is_none() {
            if self.over {
                return Step::Done;
            }
            if self.limited.is_none() && self.rounds >= self.rounds_max && self.rounds > 0 {
                self.close(Limited::MaxRounds);
            }
        }
        let offer = self.offer();
        match &mut self.open {
            Some(round) => Step::Call(&mut round.calls),
            None => Step::Ask { offer },
        }
    }

    /// From here on there are no more calls; the model is told why and asked for its answer.
    pub(crate) fn close(&mut self, why: Limited) {
        // Told once, and by the first reason.
        if self.limited.is_some() {
            return;
        }
        self.limited = Some(why);
        let notice = if why == Limited::LoopDetected { LOOP } else { LIMIT };
        self.transcript.say(ChatMessage::new(Author::User, notice.trim_end()));
    }

    /// The model has answered.
    ///
    /// # Errors
    /// `Garbled` when it says nothing twice in a row.
    pub(crate) fn replied(&mut self, reply: Reply) -> Result<()> {
        let Reply { text, thinking, signature, mut calls, calls_left_out, ending } = reply;
        self.ending = ending;
        let offer = self.offer();
        // A call of what is not on offer is a slip; the words beside it are the answer.
        let unasked = if offer == Offer::Nothing { std::mem::take(&mut calls) } else { Vec::new() };
        // Reasoning alone says nothing to anybody.
        if calls.is_empty() && text.trim().is_empty() {
            self.empties += 1;
            // A model that has reached its limit of tokens before it spoke would do so again.
            if self.empties > 1 || ending == Ending::CutOff {
                return Err(empty_answer(ending, &unasked));
            }
            let notice = if offer == Offer::Tools { EMPTY } else { UNANSWERED };
            self.transcript.say(ChatMessage::new(Author::User, notice.trim_end()));
            return Ok(());
        }
        self.empties = 0;
        self.transcript.tidy(&mut calls);
        let asked = ChatMessage {
            tool_calls: calls.clone(),
            thinking: Some(thinking).filter(|thinking| !thinking.is_empty()),
            signature,
            ..ChatMessage::new(Author::Assistant, text)
        };
        if calls.is_empty() {
            self.transcript.say(asked);
            self.over = true;
            return Ok(());
        }
        let mut calls: Vec<OpenCall> = calls.into_iter().map(OpenCall::new).collect();
        // Said with the last one that is there, as each of those left out would need an id for its result.
        if let Some(last) = calls.last_mut().filter(|_| calls_left_out > 0) {
            last.left_out = Some(format!(
                "more than {CALLS_MAX} calls in one message; {calls_left_out} more were left out"
            ));
        }
        self.open = Some(Round { asked, calls });
        Ok(())
    }

    /// Every call of the round is over. Nothing happens while one is not.
    pub(crate) fn called(&mut self) {
        let over =
            |round: &mut Round| round.calls.iter().all(|call| matches!(call.state, CallState::Done(_)));
        let Some(Round { asked, calls }) = self.open.take_if(over) else { return };
        self.rounds += 1;
        let (mut observed, mut results) = (Vec::new(), Vec::new());
        for OpenCall { call, state, .. } in calls {
            let CallState::Done(done) = state else { continue };
            observed.push(Observed::of(&call.name, &done));
            self.used.push(Used::of(call.name, &done));
            results.push(done.into_message(call.id));
        }
        self.transcript.round(asked, results);
        if self.guard.observe(&observed) == Verdict::Loop {
            self.close(Limited::LoopDetected);
        }
    }

    /// A call in the background is over: the model is told.
    pub(crate) fn ended(&mut self, call: BackgroundCall) {
        let placeholder = call.placeholder();
        // What programs read of the agent's calls is what the call gave and not that it had begun.
        if let Some(used) = self.used.iter_mut().find(|used| used.results == placeholder) {
            *used = Used {
                arguments: std::mem::take(&mut used.arguments),
                ..Used::of(std::mem::take(&mut used.name), call.done())
            };
        }
        self.transcript.say(call.message());
    }

    /// What the model said last is not the end: it is asked again.
    pub(crate) fn reopen(&mut self) {
        self.over = false;
    }

    /// What the model said last.
    pub(crate) fn answer(&self) -> &str {
        let last = self.transcript.lines.iter().rev().map(|line| &line.message);
        last.into_iter()
            .find(|message| message.author == Author::Assistant)
            .map_or("", |message| &message.text)
    }

    /// The answer is no good: the model is told and asked again, without tools.
    pub(crate) fn reject(&mut self, complaint: String) {
        self.transcript.say(ChatMessage::new(Author::User, complaint));
        self.over = false;
        self.rejected = true;
    }
}
