//! The QueritSearch component: searches the web with Querit.

use serde_json::json;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Error, Json, Result, Role, Template, ToolSpec};

use super::search::answer::{self, rows_if_any, text};
use super::search::several::Several;
use super::search::{
    API_KEY, Ask, Asks, BASE_URL, FOUND, Facts, HITS_MAX, Hit, QUERY, Request, Service, Step, component,
};
use crate::params::{Field, FieldGroup, Kind, Params, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES, refused};

/// Host of the service.
pub(super) const HOST: &str = "https://api.querit.ai";
/// Maximum number of characters of its error message.
const SAID_MAX: usize = 300;

static COUNT: Field<usize> = Field::count("count", 10, &(1..=HITS_MAX), "the maximum number of results")
    .by_model_if_wanted("how many hits, at most");
static CHUNKS_PER_DOC: Field<usize> =
    Field::count("chunks_per_doc", 3, &(1..=3), "the number of passages per page that are joined")
        .by_model_if_wanted("how many passages of a page are put together");
static SITE_INCLUDE: Field = Field::raw("site_include", Kind::Texts, "the only sites to search")
    .by_model_if_wanted("sites to look at and no others, such as example.org");
static SITE_EXCLUDE: Field = Field::raw("site_exclude", Kind::Texts, "sites to exclude")
    .by_model_if_wanted("sites to leave out, such as example.org");
static TIME_RANGE: Field<Template> = Field::template(
    "time_range",
    "the permitted age of pages: `d7`, `w1`, `m3` and `y1` for days, weeks, months and years, or two dates such as `2024-01-01to2024-03-31`",
)
.by_model_if_wanted(
    "how old pages may be: d7, w1, m3, y1 for days, weeks, months, years, or two dates such as 2024-01-01to2024-03-31",
);
static COUNTRY_INCLUDE: Field =
    Field::raw("country_include", Kind::Texts, "countries of origin of the pages")
        .by_model_if_wanted("countries that pages are from");
static LANGUAGE_INCLUDE: Field = Field::raw("language_include", Kind::Texts, "languages of the pages")
    .by_model_if_wanted("languages that pages are written in");

static FACTS: Facts = Facts {
    asks: Asks { query: Some(&QUERY), top: Some(&COUNT), key: Some(&API_KEY), base: &BASE_URL },
    ..Facts::keyed("Querit")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "QueritSearch",
    role: Role::Step,
    summary: "Searches the web with Querit and returns the results as citable sources.",
    fields: &[
        fields(&[&QUERY, &API_KEY, &COUNT, &CHUNKS_PER_DOC]),
        FieldGroup {
            title: "Scope",
            fields: &[&SITE_INCLUDE, &SITE_EXCLUDE, &TIME_RANGE, &COUNTRY_INCLUDE, &LANGUAGE_INCLUDE],
        },
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "querit_search", idempotent: true, sources: true }),
    build: |source| component(source, QueritSearch::of),
};

/// A search with Querit.
pub(super) struct QueritSearch {
    passages: usize,
    time_range: Template,
    /// Conditions on the pages, each with its path among the filters.
    filters: [(&'static str, Several); 4],
}

impl QueritSearch {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        Self {
            passages: params.take(&CHUNKS_PER_DOC),
            time_range: params.take(&TIME_RANGE),
            filters: [
                ("/sites/include", Several::of(params, &SITE_INCLUDE)),
                ("/sites/exclude", Several::of(params, &SITE_EXCLUDE)),
                ("/geo/countries/include", Several::of(params, &COUNTRY_INCLUDE)),
                ("/languages/include", Several::of(params, &LANGUAGE_INCLUDE)),
            ],
        }
    }

    fn body(&self, ask: &Ask<'_>) -> Result<Json> {
        let mut body = json!({"query": ask.query, "count": ask.top, "chunksPerDoc": self.passages});
        let range = self.time_range.render(ask.inputs)?;
        let mut set = |place: &str, value: Json| {
            let mut at = &mut body["filters"];
            for name in place.trim_start_matches('/').split('/') {
                at = &mut at[name];
            }
            *at = value;
        };
        match range.trim() {
            "" => {}
            range if is_range(range) => set("/timeRange/date", range.into()),
            other => {
                return Err(Error::invalid(format!("`{other}` is not a range of time"))
                    .help("write `d7`, `w1`, `m3`, `y1`, or two dates such as `2024-01-01to2024-03-31`"));
            }
        }
        for (place, texts) in &self.filters {
            let texts = texts.rendered(ask.inputs)?;
            if !texts.is_empty() {
                set(place, texts.into());
            }
        }
        Ok(body)
    }
}

/// Whether it is a letter and a number, or two dates.
fn is_range(text: &str) -> bool {
    // The date parser accepts other forms as well, and the number parser accepts a plus sign.
    let date = |text: &str| text.parse::<jiff::civil::Date>().is_ok() && text.len() == "2024-01-01".len();
    let number = |text: &str| text.parse::<u32>().is_ok_and(|number| number > 0) && !text.starts_with('+');
    match text.split_once("to") {
        Some((from, to)) => date(from) && date(to),
        None => text.strip_prefix(['d', 'w', 'm', 'y']).is_some_and(number),
    }
}

impl Service for QueritSearch {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn texts(&self) -> Vec<&Template> {
        self.filters.iter().flat_map(|(_, texts)| texts.texts()).chain([&self.time_range]).collect()
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else {
            let request = Request::post(ask.url(HOST, "/v1/search", &[])?, self.body(ask)?);
            return Ok(Step::Ask(request.header("Accept", "application/json").bearer(ask.key)));
        };
        let hits = rows_if_any(&answered(answer)?, "/results/result")?.unwrap_or_default();
        Ok(Step::Hits(hits.into_iter().map(hit).collect()))
    }
}

/// Returns the answer of Querit, which reports failures in the body, with a success status.
///
/// # Errors
/// `Garbled` when it is not JSON; for a failure, the kind of its code, with its message.
pub(super) fn answered(answer: &HttpResponse) -> Result<Json> {
    let json = answer::json(answer)?;
    let code = text(&json, "/error_code");
    if matches!(code.trim(), "" | "0" | "200") {
        return Ok(json);
    }
    let status = code.trim().parse().ok().filter(|status| (400..600).contains(status)).unwrap_or(400);
    let said: String = text(&json, "/error_msg").trim().chars().take(SAID_MAX).collect();
    let said = if said.is_empty() { format!("it failed ({code})") } else { format!("{said} ({code})") };
    // As if it were the HTTP status: retries depend on the kind.
    let kind = refused(&HttpResponse { status, headers: Vec::new(), body: String::new() }).kind;
    Err(Error::new(kind, said).help("check that `api_key` contains a valid key, and check the request"))
}

fn hit(row: Json) -> Hit {
    Hit {
        url: text(&row, "/url"),
        title: text(&row, "/title"),
        content: text(&row, "/snippet"),
        score: None,
        row,
    }
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, asked, good, header};
    use serde_json::json;
    use weft_core::ErrorKind;
    use weft_core::seam::http::HttpBody;

