//! The data of a request that is repeated in its response.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use weft_core::{RunId, TurnInput};

/// Prefix of the id of a response, before the id of its run.
pub const PREFIX: &str = "resp_";

/// Key of the note in the journal.
const NAME: &str = "response";

/// Returns the id of a run's response.
pub fn response_id(run: &RunId) -> String {
    format!("{PREFIX}{run}")
}

/// Data that a request notes in the journal of its run, for clients that retrieve the response later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// Whether the response can be retrieved later.
    pub store: bool,
    /// Whether the run goes on without a waiting client.
    pub background: bool,
    /// The response that it continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// Instructions next to the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Metadata of the client.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Json>,
    /// The user, as the client names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The items of the question. The bytes of files are stored with the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<Json>,
}

impl Default for Note {
    /// The note of a run that was not started by a request for a response.
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
    /// Reads the note from the input of a run. For a run without a note, it contains the question.
    pub fn of(input: &TurnInput) -> Self {
        let noted = input
            .notes
            .as_ref()
            .and_then(|notes| notes.get(NAME))
            .and_then(|noted| Self::deserialize(noted).ok());
        // An unreadable note counts as missing: the journal may be from another version.
        let mut note = noted.unwrap_or_default();
        if note.input.is_empty() && !input.query.is_empty() {
            note.input.push(json!({"type": "message", "role": "user",
                "content": [{"type": "input_text", "text": input.query}]}));
        }
        note
    }

    /// Returns the note in the form for a turn.
    pub fn notes(&self) -> Option<Box<Map<String, Json>>> {
        Some(Box::new(Map::from_iter([(NAME.to_owned(), json!(self))])))
    }

    /// Adds the data of the request to a response.
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
