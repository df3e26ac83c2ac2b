//! The TavilyExtract component: fetches web pages by their addresses with Tavily and returns their texts.

use std::time::Duration;

use serde_json::json;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Error, ErrorKind, Json, Result, Role, Template, ToolSpec};

use super::search::answer::{self, rows, rows_if_any, text};
use super::search::several::Several;
use super::search::{API_KEY, Ask, Asks, BASE_URL, FOUND, Facts, Hit, Request, Service, Step, component};
use super::tavily_search::HOST;
use crate::params::{Field, FieldGroup, Kind, Params, choice, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

/// Maximum number of pages per request.
// The service refuses more, with its own message.
const PAGES_MAX: usize = 20;
/// Maximum number of characters in a page.
const PAGE_MAX: usize = 100_000;
/// Time limit for all pages of a request.
// The service reads the pages one after the other, including scripts, and answers when the last one is done.
const TIME_LIMIT: Duration = Duration::from_secs(600);

static URLS: Field =
    Field::raw("urls", Kind::Texts, "the addresses of the pages, also as one comma-separated text")
        .by_model("the addresses of the pages to read, each whole: https://example.org/page");
static EXTRACT_DEPTH: Field<&str> = Field::choice(
    "extract_depth",
    "basic",
    &[choice("basic", "quick"), choice("advanced", "includes tables and embedded content")],
    "how thoroughly to read",
)
.by_model_if_wanted("`advanced` for pages with tables or embedded content, else `basic`");
static FORMAT: Field<&str> = Field::choice(
    "format",
    "markdown",
    &[choice("markdown", ""), choice("text", "plain text")],
    "the format of the texts",
)
.by_model_if_wanted("`markdown` keeps headings and lists, `text` is plain");

static FACTS: Facts = Facts {
    time_limit: TIME_LIMIT,
    hit_max: PAGE_MAX,
    asks: Asks { query: None, top: None, key: Some(&API_KEY), base: &BASE_URL },
    ..Facts::keyed("Tavily")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "TavilyExtract",
    role: Role::Step,
    summary: "Reads web pages by their addresses with Tavily and returns their texts as citable sources.",
    fields: &[
        fields(&[&URLS, &API_KEY, &EXTRACT_DEPTH, &FORMAT]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: Some(TIME_LIMIT),
    measuring_only: false,
    tool: Some(ToolSpec { function: "tavily_extract", idempotent: true, sources: true }),
    build: |source| component(source, TavilyExtract::of),
};

struct TavilyExtract {
    urls: Several,
    depth: &'static str,
    format: &'static str,
}

impl TavilyExtract {
    fn of(params: &mut Params<'_>) -> Self {
        Self {
            urls: Several::of(params, &URLS),
            depth: params.take(&EXTRACT_DEPTH),
            format: params.take(&FORMAT),
        }
    }
}

impl Service for TavilyExtract {
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
            let body = json!({"urls": urls, "extract_depth": self.depth, "format": self.format});
            return Ok(Step::Ask(Request::post(ask.url(HOST, "/extract", &[])?, body).bearer(ask.key)));
        };
        let answer = answer::json(answer)?;
        let read = rows(&answer, "/results")?;
        let failed = rows_if_any(&answer, "/failed_results")?.unwrap_or_default();
        if let ([], Some(first)) = (&*read, failed.first()) {
            let message = format!("cannot read `{}`: {}", text(first, "/url"), text(first, "/error"));
            return Err(Error::new(ErrorKind::Unavailable, message).help("check the address"));
        }
        Ok(Step::Hits(read.into_iter().map(page).chain(failed.into_iter().map(unread)).collect()))
    }
}

fn page(row: Json) -> Hit {
    let (url, content) = (text(&row, "/url"), text(&row, "/raw_content"));
    Hit { title: text(&row, "/title"), url, content, score: None, row }
}

/// Returns a hit that says that a page could not be read: otherwise a model would take it for an empty page.
fn unread(row: Json) -> Hit {
    let content = format!("(could not be read: {})", text(&row, "/error"));
    Hit { url: text(&row, "/url"), content, row, ..Hit::default() }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, failure};
    use crate::tools::search::testing::{Sample, asked, good, header};
    use serde_json::json;
    use weft_core::ErrorKind;
    use weft_core::seam::http::HttpBody;

    fn read() -> serde_json::Value {
        json!({"results": [{"url": "https://a.example/x", "raw_content": "# A\nabout a", "images": []}],
            "failed_results": [{"url": "https://b.example/", "error": "not found"}], "response_time": 0.1})
    }

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let sample = Sample {
            kind: "TavilyExtract",
            params: json!({"api_key": "tvly-not-a-real-one", "urls": "https://a.example/x"}),
            key: Some("api_key"),
            answers: &[good(read())],
            nothing: &[good(json!({"results": [], "failed_results": []}))],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn pages_are_matched_by_url_and_missing_ones_reported() {
        let params = json!({"api_key": "k-1", "urls": "https://a.example/x, https://b.example/"});
        let (sent, result) = asked("TavilyExtract", params, &[good(read())]).await;
        assert_eq!(
            (sent[0].url.as_str(), sent[0].time_limit.as_secs()),
            ("https://api.tavily.com/extract", 600)
        );
        assert_eq!(header(&sent[0], "Authorization"), Some("Bearer k-1"));
        let urls = ["https://a.example/x", "https://b.example/"];
        let body = json!({"urls": urls, "extract_depth": "basic", "format": "markdown"});
        assert_eq!(sent[0].body, HttpBody::Json(body));
        let result = result.unwrap();
        assert_eq!(result["json"].as_array().unwrap().len(), 2);
        let text = result["formalized_content"].as_str().unwrap();
        assert!(text.contains("# A\nabout a") && text.contains("could not be read: not found"), "{text}");
        let none = json!({"results": [], "failed_results": [{"url": "https://b.example/", "error": "gone"}]});
        let params = json!({"api_key": "k-1", "urls": ["https://b.example/?a=1,2"]});
        let (sent, result) = asked("TavilyExtract", params, &[good(none)]).await;
        assert!(
            matches!(&sent[0].body, HttpBody::Json(body) if body["urls"] == json!(["https://b.example/?a=1,2"]))
        );
        assert_eq!(result.unwrap_err().kind, ErrorKind::Unavailable);
    }

    #[tokio::test]
    async fn urls_may_come_from_another_component_and_are_limited() {
        let params = json!({"api_key": "k-1", "urls": "{Agent:A@urls}"});
        let node = Node::new("TavilyExtract", params.clone());
        let many: Vec<String> = (0..21).map(|n| format!("https://a.example/{n}")).collect();
        let setting = Setting::values([("Agent:A@urls", json!(many))]);
        let error = failure(&node, setting).await;
        assert!(error.kind == ErrorKind::Invalid && error.message.contains("21 pages"), "{}", error.full());
        let (sent, result) = asked("TavilyExtract", params, &[]).await;
        assert_eq!((sent.len(), result.unwrap()["json"].clone()), (0, json!([])));
    }
}
