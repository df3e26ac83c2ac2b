//! One round of tool calls: which of them may be made, which wait for a person, and their outcomes.

mod background;
mod people;
mod perform;

use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use weft_core::budget::Limit;
use weft_core::component::{Form, Suspension};
use weft_core::id::FileId;
use weft_core::seam::chat_model::{ChatMessage, ToolCall};
use weft_core::tool::{Tool, ToolData, ToolOutput, failure_text};
use weft_core::{Error, ErrorKind, Json, Result};

use self::people::{fault, form, inner_answers};
use self::perform::{perform, report_unmade};
use crate::arguments;
use crate::ask::Ending;
use crate::driver::Job;
use crate::toolkit::meant;
use crate::transcript::NOT_EXECUTED;

pub use self::background::{BACKGROUND_MAX, Background, BackgroundCall, BackgroundCalls};
pub use self::people::INSIDE;
pub(crate) use self::people::{Decision, decision, limit_wait};
pub use crate::used::Used;

impl Used {
    /// A tool call and its outcome.
    pub(crate) fn of(name: String, done: &Done) -> Self {
        Self {
            name,
            arguments: done.arguments.clone(),
            results: done.result.clone(),
            file: done.file.clone(),
        }
    }
}

/// A call of the current round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenCall {
    /// As the model wrote it.
    pub call: ToolCall,
    /// Its progress.
    pub state: CallState,
    /// Why it will not be made, if that was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// Why a person's answer was not accepted, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unclear: Option<String>,
}

impl OpenCall {
    /// A call that has not been handled yet.
    pub fn new(call: ToolCall) -> Self {
        Self { call, state: CallState::New, left_out: None, unclear: None }
    }

    /// A call that will not be made.
    pub fn left_out(call: ToolCall, why: String) -> Self {
        Self { left_out: Some(why), ..Self::new(call) }
    }
}

/// The progress of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Not handled yet.
    New,
    /// Waits for a person's approval.
    Asked,
    /// Its tool waits for a person.
    Suspended(Suspension),
    /// Finished.
    Done(Done),
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Its arguments.
    pub arguments: Json,
    /// Its result, for programs.
    pub result: Json,
    /// Its result, for the model.
    pub text: String,
    /// Images in its result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Whether it failed.
    pub failed: bool,
    /// Whether its tool is meant to be called repeatedly (polled).
    pub poll: bool,
    /// The file with the whole result, when the text is only a part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileId>,
    /// Its result for a script, when a script made the call.
    #[serde(default, skip_serializing_if = "ToolData::is_same")]
    pub data: ToolData,
}

impl Done {
    fn refused(arguments: Json, why: &str) -> Self {
        let text = format!("{NOT_EXECUTED}: {why}");
        let result = Json::String(text.clone());
        Self::over(arguments, result, text)
    }

    /// The outcome of a call for which the budget does not suffice.
    fn unpaid(open: &OpenCall, limit: Limit) -> Self {
        let arguments = read(&open.call, Ending::Whole)
            .map_or_else(|_| Json::from(open.call.arguments.as_str()), |(arguments, _)| arguments.into());
        Self::refused(arguments, &format!("the budget of {} is used up", limit.as_str()))
    }

    fn failed(arguments: Json, error: &Error) -> Self {
        let text = failure_text(error);
        let result = serde_json::from_str(&text).unwrap_or_else(|_| Json::String(text.clone()));
        Self::over(arguments, result, text)
    }

    fn gave(arguments: Json, output: &ToolOutput) -> Self {
        let images = output.images().map(str::to_owned).collect();
        Self { images, failed: output.failed, ..Self::over(arguments, output.to_json(), output.to_text()) }
    }

    /// A failed call with only these details.
    fn over(arguments: Json, result: Json, text: String) -> Self {
        Self {
            arguments,
            result,
            text,
            images: Vec::new(),
            failed: true,
            poll: false,
            file: None,
            data: ToolData::Same,
        }
    }

    /// Converts it to the message that answers the call with this id.
    pub fn into_message(self, call: impl Into<String>) -> ChatMessage {
        ChatMessage { images: self.images, ..ChatMessage::tool(call, self.text) }
    }
}

/// The outcome of a round.
#[derive(Debug)]
pub struct RoundEnd {
    /// The questions that people have to answer before the round can end.
    pub form: Option<Form>,
    /// The limit that kept calls from being made.
    pub limit: Option<Limit>,
    /// The positions of the calls that finished since the last look.
    pub over: Vec<usize>,
}

/// Parses the arguments as an object, and tells whether they had to be repaired.
fn read(call: &ToolCall, ending: Ending) -> Result<(Map<String, Json>, bool)> {
    let (arguments, repaired) = arguments::object(&call.arguments)?;
    // Empty arguments may be the beginning of anything.
    if ending == Ending::CutOff && (repaired || call.arguments.trim().is_empty()) {
        return Err(Error::new(ErrorKind::Garbled, "the call was cut off at the limit of tokens")
            .help("make the call again with shorter arguments"));
    }
    Ok((arguments, repaired))
}

/// A call that is ready to be made.
struct Ready {
    place: usize,
    tool: Option<Arc<Tool>>,
    arguments: Map<String, Json>,
    repaired: bool,
    resumed: Option<Json>,
}

impl Ready {
    fn goes_on_beside(&self) -> bool {
        self.resumed.is_none() && self.tool.as_ref().is_some_and(|tool| tool.traits.background)
    }
}

