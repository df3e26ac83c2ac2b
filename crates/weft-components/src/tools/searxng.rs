//! The SearXNG component: searches the web through a self-hosted server. The canvas names the server, never a model.

use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Result, Role, Template, ToolSpec};

use super::search::answer::{json, rows, text};
use super::search::{Ask, Asks, FOUND, Facts, Hit, QUERY, Request, Service, Step, TOP_N, component};
use crate::params::{Field, Params, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

/// Remedy for a missing server.
const HELP: &str = "set `searxng_url` to the address of a SearXNG server that returns JSON; if it is not public, an \
                    operator has to allow it in `net.allow`";

/// The server.
pub(crate) static SEARXNG_URL: Field<Template> =
    Field::template("searxng_url", "the address of the SearXNG server");

static FACTS: Facts = Facts {
    server: Some(HELP),
    hint: "check the server's log; its settings must allow the format `json`",
    asks: Asks { query: Some(&QUERY), top: Some(&TOP_N), key: None, base: &SEARXNG_URL },
    ..Facts::free("SearXNG")
};

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "SearXNG",
    role: Role::Step,
    summary: "Searches the web and returns the results as citable sources.",
    fields: &[fields(&[&QUERY, &SEARXNG_URL, &TOP_N, &MAX_RETRIES, &DELAY_AFTER_ERROR])],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "searxng_search", idempotent: true, sources: true }),
    build: |source| component(source, SearXng::of),
};

/// A search with one server.
pub(super) struct SearXng;

impl SearXng {
    pub(super) fn of(_: &mut Params<'_>) -> Self {
        Self
    }
}

impl Service for SearXng {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let [answer, ..] = answers else {
            let server = ask.base.unwrap_or_default().trim_end_matches('/');
            // The address may be written with or without the search path.
            let path = if server.ends_with("/search") { "" } else { "/search" };
            let query = [
                ("q", ask.query),
                ("format", "json"),
                ("categories", "general"),
                ("language", "auto"),
                ("safesearch", "1"),
                ("pageno", "1"),
            ];
            let url = ask.url("", path, &query)?;
            return Ok(Step::Ask(Request::get(url).header("Accept", "application/json")));
        };
        let hits = rows(&json(answer)?, "/results")
            .map_err(|error| error.help("the server's settings must allow the format `json`"))?;
        Ok(Step::Hits(hits.into_iter().map(hit).collect()))
    }
}

fn hit(row: weft_core::Json) -> Hit {
    let content = text(&row, "/content");
    Hit { url: text(&row, "/url"), title: text(&row, "/title"), content, score: None, row }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, Stage};
    use serde_json::{Value as Json, json};
    use weft_core::citation::Chunk;
    use weft_core::seam::http::{HttpRequest, HttpResponse};
    use weft_core::{ErrorKind, Result};

    fn page(status: u16, body: &str) -> Result<HttpResponse> {
        Ok(HttpResponse { status, headers: Vec::new(), body: body.to_owned() })
    }

    async fn searched(params: Json, pages: Vec<Result<HttpResponse>>) -> (Vec<HttpRequest>, Result<Json>) {
        let node = Node::new("SearXNG", params);
        let component = node.build();
        let first = Chunk { id: "first".to_owned(), ..Chunk::default() };
        let setting = Setting { query: "q & a", cited: vec![first], ..Setting::default() };
        let stage = Stage::new(&node, &*component, setting);
        *stage.outside.pages.lock().unwrap() = pages;
        let result = component.run(&stage.ctx).await.map(|finished| json!(finished.outputs));
        let sent = stage.outside.sent.lock().unwrap().clone();
        (sent, result)
    }

    #[tokio::test]
    async fn hits_are_numbered_after_existing_sources() {
        let results = json!({"results": [
            {"url": "https://a.example/", "title": "A", "content": "about a data:image/png;base64,AAAA) end"},
            {"url": "https://b.example/", "title": "", "content": "x".repeat(20_000)},
            {"title": "no address"}, "noise", {"url": "https://c.example/"}]});
        let params = json!({"searxng_url": "https://s.example/x/", "top_n": "3"});
        let (sent, result) = searched(params, vec![page(200, &results.to_string())]).await;
        assert_eq!(
            sent[0].url,
            "https://s.example/x/search?q=q+%26+a&format=json&categories=general&language=auto&safesearch=1&pageno=1"
        );
        assert_eq!((sent[0].time_limit.as_secs(), sent[0].body_max), (12, 5 << 20));
        let result = result.unwrap();
        let text = result["formalized_content"].as_str().unwrap();
        assert!(text.starts_with("ID: 1\nTitle: A\nURL: https://a.example/\nabout a ) end\n------\nID: 2\nTitle: https://b.example/\n"));
        assert!(text.len() < 10_200 && !text.contains("no address"));
        assert_eq!(result["json"].as_array().unwrap().len(), 3);
        assert_eq!(result["chunks"][1]["number"], 2);
    }

    #[tokio::test]
    async fn an_empty_query_sends_no_request() {
        let (sent, result) = searched(json!({"query": "{Agent:A@none}"}), Vec::new()).await;
        assert!(sent.is_empty());
        assert_eq!(result.unwrap(), json!({"formalized_content": "", "json": [], "chunks": []}));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_say_what_to_do() {
        let check = async |url: &str, pages: Vec<Result<HttpResponse>>, kind: ErrorKind, requests: usize| {
            let params = json!({"searxng_url": url, "max_retries": 1});
            let (sent, result) = searched(params, pages).await;
            let error = result.unwrap_err();
            assert_eq!((sent.len(), error.kind), (requests, kind), "{}", error.full());
            assert!(error.help.is_some());
        };
        check("", Vec::new(), ErrorKind::Invalid, 0).await;
        check("no address", Vec::new(), ErrorKind::Invalid, 0).await;
        check("https://s", vec![page(200, "<html>")], ErrorKind::Garbled, 1).await;
        check("https://s", vec![page(200, "{}")], ErrorKind::Garbled, 1).await;
        check("https://s", vec![page(403, "")], ErrorKind::Denied, 1).await;
        check("https://s", vec![page(500, ""), page(502, "")], ErrorKind::Unavailable, 2).await;
        assert_eq!(Node::new("SearXNG", json!({})).build().shape().warnings.len(), 1);
    }

    #[test]
    fn a_model_names_the_query_and_nothing_else() {
        let arguments = super::SPEC.arguments().unwrap();
        assert_eq!(arguments["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), ["query"]);
    }
}
