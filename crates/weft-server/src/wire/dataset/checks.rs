//! Validation of a dataset's picture, model and pipeline.

use serde_json::Value as Json;

use crate::body::Body;
use crate::wire::python;
use crate::wire::rules::Problems;

pub(super) fn check_avatar(problems: &mut Problems, body: &Body) {
    const ALLOWED: [&str; 2] = ["image/jpeg", "image/png"];
    let Some(Json::String(avatar)) = body.get("avatar") else { return };
    if avatar.is_empty() {
        return;
    }
    let value = Json::String(avatar.clone());
    let Some((prefix, _)) = avatar.split_once(',') else {
        let message = "missing MIME prefix. Expected format: data:<mime>;base64,<data>";
        return problems.add("avatar", message, &value);
    };
    let Some(kind) = prefix.strip_prefix("data:") else {
        return problems.add("avatar", "invalid MIME prefix format. Must start with 'data:'", &value);
    };
    let kind = kind.split(';').next().unwrap_or_default();
    if !ALLOWED.contains(&kind) {
        let message = format!("Unsupported MIME type. Allowed: {}", python::list(&ALLOWED));
        problems.add("avatar", &message, &value);
    }
}

/// Returns what is wrong with the name of an embedding model.
pub(crate) fn model_problem(model: &str) -> Option<&'static str> {
    match model.trim().rsplit_once('@') {
        None => Some("embedding model identifier must follow <model_name>@<provider> format"),
        Some((name, provider)) if name.is_empty() || provider.is_empty() => {
            Some("both model_name and provider must be non-empty strings")
        }
        Some((name, provider)) if name.trim().is_empty() || provider.trim().is_empty() => {
            Some("Model name and provider cannot be whitespace-only strings")
        }
        Some(_) => None,
    }
}

pub(super) fn check_model(problems: &mut Problems, body: &Body) {
    let Some(Json::String(model)) = body.get("embedding_model") else { return };
    if let Some(message) = model_problem(model) {
        problems.add("embedding_model", message, &Json::String(model.clone()));
    }
}

/// Returns what is wrong with the id of a pipeline.
pub(crate) fn pipeline_problem(id: &Json) -> Option<&'static str> {
    match id {
        Json::String(text) if text.chars().count() != 32 => Some("pipeline_id must be 32 hex characters"),
        Json::String(text) if !text.chars().all(|letter| letter.is_ascii_hexdigit()) => {
            Some("pipeline_id must be hexadecimal")
        }
        Json::String(_) => None,
        _ => Some("Input should be a valid string"),
    }
}

pub(super) fn check_pipeline(problems: &mut Problems, body: &Body) {
    if let Some(id) = body.get("pipeline_id")
        && let Some(message) = pipeline_problem(id)
    {
        problems.add("pipeline_id", message, id);
    }
    // Combinations are only checked if each part is valid: their errors name no part.
    if !problems.is_empty() {
        return;
    }
    let given = |key: &&str| body.get(key).is_some();
    let (there, absent): (Vec<&str>, Vec<&str>) = ["parse_type", "pipeline_id"].into_iter().partition(given);
    let message = match (body.get("chunk_method").is_some(), there.is_empty(), absent.is_empty()) {
        (true, false, _) => {
            format!("parser_id provided → disallowed fields present: {}", there.join(", "))
        }
        (false, false, false) => {
            format!("parser_id omitted → required fields missing: {}", absent.join(", "))
        }
        _ => return,
    };
    problems.add("", &message, &Json::Object(body.0.clone()));
}
