//! Masks secrets in the results of a run.

use std::borrow::Cow;
use std::sync::Arc;

use weft_core::masking::Masks;
use weft_core::{Error, Outputs, Value};

/// Returns outputs with secrets masked.
pub(crate) fn shown(masks: &Masks, outputs: Arc<Outputs>) -> Arc<Outputs> {
    if masks.is_empty() {
        return outputs;
    }
    let hidden = |value: &Value| masks.json(&value.snapshot()).map_or_else(|| value.clone(), Value::from);
    Arc::new(outputs.0.iter().map(|(name, value)| (Arc::clone(name), hidden(value))).collect())
}

/// Returns an error with secrets masked. Its causes are flattened into the text, because they may hold anything.
pub(crate) fn masked(masks: &Masks, error: Error) -> Error {
    match masks.text(&error.full()) {
        // Returned with its causes and its help, because nothing had to be masked.
        Cow::Borrowed(_) => error,
        Cow::Owned(text) => Error::new(error.kind, text),
    }
}
