//! What components that send requests to web servers have in common.

pub(crate) mod elements;
pub(crate) mod fetch;
mod page;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use html2text::render::TrivialDecorator;
use url::Url;
use weft_core::effect::Delivery;
use weft_core::reference::{Inputs, Segment};
use weft_core::rendering::BoundedText;
use weft_core::seam::http::{HttpRequest, HttpResponse};
use weft_core::value::to_text;
use weft_core::{Error, ErrorKind, Json, NodeContext, ParamProblem, Reference, Result, Template};

use crate::params::{Field, Kind, Params, Widget, pointer, written_out};

/// Maximum number of retries.
// The node holds its run meanwhile, and a service that has failed ten times is down.
const RETRIES_MAX: usize = 10;
/// Maximum number of seconds between two attempts.
const DELAY_MAX: f64 = 60.0;
/// Number of characters of an address that an error shows.
const SHOWN_MAX: usize = 200;
/// Number of characters of an answer that an error shows.
// Enough for the sentence in which a server states the reason. A whole page would go into the journal, and into the
// prompt of a model that called the component.
const SAID_MAX: usize = 300;
/// Line width for the text of a web page.
// Tables are laid out to this width; a smaller one would break their cells into pieces that no model can reassemble.
const PAGE_WIDTH: usize = 120;

/// Headers that define how a request is framed and where it goes. If a canvas could set them, a server might read a
/// different request than the one that was checked.
const FRAMING: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers of a request.
pub(crate) static HEADERS: Field = Field::raw(
    "headers",
    Kind::Any,
    "the headers: an object, also as JSON text; values may contain references",
)
.widget(Widget::Pairs);
/// Number of retries of a request.
pub(crate) static MAX_RETRIES: Field<usize> =
    Field::count("max_retries", 0, &(0..=RETRIES_MAX), "the maximum number of retries");
/// Delay between two attempts.
pub(crate) static DELAY_AFTER_ERROR: Field<f64> =
    Field::number("delay_after_error", &(0.0..=DELAY_MAX), "the delay between attempts")
        .or(2.0)
        .unit("seconds");

/// Reads the headers. They are parsed before references are filled in, so that a value cannot add a header.
pub(crate) fn headers(params: &mut Params<'_>) -> Vec<(String, Template)> {
    let parsed = match params.get(&HEADERS) {
        None => return Vec::new(),
        Some(Json::String(text)) if text.trim().is_empty() => return Vec::new(),
        Some(Json::String(text)) => serde_json::from_str(text).ok(),
        Some(other) => Some(other.clone()),
    };
    let Some(Json::Object(members)) = parsed else {
        let problem = ParamProblem::new("/headers", "is not a JSON object");
        params.problem(problem.help("write it as {\"Name\": \"value\"}; put references inside the quotes"));
        return Vec::new();
    };
    let framing = |name: &str| FRAMING.contains(&name.trim().to_ascii_lowercase().as_str());
    let (refused, kept): (Vec<_>, Vec<_>) = members.iter().partition(|(name, _)| framing(name));
    for (name, _) in refused {
        let problem = ParamProblem::new("/headers", format!("sets `{name}`, which has no effect"));
        params.warn(problem.help("remove it: it is derived from the address and the body"));
    }
    let names = params.source.names();
    let parsed = |(name, value): (&String, &Json)| (name.clone(), Template::parse(&to_text(value), names));
    let headers: Vec<(String, Template)> = kept.into_iter().map(parsed).collect();
    doubt(params, &headers);
    headers
}

/// Warns of names and values that no header can have, and of duplicate names.
fn doubt(params: &mut Params<'_>, headers: &[(String, Template)]) {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for (name, value) in headers {
        if !is_header_name(name.trim()) {
            let message = format!("has the invalid header name `{name}`, and every request fails");
            params.warn(ParamProblem::new("/headers", message).help("a name has letters, digits and `-`"));
        }
        if has_control(value) {
            let message =
                format!("has a line break or another control character in `{name}`, and every request fails");
            params.warn(ParamProblem::new("/headers", message).help("write the value on one line"));
        }
        if let Some(other) = seen.insert(name.trim().to_ascii_lowercase(), name) {
            let message = format!("has `{other}` and `{name}`, which are one header: it is sent twice");
            params.warn(ParamProblem::new("/headers", message).help("remove one of them"));
        }
    }
}

