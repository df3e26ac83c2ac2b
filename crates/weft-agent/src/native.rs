//! The driver for models that support tool calls natively.

use std::sync::Arc;

use serde_json::Map;
use weft_core::component::Suspension;
use weft_core::context::{Limited, Signal};
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest, ToolChoice};
use weft_core::{ErrorKind, Json, Result, async_trait};

use crate::answer_stream::AnswerStream;
use crate::ask::{Ending, ask, warn_of_cut};
use crate::calls::{self, Background, CallState, OpenCall};
use crate::driver::{Answer, Driver, End, Job, Start, keep, kept};
use crate::offered_tools::on_offer;
use crate::structured::Schema;
use crate::toolkit::Offered;
use crate::turns::{LoopStep, Offer, Turns};
use crate::window::{add_to_system, fit, room};

/// The name under which the state of a suspended loop is stored.
const NAME: &str = "native";

/// Asks the model, makes the calls it asks for, passes it the results, and repeats until it answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

/// The state of a new conversation, or of a loop that was suspended, with the answers it waited for.
fn begin(job: &Job<'_>, start: Start) -> Result<(Turns, Map<String, Json>)> {
    match start {
        Start::Conversation(mut lines) => {
            if let Some(schema) = &job.options.schema {
                add_to_system(&mut lines, &schema.instructions());
            }
            if let Some(rules) = citing(job) {
                add_to_system(&mut lines, rules);
            }
            Ok((Turns::new(lines, rounds(job)), Map::new()))
        }
        Start::Resumed { state, answers } => Ok((kept::<Turns>(NAME, state)?, answers)),
    }
}

#[async_trait]
impl Driver for Native {
    async fn run(&self, job: &Job<'_>, start: Start) -> Result<End> {
        let (mut turns, answers) = begin(job, start)?;
        // Taken out of the turns while the loop runs; what remains of it is put back only where the loop is suspended
        // for a person.
        let background = Background::after(std::mem::take(&mut turns.background));
        // Boxed: the loop's future contains those of a request and of a round, and is itself inside that of a
        // component.
        background.beside(Box::pin(work(job, turns, answers, &background))).await
    }
}

/// The loop itself.
async fn work<'a>(
    job: &'a Job<'_>,
    mut turns: Turns,
    mut answers: Map<String, Json>,
    background: &Background<'a>,
) -> Result<End> {
    let mut voice = AnswerStream::of(job, &turns.said);
    if citing(job).is_some() {
        voice = voice.told_to_cite();
    }
    let mut offered = Offered::default();
    let mut repairs = job.options.repairs();
    let mut requests = 0;
    loop {
        // Read before the step, which borrows `turns`: the calls were written in that answer.
        let ending = turns.ending;
        match turns.step() {
            LoopStep::Ask { offer } => {
                if offer == Offer::Nothing {
                    // Results that are still to come would be too late for the final answer.
                    background.rest().await?;
                }
                learn(job, &mut turns, background, requests).await?;
                requests += 1;
                let request = request(job, &turns, offer, &mut offered).await?;
                let asked = ask(job.ctx, job.model, request, &mut |piece| voice.piece(piece)).await;
                let reply = match asked {
                    // Whether a model accepts images is not known in advance.
                    Err(error) if error.kind == ErrorKind::Invalid && turns.transcript.forget_images() => {
                        let message = "images returned by tools are left out: the model rejected the request";
                        job.ctx.signal(Signal::Warn(format!("{message}: {}", error.full()))).await?;
                        continue;
                    }
                    asked => asked?,
                };
                voice.pause();
                turns.replied(reply)?;
            }
            LoopStep::Call(open) => {
                // Only the first round after a suspension has answers; in a later round their ids would belong to
                // other calls.
                let said = std::mem::take(&mut answers);
                let end = calls::make(job, open, &said, ending, Some(background)).await?;
                if job.options.verbose {
                    blocks(open, &end.over).for_each(|block| voice.say(&block));
                }
                if let Some(form) = end.form {
                    // While a run is suspended for a person, none of its tasks could continue them.
                    background.rest().await?;
                    turns.background = background.kept();
                    voice.pause();
                    voice.said().clone_into(&mut turns.said);
                    return Ok(End::Suspended(Suspension { form, state: keep(NAME, &turns)? }));
                }
                turns.called();
                if let Some(limit) = end.limit {
                    turns.close(Limited::Budget(limit));
                }
            }
            // What the model said while calls were running is not its final answer.
            LoopStep::Done if background.something_to_tell().await? => turns.reopen(),
            // Checked after background results: an answer that has to be corrected is the last one.
            LoopStep::Done => match checked(job, &turns)? {
                CheckedAnswer::Text => return answered(job, turns, voice.finish(), None).await,
                CheckedAnswer::Value(value) => {
                    return answered(job, turns, voice.finish(), Some(value)).await;
                }
                CheckedAnswer::Wrong(complaint, problem) => {
                    if repairs == 0 {
                        // Without a limit, a model that cannot follow the schema would be asked until the budget is
                        // used up.
                        return Err(Schema::given_up(problem));
                    }
                    repairs -= 1;
                    turns.reject(complaint);
                }
            },
        }
    }
}

