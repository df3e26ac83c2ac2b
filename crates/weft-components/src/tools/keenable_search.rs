//! The KeenableSearch component: searches the web with Keenable, with or without a key.

use serde_json::json;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Json, Result, Role, Template, ToolSpec};

use super::search::answer::{self, rows_if_any, text};
use super::search::request::AGENT;
use super::search::{
    API_KEY, Ask, BASE_URL, FOUND, Facts, Hit, Need, QUERY, Request, Service, Step, TOP_N, component,
};
use crate::params::{Field, FieldGroup, Params, choice, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

const HOST: &str = "https://api.keenable.ai";

static SITE: Field<Template> = Field::template("site", "the only site to search, such as `example.org`")
    .by_model_if_wanted("the only site to look at, such as example.org");
static MODE: Field<&str> = Field::choice(
    "mode",
    "pro",
    &[choice("pro", "thorough"), choice("realtime", "quick; needs a key")],
    "the search mode",
);

static FACTS: Facts = Facts::free_or_keyed("Keenable");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "KeenableSearch",
    role: Role::Step,
    summary: "Searches the web with Keenable and returns the results as citable sources.",
    fields: &[
        fields(&[&QUERY, &SITE, &API_KEY, &MODE, &TOP_N]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "keenable_search", idempotent: true, sources: true }),
    build: |source| component(source, Keenable::of),
};

/// A search with Keenable.
pub(super) struct Keenable {
    site: Template,
    mode: &'static str,
}

impl Keenable {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        Self { site: params.take(&SITE), mode: params.take(&MODE) }
    }
}

impl Service for Keenable {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn texts(&self) -> Vec<&Template> {
        vec![&self.site]
    }

    fn need(&self) -> Need {
        if self.mode == "realtime" { Need::Always } else { Need::Never }
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else {
            let mut body = json!({"query": ask.query, "mode": self.mode});
            let site = self.site.render(ask.inputs)?;
            if !site.trim().is_empty() {
                body["site"] = site.trim().into();
            }
            let path = if ask.key.is_empty() { "/v1/search/public" } else { "/v1/search" };
            let request = Request::post(ask.url(HOST, path, &[])?, body)
                .header("User-Agent", AGENT)
                .header("X-Keenable-Title", "Weft");
            return Ok(Step::Ask(match ask.key {
                "" => request,
                key => request.header("X-API-Key", key),
            }));
        };
        let hits = rows_if_any(&answer::json(answer)?, "/results")?.unwrap_or_default();
        Ok(Step::Hits(hits.into_iter().map(hit).collect()))
    }
}

fn hit(row: Json) -> Hit {
    let described = Some(text(&row, "/description")).filter(|text| !text.trim().is_empty());
    let content = described.unwrap_or_else(|| text(&row, "/snippet"));
    Hit { url: text(&row, "/url"), title: text(&row, "/title"), content, score: None, row }
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, asked, good, header};
    use serde_json::json;
    use weft_core::seam::http::HttpBody;

    fn found() -> serde_json::Value {
        json!({"results": [{"title": "A", "url": "https://a.example/", "description": "about a"}]})
    }

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let mut sample = Sample {
            kind: "KeenableSearch",
            params: json!({}),
            key: None,
            answers: &[good(found())],
            nothing: &[good(json!({"results": []}))],
        };
        sample.holds().await;
        sample.params = json!({"mode": "realtime", "api_key": "not-a-real-one"});
        sample.key = Some("api_key");
        sample.holds().await;
    }

    #[tokio::test]
    async fn a_key_uses_its_own_endpoint() {
        let (sent, result) = asked("KeenableSearch", json!({"site": " a.example"}), &[good(found())]).await;
        assert_eq!(
            (sent[0].url.as_str(), header(&sent[0], "X-API-Key")),
            ("https://api.keenable.ai/v1/search/public", None)
        );
        assert_eq!(
            sent[0].body,
            HttpBody::Json(json!({"query": "Q & A", "mode": "pro", "site": "a.example"}))
        );
        assert_eq!(result.unwrap()["chunks"][0]["content"], "about a");
        let (sent, _) = asked("KeenableSearch", json!({"api_key": "k-1"}), &[good(found())]).await;
        assert_eq!(
            (sent[0].url.as_str(), header(&sent[0], "X-API-Key")),
            ("https://api.keenable.ai/v1/search", Some("k-1"))
        );
    }
    #[tokio::test]
    async fn a_failure_is_not_reported_as_no_hits() {
        let failed = good(json!({"error": {"code": "x", "message": "the index is gone"}}));
        let error = asked("KeenableSearch", json!({}), &[failed]).await.1.unwrap_err().full();
        assert!(error.contains("it says: the index is gone"), "{error}");
    }
}
