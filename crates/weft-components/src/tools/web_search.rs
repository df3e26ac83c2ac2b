//! The WebSearch component: searches the web with the engine that the canvas names. It wraps the component of that
//! engine, and accepts the same parameters.

use weft_core::suggest::{did_you_mean, nearest};
use weft_core::{ComponentSpec, ParamProblem, Role, Template, ToolSpec};

use super::arxiv::ArXiv;
use super::bgpt::Bgpt;
use super::bing::Bing;
use super::duck_duck_go::DuckDuckGo;
use super::git_hub::GitHub;
use super::google::Google;
use super::google_scholar::GoogleScholar;
use super::keenable_search::Keenable;
use super::pub_med::PubMed;
use super::querit_search::QueritSearch;
use super::search::{API_KEY, Asks, BASE_URL, FOUND, QUERY, Service, ServiceNode, TOP_N};
use super::searxng::{SEARXNG_URL, SearXng};
use super::tavily_search::TavilySearch;
use super::wikipedia::Wikipedia;
use crate::params::{Choice, Field, FieldGroup, Kind, Params, asks_for_something, choice, fields};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

/// The engines, by name.
pub(crate) const ENGINES: [Choice; 13] = [
    choice("arxiv", "preprints; needs no key"),
    choice("bgpt", "papers; works without a key"),
    choice("bing", "needs a key"),
    choice("duckduckgo", "needs no key"),
    choice("github", "repositories; works without a key"),
    choice("google", "needs a SerpApi key"),
    choice("googlescholar", "papers; needs no key, but refuses frequent requests"),
    choice("keenable", "works without a key"),
    choice("pubmed", "medical papers; needs no key"),
    choice("querit", "needs a key"),
    choice("searxng", "needs no key, but a SearXNG server in `searxng_url`"),
    choice("tavily", "needs a key"),
    choice("wikipedia", "the encyclopedia; needs no key"),
];
/// Reads the parameters of an engine.
type Reader = fn(&mut Params<'_>) -> Box<dyn Service>;
/// The readers of the engines, in the same order.
const READERS: [Reader; ENGINES.len()] = [
    |params| Box::new(ArXiv::of(params)),
    |params| Box::new(Bgpt::of(params)),
    |params| Box::new(Bing::of(params)),
    |params| Box::new(DuckDuckGo::of(params)),
    |params| Box::new(GitHub::of(params)),
    |params| Box::new(Google::of(params)),
    |params| Box::new(GoogleScholar::of(params)),
    |params| Box::new(Keenable::of(params)),
    |params| Box::new(PubMed::of(params)),
    |params| Box::new(QueritSearch::of(params)),
    |params| Box::new(SearXng::of(params)),
    |params| Box::new(TavilySearch::of(params)),
    |params| Box::new(Wikipedia::of(params)),
];

pub(crate) static ENGINE: Field<String> = Field::text(
    "engine",
    "which engine to ask; when absent `searxng` where `searxng_url` is set, else `duckduckgo`",
)
.one_of(&ENGINES);

/// A parameter of one engine, described by the component of that engine.
const fn of_engine(name: &'static str) -> Field {
    Field::raw(name, Kind::Any, "as in the component of the engine").not_offered()
}

/// The parameters of the engines.
pub(crate) static ENGINE_FIELDS: FieldGroup = fields(&[
    &of_engine("channel"),
    &of_engine("chunks_per_doc"),
    &of_engine("country"),
    &of_engine("country_include"),
    &of_engine("days"),
    &of_engine("days_back"),
    &of_engine("email"),
    &of_engine("exclude_domains"),
    &of_engine("include_answer"),
    &of_engine("include_domains"),
    &of_engine("include_image_descriptions"),
    &of_engine("include_images"),
    &of_engine("include_raw_content"),
    &of_engine("language"),
    &of_engine("language_include"),
    &of_engine("mode"),
    &of_engine("patents"),
    &of_engine("search_depth"),
    &of_engine("site"),
    &of_engine("site_exclude"),
    &of_engine("site_include"),
    &of_engine("sort_by"),
    &of_engine("start"),
    &of_engine("time_range"),
    &of_engine("topic"),
    &of_engine("year_high"),
    &of_engine("year_low"),
]);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "WebSearch",
    role: Role::Step,
    summary: "Searches the web and returns the results as citable sources.",
    fields: &[
        fields(&[&QUERY, &ENGINE, &API_KEY, &SEARXNG_URL, &TOP_N]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
        ENGINE_FIELDS,
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "web_search", idempotent: true, sources: true }),
    build: |source| {
        let mut params = Params::of(source);
        let asking = asking(&mut params, &QUERY, &TOP_N);
        params.finish(asking)
    },
};

/// Returns a search with the engine that the parameters name.
pub(crate) fn asking(
    params: &mut Params<'_>,
    query: &'static Field<Template>,
    top: &'static Field<usize>,
) -> ServiceNode {
    let service = engine(params);
    let own = service.facts().asks;
    // One name for the keys of all engines: the component of each has its own.
    let asks = Asks { query: Some(query), top: Some(top), key: own.key.and(Some(&API_KEY)), ..own };
    ServiceNode::of(params, asks, service)
}