/// Returns the problem of an invalid header name, with its consequence; an empty name is valid.
pub(crate) fn header_problem(place: String, name: &str, follows: &str) -> Option<ParamProblem> {
    let message = format!("`{name}` is not a valid header name: {follows}");
    let problem = ParamProblem::new(place, message).help("a name has letters, digits and `-`");
    (!name.is_empty() && !is_header_name(name)).then_some(problem)
}

/// Whether this is a valid header name (RFC 9110 §5.6.2).
fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

/// Whether a value has a character that no header can have (RFC 9110 §5.5), whatever its references resolve to. At
/// either end of the value it would be trimmed.
fn has_control(value: &Template) -> bool {
    let literals = value.segments().iter().filter_map(|segment| match segment {
        Segment::Literal(text) => Some(&**text),
        Segment::Reference(_) => None,
    });
    let written: String = literals.collect();
    written.trim().contains(|c: char| c.is_ascii_control() && c != '\t')
}

/// Headers that describe the request and hold no secret.
const PLAIN: [&str; 11] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-language",
    "content-type",
    "from",
    "origin",
    "referer",
    "user-agent",
];

/// Returns the references in headers that may hold a credential.
pub(crate) fn secrets(headers: &[(String, Template)]) -> Vec<Reference> {
    let plain = |name: &str| PLAIN.contains(&name.trim().to_ascii_lowercase().as_str());
    let secret = headers.iter().filter(|(name, _)| !plain(name));
    secret.flat_map(|(_, value)| value.references().cloned()).collect()
}

/// Renders the values of headers.
///
/// # Errors
/// `Invalid` when they grow too large.
pub(crate) fn rendered(headers: &[(String, Template)], inputs: &Inputs) -> Result<Vec<(String, String)>> {
    headers.iter().map(|(name, value)| Ok((name.clone(), value.render(inputs)?))).collect()
}

/// Fills in the references of an address. After the host, a value is encoded as one path segment or one part of the
/// query, so that it cannot change where the address leads. A reference at the beginning may hold a whole address.
///
/// # Errors
/// `Invalid` when it grows too large, or when a segment would lead upwards.
pub(crate) fn address(template: &Template, inputs: &Inputs) -> Result<String> {
    let mut address = String::new();
    let segments = template.segments();
    for (place, segment) in segments.iter().enumerate() {
        match segment {
            Segment::Literal(literal) => address.push_str(literal),
            Segment::Reference(reference) => {
                let mut value = BoundedText::new(inputs.room());
                value.push_value(&inputs.json(reference))?;
                let value = value.finish();
                let scheme = behind_scheme(&address);
                // In `https://{…}.example.org` the value is part of the host name: it must not name another server, to
                // which the headers would be sent.
                let is_label = scheme.is_some() && segments.get(place + 1).is_some_and(goes_on_with_a_name);
                if scheme.unwrap_or(address.as_str()).trim().is_empty() && !is_label {
                    address.push_str(&value);
                } else if matches!(value.as_str(), "." | "..") && !address.contains(['?', '#']) {
                    return Err(Error::invalid(format!(
                        "`{reference}` is `{value}`, which changes the path"
                    ))
                    .help("use a name, or enter the path in the address"));
                } else {
                    // Percent-encoding takes at most three bytes for each byte.
                    inputs.room().take(value.len().saturating_mul(2))?;
                    encode(&value, &mut address);
                }
            }
        }
    }
    Ok(address)
}

/// Returns what follows the scheme of an address, if it has one.
fn behind_scheme(address: &str) -> Option<&str> {
    let (scheme, behind) = address.split_once("://")?;
    // A `://` further on belongs to a query that contains another address.
    let is_one = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    scheme.trim_start().chars().all(is_one).then_some(behind)
}

/// Whether a segment continues a host name.
fn goes_on_with_a_name(segment: &Segment) -> bool {
    match segment {
        Segment::Literal(text) => {
            text.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
        }
        Segment::Reference(_) => false,
    }
}

/// Adds this scheme to an address that has none.
pub(crate) fn with_scheme(address: &str, scheme: &str) -> String {
    match behind_scheme(address) {
        Some(_) => address.to_owned(),
        None => format!("{scheme}://{address}"),
    }
}

