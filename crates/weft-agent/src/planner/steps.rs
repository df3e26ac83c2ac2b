//! Decides what a planner does next: ask for the next step, make its calls, or write the answer. Never waits and
//! performs no I/O.

use serde::{Deserialize, Serialize};
use serde_json::Map;
use weft_core::context::Limited;
use weft_core::seam::chat_model::{Author, ChatMessage, ToolCall};
use weft_core::{Error, Json};

use super::prompts::{COMPLETE, correct};
use super::review::Review;
use crate::arguments;
use crate::ask::{CALLS_MAX, Ending};
use crate::calls::{CallState, OpenCall};
use crate::loop_guard::{LoopGuard, Observed, Verdict};
use crate::used::Used;
use crate::window::{Keep, Line};

/// Consecutive invalid replies after which the planner gives up planning.
// A model that gets it wrong three times in a row does not know the format; the remaining rounds would be wasted.
const CORRECTIONS_MAX: u32 = 3;

/// The state of one planner. It is plain data, so that it can be suspended and resumed in another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Steps {
    /// Instructions, history, question, and the steps so far as plain messages.
    pub lines: Vec<Line>,
    /// The request that is planned for; the user's own words stay in `lines`.
    pub request: String,
    /// What is known about the task.
    pub plan: String,
    /// The calls that were made, in order.
    pub used: Vec<Used>,
    /// The limit that cut the work short.
    pub limited: Option<Limited>,
    /// The answer given with the closing call.
    pub draft: Option<String>,
    /// What was shown so far.
    pub said: String,
    /// The plan that waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    rounds: u32,
    rounds_max: u32,
    corrections: u32,
    /// The number of replies so far: each forms a round with the messages about it.
    replies: u32,
    numbered: usize,
    guard: LoopGuard,
    open: Option<Vec<OpenCall>>,
    over: bool,
}

/// The input of the planner.
#[derive(Debug)]
pub(super) struct PlannerTask {
    /// The request that is planned for.
    pub request: String,
    /// What is known about it.
    pub plan: String,
}

