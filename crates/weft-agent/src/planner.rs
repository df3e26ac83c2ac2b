//! The driver for models without native tool calls: it asks for the next calls as a list.

mod answer;
mod prompts;
mod review;
mod stage;
mod steps;

use serde_json::Map;
use weft_core::component::Suspension;
use weft_core::context::{Limited, Signal};
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest, ToolSchema};
use weft_core::{Piece, Result, async_trait};

use self::answer::finish;
use self::prompts::observation;
use self::review::{MADE_MAX, Review, ReviewAnswer};
use self::stage::{PlannerStage, report, staged};
use self::steps::{PlannerStep, PlannerTask, Steps};
use crate::answer_stream::AnswerStream;
use crate::ask::{Ending, Reply, ask};
use crate::calls;
use crate::driver::{Driver, End, Job, Start, keep, kept};
use crate::native::blocks;
use crate::offered_tools::on_offer;
use crate::toolkit::schemas;
use crate::window::{Line, fit, room};

/// The name under which the state of a suspended planner is stored.
const NAME: &str = "planner";
/// In a conversation with more messages than this, the question may depend on earlier ones.
// Instructions, a greeting and the question: there is nothing before the question that it could depend on.
const STANDALONE_MAX: usize = 3;

/// Analyses the task, asks for the next calls, makes them, observes their results, and repeats until it can write the
/// answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planner;

#[async_trait]
impl Driver for Planner {
    async fn run(&self, job: &Job<'_>, start: Start) -> Result<End> {
        let tools = schemas(&on_offer(job.tools.tools(), &[]));
        let (mut steps, mut answers) = match start {
            Start::Conversation(lines) => (begin(job, lines, &tools).await?, Map::new()),
            Start::Resumed { state, answers } => (kept::<Steps>(NAME, state)?, answers),
        };
        let mut voice = AnswerStream::of(job, &steps.said);
        let mut requests = 0;
        loop {
            match steps.step() {
                PlannerStep::Review(review) => {
                    let said = review.read(&std::mem::take(&mut answers));
                    if let Some(form) = look_at_plan(job, &mut steps, &tools, said).await? {
                        return Ok(End::Suspended(Suspension { form, state: keep(NAME, &steps)? }));
                    }
                }
                PlannerStep::Plan => {
                    // Taken right before the request, with its number: replayed work reads them at the same point.
                    for message in job.ctx.messages_before(requests).await? {
                        steps.say(Author::User, &prompts::meanwhile(&message));
                    }
                    requests += 1;
                    let tools = schemas(&on_offer(job.tools.tools(), &steps.used));
                    let reply = next_step(job, &steps, &tools, &mut voice).await?;
                    steps.replied(&reply.text, reply.ending);
                }
                PlannerStep::Call(open) => {
                    let end =
                        // A list of calls that was cut off was refused when it was read.
                        calls::make(job, open, &std::mem::take(&mut answers), Ending::Whole, None).await?;
                    if job.options.verbose {
                        blocks(open, &end.over).for_each(|block| voice.say(&block));
                    }
                    if let Some(form) = end.form {
                        voice.pause();
                        voice.said().clone_into(&mut steps.said);
                        return Ok(End::Suspended(Suspension { form, state: keep(NAME, &steps)? }));
                    }
                    look_at_results(job, &mut steps).await?;
                    if let Some(limit) = end.limit {
                        steps.close(Limited::Budget(limit));
                    }
                }
                PlannerStep::Answer => return finish(job, steps, voice).await,
            }
        }
    }
}

/// Determines what is asked and what is known about it.
async fn begin(job: &Job<'_>, lines: Vec<Line>, tools: &[ToolSchema]) -> Result<Steps> {
    let options = &job.options.planner;
    let asked = lines.iter().rev().map(|line| &line.message).find(|message| message.author == Author::User);
    let asked = asked.map(|message| message.text.clone()).unwrap_or_default();
    if tools.is_empty() {
        // Without tools there is nothing to plan.
        return Ok(Steps::new(lines, PlannerTask { request: asked, plan: String::new() }, 0));
    }
    let request = if lines.len() > STANDALONE_MAX { rewritten(job, &lines, asked).await? } else { asked };
    let instructions = instructions(&lines);
    let mut shown = None;
    // A plan that a person has to approve is made by the model.
    let plan = if options.analyse || options.review {
        let messages = prompts::analyse(instructions, &request, tools, options);
        let plan = staged(job, PlannerStage::first("analyze_task"), messages).await?.unwrap_or_default();
        // The analysis helps but is not required: the task itself says what is to be done.
        if plan.is_empty() {
            prompts::concat(instructions, &request, options)
        } else {
            shown = Some(plan.clone());
            format!("{request}\n\n{plan}")
        }
    } else {
        let plan = prompts::concat(instructions, &request, options);
        report(job, PlannerStage::first("analyze_task"), plan.as_str()).await?;
        plan
    };
    let shown = shown.unwrap_or_else(|| plan.clone());
    let mut steps = Steps::new(lines, PlannerTask { request, plan }, job.options.requests_with_tools());
    steps.review = options.review.then(|| Review::new(shown));
    Ok(steps)
}

fn instructions(lines: &[Line]) -> &str {
    let first = lines.first().map(|line| &line.message).filter(|message| message.author == Author::System);
    first.map_or("", |message| &message.text)
}