/// Whether an address has a backslash before its query. A URL parser would treat it as a slash, and take `http:\\host`
/// without `://` for the host `http`.
pub(crate) fn has_backslash(address: &str) -> bool {
    address.split(['?', '#']).next().is_some_and(|place| place.contains('\\'))
}

/// Returns the problem of an invalid address in a parameter, if the address is entirely literal: every request to it
/// fails.
pub(crate) fn address_problem(name: &str, address: &Template) -> Option<ParamProblem> {
    let written = written_out(address).map(str::trim).filter(|written| !written.is_empty())?;
    let wrong = match Url::parse(&with_scheme(written, "https")) {
        _ if has_backslash(written) => "has a backslash".to_owned(),
        Ok(url) if matches!(url.scheme(), "http" | "https") => return None,
        Ok(url) => format!("begins with `{}:`", url.scheme()),
        Err(cause) => format!("is not an address ({cause})"),
    };
    let problem = ParamProblem::new(pointer(&[name]), format!("{wrong}, and every request fails"));
    Some(problem.help("enter a complete address, such as `https://example.org/page`"))
}

/// Returns the problem of an invalid proxy, which is entirely literal and includes its scheme.
pub(crate) fn proxy_problem(name: &str, proxy: Option<&str>) -> Option<ParamProblem> {
    let proxy = proxy.map(str::trim).filter(|proxy| !proxy.is_empty())?;
    if Url::parse(proxy).is_ok_and(|url| matches!(url.scheme(), "http" | "https")) {
        return None;
    }
    let message = "is not a proxy address, and every request fails";
    Some(ParamProblem::new(pointer(&[name]), message).help("write it as `http://proxy.example:8080`"))
}

/// Percent-encodes everything but the unreserved characters of RFC 3986 §2.
fn encode(value: &str, out: &mut String) {
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            // Writing to a String cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
}

/// Returns an address as errors show it: without user, password and the values of its query.
pub(crate) fn shown(address: &str) -> String {
    let more = if address.contains('?') { "?…" } else { "" };
    let place = address.trim().split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = place.split_once("://").map_or(("", place), |(scheme, rest)| (scheme, rest));
    let (authority, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let mut shown: String = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    shown.push_str(host);
    if let Some(path) = path {
        shown.push('/');
        shown.push_str(path);
    }
    let short: String = shown.chars().take(SHOWN_MAX).collect();
    short + more
}

/// Sends a request, unless its outcome is already known from the journal.
///
/// # Errors
/// Errors of the request; `Interrupted` for a request that may have been sent before and is not a plain query.
pub(crate) async fn send(ctx: &NodeContext, request: HttpRequest) -> Result<HttpResponse> {
    let again = of_method(&request);
    sent(ctx, request, again).await.0
}

/// Returns the delivery of a request by its method: a plain query may be repeated.
fn of_method(request: &HttpRequest) -> Delivery {
    let asks = matches!(request.method.as_str(), "GET" | "HEAD");
    if asks { Delivery::Idempotent } else { Delivery::AtMostOnce }
}

/// Returns the answer, and whether the request was sent just now.
async fn sent(ctx: &NodeContext, request: HttpRequest, again: Delivery) -> (Result<HttpResponse>, bool) {
    let mut now = false;
    // Headers are left out: they hold keys, which change and must not be disclosed.
    let question = ctx.effects.question("http", &(&request.method, &request.url, &request.body));
    let call = async {
        now = true;
        ctx.run.seams.http.send(&ctx.run.tenant, request).await
    };
    let answer = ctx.effect_asking("http", again, question, call).await;
    (answer.map(|(answer, _)| answer), now)
}

/// Retries of requests that have no side effects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retries {
    left: usize,
    delay: Duration,
    /// Whether the server recognises a repeated request, whatever its method.
    idempotent: bool,
}

impl Retries {
    /// Reads `max_retries` and `delay_after_error`.
    pub(crate) fn of(params: &mut Params<'_>) -> Self {
        let delay = params.take(&DELAY_AFTER_ERROR);
        let left = params.take(&MAX_RETRIES);
        Self { left, delay: Duration::from_secs_f64(delay), idempotent: false }
    }

    /// Allows retries whatever the method, for requests that carry an idempotency key.
    pub(crate) fn idempotent(self) -> Self {
        Self { idempotent: true, ..self }
    }

    /// Disables retries.
    pub(crate) fn none(self) -> Self {
        Self { left: 0, ..self }
    }

