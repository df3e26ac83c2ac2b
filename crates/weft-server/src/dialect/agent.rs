//! Run events in the format of a single agent at work: `node_start`, `llm_token`, `node_end`, `tool_start`,
//! `tool_end`, and the `reply` with its metadata at the end. Every event has the same envelope.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value as Json, json};
use weft_core::value::to_text;
use weft_core::{ComponentId, Ending, Entry, Record};

use super::ragflow::RunView;
use super::ragflow::tool::cut;
use super::write_json;
use crate::answer::Answer;
use crate::wire::session::sources;

#[derive(Serialize)]
struct EventEnvelope<'a> {
    #[serde(flatten)]
    event: Event<'a>,
    run_id: &'a str,
    /// Increases from event to event.
    seq: u64,
    /// Milliseconds since 1970.
    ts: i64,
    /// Number of rounds of tool calls before it.
    step: u32,
}

#[derive(Serialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
enum Event<'a> {
    NodeStart {
        node: &'a ComponentId,
    },
    /// A piece of a message. One of the two texts is not empty.
    LlmToken {
        token: &'a str,
        reasoning_token: &'a str,
        node: &'a ComponentId,
    },
    /// The message starts again: its pieces so far do not count.
    LlmRestart {
        node: &'a ComponentId,
    },
    NodeEnd {
        node: &'a ComponentId,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
    },
    ToolStart {
        tool: &'a str,
        args: &'a Json,
        id: &'a str,
        node: &'a ComponentId,
    },
    ToolEnd {
        tool: &'a str,
        id: &'a str,
        result: String,
        is_error: bool,
        truncated: bool,
        node: &'a ComponentId,
    },
    Reply(Json),
}

/// The events of a run, as of the entries processed so far.
pub struct AgentRun {
    view: RunView,
    answer: Answer,
    /// The calls under way.
    open: HashSet<Arc<str>>,
    /// Whether calls have ended since the last output of the model.
    called: bool,
    step: u32,
    tools_used: Vec<Arc<str>>,
}

impl AgentRun {
    /// Creates the state of a run whose entries are yet to come.
    pub fn new(view: RunView) -> Self {
        let (answer, open, tools_used) = (Answer::default(), HashSet::new(), Vec::new());
        Self { view, answer, open, called: false, step: 0, tools_used }
    }

    /// The state shared by all frames of the run.
    pub fn view(&self) -> &RunView {
        &self.view
    }

    /// Returns whether the end of the run was processed.
    pub fn is_over(&self) -> bool {
        self.answer.end.is_some()
    }