fn engine(params: &mut Params<'_>) -> Box<dyn Service> {
    let wanted = params.take(&ENGINE);
    let own_server = params.get(&SEARXNG_URL).is_some_and(asks_for_something);
    let default = if own_server { "searxng" } else { "duckduckgo" };
    let wanted = Some(wanted.trim()).filter(|name| !name.is_empty()).unwrap_or(default);
    let names = || ENGINES.iter().map(|engine| engine.value);
    let found = names().position(|name| name.eq_ignore_ascii_case(wanted));
    if let Some(read) = found.and_then(|place| READERS.get(place)) {
        return read(params);
    }
    let known: Vec<_> = names().collect();
    let message = format!("`{wanted}` is not an engine; available are {}", known.join(", "));
    let help = nearest(wanted, names()).map_or_else(|| "name one of these".to_owned(), did_you_mean);
    params.problem(ParamProblem::new("/engine", message).help(help));
    // Never used: the problem prevents the component from being built.
    Box::new(SearXng::of(params))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Node, Setting, Stage};
    use crate::tools::search::testing::{asked, good, header};
    use serde_json::{Value as Json, json};
    use weft_core::ErrorKind;
    use weft_core::seam::http::HttpResponse;

    #[tokio::test]
    async fn the_configured_engine_is_queried() {
        for engine in [json!(null), json!("SearXNG")] {
            let node = Node::new("WebSearch", json!({"engine": engine, "searxng_url": "https://s.example"}));
            let component = node.build();
            let stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
            let body = json!({"results": [{"url": "https://a.example/", "title": "A", "content": "a"}]});
            let page = HttpResponse { status: 200, headers: Vec::new(), body: body.to_string() };
            stage.outside.pages.lock().unwrap().push(Ok(page));
            let outputs: Json = json!(component.run(&stage.ctx).await.unwrap().outputs);
            assert_eq!(outputs["formalized_content"], "ID: 0\nTitle: A\nURL: https://a.example/\na");
            assert_eq!(stage.ctx.run.citations.all().len(), 1);
        }
    }

    #[tokio::test]
    async fn an_engine_supports_the_parameters_of_its_component() {
        let body = good(json!({"results": [{"url": "https://a.example/", "title": "A", "content": "a"}]}));
        let params = json!({"engine": "tavily", "api_key": "k-1", "top_n": 2, "topic": "news"});
        let (sent, result) = asked("WebSearch", params, &[body]).await;
        assert_eq!(header(&sent[0], "Authorization"), Some("Bearer k-1"));
        assert!(matches!(&sent[0].body, weft_core::seam::http::HttpBody::Json(body)
            if body["topic"] == "news" && body["max_results"] == 2));
        assert_eq!(result.unwrap()["chunks"][0]["url"], "https://a.example/");
    }

    #[tokio::test]
    async fn an_engine_without_its_key_is_reported_and_a_keyless_one_queried() {
        for engine in &ENGINES {
            let name = engine.value;
            let params = json!({"engine": name.to_uppercase()});
            let shape = Node::new("WebSearch", params.clone()).build().shape();
            let (sent, result) = asked("WebSearch", params, &[good("")]).await;
            match name {
                "bing" | "google" | "querit" | "tavily" => {
                    let error = result.unwrap_err();
                    assert_eq!((sent.len(), error.kind), (0, ErrorKind::Unauthenticated), "{name}");
                    assert!(error.help.unwrap().contains("`api_key`"), "{name}");
                    assert_eq!(shape.lacks.unwrap().pointer, "/api_key", "{name}");
                    assert!(engine.summary.contains("needs a"), "{name}");
                }
                "searxng" => assert_eq!(shape.lacks.unwrap().pointer, "/searxng_url"),
                _ => {
                    assert_eq!((sent.len(), shape.warnings.len()), (1, 0), "{name}");
                    assert!(!engine.summary.contains("needs a "), "{name}");
                }
            }
        }
    }

    /// Every engine without a key sends the same request as its component.
    #[tokio::test]
    async fn engines_that_need_no_key_work_without_one() {
        let check = async |params: Json, host: &str| {
            let (sent, _) = asked("WebSearch", params, &[good("")]).await;
            assert!(sent[0].url.starts_with(host), "{}", sent[0].url);
            assert!(header(&sent[0], "Authorization").is_none());
        };
        check(json!({}), "https://html.duckduckgo.com/html/").await;
        check(json!({"engine": "wikipedia", "language": "fr"}), "https://fr.wikipedia.org/").await;
        check(json!({"engine": "arxiv"}), "https://export.arxiv.org/").await;
        check(json!({"engine": "pubmed"}), "https://eutils.ncbi.nlm.nih.gov/").await;
        check(json!({"engine": "github"}), "https://api.github.com/").await;
        check(json!({"engine": "googlescholar", "year_low": 2020}), "https://scholar.google.com/").await;
        check(json!({"engine": "keenable"}), "https://api.keenable.ai/v1/search/public").await;
        check(json!({"engine": "bgpt"}), "https://bgpt.pro/").await;
    }

    #[test]
    fn an_unknown_engine_is_a_problem() {
        assert_eq!(Node::new("WebSearch", json!({"engine": "altavista"})).problems(), ["/engine"]);
        let arguments = SPEC.arguments().unwrap();
        assert_eq!(arguments["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), ["query"]);
    }
}