    /// Sends a request, and retries it when there is no answer or the server fails.
    ///
    /// # Errors
    /// Errors of the last attempt.
    pub(crate) async fn send(mut self, ctx: &NodeContext, request: HttpRequest) -> Result<HttpResponse> {
        let again = if self.idempotent { Delivery::Idempotent } else { of_method(&request) };
        loop {
            let (answer, now) = sent(ctx, request.clone(), again).await;
            // An error in the request itself would only be repeated.
            let passing = match &answer {
                Ok(response) => passes(response.status),
                Err(error) => {
                    matches!(error.kind, ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::RateLimited)
                }
            };
            if !passing || self.left == 0 {
                return answer;
            }
            self.left -= 1;
            // For an answer known from the journal, the wait already took place.
            if now {
                tokio::time::sleep(self.delay).await;
            }
        }
    }
}

/// Converts an answer with a status from 400 on into an error.
pub(crate) fn refused(response: &HttpResponse) -> Error {
    let kind = match response.status {
        401 => ErrorKind::Unauthenticated,
        403 => ErrorKind::Denied,
        404 | 410 => ErrorKind::NotFound,
        429 => ErrorKind::RateLimited,
        500.. => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    };
    let status = response.status;
    Error::new(
        kind,
        match said(&response.body).as_str() {
            "" => format!("the response has the status {status} and no text"),
            said => format!("the response has the status {status}: the text `{said}`"),
        },
    )
}

/// Whether a server that answers with this status may answer differently later.
pub(crate) fn passes(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..)
}

/// Returns the beginning of a server's message on one line.
pub(crate) fn said(text: &str) -> String {
    // Much of a page is white space, and there may be millions of characters of it.
    let start: String = text.chars().take(4 * SAID_MAX).collect();
    let words = start.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    let mut said: String = line.chars().take(SAID_MAX).collect();
    if said.len() < line.len() || start.len() < text.len() {
        said.push('…');
    }
    said
}

/// Returns the text of a web page without its markup.
///
/// # Errors
/// `Garbled` when it cannot be read as a web page.
pub(crate) async fn page_text(page: String) -> Result<String> {
    converted(page, None, |page| {
        // Without wrapping of links: a part of an address leads nowhere.
        let plain = html2text::config::plain().allow_width_overflow().no_link_wrapping();
        plain.string_from_read(page.as_bytes(), PAGE_WIDTH)
    })
    .await
}

/// Returns only the words of a web page, below its title: no emphasis marks, link addresses or table borders.
///
/// # Errors
/// `Garbled` when it cannot be read as a web page.
pub(crate) async fn page_words(page: String) -> Result<String> {
    let title = title(&page);
    let words = converted(page, None, |page| {
        let plain = html2text::config::with_decorator(TrivialDecorator::new());
        plain
            .link_footnotes(false)
            .no_table_borders()
            .allow_width_overflow()
            .string_from_read(page.as_bytes(), PAGE_WIDTH)
    });
    let words = words.await?;
    Ok(match title {
        Some(title) if !words.trim_start().starts_with(&title) => {
            format!("{title}\n\n{}", words.trim_start())
        }
        _ => words,
    })
}

/// Returns the page as Markdown with its headings, lists, tables and links, below its title; links are made absolute by
/// its address.
///
/// # Errors
/// `Garbled` when it cannot be read as a web page.
pub(crate) async fn page_markdown(page: String, address: &str) -> Result<String> {
    let title = title(&page);
    let text = converted(page, Url::parse(address).ok(), htmd::convert).await?;
    Ok(match title {
        // Most pages also have their title as their first heading.
        Some(title) if !text.trim_start().trim_start_matches('#').trim_start().starts_with(&title) => {
            format!("# {title}\n\n{}", text.trim_start())
        }
        _ => text,
    })
}

/// Returns the title of a page, unless it is empty.
fn title(page: &str) -> Option<String> {
    /// Maximum number of characters in a title.
    const TITLE_MAX: usize = 300;
    let title = elements::with_tag(page, "title").first()?.text();
    let title: String = title.trim().chars().take(TITLE_MAX).collect();
    (!title.is_empty()).then_some(title)
}

