//! What a run gives, as it may be shown.

use std::borrow::Cow;
use std::sync::Arc;

use weft_core::masking::Masks;
use weft_core::{Error, Outputs, Value};

/// Outputs as they may be shown.
pub(crate) fn shown(masks: &Masks, outputs: Arc<Outputs>) -> Arc<Outputs> {
    if masks.is_empty() {
        return outputs;
    }
    let hidden = |value: &Value| masks.json(&value.snapshot()).map_or_else(|| value.clone(), Value::from);
    Arc::new(outputs.0.iter().map(|(name, value)| (Arc::clone(name), hidden(value))).collect())
}

/// An error as it may be shown: with its causes in words, since they may hold anything.
pub(crate) fn masked(masks: &Masks, error: Error) -> Error {
    match masks.text(&error.full()) {
        // With its causes and its help, as nothing had to be hidden.
        Cow::Borrowed(_) => error,
        Cow::Owned(text) => Error::new(error.kind, text),
    }
}
