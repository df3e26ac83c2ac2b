//! SearXNG: searches the web through a server of one's own. The canvas names the server, never a model.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use url::Url;
use weft_core::citation::Chunk;
use weft_core::seam::http::{HttpBody, HttpRequest};
use weft_core::value::to_text;
use weft_core::{
    Component, ComponentSpec, Error, ErrorKind, Finished, Json, NodeContext, Outputs, ParamProblem, Reads,
    Reference, Result, Role, Shape, Template, ToolSpec, Value,
};

use crate::params::{self, Params};
use crate::passages::{chunks, formalized};
use crate::web::{Retries, refused};

/// Hits of one search, at most.
const HITS_MAX: usize = 100;
/// Characters of one hit, at most.
const HIT_MAX: usize = 10_000;
/// Bytes of an answer, at most.
const BODY_MAX: usize = 5 * 1024 * 1024;
/// For one request.
const TIME_LIMIT: Duration = Duration::from_secs(12);
/// What to do without a server.
const HELP: &str = "set `searxng_url` to the address of a SearXNG server that gives JSON, and let an operator allow it in `net.allow` when it is not public";

/// The spec.
pub static SPEC: ComponentSpec = ComponentSpec {
    kind: "SearXNG",
    role: Role::Step,
    summary: "Searches the web and gives what it finds as sources that can be cited.",
    params_schema: || {
        params::schema(&[
            ("query", "string", "what to look for, with references"),
            ("searxng_url", "string", "the address of the server, with references"),
            ("top_n", "integer", "how many hits, at most"),
            ("max_retries", "integer", "tries after the first"),
            ("delay_after_error", "number", "seconds between two tries"),
        ])
    },
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "searxng_search", arguments, idempotent: true, sources: true }),
    build: |source| {
        let mut params = Params::of(source);
        let search = SearXng::of(&mut params);
        params.finish(search)
    },
};

/// What a model fills in for a search of the web.
pub(super) fn arguments() -> Json {
    json!({"type": "object", "additionalProperties": false, "required": ["query"], "properties": {
        "query": {"type": "string", "description": "what to look for: the words that a good page would hold"}}})
}

/// A search with one server.
pub(super) struct SearXng {
    query: Template,
    server: Template,
    hits_max: usize,
    retries: Retries,
}

impl SearXng {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        Self {
            query: params.template("query", "sys.query"),
            server: params.template("searxng_url", ""),
            hits_max: params.count("top_n", 10, 1..=HITS_MAX),
            retries: Retries::of(params),
        }
    }

    pub(super) fn reads(&self) -> Vec<Reference> {
        self.query.references().chain(self.server.references()).cloned().collect()
    }

    pub(super) fn warnings(&self) -> Vec<ParamProblem> {
        let missing = self.server.source().trim().is_empty();
        let warning =
            || ParamProblem::new("/searxng_url", "is missing, so every search will fail").help(HELP);
        missing.then(warning).into_iter().collect()
    }

    fn address(&self, ctx: &NodeContext, query: &str) -> Result<Url> {
        let server = self.server.render(&ctx.inputs)?;
        let server = server.trim().trim_end_matches('/');
        if server.is_empty() {
            return Err(Error::invalid("there is no server to search with").help(HELP));
        }
        let server = server.strip_suffix("/search").unwrap_or(server);
        let mut url = Url::parse(&format!("{server}/search"))
            .map_err(|cause| Error::invalid("`searxng_url` is no address").because(cause).help(HELP))?;
        url.query_pairs_mut().extend_pairs([
            ("q", query),
            ("format", "json"),
            ("categories", "general"),
            ("language", "auto"),
            ("safesearch", "1"),
            ("pageno", "1"),
        ]);
        Ok(url)
    }

    pub(super) async fn search(&self, ctx: &NodeContext) -> Result<Outputs> {
        let query = self.query.render(&ctx.inputs)?;
        let hits = match query.trim() {
            "" => Vec::new(),
            query => self.hits(ctx, query).await?,
        };
        let found = ctx.run.citations.number(hits.iter().filter_map(chunk));
        let mut outputs = Outputs::of("formalized_content", Value::text(formalized(&found)));
        outputs.set("json", Json::from(hits));
        outputs.set("chunks", chunks(&found));
        Ok(outputs)
    }

    async fn hits(&self, ctx: &NodeContext, query: &str) -> Result<Vec<Json>> {
        let request = HttpRequest {
            method: "GET".to_owned(),
            url: self.address(ctx, query)?.into(),
            headers: vec![("Accept".to_owned(), "application/json".to_owned())],
            body: HttpBody::Empty,
            time_limit: TIME_LIMIT,
            body_max: BODY_MAX,
            proxy: None,
        };
        let answer = self.retries.send(ctx, request).await?;
        if answer.status >= 400 {
            return Err(
                refused(&answer).help("look at the server's log; its settings must allow the format `json`")
            );
        }
        let garbled = || {
            Error::new(ErrorKind::Garbled, "the server's answer holds no list of results")
                .help("its settings must allow the format `json`")
        };
        let answer: Json = serde_json::from_str(&answer.body).map_err(|cause| garbled().because(cause))?;
        let Some(hits) = answer.get("results").and_then(Json::as_array) else { return Err(garbled()) };
        Ok(hits.iter().filter(|hit| hit.is_object()).take(self.hits_max).cloned().collect())
    }
}

/// A hit as a source. One without an address cannot be cited.
fn chunk(hit: &Json) -> Option<Chunk> {
    let text = |key: &str| hit.get(key).map(to_text).unwrap_or_default();
    let url = Some(text("url")).filter(|url| !url.is_empty())?;
    let content: String = without_images(&text("content")).chars().take(HIT_MAX).collect();
    let title = Some(text("title")).filter(|title| !title.trim().is_empty()).unwrap_or_else(|| url.clone());
    let hash = Sha256::new().chain_update(&url).chain_update([0]).chain_update(&content).finalize();
    Some(Chunk {
        id: hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect(),
        content,
        document_id: url.clone(),
        document_name: title,
        url: Some(url),
        similarity: Some(1.0),
        ..Chunk::default()
    })
}

/// The text without images that are written into it.
fn without_images(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some(place) = rest.find("data:image/") {
        kept.push_str(&rest[..place]);
        rest = &rest[place..];
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, ')' | '"' | '\'' | '<' | '>'));
        rest = &rest[end.unwrap_or(rest.len())..];
    }
    kept.push_str(rest);
    kept
}

#[async_trait]
impl Component for SearXng {
    fn shape(&self) -> Shape {
        Shape {
            reads: Reads::always(self.reads()),
            main_output: "formalized_content",
            warnings: self.warnings(),
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        self.search(ctx).await.map(Finished::from)
    }
}

#[cfg(test)]
mod tests {
    use super::without_images;
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
    async fn hits_are_numbered_after_the_sources_there_are() {
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
    async fn nothing_asked_is_nothing_found_without_a_request() {
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
        let arguments = (super::SPEC.tool.as_ref().unwrap().arguments)();
        assert_eq!(arguments["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), ["query"]);
    }

    #[test]
    fn images_in_a_text_go() {
        assert_eq!(without_images("a ![x](data:image/png;base64,AA==) b data:image/gif;x"), "a ![x]() b ");
        assert_eq!(without_images("plain"), "plain");
    }
}
