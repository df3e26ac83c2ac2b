//! Agents: stored canvases.

use serde::Serialize;
use serde_json::{Value as Json, json};
use weft_core::CanvasId;
use weft_core::seam::canvas_store::{CanvasHead, PIPELINE_TYPE, StoredCanvas};
use weft_core::seam::version_store::checked_tags;
use weft_dsl::Problem;

use super::time::http_date;
use super::version::tags;
use crate::body::{ABOUT_CHARS_MAX, Body, excerpt};
use crate::error::ApiError;

/// Category of canvases for conversations.
pub const AGENT: &str = "agent_canvas";
/// Category of canvases that process documents.
pub const PIPELINE: &str = weft_dsl::PIPELINE;

/// Message for a title that is missing or blank.
const NO_TITLE: &str = "No title in request.";
/// Maximum length of a title, in characters.
const TITLE_MAX: usize = 255;

/// An agent in a list.
#[derive(Debug, Serialize)]
pub struct AgentItem {
    id: CanvasId,
    title: String,
    avatar: String,
    description: String,
    permission: String,
    canvas_type: String,
    canvas_category: &'static str,
    tenant_id: String,
    user_id: String,
    nickname: String,
    tenant_avatar: (),
    tags: String,
    release: bool,
    release_time: Option<i64>,
    create_time: i64,
    create_date: String,
    update_time: i64,
    update_date: String,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dsl: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_publish_time: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problems: Option<Json>,
}

impl AgentItem {
    /// Without its canvas.
    pub fn short(canvas: StoredCanvas) -> Self {
        let StoredCanvas { key, head, created_ms, updated_ms, tags, published, .. } = canvas;
        let published_ms = published.map(|(_, at_ms)| at_ms);
        let CanvasHead { title, description, avatar, permission, canvas_type, source: _ } = head;
        let owner = key.tenant.to_string();
        let is_pipeline = canvas_type == PIPELINE_TYPE;
        Self {
            id: key.id,
            title,
            avatar,
            description,
            permission,
            canvas_type,
            canvas_category: if is_pipeline { PIPELINE } else { AGENT },
            tenant_id: owner.clone(),
            user_id: owner.clone(),
            nickname: owner,
            tenant_avatar: (),
            tags: tags.join(","),
            release: published_ms.is_some(),
            release_time: published_ms,
            create_time: created_ms,
            create_date: http_date(created_ms),
            update_time: updated_ms,
            update_date: http_date(updated_ms),
            kind: "agent",
            dsl: None,
            last_publish_time: published_ms,
            problems: None,
        }
    }

    /// Returns an agent with its canvas.
    pub fn whole(canvas: StoredCanvas) -> Self {
        let dsl = drawing(&canvas);
        Self { dsl: Some(dsl), ..Self::short(canvas) }
    }

    /// Adds the errors found in the canvas.
    #[must_use]
    pub fn with_problems(mut self, problems: &[Problem]) -> Self {
        self.problems = Some(json!(problems));
        self
    }
}

/// The canvas as a JSON value.
pub fn drawing(canvas: &StoredCanvas) -> Json {
    serde_json::from_str(&canvas.dsl).unwrap_or(Json::Null)
}

/// Whether to publish the version that is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Release {
    /// Publish it.
    Yes,
    /// Leave the published version as it is.
    #[default]
    No,
}

/// The fields of a create or update request.
#[derive(Clone, Debug, Default)]
pub struct AgentFields {
    title: Option<String>,
    description: Option<String>,
    avatar: Option<String>,
    permission: Option<String>,
    canvas_type: Option<String>,
    /// All of its tags.
    pub tags: Option<Vec<String>>,
    /// Whether to publish the version that is stored.
    pub release: Release,
    /// The canvas as JSON text.
    pub dsl: Option<String>,
}

impl AgentFields {
    /// Reads the fields.
    ///
    /// # Errors
    /// 101 naming the field that is not valid.
    pub fn read(body: &Body) -> Result<Self, ApiError> {
        let category = body.text("canvas_category")?;
        if let Some(other) = category.as_ref().filter(|word| ![AGENT, PIPELINE].contains(&word.as_str())) {
            let other = excerpt(other);
            let message = format!("`canvas_category` is `{other}`; it must be `{AGENT}` or `{PIPELINE}`");
            return Err(ApiError::argument(message));
        }
        let title = body.text("title")?.map(|title| title.trim().to_owned());
        if title.as_ref().is_some_and(String::is_empty) {
            return Err(ApiError::argument(NO_TITLE));
        }
        if title.as_ref().is_some_and(|title| title.chars().count() > TITLE_MAX) {
            return Err(ApiError::argument(format!("the title has more than {TITLE_MAX} characters")));
        }
        let permission = body.text("permission")?;
        if let Some(other) = permission.as_ref().filter(|word| !matches!(word.as_str(), "me" | "team")) {
            let other = excerpt(other);
            return Err(ApiError::argument(format!("`permission` is `{other}`; it must be `me` or `team`")));
        }
        Ok(Self {
            title,
            description: body.text_within("description", ABOUT_CHARS_MAX)?,
            avatar: body.text_within("avatar", ABOUT_CHARS_MAX)?,
            permission,
            canvas_type: body.text("canvas_type")?,
            tags: tags(body)?.map(checked_tags).transpose()?,
            release: match body.flag("release")? {
                Some(true) => Release::Yes,
                Some(false) | None => Release::No,
            },
            dsl: dsl(body)?,
        })
    }

    /// Returns the head of a new canvas.
    ///
    /// # Errors
    /// 101 without a title.
    pub fn new_head(self) -> Result<CanvasHead, ApiError> {
        if self.title.is_none() {
            return Err(ApiError::argument(NO_TITLE));
        }
        let permission = "me".to_owned();
        Ok(self.changed(CanvasHead { permission, ..CanvasHead::default() }))
    }

    /// Applies the fields to a head; absent fields stay as they are.
    pub fn changed(self, head: CanvasHead) -> CanvasHead {
        CanvasHead {
            title: self.title.unwrap_or(head.title),
            description: self.description.unwrap_or(head.description),
            avatar: self.avatar.unwrap_or(head.avatar),
            permission: self.permission.unwrap_or(head.permission),
            canvas_type: self.canvas_type.unwrap_or(head.canvas_type),
            // The canvas no longer matches the file that it came from.
            source: String::new(),
        }
    }
}

/// Reads the canvas: an object, or an object written as a string.
fn dsl(body: &Body) -> Result<Option<String>, ApiError> {
    match body.get("dsl") {
        None => Ok(None),
        Some(Json::Object(_)) => Ok(body.get("dsl").map(ToString::to_string)),
        Some(Json::String(text)) => match serde_json::from_str(text) {
            // Kept verbatim: a version is named by the hash of its text.
            Ok(Json::Object(_)) => Ok(Some(text.clone())),
            Ok(_) => Err(ApiError::argument("DSL must be a JSON object.")),
            Err(_) => Err(ApiError::argument("Invalid DSL JSON string.")),
        },
        Some(_) => Err(ApiError::argument("DSL must be a JSON object.")),
    }
}
