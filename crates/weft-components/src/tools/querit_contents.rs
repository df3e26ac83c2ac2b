//! The QueritContents component: fetches web pages by their addresses with Querit and returns their texts.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Error, ErrorKind, Json, Result, Role, Template, ToolSpec};

use super::querit_search::{HOST, answered};
use super::search::answer::{rows, rows_if_any, text};
use super::search::several::Several;
use super::search::{API_KEY, Ask, Asks, BASE_URL, FOUND, Facts, Hit, Request, Service, Step, component};
use crate::params::{Field, FieldGroup, Kind, Params, choice, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

/// Maximum number of pages per request.
// The service refuses more.
const PAGES_MAX: usize = 10;
/// Maximum number of characters in a page.
const PAGE_MAX: usize = 100_000;
/// Time limit for all pages of a request: longer than the service may take for one.
const TIME_LIMIT: Duration = Duration::from_secs(70);

static URLS: Field = Field::raw(
    "urls",
    Kind::Texts,
    "the addresses of the pages, at most ten, also as one comma-separated text",
)
.by_model("the addresses of the pages to read, ten at most, each whole: https://example.org/page");
static FORMAT: Field<&str> = Field::choice(
    "format",
    "markdown",
    &[choice("text", "plain text"), choice("markdown", ""), choice("html", "")],
    "the format of the texts",
)
.by_model_if_wanted(
    "`markdown` keeps headings and lists, `text` is plain, `html` is the page as it was written",
);
static CRAWL_TIMEOUT: Field<usize> =
    Field::count("crawl_timeout", 10, &(1..=60), "the time limit of the service for one page")
        .unit("seconds")
        .by_model_if_wanted("seconds that one page may take; more for slow pages");
static EXTRAS_META: Field<bool> =
    Field::flag("extras_meta", "whether to include the titles and dates of the pages").on_by_default();

static FACTS: Facts = Facts {
    time_limit: TIME_LIMIT,
    hit_max: PAGE_MAX,
    asks: Asks { query: None, top: None, key: Some(&API_KEY), base: &BASE_URL },
    ..Facts::keyed("Querit")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "QueritContents",
    role: Role::Step,
    summary: "Reads web pages by their addresses with Querit and returns their texts as citable sources.",
    fields: &[
        fields(&[&URLS, &API_KEY, &FORMAT, &EXTRAS_META]),
        FieldGroup {
            title: "Service",
            fields: &[&CRAWL_TIMEOUT, &BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR],
        },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "querit_contents", idempotent: true, sources: true }),
    build: |source| component(source, QueritContents::of),
};

struct QueritContents {
    urls: Several,
    format: &'static str,
    seconds: usize,
    extras: bool,
}

impl QueritContents {
    fn of(params: &mut Params<'_>) -> Self {
        Self {
            urls: Several::of(params, &URLS),
            format: params.take(&FORMAT),
            seconds: params.take(&CRAWL_TIMEOUT),
            extras: params.take(&EXTRAS_META),
        }
    }
}

impl Service for QueritContents {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn texts(&self) -> Vec<&Template> {
        self.urls.texts().collect()
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else {
            let urls = self.urls.pages(ask.inputs, PAGES_MAX)?;
            if urls.is_empty() {
                return Ok(Step::Hits(Vec::new()));
            }
            let body = json!({"urls": urls, "format": self.format, "crawlTimeout": self.seconds, "extrasMeta": self.extras});
            let request = Request::post(ask.url(HOST, "/v1/contents", &[])?, body);
            return Ok(Step::Ask(request.header("Accept", "application/json").bearer(ask.key)));
        };
        let answer = answered(answer)?;
        let pages = rows(&answer, "/results")?;
        let statuses = rows_if_any(&answer, "/statuses")?.unwrap_or_default();
        // Failed pages are identified by id, in a separate list.
        let failed =
            statuses.iter().filter(|status| !text(status, "/status").eq_ignore_ascii_case("success"));
        let failed: HashSet<String> = failed.map(|status| text(status, "/id")).collect();
        let read = |page: &Json| !failed.contains(&text(page, "/id"));
        if (pages.is_empty() && !failed.is_empty()) || (!pages.is_empty() && !pages.iter().any(read)) {
            return Err(Error::new(ErrorKind::Unavailable, "none of the pages could be read")
                .help("check the addresses, or raise `crawl_timeout`"));
        }
        let told = |page: Json| {
            if read(&page) {
                hit(page)
            } else {
                // Otherwise a model would take it for an empty page.
                Hit { content: "(could not be read)".to_owned(), ..hit(page) }
            }
        };
        Ok(Step::Hits(pages.into_iter().map(told).collect()))
    }
}

fn hit(row: Json) -> Hit {
    let (title, content) = (text(&row, "/extrasMeta/title"), text(&row, "/content"));
    Hit { url: text(&row, "/url"), title, content, score: None, row }
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, asked, good, header};
    use serde_json::json;
    use weft_core::ErrorKind;
    use weft_core::seam::http::HttpBody;

    fn read() -> serde_json::Value {
        json!({"error_code": 200, "searchTime": 1.4, "statuses": [{"id": "2", "status": "failed"}, {"id": "1", "status": "success"}],
            "results": [{"id": "1", "url": "https://a.example/", "content": "about a", "extrasMeta": {"title": "A"}},
                {"id": "2", "url": "https://b.example/", "content": ""}]})
    }

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let sample = Sample {
            kind: "QueritContents",
            params: json!({"api_key": "not-a-real-one", "urls": ["https://a.example/"]}),
            key: Some("api_key"),
            answers: &[good(read())],
            nothing: &[good(json!({"results": [], "statuses": []}))],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn pages_are_matched_with_their_outcomes() {
        let params =
            json!({"api_key": "k-1", "urls": "https://a.example/ https://b.example/", "crawl_timeout": 20});
        let (sent, result) = asked("QueritContents", params, &[good(read())]).await;
        assert_eq!(
            (sent[0].url.as_str(), sent[0].time_limit.as_secs()),
            ("https://api.querit.ai/v1/contents", 70)
        );
        assert_eq!(header(&sent[0], "Authorization"), Some("Bearer k-1"));
        let urls = ["https://a.example/", "https://b.example/"];
        let body = json!({"urls": urls, "format": "markdown", "crawlTimeout": 20, "extrasMeta": true});
        assert_eq!(sent[0].body, HttpBody::Json(body));
        let text = "ID: 0\nTitle: A\nURL: https://a.example/\nabout a\n------\nID: 1\nTitle: https://b.example/\n\
                    URL: https://b.example/\n(could not be read)";
        assert_eq!(result.unwrap()["formalized_content"], text);
    }

    #[tokio::test]
    async fn no_page_read_is_an_error_and_so_are_too_many() {
        let none = good(json!({"results": [], "statuses": [{"id": "1", "status": "failed"}]}));
        let params = json!({"api_key": "k-1", "urls": "https://a.example/"});
        assert_eq!(
            asked("QueritContents", params, &[none]).await.1.unwrap_err().kind,
            ErrorKind::Unavailable
        );
        let many: Vec<String> = (0..11).map(|n| format!("https://a.example/{n}")).collect();
        let (sent, result) = asked("QueritContents", json!({"api_key": "k-1", "urls": many}), &[]).await;
        assert_eq!((sent.len(), result.unwrap_err().kind), (0, ErrorKind::Invalid));
        let (sent, result) = asked("QueritContents", json!({"api_key": "k-1", "urls": ""}), &[]).await;
        assert_eq!((sent.len(), result.unwrap()["json"].clone()), (0, json!([])));
    }
}