/// Applies what a person said about the plan. Returns the question for the person if nothing is decided yet.
async fn look_at_plan(
    job: &Job<'_>,
    steps: &mut Steps,
    tools: &[ToolSchema],
    said: ReviewAnswer,
) -> Result<Option<weft_core::component::Form>> {
    let Some(review) = steps.review.clone() else { return Ok(None) };
    match said {
        ReviewAnswer::Nothing => {}
        ReviewAnswer::Approved => steps.agreed(None),
        ReviewAnswer::Edited(plan) => steps.agreed(Some(&plan)),
        ReviewAnswer::Rejected(reason) if reason.is_empty() || review.made >= MADE_MAX => {
            steps.rejected(&reason);
        }
        ReviewAnswer::Rejected(reason) => {
            let asked =
                prompts::analyse(instructions(&steps.lines), &steps.request, tools, &job.options.planner);
            let asked = prompts::analyse_again(asked, &review.plan, &reason);
            let plan = staged(job, PlannerStage { name: "analyze_task", before: review.made }, asked)
                .await?
                .unwrap_or_default();
            if plan.is_empty() {
                steps.rejected(&reason);
            } else {
                steps.plan = format!("{}\n\n{plan}", steps.request);
                steps.review = Some(Review { made: review.made + 1, ..Review::new(plan) });
            }
        }
    }
    Ok(steps.review.as_ref().map(|review| review.form(job.options.approval_timeout)))
}

/// Rewrites the question so that it can be understood on its own; returns it unchanged when the model fails.
async fn rewritten(job: &Job<'_>, lines: &[Line], asked: String) -> Result<String> {
    let rest = lines.iter().filter(|line| line.message.author != Author::System).cloned().collect();
    // The last messages matter most, so the oldest ones of a long conversation are dropped.
    let room = room(job.model.info().window, job.options.sampling.max_tokens, 0) / 2;
    // Half of the window, so that there is also room for the rewritten question.
    let Ok((said, _)) = fit(rest, room) else { return Ok(asked) };
    let messages = prompts::rewrite(&said, &job.options.planner);
    let rewritten =
        staged(job, PlannerStage::first("Multi-turn conversation optimization"), messages).await?;
    Ok(rewritten.filter(|text| !text.trim().is_empty()).map_or(asked, |text| text.trim().to_owned()))
}

/// Whether a request includes the schema of the final answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerForm {
    Free,
    Schema,
}

async fn request(job: &Job<'_>, lines: Vec<Line>, form: AnswerForm) -> Result<ChatRequest> {
    let options = job.options;
    let room = room(job.model.info().window, options.sampling.max_tokens, 0);
    let (messages, note) = fit(lines, room)?;
    // Some chat templates fail on two consecutive messages of one author, mostly those of models that cannot call
    // tools.
    let messages = alternating(messages);
    if let Some(note) = note {
        job.ctx.signal(Signal::Warn(note)).await?;
    }
    let schema =
        options.schema.as_ref().filter(|_| form == AnswerForm::Schema).map(|schema| schema.json.clone());
    Ok(ChatRequest { schema, ..job.request(messages) })
}

/// Merges consecutive messages of one author, so that authors alternate.
fn alternating(messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
    let mut merged: Vec<ChatMessage> = Vec::with_capacity(messages.len());
    for message in messages {
        match merged.last_mut().filter(|last| last.author == message.author) {
            Some(last) => {
                last.text.push_str("\n\n");
                last.text.push_str(&message.text);
                last.images.extend(message.images);
            }
            None => merged.push(message),
        }
    }
    merged
}

/// Asks for the next step. Its reasoning is shown, its list of calls is not.
async fn next_step(
    job: &Job<'_>,
    steps: &Steps,
    tools: &[ToolSchema],
    voice: &mut AnswerStream<'_>,
) -> Result<Reply> {
    let system = prompts::next_step(&steps.plan, tools, &job.options.planner);
    let rest = steps.lines.iter().filter(|line| line.message.author != Author::System).cloned();
    let lines = std::iter::once(system).map(Line::pinned).chain(rest);
    let lines = lines.chain(std::iter::once(prompts::next_nudge()).map(Line::pinned)).collect();
    let request = request(job, lines, AnswerForm::Free).await?;
    let mut show = |piece| {
        // The list of calls is for the driver; shown, it would be part of the answer.
        if matches!(piece, Piece::Thinking(_)) {
            voice.piece(piece);
        }
    };
    ask(job.ctx, job.model, request, &mut show).await
}

/// Adds the results of the calls, with a reflection on them if the options ask for it.
async fn look_at_results(job: &Job<'_>, steps: &mut Steps) -> Result<()> {
    let Some(results) = steps.results() else { return Ok(()) };
    let seen = observation(&results, None);
    let reflection = PlannerStage { name: "reflection", before: steps.rounds() };
    let looked_back = if job.options.planner.reflect {
        staged(job, reflection, prompts::reflect(&steps.request, &seen, &job.options.planner)).await?
    } else {
        // In the trace in any case, so that clients see the same stages with and without a model.
        report(job, reflection, seen.as_str()).await?;
        None
    };
    steps.called(&observation(&results, looked_back.as_deref()));
    Ok(())
}
