//! The envelope `{code, message, data}` around every answer.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt as _, stream};
use serde::Serialize;
use serde_json::{Value as Json, json};
use weft_core::Error;

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

/// A page of a list, with the total number of entries.
#[derive(Debug)]
pub struct Listed {
    /// The page.
    pub data: Vec<Json>,
    /// Total number of entries.
    pub total: u64,
}

impl IntoResponse for Listed {
    fn into_response(self) -> Response {
        let Self { data, total } = self;
        let body = json!({"code": 0, "message": "success", "data": data, "total_datasets": total});
        respond(StatusCode::OK, &body)
    }
}

/// A part of a list, or all of it, with the total number of entries as `total`.
#[derive(Debug)]
pub struct Part<T> {
    /// The part.
    pub data: Vec<T>,
    /// Total number of entries.
    pub total: u64,
}

#[derive(Serialize)]
struct PartEnvelope<'a, T> {
    code: u16,
    message: &'static str,
    data: &'a [T],
    total: u64,
}

impl<T: Serialize> IntoResponse for Part<T> {
    fn into_response(self) -> Response {
        let Self { data, total } = &self;
        let part = PartEnvelope { code: 0, message: "success", data, total: *total };
        respond(StatusCode::OK, &part)
    }
}

/// A list whose entries are created one by one while the client reads, so that only one of them is in memory. `open`
/// and `close` are the JSON text around them.
pub fn streamed<S>(open: &'static str, entries: S, close: String) -> Response
where
    S: Stream<Item = weft_core::Result<Json>> + Send + 'static,
{
    // A failed entry cuts the answer off: the status has already been sent, and half a list is not valid JSON.
    let entries = entries.enumerate().map(|(place, entry)| {
        let mut bytes = if place == 0 { Vec::new() } else { b",".to_vec() };
        serde_json::to_writer(&mut bytes, &entry?)
            .map_err(std::io::Error::other)
            .map(|()| Bytes::from(bytes))
            .map_err(|cause| Error::internal("cannot write an entry of the list").because(cause))
    });
    let open = stream::once(async move { Ok(Bytes::from_static(open.as_bytes())) });
    let close = stream::once(async move { Ok(Bytes::from(close)) });
    let mut response = Response::new(Body::from_stream(open.chain(entries).chain(close)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Builds a response with any JSON and a status.
pub fn respond<T: Serialize>(status: StatusCode, body: &T) -> Response {
    let bytes = serde_json::to_vec(body).unwrap_or_else(|_| b"null".to_vec());
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
