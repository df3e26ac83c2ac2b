//! The HttpGet component: fetches a web page and returns its text.

use std::time::Duration;

use weft_core::{
    Component, ComponentSpec, Finished, Json, NodeContext, Outputs, ParamProblem, Reads, Result, Role, Shape,
    Template, ToolSpec, Value, async_trait,
};

use crate::params::{self, Field, Params, fields};
use crate::web::fetch::{ContentKind, How, content, fetch};
use crate::web::{self, HEADERS, headers, page_text};

/// Default number of seconds for all requests together.
const SECONDS: usize = 30;
/// Maximum number of seconds for all requests together.
const SECONDS_MAX: usize = 600;

static URL: Field<Template> =
    Field::template("url", "an http or https address; `https://` is added when no scheme is given")
        .by_model("the whole address, such as https://example.org/page");
static TIMEOUT: Field<usize> = Field::count(
    "timeout",
    SECONDS,
    &(1..=SECONDS_MAX),
    "the time limit for the response, including all redirects",
)
.unit("seconds");
static CLEAN_HTML: Field<bool> =
    Field::flag("clean_html", "whether to return a web page without its markup").on_by_default();

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "HttpGet",
    role: Role::Step,
    summary: "Fetches a web page by its address and returns its text without the markup.",
    fields: &[fields(&[&URL, &HEADERS, &TIMEOUT, &CLEAN_HTML])],
    outputs: &[
        weft_core::OutputSpec::new("result", "string", "the text of the page"),
        weft_core::OutputSpec::new("status", "integer", "the HTTP status"),
        weft_core::OutputSpec::new("url", "string", "its address after redirects"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "http_get", idempotent: true, sources: false }),
    build: |source| {
        let mut params = Params::of(source);
        let get = HttpGet {
            url: params.take(&URL),
            headers: headers(&mut params),
            time_limit: Duration::from_secs(u64::try_from(params.take(&TIMEOUT)).unwrap_or(30)),
            clean_html: params.take(&CLEAN_HTML),
            warnings: params.warnings(),
        };
        params.finish(get)
    },
};

struct HttpGet {
    url: Template,
    headers: Vec<(String, Template)>,
    time_limit: Duration,
    clean_html: bool,
    warnings: Vec<ParamProblem>,
}

