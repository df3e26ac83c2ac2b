//! The model reasons aloud; it requests searches between tags, and is given their results.

use weft_core::seam::chat_model::{Author, ChatMessage};
use weft_core::{Piece, Result};

use super::tags::{self, TagFilter};
use super::{Course, FOUND_MAX, QueryResults, StopReason, steps};
use crate::ask::{ask, ask_text};

const REASON: &str = include_str!("../prompts/research_reason.md");
const EXTRACT: &str = include_str!("../prompts/research_extract.md");
const NUDGE: &str = include_str!("../prompts/research_nudge.md");
/// The message to the model about a query that it repeats.
const REPEATED: &str = "This was looked for before: use what was found then.";
/// The message when there are no more rounds.
const OVER: &str = "The searches are used up. What was found has to do.";
/// The text for a query without results.
const NOTHING: &str = "Nothing was found.";

pub(super) async fn run(course: &mut Course<'_, '_>, question: &str) -> Result<StopReason> {
    let limits = course.research.limits;
    let reason = REASON
        .replace("{steps}", &limits.steps.to_string())
        .replace("{queries}", &limits.queries.to_string());
    let mut messages = vec![
        ChatMessage::new(Author::System, reason.trim_end()),
        ChatMessage::new(Author::User, format!("The question: {question}")),
    ];
    let mut steps: Vec<String> = Vec::new();
    for step in 0..limits.steps {
        if course.is_late().await? {
            return Ok(StopReason::Time);
        }
        let (text, mut queries) = reasoning(course, messages.clone()).await?;
        if queries.is_empty() {
            if step > 0 {
                return Ok(StopReason::Enough);
            }
            // A model that requests no search at first would answer from memory.
            queries.push(question.to_owned());
        }
        // Before they are added to the conversation: the model must not expect a result of a query that is dropped.
        queries.truncate(limits.queries);
        // Rebuilt from what was parsed: tags that were cut off or invented are not sent back to the model.
        let asked: Vec<String> = queries.iter().map(|query| tags::query(query)).collect();
        let said = [text.trim(), &asked.join("\n")].join("\n\n");
        steps.push(said.trim().to_owned());
        messages.push(ChatMessage::new(Author::Assistant, said.trim()));
        let mut results = Vec::new();
        for query in queries {
            let result = if course.is_new(&query) {
                looked_up(course, &query, &steps).await?
            } else {
                tags::result(REPEATED)
            };
            steps.push(result.clone());
            results.push(result);
        }
        results.push(NUDGE.trim_end().to_owned());
        // One message, because authors have to alternate.
        messages.push(ChatMessage::new(Author::User, results.join("\n\n")));
    }
    course.say(&format!("{OVER}\n\n"));
    Ok(StopReason::Limit)
}

/// One round of the model: its text without tags, and its queries.
async fn reasoning(course: &mut Course<'_, '_>, messages: Vec<ChatMessage>) -> Result<(String, Vec<String>)> {
    let research = course.research;
    let mut filter = TagFilter::default();
    let mut said = String::new();
    let show = &mut course.show;
    ask(research.ctx, research.model, (research.request)(messages), &mut |piece| {
        if let Piece::Text(text) = piece {
            let shown = filter.push(&text);
            show(&shown);
            said.push_str(&shown);
        }
    })
    .await?;
    let (rest, queries) = filter.finish();
    said.push_str(&rest);
    course.say(&format!("{rest}\n\n"));
    Ok((said, queries))
}

/// Searches for a query. Returns the relevant part of the results, as text for the model.
async fn looked_up(course: &mut Course<'_, '_>, query: &str, steps: &[String]) -> Result<String> {
    course.say(&format!("Searching for “{query}”\n\n"));
    let queries = [query.to_owned()];
    let Some(answer) = course.search(&queries, &course.research.kinds()).await?.pop() else {
        return Ok(tags::result(NOTHING));
    };
    let summary = extracted(course, &answer, steps).await?;
    course.keep(&answer, summary.clone());
    course.say(&format!("{summary}\n\n"));
    Ok(tags::result(&summary))
}

async fn extracted(course: &mut Course<'_, '_>, answer: &QueryResults, steps: &[String]) -> Result<String> {
    let passages = answer.text(FOUND_MAX);
    if passages.is_empty() {
        return Ok(NOTHING.to_owned());
    }
    let asked = format!(
        "The reasoning so far:\n{}\n\nThe query: {}\n\nThe passages:\n{}",
        steps::shortened(steps),
        answer.query,
        tags::plain(&passages)
    );
    let messages =
        vec![ChatMessage::new(Author::System, EXTRACT.trim_end()), ChatMessage::new(Author::User, asked)];
    let research = course.research;
    let text = ask_text(research.ctx, research.model, (research.request)(messages), &mut |_| {}).await?;
    Ok(tags::plain(&text).trim().to_owned())
}
