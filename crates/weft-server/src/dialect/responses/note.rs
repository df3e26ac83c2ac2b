//! What of a request is found in its response again.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use weft_core::{RunId, TurnInput};

/// What the id of a response has before that of its run.
pub const PREFIX: &str = "resp_";

/// The name under which a journal has it.
const NAME: &str = "response";

/// The id of a run's response.
pub fn response_id(run: &RunId) -> String {
    format!("{PREFIX}{run}")
}

/// What a request notes in the journal of its run, for whoever asks for the response later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// Whether anybody may ask for it later.
    pub store: bool,
    /// Whether nobody waits for it.
    pub background: bool,
    /// The response that it goes on from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// What was said beside the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What the client notes for itself.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Json>,
    /// Who asks, as the client says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The items of the question. What a file has of bytes is where the turn has it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<Json>,
}

impl Default for Note {
    /// Of a run that was begun in another way.
    fn default() -> Self {
        Self {
            store: true,
            background: false,
            previous: None,
            instructions: None,
            metadata: Map::new(),
            user: None,
            input: Vec::new(),
        }
    }
}

impl Note {
    /// From what a run was given. A run that was begun in another way has asked its question.
    pub fn of(input: &TurnInput) -> Self {
        let noted = input
            .notes
            .as_ref()
            .and_then(|notes| notes.get(NAME))
            .and_then(|noted| Self::deserialize(noted).ok());
        // What cannot be read counts as nothing noted: a journal may be of another version.
        let mut note = noted.unwrap_or_default();
        if note.input.is_empty() && !input.query.is_empty() {
            note.input.push(json!({"type": "message", "role": "user",
                "content": [{"type": "input_text", "text": input.query}]}));
        }
        note
    }

    /// As the notes of a turn.
    pub fn notes(&self) -> Option<Box<Map<String, Json>>> {
        Some(Box::new(Map::from_iter([(NAME.to_owned(), json!(self))])))
    }

    /// Adds to a response what its request said.
    pub(super) fn put_into(&self, response: &mut Json) {
        response["store"] = json!(self.store);
        response["background"] = json!(self.background);
        response["previous_response_id"] = json!(self.previous);
        response["instructions"] = json!(self.instructions);
        response["metadata"] = json!(self.metadata);
        response["user"] = json!(self.user);
        response["safety_identifier"] = json!(self.user);
    }
}
