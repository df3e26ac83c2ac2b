//! What a document says of an operation.

use weft_core::Json;

/// An operation as a document describes it.
pub(super) struct DescribedOperation<'a> {
    pub(super) path: &'a str,
    /// In lower case, as in the document.
    pub(super) method: &'a str,
    /// What all operations of the path share.
    pub(super) item: &'a Json,
    pub(super) operation: &'a Json,
}

/// The text at a place of a document; empty if there is none.
pub(super) fn text(json: &Json, pointer: &str) -> String {
    json.pointer(pointer).and_then(Json::as_str).unwrap_or_default().to_owned()
}