/// Converts a page after reducing it, on a blocking thread: a long page takes a while.
async fn converted<E>(
    page: String,
    address: Option<Url>,
    convert: impl FnOnce(&str) -> Result<String, E> + Send + 'static,
) -> Result<String>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let text = tokio::task::spawn_blocking(move || convert(&page::reduced(&page, address)));
    let garbled = |cause: Box<dyn std::error::Error + Send + Sync>| {
        Error::new(ErrorKind::Garbled, "cannot read the answer as a web page").because(cause)
    };
    text.await.map_err(|cause| garbled(cause.into()))?.map_err(|cause| garbled(cause.into()))
}

#[cfg(test)]
mod tests {
    use super::{address, page_text, shown, with_scheme};
    use serde_json::json;
    use std::collections::HashSet;
    use weft_core::reference::{Inputs, Names};
    use weft_core::{Reference, Template};

    #[test]
    fn a_value_in_a_url_is_one_component() {
        let check = |text: &str, query: &str, expected: Option<&str>| {
            let components = HashSet::new();
            let template = Template::parse(text, Names { components: &components, item: None });
            let inputs = Inputs::from_iter([(Reference::Global("sys.query".into()), json!(query).into())]);
            assert_eq!(address(&template, &inputs).ok().as_deref(), expected, "{text} {query}");
        };
        check(
            "https://a.example/x/{sys.query}/y",
            "b c/d?e#f&g",
            Some("https://a.example/x/b%20c%2Fd%3Fe%23f%26g/y"),
        );
        check(
            "https://a.example/?q={sys.query}&r=1",
            "b&r=2 汉",
            Some("https://a.example/?q=b%26r%3D2%20%E6%B1%89&r=1"),
        );
        check("https://a.example{sys.query}", "@b.example/", Some("https://a.example%40b.example%2F"));
        check("https://a.example/x/{sys.query}", "..", None);
        check("https://a.example/?q={sys.query}", "..", Some("https://a.example/?q=.."));
        check("{sys.query}", "https://b.example/x?y=z", Some("https://b.example/x?y=z"));
        check("http://{sys.query}/x", "b.example:80", Some("http://b.example:80/x"));
        check("https://{sys.query}.a.example/x", "eu", Some("https://eu.a.example/x"));
        check("https://{sys.query}.a.example/x", "b.example/", Some("https://b.example%2F.a.example/x"));
        check(
            "a.example/?u=https://{sys.query}",
            "b.example/&r=2",
            Some("a.example/?u=https://b.example%2F%26r%3D2"),
        );
    }

    #[test]
    fn a_url_in_a_query_is_not_a_scheme() {
        let check = |text: &str, expected: &str| assert_eq!(with_scheme(text, "https"), expected);
        check("a.example/?u=http://b.example", "https://a.example/?u=http://b.example");
        check("HTTP://a.example", "HTTP://a.example");
        check("a.example:8/x", "https://a.example:8/x");
        check("ftp://a.example", "ftp://a.example");
    }

    #[test]
    fn displayed_urls_contain_no_secret() {
        let check = |text: &str, expected: &str| assert_eq!(shown(text), expected);
        check("https://ada:pw@a.example:8/x/y?key=k#f", "https://a.example:8/x/y?…");
        check("ada:p@w@a.example", "a.example");
        check("a b", "a b");
    }

    #[tokio::test]
    async fn link_urls_stay_whole() {
        let link = format!("https://a.example/{}", "x".repeat(300));
        let text = page_text(format!("<p>See <a href=\"{link}\">here</a>")).await.unwrap();
        assert!(text.contains("See [here][1]") && text.contains(&link), "{text}");
    }

    #[tokio::test]
    async fn pages_made_to_slow_a_parser_are_read_anyway() {
        let check = async |page: String| {
            let text = page_text(format!("{page}<p>the end")).await.unwrap();
            assert!(text.contains("the end"), "{:?}", page.get(..40));
        };
        check("<div><b>".repeat(50_000)).await;
        check("<p><b id=1></p>".repeat(20_000)).await;
        check("<ul><li><blockquote>".repeat(20_000)).await;
        check("<table><tr><td>".repeat(20_000)).await;
        check(format!("<p {}>", "a=1 ".repeat(100_000))).await;
        check("<!".repeat(20_000) + ">").await;
        check("</".repeat(20_000) + ">").await;
        check("<a href=x ".repeat(20_000) + ">").await;
        check("<script></".repeat(20_000) + "</script>").await;
        check(format!("<table><tr>{}", "<td colspan=1000000>x".repeat(1_000))).await;
    }
}