/// Makes the calls of a round that can be made, given what people have answered so far. A failed call is a result
/// like any other; only a run that has ended is an error. Without `background`, a background tool is called like any
/// other tool.
///
/// # Errors
/// `Cancelled` when the run is no longer listening.
pub async fn make<'a>(
    job: &'a Job<'_>,
    open: &mut [OpenCall],
    answers: &Map<String, Json>,
    ending: Ending,
    background: Option<&Background<'a>>,
) -> Result<RoundEnd> {
    let tools = job.tools.tools();
    let mut end = RoundEnd { form: None, limit: None, over: Vec::new() };
    // A round that continues after a wait was counted when it began.
    let begins = open.iter().all(|open| open.state == CallState::New);
    let round = if begins { job.ctx.budget.take_round().err() } else { None };
    let mut ready = Vec::new();
    for (place, open) in open.iter_mut().enumerate() {
        let tool = meant(&tools, &open.call.name).cloned();
        let next = match round {
            Some(limit) => Next::Over(Done::unpaid(open, limit)),
            None => next(open, tool.as_ref(), answers, place, ending),
        };
        let done = match next {
            Next::Wait => continue,
            Next::Over(done) => done,
            // Calls are charged in order, before any of them begins, so that parallel calls cannot exceed the budget.
            // A call that continues after a wait was charged when it began.
            Next::Make(call) if call.resumed.is_some() => {
                ready.push(call);
                continue;
            }
            Next::Make(call) => match job.ctx.budget.take_tool_call() {
                Ok(()) => {
                    ready.push(call);
                    continue;
                }
                Err(reached) => {
                    end.limit = Some(reached);
                    Done::unpaid(open, reached)
                }
            },
        };
        report_unmade(job, &open.call, &done).await?;
        open.state = CallState::Done(done);
        end.over.push(place);
    }
    if let Some(background) = background {
        // Started before the others, so that they run while those are made.
        for call in ready.extract_if(.., |call| call.goes_on_beside()) {
            let Some(open) = open.get_mut(call.place) else { continue };
            end.over.push(call.place);
            open.state = CallState::Done(background.start(job, open.call.clone(), call));
        }
    }
    for batch in batches(ready) {
        let calls = batch.into_iter().filter_map(|call| {
            let written = open.get(call.place)?.call.clone();
            Some(async move { (call.place, perform(job, written, call).await) })
        });
        let calls: Vec<_> = calls.collect();
        let mut results = stream::iter(calls).buffer_unordered(job.options.parallel.max(1));
        while let Some((place, state)) = results.next().await {
            let state = state?;
            if matches!(state, CallState::Done(_)) {
                end.over.push(place);
            }
            if let Some(open) = open.get_mut(place) {
                open.state = state;
            }
        }
    }
    // In the order of the calls, regardless of which finished first.
    end.over.sort_unstable();
    end.limit = round.or(end.limit).or_else(|| job.ctx.budget.exhausted().filter(|l| *l == Limit::Seconds));
    end.form = form(open, &tools, job.options.approval_timeout);
    Ok(end)
}

enum Next {
    Wait,
    Over(Done),
    Make(Ready),
}

/// Decides what to do about a call now.
fn next(
    open: &mut OpenCall,
    tool: Option<&Arc<Tool>>,
    answers: &Map<String, Json>,
    place: usize,
    ending: Ending,
) -> Next {
    if matches!(open.state, CallState::Done(_)) {
        return Next::Wait;
    }
    let (arguments, repaired) = match read(&open.call, ending) {
        Ok(read) => read,
        Err(error) => {
            return Next::Over(Done::failed(Json::String(open.call.arguments.clone()), &error));
        }
    };
    if let Some(why) = &open.left_out {
        return Next::Over(Done::refused(arguments.into(), why));
    }
    let make =
        |arguments, resumed| Next::Make(Ready { place, tool: tool.cloned(), arguments, repaired, resumed });
    match &open.state {
        CallState::Done(_) => Next::Wait,
        CallState::New if tool.is_some_and(|tool| tool.traits.approval) => {
            open.state = CallState::Asked;
            Next::Wait
        }
        CallState::New => make(arguments, None),
        CallState::Asked => match answers.get(&open.call.id).map(decision) {
            None => Next::Wait,
            Some(Decision::Approve) => make(arguments, None),
            Some(Decision::Edit(edited)) => match fault(tool.map(|tool| &**tool), &open.call, &edited) {
                None => make(edited, None),
                why => {
                    open.unclear = why;
                    Next::Wait
                }
            },
            Some(Decision::Unclear(why)) => {
                open.unclear = Some(why);
                Next::Wait
            }
            Some(Decision::Deny(reason)) => {
                let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                Next::Over(Done::refused(arguments.into(), &format!("a person has refused this call{why}")))
            }
        },
        CallState::Suspended(suspension) => {
            let inner = inner_answers(&open.call.id, answers);
            let complete = suspension.form.fields.keys().all(|task| inner.contains_key(task));
            if !complete {
                return Next::Wait;
            }
            let resumed = json!({"state": suspension.state, "answers": inner});
            make(arguments, Some(resumed))
        }
    }
}

/// Groups the calls into batches that may run in parallel, in order. A call that must run alone is a batch of its
/// own.
fn batches(ready: Vec<Ready>) -> Vec<Vec<Ready>> {
    let mut batches: Vec<Vec<Ready>> = Vec::new();
    let alone = |call: &Ready| call.tool.as_ref().is_some_and(|tool| tool.traits.alone);
    for call in ready {
        match batches.last_mut() {
            Some(batch) if !alone(&call) && !batch.iter().any(alone) => batch.push(call),
            _ => batches.push(vec![call]),
        }
    }
    batches
}
