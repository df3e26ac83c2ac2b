//! The BGPT component: searches scientific papers and returns the methods and results of their studies, not only
//! abstracts.

use std::time::Duration;

use serde_json::json;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Json, Result, Role, ToolSpec};

use super::search::answer::{self, lines, rows_if_any, text};
use super::search::{
    API_KEY, Ask, BASE_URL, FOUND, Facts, Hit, QUERY, Request, Service, Step, TOP_N, component,
};
use crate::params::{Field, FieldGroup, Params, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

const HOST: &str = "https://bgpt.pro";
/// Maximum age of papers, in days.
const DAYS_MAX: usize = 100_000;

static DAYS_BACK: Field<Option<usize>> =
    Field::optional_count("days_back", &(0..=DAYS_MAX), "the maximum age of papers; any if absent or 0")
        .unit("days");

/// The members of a paper that are shown; the service has used two names for some of them.
const NAMES: [(&str, &str); 21] = [
    ("Authors", "/authors"),
    ("Journal", "/journal"),
    ("Year", "/year"),
    ("DOI", "/doi"),
    ("Abstract", "/abstract"),
    ("Methods", "/methods_and_experimental_techniques"),
    ("Methods", "/methods"),
    ("Sample", "/sample_size_and_population_characteristics"),
    ("Sample", "/sample_size_and_population"),
    ("Results", "/results_and_conclusions"),
    ("Results", "/results"),
    ("Limitations", "/paper_limitations_and_biases"),
    ("Limitations", "/limitations"),
    ("Conflicts of interest", "/conflict_of_interest_statements"),
    ("Conflicts of interest", "/conflict_of_interest"),
    ("Data", "/data_availability_statements"),
    ("Data", "/data_availability"),
    ("Quality", "/quality_scores"),
    ("Blind spots", "/study_blindspots"),
    ("What would refute it", "/how_to_falsify"),
    ("Code", "/code_availability"),
];

static FACTS: Facts = Facts { time_limit: Duration::from_secs(30), ..Facts::free_or_keyed("BGPT") };

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "BGPT",
    role: Role::Step,
    summary: "Searches scientific papers and returns their methods, samples, results and limitations as citable sources.",
    fields: &[
        fields(&[&QUERY, &API_KEY, &DAYS_BACK, &TOP_N]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "bgpt_search", idempotent: true, sources: true }),
    build: |source| component(source, Bgpt::of),
};

/// A search with BGPT.
pub(super) struct Bgpt {
    days: Option<usize>,
}

impl Bgpt {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        Self { days: params.take(&DAYS_BACK).filter(|days| *days > 0) }
    }
}

impl Service for Bgpt {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else {
            let mut body = json!({"query": ask.query, "num_results": ask.top});
            if let Some(days) = self.days {
                body["days_back"] = days.into();
            }
            if !ask.key.is_empty() {
                body["api_key"] = ask.key.into();
            }
            return Ok(Step::Ask(Request::post(ask.url(HOST, "/api/mcp-search", &[])?, body)));
        };
        let papers = rows_if_any(&answer::json(answer)?, "/results")?.unwrap_or_default();
        Ok(Step::Hits(papers.into_iter().map(hit).collect()))
    }
}

fn hit(row: Json) -> Hit {
    let doi = text(&row, "/doi");
    let url = match (text(&row, "/url"), doi.trim()) {
        (url, _) if !url.trim().is_empty() => url,
        (_, "") => String::new(),
        (_, doi) if doi.starts_with("http") => doi.to_owned(),
        (_, doi) => format!("https://doi.org/{doi}"),
    };
    Hit { url, title: text(&row, "/title"), content: lines(&row, &NAMES), score: None, row }
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, asked, good};
    use serde_json::json;
    use weft_core::seam::http::HttpBody;

    fn found() -> serde_json::Value {
        json!({"results": [
            {"title": "On A", "authors": ["Ada L.", "Grace H."], "year": 2021, "doi": "10.1/x", "abstract": "We show A.",
                "methods_and_experimental_techniques": "Two arms.", "how_to_falsify": "Find B.", "limitations": null},
            {"title": "On B", "url": "https://b.example/", "results": "B."}]})
    }

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let sample = Sample {
            kind: "BGPT",
            params: json!({}),
            key: None,
            answers: &[good(found())],
            nothing: &[good(json!({"results": []}))],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn papers_are_found_with_and_without_a_key() {
        let (sent, result) = asked("BGPT", json!({"days_back": "", "top_n": 2}), &[good(found())]).await;
        assert_eq!(
            (sent[0].url.as_str(), sent[0].time_limit.as_secs()),
            ("https://bgpt.pro/api/mcp-search", 30)
        );
        assert_eq!(sent[0].body, HttpBody::Json(json!({"query": "Q & A", "num_results": 2})));
        let result = result.unwrap();
        let text = "Authors: Ada L., Grace H.\nYear: 2021\nDOI: 10.1/x\nAbstract: We show A.\nMethods: Two arms.\n\
                    What would refute it: Find B.";
        assert_eq!(result["chunks"][0]["content"], text);
        assert_eq!(result["chunks"][0]["url"], "https://doi.org/10.1/x");
        let params = json!({"api_key": "k-1", "days_back": 30});
        let (sent, _) = asked("BGPT", params, &[good(found())]).await;
        let body = json!({"query": "Q & A", "num_results": 10, "days_back": 30, "api_key": "k-1"});
        assert_eq!(sent[0].body, HttpBody::Json(body));
    }
    #[tokio::test]
    async fn a_failure_is_not_reported_as_no_hits() {
        let failed = good(json!({"error": {"code": "x", "message": "the index is gone"}}));
        let error = asked("BGPT", json!({}), &[failed]).await.1.unwrap_err().full();
        assert!(error.contains("it says: the index is gone"), "{error}");
    }
}
