//! The review of a plan that a person has to approve before any tool is called.

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use weft_core::Json;
use weft_core::component::Form;

use crate::calls::{Decision, decision, limit_wait};

/// The key of the form field that asks about the plan.
const FIELD: &str = "plan";

/// How many plans are made before a rejection is final.
// Each costs a request, and a person who rejects that many will hardly accept an eleventh.
pub(super) const MADE_MAX: u32 = 10;

/// A plan that waits for a person's approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Review {
    /// The plan as it is shown.
    pub plan: String,
    /// The number of plans made so far.
    pub made: u32,
    /// Why the last answer was not accepted, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unclear: Option<String>,
}

/// A person's answer about a plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReviewAnswer {
    /// No answer yet, or none that is clearly yes or no.
    Nothing,
    /// The plan is carried out.
    Approved,
    /// This plan is carried out instead.
    Edited(String),
    /// The plan is rejected, with the reason.
    Rejected(String),
}

impl Review {
    /// A plan that has not been reviewed yet.
    pub(super) fn new(plan: String) -> Self {
        Self { plan, made: 1, unclear: None }
    }

    /// Reads a person's answer.
    pub(super) fn read(&mut self, answers: &Map<String, Json>) -> ReviewAnswer {
        let Some(answer) = answers.get(FIELD) else { return ReviewAnswer::Nothing };
        if let (Some("edit" | "approve"), Some(plan)) =
            (answer.get("decision").and_then(Json::as_str), answer.get("plan"))
        {
            match plan.as_str().map(str::trim) {
                Some(plan) if !plan.is_empty() => return ReviewAnswer::Edited(plan.to_owned()),
                _ => return self.unclear("an edit needs `plan`, a text"),
            }
        }
        match decision(&rejected(answer)) {
            Decision::Approve => ReviewAnswer::Approved,
            Decision::Deny(reason) => ReviewAnswer::Rejected(reason),
            Decision::Edit(_) => self.unclear("an edit needs `plan`, a text"),
            Decision::Unclear(why) => self.unclear(&why),
        }
    }

    fn unclear(&mut self, why: &str) -> ReviewAnswer {
        self.unclear = Some(why.to_owned());
        ReviewAnswer::Nothing
    }

    /// The form that asks about the plan.
    pub(super) fn form(&self, timeout_seconds: Option<u64>) -> Form {
        let mut field = json!({
            "name": "Carry out this plan?",
            "type": "plan_review",
            "optional": false,
            "options": ["approve", "deny", "edit"],
            "plan": self.plan,
        });
        limit_wait(&mut field, timeout_seconds);
        if timeout_seconds.is_some() {
            // A reason would cause another plan to be made although nobody is answering.
            field["otherwise"] = Json::from("deny");
        }
        // The plan is also in the tips: clients that do not know this type of field show those.
        let mut tips = format!("An agent asks before it carries out its plan:\n{}", self.plan.trim());
        if let Some(why) = &self.unclear {
            tips.push_str(&format!(
                "\n{why}. Say `approve`, `deny`, `deny` and a reason, or {{\"decision\": \"edit\", \"plan\": \"…\"}}."
            ));
        }
        Form { fields: Map::from_iter([(FIELD.to_owned(), field)]), tips: Some(tips), ..Form::default() }
    }
}

/// Maps "reject" to "deny": people reject a plan rather than deny it.
fn rejected(answer: &Json) -> Json {
    let word = |text: &str| match text.get(..6) {
        Some(head) if head.eq_ignore_ascii_case("reject") => {
            // "rejected" as well, just as "approved" and "denied" are accepted.
            let rest = &text[6..];
            let tense = rest.get(..2).is_some_and(|tense| tense.eq_ignore_ascii_case("ed"));
            format!("deny{}", if tense { &rest[2..] } else { rest })
        }
        _ => text.to_owned(),
    };
    match answer {
        Json::String(text) => Json::String(word(text.trim())),
        Json::Object(map) => {
            let mut map = map.clone();
            if let Some(Json::String(decision)) = map.get_mut("decision") {
                *decision = word(decision);
            }
            Json::Object(map)
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_review_answers_are_parsed() {
        let check = |answer: Json, expected: ReviewAnswer| {
            let mut review = Review::new("1. Look.".to_owned());
            let answers = Map::from_iter([(FIELD.to_owned(), answer)]);
            assert_eq!(review.read(&answers), expected, "{answers:?}");
            assert_eq!(review.unclear.is_some(), expected == ReviewAnswer::Nothing, "{answers:?}");
        };
        check(json!("approve"), ReviewAnswer::Approved);
        check(json!("deny"), ReviewAnswer::Rejected(String::new()));
        check(json!("reject"), ReviewAnswer::Rejected(String::new()));
        check(json!("Rejected"), ReviewAnswer::Rejected(String::new()));
        check(json!("rejected: too long"), ReviewAnswer::Rejected("too long".to_owned()));
        check(json!({"decision": "rejected", "reason": "no"}), ReviewAnswer::Rejected("no".to_owned()));
        check(json!("Reject: too long"), ReviewAnswer::Rejected("too long".to_owned()));
        check(json!({"decision": "reject", "reason": "no"}), ReviewAnswer::Rejected("no".to_owned()));
        check(json!({"decision": "deny", "reason": "no"}), ReviewAnswer::Rejected("no".to_owned()));
        check(json!({"decision": "edit", "plan": " 2. Do. "}), ReviewAnswer::Edited("2. Do.".to_owned()));
        check(json!({"decision": "edit", "plan": ""}), ReviewAnswer::Nothing);
        check(json!({"decision": "edit"}), ReviewAnswer::Nothing);
        check(json!("perhaps"), ReviewAnswer::Nothing);
        assert_eq!(Review::new(String::new()).read(&Map::new()), ReviewAnswer::Nothing);
    }
}
