//! The questions of a waiting run, for formats that only have text.

use std::fmt::Write as _;

use serde_json::json;
use weft_core::journal::WaitingForm;
use weft_core::{Json, SessionId, value};

use super::ragflow::FormFrame;

/// The questions of a waiting run.
pub(super) struct FormQuestions {
    text: String,
    /// The same for programs: the session, and the forms in the format of events.
    pub(super) data: Json,
}

impl FormQuestions {
    /// Builds the questions of these forms.
    pub(super) fn of(session: &SessionId, forms: &[WaitingForm]) -> Self {
        let frames: Vec<_> = forms.iter().map(FormFrame::from).collect();
        let data = json!({"session_id": session, "status": "waiting", "forms": frames});
        Self { text: text(session, forms), data }
    }

    /// Returns the text in the form that follows earlier content.
    pub(super) fn after(&self, said: &str) -> String {
        if said.is_empty() { self.text.clone() } else { format!("\n\n{}", self.text) }
    }
}

fn text(session: &SessionId, forms: &[WaitingForm]) -> String {
    let mut text = String::new();
    let mut answers = serde_json::Map::new();
    for waiting in forms {
        if let Some(tips) = &waiting.form.tips {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{tips}");
        }
        for (key, field) in &waiting.form.fields {
            let _ = writeln!(text, "- {}", described(key, field));
        }
        let fields = waiting.form.fields.keys().map(|key| (key.clone(), Json::from("…")));
        answers.insert(waiting.address(), Json::Object(fields.collect()));
    }
    let inputs = Json::Object(answers);
    let _ = write!(
        text,
        "The run waits for an answer: send it with \"session_id\": \"{session}\" and \"inputs\": {inputs}"
    );
    text
}

/// `call_1 (approve | deny): Allow it? delete_file {"path":"a"}`
fn described(key: &str, field: &Json) -> String {
    let word = |name: &str| field.get(name).and_then(Json::as_str).unwrap_or_default();
    let options = field.get("options").and_then(Json::as_array).into_iter().flatten();
    let options: Vec<_> = options.map(value::to_text).collect();
    let kind = if options.is_empty() { word("type").to_owned() } else { options.join(" | ") };
    let mut line = if kind.is_empty() { key.to_owned() } else { format!("{key} ({kind})") };
    if !word("name").is_empty() && word("name") != key {
        line = format!("{line}: {}", word("name"));
    }
    if !word("tool").is_empty() {
        let arguments = field.get("arguments").map(value::to_text).unwrap_or_default();
        line = format!("{line} {} {arguments}", word("tool"));
    }
    line
}
