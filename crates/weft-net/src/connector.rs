//! Real connections, to exactly the addresses that were checked.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use weft_core::seam::http::{HttpBody, HttpRequest, HttpResponse};
use weft_core::{Error, ErrorKind, Result};

use crate::operator::{CONNECT_LIMIT, builder};
use crate::outbound::{Connector, OutboundRoute, Pinned};
use crate::streaming::{self, StreamRequest, StreamResponse};

/// Clients kept so that their connections can be used again, one for each route.
const CLIENTS_MAX: usize = 32;

/// Connects over TCP and TLS.
#[derive(Debug, Default)]
pub struct DirectConnector {
    clients: Mutex<VecDeque<(Pin, reqwest::Client)>>,
}

type Pin = (Pinned, Option<(String, Pinned)>);

impl DirectConnector {
    /// A client that knows no other addresses than the route's.
    fn client(&self, route: &OutboundRoute) -> Result<reqwest::Client> {
        let proxy = route.proxy.as_ref().map(|(url, pinned)| (url.to_string(), pinned.clone()));
        let pin = (route.target.clone(), proxy);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == pin) {
            return Ok(client.clone());
        }
        let client = pinned_client(route)?;
        clients.push_back((pin, client.clone()));
        if clients.len() > CLIENTS_MAX {
            clients.pop_front();
        }
        Ok(client)
    }
}

fn pinned_client(route: &OutboundRoute) -> Result<reqwest::Client> {
    let wrong =
        |cause: reqwest::Error| Error::invalid("the proxy cannot be used").because(cause.without_url());
    // To the addresses that were checked and no others: a name may lead elsewhere the next time it is looked up.
    let mut builder = builder()?
        .connect_timeout(CONNECT_LIMIT)
        .resolve_to_addrs(&route.target.host, &route.target.addresses)
        .dns_resolver(NoOtherNames);
    if let Some((url, pinned)) = &route.proxy {
        builder = builder
            .resolve_to_addrs(&pinned.host, &pinned.addresses)
            .proxy(reqwest::Proxy::all(url.as_str()).map_err(wrong)?);
    }
    builder.build().map_err(|cause| Error::internal("cannot set up the HTTP client").because(cause))
}

/// Nothing is looked up after the check.
struct NoOtherNames;

impl reqwest::dns::Resolve for NoOtherNames {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let refused = format!("`{}` was not checked", name.as_str());
        Box::pin(async move { Err(refused.into()) })
    }
}

#[async_trait]
impl Connector for DirectConnector {
    async fn exchange(&self, route: &OutboundRoute, request: &HttpRequest) -> Result<HttpResponse> {
        let method = method(&request.method)?;
        let mut sending =
            self.client(route)?.request(method, route.url.clone()).headers(headers(&request.headers)?);
        sending = match &request.body {
            HttpBody::Empty => sending,
            HttpBody::Json(json) => sending.json(json),
            HttpBody::Form(pairs) => sending.form(pairs),
        };
        let response = sending.send().await.map_err(|cause| no_answer(&route.target.host, cause))?;
        read(response, &route.target.host, request.body_max).await
    }

    async fn open(&self, route: &OutboundRoute, request: &StreamRequest) -> Result<StreamResponse> {
        streaming::send(&self.client(route)?, route.url.as_str(), request).await
    }
}

pub(crate) fn method(name: &str) -> Result<reqwest::Method> {
    match name.parse() {
        Ok(reqwest::Method::CONNECT | reqwest::Method::TRACE) | Err(_) => {
            Err(Error::invalid(format!("`{name}` is not an HTTP method that can be used here")))
        }
        Ok(method) => Ok(method),
    }
}

pub(crate) fn headers(pairs: &[(String, String)]) -> Result<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(pairs.len());
    for (name, value) in pairs {
        let wrong = |part: &str| Error::invalid(format!("the {part} of the header `{name}` cannot be sent"));
        let value = HeaderValue::from_str(value.trim()).map_err(|_| wrong("value"))?;
        headers.append(name.trim().parse::<HeaderName>().map_err(|_| wrong("name"))?, value);
    }
    Ok(headers)
}

/// The text leaves out the URL, since its query may hold a key.
fn no_answer(host: &str, cause: reqwest::Error) -> Error {
    if cause.is_builder() {
        return Error::invalid("the request cannot be written").because(cause.without_url());
    }
    let kind = if cause.is_timeout() { ErrorKind::Timeout } else { ErrorKind::Unavailable };
    Error::new(kind, format!("no answer from `{host}`")).because(cause.without_url())
}

async fn read(mut response: reqwest::Response, host: &str, body_max: usize) -> Result<HttpResponse> {
    let too_long = || Error::invalid(format!("the answer of `{host}` has more than {body_max} bytes"));
    let status = response.status().as_u16();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers =
        response.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    let content_type = response.headers().get(CONTENT_TYPE).map(text).unwrap_or_default();
    let announced = response.content_length().unwrap_or(0);
    if usize::try_from(announced).map_or(true, |length| length > body_max) {
        return Err(too_long());
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|cause| no_answer(host, cause))? {
        if body.len() + piece.len() > body_max {
            return Err(too_long());
        }
        body.extend_from_slice(&piece);
    }
    Ok(HttpResponse { status, headers, body: decode(&body, &content_type) })
}

/// By the declared character set, by a byte order mark, else as UTF-8.
fn decode(body: &[u8], content_type: &str) -> String {
    let declared = content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    });
    let encoding = declared
        .and_then(|label| encoding_rs::Encoding::for_label(label.as_bytes()))
        .unwrap_or(encoding_rs::UTF_8);
    encoding.decode(body).0.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_decoded_by_their_declared_character_set() {
        let check = |body: &[u8], content_type: &str, expected: &str| {
            assert_eq!(decode(body, content_type), expected, "{content_type}");
        };
        check("汉".as_bytes(), "application/json", "汉");
        check(b"\xba\xba", "text/html; charset=GBK", "汉");
        check(b"caf\xe9", "text/plain; charset=\"iso-8859-1\"", "café");
        check(b"\xff", "text/plain; charset=unheard-of", "\u{fffd}");
    }

    #[test]
    fn headers_cannot_smuggle_a_line() {
        let pairs = [("x-key".to_owned(), "a\r\nhost: b".to_owned())];
        assert_eq!(headers(&pairs).unwrap_err().kind, ErrorKind::Invalid);
        assert_eq!(method("CONNECT").unwrap_err().kind, ErrorKind::Invalid);
    }
}
