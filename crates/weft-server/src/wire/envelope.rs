//! `{code, message, data}` around every answer.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value as Json, json};

/// A success: code 0.
#[derive(Debug)]
pub struct Success<T>(pub T);

#[derive(Serialize)]
struct Envelope<'a, T> {
    code: u16,
    message: &'static str,
    data: &'a T,
}

impl<T: Serialize> IntoResponse for Success<T> {
    fn into_response(self) -> Response {
        respond(StatusCode::OK, &Envelope { code: 0, message: "success", data: &self.0 })
    }
}

/// A page of a list, and how many there are in all.
#[derive(Debug)]
pub struct Listed {
    /// The page.
    pub data: Vec<Json>,
    /// How many there are in all.
    pub total: u64,
}

impl IntoResponse for Listed {
    fn into_response(self) -> Response {
        let Self { data, total } = self;
        let body = json!({"code": 0, "message": "success", "data": data, "total_datasets": total});
        respond(StatusCode::OK, &body)
    }
}

/// Any JSON with a status.
pub fn respond<T: Serialize>(status: StatusCode, body: &T) -> Response {
    let bytes = serde_json::to_vec(body).unwrap_or_else(|_| b"null".to_vec());
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
