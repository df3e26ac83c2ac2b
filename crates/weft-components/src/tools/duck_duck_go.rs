//! The DuckDuckGo component: searches the web or the news with DuckDuckGo, using its pages for simple browsers.

use serde_json::json;
use url::Url;
use weft_core::seam::http::HttpResponse;
use weft_core::{ComponentSpec, Error, ErrorKind, Json, Result, Role, ToolSpec};

use super::search::answer::{self, rows, text};
use super::search::request::BROWSER;
use super::search::{Ask, BASE_URL, FOUND, Facts, Hit, QUERY, Request, Service, Step, TOP_N, component};
use crate::params::{Field, FieldGroup, Kind, Params, choice, fields};
use crate::web::elements::{self, with_class};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES};

/// Host of the page search.
const PAGES: &str = "https://html.duckduckgo.com";
/// Host of the news search.
const NEWS: &str = "https://duckduckgo.com";
/// Maximum number of characters in the token that a news search requires.
// It goes into the next address: a page must not make that arbitrarily long.
const TOKEN_MAX: usize = 200;
/// The region code for everywhere.
const REGION: &str = "wt-wt";

static CHANNEL: Field<&str> = Field::choice(
    "channel",
    "text",
    &[choice("text", "any page"), choice("general", "same as `text`"), choice("news", "recent news")],
    "the kind of pages to search",
)
.by_model_if_wanted("`news` for what happened lately, else `general`")
.as_model_kind(Kind::Choice(&[choice("general", "any page"), choice("news", "what was published lately")]));

static FACTS: Facts = Facts::free("DuckDuckGo");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "DuckDuckGo",
    role: Role::Step,
    summary: "Searches the web or the news with DuckDuckGo, without a key, and returns the results as citable sources.",
    fields: &[
        fields(&[&QUERY, &CHANNEL, &TOP_N]),
        FieldGroup { title: "Service", fields: &[&BASE_URL, &MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &FOUND,
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "duckduckgo_search", idempotent: true, sources: true }),
    build: |source| component(source, DuckDuckGo::of),
};

/// A search with DuckDuckGo.
pub(super) struct DuckDuckGo {
    news: bool,
}

impl DuckDuckGo {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        Self { news: params.take(&CHANNEL) == "news" }
    }
}

impl Service for DuckDuckGo {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn step(&self, ask: &Ask<'_>, answers: &[HttpResponse]) -> Result<Step> {
        let get = |url: Url| Ok(Step::Ask(Request::get(url).header("User-Agent", BROWSER)));
        match (self.news, answers) {
            (false, []) => get(ask.url(PAGES, "/html/", &[("q", ask.query), ("kl", REGION)])?),
            (false, [page, ..]) => {
                refuse_riddle(page)?;
                let hits = pages(&page.body);
                if hits.is_empty() && !has_frame(&page.body) {
                    return Err(answer::garbled("the page is not a page of results"));
                }
                Ok(Step::Hits(hits))
            }
            (true, []) => get(ask.url(NEWS, "/", &[("q", ask.query), ("iar", "news")])?),
            // News require a token that a previous visit to the page provides.
            (true, [page]) => {
                refuse_riddle(page)?;
                let token = token(&page.body)
                    .ok_or_else(|| answer::garbled("the page contains no token for news"))?;
                let query = [
                    ("l", REGION),
                    ("o", "json"),
                    ("noamp", "1"),
                    ("q", ask.query),
                    ("vqd", token),
                    ("p", "-1"),
                ];
                get(ask.url(NEWS, "/news.js", &query)?)
            }
            (true, [_, answer, ..]) => {
                let rows = rows(&answer::json(answer)?, "/results")?;
                Ok(Step::Hits(rows.into_iter().map(news).collect()))
            }
        }
    }
}

/// Refuses a page with a captcha, which frequent requests get instead of hits.
fn refuse_riddle(page: &HttpResponse) -> Result<()> {
    if page.status != 202 && !page.body.contains("anomaly-modal") {
        return Ok(());
    }
    Err(Error::new(ErrorKind::RateLimited, "it suspects that the queries are automated")
        .help("try later and less often, or use a search engine with a key"))
}

/// Whether a page has the element that contains hits, or says that there are none. Any other page is not a result.
fn has_frame(page: &str) -> bool {
    ["results", "no-results"].into_iter().any(|class| !with_class(page, class).is_empty())
}

/// Returns the hits of a page: titles that are links, each with the text that follows it.
fn pages(page: &str) -> Vec<Hit> {
    let blocks = with_class(page, "result__body").into_iter().filter_map(|block| {
        let link = with_class(block.inner(), "result__a").into_iter().next()?;
        let content = with_class(block.inner(), "result__snippet");
        let url = target(&link.attribute("href")?)?;
        let (title, content) =
            (link.text(), content.first().map(elements::PagePart::text).unwrap_or_default());
        let row = json!({"title": title, "href": url, "body": content});
        Some(Hit { url, title, content, score: None, row })
    });
    blocks.collect()
}