    /// Returns why the run failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.answer.failure()
    }

    /// Processes the next entry. Must be called with all entries of a run, in order.
    pub fn learn(&mut self, entry: &Arc<Entry>) {
        self.view.learn(entry);
        match &entry.record {
            Record::ToolStarted { call, .. } => {
                self.open.insert(Arc::clone(&call.call));
                if !self.tools_used.contains(&call.tool) {
                    self.tools_used.push(Arc::clone(&call.tool));
                }
            }
            Record::ToolFinished { call, .. } => {
                self.open.remove(&call.started.call);
                self.called = true;
            }
            // A round is over when the model produces output again.
            Record::Said { .. }
            | Record::ThinkingStarted { .. }
            | Record::ModelUsed { .. }
            | Record::RunFinished { .. }
                if self.called && self.open.is_empty() =>
            {
                self.step = self.step.saturating_add(1);
                self.called = false;
            }
            _ => {}
        }
        self.answer.learn(entry);
    }

    /// Appends the frame of the entry that was just processed. Returns whether there is one.
    pub fn write_frame(&self, entry: &Entry, out: &mut Vec<u8>) -> bool {
        let (Some(seq), Some(event)) = (entry.event, self.event(&entry.record)) else { return false };
        let (run_id, ts, step) = (self.view.run.as_str(), entry.at_ms, self.step);
        write_json(&EventEnvelope { event, run_id, seq, ts, step }, out);
        true
    }

    fn event<'a>(&'a self, record: &'a Record) -> Option<Event<'a>> {
        Some(match record {
            Record::NodeStarted { who } => Event::NodeStart { node: &who.node },
            Record::NodeFinished { who, error, .. } => {
                Event::NodeEnd { node: &who.node, error: error.as_deref() }
            }
            Record::Said { activation, node, text } if self.answer.is_thinking(*activation) => {
                Event::LlmToken { token: "", reasoning_token: text, node }
            }
            Record::Said { node, text, .. } => Event::LlmToken { token: text, reasoning_token: "", node },
            Record::MessageReset { node, .. } => Event::LlmRestart { node },
            Record::ToolStarted { call, .. } => Event::ToolStart {
                tool: &call.tool,
                args: &call.arguments,
                id: &call.call,
                node: &call.agent,
            },
            Record::ToolFinished { call, .. } => {
                let text = to_text(&call.result);
                let shown = cut(&text).map(str::to_owned);
                Event::ToolEnd {
                    tool: &call.started.tool,
                    id: &call.started.call,
                    truncated: shown.is_some(),
                    result: shown.unwrap_or(text),
                    is_error: call.failed,
                    node: &call.started.agent,
                }
            }
            Record::RunFinished { .. } => Event::Reply(self.reply()),
            _ => return None,
        })
    }

    /// The reply with its metadata.
    pub fn reply(&self) -> Json {
        let Some(end) = &self.answer.end else { return Json::Null };
        let mut reply = json!({
            "final_reply": self.answer.text(),
            "metadata": {
                "steps_taken": self.step,
                "tools_used": self.tools_used,
                "stop_reason": self.stop_reason(end.ending),
                "llm_calls": end.usage.calls,
            },
            "status": end.ending.as_str(),
            "session_id": self.view.session,
        });
        if let Some(error) = &end.error {
            reply["error"] = Json::from(&**error);
        }
        if !self.answer.cited.is_empty() {
            reply["reference"] = sources(&self.answer.reference());
        }
        reply
    }

    fn stop_reason(&self, ending: Ending) -> &'static str {
        match ending {
            Ending::Succeeded => match self.answer.limited().map(weft_core::context::Limited::as_str) {
                // The rounds of an agent are called steps in this dialect.
                Some("max_rounds") => "max_steps",
                Some(limit) => limit,
                None if self.answer.text().trim().is_empty() => "empty_response",
                None => "completed",
            },
            Ending::Failed => "error",
            Ending::Cancelled => "cancelled",
            Ending::Waiting => "awaiting_input",
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_core::context::{Limited, ToolFinished, ToolStarted};
    use weft_core::seam::chat_model::Usage;

    use super::*;

    fn end(ending: Ending, limited: Vec<Limited>) -> Record {
        let usage = Usage { prompt_tokens: 3, completion_tokens: 5, calls: 2, ..Usage::default() };
        let error = (ending == Ending::Failed).then(|| "it broke".into());
        Record::RunFinished {
            ending,
            outputs: Arc::default(),
            error,
            usage,
            limited,
            uses: Vec::new(),
            spent: Default::default(),
            elapsed: 0.0,
        }
    }

    fn said(text: &str) -> Record {
        Record::Said { activation: 1, node: "Message:M".into(), text: text.into() }
    }

    fn call(id: &str) -> ToolStarted {
        ToolStarted {
            agent: "Agent:A".into(),
            path: "A-->look".into(),
            call: id.into(),
            tool: "look".into(),
            arguments: Arc::new(json!({"q": 1})),
        }
    }

    fn started(id: &str) -> Record {
        Record::ToolStarted { activation: 1, call: call(id) }
    }

    fn finished(id: &str, result: Json) -> Record {
        let call = ToolFinished {
            started: call(id),
            result: Arc::new(result),
            failed: false,
            repaired: false,
            elapsed: 0.5,
        };
        Record::ToolFinished { activation: 1, call }
    }

    /// The event, the step and the data of each frame.
    fn told(records: Vec<Record>) -> (Vec<(String, u64, Json)>, AgentRun) {
        let mut run = AgentRun::new(RunView::new(&"r".into(), &"s".into()));
        let mut frames = Vec::new();
        for (seq, record) in (1..).zip(records) {
            let entry = Arc::new(Entry { seq, event: Some(seq), at_ms: 7, record });
            run.learn(&entry);
            let mut out = Vec::new();
            if run.write_frame(&entry, &mut out) {
                let frame: Json = serde_json::from_slice(&out).unwrap();
                assert_eq!(
                    (&frame["run_id"], &frame["seq"], &frame["ts"]),
                    (&json!("r"), &json!(seq), &json!(7))
                );
                let event = frame["event"].as_str().unwrap().to_owned();
                frames.push((event, frame["step"].as_u64().unwrap(), frame["data"].clone()));
            }
        }
        (frames, run)
    }

    #[test]
    fn tool_calls_of_an_agent_become_frames() {
        let who = crate::dialect::activation();
        let thinks = |node: &str| Record::ThinkingStarted { activation: 1, node: node.into() };
        let (frames, run) = told(vec![
            Record::NodeStarted { who },
            started("c1"),
            started("c2"),
            finished("c2", json!("two")),
            finished("c1", json!("x".repeat(4_001))),
            thinks("Message:M"),
            said("hm"),
            Record::ThinkingEnded { activation: 1, node: "Message:M".into() },
            said("Done."),
            end(Ending::Succeeded, vec![Limited::MaxRounds]),
        ]);
        let start = |id: &str| json!({"tool": "look", "args": {"q": 1}, "id": id, "node": "Agent:A"});
        let end = |id: &str, result: &str| {
            let truncated = result.len() == 4_000;
            json!({"tool": "look", "id": id, "result": result, "is_error": false, "truncated": truncated, "node": "Agent:A"})
        };
        let metadata =
            json!({"steps_taken": 1, "tools_used": ["look"], "stop_reason": "max_steps", "llm_calls": 2});
        let expected = [
            ("node_start", 0, json!({"node": "Agent:A"})),
            ("tool_start", 0, start("c1")),
            ("tool_start", 0, start("c2")),
            ("tool_end", 0, end("c2", "two")),
            ("tool_end", 0, end("c1", &"x".repeat(4_000))),
            ("llm_token", 1, json!({"token": "", "reasoning_token": "hm", "node": "Message:M"})),
            ("llm_token", 1, json!({"token": "Done.", "reasoning_token": "", "node": "Message:M"})),
            (
                "reply",
                1,
                json!({"final_reply": "Done.", "metadata": metadata, "status": "succeeded", "session_id": "s"}),
            ),
        ];
        let expected = expected.map(|(event, step, data)| (event.to_owned(), step, data));
        assert_eq!(frames, expected);
        assert!(run.is_over() && run.failure().is_none());
    }

    #[test]
    fn every_ending_has_its_finish_reason() {
        let reason = |records: Vec<Record>| told(records).1.reply()["metadata"]["stop_reason"].clone();
        assert_eq!(reason(vec![said("x"), end(Ending::Succeeded, Vec::new())]), "completed");
        assert_eq!(reason(vec![end(Ending::Succeeded, Vec::new())]), "empty_response");
        assert_eq!(reason(vec![end(Ending::Succeeded, vec![Limited::LoopDetected])]), "loop_detected");
        assert_eq!(reason(vec![end(Ending::Cancelled, Vec::new())]), "cancelled");
        assert_eq!(reason(vec![end(Ending::Waiting, Vec::new())]), "awaiting_input");
        let (frames, run) = told(vec![said("x"), end(Ending::Failed, Vec::new())]);
        let reply = &frames[1].2;
        assert_eq!(
            (&reply["error"], &reply["metadata"]["stop_reason"]),
            (&json!("it broke"), &json!("error"))
        );
        assert_eq!(run.failure(), Some("it broke"));
    }
}
