//! Progress of a run for people: its nodes, the tools that agents call, and warnings, with one line each, live on a
//! terminal.

use std::collections::HashMap;

use weft_core::journal::{ActivationRef, NextEdges};
use weft_core::{Record, value};

use crate::screen::{LiveLine, LiveLines, Notes};
use crate::words::on_one_line;

/// Maximum number of live lines; further nodes are shown when they end.
const LIVE_MAX: usize = 16;
/// Maximum number of characters of arguments and failures in a line.
const TEXT_CHARS: usize = 160;

/// How nodes are shown as they start and end.
pub(crate) enum Progress {
    /// Not at all.
    Silent,
    /// Only tool calls and warnings.
    Tools,
    /// A line per finished node.
    Lines,
    /// A line per active node, which remains when it ends.
    Live(Live),
}

/// Animated lines.
pub(crate) struct Live {
    lines: LiveLines,
    working: HashMap<u32, LiveLine>,
    /// Finished nodes that are printed when the answer is complete, because it shares the terminal.
    held_back: Option<Vec<String>>,
}

impl Progress {
    /// Decides by whether standard error is a terminal.
    pub(crate) fn for_people() -> Self {
        if !Notes::is_terminal() {
            return Self::Lines;
        }
        Self::Live(Live { lines: LiveLines::default(), working: HashMap::new(), held_back: None })
    }

    /// Processes a record.
    pub(crate) fn observe(&mut self, record: &Record) {
        match (self, record) {
            (Self::Live(live), Record::NodeStarted { who }) => live.start(who),
            (Self::Live(live), Record::NodeFinished { who, error, elapsed, route, .. }) => {
                live.end(who.activation, ended(who, error.as_deref(), route, *elapsed));
            }
            (Self::Lines, Record::NodeFinished { who, error, elapsed, route, .. }) => {
                Notes::line(ended(who, error.as_deref(), route, *elapsed));
            }
            (Self::Live(live), record) => told(record).into_iter().for_each(|line| live.tell(line)),
            (Self::Lines | Self::Tools, record) => told(record).iter().for_each(Notes::line),
            (Self::Silent, _) => {}
        }
    }

    /// Returns whether the record prints a line, so that an unfinished one has to be ended first.
    pub(crate) fn tells(&self, record: &Record) -> bool {
        matches!(self, Self::Tools) && told(record).is_some()
    }

    /// Stops the animation before text is written to the same terminal.
    pub(crate) fn make_room(&mut self) {
        if let Self::Live(live) = self {
            live.stop_moving();
        }
    }

    /// Prints held-back lines at the end of the run.
    pub(crate) fn close(&mut self) {
        if let Self::Live(live) = self {
            live.stop_moving();
            live.held_back.take().into_iter().flatten().for_each(Notes::line);
        }
    }
}

impl Live {
    fn start(&mut self, who: &ActivationRef) {
        if self.held_back.is_some() || self.working.len() >= LIVE_MAX {
            return;
        }
        self.working.insert(who.activation, self.lines.turning(&named(who)));
    }

    fn end(&mut self, activation: u32, text: String) {
        if let Some(line) = self.working.remove(&activation) {
            line.end();
        }
        self.tell(text);
    }

    fn tell(&mut self, text: String) {
        match &mut self.held_back {
            Some(held_back) => held_back.push(text),
            None => self.lines.tell(&text),
        }
    }

    fn stop_moving(&mut self) {
        self.working.drain().for_each(|(_, line)| line.end());
        // From now on, finished nodes are held back, even if no line was animated.
        self.held_back.get_or_insert_default();
    }
}

fn named(who: &ActivationRef) -> String {
    if *who.name == *who.kind { who.kind.to_string() } else { format!("{} ({})", who.name, who.kind) }
}

/// Returns the line for the start or end of a tool call, or for a warning.
fn told(record: &Record) -> Option<String> {
    match record {
        Record::ToolStarted { call, .. } => {
            Some(format!("  → {} {}", call.path, short(&value::to_text(&call.arguments))))
        }
        Record::ToolFinished { call, .. } => {
            let (path, took) = (&call.started.path, duration(call.elapsed));
            Some(match call.failed {
                // A call within which a person was asked: it is repeated after the answer.
                false if call.result.as_str() == Some("waits for a person") => {
                    format!("  … {path} waits for a person")
                }
                false => format!("  ✓ {path}, {took}"),
                true => format!("  ✗ {path}, {took}: {}", short(&value::to_text(&call.result))),
            })
        }
        Record::Warned { node, message } => Some(format!("warning: {node}: {message}")),
        _ => None,
    }
}

/// Returns a text on one line, cut to a readable length.
fn short(text: &str) -> String {
    on_one_line(text, TEXT_CHARS)
}

fn ended(who: &ActivationRef, error: Option<&str>, route: &NextEdges, elapsed: f64) -> String {
    let name = named(who);
    match error {
        None if *route == NextEdges::Suspended => format!("  … {name} waits for a person"),
        None => format!("  ✓ {name}, {}", duration(elapsed)),
        Some(error) => format!("  ✗ {name}, {}: {error}", duration(elapsed)),
    }
}

/// Formats a duration for people.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => "under 1 ms".to_owned(),
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s => format!("{s:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weft_core::context::{ToolFinished, ToolStarted};

    #[test]
    fn a_tool_call_is_shown_on_one_line() {
        let started = ToolStarted {
            agent: "Agent:A".into(),
            path: "Agent A-->search".into(),
            call: "c".into(),
            tool: "search".into(),
            arguments: Arc::new(serde_json::json!({"query": "a\nb"})),
        };
        let result = Arc::new(serde_json::Value::from("x".repeat(500)));
        let (failed, repaired, elapsed) = (true, false, 0.25);
        let finished = ToolFinished { started: started.clone(), result, failed, repaired, elapsed };
        let begun = told(&Record::ToolStarted { activation: 1, call: started }).unwrap();
        assert_eq!(begun, r#"  → Agent A-->search {"query":"a\nb"}"#);
        let over = told(&Record::ToolFinished { activation: 1, call: finished }).unwrap();
        assert!(
            over.starts_with("  ✗ Agent A-->search, 250 ms: xxx") && over.chars().count() < 220,
            "{over}"
        );
    }

    /// A suspended node or call is not shown as finished.
    #[test]
    fn a_suspended_call_is_not_shown_as_finished() {
        let started = ToolStarted {
            agent: "Agent:A".into(),
            path: "Agent A-->helper".into(),
            call: "c".into(),
            tool: "helper".into(),
            arguments: Arc::new(serde_json::json!({})),
        };
        let result = Arc::new("waits for a person".into());
        let call = ToolFinished { started, result, failed: false, repaired: false, elapsed: 0.002 };
        let line = told(&Record::ToolFinished { activation: 1, call });
        assert_eq!(line.unwrap(), "  … Agent A-->helper waits for a person");
        let who = ActivationRef {
            activation: 1,
            node: "Agent:A".into(),
            name: "Boss".into(),
            kind: "Agent".into(),
            frame: Arc::from([]),
        };
        assert_eq!(ended(&who, None, &NextEdges::Suspended, 0.1), "  … Boss (Agent) waits for a person");
    }

    #[test]
    fn durations() {
        let check = |seconds, expected| assert_eq!(duration(seconds), expected);
        check(0.0, "under 1 ms");
        check(0.0123, "12 ms");
        check(2.34, "2.3 s");
    }
}
