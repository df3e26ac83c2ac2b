//! Fetches a page by its address.
//!
//! A redirect is followed with a new request, so that each address on the way is checked like the first. The headers of
//! the canvas are sent to the first server only.

use std::time::Duration;

use tokio::time::Instant;
use url::Url;
use weft_core::seam::http::{HttpBody, HttpRequest, HttpResponse};
use weft_core::{Error, ErrorKind, NodeContext, Result, Template};

use super::{refused, rendered, send, shown, with_scheme};

/// Maximum number of bytes in an answer.
// The text of a page is a few hundred kilobytes at most. Anything larger is a download, which no model could read.
const BODY_MAX: usize = 5 * 1024 * 1024;
/// Maximum number of redirects that are followed.
// Sites need two or three (to https, to `www`, to a language); more than that is a loop.
const REDIRECTS_MAX: usize = 5;

/// How to request a page.
pub(crate) struct How<'a> {
    /// Headers for the first server.
    pub headers: &'a [(String, Template)],
    /// Time limit for the answer, including all redirects on the way.
    pub time_limit: Duration,
    /// Proxy to connect through.
    pub proxy: Option<&'a str>,
}

/// Fetches what is at an address; returns it with the final address.
///
/// # Errors
/// `Invalid` for an address that is not a web address, `Denied` for one that canvases may not reach, errors of the
/// request, and the error that a status from 400 on stands for.
pub(crate) async fn fetch(ctx: &NodeContext, address: &str, how: &How<'_>) -> Result<(Url, HttpResponse)> {
    let until = Instant::now() + how.time_limit;
    let first = self::address(address)?;
    let mut url = first.clone();
    for _ in 0..=REDIRECTS_MAX {
        // Also when a redirect returns from another server: the headers were meant for the first one.
        let own = url.origin() == first.origin();
        let headers = if own { how.headers } else { &[] };
        let request = HttpRequest {
            method: "GET".to_owned(),
            url: url.clone().into(),
            headers: rendered(headers, &ctx.inputs)?,
            body: HttpBody::Empty,
            // One limit for all redirects together.
            time_limit: until.saturating_duration_since(Instant::now()),
            body_max: BODY_MAX,
            proxy: how.proxy.map(str::to_owned),
        };
        let answer = send(ctx, request).await?;
        match next(&url, &answer)? {
            Some(next) => url = next,
            // The caller wants the text of the page, and the text of an error is not it.
            None if answer.status >= 400 => return Err(refused(&answer).help("try another address")),
            None => return Ok((url, answer)),
        }
    }
    Err(Error::invalid(format!("`{}` redirects more than {REDIRECTS_MAX} times", shown(first.as_str()))))
}

fn address(text: &str) -> Result<Url> {
    let text = text.trim();
    let wrong = |why: &str| {
        Error::invalid(format!("`{}` {why}", shown(text)))
            .help("enter a complete address, such as `https://example.org/page`")
    };
    // A URL parser would treat them as slashes, and take `http:\\host` without `://` for the host `http`.
    if text.contains('\\') {
        return Err(wrong("has a backslash"));
    }
    let mut url = Url::parse(&with_scheme(text, "https")).map_err(|_| wrong("is not an address"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("is not a web address"));
    }
    // A fragment is for browsers and is never sent to a server.
    url.set_fragment(None);
    Ok(url)
}

/// Returns the address that an answer redirects to, if it does.
fn next(from: &Url, answer: &HttpResponse) -> Result<Option<Url>> {
    if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(place) = header(answer, "location") else { return Ok(None) };
    let to = from.join(place).map_err(|cause| {
        Error::new(
            ErrorKind::Garbled,
            format!("`{}` redirects to `{}`, which is not an address", shown(from.as_str()), shown(place)),
        )
        .because(cause)
    })?;
    // Checked like the first address: it may have another scheme.
    address(to.as_str()).map(Some)
}

fn header<'a>(answer: &'a HttpResponse, name: &str) -> Option<&'a str> {
    answer.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
}

/// The type of content in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentKind {
    /// A web page.
    Page,
    /// Any other text.
    Text,
}

/// Whether an answer is a web page: by its declared type, or by its beginning if it declares none.
pub(crate) fn is_page(answer: &HttpResponse) -> bool {
    match media(answer).as_str() {
        "text/html" | "application/xhtml+xml" => true,
        "" => begins_like_a_page(&answer.body),
        _ => false,
    }
}

/// Returns the location that a redirect points to.
pub(crate) fn redirected(answer: &HttpResponse) -> Option<&str> {
    let is_redirect = matches!(answer.status, 301 | 302 | 303 | 307 | 308);
    header(answer, "location").filter(|place| is_redirect && !place.trim().is_empty())
}

fn media(answer: &HttpResponse) -> String {
    let declared = header(answer, "content-type").unwrap_or_default();
    declared.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Tags that a page, or a fragment of one, begins with.
const FIRST_TAGS: [&str; 24] = [
    "!doctype", "a", "article", "b", "body", "br", "div", "form", "h1", "h2", "h3", "head", "header", "html",
    "main", "meta", "nav", "ol", "p", "script", "section", "span", "table", "ul",
];

fn begins_like_a_page(text: &str) -> bool {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    while let Some((_, behind)) = rest.strip_prefix("<!--").and_then(|comment| comment.split_once("-->")) {
        rest = behind.trim_start();
    }
    let Some(tag) = rest.strip_prefix('<') else { return false };
    let end = tag.find(|letter: char| letter.is_whitespace() || matches!(letter, '>' | '/'));
    let Some(name) = end.and_then(|end| tag.get(..end)) else { return false };
    // `<!doctype note>` is XML.
    let of_pages =
        |behind: &str| behind.trim_start().get(..4).is_some_and(|word| word.eq_ignore_ascii_case("html"));
    let is_first = FIRST_TAGS.iter().any(|first| first.eq_ignore_ascii_case(name));
    let is_doctype = name.eq_ignore_ascii_case("!doctype");
    is_first && (!is_doctype || tag.get(name.len()..).is_some_and(of_pages))
}

/// Returns the type of an answer's content: by its declared type, or by its beginning if it declares none.
///
/// # Errors
/// `Invalid` when it is not text.
pub(crate) fn content(answer: &HttpResponse) -> Result<ContentKind> {
    let media = media(answer);
    match media.as_str() {
        _ if is_page(answer) => Ok(ContentKind::Page),
        ""
        | "application/json"
        | "application/xml"
        | "application/javascript"
        | "application/x-ndjson"
        | "application/yaml" => Ok(ContentKind::Text),
        text if text.starts_with("text/") || text.ends_with("+json") || text.ends_with("+xml") => {
            Ok(ContentKind::Text)
        }
        other => Err(Error::invalid(format!("the response is `{other}`, which is not text"))
            .help("enter the address of a page or of a text")),
    }
}

#[cfg(test)]
mod tests {
    use super::begins_like_a_page;

    #[test]
    fn html_is_recognised_by_its_beginning() {
        for page in [
            "\u{feff}\n<!DOCTYPE html><p>x",
            "<!-- a --> <!-- b --><HTML lang=en>",
            "<p>x</p>",
            "<br/>x",
            "<h1 id=a>x",
        ] {
            assert!(begins_like_a_page(page), "{page}");
        }
        for text in [
            "",
            "{\"a\": \"<p>\"}",
            "a <b>c</b>",
            "<?xml version=\"1.0\"?><note/>",
            "<!DOCTYPE note><note/>",
            "<note>x",
            "<",
            "<!--",
            "<p",
        ] {
            assert!(!begins_like_a_page(text), "{text}");
        }
    }
}
