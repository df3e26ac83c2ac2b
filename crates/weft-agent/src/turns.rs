//! Decides what an agent does next: ask the model, make its calls, or stop. Never waits and performs no I/O.

use serde::{Deserialize, Serialize};
use weft_core::Result;
use weft_core::context::Limited;
use weft_core::seam::chat_model::{Author, ChatMessage};

use crate::ask::{CALLS_MAX, Ending, Reply, empty_answer};
use crate::calls::{BackgroundCall, BackgroundCalls, CallState, OpenCall};
use crate::loop_guard::{LoopGuard, Observed, Verdict};
use crate::transcript::Transcript;
use crate::used::Used;
use crate::window::Line;

/// The notice to the model that there are no more rounds.
pub(crate) const LIMIT: &str = include_str!("prompts/limit.md");
/// The notice to the model that it repeats itself.
pub(crate) const LOOP: &str = include_str!("prompts/loop.md");
/// The notice to the model that its answer was empty.
const EMPTY: &str = include_str!("prompts/empty.md");
/// The same notice when it can only answer.
pub(crate) const UNANSWERED: &str = include_str!("prompts/unanswered.md");

/// The state of one agent's loop. It is plain data, so that the loop can be suspended and resumed in another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Turns {
    /// What was said and called so far.
    pub transcript: Transcript,
    /// The calls that were made, in order.
    pub used: Vec<Used>,
    /// What was shown so far.
    pub said: String,
    /// The limit that cut the work short.
    pub limited: Option<Limited>,
    /// How the last answer ended.
    pub ending: Ending,
    /// Its unfinished background calls, while it is suspended for a person.
    #[serde(default, skip_serializing_if = "BackgroundCalls::is_empty")]
    pub background: BackgroundCalls,
    rounds: u32,
    rounds_max: u32,
    empties: u32,
    guard: LoopGuard,
    open: Option<CallRound>,
    over: bool,
    /// Whether an answer was rejected: from then on the model only corrects its answer.
    rejected: bool,
}

/// A round of calls in progress.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct CallRound {
    asked: ChatMessage,
    calls: Vec<OpenCall>,
}

/// What a request offers the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// All tools; the model chooses.
    Tools,
    /// None: it has to answer.
    Nothing,
}

/// The next step of the loop.
#[derive(Debug, PartialEq)]
pub(crate) enum LoopStep<'a> {
    /// Ask the model, with or without tools.
    Ask {
        /// Whether it may call tools.
        offer: Offer,
    },
    /// Make these calls.
    Call(&'a mut [OpenCall]),
    /// The last message of the model is the answer.
    Done,
}

impl Turns {
    /// A loop that has not started, with up to `rounds_max` rounds of calls.
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

    /// What the next request offers the model.
    fn offer(&self) -> Offer {
        if self.limited.is_none() && self.rounds_max > 0 && !self.rejected {
            Offer::Tools
        } else {
            Offer::Nothing
        }
    }

    /// Determines the next step.
    pub(crate) fn step(&mut self) -> LoopStep<'_> {
        // A round in progress is completed first: its calls have begun, and their results are paid for.
        if self.open.is_none() {
            if self.over {
                return LoopStep::Done;
            }
            if self.limited.is_none() && self.rounds >= self.rounds_max && self.rounds > 0 {
                self.close(Limited::MaxRounds);
            }
        }
        let offer = self.offer();
        match &mut self.open {
            Some(round) => LoopStep::Call(&mut round.calls),
            None => LoopStep::Ask { offer },
        }
    }

    /// Ends the calls: the model is told why and asked for its answer.
    pub(crate) fn close(&mut self, why: Limited) {
        // Told once, with the first reason.
        if self.limited.is_some() {
            return;
        }
        self.limited = Some(why);
        let notice = if why == Limited::LoopDetected { LOOP } else { LIMIT };
        self.transcript.say(ChatMessage::new(Author::User, notice.trim_end()));
    }

    /// Adds an answer of the model.
    ///
    /// # Errors
    /// `Garbled` when the answer is empty twice in a row.
    pub(crate) fn replied(&mut self, reply: Reply) -> Result<()> {
        let Reply { text, thinking, signature, mut calls, calls_left_out, ending } = reply;
        self.ending = ending;
        let offer = self.offer();
        // A call of a tool that was not offered is a mistake; the text beside it is the answer.
        let unasked = if offer == Offer::Nothing { std::mem::take(&mut calls) } else { Vec::new() };
        // Reasoning alone does not count as an answer.
        if calls.is_empty() && text.trim().is_empty() {
            self.empties += 1;
            // A model that reached its token limit before it wrote any text would do so again.
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
        // Reported with the last of the remaining calls, because each dropped call would need an id for its result.
        if let Some(last) = calls.last_mut().filter(|_| calls_left_out > 0) {
            last.left_out = Some(format!(
                "more than {CALLS_MAX} calls in one message; {calls_left_out} more were left out"
            ));
        }
        self.open = Some(CallRound { asked, calls });
        Ok(())
    }

    /// Completes the round if all of its calls have finished; otherwise does nothing.
    pub(crate) fn called(&mut self) {
        let over =
            |round: &mut CallRound| round.calls.iter().all(|call| matches!(call.state, CallState::Done(_)));
        let Some(CallRound { asked, calls }) = self.open.take_if(over) else { return };
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

    /// Adds the result of a background call, so that the model is told.
    pub(crate) fn ended(&mut self, call: BackgroundCall) {
        let placeholder = call.placeholder();
        // Programs that read the agent's calls get the result of the call and not the note that it had started.
        if let Some(used) = self.used.iter_mut().find(|used| used.results == placeholder) {
            *used = Used {
                arguments: std::mem::take(&mut used.arguments),
                ..Used::of(std::mem::take(&mut used.name), call.done())
            };
        }
        self.transcript.say(call.message());
    }

    /// Continues after the model's last message: it is asked again.
    pub(crate) fn reopen(&mut self) {
        self.over = false;
    }

    /// The last message of the model.
    pub(crate) fn answer(&self) -> &str {
        let last = self.transcript.lines.iter().rev().map(|line| &line.message);
        last.into_iter()
            .find(|message| message.author == Author::Assistant)
            .map_or("", |message| &message.text)
    }

    /// Rejects the answer: the model is told why and asked again, without tools.
    pub(crate) fn reject(&mut self, complaint: String) {
        self.transcript.say(ChatMessage::new(Author::User, complaint));
        self.over = false;
        self.rejected = true;
    }
}
