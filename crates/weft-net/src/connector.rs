//! Real connections, to exactly the addresses that were checked.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use weft_core::seam::http::{HttpBody, HttpRequest, HttpResponse};
use weft_core::{Error, ErrorKind, Result, async_trait};

use crate::operator::{CONNECT_LIMIT, builder};
use crate::request::{headers, method};
use crate::route::{Connector, OutboundRoute, Pinned};
use crate::streaming::{self, StreamRequest, StreamResponse};

/// Maximum number of cached clients, one for each route, whose connections can be reused.
const CLIENTS_MAX: usize = 32;
/// Number of bytes at the beginning of a page that may declare its character set.
const DECLARATION_MAX: usize = 1024;
/// Content encodings of a body. Any other value, such as `utf-8` or `none`, is a server's mistake about a body that has
/// none of these encodings.
const PACKINGS: [&str; 7] = ["gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"];

/// Connects over TCP and TLS.
#[derive(Debug, Default)]
pub struct DirectConnector {
    clients: Mutex<VecDeque<(Pin, reqwest::Client)>>,
}

type Pin = (Pinned, Option<(String, Pinned)>);

impl DirectConnector {
    /// Returns a client that knows only the addresses of the route.
    fn client(&self, route: &OutboundRoute) -> Result<reqwest::Client> {
        let proxy = route.proxy.as_ref().map(|(url, pinned)| (url.to_string(), in_order(pinned)));
        let pin = (in_order(&route.target), proxy);
        // Poisoning is ignored: no step in between leaves the list invalid.
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

/// Sorts the addresses: many names resolve to theirs in a different order each time.
fn in_order(pinned: &Pinned) -> Pinned {
    let mut pinned = pinned.clone();
    pinned.addresses.sort_unstable();
    pinned
}

fn pinned_client(route: &OutboundRoute) -> Result<reqwest::Client> {
    let wrong =
        |cause: reqwest::Error| Error::invalid("the proxy cannot be used").because(cause.without_url());
    // Only to the addresses that were checked: a name may resolve differently the next time it is looked up.
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

/// A resolver that refuses everything: nothing is looked up after the check.
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

/// Returns the error for a missing answer. Its text leaves out the URL, since the query may contain a key.
fn no_answer(host: &str, cause: reqwest::Error) -> Error {
    if cause.is_builder() {
        // Nothing was sent, and the same request would fail in the same way: it is the caller's mistake.
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
    // An answer that the client has decoded no longer has this header.
    let packing = response.headers().get(CONTENT_ENCODING).map(text).and_then(|value| packed_as(&value));
    let announced = response.content_length().unwrap_or(0);
    // A length that does not fit into `usize` is above every limit.
    if usize::try_from(announced).map_or(true, |length| length > body_max) {
        return Err(too_long());
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|cause| no_answer(host, cause))? {
        // Checked before it is stored: a body without a declared length may go on forever.
        if body.len() + piece.len() > body_max {
            return Err(too_long());
        }
        body.extend_from_slice(&piece);
    }
    let body = match packing {
        Some(packing) if !body.is_empty() => unread(&packing, host, status)?,
        _ => decode(&body, &content_type),
    };
    Ok(HttpResponse { status, headers, body })
}

/// Returns the encoding of a body that is not decoded here.
fn packed_as(content_encoding: &str) -> Option<String> {
    let mut named = content_encoding.split(',').map(|name| name.trim().to_ascii_lowercase());
    named.find(|name| PACKINGS.contains(&name.as_str()))
}

/// Returns a placeholder for a body that would be mistaken for text. If the answer is an error anyway, the status says
/// more.
fn unread(packing: &str, host: &str, status: u16) -> Result<String> {
    let message = format!("the response of `{host}` has the encoding `{packing}`, which is not supported");
    if status >= 400 { Ok(message) } else { Err(Error::new(ErrorKind::Garbled, message)) }
}

/// Decodes a body by its byte order mark, by the character set that the header declares, by the one that the page
/// itself declares, or else as UTF-8.
fn decode(body: &[u8], content_type: &str) -> String {
    let mut parts = content_type.split(';');
    let kind = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let declared = parts.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    });
    let declared = declared.and_then(|label| Encoding::for_label(label.as_bytes()));
    let is_markup = kind.is_empty() || kind.contains("html") || kind.ends_with("xml");
    let encoding = declared.or_else(|| is_markup.then(|| declared_inside(body)).flatten());
    // A byte order mark takes precedence over this encoding: `decode` looks for one itself.
    encoding.unwrap_or(UTF_8).decode(body).0.into_owned()
}

/// Returns the character set that a page declares in a `<meta>`, or an XML document in its first line. A declaration of
/// UTF-16 is wrong: in UTF-16, it could not be read here.
fn declared_inside(body: &[u8]) -> Option<&'static Encoding> {
    let beginning = String::from_utf8_lossy(&body[..body.len().min(DECLARATION_MAX)]).to_ascii_lowercase();
    let mut rest = beginning.as_str();
    while let Some((_, tag)) = rest.split_once('<') {
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, behind)| behind);
            continue;
        }
        let (tag, behind) = tag.split_once('>').unwrap_or((tag, ""));
        rest = behind;
        let value = match tag {
            tag if tag.starts_with("?xml") => after(tag, "encoding"),
            tag if tag.starts_with("meta") => after(tag, "charset"),
            _ => None,
        };
        if let Some(encoding) = value.and_then(|label| Encoding::for_label(label.as_bytes())) {
            let wide = encoding == UTF_16LE || encoding == UTF_16BE;
            return Some(if wide { UTF_8 } else { encoding });
        }
    }
    None
}

