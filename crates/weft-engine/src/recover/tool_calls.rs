//! The tool calls in a journal.

use std::collections::HashMap;
use std::sync::Arc;

use weft_core::context::{ToolFinished, ToolStarted};
use weft_core::effect::{EffectResult, Known};
use weft_core::{ErrorKind, Json};

use super::JournalReader;

impl JournalReader {
    pub(super) fn call_started(&mut self, activation: u32, call: &ToolStarted) {
        if let Some(open) = self.active.get_mut(&activation) {
            open.calls.push(call.clone());
        }
    }

    pub(super) fn call_finished(&mut self, activation: u32, call: &ToolFinished) {
        let Some(open) = self.active.get_mut(&activation) else { return };
        // Calls interrupted in an earlier process are made again, or reported as interrupted, by the work
        // that begins again.
        if activation >= self.lives_from {
            self.all.calls.note(&self.all.machine.plan.nodes[open.place.1], call);
            if took_too_long(call) {
                give_up(&mut open.before.effects, &call.started.call);
            }
        }
        open.calls.retain(|started| *started != call.started);
        open.before.told.insert((Arc::clone(&call.started.path), Arc::clone(&call.started.call)));
    }
}

/// Whether a call was ended by a time limit.
fn took_too_long(call: &ToolFinished) -> bool {
    let kind = call.result.pointer("/error/kind").and_then(Json::as_str);
    call.failed && kind == Some(ErrorKind::Timeout.code())
}

/// Fails the outside calls that a timed-out tool call was still waiting for. The work that begins again sees
/// the same failure; it neither waits for them again nor takes them for interrupted by the end of the
/// process.
fn give_up(effects: &mut HashMap<Arc<str>, Known>, call: &str) {
    let of_call = |key: &str| key.strip_prefix(call).is_some_and(|rest| rest.starts_with('/'));
    for (_, known) in effects.iter_mut().filter(|(key, _)| of_call(key)) {
        if *known == Known::Begun {
            let message = "it took too long, and was given up before it came back".into();
            *known = Known::Ended(EffectResult::Failure { kind: ErrorKind::Timeout, message });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_timeout_is_recognised_by_the_error_kind() {
        let check = |result: Json, failed: bool, expected: bool| {
            let started = ToolStarted {
                agent: "A".into(),
                path: "A-->t".into(),
                call: "c1".into(),
                tool: "t".into(),
                arguments: Json::Null.into(),
            };
            let result = Arc::new(result);
            let call = ToolFinished { started, result, failed, repaired: false, elapsed: 1.0 };
            assert_eq!(took_too_long(&call), expected);
        };
        let failure = |kind: &str| json!({"error": {"kind": kind, "message": "it took longer than its 1 s"}});
        check(failure("TIMEOUT"), true, true);
        check(failure("TIMEOUT"), false, false);
        check(failure("SERVER_ERROR"), true, false);
        check(json!("cut off: the process was stopped"), true, false);
    }

    #[test]
    fn effects_pending_in_a_failed_call_fail_with_it() {
        let came_back = Known::Ended(EffectResult::Value(Arc::new(Json::Null)));
        let known = |key: &str, known: &Known| (Arc::from(key), known.clone());
        let mut effects = HashMap::from([
            known("c1/http#0", &Known::Begun),
            known("c1/inner/model#1", &Known::Begun),
            known("c1/http#1", &came_back),
            known("c10/http#0", &Known::Begun),
            known("model#0", &Known::Begun),
        ]);
        give_up(&mut effects, "c1");
        let failed = |key: &str| {
            matches!(&effects[key], Known::Ended(EffectResult::Failure { kind: ErrorKind::Timeout, .. }))
        };
        assert!(failed("c1/http#0") && failed("c1/inner/model#1"));
        assert_eq!(effects["c1/http#1"], came_back);
        assert!(effects["c10/http#0"] == Known::Begun && effects["model#0"] == Known::Begun);
    }
}
