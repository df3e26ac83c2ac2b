//! The TavilySearch component: searches the web with Tavily.

use serde_json::json;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Json, Result, Role, Template, ToolSpec};

use super::search::answer::{self, rows, text};
use super::search::several::Several;
use super::search::{
    API_KEY, Ask, Asks, BASE_URL, FOUND, Facts, Hit, QUERY, Request, Service, Step, component,
};
use crate::params::{Field, FieldGroup, Kind, Params, choice, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

/// Host of the service.
pub(super) const HOST: &str = "https://api.tavily.com";
/// Maximum number of hits in a search.
// The service refuses more.
const RESULTS_MAX: usize = 20;
/// Maximum age of news, in days.
const DAYS_MAX: usize = 3_650;

static TOPIC: Field<&str> = Field::choice(
    "topic",
    "general",
    &[choice("general", "any page"), choice("news", "recent news")],
    "the kind of pages to search",
)
.by_model_if_wanted("`news` for what happened lately, else `general`");
static SEARCH_DEPTH: Field<&str> = Field::choice(
    "search_depth",
    "basic",
    &[choice("basic", "one credit"), choice("advanced", "reads more of each page; two credits")],
    "how thoroughly to search",
);
static MAX_RESULTS: Field<usize> =
    Field::count("max_results", 6, &(1..=RESULTS_MAX), "the maximum number of results").older(&["top_n"]);
static DAYS: Field<usize> = Field::count("days", 14, &(1..=DAYS_MAX), "the maximum age of news")
    .unit("days")
    .shown_when("topic", &["news"]);
static INCLUDE_DOMAINS: Field =
    Field::raw("include_domains", Kind::Texts, "the only sites to search, such as `example.org`")
        .by_model_if_wanted("sites to look at and no others, such as example.org");
static EXCLUDE_DOMAINS: Field = Field::raw("exclude_domains", Kind::Texts, "sites to exclude")
    .by_model_if_wanted("sites to leave out, such as example.org");
/// Editors write it into every canvas whether or not whole pages are wanted, so that there is no warning: a search
/// returns passages, and TavilyExtract returns pages.
static INCLUDE_RAW_CONTENT: Field =
    Field::raw("include_raw_content", Kind::Flag, "has no effect").not_offered();
static INCLUDE_ANSWER: Field = Field::raw("include_answer", Kind::Flag, "has no effect").not_offered();
static INCLUDE_IMAGES: Field = Field::raw("include_images", Kind::Flag, "has no effect").not_offered();
static INCLUDE_IMAGE_DESCRIPTIONS: Field =
    Field::raw("include_image_descriptions", Kind::Flag, "has no effect").not_offered();

static FACTS: Facts = Facts {
    asks: Asks { query: Some(&QUERY), top: Some(&MAX_RESULTS), key: Some(&API_KEY), base: &BASE_URL },
    ..Facts::keyed("Tavily")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "TavilySearch",
    role: Role::Step,
    summary: "Searches the web or the news with Tavily and returns citable passages.",
    fields: &[
        fields(&[&QUERY, &API_KEY, &TOPIC, &DAYS, &SEARCH_DEPTH, &MAX_RESULTS]),
        FieldGroup {
            title: "Scope",
            fields: &[
                &INCLUDE_DOMAINS,
                &EXCLUDE_DOMAINS,
                &INCLUDE_RAW_CONTENT,
                &INCLUDE_ANSWER,
                &INCLUDE_IMAGES,
                &INCLUDE_IMAGE_DESCRIPTIONS,
            ],
        },
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "tavily_search", idempotent: true, sources: true }),
    build: |source| component(source, TavilySearch::of),
};

/// A search with Tavily.
pub(super) struct TavilySearch {
    topic: &'static str,
    depth: &'static str,
    days: usize,
    include: Several,
    exclude: Several,
}

