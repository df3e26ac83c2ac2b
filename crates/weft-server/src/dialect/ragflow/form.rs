//! Open forms as events.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use weft_core::journal::{FramePath, WaitingForm};
use weft_core::{ComponentId, Json, TaskId};

/// The fields of all forms together; if two have the same key, the first takes precedence.
pub(super) struct FormFields<'a>(pub(super) &'a [WaitingForm]);

impl Serialize for FormFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (at, waiting) in self.0.iter().enumerate() {
            let earlier = &self.0[..at];
            for (key, field) in &waiting.form.fields {
                if !earlier.iter().any(|other| other.form.fields.contains_key(key)) {
                    map.serialize_entry(key, field)?;
                }
            }
        }
        map.end()
    }
}

/// One form.
#[derive(Serialize)]
pub(in crate::dialect) struct FormFrame<'a> {
    component_id: &'a ComponentId,
    #[serde(skip_serializing_if = "is_top")]
    frame: &'a FramePath,
    /// Key for its answers among the inputs; at the top level of a canvas that is the component's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    inputs: &'a serde_json::Map<String, Json>,
    tips: &'a str,
    /// Its tasks in the inbox.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tasks: &'a [TaskId],
    #[serde(skip_serializing_if = "Option::is_none")]
    due_ms: Option<i64>,
}

fn is_top(frame: &&FramePath) -> bool {
    frame.is_empty()
}

impl<'a> From<&'a WaitingForm> for FormFrame<'a> {
    fn from(waiting: &'a WaitingForm) -> Self {
        let WaitingForm { node, frame, form, tasks, due_ms } = waiting;
        let address = (!frame.is_empty()).then(|| waiting.address());
        let tips = form.tips.as_deref().unwrap_or("");
        Self { component_id: node, frame, address, inputs: &form.fields, tips, tasks, due_ms: *due_ms }
    }
}
