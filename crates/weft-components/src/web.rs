//! What the components that ask web servers have in common.

mod page;

use std::time::Duration;

use weft_core::effect::Again;
use weft_core::seam::http::{HttpRequest, HttpResponse};
use weft_core::value::to_text;
use weft_core::{Error, ErrorKind, Json, NodeContext, ParamProblem, Result, Template};

use crate::params::{Params, described};

/// Tries after the first, at most.
const RETRIES_MAX: usize = 10;
/// Seconds between two tries, at most.
const DELAY_MAX: f64 = 60.0;
/// Characters of an answer that an error shows.
const SHOWN_MAX: usize = 200;
/// How wide the text of a web page is set.
const PAGE_WIDTH: usize = 120;

/// The headers are parsed before references are filled in, so a value cannot add a header.
pub fn headers(params: &mut Params<'_>) -> Vec<(String, Template)> {
    let parsed = match params.get("headers") {
        None => return Vec::new(),
        Some(Json::String(text)) if text.trim().is_empty() => return Vec::new(),
        Some(Json::String(text)) => serde_json::from_str(text).ok(),
        Some(other) => Some(other.clone()),
    };
    let Some(Json::Object(members)) = parsed else {
        let problem = ParamProblem::new("/headers", "is no JSON object");
        params.problem(problem.help("write it as {\"Name\": \"value\"}; put references inside the quotes"));
        return Vec::new();
    };
    let names = params.source.names();
    members.iter().map(|(name, value)| (name.clone(), Template::parse(&to_text(value), names))).collect()
}

/// Sends a request, unless what came of it is known from before.
///
/// # Errors
/// Those of the request; `Interrupted` for one that may have been carried out before and that is no
/// plain question.
pub async fn send(ctx: &NodeContext, request: HttpRequest) -> Result<HttpResponse> {
    sent(ctx, request).await.0
}

/// The answer, and whether it came just now.
async fn sent(ctx: &NodeContext, request: HttpRequest) -> (Result<HttpResponse>, bool) {
    let asks = matches!(request.method.as_str(), "GET" | "HEAD");
    let again = if asks { Again::Allowed } else { Again::Never };
    let mut now = false;
    // Headers hold keys that change, and that are nobody's business.
    let question = ctx.effects.question("http", &(&request.method, &request.url, &request.body));
    let call = async {
        now = true;
        ctx.run.seams.http.send(&ctx.run.tenant, request).await
    };
    let answer = ctx.effect_asking(("http", again), question, call).await;
    (answer.map(|(answer, _)| answer), now)
}

/// How often a request is sent again that changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    left: usize,
    delay: Duration,
}

impl Retries {
    /// `max_retries` and `delay_after_error`.
    pub fn of(params: &mut Params<'_>) -> Self {
        let delay = params.number_in("delay_after_error", 0.0..=DELAY_MAX).unwrap_or(2.0);
        Self { left: params.count("max_retries", 0, 0..=RETRIES_MAX), delay: Duration::from_secs_f64(delay) }
    }

    /// No further try.
    pub fn none(self) -> Self {
        Self { left: 0, ..self }
    }

    /// Sends it, and again when nothing answered or the server failed.
    ///
    /// # Errors
    /// Those of the last try.
    pub async fn send(mut self, ctx: &NodeContext, request: HttpRequest) -> Result<HttpResponse> {
        loop {
            let (answer, now) = sent(ctx, request.clone()).await;
            let passing = match &answer {
                Ok(response) => response.status == 429 || response.status >= 500,
                Err(error) => {
                    matches!(error.kind, ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::RateLimited)
                }
            };
            if !passing || self.left == 0 {
                return answer;
            }
            self.left -= 1;
            if now {
                tokio::time::sleep(self.delay).await;
            }
        }
    }
}

/// An answer with a status from 400 on, as an error.
pub fn refused(response: &HttpResponse) -> Error {
    let shown: String = response.body.chars().take(SHOWN_MAX).collect();
    let kind = match response.status {
        401 => ErrorKind::Unauthenticated,
        403 => ErrorKind::Denied,
        404 | 410 => ErrorKind::NotFound,
        429 => ErrorKind::RateLimited,
        500.. => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    };
    Error::new(kind, format!("the answer has the status {}: {}", response.status, described(&shown.into())))
}

/// The text of a web page without its markup.
///
/// # Errors
/// `Garbled` for what is no web page.
pub async fn page_text(page: String) -> Result<String> {
    // A long page takes a while.
    let text = tokio::task::spawn_blocking(move || {
        let page = page::reduced(&page);
        html2text::config::plain().allow_width_overflow().string_from_read(page.as_bytes(), PAGE_WIDTH)
    });
    let garbled = |cause: Box<dyn std::error::Error + Send + Sync>| {
        Error::new(ErrorKind::Garbled, "cannot read the answer as a web page").because(cause)
    };
    text.await.map_err(|cause| garbled(cause.into()))?.map_err(|cause| garbled(cause.into()))
}

#[cfg(test)]
mod tests {
    use super::page_text;

    #[tokio::test]
    async fn pages_made_to_keep_a_parser_busy_are_read_all_the_same() {
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
