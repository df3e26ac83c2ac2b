//! WebSearch: searches the web with the engine that the canvas names.

use async_trait::async_trait;
use weft_core::{
    Component, ComponentSpec, Error, ErrorKind, Finished, NodeContext, ParamProblem, Reads, Result, Role,
    Shape, ToolSpec,
};

use super::searxng::{SearXng, arguments};
use crate::params::{self, Params};

/// The engine when none is named.
const DEFAULT: &str = "searxng";
/// Engines that canvases name and that this build cannot ask, and whether they need a key.
const UNBUILT: [(&str, Key); 9] = [
    ("bgpt", Key::Optional),
    ("bing", Key::Needed),
    ("duckduckgo", Key::Free),
    ("google", Key::Needed),
    ("googlescholar", Key::Free),
    ("keenable", Key::Optional),
    ("querit", Key::Needed),
    ("tavily", Key::Needed),
    ("wikipedia", Key::Free),
];
/// What to do instead.
const HELP: &str =
    "use `searxng`, the engine this build has: it needs the address of a server in `searxng_url` and no key";

/// Whether an engine wants to be paid.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Needed,
    Optional,
    Free,
}

/// The spec.
pub static SPEC: ComponentSpec = ComponentSpec {
    kind: "WebSearch",
    role: Role::Step,
    summary: "Searches the web and gives what it finds as sources that can be cited.",
    params_schema: || {
        params::schema(&[
            ("engine", "string", "`searxng`, which needs no key; other engines are not part of this build"),
            ("query", "string", "what to look for, with references"),
            ("top_n", "integer", "how many hits, at most"),
            ("searxng_url", "string", "the address of the SearXNG server, with references"),
            ("max_retries", "integer", "tries after the first"),
            ("delay_after_error", "number", "seconds between two tries"),
        ])
    },
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "web_search", arguments, idempotent: true, sources: true }),
    build: |source| {
        let mut params = Params::of(source);
        let name =
            params.text("engine").map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty());
        let engine = match name.as_deref().unwrap_or(DEFAULT) {
            DEFAULT => Some(Engine::SearXng(SearXng::of(&mut params))),
            name => match UNBUILT.iter().find(|(unbuilt, _)| *unbuilt == name) {
                Some((name, key)) => Some(Engine::Unbuilt(unbuilt(name, *key))),
                None => {
                    let known: Vec<_> = UNBUILT.iter().map(|(name, _)| *name).collect();
                    let message = format!("`{name}` is no engine; known are {DEFAULT}, {}", known.join(", "));
                    params.problem(ParamProblem::new("/engine", message).help(HELP));
                    None
                }
            },
        };
        params.finish(WebSearch { engine })
    },
};

fn unbuilt(name: &str, key: Key) -> String {
    let key = match key {
        Key::Needed => "and needs a key",
        Key::Optional => "and takes a key",
        Key::Free => "although it needs no key",
    };
    format!("the search engine `{name}` isn't part of this build, {key}")
}

enum Engine {
    SearXng(SearXng),
    Unbuilt(String),
}

struct WebSearch {
    engine: Option<Engine>,
}

#[async_trait]
impl Component for WebSearch {
    fn shape(&self) -> Shape {
        let shape = Shape { main_output: "formalized_content", ..Shape::default() };
        match &self.engine {
            Some(Engine::SearXng(engine)) => {
                Shape { reads: Reads::always(engine.reads()), warnings: engine.warnings(), ..shape }
            }
            Some(Engine::Unbuilt(sentence)) => Shape { unsupported: Some(sentence.clone()), ..shape },
            None => shape,
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        match &self.engine {
            Some(Engine::SearXng(engine)) => engine.search(ctx).await.map(Finished::from),
            Some(Engine::Unbuilt(sentence)) => Err(Error::new(ErrorKind::Unsupported, sentence).help(HELP)),
            None => Err(Error::invalid("there is no engine to search with").help(HELP)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, Stage, failure};
    use serde_json::{Value as Json, json};
    use weft_core::ErrorKind;
    use weft_core::seam::http::HttpResponse;

    #[tokio::test]
    async fn the_engine_is_asked() {
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
    async fn an_engine_that_is_not_there_is_named_with_what_it_would_need() {
        let check = async |engine: &str, said: &str| {
            let node = Node::new("WebSearch", json!({"engine": engine}));
            let unsupported = node.build().shape().unsupported.unwrap();
            let error = failure(&node, Setting::default()).await;
            assert_eq!((error.kind, &error.message), (ErrorKind::Unsupported, &unsupported));
            assert!(unsupported.contains(engine) && unsupported.ends_with(said), "{unsupported}");
            assert!(error.help.unwrap().contains("searxng_url"));
        };
        check("tavily", "needs a key").await;
        check("duckduckgo", "needs no key").await;
        assert_eq!(Node::new("WebSearch", json!({"engine": "altavista"})).problems(), ["/engine"]);
    }
}
