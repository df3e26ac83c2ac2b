//! The Bing component: searches the web or the news with the Bing Web Search API. Microsoft has closed it to new
//! customers; other providers offer the same API at their own addresses.

use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Json, Result, Role, ToolSpec};

use super::search::answer::{json, rows_if_any, text};
use super::search::{
    API_KEY, Ask, BASE_URL, FOUND, Facts, Hit, QUERY, Request, Service, Step, TOP_N, component,
};
use crate::params::{Field, FieldGroup, Params, choice, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

const HOST: &str = "https://api.bing.microsoft.com";
/// Maximum number of hits per request.
// The service refuses more.
const COUNT_MAX: usize = 50;

static CHANNEL: Field<&str> = Field::choice(
    "channel",
    "Webpages",
    &[choice("Webpages", "any page"), choice("News", "recent news")],
    "the kind of pages to search",
);
static COUNTRY: Field<String> =
    Field::text("country", "the country of the search, as a two-letter code").or("CN");
static LANGUAGE: Field<String> = Field::text("language", "the language of the search, as a code").or("en");

static FACTS: Facts = Facts::keyed("Bing");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Bing",
    role: Role::Step,
    summary: "Searches the web or the news with Bing and returns the results as citable sources.",
    fields: &[
        fields(&[&QUERY, &API_KEY, &CHANNEL, &COUNTRY, &LANGUAGE, &TOP_N]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "bing_search", idempotent: true, sources: true }),
    build: |source| component(source, Bing::of),
};

/// A search with Bing.
pub(super) struct Bing {
    news: bool,
    country: String,
    language: String,
}

impl Bing {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        Self {
            news: params.take(&CHANNEL) == "News",
            country: params.take(&COUNTRY),
            language: params.take(&LANGUAGE),
        }
    }
}

impl Service for Bing {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let (path, list) =
            if self.news { ("/v7.0/news/search", "/value") } else { ("/v7.0/search", "/webPages/value") };
        let [answer, ..] = answers else {
            let count = ask.top.min(COUNT_MAX).to_string();
            let (country, language) = (self.country.trim(), self.language.trim());
            let mut query = vec![("q", ask.query), ("count", &count)];
            query.extend(Some(("cc", country)).filter(|_| !country.is_empty()));
            let mut request =
                Request::get(ask.url(HOST, path, &query)?).header("Ocp-Apim-Subscription-Key", ask.key);
            if !language.is_empty() {
                request = request.header("Accept-Language", language);
            }
            return Ok(Step::Ask(request));
        };
        let hits = rows_if_any(&json(answer)?, list)?.unwrap_or_default();
        Ok(Step::Hits(hits.into_iter().map(hit).collect()))
    }
}

fn hit(row: Json) -> Hit {
    // Pages have a snippet, news a description.
    let content = [text(&row, "/snippet"), text(&row, "/description")].concat();
    Hit { url: text(&row, "/url"), title: text(&row, "/name"), content, score: None, row }
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, asked, good, header};
    use serde_json::json;

    fn found() -> serde_json::Value {
        json!({"_type": "SearchResponse", "webPages": {"totalEstimatedMatches": 1, "value": [
            {"id": "https://api.bing.microsoft.com/api/v7/#0", "name": "A", "url": "https://a.example/", "snippet": "about a"}]}})
    }

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let sample = Sample {
            kind: "Bing",
            params: json!({"api_key": "not-a-real-one"}),
            key: Some("api_key"),
            answers: &[good(found())],
            nothing: &[good(json!({"_type": "SearchResponse"}))],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn pages_and_news_are_requested_by_region_and_language() {
        let params = json!({"api_key": "k-1", "country": "CH", "language": "de", "top_n": 10});
        let (sent, _) = asked("Bing", params, &[good(found())]).await;
        assert_eq!(sent[0].url, "https://api.bing.microsoft.com/v7.0/search?q=Q+%26+A&count=10&cc=CH");
        assert_eq!(header(&sent[0], "Ocp-Apim-Subscription-Key"), Some("k-1"));
        assert_eq!(header(&sent[0], "Accept-Language"), Some("de"));
        let news = json!({"_type": "News", "value": [
            {"name": "N", "url": "https://n.example/", "description": "what happened", "datePublished": "2024-05-01"}]});
        let params = json!({"api_key": "k-1", "channel": "news", "country": ""});
        let (sent, result) = asked("Bing", params, &[good(news)]).await;
        assert_eq!(sent[0].url, "https://api.bing.microsoft.com/v7.0/news/search?q=Q+%26+A&count=10");
        assert_eq!(result.unwrap()["chunks"][0]["content"], "what happened");
    }
    #[tokio::test]
    async fn a_failure_is_not_reported_as_no_hits() {
        let failed = good(json!({"error": {"code": "x", "message": "the index is gone"}}));
        let error =
            asked("Bing", json!({"api_key": "not-a-real-one"}), &[failed]).await.1.unwrap_err().full();
        assert!(error.contains("it says: the index is gone"), "{error}");
    }
}
