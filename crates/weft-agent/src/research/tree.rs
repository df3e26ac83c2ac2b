//! Judges what was found and turns what is missing into further questions. The questions of one level are processed
//! concurrently and completed before the next level, so the result does not depend on their order of completion.

use std::sync::LazyLock;

use futures::future::join_all;
use serde::Deserialize;
use serde_json::json;
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest};
use weft_core::{Json, NodeContext, Result};

use super::{Course, QueryResults, Research, StopReason, ends_the_work};
use crate::ask::ask_structured;
use crate::structured::Schema;

const SUFFICIENT: &str = include_str!("../prompts/research_sufficient.md");
const QUESTIONS: &str = include_str!("../prompts/research_questions.md");
/// How often an answer that does not match its schema is sent back.
// Each judge is one of many; one that cannot follow the schema is noted and skipped.
const REPAIRS: u32 = 1;
/// Passages may fill one part in this many of the model's window.
// The rest is for the instructions, what is missing, and the answer.
const WINDOW_SHARE: usize = 2;

static VERDICT: LazyLock<Json> = LazyLock::new(|| {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    json!({
        "type": "object",
        "properties": {"is_sufficient": {"type": "boolean"}, "reasoning": {"type": "string"}, "missing_information": texts},
        "required": ["is_sufficient", "missing_information"],
    })
});
static FURTHER: LazyLock<Json> = LazyLock::new(|| {
    let entry = json!({
        "type": "object",
        "properties": {"question": {"type": "string"}, "query": {"type": "string"}},
        "required": ["question", "query"],
    });
    json!({
        "type": "object",
        "properties": {"reasoning": {"type": "string"}, "questions": {"type": "array", "items": entry}},
        "required": ["questions"],
    })
});

#[derive(Debug, Deserialize)]
struct QuestionVerdict {
    is_sufficient: bool,
    #[serde(default)]
    missing_information: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Further {
    questions: Vec<SubQuestion>,
}

/// A question and the query for it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct SubQuestion {
    question: String,
    query: String,
}

/// The outcome of one question: what is missing, and further questions about it.
struct Judged {
    missing: Vec<String>,
    further: Vec<SubQuestion>,
}

pub(super) async fn run(course: &mut Course<'_, '_>, question: &str) -> Result<StopReason> {
    let limits = course.research.limits;
    let mut level = vec![SubQuestion { question: question.to_owned(), query: question.to_owned() }];
    for depth in (0..=limits.depth).rev() {
        level.retain(|asked| course.is_new(&asked.query));
        // After the check for new queries: a repeated query does not use up a place.
        level.truncate(limits.nodes.saturating_sub(course.findings.queries.len()));
        if level.is_empty() {
            break;
        }
        if course.is_late().await? {
            return Ok(StopReason::Time);
        }
        for asked in &level {
            course.say(&format!("Searching for “{}”\n\n", asked.query));
        }
        let queries: Vec<String> = level.iter().map(|asked| asked.query.clone()).collect();
        let answers = course.search(&queries, &course.research.kinds()).await?;
        let judged = judged(course, question, &level, &answers, depth).await?;
        // What earlier levels lacked has been searched for by this one.
        course.findings.gaps.clear();
        let mut next = Vec::new();
        for ((asked, answer), Judged { missing, further }) in level.iter().zip(&answers).zip(judged) {
            course.say(&told(answer, &missing));
            let summary =
                if missing.is_empty() { String::new() } else { format!("missing: {}", missing.join("; ")) };
            course.keep(answer, summary);
            course.findings.gaps.extend(missing);
            for one in &further {
                course.say(&format!("To ask next, for “{}”: {}\n\n", asked.question, one.question));
            }
            next.extend(further);
        }
        level = next;
    }
    Ok(if course.findings.gaps.is_empty() { StopReason::Enough } else { StopReason::Limit })
}

