//! Metrics for operators, in the text format of Prometheus. Requests are counted here; all other values are collected
//! from their sources when the page is read. No label has a value from outside: routes are those of the router, and
//! all other labels come from a closed set of words.

mod page;

use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use prometheus::proto::MetricFamily;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry};
use tokio::time::Instant;
use weft_core::{Error, Result};

pub use self::page::page;

use crate::connection::body::GuardedBody;
use crate::state::ServerState;

/// Label of requests without a matching route.
const NO_ROUTE: &str = "none";

/// Buckets for the duration of requests, in seconds. Answers of models take minutes.
const BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0];

/// Metrics of the requests to a server.
#[derive(Debug)]
pub struct HttpMetrics {
    registry: Registry,
    requests: IntCounterVec,
    seconds: HistogramVec,
    streams: IntGauge,
    /// Start of the counting, in milliseconds since 1970.
    since_ms: i64,
}

impl HttpMetrics {
    /// Creates metrics that start at zero.
    ///
    /// # Errors
    /// `Internal` when two metrics have the same name.
    pub fn new(now_ms: i64) -> Result<Self> {
        Self::registered(now_ms).map_err(|cause| Error::internal("cannot count requests").because(cause))
    }

    fn registered(since_ms: i64) -> prometheus::Result<Self> {
        let requests =
            Opts::new("weft_http_requests_total", "Requests that were answered or whose stream has started.");
        let seconds = HistogramOpts::new(
            "weft_http_request_duration_seconds",
            "Time until requests were answered or their stream started.",
        );
        let all = Self {
            registry: Registry::new(),
            requests: IntCounterVec::new(requests, &["route", "method", "status"])?,
            seconds: HistogramVec::new(seconds.buckets(BUCKETS.to_vec()), &["route", "method"])?,
            streams: IntGauge::new("weft_http_streams_open", "Open event streams.")?,
            since_ms,
        };
        all.registry.register(Box::new(all.requests.clone()))?;
        all.registry.register(Box::new(all.seconds.clone()))?;
        all.registry.register(Box::new(all.streams.clone()))?;
        Ok(all)
    }

    fn answered(&self, route: &str, method: &str, status: StatusCode, took: Duration) {
        let counted = self.requests.get_metric_with_label_values(&[route, method, class(status)]);
        let timed = self.seconds.get_metric_with_label_values(&[route, method]);
        // There are as many values as labels, so neither can fail.
        if let (Ok(counted), Ok(timed)) = (counted, timed) {
            counted.inc();
            timed.observe(took.as_secs_f64());
        }
    }

    /// Counts a stream as open until its reader is done.
    fn follow(&self, response: Response) -> Response {
        let kind = response.headers().get(header::CONTENT_TYPE);
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
            return response;
        }
        let open = OpenStream::begin(self.streams.clone());
        response.map(|body| Body::new(GuardedBody::new(body, open)))
    }

    fn families(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }
}

/// Guard for an open stream.
struct OpenStream(IntGauge);

impl OpenStream {
    fn begin(streams: IntGauge) -> Self {
        streams.inc();
        Self(streams)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Returns the label of a method; clients may send arbitrary ones.
fn known(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

/// Counts requests by route.
pub async fn count_requests(State(state): State<ServerState>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = known(request.method());
    let began = Instant::now();
    let response = next.run(request).await;
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    state.metrics.answered(route, method, response.status(), began.elapsed());
    state.metrics.follow(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_statuses_are_a_fixed_set_of_labels() {
        assert_eq!([known(&Method::GET), known(&Method::TRACE)], ["GET", "other"]);
        assert_eq!(known(&Method::from_bytes(b"X-WHATEVER-4711").unwrap()), "other");
        let classes =
            [100, 200, 204, 308, 404, 503, 999].map(|code| class(StatusCode::from_u16(code).unwrap()));
        assert_eq!(classes, ["1xx", "2xx", "2xx", "3xx", "4xx", "5xx", "5xx"]);
    }

    #[test]
    fn a_stream_counts_as_open_until_its_body_is_dropped() {
        let metrics = HttpMetrics::new(0).unwrap();
        let stream = metrics.follow(crate::sse::event_stream(Body::from("data: x\n\n")));
        let plain = metrics.follow(Response::new(Body::from("x")));
        assert_eq!(metrics.streams.get(), 1);
        drop(plain);
        assert_eq!(metrics.streams.get(), 1);
        drop(stream);
        assert_eq!(metrics.streams.get(), 0);
    }
}
