//! The description of the API as an OpenAPI document and as a page.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{Html, IntoResponse, Response};

use crate::openapi::{document, page};
use crate::router::documented;

static DOCUMENT: LazyLock<String> = LazyLock::new(|| document(&documented()).to_string());
static PAGE: LazyLock<String> = LazyLock::new(|| page::html(&documented()));

/// `GET /api/openapi.json`.
pub(crate) async fn json() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str()).into_response()
}

/// `GET /api/docs`.
pub(crate) async fn html() -> Html<&'static str> {
    Html(PAGE.as_str())
}
