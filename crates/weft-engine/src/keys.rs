//! Missing or rejected API keys: a node configured to do so waits for a person instead of failing.
//!
//! The person only says whether to try again. The key itself goes to the operator's key storage, never
//! through a form, and therefore never into a journal or a session.

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use weft_core::component::{Finished, Form, Suspension};
use weft_core::{Error, ErrorKind, Json, NodeContext, Result};

/// The only field of the form.
const FIELD: &str = "credential";

/// What the node remembers while it waits.
#[derive(Deserialize, Serialize)]
// So that the state of a node that waits for something else is not mistaken for this.
#[serde(deny_unknown_fields)]
struct LacksKey {
    /// The error that stopped it.
    lacks_key: String,
    /// The state it was resumed with, if it was in the middle of its work.
    resumed: Option<Json>,
    filled: Map<String, Json>,
}

/// The input of a node that may have to ask for a key.
pub(crate) struct ResumedInput {
    resumed: Option<Json>,
    filled: Map<String, Json>,
}

impl ResumedInput {
    /// Takes the answer out of the context of a node that waited for a key, and restores its original input,
    /// because trying again means beginning as before.
    ///
    /// # Errors
    /// The original error, when the person has given up.
    pub(crate) fn of(context: &mut NodeContext) -> Result<Self> {
        let waited = context.resumed.as_ref().and_then(|state| LacksKey::deserialize(state).ok());
        if let Some(LacksKey { lacks_key, resumed, filled }) = waited {
            let answers = std::mem::replace(&mut context.filled, filled);
            context.resumed = resumed;
            // Any other answer means trying again: the form has a single question, and trying costs nothing.
            if answers.get(FIELD).is_some_and(gives_up) {
                return Err(Error::new(ErrorKind::Unauthenticated, lacks_key));
            }
        }
        Ok(Self { resumed: context.resumed.clone(), filled: context.filled.clone() })
    }

    /// Turns the failure of a node that lacks a key into a question. A node that has called tools in the
    /// meantime still fails: beginning again would repeat those calls.
    pub(crate) fn ask(self, name: &str, tool_calls: u64, result: Result<Finished>) -> Result<Finished> {
        let error = match result {
            Err(error) if error.kind == ErrorKind::Unauthenticated && tool_calls == 0 => error,
            other => return other,
        };
        let why = error.full();
        let field = json!({
            "name": format!("{name} needs a key"),
            "type": "credential",
            "optional": false,
            "options": ["retry", "give_up"],
        });
        let tips = format!(
            "{name}: {why}\nCorrect the key where this server reads it, \
             then answer `retry`. With `give_up` the node fails."
        );
        let state = LacksKey { lacks_key: why, resumed: self.resumed, filled: self.filled };
        let state = serde_json::to_value(state)
            .map_err(|cause| Error::internal("cannot record what the node waits for").because(cause))?;
        let fields = Map::from_iter([(FIELD.to_owned(), field)]);
        Ok(Finished::suspended(Suspension {
            form: Form { fields, tips: Some(tips), ..Form::default() },
            state,
        }))
    }
}

fn gives_up(answer: &Json) -> bool {
    let word = answer.get("decision").unwrap_or(answer).as_str().unwrap_or_default();
    ["give_up", "give up", "deny", "no"].contains(&word.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_explicit_refusal_gives_up() {
        for no in [json!("give_up"), json!(" Deny "), json!({"decision": "deny", "reason": "late"})] {
            assert!(gives_up(&no), "{no}");
        }
        for yes in
            [json!("retry"), json!({"decision": "retry"}), json!(true), Json::Null, json!("now it works")]
        {
            assert!(!gives_up(&yes), "{yes}");
        }
    }

    #[test]
    fn only_a_missing_key_is_requested_and_only_before_tool_calls() {
        let ask = |kind: ErrorKind, calls: u64| {
            let before = ResumedInput { resumed: None, filled: Map::new() };
            before.ask("N", calls, Err(Error::new(kind, "why"))).is_ok_and(|end| end.suspended.is_some())
        };
        assert!(ask(ErrorKind::Unauthenticated, 0));
        assert!(!ask(ErrorKind::Unauthenticated, 1));
        assert!(!ask(ErrorKind::RateLimited, 0));
    }
}
