//! Detects inputs that nothing in a canvas reads.

use serde_json::Map;
use weft_core::Json;
use weft_dsl::Plan;

use crate::screen::Notes;

/// Returns whether a new run of this plan could use any of these inputs: a component reads it, or a later form has
/// this address.
pub(crate) fn can_use(plan: &Plan, inputs: &Map<String, Json>) -> bool {
    inputs.keys().any(|key| plan.reads_input(key))
}

/// Prints which inputs nothing in the canvas reads: a misspelled name would be an input that is not given.
pub(crate) fn tell<'a>(unread: impl IntoIterator<Item = &'a String>) {
    for key in unread {
        Notes::line(format!("note: the canvas reads no input `{key}`"));
    }
}