/// The next step.
#[derive(Debug)]
pub(super) enum PlannerStep<'a> {
    /// Ask a person about the plan.
    Review(&'a mut Review),
    /// Ask for the next step.
    Plan,
    /// Make these calls.
    Call(&'a mut [OpenCall]),
    /// Write the answer.
    Answer,
}

impl Steps {
    /// A planner that has not started.
    pub(super) fn new(lines: Vec<Line>, task: PlannerTask, rounds_max: u32) -> Self {
        let PlannerTask { request, plan } = task;
        Self {
            lines,
            request,
            plan,
            used: Vec::new(),
            limited: None,
            draft: None,
            said: String::new(),
            review: None,
            rounds: 0,
            rounds_max,
            corrections: 0,
            replies: 0,
            numbered: 0,
            guard: LoopGuard::default(),
            open: None,
            // Without rounds there is nothing to plan, and nothing was cut short.
            over: rounds_max == 0,
        }
    }

    /// Determines the next step.
    pub(super) fn step(&mut self) -> PlannerStep<'_> {
        if self.open.is_none() && !self.over && self.rounds >= self.rounds_max {
            self.close(Limited::MaxRounds);
        }
        match (&mut self.review, &mut self.open) {
            (Some(review), _) if !self.over => PlannerStep::Review(review),
            (_, Some(calls)) => PlannerStep::Call(calls),
            (_, None) if self.over => PlannerStep::Answer,
            (_, None) => PlannerStep::Plan,
        }
    }

    /// Accepts a person's approval of the plan that was shown, or of an edited one.
    pub(super) fn agreed(&mut self, edited: Option<&str>) {
        self.review = None;
        if let Some(plan) = edited {
            self.plan = format!("{}\n\n{plan}", self.request);
        }
    }

    /// Handles the final rejection of the plan: what can be answered is answered without tools.
    pub(super) fn rejected(&mut self, reason: &str) {
        self.review = None;
        self.over = true;
        let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        self.say(Author::User, &format!("A person has rejected the plan{why}. No tool may be called."));
    }

    /// The number of completed rounds of calls.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Ends the planning.
    pub(super) fn close(&mut self, why: Limited) {
        self.limited.get_or_insert(why);
        self.over = true;
    }

    /// Adds a reply of the model, which should name the next step.
    pub(super) fn replied(&mut self, reply: &str, ending: Ending) {
        self.replies += 1;
        // Also when it is not a valid step: the correction that follows refers to it. An empty reply is not added,
        // because some providers refuse a conversation with empty messages.
        if !reply.trim().is_empty() {
            self.add(Author::Assistant, reply);
        }
        match self.read(reply, ending) {
            Ok(calls) if calls.is_empty() => {}
            Ok(calls) => {
                self.corrections = 0;
                self.open = Some(calls);
            }
            Err(error) => {
                self.corrections += 1;
                if self.guard.idle(reply) == Verdict::Loop || self.corrections >= CORRECTIONS_MAX {
                    self.close(Limited::LoopDetected);
                } else {
                    self.add(Author::User, &correct(&error.full()));
                }
            }
        }
    }

    /// Parses the calls of a step. The closing call is removed from them.
    fn read(&mut self, reply: &str, ending: Ending) -> Result<Vec<OpenCall>, Error> {
        let (list, repaired) = arguments::list(reply)?;
        if ending == Ending::CutOff && repaired {
            // What the last call was going to be is unknown.
            return Err(Error::invalid("it was cut off at the limit of tokens").help("write fewer calls"));
        }
        if list.is_empty() {
            return Err(Error::invalid("the list of calls is empty"));
        }
        let mut calls = Vec::new();
        let mut closing = None;
        for (place, entry) in list.into_iter().enumerate() {
            let (name, arguments) = call(entry, place)?;
            if name == COMPLETE {
                closing = Some(arguments.get("answer").map(weft_core::value::to_text).unwrap_or_default());
                continue;
            }
            let call = ToolCall {
                id: format!("step_{}", self.numbered + calls.len()),
                name,
                arguments: Json::Object(arguments).to_string(),
            };
            calls.push(if calls.len() < CALLS_MAX {
                OpenCall::new(call)
            } else {
                OpenCall::left_out(call, format!("more than {CALLS_MAX} calls in one step"))
            });
            // One call beyond the limit is kept, so that the model reads that there were too many.
            if calls.len() > CALLS_MAX {
                break;
            }
        }
        self.numbered += calls.len();
        if let Some(draft) = closing {
            // Calls requested with it are still made, and the answer comes after them.
            self.draft = Some(draft);
            self.over = true;
        }
        Ok(calls)
    }

    /// The results of the step's calls, once all of them have finished.
    pub(super) fn results(&self) -> Option<Vec<(String, Json)>> {
        let result = |open: &OpenCall| match &open.state {
            // Of a long result, the beginning is given, and where to find the rest.
            CallState::Done(done) if done.file.is_some() => {
                Some((open.call.name.clone(), Json::from(done.text.as_str())))
            }
            CallState::Done(done) => Some((open.call.name.clone(), done.result.clone())),
            CallState::New | CallState::Asked | CallState::Suspended(_) => None,
        };
        self.open.as_ref()?.iter().map(result).collect()
    }

    /// Completes the step; `observation` is the message about it.
    pub(super) fn called(&mut self, observation: &str) {
        let Some(calls) = self.open.take() else { return };
        self.rounds += 1;
        let mut observed = Vec::new();
        for OpenCall { call, state, .. } in calls {
            let CallState::Done(done) = state else { continue };
            observed.push(Observed::of(&call.name, &done));
            self.used.push(Used::of(call.name, &done));
        }
        self.add(Author::User, observation);
        if self.guard.observe(&observed) == Verdict::Loop && !self.over {
            self.close(Limited::LoopDetected);
        }
    }

    /// Adds a message that is always kept.
    pub(super) fn say(&mut self, author: Author, text: &str) {
        self.lines.push(Line::pinned(ChatMessage::new(author, text)));
    }

    /// Adds a message to the round of the last reply.
    fn add(&mut self, author: Author, text: &str) {
        let keep = Keep::Round(self.replies);
        self.lines.push(Line { message: ChatMessage::new(author, text), keep });
    }
}

fn call(entry: Json, place: usize) -> Result<(String, Map<String, Json>), Error> {
    let wrong = |what: &str| Error::invalid(format!("call {place} of the list {what}"));
    let Json::Object(mut entry) = entry else { return Err(wrong("is not an object")) };
    let Some(Json::String(name)) = entry.remove("name") else { return Err(wrong("has no `name`")) };
    match entry.remove("arguments") {
        None | Some(Json::Null) => Ok((name, Map::new())),
        Some(Json::Object(arguments)) => Ok((name, arguments)),
        // As for native tool calls: models trained on those write a string here.
        Some(Json::String(text)) => Ok((name, arguments::object(&text)?.0)),
        Some(_) => Err(wrong("has `arguments` that are not an object")),
    }
}