/// Returns the target of a link: links lead through a counter that has the address in its query. Advertisements have
/// none.
fn target(href: &str) -> Option<String> {
    let url = Url::parse(NEWS).ok()?.join(href).ok()?;
    // Advertisements lead through this path.
    if url.path() == "/y.js" {
        return None;
    }
    let behind = url.query_pairs().find(|(name, _)| name == "uddg").map(|(_, address)| address.into_owned());
    behind.or_else(|| (url.host_str() != Some("duckduckgo.com")).then(|| url.to_string()))
}

/// Returns the token that a page contains as `vqd="…"`, with either kind of quotes or none.
fn token(page: &str) -> Option<&str> {
    let of_a_token = |c: char| c.is_ascii_digit() || c == '-';
    page.match_indices("vqd=").find_map(|(at, found)| {
        let rest = page[at + found.len()..].trim_start_matches(['"', '\'']);
        let token = &rest[..rest.find(|c| !of_a_token(c)).unwrap_or(rest.len())];
        (!token.is_empty() && token.len() <= TOKEN_MAX).then_some(token)
    })
}

fn news(row: Json) -> Hit {
    let content = elements::text(&text(&row, "/excerpt"));
    Hit { url: text(&row, "/url"), title: elements::text(&text(&row, "/title")), content, score: None, row }
}

#[cfg(test)]
mod tests {
    use crate::tools::search::testing::{Sample, answered, asked, good};
    use serde_json::json;
    use weft_core::ErrorKind;

    const PAGE: &str = r#"<html><body><div id="links" class="results">
        <div class="result results_links result--ad"><div class="links_main links_deep result__body">
          <h2 class="result__title"><a class="result__a" href="https://duckduckgo.com/y.js?ad_domain=x.example">Ad</a></h2></div></div>
        <div class="result results_links web-result"><div class="links_main links_deep result__body">
          <h2 class="result__title"><a rel="nofollow" class="result__a"
            href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2Fx%3Fy%3D1&amp;rut=0f">A &amp; more</a></h2>
          <a class="result__snippet" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example">All about <b>a</b>&#x27;s</a></div></div>
        <div class="result web-result"><div class="result__body"><a class="result__a" href="https://b.example/">B</a></div></div>
        </div></body></html>"#;

    #[tokio::test]
    async fn it_fulfils_the_search_tool_contract() {
        let sample = Sample {
            kind: "DuckDuckGo",
            params: json!({}),
            key: None,
            answers: &[good(PAGE)],
            nothing: &[good("<html><div class='no-results'>No results.</div></html>")],
        };
        sample.holds().await;
    }

    #[tokio::test]
    async fn redirect_links_are_resolved_to_their_target() {
        let (sent, result) =
            asked("DuckDuckGo", json!({"channel": "text", "top_n": 10}), &[good(PAGE)]).await;
        assert_eq!(sent[0].url, "https://html.duckduckgo.com/html/?q=Q+%26+A&kl=wt-wt");
        let rows = json!([{"title": "A & more", "href": "https://a.example/x?y=1", "body": "All about a's"},
            {"title": "B", "href": "https://b.example/", "body": ""}]);
        assert_eq!(result.unwrap()["json"], rows);
    }

    #[tokio::test]
    async fn news_are_fetched_with_the_page_token() {
        let page = "<script>vqd=\"4-123-456\";</script>";
        let news = json!({"results": [{"date": 1_714_521_600, "title": "N", "excerpt": "what <b>happened</b>",
            "url": "https://n.example/", "source": "The N"}]});
        let answers = [good(page), good(news)];
        let sample = Sample {
            kind: "DuckDuckGo",
            params: json!({"channel": "news"}),
            key: None,
            answers: &answers,
            nothing: &[good(page), good(json!({"results": []}))],
        };
        sample.holds().await;
        let (sent, result) = asked("DuckDuckGo", json!({"channel": "news"}), &answers).await;
        assert_eq!(sent[0].url, "https://duckduckgo.com/?q=Q+%26+A&iar=news");
        assert_eq!(
            sent[1].url,
            "https://duckduckgo.com/news.js?l=wt-wt&o=json&noamp=1&q=Q+%26+A&vqd=4-123-456&p=-1"
        );
        assert_eq!(result.unwrap()["chunks"][0]["content"], "what happened");
        let error = asked("DuckDuckGo", json!({"channel": "news"}), &[good("<p>")]).await.1.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Garbled);
    }

    #[tokio::test]
    async fn an_unexpected_page_is_not_reported_as_no_hits() {
        for page in ["", "<html><body><p>Welcome</p></body></html>", "{\"results\": []}"] {
            let error = asked("DuckDuckGo", json!({}), &[good(page)]).await.1.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Garbled, "{page}");
        }
        let empty = "<div id=\"links\" class=\"results\"></div>";
        assert_eq!(asked("DuckDuckGo", json!({}), &[good(empty)]).await.1.unwrap()["json"], json!([]));
        let news = [good("vqd='4-1'"), good("{\"error\": \"x\"}")];
        let error = asked("DuckDuckGo", json!({"channel": "news"}), &news).await.1.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
    }

    #[tokio::test]
    async fn a_captcha_is_not_reported_as_no_hits() {
        for page in [answered(202, ""), good("<div class=\"anomaly-modal__title\">")] {
            let error = asked("DuckDuckGo", json!({}), &[page]).await.1.unwrap_err();
            assert_eq!(error.kind, ErrorKind::RateLimited);
        }
    }
}
