//! Extracts facts from a turn with a model.

use std::fmt::Write as _;
use std::time::Duration;

use weft_agent::arguments;
use weft_core::seam::ModelDirectory;
use weft_core::seam::embedder::EmbeddingPurpose;
use weft_core::seam::memory_store::{
    ExtractionOutcome, MESSAGE_BYTES_MAX, Memory, MessageType, NewMessage, TakenMessage,
};
use weft_core::{Error, ErrorKind, Json, Result};

use super::ConversationMemories;
use super::recall::vectors;
use crate::ask::{answer, passes, request};

/// Time limit of the model's answer.
const ANSWER_TIME: Duration = Duration::from_secs(120);
/// Time limit of computing vectors.
const VECTORS_TIME: Duration = Duration::from_secs(60);
/// Maximum number of notes of one type extracted from a turn.
const NOTES_MAX: usize = 32;
/// Maximum number of attempts per turn.
pub(super) const ATTEMPTS_MAX: u32 = 5;
/// Pause before the second attempt; it doubles with each further one.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

impl ConversationMemories {
    /// Processes a turn: extracts facts from it, and computes the vectors of both.
    pub(super) async fn extract(
        &self,
        taken: &TakenMessage,
        models: &dyn ModelDirectory,
    ) -> Result<ExtractionOutcome> {
        // It ended its process each time, or its outcome could not be stored.
        if taken.attempts > ATTEMPTS_MAX {
            let problem = format!("it was started {ATTEMPTS_MAX} times and never finished");
            return Ok(ExtractionOutcome::Failed { vector: Vec::new(), problem });
        }
        let memory = self.store.get(&taken.memory).await?;
        let (mut notes, mut problem) = (Vec::new(), None);
        if memory.settings.derived_types().next().is_some() {
            match in_time(ANSWER_TIME, derived(models, &memory, taken)).await {
                Ok(found) => notes = found,
                Err(error) => problem = Some(error),
            }
        }
        // Before vectors are computed, since these would have to be computed again as well.
        if let Some(error) = problem.as_ref().filter(|error| passes(error.kind))
            && let Some(again) = self.again(taken, error)
        {
            return Ok(again);
        }
        let texts: Vec<String> = std::iter::once(&taken.message.message.content)
            .chain(notes.iter().map(|message| &message.content))
            .cloned()
            .collect();
        let mut found = vec![Vec::new(); texts.len()];
        let embedder = memory.settings.embedder.as_str();
        if !embedder.is_empty() {
            let made = vectors(models, &memory.key.tenant, embedder, EmbeddingPurpose::Passage, &texts);
            match in_time(VECTORS_TIME, made).await {
                Ok(made) => found = made,
                Err(error) => {
                    if passes(error.kind)
                        && let Some(again) = self.again(taken, &error)
                    {
                        return Ok(again);
                    }
                    problem.get_or_insert(error);
                }
            }
        }
        let mut found = found.into_iter();
        let vector = found.next().unwrap_or_default();
        notes.iter_mut().zip(found).for_each(|(message, vector)| message.vector = vector);
        Ok(match problem {
            Some(error) if notes.is_empty() => ExtractionOutcome::Failed { vector, problem: error.full() },
            // What was found is stored without vectors: it is found by its words.
            Some(_) | None => ExtractionOutcome::Done { vector, derived: notes },
        })
    }

    /// Returns when to try again, if at all.
    fn again(&self, taken: &TakenMessage, error: &Error) -> Option<ExtractionOutcome> {
        let wait = AGAIN_AFTER.saturating_mul(1 << taken.attempts.clamp(1, ATTEMPTS_MAX).saturating_sub(1));
        let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        let from_ms = self.clock.now_ms().saturating_add(wait);
        (taken.attempts < ATTEMPTS_MAX).then(|| ExtractionOutcome::RetryAt { from_ms, problem: error.full() })
    }
}

async fn derived(
    models: &dyn ModelDirectory,
    memory: &Memory,
    taken: &TakenMessage,
) -> Result<Vec<NewMessage>> {
    let (settings, turn) = (&memory.settings, &taken.message.message);
    let types: Vec<MessageType> = settings.derived_types().collect();
    let model = models.resolve(&memory.key.tenant, &settings.llm_id)?;
    let instructions = match settings.system_prompt.trim() {
        "" => instructions(&types),
        // Whatever the instructions are, the answer has to be readable.
        own => format!("{own}\n\n{}", shape(&types)),
    };
    let mut asked = request(&instructions, &question(&settings.user_prompt, turn));
    asked.sampling.temperature = Some(settings.temperature);
    let said = answer(&*model, asked).await?;
    let said = arguments::parse(&said)?.value;
    notes(&said, &types, turn)
}

async fn in_time<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Timeout, "the model did not answer in time")))
}

/// Returns the keys of the answer, each with a description.
fn kinds(types: &[MessageType]) -> String {
    let mut kinds = String::new();
    for kind in types {
        let about = match kind {
            MessageType::Raw => continue,
            MessageType::Semantic => {
                "facts that hold beyond this conversation: who somebody is, has, likes, wants"
            }
            MessageType::Episodic => "events: what happened or will happen, to whom, when and where",
            MessageType::Procedural => "ways to do something: steps, rules, what worked and what did not",
        };
        let _ = writeln!(kinds, "- `{}`: {about}", kind.as_str());
    }
    kinds.trim_end().to_owned()
}

