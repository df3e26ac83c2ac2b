//! One call of an operation: its request, and the meaning of its answer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Map;
use url::Url;
use weft_core::seam::http::{HttpBody, HttpRequest, HttpResponse};
use weft_core::tool::{Invocation, ToolStream, once};
use weft_core::value::listed;
use weft_core::{Error, Json, Result, ToolBody, ToolOutput};

use super::style::{ArgumentPlace, Parameter, plain};
use crate::settings::PluginSettings;

/// Maximum number of bytes in an answer.
const ANSWER_MAX: usize = 4 * 1024 * 1024;

/// The argument that holds a request's body.
pub(super) const BODY: &str = "body";

/// The format of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BodyKind {
    None,
    /// With its media type, if that is not the standard one.
    Json(Option<String>),
    Form,
}

/// An operation to call.
#[derive(Clone, Debug)]
pub(super) struct OperationCall {
    pub(super) base: Url,
    /// With `{name}` for arguments.
    pub(super) path: String,
    pub(super) method: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: BodyKind,
    /// The accepted media types; `None` for all.
    pub(super) accept: Option<String>,
    pub(super) settings: Arc<PluginSettings>,
}

impl OperationCall {
    /// Returns the request for these arguments. They can only affect what the document leaves open.
    fn request(&self, mut arguments: Map<String, Json>) -> Result<HttpRequest> {
        let mut path = self.path.clone();
        let mut headers: Vec<(String, String)> = Vec::new();
        let mut url = self.base.clone();
        let mut query: Vec<String> = Vec::new();
        for parameter in &self.parameters {
            let value = match arguments.shift_remove(&parameter.argument) {
                // Some models write null for an argument that they leave out.
                None | Some(Json::Null) => continue,
                Some(value) => value,
            };
            match parameter.place {
                ArgumentPlace::Path => {
                    path = path.replace(&format!("{{{}}}", parameter.name), &parameter.in_path(&value)?);
                }
                ArgumentPlace::Header => headers.push((parameter.name.clone(), parameter.in_header(&value)?)),
                ArgumentPlace::Query => query.extend(parameter.in_query(&value)),
            }
        }
        let body = self.body(arguments.shift_remove(BODY).filter(|body| !body.is_null()))?;
        self.refuse_others(&arguments)?;
        // A remaining placeholder would be sent literally, and some services even answer that.
        if let Some(open) = path.find('{') {
            let missing = path.get(open..).unwrap_or_default();
            return Err(Error::invalid(format!("the argument `{missing}` of its path is missing")));
        }
        let whole = format!("{}/{}", url.path().trim_end_matches('/'), path.trim_start_matches('/'));
        url.set_path(&whole);
        if !query.is_empty() {
            // Already encoded: the encoding of form pairs represents a space differently.
            url.set_query(Some(&query.join("&")));
        }
        let content_type = match (&self.body, &body) {
            (BodyKind::Json(media_type), HttpBody::Json(_)) => media_type.as_ref(),
            _ => None,
        };
        let of_document = [("Content-Type", content_type), ("Accept", self.accept.as_ref())];
        let of_document =
            of_document.into_iter().filter_map(|(name, said)| Some((name.to_owned(), said?.clone())));
        headers.extend(of_document);
        // The operator's headers take precedence.
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

    fn body(&self, said: Option<Json>) -> Result<HttpBody> {
        Ok(match (&self.body, said) {
            (_, None) => HttpBody::Empty,
            (BodyKind::None, Some(_)) => return Err(self.unknown(BODY)),
            (BodyKind::Json(_), Some(body)) => HttpBody::Json(body),
            (BodyKind::Form, Some(Json::Object(fields))) => {
                HttpBody::Form(fields.iter().flat_map(|(name, value)| form_fields(name, value)).collect())
            }
            (BodyKind::Form, Some(_)) => {
                return Err(Error::invalid("`body` has to be an object of form fields"));
            }
        })
    }

    /// Refuses remaining arguments: otherwise the service would silently be asked for something other than what the
    /// model wrote.
    fn refuse_others(&self, left: &Map<String, Json>) -> Result<()> {
        match left.iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((name, _)) => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> Error {
        let body = Some(BODY).filter(|_| self.body != BodyKind::None);
        let known = self.parameters.iter().map(|parameter| parameter.argument.as_str()).chain(body);
        Error::invalid(format!("there is no argument `{name}`: {}", in_words(known)))
    }
}

/// Returns a member of a body as form fields: a list of plain values as one field each, everything else as one field.
fn form_fields(name: &str, value: &Json) -> Vec<(String, String)> {
    let is_plain = |item: &Json| !item.is_array() && !item.is_object();
    let field = |value: &Json| (name.to_owned(), plain(value));
    match value {
        Json::Array(items) if items.iter().all(is_plain) => items.iter().map(field).collect(),
        value => vec![field(value)],
    }
}

/// Converts an answer; a refusal is a failure that the model reads.
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

/// Formats names as a list for a model.
fn in_words<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names = listed(names);
    if names.is_empty() { "it takes none".to_owned() } else { format!("it takes {names}") }
}