fn told(answer: &QueryResults, missing: &[String]) -> String {
    let hits = answer.hits();
    let passages = if hits == 1 { "passage" } else { "passages" };
    // A model may say that it is not enough without saying what is missing.
    let verdict = if missing.is_empty() {
        "That is enough.".to_owned()
    } else {
        format!("Missing: {}.", missing.join("; "))
    };
    format!("{hits} {passages} for “{}”. {verdict}\n\n", answer.query)
}

/// Judges the results for each question of a level.
async fn judged(
    course: &mut Course<'_, '_>,
    original: &str,
    level: &[SubQuestion],
    answers: &[QueryResults],
    depth: usize,
) -> Result<Vec<Judged>> {
    let research = course.research;
    let base = course.findings.queries.len();
    let each = level.iter().zip(answers).enumerate().map(|(place, (asked, answer))| async move {
        let ctx = research.inside(&format!("{}-judge", base + place));
        judge(research, &ctx, &DerivedQuestion { original, asked, answer }, depth).await
    });
    let mut judged = Vec::new();
    for one in join_all(each).await {
        match one {
            Ok(one) => judged.push(one),
            Err(error) if ends_the_work(error.kind) => return Err(error),
            Err(error) => {
                // The remedy is for the operator, and not for the readers of the reasoning.
                let missing = "what was found could not be judged".to_owned();
                course.findings.notes.push(format!("{missing}: {}", error.full()));
                // Counts as missing: it is unknown whether it was enough.
                judged.push(Judged { missing: vec![missing], further: Vec::new() });
            }
        }
    }
    Ok(judged)
}

/// A question derived from the original one, and the results for it.
struct DerivedQuestion<'a> {
    original: &'a str,
    asked: &'a SubQuestion,
    answer: &'a QueryResults,
}

async fn judge(
    research: &Research<'_>,
    ctx: &NodeContext,
    point: &DerivedQuestion<'_>,
    depth: usize,
) -> Result<Judged> {
    let DerivedQuestion { original, asked, answer } = point;
    let passages = answer.text(research.model.info().window / WINDOW_SHARE);
    let given = format!("The question: {}\n\nThe passages:\n{passages}", asked.question);
    let verdict: QuestionVerdict = structured(research, ctx, SUFFICIENT, &given, &VERDICT).await?;
    if verdict.is_sufficient {
        return Ok(Judged { missing: Vec::new(), further: Vec::new() });
    }
    let mut missing: Vec<String> = verdict
        .missing_information
        .into_iter()
        .map(|what| what.trim().to_owned())
        .filter(|what| !what.is_empty())
        .collect();
    if missing.is_empty() {
        missing.push(asked.question.clone());
    }
    if depth == 0 {
        return Ok(Judged { missing, further: Vec::new() });
    }
    let queries = research.limits.queries;
    let instructions = QUESTIONS.replace("{queries}", &queries.to_string());
    let given = format!(
        "The question at the beginning: {original}\n\nWhat was looked for: {}\n\nWhat is missing:\n- {}\n\nThe passages:\n{passages}",
        asked.query,
        missing.join("\n- ")
    );
    let mut further: Further = structured(research, ctx, &instructions, &given, &FURTHER).await?;
    further.questions.retain(|one| !one.query.trim().is_empty());
    further.questions.truncate(queries);
    Ok(Judged { missing, further: further.questions })
}

/// An answer that matches this schema. One that does not is sent back once, with the reason.
pub(super) async fn structured<T: serde::de::DeserializeOwned>(
    research: &Research<'_>,
    ctx: &NodeContext,
    instructions: &str,
    given: &str,
    schema: &Json,
) -> Result<T> {
    let schema = Schema::new(schema.clone())?;
    let system = format!("{}\n\n{}", instructions.trim_end(), schema.instructions());
    let messages = vec![ChatMessage::new(Author::System, system), ChatMessage::new(Author::User, given)];
    let request = ChatRequest { schema: Some(schema.json.clone()), ..(research.request)(messages) };
    let value = ask_structured(ctx, research.model, request, &schema, REPAIRS).await?;
    serde_json::from_value(value).map_err(|cause| {
        Schema::given_up(weft_core::Error::invalid("the answer is not of its form").because(cause))
    })
}
