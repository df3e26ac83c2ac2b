//! Formats an entry of a journal on one line.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;
use weft_core::effect::EffectResult;
use weft_core::journal::{ActivationRef, FramePath, NextEdges};
use weft_core::{Entry, Outputs, Record, Route};

use super::stored::short;
use crate::progress::duration;
use crate::words::plural;

/// Formats an entry: `   4  +0.013 s  finished Reply (Message:Hello), 12 ms: {"content":"hello"}`
pub(super) fn entry_line(entry: &Entry, began_ms: i64) -> String {
    // The difference is negative if the clock was set back.
    let since = Duration::from_millis(u64::try_from(entry.at_ms - began_ms).unwrap_or(0));
    format!("{:>5}  +{:.3} s  {}", entry.seq, since.as_secs_f64(), fact(&entry.record))
}

fn fact(record: &Record) -> String {
    match record {
        Record::RunStarted { .. } => begun(record),
        Record::NodeStarted { who } => {
            format!("started {} as activation {}", named(who), who.activation)
        }
        Record::NodeSkipped { node, frame } => format!("skipped {node}{}", place(frame)),
        Record::FrameOpened { activation, items, .. } => match items {
            Some(items) => {
                format!("opened a frame of {} for activation {activation}", plural(items.len(), "item"))
            }
            None => format!("opened a frame for activation {activation}"),
        },
        Record::Said { node, text, .. } => format!("{node} said {}", short(&json!(text).to_string())),
        Record::Played { node, audio, .. } => {
            // Only roughly, because padding is counted as well.
            format!("{node} read it aloud: {} bytes of {}", audio.base64.len() / 4 * 3, audio.media_type)
        }
        Record::ThinkingStarted { node, .. } => format!("{node} started reasoning"),
        Record::ThinkingEnded { node, .. } => format!("{node} finished reasoning"),
        Record::MessageEnded { node, end, .. } => match end.cited.len() {
            0 => format!("{node} ended its message"),
            count => format!("{node} ended its message, which cites {}", plural(count, "source")),
        },
        Record::MessageReset { node, .. } => format!("{node} withdrew its text so far"),
        Record::ToolStarted { call, .. } => {
            format!("{} called with {}", call.path, short(&call.arguments.to_string()))
        }
        Record::ToolFinished { call, .. } => {
            let came = if call.failed { "failed" } else { "gave" };
            let result = short(&call.result.to_string());
            format!("{} {came} after {}: {result}", call.started.path, duration(call.elapsed))
        }
        Record::Limited { node, reason, .. } => format!("{node} was ended early: {}", reason.as_str()),
        Record::EffectStarted { .. } | Record::EffectFinished { .. } | Record::ModelUsed { .. } => {
            effect(record)
        }
        Record::Published { activation, output } => {
            format!("activation {activation} starts writing {output}")
        }
        Record::Sourced { sources } => format!("found {}", plural(sources.len(), "source")),
        Record::PickedUp { .. } => "the run resumes here".to_owned(),
        Record::Warned { node, message } => format!("{node} warns: {message}"),
        Record::NodeFinished { .. } => finished(record),
        Record::Waiting { forms } => {
            let forms: Vec<String> =
                forms.iter().map(|waiting| format!("{}{}", waiting.node, place(&waiting.frame))).collect();
            format!("waits for a person at {}", forms.join(", "))
        }
        Record::RunFinished { ending, outputs, error, elapsed, .. } => {
            let why = error.as_ref().map(|error| format!(": {}", short(error))).unwrap_or_default();
            format!(
                "the run ended: {}, {}{why} {}",
                ending.as_str(),
                duration(*elapsed),
                short(&values(outputs))
            )
        }
    }
}

fn begun(record: &Record) -> String {
    let Record::RunStarted { canvas, canvas_version, session, input, resumes, forks, .. } = record else {
        return String::new();
    };
    let resumes = resumes.as_ref().map(|run| format!(", continuing run {run}")).unwrap_or_default();
    let forks = forks
        .as_ref()
        .map(|forked| format!(", forked from run {} after entry {}", forked.run, forked.seq))
        .unwrap_or_default();
    let version = canvas_version.get(..12).unwrap_or(canvas_version);
    let inputs = if input.inputs.is_empty() { String::new() } else { format!(" {}", json!(input.inputs)) };
    let asked = short(&format!("{}{inputs}", input.query));
    format!("run of {canvas} ({version}) in session {session}{resumes}{forks}: {asked}")
}

