//! Writes the planner's answer, with citations.

use weft_core::context::Signal;
use weft_core::seam::chat_model::Author;
use weft_core::{Error, ErrorKind, Json, Piece, Result};

use super::stage::{PlannerStage, begun};
use super::steps::Steps;
use super::{AnswerForm, prompts, request};
use crate::answer_stream::AnswerStream;
use crate::ask::{Ending, ask, empty_answer, warn_of_cut};
use crate::driver::{Answer, End, Job};
use crate::structured::Schema;
use crate::trace::TracedResult;
use crate::turns::UNANSWERED;
use crate::window::{Keep, Line, add_to_system};

/// In conversations with fewer messages than this, the model cites while it writes the answer.
// In a short conversation a model follows the rules while it writes; in a long one they are too far away, and a
// second pass is more reliable.
const CITED_INLINE_BELOW: usize = 7;
/// Conversations with more messages than this are shortened for the answer.
const MESSAGES_MAX: usize = 12;
/// The number of last messages kept in a shortened conversation.
const LAST: usize = 8;

/// Writes the answer.
pub(super) async fn finish(job: &Job<'_>, mut steps: Steps, mut voice: AnswerStream<'_>) -> Result<End> {
    let options = job.options;
    let sources = job.ctx.run.citations.all();
    // Without sources there is nothing to cite, and a model told to cite would invent numbers.
    let rules = options.citing.as_deref().filter(|_| !sources.is_empty());
    let inline = steps.lines.len() < CITED_INLINE_BELOW;
    without_middle(&mut steps.lines);
    if let Some(schema) = &options.schema {
        add_to_system(&mut steps.lines, &schema.instructions());
    }
    if let Some(rules) = rules.filter(|_| inline) {
        add_to_system(&mut steps.lines, rules);
    }
    if !steps.plan.is_empty() {
        let asks = prompts::answer(&steps.request, steps.draft.as_deref(), steps.limited);
        steps.say(Author::User, &asks);
    }
    // A text that gets its marks in a second pass is shown after that pass; otherwise the reader would see it twice.
    let aloud = rules.is_none() || inline;
    let (mut repairs, mut empties) = (options.repairs(), 0);
    let (reply, structured) = loop {
        let request = request(job, steps.lines.clone(), AnswerForm::Schema).await?;
        let mut show = |piece| {
            if aloud || matches!(piece, Piece::Thinking(_)) {
                voice.piece(piece);
            }
        };
        let reply = ask(job.ctx, job.model, request, &mut show).await?;
        voice.pause();
        if reply.text.trim().is_empty() {
            empties += 1;
            // Asked again, an answer that reached its limit before the first word would reach it again.
            if empties > 1 || reply.ending == Ending::CutOff {
                return Err(empty_answer(reply.ending, &reply.calls));
            }
            steps.say(Author::User, UNANSWERED.trim_end());
            continue;
        }
        let Some(schema) = &options.schema else { break (reply, None) };
        match schema.check(&reply.text) {
            Ok(value) => break (reply, Some(value)),
            Err(problem) if repairs == 0 => return Err(Schema::given_up(problem)),
            Err(problem) => {
                repairs -= 1;
                steps.say(Author::Assistant, &reply.text);
                steps.say(Author::User, &Schema::complaint(&problem));
            }
        }
    };
    let mut ending = reply.ending;
    if let Some(rules) = rules.filter(|_| !inline) {
        // The shown text is now that of the second pass, complete or not.
        let shown = cite(job, &reply.text, &sources, rules, &mut voice).await?;
        ending = if shown == Ending::CutOff { shown } else { ending };
    }
    if ending == Ending::CutOff {
        warn_of_cut(job.ctx).await?;
    }
    if let Some(limited) = steps.limited {
        job.ctx.signal(Signal::Limited(limited)).await?;
    }
    Ok(End::Answered(Answer { text: voice.finish(), structured, used: steps.used, limited: steps.limited }))
}

/// Removes the middle of a long conversation: its first round and its last ones stay, and so does everything that was
/// said and found since the question.
fn without_middle(lines: &mut Vec<Line>) {
    if lines.len() <= MESSAGES_MAX {
        return;
    }
    let is_earlier = |line: &Line| line.keep == Keep::History;
    let earlier: Vec<usize> =
        (0..).zip(lines.iter()).filter(|(_, line)| is_earlier(line)).map(|(place, _)| place).collect();
    // Counted among the messages before the question; what was found since then is the basis of the answer.
    let Some(last_from) = earlier.iter().rev().nth(LAST - 1) else { return };
    let mut rounds = earlier.iter().filter(|place| lines[**place].message.author == Author::User).skip(1);
    let (from, to) = (rounds.next(), rounds.clone().find(|place| *place >= last_from));
    if let (Some(&from), Some(&to)) = (from, to)
        && from < *last_from
    {
        lines.drain(from..to);
    }
}

/// The second pass: shows the finished text with its marks. If the pass fails, the text is shown without them.
/// Returns how the shown text ended.
async fn cite(
    job: &Job<'_>,
    text: &str,
    sources: &[weft_core::citation::Cited],
    rules: &str,
    voice: &mut AnswerStream<'_>,
) -> Result<Ending> {
    let traced = begun(job, PlannerStage::first("gen_citations"), Json::Null).await?;
    let lines: Vec<Line> = prompts::cite_pass(text, sources, rules).into_iter().map(Line::pinned).collect();
    let mut shown = false;
    let reply = match request(job, lines, AnswerForm::Free).await {
        // A prompt is fitted to the window; a text that was shortened for that must not replace the answer.
        Ok(request) if request.messages.last().is_some_and(|message| message.text == text) => {
            let mut show = |piece| {
                shown |= matches!(piece, Piece::Text(_));
                voice.piece(piece);
            };
            ask(job.ctx, job.model, request, &mut show).await
        }
        Ok(_) => Err(Error::new(ErrorKind::Invalid, "the text is too long for a second pass")),
        Err(error) => Err(error),
    };
    voice.pause();
    let (result, failed, ending) = match reply {
        Ok(reply) if shown => (reply.text, false, reply.ending),
        // What has been shown cannot be taken back, so the text is not shown a second time after it.
        Err(error) if shown || error.kind == ErrorKind::Cancelled => return Err(error),
        Ok(_) | Err(_) => {
            voice.piece(Piece::Text(text.into()));
            voice.pause();
            ("failed: the text is shown without marks".to_owned(), true, Ending::Whole)
        }
    };
    traced.finish(TracedResult { result: Json::from(result), failed, ..TracedResult::default() }).await?;
    Ok(ending)
}
