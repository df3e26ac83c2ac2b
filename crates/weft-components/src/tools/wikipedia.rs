//! The Wikipedia component: searches the encyclopedia and returns the beginnings of its articles.

use std::time::Duration;

use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Json, ParamProblem, Result, Role, ToolSpec};

use super::search::answer::{json, rows_if_any, text};
use super::search::request::AGENT;
use super::search::{Ask, BASE_URL, FOUND, Facts, Hit, QUERY, Request, Service, Step, TOP_N, component};
use crate::params::{Field, FieldGroup, Params, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

/// Maximum number of articles whose beginnings one request returns.
// The service returns no more beginnings at a time, and leaves the other articles without a text.
const ARTICLES_MAX: usize = 20;
/// Maximum number of letters in a language code.
const CODE_MAX: usize = 20;

static LANGUAGE: Field<String> =
    Field::text("language", "the language edition, as the code in its address, such as `en`, `de` or `zh`")
        .or("en");

static FACTS: Facts = Facts { time_limit: Duration::from_secs(60), ..Facts::free("Wikipedia") };

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Wikipedia",
    role: Role::Step,
    summary: "Searches Wikipedia and returns the beginnings of articles as citable sources.",
    fields: &[
        fields(&[&QUERY, &LANGUAGE, &TOP_N]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "wikipedia_search", idempotent: true, sources: true }),
    build: |source| component(source, Wikipedia::of),
};

/// A search in Wikipedia.
pub(super) struct Wikipedia {
    host: String,
}

impl Wikipedia {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        let language = params.take(&LANGUAGE).trim().to_lowercase();
        let language = if language.is_empty() { "en" } else { &language };
        // It becomes part of the address.
        let code =
            language.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') && language.len() <= CODE_MAX;
        if !code {
            let problem = ParamProblem::new(params.pointer(&LANGUAGE), "is not a language code");
            params.problem(problem.help("use the code in the address of that Wikipedia: `en`, `de`, `zh`"));
        }
        Self { host: format!("https://{language}.wikipedia.org") }
    }
}

impl Service for Wikipedia {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else {
            let limit = ask.top.min(ARTICLES_MAX).to_string();
            let query = [
                ("action", "query"),
                ("format", "json"),
                // In this version pages are a list; in the first they are an object by their ids.
                ("formatversion", "2"),
                ("generator", "search"),
                ("gsrsearch", ask.query),
                ("gsrlimit", &limit),
                ("prop", "extracts|info"),
                ("exintro", "1"),
                ("explaintext", "1"),
                ("exlimit", "max"),
                ("inprop", "url"),
            ];
            let url = ask.url(&self.host, "/w/api.php", &query)?;
            // Requests without a user agent are refused.
            return Ok(Step::Ask(Request::get(url).header("User-Agent", AGENT)));
        };
        let answer = json(answer)?;
        let mut pages = rows_if_any(&answer, "/query/pages")?.unwrap_or_default();
        // They are returned in the order of their ids.
        pages.sort_by_key(|page| page.get("index").and_then(Json::as_i64).unwrap_or(i64::MAX));
        Ok(Step::Hits(pages.into_iter().map(hit).collect()))
    }
}

fn hit(row: Json) -> Hit {
    let (url, content) = (text(&row, "/fullurl"), text(&row, "/extract"));
    Hit { url, title: text(&row, "/title"), content, score: None, row }
}

#[cfg(test)]
mod tests {
    use crate::testing::Node;
    use crate::tools::search::request::AGENT;
    use crate::tools::search::testing::{Sample, asked, good, header};
    use serde_json::json;
    use weft_core::ErrorKind;

    fn found() -> serde_json::Value {
        json!({"batchcomplete": true, "query": {"pages": [
            {"pageid": 5, "ns": 0, "title": "B", "index": 2, "extract": "B is b.", "fullurl": "https://de.wikipedia.org/wiki/B"},
            {"pageid": 9, "ns": 0, "title": "A", "index": 1, "extract": "A is a.", "fullurl": "https://de.wikipedia.org/wiki/A"}]}})
    }

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let sample = Sample {
            kind: "Wikipedia",
            params: json!({}),
            key: None,
            answers: &[good(found())],
            nothing: &[good(json!({"batchcomplete": true}))],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn articles_keep_the_search_order() {
        let (sent, result) =
            asked("Wikipedia", json!({"language": "DE", "top_n": 50}), &[good(found())]).await;
        assert!(
            sent[0].url.starts_with("https://de.wikipedia.org/w/api.php?action=query&"),
            "{}",
            sent[0].url
        );
        assert!(sent[0].url.contains("&gsrsearch=Q+%26+A&gsrlimit=20&"), "{}", sent[0].url);
        assert_eq!((header(&sent[0], "User-Agent"), sent[0].time_limit.as_secs()), (Some(AGENT), 60));
        let result = result.unwrap();
        assert_eq!(
            (&result["chunks"][0]["document_name"], &result["chunks"][0]["content"]),
            (&json!("A"), &json!("A is a."))
        );
        let failed = good(json!({"error": {"code": "x", "info": "the search is down"}}));
        let error = asked("Wikipedia", json!({}), &[failed]).await.1.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
    }

    #[test]
    fn a_language_cannot_change_the_server() {
        for language in ["evil.example/", "a b", "en@x", &"x".repeat(30)] {
            assert_eq!(
                Node::new("Wikipedia", json!({"language": language})).problems(),
                ["/language"],
                "{language}"
            );
        }
    }
}
