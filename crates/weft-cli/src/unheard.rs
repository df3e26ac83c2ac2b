//! Inputs that nothing in a canvas reads.

use serde_json::Map;
use weft_core::Json;
use weft_dsl::Plan;

use crate::screen::Notes;

/// Whether a new run of this plan could use any of these inputs.
pub(crate) fn can_use(plan: &Plan, inputs: &Map<String, Json>) -> bool {
    inputs.keys().any(|key| plan.reads_input(key))
}

/// Says which inputs nothing in the canvas reads: a slip in a name would be an input that is not given.
pub(crate) fn tell<'a>(unread: impl IntoIterator<Item = &'a String>) {
    for key in unread {
        Notes::line(format!("note: the canvas reads no input `{key}`"));
    }
}