/// Adds what has arrived since the last request: results of background calls, and messages that people sent to the
/// run.
async fn learn(job: &Job<'_>, turns: &mut Turns, background: &Background<'_>, request: u32) -> Result<()> {
    for call in background.over_before(job, request).await? {
        turns.ended(call);
    }
    for message in job.ctx.messages_before(request).await? {
        turns.transcript.say(ChatMessage::new(Author::User, message));
    }
    Ok(())
}

/// The rules for citations, when there is or may be something to cite. They are included from the first request on,
/// so that every request has the previous one as its prefix.
fn citing<'a>(job: &Job<'a>) -> Option<&'a str> {
    let sources = job.tools.tools().iter().any(|tool| tool.traits.sources);
    let rules = job.options.citing.as_deref()?;
    (sources || !job.ctx.run.citations.all().is_empty()).then_some(rules)
}

/// Without tools there is nothing to call, so there are no rounds.
fn rounds(job: &Job<'_>) -> u32 {
    if job.tools.tools().is_empty() { 0 } else { job.options.requests_with_tools() }
}

/// Builds the next request: the whole transcript, with an unchanged beginning as long as it fits.
async fn request(job: &Job<'_>, turns: &Turns, offer: Offer, offered: &mut Offered) -> Result<ChatRequest> {
    // Also when none may be called: providers refuse a conversation with calls of tools that are not defined.
    let (tools, tokens) = if offer == Offer::Tools || turns.transcript.has_calls() {
        offered.now(on_offer(job.tools.tools(), &turns.used))
    } else {
        (Arc::default(), 0)
    };
    let options = job.options;
    let room = room(job.model.info().window, options.sampling.max_tokens, tokens);
    let (messages, note) = fit(turns.transcript.lines.clone(), room)?;
    if let Some(note) = note {
        job.ctx.signal(Signal::Warn(note)).await?;
    }
    Ok(ChatRequest {
        // A schema on the request keeps some providers from calling tools, so it is set only when none may be called.
        schema: options.schema.as_ref().filter(|_| offer == Offer::Nothing).map(|schema| schema.json.clone()),
        tools,
        tool_choice: if offer == Offer::Tools { ToolChoice::Auto } else { ToolChoice::None },
        ..job.request(messages)
    })
}

enum CheckedAnswer {
    Text,
    Value(Json),
    Wrong(String, weft_core::Error),
}

fn checked(job: &Job<'_>, turns: &Turns) -> Result<CheckedAnswer> {
    let Some(schema) = &job.options.schema else { return Ok(CheckedAnswer::Text) };
    Ok(match schema.check(turns.answer()) {
        Ok(value) => CheckedAnswer::Value(value),
        Err(problem) => CheckedAnswer::Wrong(Schema::complaint(&problem), problem),
    })
}

async fn answered(job: &Job<'_>, turns: Turns, text: String, structured: Option<Json>) -> Result<End> {
    if turns.ending == Ending::CutOff {
        warn_of_cut(job.ctx).await?;
    }
    if let Some(limited) = turns.limited {
        job.ctx.signal(Signal::Limited(limited)).await?;
    }
    Ok(End::Answered(Answer { text, structured, used: turns.used, limited: turns.limited }))
}

/// Formats the calls at these positions with their results as text, for canvases that ask for it.
pub fn blocks(open: &[OpenCall], places: &[usize]) -> impl Iterator<Item = String> {
    places.iter().filter_map(|place| open.get(*place)).filter_map(|open| {
        let CallState::Done(done) = &open.state else { return None };
        let block =
            serde_json::json!({"name": open.call.name, "args": done.arguments, "result": done.result});
        // No text inside it can look like the end of the block.
        let block = serde_json::to_string_pretty(&block).ok()?.replace("</", "<\\/");
        Some(format!("<tool_call>{block}</tool_call>"))
    })
}
