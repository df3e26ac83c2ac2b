//! The GitHub component: searches repositories on GitHub, those with the most stars first.

use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Json, Result, Role, Template, ToolSpec};

use super::search::answer::{self, lines, rows, text};
use super::search::request::AGENT;
use super::search::{
    Ask, Asks, BASE_URL, FOUND, Facts, Hit, QUERY, Request, Service, Step, TOP_N, component,
};
use crate::params::{Field, FieldGroup, Params, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

const HOST: &str = "https://api.github.com";

static TOKEN: Field<Template> =
    Field::template("token", "an optional GitHub token, which raises the rate limit").secret();

static FACTS: Facts = Facts {
    asks: Asks { query: Some(&QUERY), top: Some(&TOP_N), key: Some(&TOKEN), base: &BASE_URL },
    ..Facts::free("GitHub")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "GitHub",
    role: Role::Step,
    summary: "Searches repositories on GitHub and returns their descriptions as citable sources.",
    fields: &[
        fields(&[&QUERY, &TOP_N, &TOKEN]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "github_search", idempotent: true, sources: true }),
    build: |source| component(source, GitHub::of),
};

/// A search for repositories.
pub(super) struct GitHub;

impl GitHub {
    pub(super) fn of(_: &mut Params<'_>) -> Self {
        Self
    }
}

impl Service for GitHub {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else {
            let count = ask.top.to_string();
            let query = [("q", ask.query), ("sort", "stars"), ("order", "desc"), ("per_page", &count)];
            let request = Request::get(ask.url(HOST, "/search/repositories", &query)?)
                .header("Accept", "application/vnd.github+json")
                .header("X-GitHub-Api-Version", "2022-11-28")
                // Requests without a user agent are refused.
                .header("User-Agent", AGENT);
            return Ok(Step::Ask(request.bearer(ask.key)));
        };
        Ok(Step::Hits(rows(&answer::json(answer)?, "/items")?.into_iter().map(hit).collect()))
    }
}

fn hit(row: Json) -> Hit {
    let more = [
        ("Stars", "/stargazers_count"),
        ("Language", "/language"),
        ("Topics", "/topics"),
        ("License", "/license/spdx_id"),
        ("Last push", "/pushed_at"),
    ];
    let content = format!("{}\n{}", text(&row, "/description"), lines(&row, &more)).trim().to_owned();
    Hit { url: text(&row, "/html_url"), title: text(&row, "/full_name"), content, score: None, row }
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, answered, asked, good, header};
    use serde_json::json;

    fn found() -> serde_json::Value {
        json!({"total_count": 1, "incomplete_results": false, "items": [{"full_name": "ada/engine", "html_url":
            "https://github.com/ada/engine", "description": "Notes on an engine", "stargazers_count": 1843, "language": null,
            "topics": ["math", "history"], "pushed_at": "2024-05-01T00:00:00Z"}]})
    }

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let sample = Sample {
            kind: "GitHub",
            params: json!({}),
            key: None,
            answers: &[good(found())],
            nothing: &[good(json!({"total_count": 0, "items": []}))],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn repositories_have_their_stars_even_without_a_token() {
        let (sent, result) = asked("GitHub", json!({"top_n": "3"}), &[good(found())]).await;
        assert_eq!(
            sent[0].url,
            "https://api.github.com/search/repositories?q=Q+%26+A&sort=stars&order=desc&per_page=3"
        );
        assert_eq!(header(&sent[0], "Authorization"), None);
        let text = "ID: 0\nTitle: ada/engine\nURL: https://github.com/ada/engine\nNotes on an engine\nStars: 1843\n\
                    Topics: math, history\nLast push: 2024-05-01T00:00:00Z";
        assert_eq!(result.unwrap()["formalized_content"], text);
        let (sent, _) = asked("GitHub", json!({"token": "ghp-x"}), &[good(found())]).await;
        assert_eq!(header(&sent[0], "Authorization"), Some("Bearer ghp-x"));
    }

    #[tokio::test]
    async fn a_refusal_without_a_token_suggests_setting_one() {
        let refused = async |params: serde_json::Value| {
            let answer = answered(403, json!({"message": "API rate limit exceeded"}));
            asked("GitHub", params, &[answer]).await.1.unwrap_err().full()
        };
        let (without, with) = (refused(json!({})).await, refused(json!({"token": "ghp-x"})).await);
        assert!(without.contains("rate limit") && without.contains("set `token` to a key"), "{without}");
        assert!(with.contains("`token` contains a valid key"), "{with}");
    }

    #[tokio::test]
    async fn a_refusal_is_reported_with_its_reason_and_retry_time() {
        let errors = json!([{"resource": "Search", "field": "q", "code": "missing"}]);
        let said = json!({"message": "Validation Failed", "errors": errors, "status": "422"});
        let refused = async |status: u16, body: String| {
            asked("GitHub", json!({}), &[answered(status, body)]).await.1.unwrap_err().full()
        };
        let error = refused(422, said.to_string()).await;
        assert!(error.contains(&format!("the status 422: the text `{said}`")), "{error}");
        assert!(!error.contains("later"), "{error}");
        for status in [408, 425, 429, 500, 503] {
            let error = refused(status, "busy".to_owned()).await;
            assert!(error.contains("later"), "{error}");
        }
        let error = refused(400, "x ".repeat(10_000)).await;
        assert!(error.contains("x …`") && error.len() < 600, "{error}");
    }
}
