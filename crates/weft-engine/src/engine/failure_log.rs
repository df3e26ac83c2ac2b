//! What the log says of runs that fail.

use weft_core::counts::Label as _;
use weft_core::masking::Masks;
use weft_core::value::shortened;
use weft_core::{CanvasId, Error, RunKey};

/// Maximum number of characters of an error in the log; the journal has all of it.
const CHARS_MAX: usize = 1_000;

/// Logs the failure of a run. The error names the node.
pub(super) fn log_failure(run: &RunKey, canvas: &CanvasId, error: &Error, masks: &Masks) {
    tracing::warn!(
        run.id = %run.id,
        canvas.id = %canvas,
        error.kind = error.kind.word(),
        error = text(error, masks),
        "a run has failed"
    );
}

/// Returns an error as the journal has it, without secrets.
fn text(error: &Error, masks: &Masks) -> String {
    shortened(&masks.text(&error.full()), CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_logged_error_has_no_secrets_and_a_maximum_length() {
        let masks = Masks::default();
        masks.add("KEY", &json!("rosebud-0815-4711")).unwrap();
        let told = text(&Error::invalid("the key rosebud-0815-4711 is wrong").help("check it"), &masks);
        assert!(!told.contains("rosebud") && told.contains("is wrong (check it)"), "{told}");
        assert_eq!(text(&Error::invalid("é".repeat(5_000)), &masks).chars().count(), CHARS_MAX + 1);
    }
}
