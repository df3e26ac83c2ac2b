//! Versions of agents.

use serde::Serialize;
use serde_json::{Value as Json, json};
use weft_core::CanvasId;
use weft_core::seam::canvas_store::StoredCanvas;
use weft_core::seam::version_store::{CanvasVersion, VersionChange};
use weft_dsl::export::Export;

use super::time::{date_and_time, http_date};
use crate::body::Body;
use crate::error::ApiError;

/// Maximum length of a version's title, in characters.
const TITLE_MAX: usize = 255;
/// Maximum length of a version's description, in characters.
const NOTE_MAX: usize = 10_000;

/// A version in a list.
#[derive(Debug, Serialize)]
pub struct VersionRow {
    id: String,
    user_canvas_id: CanvasId,
    title: String,
    description: String,
    release: bool,
    release_time: Option<i64>,
    labels: Vec<String>,
    create_time: i64,
    create_date: String,
    update_time: i64,
    update_date: String,
    dsl: Json,
}

impl VersionRow {
    /// Builds the representation of a version of an agent with this title.
    pub fn new(agent: &CanvasId, title: &str, version: CanvasVersion, dsl: Json) -> Self {
        let CanvasVersion { version, title: own, note, created_ms, updated_ms, published_ms, labels } =
            version;
        Self {
            id: version.to_string(),
            user_canvas_id: agent.clone(),
            title: if own.is_empty() { named(title, created_ms) } else { own },
            description: note,
            release: published_ms.is_some(),
            release_time: published_ms,
            labels,
            create_time: created_ms,
            create_date: http_date(created_ms),
            update_time: updated_ms,
            update_date: http_date(updated_ms),
            dsl,
        }
    }
}

/// Returns the default name of a version: `TITLE_2026_01_31_08_15_00`.
fn named(title: &str, created_ms: i64) -> String {
    let time = date_and_time(created_ms).replace([' ', '-', ':'], "_");
    format!("{title}_{time}")
}

/// Reads the title and description of a version.
///
/// # Errors
/// 101 for a value that is not a string or is too long.
pub fn change(body: &Body) -> Result<VersionChange, ApiError> {
    Ok(VersionChange {
        title: body.text_within("title", TITLE_MAX)?,
        note: body.text_within("description", NOTE_MAX)?,
    })
}

/// Reads tags: a list of strings, or one string with commas between them; `None` if the field is absent.
///
/// # Errors
/// 101 for anything else.
pub fn tags(body: &Body) -> Result<Option<Vec<String>>, ApiError> {
    match body.get("tags") {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.split(',').map(str::to_owned).collect())),
        Some(_) => body.texts("tags"),
    }
}

/// The exported form of a canvas.
pub fn exported(canvas: &StoredCanvas, export: Export) -> Json {
    let Export { dsl, stripped, secrets } = export;
    json!({
        "title": canvas.head.title,
        "description": canvas.head.description,
        "canvas_type": canvas.head.canvas_type,
        "tags": canvas.tags,
        "dsl": dsl,
        "secrets": secrets,
        "stripped": stripped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_without_a_name_is_named_by_its_time() {
        assert_eq!(named("Shop", 1_728_636_403_000), "Shop_2024_10_11_08_46_43");
    }
}