fn instructions(types: &[MessageType]) -> String {
    include_str!("../prompts/memory.md").replace("{kinds}", &kinds(types))
}

fn shape(types: &[MessageType]) -> String {
    format!(
        "Answer with one JSON object and nothing else. Its keys are given here, each with a list of \
         {{\"content\": \"…\", \"valid_at\": \"…\", \"invalid_at\": \"…\"}}:\n\n{}",
        kinds(types)
    )
}

fn question(own: &str, turn: &NewMessage) -> String {
    let time = jiff::Timestamp::from_millisecond(turn.valid_ms).unwrap_or_default();
    let opening = match own.trim() {
        "" => "The turn of the conversation:",
        own => own,
    };
    format!("{opening}\n\nTime: {time:.0}\n\n{}", turn.content)
}

/// Parses the notes in a model's answer. Types that were not asked for are left out.
fn notes(answer: &Json, types: &[MessageType], turn: &NewMessage) -> Result<Vec<NewMessage>> {
    let object = answer.as_object().ok_or_else(|| crate::ask::unexpected("notes"))?;
    let mut messages = Vec::new();
    for kind in types.iter().filter(|kind| **kind != MessageType::Raw) {
        let listed =
            object.get(kind.as_str()).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        let some = listed.iter().filter_map(|note| message(*kind, note, turn));
        messages.extend(some.take(NOTES_MAX));
    }
    Ok(messages)
}

fn message(kind: MessageType, note: &Json, turn: &NewMessage) -> Option<NewMessage> {
    let content = note.as_str().or_else(|| note.get("content")?.as_str())?.trim();
    let content = &content[..content.floor_char_boundary(MESSAGE_BYTES_MAX)];
    let time = |name: &str| note.get(name).and_then(Json::as_str).and_then(milliseconds);
    (!content.is_empty()).then(|| NewMessage {
        kind,
        content: content.to_owned(),
        vector: Vec::new(),
        valid_ms: time("valid_at").unwrap_or(turn.valid_ms),
        invalid_ms: time("invalid_at"),
        ..turn.clone()
    })
}

/// Parses a time as models write it, with or without a time zone or the time of day.
fn milliseconds(text: &str) -> Option<i64> {
    let text = text.trim();
    let time = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let local = text.parse::<jiff::civil::DateTime>().ok();
        let local = local.or_else(|| Some(text.parse::<jiff::civil::Date>().ok()?.at(0, 0, 0, 0)));
        Some(local?.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    });
    time.map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn turn() -> NewMessage {
        NewMessage {
            kind: MessageType::Raw,
            user: "ada".to_owned(),
            agent: "a".to_owned(),
            session: "s".to_owned(),
            content: "User Input: x".to_owned(),
            vector: vec![1.0],
            valid_ms: 86_400_000,
            invalid_ms: None,
        }
    }

    #[test]
    fn extracted_notes_are_parsed_leniently_and_filtered_by_kind() {
        let answer = json!({
            "semantic": [" Ada likes tea. ", {"content": "Ada is 36.", "valid_at": "1970-01-03"}, {"content": " "}, 7],
            "episodic": [{"content": "Ada flew.", "valid_at": "1970-01-01T00:00:01Z", "invalid_at": "1970-01-01T00:00:02"}],
            "procedural": [{"content": "not asked for"}],
        });
        let found =
            notes(&answer, &[MessageType::Raw, MessageType::Semantic, MessageType::Episodic], &turn())
                .unwrap();
        let short: Vec<_> =
            found.iter().map(|one| (one.kind, one.content.as_str(), one.valid_ms, one.invalid_ms)).collect();
        let expected = [
            (MessageType::Semantic, "Ada likes tea.", 86_400_000, None),
            (MessageType::Semantic, "Ada is 36.", 2 * 86_400_000, None),
            (MessageType::Episodic, "Ada flew.", 1_000, Some(2_000)),
        ];
        assert_eq!(short, expected);
        assert!(found.iter().all(|one| one.user == "ada" && one.vector.is_empty()));
        assert_eq!(
            notes(&json!([]), &[MessageType::Semantic], &turn()).unwrap_err().kind,
            ErrorKind::Garbled
        );
        let many: Vec<Json> = (0..100).map(|n| json!(format!("fact {n}"))).collect();
        let found = notes(&json!({"semantic": many}), &[MessageType::Semantic], &turn()).unwrap();
        assert_eq!(found.len(), NOTES_MAX);
    }

    #[test]
    fn the_extraction_prompt_states_kinds_and_time() {
        let told = instructions(&[MessageType::Raw, MessageType::Episodic]);
        assert!(told.contains("`episodic`") && !told.contains("`semantic`") && !told.contains("{kinds}"));
        assert!(question("", &turn()).contains("Time: 1970-01-02T00:00:00Z\n\nUser Input: x"));
        assert!(question("Look:", &turn()).starts_with("Look:\n"));
    }
}
