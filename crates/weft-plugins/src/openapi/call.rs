//! One call of an operation: its request, and what the answer means.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Map;
use url::Url;
use weft_core::seam::http::{HttpBody, HttpRequest, HttpResponse};
use weft_core::tool::{Invocation, ToolStream, once};
use weft_core::{Error, Json, Result, ToolBody, ToolOutput};

use crate::settings::PluginSettings;

/// Bytes of one answer, at most.
const ANSWER_MAX: usize = 4 * 1024 * 1024;

/// Where an argument goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentPlace {
    Path,
    Query,
    Header,
}

/// What the body is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyKind {
    None,
    Json,
    Form,
}

/// An operation.
#[derive(Clone, Debug)]
pub(super) struct OperationCall {
    pub(super) base: Url,
    /// With `{name}` for arguments.
    pub(super) path: String,
    pub(super) method: String,
    pub(super) places: Vec<(String, ArgumentPlace)>,
    pub(super) body: BodyKind,
    pub(super) settings: Arc<PluginSettings>,
}

impl OperationCall {
    /// The request for these arguments. They can change nothing of it but what the document leaves open.
    fn request(&self, mut arguments: Map<String, Json>) -> Result<HttpRequest> {
        let mut path = self.path.clone();
        let mut headers: Vec<(String, String)> = Vec::new();
        let mut url = self.base.clone();
        let mut query: Vec<(&str, String)> = Vec::new();
        // What is left of the arguments in the end is the body's, and nothing that the document does not name
        // is sent.
        for (name, place) in &self.places {
            let value = match arguments.shift_remove(name) {
                None | Some(Json::Null) => continue,
                Some(value) => value,
            };
            match place {
                ArgumentPlace::Path => {
                    // Only letters and digits and `-._~` stay as they are, so that a value can bring in no
                    // further `{name}`.
                    path = path.replace(&format!("{{{name}}}"), &segment(name, &plain(&value))?);
                }
                ArgumentPlace::Header => headers.push((name.clone(), header(name, plain(&value))?)),
                ArgumentPlace::Query => match &value {
                    Json::Array(items) => query.extend(items.iter().map(|item| (name.as_str(), plain(item)))),
                    value => query.push((name, plain(value))),
                },
            }
        }
        // A placeholder that is left would be sent as it is, and some services answer even that.
        if let Some(open) = path.find('{') {
            let missing = path.get(open..).unwrap_or_default();
            return Err(Error::invalid(format!("the argument `{missing}` of its path is missing")));
        }
        let whole = format!("{}/{}", url.path().trim_end_matches('/'), path.trim_start_matches('/'));
        url.set_path(&whole);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let body = arguments.shift_remove("body").filter(|body| !body.is_null());
        let body = match (self.body, body) {
            (BodyKind::None, _) | (_, None) => HttpBody::Empty,
            (BodyKind::Json, Some(body)) => HttpBody::Json(body),
            (BodyKind::Form, Some(Json::Object(fields))) => {
                HttpBody::Form(fields.into_iter().map(|(name, value)| (name, plain(&value))).collect())
            }
            (BodyKind::Form, Some(_)) => {
                return Err(Error::invalid("`body` has to be an object of form fields"));
            }
        };
        // Those of the operator win.
        headers.retain(|(name, _)| !self.settings.headers.keys().any(|own| own.eq_ignore_ascii_case(name)));
        let own = self.settings.headers.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
        headers.extend(own);
        Ok(HttpRequest {
            method: self.method.clone(),
            url: url.to_string(),
            headers,
            body,
            time_limit: Duration::from_secs(self.settings.seconds),
            body_max: ANSWER_MAX,
            proxy: None,
        })
    }
}

/// A value as one text.
fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value as a part of a path: it can neither end it nor lead up in it.
fn segment(name: &str, value: &str) -> Result<String> {
    // A part of nothing but dots leads up in the path, also when it is written in percent.
    if value.is_empty() || value.bytes().all(|byte| byte == b'.') {
        return Err(Error::invalid(format!(
            "the argument `{name}` cannot be `{value}`: it is a part of the path"
        )));
    }
    let mut segment = String::with_capacity(value.len());
    for byte in value.bytes() {
        // RFC 3986, section 2.3.
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            segment.push(char::from(byte));
        } else {
            let _ = write!(segment, "%{byte:02X}");
        }
    }
    Ok(segment)
}

fn header(name: &str, value: String) -> Result<String> {
    // A line break would begin a header that nobody has written.
    if value.chars().any(char::is_control) {
        Err(Error::invalid(format!("the argument `{name}` is a header and cannot have control characters")))
    } else {
        Ok(value)
    }
}

/// What an answer means: one that refuses is a failure that the model reads.
fn output(response: &HttpResponse) -> ToolOutput {
    let value = serde_json::from_str::<Json>(&response.body).ok().filter(|value| !value.is_string());
    if response.status < 400 {
        return match (value, response.body.is_empty()) {
            (Some(value), _) => ToolOutput::value(value),
            (None, true) => ToolOutput::text(format!("done ({})", response.status)),
            (None, false) => ToolOutput::text(&*response.body),
        };
    }
    let text = format!("the service answered {}: {}", response.status, response.body);
    ToolOutput { failed: true, ..ToolOutput::text(text) }
}

impl ToolBody for OperationCall {
    fn call(&self, invocation: Invocation) -> ToolStream {
        let call = self.clone();
        once(async move {
            let request = call.request(invocation.arguments)?;
            let run = &invocation.agent.run;
            let response = run.seams.http.send(&run.tenant, request).await?;
            Ok(output(&response))
        })
    }
}
