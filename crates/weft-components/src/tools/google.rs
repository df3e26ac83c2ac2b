//! The Google component: searches the web with Google through SerpApi.

use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Json, Result, Role, Template, ToolSpec};

use super::search::answer::{json, rows_if_any, text};
use super::search::{
    API_KEY, Ask, Asks, BASE_URL, FOUND, Facts, HITS_MAX, Hit, Request, Service, Step, component,
};
use crate::params::{Field, FieldGroup, Params, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

const HOST: &str = "https://serpapi.com";
/// Maximum offset of the first hit.
// The engine itself shows no hits beyond it.
const START_MAX: usize = 1_000;

static Q: Field<Template> = Field::template("q", "the search query")
    .or("sys.query")
    .by_model("what to look for: the words that a good page would hold");
static START: Field<usize> = Field::count("start", 0, &(0..=START_MAX), "the number of results to skip")
    .by_model_if_wanted("how many hits to leave out at the top, to see those that come later");
static NUM: Field<usize> = Field::count("num", 6, &(1..=HITS_MAX), "the maximum number of results")
    .by_model_if_wanted("how many hits, at most");
// The defaults in the editors of such canvases.
static COUNTRY: Field<String> =
    Field::text("country", "the country of the search, as a two-letter code").or("cn");
static LANGUAGE: Field<String> = Field::text("language", "the language of the search, as a code").or("en");

static FACTS: Facts = Facts {
    asks: Asks { query: Some(&Q), top: Some(&NUM), key: Some(&API_KEY), base: &BASE_URL },
    ..Facts::keyed("SerpApi")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Google",
    role: Role::Step,
    summary: "Searches the web with Google and returns the results as citable sources.",
    fields: &[
        fields(&[&Q, &API_KEY, &COUNTRY, &LANGUAGE, &START, &NUM]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "google_search", idempotent: true, sources: true }),
    build: |source| component(source, Google::of),
};

/// A search with Google.
pub(super) struct Google {
    start: usize,
    country: String,
    language: String,
}

impl Google {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        Self { start: params.take(&START), country: params.take(&COUNTRY), language: params.take(&LANGUAGE) }
    }
}

impl Service for Google {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else {
            let (start, num) = (self.start.to_string(), ask.top.to_string());
            let mut query = vec![("engine", "google"), ("q", ask.query), ("start", &start), ("num", &num)];
            let places = [("gl", self.country.trim()), ("hl", self.language.trim())];
            query.extend(places.iter().filter(|(_, code)| !code.is_empty()));
            // The only place where this service accepts a key. Errors show no query of an address.
            query.push(("api_key", ask.key));
            return Ok(Step::Ask(Request::get(ask.url(HOST, "/search.json", &query)?)));
        };
        let answer = json(answer)?;
        let hits = match rows_if_any(&answer, "/organic_results") {
            // This service reports an empty result as an error.
            Err(_) if text(&answer, "/error").contains("any results") => None,
            found => found?,
        };
        Ok(Step::Hits(hits.unwrap_or_default().into_iter().map(hit).collect()))
    }
}

fn hit(row: Json) -> Hit {
    let (source, snippet) = (text(&row, "/about_this_result/source/description"), text(&row, "/snippet"));
    let content = format!("{source} {snippet}").trim().to_owned();
    Hit { url: text(&row, "/link"), title: text(&row, "/title"), content, score: None, row }
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, asked, good};
    use serde_json::json;
    use weft_core::ErrorKind;

    fn found() -> serde_json::Value {
        json!({"search_metadata": {"status": "Success"}, "organic_results": [
            {"position": 1, "title": "A", "link": "https://a.example/", "snippet": "about a",
                "about_this_result": {"source": {"description": "A is a site."}}},
            {"position": 2, "title": "B", "link": "https://b.example/", "snippet": "about b"}]})
    }

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let sample = Sample {
            kind: "Google",
            params: json!({"api_key": "not-a-real-one"}),
            key: Some("api_key"),
            answers: &[good(found())],
            nothing: &[good(json!({"error": "Google hasn't returned any results for this query."}))],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn region_language_and_page_are_requested() {
        let params = json!({"api_key": "k 1", "country": "us", "q": "{sys.query}", "start": "10", "num": 1});
        let (sent, result) = asked("Google", params, &[good(found())]).await;
        assert_eq!(
            sent[0].url,
            "https://serpapi.com/search.json?engine=google&q=Q+%26+A&start=10&num=1&gl=us&hl=en&api_key=k+1"
        );
        let result = result.unwrap();
        assert_eq!(
            result["formalized_content"],
            "ID: 0\nTitle: A\nURL: https://a.example/\nA is a site. about a"
        );
        let failed = good(json!({"error": "Your account has run out of searches."}));
        let error = asked("Google", json!({"api_key": "k"}), &[failed]).await.1.unwrap_err();
        assert!(
            error.kind == ErrorKind::Unavailable && error.message.contains("run out"),
            "{}",
            error.full()
        );
    }
}
