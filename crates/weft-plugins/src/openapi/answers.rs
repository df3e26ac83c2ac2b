//! The media types that a request for an operation accepts.

use weft_core::Json;

use super::media;
use super::schema::OperationSchemas;

/// Maximum number of media types that a request accepts.
const ACCEPTED_MAX: usize = 8;

/// Returns the `Accept` header of an operation whose answers only have JSON media types other than the standard one: a
/// service may refuse a request that does not accept them. Without the header, everything is accepted.
pub(super) fn accepted(document: &Json, operation: &Json) -> Option<String> {
    let responses = operation.get("responses")?.as_object()?;
    let shapes = OperationSchemas::of(document);
    let mut accepted: Vec<String> = Vec::new();
    let is_success = |status: &str| status.starts_with('2') || status == "default";
    for (_, response) in responses.iter().filter(|(status, _)| is_success(status)) {
        let Ok(response) = shapes.resolved(response) else { continue };
        let content = response.get("content").and_then(Json::as_object);
        for media_type in content.into_iter().flat_map(|content| content.keys()) {
            let is_usual = media_type.eq_ignore_ascii_case(media::JSON) || media_type.contains('*');
            if !media::is_json(media_type) || is_usual {
                return None;
            }
            // It becomes a header, and comes from a document.
            let is_plain = media_type.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
            if is_plain && !accepted.contains(media_type) && accepted.len() < ACCEPTED_MAX {
                accepted.push(media_type.clone());
            }
        }
    }
    (!accepted.is_empty()).then(|| accepted.join(", "))
}
