//! A run folded into a single answer, for callers that do not want a stream.

use std::sync::Arc;

use axum::http::StatusCode;
use weft_core::citation::{Cited, reference};
use weft_core::context::Limited;
use weft_core::journal::{Ending, WaitingForm};
use weft_core::seam::chat_model::Usage;
use weft_core::{ComponentId, Entry, Json, Record, Result};
use weft_engine::EntryReader;

use crate::dialect::ragflow::RunView;

/// The output and ending of a run, as of the entries processed so far.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    said: Vec<Said>,
    thinking: Vec<u32>,
    /// The cited sources, ordered by number.
    pub cited: Vec<Cited>,
    /// The sources found, ordered by number.
    pub sources: Vec<Cited>,
    /// The open forms, if the run waits for a person.
    pub forms: Vec<WaitingForm>,
    /// The `structured` outputs, by component.
    pub structured: serde_json::Map<String, Json>,
    /// The end of the run, once it has ended.
    pub end: Option<RunEnd>,
    waiting: Option<Arc<Entry>>,
    message_end: Option<Arc<Entry>>,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct RunEnd {
    /// The kind of ending.
    pub ending: Ending,
    /// The reason, unless the run succeeded or waits.
    pub error: Option<Arc<str>>,
    /// Tokens and calls used.
    pub usage: Usage,
    /// The limits that stopped agents early.
    pub limited: Vec<Limited>,
    /// The entry of the ending.
    pub entry: Arc<Entry>,
}

#[derive(Clone, Debug)]
struct Said {
    activation: u32,
    node: ComponentId,
    text: String,
}

impl Answer {
    /// Processes the next entry.
    pub fn learn(&mut self, entry: &Arc<Entry>) {
        match &entry.record {
            // Reasoning is no part of the answer.
            Record::Said { activation, node, text } if !self.thinking.contains(activation) => {
                self.say(*activation, node, text);
            }
            Record::Sourced { sources } => self.sources.extend(sources.iter().cloned()),
            Record::ThinkingStarted { activation, .. } => self.thinking.push(*activation),
            Record::ThinkingEnded { activation, .. } => self.thinking.retain(|other| other != activation),
            Record::MessageReset { activation, node } => self.reset(*activation, node),
            Record::MessageEnded { end, .. } => {
                self.cite(&end.cited);
                self.message_end = Some(Arc::clone(entry));
            }
            Record::NodeFinished { who, outputs, .. } => {
                if let Some(value) =
                    outputs.get("structured").filter(|value| value.as_json() != Some(&Json::Null))
                {
                    self.structured.insert(who.node.to_string(), (*value.snapshot()).clone());
                }
            }
            Record::Waiting { forms } => {
                self.forms.clone_from(forms);
                self.waiting = Some(Arc::clone(entry));
            }
            Record::RunFinished { ending, error, usage, limited, .. } => {
                let (ending, error, usage) = (*ending, error.clone(), *usage);
                let limited = limited.clone();
                self.end = Some(RunEnd { ending, error, usage, limited, entry: Arc::clone(entry) });
            }
            Record::Said { .. }
            | Record::Played { .. }
            | Record::RunStarted { .. }
            | Record::NodeStarted { .. }
            | Record::NodeSkipped { .. }
            | Record::FrameOpened { .. }
            | Record::ModelUsed { .. }
            | Record::EffectStarted { .. }
            | Record::EffectFinished { .. }
            | Record::Published { .. }
            | Record::PickedUp { .. }
            | Record::ToolStarted { .. }
            | Record::ToolFinished { .. }
            | Record::Limited { .. }
            | Record::Warned { .. } => {}
        }
    }

    fn say(&mut self, activation: u32, node: &ComponentId, text: &str) {
        // From the end, because the speaker is usually the last one that spoke.
        match self.said.iter_mut().rfind(|said| said.activation == activation) {
            Some(said) => said.text.push_str(text),
            None => self.said.push(Said { activation, node: node.clone(), text: text.to_owned() }),
        }
    }

    /// Drops the text of an activation, or the last one of its node, because it starts again.
    fn reset(&mut self, activation: Option<u32>, node: &ComponentId) {
        let meant = |said: &Said| activation.map_or(said.node == *node, |one| said.activation == one);
        if let Some(at) = self.said.iter().rposition(meant) {
            let said = self.said.remove(at);
            self.thinking.retain(|activation| *activation != said.activation);
        }
    }

    fn cite(&mut self, cited: &[Cited]) {
        for new in cited {
            // Ordered by number, as a reference lists them.
            if let Err(at) = self.cited.binary_search_by_key(&new.number, |known| known.number) {
                self.cited.insert(at, new.clone());
            }
        }
    }

