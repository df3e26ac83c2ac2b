//! What an operation answers with, as far as a request says what it takes.

use weft_core::Json;

use super::media;
use super::schema::OperationSchemas;

/// Media types that one request asks for, at most.
const ACCEPTED_MAX: usize = 8;

/// The header `Accept` of an operation whose answers are JSON under other names alone: a service may refuse a request that does
/// not ask for them. Without it everything is taken.
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
            // As a header: what is written there comes out of a document.
            let is_plain = media_type.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
            if is_plain && !accepted.contains(media_type) && accepted.len() < ACCEPTED_MAX {
                accepted.push(media_type.clone());
            }
        }
    }
    (!accepted.is_empty()).then(|| accepted.join(", "))
}