    fn found() -> serde_json::Value {
        json!({"error_code": 200, "took": "1ms", "results": {"result": [
            {"url": "https://a.example/", "title": "A", "snippet": "about a", "page_age": "2024-05-01T00:00:00Z"}]}})
    }

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let sample = Sample {
            kind: "QueritSearch",
            params: json!({"api_key": "not-a-real-one"}),
            key: Some("api_key"),
            answers: &[good(found())],
            nothing: &[good(json!({"results": {}}))],
        };
        sample.holds().await;
    }

    /// The answer reports it with a success status.
    #[tokio::test]
    async fn a_failure_is_not_reported_as_no_hits() {
        for (code, message, kind) in [
            (json!(400), "bad query", ErrorKind::Invalid),
            (json!("401"), "no such key", ErrorKind::Unauthenticated),
            (json!(429), "", ErrorKind::RateLimited),
            (json!(503), "", ErrorKind::Unavailable),
            (json!(1001), "odd", ErrorKind::Invalid),
        ] {
            let failed = json!({"error_code": code, "error_msg": message, "results": {"result": []}});
            let error =
                asked("QueritSearch", json!({"api_key": "k-1"}), &[good(&failed)]).await.1.unwrap_err();
            assert_eq!(error.kind, kind, "{}", error.full());
            assert!(error.message.contains(message) && error.help.is_some(), "{}", error.full());
            let failed = json!({"error_code": code, "error_msg": message, "results": []});
            let params = json!({"api_key": "k-1", "urls": "https://a.example/"});
            assert_eq!(asked("QueritContents", params, &[good(&failed)]).await.1.unwrap_err().kind, kind);
        }
    }

    #[tokio::test]
    async fn filters_are_sent_if_set() {
        let (sent, _) =
            asked("QueritSearch", json!({"api_key": "k-1", "site_include": []}), &[good(found())]).await;
        assert_eq!(sent[0].url, "https://api.querit.ai/v1/search");
        assert_eq!(header(&sent[0], "Authorization"), Some("Bearer k-1"));
        assert_eq!(sent[0].body, HttpBody::Json(json!({"query": "Q & A", "count": 10, "chunksPerDoc": 3})));
        let params = json!({"api_key": "k-1", "count": 5, "chunks_per_doc": 1, "site_include": ["a.example"],
            "site_exclude": "b.example", "time_range": "w2", "country_include": ["france"], "language_include": ["french"]});
        let (sent, result) = asked("QueritSearch", params, &[good(found())]).await;
        let filters = json!({"sites": {"include": ["a.example"], "exclude": ["b.example"]}, "timeRange": {"date": "w2"},
            "geo": {"countries": {"include": ["france"]}}, "languages": {"include": ["french"]}});
        let body = json!({"query": "Q & A", "count": 5, "chunksPerDoc": 1, "filters": filters});
        assert_eq!(sent[0].body, HttpBody::Json(body));
        assert_eq!(result.unwrap()["chunks"][0]["content"], "about a");
    }

    #[tokio::test]
    async fn an_invalid_time_range_is_reported_before_any_request() {
        for range in ["d0", "x1", "d", "2024-01-01", "2024-01-01to", "d+1", "2024-13-01to2024-14-01"] {
            let params = json!({"api_key": "k-1", "time_range": range});
            let (sent, result) = asked("QueritSearch", params, &[]).await;
            assert_eq!((sent.len(), result.unwrap_err().kind), (0, ErrorKind::Invalid), "{range}");
        }
        for range in ["d7", "y1", "2024-01-01to2024-03-31"] {
            assert!(super::is_range(range), "{range}");
        }
    }
}