    /// Returns whether the pieces of an activation are currently reasoning.
    pub fn is_thinking(&self, activation: u32) -> bool {
        self.thinking.contains(&activation)
    }

    /// Returns the HTTP status that the last message sets.
    pub fn status(&self) -> Option<StatusCode> {
        let Record::MessageEnded { end, .. } = &self.message_end.as_ref()?.record else { return None };
        StatusCode::from_u16(u16::try_from(end.status?).ok()?).ok()
    }

    /// Returns the whole text, without reasoning.
    pub fn text(&self) -> String {
        self.said.iter().map(|said| said.text.as_str()).collect()
    }

    /// Returns the sources as `{chunks, doc_aggs}`; an empty object when nothing is cited.
    pub fn reference(&self) -> Json {
        if self.cited.is_empty() { Json::Object(serde_json::Map::new()) } else { reference(&self.cited) }
    }

    /// Returns why the run failed; `None` for every other ending.
    pub fn failure(&self) -> Option<&str> {
        let end = self.end.as_ref().filter(|end| end.ending == Ending::Failed)?;
        Some(end.error.as_deref().unwrap_or("the run failed"))
    }

    /// Returns the limit that stopped an agent early; the first, if there are several.
    pub fn limited(&self) -> Option<Limited> {
        self.end.as_ref()?.limited.first().copied()
    }

    /// Returns the entry that a single answer shows: the form of a waiting run, else the end of its last message,
    /// else its end.
    pub fn shown(&self) -> Option<&Arc<Entry>> {
        let end = self.end.as_ref().map(|end| &end.entry);
        self.waiting.as_ref().or(self.message_end.as_ref()).or(end)
    }
}

/// Reads a run to its end.
///
/// # Errors
/// When the store cannot be read.
pub async fn collect(entries: &mut EntryReader, view: &mut RunView) -> Result<Answer> {
    let mut answer = Answer::default();
    while let Some(entry) = entries.next().await? {
        view.learn(&entry);
        answer.learn(&entry);
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::component::MessageEnd;

    fn learn(answer: &mut Answer, record: Record) {
        answer.learn(&Arc::new(Entry { seq: 1, event: Some(1), at_ms: 0, record }));
    }

    fn said(activation: u32, node: &str, text: &str) -> Record {
        Record::Said { activation, node: node.into(), text: text.into() }
    }

    #[test]
    fn the_answer_text_excludes_reasoning_and_retracted_text() {
        let mut answer = Answer::default();
        let (activation, node): (u32, ComponentId) = (2, "B".into());
        learn(&mut answer, said(1, "A", "one "));
        learn(&mut answer, Record::ThinkingStarted { activation, node: node.clone() });
        learn(&mut answer, said(2, "B", "hm"));
        assert!(answer.is_thinking(2) && !answer.is_thinking(1));
        learn(&mut answer, said(1, "A", "two "));
        learn(&mut answer, Record::ThinkingEnded { activation, node: node.clone() });
        learn(&mut answer, said(2, "B", "wrong"));
        learn(&mut answer, Record::MessageReset { activation: None, node });
        learn(&mut answer, said(2, "B", "right"));
        assert_eq!(answer.text(), "one two right");
        assert_eq!(answer.reference(), serde_json::json!({}));
    }

    #[test]
    fn the_end_of_the_last_message_is_shown_before_the_end_of_the_run() {
        let mut answer = Answer::default();
        let end = |ending, error: Option<&str>| Record::RunFinished {
            ending,
            outputs: Arc::default(),
            error: error.map(Into::into),
            usage: Usage::default(),
            limited: Vec::new(),
            uses: Vec::new(),
            spent: Default::default(),
            elapsed: 0.0,
        };
        learn(&mut answer, end(Ending::Failed, Some("it broke")));
        assert!(matches!(answer.shown().unwrap().record, Record::RunFinished { .. }));
        assert_eq!(answer.failure(), Some("it broke"));
        let ended = Record::MessageEnded { activation: 1, node: "M".into(), end: MessageEnd::default() };
        learn(&mut answer, ended);
        assert!(matches!(answer.shown().unwrap().record, Record::MessageEnded { .. }));
        learn(&mut answer, Record::Waiting { forms: Vec::new() });
        assert!(matches!(answer.shown().unwrap().record, Record::Waiting { .. }));
        learn(&mut answer, end(Ending::Waiting, None));
        assert_eq!(answer.failure(), None);
    }
}