/// Returns what follows `name=` in a tag, even within the value of another attribute, as in `content="text/html;
/// charset=gbk"`.
fn after<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let value = tag.match_indices(name).find_map(|(at, _)| {
        let value = tag[at + name.len()..].trim_start().strip_prefix('=')?;
        Some(value.trim_start().trim_start_matches(['"', '\'']))
    })?;
    let end = value.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '/' | '?'));
    Some(&value[..end.unwrap_or(value.len())])
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
        check(b"\xef\xbb\xbfx\xe6\xb1\x89", "text/html; charset=gbk", "x汉");
    }

    #[test]
    fn a_page_may_declare_its_own_character_set() {
        let check = |head: &str, content_type: &str, is_read: bool| {
            let mut page = head.as_bytes().to_vec();
            page.extend(b"\xba\xba");
            assert_eq!(decode(&page, content_type).ends_with('汉'), is_read, "{head} {content_type}");
        };
        check("<!DOCTYPE html><html><head><META CharSet='gbk'>", "text/html", true);
        check("<meta http-equiv=\"Content-Type\" content=\"text/html; charset=gb2312\">", "", true);
        check("<meta name=\"x\" content=\"y\"><meta charset=GBK>", "application/xhtml+xml", true);
        check("<?xml version=\"1.0\" encoding=\"gb18030\"?><a>", "application/rss+xml", true);
        check("<!-- <meta charset=gbk> --><p>", "text/html", false);
        check("<meta charset=gbk>", "text/plain", false);
        check("<meta charset=utf-16><p>", "text/html", false);
        check(&format!("{}<meta charset=gbk>", " ".repeat(1_100)), "text/html", false);
        let utf8 = decode("<meta charset=gbk>汉".as_bytes(), "text/html; charset=utf-8");
        assert!(utf8.ends_with('汉'), "the header takes precedence");
    }

    #[tokio::test]
    async fn the_order_of_addresses_does_not_change_the_client() {
        let connector = DirectConnector::default();
        let route = |addresses: [&str; 2]| OutboundRoute {
            url: "http://a.example/".parse().unwrap(),
            target: Pinned {
                host: "a.example".to_owned(),
                addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            },
            proxy: None,
        };
        connector.client(&route(["1.1.1.1:80", "1.1.1.2:80"])).unwrap();
        connector.client(&route(["1.1.1.2:80", "1.1.1.1:80"])).unwrap();
        assert_eq!(connector.clients.lock().unwrap().len(), 1);
        connector.client(&route(["1.1.1.2:80", "1.1.1.3:80"])).unwrap();
        assert_eq!(connector.clients.lock().unwrap().len(), 2);
    }

    #[test]
    fn headers_with_line_breaks_are_refused() {
        let pairs = [("x-key".to_owned(), "a\r\nhost: b".to_owned())];
        assert_eq!(headers(&pairs).unwrap_err().kind, ErrorKind::Invalid);
        assert_eq!(method("CONNECT").unwrap_err().kind, ErrorKind::Invalid);
    }
}