fn effect(record: &Record) -> String {
    match record {
        Record::EffectStarted { activation, key, effect } => {
            format!("activation {activation} calls a {effect} ({key})")
        }
        Record::EffectFinished { activation, key, gave: EffectResult::Value(value) } => {
            format!("activation {activation} received from {key}: {}", short(&value.to_string()))
        }
        Record::EffectFinished { activation, key, gave: EffectResult::Failure { message, .. } } => {
            format!("{key} failed in activation {activation}: {}", short(message))
        }
        Record::ModelUsed { activation, effect, usage, .. } => format!(
            "activation {activation} called a {effect}: {} + {} tokens",
            usage.prompt_tokens, usage.completion_tokens
        ),
        _ => String::new(),
    }
}

fn finished(record: &Record) -> String {
    let Record::NodeFinished { who, outputs, error, elapsed, route, suspension, .. } = record else {
        return String::new();
    };
    let name = named(who);
    // No person is asked by a node that a crash has interrupted, by a frame around a node that asks, or by a node
    // that reads from one.
    if *route == NextEdges::Suspended && suspension.is_none() {
        return format!("{name} ended for now, and begins again");
    }
    let onward = match route {
        NextEdges::Routed(Route::Onward) => String::new(),
        NextEdges::Routed(Route::To(ids)) => {
            let ids: Vec<&str> = ids.iter().map(weft_core::ComponentId::as_str).collect();
            format!(" → {}", ids.join(", "))
        }
        NextEdges::Routed(Route::EndFrame) => " → the end of its frame".to_owned(),
        NextEdges::Exception => " → its exception branch".to_owned(),
        NextEdges::None => " → no edge".to_owned(),
        NextEdges::Suspended => " → waits for a person".to_owned(),
    };
    let mut text = format!("finished {name}, {}{onward}", duration(*elapsed));
    // Writing to a String cannot fail.
    let _ = match error {
        Some(error) => write!(text, ": failed, {}", short(error)),
        None => write!(text, ": {}", short(&values(outputs))),
    };
    text
}

/// Returns the name of a node, the id by which `--at` and `--pin` refer to it, and its frame. If the node has no name
/// of its own, its kind takes the place of the id.
fn named(who: &ActivationRef) -> String {
    let id = if *who.name == *who.node.as_str() { &*who.kind } else { who.node.as_str() };
    format!("{} ({id}){}", who.name, place(&who.frame))
}

fn place(frame: &FramePath) -> String {
    let steps: Vec<String> =
        frame.iter().map(|step| format!("{} round {}", step.node, step.round + 1)).collect();
    if steps.is_empty() { String::new() } else { format!(" in {}", steps.join(", ")) }
}

fn values(outputs: &Outputs) -> String {
    json!(outputs).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value as Json;
    use weft_core::budget::Spent;
    use weft_core::component::{Form, Suspension};

    use super::*;

    fn who(name: &str) -> ActivationRef {
        ActivationRef {
            activation: 1,
            node: "LLM:A".into(),
            name: name.into(),
            kind: "LLM".into(),
            frame: Arc::from([]),
        }
    }

    #[test]
    fn nodes_are_shown_with_the_id_that_other_commands_accept() {
        let started = |name| fact(&Record::NodeStarted { who: who(name) });
        assert_eq!(started("Answer"), "started Answer (LLM:A) as activation 1");
        assert_eq!(started("LLM:A"), "started LLM:A (LLM) as activation 1");
    }

    #[test]
    fn only_a_node_with_a_question_waits_for_a_person() {
        let ended = |suspension: Option<Suspension>| {
            fact(&Record::NodeFinished {
                who: who("Answer"),
                inputs: Arc::default(),
                outputs: Arc::default(),
                error: None,
                elapsed: 0.0,
                route: NextEdges::Suspended,
                assigned: Vec::new(),
                suspension: suspension.map(Box::new),
                spent: Spent::default(),
            })
        };
        assert_eq!(ended(None), "Answer (LLM:A) ended for now, and begins again");
        let asks = ended(Some(Suspension { form: Form::default(), state: Json::Null }));
        assert_eq!(asks, "finished Answer (LLM:A), under 1 ms → waits for a person: {}");
    }
}