#[async_trait]
impl Component for HttpGet {
    fn shape(&self) -> Shape {
        let headers = self.headers.iter().flat_map(|(_, value)| value.references());
        let reads = Reads::always(self.url.references().chain(headers).cloned());
        let wrong = web::address_problem(URL.name(), &self.url);
        let warnings = self.warnings.iter().cloned().chain(wrong).collect();
        let secrets = web::secrets(&self.headers);
        let so = "there is nothing to fetch, and the node fails";
        let help = "write an address, such as `https://example.org/{env.page}`";
        let unfilled = params::unfilled(&URL, &self.url, so, help).into_iter().collect();
        Shape { reads, main_output: "result", warnings, secrets, unfilled, ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let first = web::address(&self.url, &ctx.inputs)?;
        let how = How { headers: &self.headers, time_limit: self.time_limit, proxy: None };
        let (url, answer) = fetch(ctx, &first, &how).await?;
        let status = answer.status;
        let text = match content(&answer)? {
            ContentKind::Page if self.clean_html => page_text(answer.body).await?,
            ContentKind::Page | ContentKind::Text => answer.body,
        };
        let mut outputs = Outputs::of("result", Value::text(text));
        outputs.set("status", Json::from(status));
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

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Result<HttpResponse> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Ok(HttpResponse { status, headers: headers.collect(), body: body.to_owned() })
    }

    fn redirect(to: &str) -> Result<HttpResponse> {
        answer(302, &[("location", to)], "")
    }

    async fn got(params: Json, answers: Vec<Result<HttpResponse>>) -> (Vec<HttpRequest>, Result<Json>) {
        let node = Node::new("HttpGet", params);
        let component = node.build();
        let stage =
            Stage::new(&node, &*component, Setting { query: "example.org/a#b", ..Setting::default() });
        *stage.outside.pages.lock().unwrap() = answers;
        let result = component.run(&stage.ctx).await.map(|finished| json!(finished.outputs));
        let sent = stage.outside.sent.lock().unwrap().clone();
        (sent, result)
    }

    #[tokio::test]
    async fn a_page_is_converted_to_text_and_text_is_unchanged() {
        let check = async |media: &str, body: &str, expected: &str| {
            let answers = vec![answer(200, &[("content-type", media)], body)];
            let (sent, result) = got(json!({"url": "{sys.query}"}), answers).await;
            assert_eq!(sent[0].url, "https://example.org/a");
            let result = result.unwrap();
            assert_eq!(result["result"].as_str().unwrap().trim(), expected);
            assert_eq!((&result["status"], &result["url"]), (&json!(200), &json!("https://example.org/a")));
        };
        check("text/html; charset=utf-8", "<script>x()</script><p>Hi <b>you</b></p>", "Hi **you**").await;
        check("application/ld+json", "<p>1</p>", "<p>1</p>").await;
        let page = vec![answer(200, &[("content-type", "text/html")], "<p>1</p>")];
        let (_, raw) = got(json!({"url": "x", "clean_html": false}), page).await;
        assert_eq!(raw.unwrap()["result"], "<p>1</p>");
    }

    #[tokio::test]
    async fn each_redirect_is_a_separate_request_without_the_first_servers_headers() {
        let answers = vec![
            redirect("/b"),
            redirect("//other.example/c"),
            redirect("https://example.org/d"),
            answer(200, &[], "end"),
        ];
        let (sent, result) =
            got(json!({"url": "https://example.org/a", "headers": {"X-Key": "k"}}), answers).await;
        let way: Vec<_> = sent.iter().map(|request| (request.url.as_str(), request.headers.len())).collect();
        let expected = [
            ("https://example.org/a", 1),
            ("https://example.org/b", 1),
            ("https://other.example/c", 0),
            ("https://example.org/d", 1),
        ];
        assert_eq!(way, expected);
        assert!(sent.iter().all(|request| request.body_max == 5 << 20 && request.proxy.is_none()));
        assert_eq!(result.unwrap()["url"], "https://example.org/d");
    }

    #[tokio::test]
    async fn redirects_are_limited() {
        let (sent, result) = got(json!({"url": "x"}), (0..9).map(|_| redirect("/again")).collect()).await;
        assert_eq!((sent.len(), result.unwrap_err().kind), (6, ErrorKind::Invalid));
        for place in ["file:///etc/passwd", "http://"] {
            let (sent, result) = got(json!({"url": "x"}), vec![redirect(place)]).await;
            assert!(sent.len() == 1 && result.is_err(), "{place}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_limit_covers_all_redirects() {
        let (sent, _) =
            got(json!({"url": "x", "timeout": 7}), vec![redirect("/y"), answer(200, &[], "")]).await;
        assert!(sent.iter().all(|request| request.time_limit.as_secs() == 7));
    }

    #[tokio::test]
    async fn binary_content_is_refused() {
        let check = async |params: Json, answers: Vec<Result<HttpResponse>>, kind: ErrorKind| {
            assert_eq!(got(params.clone(), answers).await.1.unwrap_err().kind, kind, "{params}");
        };
        for url in [
            "",
            "ftp://example.org",
            "file:///etc/passwd",
            "http://a b",
            "http:\\\\example.org",
            "example.org\\a",
        ] {
            check(json!({"url": url}), Vec::new(), ErrorKind::Invalid).await;
        }
        let image = answer(200, &[("content-type", "image/png")], "");
        check(json!({"url": "x"}), vec![image], ErrorKind::Invalid).await;
        check(json!({"url": "x"}), vec![answer(404, &[], "no")], ErrorKind::NotFound).await;
        let denied = Err(Error::new(ErrorKind::Denied, "private"));
        check(json!({"url": "http://10.0.0.1"}), vec![denied], ErrorKind::Denied).await;
    }
}
