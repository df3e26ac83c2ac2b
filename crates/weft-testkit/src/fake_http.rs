//! The `Http` seam without a network: prepared answers, and a record of the requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_core::seam::Http;
use weft_core::seam::http::{HttpRequest, HttpResponse};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};

/// An `Http` that never dials. Clones share answers and record.
#[derive(Clone, Debug, Default)]
pub struct FakeHttp(Arc<Mutex<FakeHttpState>>);

#[derive(Debug, Default)]
struct FakeHttpState {
    answers: Vec<LaidAnswer>,
    requests: Vec<(TenantId, HttpRequest)>,
}

#[derive(Debug)]
struct LaidAnswer {
    url_part: String,
    /// How many requests it answers; 0 for any number.
    times: u32,
    given: u32,
    answer: Result<HttpResponse, (ErrorKind, String)>,
}

impl FakeHttp {
    /// Creates one without answers: every request is `Unavailable`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers every request whose URL contains `url_part`, unless an answer added earlier matches.
    #[must_use]
    pub fn on(self, url_part: &str, status: u16, body: &str) -> Self {
        self.lay(url_part, 0, Ok(response(status, body)))
    }

    /// Answers one such request, after which answers added later apply.
    #[must_use]
    pub fn once(self, url_part: &str, status: u16, body: &str) -> Self {
        self.lay(url_part, 1, Ok(response(status, body)))
    }

    /// Answers with a given response, including headers.
    #[must_use]
    pub fn with(self, url_part: &str, response: HttpResponse) -> Self {
        self.lay(url_part, 0, Ok(response))
    }

    /// Fails one such request.
    #[must_use]
    pub fn fails_once(self, url_part: &str, kind: ErrorKind, message: &str) -> Self {
        self.lay(url_part, 1, Err((kind, message.to_owned())))
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.lock().requests.iter().map(|(_, request)| request.clone()).collect()
    }

    /// The tenants of the requests, in order.
    pub fn tenants(&self) -> Vec<TenantId> {
        self.lock().requests.iter().map(|(tenant, _)| tenant.clone()).collect()
    }

    fn lay(self, url_part: &str, times: u32, answer: Result<HttpResponse, (ErrorKind, String)>) -> Self {
        self.lock().answers.push(LaidAnswer { url_part: url_part.to_owned(), times, given: 0, answer });
        self
    }

    fn lock(&self) -> MutexGuard<'_, FakeHttpState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn response(status: u16, body: &str) -> HttpResponse {
    let content_type =
        if body.starts_with(['{', '[']) { "application/json" } else { "text/html; charset=utf-8" };
    HttpResponse {
        status,
        headers: vec![("content-type".into(), content_type.into())],
        body: body.to_owned(),
    }
}

#[async_trait]
impl Http for FakeHttp {
    async fn send(&self, tenant: &TenantId, request: HttpRequest) -> Result<HttpResponse> {
        let mut state = self.lock();
        let laid = state.answers.iter_mut().find(|laid| {
            request.url.contains(&laid.url_part) && (laid.times == 0 || laid.given < laid.times)
        });
        let answer = match laid {
            Some(laid) => {
                laid.given = laid.given.saturating_add(1);
                laid.answer.clone().map_err(|(kind, message)| Error::new(kind, message))
            }
            None => Err(Error::new(
                ErrorKind::Unavailable,
                format!("no answer is laid out for `{}`", request.url),
            )),
        };
        state.requests.push((tenant.clone(), request));
        answer
    }

    /// A URL may be reached if there is an answer for it.
    async fn may_reach(&self, _tenant: &TenantId, url: &str) -> Result<()> {
        if self.lock().answers.iter().any(|laid| url.contains(&laid.url_part)) {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Denied, format!("`{url}` is a forbidden address")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use weft_core::seam::http::HttpBody;

    #[tokio::test]
    async fn answers_are_given_in_order_and_requests_are_kept() {
        let http = FakeHttp::new()
            .once("/a", 503, "wait")
            .fails_once("/a", ErrorKind::Timeout, "slow")
            .on("/a", 200, "{}");
        let get = |url: &str| HttpRequest {
            method: "GET".into(),
            url: url.into(),
            headers: vec![],
            body: HttpBody::Empty,
            time_limit: Duration::from_secs(1),
            body_max: 10,
            proxy: None,
        };
        let tenant = TenantId::from("t");
        let mut seen = Vec::new();
        for url in ["http://x/a", "http://x/a", "http://x/a", "http://x/b"] {
            seen.push(http.send(&tenant, get(url)).await.map(|r| r.status).map_err(|e| e.kind));
        }
        assert_eq!(seen, [Ok(503), Err(ErrorKind::Timeout), Ok(200), Err(ErrorKind::Unavailable)]);
        assert_eq!(http.requests().len(), 4);
        assert_eq!(http.tenants()[0], tenant);
    }
}