impl TavilySearch {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        let _ = params.get(&INCLUDE_RAW_CONTENT);
        for field in [&INCLUDE_ANSWER, &INCLUDE_IMAGES, &INCLUDE_IMAGE_DESCRIPTIONS] {
            params.ignored(field, "only passages are requested");
        }
        Self {
            topic: params.take(&TOPIC),
            depth: params.take(&SEARCH_DEPTH),
            days: params.take(&DAYS),
            include: Several::of(params, &INCLUDE_DOMAINS),
            exclude: Several::of(params, &EXCLUDE_DOMAINS),
        }
    }
}

impl Service for TavilySearch {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn texts(&self) -> Vec<&Template> {
        self.include.texts().chain(self.exclude.texts()).collect()
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else {
            let mut body = json!({
                "query": ask.query,
                "topic": self.topic,
                "search_depth": self.depth,
                "max_results": ask.top.min(RESULTS_MAX),
                "include_answer": false,
                "include_images": false,
                "include_raw_content": false,
            });
            if self.topic == "news" {
                body["days"] = self.days.into();
            }
            for (name, domains) in [("include_domains", &self.include), ("exclude_domains", &self.exclude)] {
                let domains = domains.rendered(ask.inputs)?;
                if !domains.is_empty() {
                    body[name] = domains.into();
                }
            }
            return Ok(Step::Ask(Request::post(ask.url(HOST, "/search", &[])?, body).bearer(ask.key)));
        };
        let hits = rows(&answer::json(answer)?, "/results")?;
        Ok(Step::Hits(hits.into_iter().map(hit).collect()))
    }
}

fn hit(row: Json) -> Hit {
    let score = row.get("score").and_then(Json::as_f64);
    Hit { url: text(&row, "/url"), title: text(&row, "/title"), content: text(&row, "/content"), score, row }
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, asked, good, header};
    use serde_json::json;
    use weft_core::seam::http::HttpBody;

    fn found() -> serde_json::Value {
        json!({"query": "Q", "answer": null, "images": [], "response_time": 1.1, "results": [
            {"url": "https://a.example/", "title": "A", "content": "about a", "score": 0.9, "raw_content": null},
            {"url": "https://b.example/", "title": "B", "content": "about b", "score": 0.4}]})
    }

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let sample = Sample {
            kind: "TavilySearch",
            params: json!({"api_key": "tvly-not-a-real-one"}),
            key: Some("api_key"),
            answers: &[good(found())],
            nothing: &[good(json!({"results": []}))],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn news_are_requested_with_age_and_sites() {
        let params = json!({"api_key": " k-1 ", "topic": "News", "days": "7", "max_results": 5,
            "include_domains": "a.example, b.example", "exclude_domains": ["{Agent:A@none}", "c.example"]});
        let (sent, result) = asked("TavilySearch", params, &[good(found())]).await;
        assert_eq!(
            (sent[0].method.as_str(), sent[0].url.as_str()),
            ("POST", "https://api.tavily.com/search")
        );
        assert_eq!(header(&sent[0], "Authorization"), Some("Bearer k-1"));
        let body = json!({"query": "Q & A", "topic": "news", "search_depth": "basic", "max_results": 5, "days": 7,
            "include_answer": false, "include_images": false, "include_raw_content": false,
            "include_domains": ["a.example", "b.example"], "exclude_domains": ["c.example"]});
        assert_eq!(sent[0].body, HttpBody::Json(body));
        let result = result.unwrap();
        assert_eq!(result["chunks"][0]["similarity"], 0.9);
        assert_eq!(result["json"][1]["title"], "B");
        assert!(
            result["formalized_content"]
                .as_str()
                .unwrap()
                .contains("ID: 1\nTitle: B\nURL: https://b.example/\n")
        );
    }

    #[test]
    fn ineffective_settings_are_reported() {
        let params = json!({"api_key": "k", "include_images": true, "include_raw_content": true});
        let warnings = crate::testing::Node::new("TavilySearch", params).build().shape().warnings;
        assert_eq!(warnings.iter().map(|one| one.pointer.as_str()).collect::<Vec<_>>(), ["/include_images"]);
    }
}
