//! The Crawler component: fetches a web page and returns it as Markdown.

use std::time::Duration;

use weft_core::{
    Component, ComponentSpec, Finished, NodeContext, OutputSpec, Outputs, ParamProblem, Reads, Result, Role,
    Shape, Template, ToolSpec, Value, async_trait,
};

use crate::params::{Field, Params, choice, fields};
use crate::web::fetch::{ContentKind, How, content, fetch};
use crate::web::{self, page_markdown, page_words};

/// Time limit for a page, including all redirects on the way.
// The default time that an agent waits for a component.
const TIME_LIMIT: Duration = Duration::from_secs(60);

static QUERY: Field<Template> =
    Field::template("query", "an http or https address; `https://` is added when no scheme is given")
        .or("sys.query")
        .by_model("the whole address of the page, such as https://example.org/page");
static EXTRACT_TYPE: Field<&str> = Field::choice(
    "extract_type",
    "markdown",
    &[
        choice("markdown", "with its title, headings, lists, tables and absolute links"),
        choice("html", "as received"),
        choice("content", "only its title and text"),
    ],
    "what to return of the page",
);
static PROXY: Field<String> = Field::text("proxy", "the proxy to use");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Crawler",
    role: Role::Step,
    summary: "Fetches a web page by its address and returns it as Markdown, with its links.",
    fields: &[fields(&[&QUERY, &EXTRACT_TYPE, &PROXY])],
    outputs: &[
        OutputSpec::new("formalized_content", "string", "the page"),
        OutputSpec::new("url", "string", "its address after redirects"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "web_crawler", idempotent: true, sources: false }),
    build: |source| {
        let mut params = Params::of(source);
        let crawler = Crawler {
            query: params.take(&QUERY),
            extract: params.take(&EXTRACT_TYPE),
            proxy: Some(params.take(&PROXY)).filter(|proxy| !proxy.trim().is_empty()),
            warnings: params.warnings(),
        };
        params.finish(crawler)
    },
};

struct Crawler {
    query: Template,
    extract: &'static str,
    proxy: Option<String>,
    warnings: Vec<ParamProblem>,
}

#[async_trait]
impl Component for Crawler {
    fn shape(&self) -> Shape {
        Shape {
            reads: Reads::always(self.query.references().cloned()),
            main_output: "formalized_content",
            warnings: self
                .warnings
                .iter()
                .cloned()
                .chain(web::address_problem(QUERY.name(), &self.query))
                .chain(web::proxy_problem(PROXY.name(), self.proxy.as_deref()))
                .collect(),
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let address = web::address(&self.query, &ctx.inputs)?;
        let how = How { headers: &[], time_limit: TIME_LIMIT, proxy: self.proxy.as_deref() };
        let (url, answer) = fetch(ctx, &address, &how).await?;
        let text = match (content(&answer)?, self.extract) {
            (ContentKind::Page, "markdown") => page_markdown(answer.body, url.as_str()).await?,
            (ContentKind::Page, "content") => page_words(answer.body).await?,
            _ => answer.body,
        };
        let mut outputs = Outputs::of("formalized_content", Value::text(text));
        outputs.set("url", Value::text(url));
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, Stage};
    use serde_json::{Value as Json, json};
    use weft_core::seam::http::{HttpRequest, HttpResponse};
    use weft_core::{Error, ErrorKind, Result};

    const PAGE: &str = "<!doctype html><title>T</title><script>x()</script><h1>Rates</h1><p>One <b>crown</b> is <a \
        href=\"/pence\">24 pence</a>.</p><ul><li>a</li><li>b</li></ul><table><tr><th>n</th></tr><tr><td>1</td></tr></table>";

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Result<HttpResponse> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Ok(HttpResponse { status, headers: headers.collect(), body: body.to_owned() })
    }

    async fn got(params: Json, answers: Vec<Result<HttpResponse>>) -> (Vec<HttpRequest>, Result<Json>) {
        let node = Node::new("Crawler", params);
        let component = node.build();
        let stage = Stage::new(&node, &*component, Setting { query: "example.org/a", ..Setting::default() });
        *stage.outside.pages.lock().unwrap() = answers;
        let result = component.run(&stage.ctx).await.map(|finished| json!(finished.outputs));
        let sent = stage.outside.sent.lock().unwrap().clone();
        (sent, result)
    }

    #[tokio::test]
    async fn a_page_has_the_requested_format() {
        let page = || vec![answer(200, &[("content-type", "text/html")], PAGE)];
        let (sent, result) = got(json!({}), page()).await;
        assert_eq!(sent[0].url, "https://example.org/a");
        let result = result.unwrap();
        let text = result["formalized_content"].as_str().unwrap();
        assert!(text.starts_with("# T\n\n# Rates"), "{text}");
        for part in ["# Rates", "One **crown** is [24 pence](https://example.org/pence).", "*   a", "| 1"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("x()") && result["url"] == "https://example.org/a", "{text}");
        let (_, result) = got(json!({"extract_type": "html"}), page()).await;
        assert_eq!(result.unwrap()["formalized_content"], PAGE);
        let (_, result) = got(json!({"extract_type": "content"}), page()).await;
        let result = result.unwrap();
        let text = result["formalized_content"].as_str().unwrap();
        assert!(text.starts_with("T\n\nRates") && text.contains("One crown is 24 pence."), "{text}");
        assert!(!text.contains("**") && !text.contains(['─', '│', '[', '/']), "{text}");
        let text = vec![answer(200, &[("content-type", "text/plain")], "<p>1</p>")];
        let (_, result) = got(json!({"query": "http://a.example/x.txt"}), text).await;
        assert_eq!(result.unwrap()["formalized_content"], "<p>1</p>");
    }

    #[tokio::test]
    async fn every_redirect_is_checked() {
        let way = vec![
            answer(302, &[("location", "http://10.0.0.1/")], ""),
            Err(Error::new(ErrorKind::Denied, "private")),
        ];
        let (sent, result) = got(json!({"proxy": "http://proxy.example:8080"}), way).await;
        assert_eq!((sent.len(), result.unwrap_err().kind), (2, ErrorKind::Denied));
        assert!(sent.iter().all(|request| request.proxy.as_deref() == Some("http://proxy.example:8080")));
        for (query, answers, kind) in [
            ("file:///etc/passwd", Vec::new(), ErrorKind::Invalid),
            ("x.example", vec![answer(404, &[], "")], ErrorKind::NotFound),
            ("x.example", vec![answer(200, &[("content-type", "image/png")], "")], ErrorKind::Invalid),
        ] {
            let (_, result) = got(json!({"query": query}), answers).await;
            assert_eq!(result.unwrap_err().kind, kind, "{query}");
        }
        assert_eq!(Node::new("Crawler", json!({"extract_type": "pdf"})).problems(), ["/extract_type"]);
    }

    /// Pages designed to slow a reader down.
    #[tokio::test]
    async fn pages_made_to_slow_a_parser_end_quickly() {
        for body in [
            "<div>".repeat(200_000),
            "<b>".repeat(200_000),
            "<table><tr><td>".repeat(100_000),
            "<a href='".repeat(100_000),
        ] {
            let (_, result) =
                got(json!({}), vec![answer(200, &[("content-type", "text/html")], &body)]).await;
            assert!(result.is_ok());
        }
    }
}
